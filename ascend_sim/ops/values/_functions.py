"""Scalar functions on float32/float64 arrays that NumPy lacks, and the activations built from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Abramowitz and Stegun have no formula good enough for float32; these are W. J. Cody's rational approximations
# ("Rational Chebyshev approximations for the error function", Math. Comp. 23, 1969).
_ERF_A = (3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02, 3.20937758913846947e03,
          1.85777706184603153e-1)  # fmt: skip
_ERF_B = (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03)
_ERFC_C = (5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e01, 2.98635138197400131e02,
           8.81952221241769090e02, 1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03,
           2.15311535474403846e-8)  # fmt: skip
_ERFC_D = (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03,
           3.29079923573345963e03, 4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03)  # fmt: skip
_ERFC_P = (3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2,
           6.58749161529837803e-4, 1.63153871373020978e-2)  # fmt: skip
_ERFC_Q = (2.56852019228982242e00, 1.87295284992346725e00, 5.27905102951428412e-1, 6.05183413124413191e-2,
           2.33520497626869185e-3)  # fmt: skip


def _ratio(z: Array, p: tuple[float, ...], q: tuple[float, ...]) -> Array:
    """Cody's nesting: the last coefficient of ``p`` leads, the one before it is the constant."""
    num, den = p[-1] * z, z.copy()
    for a, b in zip(p[:-2], q[:-1], strict=True):
        num = (num + a) * z
        den = (den + b) * z
    result: Array = (num + p[-2]) / (den + q[-1])
    return result


def erf(x: Array) -> Array:
    """Error function, at float64 accuracy, in the dtype of ``x``."""
    flat = np.asarray(x, np.float64).reshape(-1)
    y = np.abs(flat)
    out = np.empty_like(flat)
    small = y <= 0.46875
    out[small] = flat[small] * _ratio(flat[small] ** 2, _ERF_A, _ERF_B)
    middle = (y > 0.46875) & (y <= 4.0)
    t = y[middle]
    out[middle] = np.sign(flat[middle]) * (1.0 - np.exp(-t * t) * _ratio(t, _ERFC_C, _ERFC_D))
    large = y > 4.0
    t = np.minimum(y[large], 27.0)
    z = 1.0 / (t * t)
    tail = np.exp(-t * t) / t * (1.0 / np.sqrt(np.pi) - z * _ratio(z, _ERFC_P, _ERFC_Q))
    out[large] = np.sign(flat[large]) * (1.0 - tail)
    nan = np.isnan(flat)
    out[nan] = np.nan
    result: Array = out.reshape(np.shape(x)).astype(x.dtype if x.dtype.kind == "f" else np.float64)
    return result


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); the overflow of exp for very negative x gives the right limit 0."""
    with np.errstate(over="ignore"):
        y: Array = np.exp(-x)
    y += 1
    np.reciprocal(y, out=y)
    return y


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    result: Array = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return result


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    y: Array = x * x.dtype.type(alpha)
    y += x.dtype.type(beta)
    np.clip(y, 0, 1, out=y)
    return y


def hard_swish(x: Array) -> Array:
    """x * clip(x + 3, 0, 6) / 6."""
    y: Array = x + x.dtype.type(3)
    np.clip(y, 0, 6, out=y)
    y *= x
    y /= x.dtype.type(6)
    return y


def gelu_tanh(x: Array) -> Array:
    """GELU in the tanh form, which the Gelu operator computes."""
    inner = x.dtype.type(0.7978845608028654) * (x + x.dtype.type(0.044715) * x * x * x)
    result: Array = x.dtype.type(0.5) * x * (1 + np.tanh(inner))
    return result


def gelu_erf(x: Array) -> Array:
    result: Array = x.dtype.type(0.5) * x * (1 + erf(x * x.dtype.type(0.7071067811865476)))
    return result


def leaky_relu(x: Array, slope: float | Array) -> Array:
    """x where x >= 0, slope * x elsewhere."""
    scaled: Array = x * np.asarray(slope, x.dtype)
    return np.where(x >= 0, x, scaled)


def elu(x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    kind = x.dtype.type
    negative = kind(alpha) * np.expm1(np.minimum(x, 0) * kind(input_scale))
    result: Array = kind(scale) * np.where(x > 0, x, negative)
    return result
