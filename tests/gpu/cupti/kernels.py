#!/usr/bin/env python3
"""What the GPU really ran, with and without the library, counted by CUPTI: every kernel and memset by
name, and their order on each stream. Exit status 1 where the two differ. tests/gpu/run --kernels
builds what is needed and starts this.
"""

import argparse
import fnmatch
import importlib.util
import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import page  # noqa: E402
from processes import Failed, environments, run_once, write_lines  # noqa: E402

SHORT = ["--reps=1", "--steps=150"]
# What is run, and the Python modules that it needs.
PROGRAMS = [
    ("loop, static cudart", ["{bin}/loop_static", *SHORT], ()),
    ("loop, shared cudart", ["{bin}/loop_shared", *SHORT], ()),
    ("loop, driver API", ["{bin}/loop_driver", *SHORT], ()),
    ("loop, no sync, changing arguments", ["{bin}/loop_static", "--sync=none", "--changing", *SHORT], ()),
    ("loop with memsets", ["{bin}/loop_static", "--memsets", *SHORT], ()),
    ("loop on two streams", ["{bin}/loop_static", "--fork", *SHORT], ()),
    ("loop with timing events", ["{bin}/loop_driver", "--timing", *SHORT], ()),
    ("loop with a graph of its own", ["{bin}/loop_static", "--graph", *SHORT], ()),
    ("loop that never repeats", ["{bin}/loop_static", "--never-repeat", *SHORT], ()),
    ("heat", ["{bin}/heat_static", "--reps=1"], ()),
    ("cuBLAS chain", ["{bin}/chain_shared", "--reps=1", "--passes=60"], ()),
    *((name, ["{gpu}/lib_" + name.lower()], ())
      for name in ("cuFFT", "cuSOLVER", "cuSPARSE", "cuRAND", "Thrust")),
    ("ResNet-18, TorchScript", ["{python}", "{programs}/resnet18_script.py", "--reps=1", "--iters=40"],
     ("torch", "torchvision")),
    ("ResNet-18, eager mode", ["{python}", "{programs}/resnet18_eager.py", "--reps=1", "--iters=40"],
     ("torch", "torchvision")),
    ("PyTorch training", ["{python}", "{programs}/train_step.py", "--reps=1", "--iters=40"], ("torch",)),
    ("Triton loop", ["{python}", "{programs}/triton_loop.py", "--reps=1", "--iters=40"],
     ("torch", "triton")),
    ("CuPy loop", ["{python}", "{programs}/cupy_loop.py", "--reps=1", "--iters=40"], ("cupy",)),
    ("JAX training step", ["{python}", "{programs}/jax_step.py", "--reps=1", "--iters=40"], ("jax",)),
]


@dataclass
class Ran:
    """What one program ran, all its processes together."""
    counts: Counter = field(default_factory=Counter)
    graphed: int = 0
    streams: list = field(default_factory=list)     # (launches, hash), sorted
    all: list = field(default_factory=list)         # the same over all streams, per process
    dropped: int = 0
    seen: int = None        # ops that the library says it saw
    result: str = None      # the checksum that the program printed

    def total(self):
        return sum(self.counts.values())


def read(folder):
    ran = Ran()
    files = sorted(Path(folder).glob("ran.*.txt"))
    for line in (line for path in files for line in path.read_text(errors="replace").splitlines()):
        kind, rest = line.split(" ", 1)
        if kind == "count":
            count, graphed, name = rest.split(" ", 2)
            ran.counts[name] += int(count)
            ran.graphed += int(graphed)
        elif kind == "stream":
            ran.streams.append(tuple(rest.split()))
        elif kind == "all":
            ran.all.append(tuple(rest.split()))
        elif kind == "dropped":
            ran.dropped += int(rest)
    ran.streams.sort()
    ran.all.sort()
    if not files:
        raise Failed("nothing was written down: was the injected library loaded?")
    if not ran.total():
        raise Failed("CUPTI reported no kernel")
    return ran


def run(command, env, injected):
    with tempfile.TemporaryDirectory() as folder:
        done = run_once(command, {**env, "CUDA_INJECTION64_PATH": str(injected), "AG_RAN_DIR": folder},
                        150)
        ran = read(folder)
    found = re.search(r"replayed \d+ of (\d+) ops", done.stderr)
    ran.seen = int(found[1]) if found else None
    found = re.search(r"checksum[\"=: ]+(\w+)", done.stdout)
    ran.result = found[1] if found else None
    return ran


def differences(eager, auto):
    """Names whose count differs."""
    return [f"{name}: {eager.counts[name]} and {auto.counts[name]}"
            for name in sorted(eager.counts | auto.counts) if eager.counts[name] != auto.counts[name]]


def judge(eager, auto):
    """(verdict, counts, order, why)"""
    if eager.dropped or auto.dropped:
        return "FAIL", "-", "-", ["CUPTI lost records"]
    different = differences(eager, auto)
    if different:
        return "FAIL", "DIFFER", "-", different
    if eager.result != auto.result:
        return "FAIL", "equal", "-", ["the results differ"]
    if eager.streams == auto.streams:
        return "ok", "equal", "equal", []
    if eager.all == auto.all:
        return "ok", "equal", "equal over all streams", []
    return "FAIL", "equal", "DIFFERS", [f"{len(eager.streams)} and {len(auto.streams)} streams"]


def row_of(name, eager, auto, verdict, counts, order):
    own = eager.graphed
    unseen = "-" if auto.seen is None else str(max(0, eager.total() - own - auto.seen))
    return [name, str(eager.total()), str(auto.total()), f"{auto.graphed / auto.total():.1%}", counts,
            order, unseen, verdict]


def table(rows):
    head = ["program", "ran eagerly", "with the library", "in graphs", "counts", "order per stream",
            "not seen by the library", "verdict"]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
            for line in lines]


def why_not(command, modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"no {module}"
    return None if Path(command[0]).exists() else f"{Path(command[0]).name} was not built"


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --kernels", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="PATTERN", default="", help="programs whose name holds PATTERN")
    parser.add_argument("--quick", action="store_true", help="without the Python programs")
    parser.add_argument("--out", type=Path, help="folder for kernels.txt")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose section is rewritten (docs/gpu-results.md)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--simulated", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse_arguments()
    injected = args.build / "gpu" / "libran.so"
    if not injected.exists():
        print("SKIP: CUPTI was not found, so that libran.so was not built")
        return 0
    plain, preload = environments(args)
    preload = {**preload, "AUTOGRAPH": "1", "AUTOGRAPH_FORCE": "1", "AUTOGRAPH_STATS": "1"}
    places = {"{bin}": args.build / "examples", "{gpu}": args.build / "gpu",
              "{programs}": HERE.parent / "programs", "{python}": sys.executable}
    rows, failed = [], False
    start = time.monotonic()
    for name, words, modules in PROGRAMS:
        if not fnmatch.fnmatch(name.lower(), f"*{args.only.lower()}*") or (args.quick and modules):
            continue
        command = words
        for key, value in places.items():
            command = [word.replace(key, str(value)) for word in command]
        reason = why_not(command, modules)
        if reason:
            rows.append([name, *["-"] * 6, f"skipped: {reason}"])
            continue
        try:
            eager = run(command, plain, injected)
        except Failed as failure:
            rows.append([name, *["-"] * 6, "skipped: does not run under CUPTI without the library either"])
            print(f"{name}: {failure}", flush=True)
            continue
        try:
            auto = run(command, preload, injected)
            verdict, counts, order, why = judge(eager, auto)
            if verdict == "FAIL" and judge(eager, run(command, plain, injected))[0] == "FAIL":
                verdict = "unstable: two eager runs differ as well"
            rows.append(row_of(name, eager, auto, verdict, counts, order))
        except Failed as failure:
            verdict, why = "FAIL", [str(failure)]
            rows.append([name, *["-"] * 6, "FAIL"])
        failed |= verdict == "FAIL"
        print(f"{time.monotonic() - start:6.1f} s  {verdict}  {name}", *why[:12], sep="\n    ", flush=True)
    lines = table(rows)
    if args.out:
        write_lines(args.out / "kernels.txt", lines)
    if args.markdown:
        page.put_section(args.markdown, "What the GPU ran", "\n".join(lines))
    print("\n" + "\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
