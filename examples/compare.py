#!/usr/bin/env python3
"""Runs the examples eager, with the library, and by hand (captured in a graph by the program itself, where it can).
On a GPU it prints times and ratios with their spread; on the simulated driver what is exact there: launches, driver
calls, the share that graphs carried, and whether results are identical.
examples/run builds and starts this: compare.py gpu|simulated BUILD LIBRARY REPETITIONS."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "gpu"))
from rounds import parse_result, run_in_rounds  # noqa: E402

# What is shown, its program without the binding, its options, and those of the variant by hand.
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
ROUNDS = 7      # fresh processes of each variant, in turn
SPREAD = 0.02   # ratios nearer to 1 than this are no gain and no loss


def lines_of(mode, build):
    """Each example once: as nvcc links it by default, if it is there."""
    bindings = ["driver"] if mode == "simulated" else ["static", "shared", "driver"]
    for what, program, options, graph in EXAMPLES:
        if mode == "simulated":
            options = [*options, "--reps=1", *(["--steps=200"] if program == "loop" else [])]
        paths = [build / "examples" / f"{program}_{binding}" for binding in bindings]
        for path in [path for path in paths if path.exists()][:1]:
            yield what, [str(path), *options], graph


# ---- on a GPU ----

def ratios(rounds, name):
    """How many times as fast as eager, in each round."""
    return [eager / other for eager, other in zip(rounds["eager"], rounds[name])]


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


GPU_LAYOUT = "{:28s} {:>5s} {:>5s}  {:16s} {:16s} {}"
GPU_HEAD = GPU_LAYOUT.format("us a launch (medians)", "eager", "with", "times as fast", "by hand", "same")


def gpu_row(what, rounds, same):
    """`rounds`: of each variant the median of each process."""
    return GPU_LAYOUT.format(what, f"{statistics.median(rounds['eager']):.2f}",
                             f"{statistics.median(rounds['autograph']):.2f}", spread(ratios(rounds, "autograph")),
                             spread(ratios(rounds, "hand")) if "hand" in rounds else "-", "yes" if same else "NO")


def gained(rows):
    """One sentence of all rows, each the rounds of its variants."""
    each = [ratios(rounds, "autograph") for rounds in rows]
    medians = [statistics.median(values) for values in each]
    faster = sum(min(values) > 1 + SPREAD for values in each)
    slower = sum(max(values) < 1 - SPREAD for values in each)
    return (f"Gained: {faster} of {len(rows)} rows were faster in every round, {slower} slower, the others\n"
            f"neither; the middle row went {statistics.median(medians):.2f} times as fast as without the library\n"
            f"(from {min(medians):.2f} to {max(medians):.2f}).")


def measure(build, library, repetitions, environment):
    failed, rows = False, []
    pace = ["--paced", f"--reps={repetitions}"]
    print(f"Without the library (eager) and with it: each figure is the median of {ROUNDS}\n"
          f"processes. How many times as fast as eager: the median of {ROUNDS} rounds in turn, and\n"
          "their range. By hand: the program captures its step in a CUDA Graph itself and\n"
          "launches that. Same: all results are the same, bit for bit.\n\n" + GPU_HEAD, flush=True)
    for what, command, graph in lines_of("gpu", build):
        specs = [("eager", [*command, *pace], environment),
                 ("autograph", [*command, *pace], {**environment, "LD_PRELOAD": library})]
        if graph:
            specs.append(("hand", [*command, *graph, *pace], environment))
        variants, failure = run_in_rounds(specs, ROUNDS, repetitions, TIMEOUT)
        if failure:
            print(f"{what:28s} FAILED: {failure}", flush=True)
            print("".join(variant.log() for variant in variants), file=sys.stderr)
            failed = True
            continue
        rounds = {v.name: [statistics.median(times) for times in v.rounds if times] for v in variants}
        same = len(set().union(*(variant.checksums() for variant in variants))) == 1
        failed |= not same
        rows.append(rounds)
        print(gpu_row(what, rounds, same), flush=True)
    if rows:
        print("\n" + gained(rows))
    return failed


def show_report(build, library, environment):
    """What the library says of one example."""
    for what, command, _ in lines_of("gpu", build):
        if what == "heat equation":
            with tempfile.TemporaryDirectory() as folder:
                dump = os.path.join(folder, "heat.agdump")
                run(command, {**environment, "LD_PRELOAD": library, "AUTOGRAPH_TRACE": dump})
                print(f"\nWhat `autograph report` says of {what}:\n", flush=True)
                subprocess.run([str(build / "tools" / "autograph"), "report", "-n", "5", dump], check=False)
            return


# ---- on the simulated driver ----

def run(command, environment):
    """The fields of its RESULT line; a failure ends everything."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return parse_result(lines[-1])


# What is counted should not depend on the speed of this machine.
EXACT = {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_TEST_PROFIT": "0", "AUTOGRAPH_MAX_DEFER_US": "1000000"}
SIMULATED_LAYOUT = "{:28s} {:>8s} {:>12s} {:>9s}  {}"
SIMULATED_HEAD = SIMULATED_LAYOUT.format("", "launches", "driver calls", "replayed", "identical")


def simulated_row(what, launches, graphs, same):
    """`launches`, `graphs`: the tables of these names. A call is a launch of a graph, a change of an argument in it,
    or a launch by itself."""
    count = {row["launches"]: row["count"] for row in launches}
    carried = count["replayed by graphs"] + count["by shorter graphs, where a sequence was cut short"]
    calls = count["all"] - carried + sum(graph["launched"] + graph["updates"] for graph in graphs)
    return SIMULATED_LAYOUT.format(what, str(count["all"]), str(calls), f"{100 * carried / count['all']:.1f} %",
                                   "yes" if same else "NO")


def count(build, library, environment):
    failed = False
    autograph = str(build / "tools" / "autograph")

    def table(dump, verb, name):
        told = subprocess.run([autograph, verb, dump, "-n", "0", "-f", "json", f"--table={name}"],
                              capture_output=True, text=True, check=True)
        return json.loads(told.stdout)[name]

    print(SIMULATED_HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for what, command, _ in lines_of("simulated", build):
            dump = os.path.join(folder, "dump")
            eager = run(command, environment)
            with_library = run(command, {**environment, **EXACT, "LD_PRELOAD": library, "AUTOGRAPH_TRACE": dump})
            same = eager["checksum"] == with_library["checksum"]
            failed |= not same
            print(simulated_row(what, table(dump, "report", "launches"), table(dump, "graphs", "graphs"), same), flush=True)
    print(f"""
Driver calls are those that submit the launches with the library: a launch of a
graph, a change of an argument in one, or a launch by itself. Without the
library there is one for each launch. So that counts hardly depend on the
speed of this machine, graphs were built at once, and used even where a single
launch would be cheaper:
    {" ".join(f"{name}={value}" for name, value in list(EXACT.items())[:2])}
    {" ".join(f"{name}={value}" for name, value in list(EXACT.items())[2:])}
Next: on a machine with a GPU this command measures times.
A program of yours: {os.path.relpath(autograph)} ./app""")
    return failed


def main():
    mode, build, library, repetitions = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    environment = {name: value for name, value in os.environ.items()
                   if name != "LD_PRELOAD" and not name.startswith("AUTOGRAPH")}
    if mode == "simulated":
        environment["LD_LIBRARY_PATH"] = str(build / "tests" / "simdriver")
        return 1 if count(build, library, environment) else 0
    failed = measure(build, library, repetitions, environment)
    show_report(build, library, environment)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
