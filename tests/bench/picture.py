# SPDX-License-Identifier: Apache-2.0
"""Pictures of the results, as SVG."""

import math
from html import escape

COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f",
           "#bcbd22"]


def short(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def label(size):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return str(size)


class Drawing:
    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      'font-family="sans-serif" font-size="12">',
                      f'<rect width="{width}" height="{height}" fill="white"/>']

    def text(self, x, y, text, anchor="start", colour="black"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
                          f'{escape(text)}</text>')

    def line(self, points, colour="#ccc", width=1, dash=""):
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" '
                          f'stroke-width="{width}" '
                          f'stroke-dasharray="{dash}"/>')

    def bar(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" '
                          f'height="{height}" '
                          f'fill="{colour}"/>')

    def write(self, path):
        path.write_text("\n".join([*self.parts, "</svg>", ""]))


def rates(path, title, curves):
    """Draws rate against size, one panel a direction. curves: {direction: {label: {size: GB/s}}}"""
    every = [(s, v) for panel in curves.values() for c in panel.values() for s, v in c.items()]
    if not every:
        return
    low, high = (math.log2(f(s for s, _ in every)) for f in (min, max))
    bottom = math.floor(math.log10(min(v for _, v in every)))
    top = math.ceil(math.log10(max(v for _, v in every)))
    d = Drawing(1120, 460)
    d.text(560, 20, title, "middle")
    for n, (way, panel) in enumerate(curves.items()):
        left, width, height, base = 60 + n * 550, 370, 340, 400

        def place(size, value):
            return (left + (math.log2(size) - low) / max(high - low, 1) * width,
                    base - (math.log10(value) - bottom) / max(top - bottom, 1) * height)

        d.text(left + width / 2, 45, f"{way}, GB/s", "middle")
        for power in range(bottom, top + 1):
            y = place(2 ** low, 10 ** power)[1]
            d.line([(left, y), (left + width, y)])
            d.text(left - 6, y + 4, f"{10 ** power:g}", "end")
        for i, size in enumerate(sorted({s for s, _ in every})):
            x = place(size, 10 ** bottom)[0]
            d.text(x, base + 18 + i % 2 * 14, label(size), "middle")
        for i, (name, curve) in enumerate(panel.items()):
            colour = COLOURS[i % len(COLOURS)]
            d.line([place(s, v) for s, v in sorted(curve.items())], colour, 2,
                   "5,3" if name.startswith("native") else "")
            d.text(left + width + 8, 70 + i * 18, name, colour=colour)
    d.write(path)


def bars(path, title, rows):
    """Draws a group of bars a row, each row in its own scale.

    rows: [(name, unit, {side: value})]"""
    height = sum(24 + 16 * len(values) for _, _, values in rows) + 50
    d = Drawing(900, height)
    d.text(450, 20, title, "middle")
    y, sides = 44, []
    for name, unit, values in rows:
        d.text(20, y + 4, f"{name} ({unit})")
        largest = max(values.values())
        y += 10
        for side, value in values.items():
            if side not in sides:
                sides.append(side)
            width = 480 * value / largest if largest else 0
            d.bar(220, y, width, 13, COLOURS[sides.index(side) % len(COLOURS)])
            d.text(212, y + 11, side, "end")
            d.text(226 + width, y + 11, short(value))
            y += 16
        y += 14
    d.write(path)
