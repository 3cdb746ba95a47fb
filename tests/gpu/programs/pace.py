"""What each program does besides its work: options, the harness's pace (rounds.py), the result line.

A program defines `repetition(iterations)`, which leaves the GPU idle, and a sha256 object that every
output goes into. Nothing here touches CUDA.
"""

import argparse
import hashlib
import json
import statistics
import sys
import time


def arguments(iters, *flags):
    parser = argparse.ArgumentParser()
    parser.add_argument("--iters", type=int, default=iters, help="iterations a repetition")
    parser.add_argument("--reps", type=int, default=7, help="measured repetitions")
    parser.add_argument("--paced", action="store_true", help="wait for a line on stdin before each")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


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
        start = time.perf_counter()
        repetition(args.iters)
        times.append((time.perf_counter() - start) * 1e6 / args.iters)
        if args.paced:
            print(f"TIME {times[-1]:.3f}", flush=True)
    if finish:
        finish()
    result = {"name": name, "iters": args.iters, "reps": args.reps,
              "us_per_iteration": round(statistics.median(times), 3),
              "checksum": digest.hexdigest()}
    print("RESULT " + json.dumps(result), flush=True)
