"""Elementwise operators as epilogue steps (the vocabulary of `ascend_sim.ops.epilogue`)."""

from __future__ import annotations

from typing import Any

from ascend_sim.graph.ir import Graph, Node

Step = tuple[Any, ...]

# Attribute that --op_select_implmode sets on operators, and its value for the faster, less exact sequence.
IMPL_MODE = "_op_impl_mode"
HIGH_PERFORMANCE = "high_performance"

_PLAIN = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Rsqrt": "rsqrt", "Reciprocal": "reciprocal", "Abs": "abs", "Neg": "neg", "Square": "square", "Erf": "erf",
    "HardSwish": "hswish", "Gelu": "gelu", "GeluV2": "gelu_erf", "Softplus": "softplus", "Mish": "mish",
}  # fmt: skip
_WITH_ATTRS: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "LeakyRelu": ("leaky_relu", (("negative_slope", 0.0),)),
    "HardSigmoid": ("hsigmoid", (("alpha", 0.16666666), ("beta", 0.5))),
    "Swish": ("swish", (("scale", 1.0),)),
    "Adds": ("adds", (("value", 0.0),)),
    "Muls": ("muls", (("value", 1.0),)),
}
# binary operator -> (step when the accumulator is the first operand, when it is the second)
_BINARY = {
    "Add": ("add", "add"), "Mul": ("mul", "mul"), "Sub": ("sub", "rsub"), "RealDiv": ("div", "rdiv"),
    "Maximum": ("max", "max"), "Minimum": ("min", "min"),
}  # fmt: skip
ELEMENTWISE = (*_PLAIN, *_WITH_ATTRS, *_BINARY, "ClipByValue", "FusedElementwise")


def unary_step(graph: Graph, node: Node) -> Step | None:
    """The step of an operator of one data input, or None."""
    fast = "fast_" if node.attrs.get(IMPL_MODE) == HIGH_PERFORMANCE and node.type in ("Sigmoid", "Swish") else ""
    if node.type in _PLAIN:
        if node.type in ("Exp", "Log") and node.attrs:
            return None
        return (fast + _PLAIN[node.type],)
    if node.type in _WITH_ATTRS:
        name, attrs = _WITH_ATTRS[node.type]
        return (fast + name, *(float(node.attrs.get(key, default)) for key, default in attrs))
    if node.type == "ClipByValue" and len(node.inputs) == 3:
        low, high = (graph.constants.get(n) for n in node.inputs[1:])
        if low is not None and high is not None and low.size == high.size == 1:
            return ("clip", float(low.reshape(-1)[0]), float(high.reshape(-1)[0]))
    return None


def binary_step(node: Node, accumulator: str) -> tuple[Step, str] | None:
    """(step, the other operand) of a two-operand operator applied to ``accumulator``, or None."""
    if node.type not in _BINARY or len(node.inputs) != 2 or node.inputs[0] == node.inputs[1]:
        return None
    index = node.inputs.index(accumulator)
    return (_BINARY[node.type][index],), node.inputs[1 - index]
