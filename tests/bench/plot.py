"""Line plots as SVG, in a grid. Sizes on a logarithmic axis; values on a linear or a logarithmic one."""
import math
from html import escape

WIDTH, HEIGHT = 300, 210  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 26, 40
COLOURS = ["#8a8a8a", "#1f6fb4", "#c2571a"]
STYLE = """text { font: 11px sans-serif; fill: #222 } .title { font-weight: bold }
.axis { stroke: #444; fill: none } .grid { stroke: #ddd } .line { fill: none; stroke-width: 1.8 }"""


class Panel:
    def __init__(self, title, label, sizes, lines, log=False):
        self.title, self.label, self.sizes, self.lines, self.log = title, label, sizes, lines, log


def number(value):
    if value >= 1000 and value % 1000 == 0:
        return "%dk" % (value // 1000)
    return "%g" % value


def decades(low, high):
    return [10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def linear_ticks(high):
    step = 10.0 ** math.floor(math.log10(high))
    while high / step < 4:
        step /= 2
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def panel(p, left, top):
    """The elements of one panel whose corner lies at (left, top)."""
    values = [value for _, line in p.lines for value in line]
    if p.log:
        least = max(min(values), max(values) / 1e5, 1e-3)
        ticks = decades(least, max(max(values), least * 1.01))
    else:
        ticks = linear_ticks(max(values) or 1)
    low, high = ticks[0], ticks[-1]
    x0, x1 = left + LEFT, left + WIDTH - RIGHT
    y0, y1 = top + HEIGHT - BOTTOM, top + TOP
    span = math.log(p.sizes[-1] / p.sizes[0]) or 1

    def x(size):
        return x0 + (x1 - x0) * math.log(size / p.sizes[0]) / span

    def y(value):
        if p.log:
            return y0 + (y1 - y0) * math.log(max(value, low) / low) / math.log(high / low)
        return y0 + (y1 - y0) * (value - low) / (high - low)

    out = ['<text class="title" x="%d" y="%d">%s</text>' % (left + 4, top + 14, escape(p.title))]
    for tick in ticks:
        out.append('<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>' % (x0, x1, y(tick), y(tick)))
        out.append('<text x="%.1f" y="%.1f" text-anchor="end">%s</text>' % (x0 - 5, y(tick) + 4, number(tick)))
    free = -1e9
    for size in p.sizes:
        if x(size) - free > 30:  # labels must not overlap
            out.append('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>' % (x(size), y0 + 14, number(size)))
            free = x(size)
    out.append('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>' % ((x0 + x1) / 2, y0 + 30, escape(p.label)))
    out.append('<path class="axis" d="M%.1f %.1fV%.1fH%.1f"/>' % (x0, y1, y0, x1))
    for i, (name, line) in enumerate(p.lines):
        colour = COLOURS[i] if len(p.lines) > 1 else COLOURS[1]
        points = " ".join("%.1f,%.1f" % (x(size), y(value)) for size, value in zip(p.sizes, line))
        out.append('<polyline class="line" stroke="%s" points="%s"/>' % (colour, points))
        if len(p.lines) > 1:
            out.append('<text x="%.1f" y="%.1f" text-anchor="end" style="fill:%s">%s</text>' %
                       (x1, top + 14 + 12 * i, colour, escape(name)))
    return out


def write(path, rows):
    """`rows`: lists of panels."""
    width, height = WIDTH * max(len(row) for row in rows), HEIGHT * len(rows)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">' %
           (width, height, width, height), "<style>%s</style>" % STYLE,
           '<rect width="%d" height="%d" fill="#fff"/>' % (width, height)]
    for row, panels in enumerate(rows):
        for column, p in enumerate(panels):
            out += panel(p, column * WIDTH, row * HEIGHT)
    out.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")
