"""What a run of the suite has to show: the table of all rows, and the side by side of eager, autograph
and hand-captured programs a step, as text and as JSON."""

from page import TOP

LEGEND = """Microseconds a launch (C programs) or an iteration (Python): the median of all repetitions and, in brackets, the medians of
the fastest and the slowest process. `ratio` is eager time over autograph time; `of hand` is hand-captured time over autograph
time; `of the gain` is what is saved, over what is saved without the timing events; `in one process`, where that was
measured, compares spans of 25 ms of one process that are eager and replayed in turn (the median of their ratios, and what half
of them lie between), and is what the goal is held against; so is `by the fastest tenth` of all repetitions, where a program
has nothing to compare in one process.
"""
SIDE_LEGEND = """Microseconds a step of the program: a row of 20 launches in the published loops, all up to a read-back in solvers, an iteration
in Python. `wall` is the whole step, `host` the time in it until its last launch has returned. `-`: nobody would capture
this by hand within reason, or the program cannot tell its host time apart.
"""
VARIANTS = ("eager", "autograph", "hand")
VERDICTS = ("ok", "slow", "FAIL", "unstable", "not reproducible", "skipped")


def number(value, pattern="{:.2f}"):
    return "-" if value is None else pattern.format(value)


def timing(entry, name):
    """The median and, in brackets, the fastest and the slowest process."""
    if name not in entry:
        return "-"
    text = number(entry[name]["median"])
    if "spread" in entry[name]:
        text += " ({}..{})".format(*map(number, entry[name]["spread"]))
    return text


def yes_or_no(identical):
    return {True: "yes", False: "NO", None: "-"}[identical]


def cells(entry):
    goals = [number(entry["eager_goal"]) + "x"] if entry.get("eager_goal") else []
    ratios = [number(entry["ratio"]) + "x"] if "ratio" in entry else []
    if "paired" in entry:
        low, high = map(number, entry["paired"]["half"])
        ratios.append(f"{number(entry['paired']['ratio'], '{:.3f}')}x in one process ({low}..{high})")
    if "fastest_ratio" in entry:
        ratios.append(f"{number(entry['fastest_ratio'], '{:.3f}')}x by the fastest tenth")
    for key, words in (("graph", "of hand"), ("gain", "of the gain")):
        if entry.get(key + "_ratio") is not None:
            ratios.append(f"{number(entry[key + '_ratio'])} {words}")
        if entry.get(key + "_goal"):
            goals.append(f"{number(entry[key + '_goal'])} {words}")
    if entry.get("replay_goal"):
        goals.append(f"{entry['replay_goal']:.0%} replayed")
    return [entry["row"], *(timing(entry, name) for name in VARIANTS),
            ", ".join(ratios) or "-", ", ".join(goals) or "-", yes_or_no(entry.get("identical")),
            number(entry.get("replayed"), "{:.1%}"), verdict_of(entry)]


def verdict_of(entry):
    why = (entry.get("why") or "").replace(f"{TOP}/", "")
    return entry["verdict"] + (f": {why}" if why else "")


def layout(head, rows):
    """A table of cells, as Markdown that reads well as text."""
    lines = [head, None, *rows]
    widths = [max(len(line[i]) for line in lines if line) for i in range(len(head))]
    text = []
    for line in lines:
        line = ["-" * width for width in widths] if line is None else line
        text.append("| " + " | ".join(cell.replace("|", "/").ljust(width)
                                      for cell, width in zip(line, widths)) + " |\n")
    return "".join(text)


def counts(entries):
    found = {verdict: sum(entry["verdict"] == verdict for entry in entries) for verdict in VERDICTS}
    return ", ".join(f"{count} {verdict}" for verdict, count in found.items() if count) + "\n"


def table(entries):
    """Every row with its goals and verdict."""
    head = ["program", "eager us", "autograph us", "hand graph us", "ratio", "goal", "identical",
            "replayed", "verdict"]
    return layout(head, list(map(cells, entries))) + "\n" + counts(entries)


def ratio_of(entry):
    """The measure that the goal is held against: of one process, by the fastest tenth, or of the medians."""
    return entry["paired"]["ratio"] if "paired" in entry else entry.get("fastest_ratio", entry["ratio"])


def gain_of(entry):
    """One row side by side, in microseconds a step; None where it was not measured."""
    if "ratio" not in entry or "results" not in entry["eager"]:
        return None
    found = {"row": entry["row"], "label": entry.get("label"), "identical": entry["identical"],
             "replayed": entry.get("replayed"), "verdict": entry["verdict"], "ratio": ratio_of(entry)}
    for name in VARIANTS:
        if name not in entry:
            found[name] = None
            continue
        launches = int((entry[name]["results"] or [{}])[0].get("per_step", 1))
        host = entry[name].get("host")
        found[name] = {"wall_us": entry[name]["median"] * launches,
                       "host_us": None if host is None else host * launches}
    return found


def gains(entries):
    return [found for found in map(gain_of, entries) if found]


def step_cells(found):
    cells_of_row = [found["row"]]
    for name in VARIANTS:
        variant = found[name] or {}
        cells_of_row += [number(variant.get(key), "{:.1f}") for key in ("wall_us", "host_us")]
    auto = found["autograph"]["wall_us"]
    hand = found["hand"]["wall_us"] / auto if found["hand"] else None
    return [*cells_of_row, number(found["eager"]["wall_us"] / auto) + "x",
            number(hand, "{:.2f}x"), number(found["replayed"], "{:.1%}"),
            yes_or_no(found["identical"])]


def side_by_side(entries):
    """The table of what was measured, a step; empty where nothing was."""
    found = gains(entries)
    if not found:
        return ""
    head = ["program", *(f"{name} {what}" for name in ("eager", "autograph", "by hand")
                         for what in ("wall", "host")),
            "eager / autograph", "by hand / autograph", "replayed", "identical"]
    return layout(head, list(map(step_cells, found)))
