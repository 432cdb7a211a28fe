"""``python -m benchmarks [NAME ...]``: run the benchmarks and print one table.

    operators   accuracy on the operator rows of ``data/ops_calibration.csv``
    networks    accuracy on the network rows of ``data/models_calibration.csv`` (builds the networks first, 0.4 GB)
    micro       accuracy on single instructions and data paths (``python -m benchmarks.micro`` lists them)
    speed       CPU seconds and memory of simulating operators and a network, and the rate of replay

``--models DIR`` keeps the built networks there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ascend_sim.cli.table import render
from ascend_sim.cli.validate import predict_op
from ascend_sim.profiling.accuracy import Outcome, Score, score, score_groups
from ascend_sim.profiling.accuracy_page import percent
from ascend_sim.profiling.calibration import ModelRow, OpRow, read_rows

DATA = Path(__file__).parent / "data"
Line = list[str]  # benchmark, what, value, unit


def operators(models: Path) -> list[Line]:
    started = time.perf_counter()
    outcomes = [predict_op(row) for row in read_rows(DATA / "ops_calibration.csv") if isinstance(row, OpRow)]
    return _accuracy("operators", outcomes, time.perf_counter() - started)


def networks(models: Path) -> list[Line]:
    from ascend_sim.cli.validate_models import Models
    from benchmarks.models import write

    write(models)
    started = time.perf_counter()
    predict = Models(str(models)).predict
    outcomes = [predict(row) for row in read_rows(DATA / "models_calibration.csv") if isinstance(row, ModelRow)]
    return _accuracy("networks", outcomes, time.perf_counter() - started)


def speed(models: Path) -> list[Line]:
    """CPU time and memory of simulating, against the goals; see `benchmarks.speed`."""
    from benchmarks.speed import lines

    return [["speed", f"{what} (goal {goal}: {'met' if met == 'yes' else 'missed'})", *found.split(maxsplit=1)]
            for what, found, goal, met in lines()]  # fmt: skip


def micro(models: Path) -> list[Line]:
    """Single instructions and data paths; see `benchmarks.micro`."""
    from benchmarks.micro.__main__ import summary
    from benchmarks.micro.rows import outcomes

    return [["micro", f"{kind}: median / 90th percentile of {count} rows (goal {goal})",
             f"{median.split()[0]} / {high.split()[0]}", "%"]
            for kind, _, count, median, high, goal in summary(list(outcomes()))]  # fmt: skip


def _accuracy(name: str, outcomes: list[Outcome], seconds: float) -> list[Line]:
    lines = [_line(name, s) for s in [*score_groups(outcomes), score(outcomes, "all", "all")]]
    return [*lines, [name, f"time for {len(outcomes)} rows", f"{seconds:.1f}", "s"]]


def _line(name: str, s: Score) -> Line:
    what = f"{s.soc} {s.family}: median error of {s.long} rows, {s.predicted} of {s.rows} predicted"
    return [name, what, percent(s.median), "%"]


BENCHMARKS: dict[str, Callable[[Path], list[Line]]] = {
    "operators": operators,
    "networks": networks,
    "micro": micro,
    "speed": speed,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks and print one table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHMARKS)} (default all)")
    parser.add_argument("--models", type=Path, help="directory for the built networks (default: a temporary one)")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    with tempfile.TemporaryDirectory() as scratch:
        models = args.models or Path(scratch)
        lines = [line for name in (args.names or BENCHMARKS) for line in BENCHMARKS[name](models)]
    print(render(["benchmark", "what", "value", "unit"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
