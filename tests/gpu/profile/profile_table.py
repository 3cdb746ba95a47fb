"""The table of --profile: a line a program, microseconds a step."""

from tables import layout, number

LEGEND = """Microseconds a step. `free`: the same program where launches, memsets and copies on the device cost
nothing and do nothing, so without the GPU's time as well; `bound` is eager over free, and `with GPU` eager over the
longer of free and the GPU's busy time; `reached` is what is saved of what could be saved up to that bound. `host` is the
time of a step without that in calls that wait; with the library it is the host time with free launches (the program, cudart,
hooking) and the next columns: the driver's graph launches, updates of nodes with the comparison of arguments before, ops that
went to the driver as they came, ops held back that went one by one, and building by the program's threads; in brackets how
often a step. These come from a dump, of a run of its own, as do `ops`; writing it is not in them but for some 50 ns an
update. `rest`: what is left, which is the library's own work (lock, comparing, keeping) and the error of the others; what
is submitted in a call that waits counts with the calls above, and not in `host`, and so makes it less. `waits`: wall less host. `GPU busy` (some kernel, memset or copy ran) comes from CUPTI's records of runs of their
own, in which a kernel's own time includes its start and end; `GPU idle` is the undisturbed wall time less that, and can
so be negative for kernels of a microsecond. `-`: not measured, or the program cannot tell it.""".splitlines()

HEAD = ["program", "ops", "eager wall", "autograph wall", "free wall", "gain", "bound", "with GPU", "reached",
        "eager host", "free host", "autograph host", "graph launches", "updates", "at once", "flushed",
        "building", "rest", "eager waits", "waits", "GPU busy eager", "GPU busy", "GPU idle eager", "GPU idle"]


def get(entry, *keys):
    for key in keys:
        entry = entry.get(key) if entry else None
    return entry


def us(value):
    return number(value, "{:.1f}")


def times(value):
    return number(value, "{:.2f}x")


def part(entry, name):
    """Microseconds, and how often."""
    found = get(entry, "trace", name)
    if not found:
        return "-"
    return f"{found['us']:.1f} ({found['count']:.2f})" if found["count"] else "0"


def minus(a, b):
    return None if a is None or b is None else a - b


def cells(entry):
    wall = {name: get(entry, name, "wall_us") for name in ("eager", "autograph", "free")}
    host = {name: get(entry, name, "host_us") for name in ("eager", "autograph", "free")}
    busy = {name: get(entry, "gpu", name, "busy_us") for name in ("eager", "autograph")}
    return [entry["row"], us(get(entry, "trace", "ops")), *map(us, wall.values()), times(wall["eager"] / wall["autograph"]),
            times(entry.get("bound")), times(entry.get("bound_with_gpu")), number(entry.get("reached"), "{:.0%}"),
            us(host["eager"]), us(host["free"]), us(host["autograph"]),
            *(part(entry, name) for name in ("graphs", "updates", "calls", "flushes", "building")),
            us(get(entry, "host_parts", "rest")),
            *(us(minus(wall[name], host[name])) for name in ("eager", "autograph")),
            us(busy["eager"]), us(busy["autograph"]),
            *(us(minus(wall[name], busy[name])) for name in ("eager", "autograph"))]


def notes(entry):
    """What a reader has to know of a row."""
    if entry.get("why"):
        yield f"{entry['row']}: {entry['why']}"
    if entry.get("why_no_bound"):
        yield f"{entry['row']}: no bound: {entry['why_no_bound']}"
    if get(entry, "trace", "lost"):
        yield f"{entry['row']}: the dump lost {entry['trace']['lost']} events: its times are too short"
    for name in ("eager", "autograph"):
        if get(entry, "gpu", name, "dropped"):
            yield f"{entry['row']}: CUPTI lost {entry['gpu'][name]['dropped']} records, {name}"


def lines_of(entries):
    measured = [entry for entry in entries if "eager" in entry]
    text = layout(HEAD, [cells(entry) for entry in measured]).splitlines() if measured else []
    said = [note for entry in entries for note in notes(entry)]
    return text + ([""] + said if said else [])
