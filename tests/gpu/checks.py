"""Checks that compare what programs say, not how fast they are: faults, order,
and programs without CUDA."""

import re
import subprocess
import sys
from dataclasses import dataclass

# Exit status that each case has where the driver does what it should.
FAULTS = {"trap": 5, "bad-launch": 0, "spin": 0, "fork": 0, "exit": 3, "exit-at-once": 4, "unload": 0,
          "free": 0, "destroy-stream": 0, "destroy-context": 0}
ORDERS = ("events", "legacy", "callback", "query", "copies", "threads", "per-thread-streams",
          "limits", "ipc")
# Of order/device.cu, with the exit status of each. "connection" is about CUDA_DEVICE_MAX_CONNECTIONS=1.
DEVICE_ORDERS = {"programmatic": 0, "cooperative": 0, "connection": 0, "printing": 0, "forks": 0,
                 "end-by-return": 3, "end-behind-reset": 3}
CUDART_FAULTS = {"trap": 5, "bad-launch": 0}

# Longest mean wait from a launch to its effect, in a program that makes no call after it.
SPIN_LIMIT_US = 2000.0
CREDIT = 256    # ops that a program may be further ahead of its GPU than without the library: AG_RING_CREDIT

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


def compare(check, plain_env, preload_env):
    """The row's entry and its log. Standard error counts only where asked for: addresses, paths and
    the library's own log may stand there."""
    name, command = check.name, check.command
    plain = outcome(command, plain_env, check.timeout)
    preloaded = outcome(command, preload_env, check.timeout)
    parts = ("status", "output", "errors") if check.errors_too else ("status", "output")
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
    elif plain["status"] != check.status:
        entry.update(verdict="FAIL", why=f"exit status {plain['status']} and not {check.status}, "
                     "without the library as well")
    elif plain["output"].startswith("SKIP: "):
        entry.update(verdict="skipped", why=plain["output"].splitlines()[0].removeprefix("SKIP: "))
    judge_measured(entry, check, plain["measured"], preloaded["measured"])
    return entry, log


def judge_measured(entry, check, plain, preloaded):
    found = [re.search(r"(?:mean|median|most) ([0-9.]+) (?:us|ops)", text) for text in (plain, preloaded)]
    if not all(found):
        return
    eager, auto = (float(match[1]) for match in found)
    entry.update(eager={"median": eager}, autograph={"median": auto}, why=preloaded.removeprefix("MEASURED "))
    limit = check.times * eager if check.times else eager + check.more if check.more else SPIN_LIMIT_US
    if entry["verdict"] == "ok" and auto > limit:
        entry["verdict"] = "slow"


@dataclass
class Check:
    name: str
    command: list
    errors_too: bool = False    # standard error is compared as well
    status: int = 0             # what it has to be, with and without the library
    timeout: float = 40.0
    measures: bool = False      # must run alone
    times: float = None         # of what it measures eagerly: more is slow
    more: float = None          # than it measures eagerly: still more is slow


def all_checks(folder, simulated):
    """Every check; `folder` is where the suite's own programs were built."""
    for case, status in FAULTS.items():
        yield Check(f"fault: {case}", [f"{folder}/faults", case], status=status,
                    measures=case == "spin")
    for case in ORDERS:
        yield Check(f"order: {case}", [f"{folder}/order", case])
    yield Check("order: strayed", [f"{folder}/strayed"])
    for kind in ("copies", "events", "waits"):
        yield Check(f"order: strayed {kind}", ["env", f"AUTOGRAPH_TEST_CHUNK={8 if kind == 'copies' else 16}",
                                                     f"{folder}/strayed", kind])
    yield Check("order: threads that end", [f"{folder}/strayed", "8"])
    if simulated:
        return
    for case, status in DEVICE_ORDERS.items():
        yield Check(f"order on cudart: {case}", ["env", "CUDA_DEVICE_MAX_CONNECTIONS=1"] * (case == "connection")
                    + [f"{folder}/device", case], status=status)
    yield Check("order on cudart: children", [f"{folder}/children"])
    yield Check("order on cudart: later", [f"{folder}/later"])
    yield Check("order on cudart: visible", [f"{folder}/visible"])
    yield Check("order on cudart: peers", [f"{folder}/peers"])
    yield Check("order: a query beside a full queue", [f"{folder}/full"], measures=True, times=2.0)
    for ops in (1, 20):
        for submit in ("inline", "thread"):
            yield Check(f"order: launches ahead of the GPU, {submit}, steps of {ops}",
                        ["env", f"AUTOGRAPH_SUBMIT={submit}", f"{folder}/ahead", str(ops)], measures=True, more=CREDIT)
    for case, status in CUDART_FAULTS.items():
        yield Check(f"fault on cudart: {case}", [f"{folder}/faults_cudart", case], status=status)
    for name, command in NO_CUDA.items():
        yield Check(f"without CUDA: {name}", command, errors_too=True)
    yield Check("without CUDA: failing program", ["bash", "-c", "echo no >&2; exit 7"],
                errors_too=True, status=7)
