"""What each program does besides its work: options, the harness's pace (rounds.py), the result line.

A program defines `repetition(iterations)`, which leaves the GPU idle, and a sha256 object that every
output goes into. Nothing here touches CUDA, and no program touches it before it has its arguments.
"""

import argparse
import hashlib
import json
import statistics
import sys
import time


def arguments(iters, *flags, **words):
    """Options of every program, flags of this one, and options with a value (the default is given)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iters", type=int, default=iters, help="iterations a repetition")
    parser.add_argument("--reps", type=int, default=7, help="measured repetitions")
    parser.add_argument("--paced", action="store_true", help="wait for a line on stdin before each")
    parser.add_argument("--gated", action="store_true",
                        help="wait for a line on stdin once all modules are loaded")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    for word, value in words.items():
        parser.add_argument("--" + word, default=value)
    args = parser.parse_args()
    if args.gated:
        print("LOADED", flush=True)
        words = sys.stdin.readline().split()
        if len(words) > 1:  # "go 40": so many repetitions
            args.reps = int(words[1])
    return args


class Launches:
    """`with pace.launches:` around what submits the work of an iteration, without waiting for it: the
    time in there is the host's."""

    def __init__(self):
        self.seconds = 0.0
        self.used = False
        self.start = 0.0

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self.start
        self.used = True


launches = Launches()


def add(digest, *arrays):
    """Puts the bytes of NumPy arrays (or of torch tensors on the CPU) into a digest."""
    for array in arrays:
        if hasattr(array, "detach"):
            array = array.detach().contiguous().numpy()
        digest.update(array.tobytes())


def new_digest():
    return hashlib.sha256()


def wait_for_turn(args):
    if args.paced:
        print("READY", flush=True)
        sys.stdin.readline()


def run(name, args, repetition, digest, finish=None):
    """One repetition to warm up, then the measured ones, then `finish`, which may add to the digest."""
    repetition(args.iters)
    times = []
    for _ in range(args.reps):
        wait_for_turn(args)
        launches.seconds = 0.0
        start = time.perf_counter()
        repetition(args.iters)
        times.append((time.perf_counter() - start) * 1e6 / args.iters)
        if args.paced:
            host = f" HOST {launches.seconds * 1e6 / args.iters:.3f}" if launches.used else ""
            print(f"TIME {times[-1]:.3f}{host}", flush=True)
    if finish:
        finish()
    result = {"name": name, "iters": args.iters, "reps": args.reps,
              "us_per_iteration": round(statistics.median(times), 3) if times else None,
              "checksum": digest.hexdigest()}
    print("RESULT " + json.dumps(result), flush=True)
