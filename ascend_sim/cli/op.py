"""``ascend-sim op``: the time of one operator on one chip, and why."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ascend_sim import ops, soc
from ascend_sim.api import Report, Simulator
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.graph.single_op import build_call
from ascend_sim.ops.cost import check_types
from ascend_sim.ops.schema import OpCall

EXAMPLE = "example: ascend-sim op MatMulV2 --soc Ascend910B2 --input 4096x4096:float16 --input 4096x4096:float16"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("op", help="time one operator", epilog=EXAMPLE)
    parser.add_argument("type", help="Ascend IR operator, e.g. MatMulV2, Conv2D, SoftmaxV2")
    parser.add_argument("--soc", help="chip name or config path (default: ASCEND_SIM_SOC, else Ascend910B2)")
    parser.add_argument(
        "--input", action="append", default=[], metavar="SHAPE:DTYPE[:FORMAT]",
        help="one per input, - if absent; SHAPE is the logical one, e.g. 8x64x56x56:float16:NC1HWC0",
    )  # fmt: skip
    parser.add_argument("--attr", action="append", default=[], metavar="K=V", help="attribute; V is JSON or a word")
    parser.add_argument("--l2", choices=("cold", "warm"), default="warm", help="state of L2 at the start")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    try:
        chip = soc.load_soc(args.soc)
        call = build_call(args.type, args.input, dict(parse_attr(text) for text in args.attr))
        check_types(call, chip)
        call, used = _watch(call)
        report = Simulator(chip).op(call, l2=args.l2)
    except (soc.SocError, ValueError) as error:
        raise CommandError(str(error)) from error
    for name in sorted(set(dict(call.attrs)) - used):
        print(f"note: attribute {name!r} has no influence on the time of {call.type}", file=sys.stderr)
    print(json.dumps(report.as_dict()) if args.json else _text(report))
    return 0


def _text(report: Report) -> str:
    rows = [[pipe, v["busy_cycles"], f"{v['ratio']:.1%}"] for pipe, v in report.pipes.items()]
    counts = ", ".join(f"{count} {word}" for word, count in report.figures.items() if count)
    lines = [
        f"{report.op} on {report.soc}: {report.us:.2f} us, {report.cycles} cycles, bound by {report.bound}",
        f"error band: {report.band_text}",
        f"rests on figures: {counts}",
        render(["pipe", "busy cycles", "ratio"], rows),
    ]
    if report.estimated:
        lines.append("estimated: no kernel for this call, roofline time")
    return "\n".join(lines)


class _Watched(dict[str, Any]):
    """Attributes that remember which of them were asked for."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        super().__init__(attrs)
        self.seen: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        value = super().get(key, default)
        if isinstance(default, bool) and isinstance(value, str):
            raise ValueError(f"--attr {key}={value}: expected true or false")
        return value

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)


def _watch(call: OpCall) -> tuple[OpCall, set[str]]:
    """The call, and the attributes that shape inference (so far) and its kernel (once planned) ask it for."""
    op = ops.registry.find(call.type)
    assert op is not None
    attrs = _Watched(dict(call.attrs))
    op.infer(call.inputs, attrs)
    seen = attrs.seen

    class WatchedCall(OpCall):
        def attr(self, name: str, default: Any = None) -> Any:
            seen.add(name)
            return super().attr(name, default)

    return WatchedCall(call.type, call.inputs, call.outputs, call.attrs), seen


def parse_attr(text: str) -> tuple[str, Any]:
    name, eq, value = text.partition("=")
    if not eq or not name:
        raise ValueError(f"--attr {text!r}: expected NAME=VALUE such as transpose_x2=true")
    if value in ("True", "False"):
        return name, value == "True"
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
