"""Scatter plots of predicted against measured time as self-contained SVG text, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

# (measured us, lowest and highest prediction in us, label shown on hover)
Point = tuple[float, float, float, str]

COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#5f6c7b", "#d1495b", "#2a9d8f")
_SIZE, _LEFT, _TOP, _LEGEND = 420, 58, 34, 150


def scatter_svg(title: str, groups: Mapping[str, Sequence[Point]]) -> str:
    """A square plot with the diagonal, the 25 % band around it, and one colour a group; intervals are bars."""
    points = [p for group in groups.values() for p in group]
    values = [v for p in points for v in p[:3]] or [1.0, 10.0]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    high = max(high, low + 1)

    def x(value: float) -> float:
        return _LEFT + (log10(value) - low) / (high - low) * _SIZE

    def y(value: float) -> float:
        return _TOP + _SIZE - (log10(value) - low) / (high - low) * _SIZE

    width, height = _LEFT + _SIZE + _LEGEND, _TOP + _SIZE + 48
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for exponent in range(low, high + 1):
        v = 10.0**exponent
        out.append(_line(x(v), _TOP, x(v), _TOP + _SIZE, "#e4e4e4"))
        out.append(_line(_LEFT, y(v), _LEFT + _SIZE, y(v), "#e4e4e4"))
        out.append(f'<text x="{x(v):.1f}" y="{_TOP + _SIZE + 16}" text-anchor="middle">{v:g}</text>')
        out.append(f'<text x="{_LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    first, last = 10.0**low, 10.0**high
    out.append(_line(x(first), y(first), x(last), y(last), "#666"))
    for factor in (1.25, 1 / 1.25):
        a, b = (first, last / factor) if factor > 1 else (first / factor, last)
        out.append(_line(x(a), y(a * factor), x(b), y(b * factor), "#999", dashed=True))
    middle = _LEFT + _SIZE / 2
    out.append(f'<text x="{middle}" y="{_TOP + _SIZE + 36}" text-anchor="middle">measured, us</text>')
    out.append(
        f'<text transform="translate(14 {_TOP + _SIZE / 2}) rotate(-90)" text-anchor="middle">predicted, us</text>'
    )
    for index, (name, group) in enumerate(groups.items()):
        colour = COLOURS[index % len(COLOURS)]
        out.append(f'<circle cx="{_LEFT + _SIZE + 16}" cy="{_TOP + 12 + 18 * index}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{_LEFT + _SIZE + 26}" y="{_TOP + 16 + 18 * index}">{escape(name)} ({len(group)})</text>')
        for measured, bottom, top, label in group:
            cx = x(measured)
            if top > bottom:
                out.append(_line(cx, y(bottom), cx, y(top), colour))
            cy = y((bottom * top) ** 0.5)
            out.append(
                f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="3" fill="{colour}" fill-opacity="0.75">'
                f"<title>{escape(label)}</title></circle>"
            )
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dash}/>'
