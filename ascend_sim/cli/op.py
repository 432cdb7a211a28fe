"""``ascend-sim op``: the time of one operator on one chip, and why."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from typing import Any

from ascend_sim import ops, soc
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render
from ascend_sim.engine.memory import L2
from ascend_sim.ops.cost import OpTiming, op_timing
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs

EXAMPLE = "example: ascend-sim op MatMulV2 --soc Ascend910B2 --input 4096x4096:float16 --input 4096x4096:float16"

FORMATS = ("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z")


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
        call = build_call(args.type, args.input, args.attr)
        _check_fits(call, chip)
        call, used = _watch(call)
        result = time_call(call, chip, args.l2)
    except (soc.SocError, ValueError) as error:
        raise CommandError(str(error)) from error
    for name in sorted(set(dict(call.attrs)) - used):
        print(f"note: attribute {name!r} has no influence on the time of {call.type}", file=sys.stderr)
    report = describe(call, chip, result)
    if args.json:
        print(json.dumps(report))
    else:
        head = f"{call.type} on {chip.name}: {report['us']:.2f} us, {report['cycles']} cycles"
        print(f"{head}, bound by {report['bound']}")
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
    pairs = dict(parse_attr(text) for text in attrs)
    specs = [None if s is None else _stored(s, op_type, pairs) for s in map(parse_tensor, inputs)]
    outputs = ops.infer(op_type, specs, pairs)
    lead = specs[0].format if specs and specs[0] is not None else "ND"
    if lead in ("NC1HWC0", "FRACTAL_NZ"):  # the result is stored as the first input is
        outputs = [_stored(replace(out, format=lead), op_type, pairs) if _blocks(out, lead) else out for out in outputs]
    return OpCall(op_type, tuple(specs), tuple(outputs), freeze_attrs(pairs))


def _blocks(spec: TensorSpec, fmt: str) -> bool:
    """Whether a logical shape can be stored in blocks."""
    return len(spec.shape) == 4 if fmt in ("NC1HWC0", "FRACTAL_Z") else len(spec.shape) >= 2


def _stored(spec: TensorSpec, op_type: str, attrs: dict[str, Any]) -> TensorSpec:
    """The storage of a tensor described by its logical shape; NC1HWC0 also takes the storage shape itself."""
    from ascend_sim.graph.passes import formats

    if spec.format not in ("NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z"):
        return spec
    if spec.format == "NC1HWC0" and len(spec.shape) == 5:
        n, c1, h, w, c0 = spec.shape
        return replace(spec, origin_shape=(n, c1 * c0, h, w), origin_format="NCHW")
    if not _blocks(spec, spec.format):
        shape = "x".join(map(str, spec.shape))
        raise ValueError(f"format {spec.format} of {shape}: expected a logical shape "
                         f"{'such as 1024x1024' if spec.format == 'FRACTAL_NZ' else 'such as 8x64x56x56'}")  # fmt: skip
    if spec.format != "FRACTAL_Z":
        return formats.stored(spec, spec.format)
    if op_type == "DepthwiseConv2D":
        return formats.depthwise_z(spec, spec.dtype)
    return formats.fractal_z(spec, max(int(attrs.get("groups", 1)), 1), spec.dtype)


def _check_fits(call: OpCall, chip: soc.Soc) -> None:
    needed = sum(spec.nbytes for spec in (*call.inputs, *call.outputs) if spec is not None)
    if needed > chip.memory.capacity_bytes:
        raise ValueError(f"{call.type}: inputs and outputs take {needed / 2**30:.1f} GiB, {chip.name} has "
                         f"{chip.memory.capacity_bytes / 2**30:.1f} GiB")  # fmt: skip


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
    if match[3] and match[3] not in FORMATS:
        raise ValueError(f"--input {text!r}: format {match[3]!r} is not one of {', '.join(FORMATS)}")
    shape = tuple(int(d) for d in re.split("[x,]", match[1])) if match[1] else ()
    return TensorSpec(shape, match[2], match[3] or "ND")


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


def _nearest(op_type: str) -> str:
    import difflib

    close = difflib.get_close_matches(op_type, ops.registry.operators(), n=3, cutoff=0.4)
    return f"nearest: {', '.join(close)}" if close else "see docs for the list of operators"
