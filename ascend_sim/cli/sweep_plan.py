"""The points of a sweep: the product of chips, shapes, batches and values of figures, or the rows of a list."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.sweep_time import Point
from ascend_sim.soc import SocError, load_soc

COLUMNS = ("soc", "batch", "shape")  # of a list; every other column is a figure of the chip


def parse_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """``KEY=V,V,...`` or ``KEY=FIRST:LAST:COUNT`` (evenly spaced, both ends included) by key."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, eq, values = text.partition("=")
        if not eq or not key or not values:
            raise CommandError(f"--grid {text!r}: expected KEY=VALUE,VALUE,... or KEY=FIRST:LAST:COUNT")
        if key in grid:
            raise CommandError(f"--grid {key} is given twice")
        grid[key] = _range(text, values) if values.count(":") == 2 else [parse_value(v) for v in values.split(",")]
    return grid


def _range(text: str, values: str) -> list[Any]:
    first, last, count = values.split(":")
    try:
        low, high, steps = float(first), float(last), int(count)
    except ValueError as error:
        raise CommandError(f"--grid {text!r}: FIRST and LAST are numbers, COUNT a whole number") from error
    if steps < 2:
        raise CommandError(f"--grid {text!r}: COUNT is at least 2")
    points = [low + (high - low) * i / (steps - 1) for i in range(steps)]
    whole = all(p.is_integer() for p in points) and not set(first + last) & set(".e")
    return [int(p) if whole else round(p, 9) for p in points]


def parse_value(text: str) -> Any:
    """A number, ``true``/``false`` or a word."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def grid_points(
    target: str, socs: Sequence[str], batches: Sequence[int], shapes: Sequence[str], grid: Mapping[str, Sequence[Any]],
    l2: str,
) -> list[Point]:  # fmt: skip
    """Chips vary slowest, then shapes, batches and the figures in the order they were given."""
    return [
        Point(target, soc, batch, shape, l2, tuple(zip(grid, values, strict=True)))
        for soc, shape, batch, values in itertools.product(socs, shapes, batches, itertools.product(*grid.values()))
    ]


def listed_points(target: str, path: Path, socs: Sequence[str], batches: Sequence[int], l2: str) -> list[Point]:
    """One point a row of a CSV file; columns ``soc``, ``batch``, ``shape``, and figures (empty cells: as they are)."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not rows:
        raise CommandError(f"--list {path}: no rows")
    points = []
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise CommandError(f"--list {path}: line {number} has not as many cells as the header")
        batch = parse_value(row.get("batch") or str(batches[0]))
        if not isinstance(batch, int) or batch < 1:
            raise CommandError(f"--list {path}: line {number}: batch {batch!r} is not a whole number of at least 1")
        changes = tuple((k, parse_value(v)) for k, v in row.items() if k not in COLUMNS and v != "")
        points.append(Point(target, row.get("soc") or socs[0], batch, row.get("shape") or "", l2, changes))
    return points


def check(points: Sequence[Point]) -> None:
    """Chips and figures must exist and take these values; CommandError names the first that does not."""
    tried: set[Any] = set()
    for point in points:
        for key, value in point.changes:
            if (point.soc, key, repr(value)) in tried:
                continue
            tried.add((point.soc, key, repr(value)))
            try:
                load_soc(point.soc).override({key: value})
            except SocError as error:
                raise CommandError(str(error)) from error
        if (point.soc,) not in tried:
            tried.add((point.soc,))
            load_soc(point.soc)
