"""``ascend-sim op``: the time of one operator on one chip, and why."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from ascend_sim import ops, soc
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.engine.memory import L2
from ascend_sim.ops.cost import OpTiming, op_timing
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs

EXAMPLE = "example: ascend-sim op MatMulV2 --soc Ascend910B2 --input 4096x4096:float16 --input 4096x4096:float16"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("op", help="time one operator", epilog=EXAMPLE)
    parser.add_argument("type", help="Ascend IR operator, e.g. MatMulV2, Conv2D, SoftmaxV2")
    parser.add_argument("--soc", help="chip name or config path (default: ASCEND_SIM_SOC, else Ascend910B2)")
    parser.add_argument(
        "--input", action="append", default=[], metavar="SHAPE:DTYPE[:FORMAT]", help="one per input, - if absent"
    )
    parser.add_argument("--attr", action="append", default=[], metavar="K=V", help="attribute; V is JSON or a word")
    parser.add_argument("--l2", choices=("cold", "warm"), default="warm", help="state of L2 at the start")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    try:
        chip = soc.load_soc(args.soc)
        call = build_call(args.type, args.input, args.attr)
        result = time_call(call, chip, args.l2)
    except (soc.SocError, ValueError) as error:
        raise CommandError(str(error)) from error
    report = describe(call, chip, result)
    if args.json:
        print(json.dumps(report))
    else:
        print(f"{call.type} on {chip.name}: {report['us']:.2f} us, {report['cycles']} cycles, bound by {report['bound']}")
        rows = [[pipe, v["busy_cycles"], f"{v['ratio']:.1%}"] for pipe, v in report["pipes"].items()]
        print(render(["pipe", "busy cycles", "ratio"], rows))
        if report["estimated"]:
            print("estimated: no kernel for this call, roofline time")
    return 0


def build_call(op_type: str, inputs: list[str], attrs: list[str]) -> OpCall:
    """An `OpCall` from command-line words; output specs by shape inference. Raises ValueError."""
    ops.load()
    if ops.registry.find(op_type) is None:
        raise ValueError(f"operator {op_type!r} is not registered; {_nearest(op_type)}")
    specs = [parse_tensor(text) for text in inputs]
    pairs = dict(parse_attr(text) for text in attrs)
    outputs = ops.infer(op_type, specs, pairs)
    return OpCall(op_type, tuple(specs), tuple(outputs), freeze_attrs(pairs))


def time_call(call: OpCall, chip: soc.Soc, state: str) -> OpTiming:
    """Time on an idle device; ``warm`` is the second of two runs on the same buffers."""
    l2 = L2(chip)
    l2.flush_cold()
    first = op_timing(call, chip, l2)
    return op_timing(call, chip, l2) if state == "warm" else first


def describe(call: OpCall, chip: soc.Soc, result: OpTiming) -> dict[str, Any]:
    """The object of DESIGN section 6."""
    return {
        "soc": chip.name,
        "op": call.type,
        "us": result.us,
        "cycles": result.cycles,
        "blocks": result.blocks,
        "bound": result.bound,
        "pipes": result.pipes(),
        "bytes": result.bytes(),
        "estimated": result.estimated,
        "confidence": result.confidence,
    }


def parse_tensor(text: str) -> TensorSpec | None:
    """``4096x4096:float16[:FORMAT]``; ``-`` is an absent optional input; ``:float32`` a scalar."""
    if text == "-":
        return None
    match = re.fullmatch(r"(\d+(?:[x,]\d+)*)?:(\w+)(?::(\w+))?", text)
    if match is None or match[2] not in ITEM_BITS:
        raise ValueError(f"--input {text!r}: expected SHAPE:DTYPE[:FORMAT] such as 32x1024:float16, dtype one of "
                         f"{', '.join(ITEM_BITS)}")  # fmt: skip
    shape = tuple(int(d) for d in re.split("[x,]", match[1])) if match[1] else ()
    return TensorSpec(shape, match[2], match[3] or "ND")


def parse_attr(text: str) -> tuple[str, Any]:
    name, eq, value = text.partition("=")
    if not eq or not name:
        raise ValueError(f"--attr {text!r}: expected NAME=VALUE such as transpose_x2=true")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _nearest(op_type: str) -> str:
    import difflib

    close = difflib.get_close_matches(op_type, ops.registry.operators(), n=3, cutoff=0.4)
    return f"nearest: {', '.join(close)}" if close else "see docs for the list of operators"
