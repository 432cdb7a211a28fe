"""Operators on strings; the AI CPU runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, need, rank, text
from ascend_sim.ops.values._define import Specs, define

_CASES: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}


def _strings(inputs: Specs, index: int, name: str) -> TensorSpec:
    spec = need(inputs, index, name)
    if spec.dtype != "string":
        raise ShapeError(f"{name} is {text(spec)}; expected strings")
    return spec


def _infer_normalizer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    """Room for every string; how many stay depends on their values."""
    x = _strings(inputs, 0, "input")
    shape = rank(x, "input", 1, 2)
    if len(shape) == 2 and shape[0] != 1:
        raise ShapeError(f"input is {text(x)}; expected [C] or [1,C]")
    if attrs.get("case_change_action", "NONE") not in _CASES:
        given = attrs["case_change_action"]
        raise ShapeError(f"attribute case_change_action is {given!r}; expected LOWER, UPPER or NONE")
    return [TensorSpec((*shape[:-1], max(shape[-1], 1)), "string")]


def _normalizer(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Drop stop words, change case; nothing left gives one empty string."""
    x = arrays[0]
    assert x is not None
    exact = bool(call.attr("is_case_sensitive", False))
    stop = {w if exact else w.lower() for w in call.attr("stopwords", ())}
    change = _CASES[call.attr("case_change_action", "NONE")]
    kept = [change(v) for v in x.reshape(-1).tolist() if (v if exact else v.lower()) not in stop]
    out = np.empty(max(len(kept), 1), object)
    out[:] = kept or [""]
    return [out.reshape(*x.shape[:-1], -1)]


define("StringNormalizer", "aicpu", "input", _infer_normalizer, _normalizer)


def _infer_join(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    specs = [_strings(inputs, i, f"x{i}") for i in range(len(inputs))]
    return [TensorSpec(broadcast(*(s.logical_shape for s in specs)), "string")]


def _join(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    parts = [a for a in arrays if a is not None]
    separator = str(call.attr("separator", ""))
    shape = call.outputs[0].logical_shape
    columns = [np.broadcast_to(a, shape).reshape(-1).tolist() for a in parts]
    out = np.empty(len(columns[0]), object)
    out[:] = [separator.join(row) for row in zip(*columns, strict=True)]
    return [out.reshape(shape)]


define("StringJoin", "aicpu", "x*", _infer_join, _join)


def _infer_match(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    try:
        re.compile(str(attrs.get("pattern", "")))
    except re.error as error:
        raise ShapeError(f"attribute pattern: {error}") from error
    return [TensorSpec(_strings(inputs, 0, "input").logical_shape, "bool")]


def _match(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    pattern = re.compile(str(call.attr("pattern", "")))
    found = [pattern.fullmatch(v) is not None for v in x.reshape(-1).tolist()]
    return [np.asarray(found, bool).reshape(x.shape)]


define("StaticRegexFullMatch", "aicpu", "input", _infer_match, _match)
