"""``ascend-sim model``: the time of a whole network on one chip, operator by operator, without running values."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from ascend_sim import soc
from ascend_sim.api import Report, Simulator
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.graph.errors import AtcError, OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.load import load_network
from ascend_sim.graph.options import parse_shapes

EXAMPLE = "example: ascend-sim model resnet50.onnx --soc Ascend310P3 --batch 8 --json"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("model", help="time a network (.onnx or .om)", epilog=EXAMPLE)
    parser.add_argument("model", type=Path, help="an ONNX file, or an .om compiled for the chip")
    parser.add_argument("--soc", help="chip name or config path (default: ASCEND_SIM_SOC, else Ascend910B2)")
    parser.add_argument("--batch", type=int, help="size of a free first dimension (default 1)")
    parser.add_argument("--input-shape", default="", metavar="NAME:D,D;...", help="shapes of free inputs, as for atc")
    parser.add_argument("--l2", choices=("cold", "warm"), default="warm", help="state of L2: warm is the second run")
    parser.add_argument("--most", type=int, default=30, help="operators shown in the table (default 30)")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.batch is not None and args.batch < 1:
        raise CommandError(f"--batch {args.batch}: expected a whole number of at least 1")
    try:
        chip = soc.load_soc(args.soc)
        model = load_network(args.model, chip, args.batch or 1, parse_shapes(args.input_shape))
        batch, variant = _batch(model, args.batch)
        report = replace(Simulator(chip).model(model, l2=args.l2, variant=variant), batch=batch)
    except (soc.SocError, AtcError, OmError) as error:
        raise CommandError(str(error)) from error
    print(json.dumps(report.as_dict()) if args.json else _text(report, args.most))
    return 0


def _batch(model: LoadedModel, wanted: int | None) -> tuple[int, int]:
    """(first dimension of the first input, compiled variant) to time; `CommandError` when it cannot be ``wanted``."""
    gears = model.dynamic_batch
    if gears:
        if wanted is not None and wanted not in gears:
            raise CommandError(f"--batch {wanted}: the model was compiled for batches {', '.join(map(str, gears))}")
        variant = gears.index(wanted) if wanted is not None else 0
        return gears[variant], variant
    if not model.inputs:
        return 1, 0
    first = model.inputs[0]
    batch = first.dims[0] if len(first.dims) > 1 else 1
    if wanted not in (None, batch):
        shape = "x".join(map(str, first.dims))
        raise CommandError(f"--batch {wanted}: the first dimension of input {first.name!r} ({shape}) is not free")
    return batch, 0


def _text(report: Report, most: int) -> str:
    shown = sorted(report.ops, key=lambda op: -op.us)[: max(most, 0)]
    rows = [
        [op.name[-40:], op.op, op.blocks, op.cycles, f"{op.us:.2f}", f"{op.us / report.us:.1%}",
         "estimated" if op.estimated else op.bound, op.confidence, _band(op)]
        for op in shown
    ]  # fmt: skip
    counts = ", ".join(f"{count} {word}" for word, count in report.figures.items() if count)
    head = (
        f"{report.name} on {report.soc}, batch {report.batch}: {report.us / 1e3:.3f} ms, "
        f"{report.fps:.0f} fps, {report.cycles} cycles, {len(report.ops)} operators\n"
        f"error band: {report.band_text}\nrests on figures: {counts}"
    )
    header = ["operator", "type", "blocks", "cycles", "us", "share", "bound", "confidence", "error band"]
    return f"{head}\n{render(header, rows)}"


def _band(op: Report) -> str:
    """90th percentile of the error of the measured rows like this operator; ``-`` without such rows."""
    found = op.band and op.band.for_task(op.us)
    return f"+-{found[1]}" if found else "-"
