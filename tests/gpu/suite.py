#!/usr/bin/env python3
"""Every GPU check: programs with and without the library, compared bit for bit and by time.

tests/gpu/run builds what is needed and starts this. Exit status 1 where a result differs or a program
fails or hangs (with --strict: or where a speed goal is missed).
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path

import checks
import page
import rows as table_rows
from rounds import pin_to_one_node, run_in_rounds

HERE = Path(__file__).resolve().parent
LEGEND = """Microseconds a launch (C programs) or an iteration (Python): the median of all repetitions and, in brackets, the medians of
the fastest and the slowest process. `ratio` is eager time over autograph time; `of hand` is hand-captured time over autograph
time; `of the gain` is what is saved, over what is saved without the timing events.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu/run", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="PATTERN", help="rows whose name holds PATTERN (* and ? allowed)")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds, under three minutes")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="fresh processes of each variant (as the row has it, 2 with --quick)")
    parser.add_argument("--strict", action="store_true", help="a missed speed goal fails the run")
    parser.add_argument("--out", type=Path, help="folder for table.txt, results.jsonl and all.log")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose section is rewritten (docs/gpu-results.md)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=480.0,
                        help="rows that would start later than this are skipped (480)")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--simulated", action="store_true",
                        help="try the suite itself on the simulated driver; its times mean nothing")
    return parser.parse_args()


def gpu_count():
    done = subprocess.run([sys.executable, str(HERE / "gpus.py")], capture_output=True, text=True,
                          timeout=60, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else 0


class Suite:
    def __init__(self, args):
        self.args = args
        self.results = []
        self.logs = []
        self.stop_at = float("inf")
        self.workers = max(1, min(4, (os.cpu_count() or 1) // 2))
        self.base_env = dict(os.environ)
        for name in list(self.base_env):
            if name == "LD_PRELOAD" or name.startswith("AUTOGRAPH"):
                del self.base_env[name]
        if args.simulated:
            self.base_env["LD_LIBRARY_PATH"] = str(args.build / "tests" / "simdriver")
            self.gpus = 1
        else:
            self.gpus = gpu_count()

    def preload_env(self, more=()):
        return {**self.base_env, "LD_PRELOAD": str(self.args.library),
                **dict(item.split("=", 1) for item in self.args.env), **dict(more)}

    def command(self, row, extra=()):
        places = {"{bin}": str(self.args.build / "examples"), "{programs}": str(HERE / "programs"),
                  "{python}": sys.executable}
        words = []
        for word in [*row.command, *extra]:
            for key, value in places.items():
                word = word.replace(key, value)
            words.append(word)
        return words

    def why_not(self, row):
        """Why a row cannot run here; None where it can."""
        if time.monotonic() > self.stop_at:
            return "out of time"
        if row.gpus > self.gpus:
            return f"{row.gpus} GPUs needed"
        for module in row.needs:
            if importlib.util.find_spec(module) is None:
                return f"no {module}"
        program = self.command(row)[0]
        if program.startswith("/") and not Path(program).exists():
            return f"{Path(program).name} was not built"
        return None

    def measure(self, row):
        entry = {"row": row.name, "eager_goal": row.eager_goal, "graph_goal": row.graph_goal,
                 "gain_goal": row.gain_goal, "replay_goal": row.replay_goal}
        reason = self.why_not(row)
        if reason:
            return {**entry, "verdict": "skipped", "why": reason}
        pace = ["--paced", f"--reps={row.repetitions}"]
        specs = [("eager", self.command(row, pace), self.base_env),
                 ("autograph", self.command(row, pace),
                  self.preload_env({"AUTOGRAPH_STATS": "1", **row.env}))]
        if row.graph_args:
            specs.append(("hand", self.command(row, [*row.graph_args, *pace]), self.base_env))
        rounds = self.args.rounds or (2 if self.args.quick else row.rounds)
        variants, failure = run_in_rounds(specs, rounds, row.repetitions, row.timeout, row.seconds)
        self.logs.append(f"===== {row.name}\n" + "".join(v.log() for v in variants))
        for variant in variants:
            if variant.times():
                entry[variant.name] = {"median": variant.median(), "spread": variant.spread(),
                                       "rounds": variant.rounds, "results": variant.results,
                                       "checksums": sorted(map(str, variant.checksums()))}
        entry["replayed"] = replayed(variants[1].error_text)
        if failure and failure.startswith("eager: ") and row.needs:
            return {**entry, "verdict": "skipped",
                    "why": f"does not run here without the library either, {failure}"}
        if failure and failure.startswith("hand: ") and "autograph" in entry:
            entry.pop("hand", None)
            return {"why": failure, **judge(entry, replace(row, graph_goal=None))}
        if failure:
            return {**entry, "verdict": "FAIL", "why": failure}
        return judge(entry, row, self.find(row.reference))

    def find(self, name):
        return next((entry for entry in self.results if entry["row"] == name), None)

    def compare(self, check):
        if time.monotonic() > self.stop_at:
            return {"row": check.name, "verdict": "skipped", "why": "out of time"}, ""
        return checks.compare(check, self.base_env, self.preload_env())

    def check_behaviour(self):
        """Faults, order, and programs without CUDA: compared by what they say. Those that measure
        something run alone, the others side by side."""
        chosen = [check for check in checks.all_checks(self.args.build / "gpu", self.args.simulated)
                  if self.wanted(check.name)]
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            alone = map(self.compare, (check for check in chosen if check.measures))
            beside = (check for check in chosen if not check.measures)
            for entry, log in chain(list(alone), pool.map(self.compare, beside)):
                self.logs.append(log)
                yield entry

    def wanted(self, name):
        pattern = self.args.only
        return not pattern or fnmatch.fnmatch(name.lower(), f"*{pattern.lower()}*")

    def select(self):
        chosen = [row for row in table_rows.all_rows() if self.wanted(row.name)]
        if self.args.quick:
            chosen = [row for row in chosen if row.quick]
        if self.args.simulated:
            chosen = [replace(row, eager_goal=None, graph_goal=None, gain_goal=None,
                              replay_goal=None) for row in chosen
                      if row.simulated]
        return chosen

    def run(self):
        chosen = self.select()
        if self.args.list:
            names = [check.name for check in checks.all_checks("", self.args.simulated)]
            print("\n".join([row.name for row in chosen] + list(filter(self.wanted, names))))
            return 0
        start = time.monotonic()
        self.stop_at = start + self.args.budget
        for entry in chain(map(self.measure, chosen), self.check_behaviour()):
            self.results.append(entry)
            self.write_out(table(self.results))
            print(f"{time.monotonic() - start:6.1f} s  {entry['verdict']:8s} {entry['row']}"
                  + (f": {entry['why']}" if entry.get("why") else ""), flush=True)
        text = table(self.results)
        if self.args.simulated:
            text += "\nThe simulated driver: the times say nothing about a GPU.\n"
        self.write_out(text)
        if self.args.markdown:
            page.put_section(self.args.markdown, "Programs", LEGEND + "\n" + text)
        print("\n" + text, end="")
        return self.status()

    def status(self):
        bad = ("FAIL", "slow") if self.args.strict and not self.args.simulated else ("FAIL",)
        return 1 if any(entry["verdict"] in bad for entry in self.results) else 0

    def write_out(self, text):
        if not self.args.out:
            return
        self.args.out.mkdir(parents=True, exist_ok=True)
        (self.args.out / "table.txt").write_text(text)
        (self.args.out / "all.log").write_text("".join(self.logs))
        with open(self.args.out / "results.jsonl", "w", encoding="utf-8") as lines:
            for entry in self.results:
                lines.write(json.dumps(entry) + "\n")


def replayed(text):
    """The share of ops that the library says it replayed; None where it says nothing."""
    found = re.search(r"replayed (\d+) of (\d+) ops", text)
    return int(found[1]) / int(found[2]) if found and int(found[2]) else None


def gain(entry):
    return entry["eager"]["median"] - entry["autograph"]["median"]


def judge(entry, row, reference=None):
    """Compares the variants' results and times with what the row asks for. `reference` is the entry
    of the same program without what this row adds to it."""
    variants = [entry[name] for name in ("eager", "autograph", "hand") if name in entry]
    sums = {checksum for name in ("eager", "autograph") for checksum in entry[name]["checksums"]}
    by_hand = set(entry["hand"]["checksums"]) if "hand" in entry else sums
    found = [result.get("check", "ok") for variant in variants for result in variant["results"]]
    entry["identical"] = "None" not in sums and len(sums) == 1
    entry["ratio"] = entry["eager"]["median"] / entry["autograph"]["median"]
    if "hand" in entry:
        entry["graph_ratio"] = entry["hand"]["median"] / entry["autograph"]["median"]
    if reference and "ratio" in reference and gain(reference) > 0:
        entry["gain_ratio"] = gain(entry) / gain(reference)
    if any(check != "ok" for check in found):
        return {**entry, "verdict": "FAIL", "why": f"the program found its own result {found}"}
    if len(entry["eager"]["checksums"]) > 1:
        return {**entry, "verdict": "unstable", "why": "eager runs differ among themselves"}
    if not entry["identical"]:
        return {**entry, "verdict": "FAIL", "why": "results differ"}
    if by_hand != sums:
        # Libraries may choose other kernels while they are captured.
        entry["why"] = "captured by hand, the program computes something else"
    missed = ((row.eager_goal and entry["ratio"] < row.eager_goal)
              or (row.graph_goal and entry.get("graph_ratio", 0) < row.graph_goal)
              or (row.replay_goal and (entry.get("replayed") or 0) < row.replay_goal)
              or (row.gain_goal and entry.get("gain_ratio", row.gain_goal) < row.gain_goal))
    return {**entry, "verdict": "slow" if missed else "ok"}


def number(value, pattern="{:.2f}"):
    return "-" if value is None else pattern.format(value)


def timing(entry, name):
    """The median and, in brackets, the fastest and the slowest process."""
    if name not in entry:
        return "-"
    text = number(entry[name]["median"])
    if "spread" in entry[name]:
        text += " ({}..{})".format(*map(number, entry[name]["spread"]))
    return text


def cells(entry):
    goals = [number(entry["eager_goal"]) + "x"] if entry.get("eager_goal") else []
    ratios = [number(entry["ratio"]) + "x"] if "ratio" in entry else []
    for key, words in (("graph", "of hand"), ("gain", "of the gain")):
        if entry.get(key + "_ratio") is not None:
            ratios.append(f"{number(entry[key + '_ratio'])} {words}")
        if entry.get(key + "_goal"):
            goals.append(f"{number(entry[key + '_goal'])} {words}")
    if entry.get("replay_goal"):
        goals.append(f"{entry['replay_goal']:.0%} replayed")
    return [entry["row"], *(timing(entry, name) for name in ("eager", "autograph", "hand")),
            ", ".join(ratios) or "-", ", ".join(goals) or "-",
            {True: "yes", False: "NO", None: "-"}[entry.get("identical")],
            number(entry.get("replayed"), "{:.1%}"),
            entry["verdict"] + (f": {entry['why']}" if entry.get("why") else "")]


def table(entries):
    """The one table at the end. Times are microseconds a launch (C programs) or an iteration: the
    median of all repetitions, and the medians of the fastest and the slowest process."""
    head = ["program", "eager us", "autograph us", "hand graph us", "ratio", "goal", "identical",
            "replayed", "verdict"]
    lines = [head, None, *map(cells, entries)]
    widths = [max(len(line[i]) for line in lines if line) for i in range(len(head))]
    text = []
    for line in lines:
        line = ["-" * width for width in widths] if line is None else line
        text.append("| " + " | ".join(cell.replace("|", "/").ljust(width) for cell, width in zip(line, widths)) + " |")
    counts = {verdict: sum(entry["verdict"] == verdict for entry in entries)
              for verdict in ("ok", "slow", "FAIL", "unstable", "skipped")}
    text.append("")
    text.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    return "\n".join(text) + "\n"


def main():
    args = parse_arguments()
    suite = Suite(args)
    if not suite.gpus and not args.list:
        print("SKIP: no GPU here (the driver is missing or offers no device)")
        return 0
    if not args.list:
        pinned = pin_to_one_node()
        print(f"every process on CPUs {pinned}" if pinned else "processes on no fixed set of CPUs")
    return suite.run()


if __name__ == "__main__":
    sys.exit(main())
