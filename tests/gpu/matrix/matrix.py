#!/usr/bin/env python3
"""Speed with the library over speed without, in every cell of a matrix: kernel time x host gap x ops a
step x sync. Then the cut that the library chooses against fixed chunk sizes, and the slowest launch
while a long sequence is first built. tests/gpu/run --matrix builds what is needed and starts this.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import page  # noqa: E402
from rounds import pin_to_one_node  # noqa: E402
from processes import Failed, environments, output_of, write_lines  # noqa: E402

FULL = {"kernel": (1, 2, 5, 10, 50, 500), "gap": (0, 1, 3, 5, 10, 50), "ops": (1, 2, 5, 20, 200)}
QUICK = {"kernel": (2, 10, 50), "gap": (0, 3, 10), "ops": (1, 5, 20, 200)}
CUT = {"kernel": (2, 5, 10), "gap": (0, 3), "ops": (5, 20, 200)}
QUICK_CUT = {"kernel": (2, 10), "gap": (0,), "ops": (20, 200)}
CHUNKS = (1, 4, 8, 16, 32, 64)

LEAST = 0.98            # no cell may be slower
HOST_BOUND_GOAL = 1.5   # median over cells where launching is the limit
CUT_GOAL = 0.95         # of the best fixed chunk
LATENCY_GOAL_US = 1000.0
MS = 30                 # to warm up, and to measure, a cell
RECHECK_MS = 100
RECHECKED = 36          # cells at most


def cells_of(axes):
    return list(itertools.product(axes["kernel"], axes["gap"], axes["ops"], (1, 0)))


def word(cell):
    return ":".join(map(str, cell))


class Matrix:
    def __init__(self, args):
        self.program = args.build / "gpu" / "matrix"
        self.latency_program = args.build / "gpu" / "latency"
        self.plain, self.preload = environments(args)
        text = output_of([self.program, "--calibrate"], self.plain, 60)
        self.base, self.rate = text.split()[1], text.split()[3]
        self.deadline = time.monotonic() + args.budget

    def time_left(self):
        return self.deadline - time.monotonic()

    def measure(self, cells, env, ms=MS):
        """Microseconds an op of each cell, by one process."""
        command = [self.program, self.base, self.rate, ms, *map(word, cells)]
        found = {}
        for line in output_of(command, env, 400).splitlines():
            if line.startswith("CELL "):
                _, name, us = line.split()
                found[name] = float(us)
        return {cell: found[word(cell)] for cell in cells}

    def compare(self, cells, rounds, ms=MS):
        """{cell: (eager, autograph)}: medians over processes that alternate."""
        times = defaultdict(lambda: ([], []))
        for number in range(rounds):
            order = ((0, self.plain), (1, self.preload))
            for which, env in order if number % 2 == 0 else order[::-1]:
                for cell, us in self.measure(cells, env, ms).items():
                    times[cell][which].append(us)
        return {cell: tuple(map(statistics.median, pair)) for cell, pair in times.items()}

    def cuts(self, cells, rounds=2):
        """{cell: {chunk: us}}, chunk 0 being the library's own choice. All in the same rounds."""
        times = defaultdict(lambda: defaultdict(list))
        for number in range(rounds):
            order = (0, *CHUNKS)
            for chunk in order if number % 2 == 0 else order[::-1]:
                env = {**self.preload, "AUTOGRAPH_CHUNK": str(chunk)}
                for cell, us in self.measure(cells, env).items():
                    times[cell][chunk].append(us)
        return {cell: {chunk: statistics.median(us) for chunk, us in by_chunk.items()}
                for cell, by_chunk in times.items()}

    def latency(self, rounds):
        """{variant: [(p50, p99, max, step)]}"""
        found = {"eager": [], "autograph": []}
        for _ in range(rounds):
            for name, env in (("eager", self.plain), ("autograph", self.preload)):
                words = output_of([self.latency_program, 1000, 20], env, 60).split()
                found[name].append((*map(float, words[2:7:2]), int(words[8])))
        return found


def ratio(pair):
    return pair[0] / pair[1]


def host_bound(cell, pair):
    """Launching is the limit: without the library an op takes a fifth more than both the kernel and
    the host's own work do."""
    return pair[0] > 1.2 * max(cell[0], cell[1])


def ratio_table(results):
    gaps = sorted({cell[1] for cell in results})
    lines = ["eager over autograph; columns: microseconds of host work between two launches", "",
             "| kernel us | ops a step | sync | " + " | ".join(f"{gap:>5}" for gap in gaps) + " |",
             "| --------: | ---------: | ---- | " + " | ".join("----:" for _ in gaps) + " |"]
    for kernel, ops, sync in sorted({(c[0], c[2], c[3]) for c in results}):
        row = [f"{ratio(results[kernel, gap, ops, sync]):5.2f}" for gap in gaps]
        lines.append(f"| {kernel:>9} | {ops:>10} | {'step' if sync else 'none'} | " + " | ".join(row) + " |")
    return lines


def describe(cell, pair):
    return (f"{ratio(pair):.3f} (kernel {cell[0]} us, gap {cell[1]} us, {cell[2]} ops, "
            f"{'sync per step' if cell[3] else 'no sync'}: {pair[0]:.2f} and {pair[1]:.2f} us an op)")


def mark(good):
    return "ok" if good else "MISSED"


def summary(results):
    """Text, and whether the goals are met."""
    order = sorted(results, key=lambda cell: ratio(results[cell]))
    low = [cell for cell in order if ratio(results[cell]) < LEAST]
    bound = [ratio(pair) for cell, pair in results.items() if host_bound(cell, pair)]
    middle = statistics.median(bound) if bound else None
    lines = [f"cells under {LEAST}: {len(low)} of {len(results)} [{mark(not low)}]",
             *(f"    {describe(cell, results[cell])}" for cell in (low[:20] or order[:1]))]
    if middle:
        lines.append(f"median over the {len(bound)} cells where launching is the limit: {middle:.2f} "
                     f"(goal {HOST_BOUND_GOAL}) [{mark(middle >= HOST_BOUND_GOAL)}]")
    return lines, not low and (middle is None or middle >= HOST_BOUND_GOAL)


def cut_summary(cuts):
    share = {cell: min(us[chunk] for chunk in CHUNKS) / us[0] for cell, us in cuts.items()}
    order = sorted(share, key=share.get)
    low = [cell for cell in order if share[cell] < CUT_GOAL]
    lines = [f"own cut against the best fixed chunk: median {statistics.median(share.values()):.2f}, "
             f"under {CUT_GOAL}: {len(low)} of {len(cuts)} [{mark(not low)}]", "",
             "| kernel:gap:ops:sync | own us | " + " | ".join(f"{chunk:>5}" for chunk in CHUNKS)
             + " | share |",
             "| ------------------- | -----: | " + " | ".join("----:" for _ in CHUNKS) + " | ----: |"]
    for cell in order[:12]:
        us = cuts[cell]
        lines.append(f"| {word(cell):19} | {us[0]:6.2f} | "
                     + " | ".join(f"{us[chunk]:5.2f}" for chunk in CHUNKS)
                     + f" | {share[cell]:5.2f} |")
    return lines, not low


def latency_summary(found):
    lines = ["launch calls in the first 20 steps of 1000 ops, us (medians over processes)", "",
             "| variant   |   p50 |   p99 |     max | largest max, in step |",
             "| --------- | ----: | ----: | ------: | -------------------: |"]
    for name, runs in found.items():
        worst = max(runs, key=lambda run: run[2])
        middle = [statistics.median(run[i] for run in runs) for i in range(3)]
        lines.append(f"| {name:9} | {middle[0]:5.2f} | {middle[1]:5.2f} | {middle[2]:7.1f} | "
                     f"{worst[2]:15.1f} in {worst[3]:>2} |")
    longest = statistics.median(run[2] for run in found["autograph"])
    lines += ["", f"longest launch while a sequence is built: {longest:.0f} us "
                  f"(goal {LATENCY_GOAL_US:.0f}) [{mark(longest < LATENCY_GOAL_US)}]"]
    return lines, longest < LATENCY_GOAL_US


def run(args, matrix, say):
    cells = cells_of(QUICK if args.quick else FULL)
    say([f"{len(cells)} cells; a kernel that does not spin takes {matrix.base} us, "
         f"{matrix.rate} cycles a us"])
    found, fast_launches = latency_summary(matrix.latency(3))
    say(found)
    results = matrix.compare(cells, args.rounds)
    low = [cell for cell in cells if ratio(results[cell]) < LEAST]
    if low and matrix.time_left() > 0:
        chosen = low[:RECHECKED]
        say([f"{len(low)} cells under {LEAST} at first; {len(chosen)} measured again, longer"])
        results.update(matrix.compare(chosen, 3, RECHECK_MS))
    lines, good = summary(results)
    say([*ratio_table(results), "", *lines])
    good &= fast_launches
    cuts = {}
    if matrix.time_left() > 0:
        cuts = matrix.cuts(cells_of(QUICK_CUT if args.quick else CUT), 1 if args.quick else 2)
        lines, well_cut = cut_summary(cuts)
        say(lines)
        good &= well_cut
    if args.out:
        write_lines(args.out / "matrix.jsonl", (
            json.dumps({"cell": word(cell), "eager_us": pair[0], "autograph_us": pair[1],
                        "chunks": cuts.get(cell)}) for cell, pair in results.items()))
    return good


def main():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --matrix", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a fifth of the cells, under 90 seconds")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each variant (2)")
    parser.add_argument("--strict", action="store_true", help="a missed goal fails the run")
    parser.add_argument("--out", type=Path, help="folder for matrix.txt and matrix.jsonl")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose section is rewritten (docs/gpu-results.md)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=None,
                        help="no further part begins after this (240, with --quick 70)")
    parser.add_argument("--simulated", action="store_true",
                        help="try this on the simulated driver; the times mean nothing")
    args = parser.parse_args()
    args.budget = args.budget or (70 if args.quick else 240)
    said = []

    def say(lines):
        said.extend([*lines, ""])
        print("\n".join(lines) + "\n", flush=True)
        if args.out:
            write_lines(args.out / "matrix.txt", said)

    pin_to_one_node()
    try:
        good = run(args, Matrix(args), say)
    except Failed as failure:
        print(f"FAIL: {failure}", file=sys.stderr)
        return 1
    if args.markdown:
        page.put_section(args.markdown, "Matrix", "\n".join(said))
    return 1 if args.strict and not args.simulated and not good else 0


if __name__ == "__main__":
    sys.exit(main())
