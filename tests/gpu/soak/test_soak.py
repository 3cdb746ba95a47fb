#!/usr/bin/env python3
"""Tests of the soak's judge, without a GPU: what grows, differs, fails or falls silent must be told so.

    python3 tests/gpu/soak/test_soak.py
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import curves
import soak

PROGRAM = """#!{python}
import os, sys, time
library, cycles = "AUTOGRAPH_STATS" in os.environ, "--cycles" in sys.argv
end, kept, done = time.monotonic() + 11, [], 0
while done < 4 if cycles else time.monotonic() < end:
    value = 7
    {fault}
    print(f"PHASE {{done % 2}} {{value:016x}} phase", flush=True)
    print("GPU", 1000000000 * (1 + done * {others}), flush=True)
    done += 1
    time.sleep(0 if cycles else 0.2)
print("END", done)
"""

# Knows the memory of every soak_driver, as it is told.
SMI = """#!{python}
import glob, time
start = time.monotonic()
while True:
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path).read().split("\\0")
        except OSError:
            continue
        if "{folder}/soak_driver" in words:
            seconds = time.monotonic() - start
            print(f"{{path.split('/')[2]}}, {{int({mib})}}", flush=True)
    time.sleep(0.3)
"""


class Judge(unittest.TestCase):
    def run_on(self, fault, mib=None, others=0, patience=90):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
            def script(name, text):
                path = Path(folder) / name
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
            script("soak_driver", PROGRAM.format(python=sys.executable, fault=fault, others=others))
            if mib:
                script("nvidia-smi", SMI.format(python=sys.executable, folder=folder, mib=mib))
            os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
            args = soak.parse_arguments(["--build", folder, "--programs", folder, "--library", "", "--only", "driver",
                                         "--seconds", "11", "--patience", str(patience)])
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = soak.Soak(args).run()
            text = out.getvalue()
            if status == 0:
                ElementTree.parse(Path(folder) / "soak" / "driver.svg")
                self.assertGreater(len((Path(folder) / "soak" / "driver.csv").read_text().splitlines()), 8)
        return status, text

    def test_flat(self):
        status, text = self.run_on("pass")
        self.assertEqual(status, 0, text)
        self.assertIn("| flat", text)

    def test_growth(self):
        status, text = self.run_on("kept.append(bytearray(b'x' * 1000000))")
        self.assertEqual(status, 1, text)
        self.assertIn("not flat: resident memory", text)

    def test_gpu_memory(self):
        """That of the process is judged where it is known, whatever others do."""
        status, text = self.run_on("pass", mib="500 + 20 * seconds")
        self.assertEqual(status, 1, text)
        self.assertIn("not flat: GPU memory of the process", text)
        status, text = self.run_on("pass", mib="500", others=1)
        self.assertEqual(status, 0, text)
        self.assertIn("500.0 -> 500.0", text)

    def test_difference(self):
        status, text = self.run_on("value = 8 if library and done == 9 else 7")
        self.assertEqual(status, 1, text)
        self.assertIn("1 phases differ", text)

    def test_silence(self):
        status, text = self.run_on("time.sleep(300 if library and done == 3 else 0)", patience=4)
        self.assertEqual(status, 1, text)
        self.assertIn("hang", text)

    def test_failure(self):
        status, text = self.run_on("library and sys.exit(9)")
        self.assertEqual(status, 1, text)
        self.assertIn("exit status 9", text)


class Curves(unittest.TestCase):
    def test_bounds(self):
        def line(last):
            return [(t, 100.0 if t < 20 else last) for t in range(30)]
        self.assertTrue(curves.is_flat(line(103.9), 1))
        self.assertFalse(curves.is_flat(line(104.1), 1))
        self.assertIsNone(curves.is_flat(line(100.0)[:5], 1))

    def test_each_phase_with_itself(self):
        """Phases that need different memory take more of the samples in one third than in another."""
        def phases(growth):
            return [(done, 100.0 + 50 * (done % 2) + growth * (done >= 20))
                    for done in range(30) for _ in range(1 + 5 * (done % 2 == (done >= 20)))]
        self.assertTrue(curves.is_flat(phases(0), 2))
        self.assertFalse(curves.is_flat(phases(0), 1))
        self.assertFalse(curves.is_flat(phases(6), 2))


def all_at_once():
    """Each test in a process of its own, as most of its time it waits. Whether one of them failed."""
    names = [f"{case.__name__}.{name}" for case in (Judge, Curves) for name in unittest.defaultTestLoader.getTestCaseNames(case)]
    running = [subprocess.Popen([sys.executable, __file__, name]) for name in names]
    return any([process.wait() for process in running])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        unittest.main()
    sys.exit(1 if all_at_once() else 0)
