"""Steps fused behind another operator: what they are called, and their values.

A step is a tuple ``(name, *parameters)``. Steps run one after the other on the operator's result before its only
rounding. A step of `BINARY` consumes one further input of the operator, in order, appended after the operator's
declared inputs; ``FusedElementwise`` is such a chain by itself, starting from its first input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.values import _functions as fn

Array = NDArray[Any]
Step = tuple[Any, ...]

# name -> function of (accumulator, *parameters); the accumulator is float32 and may be overwritten.
UNARY: dict[str, Callable[..., Array]] = {
    "relu": lambda x: np.maximum(x, 0, out=x),
    "relu6": lambda x: np.clip(x, 0, 6, out=x),
    "clip": lambda x, lo, hi: np.clip(x, lo, hi, out=x),
    "leaky_relu": fn.leaky_relu,
    "elu": fn.elu,
    "sigmoid": fn.sigmoid,
    "tanh": lambda x: np.tanh(x, out=x),
    "exp": lambda x: np.exp(x, out=x),
    "log": lambda x: np.log(x, out=x),
    "sqrt": lambda x: np.sqrt(x, out=x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: np.reciprocal(x, out=x),
    "abs": lambda x: np.abs(x, out=x),
    "neg": lambda x: np.negative(x, out=x),
    "square": lambda x: np.square(x, out=x),
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "erf": fn.erf,
    "erfc": lambda x: 1 - fn.erf(x),
    "hswish": fn.hard_swish,
    "hsigmoid": lambda x, alpha=1 / 6, beta=0.5: fn.hard_sigmoid(x, alpha, beta),
    "swish": lambda x, scale=1.0: x * fn.sigmoid(x * np.float32(scale)),
    "fast_sigmoid": fn.sigmoid,
    "fast_swish": lambda x, scale=1.0: x * fn.sigmoid(x * np.float32(scale)),
    "gelu": fn.gelu_tanh,
    "gelu_erf": fn.gelu_erf,
    "softplus": fn.softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(fn.softplus(x)),
    "adds": lambda x, value: np.add(x, np.float32(value), out=x),
    "muls": lambda x, value: np.multiply(x, np.float32(value), out=x),
    "maxs": lambda x, value: np.maximum(x, np.float32(value), out=x),
    "mins": lambda x, value: np.minimum(x, np.float32(value), out=x),
    "pows": lambda x, value: np.power(x, np.float32(value), out=x),
}

# name -> function of (accumulator, further input)
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rdiv": lambda x, y: y / x,
    "max": np.maximum,
    "min": np.minimum,
    "squared_difference": lambda x, y: np.square(x - y),
    "prelu": fn.leaky_relu,
}


def check(steps: Sequence[Step], extras: int) -> None:
    """Raise ValueError for an unknown step, or when the number of further inputs is not what steps consume."""
    for step in steps:
        if not step or (step[0] not in UNARY and step[0] not in BINARY):
            raise ValueError(f"epilogue step {step!r} is unknown; expected one of {', '.join([*UNARY, *BINARY])}")
    wanted = sum(step[0] in BINARY for step in steps)
    if wanted != extras:
        raise ValueError(f"the epilogue {tuple(s[0] for s in steps)} consumes {wanted} further inputs, not {extras}")


def aligned(steps: Sequence[Step], extras: Sequence[Array], ndim: int) -> list[Array]:
    """Further inputs with ``ndim`` axes: leading axes of 1, and a PReLU's slopes along axis 1 (channels of NC...)."""
    names = [step[0] for step in steps if step[0] in BINARY]
    out = []
    for name, extra in zip(names, extras, strict=True):
        if name == "prelu" and extra.ndim == 1 and ndim > 1:
            out.append(extra.reshape(1, -1, *(1,) * (ndim - 2)))
        else:
            out.append(extra.reshape((1,) * (ndim - extra.ndim) + extra.shape))
    return out


def apply(result: Array, steps: Sequence[Step], extras: Iterator[Array]) -> Array:
    """Run the steps on a float32 ``result`` (overwritten where possible); ``extras`` come from `aligned`."""
    with np.errstate(all="ignore"):
        for name, *parameters in steps:
            if name in BINARY:
                other = next(extras)
                if other.dtype != np.float32:
                    other = other.astype(np.float32)
                result = BINARY[name](result, other)
            else:
                result = UNARY[name](result, *parameters)
    return result
