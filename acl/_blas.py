"""Matrix products by BLAS names, as calls of the operator GEMM: C = alpha A B + beta C.

Rows follow each other in memory. Sizes, types and layouts: "hicann/runtime" python api_ref, CBLAS.
"""

from __future__ import annotations

from acl import errors, handles
from acl._common import current, on_stream, system
from acl._descs import DTYPES, FORMAT_NUMBERS, DataBuffer, TensorDesc
from acl._op_attr import OpAttr
from acl._op_run import create, launch

FLOAT, HALF, INT8, INT32 = 0, 1, 2, 3  # acl data types
_PLAIN, _TRANSPOSED, _FRACTAL, _FRACTAL_TRANSPOSED = range(4)  # aclTransType
_ALLOWED = {(HALF, HALF, HALF), (HALF, HALF, FLOAT), (INT8, INT8, FLOAT), (INT8, INT8, INT32)}


def _check(trans: tuple[int, int, int], sizes: tuple[int, ...], types: tuple[int, int, int], compute: int) -> int:
    for name, value in zip(("trans_a", "trans_b", "trans_c"), trans, strict=True):
        if value not in (_PLAIN, _TRANSPOSED, _FRACTAL, _FRACTAL_TRANSPOSED):
            return errors.bad(name, value, "0 (as it is), 1 (transposed) or 2 (fractal)")
        if value == _FRACTAL_TRANSPOSED:
            return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"{name} is 3: transposed fractals are not supported.")
    if trans[2] == _TRANSPOSED:
        return errors.bad("trans_c", trans[2], "0 (as it is) or 2 (fractal)")
    if min(sizes) < 1:
        return errors.bad("m, n, k", sizes, "sizes of at least 1")
    if types not in _ALLOWED:
        names = [DTYPES[t][0] if t in DTYPES else str(t) for t in types]
        return errors.bad(
            "data types of A, B, C",
            ", ".join(names),
            "float16 with float16 or float32, or int8 with float32 or int32",
            code=errors.UNSUPPORTED_DATA_TYPE,
        )
    if compute != 0:
        return errors.bad("compute_type", compute, "0 (high precision)")
    if _FRACTAL in trans and types[0] == INT8 and trans[1] == _FRACTAL:
        return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, "fractal int8 matrices B are not simulated.")
    return 0


def _matrix(rows: int, columns: int, dtype: int, trans: int) -> TensorDesc:
    if trans != _FRACTAL:
        dims = [columns, rows] if trans == _TRANSPOSED else [rows, columns]
        return TensorDesc(dtype, dims, FORMAT_NUMBERS["ND"])
    block = 32 if dtype == INT8 else 16
    stored = [-(-columns // block), -(-rows // 16), 16, block]
    return TensorDesc(
        dtype,
        stored,
        FORMAT_NUMBERS["FRACTAL_NZ"],
        storage_format=FORMAT_NUMBERS["FRACTAL_NZ"],
        storage_dims=stored,
        origin_format=FORMAT_NUMBERS["ND"],
        origin_dims=[rows, columns],
    )


def _descs(
    trans: tuple[int, int, int], m: int, n: int, k: int, types: tuple[int, int, int]
) -> tuple[list[TensorDesc], TensorDesc]:
    """Descriptions of A, B, C, alpha, beta, and of the result."""
    c = _matrix(m, n, types[2], trans[2])
    scalars = [TensorDesc(types[2], [1], FORMAT_NUMBERS["ND"]) for _ in range(2)]
    return [_matrix(m, k, types[0], trans[0]), _matrix(k, n, types[1], trans[1]), c, *scalars], c


def _attr(trans: tuple[int, int, int]) -> int:
    return handles.new(OpAttr({"transpose_a": trans[0] == _TRANSPOSED, "transpose_b": trans[1] == _TRANSPOSED}))


def gemm(
    trans: tuple[int, int, int],
    sizes: tuple[int, int, int],
    alpha: int,
    a: int,
    b: int,
    beta: int,
    c: int,
    strides: tuple[int, ...],
    types: tuple[int, int, int],
    compute: int,
    stream: int,
) -> int:
    """Enqueue the product of matrices at addresses ``a``, ``b``, ``c``; ``strides`` are lda and the like."""
    ret = _check(trans, sizes, types, compute)
    if ret:
        return ret
    if any(s != -1 for s in strides):
        return errors.bad("lda, ldb, ldc", strides, "-1 (reserved)")
    found, ret = on_stream(stream)
    if found is None:
        return ret
    m, n, k = sizes
    inputs, result = _descs(trans, m, n, k, types)
    addresses = (a, b, c, alpha, beta)
    for name, address in zip(("a", "b", "c", "alpha", "beta"), addresses, strict=True):
        if address == 0:
            return errors.bad(name, 0, "the address of data")
    for desc, address in zip(inputs[3:], (alpha, beta), strict=True):
        desc.placement = _placement(address)
    buffers = [DataBuffer(address, desc.nbytes) for desc, address in zip(inputs, addresses, strict=True)]
    attr = _attr(trans)
    try:
        return launch("GEMM", inputs, buffers, [result], [buffers[2]], attr, found)
    finally:
        handles.drop(attr)


def _placement(address: int) -> int:
    """1 (host) for a scalar of the host, 0 for one on the device."""
    arena = system().memory.arena_of(address)
    return 0 if arena is not None and arena is not system().host else 1


def handle(
    trans: tuple[int, int, int], sizes: tuple[int, int, int], types: tuple[int, int, int], compute: int
) -> tuple[int, int]:
    """A handle for acl.op.execute_with_handle: inputs A, B, C, alpha, beta, output C."""
    ret = _check(trans, sizes, types, compute)
    if ret:
        return 0, ret
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    inputs, result = _descs(trans, *sizes, types)
    attr = _attr(trans)
    try:
        return create("GEMM", inputs, [result], attr)
    finally:
        handles.drop(attr)


def vector(trans: int) -> tuple[int, int, int]:
    """How A, x and y lie: a matrix and two columns."""
    return trans, _PLAIN, _PLAIN
