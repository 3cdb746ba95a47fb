#!/usr/bin/env python3
"""The survey: some eighty short loops, each the way somebody else's program is. What is replayed, how fast, why not.

Each row is three processes: without the library, with it, and one with it that compares itself with eager. Several
rows run side by side; rows that come out slow run once more, alone. tests/gpu/run --reach builds what is needed
and starts this. Exit status 1 where a result differs or a program fails with the library only.
"""

import argparse
import json
import os
import queue
import re
import sys
import sysconfig
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import page  # noqa: E402
import reach_rows  # noqa: E402
import reach_table  # noqa: E402
import results  # noqa: E402
from processes import environments, write_lines  # noqa: E402
from rounds import Failure, Process  # noqa: E402
from steady import Steady  # noqa: E402
from suite import SPAN_MS, gpu_count, pairs_of  # noqa: E402

PAIR_SECONDS = 1.5      # of the process that compares itself, beside others
ALONE_SECONDS = 3.0
AHEAD = 4               # processes that load their modules while another is measured alone
CPUS_A_ROW = 3          # its processes load side by side
ALONE_COST = 8.0        # seconds that one of them is expected to take


@dataclass
class Run:
    """How one process ended and what it said."""
    failure: str = None
    skip: str = None
    result: dict = field(default_factory=dict)
    steady: dict = field(default_factory=dict)
    said: str = ""      # by the library


@dataclass
class Place:
    """Where the processes of a row run."""
    cpus: set
    gpus: list


def places(cpus, gpus, jobs):
    """`jobs` of them: processors and GPUs are spread over them."""
    cpus = sorted(cpus)
    return [Place(set(cpus[number::jobs]) or set(cpus), [gpus[number % len(gpus)]]) for number in range(jobs)]


def visible_gpus(count):
    """Their names, as CUDA_VISIBLE_DEVICES has them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(number) for number in range(count)]


def libraries():
    """Where Python packages keep the CUDA libraries: programs that were built elsewhere find them there."""
    places = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    return [str(path) for place in sorted(places) for path in sorted(Path(place).glob("nvidia/*/lib"))]


def repetitions_of(eager, seconds):
    """How many repetitions take so long, by what the eager process says of its own."""
    step = float(eager["us_per_iteration"] if "us_per_iteration" in eager
                 else float(eager["us_per_launch"]) * float(eager.get("per_step", 1)))
    wanted = seconds * 1e6 / (step * float(eager.get("iters", reach_rows.STEPS)))
    return min(20000, max(reach_rows.REPETITIONS, round(wanted)))


class Survey:
    def __init__(self, args, gpus):
        self.args, self.gpus = args, visible_gpus(gpus)
        plain, preload = environments(args)
        common = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                  "HF_HUB_OFFLINE": "1"}
        self.plain, self.preload = {**plain, **common}, {**preload, **common, "AUTOGRAPH_STATS": "2",
                                                         "AUTOGRAPH_LOG": "warn"}
        self.stop_at = time.monotonic() + args.seconds
        self.logs = []
        self.folder = tempfile.TemporaryDirectory(prefix="reach-")
        self.number = 0
        self.lock = threading.Lock()
        jobs = 1 if args.alone else args.jobs or max(1, (os.cpu_count() or 1) // CPUS_A_ROW)
        self.jobs = jobs
        self.everything = Place(os.sched_getaffinity(0), self.gpus)
        self.places = queue.SimpleQueue()
        for place in places(self.everything.cpus, self.gpus, jobs):
            self.places.put(place)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def words(self, row, folder):
        values = {"{reach}": str(HERE), "{programs}": str(HERE.parent / "programs"), "{python}": sys.executable,
                  "{bin}": str(self.args.build / "examples"), "{gpu}": str(self.args.build / "gpu"),
                  "{folder}": folder}

        def filled(word):
            for key, value in values.items():
                word = word.replace(key, value)
            return word
        return [filled(word) for word in row.command], {name: filled(value) for name, value in row.env.items()}

    def start(self, row, kind, folder, gpus, repetitions=reach_rows.REPETITIONS):
        """kind: eager, steady, or paired. Python programs wait at their gate."""
        command, more = self.words(row, folder)
        command += [row.steps, f"--reps={repetitions}"]
        if kind == "steady":
            command.append("--paced")
        if row.python:
            command.append("--gated")
        env = {**(self.plain if kind == "eager" else self.preload), **more, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        if not row.python:
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), *libraries()]))
        if kind != "eager":
            with self.lock:
                self.number += 1
                env["AUTOGRAPH_LOG_FILE"] = f"{self.folder.name}/{self.number}-%p.log"
        if kind == "paired":
            env["AUTOGRAPH_COMPARE_MS"] = str(SPAN_MS)
        process = Process(kind, command, env, self.args.timeout)
        process.said_in = env.get("AUTOGRAPH_LOG_FILE", "").replace("%p", "*")
        return process

    def follow(self, row, process, repetitions=None):
        """Opens its gate, goes with it to its end."""
        run, steady = Run(), None
        try:
            if row.python:
                process.await_loaded()
                process.open_gate(repetitions)
            if process.name == "steady":
                for number in range(reach_rows.REPETITIONS):
                    process.await_ready()
                    if number == 0:
                        steady = Steady(process.process.pid)
                    elif number == reach_rows.REPETITIONS - 1:
                        steady.end()
                    process.repeat()
            process.finish()
            run.result = process.result
            if run.result.get("check", "ok") != "ok":
                run.failure = f"{process.name}: the program found its own result {run.result['check']}"
        except (Failure, OSError, ValueError) as error:
            run.failure = str(error)
        finally:
            process.kill()
        run.steady = steady.difference() if steady else {}
        run.skip = next((line[len("SKIP: "):].strip() for line in process.output if line.startswith("SKIP: ")), None)
        run.said = self.said_by(process)
        self.logs.append(f"===== {row.name}\n{process.log()}{run.said}")
        return run

    def said_by(self, process):
        """What the library of all its processes said: in files, before them on stderr."""
        lines = [line for line in process.error_text.splitlines(keepends=True) if line.startswith("autograph:")]
        if process.said_in:
            pattern = Path(process.said_in)
            for path in sorted(pattern.parent.glob(pattern.name)):
                lines.append(path.read_text(encoding="utf-8", errors="replace"))
        # without the program's name, pid and rank
        return re.sub(r"^autograph: \S+\[\d+\](?: rank \d+)?: ", "autograph: ", "".join(lines), flags=re.MULTILINE)

    def why_skipped(self, row):
        if time.monotonic() > self.stop_at:
            return "out of time"
        if row.gpus > len(self.gpus):
            return f"needs {row.gpus} GPUs"
        program = Path(self.words(row, "")[0][0])
        return None if program.exists() else f"not here: {program.name} was not built"

    def measure_beside_others(self, row):
        """Runs in a thread."""
        place = self.places.get()
        try:
            return self.measure(row, place)
        finally:
            self.places.put(place)

    def measure(self, row, place):
        """The entry of a row. Its processes inherit the processors of this thread."""
        entry = {"row": row.name, "verdict": "skipped", "identical": None, "replayed": None}
        waiting = []
        try:
            os.sched_setaffinity(0, place.cpus)
            with tempfile.TemporaryDirectory() as folder:
                return {**entry, **self.compare(row, folder, place.gpus, waiting)}
        except Exception as error:  # of the survey itself; the other rows must go on
            return {**entry, "verdict": "FAIL", "why": f"the survey failed: {error!r}"}
        finally:
            for process in waiting:
                if not process.errors.closed:   # nobody has followed it
                    process.kill()

    def compare(self, row, folder, gpus, waiting):
        reason = self.why_skipped(row)
        if reason:
            return {"why": reason}
        def start(kind, *more):
            waiting.append(self.start(row, kind, folder, gpus, *more))
            return waiting[-1]
        first = start("eager")
        beside = {kind: start(kind) for kind in ("steady", "paired") if row.python and not row.caches}
        eager = self.follow(row, first)
        if eager.skip or eager.failure:
            return {"why": eager.skip or f"without the library too: {eager.failure}"}
        auto = self.follow(row, beside.get("steady") or start("steady"))
        wanted = repetitions_of(eager.result, ALONE_SECONDS if self.args.alone else PAIR_SECONDS)
        pair = self.follow(row, beside.get("paired") or start("paired", wanted), wanted)
        entry = self.judge(eager, auto, pair)
        if entry["identical"] is False:
            again = self.follow(row, start("eager"))
            if again.failure or again.result.get("checksum") != eager.result.get("checksum"):
                entry.update(verdict="not reproducible", identical=None)
        return entry

    @staticmethod
    def judge(eager, auto, pair):
        whole = reach_table.counted(auto.said)
        entry = {"eager": eager.result, "autograph": auto.result, "steady": auto.steady, "whole": whole,
                 "replayed": reach_table.replayed_of(auto.steady, whole), **pairs_of(pair.said),
                 "why": reach_table.why_not(auto.steady, whole), "verdict": "ok", "identical": None}
        failure = auto.failure or pair.failure or (auto.skip and f"with the library: {auto.skip}")
        if failure:
            entry.update(verdict="FAIL", why=failure)
        elif auto.result.get("checksum") != eager.result.get("checksum"):
            entry.update(verdict="FAIL", identical=False, why="results differ; " + entry["why"])
        else:
            entry["identical"] = True
        return entry

    def start_alone(self, row, *more):
        return self.start(row, "paired", self.folder.name, self.gpus[:row.gpus], *more)

    def alone(self, rows, eager):
        """Rows once more, one at a time, while the next ones load their modules; `eager` has the results of their
        eager processes. Yields name, ratio and failure."""
        os.sched_setaffinity(0, self.everything.cpus)
        left, loading = deque(rows), deque()
        try:
            while left or loading:
                while left and len(loading) < AHEAD:
                    row = left.popleft()
                    loading.append((row, self.start_alone(row) if row.python else None))
                if time.monotonic() + ALONE_COST > self.stop_at + self.args.more:
                    return
                row, process = loading.popleft()
                wanted = repetitions_of(eager[row.name], ALONE_SECONDS)
                run = self.follow(row, process or self.start_alone(row, wanted), wanted)
                yield row.name, pairs_of(run.said).get("paired"), run.failure
        finally:
            for _, process in loading:
                if process:
                    process.kill()


def chosen(args):
    rows = list(reach_rows.simulated_rows()) if args.simulated else reach_rows.all_rows()
    return [row for row in rows if not args.rows or re.search(args.rows, row.name, re.IGNORECASE)]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --reach", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("rows", nargs="?", metavar="REGEX", help="rows whose name it is found in")
    parser.add_argument("--alone", action="store_true", help="one row at a time, for better ratios")
    parser.add_argument("--jobs", type=int, metavar="J", help="rows at a time (one for three processors)")
    parser.add_argument("--seconds", type=float, default=400.0, help="no row is begun after this (400)")
    parser.add_argument("--more", type=float, default=40.0, metavar="SECONDS",
                        help="beyond --seconds, for slow rows to be measured alone (40)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", default=90.0, help="of one process (90)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--out", type=Path,
                        help=f"folder for reach.txt, {reach_table.FILE} and reach.log; rows of the same commit that "
                             "are there already are kept")
    parser.add_argument("--from", type=Path, nargs="+", dest="sources", metavar="DIR", default=[],
                        help="run nothing; show what these folders hold")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="page whose table is rewritten (docs/reach.md)")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--simulated", action="store_true", help="try the survey on the simulated driver")
    return parser.parse_args()


class Report:
    """What has been found so far, on the screen and in the folder."""

    def __init__(self, args, earlier, made):
        self.args, self.found, self.made = args, earlier, made
        self.order = [row.name for row in [*reach_rows.all_rows(), *reach_rows.simulated_rows()]]
        self.start = time.monotonic()
        self.logged = 0     # of the logs

    def take(self, entry, logs=()):
        self.found = results.merge(self.found, [{**entry, **self.made}], self.order)
        print(f"{time.monotonic() - self.start:5.0f} s  {' | '.join(reach_table.cells(entry))[:150]}", flush=True)
        if self.args.out:
            write_lines(self.args.out / reach_table.FILE, map(json.dumps, self.found))
            with open(self.args.out / "reach.log", "a", encoding="utf-8") as log:
                log.writelines(logs[self.logged:])
            write_lines(self.args.out / "reach.txt", [reach_table.compact(self.found)])
        self.logged = len(logs)

    def end(self):
        print("\n" + reach_table.compact(self.found), end="")
        if self.args.markdown:
            reach_table.put_on_page(self.args.markdown, self.found, results.made_by(self.found))
        return 1 if any(entry["verdict"] == "FAIL" for entry in self.found) else 0


def survey(args, rows, report, gpus):
    """Rows of one GPU side by side, then those of several GPUs; last those that came out slow, alone."""
    found = {}
    with Survey(args, gpus) as surveyed, ThreadPoolExecutor(surveyed.jobs) as pool:
        def take(entry):
            found[entry["row"]] = entry
            report.take(entry, surveyed.logs)

        beside = sorted((row for row in rows if row.gpus == 1), key=lambda row: -row.cost)
        for done in as_completed([pool.submit(surveyed.measure_beside_others, row) for row in beside]):
            take(done.result())
        for row in rows:
            if row.gpus > 1:
                take(surveyed.measure(row, surveyed.everything))
        slow = [row for row in rows if reach_table.flag(found[row.name]) == "slow" and not args.alone]
        eager = {row.name: found[row.name]["eager"] for row in slow}
        for name, pair, failure in surveyed.alone(slow, eager):
            if failure:
                found[name].update(verdict="FAIL", why=f"alone: {failure}")
            elif pair:
                found[name]["alone"] = pair
            report.take(found[name], surveyed.logs)


def main():
    args = parse_arguments()
    rows = chosen(args)
    if args.list:
        print("\n".join(row.name for row in rows))
        return 0
    if args.sources:
        entries = []
        order = [row.name for row in reach_rows.all_rows()]
        for folder in args.sources:
            entries = results.merge(entries, results.load(folder, reach_table.FILE), order)
        results.commit_of(entries)
        return Report(args, entries, {}).end()
    gpus = 1 if args.simulated else gpu_count()
    if not gpus:
        print("SKIP: no GPU here (the driver is missing or offers no device)")
        return 0
    made = {"commit": page.commit(), "origin": page.origin()}
    earlier = [entry for entry in (results.load(args.out, reach_table.FILE) if args.out else [])
               if entry.get("commit") == made["commit"]]
    report = Report(args, earlier, made)
    survey(args, rows, report, gpus)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
