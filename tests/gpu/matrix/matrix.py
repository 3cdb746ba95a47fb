#!/usr/bin/env python3
"""Speed with the library over speed without, in every cell of a matrix: kernel time x host gap x ops a
step x sync, and what launches that cost nothing would give there. Then the cut that the library chooses
against fixed chunk sizes, and the slowest launch while a long sequence is first built. tests/gpu/run
--matrix builds what is needed and starts this.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

GPU = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(GPU), str(GPU / "profile")]
import bound  # noqa: E402
import page  # noqa: E402
from loaded import free_library  # noqa: E402
from suite import part_of  # noqa: E402
from processors import pin_to_one_node  # noqa: E402
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
LATENCY_ROUNDS = 7
EAGER_WARM_MS = 5       # without the library
WARM_MS = 80            # for the library to learn a cell, its first trials included
CUT_WARM_MS = 30        # with a fixed chunk, where there are none
OWN_WARM_MS = 250       # where its own cut is compared with fixed ones: its trials are over, and the gate's first
                        # one, at the 1024th turn of a loop of 60 ops, is over (3.3 to 3.7 us an op) or far (5 us)
MS = 10                 # to measure it in, three times in each process
RECHECK_MS = 100
RECHECKED = 36          # cells at most
LONG_US = 20000         # cells with longer steps are measured by LONG_ROUNDS processes only
LONG_ROUNDS = 3
FREE_MS = 60
FREE_ROUNDS = 3
LEFT_FOR_REST = 0.25    # of the time: low cells again, cuts


def cells_of(axes, kernels=None, gaps=None):
    return list(itertools.product(kernels or axes["kernel"], gaps or axes["gap"], axes["ops"], (1, 0)))


def numbers(text):
    return tuple(map(int, text.split(",")))


def word(cell):
    return ":".join(map(str, cell))


def is_long(cell):
    return max(cell[0], cell[1]) * cell[2] > LONG_US


def part_of_cells(cells, number, parts):
    """The cells of one part: every so many, those with and without sync together."""
    return [cell for i, cell in enumerate(cells) if i // 2 % parts == number - 1]


class Matrix:
    def __init__(self, args):
        self.program = args.build / "gpu" / "matrix"
        self.latency_program = args.build / "gpu" / "latency"
        self.free_library = free_library(args.build)
        self.plain, self.preload = environments(args)
        text = output_of([self.program, "--calibrate"], self.plain, 60)
        self.base, self.rate = text.split()[1], text.split()[3]
        self.start = time.monotonic()
        self.budget = args.budget

    def time_left(self):
        return self.start + self.budget - time.monotonic()

    def measure(self, cells, env, ms=MS, warm_ms=EAGER_WARM_MS, flags=()):
        """Microseconds an op of each cell, three times by one process."""
        command = [self.program, *flags, self.base, self.rate, warm_ms, ms, *map(word, cells)]
        found = {}
        for line in output_of(command, env, 400).splitlines():
            if line.startswith("CELL "):
                name, *us = line.split()[1:]
                found[name] = list(map(float, us))
        return {cell: found[word(cell)] for cell in cells}

    def compare(self, cells, rounds, library_warm_ms, ms=MS):
        """{cell: (eager, autograph)}, medians over processes that alternate, and how many processes there
        were of each. No round is begun that would end too late; two are made in any case."""
        times = defaultdict(lambda: ([], []))
        until, slowest, made = self.time_left() * LEFT_FOR_REST, 0.0, 0
        for number in range(rounds):
            if number >= 2 and self.time_left() - slowest < until:
                break
            begun = time.monotonic()
            chosen = [cell for cell in cells if number < LONG_ROUNDS or not is_long(cell)]
            order = ((0, self.plain), (1, self.preload))
            for which, env in order if number % 2 == 0 else order[::-1]:
                warm_ms = library_warm_ms if which else EAGER_WARM_MS
                for cell, us in self.measure(chosen, env, ms, warm_ms).items():
                    times[cell][which].extend(us)
            slowest, made = time.monotonic() - begun, number + 1
            print(f"{self.budget - self.time_left():6.1f} s  round {made} of {len(chosen)} cells", flush=True)
        return {cell: tuple(map(statistics.median, pair)) for cell, pair in times.items()}, made

    def cuts(self, cells, rounds):
        """{cell: {chunk: us}}, chunk 0 being the library's own choice. All in the same rounds."""
        times = defaultdict(lambda: defaultdict(list))
        for number in range(rounds):
            order = (0, *CHUNKS)
            for chunk in order if number % 2 == 0 else order[::-1]:
                env = {**self.preload, "AUTOGRAPH_TEST_CHUNK": str(chunk)}
                for cell, us in self.measure(cells, env, warm_ms=CUT_WARM_MS if chunk else OWN_WARM_MS).items():
                    times[cell][chunk].extend(us)
        return {cell: {chunk: statistics.median(us) for chunk, us in by_chunk.items()}
                for cell, by_chunk in times.items()}

    def floors(self, cells):
        """{cell: the least time an op}, see bound.py, and how late a program sees that a kernel has ended.
        Nothing where libautograph_free.so was not built."""
        if not self.free_library.exists():
            return {}, None
        env = {**self.plain, "LD_PRELOAD": str(self.free_library)}
        loops = sorted({(0, gap, ops, sync) for _, gap, ops, _ in cells for sync in (0, 1)})
        launched, synced = (1, 0, 200, 0), (1, 0, 1, 1)
        free, eager = defaultdict(list), defaultdict(list)
        for _ in range(FREE_ROUNDS):
            for cell, us in self.measure(loops, env, FREE_MS, 0, ["--unchecked"]).items():
                free[cell[1:]].extend(us)
            for cell, us in self.measure([launched, synced], self.plain).items():
                eager[cell].extend(us)
        free = {key: statistics.median(us) for key, us in free.items()}
        base = float(self.base)
        late = bound.answer_us(statistics.median(eager[launched]), statistics.median(eager[synced]), base)
        return {cell: bound.floor_us(cell, free, base, late) for cell in cells}, late

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


def ratio_table(results, floors):
    gaps = sorted({cell[1] for cell in results})
    lines = ["eager over autograph; behind the stroke, where launching is the limit, what launches that cost nothing "
             "would give; columns: microseconds of host work between two launches", "",
             "| kernel us | ops a step | sync | " + " | ".join(f"{gap:>12}" for gap in gaps) + " |",
             "| --------: | ---------: | ---- | " + " | ".join("-----------:" for _ in gaps) + " |"]
    for kernel, ops, sync in sorted({(c[0], c[2], c[3]) for c in results}):
        row = [ratio_cell((kernel, gap, ops, sync), results, floors) for gap in gaps]
        lines.append(f"| {kernel:>9} | {ops:>10} | {'step' if sync else 'none'} | " + " | ".join(row) + " |")
    return lines


def ratio_cell(cell, results, floors):
    if cell not in results:
        return f"{'-':>12}"
    pair = results[cell]
    most = f" / {pair[0] / floors[cell]:5.2f}" if cell in floors and host_bound(cell, pair) else ""
    return f"{ratio(pair):.2f}{most}".rjust(12)


def describe(cell, pair):
    return (f"{ratio(pair):.3f} (kernel {cell[0]} us, gap {cell[1]} us, {cell[2]} ops, "
            f"{'sync per step' if cell[3] else 'no sync'}: {pair[0]:.2f} and {pair[1]:.2f} us an op)")


def mark(good):
    return "ok" if good else "MISSED"


def summary(results, floors=None):
    """Text, and whether the goals are met."""
    order = sorted(results, key=lambda cell: ratio(results[cell]))
    low = [cell for cell in order if ratio(results[cell]) < LEAST]
    limited = [cell for cell, pair in results.items() if host_bound(cell, pair)]
    middle = statistics.median(ratio(results[cell]) for cell in limited) if limited else None
    lines = [f"cells under {LEAST}: {len(low)} of {len(results)} [{mark(not low)}]",
             *(f"    {describe(cell, results[cell])}" for cell in (low[:20] or order[:1]))]
    if middle:
        lines.append(f"median over the {len(limited)} cells where launching is the limit: {middle:.2f} "
                     f"(goal {HOST_BOUND_GOAL}) [{mark(middle >= HOST_BOUND_GOAL)}]")
        lines += bound_summary(results, floors, [cell for cell in limited if cell in (floors or {})])
    return lines, not low and (middle is None or middle >= HOST_BOUND_GOAL)


def bound_summary(results, floors, cells):
    if not cells:
        return []
    most = {cell: results[cell][0] / floors[cell] for cell in cells}
    share = statistics.median(ratio(results[cell]) / most[cell] for cell in cells)
    saved = [bound.reached(results[cell], floors[cell]) for cell in cells]
    saved = statistics.median(value for value in saved if value is not None)
    return [f"launches that cost nothing would give there: median {statistics.median(most.values()):.2f}; "
            f"reached of that: {share:.0%} of the ratio, {saved:.0%} of the time that could be saved (medians); "
            f"a bound of under {HOST_BOUND_GOAL} have {sum(value < HOST_BOUND_GOAL for value in most.values())} "
            f"of these {len(cells)} cells"]


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


def measure(args, matrix, found, commit):
    """Adds what is measured to what earlier parts have found."""
    cells = part_of_cells(cells_of(QUICK if args.quick else FULL, args.kernels, args.gaps), *args.part)
    cut_cells = part_of_cells(cells_of(QUICK_CUT if args.quick else CUT), *args.part)
    print(f"{len(cells)} cells; a kernel that does not spin takes {matrix.base} us, {matrix.rate} cycles a us",
          flush=True)
    if args.part[0] == 1:
        found.latency = matrix.latency(LATENCY_ROUNDS)
        print("longest launches are measured: they want a machine on which nobody makes contexts, what follows does not",
              flush=True)
    floors, late = matrix.floors(cells)
    found.floors.update(floors)
    results, rounds = matrix.compare(cells, args.rounds, args.warm)
    low = [cell for cell in cells if ratio(results[cell]) < LEAST]
    made = (f"{len(cells)} cells: {rounds} processes of each variant, alternating, three times each (steps of more "
            f"than {LONG_US / 1000:.0f} ms: at most {LONG_ROUNDS} processes)")
    if late is not None:
        made += f"; that a kernel has ended is seen after {late:.1f} us"
    if low and matrix.time_left() > 0:
        chosen = low[:RECHECKED]
        made += f"; {len(low)} cells under {LEAST} at first, {len(chosen)} measured again, longer"
        results.update(matrix.compare(chosen, 3, args.warm, RECHECK_MS)[0])
    found.results.update(results)
    found.made.append(made)
    if args.out:
        found.save(args.out, commit)
    if cut_cells and not (args.kernels or args.gaps) and matrix.time_left() > 0:
        found.cuts.update(matrix.cuts(cut_cells, 1 if args.quick else 3))


class Found:
    """What was measured, by this part and earlier ones of the same commit. The file matrix.jsonl has a line
    for each cell, and others for the rest."""

    def __init__(self):
        self.results, self.floors, self.cuts, self.latency, self.made = {}, {}, {}, None, []

    def load(self, folder, commit):
        path = folder / "matrix.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            entry = json.loads(line)
            if entry.get("commit") != commit:
                continue
            if "cell" in entry:
                cell = tuple(map(int, entry["cell"].split(":")))
                self.results[cell] = (entry["eager_us"], entry["autograph_us"])
                if entry["floor_us"] is not None:
                    self.floors[cell] = entry["floor_us"]
                if entry["chunks"]:
                    self.cuts[cell] = {int(chunk): us for chunk, us in entry["chunks"].items()}
            else:
                self.latency, self.made = entry["latency"], entry["made"]

    def save(self, folder, commit):
        write_lines(folder / "matrix.jsonl", (
            json.dumps({**entry, "commit": commit}) for entry in
            [*({"cell": word(cell), "eager_us": pair[0], "autograph_us": pair[1], "floor_us": self.floors.get(cell),
                "chunks": self.cuts.get(cell)} for cell, pair in self.results.items()),
             {"latency": self.latency, "made": self.made}]))

    def lines(self):
        """All of it as text, and whether the goals are met."""
        lines, good = summary(self.results, self.floors)
        lines = [*self.made, "", *ratio_table(self.results, self.floors), "", *lines]
        for found, summed in ((self.latency, latency_summary), (self.cuts, cut_summary)):
            if found:
                more, well = summed(found)
                lines += ["", *more]
                good &= well
        return lines, good


def main():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --matrix", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a fifth of the cells, under 90 seconds")
    parser.add_argument("--kernels", metavar="US,US...", type=numbers, help="only cells of these kernels, and no cuts")
    parser.add_argument("--gaps", metavar="US,US...", type=numbers, help="only cells with that much host work, and no cuts")
    parser.add_argument("--part", metavar="K/N", type=part_of, default=(1, 1),
                        help="the K-th of N parts of the cells; with the same --out they add up")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="processes of each variant, where the time is enough (7, with --quick 3)")
    parser.add_argument("--warm", metavar="MS", type=float, default=WARM_MS,
                        help=f"how long the library learns a cell before that is measured ({WARM_MS}); from 1000 on it has compared who launches")
    parser.add_argument("--strict", action="store_true", help="a missed goal fails the run")
    parser.add_argument("--out", type=Path, help="folder for matrix.txt and matrix.jsonl")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose section is rewritten (docs/gpu-results.md)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=None,
                        help="how long all may take; what is late gets fewer rounds (430, with --quick 80)")
    parser.add_argument("--simulated", action="store_true",
                        help="try this on the simulated driver; the times mean nothing")
    args = parser.parse_args()
    args.budget = args.budget or (80 if args.quick else 430)
    args.rounds = args.rounds or (3 if args.quick else 7)
    found, commit = Found(), page.commit()
    if args.out and args.part[1] > 1:
        found.load(args.out, commit)
    pin_to_one_node()
    try:
        measure(args, Matrix(args), found, commit)
    except Failed as failure:
        print(f"FAIL: {failure}", file=sys.stderr)
        return 1
    lines, good = found.lines()
    print("\n".join(lines))
    if args.out:
        found.save(args.out, commit)
        write_lines(args.out / "matrix.txt", lines)
    if args.markdown:
        page.put_section(args.markdown, "Matrix", "\n".join(lines))
    return 1 if args.strict and not args.simulated and not good else 0


if __name__ == "__main__":
    sys.exit(main())
