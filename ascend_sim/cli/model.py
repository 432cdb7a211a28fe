"""``ascend-sim model``: the time of a whole network on one chip, operator by operator, without running values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ascend_sim import soc
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.engine.memory import L2
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import AtcError, OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.onnx_import.reader import read_model
from ascend_sim.graph.options import CompileOptions, parse_shapes
from ascend_sim.runtime.link import picoseconds

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
        model = load(args.model, chip, args.batch or 1, args.input_shape)
        batch, variant = _batch(model, args.batch)
        report = time_model(model, chip, args.l2, variant)
    except (soc.SocError, AtcError, OmError) as error:
        raise CommandError(str(error)) from error
    report["batch"] = batch
    report["fps"] = batch * 1e6 / report["us"]
    if args.json:
        print(json.dumps(report))
    else:
        print(_text(report, args.most))
    return 0


def load(path: Path, chip: soc.Soc, batch: int, shapes: str) -> LoadedModel:
    """The model compiled for the chip; free leading dimensions become ``batch``."""
    if path.suffix == ".om":
        model = LoadedModel.from_file(path)
        model.check_soc(chip)
        return model
    given = parse_shapes(shapes)
    return LoadedModel.from_bytes(compile_model(path, chip, CompileOptions(input_shapes=_free(path, given, batch))))


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


def _free(path: Path, given: dict[str, tuple[int, ...]], batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all inputs whose first dimension is free, with the batch filled in."""
    graph = read_model(path).graph
    constants = {i.name for i in graph.initializer}
    shapes = dict(given)
    for value in graph.input:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.name in constants or value.name in shapes or not dims or all(dims):
            continue
        if dims[0] == 0 and all(dims[1:]):
            shapes[value.name] = (batch, *dims[1:])
    return {
        name: tuple(batch if d == -1 and i == 0 else d for i, d in enumerate(dims)) for name, dims in shapes.items()
    }


def time_model(model: LoadedModel, chip: soc.Soc, state: str, variant: int = 0) -> dict[str, Any]:
    """One execution on an idle device, without host copies: execute cost, kernels, gaps between kernels."""
    l2 = L2(chip)
    l2.flush_cold()
    if state == "warm":
        list(model.operator_timings(chip, l2, variant=variant))
    ops, total, cycles = [], picoseconds(chip.launch.model_execute_us), 0
    gap = picoseconds(chip.launch.model_gap_us)
    launches = 0
    for node, timing in model.operator_timings(chip, l2, variant=variant):
        total += timing.task_ps
        cycles += timing.cycles
        launches += max(len(timing.kernels), 1 if timing.task_ps else 0)
        ops.append(
            {"name": node.name, "type": node.call.type, "us": timing.us, "cycles": timing.cycles,
             "blocks": timing.blocks, "bound": timing.bound, "pipes": timing.pipes(), "bytes": timing.bytes(),
             "estimated": timing.estimated, "confidence": timing.confidence}
        )  # fmt: skip
    total += gap * max(launches - 1, 0)
    return {"soc": chip.name, "model": model.name, "us": total / 1e6, "cycles": cycles, "ops": ops}


def _text(report: dict[str, Any], most: int) -> str:
    shown = sorted(report["ops"], key=lambda op: -op["us"])[: max(most, 0)]
    rows = [
        [op["name"][-40:], op["type"], op["blocks"], op["cycles"], f"{op['us']:.2f}",
         f"{op['us'] / report['us']:.1%}", "estimated" if op["estimated"] else op["bound"]]
        for op in shown
    ]  # fmt: skip
    head = (
        f"{report['model']} on {report['soc']}, batch {report['batch']}: {report['us'] / 1e3:.3f} ms, "
        f"{report['fps']:.0f} fps, {report['cycles']} cycles, {len(report['ops'])} operators"
    )
    return f"{head}\n{render(['operator', 'type', 'blocks', 'cycles', 'us', 'share', 'bound'], rows)}"
