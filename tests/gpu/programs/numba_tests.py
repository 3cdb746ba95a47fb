"""numba's own CUDA tests, those of its installed package: runs the modules of --part (a folder of
numba.cuda.tests, or K/N for every N-th module of all) one test after the other and says how each ended.
After --seconds no further test begins. The tests print into a pit of their own, as only the line
"TEST name outcome" counts."""

import importlib
import json
import os
import pkgutil
import sys
import time
import unittest
import warnings

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import old_names  # noqa: F401  before numba
import numba
import pace

args = pace.arguments(1, part="1/1", seconds="60")
warnings.filterwarnings("ignore")


def module_names():
    """All modules of tests, in a fixed order. What asks for several GPUs, or measures, has no place here."""
    tests = importlib.import_module("numba.cuda.tests")
    found = []
    for folder in pkgutil.iter_modules(tests.__path__):
        if not folder.ispkg or folder.name in ("nocuda", "data", "benchmarks"):
            continue
        name = f"numba.cuda.tests.{folder.name}"
        package = importlib.import_module(name)
        found += [f"{name}.{module.name}" for module in pkgutil.iter_modules(package.__path__)
                  if module.name.startswith("test_")]
    return sorted(found)


def chosen():
    number, parts = map(int, args.part.split("/"))
    return module_names()[number - 1::parts]


def single_tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from single_tests(test)
        else:
            yield test


def outcome(test):
    """How one test ended, in a word; whole classes are set up for each test anew."""
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    for word, found in (("error", result.errors), ("failed", result.failures)):
        if found:
            print(f"{test.id()}: {found[0][1]}", file=sys.stderr)
            return word + " " + (found[0][1].strip().splitlines() or [""])[-1][:160]
    if result.skipped:
        return "skipped"
    if result.expectedFailures:
        return "expected-failure"
    if result.unexpectedSuccesses:
        return "unexpected-success"
    return "ok"


def main():
    say = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from numba import cuda
    cuda.current_context()
    stop_at = time.monotonic() + float(args.seconds)
    counts = {}
    for name in chosen():
        try:
            suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))
        except Exception as error:  # a module that cannot be loaded is an outcome as well
            say.write(f"TEST {name} not-loaded {type(error).__name__}\n")
            continue
        for test in single_tests(suite):
            if time.monotonic() > stop_at:
                break
            found = outcome(test)
            counts[found.split()[0]] = counts.get(found.split()[0], 0) + 1
            say.write(f"TEST {test.id()} {found}\n")
    say.write("RESULT " + json.dumps({"name": "numba_tests", "numba": numba.__version__, **counts}) + "\n")
    say.flush()


if __name__ == "__main__":
    main()
