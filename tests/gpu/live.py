"""The page of figures that a process under the library keeps open (capture/trace/trace_format.h, docs/format.md)."""

import ctypes
import mmap
import os

MAGIC, NAME, SIZE = b"AGLIVE1\n", "/memfd:autograph-live ", 4096
NAMES = ("ops", "replayed", "covered", "flushed", "eager", "dormant", "graph_launches", "node_updates", "mismatches",
         "sequences", "graphs_built", "build_ns", "memory", "memory_budget", "streams", "sync_points", "watchdog")


class Page(ctypes.Structure):
    """struct ag_live_page"""
    _fields_ = [("magic", ctypes.c_char * 8), ("wanted", ctypes.c_uint32), ("updates", ctypes.c_uint32),
                ("start_ns", ctypes.c_uint64), ("now_ns", ctypes.c_uint64),
                *((name, ctypes.c_uint64) for name in NAMES),
                ("observe_only", ctypes.c_uint32), ("pid", ctypes.c_uint32), ("program", ctypes.c_char * 64),
                ("why", ctypes.c_char * 512), ("dump", ctypes.c_char * 512), ("ended", ctypes.c_uint32),
                ("rank", ctypes.c_char * 12), ("handed", ctypes.c_uint64), ("handed_ops", ctypes.c_uint64),
                ("submit_ns", ctypes.c_uint64), ("handed_singly", ctypes.c_uint64), ("waits", ctypes.c_uint64 * 171)]


def open_page(pid):
    """The page, None where the process has none, not yet, or not any more."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as places:
            path = next((place.path for place in places if os.readlink(place.path).startswith(NAME)), None)
        if not path:
            return None
        with open(path, "r+b", buffering=0) as file:
            page = Page.from_buffer(mmap.mmap(file.fileno(), SIZE))
        # A child of a fork has its parent's open.
        return page if page.magic == MAGIC and page.pid == pid else None
    except (OSError, ValueError):
        return None


def figures(page):
    """All of one moment, by name."""
    for _ in range(100):
        before = page.updates
        found = {name: getattr(page, name) for name in NAMES}
        if not before & 1 and before == page.updates:
            break
    return found


class LivePage:
    """The page of a process that may not have one yet."""

    def __init__(self, pid):
        self.pid, self.page = pid, None

    def read(self):
        """The figures as they were soon after the last call; {} where there is no page."""
        self.page = self.page or open_page(self.pid)
        if not self.page:
            return {}
        found = figures(self.page)
        self.page.wanted = 1
        return found
