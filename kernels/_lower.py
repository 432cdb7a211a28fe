"""Vector instruction sequences of the elementwise functions, chip by chip.

Sequences follow the stock operators (stored copies of the TBE repository and ops-nn sources, restated) where those
are known: sigmoid is muls exp adds dup div, tanh nine instructions, GELU a clamped odd polynomial, exp and a
division. Functions take a `Builder` and registers of one floating type (float16 or float32) and return a register
of that type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ascend_sim.isa.enums import RoundMode
from ascend_sim.ops.registry import NoKernel

from ._program import Builder, Reg
from ._vector import legal

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

# Phi(x) = 1 / (1 + exp(-x (C0 + C1 x^2 + C2 x^4))) for |x| <= 5.75: largest error of x Phi(x) 2.6e-5 (own minimax fit).
_PHI = (1.59501576, 0.0740112968, -0.00070303425)
_PHI_LIMIT = 5.75
# Abramowitz and Stegun 7.1.26: |error| of erf <= 1.5e-7.
_ERF_P = 0.3275911
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_TINY = {"float32": 2.0**-126, "float16": 2.0**-24}
_INT_POWER_LIMIT = 8


def sigmoid(b: Builder, x: Reg) -> Reg:
    d = b.adds(b.exp(b.muls(x, -1.0)), 1.0)
    return b.div(b.dup(1.0, x.dtype, fresh=True), d) if b.has("vdiv", x.dtype) else b.reciprocal(d)


def fast_sigmoid(b: Builder, x: Reg) -> Reg:
    """--op_select_implmode=high_performance: the reciprocal instruction instead of a division."""
    return b.reciprocal(b.adds(b.exp(b.muls(x, -1.0)), 1.0))


def swish(b: Builder, x: Reg, scale: float = 1.0, gate: Callable[[Builder, Reg], Reg] = sigmoid) -> Reg:
    """One division on chips with vector cores. Coupled cores run what their fusion joins: Sigmoid, then Mul."""
    if b.soc.chip.split_cores:
        return b.div(x, b.adds(b.exp(b.muls(x, -scale)), 1.0))
    return b.mul(x, wide(b, gate, x if scale == 1.0 else b.muls(x, scale)))


def tanh(b: Builder, x: Reg) -> Reg:
    """x (1 - e) / ((1 + e) (|x| + tiny)) with e = exp(-2 |x|); 1 - 2 / (1 + exp(2 x)) where exp is half only."""
    if not b.has("vexp", "float32"):
        d = b.adds(b.exp(b.muls(x, 2.0)), 1.0)
        return b.adds(b.muls(b.reciprocal(d), -2.0), 1.0)
    a = b.abs(x)
    e = b.exp(b.muls(a, -2.0))
    top = b.sub(x, b.mul(x, e))
    return b.div(top, b.mul(b.adds(e, 1.0), b.adds(a, _TINY[x.dtype])))


def gelu_tanh(b: Builder, x: Reg) -> Reg:
    cube = b.mul(b.mul(x, x), x)
    inner = b.add(b.muls(cube, 0.044715), x)
    e = b.exp(b.muls(inner, -2 * math.sqrt(2 / math.pi)))
    return b.div(x, b.adds(e, 1.0))


def _phi_exponent(b: Builder, x: Reg, scale: float = 1.0) -> Reg:
    """-logit of the normal distribution function at ``scale * x``."""
    z = b.mins(b.maxs(x, -_PHI_LIMIT / scale), _PHI_LIMIT / scale)
    s = b.mul(z, z)
    c0, c1, c2 = (-c * scale ** (2 * i + 1) for i, c in enumerate(_PHI))
    return b.mul(b.adds(b.mul(b.adds(b.muls(s, c2), c1), s), c0), z)


def gelu_erf(b: Builder, x: Reg) -> Reg:
    return b.div(x, b.adds(b.exp(_phi_exponent(b, x)), 1.0))


def erf(b: Builder, x: Reg) -> Reg:
    y = b.abs(x)
    t = reciprocal(b, b.adds(b.muls(y, _ERF_P), 1.0))
    poly = b.muls(t, _ERF[4])
    for c in reversed(_ERF[:4]):
        poly = b.mul(b.adds(poly, c), t)
    e = b.exp(b.muls(b.mul(y, y), -1.0))
    magnitude = b.adds(b.muls(b.mul(poly, e), -1.0), 1.0)
    sign = b.div(x, b.adds(y, _TINY[x.dtype]))
    return b.mul(magnitude, sign)


def reciprocal(b: Builder, x: Reg) -> Reg:
    if b.has("vdiv", x.dtype):
        return b.div(b.dup(1.0, x.dtype, fresh=True), x)
    return b.reciprocal(x)


def rsqrt(b: Builder, x: Reg) -> Reg:
    if b.has("vdiv", x.dtype) and b.has("vsqrt", x.dtype):
        return reciprocal(b, b.sqrt(x))
    return b.rsqrt(x)


def hard_swish(b: Builder, x: Reg) -> Reg:
    return b.mul(x, b.muls(b.mins(b.relu(b.adds(x, 3.0)), 6.0), 1 / 6))


def hard_sigmoid(b: Builder, x: Reg, alpha: float = 1 / 6, beta: float = 0.5) -> Reg:
    return b.mins(b.relu(b.adds(b.muls(x, alpha), beta)), 1.0)


def softplus(b: Builder, x: Reg) -> Reg:
    return b.add(b.relu(x), b.ln(b.adds(b.exp(b.muls(b.abs(x), -1.0)), 1.0)))


def mish(b: Builder, x: Reg) -> Reg:
    """x n / (n + 2), n = e (e + 2), e = exp(x) with x clamped where the quotient is 1 to the last bit."""
    e = b.exp(b.mins(x, 20.0 if b.has("vexp", "float32") else 5.0))
    n = b.mul(e, b.adds(e, 2.0))
    return b.mul(x, b.div(n, b.adds(n, 2.0)))


def elu(b: Builder, x: Reg, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Reg:
    e = b.adds(b.exp(b.muls(b.mins(x, 0.0), input_scale)), -1.0)
    y = b.add(b.relu(x), b.muls(e, alpha))
    return b.muls(y, scale) if scale != 1.0 else y


def clip(b: Builder, x: Reg, low: float, high: float) -> Reg:
    y = x if low == -math.inf else b.maxs(x, low)
    y = y if high == math.inf else b.mins(y, high)
    return b.copy(x) if y is x else y


def pows(b: Builder, x: Reg, power: float) -> Reg:
    """x ** power: products for small integers, square root for halves, exp(power ln x) else (x >= 0 then)."""
    if power == 0.5:
        return b.sqrt(x)
    if power == -0.5:
        return rsqrt(b, x)
    if power == int(power) and 1 <= abs(power) <= _INT_POWER_LIMIT:
        result, base, n = None, x, abs(int(power))
        while n:
            if n & 1:
                result = base if result is None else b.mul(result, base)
            n >>= 1
            base = b.mul(base, base) if n else base
        assert result is not None
        return reciprocal(b, result) if power < 0 else result
    if power == int(power) or power <= 0:
        raise NoKernel(f"power {power} of possibly negative numbers has no vector sequence")
    return b.exp(b.muls(b.ln(x), power))


def sign(b: Builder, x: Reg) -> Reg:
    return b.sub(b.step01(x), b.step01(b.muls(x, -1.0)))


def prelu(b: Builder, x: Reg, slope: Reg) -> Reg:
    return b.add(b.relu(x), b.mul(b.mins(x, 0.0), slope))


def squared_difference(b: Builder, x: Reg, y: Reg) -> Reg:
    d = b.sub(x, y)
    return b.mul(d, d)


def wide(b: Builder, function: Callable[..., Reg], x: Reg, *parameters: Any) -> Reg:
    """``function`` in float32 on a half register, where the chip has a float32 exponential."""
    if x.dtype != "float16" or not b.has("vexp", "float32"):
        return function(b, x, *parameters)
    return b.cast(function(b, b.cast(x, "float32"), *parameters), "float16")


Unary = Callable[..., Reg]

# Names are those of `ascend_sim.ops.epilogue`; parameters follow the register.
UNARY: dict[str, Unary] = {
    "relu": lambda b, x: b.relu(x),
    "relu6": lambda b, x: b.mins(b.relu(x), 6.0),
    "clip": clip,
    "leaky_relu": lambda b, x, slope: b.leaky_relu(x, slope),
    "elu": elu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "exp": lambda b, x: b.exp(x),
    "log": lambda b, x: b.ln(x),
    "sqrt": lambda b, x: b.sqrt(x),
    "rsqrt": rsqrt,
    "reciprocal": reciprocal,
    "abs": lambda b, x: b.abs(x),
    "neg": lambda b, x: b.muls(x, -1.0),
    "square": lambda b, x: b.mul(x, x),
    "erf": erf,
    "erfc": lambda b, x: b.adds(b.muls(erf(b, x), -1.0), 1.0),
    "hswish": hard_swish,
    "hsigmoid": hard_sigmoid,
    "swish": swish,
    "fast_sigmoid": fast_sigmoid,
    "fast_swish": lambda b, x, scale=1.0: swish(b, x, scale, fast_sigmoid),
    "gelu": gelu_tanh,
    "gelu_erf": gelu_erf,
    "softplus": softplus,
    "softsign": lambda b, x: b.div(x, b.adds(b.abs(x), 1.0)),
    "mish": mish,
    "adds": lambda b, x, value: b.adds(x, value),
    "muls": lambda b, x, value: b.muls(x, value),
    "maxs": lambda b, x, value: b.maxs(x, value),
    "mins": lambda b, x, value: b.mins(x, value),
    "pows": pows,
    "sign": sign,
    "floor": lambda b, x: b.truncate(x, RoundMode.FLOOR),
    "ceil": lambda b, x: b.truncate(x, RoundMode.CEIL),
    "round": lambda b, x: b.truncate(x, RoundMode.RINT),
    "trunc": lambda b, x: b.truncate(x, RoundMode.TRUNC),
    "expm1": lambda b, x: b.adds(b.exp(x), -1.0),
    "log1p": lambda b, x: b.ln(b.adds(x, 1.0)),
}

BINARY: dict[str, Callable[[Builder, Reg, Reg], Reg]] = {
    "add": lambda b, x, y: b.add(x, y),
    "sub": lambda b, x, y: b.sub(x, y),
    "rsub": lambda b, x, y: b.sub(y, x),
    "mul": lambda b, x, y: b.mul(x, y),
    "div": lambda b, x, y: b.div(x, y),
    "rdiv": lambda b, x, y: b.div(y, x),
    "max": lambda b, x, y: b.max(x, y),
    "min": lambda b, x, y: b.min(x, y),
    "prelu": prelu,
    "squared_difference": squared_difference,
}

# Steps computed in the tensor's own half type; all others run in float32 where the chip can.
NATIVE_HALF = frozenset((
    "relu", "relu6", "clip", "leaky_relu", "abs", "neg", "square", "hswish", "hsigmoid", "adds", "muls", "maxs", "mins",
    "floor", "ceil", "round", "trunc", "add", "sub", "rsub", "mul", "div", "rdiv", "max", "min", "prelu",
))  # fmt: skip

# Steps that widen part of their work themselves.
GATED = frozenset(("swish", "fast_swish"))

Step = tuple[Any, ...]


def compute_dtype(soc: Soc, dtype: str, steps: Sequence[Step]) -> str:
    """The type a chain of steps is computed in: bf16 always in float32; fp16 natively when every step is plain
    arithmetic or when the chip has no float32 exp. On coupled cores fp16 chains stay fp16 between steps, and each
    step widens for itself: fused TBE operators keep their own casts."""
    native = all(s[0] in NATIVE_HALF for s in steps) or not legal(soc, "vexp", "float32")
    if dtype == "float16" and (native or not soc.chip.split_cores):
        return "float16"
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def apply_steps(b: Builder, x: Reg, steps: Sequence[Step], extras: Sequence[Reg]) -> Reg:
    """Record a chain of epilogue steps; each binary step takes the next of ``extras``. Raises `NoKernel` for a
    step without a sequence."""
    rest = iter(extras)
    for name, *parameters in steps:
        if name in BINARY:
            x = BINARY[name](b, x, next(rest))
        elif name in NATIVE_HALF or name in GATED:
            x = UNARY[name](b, x, *parameters)
        elif name in UNARY:
            x = wide(b, UNARY[name], x, *parameters)
        else:
            raise NoKernel(f"step {name!r} has no vector sequence")
    return x
