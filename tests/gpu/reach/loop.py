#!/usr/bin/env python3
"""One row of the survey in Python: --row=MODULE:FUNCTION[:ARGUMENT...] names a function of a rows_*.py, which
returns a Loop. Goes by pace.py's protocol. What cannot be imported is told as `SKIP: not here: ...`."""

import importlib
import os
import sys
from pathlib import Path

# Before anything of a GPU is imported: the same arithmetic in every process, nothing fetched.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))

import pace


class Loop:
    """`step(i)` is the i-th step; `sync()` leaves the GPU idle, after every `every`-th step; `results()`
    are arrays, in what pace.add() takes, that hold what all steps have computed."""

    def __init__(self, step, sync, results, every=1, end=None):
        self.step, self.sync, self.results, self.every = step, sync, results, every
        self.end = end or (lambda: None)    # takes down what was started
        self.done = 0

    def repetition(self, iterations):
        for _ in range(iterations):
            self.step(self.done)
            self.done += 1
            if self.done % self.every == 0:
                self.sync()
        self.sync()

    def add(self, digest):
        """A result of zeros or without a number compares nothing."""
        import numpy as np
        arrays = [np.ascontiguousarray(array) for array in self.results()]
        for array in arrays:
            if array.dtype.kind in "fc" and not np.isfinite(array).all():
                raise SystemExit("the row is wrong: what it computes is not finite")
        if not any(array.any() for array in arrays):
            raise SystemExit("the row is wrong: what it computes is all zeros")
        pace.add(digest, *arrays)


def missing(error):
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    print("SKIP: not here: " + text, flush=True)
    return 0


def main():
    words = next(arg for arg in sys.argv[1:] if arg.startswith("--row="))[len("--row="):].split(":")
    try:
        module = importlib.import_module(words[0])
    except ImportError as error:
        return missing(error)
    args = pace.arguments(50, row="")
    digest = pace.new_digest()
    try:
        loop = getattr(module, words[1])(*words[2:])
    except ImportError as error:
        return missing(error)
    pace.run("_".join(words[1:]), args, loop.repetition, digest, lambda: loop.add(digest))
    loop.end()
    return 0


if __name__ == "__main__":
    sys.modules["loop"] = sys.modules["__main__"]   # the rows import it
    sys.exit(main())
