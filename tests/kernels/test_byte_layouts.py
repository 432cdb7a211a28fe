"""TransData of 8-bit tensors between planes and blocks of 32 channels: bit-exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim import ops
from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

SHAPES = [(1, 3, 32, 32), (2, 70, 9, 7), (1, 64, 56, 56), (3, 5, 4, 4), (1, 33, 100, 33), (1, 2, 1, 1)]


def call_of(shape: tuple[int, ...], dtype: str, to_blocks: bool) -> OpCall:
    n, c, h, w = shape
    plain = TensorSpec(shape, dtype, "NCHW")
    blocked = TensorSpec((n, -(-c // 32), h, w, 32), dtype, "NC1HWC0", shape, "NCHW")
    x, y = (plain, blocked) if to_blocks else (blocked, plain)
    attrs = freeze_attrs({"src_format": x.format, "dst_format": y.format, "groups": 1})
    return OpCall("TransData", (x,), (y,), attrs)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A", "Ascend910B2"])
@pytest.mark.parametrize("to_blocks", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values(chip: str, to_blocks: bool, shape: tuple[int, ...]) -> None:
    ops.load()
    n, c, h, w = shape
    c1 = -(-c // 32)
    plain = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    filled = np.zeros((n, c1 * 32, h, w), np.int8)
    filled[:, :c] = plain
    blocked = np.ascontiguousarray(filled.reshape(n, c1, 32, h, w).transpose(0, 1, 3, 4, 2))
    given, wanted = (plain, blocked) if to_blocks else (blocked, plain)
    plan: Any = find_kernel("TransData")
    (launch,) = plan(call_of(shape, "int8", to_blocks), load_soc(chip))
    out = np.full(wanted.size, 0xA5, np.uint8)
    launch.execute([given.reshape(-1).view(np.uint8).copy(), out])
    np.testing.assert_array_equal(out.view(np.int8).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910B4"])
def test_time_follows_the_bytes(chip: str) -> None:
    soc = load_soc(chip)
    small, large = (op_timing(call_of(shape, "uint8", True), soc) for shape in ((2, 64, 112, 112), (8, 64, 112, 112)))
    assert not small.estimated and not large.estimated
    assert 1.5 < large.core_ps / small.core_ps < 5
