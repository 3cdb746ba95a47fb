#!/usr/bin/env python3
"""Every GPU check: programs with and without the library, compared bit for bit and by time.

tests/gpu/run builds what is needed and starts this. Exit status 1 where a result differs or a program
fails or hangs (with --strict: or where a speed goal is missed).
"""

import argparse
import fnmatch
import importlib.util
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
import results
import rows as table_rows
from processors import Processors, pin_to_one_node
from rounds import Failure, Process, run_in_rounds
from tables import ratio_of

HERE = Path(__file__).resolve().parent
SPAN_MS = 25    # of the process that compares itself


def part_of(text):
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not found or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"1/2 or 2/2, for example, and not {text}")
    return int(found[1]), int(found[2])


def part(rows, number, parts):
    """The rows of one part: all that begin in its share of the whole time."""
    whole = sum(row.cost for row in rows)
    chosen, before = [], 0.0
    for row in rows:
        if int(before / whole * parts) == number - 1:
            chosen.append(row)
        before += row.cost
    return chosen


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu/run", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="PATTERN", help="rows whose name holds PATTERN (* and ? allowed)")
    parser.add_argument("--picture", action="store_true", help="the rows of docs/gain.svg, and the checks")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds, under three minutes")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="fresh processes of each variant (as the row has it, 2 with --quick)")
    parser.add_argument("--strict", action="store_true", help="a missed speed goal fails the run")
    parser.add_argument("--part", metavar="K/N", type=part_of, default=(1, 1),
                        help="the K-th of N parts of the rows, each of about the same time")
    parser.add_argument("--out", type=Path,
                        help="folder for table.txt, gain.json, results.jsonl and all.log; rows of the same commit "
                             "that are there already are kept, so that parts add up")
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
        self.earlier = []   # entries of other parts
        self.logs = []
        self.processors = None
        self.stop_at = float("inf")
        self.workers = max(1, min(12, (os.cpu_count() or 1) * 3 // 4))
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
                 "gain_goal": row.gain_goal, "replay_goal": row.replay_goal, "label": row.label}
        reason = self.why_not(row)
        if reason:
            return {**entry, "verdict": "skipped", "why": reason}
        pace = ["--paced", f"--reps={row.repetitions}"]
        specs = [("eager", self.command(row, pace), self.base_env),
                 ("autograph", self.command(row, pace),
                  self.preload_env({"AUTOGRAPH_STATS": "2", **row.env}))]
        if row.graph_args:
            specs.append(("hand", self.command(row, [*row.graph_args, *pace]), self.base_env))
        rounds = self.args.rounds or (2 if self.args.quick else row.rounds)
        paired = self.start_paired(row) if row.pairs and row.needs else None
        variants, failure = run_in_rounds(specs, rounds, row.repetitions, row.timeout, row.seconds,
                                          gated=bool(row.needs), optional=("hand",), processors=self.processors)
        self.logs.append(f"===== {row.name}\n" + "".join(v.log() for v in variants))
        if row.pairs:
            found, why = self.finish_paired(paired or self.start_paired(row), row)
            entry.update(found)
            failure = failure or why
        for variant in variants:
            if variant.times() and not variant.failure:
                entry[variant.name] = {"median": variant.median(), "fastest": variant.fastest(),
                                       "spread": variant.spread(), "host": variant.host(),
                                       "rounds": variant.rounds, "results": variant.results,
                                       "checksums": sorted(map(str, variant.checksums()))}
        entry["replayed"] = replayed(variants[1].error_text)
        if failure and failure.startswith("eager: ") and row.needs:
            return {**entry, "verdict": "skipped",
                    "why": f"does not run here without the library either, {failure}"}
        if failure:
            return {**entry, "verdict": "FAIL", "why": failure}
        if variants[-1].failure:
            return {"why": variants[-1].failure, **judge(entry, replace(row, graph_goal=None))}
        return judge(entry, row, self.find(row.reference))

    def start_paired(self, row):
        """The process that compares itself; it waits for its turn where it has modules to load."""
        command = self.command(row, [f"--reps={row.pairs}", *(["--gated"] if row.needs else [])])
        env = self.preload_env({"AUTOGRAPH_STATS": "2", "AUTOGRAPH_COMPARE_MS": str(SPAN_MS), **row.env})
        return Process("paired", command, env, row.timeout)

    def finish_paired(self, process, row):
        """What it found, and how it failed, None where it did not."""
        failure = None
        try:
            if row.needs:
                process.await_loaded()
                process.open_gate()
            process.finish()
            if process.result.get("check", "ok") != "ok":
                failure = f"paired: the program found its own result {process.result['check']}"
        except (Failure, OSError, ValueError) as error:
            failure = str(error)
        finally:
            process.kill()
        self.logs.append(process.log())
        return pairs_of(process.error_text), failure

    def find(self, name):
        return next((entry for entry in [*self.results, *self.earlier] if entry["row"] == name), None)

    def compare(self, check):
        if time.monotonic() > self.stop_at:
            return {"row": check.name, "verdict": "skipped", "why": "out of time"}, ""
        return checks.compare(check, self.base_env, self.preload_env())

    def check_behaviour(self):
        """Faults, order, and programs without CUDA: compared by what they say. Most run side by side;
        those that measure something run alone, after these."""
        chosen = self.select_checks()
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            beside = list(pool.map(self.compare, (check for check in chosen if not check.measures)))
        alone = map(self.compare, (check for check in chosen if check.measures))
        for entry, log in chain(beside, alone):
            self.logs.append(log)
            yield entry

    def select_checks(self):
        if self.args.part[0] != 1:
            return []
        return [check for check in checks.all_checks(self.args.build / "gpu", self.args.simulated)
                if self.wanted(check.name)]

    def wanted(self, name):
        pattern = self.args.only
        return not pattern or fnmatch.fnmatch(name.lower(), f"*{pattern.lower()}*")

    def select(self):
        chosen = [row for row in table_rows.all_rows() if self.wanted(row.name)]
        if self.args.quick:
            chosen = [row for row in chosen if row.quick]
        if self.args.picture:
            chosen = [row for row in chosen if row.label]
        if self.args.simulated:
            chosen = [replace(row, eager_goal=None, graph_goal=None, gain_goal=None,
                              replay_goal=None) for row in chosen
                      if row.simulated]
        return part(chosen, *self.args.part)

    def order(self):
        """The rows and checks as the table has them."""
        names = [row.name for row in table_rows.all_rows()]
        return names + [check.name for check in checks.all_checks("", self.args.simulated)]

    def run(self):
        chosen = self.select()
        if self.args.list:
            print("\n".join(item.name for item in chosen + self.select_checks()))
            return 0
        start = time.monotonic()
        self.stop_at = start + self.args.budget
        made = {"commit": page.commit(), "origin": page.origin()}
        if self.args.out:
            self.earlier = [entry for entry in results.load(self.args.out)
                            if entry.get("commit") == made["commit"]]
            if self.earlier:
                self.logs.append(results.log_of(self.args.out))
        for entry in chain(self.check_behaviour(), map(self.measure, chosen)):
            self.results.append({**entry, **made})
            self.write_out()
            print(f"{time.monotonic() - start:6.1f} s  {entry['verdict']:8s} {entry['row']}"
                  + (f": {entry['why']}" if entry.get("why") else ""), flush=True)
        if self.args.markdown:
            results.put_on_page(self.args.markdown, self.all_entries())
        print("\n" + results.text_of(self.all_entries()), end="")
        if self.args.simulated:
            print("\nThe simulated driver: the times say nothing about a GPU.")
        return self.status()

    def all_entries(self):
        return results.merge(self.earlier, self.results, self.order())

    def status(self):
        bad = ("FAIL", "slow") if self.args.strict and not self.args.simulated else ("FAIL",)
        return 1 if any(entry["verdict"] in bad for entry in self.results) else 0

    def write_out(self):
        if self.args.out:
            results.save(self.args.out, self.all_entries(), "".join(self.logs))


REPLAYED = re.compile(r"replayed (\d+) of (\d+) ops(?:.* in (\d+) graph launches)?")


def replayed(text):
    """The share of ops that the library says it replayed; None where it says nothing."""
    found = REPLAYED.search(text)
    return int(found[1]) / int(found[2]) if found and int(found[2]) else None


def ops_a_graph(text):
    """How many ops a graph launch submitted; None where the library says nothing or launched none."""
    found = REPLAYED.search(text)
    return int(found[1]) / int(found[3]) if found and int(found[3] or 0) else None


def pairs_of(text):
    """What a process that compares itself says; empty where it did too little for that, or where its parts are
    longer than a span, so that the spans of a pair hold different ones."""
    found = re.search(r"compared with eager: ([0-9.]+) times as fast \(half of (\d+) pairs of spans between "
                      r"([0-9.]+) and ([0-9.]+)\)(?!; this is too uneven)", text)
    return {"paired": {"ratio": float(found[1]), "pairs": int(found[2]),
                       "half": [float(found[3]), float(found[4])]}} if found else {}


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
    if row.fastest and entry["eager"].get("fastest"):
        entry["fastest_ratio"] = entry["eager"]["fastest"] / entry["autograph"]["fastest"]
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
    if row.hand_same and by_hand != sums:
        # Libraries may choose other kernels while they are captured.
        entry["why"] = "captured by hand, the program computes something else"
    ratio = ratio_of(entry)
    missed = ((row.eager_goal and ratio < row.eager_goal)
              or (row.graph_goal and entry.get("graph_ratio", 0) < row.graph_goal)
              or (row.replay_goal and (entry.get("replayed") or 0) < row.replay_goal)
              or (row.gain_goal and entry.get("gain_ratio", row.gain_goal) < row.gain_goal))
    return {**entry, "verdict": "slow" if missed else "ok"}


def main():
    args = parse_arguments()
    suite = Suite(args)
    if not suite.gpus and not args.list:
        print("SKIP: no GPU here (the driver is missing or offers no device)")
        return 0
    if not args.list:
        pinned = pin_to_one_node()
        print(f"every process on CPUs {pinned}" if pinned else "processes on no fixed set of CPUs")
        if pinned and not args.simulated:
            suite.processors = Processors(pinned)
    return suite.run()


if __name__ == "__main__":
    sys.exit(main())
