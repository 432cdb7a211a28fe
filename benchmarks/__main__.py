"""``python -m benchmarks [NAME ...]``: run the benchmarks and print one table.

    operators   accuracy on the operator rows of ``data/ops_calibration.csv``
    networks    accuracy on the network rows of ``data/models_calibration.csv`` (builds the networks first, 0.4 GB)
    speed       instructions per second of trace and replay, and of a whole operator

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
    """A large matrix product on the default chip: traced once, then replayed under another clock."""
    from ascend_sim import ops
    from ascend_sim.engine.memory import L2
    from ascend_sim.ops.cost import op_timing
    from ascend_sim.ops.schema import TensorSpec
    from ascend_sim.soc import load_soc

    soc = load_soc("Ascend910B2")
    ops.load()
    operand = TensorSpec((8192, 8192), "float16")
    call = ops.call("MatMulV2", [operand, operand, None])
    started = time.perf_counter()
    timing = op_timing(call, soc, L2(soc))
    first = time.perf_counter() - started
    other = soc.override({"cores.clock_mhz": 1650.0})
    started = time.perf_counter()
    op_timing(call, other, L2(other))
    again = time.perf_counter() - started
    executed = sum(kernel.instructions for kernel in timing.kernels)
    return [
        ["speed", "MatMulV2 8192^3: trace and replay", f"{first * 1e3:.0f}", "ms"],
        ["speed", "MatMulV2 8192^3: replay under another clock", f"{again * 1e3:.0f}", "ms"],
        ["speed", "MatMulV2 8192^3: instructions per second of replay", f"{executed / again / 1e6:.1f}", "M/s"],
    ]


def _accuracy(name: str, outcomes: list[Outcome], seconds: float) -> list[Line]:
    lines = [_line(name, s) for s in [*score_groups(outcomes), score(outcomes, "all", "all")]]
    return [*lines, [name, f"time for {len(outcomes)} rows", f"{seconds:.1f}", "s"]]


def _line(name: str, s: Score) -> Line:
    what = f"{s.soc} {s.family}: median error of {s.long} rows, {s.predicted} of {s.rows} predicted"
    return [name, what, percent(s.median), "%"]


BENCHMARKS: dict[str, Callable[[Path], list[Line]]] = {
    "operators": operators,
    "networks": networks,
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
