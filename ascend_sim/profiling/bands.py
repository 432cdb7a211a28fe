"""Error bands: how far predictions of a family on a chip lie from its measured rows.

``bands.toml`` beside this file is written by ``ascend-sim validate ... --bands``. Long tasks (at least
`accuracy.SHORT_US`) have relative errors, shorter ones errors in microseconds. A row whose L2 state is unknown counts
with the geometric middle of its warm and its cold prediction.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ascend_sim import ops
from ascend_sim.profiling.accuracy import SHORT_US, Outcome, median, quantile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("bands.toml")
NETWORK = "model"  # family of whole networks
NO_BAND = "no measured rows for this family and chip"

# Families of the operator registry -> families of the measured rows.
FAMILIES = {
    "matmul": "gemm",
    "conv": "conv",
    "attention": "attention",
    "elementwise": "elementwise",
    "logic": "elementwise",
    "optimizer": "elementwise",
    "norm": "norm",
    "softmax": "norm",
    "reduce": "norm",
    "pooling": "norm",
    "layout": "movement",
    "creation": "movement",
    "movement": "movement",
}


@dataclass(frozen=True)
class Band:
    """Errors of measured rows: ``median`` and ``p90`` (90th percentile) of the absolute relative error of ``rows`` long
    tasks, of the absolute error in us of ``short_rows`` short ones. None: no such rows."""

    soc: str
    family: str
    rows: int = 0
    median: float | None = None
    p90: float | None = None
    short_rows: int = 0
    short_median_us: float | None = None
    short_p90_us: float | None = None

    def for_task(self, us: float) -> tuple[str, str, int] | None:
        """(median, 90th percentile, rows) as text for a task of this length; None when no row is as long or short."""
        if us >= SHORT_US or self.family == NETWORK:
            if self.median is None or self.p90 is None:
                return None
            return f"{100 * self.median:.0f} %", f"{100 * self.p90:.0f} %", self.rows
        if self.short_median_us is None or self.short_p90_us is None:
            return None
        return f"{self.short_median_us:.1f} us", f"{self.short_p90_us:.1f} us", self.short_rows

    def text(self, us: float) -> str:
        """``+-12 % (910B2 gemm, 31 rows; median 4 %)`` for a task of ``us`` microseconds."""
        found = self.for_task(us)
        if found is None:
            return NO_BAND if not (self.rows or self.short_rows) else f"{NO_BAND} among tasks of this length"
        middle, high, rows = found
        kind = "network" if self.family == NETWORK else self.family
        kind += " row" if rows == 1 else " rows"
        kind += "" if us >= SHORT_US or self.family == NETWORK else f" under {SHORT_US:g} us"
        return f"+-{high} ({self.soc.removeprefix('Ascend')}, {rows} {kind}; median {middle})"


def family_of(op_type: str) -> str | None:
    """Family of the measured rows that an operator belongs to; None when none of its kind was measured."""
    ops.load()
    op = ops.find(op_type)
    return None if op is None else FAMILIES.get(op.family)


def band_of(soc: str, family: str | None) -> Band | None:
    """The band of a family on a chip, or None."""
    return None if family is None else bands().get((soc, family))


def band_text(soc: str, family: str | None, us: float) -> str:
    """The band in words for a task of ``us`` microseconds."""
    band = band_of(soc, family)
    return NO_BAND if band is None else band.text(us)


@lru_cache(maxsize=4)
def bands(path: Path = FILE) -> dict[tuple[str, str], Band]:
    """All bands by chip and family. Empty when the file is missing."""
    if not path.is_file():
        return {}
    data: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        (soc, family): Band(soc, family, **values)
        for soc, families in data.items()
        for family, values in families.items()
    }


def measure(outcomes: Sequence[Outcome]) -> list[Band]:
    """Bands of measured rows; chips and families without a prediction have none.

    Predictions know the state of L2 that they assume, rows of networks do not: such a row counts with the geometric
    middle of its warm and its cold prediction, so that the band covers what the state leaves open."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for o in outcomes:
        if o.centre is not None:
            groups.setdefault((o.soc, o.family), []).append((o.us_measured, abs(o.centre - o.us_measured)))
    return [_band(soc, family, rows) for (soc, family), rows in sorted(groups.items())]


def _band(soc: str, family: str, rows: Sequence[tuple[float, float]]) -> Band:
    """The band of rows given as (measured us, absolute error in us)."""
    every = family == NETWORK
    long = [error / us for us, error in rows if us >= SHORT_US or every]
    short = [error for us, error in rows if us < SHORT_US and not every]
    high, short_high = quantile(long, 0.9), quantile(short, 0.9)
    return Band(soc, family, len(long), _round(median(long)), _round(high), len(short), _round(median(short), 2),
                _round(short_high, 2))  # fmt: skip


def write_bands(outcomes: Sequence[Outcome], path: Path, command: str = "") -> None:
    """Write the bands of ``outcomes``. Raises OSError."""
    lines = [
        f"# Errors against measured rows. Generated by: {command}" if command else "# Errors against measured rows."
    ]
    for band in measure(outcomes):
        lines.append(f"\n[{band.soc}.{band.family}]")
        for key in ("rows", "median", "p90", "short_rows", "short_median_us", "short_p90_us"):
            value = getattr(band, key)
            if value not in (None, 0) or (value == 0 and key not in ("rows", "short_rows")):
                lines.append(f"{key} = {value}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _round(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
