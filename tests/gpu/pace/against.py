#!/usr/bin/env python3
"""This library beside another one, an older for example: is a row of the suite slower than it was there?

    tests/gpu/pace/against.py --build build-gpu --against OLD/libautograph.so

Rows are those of docs/gain.svg that need no Python module, and cells of the matrix. In each round each has one process of
each variant: eagerly, captured by hand, with AUTOGRAPH_SUBMIT=inline, with the other library, with this one as it is. Every
other round goes backwards. A process counts by the median of its repetitions. What is compared are neighbours of a round:
the other library's time over this one's. The table has the median over the rounds and, in brackets, what half of them lie between;
behind it the same of the fastest processes. Rows under 0.98 get up to three times as many rounds while there is time. Given this library itself as
the other one, it says how far apart two readings of one thing are.
"""

import argparse
import fnmatch
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "matrix")]
import rows as table_rows  # noqa: E402
from matrix import OWN_WARM_MS, Matrix, word  # noqa: E402
from processes import Failed  # noqa: E402
from processors import Processors, pin_to_one_node  # noqa: E402
from rounds import Variant, run_once  # noqa: E402
from suite import Suite, replayed  # noqa: E402
from tables import layout  # noqa: E402

EAGER, HAND, INLINE, OTHER, THIS = VARIANTS = ("eager", "hand", "inline", "other", "this")
PRELOADED = (INLINE, OTHER, THIS)
LEAST = 0.98
AGAIN = 3       # times as many rounds for rows under it
CELLS = "1:3:1:1,1:3:20:1,5:3:5:1,5:10:5:1,10:0:200:1"
CELL_MS = 30


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--against", type=Path, required=True, help="the other library")
    p.add_argument("--library", type=Path, help="BUILD/preload/libautograph.so")
    p.add_argument("--only", help="rows of all whose name matches one of these, with commas between; * and ? allowed")
    p.add_argument("--cells", default=CELLS, help=f"of the matrix, KERNEL:GAP:OPS:SYNC ({CELLS}); empty: none")
    p.add_argument("--rounds", type=int, default=7, help="processes of each variant (7)")
    p.add_argument("--reps", type=int, default=6, help="repetitions of a process (6)")
    p.add_argument("--budget", type=float, default=420.0, help="nothing begins after so many seconds (420)")
    p.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="added for both libraries")
    p.add_argument("--strict", action="store_true", help=f"a row under {LEAST} fails the run")
    p.add_argument("--simulated", action="store_true", help="on the simulated driver; the times mean nothing")
    p.add_argument("--out", type=Path, help="folder for against.json and against.log")
    args = p.parse_args()
    args.build = args.build.resolve()
    args.library = (args.library or args.build / "preload" / "libautograph.so").resolve()
    args.against = args.against.resolve()
    for library in (args.library, args.against):
        if not library.exists():
            p.error(f"{library} is missing")
    return args


class Measured:
    """All processes of one row or cell, by variant; `failure` ends it."""

    def __init__(self, name, has_hand, hand_same=True):
        self.name, self.hand_same = name, hand_same
        self.variants = {which: Variant(which) for which in VARIANTS if which != HAND or has_hand}
        self.failure = None
        self.again = False  # whether it gets more rounds

    def goes_on(self, number, rounds):
        """Whether it has a round of this number. Which rows get more is decided once: who stops as soon as a row looks well
        finds that all do."""
        if number == rounds:
            self.again = self.is_low()
        return not self.failure and (number < rounds or (self.again and number < AGAIN * rounds))

    def number_of_rounds(self):
        return min(len(self.us(which)) for which in self.variants if which != HAND)

    def us(self, which):
        """The time of each process."""
        variant = self.variants.get(which)
        return [statistics.median(times) for times in variant.rounds if times] if variant and not variant.failure else []

    def ratios(self, which):
        """How many times as fast as with the other library, in each round."""
        return [other / ours for other, ours in zip(self.us(OTHER), self.us(which))]

    def low(self, which):
        ratios = self.ratios(which)
        return bool(ratios) and statistics.median(ratios) < LEAST

    def is_low(self):
        return self.low(THIS) or self.low(INLINE)

    def identical(self):
        """None where the program tells no checksum."""
        counts = [which for which in self.variants if which != HAND or self.hand_same]
        sums = {found for which in counts for found in self.variants[which].checksums()}
        return len(sums) == 1 if sums else None

    def entry(self):
        return {"row": self.name, "failure": self.failure, "identical": self.identical(),
                "us": {which: self.us(which) for which in self.variants},
                "replayed": {which: replayed(self.variants[which].error_text) for which in PRELOADED}}


class Row:
    """A row of the suite's table."""

    def __init__(self, against, row):
        self.against, self.row = against, row
        self.measured = [Measured(row.name, bool(row.graph_args), row.hand_same)]

    def run_round(self, number):
        found = self.measured[0]
        pace = ["--paced", f"--reps={self.against.args.reps}"]
        for which, variant in list(found.variants.items())[::-1 if number % 2 else 1]:
            if variant.failure:
                continue
            hand = self.row.graph_args if which == HAND else []
            env = {**self.against.environment(which), **(self.row.env if which in PRELOADED else {})}
            variant.failure = run_once(variant, self.against.suite.command(self.row, [*hand, *pace]), env, self.against.args.reps,
                                       self.row.timeout, processors=self.against.processors)
            if variant.failure and which != HAND:
                found.failure = variant.failure
                return


class Cells:
    """Cells of the matrix: one process measures all of them. It checks its own sums."""

    def __init__(self, against, cells):
        self.against, self.cells = against, cells
        self.matrix = Matrix(against.args)
        self.measured = [Measured(f"matrix {word(cell)}", False) for cell in cells]

    def run_round(self, number):
        chosen = [(cell, found) for cell, found in zip(self.cells, self.measured) if number < self.against.args.rounds or found.again]
        try:
            for which in [which for which in VARIANTS if which != HAND][::-1 if number % 2 else 1]:
                times = self.matrix.measure([cell for cell, _ in chosen], self.against.environment(which), CELL_MS, OWN_WARM_MS)
                for cell, found in chosen:
                    found.variants[which].rounds.append(times[cell])
        except Failed as failure:
            for found in self.measured:
                found.failure = f"{which}: {failure}"


class Against:
    def __init__(self, args):
        self.args = args
        self.suite = Suite(args)
        self.processors = None
        self.parts = []

    def environment(self, which):
        if which in (EAGER, HAND):
            return self.suite.base_env
        env = {**self.suite.preload_env(), "AUTOGRAPH_STATS": "1"}
        return {**env, **{INLINE: {"AUTOGRAPH_SUBMIT": "inline"}, OTHER: {"LD_PRELOAD": str(self.args.against)}}.get(which, {})}

    def rows(self):
        for row in table_rows.all_rows():
            chosen = (any(fnmatch.fnmatch(row.name, only) for only in self.args.only.split(",")) if self.args.only
                      else (row.simulated if self.args.simulated else row.label and not row.needs))
            why = self.suite.why_not(row) if chosen else None
            if why:
                print(f"skipped: {row.name}: {why}")
            elif chosen:
                yield row

    def all_measured(self):
        return [found for part in self.parts for found in part.measured]

    def measure(self):
        start = time.monotonic()
        self.parts = [Row(self, row) for row in self.rows()]
        if self.args.cells:
            self.parts.append(Cells(self, [tuple(map(int, cell.split(":"))) for cell in self.args.cells.split(",")]))
        number = 0
        while True:
            going = [part for part in self.parts if any([found.goes_on(number, self.args.rounds) for found in part.measured])]
            if not going or time.monotonic() - start > self.args.budget:
                return
            for part in going:
                if time.monotonic() - start < self.args.budget:
                    part.run_round(number)
            number += 1
            print(f"{time.monotonic() - start:6.1f} s: round {number}", flush=True)
            self.keep()

    def keep(self):
        if self.args.out:
            self.args.out.mkdir(parents=True, exist_ok=True)
            (self.args.out / "against.json").write_text(json.dumps([found.entry() for found in self.all_measured()], indent=1))
            (self.args.out / "against.log").write_text("".join(
                f"===== {found.name}\n" + "".join(variant.log() for variant in found.variants.values()) for found in self.all_measured()))


def time_words(us):
    return f"{statistics.median(us):.2f} ({min(us):.2f})" if us else "-"


def ratio_words(found, which):
    ratios = found.ratios(which)
    if len(ratios) < 2:
        return ["-", "-"]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return [f"{middle:.3f} ({low:.3f}..{high:.3f})", f"{min(found.us(OTHER)) / min(found.us(which)):.3f}"]


def cells_of(found):
    shares = [replayed(found.variants[which].error_text) for which in PRELOADED]
    return [found.name, str(found.number_of_rounds()), *(time_words(found.us(which)) for which in VARIANTS),
            *ratio_words(found, THIS), *ratio_words(found, INLINE),
            {True: "yes", False: "NO", None: "-"}[found.identical()],
            " ".join("-" if share is None else f"{share:.0%}" for share in shares)]


def low_lines(measured):
    """What is slower than with the other library, and how many rounds say so."""
    for found in measured:
        for which, name in ((THIS, "this library"), (INLINE, "this library with AUTOGRAPH_SUBMIT=inline")):
            if found.low(which):
                ratios = found.ratios(which)
                worse = sum(ratio < LEAST for ratio in ratios)
                yield f"    {statistics.median(ratios):.3f} {found.name}: {name}; {worse} of {len(ratios)} rounds under {LEAST}"


def report(measured, rounds):
    head = ["row", "rounds", *VARIANTS, "other/this", "by the fastest", "other/inline", "by the fastest", "identical",
            "replayed (inline, other, this)"]
    low = list(low_lines(measured))
    few = [found.name for found in measured if not found.failure and found.number_of_rounds() < rounds]
    lines = ["Microseconds a launch: the median of the processes and, in brackets, the fastest one. Ratios: the median over the rounds and, in brackets, "
             "what half of them lie between; over 1: faster than with the other library.",
             "", layout(head, list(map(cells_of, measured))), f"under {LEAST}: {'' if low else 'none'}", *low]
    lines += [f"fewer than {rounds} rounds: {', '.join(few)}"] if few else []
    return lines + [f"FAIL: {found.name}: {found.failure or 'results differ'}" for found in measured if failed(found)]


def failed(found):
    return found.failure or found.identical() is False


def status(measured, strict):
    return 1 if any(map(failed, measured)) or (strict and any(found.is_low() for found in measured)) else 0


def main():
    args = parse_arguments()
    against = Against(args)
    if not against.suite.gpus:
        print("SKIP: no GPU here (the driver is missing or offers no device)")
        return 0
    pinned = pin_to_one_node()
    if pinned and not args.simulated:
        against.processors = Processors(pinned)
    try:
        against.measure()
    except Failed as failure:
        print(f"FAIL: {failure}", file=sys.stderr)
        return 1
    print("\n".join(report(against.all_measured(), args.rounds)))
    return status(against.all_measured(), args.strict)


if __name__ == "__main__":
    sys.exit(main())
