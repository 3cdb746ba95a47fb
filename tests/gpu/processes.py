"""Environments with and without the library, and programs that run once and print."""

import os
import signal
import subprocess


class Failed(Exception):
    """A program ended in another way than it should."""


def environments(args):
    """The environment without the library, and the one with it: --env is added to the latter."""
    plain = {name: value for name, value in os.environ.items()
             if name not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
             and not name.startswith("AUTOGRAPH")}
    if args.simulated:
        plain["LD_LIBRARY_PATH"] = str(args.build / "tests" / "simdriver")
    more = dict(item.split("=", 1) for item in args.env)
    return plain, {**plain, "LD_PRELOAD": str(args.library), **more}


def run_once(command, env, timeout):
    """The ended process of a program; Failed where it does not end well."""
    words = [str(word) for word in command]
    shown = " ".join(words)[:120]
    try:
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{shown}: no end within {timeout} s") from None
    if done.returncode != 0:
        end = (f"exit status {done.returncode}" if done.returncode > 0
               else f"killed by {signal.Signals(-done.returncode).name}")
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise Failed(f"{shown}: {end} {last[:200]}")
    return done


def output_of(command, env, timeout):
    """What a program says on stdout."""
    return run_once(command, env, timeout).stdout


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
