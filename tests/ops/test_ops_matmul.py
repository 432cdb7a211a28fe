"""Matrix products against NumPy's float64 and exact integer products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_judge import close, run_op

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec

SIZE = st.integers(1, 40)


@settings(max_examples=60, deadline=None)
@given(st.tuples(SIZE, SIZE, SIZE), st.tuples(*[st.booleans()] * 3), st.sampled_from(["float16", "float32"]))
def test_matmul(sizes: tuple[int, int, int], flags: tuple[bool, bool, bool], dtype: str) -> None:
    (m, k, n), (ta, tb, biased) = sizes, flags
    rng = np.random.default_rng(m * 41 + k)
    a = rng.standard_normal((k, m) if ta else (m, k)).astype(dtype)
    b = rng.standard_normal((n, k) if tb else (k, n)).astype(dtype)
    bias = rng.standard_normal(n).astype(dtype) if biased else None
    wanted = (a.T if ta else a).astype("f8") @ (b.T if tb else b).astype("f8") + (bias if biased else 0)
    (got,) = run_op("MatMulV2", [a, b, bias], {"transpose_x1": ta, "transpose_x2": tb})
    close(got, wanted, dtype)


@pytest.mark.parametrize(
    ("sa", "sb"), [((2, 3, 4, 5), (3, 5, 6)), ((4, 5), (7, 5, 6)), ((2, 4, 5), (5, 3)), ((2, 1, 4, 5), (3, 5, 6))]
)
@pytest.mark.parametrize("adj", [False, True])
def test_batch_matmul_broadcasts(sa: tuple, sb: tuple, adj: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(sa).astype("f4"), rng.standard_normal(sb).astype("f4")
    wanted = a.astype("f8") @ b.astype("f8")
    if adj:
        a, b = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
    close(run_op("BatchMatMulV2", [a, b], {"adj_x1": adj, "adj_x2": adj})[0], wanted)


@pytest.mark.parametrize(("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("k", [3, 512, 4096])
def test_integer_products_are_exact(left: str, right: str, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = (
        rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) for t, s in ((left, (9, k)), (right, (k, 7)))
    )
    (got,) = run_op("MatMulV2", [a, b])
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, a.astype(np.int64) @ b.astype(np.int64))
    extreme = np.full((1, k), np.iinfo(left).min if left == "int8" else 255).astype(left)
    other = np.full((k, 1), np.iinfo(right).min if right == "int8" else 255).astype(right)
    np.testing.assert_array_equal(
        run_op("MatMulV2", [extreme, other])[0], extreme.astype(np.int64) @ other.astype(np.int64)
    )


def test_half_accumulates_in_float32() -> None:
    a = np.full((1, 4096), 1.0, np.float16)
    b = np.full((4096, 1), 1.0, np.float16)  # a running fp16 sum would stop at 2048
    assert run_op("MatMulV2", [a, b])[0].item() == 4096


def test_fully_connection_gemm_and_epilogue() -> None:
    rng = np.random.default_rng(5)
    x, w, b = (rng.standard_normal(s).astype("f4") for s in ((2, 3, 4), (6, 12), (6,)))
    close(run_op("FullyConnection", [x, w, b], {"axis": 1})[0], x.reshape(2, 12) @ w.T + b)
    a, c = rng.standard_normal((4, 5)).astype("f4"), rng.standard_normal((4, 3)).astype("f4")
    m = rng.standard_normal((5, 3)).astype("f4")
    close(run_op("GEMM", [a, m, c], {"alpha": 0.5, "beta": 2.0})[0], 0.5 * (a @ m) + 2 * c)
    (got,) = run_op("MatMulV2", [a, m, None, c], {"epilogue": (("relu",), ("mul",))})
    close(got, np.maximum(a @ m, 0) * c)


def test_prepared_weights_live_as_long_as_the_array() -> None:
    ops.load(kernels=False)
    from ascend_sim.ops.values._cache import prepared_count

    before = prepared_count()
    a, b = np.ones((2, 3), np.float16), np.ones((3, 2), np.float16)
    b.setflags(write=False)
    run_op("MatMulV2", [a, b])
    assert prepared_count() == before + 1
    del b
    assert prepared_count() == before


def test_writable_weights_may_change_between_calls() -> None:
    a, b = np.ones((2, 3), np.float16), np.ones((3, 2), np.float16)
    run_op("MatMulV2", [a, b])
    b[:] = 2
    assert run_op("MatMulV2", [a, b])[0][0, 0] == 6


@pytest.mark.parametrize(
    ("sa", "sb", "attrs", "words"),
    [
        ((2, 3), (4, 5), {}, r"MatMulV2: x2 is float16\[4,5\] \(K = 4\) but x1 is float16\[2,3\] \(K = 3\)"),
        ((2, 3), (3,), {}, r"MatMulV2: x2 is float16\[3\]; expected rank 2"),
        ((2, 3), (3, 5), {"epilogue": (("add",),)}, "attribute epilogue: .* consumes 1 further inputs, not 0"),
        ((2, 3), (3, 5), {"y_dtype": "int32"}, "attribute y_dtype is 'int32'; expected 'float16'"),
    ],
)
def test_errors(sa: tuple, sb: tuple, attrs: dict, words: str) -> None:
    with pytest.raises(ops.ShapeError, match=words):
        ops.infer("MatMulV2", [TensorSpec(sa, "float16"), TensorSpec(sb, "float16")], attrs)


def test_arrays_must_fit_their_specs() -> None:
    call = ops.call("MatMulV2", [TensorSpec((2, 3), "float16"), TensorSpec((3, 4), "float16")])
    with pytest.raises(ValueError, match=r"MatMulV2: input 1 is \[4, 3\]; its spec says float16\[3,4\]"):
        ops.values(call, [np.ones((2, 3), "f2"), np.ones((4, 3), "f2")])
    with pytest.raises(ValueError, match="MatMulV2: 1 arrays for 2 inputs"):
        ops.values(call, [np.ones((2, 3), "f2")])
