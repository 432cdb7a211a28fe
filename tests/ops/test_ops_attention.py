"""Attention, quantised and grouped products: operator values against plain loops in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import TensorSpec

Array = np.ndarray[Any, Any]


def spec(array: Array | None, const: bool = False) -> TensorSpec | None:
    if array is None:
        return None
    return TensorSpec(array.shape, array.dtype.name, const=array.tobytes() if const else None)


def run(op: str, arrays: list[Array | None], const: tuple[int, ...] = (), **attrs: Any) -> list[Array]:
    call = ops.call(op, [spec(a, i in const) for i, a in enumerate(arrays)], attrs)
    return ops.values(call, arrays)


def reference(q: Array, k: Array, v: Array, scale: float, sees: Any) -> Array:
    """One output row at a time; tensors are [b, n, s, d]."""
    b, n, s, _ = q.shape
    group = n // k.shape[1]
    out = np.zeros((b, n, s, v.shape[-1]))
    for i in range(b):
        for h in range(n):
            for row in range(s):
                scores = k[i, h // group].astype(np.float64) @ q[i, h, row].astype(np.float64) * scale
                keep = np.array([sees(i, row, t) for t in range(k.shape[2])])
                if not keep.any():
                    continue
                weight = np.where(keep, np.exp(scores - scores[keep].max()), 0)
                out[i, h, row] = weight @ v[i, h // group].astype(np.float64) / weight.sum()
    return out


def random(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float16)


TRIANGLE = np.triu(np.ones((2048, 2048), np.bool_), 1)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 2), st.integers(1, 7), st.integers(1, 9), st.sampled_from((1, 2, 3)), st.integers(1, 2),
    st.sampled_from(("BSND", "BNSD", "BSH", "SBH", "BNSD_BSND")), st.sampled_from((0, 2, 3, 4)), st.integers(0, 99),
)  # fmt: skip
def test_layouts_groups_and_modes(
    b: int, s: int, t: int, group: int, kv: int, layout: str, mode: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, d = group * kv, 16
    q, k, v = random(rng, b, n, s, d), random(rng, b, kv, t, d), random(rng, b, kv, t, d)
    before, after = 2, 1
    sees = {
        0: lambda i, x, y: True, 2: lambda i, x, y: y <= x, 3: lambda i, x, y: y <= x + t - s,
        4: lambda i, x, y: -before <= y - (x + t - s) <= after,
    }[mode]  # fmt: skip

    def store(x: Array, name: str) -> Array:
        name = name.partition("_")[0]
        if name == "BNSD":
            return x
        x = x.transpose(0, 2, 1, 3)
        if name.endswith("H"):
            x = x.reshape(*x.shape[:2], -1)
        return np.ascontiguousarray(x.swapaxes(0, 1) if name == "SBH" else x)

    arrays = [store(q, layout), store(k, layout), store(v, layout), None, TRIANGLE if mode else None]
    attrs = {"pre_tokens": before, "next_tokens": after} if mode == 4 else {}
    out = run("FusedInferAttentionScore", arrays, num_heads=n, num_key_value_heads=kv, scale=0.3,
              input_layout=layout, sparse_mode=mode, **attrs)[0]  # fmt: skip
    want = store(reference(q, k, v, 0.3, sees), layout.rpartition("_")[2])
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=2e-3, atol=2e-3)


def test_mask_tensor_lengths_and_log_sum() -> None:
    rng = np.random.default_rng(1)
    q, k, v = random(rng, 2, 2, 5, 16), random(rng, 2, 2, 8, 16), random(rng, 2, 2, 8, 16)
    mask = rng.random((2, 1, 5, 8)) < 0.3
    mask[:, :, :, 0] = False
    lens = np.array([8, 6], np.int64)
    arrays = [q, k, v, None, mask, None, lens]
    out, lse = run("FusedInferAttentionScore", arrays, (6,), num_heads=2, scale=0.25, input_layout="BNSD",
                   softmax_lse_flag=True)  # fmt: skip
    want = reference(q, k, v, 0.25, lambda i, x, y: y < lens[i] and not mask[i, 0, x, y])
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=2e-3, atol=2e-3)
    scores = q[1, 0, 2].astype(np.float64) @ k[1, 0, :6].astype(np.float64).T * 0.25
    np.testing.assert_allclose(lse[1, 0, 2, 0], np.log(np.exp(scores[~mask[1, 0, 2, :6]]).sum()), rtol=1e-3)
    runtime = run("FusedInferAttentionScore", arrays, num_heads=2, scale=0.25, input_layout="BNSD")
    np.testing.assert_array_equal(runtime[0], out)


def test_rope_parts_are_one_long_head() -> None:
    rng = np.random.default_rng(2)
    q, k, v = random(rng, 1, 4, 2, 32), random(rng, 1, 1, 9, 32), random(rng, 1, 1, 9, 32)
    qr, kr = random(rng, 1, 4, 2, 16), random(rng, 1, 1, 9, 16)
    arrays = [q, k, v, *[None] * 21, qr, kr]
    out = run("FusedInferAttentionScore", arrays, num_heads=4, num_key_value_heads=1, scale=0.2, input_layout="BNSD")
    want = reference(np.concatenate([q, qr], -1), np.concatenate([k, kr], -1), v, 0.2, lambda *_: True)
    np.testing.assert_allclose(out[0].astype(np.float64), want, rtol=2e-3, atol=2e-3)


def test_aliases_agree() -> None:
    rng = np.random.default_rng(3)
    q, k, v = random(rng, 2, 1, 4, 16), random(rng, 2, 6, 4, 16), random(rng, 2, 6, 4, 16)
    attrs = {"input_layout": "BSND", "scale_value": 0.25}
    fused = run("FusedInferAttentionScore", [q, k, v], num_heads=4, input_layout="BSND", scale=0.25)[0]
    for op in ("PromptFlashAttention", "IncreFlashAttention"):
        np.testing.assert_array_equal(run(op, [q, k, v], num_heads=4, **attrs)[0], fused)
    top, total, empty, out = run("FlashAttentionScore", [q, k, v], head_num=4, **attrs)
    np.testing.assert_array_equal(out, fused)
    scores = np.einsum("bsnd,btnd->bnst", q.astype(np.float64), k.astype(np.float64)) * 0.25
    np.testing.assert_allclose(top[..., 0], scores.max(-1), rtol=1e-3)
    np.testing.assert_allclose(total[..., 7], np.exp(scores - scores.max(-1, keepdims=True)).sum(-1), rtol=1e-3)
    assert empty.size == 0


def test_gradient_by_differences() -> None:
    rng = np.random.default_rng(4)
    q, k, v, dy = (rng.standard_normal((1, 2, n, 16)).astype(np.float32) for n in (3, 5, 5, 3))
    attrs = {"head_num": 2, "input_layout": "BNSD", "scale_value": 0.25, "sparse_mode": 3}
    masks = [None, None, None, TRIANGLE]
    grads = run("FlashAttentionScoreGrad", [q, k, v, dy, *masks], **attrs)[:3]

    def loss(*tensors: Array) -> float:
        out = reference(*tensors, 0.25, lambda i, x, y: y <= x + 2)
        return float((out * dy).sum())

    for index, grad in enumerate(grads):
        for _ in range(5):
            at = tuple(int(rng.integers(n)) for n in grad.shape)
            moved = [[x.astype(np.float64) for x in (q, k, v)] for _ in range(2)]
            moved[0][index][at] += 1e-4
            moved[1][index][at] -= 1e-4
            slope = (loss(*moved[0]) - loss(*moved[1])) / 2e-4
            assert grad[at] == pytest.approx(slope, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 3}, "heads"), ({"input_layout": "XYZ"}, "input_layout"), ({"sparse_mode": 9}, "sparse_mode"),
        ({"sparse_mode": 3}, "atten_mask"), ({"num_key_value_heads": 3}, "key"),
    ],
)  # fmt: skip
def test_bad_attributes_are_named(change: dict[str, Any], message: str) -> None:
    x = np.zeros((1, 2, 4, 16), np.float16)
    attrs = {"num_heads": 4, "input_layout": "BSND", "scale": 1.0} | change
    with pytest.raises(ops.ShapeError, match=message):
        run("FusedInferAttentionScore", [x, x, x], **attrs)


# ---- quantised and grouped products


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 40), st.integers(1, 12), st.booleans(), st.booleans(),
    st.sampled_from(("float16", "bfloat16", "int8", "int32")), st.booleans(), st.sampled_from(("", "int32", "float32")),
    st.integers(0, 99),
)  # fmt: skip
def test_quantised_product(
    m: int, k: int, n: int, ta: bool, tb: bool, dtype: str, tokens: bool, bias: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    scale, per = rng.random(n).astype(np.float32) / 100, rng.random(m).astype(np.float32)
    c = None if not bias else rng.integers(-50, 50, n).astype(bias)
    use = tokens and dtype in ("float16", "bfloat16")
    arrays = [a.T.copy() if ta else a, b.T.copy() if tb else b, scale, None, c, per if use else None]
    out = run("QuantBatchMatmulV3", arrays, dtype=dtype, transpose_x1=ta, transpose_x2=tb)[0]
    want = a.astype(np.int64) @ b.astype(np.int64) + (c.astype(np.int64) if bias == "int32" else 0)
    if dtype == "int32":
        np.testing.assert_array_equal(out, want)
        return
    real = want * scale.astype(np.float64) * (per[:, None] if use else 1) + (c if bias == "float32" else 0)
    if dtype == "int8":
        assert np.abs(out.astype(np.float64) - np.clip(np.rint(real), -128, 127)).max() <= 1
        return
    np.testing.assert_allclose(out.astype(np.float64), real, rtol=1e-2 if dtype == "bfloat16" else 2e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("transpose", [False, True])
def test_grouped_product(kind: int, transpose: bool) -> None:
    rng = np.random.default_rng(5)
    sizes = [3, 0, 5]
    x, w, c = random(rng, 9, 24), random(rng, 3, 24, 10), random(rng, 3, 10)
    listed = np.array(sizes if kind else np.cumsum(sizes), np.int64)
    stored = np.ascontiguousarray(w.swapaxes(1, 2)) if transpose else w
    out = run("GroupedMatmul", [x, stored, c, listed], (3,), transpose_weight=transpose, group_list_type=kind)[0]
    want, at = np.zeros((9, 10)), 0
    for g, rows in enumerate(sizes):
        want[at : at + rows] = x[at : at + rows].astype(np.float64) @ w[g].astype(np.float64) + c[g]
        at += rows
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_go_to_the_second_product_rounded(dtype: str) -> None:
    rng = np.random.default_rng(8)
    q, k, v = (rng.standard_normal((1, 1, 3, 16)).astype(numpy_dtype(dtype)) for _ in range(3))
    scores = q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2) * np.float32(0.25)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights.astype(q.dtype).astype(np.float32) @ v.astype(np.float32) / weights.sum(-1, keepdims=True)
    out = run("FlashAttentionScore", [q, k, v], head_num=1, input_layout="BNSD", scale_value=0.25)[3]
    np.testing.assert_allclose(out.astype(np.float32), wanted, rtol=2**-8 if dtype == "bfloat16" else 2**-11)
