"""Automatic buffers and flags: values right, flags enough for the sanitizer, no more than are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.isa.instr import Op, Pipe, channel_parts
from ascend_sim.isa.legality import InstructionError
from ascend_sim.soc import load_soc

SOC = load_soc("Ascend910B2")


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "error")
    yield


@asc.jit(insert_sync=True)
def chain(x: Any, z: Any, tiles: int, tile: asc.ConstExpr[int]) -> None:
    gx, gz = asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x)
    gz.set_global_buffer(z)
    for i in asc.range(tiles):
        a = asc.LocalTensorAuto(x.dtype, tile)
        b = asc.LocalTensorAuto(x.dtype, tile)
        asc.data_copy(a, gx[i * tile :], count=tile)
        asc.exp(b, a, tile)
        asc.adds(b, b, 1.0, tile)
        asc.mul(a, a, b, tile)
        asc.data_copy(gz[i * tile :], a, count=tile)


def chain_launch(tiles: int, tile: int, kernel: Any = chain) -> asc.Launch:
    n = tiles * tile
    gm = [("x", "float32", n * 4, "in"), ("z", "float32", n * 4, "out")]
    return asc.Launch(kernel.function, 1, "AIV", gm=gm, consts={"tiles": tiles, "tile": tile}, soc=SOC, auto_sync=True)


def test_values() -> None:
    x = np.linspace(-3, 3, 5 * 512, dtype=np.float32)
    z = np.zeros_like(x)
    chain[1, None](x, z, 5, 512)
    np.testing.assert_allclose(z, x * (np.exp(x) + 1), rtol=1e-6)


def test_flags_are_paired_and_needed() -> None:
    """In, compute, out: a flag for each change of pipe, back flags once buffers come round again."""
    trace = chain_launch(1, 512).trace()
    program = trace.blocks[0].programs[0]
    ops = [
        (Op(op), channel_parts(int(arg))[:2])
        for op, arg in zip(program.op, program.arg, strict=True) if op in (Op.SET, Op.WAIT)
    ]  # fmt: skip
    assert ops == [
        (Op.SET, (Pipe.MTE2, Pipe.V)), (Op.WAIT, (Pipe.MTE2, Pipe.V)), (Op.SET, (Pipe.V, Pipe.MTE3)),
        (Op.WAIT, (Pipe.V, Pipe.MTE3)),
    ]  # fmt: skip


def test_two_buffers_overlap_transfers_with_work() -> None:
    one, many = (simulate_kernel(chain_launch(n, 4096).trace(), SOC).core_ps for n in (1, 9))
    assert many < 9 * one * 0.8


@asc.jit(insert_sync=True)
def hungry(x: Any, parts: int, size: asc.ConstExpr[int], keep: asc.ConstExpr[bool]) -> None:
    g = asc.GlobalTensor()
    g.set_global_buffer(x)
    held = []
    for i in asc.range(parts):
        t = asc.LocalTensorAuto(x.dtype, (size // 64, 64))
        assert t.shape == (size // 64, 64)
        asc.data_copy(t, g[i * size :], count=size)
        asc.muls(t, t, 2.0, size)
        asc.data_copy(g[i * size :], t, count=size)
        if keep:
            held.append(t[32:])


def test_buffers_are_handed_on() -> None:
    x = np.arange(20 * 16384, dtype=np.float32)
    hungry[1, None](x, 20, 16384, False)
    np.testing.assert_array_equal(x, 2 * np.arange(20 * 16384, dtype=np.float32))


def test_held_buffers_fill_the_memory() -> None:
    x = np.arange(20 * 16384, dtype=np.float32)
    with pytest.raises(InstructionError, match=r"LocalTensorAuto.*65536 bytes") as error:
        hungry[1, None](x, 20, 16384, True)
    assert error.value.place is not None and error.value.place[0] == __file__


@asc.jit(insert_sync=True)
def beside_queues(x: Any, z: Any, n: asc.ConstExpr[int]) -> None:
    """Queues grow from the bottom, automatic buffers from the top."""
    gx, gz = asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x)
    gz.set_global_buffer(z)
    pipe = asc.TPipe()
    queue = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(queue, 1, n * 4)
    a = queue.alloc_tensor(x.dtype)
    b = asc.LocalTensorAuto(x.dtype, n)
    assert b.addr >= a.addr + n * 4
    asc.data_copy(a, gx, count=n)
    asc.adds(b, a, 3.0, n)
    queue.free_tensor(a)
    asc.data_copy(gz, b, count=n)


def test_beside_queues() -> None:
    x, z = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    beside_queues[1, None](x, z, 256)
    np.testing.assert_array_equal(z, x + 3)


@asc.jit(insert_sync=True)
def scalar_round_trip(x: Any, z: Any) -> None:
    """A value the vector unit computes is read by the scalar unit, which writes the next input."""
    gx, gz = asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x)
    gz.set_global_buffer(z)
    a, b = asc.LocalTensorAuto(x.dtype, 64), asc.LocalTensorAuto(x.dtype, 64)
    asc.data_copy(a, gx, count=64)
    asc.reduce_sum(b, a, b, 64)
    total = b.get_value(0)
    asc.duplicate(a, total, 64)
    a.set_value(1, 5.0)
    asc.muls(a, a, 2.0, 64)
    asc.data_copy(gz, a, count=64)


def test_scalar_unit_takes_part() -> None:
    x, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    scalar_round_trip[1, None](x, z)
    want = np.full(64, 2 * x.sum(), np.float32)
    want[1] = 10
    np.testing.assert_array_equal(z, want)


def test_bad_shape() -> None:
    @asc.jit(insert_sync=True)
    def empty(x: Any) -> None:
        asc.LocalTensorAuto(x.dtype, (4, 0))

    with pytest.raises(InstructionError, match="must be positive"):
        empty[1, None](np.zeros(8, np.float32))
