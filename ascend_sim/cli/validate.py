"""``ascend-sim validate``: how far predictions lie from measurements of real chips, row by row and per family."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.engine.memory import L2
from ascend_sim.ops.cost import OpTiming, op_timing
from ascend_sim.profiling.accuracy import (
    SHORT_US,
    TIE,
    Outcome,
    score,
    score_bounds,
    score_groups,
    score_networks,
    score_pipes,
    tidy,
)
from ascend_sim.profiling.accuracy_page import (
    NETWORK_HEADER,
    network_cells,
    percent,
    score_cells,
    unpredicted_groups,
    write_page,
)
from ascend_sim.profiling.bands import write_bands
from ascend_sim.profiling.calibration import ModelRow, OpRow, RowError, half_of, read_rows
from ascend_sim.profiling.row_calls import call_of
from ascend_sim.profiling.row_shapes import NotPredicted
from ascend_sim.soc import Soc, SocError, load_soc

EXAMPLE = "example: ascend-sim validate benchmarks/data/ops_calibration.csv --soc Ascend910B2 --report docs/accuracy.md"

CAUSES = "known_misses.csv"  # columns id, cause


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("validate", help="compare predictions with measurements", epilog=EXAMPLE)
    parser.add_argument("rows", nargs="+", help="CSV of measured operators, or of measured networks (with --models)")
    parser.add_argument("--models", metavar="DIR", help="directory of <model>.onnx with free batch [+ <model>.json]")
    parser.add_argument("--soc", help="only rows of this chip")
    parser.add_argument("--family", help="only rows of this family")
    parser.add_argument("--half", choices=("a", "b"), help="only this half of the rows, split by a hash of their id")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes to predict with (default 1)")
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="list the N worst rows (default 10)")
    parser.add_argument("--report", metavar="FILE", help="also write the accuracy page (Markdown, plots beside it)")
    parser.add_argument("--bands", metavar="FILE", help="also write the error bands that predictions carry")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.workers < 1:
        raise CommandError(f"--workers {args.workers}: expected a whole number of at least 1")
    try:
        outcomes = [outcome for path in args.rows for outcome in _validate(read_rows(path), args)]
    except RowError as error:
        raise CommandError(str(error)) from error
    if args.report:
        try:
            write_page(outcomes, Path(args.report), args.half, _command(args), _causes(args.rows))
        except OSError as error:
            raise CommandError(f"--report {args.report}: {error.strerror or error}") from error
    if args.bands:
        try:
            write_bands(outcomes, Path(args.bands), _command(args))
        except OSError as error:
            raise CommandError(f"--bands {args.bands}: {error.strerror or error}") from error
    if args.json:
        json.dump(as_json(outcomes), sys.stdout)
        print()
    else:
        print(as_text(outcomes, args.worst))
    return 0


def _causes(paths: Sequence[str]) -> dict[str, str]:
    """Known causes of misses by row id, from `CAUSES` beside the files of rows."""
    found: dict[str, str] = {}
    for path in dict.fromkeys(Path(p).with_name(CAUSES) for p in paths):
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as handle:
                found |= {record["id"]: record["cause"] for record in csv.DictReader(handle)}
    return found


def _command(args: argparse.Namespace) -> str:
    """The command line that was given, as the report shows it."""
    words = ["ascend-sim", "validate", *args.rows]
    for name in ("models", "soc", "family", "half", "report", "bands"):
        value = getattr(args, name)
        words += [f"--{name}", str(value)] if value else []
    return " ".join(words)


def _validate(rows: Sequence[OpRow] | Sequence[ModelRow], args: argparse.Namespace) -> list[Outcome]:
    chosen = [
        row for row in rows
        if args.soc in (None, row.soc) and args.family in (None, row.family) and args.half in (None, half_of(row.id))
    ]  # fmt: skip
    predict: Callable[[Any], Outcome] = predict_op
    if any(isinstance(row, ModelRow) for row in chosen):
        from ascend_sim.cli.validate_models import Models

        predict = Models(args.models).predict
    if args.workers == 1:
        return [predict(row) for row in chosen]
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(args.workers) as pool:
        return list(pool.map(predict, chosen, chunksize=max(1, len(chosen) // (8 * args.workers))))


def predict_op(row: OpRow, soc: Soc | None = None) -> Outcome:
    """Prediction of one measured operator on an idle device, on ``soc`` in place of its chip's description. Never
    raises for a row it cannot predict: the outcome says why."""
    try:
        soc = soc or load_soc(row.soc)
        call = call_of(row)
        cold, warm = _cold_and_warm(call, soc, row.l2)
    except (NotPredicted, SocError, ValueError) as error:
        return _unpredicted(row, str(error))
    except Exception as error:  # a fault in one kernel must not hide the other rows
        return _unpredicted(row, f"{type(error).__name__}: {error}")
    used = cold if row.l2 == "cold" else warm
    assert used is not None
    both = cold if row.l2 == "unknown" else None
    return Outcome(
        id=row.id,
        soc=row.soc,
        family=row.family,
        op=row.op,
        us_measured=row.us,
        us_predicted=used.us,
        us_predicted_cold=both.us if both else None,
        pipes=_busy_us(used),
        pipes_cold=_busy_us(both) if both else {},
        pipe_cycles={pipe: round(busy * used.mhz / 1e6) for pipe, busy in used.busy_ps},
        core_us=used.core_ps / 1e6,
        pipe_us_measured=row.pipe_us,
        bound=used.bound,
        estimated=used.estimated,
        confidence=used.confidence,
        figures=tuple(dict.fromkeys((*used.rests_on(), *(both.rests_on() if both else ())))),
        reason=used.reason,
    )


def _unpredicted(row: OpRow, reason: str) -> Outcome:
    return Outcome(row.id, row.soc, row.family, row.op, row.us, pipe_us_measured=row.pipe_us, reason=tidy(reason))


def _cold_and_warm(call: Any, soc: Soc, state: str) -> tuple[OpTiming, OpTiming | None]:
    """``cold`` rows are benchmarks that flush: L2 full of clean foreign lines. Other rows come out of networks, so
    other kernels' code ran before; their cold end finds L2 full of foreign lines to write back, their warm end is the
    next run on the same buffers."""
    l2 = L2(soc)
    if state == "cold":
        l2.flush_cold()
        return op_timing(call, soc, l2), None
    l2.network = True
    op_timing(call, soc, l2)
    warm = op_timing(call, soc, l2)
    if state == "warm":
        return warm, warm
    l2.fill_dirty()
    return op_timing(call, soc, l2), warm


def _busy_us(timing: OpTiming) -> dict[str, float]:
    return {pipe: busy / 1e6 for pipe, busy in timing.busy_ps}


# ---- output


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The object of DESIGN section 6."""
    return {
        "families": [asdict(s) for s in score_groups(outcomes)],
        "rows": [
            {
                "id": o.id,
                "soc": o.soc,
                "family": o.family,
                "op": o.op,
                "us_measured": o.us_measured,
                "us_predicted": o.us_predicted,
                "us_predicted_cold": o.us_predicted_cold,
                "pipes": _pipes_json(o),
                "bound": o.bound,
                "estimated": o.estimated,
                "reason": o.reason,
            }
            for o in outcomes
        ],
    }


def _pipes_json(o: Outcome) -> dict[str, dict[str, float]]:
    """As ``ascend-sim op`` gives them, and in us, the unit of the calibration rows."""
    return {
        pipe: {"us": us, "busy_cycles": o.pipe_cycles[pipe], "ratio": us / o.core_us if o.core_us else 0.0}
        for pipe, us in o.pipes.items()
    }


def as_text(outcomes: Sequence[Outcome], worst: int) -> str:
    """Tables: families, all together, pipes, worst rows, rows that were not predicted."""
    scores = [*score_groups(outcomes), score(outcomes, "all", "all")]
    parts = [
        render(
            ["soc", "family", "rows", "predicted", "estimated", "rows>=10us", "median %", "p90 %", "bias %", "spearman",
             "rows<10us", "median us", "p90 us"],
            [score_cells(s) for s in scores],
        )
    ]  # fmt: skip
    pipes = [p for p in score_pipes(outcomes) if p.compared]
    if pipes:
        cells = [[p.pipe, str(p.compared), percent(p.median), percent(p.p90), percent(p.bias)] for p in pipes]
        bounds = score_bounds(outcomes)
        parts.append("busy time of pipes above 1 us\n" + render(["pipe", "rows", "median %", "p90 %", "bias %"], cells))
        parts.append(f"measured bound (over half of the task; ties within {100 * TIE:.0f} %) is the predicted one: "
                     f"{bounds.agreed} of {bounds.rows}; exactly: {bounds.longest}")  # fmt: skip
    networks = score_networks(outcomes)
    if networks:
        parts.append("networks over batch sizes\n" + render(NETWORK_HEADER, network_cells(networks)))
    bad = sorted((o for o in outcomes if o.error is not None), key=lambda o: -abs(o.error or 0))
    if bad and worst > 0:
        table = [_row_cells(o) for o in bad if o.us_measured >= SHORT_US][:worst]
        parts.append(
            "furthest from the measurement\n"
            + render(["id", "soc", "op", "measured us", "predicted us", "error %", "bound", "note"], table)
        )
    missing = unpredicted_groups(outcomes)
    if missing:
        parts.append("not predicted\n" + render(["soc", "op", "rows", "reason", "ids"], missing))
    return "\n\n".join(parts)


def _row_cells(o: Outcome) -> list[str]:
    low, high = o.interval or (0.0, 0.0)
    predicted = f"{low:.2f}" if o.us_predicted_cold is None else f"{low:.2f}..{high:.2f}"
    note = f"estimated: {o.reason}" if o.estimated else ""
    return [o.id, o.soc, o.op, f"{o.us_measured:.2f}", predicted, percent(o.error), o.bound or "", note]
