"""What the survey has to show: one compact table, and the same as a section of docs/reach.md."""

import re

import tables

FILE = "reach.jsonl"
GOAL, SLOW = 0.90, 0.98     # of the ops; of eager's speed
WIDTH = 110
HEAD = ["what", "same", "replayed", "ratio", "why not"]
# The page has a table for each, so that one fits a screen. A row goes to the first whose beginning its name has.
GROUPS = (("NVIDIA's libraries, from Python",
           ("cuBLAS", "cuDNN", "cuFFT", "cuSOLVER", "cuSPARSE", "NCCL", "normalisation", "attention")),
          ("Triton, CuPy, JAX, numba and cuda.core", ("Triton", "CuPy", "JAX", "numba", "cuda.core")),
          ("C++ programs", ("C++",)),
          ("PyTorch programs", ("",)))
BEGIN, END = "<!-- ./tests/gpu/run --reach writes from here -->", "<!-- to here -->"

SUMMARY = re.compile(r"autograph: replayed (\d+) of (\d+) ops")
COUNTER = re.compile(r"^autograph:   ([a-z][^:]*): (\d+)$", re.MULTILINE)
SPLIT = re.compile(r"^autograph:   eager (\d+), flushed (\d+), covered by shorter graphs \d+, not looked at (\d+)",
                   re.MULTILINE)
SYNC_POINT = re.compile(r"^autograph:   sync point (.+?) +(\d+)$", re.MULTILINE)
NOTICE = re.compile(r"^autograph: (?! )(?!replayed \d|it (?:saved|lost|cost) |why not more: )(.*)$", re.MULTILINE)
MOSTLY = re.compile(r"^autograph: why not more: mostly because (.*) \(about (\d+) ops\)", re.MULTILINE)
# Counters that name no loss.
HARMLESS = ("chunks that took over", "graphs dropped", "flushes by the watchdog", "times that the graphs", "graph launches",
            "single launches", "ops that the library's own thread", "speed with the library's own thread",
            "times that a stream, which forks", "kernels whose grid counts", "ns that chunks and single launches waited")


def counted(text):
    """What the summaries of all processes of a row say."""
    pairs = [(int(one), int(all_of)) for one, all_of in SUMMARY.findall(text)]
    found = {"ops": sum(pair[1] for pair in pairs), "replayed_ops": sum(pair[0] for pair in pairs), "counters": {},
             "sync_points": {}, "mostly": {}, "eager": 0, "flushed": 0, "asleep": 0,
             "notices": list(dict.fromkeys(NOTICE.findall(text)))}
    for name, number in COUNTER.findall(text):
        found["counters"][name] = found["counters"].get(name, 0) + int(number)
    for why, number in MOSTLY.findall(text):
        found["mostly"][why] = found["mostly"].get(why, 0) + int(number)
    for eager, flushed, asleep in SPLIT.findall(text):
        found["eager"] += int(eager)
        found["flushed"] += int(flushed)
        found["asleep"] += int(asleep)
    for name, number in SYNC_POINT.findall(text):
        found["sync_points"][name] = found["sync_points"].get(name, 0) + int(number)
    return found


def share(count, ops):
    return f"{100 * count / ops:.0f} %"


def why_not(steady, whole):
    """Why ops were not replayed, the largest cause first; empty where nearly all were. What the summary counts
    is of the whole run, so that the steady part has its say by its own split alone."""
    ops = steady.get("ops") or whole["ops"]
    replayed = replayed_of(steady, whole)
    reasons = list(whole["notices"])
    if not ops:
        return "; ".join(reasons or ["the library saw no op"])
    if replayed >= SLOW:
        return "; ".join(reasons)
    mostly = max(whole.get("mostly", {}).items(), key=lambda pair: pair[1], default=("", 0))
    if mostly[1] > 0.02 * whole["ops"]:
        reasons.append(f"mostly because {mostly[0]} {share(mostly[1], whole['ops'])}")
    named = sorted(((number, name) for name, number in whole["counters"].items()
                    if number > 0.02 * whole["ops"] and not name.startswith(HARMLESS)), reverse=True)
    reasons += [f"{name} {share(number, whole['ops'])}" for number, name in named[:3]]
    split = steady or {"eager": whole["eager"], "flushed": whole["flushed"], "dormant": whole["asleep"]}
    words = {"eager": "eager", "flushed": "flushed", "dormant": "asleep"}
    reasons += [f"{words[key]} {share(split.get(key, 0), ops)}" for key in words if split.get(key, 0) > 0.01 * ops]
    if whole["sync_points"]:
        name, number = max(whole["sync_points"].items(), key=lambda pair: pair[1])
        reasons.append(f"{name} every {max(1, round(whole['ops'] / number))} ops")
    return "; ".join(reasons)


def replayed_of(steady, whole):
    """The share of the steady part, of the whole where that cannot be had; None where nothing was seen."""
    if steady.get("ops"):
        return (steady["replayed"] + steady["covered"]) / steady["ops"]
    return whole["replayed_ops"] / whole["ops"] if whole["ops"] else None


def ratio_of(entry):
    best = entry.get("alone") or entry.get("paired")
    return best["ratio"] if best else None


def flag(entry):
    """What is to be looked at."""
    if entry["verdict"] != "ok":
        return entry["verdict"]
    ratio, replayed = ratio_of(entry), entry.get("replayed")
    if ratio is not None and ratio < SLOW:
        return "slow"
    return "low" if (replayed or 0.0) < GOAL else "ok"


def cells(entry):
    ratio = tables.number(ratio_of(entry))
    if entry.get("alone"):
        ratio += "*"
    replayed = tables.number(entry.get("replayed"), "{:.1%}") + ("" if entry.get("steady") else "~")
    why = "; ".join(filter(None, [entry["verdict"] if entry["verdict"] != "ok" else "", entry.get("why") or ""]))
    return [entry["row"], tables.yes_or_no(entry.get("identical")),
            "-" if entry.get("replayed") is None else replayed, ratio, why.replace(f"{tables.TOP}/", "")]


def compact(entries):
    """Rows of WIDTH characters at most, for a terminal that keeps little."""
    lines = [HEAD, *map(cells, entries)]
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    text = ""
    for line in lines:
        text += "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[4]])[:WIDTH].rstrip() + "\n"
    return text + "\n" + counts(entries) + "\n"


def counts(entries):
    found = {}
    for entry in entries:
        found[flag(entry)] = found.get(flag(entry), 0) + 1
    return ", ".join(f"{number} {name}" for name, number in sorted(found.items())) + \
        " (slow: under 0.98 of eager; low: under 90 % replayed; *: measured alone; ~: of the whole run)"


def grouped(rows):
    """Title and rows of each group that has any, in the rows' order."""
    found = {}
    for row in rows:
        title = next(title for title, begins in GROUPS if row[0].startswith(begins))
        found.setdefault(title, []).append(row)
    return found.items()


def table(rows):
    """As Markdown without padding: the page's lines are long enough."""
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join("|" + "|".join(f" {cell} ".replace("|", "/") if cell else " " for cell in line) + "|" for line in lines)


def markdown(entries, made_by):
    text = "".join(f"### {title}\n{table(rows)}\n\n" for title, rows in grouped(map(cells, entries)))
    return f"{made_by}\n\n{text}{counts(entries)}\n"


def put_on_page(path, entries, made_by):
    """Writes the table between the two marks of the page."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks the lines between which the table goes")
    path.write_text(f"{before}{BEGIN}\n{markdown(entries, made_by)}{END}{after}", encoding="utf-8")
