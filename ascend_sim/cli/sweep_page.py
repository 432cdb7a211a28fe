"""The page of a sweep: a heat-map over the two columns that vary most, the Pareto front, all rows."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_sim.cli.sweep_table import Row
from ascend_sim.cli.sweep_time import FIGURES

CELL, LEFT, TOP = 64, 130, 30
WIDTH, HEIGHT = 640, 360
SHOWN = 2000  # rows of the table
META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
STYLE = """:root { color-scheme: light dark; } p { color: #777; } h1 { font-size: 1.1rem; } h2 { font-size: 1rem; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 1200px; padding: 0 1rem; }
.wide { overflow-x: auto; } svg text { font-size: 12px; fill: currentColor; } svg .on { fill: #000; }
table { border-collapse: collapse; font-size: .82rem; }
td, th { padding: .2rem .5rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }"""


def write(path: Path, name: str, table: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(name, table))


def render(name: str, table: Sequence[Row]) -> str:
    good = [row for row in table if not row["error"]]
    title = html.escape(f"{name}: sweep of {len(table)} points")
    parts = [f"<h1>{title}</h1><p>simulated, not measured; {len(table) - len(good)} points could not be timed</p>"]
    if good:
        parts += [_heat(good), _pareto(good)]
    parts.append(_rows(table))
    head = f"{META}<title>{title}</title>"
    return (
        f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{"".join(parts)}</body></html>'
    )


def varying(table: Sequence[Row]) -> list[str]:
    """Columns with more than one value, those with most first."""
    counts = {k: len({str(row[k]) for row in table}) for k in table[0] if k not in (*FIGURES, "error")}
    return sorted((k for k, n in counts.items() if n > 1), key=lambda k: -counts[k])


def _ordered(values: Sequence[Any]) -> list[Any]:
    found = list(dict.fromkeys(values))
    numbers = all(isinstance(v, int | float) for v in found)
    return sorted(found) if numbers else found


def _heat(table: Sequence[Row]) -> str:
    """Mean samples per second by the two columns that vary most."""
    keys = varying(table)[:2]
    if not keys:
        return ""
    x, y = keys[0], keys[1] if len(keys) > 1 else None
    columns = _ordered([row[x] for row in table])
    lines = _ordered([row[y] for row in table]) if y else [""]
    sums: dict[tuple[Any, Any], list[float]] = {}
    for row in table:
        sums.setdefault((row[x], row[y] if y else ""), []).append(row["fps"])
    means = {k: sum(v) / len(v) for k, v in sums.items()}
    low, high = min(means.values()), max(means.values())
    out = []
    for j, b in enumerate(lines):
        out.append(f'<text x="{LEFT - 8}" y="{TOP + j * 30 + 19}" text-anchor="end">{html.escape(str(b))[:18]}</text>')
        for i, a in enumerate(columns):
            if (a, b) not in means:
                continue
            value = means[a, b]
            share = (value - low) / (high - low) if high > low else 1.0
            at = f'x="{LEFT + i * CELL}" y="{TOP + j * 30}"'
            tip = html.escape(f"{x} = {a}" + (f", {y} = {b}" if y else "") + f": {value:.1f} per s")
            color = f"hsl({55 + 90 * share:.0f} 60% {80 - 30 * share:.0f}%)"
            middle = f'x="{LEFT + i * CELL + CELL / 2 - 1}" y="{TOP + j * 30 + 19}" text-anchor="middle"'
            out.append(f'<rect {at} width="{CELL - 2}" height="28" fill="{color}"><title>{tip}</title></rect>')
            out.append(f'<text class="on" {middle}>{value:.4g}</text>')
    for i, a in enumerate(columns):
        above = f'x="{LEFT + i * CELL + CELL / 2}" y="{TOP - 8}" text-anchor="middle"'
        out.append(f"<text {above}>{html.escape(_short(a))[:9]}</text>")
    size = LEFT + CELL * len(columns), TOP + 30 * len(lines)
    what = f"samples per second by {x}" + (f" and {y}" if y else "") + ("; mean of all others" if len(keys) > 1 else "")
    return (f'<h2>{html.escape(what)}</h2><div class="wide"><svg width="{size[0]}" height="{size[1]}" role="img">'
            f"{''.join(out)}</svg></div>")  # fmt: skip


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def front(table: Sequence[Row]) -> list[Row]:
    """Rows that no other beats in both latency and samples per second, the quickest first."""
    best, found = 0.0, []
    for row in sorted(table, key=lambda r: (r["us"], -r["fps"])):
        if row["fps"] > best:
            best = row["fps"]
            found.append(row)
    return found


def _pareto(table: Sequence[Row]) -> str:
    keys = varying(table)
    chosen = front(table)
    xs, ys = [row["us"] for row in table], [row["fps"] for row in table]
    span = max(max(xs) - min(xs), 1e-9), max(max(ys) - min(ys), 1e-9)

    def place(row: Row) -> tuple[float, float]:
        return (70 + (row["us"] - min(xs)) / span[0] * (WIDTH - 90),
                HEIGHT - 40 - (row["fps"] - min(ys)) / span[1] * (HEIGHT - 60))  # fmt: skip

    out = []
    for row in table:
        px, py = place(row)
        tip = html.escape(", ".join(f"{k} = {row[k]}" for k in keys) + f": {row['us']:.1f} us, {row['fps']:.1f} per s")
        out.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="#888" fill-opacity=".5"><title>{tip}</title></circle>'
        )
    steps = " ".join(f"{px:.1f},{py:.1f}" for px, py in map(place, chosen))
    out.append(f'<polyline points="{steps}" fill="none" stroke="#d4671c" stroke-width="1.5"/>')
    for row in chosen:
        px, py = place(row)
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4.5" fill="#d4671c"/>')
    labels = (
        (f"{min(xs):.4g} us", 70, HEIGHT - 20, "start"), (f"{max(xs):.4g} us", WIDTH, HEIGHT - 20, "end"),
        (f"{max(ys):.4g}", 64, 24, "end"), (f"{min(ys):.4g}", 64, HEIGHT - 36, "end"), ("per s", 64, 40, "end"),
        ("latency", WIDTH / 2, HEIGHT - 6, "middle"),
    )  # fmt: skip
    for text, px, py, anchor in labels:
        out.append(f'<text x="{px}" y="{py}" text-anchor="{anchor}">{text}</text>')
    return (f'<h2>latency and samples per second; the line joins what nothing beats in both</h2><div class="wide">'
            f'<svg width="{WIDTH}" height="{HEIGHT}" role="img">{"".join(out)}</svg></div>')  # fmt: skip


def _rows(table: Sequence[Row]) -> str:
    names = [k for k in table[0] if any(row[k] not in (None, "") for row in table)]
    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(row[n]))}</td>" for n in names) + "</tr>" for row in table[:SHOWN]
    )
    more = f"<p>first {SHOWN} of {len(table)} rows</p>" if len(table) > SHOWN else ""
    return f'<h2>all points</h2>{more}<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
