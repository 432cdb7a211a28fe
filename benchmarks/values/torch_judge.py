"""Operator values against PyTorch (CPU, float64 where it matters): the same random cases as the kernels'.

`FUNCTIONS` maps an operator to the call of PyTorch that means the same. Both results are compared by the rule of
`benchmarks.values.rule`, on the type of the operator's result. Needs PyTorch; raises ImportError without.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.nn import functional as F

from ascend_sim.cli.table import render
from ascend_sim.graph import aipp
from benchmarks.values.cases import GENERATORS, SPLIT
from benchmarks.values.rule import Array, compare
from benchmarks.values.run import Case, operator_values

T = Any  # a tensor
Meaning = Callable[..., Any]
FUNCTIONS: dict[str, Meaning] = {}


def means(*names: str) -> Callable[[Meaning], Meaning]:
    """Declare the PyTorch meaning of operators: ``f(tensors, attributes, operator)``."""

    def add(function: Meaning) -> Meaning:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return add


def simple(function: Callable[..., Any]) -> Meaning:
    return lambda x, a, op: function(*x)


FUNCTIONS |= {
    name: simple(function)
    for name, function in {
        "Relu": torch.relu, "Relu6": F.relu6, "Elu": F.elu, "Selu": F.selu, "Sigmoid": torch.sigmoid, "Swish": F.silu,
        "HardSwish": F.hardswish, "Softplus": F.softplus, "Softsign": F.softsign, "Mish": F.mish, "Tanh": torch.tanh,
        "Gelu": lambda x: F.gelu(x, approximate="tanh"), "Erf": torch.erf, "Erfc": torch.erfc, "Square": torch.square,
        "Abs": torch.abs, "Neg": torch.neg, "Sign": torch.sign, "Expm1": torch.expm1, "Floor": torch.floor,
        "Ceil": torch.ceil, "Round": torch.round, "Rint": torch.round, "Trunc": torch.trunc, "Sqrt": torch.sqrt,
        "Rsqrt": torch.rsqrt, "Reciprocal": torch.reciprocal, "Inv": torch.reciprocal, "Log1p": torch.log1p,
        "ZerosLike": torch.zeros_like, "OnesLike": torch.ones_like, "TensorMove": torch.clone, "Add": torch.add,
        "Sub": torch.sub, "Mul": torch.mul, "Maximum": torch.maximum, "Minimum": torch.minimum, "RealDiv": torch.div,
        "Div": torch.div, "Pow": torch.pow,
        "SquaredDifference": lambda x, y: (x - y) ** 2, "Equal": torch.eq, "NotEqual": torch.ne,
        "Less": torch.lt, "LessEqual": torch.le, "Greater": torch.gt, "GreaterEqual": torch.ge,
        "LogicalAnd": torch.logical_and, "LogicalOr": torch.logical_or, "LogicalNot": torch.logical_not,
        "Select": torch.where, "SelectV2": torch.where, "AddN": lambda *x: torch.stack(x).sum(0),
        "ReluGrad": lambda grad, y: grad * (y > 0), "PRelu": F.prelu, "ClipByValue": torch.clamp,
        "ClipByValueV2": torch.clamp, "FastGelu": lambda x: x * torch.sigmoid(1.702 * x),
    }.items()
}  # fmt: skip
FUNCTIONS |= {
    "LeakyRelu": lambda x, a, op: F.leaky_relu(x[0], a["negative_slope"]),
    "CeluV2": lambda x, a, op: F.celu(x[0], a["alpha"]),
    "HardSigmoid": lambda x, a, op: torch.clamp(x[0] * a["alpha"] + 0.5, 0, 1),
    "GeluV2": lambda x, a, op: F.gelu(x[0], approximate=a["approximate"]),
    "Exp": lambda x, a, op: torch.exp(x[0]) if a["base"] < 0 else a["base"] ** x[0],
    "Log": lambda x, a, op: torch.log(x[0]) if a["base"] < 0 else torch.log(x[0]) / np.log(a["base"]),
    "Muls": lambda x, a, op: x[0] * a["value"],
    "Adds": lambda x, a, op: x[0] + a["value"],
    "Power": lambda x, a, op: (x[0] * a["scale"] + a["shift"]) ** a["power"],
    "ClipByValueD": lambda x, a, op: torch.clamp(x[0], a["min"], a["max"]),
    "Fills": lambda x, a, op: torch.full_like(x[0], a["value"]),
    "Axpy": lambda x, a, op: x[0] + a["alpha"] * x[1],
    "Pack": lambda x, a, op: torch.stack(x, a["axis"]),
    "Unpack": lambda x, a, op: list(torch.unbind(x[0], a["axis"])),
    "TransposeD": lambda x, a, op: x[0].permute(a["perm"]),
    "Transpose": lambda x, a, op: x[0].permute(x[1].tolist()),
    "ConcatD": lambda x, a, op: torch.cat(x, a["concat_dim"]),
    "ConcatV2D": lambda x, a, op: torch.cat(x, a["concat_dim"]),
    "Concat": lambda x, a, op: torch.cat(x[1:], int(x[0][0])),
    "ConcatV2": lambda x, a, op: torch.cat(x[:-1], int(x[-1][0])),
    "SplitVD": lambda x, a, op: list(torch.split(x[0], a["size_splits"], a["split_dim"])),
    "SplitV": lambda x, a, op: list(torch.split(x[0], x[1].tolist(), int(x[2][0]))),
    "SplitD": lambda x, a, op: list(torch.chunk(x[0], a["num_split"], a["split_dim"])),
    "Split": lambda x, a, op: list(torch.chunk(x[1], a["num_split"], int(x[0][0]))),
    "Tile": lambda x, a, op: x[0].tile(x[1].tolist()),
    "TileD": lambda x, a, op: x[0].tile(a["multiples"]),
    "Gather": lambda x, a, op: x[0].index_select(0, x[1].long()),
    "GatherV2": lambda x, a, op: x[0].index_select(int(x[2][0]), x[1].long()),
    "GatherV2D": lambda x, a, op: x[0].index_select(a["axis"], x[1].long()),
    "SwiGlu": lambda x, a, op: F.silu(x[0].chunk(2, a["dim"])[0]) * x[0].chunk(2, a["dim"])[1],
    "BNInfer": lambda x, a, op: F.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=a["epsilon"]),
    "BNInferenceD": lambda x, a, op: F.batch_norm(x[0], x[1], x[2], x[3], x[4], eps=a["epsilon"]),
    "GroupNorm": lambda x, a, op: F.group_norm(x[0], a["num_groups"], x[1], x[2], a["eps"]),
    "GroupNormSilu": lambda x, a, op: F.silu(F.group_norm(x[0], a["num_groups"], x[1], x[2], a["eps"])),
    "GlobalAveragePool": lambda x, a, op: F.adaptive_avg_pool2d(x[0], 1),
    "GlobalMaxPool": lambda x, a, op: F.adaptive_max_pool2d(x[0], 1),
    "SoftmaxGrad": lambda x, a, op: (x[1] - (x[0] * x[1]).sum(-1, keepdim=True)) * x[0],
    "LogSoftmaxGrad": lambda x, a, op: x[0] - x[1].exp() * x[0].sum(-1, keepdim=True),
}


@means("Softmax", "SoftmaxV2", "LogSoftmaxV2")
def softmax(x: list[T], a: dict[str, Any], op: str) -> T:
    return (F.log_softmax if op.startswith("Log") else F.softmax)(x[0], a["axes"][0])


@means(*(f"Reduce{name}{d}" for name in ("Max", "Min", "Mean", "Sum", "Prod") for d in ("", "D")))
def reduce(x: list[T], a: dict[str, Any], op: str) -> T:
    axes = a["axes"] if op.endswith("D") else tuple(x[1].tolist())
    name = op.removeprefix("Reduce").removesuffix("D").lower()
    if name != "prod":
        return getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))(x[0], axes, keepdim=a["keep_dims"])
    y = x[0]
    for axis in sorted(axes, reverse=True):
        y = y.prod(axis, keepdim=a["keep_dims"])
    return y


@means("ArgMaxD", "ArgMinD")
def extreme(x: list[T], a: dict[str, Any], op: str) -> T:
    return (torch.argmax if "Max" in op else torch.argmin)(x[0], a["dimension"])


@means("LayerNorm", "LayerNormV3", "LayerNormV4")
def layer_norm(x: list[T], a: dict[str, Any], op: str) -> T:
    gamma, beta = x[-2:]
    return F.layer_norm(x[0], gamma.shape, gamma, beta, 1e-5)


@means("RmsNorm")
def rms_norm(x: list[T], a: dict[str, Any], op: str) -> T:
    return F.rms_norm(x[0], x[1].shape, x[1], 1e-6)


@means("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "GEMM")
def product(x: list[T], a: dict[str, Any], op: str) -> T:
    left, right = (t.swapaxes(-1, -2) if turn else t for t, turn in zip(x[:2], list(a.values())[:2], strict=True))
    return left @ right + (x[2] if len(x) > 2 and x[2] is not None and op != "GEMM" else 0)


@means("Conv2D", "DepthwiseConv2D")
def convolution(x: list[T], a: dict[str, Any], op: str) -> T:
    top, bottom, left, right = a["pads"]
    groups = x[0].shape[1] if op == "DepthwiseConv2D" else 1
    y = F.conv2d(F.pad(x[0], (left, right, top, bottom)), x[1], x[2], a["strides"][2:], groups=groups)
    for step in a["epilogue"]:
        y = {"relu": torch.relu, "hswish": F.hardswish}[step[0]](y)
    return y


@means("Conv2DTransposeD")
def transposed(x: list[T], a: dict[str, Any], op: str) -> T:
    return F.conv_transpose2d(x[0], x[1], x[2], a["strides"][2:])


@means("MaxPoolV3", "AvgPoolV2")
def pooling(x: list[T], a: dict[str, Any], op: str) -> T:
    top, bottom, left, right = a["pads"]
    if top != bottom or left != right or a["ceil_mode"]:
        return None
    window = (a["ksize"][2:], a["strides"][2:], (top, left))
    if op == "MaxPoolV3":
        return F.max_pool2d(x[0], *window)
    return F.avg_pool2d(x[0], *window, count_include_pad=not a["exclusive"])


@means("Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DBackpropFilter", "Conv2DBackpropFilterD")
def gradient(x: list[T], a: dict[str, Any], op: str) -> T:
    top, bottom, left, right = a["pads"]
    if top != bottom or left != right:
        return None
    x = [t for t in x if t.ndim == 4]
    window = {"stride": a["strides"][2:], "padding": (top, left)}
    if "Input" in op:
        return torch.nn.grad.conv2d_input(a["input_size"], x[0], x[1], **window)
    return torch.nn.grad.conv2d_weight(x[0], a["filter_size"], x[1], **window)


@means("FusedInferAttentionScore", "PromptFlashAttention", "IncreFlashAttention")
def attention(x: list[T], a: dict[str, Any], op: str) -> T:
    if a.get("sparse_mode", 0):
        return None
    q, k, v = (t if a["input_layout"] == "BNSD" else t.transpose(1, 2) for t in x[:3])
    y = F.scaled_dot_product_attention(q, k, v, scale=a.get("scale", a.get("scale_value")), enable_gqa=True)
    return y if a["input_layout"] == "BNSD" else y.transpose(1, 2)


@means("ApplyGradientDescent")
def descent(x: list[T], a: dict[str, Any], op: str) -> T:
    return x[0] - x[1] * x[2]


@means("ApplyMomentumD", "ApplyMomentum")
def momentum(x: list[T], a: dict[str, Any], op: str) -> T:
    var = torch.nn.Parameter(x[0].clone())
    step = torch.optim.SGD([var], lr=float(x[2]), momentum=float(x[4]), nesterov=a["use_nesterov"])
    step.state[var]["momentum_buffer"] = x[1].clone()
    var.grad = x[3]
    step.step()
    return var.detach()


@means("ApplyAdamWV2")
def adam_w(x: list[T], a: dict[str, Any], op: str) -> T:
    var = torch.nn.Parameter(x[0].clone())
    step = torch.optim.AdamW([var], a["lr"], (a["beta1"], a["beta2"]), a["eps"], a["weight_decay"])
    step.state[var] = {"step": torch.tensor(float(x[4][0]) - 1), "exp_avg": x[1].clone(), "exp_avg_sq": x[2].clone()}
    var.grad = x[3]
    step.step()
    return var.detach()


@means("FlashAttentionScoreGrad")
def attention_grad(x: list[T], a: dict[str, Any], op: str) -> list[T]:
    q, k, v = (t.transpose(1, 2).clone().requires_grad_() for t in x[:3])
    y = F.scaled_dot_product_attention(q, k, v, scale=a["scale_value"])
    y.backward(x[3].transpose(1, 2))
    return [t.grad.transpose(1, 2) for t in (q, k, v)]


def tensor(array: Array | None) -> T:
    """A tensor in double precision (integers and booleans as they are)."""
    if array is None:
        return None
    if array.dtype == ml_dtypes.bfloat16 or array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float64))
    return torch.from_numpy(array.copy())


def report(each: int, seed: int) -> list[str]:
    """Compare ``each`` cases of every operator that has a meaning here; print totals; return what breaks the rule."""
    aipp.declare()
    compared, failures, rows = 0, [], []
    for name in sorted(FUNCTIONS):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), 1])
        worst, ran = 0.0, 0
        for _ in range(each):
            case = GENERATORS[name](name, rng)
            error = _judge(case)
            if error is None:
                continue
            ran, worst = ran + 1, max(worst, error[0])
            if error[0] > 1:
                failures.append(f"{case}: {error[1]} ({error[0]:.3g} times the allowed error)")
        compared += ran
        rows.append([name, ran, f"{worst:.2f}"])
    print(render(["operator", "cases with PyTorch", "worst / allowed"], rows))
    print(f"\n{compared} cases of {len(rows)} operators compared with PyTorch {torch.__version__}, "
          f"{len(failures)} outside the rule")  # fmt: skip
    for text in failures[:40]:
        print(f"  {text}")
    return failures


def _judge(case: Case) -> tuple[float, str] | None:
    found = FUNCTIONS[case.op]([tensor(None if x is None else x.array) for x in case.inputs], case.attrs, case.op)
    if found is None:
        return None
    wanted = found if isinstance(found, list) else [found]
    values = operator_values(case)
    worst = (0.0, "")
    for got, want in zip(values, wanted, strict=False):
        verdict = compare(got, want.numpy().astype(got.dtype).reshape(got.shape), SPLIT)
        worst = max(worst, (verdict.error, verdict.what))
    return worst
