"""The live pages of the processes of one session, as `autograph top` reads them (capture/trace_format.h):
what was replayed between two moments, which the summary of a whole run does not tell."""

import ctypes
import mmap
import os
from pathlib import Path

MAGIC, NAME, SIZE = b"AGLIVE1\n", "/memfd:autograph-live ", 4096
WORDS = ("ops", "replayed", "covered", "flushed", "eager", "dormant", "graph_launches", "node_updates",
         "mismatches", "sequences", "graphs_built", "build_ns", "memory", "memory_budget", "streams",
         "boundaries", "watchdog")
COUNTED = WORDS[:10] + ("boundaries", "watchdog")   # those that only grow


class Page(ctypes.Structure):
    """struct ag_live_page"""
    _fields_ = [("magic", ctypes.c_char * 8), ("wanted", ctypes.c_uint32), ("updates", ctypes.c_uint32),
                ("start_ns", ctypes.c_uint64), ("now_ns", ctypes.c_uint64),
                *((word, ctypes.c_uint64) for word in WORDS),
                ("observe_only", ctypes.c_uint32), ("pid", ctypes.c_uint32), ("program", ctypes.c_char * 64)]


def session(leader):
    """The processes of a session, by number."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before the last parenthesis may hold anything.
            words = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == leader:
            found.append(int(path.parent.name))
    return sorted(found)


def open_page(pid):
    """The page, None where the process has none."""
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
    return {word: getattr(page, word) for word in COUNTED}


class Steady:
    """What all processes of a session did between two moments. Figures come at the first boundary
    behind each; a page stays readable when its process has gone."""

    def __init__(self, leader):
        self.pages = [page for page in map(open_page, session(leader)) if page]
        self.asked = self.ask()
        self.first = None

    def ask(self):
        """The number that `updates` has once the answer is there, by page."""
        asked = [page.updates + 2 & ~1 for page in self.pages]
        for page in self.pages:
            page.wanted = 1
        return asked

    def answers(self, asked):
        return [figures(page) if page.updates >= goal else None for page, goal in zip(self.pages, asked)]

    def end(self):
        """The second moment."""
        self.first = self.answers(self.asked)
        self.asked = self.ask()

    def difference(self):
        """Sums of all processes; empty where nothing could be had."""
        total = {}
        if self.first is None:
            return total
        for first, last in zip(self.first, self.answers(self.asked)):
            if first and last:
                for word in COUNTED:
                    total[word] = total.get(word, 0) + last[word] - first[word]
        return total
