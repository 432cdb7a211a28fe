"""Copies, padded copies, atomic writes and fills against byte statements."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim import asc

few = settings(max_examples=25, deadline=None)
P = asc.TPosition


def tensor(dtype: Any, array: np.ndarray, arg: int = 0, at: int = 0) -> asc.GlobalTensor:
    g = asc.GlobalTensor()
    g.set_global_buffer(asc.GlobalAddress(dtype, arg, at, array.nbytes))
    return g


@few
@given(count=st.integers(0, 5), length=st.integers(0, 4), src=st.integers(0, 3), dst=st.integers(0, 3))
def test_block_copies(bench: Any, count: int, length: int, src: int, dst: int) -> None:
    x = np.random.default_rng(1).integers(0, 256, 4096, dtype=np.uint8)
    out = np.zeros(4096, np.uint8)
    b = bench("Ascend910B2", None, [x, out])
    b.put("UB", np.zeros(8192, np.uint8))

    def program() -> None:
        local, second = asc.LocalTensor("uint8", P.VECIN, 0), asc.LocalTensor("uint8", P.VECOUT, 4096)
        asc.data_copy(local, tensor("uint8", x), asc.DataCopyParams(count, length, src, dst))
        asc.data_copy(second, local, 4096)
        asc.data_copy(tensor("uint8", out, 1), second, asc.DataCopyParams(count, length, dst, src))

    b.run(program)
    want, image = np.zeros(4096, np.uint8), b.get("UB", np.uint8, 4096)
    back = np.zeros(4096, np.uint8)
    for i in range(count):
        for byte in range(length * 32):
            want[i * (length + dst) * 32 + byte] = x[i * (length + src) * 32 + byte]
            back[i * (length + src) * 32 + byte] = x[i * (length + src) * 32 + byte]
    np.testing.assert_array_equal(image, want)
    np.testing.assert_array_equal(out, back)


@few
@given(count=st.integers(1, 4), length=st.integers(1, 70), gap=st.integers(0, 9), left=st.integers(0, 8),
       right=st.integers(0, 8))  # fmt: skip
def test_padded_copies(bench: Any, count: int, length: int, gap: int, left: int, right: int) -> None:
    """Rows of any length in half words: padded in, stripped out."""
    x = np.random.default_rng(2).integers(0, 99, 1000).astype(np.int16)
    out = np.full(1000, -1, np.int16)
    b = bench("Ascend310B1", None, [x, out])

    def program() -> None:
        local = asc.LocalTensor("int16", P.VECIN)
        asc.data_copy_pad(
            local, tensor("int16", x), asc.DataCopyExtParams(count, length * 2, gap * 2, 0, 0),
            asc.DataCopyPadExtParams("int16", True, left, right, 7),
        )  # fmt: skip
        asc.data_copy_pad(tensor("int16", out, 1), local, asc.DataCopyParams(count, length * 2, 0, gap * 2))

    b.run(program)
    row = -(-(left + length + right) * 2 // 32) * 16
    image = b.get("UB", np.int16, count * row).reshape(count, row)
    for i in range(count):
        want = np.full(row, 7, np.int16)
        want[left : left + length] = x[i * (length + gap) :][:length]
        np.testing.assert_array_equal(image[i], want)
    # on the way out rows are read at their own rounded length
    step = -(-length * 2 // 32) * 16
    flat = b.get("UB", np.int16, 4096)
    for i in range(count):
        np.testing.assert_array_equal(out[i * (length + gap) :][:length], flat[i * step :][:length])


def test_atomic_writes(bench: Any) -> None:
    out = np.arange(64, dtype=np.float32)
    b = bench("Ascend910B2", None, [out])
    b.put("UB", np.full(64, 30, np.float32))

    def program() -> None:
        g, local = tensor("float32", out), asc.LocalTensor("float32", P.VECOUT)
        asc.set_atomic_add(asc.float32)
        asc.data_copy(g, local, 32)
        asc.set_atomic_max(asc.float32)
        asc.data_copy(g[32:], local, 32)
        asc.set_atomic_none()

    b.run(program)
    start = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(out, np.concatenate([start[:32] + 30, np.maximum(start[32:], 30)]))


def test_bias_row_widens(bench: Any) -> None:
    b = bench("Ascend910B2", "AIC")
    b.put("L1", np.arange(32, dtype=np.float16))

    def program() -> None:
        asc.data_copy(asc.LocalTensor("float32", P.C2), asc.LocalTensor("float16", P.C1), 32)

    b.run(program)
    np.testing.assert_array_equal(b.get("BT", np.float32, 32), np.arange(32))


def test_fill_and_scalar_access(bench: Any) -> None:
    x = np.arange(8, dtype=np.int32)
    b = bench("Ascend910B2", "AIC", [x])

    def program() -> int:
        asc.init_const_value(asc.LocalTensor("float16", P.A1), asc.InitConstValueParams(2, 1, 1, 3))
        g = tensor("int32", x)
        g.set_value(3, 77)
        return int(g.get_value(3)) + int(g.get_value(4))

    b.put("L1", np.zeros(64, np.float16))
    assert b.run(program) == 77 + 4
    assert x[3] == 77
    np.testing.assert_array_equal(b.get("L1", np.float16, 64), [3] * 16 + [0] * 16 + [3] * 16 + [0] * 16)
