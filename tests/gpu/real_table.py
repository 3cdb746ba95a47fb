"""What the run of real programs has to show: one table, without times."""

from tables import counts, layout, number, verdict_of, yes_or_no

FILE = "real.jsonl"
HEADING = "Real programs"
LEGEND = """Whole programs, each in processes of its own: two without the library, one with it, what they compute compared bit for bit. Several ran
at the same time, so that there are no times. `ops`: what the library saw of all processes of the program; `errors`: graphs that could
not be built, updated or launched, counted by the library. Where two runs without the library differ, the row says `not reproducible`.
"""


def cells(entry):
    return [entry["row"], number(entry.get("ops"), "{:d}"), number(entry.get("replayed"), "{:.1%}"),
            yes_or_no(entry.get("identical")), number(entry.get("errors"), "{:d}"), verdict_of(entry)]


def table(entries):
    head = ["program", "ops", "replayed", "identical", "errors", "verdict"]
    return layout(head, list(map(cells, entries))) + "\n" + counts(entries)


def text(entries):
    return LEGEND + "\n" + table(entries)
