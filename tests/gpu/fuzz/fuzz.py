#!/usr/bin/env python3
"""Random programs on a GPU, eagerly and under the library in processes of their own: all that they saw must agree.

The eager run is the judge. A seed that differs is run eagerly again: if its eager runs disagree among themselves, fail
or hang, it is unusable and listed, not a difference. Exit status 1 where a seed differs, hangs or crashes.
tests/gpu/run --fuzz builds what is needed and starts this.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import transcript
from shrink import make_small

SETTINGS = [
    {},
    {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_TEST_CHUNK": "3", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_TEST_BUILD": "thread", "AUTOGRAPH_MAX_DEFER_US": "20"},
    {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_MEMORY_MB": "1", "AUTOGRAPH_TEST_CHUNK": "16"},
    {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_MAX_DEFER_US": "20000", "AUTOGRAPH_TEST_MAX_CHUNK": "1024",
     "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_TEST_BUILD": "thread", "AUTOGRAPH_TEST_CHUNK": "1", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_TEST_MIN_REPEATS": "4"},
    {"AUTOGRAPH_TEST_BUILD": "thread", "AUTOGRAPH_MEMORY_MB": "1", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_TEST_BUILD": "thread", "AUTOGRAPH_COMPARE_MS": "1", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_TEST_MIN_OPS": "4", "AUTOGRAPH_TEST_MIN_REPEATS": "3", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_SUBMIT": "thread", "AUTOGRAPH_TEST_BUILD": "inline", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_SUBMIT": "thread", "AUTOGRAPH_TEST_BUILD": "thread", "AUTOGRAPH_TEST_CHUNK": "3", "AUTOGRAPH_TEST_PROFIT": "0"},
    {"AUTOGRAPH_SUBMIT": "thread", "AUTOGRAPH_TEST_SWITCH": "1", "AUTOGRAPH_TEST_BUILD": "thread", "AUTOGRAPH_TEST_PROFIT": "0"},
]
# Programs of one process: what the library has learnt stays from program to program, and begins anew.
SIZES = (24, 24, 4, 24, 12, 1, 24)
TELL_SECONDS = 20
# Every so many batches the eager run is made twice, whether something differs or not.
TWICE = 8


def describe(setting):
    return " ".join(f"{k.removeprefix('AUTOGRAPH_')}={v}" for k, v in sorted(setting.items())) or "defaults"


@dataclass
class Batch:
    first: int
    count: int
    settings: list
    twice: bool = False


@dataclass
class Tally:
    programs: int = 0
    ops: int = 0
    replayed: int = 0
    recordable: int = 0
    differences: int = 0
    hangs: int = 0
    crashes: int = 0

    def add(self, other):
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def bad(self):
        return self.differences + self.hangs + self.crashes

    def share(self):
        return 100.0 * self.replayed / self.recordable if self.recordable else 0.0


@dataclass
class Outcome:
    """What one process did: the transcript of every seed that it began, and how it ended."""
    blocks: dict
    errors: str
    end: str  # "ok", "hang", "lost context", "killed by ...", "exit status ..."
    replayed: tuple = field(default=(0, 0))

    def unfinished(self):
        """The seed in which the process ended before its time."""
        last = next(reversed(self.blocks), None)
        return last if last is not None and not self.blocks[last].endswith("done\n") else None


class Machine:
    """Starts fuzz programs."""

    def __init__(self, args):
        self.args = args
        self.program = str(args.programs / "fuzz_gpu")
        self.base = {name: value for name, value in os.environ.items()
                     if name != "LD_PRELOAD" and not name.startswith("AUTOGRAPH")}
        # Loading a kernel late may wait for the GPU, which in these programs may wait for the host.
        self.base["CUDA_MODULE_LOADING"] = "EAGER"
        if args.simulated:
            self.base["LD_LIBRARY_PATH"] = str(args.build / "tests" / "simdriver")

    def shape(self):
        options = ["--real", "--ops", str(self.args.ops), "--threads", str(self.args.threads),
                   "--limit", str(self.args.limit)]
        options += ["--forks"] if self.args.forks else []
        return options + (["--without", self.args.without] if self.args.without else [])

    def library_env(self, setting):
        setting = {"AUTOGRAPH_TEST_GRIDS": "4", **setting}
        more = dict(item.split("=", 1) for item in self.args.env)
        if self.args.forks:
            setting = {"AUTOGRAPH_TEST_JOIN": "1", **setting}
        elif self.args.simulated and not self.args.blind:  # it tells on which stream work ran: a fork has one graph on one
            setting = {"AUTOGRAPH_TEST_JOIN": "0", **setting}
        return {**setting, **more, "LD_PRELOAD": str(self.args.library), "AUTOGRAPH_STATS": "2"}

    def run(self, arguments, setting=None, text=None):
        env = {**self.base, **(self.library_env(setting) if setting is not None else {})}
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen([self.program, *self.shape(), *arguments], env=env, stdout=out, stderr=err,
                                       stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL, text=True)
            try:
                process.communicate(text, timeout=self.args.timeout)
                end = self.how_it_ended(process.returncode)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                end = "hang"
            out.seek(0)
            err.seek(0)
            errors = err.read()
            text = out.read()
            if self.args.blind:
                text = transcript.without_order(text)
            return Outcome(transcript.blocks(text), errors, end, transcript.replayed(errors))

    @staticmethod
    def how_it_ended(status):
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        return {0: "ok", 4: "hang", 6: "lost context"}.get(status, f"exit status {status}")

    def seeds(self, batch, setting=None):
        return self.run(["--seed", str(batch.first), "--count", str(batch.count)], setting)

    def command(self, batch, setting):
        """How a user runs these seeds again."""
        words = ["./tests/gpu/run", "--fuzz", "--first", str(batch.first), "--count", str(batch.count),
                 "--ops", str(self.args.ops), "--threads", str(self.args.threads)]
        words += ["--forks"] if self.args.forks else []
        if self.args.without:
            words += ["--without", self.args.without]
        return shlex.join([*words, "--setting", " ".join(f"{k}={v}" for k, v in setting.items())])


class Campaign:
    def __init__(self, args):
        self.args = args
        self.machine = Machine(args)
        self.lock = threading.Lock()
        self.waiting = []
        self.number = 0
        self.next_seed = args.first
        self.stop_at = time.monotonic() + args.seconds
        self.tallies = defaultdict(Tally)
        self.unusable = {}
        self.codes = defaultdict(lambda: [0, None])
        self.problems = []
        self.trouble = None
        self.told = self.start = time.monotonic()

    # ---- what to do next

    def next_batch(self):
        with self.lock:
            if self.trouble or time.monotonic() > self.stop_at or len(self.problems) >= self.args.most:
                return None
            if self.waiting:
                return self.waiting.pop()
            left = self.args.first + self.args.count - self.next_seed if self.args.count else SIZES[0]
            if left <= 0:
                return None
            n, self.number = self.number, self.number + 1
            count = min(left, self.args.count or SIZES[n % len(SIZES)], 50)
            settings = [self.args.setting] if self.args.setting is not None else [
                SETTINGS[n % len(SETTINGS)], SETTINGS[(n + 5 + n // len(SETTINGS)) % len(SETTINGS)]]
            batch = Batch(self.next_seed, count, settings, n % TWICE == TWICE - 1)
            self.next_seed += count
            return batch

    def again_behind(self, batch, seed, settings):
        """The seeds behind one that ended its process are still to be run."""
        rest = batch.first + batch.count - int(seed) - 1
        if rest > 0:
            with self.lock:
                self.waiting.append(Batch(int(seed) + 1, rest, settings))

    # ---- judging

    def call_unusable(self, seed, why):
        with self.lock:
            if seed not in self.unusable:
                self.unusable[seed] = why
                self.say(f"seed {seed} is unusable: {why}")

    def say(self, text):
        print(text, flush=True)

    def take(self, batch):
        eager = self.machine.seeds(batch)
        if not eager.blocks:
            self.trouble = f"the eager run did not begin ({eager.end}):\n{eager.errors[-2000:]}"
            return
        bad = eager.unfinished()
        if bad is not None:
            self.args.out.mkdir(parents=True, exist_ok=True)
            (self.args.out / f"seed-{bad}.unusable").write_text(eager.errors, encoding="utf-8")
            self.call_unusable(bad, f"its eager run ended with: {eager.end}{transcript.where(eager.blocks[bad])}"
                               f"\n{eager.errors[-600:]}")
            self.again_behind(batch, bad, batch.settings)
            del eager.blocks[bad]
            batch = Batch(batch.first, int(bad) - batch.first, batch.settings, batch.twice)
        elif eager.end != "ok":
            self.trouble = f"the eager run of {batch} ended with: {eager.end}\n{eager.errors[-2000:]}"
            return
        if not batch.count:
            return
        with self.lock:
            for seed, block in eager.blocks.items():
                transcript.count_codes(seed, block, self.codes)
        if batch.twice:
            self.compare_eager(eager, self.machine.seeds(batch))
        for setting in batch.settings:
            self.compare(batch, setting, eager)

    def compare_eager(self, first, second):
        """Whether the eager runs agree; those seeds that do not are unusable."""
        for seed, block in first.blocks.items():
            if seed in second.blocks and block != second.blocks[seed]:
                self.call_unusable(seed, "two eager runs differ\n" +
                                   transcript.first_difference(block, second.blocks[seed], "eager", "again"))

    def compare(self, batch, setting, eager):
        under = self.machine.seeds(batch, setting)
        tally = Tally(replayed=under.replayed[0], recordable=under.replayed[1])
        stopped = under.unfinished()
        wrong = [seed for seed, block in under.blocks.items()
                 if seed not in self.unusable and seed != stopped and block != eager.blocks.get(seed)]
        tally.programs = len(under.blocks)
        tally.ops = sum(map(transcript.num_ops, under.blocks.values()))
        if wrong or under.end != "ok":
            for _ in range(2):
                self.compare_eager(eager, self.machine.seeds(batch))
            wrong = [seed for seed in wrong if seed not in self.unusable]
        if wrong:
            once_more = self.machine.seeds(batch, setting)
            for seed in wrong:
                tally.differences += 1
                seen = once_more.blocks.get(seed) != eager.blocks[seed]
                self.problem(seed, "differs" if seen else "differs, once in two runs", batch, setting,
                             transcript.first_difference(eager.blocks[seed], under.blocks[seed]), eager, under)
        if stopped is not None:
            if under.end == "hang":
                tally.hangs += 1
            else:
                tally.crashes += 1
            self.problem(stopped, under.end, batch, setting,
                         transcript.where(under.blocks[stopped]) + "\n" + under.errors[-1500:], eager, under)
            self.again_behind(batch, stopped, [setting])
        elif under.end != "ok" or len(under.blocks) < len(eager.blocks):
            tally.crashes += 1
            last = next(reversed(under.blocks), str(batch.first))
            self.problem(last, f"at the end of the process: {under.end}", batch, setting, under.errors[-1500:],
                         eager, under)
        with self.lock:
            self.tallies[describe(setting)].add(tally)

    def problem(self, seed, what, batch, setting, text, eager, under):
        alone = Batch(int(seed), 1, [setting])
        report = (f"seed {seed}: {what}, with {describe(setting)}\n{text}\n"
                  f"  alone:      {self.machine.command(alone, setting)}\n"
                  f"  as it was:  {self.machine.command(batch, setting)}")
        with self.lock:
            self.problems.append(report)
            number = len(self.problems)
            self.say(report)
        if number > 10:
            return
        folder = self.args.out
        folder.mkdir(parents=True, exist_ok=True)
        text = program_text(self.machine, seed)
        for name, content in (("eager", eager.blocks.get(seed, "")), ("library", under.blocks.get(seed, "")),
                              ("fuzz", text), ("stderr", under.errors)):
            (folder / f"seed-{seed}.{name}").write_text(content, encoding="utf-8")
        if self.args.shrink and number <= 2 and "differs" in what:
            self.say(make_small(self.machine, seed, setting, text, self.args.shrink,
                                folder / f"seed-{seed}.small.fuzz"))

    # ---- the whole run

    def total(self):
        found = Tally()
        for tally in self.tallies.values():
            found.add(tally)
        return found

    def tell(self):
        """A line now and then: who is stopped before the report has said so much."""
        with self.lock:
            now = time.monotonic()
            if now - self.told >= TELL_SECONDS:
                self.told = now
                total = self.total()
                self.say(f"{now - self.start:6.1f} s  {total.programs} programs, {len(self.unusable)} unusable seeds, "
                         f"{total.bad()} problems")

    def work(self):
        try:
            while (batch := self.next_batch()) is not None:
                self.take(batch)
                self.tell()
        except Exception as error:  # a worker must not end unseen
            self.trouble = f"{type(error).__name__}: {error}"
            raise

    def run(self):
        workers = [threading.Thread(target=self.work) for _ in range(self.args.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return self.report(time.monotonic() - self.start)

    def report(self, seconds):
        lines = []
        odd = transcript.describe_codes(self.codes)
        if odd:
            lines += ["Codes that the driver gave eagerly (the library must give, and gave, the same "
                      "unless listed above):", *odd, ""]
        if self.unusable:
            lines += [f"Unusable seeds: {' '.join(sorted(self.unusable, key=int))}", ""]
        total = self.total()
        lines += table([*sorted(self.tallies.items()), ("all", total)])
        lines += [f"{total.programs} programs in {seconds:.0f} s by {self.args.jobs} processes at a time; "
                  f"{len(self.unusable)} unusable seeds; {total.bad()} problems"]
        if self.trouble:
            lines.append("FAIL: " + self.trouble)
        little = self.args.least_replayed and total.recordable > 20000 and total.share() < self.args.least_replayed
        if little:
            lines.append(f"FAIL: only {total.share():.0f}% replayed: too little to mean anything")
        text = "\n".join(lines)
        self.say(text)
        self.args.out.mkdir(parents=True, exist_ok=True)
        (self.args.out / "fuzz.txt").write_text("\n".join([*self.problems, text, ""]), encoding="utf-8")
        return 1 if total.bad() or self.trouble or little or not total.programs else 0


def program_text(machine, seed):
    done = subprocess.run([machine.program, *machine.shape(), "--seed", seed, "--print"], env=machine.base,
                          capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def table(rows):
    head = ["settings", "programs", "ops", "recordable", "replayed", "differences", "hangs", "crashes"]
    body = [[name, t.programs, t.ops, t.recordable, f"{t.share():.1f}%", t.differences, t.hangs, t.crashes]
            for name, t in rows]
    cells = [head] + [[str(cell) for cell in row] for row in body]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    return [lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]]


def parse_arguments(arguments=None):
    cores = os.cpu_count() or 1
    p = argparse.ArgumentParser(prog="tests/gpu/fuzz/run", description=__doc__.split("\n\n")[0])
    p.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    p.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    p.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    p.add_argument("--seconds", type=float, default=60.0, help="begin no batch after this long (60)")
    p.add_argument("--jobs", type=int, default=max(1, min(8, cores // 2)), help="processes at a time")
    p.add_argument("--first", type=int, default=1, help="first seed (1)")
    p.add_argument("--count", type=int, default=0, help="seeds (as many as there is time for)")
    p.add_argument("--ops", type=int, default=500, help="ops of a program, about (500)")
    p.add_argument("--threads", type=int, default=2, help="0: one host thread; 1: several; 2: every fourth program")
    p.add_argument("--forks", action="store_true", help="many loops on streams that fork and join, in one graph at once")
    p.add_argument("--setting", help="'N=V N=V': these variables instead of the rotating ones")
    p.add_argument("--env", metavar="N=V", action="append", default=[], help="added to runs with the library")
    p.add_argument("--without", default="", metavar="KIND,...", help="kinds of ops (ops.def) that are left out")
    p.add_argument("--limit", type=int, default=20, help="seconds after which a program hangs (20)")
    p.add_argument("--timeout", type=float, default=150.0, help="seconds for one process (150)")
    p.add_argument("--most", type=int, default=20, help="stop after so many problems (20)")
    p.add_argument("--least-replayed", type=float, default=20.0, help="percent of recordable ops (20)")
    p.add_argument("--shrink", type=float, default=0.0, metavar="SECONDS", help="make the first two small")
    p.add_argument("--out", type=Path, help="folder for what differs (BUILD/fuzz)")
    p.add_argument("--simulated", action="store_true", help="try it on the simulated driver")
    p.add_argument("--blind", action="store_true",
                   help="do not compare the order of the work on streams, which a GPU does not tell")
    args = p.parse_args(arguments)
    args.out = args.out or args.build / "fuzz"
    args.programs = args.programs or args.build / "gpu"
    if args.setting is not None:
        args.setting = dict(item.split("=", 1) for item in args.setting.split())
    return args


if __name__ == "__main__":
    sys.exit(Campaign(parse_arguments()).run())
