#!/usr/bin/env python3
"""Tests of the suite itself, without a GPU: what hangs, crashes, differs or is slow must be told so.

    python3 tests/gpu/test_suite.py
"""

import os
import sys
import unittest

import checks
import suite
from rows import Row
from turns import run_in_turns

GOOD = """
import sys
for i in range(3):
    print("READY", flush=True); sys.stdin.readline(); print("TIME", {time}, flush=True)
    {fault}
print("RESULT name=x checksum={checksum} check=ok")
"""


def program(fault="pass", time=2.0, checksum="0x1"):
    return [sys.executable, "-c", GOOD.format(fault=fault, time=time, checksum=checksum)]


def turns(*commands, timeout=20.0):
    names = ("eager", "autograph", "hand")
    return run_in_turns([(name, command, None) for name, command in zip(names, commands)], 3, timeout)


def judged(row, *commands):
    variants, failure = turns(*commands)
    assert failure is None, failure
    entry = {v.name: {"median": v.median(), "result": v.result} for v in variants}
    return suite.judge({"row": row.name, **entry}, row)


class Turns(unittest.TestCase):
    def test_all_well(self):
        variants, failure = turns(program(), program(time=1.0))
        self.assertIsNone(failure)
        self.assertEqual([v.median() for v in variants], [2.0, 1.0])
        self.assertEqual(variants[1].result["checksum"], "0x1")

    def test_crash_is_named(self):
        _, failure = turns(program(), program("import os; os.kill(os.getpid(), 11)"))
        self.assertIn("autograph", failure)
        self.assertIn("SIGSEGV", failure)

    def test_hang_is_named_and_ended(self):
        variants, failure = turns(program(), program("import time; time.sleep(60)"), timeout=2.0)
        self.assertIn("hang", failure)
        self.assertTrue(all(v.process.poll() is not None for v in variants))

    def test_exit_status_counts_after_the_result(self):
        _, failure = turns(program(), program("import atexit, os; atexit.register(os._exit, 3)"))
        self.assertIn("exit status 3", failure)

    def test_missing_result(self):
        _, failure = turns(program(), program("if i == 2: sys.exit(0)"))
        self.assertIn("no RESULT", failure)


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

    def test_late_flush_is_slow(self):
        self.assertEqual(self.compare("echo MEASURED mean ${ONLY_WITH:-0}5000.0 us")["verdict"], "slow")


if __name__ == "__main__":
    unittest.main()
