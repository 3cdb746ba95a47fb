#!/usr/bin/env python3
"""Dumps of short runs, observed (AUTOGRAPH=observe) and replayed (AUTOGRAPH=1), packed into one file
DIR/dumps.tar.xz: what real programs submit, and when, for work on the policy without a GPU.

tests/gpu/run --dumps DIR builds what is needed and starts this. The processes of a few programs load
their modules together and then run one at a time, so that the times in the dumps are true.
"""

import argparse
import fnmatch
import importlib.util
import lzma
import re
import sys
import tarfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import page
from processes import environments, write_lines
from processors import pin_to_one_node
from rounds import Loaded, run_once, Variant

HERE = Path(__file__).resolve().parent
MODES = {"observe": "observe", "replay": "1"}
MOST_PACKED = 16 << 20
TOGETHER = 4    # programs whose processes load at the same time


def without_names(dump, folder):
    """The dump without the name of the machine, and without the path to `folder` in any text."""
    size = int.from_bytes(dump[12:16], "little")
    parts, at = [dump[:size]], size
    while dump[at:at + 4] == b"AGck":
        kind, length = dump[at + 4:at + 8], int.from_bytes(dump[at + 8:at + 12], "little")
        text = dump[at + 16:at + 16 + length]
        if kind == b"PROC":
            text = re.sub(rb"(^|\0)host=[^\0]*", rb"\1host=gpu", text)
            text = re.sub(rb"(^|\0)AUTOGRAPH_TRACE=[^\0]*/", rb"\1AUTOGRAPH_TRACE=", text)
            text = text.replace(folder + b"/", b"")
        elif kind == b"STRG":
            words = text[8:].replace(folder + b"/", b"")
            text = text[:4] + len(words).to_bytes(4, "little") + words
        head = kind + len(text).to_bytes(4, "little")
        parts += [b"AGck", head, zlib.crc32(head + text).to_bytes(4, "little"), text,
                  bytes(-len(text) % 8)]
        at += 16 + length + -length % 8
    return b"".join(parts)


@dataclass
class Program:
    name: str
    command: list
    needs: tuple = ()
    simulated: bool = False


def script(name, program, *args, needs=("torch",)):
    return Program(name, ["{python}", "{programs}/" + program + ".py", "--paced", *args], needs)


def example(name, program, *args, simulated=False):
    return Program(name, ["{bin}/" + program, "--paced", "--reps=1", *args], (), simulated)


def all_programs():
    vision = ("torch", "torchvision")
    return [
        example("loop-sync", "loop_driver", "--sync=step", "--steps=150", simulated=True),
        example("loop-nosync", "loop_driver", "--sync=none", "--steps=400", simulated=True),
        example("loop-memsets", "loop_static", "--memsets", "--steps=100"),
        example("loop-never-repeats", "loop_driver", "--never-repeat", "--steps=100", simulated=True),
        example("heat", "heat_static", "--most-steps=600"),
        example("heat-driver", "heat_driver", "--most-steps=600", simulated=True),
        example("cg", "cg_static"),
        example("chain", "chain_shared", "--passes=60"),
        script("resnet18-eager", "resnet18_eager", "--reps=3", "--iters=40", needs=vision),
        script("resnet18-script", "resnet18_script", "--reps=3", "--iters=40", needs=vision),
        script("transformer4", "transformer4", "--reps=3", "--iters=60"),
        script("transformer4-script", "transformer4", "--script", "--reps=3", "--iters=60"),
        script("training", "train_step", "--reps=3", "--iters=50"),
        script("decode", "decode", "--reps=3", "--iters=48", needs=("torch", "transformers")),
        script("triton", "triton_loop", "--reps=2", "--iters=100", needs=("torch", "triton")),
        script("cupy", "cupy_loop", "--reps=2", "--iters=100", needs=("cupy",)),
        script("jax", "jax_step", "--reps=2", "--iters=100", needs=("jax",)),
    ]


def repetitions(command):
    return next(int(word.split("=")[1]) for word in command if word.startswith("--reps="))


class Dumps:
    def __init__(self, args):
        self.args = args
        self.plain, self.preload = environments(args)
        self.raw = args.folder / "raw"
        self.said = []

    def words(self, program):
        places = {"{bin}": str(self.args.build / "examples"), "{programs}": str(HERE / "programs"),
                  "{python}": sys.executable}
        words = program.command
        for key, value in places.items():
            words = [word.replace(key, value) for word in words]
        return words

    def why_not(self, program):
        missing = [module for module in program.needs if importlib.util.find_spec(module) is None]
        if missing:
            return f"no {missing[0]}"
        return None if Path(self.words(program)[0]).exists() else "not built"

    def file(self, program, mode):
        return self.raw / f"{program.name}.{mode}.dump"

    def specs(self, program):
        """A process for each mode."""
        return [(mode, self.words(program),
                 {**self.preload, "AUTOGRAPH": value, "AUTOGRAPH_TRACE": str(self.file(program, mode)),
                  "AUTOGRAPH_TRACE_MB": "64"})
                for mode, value in MODES.items()]

    def load(self, program):
        return Loaded(self.specs(program), 1, self.args.timeout) if program.needs else None

    def make(self, program, loaded):
        for mode, command, env in self.specs(program):
            failure = run_once(Variant(mode), command, env, repetitions(command), self.args.timeout,
                               loaded.take(mode) if loaded else None)
            path = self.file(program, mode)
            if failure or not path.exists():
                path.unlink(missing_ok=True)
                failure = failure or "no dump was written"
            else:
                path.write_bytes(without_names(path.read_bytes(), str(page.TOP).encode()))
            self.say(f"{program.name}.{mode}: " + (failure or f"{path.stat().st_size / 1024:.0f} KiB"))

    def say(self, line):
        print(line, flush=True)
        self.said.append(line)

    def make_all(self, programs):
        able = []
        for program in programs:
            reason = self.why_not(program)
            if reason:
                self.say(f"{program.name}: skipped: {reason}")
            else:
                able.append(program)
        for at in range(0, len(able), TOGETHER):
            group = able[at:at + TOGETHER]
            with ThreadPoolExecutor(TOGETHER) as pool:
                loaded = list(pool.map(self.load, group))
            try:
                for program, processes in zip(group, loaded):
                    self.make(program, processes)
            finally:
                for processes in filter(None, loaded):
                    processes.end()

    def pack(self):
        """One archive, the observed dumps first, and no more of them than fit."""
        files = sorted(self.raw.glob("*.dump"), key=lambda path: (".observe." not in path.name, path.name))
        sizes = {path: len(lzma.compress(path.read_bytes(), preset=6)) for path in files}
        packed, whole = [], 1 << 20     # what the archive itself takes, at most
        for path in files:
            if whole + sizes[path] > MOST_PACKED:
                self.say(f"{path.name}: left out, {sizes[path] / 1024:.0f} KiB packed: the archive is full")
                continue
            whole += sizes[path]
            packed.append(path)
            self.say(f"{path.name}: {sizes[path] / 1024:.0f} KiB packed")
        origin = self.raw / "ORIGIN.txt"
        write_lines(origin, [page.origin(), *self.said])
        archive = self.args.folder / "dumps.tar.xz"
        with tarfile.open(archive, "w:xz", preset=6) as tar:
            for path in [origin, *packed]:
                tar.add(path, f"dumps/{path.name}")
        for path in [*files, origin]:
            path.unlink()
        self.raw.rmdir()
        return archive, len(packed)


def main():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --dumps", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", metavar="DIR", type=Path, help="where dumps.tar.xz is put")
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="PATTERN", help="programs whose name holds PATTERN (* and ? allowed)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", default=90.0, help="of one process (90)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="added to the environment of all runs")
    parser.add_argument("--simulated", action="store_true", help="try this on the simulated driver")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    programs = [program for program in all_programs()
                if fnmatch.fnmatch(program.name, f"*{args.only or ''}*")
                and (program.simulated or not args.simulated)]
    start = time.monotonic()
    pin_to_one_node()
    dumps = Dumps(args)
    dumps.raw.mkdir(parents=True, exist_ok=True)
    dumps.make_all(programs)
    archive, count = dumps.pack()
    print(f"{archive}: {count} dumps, {archive.stat().st_size / 1024:.0f} KiB, "
          f"{time.monotonic() - start:.0f} s")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
