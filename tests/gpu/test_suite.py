#!/usr/bin/env python3
"""Tests of the suite itself, without a GPU: what hangs, crashes, differs or is slow must be told so.

    python3 tests/gpu/test_suite.py
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib
from pathlib import Path
from xml.etree import ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "cupti"), os.path.join(HERE, "matrix"), os.path.join(HERE, "pace")]

import against
import by_process
import checks
import dumps
import kernels
import matrix
import page
import picture
import real
import results
import runs
import suite
import tables
from processes import Failed
from processors import FEW, Processors, numbers
from rows import Row
from rounds import Variant, run_in_rounds

GOOD = """
import sys
if "--gated" in sys.argv:
    print("LOADED", flush=True); sys.stdin.readline()
for i in range(3):
    print("READY", flush=True); sys.stdin.readline(); print("TIME", {time}, flush=True)
    {fault}
print("RESULT name=x checksum={checksum} check=ok")
"""


def program(fault="pass", time=2.0, checksum="0x1"):
    return [sys.executable, "-c", GOOD.format(fault=fault, time=time, checksum=checksum)]


def rounds(*commands, timeout=20.0, count=2, **more):
    names = ("eager", "autograph", "hand")
    specs = [(name, command, None) for name, command in zip(names, commands)]
    return run_in_rounds(specs, count, 3, timeout, **more)


def judged(row, *commands, reference=None):
    variants, failure = rounds(*commands)
    assert failure is None, failure
    entry = {v.name: {"median": v.median(), "results": v.results, "checksums": v.checksums()}
             for v in variants}
    return suite.judge({"row": row.name, **entry}, row, reference)


# A checksum that no two processes share.
OWN_CHECKSUM = '" + str(__import__("os").getpid()) + "'


class Rounds(unittest.TestCase):
    def test_all_well(self):
        variants, failure = rounds(program(), program(time=1.0))
        self.assertIsNone(failure)
        self.assertEqual([v.median() for v in variants], [2.0, 1.0])
        self.assertEqual(variants[1].checksums(), {"0x1"})
        self.assertEqual([len(v.rounds) for v in variants], [2, 2])

    def test_one_process_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            here = f"import os; os.mkdir('{folder}/busy') if i == 0 else None; " \
                   f"os.rmdir('{folder}/busy') if i == 2 else None"
            self.assertIsNone(rounds(program(here), program(here))[1])

    def test_spread_is_by_process(self):
        variants, _ = rounds(program(time=3.0))
        self.assertEqual(variants[0].spread(), (3.0, 3.0))
        variants[0].rounds = [[1.0, 9.0, 2.0], [5.0, 4.0, 5.0]]
        self.assertEqual((variants[0].spread(), variants[0].median()), ((2.0, 5.0), 4.5))

    def test_time_limit_keeps_two_rounds(self):
        variants, _ = rounds(program(), count=5, seconds=0.0)
        self.assertEqual(len(variants[0].rounds), 2)

    def test_crash_is_named(self):
        _, failure = rounds(program(), program("import os; os.kill(os.getpid(), 11)"))
        self.assertIn("autograph", failure)
        self.assertIn("SIGSEGV", failure)

    def test_hang_is_named_and_ended(self):
        _, failure = rounds(program(), program("import time; time.sleep(60)"), timeout=2.0)
        self.assertIn("hang", failure)

    def test_exit_status_counts_after_the_result(self):
        _, failure = rounds(program(), program("import atexit, os; atexit.register(os._exit, 3)"))
        self.assertIn("exit status 3", failure)

    def test_missing_result(self):
        _, failure = rounds(program(), program("if i == 2: sys.exit(0)"))
        self.assertIn("no RESULT", failure)

    def test_host_time(self):
        variants, _ = rounds([sys.executable, "-c", GOOD.format(time='"2.5 HOST 1.5"', fault="pass",
                                                                checksum=1)], program())
        self.assertEqual([v.median() for v in variants], [2.5, 2.0])
        self.assertEqual([v.host() for v in variants], [1.5, None])

    def test_gated_processes_load_together_and_work_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            here = f"import os; os.mkdir('{folder}/busy') if i == 0 else None; " \
                   f"os.rmdir('{folder}/busy') if i == 2 else None"
            load = f"open('{folder}/loaded', 'a').write('x'); "
            before = GOOD.format(fault=here + f"; assert len(open('{folder}/loaded').read()) == 4",
                                 time=2.0, checksum=1)
            command = [sys.executable, "-c", load + before.strip()]
            variants, failure = rounds(command, command, gated=True)
            self.assertIsNone(failure)
            self.assertEqual([len(v.rounds) for v in variants], [2, 2])

    def test_gated_process_that_cannot_load(self):
        _, failure = rounds(program(), [sys.executable, "-c", "import no_such_module"], gated=True)
        self.assertIn("no_such_module", failure)

    def test_gated_process_that_ends_at_its_gate_does_not_hang(self):
        """Its output has ended before the gate opens, and its input has not."""
        ends = "import os, sys; os.close(1); sys.stdin.readline(); os._exit(3)"
        _, failure = rounds(program(), [sys.executable, "-c", ends], gated=True, timeout=10.0)
        self.assertIn("exit status 3", failure)

    def test_hand_captured_variant_may_fail(self):
        variants, failure = rounds(program(), program(), program("sys.exit(5)"), optional=("hand",))
        self.assertIsNone(failure)
        self.assertIn("exit status 5", variants[2].failure)
        self.assertEqual([len(v.rounds) for v in variants], [2, 2, 1])


class TwoSpeeds(Processors):
    """Processors of which some are slow, as told; the real ones are not touched."""
    SLOW = {}

    def seconds(self, processor):
        self.asked.append(processor)
        return 2.0 if processor in self.SLOW else 1.0

    def __init__(self, allowed, slow):
        self.SLOW, self.asked = slow, []
        super().__init__(allowed)
        self.asked.clear()

    def wandering(self):
        return contextlib.nullcontext()


class FullSpeed(unittest.TestCase):
    def test_lists_of_numbers(self):
        self.assertEqual(numbers("0-2,8\n"), {0, 1, 2, 8})

    def test_one_that_is_fast_is_picked(self):
        found = TwoSpeeds([4, 5, 6, 7], {4, 5})
        self.assertEqual((found.pick(), found.pick()), (6, 6))
        found.SLOW = {6, 7}
        self.assertEqual(found.pick(), 4)
        found.SLOW = {4, 5, 6, 7}
        self.assertIn(found.pick(), found.allowed)
        self.assertEqual(len(found.asked), 3 + 1 + 3 + 4)

    def test_where_none_is_fast_few_are_looked_at_until_one_is(self):
        found = TwoSpeeds([4, 5, 6, 7], {})
        found.SLOW = {4, 5, 6, 7}
        asked = []
        for _ in range(3):
            self.assertIn(found.pick(), found.allowed)
            asked.append(len(found.asked))
        self.assertEqual(asked, [4, 4 + FEW, 4 + 2 * FEW])
        found.SLOW = {4, 5, 6}
        self.assertEqual([found.pick() for _ in range(3)][-1], 7)
        self.assertEqual(found.looks, 4)

    def test_lent_and_taken_back(self):
        before = os.sched_getaffinity(0)
        found = Processors(before)
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            with found.lend(sleeper.pid):
                self.assertEqual(len(os.sched_getaffinity(sleeper.pid)), 1)
            self.assertEqual(os.sched_getaffinity(sleeper.pid), before)
            sleeper.kill()
            sleeper.wait()
            with found.lend(sleeper.pid):
                pass
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_repetitions_are_made_there(self):
        lent_to = []

        class Lender:
            def lend(self, pid):
                lent_to.append(pid)
                return contextlib.nullcontext()
        _, failure = rounds(program(), program(), processors=Lender())
        self.assertIsNone(failure)
        self.assertEqual((len(lent_to), len(set(lent_to))), (12, 4))


class ManyProcesses(unittest.TestCase):
    CODE = """
import os, sys
print("LOADED", flush=True); sys.stdin.readline()
slow = 2 if "LD_PRELOAD" in os.environ else 1
for i in range(3):
    print("READY", flush=True); sys.stdin.readline()
    print("TIME", (100 + i) * slow * (1 + int(os.environ["CUDA_VISIBLE_DEVICES"])), flush=True)
print("RESULT checksum=%s", flush=True)
"""

    def measure(self, code, lanes=2, before=False):
        with tempfile.NamedTemporaryFile(suffix=".so") as nothing, contextlib.redirect_stderr(None):
            args = argparse.Namespace(library=nothing.name, gpus=1, rounds=1, reps=3, env=[],
                                      before=nothing.name if before else None,
                                      command=[sys.executable, "-c", code])
            return by_process.measure(args, lanes)

    def test_lanes_have_both_variants_in_turn_and_gpus_of_their_own(self):
        found = self.measure(self.CODE % "same")
        lanes = [[(variant, times[0]) for lane, variant, times, _, _ in found if lane == which] for which in (0, 1)]
        self.assertEqual(lanes, [[("eager", 100.0), ("autograph", 200.0)], [("autograph", 400.0), ("eager", 200.0)]])
        with contextlib.redirect_stdout(None):
            self.assertEqual(by_process.report(found), 0)

    def test_two_libraries_are_compared(self):
        found = self.measure(self.CODE % "same", before=True)
        self.assertEqual([(variant, times[0]) for lane, variant, times, _, _ in found if lane == 0],
                         [("before", 200.0), ("autograph", 200.0)])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(by_process.report(found), 0)
        self.assertIn("before / autograph by processes: 1.000x", said.getvalue())

    def test_results_that_differ_are_told(self):
        with contextlib.redirect_stdout(None):
            self.assertEqual(by_process.report(self.measure(self.CODE % '%d" % slow, "')), 1)

    def test_a_process_that_fails_ends_all_lanes(self):
        """The other lane has a failure of its own, or hears of this one's."""
        found = self.measure("import sys; sys.exit(3)")
        self.assertEqual([(lane, variant) for lane, variant, _, _, _ in sorted(found)], [(0, None), (1, None)])
        reasons = [why for _, _, why, _, _ in found]
        self.assertTrue(any("exit status 3" in why for why in reasons), reasons)
        self.assertTrue(all("exit status 3" in why or why == "another lane failed" for why in reasons), reasons)

    def test_ratio_of_geometric_means(self):
        ratio, low, high = by_process.compared([100.0, 400.0], [100.0, 100.0])
        self.assertAlmostEqual(ratio, 2.0)
        self.assertAlmostEqual(low * high, 4.0)
        self.assertLess(low, 2.0)


class TwoLibraries(unittest.TestCase):
    CODE = """
import json, os, sys
row, variant = json.loads(sys.argv[1]), os.environ["VARIANT"]
if "fails" in sys.argv:
    sys.exit(5)
for i in range(3):
    print("READY", flush=True); sys.stdin.readline(); print("TIME", row["us"][variant], flush=True)
open(row["order"], "a").write(variant + " ")
print("RESULT checksum=" + row["sums"].get(variant, "1"))
"""

    def run_rows(self, times, sums=(), hand=None, budget=60.0):
        """The rows, what is said of them, the status with --strict, and in which order processes ran. `times` of each row by variant."""
        args = argparse.Namespace(build=Path("/"), library=Path("/"), against=Path("/"), out=None, only=None, cells="", rounds=2,
                                  reps=3, budget=budget, env=[], simulated=True)

        class Fake(against.Against):
            def environment(self, which):
                return {**os.environ, "VARIANT": which}

            def rows(self):
                for name, us in times.items():
                    told = json.dumps({"us": dict(zip(against.VARIANTS, us)), "sums": dict(sums), "order": order.name})
                    yield Row(name, ["{python}", "-c", TwoLibraries.CODE, told], graph_args=[hand] if hand else None, hand_same=False)
        with tempfile.NamedTemporaryFile("r") as order, contextlib.redirect_stdout(None):
            fake = Fake(args)
            fake.measure()
            found = fake.all_measured()
            return found, "\n".join(against.report(found, args.rounds)), against.status(found, True), order.read().split()

    def test_neighbours_in_turns(self):
        found, said, status, order = self.run_rows({"row": (5, 9, 2, 4, 4)})
        self.assertEqual((found[0].ratios("this"), found[0].ratios("inline"), status), ([1.0, 1.0], [2.0, 2.0], 0))
        self.assertEqual(order, ["eager", "inline", "other", "this", "this", "other", "inline", "eager"])
        self.assertIn("under 0.98: none", said)
        self.assertIn("2.000 (2.000..2.000)", said)

    def test_slower_rows_are_named_and_measured_again(self):
        found, said, status, _ = self.run_rows({"slow": (5, 9, 4, 4, 5), "inline": (5, 9, 4.1, 4, 4), "well": (5, 9, 4, 4, 4)})
        self.assertEqual(([row.number_of_rounds() for row in found], status), ([6, 6, 2], 1))
        self.assertIn("0.800 slow: this library; 6 of 6 rounds under 0.98", said)
        self.assertIn("0.976 inline: this library with AUTOGRAPH_SUBMIT=inline", said)
        self.assertNotIn("well: this", said)

    def test_budget(self):
        found, said, _, _ = self.run_rows({"row": (5, 9, 4, 4, 5)}, budget=0.0)
        self.assertEqual(found[0].number_of_rounds(), 0)
        self.assertIn("fewer than 2 rounds: row", said)

    def test_results_that_differ(self):
        for which in ("inline", "other", "this"):
            _, said, status, _ = self.run_rows({"row": (5, 9, 4, 4, 4)}, {which: "2"})
            self.assertEqual(status, 1)
            self.assertIn("FAIL: row: results differ", said)
        self.assertEqual(self.run_rows({"row": (5, 9, 4, 4, 4)}, {"hand": "2"}, hand="well")[2], 0)

    def test_failures(self):
        found, said, status, _ = self.run_rows({"row": (5, 9, 4, 4, 4)}, hand="fails")
        self.assertEqual((found[0].number_of_rounds(), status), (2, 0))
        self.assertNotIn("FAIL", said)
        found, said, status, order = self.run_rows({"row": (5, 9, 4, "x", 4)})
        self.assertEqual((status, order), (1, ["eager", "inline"]))
        self.assertIn("FAIL: row: could not convert string to float: 'x'", said)



class Runs(unittest.TestCase):
    CODE = """
import json, os, sys
told, way = json.loads(sys.argv[1]), os.environ["VARIANT"]
if "--gated" in sys.argv:
    print("LOADED", flush=True); sys.stdin.readline()
print("READY", flush=True); sys.stdin.readline(); print("TIME", told["us"][way], flush=True)
print("RESULT per_step=20 checksum=" + told["sums"].get(way, "1") + " steps=" + " ".join(sys.argv[2:]).replace(" ", ","))
"""

    def run_rows(self, times, sums=(), seconds=0.5, **more):
        """What was found, the lines that say it, and the status. `times` of each row by way."""
        class Fake(runs.Runs):
            def command(self, row):
                told = {"us": dict(zip(runs.WAYS, times[row.name])), "sums": dict(sums)}
                return [sys.executable, "-c", Runs.CODE, json.dumps(told)]
        args = argparse.Namespace(build=Path("/"), library=Path("/"), env=[], simulated=False, rounds=2, seconds=seconds, budget=60.0, out=None)
        fake = Fake(args)
        fake.environments = {way: {**os.environ, "VARIANT": way} for way in runs.WAYS}
        with contextlib.redirect_stdout(None):
            found = fake.measure_all([runs.Row(name, [], **more) for name in times])
        lines, status = runs.report(found)
        return found, "\n".join(lines), status

    def test_ratios(self):
        found, said, status = self.run_rows({"row": (5, 4, 5)})
        self.assertEqual((found[0].ratio("default", "inline"), found[0].ratio("inline", "eager"), status), ([0.8] * 3, [1.25] * 3, 0))
        self.assertIn("0.800 (0.800 to 0.800)", said)

    def test_results_that_differ(self):
        _, said, status = self.run_rows({"row": (5, 4, 5)}, {"default": "2"})
        self.assertEqual(status, 1)
        self.assertIn("FAIL: row: results differ", said)

    def test_failure_ends_its_row_only(self):
        found, said, status = self.run_rows({"bad": (5, "x", 5), "well": (5, 4, 5)})
        self.assertEqual((len(found[1].us("default")), status), (2, 1))
        self.assertIn("FAIL: bad:", said)

    def test_as_many_steps_as_the_time_has_room_for(self):
        """A step of 20 launches takes a millisecond, and they have half a second."""
        found, _, _ = self.run_rows({"row": (50, 4, 5)}, seconds=1.0, sized=True)
        self.assertEqual(found[0].steps, 500)
        self.assertIn("--steps=500,--warm=500", found[0].variants["default"].results[0]["steps"])

    def test_too_few_processors(self):
        found, said, status = self.run_rows({"row": (5, 4, 5)}, processors=100000)
        self.assertEqual((found[0].us("default"), status), ([], 0))
        self.assertIn("skipped: too few processors", said)

    def test_time_of_the_threads(self):
        named, burn, burnt, end = (threading.Event() for _ in range(4))

        def work():
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(runs.SUBMITTER)
            named.set()
            burn.wait()
            until = time.thread_time() + 0.05
            while time.thread_time() < until:
                pass
            burnt.set()
            end.wait()
        thread = threading.Thread(target=work)
        thread.start()
        named.wait()
        before = runs.threads_of(os.getpid())
        burn.set()
        burnt.wait()
        used = runs.spent(before, runs.threads_of(os.getpid()))
        end.set()
        thread.join()
        self.assertEqual(list(used), [runs.SUBMITTER])
        self.assertGreaterEqual(used[runs.SUBMITTER][0], 30e6)
        self.assertEqual(runs.spent({"a": (5, 1)}, {"a": (7, 4), "b": (1, None)}), {"a": [2, 3], "b": [1, None]})
        self.assertEqual(runs.idle_words([{"autograph-send": [2000, 1]}, {"autograph-send": [0, 3]}]), ["autograph-send 0.002 ms, 3 waits"])
        self.assertIn("no submitter", runs.idle_words([{"autograph-watch": [0, 0]}]))


class Judgement(unittest.TestCase):
    def test_goals(self):
        row = Row("r", [], eager_goal=1.5)
        self.assertEqual(judged(row, program(), program(time=1.0))["verdict"], "ok")
        self.assertEqual(judged(row, program(), program(time=1.9))["verdict"], "slow")
        row = Row("r", [], graph_goal=0.9)
        self.assertEqual(judged(row, program(), program(time=1.0), program(time=0.8))["verdict"],
                         "slow")

    def test_difference(self):
        entry = judged(Row("r", []), program(), program(checksum="0x2"))
        self.assertEqual((entry["verdict"], entry["identical"]), ("FAIL", False))

    def test_difference_between_rounds(self):
        entry = judged(Row("r", []), program(), program(checksum=OWN_CHECKSUM))
        self.assertEqual(entry["verdict"], "FAIL")
        entry = judged(Row("r", []), program(checksum=OWN_CHECKSUM), program())
        self.assertEqual(entry["verdict"], "unstable")

    def test_by_hand_does_not_decide(self):
        entry = judged(Row("r", []), program(), program(), program(checksum="0x3"))
        self.assertEqual((entry["verdict"], entry["identical"]), ("ok", True))
        self.assertIn("by hand", entry["why"])

    def test_ops_a_graph(self):
        said = "autograph: a[1]: replayed 30 of 40 ops (75.0%) in 4 graph launches, 0 node updates\n"
        self.assertEqual(suite.ops_a_graph(said), 7.5)
        self.assertIsNone(suite.ops_a_graph(said.replace("in 4", "in 0")))
        self.assertIsNone(suite.ops_a_graph(""))

    def test_share_replayed(self):
        self.assertEqual(judged(Row("r", [], replay_goal=0.97), program(), program())["verdict"], "slow")

    def test_one_process_that_compares_itself(self):
        said = "autograph: a[1]:   compared with eager: 1.291 times as fast (half of 37 pairs of spans between 1.270 and 1.310)"
        found = suite.pairs_of(f"autograph: replayed 1 of 2 ops\n{said}\n")
        self.assertEqual(found, {"paired": {"ratio": 1.291, "pairs": 37, "half": [1.27, 1.31]}})
        self.assertEqual(suite.pairs_of(said + "; this is too uneven to judge by"), {})
        self.assertEqual(suite.pairs_of("compared with eager: the program ended before two spans"), {})
        row = Row("r", [], eager_goal=1.25)
        variants, _ = rounds(program(), program(time=1.9))
        entry = {v.name: {"median": v.median(), "results": v.results, "checksums": v.checksums()} for v in variants}
        self.assertEqual(suite.judge({"row": "r", **entry}, row)["verdict"], "slow")
        better = suite.judge({"row": "r", **entry, **found}, row)
        self.assertEqual(better["verdict"], "ok")
        self.assertIn("1.291x in one process (1.27..1.31)", tables.table([better]))
        self.assertEqual(suite.judge({"row": "r", **entry, **found}, Row("r", [], eager_goal=1.3))["verdict"], "slow")

    def test_fastest_tenth(self):
        """A processor that is slow in most repetitions decides nothing."""
        def entry(slow, fast):
            times = [slow] * 30 + [fast] * 10
            variant = Variant("x")
            variant.rounds = [times[:20], times[20:]]
            return {"median": variant.median(), "fastest": variant.fastest(), "results": [], "checksums": {"1"}}
        row = Row("r", [], eager_goal=1.0, fastest=True)
        found = suite.judge({"row": "r", "eager": entry(1.0, 1.0), "autograph": entry(2.0, 1.0)}, row)
        self.assertEqual((found["verdict"], found["ratio"], found["fastest_ratio"]), ("ok", 0.5, 1.0))
        self.assertIn("0.50x, 1.000x by the fastest tenth", tables.table([found]))
        found = suite.judge({"row": "r", "eager": entry(2.0, 1.0), "autograph": entry(2.0, 1.1)}, row)
        self.assertEqual(found["verdict"], "slow")
        self.assertIsNone(Variant("few").fastest())

    def test_gain(self):
        row = Row("r", [], gain_goal=0.9)
        for time_us, verdict in ((1.0, "ok"), (1.5, "slow")):
            reference = {"ratio": 2.0, "eager": {"median": 2.0}, "autograph": {"median": 1.0}}
            entry = judged(row, program(), program(time=time_us), reference=reference)
            self.assertEqual(entry["verdict"], verdict)


class Parts(unittest.TestCase):
    def test_every_row_is_in_one_part(self):
        rows = [Row(str(i), [], needs=["torch"] if i % 3 else []) for i in range(17)]
        parts = [suite.part(rows, number, 3) for number in (1, 2, 3)]
        self.assertEqual([row.name for found in parts for row in found], [row.name for row in rows])
        costs = [sum(row.cost for row in found) for found in parts]
        self.assertLess(max(costs) - min(costs), 5.0)

    def test_merge(self):
        def entry(row, verdict, time=1.0):
            return {"row": row, "verdict": verdict, "commit": "c", "time": time}
        older = [entry("a", "ok"), entry("b", "slow"), entry("d", "skipped")]
        newer = [entry("b", "ok", 2.0), entry("a", "skipped"), entry("c", "ok")]
        merged = results.merge(older, newer, ["a", "b", "c", "d"])
        self.assertEqual([(e["row"], e["verdict"]) for e in merged],
                         [("a", "ok"), ("b", "ok"), ("c", "ok"), ("d", "skipped")])
        self.assertEqual(results.commit_of(merged), "c")
        with self.assertRaises(results.Mixed):
            results.commit_of([*merged, {"row": "e", "verdict": "ok", "commit": "other"}])

    def test_a_step(self):
        def variant(median, host):
            return {"median": median, "host": host, "results": [{"per_step": "20"}]}
        found = tables.gain_of({"row": "r", "ratio": 2.0, "identical": True, "verdict": "ok",
                                "eager": variant(4.0, 3.0), "autograph": variant(2.0, None)})
        self.assertEqual(found["eager"], {"wall_us": 80.0, "host_us": 60.0})
        self.assertEqual((found["autograph"]["host_us"], found["hand"]), (None, None))
        self.assertIsNone(tables.gain_of({"row": "r", "verdict": "skipped"}))
        self.assertEqual(tables.step_cells(found)[1:9],
                         ["80.0", "60.0", "40.0", "-", "-", "-", "2.00x", "-"])


class RealPrograms(unittest.TestCase):
    def run_as(self, *checksums):
        """The entry of a program that computes these things: eager, with the library, eager again."""
        with tempfile.TemporaryDirectory() as folder:
            code = (f"import os\nauto = 'AUTOGRAPH_STATS' in os.environ\nname = 'auto' if auto else 'eager'\n"
                    f"names = [name] if auto else ['eager', 'again', 'third']\n"
                    f"name = next(n for n in names if not os.path.exists('{folder}/' + n))\n"
                    f"open('{folder}/' + name, 'w')\n"
                    f"found = dict(zip(['eager', 'auto', 'again', 'third'], {checksums!r}))[name]\n"
                    "if found is None: os.abort()\n"
                    "print('RESULT checksum=' + found)\n")
            args = argparse.Namespace(build=Path(folder), library="", simulated=False, jobs=2, timeout=20.0,
                                      budget=60.0, test_seconds=1.0, env=[])
            return real.Real(args).compare(real.Program("p", [sys.executable, "-c", code]))

    def test_same_and_different(self):
        self.assertEqual(self.run_as("a", "a", "a")["verdict"], "ok")
        entry = self.run_as("a", "b", "a", "a")
        self.assertEqual((entry["verdict"], entry["identical"]), ("FAIL", False))

    def test_not_reproducible(self):
        self.assertEqual(self.run_as("a", "a", "b")["verdict"], "not reproducible")
        self.assertEqual(self.run_as("a", "b", "a", "c")["verdict"], "not reproducible")

    def test_crashes(self):
        self.assertEqual(self.run_as(None, "a", "a")["verdict"], "skipped")
        entry = self.run_as("a", None, "a")
        self.assertEqual(entry["verdict"], "FAIL")
        self.assertIn("SIGABRT", entry["why"])

    def test_hang_ends_with_all_children(self):
        outcome = real.run(["bash", "-c", "sleep 60 & sleep 60"], dict(os.environ), 0.5)
        self.assertEqual(outcome.status, "hang")

    def test_tests_are_compared_one_by_one(self):
        def outcome(text):
            return real.Outcome("exit status 0", text)
        one = outcome("TEST a ok\nTEST b failed 0x1\nTEST c ok\nRESULT name=x\n")
        same = outcome("TEST a ok\nTEST b failed 0x2\nRESULT name=x\n")
        self.assertEqual(real.judge_tests(one, one, same)[:2], ("ok", True))
        other = outcome("TEST a error\nTEST b failed\nTEST c ok\nRESULT name=x\n")
        self.assertEqual(real.judge_tests(one, one, other)[:2], ("FAIL", False))
        self.assertEqual(real.judge_tests(one, other, other)[:2], ("ok", True))
        self.assertEqual(real.judge_tests(one, one, real.Outcome("killed by SIGSEGV"))[0], "FAIL")
        self.assertTrue(real.Outcome("hang", "TEST a ok\n").ended_well())
        self.assertFalse(real.Outcome("hang", "RESULT checksum=1\n").ended_well())

    def test_counts_of_all_processes(self):
        said = ("autograph: a[1]: replayed 30 of 40 ops (75.0%) in 3\nautograph: a[1]:   graph builds failed: 2\n"
                "autograph: b[2]: replayed 15 of 20 ops (75.0%) in 1\nautograph: b[2]:   graph launches failed: 1\n")
        self.assertEqual(real.counted(said), {"ops": 60, "replayed": 0.75, "errors": 3})
        self.assertEqual(real.counted(""), {"ops": None, "replayed": None, "errors": None})


class Dumps(unittest.TestCase):
    @staticmethod
    def chunk(kind, text):
        head = kind + len(text).to_bytes(4, "little")
        return b"AGck" + head + zlib.crc32(head + text).to_bytes(4, "little") + text + bytes(-len(text) % 8)

    def test_names_go_and_the_rest_stays(self):
        def dump(host, top, trace):
            program = top + b"build/x"
            name = (1).to_bytes(4, "little") + len(program).to_bytes(4, "little") + program
            return (b"\x89AGDUMP\n" + (1).to_bytes(4, "little") + (48).to_bytes(4, "little") + bytes(32)
                    + self.chunk(b"PROC", b"pid=3\0host=" + host + b"\0program=" + program
                                 + b"\0AUTOGRAPH_TRACE=" + trace + b"\0")
                    + self.chunk(b"EVTS", b"/home/me/tree/") + self.chunk(b"STRG", name)
                    + self.chunk(b"END ", b"exit"))
        self.assertEqual(dumps.without_names(dump(b"castle", b"/home/me/tree/", b"/home/me/raw/x.dump"),
                                             b"/home/me/tree"),
                         dump(b"gpu", b"", b"x.dump"))


class Picture(unittest.TestCase):
    FOUND = [{"label": "A & B", "eager": {"wall_us": 100.0}, "autograph": {"wall_us": 50.0}, "hand": None},
             {"label": None, "eager": {"wall_us": 1.0}, "autograph": {"wall_us": 1.0}, "hand": None},
             {"label": "C", "ratio": 0.8, "eager": {"wall_us": 100.0}, "autograph": {"wall_us": 50.0}, "hand": None}]

    def test_bars_are_as_long_as_the_times(self):
        root = ElementTree.fromstring(picture.draw(self.FOUND, "made up"))
        bars = [(rect.get("class"), float(rect.get("width"))) for rect in root.findall(".//{*}rect")
                if rect.get("rx") and float(rect.get("width")) != 12.0]
        self.assertEqual([name for name, _ in bars], ["eager", "autograph"] * 2)
        self.assertAlmostEqual(bars[0][1], 2 * bars[1][1])
        self.assertAlmostEqual(bars[3][1], bars[2][1] / 0.8, places=0)    # the measure of one process, a loss
        texts = "\n".join("".join(text.itertext()) for text in root.findall(".//{*}text"))
        for said in ("A & B", "100 us", "2.00x", "0.80x", "made up"):
            self.assertIn(said, texts)

    def test_nothing_to_draw(self):
        with self.assertRaises(ValueError):
            picture.draw([])


class Checks(unittest.TestCase):
    def compare(self, command, **more):
        check = checks.Check("c", ["bash", "-c", command], timeout=5.0, **more)
        return checks.compare(check, dict(os.environ), dict(os.environ, ONLY_WITH="1"))[0]

    def test_same(self):
        self.assertEqual(self.compare("echo a; echo MEASURED $RANDOM")["verdict"], "ok")

    def test_output_status_and_errors(self):
        self.assertEqual(self.compare("echo a$ONLY_WITH")["verdict"], "FAIL")
        self.assertEqual(self.compare("exit $((ONLY_WITH + 0))")["verdict"], "FAIL")
        self.assertEqual(self.compare("echo a$ONLY_WITH >&2", errors_too=True)["verdict"], "FAIL")
        self.assertEqual(self.compare("[ -z \"$ONLY_WITH\" ] || sleep 60")["why"], "hang")

    def test_wrong_with_and_without(self):
        self.assertEqual(self.compare("exit 1", status=1)["verdict"], "ok")
        self.assertEqual(self.compare("exit 1")["verdict"], "FAIL")

    def test_what_the_machine_lacks_is_skipped(self):
        entry = self.compare("echo SKIP: no handles; echo ok")
        self.assertEqual((entry["verdict"], entry["why"]), ("skipped", "no handles"))
        self.assertEqual(self.compare("echo SKIP: no handles $ONLY_WITH")["verdict"], "FAIL")
        self.assertEqual(self.compare("echo SKIP: no handles; exit 1")["verdict"], "FAIL")

    def test_late_flush_is_slow(self):
        self.assertEqual(self.compare("echo MEASURED mean ${ONLY_WITH:-0}5000.0 us")["verdict"], "slow")

    def test_a_call_that_takes_longer_than_eagerly_is_slow(self):
        self.assertEqual(self.compare("echo MEASURED median ${ONLY_WITH:-0}.5 us", times=4.0)["verdict"], "ok")
        self.assertEqual(self.compare("echo MEASURED median ${ONLY_WITH:-0}.5 us", times=2.0)["verdict"], "slow")

    def test_measured_against_eager_and_some(self):
        said = "echo MEASURED most 5${ONLY_WITH:-0} ops, median 1"
        self.assertEqual([self.compare(said, more=more)["verdict"] for more in (1, 0.5)], ["ok", "slow"])


# Writes down what libran.so would have written.
RAN = """
import os
open(os.environ["AG_RAN_DIR"] + "/ran.1.txt", "w").write({text!r})
print("RESULT name=x checksum=0x{checksum}")
"""
WELL = "count 4 0 k\ncount 2 0 [memset]\nstream 6 0xa\nall 6 0xb\ndropped 0\n"


class Kernels(unittest.TestCase):
    def ran(self, text, checksum="1"):
        command = [sys.executable, "-c", RAN.format(text=text, checksum=checksum)]
        return kernels.run(command, dict(os.environ), "none")

    def verdict(self, text, **more):
        return kernels.judge(self.ran(WELL), self.ran(text, **more))[0::3]

    def test_equal(self):
        self.assertEqual(self.verdict(WELL), ("ok", []))
        self.assertEqual(self.verdict(WELL.replace("4 0", "4 4")), ("ok", []))

    def test_one_kernel_lost_or_another_name(self):
        self.assertEqual(self.verdict(WELL.replace("count 4", "count 3")), ("FAIL", ["k: 4 and 3"]))
        self.assertEqual(self.verdict(WELL.replace(" k", " other"))[0], "FAIL")

    def test_other_order(self):
        self.assertEqual(self.verdict(WELL.replace("0xa", "0xc")), ("ok", []))
        self.assertEqual(self.verdict(WELL.replace("0xa", "0xc").replace("0xb", "0xd"))[0], "FAIL")

    def test_lost_records_and_other_results(self):
        self.assertEqual(self.verdict(WELL.replace("dropped 0", "dropped 1"))[0], "FAIL")
        self.assertEqual(self.verdict(WELL, checksum="2")[0], "FAIL")

    def test_nothing_written(self):
        with self.assertRaises(Failed):
            kernels.run([sys.executable, "-c", "pass"], dict(os.environ), "none")
        with self.assertRaises(Failed):
            self.ran("dropped 0\n")


class Matrix(unittest.TestCase):
    def test_low_cells_and_the_median_decide(self):
        fast = {(2, 0, 20, 1): (4.0, 2.0), (2, 0, 5, 1): (4.0, 2.5)}
        self.assertTrue(matrix.summary(fast)[1])
        self.assertFalse(matrix.summary({**fast, (50, 0, 5, 1): (50.0, 52.0)})[1])
        self.assertFalse(matrix.summary({cell: (4.0, 3.0) for cell in fast})[1])

    def test_cells_limited_by_the_gpu_or_the_host_do_not_count(self):
        slow = {(500, 0, 5, 1): (502.0, 502.0), (1, 50, 5, 1): (52.0, 52.0)}
        self.assertTrue(matrix.summary(slow)[1])

    def test_cut(self):
        good = {(2, 0, 20, 1): {0: 2.0, **dict.fromkeys(matrix.CHUNKS, 2.0)}}
        self.assertTrue(matrix.cut_summary(good)[1])
        bad = {(2, 0, 20, 1): {0: 2.0, **dict.fromkeys(matrix.CHUNKS, 2.0), 16: 1.5}}
        self.assertFalse(matrix.cut_summary(bad)[1])


class Page(unittest.TestCase):
    def test_sections_are_replaced_and_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "docs" / "page.md"
            for heading, text in (("A", "old"), ("B", "| b |"), ("A", "new")):
                page.put_section(path, heading, text, made_by="by me")
            self.assertEqual(path.read_text().removeprefix(page.HEAD),
                             "\n## A\nby me\n\nnew\n\n## B\nby me\n\n| b |\n")


if __name__ == "__main__":
    unittest.main()
