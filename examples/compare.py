#!/usr/bin/env python3
"""Runs each example eager, with the library, and hand-captured where it can be, one process at a time,
and prints a table. examples/run builds and starts this: compare.py gpu|simulated BUILD LIBRARY REPETITIONS."""

import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "gpu"))
from rounds import run_in_rounds  # noqa: E402

# What is shown, its program without the binding, its options, and those of the hand-captured variant.
EXAMPLES = [
    ("20 launches, sync after each", "loop", ["--sync=kernel"], None),
    ("20 launches, sync per step", "loop", ["--sync=step"], ["--graph"]),
    ("20 launches, no sync", "loop", ["--sync=none"], ["--graph"]),
    ("the same, arguments change", "loop", ["--sync=step", "--changing"], None),
    ("launches that never repeat", "loop", ["--sync=step", "--never-repeat"], None),
    ("heat equation", "heat", [], ["--graph"]),
    ("conjugate gradients", "cg", [], ["--graph"]),
    ("cuBLAS inference chain", "chain", [], ["--graph"]),
]
TIMEOUT = 120.0
ROUNDS = 3     # fresh processes of each variant


def lines_of(mode, build):
    bindings = ["driver"] if mode == "simulated" else ["static", "shared", "driver"]
    for what, program, options, graph in EXAMPLES:
        if mode == "simulated" and program == "loop":
            options = [*options, "--steps=200"]
        for binding in bindings:
            path = build / "examples" / f"{program}_{binding}"
            if not path.exists():
                continue
            yield f"{what} ({binding})", [str(path), *options], graph


def compare(command, graph, environment, library, repetitions):
    pace = ["--paced", f"--reps={repetitions}"]
    specs = [("eager", [*command, *pace], environment),
             ("autograph", [*command, *pace], {**environment, "LD_PRELOAD": library})]
    if graph:
        specs.append(("hand", [*command, *graph, *pace], environment))
    return run_in_rounds(specs, ROUNDS, repetitions, TIMEOUT)


def main():
    mode, build, library, repetitions = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if mode == "simulated":
        environment["LD_LIBRARY_PATH"] = str(build / "tests" / "simdriver")
    failed = False
    layout = "{:40s} {:>10s} {:>13s} {:>7s} {:>10s} {:>8s}  {}"
    print(layout.format("us a launch (medians)", "eager", "autograph", "ratio", "by hand", "of hand",
                        "identical"))
    for what, command, graph in lines_of(mode, build):
        variants, failure = compare(command, graph, environment, library, repetitions)
        if failure:
            print(f"{what:40s} FAILED: {failure}")
            print("".join(variant.log() for variant in variants), file=sys.stderr)
            failed = True
            continue
        median = {variant.name: variant.median() for variant in variants}
        same = len(set().union(*(variant.checksums() for variant in variants))) == 1
        failed |= not same
        hand = median.get("hand")
        print(layout.format(what, f"{median['eager']:.2f}", f"{median['autograph']:.2f}",
                            f"{median['eager'] / median['autograph']:.2f}x",
                            f"{hand:.2f}" if hand else "-",
                            f"{hand / median['autograph']:.2f}" if hand else "-",
                            "yes" if same else "NO"), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
