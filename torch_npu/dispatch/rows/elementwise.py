"""Elementwise operators: one input, two inputs with promotion and broadcasting, comparisons, activations."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_npu.dispatch.plan import (
    FLOATS,
    HALVES,
    INTEGERS,
    REALS,
    NoPlan,
    Plan,
    Scalar,
    T,
    number_spec,
    scalar_of,
    wrapped,
)
from torch_npu.dispatch.rows._common import binary_operands, compute_type, float_type, same_layout
from torch_npu.dispatch.table import row

# ---- one input: ATen name -> (Ascend operator, result is a floating type)

UNARY: dict[str, tuple[str, bool]] = {
    "abs": ("Abs", False), "neg": ("Neg", False), "sign": ("Sign", False), "square": ("Square", False),
    "exp": ("Exp", True), "exp2": ("Exp2", True), "expm1": ("Expm1", True), "log": ("Log", True),
    "log1p": ("Log1p", True),
    "log2": ("Log2", True), "log10": ("Log10", True), "sqrt": ("Sqrt", True), "rsqrt": ("Rsqrt", True),
    "reciprocal": ("Reciprocal", True), "sin": ("Sin", True), "cos": ("Cos", True), "tan": ("Tan", True),
    "asin": ("Asin", True), "acos": ("Acos", True), "atan": ("Atan", True), "sinh": ("Sinh", True),
    "cosh": ("Cosh", True), "tanh": ("Tanh", True), "asinh": ("Asinh", True), "acosh": ("Acosh", True),
    "atanh": ("Atanh", True), "erf": ("Erf", True), "erfc": ("Erfc", True), "sigmoid": ("Sigmoid", True),
    "erfinv": ("Erfinv", True), "lgamma": ("Lgamma", True), "digamma": ("Digamma", True), "sinc": ("Sinc", True),
    "floor": ("Floor", False), "ceil": ("Ceil", False), "trunc": ("Trunc", False), "frac": ("Frac", False),
    "relu": ("Relu", False), "relu6": ("Relu6", False), "silu": ("Swish", True), "mish": ("Mish", True),
    "hardswish": ("HardSwish", True), "log_sigmoid": ("LogSigmoid", True), "deg2rad": ("Deg2rad", True),
    "rad2deg": ("Rad2deg", True), "special_entr": ("Entr", True),


}  # fmt: skip
_KEEP_INTEGERS = frozenset(("floor", "ceil", "trunc"))


def _unary(name: str, op_type: str, to_float: bool) -> Any:
    def build(plan: Plan, self: T) -> Any:
        if self.dtype not in REALS:
            raise NoPlan(f"type {self.dtype}")
        dtype = float_type(self) if to_float else self.dtype
        if self.dtype == torch.bool and not to_float:
            raise NoPlan("bool")
        x, back = same_layout(plan, plan.cast(self, dtype))
        if name in _KEEP_INTEGERS and self.dtype in INTEGERS:
            return back(x)
        return back(plan.op(op_type, [x]))

    return build


for _name, (_type, _float) in UNARY.items():
    row(_name)(_unary(_name, _type, _float))


@row("round")
def round_(plan: Plan, self: T, decimals: int = 0) -> Any:
    if self.dtype not in REALS or self.dtype == torch.bool:
        raise NoPlan("type")
    if self.dtype in INTEGERS:
        return self
    if decimals == 0:
        return plan.op("Round", [self])
    factor = 10.0 ** abs(decimals)
    up, down = ("Mul", "RealDiv") if decimals > 0 else ("RealDiv", "Mul")
    return plan.op(down, [plan.op("Round", [plan.op(up, [self, scalar_of(factor)])]), scalar_of(factor)])


@row("sgn")
def sgn(plan: Plan, self: T) -> Any:
    if self.dtype not in FLOATS | INTEGERS:
        raise NoPlan("type")
    return plan.op("Sign", [self])


@row("bitwise_not")
def bitwise_not(plan: Plan, self: T) -> Any:
    if self.dtype == torch.bool:
        return plan.op("LogicalNot", [self])
    if self.dtype not in INTEGERS:
        raise NoPlan("type")
    return plan.op("Invert", [self])


@row("logical_not")
def logical_not(plan: Plan, self: T) -> Any:
    return plan.op("LogicalNot", [as_bool(plan, self)])


def as_bool(plan: Plan, x: Any) -> Any:
    if isinstance(x, Scalar):
        return Scalar(bool(x.value), torch.bool, x.real)
    if x.dtype not in REALS:
        raise NoPlan("type")
    return x if x.dtype == torch.bool else plan.op("NotEqual", [x, scalar_of(0)])


@row("isnan")
def isnan(plan: Plan, self: T) -> Any:
    return _check(plan, self, "IsNan", False)


@row("isfinite")
def isfinite(plan: Plan, self: T) -> Any:
    return _check(plan, self, "IsFinite", True)


@row("isinf")
def isinf(plan: Plan, self: T) -> Any:
    return _check(plan, self, "IsInf", False)


def _check(plan: Plan, self: T, op_type: str, otherwise: bool) -> Any:
    if self.dtype not in REALS:
        raise NoPlan("type")
    if self.dtype not in FLOATS:
        return plan.fill(self.shape, otherwise, torch.bool)
    return plan.op(op_type, [self])


@row("isposinf")
def isposinf(plan: Plan, self: T) -> Any:
    return _signed_infinity(plan, self, math.inf)


@row("isneginf")
def isneginf(plan: Plan, self: T) -> Any:
    return _signed_infinity(plan, self, -math.inf)


def _signed_infinity(plan: Plan, self: T, value: float) -> Any:
    if self.dtype not in REALS:
        raise NoPlan("type")
    if self.dtype not in FLOATS:
        return plan.fill(self.shape, False, torch.bool)
    return plan.op("Equal", [self, scalar_of(value)])


@row("signbit")
def signbit(plan: Plan, self: T) -> Any:
    if self.dtype not in REALS:
        raise NoPlan("type")
    if self.dtype in FLOATS:
        return plan.op("SignBits", [self])
    if self.dtype in (torch.bool, torch.uint8):
        return plan.fill(self.shape, False, torch.bool)
    return plan.op("Less", [self, scalar_of(0)])


@row("nan_to_num")
def nan_to_num(plan: Plan, self: T, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if self.dtype not in FLOATS:
        if self.dtype in REALS:
            return self
        raise NoPlan("type")
    info = torch.finfo(self.dtype)
    return plan.op(
        "NanToNum", [self], nan=0.0 if nan is None else float(nan),
        posinf=info.max if posinf is None else float(posinf), neginf=info.min if neginf is None else float(neginf),
    )  # fmt: skip


# ---- activations with parameters


def _half_or_single(x: T) -> T:
    if x.dtype not in FLOATS:
        raise NoPlan(f"type {x.dtype}")
    return x


def number(value: Any) -> Any:
    return value.value if isinstance(value, Scalar) else value


@row("gelu")
def gelu(plan: Plan, self: T, approximate: str = "none") -> Any:
    x, back = same_layout(plan, _half_or_single(self))
    return back(plan.op("GeluV2", [x], approximate=approximate))


@row("leaky_relu")
def leaky_relu(plan: Plan, self: T, negative_slope: Any = 0.01) -> Any:
    return plan.op("LeakyRelu", [_half_or_single(self)], negative_slope=float(number(negative_slope)))


@row("elu")
def elu(plan: Plan, self: T, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    return plan.op("Elu", [_half_or_single(self)], alpha=float(number(alpha)), scale=float(number(scale)),
                   input_scale=float(number(input_scale)))  # fmt: skip


@row("celu")
def celu(plan: Plan, self: T, alpha: Any = 1.0) -> Any:
    return plan.op("CeluV2", [_half_or_single(self)], alpha=float(number(alpha)))


@row("selu")
def selu(plan: Plan, self: T) -> Any:
    return plan.op("Selu", [_half_or_single(self)])


@row("hardsigmoid")
def hardsigmoid(plan: Plan, self: T) -> Any:
    return plan.op("HardSigmoid", [_half_or_single(self)], alpha=1 / 6, beta=0.5)


@row("hardtanh")
def hardtanh(plan: Plan, self: T, min_val: Any = -1, max_val: Any = 1) -> Any:
    if self.dtype == torch.bool:
        raise NoPlan("bool")
    return clip(plan, self, number(min_val), number(max_val), self.dtype)


def clip(plan: Plan, x: T, low: Any, high: Any, dtype: torch.dtype) -> T:
    x = plan.cast(x, dtype)
    if low is not None:
        x = plan.op("Maximum", [x, scalar_of(low)])
    if high is not None:
        x = plan.op("Minimum", [x, scalar_of(high)])
    return x


@row("clamp")
def clamp(plan: Plan, self: T, min: Any = None, max: Any = None) -> Any:
    operands = [v for v in (min, max) if v is not None]
    dtype = compute_type(self, *operands)
    if dtype not in REALS or dtype == torch.bool:
        raise NoPlan("type")
    x = plan.cast(self, dtype)
    for bound, op_type in ((min, "Maximum"), (max, "Minimum")):
        if bound is None:
            continue
        if isinstance(bound, T):
            x = plan.op(op_type, [x, plan.cast(bound, dtype)])
        else:
            if dtype in FLOATS and float(number(bound)) != float(number(bound)):
                return plan.fill(self.shape, math.nan, dtype)
            x = plan.op(op_type, [x, scalar_of(number(bound))])
    return x


@row("clamp_min")
def clamp_min(plan: Plan, self: T, min: Any) -> Any:
    return clamp(plan, self, min=min)


@row("clamp_max")
def clamp_max(plan: Plan, self: T, max: Any) -> Any:
    return clamp(plan, self, max=max)


@row("softplus")
def softplus(plan: Plan, self: T, beta: Any = 1, threshold: Any = 20) -> Any:
    return plan.op("SoftplusV2", [_half_or_single(self)], beta=float(number(beta)), threshold=float(number(threshold)))


@row("softshrink")
def softshrink(plan: Plan, self: T, lambd: Any = 0.5) -> Any:
    return plan.op("SoftShrink", [_half_or_single(self)], lambd=float(number(lambd)))


@row("hardshrink")
def hardshrink(plan: Plan, self: T, lambd: Any = 0.5) -> Any:
    return plan.op("HardShrink", [_half_or_single(self)], lambd=float(number(lambd)))


@row("threshold")
def threshold(plan: Plan, self: T, threshold: Any, value: Any) -> Any:
    if self.dtype == torch.bool or self.dtype not in REALS:
        raise NoPlan("type")
    return plan.op("ThresholdV2", [self], threshold=number(threshold), value=number(value))


@row("logit")
def logit(plan: Plan, self: T, eps: Any = None) -> Any:
    x = plan.cast(self, float_type(self))
    return plan.op("Logit", [x], eps=-1.0 if eps is None else float(number(eps)))


@row("_prelu_kernel")
def prelu(plan: Plan, self: T, weight: T) -> Any:
    x = _half_or_single(self)
    return plan.op("LeakyReluTensor", [x, plan.cast(weight, x.dtype)])


@row("log_sigmoid_forward", writes=False)
def log_sigmoid_forward(plan: Plan, self: T) -> Any:
    x = _half_or_single(self)
    return plan.op("LogSigmoid", [x]), plan.op("ZerosLike", [x])


# ---- two inputs

BINARY: dict[str, tuple[str, str]] = {
    # ATen -> (Ascend operator, kind of types: "real", "float" (true division), "integer")
    "maximum": ("Maximum", "real"), "minimum": ("Minimum", "real"), "atan2": ("Atan2", "float"),
    "fmod": ("Mod", "real"), "remainder": ("FloorMod", "real"), "hypot": ("Hypot", "floating"),
    "bitwise_and": ("BitwiseAnd", "integer"), "bitwise_or": ("BitwiseOr", "integer"),
    "bitwise_xor": ("BitwiseXor", "integer"), "bitwise_left_shift": ("LeftShift", "integer"),
    "bitwise_right_shift": ("RightShift", "integer"), "__lshift__": ("LeftShift", "integer"),
    "__rshift__": ("RightShift", "integer"), "fmax": ("Fmax", "real"), "fmin": ("Fmin", "real"),
    "logaddexp": ("LogAddExp", "floating"), "logaddexp2": ("LogAddExp2", "floating"), "xlogy": ("Xlogy", "float"),
    "special_xlog1py": ("Xlog1py", "float"), "copysign": ("CopySign", "float"),
    "gcd": ("Gcd", "integer"), "lcm": ("Lcm", "integer"),

}  # fmt: skip
_BITS = {"BitwiseAnd": "LogicalAnd", "BitwiseOr": "LogicalOr", "BitwiseXor": "LogicalXor"}


def two(plan: Plan, op_type: str, a: Any, b: Any, dtype: torch.dtype, loose_first: bool = False) -> T:
    """A binary operator on operands cast to ``dtype``."""
    a, b, back = binary_operands(plan, a, b, dtype)
    return back(plan.op(op_type, [a, b]))


def _binary(op_type: str, kind: str) -> Any:
    def build(plan: Plan, self: Any, other: Any) -> Any:
        dtype = compute_type(self, other)
        if kind == "float" and dtype in INTEGERS | {torch.bool}:
            dtype = torch.get_default_dtype()
        if dtype not in REALS or (kind == "floating" and dtype not in FLOATS):
            raise NoPlan(f"type {dtype}")
        used = op_type
        if kind == "integer":
            if dtype == torch.bool:
                used = _BITS.get(op_type, "")
            if dtype in FLOATS or not used:
                raise NoPlan(f"type {dtype}")
        elif dtype == torch.bool:
            used = {"Maximum": "LogicalOr", "Minimum": "LogicalAnd", "Fmax": "LogicalOr", "Fmin": "LogicalAnd"}.get(
                op_type, ""
            )
            if not used:
                raise NoPlan("bool")
        if op_type in ("Mod", "FloorMod") and dtype in INTEGERS and (isinstance(other, T) or number(other) == 0):
            raise NoPlan("division by zero must be an error")
        return two(plan, used, self, other, dtype)

    return build


for _name, (_type, _kind) in BINARY.items():
    row(_name)(_binary(_type, _kind))


@row("heaviside")
def heaviside(plan: Plan, self: T, values: T) -> Any:
    if self.dtype != values.dtype or self.dtype not in REALS or self.dtype == torch.bool:
        raise NoPlan("types")
    return two(plan, "Heaviside", self, values, self.dtype)


@row("add")
def add(plan: Plan, self: Any, other: Any, alpha: Any = 1) -> Any:
    return _sum(plan, self, other, number(alpha))


@row("sub")
def sub(plan: Plan, self: Any, other: Any, alpha: Any = 1) -> Any:
    alpha = number(alpha)
    if isinstance(other, Scalar) or not isinstance(other, T) or alpha != 1:
        return _sum(plan, self, other, -alpha)
    dtype = compute_type(self, other)
    if dtype not in REALS or dtype == torch.bool:
        raise NoPlan(f"type {dtype}")
    return two(plan, "Sub", self, other, dtype)


@row("rsub")
def rsub(plan: Plan, self: Any, other: Any, alpha: Any = 1) -> Any:
    if number(alpha) != 1:
        raise NoPlan("alpha")
    dtype = compute_type(self, other)
    if dtype not in REALS or dtype == torch.bool:
        raise NoPlan(f"type {dtype}")
    return two(plan, "Sub", other if isinstance(other, T) else scalar_of(other), self, dtype)


def _sum(plan: Plan, self: Any, other: Any, alpha: Any) -> Any:
    dtype = compute_type(self, other)
    if dtype not in REALS:
        raise NoPlan(f"type {dtype}")
    if dtype == torch.bool:
        if alpha not in (1, True):
            raise NoPlan("bool")
        return two(plan, "LogicalOr", self, other, dtype)
    if not isinstance(self, T):
        if alpha != 1:
            raise NoPlan("alpha")
        return _sum(plan, other, self, 1)
    if not isinstance(other, T):
        x, back = same_layout(plan, plan.cast(self, dtype))
        return back(plan.op("Adds", [x], loose=("value",), value=wrapped(number(scalar_of(other)) * alpha, dtype)))
    if alpha == 1:
        return two(plan, "Add", self, other, dtype)
    a, b, back = binary_operands(plan, self, other, dtype)
    return back(plan.op("Axpy", [a, b], loose=("alpha",), alpha=wrapped(alpha, dtype)))


@row("mul")
def mul(plan: Plan, self: Any, other: Any) -> Any:
    dtype = compute_type(self, other)
    if dtype not in REALS:
        raise NoPlan(f"type {dtype}")
    if dtype == torch.bool:
        return two(plan, "LogicalAnd", self, other, dtype)
    if not isinstance(self, T):
        self, other = other, self
    if not isinstance(other, T):
        x, back = same_layout(plan, plan.cast(self, dtype))
        return back(plan.op("Muls", [x], loose=("value",), value=wrapped(number(scalar_of(other)), dtype)))
    return two(plan, "Mul", self, other, dtype)


@row("div")
def div(plan: Plan, self: Any, other: Any, rounding_mode: Any = None) -> Any:
    dtype = compute_type(self, other)
    if dtype not in REALS:
        raise NoPlan(f"type {dtype}")
    if rounding_mode is None:
        if dtype not in FLOATS:
            dtype = torch.get_default_dtype()
        return two(plan, "RealDiv", self, other, dtype)
    if dtype == torch.bool or (dtype in INTEGERS and (isinstance(other, T) or number(other) == 0)):
        raise NoPlan("division by zero must be an error")
    if rounding_mode == "floor":
        return two(plan, "FloorDiv", self, other, dtype)
    if dtype in INTEGERS:
        return two(plan, "TruncateDiv", self, other, dtype)
    return plan.op("Trunc", [two(plan, "RealDiv", self, other, dtype)])


@row("floor_divide")
def floor_divide(plan: Plan, self: Any, other: Any) -> Any:
    return div(plan, self, other, "floor")


@row("pow")
def pow_(plan: Plan, self: Any, exponent: Any) -> Any:
    dtype = compute_type(self, exponent)
    counted = dtype in INTEGERS and isinstance(self, T) and not isinstance(exponent, T) and number(exponent) >= 0
    if dtype not in FLOATS and not counted:
        raise NoPlan(f"type {dtype}")
    if isinstance(self, T) and not isinstance(exponent, T):
        value = number(scalar_of(exponent))
        x, back = same_layout(plan, plan.cast(self, dtype))
        if value == 2:
            return back(plan.op("Square", [x]))
        if value == 0.5 and dtype in FLOATS:
            return back(plan.op("Sqrt", [x]))
        if value == -0.5 and dtype in FLOATS:
            return back(plan.op("Rsqrt", [x]))
        if value == 1:
            return back(plan.op("TensorMove", [x]))
        if value == 3:
            return back(plan.op("Mul", [plan.op("Square", [x]), x]))
        if dtype in INTEGERS:
            raise NoPlan("integer power")
    return two(plan, "Pow", self, exponent, dtype)


COMPARE = {"eq": "Equal", "ne": "NotEqual", "lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}


def _compare(op_type: str) -> Any:
    def build(plan: Plan, self: Any, other: Any) -> Any:
        dtype = compute_type(self, other)
        if dtype not in REALS:
            raise NoPlan(f"type {dtype}")
        return two(plan, op_type, self, other, dtype)

    return build


for _name, _type in COMPARE.items():
    row(_name)(_compare(_type))

LOGICAL = {"logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_xor": "LogicalXor"}


def _logical(op_type: str) -> Any:
    def build(plan: Plan, self: Any, other: Any) -> Any:
        return plan.op(op_type, [as_bool(plan, self), as_bool(plan, other)])

    return build


for _name, _type in LOGICAL.items():
    row(_name)(_logical(_type))


@row("where", overloads="self self_out")
def where(plan: Plan, condition: T, self: Any, other: Any) -> Any:
    dtype = compute_type(self, other)
    if dtype not in REALS:
        raise NoPlan("type")
    if not isinstance(condition, T):
        raise NoPlan("condition on the host")
    if condition.dtype == torch.uint8:
        condition = plan.op("NotEqual", [condition, scalar_of(0)])
    operands = [plan.cast(x, dtype) if isinstance(x, T) else plan.fill((), number(x), dtype) for x in (self, other)]
    return plan.op("SelectV2", [condition, *operands])


@row("lerp")
def lerp(plan: Plan, self: T, end: T, weight: Any) -> Any:
    dtype = self.dtype
    if dtype not in FLOATS or end.dtype != dtype:
        raise NoPlan("type")
    if not isinstance(weight, T):
        weight = plan.fill((), number(weight), torch.float32 if dtype in HALVES else dtype)
        return plan.op("Lerp", [self, end, weight])
    return plan.op("Lerp", [self, end, plan.cast(weight, dtype)])


def _fused_add(op_type: str) -> Any:
    def build(plan: Plan, self: T, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
        dtype = compute_type(self, tensor1, tensor2)
        if dtype not in FLOATS and (op_type == "Addcdiv" or dtype not in INTEGERS):
            raise NoPlan("type")
        inputs = [plan.cast(x, dtype) if isinstance(x, T) else plan.fill((), number(x), dtype)
                  for x in (self, tensor1, tensor2)]  # fmt: skip
        # the factor is not rounded to a half type
        kind = torch.float32 if dtype in HALVES else dtype
        return plan.raw(op_type, [*inputs, number_spec(number(value), kind)], loose=(3,))

    return build


for _name, _type in (("addcmul", "Addcmul"), ("addcdiv", "Addcdiv")):
    row(_name)(_fused_add(_type))


# ---- gradients of activations: dy first, as ATen gives them

GRADIENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    # ATen -> (Ascend operator, ATen names of its inputs in the order of the operator)
    "sigmoid_backward": ("SigmoidGrad", ("output", "grad_output")),
    "tanh_backward": ("TanhGrad", ("output", "grad_output")),
    "silu_backward": ("SwishGrad", ("grad_output", "self")),
    "mish_backward": ("MishGrad", ("grad_output", "self")),
    "hardswish_backward": ("HardSwishGrad", ("grad_output", "self")),
    "hardsigmoid_backward": ("HardSigmoidGrad", ("grad_output", "self")),
    "log_sigmoid_backward": ("LogSigmoidGrad", ("grad_output", "self")),
}


def _gradient(op_type: str, names: tuple[str, ...]) -> Any:
    def build(plan: Plan, **given: Any) -> Any:
        tensors = [_half_or_single(given[n]) for n in names]
        if len({x.dtype for x in tensors}) > 1:
            raise NoPlan("types")
        shape = torch.broadcast_shapes(*(x.shape for x in tensors))
        return plan.op(op_type, [plan.broadcast(x, shape) for x in tensors])

    return build


for _name, (_type, _names) in GRADIENTS.items():
    row(_name)(_gradient(_type, _names))


@row("threshold_backward")
def threshold_backward(plan: Plan, grad_output: T, self: T, threshold: Any) -> Any:
    if grad_output.dtype != self.dtype or self.dtype not in FLOATS:
        raise NoPlan("types")
    g, x, back = binary_operands(plan, grad_output, self, self.dtype)
    if number(threshold) == 0:
        return back(plan.op("ReluGrad", [g, x]))
    return back(plan.op("ThresholdGradV2D", [g, x], threshold=float(number(threshold))))


@row("gelu_backward")
def gelu_backward(plan: Plan, grad_output: T, self: T, approximate: str = "none") -> Any:
    if grad_output.dtype != self.dtype:
        raise NoPlan("types")
    return plan.op("GeluGradV2", [_half_or_single(grad_output), self], approximate=approximate)


@row("leaky_relu_backward")
def leaky_relu_backward(plan: Plan, grad_output: T, self: T, negative_slope: Any, self_is_result: bool) -> Any:
    return plan.op("LeakyReluGrad", [grad_output, _half_or_single(self)], negative_slope=float(number(negative_slope)))


@row("hardtanh_backward")
def hardtanh_backward(plan: Plan, grad_output: T, self: T, min_val: Any, max_val: Any) -> Any:
    return plan.op("HardtanhGrad", [_half_or_single(self), grad_output], min_val=float(number(min_val)),
                   max_val=float(number(max_val)))  # fmt: skip


@row("elu_backward")
def elu_backward(plan: Plan, grad_output: T, alpha: Any, scale: Any, input_scale: Any, is_result: bool,
                 self_or_result: T) -> Any:  # fmt: skip
    return plan.op(
        "EluGradV2",
        [_half_or_single(grad_output), self_or_result],
        alpha=float(number(alpha)),
        scale=float(number(scale)),
        input_scale=float(number(input_scale)),
        is_result=bool(is_result),
    )


@row("softplus_backward")
def softplus_backward(plan: Plan, grad_output: T, self: T, beta: Any, threshold: Any) -> Any:
    return plan.op("SoftplusV2Grad", [_half_or_single(grad_output), self], beta=float(number(beta)),
                   threshold=float(number(threshold)))  # fmt: skip


@row("softshrink_backward")
def softshrink_backward(plan: Plan, grad_output: T, self: T, lambd: Any) -> Any:
    return plan.op("SoftShrinkGrad", [_half_or_single(grad_output), self], lambd=float(number(lambd)))


@row("hardshrink_backward")
def hardshrink_backward(plan: Plan, grad_out: T, self: T, lambd: Any) -> Any:
    return plan.op("HardShrinkGrad", [_half_or_single(grad_out), self], lambd=float(number(lambd)))


@row("_prelu_kernel_backward")
def prelu_backward(plan: Plan, grad_output: T, self: T, weight: T) -> Any:
    x = _half_or_single(self)
    return plan.op("PReluGradTensor", [grad_output, x, plan.cast(weight, x.dtype)])


@row("logit_backward")
def logit_backward(plan: Plan, grad_output: T, self: T, eps: Any = None) -> Any:
    return plan.op("LogitGrad", [_half_or_single(self), grad_output], eps=-1.0 if eps is None else float(number(eps)))


@row("glu")
def glu(plan: Plan, self: T, dim: int = -1) -> Any:
    return plan.op("GLU", [_half_or_single(self)], dim=dim)


@row("glu_backward")
def glu_backward(plan: Plan, grad_output: T, self: T, dim: int) -> Any:
    return plan.op("GLUGrad", [_half_or_single(grad_output), self], dim=dim)
