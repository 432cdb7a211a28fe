"""``python -m benchmarks.micro``: measured against simulated times of single instructions and data paths.

Prints every row (``--rows``), the tables of isolated instructions, median and 90th percentile per kind, and the rows
that are more than 20 % off with the reason.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from ascend_sim.cli.table import render

from .reasons import reason
from .rows import KINDS, Outcome, outcomes
from .tables import tables

FAR = 0.20
GOALS = {"instruction": (0.03, 0.12), "path": (0.04, 0.16)}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of all are not above."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def summary(rows: Sequence[Outcome]) -> list[list[str]]:
    lines = []
    for kind in KINDS:
        of_kind = [r for r in rows if r.kind == kind]
        errors = [abs(r.error) for r in of_kind if r.error is not None]
        median, high = statistics.median(errors), percentile(errors, 0.9)
        goal = " / ".join(f"{100 * g:.0f} %" for g in GOALS[kind])
        lines.append([kind, str(len(of_kind)), str(len(errors)), f"{100 * median:.1f} %", f"{100 * high:.1f} %", goal])
    return lines


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro", description=__doc__)
    parser.add_argument("--rows", action="store_true", help="print every row")
    args = parser.parse_args(argv)
    rows = list(outcomes())
    if args.rows:
        print(render(["chip", "row", "measured", "simulated", "error"], [_line(r) for r in rows]))
    for title, lines in tables():
        cells = [[x.what, f"{x.stated:.2f}", f"{x.simulated:.2f}", f"{100 * x.error:+.1f} %"] for x in lines]
        print(f"\n{title}\n{render(['cycles', 'stated', 'simulated', 'error'], cells)}")
    far = [r for r in rows if r.error is None or abs(r.error) > FAR]
    print(f"\n{len(far)} rows beyond {100 * FAR:.0f} %")
    print(render(["chip", "row", "measured", "simulated", "error", "reason"], [[*_line(r), reason(r)] for r in far]))
    print()
    print(render(["kind", "rows", "simulated", "median", "90th percentile", "goal"], summary(rows)))
    return 0


def _line(r: Outcome) -> list[str]:
    simulated = "-" if r.simulated is None else f"{r.simulated:.1f}"
    error = "-" if r.error is None else f"{100 * r.error:+.1f} %"
    return [r.chip, r.what, f"{r.measured:.1f} {r.unit}", simulated, error]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
