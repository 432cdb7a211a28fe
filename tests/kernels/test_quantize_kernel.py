"""Quantisation by one scale, instruction by instruction, against operator values (which onnxruntime judges)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

CHIPS = ("Ascend310P3", "Ascend910B2")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_quantize(run_op: Any, chip: str, kind: Any) -> None:
    x = (np.random.default_rng(0).standard_normal((5, 77)) * 3).astype(np.float32)
    zero = np.asarray(9, kind)
    attrs = {"dtype": np.dtype(kind).name, "axis": 0}
    (got,), (want,) = run_op("Quantize", [x, np.asarray(0.03, np.float32), zero], chip, const=[1, 2], **attrs)
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1  # 310P multiplies by the reciprocal
    info = np.iinfo(kind)
    exact = np.clip(np.rint(x / np.float32(0.03)) + 9, info.min, info.max)
    assert (got == exact).mean() > 0.99


@pytest.mark.parametrize("chip", CHIPS)
def test_ascend_quant_and_dequant(run_op: Any, chip: str) -> None:
    x = (np.random.default_rng(0).standard_normal((5, 77)) * 3).astype(np.float16)
    (got,), (want,) = run_op("AscendQuant", [x], chip, scale=25.0, offset=3.0, dst_type=2)
    np.testing.assert_array_equal(got, want)
    sums = np.random.default_rng(1).integers(-30000, 30000, (3, 50)).astype(np.int32)
    word = np.asarray([0.0021], np.float32).view(np.uint32).astype(np.uint64)
    (got,), (want,) = run_op("AscendDequant", [sums, word], chip, const=[1], dtype=0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A", "Ascend910B2"])
@pytest.mark.parametrize("dtype", [0, 1])
@pytest.mark.parametrize(
    ("shape", "fmt"), [((5, 32), None), ((20, 48), None), ((2, 32, 5, 7), "NC1HWC0"), ((2, 24, 4, 8), None)], ids=str
)
def test_dequantisation_per_channel(
    run_op: Any, chip: str, dtype: int, shape: tuple[int, ...], fmt: str | None
) -> None:
    rng = np.random.default_rng(0)
    sums = rng.integers(-(2**20), 2**20, shape).astype(np.int32)
    scales = rng.uniform(1e-4, 1e-3, shape[1]).astype(np.float32)
    words = scales.view(np.uint32).astype(np.uint64)
    formats = (fmt,) if fmt else ()
    (got,), (want,) = run_op("AscendDequant", [sums, words], chip, formats=formats, dtype=dtype, relu_flag=True)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-3 if dtype else 1e-6)
