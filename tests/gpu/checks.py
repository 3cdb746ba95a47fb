"""Checks that compare what programs say, not how fast they are: faults, and programs without CUDA."""

import re
import subprocess
import sys

FAULTS = ("trap", "bad-launch", "spin", "fork", "exit", "exit-at-once", "unload", "free",
          "destroy-stream", "destroy-context")
CUDART_FAULTS = ("trap", "bad-launch")

# Longest mean wait from a launch to its effect, in a program that makes no call after it.
SPIN_LIMIT_US = 2000.0

# Each prints what a program that has nothing to do with CUDA could notice: its threads, its libraries.
LOOK_AROUND = ("ls /proc/{pid}/task | wc -l; "
               "grep -o '/[^ ]*[.]so[^ ]*' /proc/{pid}/maps | grep -v libautograph | sort -u; ")
NO_CUDA = {
    "bash": ["bash", "-c", "echo hello; env | grep -c PATH; " + LOOK_AROUND.format(pid="$$")],
    "gcc": ["bash", "-c", "echo 'int main(void) { return 0; }' | gcc -O2 -x c -S -o - - 2>&1"],
    "python3": [sys.executable, "-c",
                "import os, subprocess, threading, json, ssl\n"
                "print(threading.active_count(), sum(range(1000)))\n"
                "subprocess.run(['bash', '-c', '" + LOOK_AROUND.replace("'", "\\'").format(
                    pid="'+str(os.getpid())+'") + "'], check=True)"],
    "failing program": ["bash", "-c", "exit 7"],
}


def outcome(command, env, timeout):
    """Exit status and output, without what was measured; the measured text apart."""
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"status": "hang", "output": "", "measured": "", "errors": ""}
    lines = done.stdout.splitlines()
    return {"status": done.returncode, "errors": done.stderr,
            "output": "\n".join(line for line in lines if not line.startswith("MEASURED")),
            "measured": "\n".join(line for line in lines if line.startswith("MEASURED"))}


def compare(name, command, plain_env, preload_env, timeout, errors_too=False):
    """The row's entry and its log. Standard error counts only where asked for: addresses, paths and
    the library's own log may stand there."""
    plain = outcome(command, plain_env, timeout)
    preloaded = outcome(command, preload_env, timeout)
    parts = ("status", "output", "errors") if errors_too else ("status", "output")
    differ = [part for part in parts if plain[part] != preloaded[part]]
    log = f"===== {name}\n" + "".join(
        f"--- {who}: {' '.join(command)}\nexit status {run['status']}\n{run['output']}\n"
        f"{run['measured']}\n--- stderr\n{run['errors']}\n"
        for who, run in (("eager", plain), ("autograph", preloaded)))
    entry = {"row": name, "identical": not differ, "verdict": "ok"}
    if preloaded["status"] == "hang" or plain["status"] == "hang":
        entry.update(verdict="FAIL", why="hang")
    elif differ:
        entry.update(verdict="FAIL", why=f"{' and '.join(differ)} differ: "
                     f"exit status {plain['status']} and {preloaded['status']}")
    judge_measured(entry, plain["measured"], preloaded["measured"])
    return entry, log


def judge_measured(entry, plain, preloaded):
    means = [re.search(r"mean ([0-9.]+) us", text) for text in (plain, preloaded)]
    if not all(means):
        return
    entry["eager"] = {"median": float(means[0][1])}
    entry["autograph"] = {"median": float(means[1][1])}
    entry["why"] = preloaded.removeprefix("MEASURED ")
    if entry["verdict"] == "ok" and float(means[1][1]) > SPIN_LIMIT_US:
        entry["verdict"] = "slow"


def all_checks(places, simulated):
    """(name, command, timeout, whether standard error is compared) of each check."""
    for case in FAULTS:
        yield f"fault: {case}", [places["faults"] + "/faults", case], 60.0, False
    if simulated:
        return
    for case in CUDART_FAULTS:
        yield f"fault on cudart: {case}", [places["faults"] + "/faults_cudart", case], 60.0, False
    for name, command in NO_CUDA.items():
        yield f"without CUDA: {name}", command, 30.0, True
