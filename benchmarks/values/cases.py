"""Random cases of every operator with a kernel: shapes, types, attributes, chips.

`GENERATORS` maps an operator to the function that draws one of its cases from a random generator. Sizes stay small, as
every instruction is run, but reach over several tiles and cores often enough.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.values.run import Array, Case, Operand

CHIPS = ("Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend910B2")
SPLIT = "Ascend910B2"
Rng = np.random.Generator
Generator = Callable[[str, Rng], Case]
GENERATORS: dict[str, Generator] = {}
SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 48, 64, 67, 100, 128)


def cases(*names: str) -> Callable[[Generator], Generator]:
    """Declare the generator of these operators."""

    def add(make: Generator) -> Generator:
        for name in names:
            GENERATORS[name] = make
        return make

    return add


# ---- drawing


def pick(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def some_chip(rng: Rng) -> str:
    return str(pick(rng, *CHIPS))


def shape_of(rng: Rng, low: int = 1, high: int = 4, most: int = 20000) -> tuple[int, ...]:
    """A shape of ``low`` to ``high`` axes with at most ``most`` elements."""
    while True:
        shape = tuple(int(rng.choice(SIZES)) for _ in range(int(rng.integers(low, high + 1))))
        if prod(shape) <= most:
            return shape


def floating(rng: Rng, chip: str) -> Any:
    """float16 or float32; bfloat16 too on the chip that has it."""
    return pick(rng, np.float16, np.float32, *((ml_dtypes.bfloat16,) if chip == SPLIT else ()))


def normal(rng: Rng, shape: tuple[int, ...], kind: Any, scale: float = 1.0) -> Array:
    return np.asarray(rng.standard_normal(shape) * scale).astype(kind)


def plain(*arrays: Array | None, const: tuple[int, ...] = ()) -> tuple[Operand | None, ...]:
    return tuple(None if a is None else Operand(a, const=i in const) for i, a in enumerate(arrays))


# ---- elementwise

UNARY: dict[str, tuple[dict[str, tuple[Any, ...]], str]] = {
    name: (attrs, kind)
    for kind, table in {
        "any": {
            "Relu": {}, "Relu6": {}, "LeakyRelu": {"negative_slope": (0.1, -2.0)}, "Elu": {}, "Selu": {},
            "CeluV2": {"alpha": (1.0, 0.5)}, "Sigmoid": {}, "Swish": {}, "HardSwish": {},
            "HardSigmoid": {"alpha": (0.2, 1 / 6)}, "Softplus": {}, "Softsign": {}, "Mish": {}, "Gelu": {},
            "GeluV2": {"approximate": ("none", "tanh")}, "FastGelu": {}, "Tanh": {}, "Erf": {}, "Erfc": {},
            "Square": {}, "Abs": {}, "Neg": {}, "Sign": {}, "Exp": {"base": (-1.0, 2.0)}, "Expm1": {},
            "Muls": {"value": (1.5, -0.25)}, "Adds": {"value": (2.0, -0.5)}, "Floor": {}, "Ceil": {}, "Round": {},
            "Rint": {}, "Trunc": {}, "Power": {"power": (2.0,), "scale": (0.5, 1.0), "shift": (0.0, 1.0)},
            "ClipByValueD": {"min": (-1.0,), "max": (0.5,)},
        },
        "positive": {"Sqrt": {}, "Rsqrt": {}, "Reciprocal": {}, "Inv": {}, "Log": {"base": (-1.0, 10.0)}, "Log1p": {}},
    }.items()
    for name, attrs in table.items()
}  # fmt: skip


@cases(*UNARY)
def unary(op: str, rng: Rng) -> Case:
    chip, (attrs, kind) = some_chip(rng), UNARY[op]
    dtype, shape = floating(rng, chip), shape_of(rng)
    x = rng.uniform(0.1, 4, shape).astype(dtype) if kind == "positive" else normal(rng, shape, dtype, 2)
    return Case(op, chip, plain(x), {k: pick(rng, *v) for k, v in attrs.items()})


@cases("ZerosLike", "OnesLike", "Fills", "TensorMove")
def fill(op: str, rng: Rng) -> Case:
    x = normal(rng, shape_of(rng), pick(rng, np.float16, np.float32, np.int32), 50)
    return Case(op, some_chip(rng), plain(x), {"value": 3.0} if op == "Fills" else {})


def broadcast_shapes(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    out = shape_of(rng)
    parts = []
    for _ in range(2):
        shape = tuple(1 if rng.random() < 0.25 else s for s in out)
        parts.append(shape[int(rng.integers(len(out))) if rng.random() < 0.5 else 0 :])
    return parts[0], parts[1]


@cases("Add", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "RealDiv", "Div")
def binary(op: str, rng: Rng) -> Case:
    chip, (a, b) = some_chip(rng), broadcast_shapes(rng)
    exact = op in ("Add", "Sub", "Mul", "Maximum", "Minimum")
    kind = np.int32 if exact and rng.random() < 0.2 else floating(rng, chip)
    x, y = (normal(rng, s, kind, 50 if exact else 1) for s in (a, b))
    if "Div" in op:
        y = (np.abs(y.astype(np.float32)) + 0.5).astype(kind)
    return Case(op, chip, plain(x, y))


@cases("Pow")
def power(op: str, rng: Rng) -> Case:
    chip, (a, b) = some_chip(rng), broadcast_shapes(rng)
    kind = floating(rng, chip)
    return Case(op, chip, plain(rng.uniform(0.5, 2, a).astype(kind), rng.uniform(-2, 2, b).astype(kind)))


@cases("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
def comparison(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng), pick(rng, np.float16, np.float32, np.int32)
    return Case(op, some_chip(rng), plain(*(np.round(normal(rng, shape, np.float32, 2)).astype(kind) for _ in "xy")))


@cases("LogicalAnd", "LogicalOr", "LogicalNot")
def logic(op: str, rng: Rng) -> Case:
    shape = shape_of(rng)
    return Case(op, some_chip(rng), plain(*(rng.random(shape) > 0.5 for _ in range(1 if op == "LogicalNot" else 2))))


@cases("Select", "SelectV2")
def select(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng), pick(rng, np.float16, np.float32, np.int32)
    x, y = (normal(rng, shape, kind, 1000) for _ in range(2))
    return Case(op, some_chip(rng), plain(rng.random(shape) > 0.5, x, y))


@cases("ClipByValue", "ClipByValueV2")
def clip(op: str, rng: Rng) -> Case:
    kind, const = pick(rng, np.float16, np.float32), pick(rng, (), (1, 2))
    low, high = np.asarray(-1, kind), np.asarray(0.5, kind)
    return Case(op, some_chip(rng), plain(normal(rng, shape_of(rng), kind), low, high, const=const))


@cases("PRelu")
def prelu(op: str, rng: Rng) -> Case:
    x = normal(rng, (2, int(rng.choice(SIZES)), 5, 7), np.float16)
    blocks = rng.random() < 0.5
    weight = normal(rng, (x.shape[1],), np.float16)
    if blocks:
        return Case(op, some_chip(rng), (Operand(x, "NC1HWC0"), Operand(weight)), outputs="NC1HWC0")
    return Case(op, some_chip(rng), plain(x, weight))


@cases("AddN")
def add_n(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng), pick(rng, np.float16, np.float32)
    return Case(op, some_chip(rng), plain(*(normal(rng, shape, kind) for _ in range(int(rng.integers(2, 5))))))


@cases("Axpy")
def axpy(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng), pick(rng, np.float16, np.float32)
    return Case(op, some_chip(rng), plain(normal(rng, shape, kind), normal(rng, shape, kind)), {"alpha": 0.5})


@cases("ReluGrad")
def relu_grad(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng), pick(rng, np.float16, np.float32)
    return Case(op, some_chip(rng), plain(normal(rng, shape, kind), normal(rng, shape, kind)))


CASTS = (("float16", 0), ("float32", 1), ("float16", 3), ("float32", 3), ("int32", 0), ("uint8", 1), ("int8", 0),
         ("float16", 2), ("float32", 4), ("uint8", 3), ("bool", 0), ("bool", 1), ("float32", 12), ("float16", 12),
         ("float32", 27))  # fmt: skip


@cases("Cast")
def cast(op: str, rng: Rng) -> Case:
    source, target = pick(rng, *CASTS)
    x = rng.uniform(*((0, 100) if source in ("uint8", "bool") or target == 4 else (-100, 100)), shape_of(rng))
    chip = SPLIT if target == 27 else some_chip(rng)
    return Case(op, chip, plain(x > 50 if source == "bool" else x.astype(source)), {"dst_type": target})


STEPS = (("add",), ("mul",), ("relu",), ("hswish",), ("sigmoid",), ("clip", -1.0, 2.0), ("leaky_relu", 0.2), ("max",),
         ("swish",), ("muls", 0.5))  # fmt: skip


@cases("FusedElementwise")
def fused(op: str, rng: Rng) -> Case:
    steps = tuple(pick(rng, *STEPS) for _ in range(int(rng.integers(1, 5))))
    shape = (2, int(rng.choice(SIZES)), 5, 7)
    others = [normal(rng, shape, np.float16) for s in steps if s[0] in ("add", "mul", "max")]
    inputs = tuple(Operand(a, "NC1HWC0") for a in (normal(rng, shape, np.float16), *others))
    return Case(op, some_chip(rng), inputs, {"steps": steps}, outputs="NC1HWC0")


@cases("SwiGlu")
def swiglu(op: str, rng: Rng) -> Case:
    shape = list(shape_of(rng, 1, 3))
    axis = int(rng.integers(len(shape)))
    shape[axis] *= 2
    return Case(op, SPLIT, plain(normal(rng, tuple(shape), floating(rng, SPLIT))), {"dim": axis})


@cases("RotaryPositionEmbedding")
def rotary(op: str, rng: Rng) -> Case:
    b, s, n, d = 2, int(rng.integers(1, 40)), int(rng.integers(1, 5)), int(pick(rng, 32, 64, 128))
    kind, table = floating(rng, SPLIT), (1, s, 1, d)
    return Case(op, SPLIT, plain(normal(rng, (b, s, n, d), kind), normal(rng, table, kind), normal(rng, table, kind)))


# ---- optimizers

SCALARS = {"beta1_power": 0.81, "beta2_power": 0.998, "lr": 0.01, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.999,
           "epsilon": 1e-6, "momentum": 0.9}  # fmt: skip


@cases("ApplyAdam", "ApplyAdamD", "ApplyAdamW", "ApplyAdamWV2", "ApplyMomentum", "ApplyMomentumD",
       "ApplyGradientDescent")  # fmt: skip
def optimizer(op: str, rng: Rng) -> Case:
    shape, chip, attrs = shape_of(rng), pick(rng, SPLIT, "Ascend910A"), {}
    var, m, grad = (normal(rng, shape, np.float32) for _ in range(3))
    v = rng.random(shape).astype(np.float32)

    def numbers(*names: str) -> list[Array]:
        return [np.asarray(SCALARS[n], np.float32) for n in names]

    adam = ("beta1", "beta2", "epsilon")
    if op == "ApplyAdamW":
        given = [var, m, v, *numbers("beta1_power", "beta2_power", "lr", "weight_decay", *adam), grad]
    elif op in ("ApplyAdam", "ApplyAdamD"):
        given = [var, m, v, *numbers("beta1_power", "beta2_power", "lr", *adam), grad]
    elif op == "ApplyAdamWV2":
        given = [var, m, v, grad, np.asarray([3], np.float32)]
        attrs = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-6}
    elif op == "ApplyGradientDescent":
        given = [var, *numbers("lr"), grad]
    else:
        given, attrs = [var, m, *numbers("lr"), grad, *numbers("momentum")], {"use_nesterov": rng.random() < 0.5}
    return Case(op, chip, plain(*given), attrs)


# ---- reductions and norms


@cases(*(f"Reduce{name}{d}" for name in ("Max", "Min", "Mean", "Sum", "Prod") for d in ("", "D")))
def reduction(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng, 1, 3), pick(rng, np.float16, np.float32)
    chosen = [i for i in range(len(shape)) if rng.random() < 0.5] or [len(shape) - 1]
    x = (1 + normal(rng, shape, np.float32, 0.01)).astype(kind) if "Prod" in op else normal(rng, shape, kind, 4)
    attrs: dict[str, Any] = {"keep_dims": bool(rng.random() < 0.5)}
    if op.endswith("D"):
        return Case(op, some_chip(rng), plain(x), {**attrs, "axes": tuple(chosen)})
    return Case(op, some_chip(rng), plain(x, np.asarray(chosen), const=(1,)), attrs)


@cases("Softmax", "SoftmaxV2", "LogSoftmaxV2")
def softmax(op: str, rng: Rng) -> Case:
    chip, shape = some_chip(rng), shape_of(rng, 1, 3)
    x = normal(rng, shape, floating(rng, chip), 4)
    return Case(op, chip, plain(x), {"axes": (int(rng.integers(len(shape))) if rng.random() < 0.3 else -1,)})


@cases("SoftmaxGrad", "LogSoftmaxGrad")
def softmax_grad(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng, 2, 2), floating(rng, SPLIT)
    x, grad = normal(rng, shape, np.float32, 2), normal(rng, shape, kind)
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    if op == "SoftmaxGrad":
        return Case(op, SPLIT, plain(p.astype(kind), grad), {"axes": (-1,)})
    return Case(op, SPLIT, plain(grad, np.log(p + 1e-9).astype(kind)), {"axis": (-1,)})


@cases("LayerNorm", "LayerNormV3", "LayerNormV4", "RmsNorm", "AddRmsNorm")
def row_norm(op: str, rng: Rng) -> Case:
    chip, rows, n = some_chip(rng), int(rng.integers(1, 40)), int(pick(rng, 16, 33, 64, 100, 300, 768, 2049))
    kind = floating(rng, chip)
    x, y = ((normal(rng, (rows, n), np.float32) + 1).astype(kind) for _ in range(2))
    gamma, beta = normal(rng, (n,), kind), normal(rng, (n,), kind)
    if op == "RmsNorm":
        return Case(op, chip, plain(x, gamma))
    if op == "AddRmsNorm":
        return Case(op, chip, plain(x, y, gamma))
    if op == "LayerNormV4":
        return Case(op, chip, plain(x, None, gamma, beta), {"normalized_shape": (n,)})
    return Case(op, chip, plain(x, gamma, beta), {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-5})


@cases("GroupNorm", "GroupNormSilu")
def group_norm(op: str, rng: Rng) -> Case:
    groups, kind = int(pick(rng, 1, 2, 4)), floating(rng, SPLIT)
    shape = (int(rng.integers(1, 4)), groups * int(rng.integers(1, 5)), int(rng.choice(SIZES)), int(rng.choice(SIZES)))
    x, gamma, beta = normal(rng, shape, kind), normal(rng, (shape[1],), kind), normal(rng, (shape[1],), kind)
    return Case(op, SPLIT, plain(x, gamma, beta), {"num_groups": groups, "eps": 1e-5})


@cases("BNInfer", "BNInferenceD")
def batch_norm(op: str, rng: Rng) -> Case:
    c = 16 * int(rng.integers(1, 4))
    fmt = pick(rng, "ND", "NC1HWC0")
    x = Operand(normal(rng, (2, c, 7, 9), np.float16), fmt)
    scale, offset, mean = (Operand(normal(rng, (c,), np.float32)) for _ in range(3))
    variance = Operand(rng.uniform(0.5, 2, c).astype(np.float32))
    inputs = (x, scale, offset, mean, variance) if op == "BNInfer" else (x, mean, variance, scale, offset)
    return Case(op, some_chip(rng), inputs, {"epsilon": 1e-5}, outputs=fmt)


@cases("LRN")
def response_norm(op: str, rng: Rng) -> Case:
    x = normal(rng, (2, int(rng.integers(1, 40)), int(rng.integers(1, 12)), int(rng.integers(1, 12))), np.float16)
    attrs = {"depth_radius": int(rng.integers(0, 4)), "bias": 1.0, "alpha": 0.1, "beta": float(pick(rng, 0.5, 0.75))}
    return Case(op, some_chip(rng), plain(x), attrs)


@cases("ArgMaxD", "ArgMinD", "ArgMaxV2", "ArgMin", "ArgMinV2")
def extreme(op: str, rng: Rng) -> Case:
    shape = shape_of(rng, 1, 3)
    x = rng.integers(-3, 4, shape).astype(pick(rng, np.float16, np.float32))
    axis = int(rng.integers(len(shape)))
    if op.endswith("D"):
        return Case(op, some_chip(rng), plain(x), {"dimension": axis})
    return Case(op, some_chip(rng), plain(x, np.asarray([axis]), const=(1,)))


@cases("DynamicQuant")
def dynamic_quant(op: str, rng: Rng) -> Case:
    rows, n = int(rng.integers(1, 60)), int(pick(rng, 33, 64, 1000, 4096))
    x = normal(rng, (rows, n), pick(rng, np.float16, ml_dtypes.bfloat16))
    smooth = normal(rng, (n,), np.float32).astype(x.dtype) if rng.random() < 0.5 else None
    return Case(op, SPLIT, plain(x) if smooth is None else plain(x, smooth), steps=1)


@cases("AscendQuant", "Quantize")
def quantise(op: str, rng: Rng) -> Case:
    x = normal(rng, shape_of(rng, 2, 3, 4000), np.float16)
    if op == "AscendQuant":
        return Case(op, some_chip(rng), plain(x), {"scale": 25.0, "offset": 3.0, "dst_type": 2}, steps=1)
    scale, zero = np.asarray(0.03, np.float32), np.asarray(int(rng.integers(-5, 5)), np.int8)
    return Case(op, some_chip(rng), plain(x, scale, zero, const=(1, 2)), {"dtype": 2, "axis": 1}, steps=1)


@cases("AscendDequant")
def dequantise(op: str, rng: Rng) -> Case:
    sums = rng.integers(-(1 << 20), 1 << 20, (1, int(rng.integers(1, 40)), 5, 7)).astype(np.int32)
    word = np.asarray([0.001], np.float32).view(np.uint32).astype(np.uint64)
    return Case(op, some_chip(rng), plain(sums, word, const=(1,)), {"dtype": 0})
