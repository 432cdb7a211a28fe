"""Einsum: contractions written as an equation, reduced to matrix products where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, need, same_dtype, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _parse(equation: str, specs: Sequence[TensorSpec]) -> tuple[list[str], str]:
    """Input terms and output term, without spaces; the implicit output lists single letters alphabetically."""
    text_ = equation.replace(" ", "")
    left, arrow, right = text_.partition("->")
    terms = left.split(",")
    if len(terms) != len(specs):
        raise ShapeError(f"equation {equation!r} has {len(terms)} terms for {len(specs)} inputs")
    if not arrow:
        letters = [c for c in left if c.isalpha()]
        dots = "..." if "..." in left else ""
        right = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return terms, right


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    specs = [need(inputs, i, f"x{i}") for i in range(len(inputs))]
    equation = str(attrs.get("equation", ""))
    terms, right = _parse(equation, specs)
    sizes: dict[str, int] = {}
    dots: list[tuple[int, ...]] = []
    for i, (term, spec) in enumerate(zip(terms, specs, strict=True)):
        shape = spec.logical_shape
        before, ellipsis, after = term.partition("...")
        extra = len(shape) - len(before) - len(after)
        if extra < 0 or (extra and not ellipsis):
            raise ShapeError(f"x{i} is {text(spec)}, which term {term!r} of {equation!r} does not describe")
        if ellipsis:
            dots.append(shape[len(before) : len(before) + extra])
        for letter, size in zip(before + after, shape[: len(before)] + shape[len(before) + extra :], strict=True):
            if sizes.setdefault(letter, size) not in (size, 1) and size != 1:
                raise ShapeError(
                    f"x{i} is {text(spec)}: letter {letter!r} of {equation!r} is {sizes[letter]} elsewhere"
                )
            sizes[letter] = max(sizes[letter], size)
    unknown = [c for c in right if c.isalpha() and c not in sizes]
    if unknown:
        raise ShapeError(f"output letter {unknown[0]!r} of {equation!r} is in no input")
    before, ellipsis, after = right.partition("...")
    middle = broadcast(*dots) if ellipsis else ()
    out = (*(sizes[c] for c in before), *middle, *(sizes[c] for c in after))
    return [TensorSpec(out, same_dtype(specs, [f"x{i}" for i in range(len(specs))]))]


def _einsum(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    wide = [widen(a) for a in arrays if a is not None]
    equation = str(call.attr("equation")).replace(" ", "")
    y = np.einsum(equation, *wide, optimize=len(wide) > 1)
    return [narrow(np.asarray(y, order="C"), call.outputs[0].dtype)]


define("Einsum", "einsum", "x*", _infer, _einsum)
