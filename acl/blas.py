"""acl.blas: matrix products by BLAS names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _names
from acl._api import api
from acl._blas import HALF, INT8, INT32, gemm, handle, vector

_H, _S8 = (HALF, HALF, HALF), (INT8, INT8, INT32)


@api("acl.blas.gemv_ex", "aclblasGemvEx", "launch")
def gemv_ex(
    trans_a: int,
    m: int,
    n: int,
    alpha_ptr: int,
    a: int,
    lda: int,
    type_a: int,
    x: int,
    incx: int,
    type_x: int,
    beta_ptr: int,
    y: int,
    incy: int,
    type_y: int,
    compute_type: int,
    stream: int,
    /,
) -> int:
    types = (type_a, type_x, type_y)
    strides = (lda, incx, incy)
    return gemm(vector(trans_a), (m, 1, n), alpha_ptr, a, x, beta_ptr, y, strides, types, compute_type, stream)


@api("acl.blas.create_handle_for_gemv_ex", "aclblasCreateHandleForGemvEx", "api")
def create_handle_for_gemv_ex(
    trans_a: int, m: int, n: int, type_a: int, type_x: int, type_y: int, compute_type: int, /
) -> tuple[int, int]:
    return handle(vector(trans_a), (m, 1, n), (type_a, type_x, type_y), compute_type)


@api("acl.blas.hgemv", "aclblasHgemv", "launch")
def hgemv(
    trans_a: int,
    m: int,
    n: int,
    alpha_ptr: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta_ptr: int,
    y: int,
    incy: int,
    compute_type: int,
    stream: int,
    /,
) -> int:
    strides = (lda, incx, incy)
    return gemm(vector(trans_a), (m, 1, n), alpha_ptr, a, x, beta_ptr, y, strides, _H, compute_type, stream)


@api("acl.blas.create_handle_for_hgemv", "aclblasCreateHandleForHgemv", "api")
def create_handle_for_hgemv(trans_a: int, m: int, n: int, compute_type: int, /) -> tuple[int, int]:
    return handle(vector(trans_a), (m, 1, n), _H, compute_type)


@api("acl.blas.s8gemv", "aclblasS8gemv", "launch")
def s8gemv(
    trans_a: int,
    m: int,
    n: int,
    alpha_ptr: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta_ptr: int,
    y: int,
    incy: int,
    compute_type: int,
    stream: int,
    /,
) -> int:
    strides = (lda, incx, incy)
    return gemm(vector(trans_a), (m, 1, n), alpha_ptr, a, x, beta_ptr, y, strides, _S8, compute_type, stream)


@api("acl.blas.create_handle_for_s8gemv", "aclblasCreateHandleForS8gemv", "api")
def create_handle_for_s8gemv(trans_a: int, m: int, n: int, compute_type: int, /) -> tuple[int, int]:
    return handle(vector(trans_a), (m, 1, n), _S8, compute_type)


@api("acl.blas.gemm_ex", "aclblasGemmEx", "launch")
def gemm_ex(
    trans_a: int,
    trans_b: int,
    trans_c: int,
    m: int,
    n: int,
    k: int,
    alpha_ptr: int,
    a: int,
    lda: int,
    type_a: int,
    b: int,
    ldb: int,
    type_b: int,
    beta_ptr: int,
    c: int,
    ldc: int,
    type_c: int,
    compute_type: int,
    stream: int,
    /,
) -> int:
    trans, types, strides = (trans_a, trans_b, trans_c), (type_a, type_b, type_c), (lda, ldb, ldc)
    return gemm(trans, (m, n, k), alpha_ptr, a, b, beta_ptr, c, strides, types, compute_type, stream)


@api("acl.blas.create_handle_for_gemm_ex", "aclblasCreateHandleForGemmEx", "api")
def create_handle_for_gemm_ex(
    trans_a: int,
    trans_b: int,
    trans_c: int,
    m: int,
    n: int,
    k: int,
    type_a: int,
    type_b: int,
    type_c: int,
    compute_type: int,
    /,
) -> tuple[int, int]:
    return handle((trans_a, trans_b, trans_c), (m, n, k), (type_a, type_b, type_c), compute_type)


@api("acl.blas.hgemm", "aclblasHgemm", "launch")
def hgemm(
    trans_a: int,
    trans_b: int,
    trans_c: int,
    m: int,
    n: int,
    k: int,
    alpha_ptr: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    beta_ptr: int,
    c: int,
    ldc: int,
    compute_type: int,
    stream: int,
    /,
) -> int:
    trans, strides = (trans_a, trans_b, trans_c), (lda, ldb, ldc)
    return gemm(trans, (m, n, k), alpha_ptr, a, b, beta_ptr, c, strides, _H, compute_type, stream)


@api("acl.blas.create_handle_for_hgemm", "aclblasCreateHandleForHgemm", "api")
def create_handle_for_hgemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, compute_type: int, /
) -> tuple[int, int]:
    return handle((trans_a, trans_b, trans_c), (m, n, k), _H, compute_type)


@api("acl.blas.s8gemm", "aclblasS8gemm", "launch")
def s8gemm(
    trans_a: int,
    trans_b: int,
    trans_c: int,
    m: int,
    n: int,
    k: int,
    alpha_ptr: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    beta_ptr: int,
    c: int,
    ldc: int,
    compute_type: int,
    stream: int,
    /,
) -> int:
    trans, strides = (trans_a, trans_b, trans_c), (lda, ldb, ldc)
    return gemm(trans, (m, n, k), alpha_ptr, a, b, beta_ptr, c, strides, _S8, compute_type, stream)


@api("acl.blas.create_handle_for_s8gemm", "aclblasCreateHandleForS8gemm", "api")
def create_handle_for_s8gemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, compute_type: int, /
) -> tuple[int, int]:
    return handle((trans_a, trans_b, trans_c), (m, n, k), _S8, compute_type)


__all__ = list(_names.complete(globals(), "blas"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
