"""The processors that programs are measured on.

Those of a virtual machine do not all go at one speed: on H200 machines a fixed loop of Python took 320 us
on one and 500 to 620 on the next, other ones a second later (docs/gpu-results.md). What depends on the
host follows, with the library or without.
"""

import contextlib
import os
import statistics
import time
from pathlib import Path

LOOPS = 6000    # of the loop that is timed, 0.16 ms
TIMES = 3
FULL = 1.15     # times what the fastest took: still full speed
FEW = 3         # are looked at where none of all was fast: beside other programs that may last


def seconds_of_loop():
    begun, total = time.perf_counter(), 0
    for i in range(LOOPS):
        total += i
    return time.perf_counter() - begun


class Processors:
    """Finds one that goes at full speed, among `allowed`. One thread may ask at a time."""

    def __init__(self, allowed):
        self.allowed = sorted(allowed)
        self.turn, self.looks = 0, len(self.allowed)
        with self.wandering():
            self.best = min(map(self.seconds, self.allowed))

    @contextlib.contextmanager
    def wandering(self):
        try:
            yield
        finally:
            os.sched_setaffinity(0, self.allowed)

    def seconds(self, processor):
        """What the loop takes there."""
        os.sched_setaffinity(0, {processor})
        return statistics.median(seconds_of_loop() for _ in range(TIMES))

    def pick(self):
        """The first that is fast, beginning with the last one picked, or the fastest of those looked at."""
        found = {}
        with self.wandering():
            for _ in range(self.looks):
                processor = self.allowed[self.turn]
                found[processor] = self.seconds(processor)
                self.best = min(self.best, found[processor])
                if found[processor] <= FULL * self.best:
                    self.looks = len(self.allowed)
                    return processor
                self.turn = (self.turn + 1) % len(self.allowed)
        self.looks = min(FEW, self.looks)
        return min(found, key=found.get)

    @contextlib.contextmanager
    def lend(self, pid):
        """The main thread of this process on one of them; threads that it starts meanwhile stay there."""
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, {self.pick()})
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(pid, self.allowed)


def lent(processors, pid):
    """As Processors.lend, or nothing at all."""
    return processors.lend(pid) if processors else contextlib.nullcontext()


def numbers(text):
    """The numbers of a list as the kernel writes it: 0-3,8."""
    found = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def without_lowest(allowed, least=4):
    """In order, without the two lowest, which serve the rest of the machine, where `least` are left."""
    return sorted(allowed)[2 if len(allowed) >= least + 2 else 0:]


def pin_to_one_node():
    """Keeps this process and all that it starts on one fixed set of CPUs: those of one NUMA node
    where there are several, without the two lowest, which serve the rest of the machine. Returns the
    set, or None where nothing is changed."""
    try:
        allowed = os.sched_getaffinity(0)
        nodes = [numbers(path.read_text()) & allowed
                 for path in sorted(Path("/sys/devices/system/node").glob("node[0-9]*/cpulist"))]
        largest = max(nodes, key=len, default=set())
        chosen = without_lowest(largest if len(largest) >= 4 else allowed)
        if len(chosen) < 4:
            return None
        os.sched_setaffinity(0, chosen)
        return chosen
    except (OSError, ValueError):
        return None
