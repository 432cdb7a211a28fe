"""``ascend-sim model``: the time of a whole network on one chip, operator by operator, without running values."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ascend_sim import soc
from ascend_sim.api import Report, Simulator
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.graph.errors import AtcError, OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.load import load_network
from ascend_sim.graph.options import parse_shapes

EXAMPLE = """examples:
  ascend-sim model resnet50.onnx --soc Ascend310P3 --batch 8 --json
  ascend-sim model resnet50.onnx --soc Ascend310P3,Ascend910B4 --batch 1,8,32
  ascend-sim model detector.om --gear 640,640
Values are not computed and the weights of ONNX files not read. More variants at once: ascend-sim sweep."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "model", help="time a network (.onnx or .om)", epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", type=Path, help="an ONNX file, or an .om (of another ATC: estimated)")
    parser.add_argument(
        "--soc", metavar="NAME,...", help="chip names or config paths (default: that of an .om, else ASCEND_SIM_SOC, "
        "else Ascend910B2)",
    )  # fmt: skip
    parser.add_argument("--batch", metavar="N,...", help="sizes of a free first dimension (default 1)")
    parser.add_argument("--input-shape", default="", metavar="NAME:D,D;...", help="shapes of free inputs, as for atc")
    parser.add_argument("--gear", metavar="N,...", help="image size or dimensions of an .om that has several")
    parser.add_argument("--l2", choices=("cold", "warm"), default="warm", help="state of L2: warm is the second run")
    parser.add_argument("--most", type=int, default=30, help="operators shown in the table (default 30)")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    batches = _numbers("--batch", args.batch) if args.batch is not None else [None]
    try:
        reports = [_report(args, name, batch) for name in _chips(args) for batch in batches]
    except (soc.SocError, AtcError, OmError) as error:
        raise CommandError(str(error)) from error
    if len(reports) == 1:
        print(json.dumps(reports[0].as_dict()) if args.json else _text(reports[0], args.most))
    else:
        print(json.dumps({"runs": [_short(report) for report in reports]}) if args.json else _comparison(reports))
    return 0


def _numbers(flag: str, text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise CommandError(f"{flag} {text}: expected whole numbers of at least 1")
    return found


def _chips(args: argparse.Namespace) -> list[str | None]:
    if args.soc:
        return [name.strip() for name in args.soc.split(",")]
    if args.model.suffix == ".om":
        return [LoadedModel.from_file(args.model).soc_version or None]
    return [None]


def _report(args: argparse.Namespace, name: str | None, batch: int | None) -> Report:
    chip = soc.load_soc(name)
    shapes = parse_shapes(args.input_shape)
    model = load_network(args.model, chip, batch or 1, shapes)
    found, variant = _variant(model, batch, shapes, args.gear)
    return replace(Simulator(chip).model(model, l2=args.l2, variant=variant), batch=found)


def _variant(
    model: LoadedModel, batch: int | None, shapes: Mapping[str, tuple[int, ...]], gear: str | None
) -> tuple[int, int]:
    """(first dimension of the first input, variant) to time; `CommandError` for what the model does not have."""
    variant = 0
    if gear is not None:
        variant = model.variant_for_gear(*_numbers("--gear", gear))
    elif model.dynamic_batch:
        return _batch_gear(model, batch)
    elif model.gears:
        variant = model.default_variant
    elif model.kind == "shape" and model.executable:
        graph = model.graph
        missing = [n for n in graph.inputs if n not in shapes and -1 in _dims(model, n)]
        if missing:
            raise CommandError(f"input {missing[0]!r} has open dimensions {list(_dims(model, missing[0]))}: give its "
                               "--input-shape")  # fmt: skip
        variant = model.variant_for_shapes([shapes.get(n, _dims(model, n)) for n in graph.inputs])
    inputs = model.ports(variant)[0] if model.executable else model.inputs
    if not inputs:
        return 1, variant
    first = inputs[0]
    found = first.dims[0] if len(first.dims) > 1 else 1
    if batch not in (None, found):
        shape = "x".join(map(str, first.dims))
        raise CommandError(f"--batch {batch}: the first dimension of input {first.name!r} ({shape}) is not free")
    return found, variant


def _dims(model: LoadedModel, name: str) -> tuple[int, ...]:
    return next(port.dims for port in model.inputs if port.name == name)


def _batch_gear(model: LoadedModel, wanted: int | None) -> tuple[int, int]:
    gears = model.dynamic_batch
    if wanted is not None and wanted not in gears:
        raise CommandError(f"--batch {wanted}: the model was compiled for batches {', '.join(map(str, gears))}")
    variant = gears.index(wanted) if wanted is not None else 0
    return gears[variant], variant


def _short(report: Report) -> dict[str, Any]:
    """One run of several: the whole, without its operators."""
    kept = ("soc", "model", "batch", "us", "fps", "cycles", "bound", "estimated", "confidence")
    return {key: value for key, value in report.as_dict().items() if key in kept}


def _comparison(reports: Sequence[Report]) -> str:
    rows = [[r.soc, r.batch, f"{r.us:.1f}", f"{r.fps:.0f}", r.cycles, r.bound, len(r.ops),
             sum(op.estimated for op in r.ops), r.confidence] for r in reports]  # fmt: skip
    header = ["chip", "batch", "us", "fps", "cycles", "bound", "operators", "estimated", "confidence"]
    return f"{reports[0].name}\n{render(header, rows)}"


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
