#!/usr/bin/env python3
"""Steps with several waits, each behind other kernels: how fast they are with the library.

    tests/gpu/pace/segments.py --build build-gpu [--against OLD/libautograph.so]

Each row runs eagerly, with the library, and with the other one, in turn; every other round goes backwards. The table has medians
of the rounds in us a launch, the eager time over each of the others, and in brackets the same of the fastest processes.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

# us of a kernel, us of host work, how the program waits, launches
ROWS = [(5, 3, "sync", (60,)), (5, 3, "sync", (60, 1)), (5, 3, "event", (60, 1)), (5, 3, "copy", (60, 1)), (5, 3, "sync", (10, 60)),
        (5, 3, "sync", (20, 5)), (20, 10, "sync", (20, 20, 1)), (2, 1, "sync", (60,)), (2, 1, "sync", (60, 1)), (2, 1, "event", (60, 1)),
        (2, 1, "copy", (60, 1)), (2, 1, "sync", (10, 60)), (1, 0, "sync", (20, 5)), (1, 0, "sync", (20, 20, 1))]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--against", type=Path, help="another libautograph.so")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--ms", type=int, default=600, help="of each half of a process; the second one counts (600)")
    p.add_argument("--simulated", action="store_true", help="on the simulated driver; the times mean nothing")
    return p.parse_args()


def time_of(args, row, library):
    kernel, host, wait, ops = row
    env = dict(os.environ)
    if library:
        env["LD_PRELOAD"] = str(library.resolve())
    if args.simulated:
        env["LD_LIBRARY_PATH"] = str(args.build / "tests" / "simdriver")
    folder = args.build / ("tests/gpu" if args.simulated else "gpu")
    command = [folder / "segments", *map(str, (kernel, host, args.ms, wait, *ops))]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    return float(out.split()[1])


def main():
    args = parse_arguments()
    variants = {"eagerly": None, "library": args.build / "preload" / "libautograph.so"}
    if args.against:
        variants["other"] = args.against
    others = list(variants)[1:]
    print("| kernel, host, wait, launches | " + " | ".join(variants) + " | times as fast: " + ", ".join(others) + " |")
    print("| --- " * (len(variants) + 2) + "|")
    for row in ROWS:
        times = {name: [] for name in variants}
        for turn in range(args.rounds):
            for name in list(variants) if turn % 2 else reversed(variants):
                times[name].append(time_of(args, row, variants[name]))
        middle = {name: statistics.median(its) for name, its in times.items()}
        ratios = [f"{middle['eagerly'] / middle[name]:.2f} ({min(times['eagerly']) / min(times[name]):.2f})" for name in others]
        print(f"| {row[0]} us, {row[1]} us, {row[2]}, {' + '.join(map(str, row[3]))} | " + " | ".join(f"{middle[name]:.2f}" for name in variants)
              + f" | {', '.join(ratios)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
