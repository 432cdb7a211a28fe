"""Steps of optimizers: elementwise programs over several tensors, all of them updated in float32.

The scalar unit reads the one-element inputs and combines them; the vector unit runs the sequences of the stock
operators (14 instructions for AdamW).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.optimizer import ADAM_W_V2

from ._map import Operand, plan_map
from ._program import Builder, Reg
from ._scalars import Expression

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_FLOATS = ("float16", "bfloat16", "float32")


def _plan(
    call: OpCall, soc: Soc, numbers: Sequence[int], step: Callable[[Builder, list[Reg], list[Expression]], list[Reg]],
    code: str = "elementwise",
) -> list[asc.Launch]:  # fmt: skip
    """``numbers`` are the inputs in use; ``step`` gets their tensors in float32 and their scalars as expressions."""
    first = call.inputs[numbers[0]]
    if first is None or first.size < 2:
        raise NoKernel(f"{call.type} of one element")
    for i in numbers:
        spec = call.inputs[i]
        if spec is None or spec.dtype not in (*_FLOATS, "int64", "int32"):
            raise NoKernel(f"{call.type} with input {i} of this type")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        tensors = [o.as_type(b, "float32") for o in operands if o.reg is not None]
        scalars: list[Expression] = [o.scalar for o in operands if o.reg is None and o.scalar is not None]
        results = step(b, tensors, scalars)
        return [b.cast(r, o.dtype) for r, o in zip(results, call.outputs, strict=False)]

    return plan_map(call, soc, make, inputs=numbers, code=code)


def _blend(b: Builder, old: Reg, new: Reg, rate: Expression) -> Reg:
    """rate old + (1 - rate) new."""
    return b.add(b.muls(old, rate), b.muls(new, ("sub", 1.0, rate)))


def _decoupled(
    b: Builder, tensors: Sequence[Reg], powers: tuple[Expression, Expression], p: Sequence[Expression], maximize: bool
) -> list[Reg]:
    """AdamW of var, m, v, grad; ``p`` is lr, decay, beta1, beta2, epsilon."""
    var, m, v, grad = tensors
    lr, decay, beta1, beta2, epsilon = p
    if maximize:
        grad = b.muls(grad, -1.0)
    m, v = _blend(b, m, grad, beta1), _blend(b, v, b.mul(grad, grad), beta2)
    deviation = b.adds(b.sqrt(b.muls(v, ("div", 1.0, ("sub", 1.0, powers[1])))), epsilon)
    update = b.div(b.muls(m, ("div", lr, ("sub", powers[0], 1.0))), deviation)
    return [b.add(b.muls(var, ("sub", 1.0, ("mul", lr, decay))), update), m, v]


@kernel("ApplyAdamW")
def plan_adam_w(call: OpCall, soc: Soc) -> list[asc.Launch]:
    if call.attr("amsgrad", False):
        raise NoKernel("ApplyAdamW with amsgrad")

    def step(b: Builder, tensors: list[Reg], s: list[Expression]) -> list[Reg]:
        powers = (("mul", s[0], s[4]), ("mul", s[1], s[5]))
        return _decoupled(b, tensors, powers, s[2:], bool(call.attr("maximize", False)))

    return _plan(call, soc, range(11), step)


@kernel("ApplyAdamWV2")
def plan_adam_w_v2(call: OpCall, soc: Soc) -> list[asc.Launch]:
    if call.attr("amsgrad", False):
        raise NoKernel("ApplyAdamWV2 with amsgrad")
    p: list[Expression] = [float(call.attr(n, d)) for n, d in ADAM_W_V2]

    def step(b: Builder, tensors: list[Reg], s: list[Expression]) -> list[Reg]:
        powers = (("pow", p[2], s[0]), ("pow", p[3], s[0]))
        return _decoupled(b, tensors, powers, p, bool(call.attr("maximize", False)))

    return _plan(call, soc, range(5), step, "ascendc")


@kernel("ApplyAdam", "ApplyAdamD")
def plan_adam(call: OpCall, soc: Soc) -> list[asc.Launch]:
    def step(b: Builder, tensors: list[Reg], s: list[Expression]) -> list[Reg]:
        var, m, v, grad = tensors
        power1, power2, lr, beta1, beta2, epsilon = s
        rate = ("div", ("mul", lr, ("sqrt", ("sub", 1.0, power2))), ("sub", power1, 1.0))
        m, v = _blend(b, m, grad, beta1), _blend(b, v, b.mul(grad, grad), beta2)
        used = _blend(b, m, grad, beta1) if call.attr("use_nesterov", False) else m
        return [b.add(var, b.div(b.muls(used, rate), b.adds(b.sqrt(v), epsilon))), m, v]

    return _plan(call, soc, range(10), step)


@kernel("ApplyMomentum", "ApplyMomentumD")
def plan_momentum(call: OpCall, soc: Soc) -> list[asc.Launch]:
    def step(b: Builder, tensors: list[Reg], s: list[Expression]) -> list[Reg]:
        var, accum, grad = tensors
        lr, momentum = s
        accum = b.add(b.muls(accum, momentum), grad)
        used = b.add(grad, b.muls(accum, momentum)) if call.attr("use_nesterov", False) else accum
        return [b.sub(var, b.muls(used, lr)), accum]

    return _plan(call, soc, range(5), step)


@kernel("ApplyGradientDescent")
def plan_descent(call: OpCall, soc: Soc) -> list[asc.Launch]:
    def step(b: Builder, tensors: list[Reg], s: list[Expression]) -> list[Reg]:
        var, delta = tensors
        return [b.sub(var, b.muls(delta, s[0]))]

    return _plan(call, soc, range(3), step)


@kernel("ReluGrad")
def plan_relu_grad(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Compare and select; multiplication by a step where the chip does not select by bits from UB."""
    x = call.inputs[0]
    if x is None or x.dtype not in _FLOATS:
        raise NoKernel("ReluGrad of this type")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        work = "float32" if x.dtype == "bfloat16" else x.dtype
        grad, features = (o.as_type(b, work) for o in operands)
        if b.selects:
            return [b.cast(b.select(b.compare("gt", features, 0.0), grad, 0.0), x.dtype)]
        return [b.cast(b.mul(grad, b.step01(features)), x.dtype)]

    return plan_map(call, soc, make)
