#!/usr/bin/env python3
"""Where processors are short: copies of a program on a few processors, with each way of submitting in turn.

    tests/gpu/pace/crowd.py --build build-gpu --copies 4 python3 tests/gpu/programs/mlp20.py
    tests/gpu/pace/crowd.py --build build-gpu --copies 1 --quota 1.5 python3 tests/gpu/programs/mlp20.py
    tests/gpu/pace/crowd.py --build build-gpu --copies 1 --processors 4 --cores python3 tests/gpu/programs/mlp20.py --openmp

The copies work at the same time, each on any of the same processors, as many as there are copies unless --processors says more.
--quota limits how much of a processor all copies together may take, as a container does. --cores takes whole cores: both
processors of each, where a core has two. Prints the time of a step (the median over all copies and repetitions) and how fast
each way is, of AUTOGRAPH_SUBMIT=inline.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from processors import numbers, without_lowest  # noqa: E402
from quota import NoQuota, quota  # noqa: E402
from rounds import Failure, Process  # noqa: E402

WAYS = ("eager", "inline", "auto", "thread")
TIMEOUT_S = 120.0


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--copies", type=int, default=4, help="of the program (4)")
    p.add_argument("--processors", type=int, help="for all of them (as many as copies)")
    p.add_argument("--cores", action="store_true", help="whole cores make up the processors")
    p.add_argument("--quota", type=float, help="processors' time that all copies may take (no limit)")
    p.add_argument("--rounds", type=int, default=3, help="of all ways (3)")
    p.add_argument("--reps", type=int, default=10, help="repetitions of a copy (10)")
    p.add_argument("--ways", default="eager,inline,auto", help="of " + ",".join(WAYS))
    p.add_argument("command", nargs=argparse.REMAINDER, help="a gated program of the suite")
    return p.parse_args()


def environment(args, way):
    env = {name: value for name, value in os.environ.items() if not name.startswith("AUTOGRAPH")}
    if way != "eager":
        env.update(LD_PRELOAD=str((args.build / "preload" / "libautograph.so").resolve()), AUTOGRAPH_SUBMIT=way)
    return env


def chosen(count, cores):
    """So many processors that this process may use; None where there are too few."""
    found = without_lowest(os.sched_getaffinity(0), count)
    if cores:
        siblings = {frozenset(numbers(Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list").read_text())) for n in found}
        found = sum((sorted(core) for core in sorted(siblings, key=min) if len(core) > 1 and core <= set(found)), [])
    return found[:count] if len(found) >= count else None


def run(args, way, processors):
    """(times, checksums) of all copies."""
    os.sched_setaffinity(0, processors)     # the copies inherit it
    command = [*args.command, "--paced", "--gated", f"--reps={args.reps}"]
    copies = [Process(f"{way} {number}", command, environment(args, way), TIMEOUT_S) for number in range(args.copies)]
    try:
        for copy in copies:
            copy.await_loaded()
        for copy in copies:
            copy.open_gate()
        for _ in range(args.reps):
            for copy in copies:
                copy.await_ready()
            for copy in copies:
                copy.begin_repetition()
            for copy in copies:
                copy.end_repetition()
        for copy in copies:
            copy.finish()
        return [us for copy in copies for us in copy.times], {copy.result.get("checksum") for copy in copies}
    finally:
        for copy in copies:
            copy.kill()


def main():
    args = parse_arguments()
    found = subprocess.run([sys.executable, HERE.parent / "gpus.py"], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    if not int(found.stdout):
        print("SKIP: no GPU")
        return 0
    ways = args.ways.split(",")
    processors = chosen(args.processors or args.copies, args.cores)
    if not processors:
        print("SKIP: too few processors, or cores with two of them")
        return 0
    times, checksums = {way: [] for way in ways}, set()
    try:
        with quota(args.quota) if args.quota else contextlib.nullcontext():
            for number in range(args.rounds):
                for way in ways if number % 2 == 0 else ways[::-1]:
                    found, sums = run(args, way, processors)
                    times[way].append(statistics.median(found))
                    checksums |= sums
    except NoQuota as why:
        print(f"SKIP: {why}")
        return 0
    except Failure as failure:
        print(f"FAIL: {failure}")
        return 1
    for way, found in times.items():
        against = statistics.median(times["inline"]) / statistics.median(found) if "inline" in times else 1.0
        print(f"{args.copies} copies on {len(processors)} processors, {way:6}: {statistics.median(found):9.1f} us "
              f"({min(found):.1f} to {max(found):.1f}), {against:.3f}x of inline")
    print("results: " + ("identical" if len(checksums) == 1 else "DIFFERENT"))
    return 0 if len(checksums) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
