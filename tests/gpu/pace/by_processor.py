#!/usr/bin/env python3
"""One program on each processor in turn: what it takes there, and what a loop of Python takes.

    tests/gpu/pace/by_processor.py build-gpu/examples/heat_static
    tests/gpu/pace/by_processor.py --library build-gpu/preload/libautograph.so python3 tests/gpu/programs/jax_step.py

Any program of the suite: it is told --paced and --reps. Its main thread makes two repetitions on each processor, and
the second is printed. The last lines are what it took on those at full speed and on the others.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processors import FULL, Processors, pin_to_one_node  # noqa: E402
from rounds import Failure, Process  # noqa: E402


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--library", help="to be preloaded")
    p.add_argument("command", nargs=argparse.REMAINDER, help="program and its options")
    args = p.parse_args()
    if not args.command:
        p.error("no program")
    return args


def measure(args, processors):
    """[(processor, seconds of the loop, microseconds of the program)]"""
    env = {**os.environ, **({"LD_PRELOAD": os.path.abspath(args.library)} if args.library else {})}
    command = [*args.command, "--paced", f"--reps={2 * len(processors.allowed)}"]
    process = Process("program", command, env, 120.0)
    found = []
    try:
        for processor in processors.allowed:
            with processors.wandering():
                seconds = processors.seconds(processor)
            for _ in range(2):
                process.await_ready()
                os.sched_setaffinity(process.process.pid, {processor})
                process.repeat()
            found.append((processor, seconds, process.times[-1]))
        os.sched_setaffinity(process.process.pid, processors.allowed)
        process.finish()
    finally:
        process.kill()
    return found


def main():
    args = parse_arguments()
    processors = Processors(pin_to_one_node() or os.sched_getaffinity(0))
    try:
        found = measure(args, processors)
    except (Failure, OSError) as error:
        print(error)
        return 1
    print("| processor | loop us | program us |\n| --------: | ------: | ---------: |")
    for processor, seconds, us in found:
        print(f"| {processor:9} | {seconds * 1e6:7.1f} | {us:10.3f} |")
    full = FULL * min(seconds for _, seconds, _ in found)
    for name, chosen in (("full speed", [us for _, seconds, us in found if seconds <= full]),
                         ("slower", [us for _, seconds, us in found if seconds > full])):
        if chosen:
            print(f"{name}: {min(chosen):.3f} to {max(chosen):.3f}, median {statistics.median(chosen):.3f} "
                  f"on {len(chosen)} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
