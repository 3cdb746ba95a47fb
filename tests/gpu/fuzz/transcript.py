"""What fuzz programs print: one block a program (tests/fuzz/execute.h)."""

import re

START = re.compile(r"^program (?:seed )?(\S+): (\d+) ops", re.M)
REPLAYED = re.compile(r"replayed (\d+) of (\d+) ops")
RESULT = re.compile(r"^op (\d+): \d+ (\w+)((?: -?\d+)*) -> (\d+)(?: ([0-9a-f]{16}))?$", re.M)
FLAG_SEEN = "af63bc4c8601b62c"  # the hash of a byte that is 1

HOWS = ("params", "extra", "ex", "ex priority", "ex overlap", "ex cooperative", "ex cluster", "cooperative")
KERNELS = ("mix", "join", "span", "none", "big", "odd")
COPIES = ("DtoD", "any", "2D", "HtoD", "DtoH", "DtoD sync", "3D", "peer")
KINDS = ("device", "pinned", "managed")
BADS = ("empty grid", "block too large", "no function", "no parameters", "too much shared memory",
        "empty extra", "unknown attribute", "memset of nothing")
# Codes that are met on purpose.
EXPECTED = ("bad",)
NAMES = {1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 201: "INVALID_CONTEXT", 400: "INVALID_HANDLE", 600: "NOT_READY",
         700: "ILLEGAL_ADDRESS", 701: "LAUNCH_OUT_OF_RESOURCES", 702: "LAUNCH_TIMEOUT", 719: "LAUNCH_FAILED",
         720: "COOPERATIVE_LAUNCH_TOO_LARGE", 800: "NOT_PERMITTED", 801: "NOT_SUPPORTED",
         900: "STREAM_CAPTURE_UNSUPPORTED", 901: "STREAM_CAPTURE_INVALIDATED", 906: "STREAM_CAPTURE_IMPLICIT",
         910: "GRAPH_EXEC_UPDATE_FAILURE"}


def blocks(text):
    """{seed: transcript of that program}"""
    starts = [*START.finditer(text), None]
    return {a[1]: text[a.start():b.start() if b else len(text)] for a, b in zip(starts, starts[1:])}


def without_order(text):
    """Without what only the simulated driver tells: the work of each stream."""
    return re.sub(r"(?m)^order .*\n", "", text)


def num_ops(block):
    return int(START.match(block)[2])


def replayed(errors):
    """(replayed, recordable) ops, out of the library's summary."""
    found = REPLAYED.search(errors)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def where(block):
    """What a process that hung said about the ops at which it was."""
    at = re.findall(r"^at .*$", block, re.M)
    return " " + "; ".join(at) if at else ""


def first_difference(eager, library, one="eager", other="library"):
    a, b = eager.splitlines(), library.splitlines()
    for i in range(max(len(a), len(b))):
        x = a[i] if i < len(a) else "(nothing)"
        y = b[i] if i < len(b) else "(nothing)"
        if x != y:
            return f"  {one + ':':8} {x}\n  {other + ':':8} {y}"
    return "  the transcripts agree"


def named(kind, a):
    """An op by what decides whether the driver takes it."""
    def pick(names, i):
        return names[a[i]] if i < len(a) and 0 <= a[i] < len(names) else "?"
    details = {
        "launch": lambda: f"{pick(KERNELS, 1)}, {pick(HOWS, 3)}", "bad": lambda: pick(BADS, 1),
        "copy": lambda: pick(COPIES, 6), "alloc": lambda: pick(KINDS, 1),
        "fill": lambda: f"{a[1]} bytes, {'2-D' if a[5] > 1 else '1-D'}, {'sync' if a[7] else 'async'}",
        "free": lambda: "async" if a[1] else "sync", "load": lambda: "library" if a[1] else "module",
        "upload": lambda: f"how {a[5]}", "read": lambda: f"how {a[4]}", "sync": lambda: f"what {a[0]}",
        "host": lambda: "callback" if a[4] else "host function", "misc": lambda: f"what {a[0]}",
        "gupdate": lambda: "whole graph" if a[4] else "node", "begin": lambda: f"mode {a[1]}",
    }
    return f"{kind} ({details[kind]()})" if kind in details else kind


def count_codes(seed, block, codes):
    """Adds what did not succeed to `codes`: {(op, code): [how often, where first]}."""
    for found in RESULT.finditer(block):
        index, kind, code = found[1], found[2], int(found[4])
        arguments = [int(n) for n in found[3].split()]
        if kind == "flag" and found[5] != FLAG_SEEN:
            entry = codes[("flag: never seen by the host", code)]
        elif code:
            entry = codes[(named(kind, arguments), code)]
        else:
            continue
        entry[0] += 1
        entry[1] = entry[1] or f"seed {seed} op {index}"


def describe_codes(codes):
    return [f"  {'' if name.startswith(EXPECTED) else 'UNEXPECTED '}{name} -> {code} {NAMES.get(code, '')}: "
            f"{count} times, first in {place}" for (name, code), (count, place) in sorted(codes.items())]


