#!/usr/bin/env python3
"""Tests of the fuzzer's judge, without a GPU: a program that misbehaves in every way must be told so.

    python3 tests/gpu/fuzz/test_fuzz.py
"""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import fuzz
import transcript

# Behaves as fuzz_program does; {fault} may change what seed 5 says, or end the process in it.
PROGRAM = """#!{python}
import os, random, signal, sys, time
first, count = (int(sys.argv[sys.argv.index(word) + 1]) if word in sys.argv else 1 for word in ("--seed", "--count"))
library = "AUTOGRAPH_STATS" in os.environ
if "--print" in sys.argv:
    sys.exit(print("0 sync 1 0"))
for seed in range(first, first + count):
    print(f"program seed {{seed}}: 100 ops, 0 skipped", flush=True)
    value = 7
    if seed == 5:
        {fault}
    print(f"op 3: 0 read 0 0 0 1 1 -> 0 {{value:016x}}")
    print("done", flush=True)
if library:
    print("autograph: replayed 60 of 80 ops (75.0%)", file=sys.stderr)
{end}
"""


class Judge(unittest.TestCase):
    def run_on(self, fault="pass", end="pass", more=()):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "fuzz_gpu"
            program.write_text(PROGRAM.format(python=sys.executable, fault=fault, end=end), encoding="utf-8")
            program.chmod(0o755)
            args = fuzz.parse_arguments(["--build", folder, "--programs", folder, "--library", "", "--count", "10",
                                         "--seconds", "50", "--timeout", "3", "--jobs", "1", "--setting", "", *more])
            campaign, out = fuzz.Campaign(args), io.StringIO()
            with contextlib.redirect_stdout(out):
                status = campaign.run()
        total = fuzz.Tally()
        for tally in campaign.tallies.values():
            total.add(tally)
        return status, total, campaign, out.getvalue()

    def test_agreement(self):
        status, total, campaign, text = self.run_on()
        self.assertEqual((status, total.programs, total.ops, total.bad()), (0, 10, 1000, 0), text)
        self.assertEqual((total.replayed, total.recordable, campaign.unusable), (60, 80, {}))

    def test_difference(self):
        status, total, _, text = self.run_on("value = 8 if library else 7")
        self.assertEqual((status, total.differences, total.programs), (1, 1, 10), text)
        self.assertIn("seed 5: differs, with defaults", text)
        self.assertIn("--first 5 --count 1 ", text)

    def test_eager_runs_that_disagree_are_no_difference(self):
        status, total, campaign, text = self.run_on("value = random.randrange(10**9)")
        self.assertEqual((status, total.bad(), list(campaign.unusable)), (0, 0, ["5"]), text)

    def test_hang(self):
        status, total, _, text = self.run_on("time.sleep(60 if library else 0)")
        self.assertEqual((status, total.hangs, total.differences), (1, 1, 0), text)
        self.assertEqual(total.programs, 10, "the seeds behind it are run as well")

    def test_crash(self):
        status, total, _, text = self.run_on("library and os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertEqual((status, total.crashes, total.programs), (1, 1, 10), text)
        self.assertIn("killed by SIGSEGV", text)

    def test_lost_context(self):
        status, total, _, text = self.run_on("library and os._exit(6)")
        self.assertEqual((status, total.crashes), (1, 1), text)
        self.assertIn("seed 5: lost context", text)

    def test_crash_at_the_end(self):
        status, total, _, text = self.run_on(end="library and os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertEqual((status, total.crashes, total.programs), (1, 1, 10), text)

    def test_eager_failure_is_unusable(self):
        status, total, campaign, text = self.run_on("os._exit(6)")
        self.assertEqual((status, total.bad(), list(campaign.unusable)), (0, 0, ["5"]), text)
        self.assertEqual(total.programs, 9, text)

    def test_nothing_runs(self):
        status, _, _, text = self.run_on("pass", "sys.exit(3)")
        self.assertEqual(status, 1, text)


class Reading(unittest.TestCase):
    def test_codes(self):
        codes = fuzz.defaultdict(lambda: [0, None])
        transcript.count_codes("9", "op 4: 0 launch 4 3 0 1 0 0 0 0 0 5 -> 1\n"
                               "op 7: 1 bad 0 2 0 -> 400\n"
                               "op 8: 0 flag 4 0 3 -> 0 af63bd4c8601b7df\n"
                               f"op 9: 0 flag 4 0 3 -> 0 {transcript.FLAG_SEEN}\n", codes)
        self.assertEqual(dict(codes), {("launch (none, extra)", 1): [1, "seed 9 op 4"],
                                       ("bad (no function)", 400): [1, "seed 9 op 7"],
                                       ("flag: never seen by the host", 0): [1, "seed 9 op 8"]})
        told = transcript.describe_codes(codes)
        self.assertEqual([line.startswith("  UNEXPECTED") for line in told], [False, True, True])

    def test_order_is_left_out(self):
        self.assertEqual(transcript.without_order("op 1\norder 4 kernel\nmemory 0\n"), "op 1\nmemory 0\n")


if __name__ == "__main__":
    unittest.main()
