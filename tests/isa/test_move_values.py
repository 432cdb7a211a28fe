"""Copies, padded copies, atomic writes and fills against byte statements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from strength import cases

from ascend_sim import asc

P = asc.TPosition
seeds = st.integers(0, 1 << 30)


def tensor(dtype: Any, array: np.ndarray, arg: int = 0, at: int = 0) -> asc.GlobalTensor:
    g = asc.GlobalTensor()
    g.set_global_buffer(asc.GlobalAddress(dtype, arg, at, array.nbytes))
    return g


@cases(count=st.integers(0, 5), length=st.integers(0, 4), src=st.integers(0, 3), dst=st.integers(0, 3))
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


@cases(count=st.integers(1, 4), length=st.integers(1, 70), gap=st.integers(0, 9), left=st.integers(0, 8),
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


OPERATIONS = {"add": np.add, "max": np.maximum, "min": np.minimum}


@cases(operation=st.sampled_from(list(OPERATIONS)), padded=st.booleans(), blocks=st.integers(1, 6), seed=seeds,
       dtype=st.sampled_from(["float32", "float16", "int16", "int32", "int8", "bfloat16"]))  # fmt: skip
def test_atomic_writes(bench: Any, operation: str, padded: bool, blocks: int, seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    n = blocks * 32 // np.dtype(kind).itemsize
    out, values = (rng.integers(-40, 40, n).astype(kind) for _ in range(2))
    start = out.copy()
    b = bench("Ascend910B2", None, [out])
    b.put("UB", values)

    def program() -> None:
        g, local = tensor(dtype, out), asc.LocalTensor(dtype, P.VECOUT)
        getattr(asc, f"set_atomic_{operation}")(dtype)
        if padded:
            asc.data_copy_pad(g, local, asc.DataCopyParams(1, n * np.dtype(kind).itemsize, 0, 0))
        else:
            asc.data_copy(g, local, n)
        asc.set_atomic_none()

    b.run(program)
    np.testing.assert_array_equal(out, OPERATIONS[operation](start, values))


@cases(thorough=150, dtype=st.sampled_from(["float16", "bfloat16", "float32", "int32"]), blocks=st.integers(1, 8),
       seed=seeds)  # fmt: skip
def test_bias_row_widens(bench: Any, dtype: str, blocks: int, seed: int) -> None:
    """64 bytes of the bias table at a time; 16-bit floats become float32."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    to = "int32" if dtype == "int32" else "float32"
    n = blocks * 16
    x = np.random.default_rng(seed).integers(-99, 99, n).astype(kind)
    b = bench("Ascend910B2", "AIC")
    b.put("L1", x)
    b.run(lambda: asc.data_copy(asc.LocalTensor(to, P.C2), asc.LocalTensor(dtype, P.C1), n))
    np.testing.assert_array_equal(b.get("BT", to, n), x.astype(to))


@cases(n=st.integers(1, 20), d=st.integers(1, 40), nd=st.integers(1, 3), gap=st.integers(0, 5), seed=seeds,
       dtype=st.sampled_from(["float16", "float32", "int8"]))  # fmt: skip
def test_nz_to_nd(bench: Any, n: int, d: int, nd: int, gap: int, seed: int, dtype: str) -> None:
    """Column blocks of C0 in the unified buffer to rows in global memory."""
    rng, c0 = np.random.default_rng(seed), 32 // np.dtype(dtype).itemsize
    c1, rows, pitch = -(-d // c0), -(-n // 16) * 16, d + gap
    x = rng.integers(-99, 99, (nd, c1, rows, c0)).astype(dtype)
    fractals = -(-c1 * rows * c0 // 256)
    out = np.zeros((nd, n + 1, pitch), dtype)
    b = bench("Ascend910B2", None, [out])
    for i in range(nd):
        b.put("UB", x[i], i * fractals * 256 * x.itemsize)

    def program() -> None:
        params = asc.Nz2NdParamsFull(nd, n, d, fractals, rows, pitch, (n + 1) * pitch)
        asc.data_copy(tensor(dtype, out), asc.LocalTensor(dtype, P.VECOUT), params)

    b.run(program)
    want = np.zeros_like(out)
    for i, r, c in np.ndindex(nd, n, d):
        want[i, r, c] = x[i, c // c0, r, c % c0]
    np.testing.assert_array_equal(out, want)


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
