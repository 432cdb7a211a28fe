"""Elementwise, broadcast, selection and cast kernels: instruction values against the operators' NumPy values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascend_sim.ops.registry import NoKernel

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2")
KINDS = {"float16": np.float16, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
chips = st.sampled_from(CHIPS)
seeds = st.integers(0, 2**32 - 1)
sizes = st.one_of(st.integers(1, 40), st.integers(41, 3000), st.sampled_from((16, 128, 1000, 4096, 70001, 131072)))
relaxed = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

UNARY: list[tuple[str, dict[str, Any]]] = [
    ("Relu", {}),
    ("Relu6", {}),
    ("LeakyRelu", {"negative_slope": 0.1}),
    ("LeakyRelu", {"negative_slope": -2.0}),
    ("Elu", {}),
    ("Selu", {}),
    ("Sigmoid", {}),
    ("Swish", {}),
    ("HardSwish", {}),
    ("HardSigmoid", {}),
    ("HardSigmoid", {"alpha": 0.2}),
    ("Softplus", {}),
    ("Softsign", {}),
    ("Mish", {}),
    ("Gelu", {}),
    ("GeluV2", {}),
    ("GeluV2", {"approximate": "tanh"}),
    ("FastGelu", {}),
    ("Tanh", {}),
    ("Erf", {}),
    ("Square", {}),
    ("Abs", {}),
    ("Neg", {}),
    ("Sign", {}),
    ("Exp", {}),
    ("Exp", {"base": 2.0, "scale": 0.5, "shift": 1.0}),
    ("Muls", {"value": 1.5}),
    ("Adds", {"value": -0.25}),
    ("Power", {"power": 2.0, "scale": 0.5, "shift": 1.0}),
]
POSITIVE: list[tuple[str, dict[str, Any]]] = [
    ("Sqrt", {}),
    ("Rsqrt", {}),
    ("Reciprocal", {}),
    ("Log", {}),
    ("Log", {"base": 10.0}),
    ("Log1p", {}),
    ("Power", {"power": 0.5}),
    ("Power", {"power": -1.0}),
    ("Power", {"power": 1.7}),
]


def tolerance(dtype: str, chip: str) -> dict[str, float]:
    """Native half arithmetic rounds at each step; Ascend310 has exp and ln for half only."""
    if chip == "Ascend310":
        return {"ulps": 16 if dtype != "float32" else 2**15, "absolute": 4e-3}
    return {"ulps": 4 if dtype != "float32" else 64, "absolute": 1.5e-3 if dtype != "float32" else 4e-5}


@relaxed
@given(chips, st.sampled_from(UNARY), st.sampled_from(tuple(KINDS)), sizes, seeds)
def test_unary(
    run_op: Any, close: Any, chip: str, op: tuple[str, dict[str, Any]], dtype: str, n: int, seed: int
) -> None:
    assume(dtype != "bfloat16" or chip == "Ascend910B2")
    x = (np.random.default_rng(seed).standard_normal(n) * 2).astype(KINDS[dtype])
    got, want = run_op(op[0], [x], chip, **op[1])
    close(got, want, **tolerance(dtype, chip))


@relaxed
@given(chips, st.sampled_from(POSITIVE), st.sampled_from(("float16", "float32")), sizes, seeds)
def test_unary_of_positive_numbers(
    run_op: Any, close: Any, chip: str, op: tuple[str, dict[str, Any]], dtype: str, n: int, seed: int
) -> None:
    x = np.random.default_rng(seed).uniform(0.1, 4, n).astype(KINDS[dtype])
    got, want = run_op(op[0], [x], chip, **op[1])
    close(got, want, **tolerance(dtype, chip))


@relaxed
@given(
    chips, st.sampled_from(("Floor", "Ceil", "Round", "Trunc")), st.sampled_from(("float16", "float32")), sizes, seeds
)
def test_rounding_is_exact(run_op: Any, close: Any, chip: str, op: str, dtype: str, n: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(-100, 100, n).astype(KINDS[dtype])
    close(*run_op(op, [x], chip))


def shapes() -> st.SearchStrategy[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(out, first, second): some axes of size 1, leading ones possibly absent."""

    @st.composite
    def draw(pick: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        rank = pick(st.integers(1, 4))
        out = [pick(st.sampled_from((1, 2, 3, 5, 7, 8, 16, 17, 32, 33, 64))) for _ in range(rank)]
        parts = []
        for _ in range(2):
            shape = [1 if pick(st.booleans()) and pick(st.booleans()) else s for s in out]
            parts.append(tuple(shape[pick(st.integers(0, rank - 1)) if pick(st.booleans()) else 0 :]))
        return tuple(out), parts[0], parts[1]

    return draw()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chips,
    shapes(),
    st.sampled_from(("Add", "Sub", "Mul", "Maximum", "Minimum")),
    st.sampled_from(("float16", "float32", "int32")),
    seeds,
)
def test_broadcast_is_exact(run_op: Any, close: Any, chip: str, case: Any, op: str, dtype: str, seed: int) -> None:
    _, a, b = case
    rng = np.random.default_rng(seed)
    x, y = ((rng.standard_normal(s) * 50).astype(KINDS.get(dtype, np.int32)) for s in (a, b))
    close(*run_op(op, [x, y], chip))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((64, 1000), (1000,)),
        ((64, 1000), (64, 1)),
        ((2, 8, 40, 40), (1, 8, 1, 1)),
        ((2, 70000), (2, 1)),
        ((5, 70000), (70000,)),
        ((300, 16), (16,)),
        ((40,), (1,)),
    ],
)
def test_large_broadcast(run_op: Any, close: Any, chip: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s).astype(np.float16) for s in (a, b))
    close(*run_op("Mul", [x, y], chip))
    close(*run_op("Sub", [y, x], chip))


@relaxed
@given(chips, st.integers(1, 2), st.integers(1, 40), st.integers(1, 20), st.integers(1, 20), st.booleans(), seeds)
def test_channel_scaling_in_blocks(
    run_op: Any, close: Any, chip: str, n: int, c: int, h: int, w: int, batch: bool, seed: int
) -> None:
    """The multiply of a squeeze-and-excite block, in NC1HWC0."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, c, h, w)).astype(np.float16)
    s = rng.standard_normal((n if batch else 1, c, 1, 1)).astype(np.float16)
    close(*run_op("Mul", [x, s], chip, formats=("NC1HWC0", "NC1HWC0")))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["RealDiv", "SquaredDifference", "Pow"])
def test_division_and_friends(run_op: Any, close: Any, chip: str, op: str) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0.5, 2, (2, 33, 100))
    for kind in (np.float16, np.float32):
        try:
            got, want = run_op(op, [x.astype(kind), y.astype(kind)], chip)
        except NoKernel as error:  # Pow needs an exponential in float32
            assert (op, chip) == ("Pow", "Ascend310")
            pytest.skip(str(error))
        close(got, want, ulps=4)


@pytest.mark.parametrize("chip", CHIPS)
def test_scalar_operands(run_op: Any, close: Any, chip: str) -> None:
    """One-element operands become immediates, known at compile time or read by the scalar unit."""
    rng = np.random.default_rng(3)
    x, s = rng.standard_normal(1000).astype(np.float16), np.asarray([2.5], np.float16)
    low, high = np.asarray(-1, np.float16), np.asarray(0.5, np.float16)
    for const in ((), (1, 2)):
        close(*run_op("Mul", [x, s], chip, const=const))
        close(*run_op("Sub", [s, x], chip, const=const and (0,)))
        close(*run_op("ClipByValue", [x, low, high], chip, const=const))


@relaxed
@given(
    chips,
    st.sampled_from(("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")),
    st.sampled_from(("float16", "float32", "int32")),
    sizes,
    seeds,
)
def test_comparison(run_op: Any, close: Any, chip: str, op: str, dtype: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (np.round(rng.standard_normal(n) * 2).astype(KINDS.get(dtype, np.int32)) for _ in range(2))
    got, want = run_op(op, [x, y], chip)
    close(got, want)


@relaxed
@given(chips, st.sampled_from(("float16", "float32", "int32")), sizes, seeds)
def test_select(run_op: Any, close: Any, chip: str, dtype: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = ((rng.standard_normal(n) * 1000).astype(KINDS.get(dtype, np.int32)) for _ in range(2))
    close(*run_op("Select", [rng.random(n) > 0.5, x, y], chip))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("n", [1, 31, 32, 1000, 5000])
def test_logic(run_op: Any, close: Any, chip: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.random(n) > 0.5, rng.random(n) > 0.5
    close(*run_op("LogicalAnd", [x, y], chip))
    close(*run_op("LogicalOr", [x, y], chip))
    close(*run_op("LogicalNot", [x], chip))


CASTS = [
    ("float16", 0),
    ("float32", 1),
    ("float16", 3),
    ("float32", 3),
    ("int32", 0),
    ("int32", 1),
    ("uint8", 1),
    ("int8", 0),
    ("float16", 2),
    ("float32", 4),
    ("uint8", 3),
    ("bool", 0),
    ("bool", 1),
    ("float32", 12),
    ("float16", 12),
    ("int64", 3),
    ("int32", 9),
    ("float32", 27),
]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("src", "dst"), CASTS)
def test_cast(run_op: Any, close: Any, chip: str, src: str, dst: int) -> None:
    rng = np.random.default_rng(dst)
    low, high = (0, 255) if src in ("uint8", "bool") else (-100, 100)
    for n in (5, 1000, 20000):
        x = rng.uniform(low, high, n)
        x = x > 128 if src == "bool" else x.astype(src)
        if dst == 4:
            x = np.abs(x)
        try:
            got, want = run_op("Cast", [x], chip, dst_type=dst)
        except NoKernel:
            assert {src, dst} & {"int64", 9, 27} and chip != "Ascend910B2"
            return
        close(got, want)


@relaxed
@given(
    chips,
    st.lists(
        st.sampled_from(
            (
                ("add",),
                ("mul",),
                ("relu",),
                ("hswish",),
                ("sigmoid",),
                ("clip", -1.0, 2.0),
                ("leaky_relu", 0.2),
                ("max",),
                ("swish",),
                ("muls", 0.5),
            )
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(("float16", "float32")),
    seeds,
)
def test_fused_chain(run_op: Any, close: Any, chip: str, steps: list[Any], dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 20, 5, 7)).astype(KINDS[dtype])
    extras = [
        rng.standard_normal((2, 20, 5, 7) if i % 2 else (1, 20, 1, 1)).astype(KINDS[dtype])
        for i, s in enumerate(steps)
        if s[0] in ("add", "mul", "max")
    ]
    formats = ("NC1HWC0",) * (1 + len(extras)) if dtype == "float16" else ()
    got, want = run_op("FusedElementwise", [x, *extras], chip, formats=formats, steps=tuple(steps))
    close(got, want, ulps=32 if chip == "Ascend310" else 8, absolute=2e-2 if dtype == "float16" else 4e-3)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910B2"])
@pytest.mark.parametrize("shapes", [((4, 1, 7, 9), (1, 1, 7, 1)), ((1, 1, 64, 64), (1, 1, 1, 64)), ((6, 1), (1, 64))])
def test_bytes_broadcast(run_op: Any, chip: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Masks that have one value per row."""
    a, b = (np.random.default_rng(i).random(s) > 0.5 for i, s in enumerate(shapes))
    (got,), _ = run_op("LogicalAnd", [a, b], chip)
    np.testing.assert_array_equal(got, a & b)
