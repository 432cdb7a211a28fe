"""softmax, rmsnorm and quant of asc.adv against NumPy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.asc import adv
from ascend_sim.isa.legality import InstructionError


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "off")
    yield


def shape(*sizes: int) -> asc.ShapeInfo:
    return asc.ShapeInfo(asc.array(asc.int32, sizes))


@asc.jit(insert_sync=True, kernel_type="AIV")
def softmax(x: Any, y: Any, sums: Any, most: Any, rows: asc.ConstExpr[int], columns: asc.ConstExpr[int],
            in_place: asc.ConstExpr[bool]) -> None:  # fmt: skip
    gx, gy, gs, gm = (asc.GlobalTensor() for _ in range(4))
    for g, a in ((gx, x), (gy, y), (gs, sums), (gm, most)):
        g.set_global_buffer(a)
    per = 32 // x.dtype.sizeof()
    src = asc.LocalTensorAuto(x.dtype, rows * columns)
    dst = src if in_place else asc.LocalTensorAuto(x.dtype, rows * columns)
    total, top = (asc.LocalTensorAuto(x.dtype, rows * per) for _ in range(2))
    for t, width in ((src, columns), (dst, columns), (total, per), (top, per)):
        t.set_shape_info(shape(rows, width))
    asc.data_copy(src, gx, count=rows * columns)
    adv.softmax(dst, total, top, src, adv.SoftmaxTiling())
    asc.data_copy(gy, dst, count=rows * columns)
    asc.data_copy(gs, total, count=rows * per)
    asc.data_copy(gm, top, count=rows * per)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (7, 48), (16, 512), (3, 1040)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax(dtype: str, rows: int, columns: int, in_place: bool) -> None:
    x = np.random.default_rng(rows).normal(0, 3, (rows, columns)).astype(dtype)
    y, per = np.zeros_like(x), 32 // x.itemsize
    sums, most = np.zeros((rows, per), dtype), np.zeros((rows, per), dtype)
    softmax[1, None](x, y, sums, most, rows, columns, in_place)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    rough = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=rough, atol=1e-4 if dtype == "float16" else 1e-7)
    np.testing.assert_allclose(sums, np.broadcast_to(e.sum(1, keepdims=True), sums.shape), rtol=rough)
    np.testing.assert_array_equal(most, np.broadcast_to(x.max(1, keepdims=True), most.shape))


@asc.jit(insert_sync=True, kernel_type="AIV")
def rmsnorm(x: Any, gamma: Any, y: Any, epsilon: float, b: int, s: int, h: int) -> None:
    gx, gg, gy = (asc.GlobalTensor() for _ in range(3))
    for g, a in ((gx, x), (gg, gamma), (gy, y)):
        g.set_global_buffer(a)
    src, dst, weight = (asc.LocalTensorAuto(x.dtype, n) for n in (b * s * h, b * s * h, h))
    asc.data_copy(src, gx, count=b * s * h)
    asc.data_copy(weight, gg, count=h)
    tiling = adv.RmsNormTiling(b_length=b, s_length=s, h_length=h, original_h_length=h)
    adv.rmsnorm(dst, src, weight, epsilon, tiling)
    asc.data_copy(gy, dst, count=b * s * h)


@pytest.mark.parametrize(("b", "s", "h"), [(1, 1, 64), (2, 3, 128), (1, 9, 1024)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rmsnorm(dtype: str, b: int, s: int, h: int) -> None:
    rng = np.random.default_rng(h)
    x, gamma = rng.normal(0, 2, (b * s, h)).astype(dtype), rng.uniform(0.5, 2, h).astype(dtype)
    y = np.zeros_like(x)
    rmsnorm[1, None](x, gamma, y, 1e-3, b, s, h)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * gamma
    rough = 3e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(y, want, rtol=rough, atol=rough)


@asc.jit(insert_sync=True, kernel_type="AIV")
def quant(x: Any, y: Any, scale: float, offset: float, n: asc.ConstExpr[int]) -> None:
    gx, gy = asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x)
    gy.set_global_buffer(y)
    src, dst = asc.LocalTensorAuto(x.dtype, n), asc.LocalTensorAuto(y.dtype, n)
    asc.data_copy(src, gx, count=n)
    adv.quant(dst, src, scale, offset, n)
    asc.data_copy(gy, dst, count=n)


@pytest.mark.parametrize("n", [64, 1000 * 32, 96])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_quant(dtype: str, n: int) -> None:
    x = np.random.default_rng(n).integers(-400, 400, n).astype(dtype)
    y = np.zeros(n, np.int8)
    quant[1, None](x, y, 0.5, 3.0, n)
    np.testing.assert_array_equal(y, np.clip(np.rint(x.astype(np.float64) * 0.5 + 3), -128, 127))


def test_restrictions() -> None:
    @asc.jit(insert_sync=True, kernel_type="AIV")
    def kernel(x: Any) -> None:
        t = asc.LocalTensorAuto(x.dtype, 64)
        adv.softmax(t, t, t, t, adv.SoftmaxTiling())

    with pytest.raises(InstructionError, match="softmax: shape = None"):
        kernel[1, None](np.zeros(64, np.float32))

    @asc.jit(insert_sync=True, kernel_type="AIV")
    def other(x: Any) -> None:
        t = asc.LocalTensorAuto(x.dtype, 64)
        adv.quant(t, t, 1.0, 0.0, 64)

    with pytest.raises(InstructionError, match="half or float32 to int8"):
        other[1, None](np.zeros(64, np.float32))
