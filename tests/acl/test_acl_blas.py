"""acl.blas against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acl_program import Program

import acl

Fails = Callable[..., str]
Array = np.ndarray[Any, Any]
TYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32}


def draw(shape: tuple[int, int], dtype: int) -> Array:
    rng = np.random.default_rng(shape[0] * 100 + shape[1])
    if dtype in (2, 3):
        return rng.integers(-8, 8, shape).astype(TYPES[dtype])
    return rng.standard_normal(shape).astype(TYPES[dtype])


def fractal(array: Array, block: int = 16) -> Array:
    """[columns / block, rows / 16, 16, block], filled with zeros."""
    rows, columns = array.shape
    full = np.zeros((-(-rows // 16) * 16, -(-columns // block) * block), array.dtype)
    full[:rows, :columns] = array
    return np.ascontiguousarray(full.reshape(full.shape[0] // 16, 16, -1, block).transpose(2, 0, 1, 3))


@pytest.mark.parametrize(("type_a", "type_c"), [(1, 1), (1, 0), (2, 3), (2, 0)])
@pytest.mark.parametrize("trans", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)])
def test_gemm(program: Program, trans: tuple[int, int, int], type_a: int, type_c: int) -> None:
    m, n, k = 20, 24, 33
    a, b, c = draw((m, k), type_a), draw((k, n), type_a), draw((m, n), type_c)
    pa, _ = program.upload(np.ascontiguousarray(a.T if trans[0] else a))
    pb, _ = program.upload(np.ascontiguousarray(b.T if trans[1] else b))
    pc, size = program.upload(c)
    alpha, _ = program.upload(np.array([2], TYPES[type_c]))
    beta = np.array([3], TYPES[type_c])  # scalars may lie on the host, too
    ret = acl.blas.gemm_ex(
        *trans, m, n, k, alpha, pa, -1, type_a, pb, -1, type_a, beta.ctypes.data, pc, -1, type_c, 0, 0
    )
    assert ret == 0, acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(0) == 0
    got = program.download(pc, size, TYPES[type_c]).reshape(m, n)
    wide = 2 * (a.astype(np.float64) @ b.astype(np.float64)) + 3 * c.astype(np.float64)
    assert np.allclose(got, wide, rtol=2e-3, atol=0.05 if type_c == 1 else 1e-3)


def test_short_names_and_vectors(program: Program) -> None:
    m, n, k = 16, 8, 32
    a, b = draw((m, k), 1), draw((k, n), 1)
    pa, _ = program.upload(a)
    pb, _ = program.upload(b)
    pc = program.empty(m * n * 2)
    one, _ = program.upload(np.array([1], np.float16))
    zero, _ = program.upload(np.array([0], np.float16))
    assert acl.blas.hgemm(0, 0, 0, m, n, k, one, pa, -1, pb, -1, zero, pc, -1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0  # beta 0: what lies in C does not matter
    assert np.allclose(program.download(pc, m * n * 2, np.float16).reshape(m, n), a @ b, rtol=1e-2, atol=0.02)
    x = draw((k, 1), 1)
    px, _ = program.upload(x)
    py = program.empty(m * 2)
    assert acl.blas.hgemv(0, m, k, one, pa, -1, px, -1, zero, py, -1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert np.allclose(program.download(py, m * 2, np.float16), (a @ x)[:, 0], rtol=1e-2, atol=0.02)
    ia, ib = draw((m, k), 2), draw((k, n), 2)
    qa, _ = program.upload(ia)
    qb, _ = program.upload(ib)
    qc = program.empty(m * n * 4)
    i1, _ = program.upload(np.array([1], np.int32))
    i0, _ = program.upload(np.array([0], np.int32))
    assert acl.blas.s8gemm(0, 0, 0, m, n, k, i1, qa, -1, qb, -1, i0, qc, -1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    want = ia.astype(np.int32) @ ib.astype(np.int32)
    assert np.array_equal(program.download(qc, m * n * 4, np.int32).reshape(m, n), want)
    qy = program.empty(m * 4)
    qx, _ = program.upload(draw((k, 1), 2))
    assert acl.blas.s8gemv(0, m, k, i1, qa, -1, qx, -1, i0, qy, -1, 0, 0) == 0
    assert acl.blas.gemv_ex(0, m, k, one, pa, -1, 1, px, -1, 1, zero, py, -1, 1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0


def test_fractal_matrices(program: Program) -> None:
    m, n, k = 20, 40, 24
    a, b = draw((m, k), 1), draw((k, n), 1)
    pa, _ = program.upload(fractal(a))
    pb, _ = program.upload(fractal(b))
    stored = fractal(np.zeros((m, n), np.float16))
    pc, size = program.upload(stored)
    one, _ = program.upload(np.array([1], np.float16))
    zero, _ = program.upload(np.array([0], np.float16))
    assert acl.blas.hgemm(2, 2, 2, m, n, k, one, pa, -1, pb, -1, zero, pc, -1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    got = program.download(pc, size, np.float16).reshape(stored.shape).transpose(1, 2, 0, 3).reshape(32, 48)[:m, :n]
    assert np.allclose(got, a @ b, rtol=1e-2, atol=0.02)


def test_handles(program: Program) -> None:
    m, n, k = 16, 8, 32
    a, b, c = draw((m, k), 1), draw((k, n), 1), draw((m, n), 0)
    arrays = [a, b, c, np.array([1], np.float32), np.array([1], np.float32)]
    buffers = []
    for array in arrays:
        pointer, size = program.upload(array)
        buffers.append(acl.create_data_buffer(pointer, size))
    handle, ret = acl.blas.create_handle_for_gemm_ex(0, 0, 0, m, n, k, 1, 1, 0, 0)
    assert ret == 0
    assert acl.op.execute_with_handle(handle, buffers, [buffers[2]], 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    got = program.download(acl.get_data_buffer_addr(buffers[2]), m * n * 4, np.float32).reshape(m, n)
    assert np.allclose(got, a.astype(np.float32) @ b.astype(np.float32) + c, rtol=1e-3, atol=1e-3)
    acl.op.destroy_handle(handle)
    for made in (
        acl.blas.create_handle_for_hgemm(0, 0, 0, m, n, k, 0),
        acl.blas.create_handle_for_hgemv(0, m, k, 0),
        acl.blas.create_handle_for_s8gemm(0, 0, 0, m, n, k, 0),
        acl.blas.create_handle_for_s8gemv(0, m, k, 0),
        acl.blas.create_handle_for_gemv_ex(0, m, k, 1, 1, 0, 0),
    ):
        assert made[1] == 0 and made[0]


def test_mistakes(program: Program, fails: Fails) -> None:
    p = program.empty(1 << 12)
    fails(acl.blas.hgemm(0, 0, 1, 4, 4, 4, p, p, -1, p, -1, p, p, -1, 0, 0), 100000, "trans_c is 1")
    fails(acl.blas.hgemm(3, 0, 0, 4, 4, 4, p, p, -1, p, -1, p, p, -1, 0, 0), 207000, "transposed fractals")
    fails(acl.blas.hgemm(0, 0, 0, 0, 4, 4, p, p, -1, p, -1, p, p, -1, 0, 0), 100000, "m, n, k")
    fails(acl.blas.hgemm(0, 0, 0, 4, 4, 4, p, p, 4, p, -1, p, p, -1, 0, 0), 100000, "-1 (reserved)")
    fails(acl.blas.hgemm(0, 0, 0, 4, 4, 4, p, p, -1, p, -1, p, p, -1, 1, 0), 100000, "high precision")
    fails(acl.blas.hgemm(0, 0, 0, 4, 4, 4, 0, p, -1, p, -1, p, p, -1, 0, 0), 100000, "alpha is 0")
    fails(acl.blas.create_handle_for_gemm_ex(0, 0, 0, 4, 4, 4, 0, 0, 0, 0), 100026, "float32, float32, float32")
    fails(acl.blas.hgemm(0, 0, 0, 64, 64, 64, p, p, -1, p, -1, p, p, -1, 0, 0), 107000, "passes the end")
