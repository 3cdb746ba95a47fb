"""What a dump (docs/format.md) says about the host's time in given windows of it: how often the library
went to the driver, and for how long."""

import struct
from dataclasses import dataclass, field

HEADER = struct.Struct("<8sIIQQI12x")
CHUNK = struct.Struct("<4s4sII")
EVENTS = struct.Struct("<II")
EVENT = struct.Struct("<QBBHIIIQ")
OP, CALL, GRAPH, UPDATE, BUILD, FLUSH, LOST = 1, 2, 3, 4, 5, 6, 9


class Unreadable(Exception):
    """Not a dump, or one of a later version."""


@dataclass
class Counted:
    """How often, and for how many microseconds in all."""
    count: float = 0
    us: float = 0.0

    def add(self, ns, count=1):
        self.count += count
        self.us += ns / 1e3


@dataclass
class Traced:
    ops: int = 0
    graphs: Counted = field(default_factory=Counted)    # launched, without the updates before
    updates: Counted = field(default_factory=Counted)   # nodes given other arguments
    calls: Counted = field(default_factory=Counted)     # ops that went to the driver as they came
    flushes: Counted = field(default_factory=Counted)   # ops held back that went one by one
    building: Counted = field(default_factory=Counted)  # of graphs, by threads of the program
    built_beside: Counted = field(default_factory=Counted)  # by the library's own thread
    lost: int = 0           # events that the dump has not


def chunks(dump):
    if len(dump) < HEADER.size or dump[:8] != b"\x89AGDUMP\n":
        raise Unreadable("no dump")
    _, version, at, wall_ns, clock_ns, _ = HEADER.unpack_from(dump)
    if version != 1:
        raise Unreadable(f"a dump of version {version}")
    found = []
    while at + CHUNK.size <= len(dump):
        mark, kind, length, _ = CHUNK.unpack_from(dump, at)
        if mark != b"AGck":
            raise Unreadable(f"no chunk at byte {at}")
        found.append((kind, dump[at + CHUNK.size:at + CHUNK.size + length]))
        at += CHUNK.size + length + -length % 8
    return wall_ns - clock_ns, found


def by_thread(dump):
    """The events of each thread in order, their times those of the wall clock."""
    shift, found = chunks(dump)
    threads = {}
    for kind, payload in found:
        if kind != b"EVTS" or len(payload) < EVENTS.size:
            continue
        thread, count = EVENTS.unpack_from(payload)
        whole = EVENT.size * min(count, (len(payload) - EVENTS.size) // EVENT.size)
        threads.setdefault(thread, []).extend(
            (time + shift, kind, stream, b, value)
            for time, kind, _, _, stream, _, b, value in
            EVENT.iter_unpack(payload[EVENTS.size:EVENTS.size + whole]))
    return threads


def add_graph(found, began, ended, count, last_update):
    """The updates come first in what a graph launch takes."""
    updated = max(0, (last_update or began) - began) if count else 0
    if count:
        found.updates.add(min(updated, ended - began), count)
    found.graphs.add(ended - began - min(updated, ended - began))


def read(dump, windows):
    """`windows`: (begin, end) in ns of the wall clock; only what happened in them counts."""
    found = Traced()
    for events in by_thread(dump).values():
        works = any(kind == OP for _, kind, *_ in events)   # a thread of the program
        last_update, graphs = {}, []
        for time, kind, stream, b, value in events:
            if not any(begin <= time <= end for begin, end in windows):
                continue
            if kind == OP:
                found.ops += 1
            elif kind == CALL:
                found.calls.add(b)
            elif kind == UPDATE:
                last_update[stream] = time
            elif kind == GRAPH:
                began, count = time - b, value & 0xffffffff
                update = last_update.pop(stream, None)
                add_graph(found, began, time, count, update if update and update >= began else None)
                graphs.append((stream, time, b))
            elif kind == FLUSH:
                ns, covered = value >> 32, value & 0xffffffff
                # Shorter graphs that took a part of it have events of their own.
                while graphs and graphs[-1][1] >= time - (value >> 32) and graphs[-1][0] == stream:
                    ns -= graphs.pop()[2]
                found.flushes.add(max(0, ns), b - covered)
            elif kind == BUILD:
                (found.building if works else found.built_beside).add(value)
            elif kind == LOST:
                found.lost += value
    return found
