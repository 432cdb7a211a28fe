"""Blockwise fp16 conversion: the same bits as NumPy's cast (IEEE round to nearest even)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_judge import run_op

from ascend_sim.ops.values import _blocks
from ascend_sim.ops.values._half import to_float32, to_half

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def ieee(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x.astype(np.float16)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    nan = np.isnan(b)
    np.testing.assert_array_equal(np.isnan(a), nan)
    np.testing.assert_array_equal(a.view(np.uint16)[~nan], b.view(np.uint16)[~nan])


def test_every_half_survives_the_round_trip() -> None:
    wide = to_float32(ALL)
    np.testing.assert_array_equal(wide, ALL.astype(np.float32))
    same_bits(to_half(wide), ALL)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("nudge", [0.0, np.inf, -np.inf])
def test_ties_and_their_neighbours(sign: int, nudge: float) -> None:
    """Half way between any two neighbouring fp16 (65520 included), and one float32 to either side."""
    finite = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    above = np.append(finite[1:], 65536.0)
    ties = ((finite + above) / 2).astype(np.float32)
    x = np.nextafter(ties, np.float32(nudge)) if nudge else ties
    x = (x * sign).astype(np.float32)
    same_bits(to_half(x), ieee(x))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=5), st.integers(1, 40000), st.integers(0, 9))
def test_any_values(special: list[float], size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(size) * 10.0 ** rng.integers(-9, 6, size)).astype(np.float32)
    x[rng.integers(0, size, len(special))] = special
    same_bits(to_half(x), ieee(x))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), max_size=4), st.integers(1, 60))
def test_pieces_cover_a_shape_once(shape: list[int], limit: int) -> None:
    seen = np.zeros(shape, int)
    for index in _blocks.pieces(shape, limit):
        assert seen[index].flags.c_contiguous
        seen[index] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize(
    "shapes", [((3, 4, 50, 60), (4, 1, 1)), ((5, 1, 40), (1, 300, 1)), ((40000,), ()), ((7, 9000), (9000,))]
)
def test_large_operands_broadcast_piece_by_piece(shapes: tuple) -> None:
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.standard_normal(s)).astype(np.float16) for s in shapes)
    (got,) = run_op("Sub", [a, b])
    same_bits(got, ieee(a.astype(np.float32) - b.astype(np.float32)))
    (fused,) = run_op("FusedElementwise", [a, b], {"steps": (("sub",), ("relu",))})
    same_bits(fused + 0, ieee(np.maximum(a.astype(np.float32) - b.astype(np.float32), 0)) + 0)


def test_inputs_are_left_alone() -> None:
    x, y = np.linspace(-2, 2, 100000, dtype=np.float32), np.full(100000, 0.5, np.float32)
    before = x.copy()
    run_op("FusedElementwise", [x, y], {"steps": (("relu",), ("add",), ("exp",))})
    for op in ("Relu", "HardSigmoid", "HardSwish", "Exp", "Neg"):
        run_op(op, [x])
    np.testing.assert_array_equal(x, before)
