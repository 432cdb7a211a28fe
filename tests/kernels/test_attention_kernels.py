"""Attention kernels instruction by instruction against operator values, and the dealing of tiles."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ascend_sim.kernels._attention_plan import blocks_of, deal, tile_sizes
from ascend_sim.kernels._execute import run_plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.registry import NoKernel, find_kernel
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import load_soc

ops.load()
CHIP = "Ascend910B2"
TRIANGLE = np.triu(np.ones((2048, 2048), np.bool_), 1)
Array = np.ndarray[Any, Any]


def spec(array: Array | None, const: bool = False) -> TensorSpec | None:
    if array is None:
        return None
    name = "bfloat16" if array.dtype == ml_dtypes.bfloat16 else array.dtype.name
    return TensorSpec(array.shape, name, const=array.tobytes() if const else None)


def tensors(
    b: int, s: int, t: int, n: int, kv: int, d: int, dv: int, layout: str, dtype: str, seed: int
) -> list[Array]:
    rng = np.random.default_rng(seed)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    out = []
    for tokens, heads, width in ((s, n, d), (t, kv, d), (t, kv, dv)):
        x = rng.standard_normal((b, heads, tokens, width)).astype(kind)
        out.append(x if layout == "BNSD" else np.ascontiguousarray(x.transpose(0, 2, 1, 3)))
    return out


def both(
    op: str, arrays: list[Array | None], const: tuple[int, ...] = (), chip: str = CHIP, **attrs: Any
) -> list[tuple[Array, Array]]:
    """(instruction values, operator values) of the outputs."""
    call = ops.call(op, [spec(a, i in const) for i, a in enumerate(arrays)], attrs)
    plan = find_kernel(op)
    assert plan is not None
    launches = plan(call, load_soc(chip))
    stored = run_plan(call, launches, arrays)
    for launch in launches:
        launch.trace()
    wanted = ops.values(call, arrays)
    return [
        (got[: y.nbytes].view(want.dtype).reshape(want.shape).astype(np.float64), want.astype(np.float64))
        for got, want, y in zip(stored, wanted, call.outputs, strict=True)
    ]


def close(pair: tuple[Array, Array], dtype: str) -> None:
    tolerance = 2e-2 if dtype == "bfloat16" else 3e-3
    np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance)


@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 2), st.sampled_from((1, 2, 17, 40, 70)), st.integers(1, 200), st.sampled_from((1, 2, 3, 5)),
    st.integers(1, 2), st.sampled_from((16, 48, 64, 128, 272)), st.sampled_from((16, 64, 160)),
    st.sampled_from(("BSND", "BNSD")), st.sampled_from((0, 2, 3)), st.sampled_from(("float16", "bfloat16")),
    st.integers(0, 99),
)  # fmt: skip
def test_shapes(
    b: int, s: int, t: int, group: int, kv: int, d: int, dv: int, layout: str, mode: int, dtype: str, seed: int
) -> None:
    t = max(t, s) if mode == 3 else t
    q, k, v = tensors(b, s, t, group * kv, kv, d, dv, layout, dtype, seed)
    mask = TRIANGLE if mode else None
    close(both("FusedInferAttentionScore", [q, k, v, None, mask], num_heads=group * kv, num_key_value_heads=kv,
               scale=0.2, input_layout=layout, sparse_mode=mode)[0], dtype)  # fmt: skip


@pytest.mark.parametrize("keys", [1000, 2600])
def test_keys_shared_by_cores(keys: int) -> None:
    """One block of few rows over many keys: several cores do parts, which are then combined."""
    q, k, v = tensors(1, 20 if keys == 1000 else 2, keys, 12, 2, 64, 64, "BSND", "float16", 1)
    arrays = [q, k, v, None, TRIANGLE]
    attrs = {"num_heads": 12, "num_key_value_heads": 2, "scale": 0.125, "input_layout": "BSND", "sparse_mode": 3}
    call = ops.call("FusedInferAttentionScore", [spec(a) for a in arrays], attrs)
    plan = find_kernel(call.type)
    assert plan is not None
    (launch,) = plan(call, load_soc(CHIP))
    assert any(launch.consts["plan"].joins)
    close(both("FusedInferAttentionScore", arrays, **attrs)[0], "float16")


def test_mask_tensor_and_lengths() -> None:
    q, k, v = tensors(2, 40, 150, 2, 2, 32, 32, "BSND", "float16", 2)
    mask = np.random.default_rng(3).random((2, 1, 40, 150)) < 0.3
    mask[..., 0] = False
    arrays = [q, k, v, None, mask, None, np.array([150, 70])]
    close(both("FusedInferAttentionScore", arrays, (6,), num_heads=2, scale=0.2, input_layout="BSND")[0], "float16")


def test_rotary_parts() -> None:
    q, k, v = tensors(1, 3, 200, 8, 1, 512, 512, "BNSD", "bfloat16", 4)
    qr, kr, _ = tensors(1, 3, 200, 8, 1, 64, 16, "BNSD", "bfloat16", 5)
    arrays = [q, k, v, *[None] * 21, qr, kr]
    close(both("FusedInferAttentionScore", arrays, num_heads=8, num_key_value_heads=1, scale=0.05,
               input_layout="BNSD")[0], "bfloat16")  # fmt: skip


@pytest.mark.parametrize(("heads", "tokens", "keys", "d"), [(3, 1, 300, 128), (2, 1, 1, 64), (2, 1, 70, 48)])
def test_single_rows_on_vector_cores(heads: int, tokens: int, keys: int, d: int) -> None:
    q, k, v = tensors(2, tokens, keys, heads, heads, d, d, "BSND", "float16", 6)
    attrs = {"num_heads": heads, "scale_value": 0.125, "input_layout": "BSND"}
    close(both("IncreFlashAttention", [q, k, v], **attrs)[0], "float16")
    call = ops.call("IncreFlashAttention", [spec(x) for x in (q, k, v)], attrs)
    plan = find_kernel(call.type)
    assert plan is not None
    assert [launch.trace().kind for launch in plan(call, load_soc(CHIP))] == ["AIV"]


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend310B1"])
@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_coupled_chips_compose_it(chip: str, layout: str) -> None:
    q, k, v = tensors(2, 20, 48, 4, 2, 64, 64, layout, "float16", 8)
    close(both("PromptFlashAttention", [q, k, v], chip=chip, num_heads=4, num_key_value_heads=2, scale_value=0.125,
               input_layout=layout)[0], "float16")  # fmt: skip


@pytest.mark.parametrize("mode", [0, 3])
def test_training_forward(mode: int) -> None:
    q, k, v = tensors(1, 90, 130, 4, 2, 64, 64, "BSND", "float16", 7)
    arrays = [q, k, v, None, None, None, TRIANGLE if mode else None]
    top, total, _, out = both("FlashAttentionScore", arrays, head_num=4, scale_value=0.125, input_layout="BSND",
                              sparse_mode=mode)  # fmt: skip
    close(out, "float16")
    np.testing.assert_allclose(*top, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(*total, rtol=1e-3)


def test_every_tile_is_dealt_once_in_even_runs() -> None:
    blocks = blocks_of(8, 4, True, 512, 512, (1024, 1024), (1024, 1024), (0, 0), False)
    tiles = [(b.batch, b.head, b.m0, s0) for b in blocks for s0, _, _ in b.tiles]
    assert len(tiles) == 2 * 8 * 12  # of 16 tiles the triangle leaves 12
    work, joins = deal(blocks, 24, True)
    assert [(t.batch, t.head, t.m0, t.s0) for core in work for t in core] == tiles
    assert max(map(len, work)) - min(map(len, work)) <= 1
    cut = {(j.batch, j.head, j.m0) for side in joins for j in side}
    assert cut == {(t.batch, t.head, t.m0) for core in work for t in core if t.part >= 0}
    whole, none = deal(blocks, 24, False)
    assert not any(none) and sum(map(len, whole)) == len(tiles)


def test_tile_sizes_of_the_stock_template() -> None:
    assert tile_sizes(128, 1, 4096, True) == (512, 512)
    assert tile_sizes(1, 4, 65536, False) == (32, 8192)
    assert tile_sizes(1, 8, 65536, False) == (64, 4096)
    assert tile_sizes(1, 16, 65536, False) == (128, 2048)
    assert tile_sizes(2, 1, 65536, True) == (256, 1024)


@pytest.mark.parametrize(
    ("call", "low", "high"),
    [
        # cann-bench, 910B2, L2 flushed: 257.79 us; 4 x 512 tokens, 64 heads over 8
        (((4, 512, 64, 128), (4, 512, 8, 128)), 230, 290),
        # published FlashAttentionScore times, 910B2, one head of 128: 1118 us at 16384 tokens
        (((1, 16384, 1, 128), (1, 16384, 1, 128)), 950, 1250),
    ],
)  # fmt: skip
def test_times_near_silicon(call: tuple[tuple[int, ...], tuple[int, ...]], low: float, high: float) -> None:
    q, k = (TensorSpec(shape, "bfloat16") for shape in call)
    train = q.shape[0] == 1
    op = "FlashAttentionScore" if train else "FusedInferAttentionScore"
    attrs = {"num_heads": q.shape[2], "head_num": q.shape[2], "num_key_value_heads": k.shape[2],
             "input_layout": "BSND", "scale": 0.1, "scale_value": 0.1}  # fmt: skip
    assert low < op_timing(ops.call(op, [q, k, k], attrs), load_soc(CHIP)).us < high


def test_what_has_no_kernel_says_so() -> None:
    x = TensorSpec((1, 8, 2, 64), "float16")
    attrs = {"num_heads": 2, "input_layout": "BSND", "scale": 1.0}
    shifted = ops.call("FusedInferAttentionScore", [x, x, x, TensorSpec((1, 2, 8, 8), "float16")], attrs)
    plan = find_kernel(shifted.type)
    assert plan is not None
    with pytest.raises(NoKernel, match="shift"):
        plan(shifted, load_soc(CHIP))
    assert op_timing(shifted, load_soc(CHIP)).estimated


def gradient_arrays(
    b: int, s: int, t: int, n: int, kv: int, d: int, layout: str, dtype: str, mode: int
) -> tuple[list[Array | None], dict[str, Any]]:
    q, k, v = tensors(b, s, t, n, kv, d, d, layout, dtype, 9)
    dy = tensors(b, s, t, n, kv, d, d, layout, dtype, 10)[0]
    mask = TRIANGLE if mode else None
    attrs = {"head_num": n, "scale_value": 0.125, "input_layout": layout, "sparse_mode": mode}
    forward = ops.call("FlashAttentionScore", [spec(x) for x in (q, k, v, None, None, None, mask)], attrs)
    top, total, _, y = ops.values(forward, [q, k, v, None, None, None, mask])
    return [q, k, v, dy, None, None, None, mask, top, total, None, y], attrs


@pytest.mark.parametrize(
    ("b", "s", "t", "n", "kv", "d", "layout", "dtype", "mode"),
    [
        (1, 130, 300, 2, 2, 64, "BSND", "float16", 0), (1, 70, 70, 4, 2, 128, "BSND", "bfloat16", 3),
        (1, 150, 150, 2, 1, 48, "BNSD", "float16", 2), (13, 140, 20, 2, 2, 256, "BSND", "float16", 0),
    ],
)  # fmt: skip
def test_gradient(b: int, s: int, t: int, n: int, kv: int, d: int, layout: str, dtype: str, mode: int) -> None:
    """The last case has several blocks on a core."""
    arrays, attrs = gradient_arrays(b, s, t, n, kv, d, layout, dtype, mode)
    for pair in both("FlashAttentionScoreGrad", arrays, **attrs)[:3]:
        close(pair, dtype)


@pytest.mark.parametrize(
    ("op", "q", "k", "mode"),
    [
        ("FusedInferAttentionScore", (1, 1500, 7, 64), (1, 1500, 7, 64), 3),
        ("FusedInferAttentionScore", (3, 700, 8, 64), (3, 700, 2, 64), 3),
        ("FusedInferAttentionScore", (9, 2, 12, 64), (9, 900, 2, 64), 0),
        ("FusedInferAttentionScore", (30, 1, 8, 64), (30, 300, 8, 64), 0),
        ("FlashAttentionScore", (1, 4096, 3, 64), (1, 4096, 3, 64), 3),
        ("FlashAttentionScoreGrad", (1, 1100, 3, 64), (1, 1100, 3, 64), 3),
    ],
)
def test_folded_traces_hold_every_instruction(
    op: str, q: tuple[int, ...], k: tuple[int, ...], mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folding loops and copying stretches changes the length of a trace, not what it executes."""
    from ascend_sim import asc

    soc = load_soc(CHIP)
    a, b = TensorSpec(q, "float16"), TensorSpec(k, "float16")
    mask = TensorSpec((2048, 2048), "bool") if mode else None
    rows = TensorSpec((q[0], q[2], q[1], 8), "float32")
    inputs = {
        "FusedInferAttentionScore": [a, b, b, None, mask],
        "FlashAttentionScore": [a, b, b, None, None, None, mask],
        "FlashAttentionScoreGrad": [a, b, b, a, None, None, None, mask, rows, rows, None, a],
    }[op]  # fmt: skip
    attrs = {"num_heads": q[2], "head_num": q[2], "num_key_value_heads": k[2], "scale": 0.1, "scale_value": 0.1,
             "input_layout": "BSND", "sparse_mode": mode}  # fmt: skip
    call = ops.call(op, inputs, attrs)
    plan = find_kernel(op)
    assert plan is not None

    def counts() -> list[Any]:
        (launch,) = plan(call, soc)
        trace = launch.trace()
        programs = [p for i in trace.block_of for p in trace.blocks[i].programs]
        return [
            (p.executed, sorted((tuple(map(str, w)), n) for w, n in zip(p.works, p.counts.tolist(), strict=True)))
            for p in programs
        ]

    folded = counts()
    monkeypatch.setattr(asc, "steady", lambda start, stop, step=1, tail=2: iter(range(start, stop, step)))
    monkeypatch.setattr(asc, "repeated", lambda key, body: body())
    plain = counts()
    assert [n for n, _ in folded] == [n for n, _ in plain]
    for (_, left), (_, right) in zip(folded, plain, strict=True):
        assert total(left) == total(right)


def total(works: list[tuple[tuple[str, ...], int]]) -> dict[str, int]:
    """Executions by kind of work; alignment and repetition of addresses differ between equal iterations."""
    out: dict[str, int] = {}
    for work, n in works:
        out[work[0]] = out.get(work[0], 0) + n
    return out
