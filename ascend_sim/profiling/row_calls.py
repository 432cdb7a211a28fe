"""Calibration rows as operator calls: which registered operator a profiled kernel is, with which attributes.

``ADAPTERS`` maps the name in a row to the function that builds the call; names without an entry are taken as registry
names with the row's own attributes, completed from shapes. A row that does not map raises `NotPredicted` with the
reason: nothing is guessed that would change the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np

from ascend_sim import ops
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.profiling.calibration import OpRow, Tensor
from ascend_sim.profiling.row_shapes import (
    NotPredicted,
    concat_axis,
    gather_axis,
    matmul_transposes,
    permutation,
    real_format,
    reduced_axes,
    square_root,
    stacked_axis,
    window,
)

Specs = list["TensorSpec | None"]


@dataclass(frozen=True)
class Adapted:
    """Operator, inputs and attributes of a call; ``outputs`` only where inference cannot know them (storage formats
    that the row fixes)."""

    type: str
    inputs: Specs
    attrs: dict[str, Any]
    outputs: tuple[TensorSpec, ...] | None = None


Adapter = Callable[[OpRow], Adapted]


def call_of(row: OpRow) -> OpCall:
    """The operator call that a row measured. Raises `NotPredicted`."""
    adapted = ADAPTERS.get(row.op, _elementwise)(row)
    if not _registered(adapted.type):
        raise NotPredicted(f"operator {adapted.type} is not in the registry")
    if adapted.outputs is not None:
        return OpCall(adapted.type, tuple(adapted.inputs), adapted.outputs, freeze_attrs(adapted.attrs))
    try:
        call = ops.call(adapted.type, adapted.inputs, adapted.attrs)
    except ops.ShapeError as error:
        raise NotPredicted(str(error)) from error
    if row.outputs and call.outputs[0].size != _size(row.outputs[0].shape):
        got, want = list(call.outputs[0].shape), list(row.outputs[0].shape)
        raise NotPredicted(f"{adapted.type} gives {got}, the row shows {want}")
    return call


def _registered(op_type: str) -> bool:
    ops.load(kernels=False)
    if ops.find(op_type) is None:
        ops.load()  # a kernel package may bring operators of its own
    return ops.find(op_type) is not None


# ---- tensors


def _size(shape: Sequence[int]) -> int:
    size = 1
    for d in shape:
        size *= d
    return size


def nd(tensor: Tensor) -> TensorSpec:
    """A tensor by its storage shape, whatever its format: for operators that do not care."""
    return TensorSpec(tensor.shape, tensor.dtype)


def const(values: Sequence[int], dtype: str = "int64") -> TensorSpec:
    """A compile-time constant list of ints."""
    return TensorSpec((len(values),), dtype, const=np.asarray(values, numpy_dtype(dtype)).tobytes())


def feature_map(tensor: Tensor, channels: int | None = None) -> TensorSpec:
    """An NC1HWC0 (or NCHW) tensor; its padded channels count as channels unless ``channels`` says otherwise."""
    if real_format(tensor.shape, tensor.format) != "NC1HWC0":
        return TensorSpec(tensor.shape, tensor.dtype, "NCHW")
    n, c1, h, w, c0 = tensor.shape
    return TensorSpec(tensor.shape, tensor.dtype, "NC1HWC0", (n, channels or c1 * c0, h, w), "NCHW")


def _filter(tensor: Tensor, out: int, into: int, side: int) -> TensorSpec:
    if len(tensor.shape) == 4 and tensor.shape[-2] != 16:
        return TensorSpec(tensor.shape, tensor.dtype, "NCHW")
    return TensorSpec(tensor.shape, tensor.dtype, "FRACTAL_Z", (out, into, side, side), "NCHW")


def _output(row: OpRow, index: int = 0) -> Tensor | None:
    return row.outputs[index] if index < len(row.outputs) else None


def _need_output(row: OpRow) -> Tensor:
    found = _output(row)
    if found is None:
        raise NotPredicted(f"{row.op} needs the row's output shape")
    return found


def _need_inputs(row: OpRow, count: int) -> tuple[Tensor, ...]:
    if len(row.inputs) < count:
        raise NotPredicted(f"{row.op} has {len(row.inputs)} inputs in the row; expected {count}")
    return row.inputs


# ---- matrix products


def _matmul(row: OpRow) -> Adapted:
    a, b, *rest = _need_inputs(row, 2)
    if len(b.shape) > 2:  # a flattened operand shown with its original axes
        b = Tensor((b.shape[0], _size(b.shape[1:])), b.dtype)
    if len(a.shape) > 2:
        a = Tensor((_size(a.shape[:-1]), a.shape[-1]), a.dtype)
    out = _output(row)
    shape = out.shape if out else None
    ta, tb = _given(row, "transpose_x1", "transpose_x2") or matmul_transposes(a.shape, b.shape, shape)
    bias = nd(rest[0]) if rest else None
    return Adapted(row.op, [nd(a), nd(b), bias], {"transpose_x1": ta, "transpose_x2": tb})


def _batch_matmul(row: OpRow) -> Adapted:
    a, b, *rest = _need_inputs(row, 2)
    out = _output(row)
    shape = out.shape if out else None
    ta, tb = _given(row, "adj_x1", "adj_x2") or matmul_transposes(a.shape, b.shape, shape)
    return Adapted(row.op, [nd(a), nd(b), nd(rest[0]) if rest else None], {"adj_x1": ta, "adj_x2": tb})


def _given(row: OpRow, first: str, second: str) -> tuple[bool, bool] | None:
    if first in row.attrs or second in row.attrs:
        return bool(row.attrs.get(first, False)), bool(row.attrs.get(second, False))
    return None


def _quant_matmul(row: OpRow) -> Adapted:
    """Rows list x1, x2, scale and then those of offset, pertoken_scale, bias that the attributes do not null."""
    x1, x2, scale, *rest = _need_inputs(row, 3)
    optional: dict[str, TensorSpec | None] = {"offset": None, "pertoken_scale": None, "bias": None}
    present = [name for name in optional if not (name in row.attrs and row.attrs[name] is None)]
    for name, tensor in zip(present, rest, strict=False):
        optional[name] = nd(tensor)
    out = _output(row)
    shape = out.shape if out else None
    ta, tb = _given(row, "transpose_x1", "transpose_x2") or matmul_transposes(x1.shape, x2.shape, shape)
    dtype = str(row.attrs.get("output_dtype") or (out.dtype if out else "float16"))
    factor = nd(scale)
    if dtype != "bfloat16" and optional["pertoken_scale"] is None and factor.dtype == "float32":
        factor = TensorSpec(factor.shape, "uint64")  # TransQuantParamV2 has packed it before: a kernel of its own
    inputs = [nd(x1), nd(x2), factor, optional["offset"], optional["bias"], optional["pertoken_scale"]]
    return Adapted("QuantBatchMatmulV3", inputs, {"dtype": dtype, "transpose_x1": ta, "transpose_x2": tb})


def _grouped_matmul(row: OpRow) -> Adapted:
    """x [M, K], weight [E, K, N] (or [E, N, K] transposed), bias [E, N]; ``group_list`` holds running row counts."""
    x, weight, *rest = _need_inputs(row, 2)
    groups = row.attrs.get("group_list")
    if not isinstance(groups, list):
        raise NotPredicted("GroupedMatmul needs group_list: the split of rows decides the work")
    attrs = {
        "split_item": int(row.attrs.get("split_item", 0)),
        "transpose_weight": bool(row.attrs.get("transpose_weight", False)),
        "group_type": 0,
        "group_list_type": 0,
    }
    return Adapted("GroupedMatmul", [nd(x), nd(weight), nd(rest[0]) if rest else None, const(groups)], attrs)


# ---- convolution


@dataclass(frozen=True)
class _Conv:
    """Geometry of a convolution recovered from a feature map, its filter and its result."""

    x: TensorSpec
    w: TensorSpec
    y: TensorSpec
    attrs: dict[str, Any]


def _conv_of(x: Tensor, w: Tensor, y: Tensor, row: OpRow) -> _Conv:
    """Square filters and equal strides per axis; fp32 runs in HF32, torch's default for convolutions."""
    xs = feature_map(x)
    channels = xs.logical_shape[1]
    blocks = x.shape[1] if xs.format == "NC1HWC0" else -(-channels // 16)
    if len(w.shape) == 4 and w.shape[-2] == 16:
        side = square_root(w.shape[0] // blocks)
        out_channels = feature_map(y).logical_shape[1]
    else:
        side, out_channels = w.shape[-1], w.shape[0]
    ys = feature_map(y, out_channels)
    _, stride, pad = window(xs.logical_shape[2], ys.logical_shape[2], side)
    attrs = {
        "strides": (1, 1, stride, stride),
        "pads": (pad,) * 4,
        "dilations": (1, 1, 1, 1),
        "groups": 1,
        "data_format": "NCHW",
        **({"enable_hf32": True} if x.dtype == "float32" else {}),
        **row.attrs,
    }
    return _Conv(xs, _filter(w, out_channels, channels, side), ys, attrs)


def _conv2d(row: OpRow) -> Adapted:
    x, w, *rest = _need_inputs(row, 2)
    conv = _conv_of(x, w, _need_output(row), row)
    return Adapted("Conv2D", [conv.x, conv.w, nd(rest[0]) if rest else None], conv.attrs, (conv.y,))


def _conv2d_backprop_input(row: OpRow) -> Adapted:
    """Rows show [input_size,] filter, out_backprop; MindSpore's put out_backprop first."""
    tensors = [t for t in row.inputs if len(t.shape) > 1]
    if len(tensors) != 2:
        raise NotPredicted("Conv2DBackpropInput needs a filter and an out_backprop in the row")
    w, dy = tensors if len(tensors[0].shape) == 4 and len(tensors[1].shape) != 4 else tensors[::-1]
    conv = _conv_of(_need_output(row), w, dy, row)
    attrs = {**conv.attrs, "input_size": conv.x.logical_shape}
    size = const(conv.x.logical_shape, "int32")
    return Adapted("Conv2DBackpropInput", [size, conv.w, conv.y], attrs, (conv.x,))


def _conv2d_backprop_filter(row: OpRow) -> Adapted:
    """Rows show x, [filter_size,] out_backprop, or MindSpore's out_backprop, x; the filter's shape tells which."""
    tensors = [t for t in row.inputs if len(t.shape) > 1]
    dw = _need_output(row)
    if len(tensors) != 2 or len(dw.shape) != 4 or any(len(t.shape) != 5 for t in tensors):
        raise NotPredicted("Conv2DBackpropFilter needs x and out_backprop as NC1HWC0 and a FRACTAL_Z result")
    for x, dy in (tensors, tensors[::-1]):
        if dw.shape[0] % x.shape[1] == 0 and dw.shape[1] * 16 == dy.shape[1] * dy.shape[-1]:
            conv = _conv_of(x, dw, dy, row)
            attrs = {**conv.attrs, "filter_size": conv.w.logical_shape}
            size = const(conv.w.logical_shape, "int32")
            return Adapted("Conv2DBackpropFilter", [conv.x, size, conv.y], attrs, (_stored_gradient(conv.w, row),))
    raise NotPredicted(f"no x and out_backprop among the inputs fit a filter of {list(dw.shape)}")


def _stored_gradient(dw: TensorSpec, row: OpRow) -> TensorSpec:
    """The stock kernel of cores that share L0C with the vector unit writes float32 only (registration of
    Conv2DBackpropFilter in mindspore-ai/mindspore; type check of the TBE kernel). Profiles of MindSpore show the
    network's type instead."""
    if dw.dtype == "float16" and row.source.startswith("mindspore-ai/"):
        return replace(dw, dtype="float32")
    return dw


# ---- pooling


def _pool_attrs(x: TensorSpec, y: TensorSpec) -> dict[str, Any]:
    kernel, stride, pad = window(x.logical_shape[2], y.logical_shape[2])
    return {
        "ksize": (1, 1, kernel, kernel),
        "strides": (1, 1, stride, stride),
        "padding_mode": "CALCULATED",
        "pads": (pad,) * 4,
        "data_format": "NCHW",
    }


def _max_pool(row: OpRow) -> Adapted:
    x, y = feature_map(_need_inputs(row, 1)[0]), feature_map(_need_output(row))
    return Adapted(row.op, [x], {**_pool_attrs(x, y), **row.attrs}, (y,))


def _max_pool_grad(row: OpRow) -> Adapted:
    x, y, dy = (feature_map(t) for t in _need_inputs(row, 3)[:3])
    return Adapted("MaxPoolGrad", [x, y, dy], {**_pool_attrs(x, y), **row.attrs}, (x,))


# ---- layout


def _transdata(row: OpRow) -> Adapted:
    """Formats by rank: 5 axes NC1HWC0, 4 axes ending in 16 x C0 FRACTAL_Z, else NCHW."""
    x, y = _need_inputs(row, 1)[0], _need_output(row)
    plain, packed = (x, y) if _packed(y, x) else (y, x)
    if len(packed.shape) == 5:
        fmt = "NC1HWC0"
    elif len(packed.shape) == 4 and packed.shape[-2] == 16:
        fmt = "FRACTAL_Z"
    else:
        raise NotPredicted(f"formats of {list(x.shape)} -> {list(y.shape)} are not clear")
    flat = TensorSpec(plain.shape, plain.dtype, "NCHW")
    block = TensorSpec(packed.shape, packed.dtype, fmt, plain.shape, "NCHW")
    source, target = (flat, block) if plain is x else (block, flat)
    attrs = {"src_format": source.format, "dst_format": target.format, "groups": 1}
    return Adapted("TransData", [source], attrs, (target,))


def _packed(tensor: Tensor, other: Tensor) -> bool:
    """Whether ``tensor`` is the one in a fractal format."""
    if len(tensor.shape) != len(other.shape):
        return len(tensor.shape) == 5
    return tensor.shape[-2] == 16 and tensor.shape[-1] in (8, 16, 32)


def _transpose(row: OpRow) -> Adapted:
    x = _need_inputs(row, 1)[0]
    perm = row.attrs.get("perm") or permutation(x.shape, _need_output(row).shape)
    return Adapted("Transpose", [nd(x), const(perm)], {})


# ---- vector operators


def _axis(row: OpRow, default: int = -1) -> int:
    for name in ("dim", "axis", "axes"):
        value = row.attrs.get(name)
        if value is not None:
            return int(value[0] if isinstance(value, list) else value)
    return default


def _softmax(row: OpRow) -> Adapted:
    return Adapted(row.op, [nd(t) for t in row.inputs], {"axes": (_axis(row),)})


def _softmax_grad(row: OpRow) -> Adapted:
    return Adapted(row.op, [nd(t) for t in row.inputs], {"axis": (_axis(row),)})


def _reduce(row: OpRow) -> Adapted:
    x = _need_inputs(row, 1)[0]
    if "axes" in row.attrs or "dim" in row.attrs or "axis" in row.attrs:
        given = row.attrs.get("axes", row.attrs.get("dim", row.attrs.get("axis")))
        axes = tuple(given) if isinstance(given, list) else (given,)
        keep = bool(row.attrs.get("keep_dims", row.attrs.get("keepdim", False)))
    else:
        axes, keep = reduced_axes(x.shape, _need_output(row).shape)
    return Adapted(row.op, [nd(x), const(axes)], {"keep_dims": keep})


def _cast(row: OpRow) -> Adapted:
    target = row.attrs.get("dst_type") or _need_output(row).dtype
    return Adapted("Cast", [nd(_need_inputs(row, 1)[0])], {"dst_type": target})


def _exp(row: OpRow) -> Adapted:
    """cann-bench's exp is base ** (scale x + shift), compiled by graph mode into one elementwise kernel."""
    base, scale, shift = (float(row.attrs.get(k, d)) for k, d in (("base", -1), ("scale", 1), ("shift", 0)))
    x = nd(_need_inputs(row, 1)[0])
    if not row.attrs:
        return Adapted("Exp", [x], {})
    steps: list[tuple[Any, ...]] = [("muls", scale)] if scale != 1 else []
    steps += [("adds", shift)] if shift else []
    steps += [("muls", log(base))] if base > 0 else []
    return Adapted("FusedElementwise", [x], {"steps": (*steps, ("exp",))})


def _gelu(row: OpRow) -> Adapted:
    """torch's gelu runs GeluV2 with ``approximate`` none (erf) or tanh."""
    if "approximate" in row.attrs:
        return Adapted("GeluV2", [nd(_need_inputs(row, 1)[0])], {"approximate": row.attrs["approximate"]})
    return Adapted(row.op, [nd(_need_inputs(row, 1)[0])], {})


def _swiglu(row: OpRow) -> Adapted:
    return Adapted(row.op, [nd(t) for t in row.inputs], {"dim": _axis(row)})


def _group_norm(row: OpRow) -> Adapted:
    attrs = {"num_groups": int(row.attrs["num_groups"]), "eps": float(row.attrs.get("epsilon", 1e-5)),
             "data_format": "NCHW", "is_training": True}  # fmt: skip
    return Adapted("GroupNorm", [nd(t) for t in row.inputs], attrs)


def _rms_norm(row: OpRow) -> Adapted:
    return Adapted(row.op, [nd(t) for t in row.inputs], {"epsilon": float(row.attrs.get("epsilon", 1e-6))})


def _elementwise(row: OpRow) -> Adapted:
    """Element by element: formats do not matter, attributes pass."""
    return Adapted(row.op, [nd(t) for t in row.inputs], dict(row.attrs))


def _arithmetic(row: OpRow) -> Adapted:
    """A pair of different types (float32 + bfloat16) has the output the row shows; inference wants one type."""
    mixed = len({t.dtype for t in row.inputs}) > 1 and bool(row.outputs)
    outputs = (nd(row.outputs[0]),) if mixed else None
    return Adapted(row.op, [nd(t) for t in row.inputs], dict(row.attrs), outputs)


# ---- attention


def _attention(row: OpRow) -> Adapted:
    """Inputs are B, S, H, D. A causal call with more than one query row carries the compressed 2048 x 2048 mask and
    sparse mode 3 (lower right), as torch_npu passes it."""
    q, k, v = _need_inputs(row, 3)[:3]
    heads, dim = q.shape[2], q.shape[3]
    given = float(row.attrs.get("scaleValue", row.attrs.get("scale_value", row.attrs.get("scale", -1.0))))
    scale = given if given > 0 else 1 / sqrt(dim)
    causal = bool(row.attrs.get("is_causal", False)) and q.shape[1] > 1
    mask = TensorSpec((2048, 2048), "bool") if causal else None
    common = {"input_layout": "BSND", "sparse_mode": 3 if causal else 0}
    if row.op == "FlashAttentionScore":
        attrs = {"scale_value": scale, "keep_prob": 1.0, "head_num": heads, **common}
        return Adapted(row.op, [nd(q), nd(k), nd(v), None, None, None, mask], attrs)
    attrs = {"num_heads": heads, "scale": scale, "num_key_value_heads": k.shape[2], **common}
    return Adapted("FusedInferAttentionScore", [nd(q), nd(k), nd(v), None, mask], attrs)


# ---- movement


def _concat(row: OpRow) -> Adapted:
    axis = row.attrs.get("concat_dim", row.attrs.get("axis", row.attrs.get("dim")))
    if axis is None:
        axis = concat_axis([t.shape for t in row.inputs if t.shape], _need_output(row).shape)
    rank = max(len(t.shape) for t in row.inputs)
    return Adapted("ConcatD", [nd(t) for t in row.inputs if len(t.shape) == rank], {"concat_dim": int(axis)})


def _split(row: OpRow) -> Adapted:
    x = max(row.inputs, key=lambda t: _size(t.shape))
    if not row.outputs:
        raise NotPredicted("a split needs the row's outputs")
    axis = row.attrs.get("split_dim")
    if axis is None:
        axis = concat_axis([t.shape for t in row.outputs], x.shape)
    sizes = tuple(t.shape[axis] for t in row.outputs)
    return Adapted("SplitVD", [nd(x)], {"split_dim": int(axis), "num_split": len(sizes), "size_splits": sizes})


def _pack(row: OpRow) -> Adapted:
    axis = row.attrs.get("axis")
    if axis is None:
        axis = stacked_axis(_need_inputs(row, 1)[0].shape, len(row.inputs), _need_output(row).shape)
    return Adapted("Pack", [nd(t) for t in row.inputs], {"axis": int(axis), "N": len(row.inputs)})


def _slice(row: OpRow) -> Adapted:
    """Where a slice starts does not show in a profile: from the origin, with unit strides."""
    x, out = _need_inputs(row, 1)[0], _need_output(row).shape
    if len(out) != len(x.shape):
        raise NotPredicted(f"a slice of {list(x.shape)} with dropped axes ({list(out)}) is not clear")
    attrs = {"begin": (0,) * len(out), "end": tuple(out), "strides": (1,) * len(out)}
    return Adapted("StridedSliceD", [nd(x)], attrs)


def _gather(row: OpRow) -> Adapted:
    x, indices = _need_inputs(row, 2)[:2]
    axis = row.attrs.get("axis", row.attrs.get("dim"))
    if axis is None:
        axis = gather_axis(x.shape, indices.shape, _need_output(row).shape)
    return Adapted("GatherV2", [nd(x), nd(indices), const([int(axis)], "int32")], {"axis": int(axis)})


def _tile(row: OpRow) -> Adapted:
    x, out = _need_inputs(row, 1)[0], _need_output(row).shape
    padded = (1,) * (len(out) - len(x.shape)) + x.shape
    return Adapted("Tile", [nd(x), const([o // max(i, 1) for o, i in zip(out, padded, strict=True)])], {})


def _broadcast_to(row: OpRow) -> Adapted:
    return Adapted("BroadcastTo", [nd(_need_inputs(row, 1)[0]), const(_need_output(row).shape)], {})


ADAPTERS: Mapping[str, Adapter] = {
    **dict.fromkeys(("MatMul", "MatMulV2", "MatMulV3"), _matmul),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matmul),
    **dict.fromkeys(("QuantBatchMatmulV3", "QuantBatchMatmulV4"), _quant_matmul),
    "GroupedMatmul": _grouped_matmul,
    "Conv2D": _conv2d,
    "Conv2DBackpropInput": _conv2d_backprop_input,
    "Conv2DBackpropFilter": _conv2d_backprop_filter,
    **dict.fromkeys(("MaxPool", "MaxPoolV3", "AvgPoolV2"), _max_pool),
    "MaxPoolGrad": _max_pool_grad,
    "TransData": _transdata,
    **dict.fromkeys(("Transpose", "TransposeD"), _transpose),
    **dict.fromkeys(("SoftmaxV2", "LogSoftmaxV2"), _softmax),
    **dict.fromkeys(("SoftmaxGrad", "LogSoftmaxGrad"), _softmax_grad),
    **{f"Reduce{kind}": _reduce for kind in ("Sum", "Mean", "Max", "Min", "Prod", "Any", "All")},
    "Cast": _cast,
    "Exp": _exp,
    **dict.fromkeys(("Gelu", "GeluV2"), _gelu),
    **dict.fromkeys(("Add", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum"), _arithmetic),
    "SwiGlu": _swiglu,
    "GroupNorm": _group_norm,
    "RmsNorm": _rms_norm,
    **dict.fromkeys(("FlashAttentionScore", "FusedInferAttentionScore"), _attention),
    **dict.fromkeys(("ConcatD", "Concat", "ConcatV2", "ConcatV2D"), _concat),
    **dict.fromkeys(("SplitD", "SplitVD", "Split", "SplitV"), _split),
    "Pack": _pack,
    **dict.fromkeys(("Slice", "SliceD", "StridedSlice", "StridedSliceD"), _slice),
    "GatherV2": _gather,
    **dict.fromkeys(("Tile", "TileD"), _tile),
    **dict.fromkeys(("BroadcastTo", "BroadcastToD"), _broadcast_to),
}
