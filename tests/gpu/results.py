"""The folder of a run (--out): results.jsonl with an entry a row, table.txt, gain.json and all.log. The
runs of several parts, on the same commit, make one table."""

import json

import page
from tables import LEGEND, SIDE_LEGEND, gains, side_by_side, table


class Mixed(Exception):
    """Results of several commits."""


def load(folder, name="results.jsonl"):
    path = folder / name
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def log_of(folder):
    path = folder / "all.log"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def merge(older, newer, order=()):
    """Entries of two runs by row, the newer first; but a row that was skipped yields to one that was
    not. `order` names rows as the table has them; others come behind."""
    found = {entry["row"]: entry for entry in older}
    for entry in newer:
        old = found.get(entry["row"])
        if not old or entry["verdict"] != "skipped" or old["verdict"] == "skipped":
            found[entry["row"]] = entry
    places = {row: place for place, row in enumerate(order)}
    return sorted(found.values(), key=lambda entry: places.get(entry["row"], len(places)))


def commit_of(entries):
    """The commit that all of them are of."""
    commits = sorted({entry.get("commit", "unknown") for entry in entries})
    if len(commits) > 1:
        raise Mixed("results of several commits: " + ", ".join(commits))
    return commits[0] if commits else None


def made_by(entries):
    """Where they came from: a line for each machine and day."""
    return "\n".join(dict.fromkeys(entry["origin"] for entry in entries if entry.get("origin")))


def text_of(entries):
    beside = side_by_side(entries)
    return table(entries) + (f"\n{SIDE_LEGEND}\n{beside}" if beside else "")


def save(folder, entries, log=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.txt").write_text(text_of(entries), encoding="utf-8")
    (folder / "gain.json").write_text(json.dumps(gains(entries), indent=1) + "\n", encoding="utf-8")
    with open(folder / "results.jsonl", "w", encoding="utf-8") as lines:
        for entry in entries:
            lines.write(json.dumps(entry) + "\n")
    if log is not None:
        (folder / "all.log").write_text(log, encoding="utf-8")


def put_on_page(path, entries):
    page.put_section(path, "Programs", LEGEND + "\n" + text_of(entries), made_by(entries) or None)
