#!/usr/bin/env python3
"""Programs that run long under the library: the results of every phase, and the curves of memory.

First each program goes twice through its phases eagerly: these digests are the judge. Then all run under the library
at the same time, in several processes if wanted; ten times a second the resident memory of each, its memory on the GPU
and that of the library's graphs are noted. Exit status 1 where a phase differs, a program fails or hangs, or a curve is not flat.
tests/gpu/run --soak builds what is needed and starts this.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import curves  # noqa: E402
from gpu_memory import GpuMemory  # noqa: E402
from live import LivePage  # noqa: E402

EVERY_S = 0.1   # the graphs of phases come and go, so medians need many samples
COLUMNS = ("seconds", "phases", "rss_mib", "gpu_mib", "graphs_mib", "graphs_built", "sequences", "streams", "ops",
           "replayed", "own_gpu_mib")
MIB = 1048576.0


class Program:
    """One process, followed while it runs."""

    def __init__(self, command, env, patience, gpu_memory=None):
        self.gpu_memory = gpu_memory
        self.start = time.monotonic()
        self.heard = self.start
        self.patience = patience
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.phases, self.gpu_mib, self.ended = [], None, False
        self.samples, self.errors = [], []
        self.page = LivePage(self.process.pid)
        self.readers = [threading.Thread(target=self.listen), threading.Thread(target=self.listen_to_errors)]
        for reader in self.readers:
            reader.start()

    def listen(self):
        for line in self.process.stdout:
            self.heard = time.monotonic()
            words = line.split()
            if words[:1] == ["PHASE"]:
                self.phases.append((int(words[1]), words[2], " ".join(words[3:])))
            elif words[:1] == ["GPU"]:
                self.gpu_mib = int(words[1]) / MIB
            elif words[:1] == ["END"]:
                self.ended = True

    def listen_to_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)
            del self.errors[:-200]

    def resident(self):
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return None
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return int(found[1]) / 1024.0 if found else None

    def sample(self):
        rss, page = self.resident(), self.page.read()
        if rss is None or self.ended:
            return
        replayed = page.get("replayed", 0) + page.get("covered", 0)
        self.samples.append((round(time.monotonic() - self.start, 1), len(self.phases), round(rss, 2), self.gpu_mib,
                             round(page["memory"] / MIB, 3) if page else None, page.get("graphs_built"),
                             page.get("sequences"), page.get("streams"), page.get("ops"), replayed,
                             self.gpu_memory.of(self.process.pid) if self.gpu_memory else None))

    def follow(self):
        """Until it ends. Returns None, or what went wrong."""
        while self.process.poll() is None:
            time.sleep(max(0.05, EVERY_S - (time.monotonic() - self.start) % EVERY_S))
            self.sample()
            if time.monotonic() - self.heard > self.patience:
                self.process.kill()
                self.process.wait()
                self.finish()
                return f"hang: nothing heard for {self.patience:.0f} s after {len(self.phases)} phases"
        self.finish()
        if self.process.returncode or not self.ended:
            return f"exit status {self.process.returncode}: {''.join(self.errors)[-1500:]}"
        return None

    def finish(self):
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def cycle(self):
        return 1 + max((number for number, _, _ in self.phases), default=0)

    def curve(self, column):
        at = COLUMNS.index(column)
        return [(s[COLUMNS.index("phases")], s[at]) for s in self.samples if s[at] is not None]

    def curves(self):
        """What must be flat. Where the process' own memory on the GPU is not known, that of the whole GPU."""
        own = curves.thirds(self.curve("own_gpu_mib"), self.cycle()) is not None
        return {"resident memory": self.curve("rss_mib"),
                "GPU memory of the process" if own else "GPU memory in use": self.curve("own_gpu_mib" if own else "gpu_mib"),
                "graphs of the library": self.curve("graphs_mib")}

    def share(self):
        found = re.search(r"replayed \d+ of \d+ ops \(([0-9.]+)%\)", "".join(self.errors))
        return found[1] + "%" if found else "-"

    def csv(self):
        rows = [",".join("" if v is None else str(v) for v in s) for s in self.samples]
        return "\n".join([",".join(COLUMNS), *rows, ""])


class Soak:
    def __init__(self, args):
        self.args = args
        self.plain = {name: value for name, value in os.environ.items()
                      if name != "LD_PRELOAD" and not name.startswith("AUTOGRAPH")}
        if args.simulated:
            self.plain["LD_LIBRARY_PATH"] = str(args.build / "tests" / "simdriver")
            self.plain["SIMCUDA_HANDLES"] = "reuse"  # else it remembers every graph there ever was
        more = dict(item.split("=", 1) for item in args.env)
        self.preload = {**self.plain, **more, "LD_PRELOAD": str(args.library), "AUTOGRAPH_STATS": "2"}
        if args.eager:
            self.preload = self.plain
        self.gpu_memory = None

    def programs(self):
        """{name: command} of what can run here."""
        found = {"driver": [str(self.args.programs / "soak_driver")]}
        if self.args.simulated:
            found["driver"] += ["--steps", "2000"]
        elif importlib.util.find_spec("torch"):
            found["pytorch"] = [sys.executable, str(HERE / "soak_torch.py")]
        else:
            print("PyTorch is not installed: the driver program alone")
        if self.args.only:
            found = {name: command for name, command in found.items() if name == self.args.only}
        return found

    def reference(self, command):
        """The digests of an eager run by phase, or what went wrong."""
        program = Program([*command, "--cycles", "2"], self.plain, self.args.patience)
        failure = program.follow()
        if failure:
            return None, f"the eager run fails, {failure}"
        digests = {}
        for phase, digest, name in program.phases:
            if digests.setdefault(phase, digest) != digest:
                print(f"phase '{name}' is not the same in two eager cycles: it is not compared")
                digests[phase] = None
        return digests, None

    def run_one(self, name, command, judged):
        """One row of the table."""
        digests, failure = judged
        if failure:
            return [name, "-", "-", "-", "-", "-", "-", "-", f"FAIL: {failure}"]
        length = ["--seconds", str(max(1, int(self.args.seconds)))]
        if self.args.cycles:
            length = ["--cycles", str(self.args.cycles)]
        print(f"{name}: {' '.join(length)} {'without' if self.args.eager else 'under'} the library", flush=True)
        program = Program([*command, *length], self.preload, self.args.patience, self.gpu_memory)
        failure = program.follow()
        differing = [(i, phase) for i, phase in enumerate(program.phases)
                     if digests.get(phase[0]) not in (None, phase[1])]
        for i, phase in differing[:5]:
            print(f"{name}: phase {i} ('{phase[2]}') differs: eager {digests[phase[0]]}, library {phase[1]}")
        self.args.out.mkdir(parents=True, exist_ok=True)
        found = program.curves()
        file = name.replace(" ", "-")
        (self.args.out / f"{file}.csv").write_text(program.csv(), encoding="utf-8")
        (self.args.out / f"{file}.svg").write_text(curves.svg(f"{name}, {len(program.phases)} phases", found,
                                                              program.cycle()), encoding="utf-8")
        (self.args.out / f"{file}.log").write_text("".join(program.errors), encoding="utf-8")
        # On the simulated driver graphs live on the heap, which grew by 0 to 3.5 MiB. Signatures of modules that are
        # loaded again add to it, up to their limit (capture/tracking/signature.c).
        mib = 5.0 if self.args.simulated else 2.0
        verdicts = {title: curves.is_flat(samples, program.cycle(), mib) for title, samples in found.items()}
        growing = [title for title, flat in verdicts.items() if flat is False]
        verdict = "flat"
        if failure:
            verdict = f"FAIL: {failure}"
        elif differing:
            verdict = f"FAIL: {len(differing)} phases differ"
        elif growing:
            verdict = "FAIL: not flat: " + ", ".join(growing)
        elif verdicts["resident memory"] is None:
            verdict = "too short to say"
        elif not program.phases:
            verdict = "FAIL: no phase was done"
        return [name, f"{program.samples[-1][0] if program.samples else 0:.0f}", str(len(program.phases)),
                str(len(differing)), program.share(),
                *(self.medians(samples, program.cycle()) for samples in found.values()), verdict]

    @staticmethod
    def medians(samples, cycle):
        found = curves.thirds(samples, cycle)
        return f"{found[0]:.1f} -> {found[1]:.1f}" if found else "-"

    def run(self):
        programs = self.programs()
        if not programs:
            print("nothing to run")
            return 1
        rows = [["program", "seconds", "phases", "differ", "replayed", "RSS MiB", "GPU MiB", "graphs MiB", "verdict"]]
        with ThreadPoolExecutor(len(programs) * self.args.copies) as pool:
            print("two eager cycles of " + ", ".join(programs), flush=True)
            judged = dict(zip(programs, pool.map(self.reference, programs.values())))
            self.gpu_memory = GpuMemory()
            try:
                rows += pool.map(lambda run: self.run_one(*run),
                                 [(f"{name} {copy}" if self.args.copies > 1 else name, command, judged[name])
                                  for name, command in programs.items() for copy in range(1, self.args.copies + 1)])
            finally:
                self.gpu_memory.end()
        widths = [max(len(row[i].splitlines()[0]) for row in rows) for i in range(len(rows[0]))]
        lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
        lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
        text = "\n".join([*lines, "Medians of the middle and of the last third of the phases. "
                          "The verdict compares each phase with itself. Curves: "
                          f"{self.args.out}/*.csv, *.svg"])
        print(text)
        self.args.out.mkdir(parents=True, exist_ok=True)
        (self.args.out / "soak.txt").write_text(text + "\n", encoding="utf-8")
        return 0 if all(row[-1] in ("flat", "too short to say") for row in rows[1:]) else 1


def parse_arguments(arguments=None):
    p = argparse.ArgumentParser(prog="tests/gpu/soak/run", description=__doc__.split("\n\n")[0])
    p.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    p.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    p.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    p.add_argument("--seconds", type=float, default=60.0, help="of each process (60)")
    p.add_argument("--cycles", type=int, help="so many times through all phases, however long it takes, instead of --seconds")
    p.add_argument("--copies", type=int, default=1, help="processes of each program (1)")
    p.add_argument("--only", choices=("driver", "pytorch"), help="one program")
    p.add_argument("--env", metavar="N=V", action="append", default=[], help="added to runs with the library")
    p.add_argument("--eager", action="store_true", help="the long run without the library too, to compare curves")
    p.add_argument("--patience", type=float, default=90.0, help="seconds of silence that are a hang (90)")
    p.add_argument("--out", type=Path, help="folder for the curves (BUILD/soak)")
    p.add_argument("--simulated", action="store_true", help="the driver program on the simulated driver")
    args = p.parse_args(arguments)
    args.out = args.out or args.build / "soak"
    args.programs = args.programs or args.build / "gpu"
    return args


if __name__ == "__main__":
    sys.exit(Soak(parse_arguments()).run())
