"""TransData, Transpose and data movement: bit-exact against NumPy on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascend_sim.ops.registry import NoKernel

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2")
PADDED = "Ascend910B2"  # has byte-exact DMA
chips = st.sampled_from(CHIPS)
seeds = st.integers(0, 2**32 - 1)
relaxed = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def half(rng: np.random.Generator, *shape: int) -> Any:
    """Distinct bit patterns of finite halves."""
    return rng.integers(0, 0x7C00, shape).astype(np.uint16).view(np.float16)


@relaxed
@given(chips, st.integers(1, 3), st.integers(1, 50), st.integers(1, 30), st.integers(1, 30), st.booleans(), seeds)
def test_channel_blocks(
    run_op: Any, close: Any, chip: str, n: int, c: int, h: int, w: int, back: bool, seed: int
) -> None:
    x = half(np.random.default_rng(seed), n, c, h, w)
    if back:
        close(
            *run_op(
                "TransData", [x], chip, formats=("NC1HWC0",), out_format="NCHW", src_format="NC1HWC0", dst_format="NCHW"
            )
        )
    else:
        close(*run_op("TransData", [x], chip, out_format="NC1HWC0", src_format="NCHW", dst_format="NC1HWC0"))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(chips, st.integers(1, 3), st.integers(1, 40), st.integers(1, 16), st.integers(1, 16), st.booleans(), seeds)
def test_channel_blocks_of_words(
    run_op: Any, close: Any, chip: str, n: int, c: int, h: int, w: int, back: bool, seed: int
) -> None:
    """Sixteen channels of 32-bit elements a block: by vnchwconv of words or of halves, or by the scalar unit."""
    x = np.random.default_rng(seed).standard_normal((n, c, h, w)).astype(np.float32)
    attrs: dict[str, Any] = {"src_format": "NCHW", "dst_format": "NC1HWC0"}
    try:
        if back:
            attrs = {"src_format": "NC1HWC0", "dst_format": "NCHW"}
            close(*run_op("TransData", [x], chip, formats=("NC1HWC0",), out_format="NCHW", **attrs))
        else:
            close(*run_op("TransData", [x], chip, out_format="NC1HWC0", **attrs))
    except NoKernel:
        assert h * w < 8 and chip == "Ascend310P3"


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "shape", [(1, 3, 224, 224), (1, 1, 200, 333), (1, 32, 160, 160), (4, 24, 3, 3), (70, 16, 1, 1)]
)
def test_channel_blocks_of_images(run_op: Any, close: Any, chip: str, shape: tuple[int, ...]) -> None:
    x = half(np.random.default_rng(0), *shape)
    close(*run_op("TransData", [x], chip, out_format="NC1HWC0", src_format="NCHW", dst_format="NC1HWC0"))
    close(
        *run_op(
            "TransData", [x], chip, formats=("NC1HWC0",), out_format="NCHW", src_format="NC1HWC0", dst_format="NCHW"
        )
    )


def test_filled_channels_are_zero(run_op: Any) -> None:
    """Channels that fill up the last block must be zero: convolutions read them."""
    from ascend_sim import ops
    from ascend_sim.ops import registry
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.soc import load_soc

    ops.load()
    x, y = (
        TensorSpec((1, 20, 9, 9), "float16", "NCHW"),
        TensorSpec((1, 2, 9, 9, 16), "float16", "NC1HWC0", (1, 20, 9, 9), "NCHW"),
    )
    plan = registry.find_kernel("TransData")
    assert plan is not None
    for chip in CHIPS:
        out = np.full(y.nbytes, 0xA5, np.uint8)
        (launch,) = plan(OpCall("TransData", (x,), (y,)), load_soc(chip))
        launch.execute([np.full(x.nbytes, 0x3C, np.uint8), out])
        stored = out.view(np.uint16).reshape(y.shape)
        assert (stored[:, 1, ..., 4:] == 0).all() and (stored[:, 0] != 0).all()


@relaxed
@given(chips, st.integers(1, 3), st.integers(1, 70), st.integers(1, 70), st.booleans(), seeds)
def test_fractal_nz(run_op: Any, close: Any, chip: str, b: int, m: int, k: int, back: bool, seed: int) -> None:
    x = half(np.random.default_rng(seed), b, m, k)
    if back:
        close(
            *run_op(
                "TransData",
                [x],
                chip,
                formats=("FRACTAL_NZ",),
                out_format="ND",
                src_format="FRACTAL_NZ",
                dst_format="ND",
            )
        )
    else:
        close(*run_op("TransData", [x], chip, out_format="FRACTAL_NZ", src_format="ND", dst_format="FRACTAL_NZ"))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1, 1000), (8, 1001), (1, 25088), (3, 2), (300, 2048), (40, 10007)])
def test_fractal_nz_of_classifiers(run_op: Any, close: Any, chip: str, shape: tuple[int, int]) -> None:
    x = half(np.random.default_rng(0), *shape)
    close(
        *run_op(
            "TransData", [x], chip, formats=("FRACTAL_NZ",), out_format="ND", src_format="FRACTAL_NZ", dst_format="ND"
        )
    )
    close(*run_op("TransData", [x], chip, out_format="FRACTAL_NZ", src_format="ND", dst_format="FRACTAL_NZ"))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chips,
    st.lists(st.sampled_from((1, 2, 3, 16, 17, 20, 33, 48, 64)), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    seeds,
)
def test_transpose(run_op: Any, close: Any, chip: str, shape: list[int], order: Any, seed: int) -> None:
    assume(np.prod(shape) <= 40000)
    perm = list(range(len(shape)))
    order.shuffle(perm)
    x = half(np.random.default_rng(seed), *shape)
    for array in (x, x.astype(np.float32)):
        try:
            close(*run_op("TransposeD", [array], chip, perm=tuple(perm)))
        except NoKernel:
            assert chip != PADDED


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((600, 800), (1, 0)),
        ((2, 300, 200), (0, 2, 1)),
        ((2, 40, 50, 24), (0, 3, 1, 2)),
        ((4, 16, 12, 64), (0, 2, 1, 3)),
        ((2, 12, 64, 77), (0, 1, 3, 2)),
        ((1000, 20), (1, 0)),
    ],
)
def test_large_transpose(run_op: Any, close: Any, chip: str, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    close(*run_op("TransposeD", [half(np.random.default_rng(0), *shape)], chip, perm=perm))


@relaxed
@given(
    chips,
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.integers(0, 2),
    st.sampled_from((np.float16, np.float32, np.int64, np.uint8)),
    seeds,
)
def test_concat_and_split(
    run_op: Any, close: Any, chip: str, sizes: list[int], axis: int, kind: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 100, [s if a == axis else 6 for a in range(3)]).astype(kind) for s in sizes]
    close(*run_op("ConcatD", parts, chip, concat_dim=axis))
    close(*run_op("SplitVD", [np.concatenate(parts, axis)], chip, size_splits=tuple(sizes), split_dim=axis))


@pytest.mark.parametrize("chip", CHIPS)
def test_concat_of_channel_blocks(run_op: Any, close: Any, chip: str) -> None:
    rng = np.random.default_rng(0)
    parts = [half(rng, 2, c, 9, 7) for c in (32, 16, 24)]
    close(*run_op("ConcatD", parts, chip, formats=("NC1HWC0",) * 3, concat_dim=1))
    with pytest.raises(NoKernel, match="do not fill blocks"):
        run_op("ConcatD", parts[::-1], chip, formats=("NC1HWC0",) * 3, concat_dim=1)


@relaxed
@given(chips, st.tuples(st.integers(1, 9), st.integers(1, 30), st.integers(1, 60)), st.data())
def test_slices(run_op: Any, close: Any, chip: str, shape: tuple[int, ...], data: Any) -> None:
    x = half(np.random.default_rng(0), *shape)
    begin = [data.draw(st.integers(0, s - 1)) for s in shape]
    end = [data.draw(st.integers(b + 1, s)) for b, s in zip(begin, shape, strict=True)]
    close(
        *run_op("SliceD", [x], chip, offsets=tuple(begin), size=tuple(e - b for b, e in zip(begin, end, strict=True)))
    )
    steps = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), 1)
    close(*run_op("StridedSliceD", [x], chip, begin=tuple(begin), end=tuple(end), strides=steps))


@pytest.mark.parametrize("chip", CHIPS)
def test_padding(run_op: Any, close: Any, chip: str) -> None:
    rng = np.random.default_rng(0)
    pads = ((0, 0), (0, 0), (1, 2), (3, 1))
    close(*run_op("PadV3D", [half(rng, 2, 24, 8, 8)], chip, formats=("NC1HWC0",), paddings=pads, constant_values=1.5))
    close(*run_op("PadV3D", [rng.standard_normal((20, 70)).astype(np.float32)], chip, paddings=((2, 1), (3, 1))))
    close(
        *run_op(
            "PadV3D",
            [rng.integers(0, 9, (20, 70)).astype(np.uint8)],
            chip,
            paddings=((0, 1), (3, 1)),
            constant_values=7,
        )
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_repetition(run_op: Any, close: Any, chip: str) -> None:
    rng = np.random.default_rng(0)
    close(*run_op("TileD", [half(rng, 2, 70)], chip, multiples=(3, 2)))
    close(*run_op("TileD", [half(rng, 5, 2, 70)], chip, multiples=(1, 4, 1)))
    close(*run_op("BroadcastToD", [half(rng, 2, 1, 70)], chip, shape=(2, 4, 70)))
    close(*run_op("BroadcastToD", [half(rng, 2, 4, 1)], chip, shape=(2, 4, 70)))
    close(*run_op("BroadcastToD", [half(rng, 1)], chip, shape=(2, 700)))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_gather(run_op: Any, close: Any, chip: str, kind: Any) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(-50, 50, 37).astype(kind)
    close(*run_op("GatherV2", [rng.standard_normal((50, 70)).astype(np.float32), index], chip, axis=0))
    close(*run_op("GatherV2", [half(rng, 3, 50, 64), index.reshape(37, 1)], chip, axis=1))
    close(*run_op("GatherV2", [rng.integers(0, 9, (50, 6)), index], chip, axis=0))


@relaxed
@given(chips, st.integers(1, 40), st.integers(1, 40), st.sampled_from(((1, 1), (3, 3), (7, 7), (1, 5))), seeds)
def test_filters(run_op: Any, close: Any, chip: str, n: int, c: int, window: tuple[int, int], seed: int) -> None:
    x = half(np.random.default_rng(seed), n, c, *window)
    close(*run_op("TransData", [x], chip, out_format="FRACTAL_Z", src_format="NCHW", dst_format="FRACTAL_Z"))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1, 7, 7, 16), (2, 9, 5, 20), (1, 50, 50, 3), (2, 1, 1, 33), (1, 40, 30, 256)])
def test_channels_last(chip: str, shape: tuple[int, ...]) -> None:
    from ascend_sim import ops
    from ascend_sim.isa import layout
    from ascend_sim.ops import registry
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.soc import load_soc

    ops.load()
    plan = registry.find_kernel("TransData")
    assert plan is not None
    a = half(np.random.default_rng(0), *shape)
    want = layout.nchw_to_nc1hwc0(a.transpose(0, 3, 1, 2))
    x, y = TensorSpec(shape, "float16", "NHWC"), TensorSpec(want.shape, "float16", "NC1HWC0", shape, "NHWC")
    there, back = np.full(y.nbytes, 0xA5, np.uint8), np.full(x.nbytes, 0xA5, np.uint8)
    (launch,) = plan(OpCall("TransData", (x,), (y,)), load_soc(chip))
    launch.execute([a.reshape(-1).view(np.uint8).copy(), there])
    np.testing.assert_array_equal(there.view(np.float16).reshape(want.shape), want)
    (launch,) = plan(OpCall("TransData", (y,), (x,)), load_soc(chip))
    launch.execute([there, back])
    np.testing.assert_array_equal(back.view(np.float16).reshape(shape), a)


@pytest.mark.parametrize("shape", [(64, 3, 11, 11), (5, 3, 3, 3), (33, 20, 3, 3), (200, 16, 5, 5), (1, 1, 1, 1)])
def test_filters_of_32_bits(shape: tuple[int, ...]) -> None:
    """NCHW <-> FRACTAL_Z with C0 8, fewer filters a core than 16 where there are few."""
    from ascend_sim import ops
    from ascend_sim.ops import registry
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.soc import load_soc

    ops.load()
    plan = registry.find_kernel("TransData")
    assert plan is not None
    n, c, h, w = shape
    n1, c1 = -(-n // 16), -(-c // 8)
    a = np.random.default_rng(0).random(shape, np.float32)
    full = np.zeros((n1 * 16, c1 * 8, h * w), np.float32)
    full[:n, :c] = a.reshape(n, c, h * w)
    want = full.reshape(n1, 16, c1, 8, h * w).transpose(2, 4, 0, 1, 3).reshape(c1 * h * w, n1, 16, 8)
    x, y = TensorSpec(shape, "float32", "NCHW"), TensorSpec(want.shape, "float32", "FRACTAL_Z", shape, "NCHW")
    there, back = np.full(y.nbytes, 0xA5, np.uint8), np.full(x.nbytes, 0xA5, np.uint8)
    (launch,) = plan(OpCall("TransData", (x,), (y,)), load_soc("Ascend910B2"))
    launch.execute([a.reshape(-1).view(np.uint8).copy(), there])
    np.testing.assert_array_equal(there.view(np.float32).reshape(want.shape), want)
    (launch,) = plan(OpCall("TransData", (y,), (x,)), load_soc("Ascend910B2"))
    launch.execute([there, back])
    np.testing.assert_array_equal(back.view(np.float32).reshape(shape), a)
