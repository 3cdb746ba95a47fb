#!/usr/bin/env python3
"""Tests of --profile and of the matrix's bound, without a GPU.

    python3 tests/gpu/profile/test_profile.py
"""

import argparse
import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "matrix")]

import bound
import matrix
import profile_table
import spans
import steps
import traced
from rows import Row

PROGRAM = """
import os, sys
free = "AG_FREE_FILE" in os.environ
if "--gated" in sys.argv:
    print("LOADED", flush=True); sys.stdin.readline()
for i in range(3):
    print("READY", flush=True); sys.stdin.readline()
    if free:
        {free}
    time = 1.0 if free else 4.0 if os.environ.get("LD_PRELOAD") is None else 2.0
    print("TIME", time, "HOST", time / 2, flush=True)
print("RESULT name=x per_step=10 checksum=1")
sys.exit(1 if free else 0)
"""
WINDOW = [(1_000_000, 2_000_000)]


def chunk(kind, payload):
    return struct.pack("<4s4sII", b"AGck", kind, len(payload), 0) + payload + bytes(-len(payload) % 8)


def dump(*threads, shift=500):
    """A dump of threads of (time, kind, b, value), its clock `shift` behind the wall clock."""
    data = struct.pack("<8sIIQQI12x", b"\x89AGDUMP\n", 1, 48, 10_000 + shift, 10_000, 1)
    for number, events in enumerate(threads):
        packed = b"".join(struct.pack("<QBBHIIIQ", time - shift, kind, 0, 0, 1, 0, b, value)
                          for time, kind, b, value in events)
        data += chunk(b"EVTS", struct.pack("<II", number, len(events)) + packed)
    return data + chunk(b"END ", b"exit")


class Traced(unittest.TestCase):
    def test_only_the_windows_count(self):
        found = traced.read(dump([(999_000, traced.OP, 0, 0), (1_500_000, traced.OP, 0, 0),
                                  (1_500_900, traced.CALL, 900, 0), (2_500_000, traced.OP, 0, 0)]), WINDOW)
        self.assertEqual((found.ops, found.calls.count, found.calls.us), (1, 1, 0.9))

    def test_updates_are_told_from_the_launch(self):
        found = traced.read(dump([(1_500_000, traced.OP, 0, 0), (1_500_400, traced.UPDATE, 0, 0),
                                  (1_500_800, traced.UPDATE, 0, 0), (1_502_000, traced.GRAPH, 2_000, 2)]), WINDOW)
        self.assertEqual((found.updates.count, found.updates.us), (2, 0.8))
        self.assertEqual((found.graphs.count, found.graphs.us), (1, 1.2))

    def test_a_flush_without_its_graphs(self):
        found = traced.read(dump([(1_500_000, traced.OP, 0, 0), (1_501_000, traced.GRAPH, 1_000, 0),
                                  (1_504_000, traced.FLUSH, 5, 4 | 4_000 << 32)]), WINDOW)
        self.assertEqual((found.graphs.us, found.flushes.us, found.flushes.count), (1.0, 3.0, 1))

    def test_building_by_whom(self):
        found = traced.read(dump([(1_500_000, traced.OP, 0, 0), (1_600_000, traced.BUILD, 3, 7_000)],
                                 [(1_700_000, traced.BUILD, 3, 9_000), (1_700_000, traced.LOST, 0, 3)]), WINDOW)
        self.assertEqual((found.building.us, found.built_beside.us, found.lost), (7.0, 9.0, 3))

    def test_other_files(self):
        for data in (b"", b"x" * 100, dump()[:8] + b"\x02" + dump()[9:], dump([])[:48] + b"x" * 16):
            with self.assertRaises(traced.Unreadable):
                traced.read(data, WINDOW)


class Spans(unittest.TestCase):
    def read(self, *found, shift=500):
        data = struct.pack("<8sQQQ", b"AGSPANS", 10_000, 10_000 + shift, 2)
        return spans.read(data + b"".join(struct.pack("<QQII", start - shift, stop - shift, kind, graphed)
                                          for start, stop, kind, graphed in found), WINDOW)

    def test_what_overlaps_is_busy_once(self):
        busy = self.read((1_500_000, 1_504_000, 0, 0), (1_502_000, 1_506_000, 0, 1), (1_503_000, 1_503_500, 0, 1),
                         (1_507_000, 1_508_000, 1, 0), (2_100_000, 2_200_000, 0, 0))
        self.assertEqual((busy.kernels, busy.graphed, busy.others), (3, 2, 1))
        self.assertEqual((busy.own_us, busy.busy_us, busy.idle_us, busy.dropped), (9.5, 7.0, 1.0, 2))

    def test_other_files(self):
        self.assertIsNone(spans.read(b"x" * 64, WINDOW))


class Steps(unittest.TestCase):
    def entry(self, free="pass", python=False):
        with tempfile.TemporaryDirectory() as folder:
            args = argparse.Namespace(build=Path(folder), library="none", simulated=True, env=[], reps=3, rounds=2,
                                      budget=60.0)
            row = Row("r", [sys.executable, "-c", PROGRAM.format(free=free)], timeout=20.0,
                      needs=["json"] if python else [])
            entry, = steps.Profile(args).profile([(row, 100)])
            return entry

    def test_a_program_whose_free_variant_ends_with_an_error(self):
        for python in (False, True):
            entry = self.entry(python=python)
            self.assertEqual([entry[name]["wall_us"] for name in steps.TIMED], [40.0, 20.0, 10.0])
            self.assertEqual(entry["autograph"]["host_us"], 10.0)
            self.assertAlmostEqual(entry["bound"], 4.0)
            self.assertAlmostEqual(entry["reached"], 20.0 / 30.0)
            self.assertIsNone(entry["trace"])

    def test_a_free_variant_that_crashes_or_hangs(self):
        entry = self.entry(free="os.abort()")
        self.assertIn("SIGABRT", entry["why_no_bound"])
        self.assertNotIn("bound", entry)
        steps.FREE_TIMEOUT = 1.0
        self.assertIn("hang", self.entry(free="__import__('time').sleep(60)")["why_no_bound"])

    def test_the_rest_of_the_hosts_time(self):
        part = {"us": 2.0, "count": 1}
        entry = {"autograph": {"host_us": 20.0}, "free": {"host_us": 6.0},
                 "trace": dict.fromkeys(("graphs", "updates", "calls", "flushes", "building"), part)}
        self.assertEqual(steps.host_parts(entry)["rest"], 4.0)
        entry["free"] = None
        self.assertIsNone(steps.host_parts(entry))

    def test_steps_of_the_windows(self):
        measured = steps.Measured(windows=[(0, 9_000), (10_000, 20_000), (20_000, 40_000)],
                                  last_times=[1.0, 0.5, 1.0])
        windows, count = measured.steady(2)
        self.assertEqual((windows, count), ([(10_000, 20_000), (20_000, 40_000)], 20.0))
        measured.result = {"iters": 60}
        self.assertEqual(measured.steady(1)[1], 120)

    def test_the_switch(self):
        with tempfile.TemporaryDirectory() as folder:
            for ops, before, after in ((None, steps.MANY, 0), (100, 100, 100)):
                switch = steps.Switch(Path(folder) / "s", ops)
                self.assertEqual(int.from_bytes(switch.path.read_bytes(), "little"), before)
                switch.warmed_up()
                self.assertEqual(int.from_bytes(switch.path.read_bytes(), "little"), after)

    def test_every_profiled_row_is_known(self):
        chosen = [[row.name for row, _ in steps.select(argparse.Namespace(only="", simulated=simulated, part=part))]
                  for simulated, part in ((True, (1, 1)), (False, (1, 2)), (False, (2, 2)))]
        self.assertEqual({name for names in chosen for name in names}, {name for name, _ in steps.PROFILED})
        self.assertFalse(set(chosen[1]) & set(chosen[2]))

    def test_parts_add_up(self):
        first, second = (name for name, _ in steps.PROFILED[:2])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "profile.json"
            path.write_text(steps.json.dumps([{"row": second, "eager": 1, "commit": "c"},
                                              {"row": first, "eager": 1, "commit": "d"}]))
            old = steps.earlier(Path(folder), "c")
        found = steps.merged(old, [{"row": first, "eager": 2}, {"row": second, "why": "skipped"}])
        self.assertEqual([(entry["row"], entry["eager"]) for entry in found], [(first, 2), (second, 1)])

    def test_status(self):
        good = {"row": "a", "eager": 1, "bound": 2.0, "trace": {"ops": 1}, "host_parts": {"rest": 1}}
        skipped, failed = ({"row": "b", "why": why} for why in ("skipped: x", "eager: hang"))
        self.assertEqual([steps.status(entries, False) for entries in
                          ([good], [good, skipped], [skipped], [good, failed], [{**good, "trace": None}])],
                         [0, 0, 1, 1, 0])
        self.assertEqual(steps.status([{**good, "trace": None}], True), 1)

    def test_table(self):
        entry = {**self.entry(), "gpu": {"eager": {"busy_us": 30.0}, "autograph": {"busy_us": 12.0}}}
        head, _, line, *said = profile_table.lines_of([entry, {"row": "s", "why": "skipped: no such"}])
        found = dict(zip([word.strip() for word in head.split("|")], [word.strip() for word in line.split("|")]))
        self.assertEqual([found[name] for name in ("gain", "bound", "reached", "waits", "GPU idle eager", "GPU idle")],
                         ["2.00x", "4.00x", "67%", "10.0", "10.0", "8.0"])
        self.assertEqual(said, ["", "s: skipped: no such"])


class Bound(unittest.TestCase):
    FREE = {(3, 5, 0): 3.0, (3, 5, 1): 3.2}

    def test_without_sync_the_longer_of_both(self):
        self.assertEqual(bound.floor_us((10, 3, 5, 0), self.FREE, 1.0, 6.0), 10)
        self.assertEqual(bound.floor_us((2, 3, 5, 0), self.FREE, 1.0, 6.0), 3.0)

    def test_with_sync_the_last_kernel_and_the_answer(self):
        self.assertEqual(bound.floor_us((2, 3, 5, 1), self.FREE, 1.0, 6.0), (4 * 3.0 + 2 + 6.0) / 5)
        self.assertEqual(bound.floor_us((10, 3, 5, 1), self.FREE, 1.0, 6.0), (5 * 10 + 6.0) / 5)
        self.assertEqual(bound.floor_us((1, 3, 5, 1), self.FREE, 1.0, 0.0), 3.2)

    def test_shares(self):
        self.assertEqual(bound.reached((10.0, 6.0), 2.0), 0.5)
        self.assertIsNone(bound.reached((2.0, 2.0), 2.0))
        self.assertEqual(bound.answer_us(3.0, 10.0, 1.0), 6.0)
        results = {(2, 0, 20, 1): (4.0, 2.0), (50, 0, 20, 1): (50.0, 50.0)}
        text = "\n".join(matrix.summary(results, {(2, 0, 20, 1): 1.0, (50, 0, 20, 1): 50.0})[0])
        self.assertIn("median 4.00; reached of that: 50% of the ratio, 67%", text)
        self.assertIn("2.00 /  4.00", "\n".join(matrix.ratio_table(results, {(2, 0, 20, 1): 1.0})))


class Parts(unittest.TestCase):
    def test_every_cell_is_in_one_part(self):
        cells = matrix.cells_of(matrix.FULL)
        parts = [matrix.part_of_cells(cells, number, 2) for number in (1, 2)]
        self.assertEqual(sorted(parts[0] + parts[1]), sorted(cells))
        self.assertEqual(*[len(part) for part in parts])

    def test_parts_add_up(self):
        cell = (2, 0, 20, 1)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            first = matrix.Found()
            first.results, first.floors, first.cuts = {cell: (4.0, 2.0)}, {cell: 1.0}, {cell: {0: 2.0, 4: 1.0}}
            first.latency, first.made = {"eager": [], "autograph": []}, ["made"]
            first.save(folder, "c")
            again, other = matrix.Found(), matrix.Found()
            again.load(folder, "c")
            other.load(folder, "d")
        self.assertEqual(vars(again), vars(first))
        self.assertEqual(other.results, {})


if __name__ == "__main__":
    unittest.main()
