"""The table of a sweep: rows in the order of its points, as CSV or Parquet, and a summary for a terminal."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.sweep_time import FIGURES, Point
from ascend_sim.cli.table import render

SHOWN = 20
Row = dict[str, Any]


def rows(points: Sequence[Point], results: Mapping[int, Mapping[str, Any]]) -> list[Row]:
    """``soc, batch, shape``, the figures that were changed, then the results (None where one failed) and ``error``."""
    keys = list(dict.fromkeys(key for point in points for key, _ in point.changes))
    found = []
    for index, point in enumerate(points):
        changes, result = dict(point.changes), results[index]
        row: Row = {"soc": point.soc, "batch": point.batch, "shape": point.shape}
        row |= {key: changes.get(key) for key in keys}
        found.append(row | {name: result.get(name) for name in FIGURES} | {"error": result.get("error", "")})
    return found


def check_format(path: Path) -> None:
    """CommandError unless the table can be written in the format that the name asks for."""
    if path.suffix == ".parquet":
        try:
            importlib.import_module("pyarrow")
        except ImportError as error:
            advice = "pip install 'ascend-sim[parquet]', or name a .csv file"
            raise CommandError(f"{path}: Parquet needs pyarrow: {advice}") from error
    elif path.suffix != ".csv":
        raise CommandError(f"-o {path}: expected a name that ends in .csv or .parquet")


def write(path: Path, table: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(list(table)), path)
        return
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def summary(table: Sequence[Row]) -> str:
    """The fastest rows by samples per second, and how many failed."""
    good = [row for row in table if not row["error"]]
    varying = [k for k in table[0] if k not in (*FIGURES, "error") and len({str(r[k]) for r in table}) > 1]
    best = sorted(good, key=lambda r: -r["fps"])[:SHOWN]
    lines = [[*(row[k] for k in varying), f"{row['us']:.2f}", f"{row['fps']:.0f}", row["bound"]] for row in best]
    text = f"{len(table)} points, {len(good)} timed"
    if best:
        text += f"; the fastest by samples per second:\n{render([*varying, 'us', 'per s', 'bound'], lines)}"
    for error in list(dict.fromkeys(row["error"] for row in table if row["error"]))[:3]:
        text += f"\nfailed: {error}"
    return text
