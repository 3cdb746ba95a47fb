#!/usr/bin/env python3
"""What is the most that cut and launching thread can give in a cell of the matrix?

    tests/gpu/matrix/best.py --build build-gpu

Each cell in which launching is the limit is measured with every fixed chunk size, launched by the program's thread and by the
submitter, and with the library's own choice. A setting is chosen for each cell by one half of the processes, and its share of the
time that could be saved (see bound.py) is that of the other half, so that luck does not count. What remains to the bound
cannot be had by choosing better.
"""

import argparse
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "profile")]
import bound  # noqa: E402
from matrix import CUT_WARM_MS, FULL, QUICK, WARM_MS, Matrix, cells_of, host_bound, is_long, word  # noqa: E402
from processes import Failed  # noqa: E402
from processors import pin_to_one_node  # noqa: E402

CHUNKS = (1, 2, 4, 8, 16, 32, 64)
OWN = "own"


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--library", type=Path, help="BUILD/preload/libautograph.so")
    p.add_argument("--quick", action="store_true", help="a fifth of the cells")
    p.add_argument("--sync", action="store_true", help="only cells with a sync a step")
    p.add_argument("--budget", type=float, default=400.0, help="no pair of rounds begins after so many seconds (400)")
    p.add_argument("--simulated", action="store_true", help="on the simulated driver; the times mean nothing")
    p.add_argument("--out", type=Path, help="folder for best.json")
    args = p.parse_args()
    args.library = (args.library or args.build / "preload" / "libautograph.so").resolve()
    args.env = []
    return args


def settings(preload):
    """{name: (environment, ms to learn in)}"""
    found = {OWN: (preload, WARM_MS)}
    for who in ("inline", "thread"):
        for chunk in CHUNKS:
            env = {**preload, "AUTOGRAPH_SUBMIT": who, "AUTOGRAPH_TEST_CHUNK": str(chunk)}
            found[f"{chunk} {who}"] = (env, CUT_WARM_MS)
    return found


def limited(matrix, cells):
    """{cell: eager us an op} where launching is the limit."""
    found = {cell: statistics.median(us) for cell, us in matrix.measure(cells, matrix.plain).items()}
    return {cell: us for cell, us in found.items() if host_bound(cell, (us, us))}


def measure(matrix, cells):
    """({setting: {cell: us}}, {cell: eager us}) of each half, all settings in each round; and how many rounds a half had."""
    halves, rounds = [defaultdict(lambda: defaultdict(list)) for _ in range(2)], 0
    eager = [defaultdict(list) for _ in range(2)]
    while not rounds or matrix.time_left() > 0:
        for which, half in enumerate(halves):
            order = list(settings(matrix.preload).items())
            for name, (env, warm_ms) in order if (rounds + which) % 2 == 0 else order[::-1]:
                for cell, us in matrix.measure(cells, env, warm_ms=warm_ms).items():
                    half[name][cell] += us
            for cell, us in matrix.measure(cells, matrix.plain).items():
                eager[which][cell] += us
        rounds += 1
        print(f"{matrix.budget - matrix.time_left():6.1f} s: {rounds} rounds", flush=True)

    def medians(times):
        return {cell: statistics.median(us) for cell, us in times.items()}
    return [({name: medians(times) for name, times in half.items()}, medians(its)) for half, its in zip(halves, eager)], rounds


def shares(halves, floors):
    """{cell: (own share, share of the best setting, its name)}, means of both directions."""
    found = {}
    for cell in floors:
        sides = []
        for (chosen_by, _), (measured, eager) in (halves, halves[::-1]):
            best = min(chosen_by, key=lambda name, by=chosen_by: by[name][cell])
            sides.append((*(bound.reached((eager[cell], measured[name][cell]), floors[cell]) for name in (OWN, best)), best))
        if all(value is not None for side in sides for value in side[:2]):
            found[cell] = (*(statistics.mean(side[i] for side in sides) for i in (0, 1)), " or ".join(sorted({side[2] for side in sides})))
    return found


def lines(found):
    def row(name, cells):
        own, best = (statistics.median(found[cell][i] for cell in cells) for i in (0, 1))
        return f"| {name} | {len(cells)} | {own:.0%} | {best:.0%} |"
    yield "| cells | number | own choice saves (median) | best fixed setting of each cell saves |"
    yield "| --- | --- | --- | --- |"
    yield row("all", list(found))
    for sync, ops in sorted({(cell[3], cell[2]) for cell in found}):
        yield row(f"{ops} ops and {'a' if sync else 'no'} sync", [cell for cell in found if (cell[3], cell[2]) == (sync, ops)])
    yield ""
    yield "| kernel:gap:ops:sync, those that could gain most | own | best | setting |"
    yield "| --- | --- | --- | --- |"
    for cell in sorted(found, key=lambda cell: found[cell][0] - found[cell][1])[:15]:
        own, best, name = found[cell]
        yield f"| {word(cell)} | {own:.0%} | {best:.0%} | {name} |"


def main():
    args = parse_arguments()
    pin_to_one_node()
    try:
        matrix = Matrix(args)
        cells = [cell for cell in cells_of(QUICK if args.quick else FULL) if not is_long(cell) and (cell[3] or not args.sync)]
        cells = list(limited(matrix, cells))
        floors, _ = matrix.floors(cells)
        halves, rounds = measure(matrix, cells)
    except Failed as failure:
        print(f"FAIL: {failure}", file=sys.stderr)
        return 1
    found = shares(halves, floors)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "best.json").write_text(json.dumps({"cells": {word(cell): values for cell, values in found.items()},
                                                        "us": [{name: {word(c): us for c, us in by.items()} for name, by in half.items()} for half, _ in halves]}))
    print(f"{len(cells)} cells, {rounds} processes of each setting in each half")
    print("\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
