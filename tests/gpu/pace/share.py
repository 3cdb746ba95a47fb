#!/usr/bin/env python3
"""How much of the time that launches cost is saved, by each way of submitting?

    tests/gpu/pace/share.py --build build-gpu --rounds 12

Each program runs in turn eagerly, with the library (AUTOGRAPH_SUBMIT=inline, thread, auto), and with launches that
cost nothing (libautograph_free.so): the last is the bound. Each of them has one process a round, and all processes of a round load
their modules together. What could be saved is the eager time less the bound, or less the GPU's busy time (CUPTI's, of one
process) where that is longer. The interval: 95 % of what other draws of as many rounds give. Processors of a virtual
machine go at two speeds; the fastest repetition of each way says what the faster one gives.
"""

import argparse
import fnmatch
import itertools
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "profile")]
import rows as table_rows  # noqa: E402
from loaded import free_library  # noqa: E402
from processors import Processors, pin_to_one_node  # noqa: E402
from rounds import Failure  # noqa: E402
from steps import Measured, Switch, TimedProcess, gpu_of  # noqa: E402
from suite import Suite, replayed  # noqa: E402

WAYS = ("inline", "thread", "auto")
CUPTI = "cupti"
TOGETHER = 4    # rows whose processes load at the same time
DRAWS = 2000
TIMEOUT_S = 60.0
UNMEASURED = ("JAX training step", "PyTorch with its own CUDA graph")   # they launch graphs
ROWS = [row for row in table_rows.framework_rows() if row.gpus == 1 and row.name not in UNMEASURED] + [
    table_rows.script("train_amp", "PyTorch mixed-precision training", modules=("torch",)),
    table_rows.script("train_lora", "LoRA training", modules=("torch", "transformers", "peft")),
    table_rows.script("bert_fp16", "BERT fp16, a sync a step", modules=("torch", "transformers")),
]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--library", type=Path, help="BUILD/preload/libautograph.so")
    p.add_argument("--rounds", type=int, default=12, help="processes of each way (12)")
    p.add_argument("--reps", type=int, default=5, help="repetitions of a process (5)")
    p.add_argument("--only", default="*", help="rows whose name matches one of these, with commas between")
    p.add_argument("--ways", default=",".join(WAYS), help="of AUTOGRAPH_SUBMIT (inline,thread,auto)")
    p.add_argument("--out", type=Path, help="folder for share.json and share.log")
    args = p.parse_args()
    args.library = (args.library or args.build / "preload" / "libautograph.so").resolve()
    args.ways = args.ways.split(",")
    args.env, args.simulated = [], False
    return args


class Share:
    def __init__(self, args):
        self.args = args
        self.suite = Suite(args)
        self.free = free_library(args.build)
        self.spans = args.build / "gpu" / "profile" / "libspans.so"
        self.processors = Processors(os.sched_getaffinity(0))
        self.log = []

    def specs(self, row, folder):
        """(way, environment, switch) of a round."""
        base = self.suite.base_env
        found = [("eager", base, None)]
        for way in self.args.ways:
            found.append((way, {**self.suite.preload_env(row.env), "AUTOGRAPH_SUBMIT": way, "AUTOGRAPH_STATS": "2"},
                          None))
        switch = Switch(folder / "free", None)
        found.append(("free", {**base, "LD_PRELOAD": str(self.free), "AG_FREE_FILE": str(switch.path)}, switch))
        return found

    def run(self, row, way, process, switch):
        """The times of one process, or None."""
        failure = None
        try:
            process.open_gate()
            process.work(self.args.reps, switch, self.processors)
        except (Failure, OSError, ValueError) as error:
            failure = str(error)
        process.kill()
        self.log.append(process.log())
        # Results that are wrong end a program with an error, behind its times.
        if failure and not (way == "free" and process.times):
            self.log.append(f"{row.name}, {way}: {failure}\n")
            return None
        return process.times

    def load(self, row, folder):
        """The processes of all rounds, past the loading of their modules: [(way, switch, process)] of each round."""
        command = [*self.suite.command(row), "--paced", "--gated", f"--reps={self.args.reps}"]
        rounds = []
        for number in range(self.args.rounds):
            place = folder / str(number)
            place.mkdir(parents=True)
            rounds.append([(way, switch, TimedProcess(way, command, env, TIMEOUT_S))
                           for way, env, switch in self.specs(row, place)])
        if self.spans.exists():
            env = {**self.suite.base_env, "CUDA_INJECTION64_PATH": str(self.spans), "AG_SPANS_DIR": str(folder)}
            rounds.append([(CUPTI, None, TimedProcess(CUPTI, command, env, TIMEOUT_S))])
        for _, _, process in itertools.chain(*rounds):
            process.await_loaded()
        return rounds

    def measure(self, row, folder, rounds):
        times, fastest, hosts, said, checksums, busy = {}, {}, {}, {}, set(), 0.0
        for number, processes in enumerate(rounds):
            for way, switch, process in processes if number % 2 == 0 else processes[::-1]:
                found = self.run(row, way, process, switch)
                if way == CUPTI:
                    busy = self.busy(process, folder)
                elif found:
                    per_step = int((process.result or {}).get("per_step", 1))
                    times.setdefault(way, []).append(statistics.median(found) * per_step)
                    fastest[way] = min(fastest.get(way, math.inf), min(found) * per_step)
                    if process.host_times:
                        hosts.setdefault(way, []).append(statistics.median(process.host_times) * per_step)
                    said[way] = process.error_text
                    if way != "free":
                        checksums.add((process.result or {}).get("checksum"))
        return {"row": row.name, "times": times, "fastest": fastest, "hosts": hosts, "busy": busy, "identical": len(checksums) == 1,
                "replayed": {way: replayed(text) for way, text in said.items() if way in self.args.ways},
                "said": said}

    def measure_all(self, rows):
        """Entries of the rows; those of a group load at the same time."""
        for at in range(0, len(rows), TOGETHER):
            group = rows[at:at + TOGETHER]
            with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(TOGETHER) as pool:
                places = [Path(folder) / str(number) for number in range(len(group))]
                for entry in zip(group, places, list(pool.map(self.load, group, places))):
                    yield self.measure(*entry)

    def busy(self, process, place):
        measured = Measured()
        measured.add(process)
        found = gpu_of(measured, place, int((process.result or {}).get("per_step", 1)))
        return (found or {}).get("busy_us", 0.0)


def shares(times, busy, way, draw=lambda values: values):
    """(ratio, share of what could be saved; None where there is nothing to save)."""
    eager, ours = (statistics.median(draw(times[name])) for name in ("eager", way))
    bound = max(statistics.median(draw(times["free"])), busy) if "free" in times else None
    saved = eager - bound if bound and eager > bound else None
    return eager / ours, (eager - ours) / saved if saved else None


def interval(times, busy, way):
    chance = random.Random(1)
    found = [shares(times, busy, way, lambda values: chance.choices(values, k=len(values)))[1] for _ in range(DRAWS)]
    found = sorted(value for value in found if value is not None)
    return (found[len(found) // 40], found[-len(found) // 40 - 1]) if len(found) > 40 else (None, None)


def percent(value):
    return "-" if value is None else f"{value:.0%}"


def lines_of(entry, ways):
    times = entry["times"]
    middle = {name: statistics.median(values) for name, values in times.items()}
    bound = max(middle["free"], entry["busy"]) if "free" in middle else None
    for way in ways:
        if way not in times or "eager" not in times:
            yield f"| {entry['row']} | {way} | failed | | | | | | |"
            continue
        ratio, share = shares(times, entry["busy"], way)
        low, high = interval(times, entry["busy"], way)
        quick = shares({name: [value] for name, value in entry["fastest"].items()}, entry["busy"], way)[1]
        yield (f"| {entry['row']} | {way} | {len(times[way])} | {middle['eager']:.1f} | {middle[way]:.1f} | "
               f"{'-' if bound is None else f'{bound:.1f}'} | {ratio:.3f}x | {percent(share)} ({percent(low)} to {percent(high)}) | {percent(quick)} | "
               f"{percent(entry['replayed'].get(way))} | {'yes' if entry['identical'] else 'NO'} |")


def main():
    args = parse_arguments()
    pin_to_one_node()
    share = Share(args)
    if not share.suite.gpus:
        print("SKIP: no GPU")
        return 0
    started, found = time.monotonic(), []
    rows = [row for row in ROWS if any(fnmatch.fnmatch(row.name, only) for only in args.only.split(","))
            and not share.suite.why_not(row)]
    for entry in share.measure_all(rows):
        found.append(entry)
        print(f"{entry['row']}: {time.monotonic() - started:.0f} s", flush=True)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / "share.json").write_text(json.dumps(found, indent=1))
            (args.out / "share.log").write_text("".join(share.log))
    print("| program | submitted by | processes | eager us | autograph us | bound us | times as fast | saved | by the fastest repetition | replayed | identical |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for entry in found:
        print("\n".join(lines_of(entry, args.ways)))
    return 0 if all(entry["identical"] for entry in found) else 1


if __name__ == "__main__":
    sys.exit(main())
