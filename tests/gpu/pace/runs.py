#!/usr/bin/env python3
"""Runs of 100 steps, an idle second, ranks that pace each other, and as many processes as processors.

    tests/gpu/pace/runs.py --build build-gpu --out OUT

All rows run pace/runs.c. Each round has one process of each way: without the library, with AUTOGRAPH_SUBMIT=inline, and with
the library as it is; every other round goes backwards. Short runs are timed from their first step to their last, without the
start of CUDA. Ranks meet behind each step of 20 launches and a sync; the host works between the launches. Copies have as many
processors as there are of them and do not meet; what counts is when the last one ends. Ranks and copies do as many steps
as one process without the library does in half of --seconds; as many more warm them up. The idle second is that of a program
that waits for its next repetition, from 10 ms behind the last step. Ratios are those of the medians, over 1: faster; in
brackets the lowest and the highest of one round.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import re
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from crowd import chosen  # noqa: E402
from processes import environments, write_lines  # noqa: E402
from processors import pin_to_one_node  # noqa: E402
from rounds import Failure, Process, Variant, run_in_rounds, run_once  # noqa: E402
from suite import gpu_count, replayed  # noqa: E402
from tables import layout  # noqa: E402

EAGER, INLINE, DEFAULT = WAYS = ("eager", "inline", "default")
RATIOS = ((DEFAULT, INLINE), (INLINE, EAGER), (DEFAULT, EAGER))
HEAD = ["row", "processes", *(f"{way} us" for way in WAYS), *(f"{way} of {than}" for way, than in RATIOS), "identical", "note"]
SUBMITTER = "autograph-send"
HANDED = re.compile(r"own thread launched ([0-9.]+)% of the replayed ops")
TIMEOUT_S = 60.0
PILOT_STEPS = 50
SETTLES_S = 0.01    # the submitter goes to sleep 0.6 ms behind its last work
IDLE_ROUNDS = 3


@dataclass
class Row:
    name: str
    options: list
    sized: bool = False     # steps by --seconds
    processors: int = 0     # 0: all
    idle: str = ""          # AUTOGRAPH_SUBMIT of an idle program


ROWS = [
    Row("100 steps, a sync each", ["--sync"]),
    Row("100 steps, one sync", []),
    *(Row(f"idle, {way}", ["--sync", "--steps=1000", "--work=5", "--warm=2000", "--reps=2"], idle=way) for way in ("auto", "thread")),
    *(Row(f"{count} ranks that meet", ["--sync", "--work=5", f"--ranks={count}", "--meet"], sized=True) for count in (2, 4)),
    *(Row(f"{count} copies on {count} processors", ["--work=10", f"--ranks={count}"], sized=True, processors=count) for count in (2, 4)),
]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    p.add_argument("--library", type=Path, help="BUILD/preload/libautograph.so")
    p.add_argument("--only", default="*", help="rows whose name matches one of these, with ; between")
    p.add_argument("--rounds", type=int, default=7, help="processes of each way (7)")
    p.add_argument("--seconds", type=float, default=0.5, help="about what a process of ranks or copies works (0.5)")
    p.add_argument("--idle", type=float, default=1.0, help="seconds of the idle program (1)")
    p.add_argument("--budget", type=float, default=100.0, help="seconds for all rows; each gets two rounds in any case (100)")
    p.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="added where the library is")
    p.add_argument("--simulated", action="store_true", help="on the simulated driver; the times mean nothing")
    p.add_argument("--out", type=Path, help="folder for runs.jsonl and runs.log")
    args = p.parse_args()
    args.build = args.build.resolve()
    args.programs = args.programs or args.build / "gpu"
    args.library = (args.library or args.build / "preload" / "libautograph.so").resolve()
    if not args.library.exists():
        p.error(f"{args.library} is missing")
    return args


def threads_of(pid):
    """{name: (nanoseconds of processor time, waits)} of the library's threads in this process."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("autograph-"):
            waits = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.MULTILINE)
            found[name] = (processor_ns(task), int(waits[1]) if waits else None)
    return found


def processor_ns(task):
    with contextlib.suppress(OSError):
        return int((task / "schedstat").read_text().split()[0])
    words = (task / "stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * 1000000000 // os.sysconf("SC_CLK_TCK")


def spent(before, after):
    """{name: [nanoseconds, waits]} between two readings; a thread that began meanwhile had none before."""
    told = {}
    for name, (ns, waits) in after.items():
        ns_before, waits_before = before.get(name, (0, 0))
        told[name] = [ns - ns_before, None if waits is None else waits - (waits_before or 0)]
    return told


@dataclass
class Measured:
    row: Row
    variants: dict = field(default_factory=dict)
    idle: list = field(default_factory=list)    # spent() of each process
    steps: int = 0
    failure: str = ""
    skipped: str = ""

    def us(self, way):
        """The time of a launch in each process."""
        return [statistics.median(times) for times in self.variants[way].rounds if times] if way in self.variants else []

    def ratio(self, way, than):
        """How many times as fast as `than` a way is: by the medians, and the lowest and the highest of a round."""
        ours, theirs = self.us(way), self.us(than)
        if not ours or not theirs:
            return None
        each = [b / a for a, b in zip(ours, theirs)]
        return [statistics.median(theirs) / statistics.median(ours), min(each), max(each)]

    def identical(self):
        sums = {found for variant in self.variants.values() for found in variant.checksums()}
        return len(sums) == 1 if sums else None

    def failed(self):
        return self.failure or ("results differ" if self.identical() is False else "")

    def log(self):
        return "".join(variant.log() for variant in self.variants.values())

    def said(self):
        """{way: (share replayed, percent of it that the library's own thread launched)}"""
        texts = {way: variant.error_text for way, variant in self.variants.items() if way != EAGER}
        handed = {way: HANDED.search(text) for way, text in texts.items()}
        return {way: (replayed(text), float(handed[way][1]) if handed[way] else None) for way, text in texts.items()}

    def note(self):
        if self.failed() or self.skipped:
            return self.failed() or f"skipped: {self.skipped}"
        words = [f"{way} replayed " + ("-" if share is None else f"{share:.0%}") + (f", {handed:.0f}% of it by the submitter" if handed else "")
                 for way, (share, handed) in self.said().items()]
        return "; ".join(idle_words(self.idle) + words + ([f"{self.steps} steps"] if self.steps else []))

    def entry(self):
        return {"row": self.row.name, "options": self.row.options, "steps": self.steps, "failure": self.failed(), "skipped": self.skipped,
                "identical": self.identical(), "us": {way: self.us(way) for way in self.variants}, "said": self.said(), "idle": self.idle,
                "ratios": {f"{way}/{than}": self.ratio(way, than) for way, than in RATIOS}}


def idle_words(processes):
    """The most that a process of them had."""
    words = []
    for name in sorted({name for threads in processes for name in threads}):
        times, waits = zip(*(threads[name] for threads in processes if name in threads))
        words.append(f"{name} {max(times) / 1e6:.3f} ms, " + ("waits not known" if None in waits else f"{max(waits)} waits"))
    return words + (["no submitter"] if any(SUBMITTER not in threads for threads in processes) else [])


def cells_of(found):
    def ratio_words(ratio):
        return "{:.3f} ({:.3f} to {:.3f})".format(*ratio) if ratio else "-"
    times = [found.us(way) for way in WAYS]
    count = len(found.idle) if found.row.idle else min(map(len, times))
    return [found.row.name, str(count), *(f"{statistics.median(us):.2f}" if us else "-" for us in times),
            *(ratio_words(found.ratio(way, than)) for way, than in RATIOS),
            {True: "yes", False: "NO", None: "-"}[found.identical()], found.note()]


class Runs:
    def __init__(self, args):
        self.args = args
        plain, preload = environments(args)
        preload = {**preload, "AUTOGRAPH_STATS": "1"}
        self.environments = {EAGER: plain, INLINE: {**preload, "AUTOGRAPH_SUBMIT": "inline"}, DEFAULT: preload}
        self.allowed = os.sched_getaffinity(0)

    def command(self, row):
        return [str(self.args.programs / "runs"), *row.options]

    @contextlib.contextmanager
    def on(self, processors):
        """What starts meanwhile gets these."""
        os.sched_setaffinity(0, processors)
        try:
            yield
        finally:
            os.sched_setaffinity(0, self.allowed)

    def steps(self, row):
        """So many that a process without the library takes half of --seconds."""
        pilot = Variant("pilot")
        command = [*self.command(row), f"--steps={PILOT_STEPS}", f"--warm={PILOT_STEPS}"]
        failure = run_once(pilot, command, self.environments[EAGER], 1, TIMEOUT_S)
        if failure:
            raise Failure(failure)
        return max(PILOT_STEPS, int(self.args.seconds / 2 * 1e6 / (pilot.median() * int(pilot.results[0]["per_step"]))))

    def in_turns(self, found, seconds):
        begun, command = time.monotonic(), self.command(found.row)
        if found.row.sized:
            found.steps = self.steps(found.row)
            command += [f"--steps={found.steps}", f"--warm={found.steps}"]
        specs = [(way, command, env) for way, env in self.environments.items()]
        variants, failure = run_in_rounds(specs, self.args.rounds, 1, TIMEOUT_S, seconds - (time.monotonic() - begun), gated=True)
        found.variants, found.failure = {variant.name: variant for variant in variants}, failure or ""

    def idle(self, found):
        variant = found.variants["idle"] = Variant("idle")
        env = {**self.environments[DEFAULT], "AUTOGRAPH_SUBMIT": found.row.idle}
        for _ in range(min(IDLE_ROUNDS, self.args.rounds)):
            process = Process("idle", self.command(found.row), env, TIMEOUT_S)
            try:
                process.await_ready()
                process.repeat()
                process.await_ready()
                time.sleep(SETTLES_S)
                before = threads_of(process.process.pid)
                time.sleep(self.args.idle)
                found.idle.append(spent(before, threads_of(process.process.pid)))
                process.repeat()
                process.finish()
            finally:
                process.kill()
                variant.logs.append(process.log())
                variant.error_text = process.error_text
            variant.rounds.append(process.times)
            variant.results.append(process.result)

    def measure(self, row, seconds):
        found = Measured(row)
        processors = chosen(row.processors, False) if row.processors else self.allowed
        if not processors:
            found.skipped = "too few processors"
            return found
        try:
            with self.on(processors):
                if row.idle:
                    self.idle(found)
                else:
                    self.in_turns(found, seconds)
        except (Failure, OSError) as failure:
            found.failure = str(failure)
        return found

    def measure_all(self, rows):
        begun, all_found = time.monotonic(), []
        for number, row in enumerate(rows):
            left = self.args.budget - (time.monotonic() - begun)
            all_found.append(self.measure(row, left / (len(rows) - number)))
            print(f"{time.monotonic() - begun:6.1f} s: {row.name}", flush=True)
            if self.args.out:
                write_lines(self.args.out / "runs.jsonl", [json.dumps(found.entry()) for found in all_found])
                write_lines(self.args.out / "runs.log", [f"===== {found.row.name}\n{found.log()}" for found in all_found])
        return all_found


def report(all_found):
    """The lines of the table, and the exit status."""
    lines = ["Microseconds a launch; ratios over 1: faster; idle: the most of any process.", layout(HEAD, list(map(cells_of, all_found)))]
    lines += [f"FAIL: {found.row.name}: {found.failed()}" for found in all_found if found.failed()]
    return lines, 1 if any(found.failed() for found in all_found) else 0


def main():
    args = parse_arguments()
    if not args.simulated and not gpu_count():
        print("SKIP: no GPU here (the driver is missing or offers no device)")
        return 0
    pin_to_one_node()
    rows = [row for row in ROWS if any(fnmatch.fnmatch(row.name, only) for only in args.only.split(";"))]
    lines, status = report(Runs(args).measure_all(rows))
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
