#!/usr/bin/env python3
"""Real programs, unmodified, with and without the library: what they compute is compared bit for bit.

Two runs without the library and one with it, each a process of its own, several at a time: nothing is
timed. tests/gpu/run --real builds what is needed and starts this. Exit status 1 where a result
differs or a program fails or hangs with the library only.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import page
import real_table
import results
from processes import environments, write_lines
from rounds import parse_result

HERE = Path(__file__).resolve().parent
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
ERRORS = ("graph builds failed", "graph uploads failed", "node updates failed", "graph launches failed")
NUMBA_PARTS = 6


@dataclass
class Program:
    name: str
    command: list
    needs: tuple = ()
    env: dict = field(default_factory=dict)
    tests: bool = False     # prints how each of many tests ended: compared test by test
    simulated: bool = False


def script(what, name, *args, needs=("torch",), **more):
    return Program(what, ["{python}", "{programs}/" + name + ".py", "--reps=1", *args], needs, **more)


def all_programs():
    """Those that take longest come first."""
    vision = ("torch", "torchvision")
    inductor = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "TORCHINDUCTOR_CACHE_DIR": "{folder}"}
    return [
        script("torch.compile, default mode", "compiled", "--mode=default", env=inductor),
        script("torch.compile, mode reduce-overhead", "compiled", "--mode=reduce-overhead",
               env=inductor),
        *(Program(f"numba's CUDA tests, part {number} of {NUMBA_PARTS}",
                  ["{python}", "{programs}/numba_tests.py", f"--part={number}/{NUMBA_PARTS}",
                   "--seconds={seconds}"], ("numba",), tests=True)
          for number in range(1, NUMBA_PARTS + 1)),
        script("PyTorch ConvNeXt of timm", "vision", "--model=timm:convnext_atto", "--iters=40",
               needs=("torch", "timm")),
        script("PyTorch ViT of timm", "vision", "--model=timm:vit_tiny_patch16_224", "--iters=40",
               needs=("torch", "timm")),
        script("PyTorch MobileNetV3", "vision", "--model=mobilenet_v3_small", "--iters=40",
               needs=vision),
        script("PyTorch ResNet-18, eager mode", "resnet18_eager", "--iters=40", needs=vision),
        script("PyTorch ResNet-18, TorchScript", "resnet18_script", "--iters=40", needs=vision),
        script("PyTorch training, dropout and Adam", "train_step", "--iters=100"),
        script("PyTorch training in mixed precision", "train_amp", "--iters=60"),
        script("PyTorch training with a DataLoader", "train_loader", "--iters=3"),
        script("PyTorch transformer", "transformer4", "--iters=60"),
        script("PyTorch transformer, TorchScript", "transformer4", "--script", "--iters=60"),
        script("PyTorch with its own CUDA graph", "torch_cuda_graph", "--iters=100"),
        script("PyTorch whole training step in its own CUDA graph", "train_step", "--graph",
               "--iters=100"),
        script("transformers generate()", "decode", needs=("torch", "transformers")),
        script("Triton loop", "triton_loop", "--iters=100", needs=("torch", "triton")),
        script("CuPy loop", "cupy_loop", "--iters=100", needs=("cupy",)),
        script("CuPy with its own CUDA graph", "cupy_loop", "--graph", "--iters=100",
               needs=("cupy",)),
        script("JAX training step", "jax_step", "--iters=100", needs=("jax",)),
        script("numba loop", "numba_loop", "--iters=60", needs=("numba",)),
        Program("heat equation, driver API", ["{bin}/heat_driver", "--reps=2"], simulated=True),
        Program("conjugate gradients, static cudart", ["{bin}/cg_static", "--reps=2"]),
        Program("published loop with its own CUDA graph",
                ["{bin}/loop_driver", "--graph", "--reps=2", "--steps=300"], simulated=True),
        Program("cuBLAS chain", ["{bin}/chain_shared", "--reps=2"]),
    ]


@dataclass
class Outcome:
    """How one process ended and what it said."""
    status: str             # "exit status 0", "hang", "killed by SIGSEGV", "out of time"
    output: str = ""
    errors: str = ""

    def ended_well(self):
        """A list of tests that was cut off is still worth a comparison."""
        return (self.status == "exit status 0" and self.checksum() is not None
                or self.status in ("exit status 0", "hang") and bool(self.tests()))

    def checksum(self):
        lines = [line for line in self.output.splitlines() if line.startswith("RESULT ")]
        return parse_result(lines[-1]).get("checksum") if lines else None

    def tests(self):
        """How each test ended, by name."""
        words = (line.split() for line in self.output.splitlines() if line.startswith("TEST "))
        return {line[1]: line[2] for line in words if len(line) > 2}

    def last_words(self):
        said = [line.strip() for line in self.errors.splitlines()
                if line.strip() and not line.startswith("autograph:")]
        return self.status + (f" ({said[-1][:160]})" if said else "")


def ended(process, timeout):
    """Waits for a process and ends all that it started where it hangs. Its files hold what it said."""
    try:
        code = process.wait(timeout=timeout)
        status = f"exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    except subprocess.TimeoutExpired:
        status = "hang"
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    return status


def run(command, env, timeout):
    """A session of its own, and files in place of pipes, so that what it leaves behind holds up nobody."""
    with tempfile.TemporaryFile(mode="w+", errors="replace") as out, \
            tempfile.TemporaryFile(mode="w+", errors="replace") as err:
        try:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, start_new_session=True)
        except OSError as error:
            return Outcome(str(error))
        status = ended(process, timeout)
        for stream in (out, err):
            stream.seek(0)
        return Outcome(status, out.read(), err.read())


def counted(errors):
    """What the library counted in all processes of a program: ops, share replayed, errors."""
    pairs = [tuple(map(int, pair)) for pair in re.findall(r"replayed (\d+) of (\d+) ops", errors)]
    ops = sum(pair[1] for pair in pairs)
    failed = sum(int(count) for text in ERRORS
                 for count in re.findall(rf"^autograph: .*  {text}: (\d+)", errors, re.MULTILINE))
    return {"ops": ops if pairs else None, "errors": failed if pairs else None,
            "replayed": sum(pair[0] for pair in pairs) / ops if ops else None}


def differing_tests(one, other):
    """Tests that both ran to an end and that ended differently."""
    a, b = one.tests(), other.tests()
    return [name for name in a if name in b and a[name] != b[name]]


def judge(program, eager, again, auto):
    """Verdict, identical, why. `eager` ended well."""
    if program.tests:
        return judge_tests(eager, again, auto)
    if not auto.ended_well():
        if not again.ended_well():
            return "not reproducible", None, f"without the library {again.last_words()}"
        return "FAIL", None, f"with the library {auto.last_words()}"
    if not again.ended_well() or eager.checksum() != again.checksum():
        return "not reproducible", None, "two runs without the library differ"
    if auto.checksum() != eager.checksum():
        return "FAIL", False, "results differ"
    return "ok", True, ""


def judge_tests(eager, again, auto):
    """Test by test; those that end differently without the library say nothing."""
    if auto.status not in ("exit status 0", "hang") or not auto.tests():
        return "FAIL", None, f"with the library {auto.last_words()}"
    shaky = set(differing_tests(eager, again))
    wrong = [name for name in differing_tests(eager, auto) if name not in shaky]
    both = [name for name in eager.tests() if name in auto.tests()]
    passed = sum(eager.tests()[name] == "ok" for name in both)
    why = f"{len(both)} tests compared, {passed} of them pass"
    if shaky:
        why += f"; {len(shaky)} not reproducible"
    if wrong:
        return "FAIL", False, f"{why}; {len(wrong)} end differently: {', '.join(wrong[:3])}"
    return "ok", True, why


class Real:
    def __init__(self, args):
        self.args = args
        plain, preload = environments(args)
        self.plain = {**plain, **DETERMINISTIC}
        self.preload = {**preload, **DETERMINISTIC, "AUTOGRAPH_STATS": "2"}
        self.stop_at = time.monotonic() + args.budget
        self.slots = threading.Semaphore(args.jobs)
        self.logs = []

    def words(self, program, folder):
        places = {"{bin}": str(self.args.build / "examples"), "{programs}": str(HERE / "programs"),
                  "{python}": sys.executable, "{folder}": folder, "{seconds}": f"{self.args.test_seconds:g}"}

        def filled(word):
            for key, value in places.items():
                word = word.replace(key, value)
            return word
        return ([filled(word) for word in program.command],
                {name: filled(value) for name, value in program.env.items()})

    def once(self, program, name, env, folder):
        """One process, as soon as a slot is free."""
        command, more = self.words(program, folder)
        with self.slots:
            left = self.stop_at - time.monotonic()
            if left <= 0:
                return Outcome("out of time")
            outcome = run(command, {**env, **more}, min(self.args.timeout, left + 20.0))
        self.logs.append(f"===== {program.name}: {name}: {' '.join(command)}\n{outcome.status}\n"
                         f"{outcome.output}\n--- stderr\n{outcome.errors}\n")
        return outcome

    def compare(self, program):
        """The first run alone says whether the program runs here at all, and leaves compiled code for the
        others where it keeps such."""
        entry = {"row": program.name, "verdict": "skipped", "identical": None}
        missing = [module for module in program.needs if importlib.util.find_spec(module) is None]
        if missing:
            return {**entry, "why": f"no {missing[0]}"}
        if not Path(self.words(program, "")[0][0]).exists():
            return {**entry, "why": "not built"}
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            eager = self.once(program, "eager", self.plain, folder)
            if eager.status == "out of time":
                return {**entry, "why": "out of time"}
            if not eager.ended_well():
                return {**entry, "why": f"does not run here without the library either, {eager.last_words()}"}
            auto = pool.submit(self.once, program, "autograph", self.preload, folder)
            again = pool.submit(self.once, program, "eager again", self.plain, folder)
            auto, again = auto.result(), again.result()
            if auto.status == "out of time" or again.status == "out of time":
                return {**entry, **counted(auto.errors), "why": "out of time"}
            verdict, identical, why = judge(program, eager, again, auto)
            if verdict == "FAIL" and identical is False and not program.tests:
                third = self.once(program, "eager, third run", self.plain, folder)
                if third.status != "out of time" and third.checksum() != eager.checksum():
                    verdict, identical, why = "not reproducible", None, "runs without the library differ"
        return {**entry, **counted(auto.errors), "verdict": verdict, "identical": identical, "why": why}


def chosen(args):
    return [program for program in all_programs()
            if (not args.only or fnmatch.fnmatch(program.name.lower(), f"*{args.only.lower()}*"))
            and (program.simulated or not args.simulated)]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --real", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="PATTERN", help="programs whose name holds PATTERN (* and ? allowed)")
    parser.add_argument("--jobs", type=int, metavar="J", default=6, help="processes at a time (6)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", default=100.0, help="of one process (100)")
    parser.add_argument("--test-seconds", type=float, metavar="SECONDS", default=20.0,
                        help="time of each part of numba's tests (20)")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=220.0,
                        help="no process begins after this (220)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--out", type=Path, help=f"folder for real.txt, {real_table.FILE} and real.log")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose section is rewritten (docs/gpu-results.md)")
    parser.add_argument("--list", action="store_true", help="name the programs and end")
    parser.add_argument("--simulated", action="store_true", help="try this on the simulated driver")
    return parser.parse_args()


def main():
    args = parse_arguments()
    programs = chosen(args)
    if args.list:
        print("\n".join(program.name for program in programs))
        return 0
    real = Real(args)
    made = {"commit": page.commit(), "origin": page.origin()}
    start = time.monotonic()
    order = [program.name for program in all_programs()]
    found = []
    with ThreadPoolExecutor(max(1, len(programs))) as pool:
        waiting = {pool.submit(real.compare, program) for program in programs}
        for done in as_completed(waiting):
            entry = {**done.result(), **made}
            found = results.merge(found, [entry], order)
            print(f"{time.monotonic() - start:6.1f} s  {entry['verdict']:8s} {entry['row']}"
                  + (f": {entry['why']}" if entry.get("why") else ""), flush=True)
            if args.out:
                write_lines(args.out / real_table.FILE, map(json.dumps, found))
                write_lines(args.out / "real.log", real.logs)
                write_lines(args.out / "real.txt", [real_table.table(found)])
    print("\n" + real_table.table(found), end="")
    if args.markdown:
        page.put_section(args.markdown, real_table.HEADING, real_table.text(found), made["origin"])
    return 1 if any(entry["verdict"] == "FAIL" for entry in found) else 0


if __name__ == "__main__":
    sys.exit(main())
