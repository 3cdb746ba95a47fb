"""Makes a program small while it differs, in the way of tests/fuzz/fuzz_run."""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

FUZZ_RUN = Path(__file__).resolve().parents[2] / "fuzz" / "fuzz_run"


def load_fuzz_run():
    loader = SourceFileLoader("fuzz_run", str(FUZZ_RUN))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz_run", loader))
    loader.exec_module(module)
    return module


class Both:
    """A runner as fuzz_run wants it: transcript, standard error, exit status of both runs."""

    def __init__(self, machine):
        self.machine = machine

    def one(self, setting, text):
        outcome = self.machine.run(["-"], setting, text)
        return "".join(outcome.blocks.values()), outcome.errors, 0 if outcome.end == "ok" else outcome.end

    def both(self, _arguments, setting, text):
        return self.one(None, text), self.one(setting, text)


def make_small(machine, seed, setting, text, seconds, path):
    fuzz_run, runner = load_fuzz_run(), Both(machine)
    tries = next((n for n in (1, 3) if fuzz_run.differs(runner, setting, text, n)), None)
    if tries is None:
        return f"seed {seed} alone does not differ"
    small = fuzz_run.shrink(runner, setting, text, tries, seconds)
    path.write_text(f"# seed {seed}, {fuzz_run.describe(setting)}\n{small}", encoding="utf-8")
    return f"seed {seed}: {len(small.splitlines())} ops left, in {path}\n{small}"
