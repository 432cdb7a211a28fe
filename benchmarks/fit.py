"""``python -m benchmarks.fit [--half a] [NAME ...]``: derive again the figures of 910A and 910B fitted on operator
rows.

Each figure in `FITS` is varied in turn, those before it at their new values, the others as they are in ``configs/``,
over the rows of one half of ``data/ops_calibration.csv`` (`half_of`) that it changes. The loss is the mean absolute
relative error of those rows (at most `CAP` each, so that a row the model does not explain pulls no figure after it):
of the task duration, or of the scalar unit's busy time for its figures. A figure moves when that lowers the loss by
more than `WORTH`; one with fewer than `LEAST_ROWS` rows in the half keeps its starting value. Printed are the old and
the new value, the rows, the losses on them, and the losses on the rows of the other half. Nothing is written: the
values stand in ``configs/``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_sim.cli.table import render
from ascend_sim.cli.validate import predict_op
from ascend_sim.profiling.accuracy import PIPE_FLOOR_US, miss
from ascend_sim.profiling.calibration import OpRow, half_of, read_rows
from ascend_sim.profiling.fitted import LEAST_ROWS
from ascend_sim.soc import Soc, load_soc

DATA = Path(__file__).parent / "data" / "ops_calibration.csv"
FAMILIES = ("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4")
FIRST = ("Ascend910A",)
CHIPS = (*FAMILIES, *FIRST)
STEPS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 1.75, 2.0)
PROBE = 2.0  # a row counts when this multiple of the figure ...
MOVED = 0.01  # ... changes it by more than this share
CAP = 0.5
WORTH = 0.08  # less is within the noise of the measurements: 5 % of vector kernels, 10 % of products


@dataclass(frozen=True)
class Fit:
    """One fitted value: the ``keys`` that have it, the ``part`` of a row with several values (a position, or a name for
    paths), the ``pipe`` whose busy time it is fitted to (empty: task durations), and the ``chips`` that have it."""

    keys: tuple[str, ...]
    part: int | str = ""
    pipe: str = ""
    chips: tuple[str, ...] = FAMILIES

    @property
    def name(self) -> str:
        table, _, row = self.keys[0].rpartition(".")
        rows = ",".join((row, *(key.removeprefix(f"{table}.") for key in self.keys[1:])))
        part = ("flushed", "network")[self.part] if isinstance(self.part, int) else self.part
        return ".".join(word for word in (table, rows, part) if word)

    def value(self, soc: Soc) -> float:
        if isinstance(self.part, str) and self.part:
            return float(getattr(soc.mte.paths[self.keys[0].removeprefix("mte.paths.")], self.part))
        found = soc.figures[self.keys[0]].value
        return float(found[self.part] if isinstance(self.part, int) else found)  # type: ignore[index,arg-type]

    def change(self, soc: Soc, value: float) -> dict[str, Any]:
        """Override that gives the figure another value."""
        if isinstance(self.part, str):
            return {f"{key}.{self.part}" if self.part else key: value for key in self.keys}
        row = list(soc.figures[self.keys[0]].value)  # type: ignore[arg-type]
        row[self.part] = value
        return {self.keys[0]: row}


B2 = ("Ascend910B2",)
FITS = (
    Fit(tuple(f"scalar.start.{name}" for name in ("transpose", "layout", "norm")), pipe="scalar"),
    Fit(tuple(f"scalar.operands.{name}" for name in ("elementwise", "transpose", "layout", "norm")), pipe="scalar"),
    Fit(("scalar.operands.cube",), pipe="scalar"),
    Fit(("vector.cycles.vnchwconv",), 1, pipe="vector"),
    Fit(("memory.odd_write_cycles",), pipe="mte3"),
    *(Fit((f"scalar.start.{name}",)) for name in ("object", "attention")),
    Fit(("scalar.work.attention_stage",)),
    *(Fit((f"launch.code.{name}",), 0, chips=B2) for name in ("broadcast", "norm", "ascendc", "transpose", "graph")),
    *(Fit((f"launch.code.{name}",), 1, chips=B2) for name in ("elementwise", "norm", "transpose", "layout")),
    Fit(("memory.read_gbps",), chips=("Ascend910B1", "Ascend910B2")),
    *(Fit((f"memory.{name}",)) for name in ("core_l1_bytes_per_cycle", "short_burst_factor", "l2_write_gbps")),
    Fit(("mte.paths.GM_UB:pad",), "burst_cycles"),
    *(Fit((name,), chips=FIRST) for name in ("vector.scale", "launch.head_us")),
)


@dataclass(frozen=True)
class Found:
    """Result for one figure: values, rows it was fitted on (ids), loss before and after on them and on the rows of the
    other half that it changes."""

    name: str
    old: float
    new: float
    rows: tuple[str, ...]
    loss: tuple[float, float]
    others: int
    held_out: tuple[float, float]


class Fitting:
    """Fits figures one after the other on the rows of ``half``; found values stay for those that follow."""

    def __init__(self, rows: Sequence[OpRow], half: str) -> None:
        self.rows, self.half = rows, half
        self.chips = {name: load_soc(name) for name in CHIPS}

    def fit(self, item: Fit) -> Found:
        old = item.value(self.chips["Ascend910B2" if "Ascend910B2" in item.chips else item.chips[0]])
        mine = [row for row in self.rows if row.soc in item.chips and (not item.pipe or item.pipe in row.pipe_us)]
        near, far = self._errors(item, mine, old), self._errors(item, mine, old * PROBE or 1.0)
        used = [row for row, a, b in zip(mine, near, far, strict=True) if a and b and abs(b[1] - a[1]) > MOVED * a[1]]
        own, other = ([row for row in used if (half_of(row.id) == self.half) is same] for same in (True, False))
        before = self._loss(item, own, old)
        best, lowest = old, before
        if len(own) >= LEAST_ROWS:
            for value in (_rounded(old * step) for step in STEPS):
                loss = self._loss(item, own, value)
                if loss < min(lowest, before * (1 - WORTH)):
                    best, lowest = value, loss
        held_out = (self._loss(item, other, old), self._loss(item, other, best))
        for name in item.chips:
            self.chips[name] = self._chip(item, name, best)
        return Found(item.name, old, best, tuple(r.id for r in own), (before, lowest), len(other), held_out)

    def _loss(self, item: Fit, rows: Sequence[OpRow], value: float) -> float:
        errors = [min(abs(e[0]), CAP) for e in self._errors(item, rows, value) if e is not None]
        return sum(errors) / len(errors) if errors else 0.0

    def _errors(self, item: Fit, rows: Sequence[OpRow], value: float) -> list[tuple[float, float] | None]:
        """(relative error, predicted) of each row with the figure at ``value``; None where there is nothing to
        compare."""
        chips = {name: self._chip(item, name, value) for name in item.chips}
        return [_error(item.pipe, row, chips[row.soc]) for row in rows]

    def _chip(self, item: Fit, name: str, value: float) -> Soc:
        return self.chips[name].override(item.change(self.chips[name], value))


def _error(pipe: str, row: OpRow, soc: Soc) -> tuple[float, float] | None:
    found = predict_op(row, soc)
    if found.us_predicted is None or found.estimated:
        return None
    if not pipe:
        assert found.error is not None and found.centre is not None
        return found.error, found.centre
    measured = row.pipe_us[pipe]
    if measured <= PIPE_FLOOR_US:
        return None
    warm = found.pipes.get(pipe, 0.0)
    cold = found.pipes_cold.get(pipe, warm)
    return miss(measured, min(warm, cold), max(warm, cold)) / measured, warm


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def lines(found: Iterable[Found]) -> list[list[str]]:
    """Cells of the printed table."""
    return [
        [f.name, f"{f.old:g}", f"{f.new:g}", str(len(f.rows)), f"{100 * f.loss[0]:.1f}", f"{100 * f.loss[1]:.1f}",
         str(f.others), f"{100 * f.held_out[0]:.1f}", f"{100 * f.held_out[1]:.1f}"]
        for f in found
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None, show: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit", description=__doc__)
    parser.add_argument("names", nargs="*", help="only figures whose name contains one of these")
    parser.add_argument("--half", choices=("a", "b"), default="a", help="rows to fit on (default a)")
    parser.add_argument("--rows", action="store_true", help="also list the rows of each figure")
    args = parser.parse_args(argv)
    rows = [row for row in read_rows(DATA) if isinstance(row, OpRow) and row.soc in CHIPS]
    chosen = [item for item in FITS if not args.names or any(name in item.name for name in args.names)]
    fitting = Fitting(rows, args.half)
    found = [fitting.fit(item) for item in chosen]
    other = "b" if args.half == "a" else "a"
    header = ["figure", "old", "new", f"rows {args.half}", "loss %", "new %", f"rows {other}", "loss %", "new %"]
    show(render(header, lines(found)))
    if args.rows:
        for f in found:
            show(f"{f.name}: {' '.join(f.rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
