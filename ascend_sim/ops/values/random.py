"""Random tensors from a seed: the same seed, offset and shape give the same numbers (NumPy's Philox)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ints
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import convert


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [TensorSpec(tuple(ints(attrs.get("shape"), "shape")), dtype_name(attrs.get("dtype", "float32")))]


def _generator(call: OpCall) -> np.random.Generator:
    key, counter = int(call.attr("seed", 0)), int(call.attr("offset", 0))
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _values(draw: Callable[[np.random.Generator, tuple[int, ...], OpCall], Any]) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        spec = call.outputs[0]
        return [convert(np.asarray(draw(_generator(call), spec.logical_shape, call)), spec.dtype)]

    return values


for _name, _draw in (
    ("StatelessRandomUniformV3", lambda g, s, c: g.uniform(c.attr("from", 0.0), c.attr("to", 1.0), s)),
    ("StatelessRandomNormalV3", lambda g, s, c: g.normal(c.attr("mean", 0.0), c.attr("stdev", 1.0), s)),
    ("StatelessBernoulliV2", lambda g, s, c: g.random(s) < c.attr("prob", 0.5)),
    ("StatelessRandintV2", lambda g, s, c: g.integers(c.attr("from", 0), c.attr("to", 2), s)),
    ("StatelessRandperm", lambda g, s, c: g.permutation(s[0])),
):  # fmt: skip
    define(_name, "creation", "", _infer, _values(_draw))
