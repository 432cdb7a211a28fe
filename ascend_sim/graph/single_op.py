"""One operator described by words: tensors as ``4096x4096:float16[:FORMAT]``, output specs by shape inference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ascend_sim import ops
from ascend_sim.graph.passes import formats
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs

FORMATS = ("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z")


def build_call(op_type: str, inputs: Sequence[TensorSpec | str | None], attrs: Mapping[str, Any]) -> OpCall:
    """The call of an operator on inputs given as specs or words; None and ``-`` are absent ones. Raises ValueError."""
    ops.load()
    if ops.registry.find(op_type) is None:
        raise ValueError(f"operator {op_type!r} is not registered; {_nearest(op_type)}")
    given = [parse_tensor(i) if isinstance(i, str) else i for i in inputs]
    pairs = dict(attrs)
    specs = [None if spec is None else _stored(spec, op_type, pairs) for spec in given]
    outputs = ops.infer(op_type, specs, pairs)
    lead = specs[0].format if specs and specs[0] is not None else "ND"
    if lead in ("NC1HWC0", "FRACTAL_NZ"):  # the result is stored as the first input is
        outputs = [_stored(replace(out, format=lead), op_type, pairs) if _blocks(out, lead) else out for out in outputs]
    return OpCall(op_type, tuple(specs), tuple(outputs), freeze_attrs(pairs))


def parse_tensor(text: str) -> TensorSpec | None:
    """``4096x4096:float16[:FORMAT]``; ``-`` is an absent optional input; ``:float32`` a scalar. Raises ValueError."""
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


def _blocks(spec: TensorSpec, fmt: str) -> bool:
    """Whether a logical shape can be stored in blocks."""
    return len(spec.shape) == 4 if fmt in ("NC1HWC0", "FRACTAL_Z") else len(spec.shape) >= 2


def _stored(spec: TensorSpec, op_type: str, attrs: dict[str, Any]) -> TensorSpec:
    """The storage of a tensor described by its logical shape; NC1HWC0 also takes the storage shape itself."""
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


def _nearest(op_type: str) -> str:
    import difflib

    close = difflib.get_close_matches(op_type, ops.registry.operators(), n=3, cutoff=0.4)
    return f"nearest: {', '.join(close)}" if close else "see docs for the list of operators"
