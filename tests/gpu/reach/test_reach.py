#!/usr/bin/env python3
"""Tests of the survey itself, without a GPU: what hangs, fails, differs, or is missing must be told so, and no row
may stop the others.

    python3 tests/gpu/reach/test_reach.py
"""

import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import live
import reach
import reach_rows
import reach_table
import rounds

# A program under the library: it goes by the protocol, has a live page, and writes a summary. How many ops of each
# ten it replays in its steady state, and what it does wrong, is for its command line to say.
PROGRAM = r"""
import ctypes, mmap, os, sys
sys.path[:0] = [{live!r}, {programs!r}]
import live, pace
replayed, ratio, wrong, checksum = sys.argv[1].split(":")
sys.argv[1:2] = []
args = pace.arguments(50)
under = "LD_PRELOAD" in os.environ
page, ops, done = None, 0, 0
if under and wrong != "no-page":
    fd = os.memfd_create("autograph-live")
    os.ftruncate(fd, live.SIZE)
    page = live.Page.from_buffer(mmap.mmap(fd, live.SIZE))
    page.magic, page.pid = live.MAGIC, os.getpid()

def repetition(iterations):
    # Its first repetition replays nothing: that is not the steady state.
    global ops, done
    for _ in range(iterations):
        if page and page.wanted:
            page.updates += 1
            page.ops, page.replayed, page.covered, page.eager = ops, done, 0, ops - done
            page.wanted, page.updates = 0, page.updates + 1
        ops += 10
        done += int(replayed) if ops > iterations * 10 else 0
    if under and wrong == "crash":
        os.abort()
    if under and wrong == "hang":
        import time
        time.sleep(60)

class Digest:
    def hexdigest(self):
        more = {{"differs": str(under), "random": str(os.getpid()), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "")}}
        return checksum + more.get(wrong, "")

if wrong == "skip":
    print("SKIP: not here: No module named 'x'")
    sys.exit(0)
if wrong == "fails":
    raise SystemExit("it fails anyway")
pace.run("x", args, repetition, Digest())
if under:
    path = os.environ["AUTOGRAPH_LOG_FILE"].replace("%p", str(os.getpid()))
    with open(path, "w") as out:
        print("autograph: replayed 200 of 1000 ops (20.0%) in 3 graph launches, 0 node updates", file=out)
        print("autograph: it saved no time", file=out)
        print("autograph: why not more: mostly because of something (about 500 ops)", file=out)
        print("autograph:   eager 700, flushed 0, covered by shorter graphs 0, not looked at 100", file=out)
        print("autograph:   ops that cannot be recorded (parameters), submitted at once: 500", file=out)
        print("autograph:   sync point cuStreamSynchronize                  100", file=out)
        if wrong == "notice":
            print("autograph: start: nothing is replayed here", file=out)
        if "AUTOGRAPH_COMPARE_MS" in os.environ:
            print(f"autograph:   compared with eager: {{ratio}} times as fast (half of 20 pairs of spans between 0.9 "
                  "and 1.1)", file=out)
"""


def row(name, replayed=10, ratio="1.5", wrong="", checksum="a", **more):
    return reach_rows.Row(name, ["{python}", "{folder_of_test}/program.py", f"{replayed}:{ratio}:{wrong}:{checksum}"],
                          "--iters=50", **{"python": True, **more})


class Surveys(unittest.TestCase):
    """Whole surveys of programs that are made up."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = Path(cls.folder.name) / "program.py"
        cls.program.write_text(PROGRAM.format(live=str(HERE.parent), programs=str(HERE.parent / "programs")))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_rows(self, *rows, seconds=600.0, timeout=60.0, **more):
        for one in rows:
            one.command = [word.replace("{folder_of_test}", self.folder.name) for word in one.command]
        args = argparse.Namespace(build=Path("none"), library=Path("none"), env=[], simulated=False, alone=False,
                                  jobs=2, seconds=seconds, more=30.0, timeout=timeout, out=None, markdown=None)
        gpus = more.pop("with_gpus", 1)
        vars(args).update(more)
        report = reach.Report(args, [], {"commit": "c", "origin": "o"})
        said = io.StringIO()
        affinity = os.sched_getaffinity(0)
        with contextlib.redirect_stdout(said):
            reach.survey(args, list(rows), report, gpus=gpus)
        os.sched_setaffinity(0, affinity)
        return {entry["row"]: entry for entry in report.found}

    def one(self, *args, **more):
        (entry,) = self.run_rows(row("x", *args, **more)).values()
        return entry

    def test_steady_state_counts_and_the_start_does_not(self):
        entry = self.one(replayed=9)
        self.assertEqual((entry["verdict"], entry["identical"]), ("ok", True))
        self.assertEqual(entry["steady"]["ops"], 6 * 50 * 10)
        self.assertAlmostEqual(entry["replayed"], 0.9)
        self.assertEqual(entry["paired"]["ratio"], 1.5)
        self.assertNotIn("alone", entry)

    def test_gate_tells_how_many_repetitions(self):
        words = [sys.executable, str(self.program), "10:1.5::a", "--gated"]
        process = rounds.Process("x", words, dict(os.environ), 20.0)
        process.await_loaded()
        process.open_gate(12)
        process.finish()
        process.kill()
        self.assertEqual(process.result["reps"], 12)

    def test_repetitions_fill_the_time(self):
        self.assertEqual(reach.repetitions_of({"us_per_iteration": 400.0, "iters": 50}, 1.0), 50)
        self.assertEqual(reach.repetitions_of({"us_per_launch": "2.0", "per_step": "20"}, 1.0), 500)
        self.assertEqual(reach.repetitions_of({"us_per_iteration": 1e6, "iters": 50}, 1.0), 7)

    def test_whole_run_where_no_page_is_to_be_had(self):
        entry = self.one(wrong="no-page")
        self.assertEqual((entry["steady"], entry["replayed"]), ({}, 0.2))
        self.assertIn("20.0%~", reach_table.cells(entry))

    def test_same_where_programs_are_begun_one_after_the_other(self):
        entry = self.one(caches=True)
        self.assertEqual((entry["verdict"], entry["replayed"]), ("ok", 1.0))

    def test_a_row_that_fails_stops_no_other(self):
        found = self.run_rows(row("crash", wrong="crash"), row("differs", wrong="differs"), row("good"),
                              row("random", wrong="random"), row("missing", wrong="skip"),
                              row("fails", wrong="fails"), row("two", gpus=2),
                              reach_rows.Row("not built", ["/no/such/program"]))
        self.assertEqual({name: (entry["verdict"], entry["identical"]) for name, entry in found.items()},
                         {"crash": ("FAIL", None), "differs": ("FAIL", False), "good": ("ok", True),
                          "random": ("not reproducible", None), "missing": ("skipped", None),
                          "fails": ("skipped", None), "two": ("skipped", None), "not built": ("skipped", None)})
        self.assertIn("SIGABRT", found["crash"]["why"])
        self.assertEqual(found["missing"]["why"], "not here: No module named 'x'")
        self.assertIn("it fails anyway", found["fails"]["why"])

    def test_rows_are_spread_over_the_gpus(self):
        found = self.run_rows(row("a", wrong="gpus"), row("b", wrong="gpus"), row("both", wrong="gpus", gpus=2),
                              with_gpus=2)
        self.assertEqual({entry["verdict"] for entry in found.values()}, {"ok"})
        self.assertEqual({found[name]["eager"]["checksum"] for name in "ab"}, {"a0", "a1"})
        self.assertEqual(found["both"]["eager"]["checksum"], "a0,1")

    def test_hang(self):
        entry = self.run_rows(row("x", wrong="hang"), timeout=10.0)["x"]
        self.assertEqual(entry["verdict"], "FAIL")
        self.assertIn("hang", entry["why"])

    def test_slow_rows_run_again_alone(self):
        found = self.run_rows(row("slow", ratio="0.9"), row("fast", ratio="1.1"))
        self.assertEqual(found["slow"]["alone"]["ratio"], 0.9)
        self.assertNotIn("alone", found["fast"])
        self.assertEqual(reach_table.flag(found["slow"]), "slow")

    def test_out_of_time(self):
        self.assertEqual(self.run_rows(row("x"), seconds=0.0)["x"]["why"], "out of time")

    def test_why_not(self):
        self.assertEqual(self.one(replayed=9)["why"],
                         "mostly because of something 50 %; ops that cannot be recorded (parameters), submitted at once 50 %; eager 10 %; "
                         "cuStreamSynchronize every 10 ops")
        self.assertEqual(self.one(replayed=10)["why"], "")
        self.assertEqual(self.one(replayed=10, wrong="notice")["why"], "start: nothing is replayed here")


class Child(unittest.TestCase):
    def test_what_cannot_be_imported_is_told(self):
        done = subprocess.run([sys.executable, str(HERE / "loop.py"), "--row=rows_of_nobody:x"], capture_output=True,
                              text=True, timeout=30, check=True)
        self.assertEqual(done.stdout, "SKIP: not here: No module named 'rows_of_nobody'\n")

    def test_each_row_names_a_function(self):
        for one in reach_rows.all_rows():
            words = one.command
            if "{reach}/loop.py" in words:
                module, function, *arguments = words[-1].removeprefix("--row=").split(":")
                text = (HERE / f"{module}.py").read_text()
                found = re.search(rf"^def {function}\((.*)\):", text, re.MULTILINE)
                self.assertIsNotNone(found, one.name)
                self.assertEqual(len(re.findall(r"\w+", found[1])), len(arguments), one.name)
            elif words[0] == "{python}":
                self.assertTrue((HERE.parent / words[1].replace("{programs}", "programs")).exists(), one.name)

    def test_names_differ_and_are_short(self):
        names = [one.name for one in reach_rows.all_rows()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(max(map(len, names)), 40)


class Pages(unittest.TestCase):
    def test_layout_is_that_of_the_library(self):
        text = (HERE.parents[2] / "capture" / "trace" / "trace_format.h").read_text()
        body = re.search(r"struct ag_live_page \{(.*?)\};", text, re.DOTALL)[1]
        names = re.findall(r"(\w+)(?:\[\d+\])?[,;]", re.sub(r"/\*.*?\*/", "", body))
        self.assertEqual(names, [name for name, _ in live.Page._fields_])
        self.assertIn('AG_LIVE_MAGIC "AGLIVE1\\n"', re.sub(" +", " ", text))


class Table(unittest.TestCase):
    ENTRY = {"row": "x", "verdict": "ok", "identical": True, "replayed": 0.5, "steady": {"ops": 1},
             "paired": {"ratio": 0.97}, "why": "y" * 300}

    def test_fits(self):
        text = reach_table.compact([{**self.ENTRY, "row": f"row {number}"} for number in range(85)])
        self.assertLessEqual(len(text), 11000)
        self.assertLessEqual(max(map(len, text.splitlines()[:-1])), reach_table.WIDTH)

    def test_alone_counts_before_beside_others(self):
        self.assertEqual(reach_table.flag({**self.ENTRY, "replayed": 0.95}), "slow")
        self.assertEqual(reach_table.flag({**self.ENTRY, "replayed": 0.95, "alone": {"ratio": 1.0}}), "ok")
        self.assertEqual(reach_table.flag({**self.ENTRY, "alone": {"ratio": 1.0}}), "low")

    def test_page_keeps_what_stands_around(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reach.md"
            path.write_text(f"before\n{reach_table.BEGIN}\nold\n{reach_table.END}\nafter\n")
            for _ in range(2):
                reach_table.put_on_page(path, [self.ENTRY], "by me")
            text = path.read_text()
            self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
            self.assertEqual((text.count("by me"), text.count("old"), text.count("y" * 300)), (1, 0, 1))
            path.write_text("nothing\n")
            with self.assertRaises(ValueError):
                reach_table.put_on_page(path, [self.ENTRY], "by me")

    def test_page_of_the_project_has_its_place(self):
        text = (HERE.parents[2] / "docs" / "reach.md").read_text()
        self.assertIn(reach_table.BEGIN, text)
        self.assertIn(reach_table.END, text)


if __name__ == "__main__":
    unittest.main()
