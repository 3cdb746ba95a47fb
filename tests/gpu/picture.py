#!/usr/bin/env python3
"""Draws the gain: a bar for each of eager, autograph and hand-captured, as long as a step takes compared
with eager. The library's bar is as long as the measure says that its goal is held against. Reads the gain.json that a run of the suite left (--out), writes docs/gain.svg:
picture.py DIR [FILE]. Text and background follow the reader's light or dark mode."""

import json
import sys
from html import escape
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
NAMES = (("eager", "eager"), ("autograph", "autograph"), ("hand", "captured by hand"))
LEFT, RIGHT, BAR, GAP, ROW_GAP, HEAD = 300, 140, 13, 2, 14, 74
WIDTH = 900
STYLE = """
  svg { color-scheme: light dark; }
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
  .title { font-size: 16px; font-weight: 600; }
  .small { font-size: 11px; fill: #57606a; }
  .back { fill: #ffffff; }
  .line { stroke: #d0d7de; stroke-width: 1; }
  .eager { fill: #8c959f; }
  .autograph { fill: #0969da; }
  .hand { fill: #bf8700; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .back { fill: #0d1117; }
    .line { stroke: #30363d; }
    .eager { fill: #6e7681; }
    .autograph { fill: #4493f8; }
    .hand { fill: #d29922; }
  }
"""


def time_text(us):
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.0f} us" if us >= 100 else f"{us:.1f} us"


def place(share, full):
    """Where a bar of that share of eager time ends."""
    return LEFT + (WIDTH - LEFT - RIGHT) * min(share / full, 1.0)


def text(x, y, words, cls="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            + (f' class="{cls}"' if cls else "") + f">{escape(words)}</text>")


def share_of(found, name):
    """Of eager time. Two processes differ by more than many gains, so the library's share is that of one process, if known."""
    if name == "autograph" and found.get("ratio"):
        return 1.0 / found["ratio"]
    return found[name]["wall_us"] / found["eager"]["wall_us"]


def group(found, y, full):
    """The bars of one program. Returns them and where the next program begins."""
    drawn = [(name, found[name]) for name, _ in NAMES if found.get(name)]
    height = len(drawn) * (BAR + GAP)
    parts = [text(LEFT - 12, y + height / 2 + 3, found["label"], anchor="end")]
    for name, variant in drawn:
        share = share_of(found, name)
        end = place(share, full)
        said = time_text(variant["wall_us"]) if name == "eager" else f"{1.0 / share:.2f}x"
        parts.append(f'<rect class="{name}" x="{LEFT}" y="{y:.1f}" width="{end - LEFT:.1f}" '
                     f'height="{BAR}" rx="2"/>')
        parts.append(text(end + 6, y + BAR - 2.5, said, "small"))
        y += BAR + GAP
    return parts, y + ROW_GAP


def legend(y):
    parts, x = [], LEFT
    for name, words in NAMES:
        parts.append(f'<rect class="{name}" x="{x}" y="{y - 10}" width="12" height="12" rx="2"/>')
        parts.append(text(x + 18, y, words))
        x += 44 + 7 * len(words)
    return parts


def draw(found, origin=""):
    """The picture of all that have a label; found is what tables.gains gives."""
    found = [one for one in found if one.get("label")]
    if not found:
        raise ValueError("nothing was measured that has a place in the picture")
    shares = [share_of(one, name) for one in found for name, _ in NAMES if one.get(name)]
    full = min(max(shares), 1.5)    # what is longer is cut off there; its label says how long it is
    body, y = [], HEAD
    for one in found:
        parts, y = group(one, y, full)
        body += parts
    whole = place(1.0, full)
    axis = [f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 8}" y2="{y - ROW_GAP + 6}"/>'
            for x in (LEFT, whole)]
    notes = [text(16, y + 14 + 15 * i, line, "small") for i, line in enumerate(origin.splitlines())]
    height = y + 16 + 15 * len(notes)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" role="img" aria-label="Time of a step: eager, autograph, captured by hand">')
    return "\n".join([head, f"<style>{STYLE}</style>",
                      f'<rect class="back" width="{WIDTH}" height="{height:.0f}"/>',
                      text(16, 26, "Time of a step, compared with eager (shorter is better)", "title"),
                      *legend(52), *axis, *body, *notes, "</svg>", ""])


def write(path, found, origin=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(found, origin), encoding="utf-8")


def main():
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    import results
    folder = Path(sys.argv[1])
    path = Path(sys.argv[2]) if len(sys.argv) == 3 else TOP / "docs" / "gain.svg"
    found = json.loads((folder / "gain.json").read_text(encoding="utf-8"))
    write(path, found, results.made_by(results.load(folder)))
    print(f"{path}: {sum(bool(one.get('label')) for one in found)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
