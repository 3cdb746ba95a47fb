#!/usr/bin/env python3
"""Where a step's time goes: each program eagerly, with the library, and with launches that cost nothing, then
once with a dump and twice under CUPTI. One table, microseconds a step. tests/gpu/run --profile builds
what is needed and starts this.
"""

import argparse
import fnmatch
import json
import statistics
import struct
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import page  # noqa: E402
import rows as table_rows  # noqa: E402
import spans  # noqa: E402
import traced  # noqa: E402
from loaded import free_library  # noqa: E402
from processes import write_lines  # noqa: E402
from profile_table import LEGEND, lines_of  # noqa: E402
from processors import Processors, lent, pin_to_one_node  # noqa: E402
from rounds import Failure, Process  # noqa: E402
from suite import Suite, part, part_of  # noqa: E402

# Rows of rows.py, the most telling first, and how many ops run as usual before they cost nothing. None: all
# of the warm-up, so that what is read back later is what it was there. Solvers end by what they read
# back: their residual has to stay where it is after some steps. "Driver" solvers are there for the simulated
# driver, which runs no others.
PROFILED = [
    ("loop driver: tiny, no sync", None),
    ("loop static: tiny, no sync", None),
    ("loop driver: 20 tiny, sync per step", None),
    ("loop static: 20 tiny, sync per step", None),
    ("loop static: 500,000 elements, 20 + sync", None),
    ("heat static: residual read back every 10 steps", 100),
    ("heat driver: residual read back every 10 steps", 100),
    ("cg static: residual read back in every iteration", 100),
    ("cg driver: residual read back in every iteration", 100),
    ("chain: 20 cuBLAS products with memsets and activations", None),
    ("loop static: 20 tiny and 20 memsets, sync per step", None),
    ("loop driver: 5 us kernels, no sync", None),
    ("PyTorch ResNet-18, eager mode", None),
    ("PyTorch ResNet-18, TorchScript", None),
    ("PyTorch transformer", None),
    ("PyTorch transformer, TorchScript", None),
    ("PyTorch training, 560 steps", None),
    ("transformers generate()", None),
    ("Triton loop", None),
    ("CuPy loop", None),
    ("JAX training step", None),
    ("numba loop", None),
]
TIMED = ("eager", "autograph", "free")
MEASURED = (*TIMED, "traced", "eager under CUPTI", "autograph under CUPTI")
TOGETHER = 4    # Python programs whose processes load their modules at the same time
MANY = 1 << 62
FREE_TIMEOUT = 25.0     # what it reads back is wrong: some programs may not end


class TimedProcess(Process):
    """Notes by the wall clock when each repetition began and ended."""

    def __init__(self, *args):
        super().__init__(*args)
        self.windows = []

    def repeat(self):
        begun = time.time_ns()
        super().repeat()
        self.windows.append((begun, time.time_ns()))

    def work(self, repetitions, switch, processors):
        """All of it, behind the gate. `switch`: of free launches, or None."""
        for _ in range(repetitions):
            self.await_ready()
            if switch:
                switch.warmed_up()
            with lent(processors, self.process.pid):
                self.repeat()
        self.finish()


@dataclass
class Measured:
    """The processes of one variant."""
    times: list = field(default_factory=list)       # as the program tells them
    hosts: list = field(default_factory=list)
    windows: list = field(default_factory=list)     # of the last process
    last_times: list = field(default_factory=list)
    result: dict = None
    failure: str = None

    def add(self, process):
        self.times += process.times
        self.hosts += process.host_times
        self.windows, self.last_times = process.windows, process.times
        self.result = process.result or self.result

    def us(self, per_step):
        return {"wall_us": statistics.median(self.times) * per_step,
                "host_us": statistics.median(self.hosts) * per_step if self.hosts else None}

    def steady(self, per_step):
        """Windows of the last process without its first repetition, and the steps in them."""
        windows, times = self.windows[1:] or self.windows, self.last_times[1:] or self.last_times
        told = (self.result or {}).get("iters")
        if told:
            return windows, int(told) * len(windows)
        return windows, sum((end - begin) / 1e3 / (us * per_step) for (begin, end), us in zip(windows, times))


class Switch:
    """The file that tells libautograph_free.so how many ops still run as usual."""

    def __init__(self, path, ops):
        self.path, self.ops = path, ops
        self.write(MANY if ops is None else ops)

    def write(self, count):
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("<Q", count))

    def warmed_up(self):
        if self.ops is None:
            self.write(0)


class Profile:
    def __init__(self, args, processors=None):
        self.args = args
        self.processors = processors
        self.suite = Suite(args)
        self.free = free_library(args.build)
        self.spans = args.build / "gpu" / "profile" / "libspans.so"
        self.stop_at = time.monotonic() + args.budget
        self.log = []

    def why_not(self, row):
        if time.monotonic() > self.stop_at:
            return "out of time"
        return self.suite.why_not(row)

    def specs(self, row, ops, folder):
        """(variant, command, environment, switch) of each process, in the order in which they work."""
        base, preload = self.suite.base_env, self.suite.preload_env(row.env)
        command = self.suite.command(row, ["--paced", f"--reps={self.args.reps or row.repetitions}"])
        cupti = {"CUDA_INJECTION64_PATH": str(self.spans), "AUTOGRAPH_FORCE": "1"}
        rounds = self.args.rounds or (1 if row.needs else 2)
        found = []
        for number in range(rounds):
            switch = Switch(folder / f"free.{number}", ops)
            group = [("eager", command, base, None), ("autograph", command, preload, None),
                     ("free", command, {**base, "LD_PRELOAD": str(self.free),
                                        "AG_FREE_FILE": str(switch.path)}, switch)]
            found += group if number % 2 == 0 else group[::-1]
        found.append(("traced", command, {**preload, "AUTOGRAPH_TRACE": str(folder / "dump"),
                                          "AUTOGRAPH_TRACE_MB": "128"}, None))
        if self.spans.exists() and not self.args.simulated:
            for variant, env in (("eager under CUPTI", base), ("autograph under CUPTI", preload)):
                place = folder / variant.split()[0]
                place.mkdir()
                found.append((variant, command, {**env, **cupti, "AG_SPANS_DIR": str(place)}, None))
        return found

    def load(self, row, specs):
        """The processes of a Python program, past the loading of their modules; none of other programs."""
        if not row.needs:
            return []
        loaded = [TimedProcess(name, [*command, "--gated"], env, timeout_of(row, name))
                  for name, command, env, _ in specs]
        for process in loaded:
            process.await_loaded()
        return loaded

    def run_one(self, row, spec, loaded, measured):
        """One process from start to end, added to its variant."""
        name, command, env, switch = spec
        failure, process = None, loaded
        try:
            if process:
                process.open_gate()
            else:
                process = TimedProcess(name, command, env, timeout_of(row, name))
            process.work(self.args.reps or row.repetitions, switch, self.processors)
        except (Failure, OSError, ValueError) as error:
            failure = str(error)
        finally:
            if process:
                process.kill()
                measured[name].add(process)
                self.log.append(process.log())
        # Results that are wrong end a program with an error, after its times.
        if failure and not (name == "free" and measured[name].times):
            measured[name].failure = failure
        return measured[name].failure

    def measure(self, row, specs, loaded, folder):
        measured = {name: Measured() for name in MEASURED}
        waiting = list(loaded)
        try:
            for spec in specs:
                process = waiting.pop(0) if waiting else None
                if measured[spec[0]].failure:
                    if process:
                        process.kill()
                    continue
                failure = self.run_one(row, spec, process, measured)
                if failure and spec[0] in ("eager", "autograph"):
                    return {"row": row.name, "why": failure}
        finally:
            for process in waiting:
                process.kill()
        return {"row": row.name, **entry_of(measured, folder)}

    def profile(self, chosen):
        """Entries of the rows, one by one."""
        for at in range(0, len(chosen), TOGETHER):
            with tempfile.TemporaryDirectory() as folder:
                yield from self.profile_group(chosen[at:at + TOGETHER], Path(folder))

    def profile_group(self, group, folder):
        able = []
        for number, (row, ops) in enumerate(group):
            reason = self.why_not(row)
            if reason:
                yield {"row": row.name, "why": f"skipped: {reason}"}
                continue
            place = folder / str(number)
            place.mkdir()
            able.append((row, place, self.specs(row, ops, place)))
        with ThreadPoolExecutor(TOGETHER) as pool:
            loaded = list(pool.map(lambda one: self.load(one[0], one[2]), able))
        for (row, place, specs), processes in zip(able, loaded):
            self.log.append(f"===== {row.name}\n")
            if time.monotonic() > self.stop_at:
                for process in processes:
                    process.kill()
                yield {"row": row.name, "why": "skipped: out of time"}
                continue
            yield self.measure(row, specs, processes, place)


def timeout_of(row, name):
    return min(row.timeout, FREE_TIMEOUT) if name == "free" else row.timeout


def a_step(found, steps):
    """What was counted, by step."""
    return {name: {key: value / steps for key, value in what.items()} if isinstance(what, dict)
            else what if name in ("lost", "dropped") else what / steps
            for name, what in asdict(found).items()}


def trace_of(measured, folder, per_step):
    path = folder / "dump"
    if measured.failure or not path.exists():
        return None
    windows, steps = measured.steady(per_step)
    try:
        return a_step(traced.read(path.read_bytes(), windows), steps)
    except traced.Unreadable:
        return None


def gpu_of(measured, folder, per_step):
    files = sorted(folder.glob("spans.*")) if folder.exists() else []
    if measured.failure or not files:
        return None
    windows, steps = measured.steady(per_step)
    # Of several processes the one that uses the GPU most is meant.
    found = [spans.read(path.read_bytes(), windows) for path in files]
    found = max(filter(None, found), key=lambda one: one.kernels, default=None)
    return a_step(found, steps) if found and found.kernels else None


def host_parts(entry):
    """Splits the host's time with the library: what the program needs anyway (that with free launches), the
    driver's calls, building, and what is left, which is the library's own and the error of all else."""
    trace, hosts = entry["trace"], [entry[name] and entry[name]["host_us"] for name in ("autograph", "free")]
    if not trace or None in hosts:
        return None
    driver = sum(trace[name]["us"] for name in ("graphs", "updates", "calls", "flushes", "building"))
    return {"program": hosts[1], "driver_and_building": driver, "rest": hosts[0] - hosts[1] - driver}


def entry_of(measured, folder):
    per_step = int((measured["eager"].result or {}).get("per_step", 1))
    entry = {name: measured[name].us(per_step) if measured[name].times and not measured[name].failure else None
             for name in TIMED}
    entry["why_no_bound"] = measured["free"].failure
    entry["trace"] = trace_of(measured["traced"], folder, per_step)
    entry["gpu"] = {name: gpu_of(measured[f"{name} under CUPTI"], folder / name, per_step)
                    for name in ("eager", "autograph")}
    entry["host_parts"] = host_parts(entry)
    eager, auto, free = (entry[name] and entry[name]["wall_us"] for name in TIMED)
    if free:
        busy = (entry["gpu"]["eager"] or {}).get("busy_us", 0.0)
        entry["bound"] = eager / free
        entry["bound_with_gpu"] = eager / max(free, busy) if busy else None
        saved = eager - max(free, busy)
        entry["reached"] = (eager - auto) / saved if saved > 0 else None
    return entry


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --profile", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="PATTERN", default="", help="rows whose name holds PATTERN")
    parser.add_argument("--reps", type=int, metavar="N", help="repetitions of each process (as the row has it)")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="processes of each timed variant, interleaved (2, Python programs 1)")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=210.0,
                        help="rows that would start later than this are skipped (210)")
    parser.add_argument("--part", metavar="K/N", type=part_of, default=(1, 1),
                        help="the K-th of N parts of the rows, each of about the same time")
    parser.add_argument("--out", type=Path,
                        help="folder for profile.txt, profile.json and profile.log; rows of the same commit that are "
                             "there already are kept, so that parts add up")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose section is rewritten (docs/gpu-results.md)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of runs with the library")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--simulated", action="store_true",
                        help="try this on the simulated driver; the times mean nothing")
    return parser.parse_args()


def select(args):
    known = {row.name: row for row in table_rows.all_rows()}
    chosen = [known[name] for name, _ in PROFILED
              if fnmatch.fnmatch(name.lower(), f"*{args.only.lower()}*")
              and (known[name].simulated or not args.simulated)
              and (args.simulated or not name.startswith(("heat driver", "cg driver")))]
    ops = dict(PROFILED)
    return [(row, ops[row.name]) for row in part(chosen, *args.part)]


def merged(older, newer):
    """Entries in the order of PROFILED; a newer one that was not measured yields to one that was."""
    found = {entry["row"]: entry for entry in older}
    for entry in newer:
        if "eager" in entry or "eager" not in found.get(entry["row"], {}):
            found[entry["row"]] = entry
    places = [name for name, _ in PROFILED]
    return sorted(found.values(), key=lambda entry: places.index(entry["row"]))


def earlier(folder, commit):
    path = folder / "profile.json" if folder else None
    entries = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []
    return [entry for entry in entries if entry.get("commit") == commit]


def save(args, entries, log):
    if args.out:
        write_lines(args.out / "profile.txt", [page.origin(), "", *LEGEND, "", *lines_of(entries)])
        write_lines(args.out / "profile.json", [json.dumps(entries, indent=1)])
        write_lines(args.out / "profile.log", log)


def main():
    args = parse_arguments()
    chosen = select(args)
    if args.list:
        print("\n".join(row.name for row, _ in chosen))
        return 0
    pinned = pin_to_one_node()
    processors = Processors(pinned) if pinned and not args.simulated else None
    start = time.monotonic()
    commit = page.commit()
    profile, entries = Profile(args, processors), earlier(args.out, commit)
    for entry in profile.profile(chosen):
        entries = merged(entries, [{**entry, "commit": commit}])
        print(f"{time.monotonic() - start:6.1f} s  {entry['row']}"
              + (f": {entry['why']}" if entry.get("why") else ""), flush=True)
        save(args, entries, profile.log)
    if args.markdown:
        page.put_section(args.markdown, "Profile", "\n".join([*LEGEND, "", *lines_of(entries)]))
    print("\n".join(["", *LEGEND, "", *lines_of(entries)]))
    return status(entries, args.simulated)


def status(entries, simulated):
    """1 where a program failed, or nothing was measured; on the simulated driver nothing may be missing."""
    failed = [entry for entry in entries if entry.get("why") and not entry["why"].startswith("skipped")]
    measured = [entry for entry in entries if "eager" in entry]
    whole = [entry for entry in measured if "bound" in entry and entry["trace"] and entry["host_parts"]]
    return 1 if failed or not measured or (simulated and len(whole) < len(entries)) else 0


if __name__ == "__main__":
    sys.exit(main())
