"""What libspans.so (spans.c) wrote down: how long the GPU was busy in given windows."""

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<8sQQQ")
SPAN = struct.Struct("<QQII")
KERNEL = 0


@dataclass
class Busy:
    kernels: int = 0
    graphed: int = 0        # of these, in graphs
    others: int = 0         # memsets and copies
    own_us: float = 0.0     # all of them together, each with its own time
    busy_us: float = 0.0    # in which at least one of them ran
    idle_us: float = 0.0    # between the first and the last of each window, none ran
    dropped: int = 0


def read(data, windows):
    """`windows`: (begin, end) in ns of the wall clock; what began in them counts. None where `data` is no
    file of spans."""
    if len(data) < HEADER.size or data[:7] != b"AGSPANS":
        return None
    _, gpu_ns, wall_ns, dropped = HEADER.unpack_from(data)
    shift = wall_ns - gpu_ns
    whole = (len(data) - HEADER.size) // SPAN.size * SPAN.size
    spans = sorted(SPAN.iter_unpack(data[HEADER.size:HEADER.size + whole]))
    found = Busy(dropped=dropped)
    for begin, end in windows:
        last = None
        for start, stop, kind, graphed in spans:
            if not begin <= start + shift <= end:
                continue
            if kind == KERNEL:
                found.kernels += 1
                found.graphed += graphed
            else:
                found.others += 1
            found.own_us += (stop - start) / 1e3
            if last is not None and start > last:
                found.idle_us += (start - last) / 1e3
            found.busy_us += max(0, stop - max(start, last or 0)) / 1e3
            last = max(stop, last or 0)
    return found
