#!/usr/bin/env python3
"""How much of the time that launches cost is saved, in one process?

    ./tests/gpu/run --turns --processes 12

Each program runs under libautograph_turns.so (tests/bench/turns.c): in spans of 120 ms in turn it launches eagerly (e), by
graphs that its own thread launches (i), and by launches that cost nothing (f); then eagerly, by graphs and single launches that
the submitter makes (t), and again by launches that cost nothing. So the library fits its cuts to one way at a time, as it does
where nobody compares; it takes the way that is faster.
What could be saved is the time of an op in e less that in f, where the GPU's time does not count. Programs that need their results
have m for f: eager launches, and what could be saved is what they take by the clock. A share is that of the medians of
all spans, each compared with its neighbours of the same turn; behind it stands the interval that holds 95 % of what other draws of
as many turns give. Whatever the program computes in f is wrong, so the result is not compared here.
"""

import argparse
import fnmatch
import json
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "profile")]
from loaded import library_variant  # noqa: E402
from rounds import Failure, Process  # noqa: E402
from rows import framework_rows  # noqa: E402
from share import ROWS  # noqa: E402
from suite import Suite  # noqa: E402

WAYS = "eif,etf"
NOT_FREE = "eim,etm"
TOGETHER = "eit"    # of processes that wait for each other: all in one set, and where one launches nothing, the others wait for ever
# generate() goes on with what it reads back. ResNet-18 may hang on the GPU in the turn behind that of launches that do nothing,
# also if that turn is eager: some kernel seems to wait for what another one leaves.
NEEDS_RESULTS = ("transformers generate()", "PyTorch ResNet-18, eager mode")
DRAWS = 1000
TIMEOUT_S = 90.0
LOADED = 3      # processes of each program whose modules load at the same time


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--library", help="libautograph.so; not used, as libautograph_turns.so has all of it")
    p.add_argument("--processes", type=int, default=1, help="of each program (1)")
    p.add_argument("--seconds", type=float, default=4.0, help="of each set of ways in a process; the last two thirds count (4)")
    p.add_argument("--budget", type=float, default=480.0, help="no process begins after so many seconds (480)")
    p.add_argument("--only", default="*", help="rows whose name matches one of these, with commas between")
    p.add_argument("--ways", help="others for all rows, as tests/bench/turns.c has them")
    p.add_argument("--out", type=Path, help="folder for turns.json and turns.log")
    p.add_argument("--with", dest="others", type=Path, nargs="*", default=[], metavar="FILE",
                   help="turns.json of earlier runs on the same machine, which count as well")
    args = p.parse_args()
    args.library = library_variant(args.build, "turns").resolve()
    if not args.library.exists():
        p.error(f"{args.library} is missing; ./tests/gpu/run --turns builds it")
    args.env, args.simulated = [], False
    return args


def turns_of(spans, ways):
    """A dictionary of the ways' rates for each turn that is whole: [{way: (rate, the submitter's share of a processor, the
    launches' share of the time)}]."""
    found, turn = [], {}
    for way, rate, cpu, _, calls in spans:
        if way in turn:     # the order goes forth and back, so a turn ends where a way comes again
            found.append(turn)
            turn = {}
        turn[way] = (rate, cpu, calls)
    return [turn for turn in [*found, turn] if len(turn) == len(ways)]


def speed_if_free(turns):
    """Of launches that cost nothing, of e; None: nobody knows."""
    if "f" in turns[0]:
        return statistics.median(turn["f"][0] / turn["e"][0] for turn in turns)
    return 1 / (1 - statistics.median(turn["m"][2] for turn in turns)) if "m" in turns[0] else None


def figures(turns, way):
    """Speed of a way and of free launches, of e; the share that the way saves (None: nothing to save)."""
    def speed(which):
        return statistics.median(turn[which][0] / turn["e"][0] for turn in turns)
    free = speed_if_free(turns)
    savable = 1 - 1 / free if free else 0
    return speed(way), free, (1 - 1 / speed(way)) / savable if savable > 0.02 else None


def interval(turns, way):
    """Of the share."""
    chance = random.Random(1)
    found = [figures(chance.choices(turns, k=len(turns)), way)[2] for _ in range(DRAWS)]
    found = sorted(value for value in found if value is not None)
    return (found[len(found) // 40], found[-len(found) // 40 - 1]) if len(found) > 40 else (None, None)


def percent(value):
    return "-" if value is None else f"{value:.0%}"


def by_way(turns):
    return {way: [turn for turn in turns if way in turn] for way in "it"}


def are_few(turns):
    return min(map(len, by_way(turns).values())) < 3


def line_of(name, turns):
    of = by_way(turns)
    if are_few(turns):
        return f"| {name} | - | too few turns | | | | | |"
    words = [name, f"{len(of['i'])}, {len(of['t'])}", f"{statistics.median(1 / turn['e'][0] for turn in turns):.1f}"]
    for way in "it":
        speed, free, share = figures(of[way], way)
        low, high = interval(of[way], way)
        words.append(f"{speed:.2f}x" + ("" if share is None else f", {percent(share)} ({percent(low)} to {percent(high)})"))
    cpu, saved = statistics.mean(turn["t"][1] for turn in of["t"]), figures(of["t"], "t")[0] - 1
    words += [f"{free:.2f}x" if free else "-", f"{cpu:.2f}", "-" if saved < 0.01 else f"{cpu / saved:.1f}"]
    return "| " + " | ".join(words) + " |"


HEAD = ("| program | turns | eager us an op | by its own thread, saved | by the submitter, saved | "
        "bound | processors | processor s for each s saved |\n| --- | --- | --- | --- | --- | --- | --- | --- |")


class Turns:
    def __init__(self, args):
        self.args = args
        self.suite = Suite(args)
        self.log = []
        self.ways = {}

    def start(self, row):
        self.ways[row.name] = ways = self.args.ways or (
            TOGETHER if row.gpus > 1 else NOT_FREE if row.name in NEEDS_RESULTS else WAYS)
        command = [*self.suite.command(row), "--gated", "--reps=1000000"]
        env = {**self.suite.preload_env(row.env), "AG_TURNS": ways, "AG_TURNS_SECONDS": str(self.args.seconds)}
        return Process(row.name, command, env, TIMEOUT_S)

    def turns(self, process):
        """What one process says, or nothing where it failed."""
        found = []
        try:
            process.open_gate()
            for ways in self.ways[process.name].split(","):
                line = process.await_line("TURNS ")
                found += turns_of(json.loads(line[len("TURNS "):])["spans"], ways)
        except Failure as error:
            self.log.append(f"{error}\n")
        process.kill()
        self.log.append(process.log())
        return found

    def measure(self, rows):
        found, begun = {row.name: [] for row in rows}, time.monotonic()
        for at in range(0, self.args.processes, LOADED):
            if time.monotonic() - begun >= self.args.budget:
                break
            wanted = rows * min(LOADED, self.args.processes - at)
            with ThreadPoolExecutor(len(wanted)) as pool:
                processes = list(pool.map(self.start, wanted))
                list(pool.map(lambda process: process.await_loaded(), processes))
            for process in processes:
                if time.monotonic() - begun < self.args.budget:
                    found[process.name] += self.turns(process)
                    self.keep(found)
                else:
                    process.kill()
        return found

    def keep(self, found):
        """What there is so far, for --with: whoever ends this script early does not lose it."""
        if self.args.out:
            self.args.out.mkdir(parents=True, exist_ok=True)
            (self.args.out / "turns.json").write_text(json.dumps(found))
            (self.args.out / "turns.log").write_text("".join(self.log))


def main():
    args = parse_arguments()
    turns = Turns(args)
    if not turns.suite.gpus:
        print("SKIP: no GPU")
        return 0
    rows = [row for row in [*ROWS, *(row for row in framework_rows() if row.gpus > 1)] if any(fnmatch.fnmatch(row.name, only) for only in args.only.split(","))
            and not turns.suite.why_not(row)]
    found = turns.measure(rows)
    for other in args.others:
        for name, its in json.loads(other.read_text()).items():
            found[name] = its + found.get(name, [])
    turns.keep(found)
    print(HEAD)
    for name, its in found.items():
        print(line_of(name, its))
    return 1 if any(map(are_few, found.values())) else 0


if __name__ == "__main__":
    sys.exit(main())
