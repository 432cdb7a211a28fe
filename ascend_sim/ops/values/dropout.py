"""DropOutDoMaskV3: ``y = x * mask / keep_prob`` with one byte (0 or 1) of mask an element (Ascend IR prototype)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, mask = need(inputs, 0, "x"), need(inputs, 1, "mask")
    if x.dtype not in ("float32", "float16", "bfloat16"):
        raise ShapeError(f"x is {text(x)}; expected float32, float16 or bfloat16")
    if mask.dtype not in ("uint8", "bool") or mask.logical_shape != x.logical_shape:
        raise ShapeError(f"mask is {text(mask)}; expected uint8 or bool of the shape of x {text(x)}")
    return [like(x)]


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, mask = arrays[0], arrays[1]
    assert x is not None and mask is not None
    return [narrow(widen(x) * mask.astype(np.float32) * np.float32(scale(call)), call.outputs[0].dtype)]


def scale(call: OpCall) -> float:
    """What kept elements are multiplied with; nothing is kept at probability 0."""
    keep = float(call.attr("keep_prob", 1.0))
    return 1.0 / keep if keep else 0.0


define("DropOutDoMaskV3", "elementwise", "x mask", _infer, _values)
