"""Curves of a long run over the phases that were done: whether they are flat, and how they look."""

import statistics
from html import escape

WIDTH, HEIGHT, LEFT, TOP = 720, 150, 70, 24
STYLE = ("text{font:12px sans-serif;fill:#333}.frame{fill:none;stroke:#999}.grid{stroke:#e4e4e4}"
         ".line{fill:none;stroke:#1f77b4;stroke-width:1.5}.third{stroke:#d62728;stroke-width:2}")
LEAST_SAMPLES = 9


def thirds(samples, cycle):
    """(median in the middle third of the phases, median in the last third, growth) of [(phases done, value)].

    Phases differ in what they need, so each phase of the cycle is compared with itself; the growth is the median of
    these differences. None where too little is known.
    """
    end, parts = max((done for done, _ in samples), default=0), ({}, {})
    for done, value in samples:
        if 3 * done >= end:
            parts[3 * done >= 2 * end].setdefault(done % cycle, []).append(value)
    pairs = [[statistics.median(part[phase]) for part in parts] for phase in parts[0] if phase in parts[1]]
    if len(samples) < LEAST_SAMPLES or not pairs:
        return None
    return (*(statistics.median(side) for side in zip(*pairs)), statistics.median(last - middle for middle, last in pairs))


def is_flat(samples, cycle, mib=2.0):
    """Whether it grows or shrinks by no more than 2 % and so many MiB. None: too short to say."""
    found = thirds(samples, cycle)
    return None if found is None else abs(found[2]) <= 0.02 * found[0] + mib


def panel(title, samples, cycle, top):
    """One curve; values are in MiB."""
    end = max(done for done, _ in samples) or 1
    high = max(max(v for _, v in samples) * 1.1, 1.0)

    def x(done):
        return LEFT + done / end * WIDTH

    def y(value):
        return top + HEIGHT - value / high * HEIGHT

    lines = [f'<text x="{LEFT}" y="{top - 7}">{escape(title)}</text>',
             f'<rect class="frame" x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}"/>']
    for part in (0.0, 0.5, 1.0):
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y(high * part):.1f}" y2="{y(high * part):.1f}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y(high * part) + 4:.1f}" text-anchor="end">{high * part:.0f}</text>')
        lines.append(f'<text x="{x(end * part):.1f}" y="{top + HEIGHT + 15}" text-anchor="middle">{end * part:.0f} phases</text>')
    points = " ".join(f"{x(done):.1f},{y(v):.1f}" for done, v in samples)
    lines.append(f'<polyline class="line" points="{points}"/>')
    for i, value in enumerate((thirds(samples, cycle) or ())[:2]):
        lines.append(f'<line class="third" x1="{x(end * (1 + i) / 3):.1f}" x2="{x(end * (2 + i) / 3):.1f}" '
                     f'y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
    return lines


def svg(title, curves, cycle):
    """curves: {name: [(phases done, MiB)]}; the red lines are the medians that are compared."""
    step, drawn = HEIGHT + TOP + 30, {name: samples for name, samples in curves.items() if samples}
    height = 30 + step * len(drawn)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}">',
             f"<style>{STYLE}</style>", f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>']
    for i, (name, samples) in enumerate(drawn.items()):
        lines += panel(f"{name}, MiB", samples, cycle, 30 + TOP + i * step)
    return "\n".join([*lines, "</svg>", ""])
