#!/usr/bin/env python3
"""What the policy makes of recorded runs: plays tests/policy/recorded/*.dump.xz with `autograph replay`.

Without --check prints one table, as docs/how-it-works-policy.md has it. With it, holds each figure to its
bound in BOUNDS (recorded/bounds.csv) and says what is out of bounds; status 1.
"""

import argparse
import csv
import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "recorded"
MOST_FLUSHED = 0.5  # percent of the launches, in every run

COLUMNS = ["run", "launches", "by graphs", "flushed", "until the first replay", "graphs built",
           "driver calls a launch", "peak memory"]


def figures(command, path, options):
    with tempfile.NamedTemporaryFile(suffix=".dump") as dump:
        dump.write(lzma.decompress(path.read_bytes()))
        dump.flush()
        said = subprocess.run([command, "replay", "--format=json", *options, dump.name], check=True,
                              capture_output=True, text=True)
    if said.stderr:
        sys.exit(f"{path.name}: {said.stderr}")  # a dump that is cut or damaged is no test
    tables = json.loads(said.stdout)
    count = {row["what"]: row["count"] for row in tables["replay"]}
    cost = {row["what"]: row["value"] for row in tables["cost"]}
    launches = count["launches"]
    return {
        "launches": launches,
        "replayed": 100 * (count["replayed by graphs"] + count["by shorter graphs"]) / launches,
        "flushed": 100 * count["held back, then one by one"] / launches,
        "first": count["until the first replay"],
        "graphs": count["graphs built"],
        "calls": count["calls of the driver to submit them"] / launches,
        "kib": cost["most memory, graphs and policy"],
    }


def out_of_bounds(f, bound):
    """Lines that say what; launches are of the dump itself, and must be all there."""
    if f["launches"] != int(bound["launches"]):
        yield f"{f['launches']} launches, not {bound['launches']}"
    if f["replayed"] < float(bound["replayed"]):
        yield f"{f['replayed']:.2f} % by graphs, at least {bound['replayed']} % wanted"
    if f["flushed"] >= MOST_FLUSHED:
        yield f"{f['flushed']:.3f} % flushed, less than {MOST_FLUSHED} % wanted"
    for key, what in (("first", "launches until the first replay"), ("graphs", "graphs built"),
                      ("calls", "driver calls a launch"), ("kib", "KiB at the peak")):
        if f[key] > float(bound[key]):
            yield f"{f[key]:.6g} {what}, at most {bound[key]} wanted"


def row(name, f):
    first = "-" if f["first"] == f["launches"] else f["first"]
    return [name, f["launches"], f"{f['replayed']:.1f} %", f"{f['flushed']:.2f} %", first, f["graphs"],
            f"{f['calls']:.2f}", f"{f['kib']:.0f} KiB"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="hold the figures to their bounds")
    parser.add_argument("--option", action="append", default=[],
                        help="for autograph replay, as --option=--max-chunk=16")
    parser.add_argument("command", help="the built autograph command")
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs; without: all")
    args = parser.parse_args()
    with open(HERE / "bounds.csv", encoding="utf-8", newline="") as lines:
        bounds = {bound["run"]: bound for bound in csv.DictReader(lines)}
    failed = False
    if not args.check:
        print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    for name in args.names or sorted(path.name.removesuffix(".dump.xz") for path in HERE.glob("*.dump.xz")):
        f = figures(args.command, HERE / f"{name}.dump.xz", args.option)
        if not args.check:
            print("| " + " | ".join(map(str, row(name, f))) + " |")
            continue
        if name not in bounds:
            sys.exit(f"{name} has no line in {HERE / 'bounds.csv'}")
        for line in out_of_bounds(f, bounds[name]):
            print(f"{name}: {line}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
