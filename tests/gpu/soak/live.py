"""The page of figures that a process under the library keeps open (capture/trace_format.h, docs/format.md)."""

import mmap
import os
import struct

LAYOUT = struct.Struct("=8sIIQQ17Q")
NAMES = ("ops", "replayed", "covered", "flushed", "eager", "dormant", "graph_launches", "node_updates", "mismatches",
         "sequences", "graphs_built", "build_ns", "memory", "memory_budget", "streams", "boundaries", "watchdog")


class LivePage:
    def __init__(self, pid):
        self.pid, self.page = pid, None

    def open(self):
        folder = f"/proc/{self.pid}/fd"
        try:
            for name in os.listdir(folder):
                path = f"{folder}/{name}"
                if os.readlink(path).startswith("/memfd:autograph-live "):
                    with open(path, "r+b") as file:
                        self.page = mmap.mmap(file.fileno(), 4096)
                    return
        except (OSError, ValueError):
            pass  # not there yet, or not of its size yet, or not any more

    def read(self):
        """The figures by name, as they were soon after the last call; {} where there is no page."""
        if self.page is None:
            self.open()
        if self.page is None:
            return {}
        for _ in range(100):
            before = self.page[12:16]
            magic, _, updates, _, _, *figures = LAYOUT.unpack_from(self.page)
            if not updates & 1 and before == self.page[12:16]:
                break
        self.page[8:12] = struct.pack("=I", 1)  # wanted
        return dict(zip(NAMES, figures)) if magic == b"AGLIVE1\n" else {}
