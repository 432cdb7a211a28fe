"""Layers: convolution, normalisation, pooling, resampling, recurrent cells."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, HALVES, NoPlan, Plan, T
from torch_npu.dispatch.table import row

_CUBE = frozenset((torch.float16, torch.bfloat16, torch.float32))


def pair(values: Any, count: int) -> list[int]:
    listed = list(values)
    return listed * count if len(listed) == 1 else listed


# ---- convolution: one spatial axis becomes two, three are left to the CPU


class _Conv:
    """Arguments of a convolution as the operators want them, [N, C, H, W]."""

    def __init__(
        self, plan: Plan, x: T, weight: T, stride: Any, padding: Any, dilation: Any, extra: Any = (0,)
    ) -> None:
        if x.dtype not in _CUBE or weight.dtype != x.dtype or 0 in x.shape or 0 in weight.shape:
            raise NoPlan("types")
        self.axes = x.ndim - 2
        if self.axes not in (1, 2):
            raise NoPlan("three spatial axes")
        self.stride, self.padding, self.dilation, self.extra = (
            pair(v, self.axes) for v in (stride, padding, dilation, extra)
        )
        if self.axes == 1:
            self.stride, self.dilation = [1, *self.stride], [1, *self.dilation]
            self.padding, self.extra = [0, *self.padding], [0, *self.extra]

    def up(self, plan: Plan, x: T) -> T:
        return plan.flat(x, (*x.shape[:2], 1, x.shape[2])) if self.axes == 1 else x

    def down(self, plan: Plan, x: T) -> T:
        return plan.flat(x, (*x.shape[:2], x.shape[3])) if self.axes == 1 else x

    @property
    def attrs(self) -> dict[str, Any]:
        h, w = self.padding
        return {"strides": [1, 1, *self.stride], "pads": [h, h, w, w], "dilations": [1, 1, *self.dilation],
                "data_format": "NCHW"}  # fmt: skip


def _depthwise(x: T, weight: T, groups: int) -> bool:
    return groups > 1 and groups == x.shape[1] and weight.shape[1] == 1 and weight.shape[0] == groups


@row("convolution_overrideable")
def convolution(plan: Plan, input: T, weight: T, bias: T | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Any:  # fmt: skip
    if bias is not None and bias.dtype != input.dtype:
        raise NoPlan("types")
    c = _Conv(plan, input, weight, stride, padding, dilation, output_padding)
    x, w = c.up(plan, input), c.up(plan, weight)
    if transposed:
        y = plan.op("Conv2DTransposeD", [x, w, bias], groups=groups, output_padding=[0, 0, *c.extra], **c.attrs)
    elif _depthwise(input, weight, groups):
        y = plan.op("DepthwiseConv2D", [x, w, bias], **c.attrs)
    else:
        y = plan.op("Conv2D", [x, w, bias], groups=groups, **c.attrs)
    return c.down(plan, y)


@row("convolution_backward_overrideable")
def convolution_backward(plan: Plan, grad_output: T, input: T, weight: T, stride: Any, padding: Any,
                         dilation: Any, transposed: bool, output_padding: Any, groups: int,
                         output_mask: list[bool]) -> Any:  # fmt: skip
    c = _Conv(plan, input, weight, stride, padding, dilation, output_padding)
    x, w, dy = c.up(plan, input), c.up(plan, weight), c.up(plan, grad_output)
    attrs = {"groups": groups, **c.attrs}
    dx = dw = db = None
    if output_mask[0]:
        if transposed:
            dx = plan.op("Conv2D", [dy, w, None], **attrs)
        else:
            dx = plan.op("Conv2DBackpropInputD", [w, dy], input_size=list(x.shape), **attrs)
        dx = c.down(plan, dx)
    if output_mask[1]:
        first, second = (dy, x) if transposed else (x, dy)
        dw = plan.op("Conv2DBackpropFilterD", [first, second], filter_size=list(w.shape), **attrs)
        dw = c.down(plan, dw)
    if output_mask[2]:
        db = plan.op("ReduceSumD", [dy], axes=[0, 2, 3], keep_dims=False)
    return dx, dw, db


# ---- batch normalisation


def _statistics_type(x: T, training: bool) -> torch.dtype:
    """Type of the batch's statistics, as torch_npu declares them (Ascend/op-plugin op_plugin_functions.yaml)."""
    return torch.float32 if x.dtype in HALVES and training else x.dtype


def _batch_norm(plan: Plan, x: T, weight: T | None, bias: T | None, mean: T | None, variance: T | None,
                training: bool, momentum: float, eps: float) -> Any:  # fmt: skip
    if x.dtype not in FLOATS or x.numel == 0:
        raise NoPlan("type")
    from torch_npu.dispatch.plan import DTYPES

    y, new_mean, new_variance, save_mean, save_rstd = plan.op(
        "BatchNormV3", [x, weight, bias, mean, variance], is_training=bool(training), momentum=float(momentum),
        epsilon=float(eps), stat_type=DTYPES[_statistics_type(x, training)],
    )  # fmt: skip
    if training:
        for value, target in ((new_mean, mean), (new_variance, variance)):
            if target is not None:
                plan.store(value, target)
    return y, save_mean, save_rstd


@row("native_batch_norm")
def native_batch_norm(plan: Plan, input: T, weight: Any, bias: Any, running_mean: Any, running_var: Any,
                      training: bool, momentum: float, eps: float) -> Any:  # fmt: skip
    return _batch_norm(plan, input, weight, bias, running_mean, running_var, training, momentum, eps)


@row("_native_batch_norm_legit")
def native_batch_norm_legit(
    plan: Plan,
    input: T,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float,
    eps: float,
    running_mean: Any = None,
    running_var: Any = None,
) -> Any:
    return _batch_norm(plan, input, weight, bias, running_mean, running_var, training, momentum, eps)


@row("_native_batch_norm_legit_no_training")
def batch_norm_no_training(plan: Plan, input: T, weight: Any, bias: Any, running_mean: T, running_var: T,
                           momentum: float, eps: float) -> Any:  # fmt: skip
    return _batch_norm(plan, input, weight, bias, running_mean, running_var, False, momentum, eps)


@row("_batch_norm_with_update")
def batch_norm_with_update(plan: Plan, input: T, weight: Any, bias: Any, running_mean: T, running_var: T,
                           momentum: float, eps: float) -> Any:  # fmt: skip
    y, mean, rstd = _batch_norm(plan, input, weight, bias, running_mean, running_var, True, momentum, eps)
    return y, mean, rstd, plan.fill((0,), 0, torch.uint8)


@row("native_batch_norm_backward")
def batch_norm_backward(
    plan: Plan,
    grad_out: T,
    input: T,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: list[bool],
) -> Any:
    if grad_out.dtype != input.dtype:
        raise NoPlan("types")
    saved = (save_mean, save_invstd) if train else (None, None)
    results = plan.op(
        "BatchNormGradV3", [grad_out, input, weight, running_mean, running_var, *saved], is_training=bool(train),
        epsilon=float(eps),
    )  # fmt: skip
    return tuple(r if m else None for r, m in zip(results, output_mask, strict=True))


# ---- layer and group normalisation


@row("native_layer_norm")
def layer_norm(plan: Plan, input: T, normalized_shape: list[int], weight: Any, bias: Any, eps: float) -> Any:
    if input.dtype not in FLOATS or not input.numel:
        raise NoPlan("type")
    y, mean, rstd = plan.op("LayerNormV4", [input, None, weight, bias], normalized_shape=list(normalized_shape),
                            epsilon=float(eps))  # fmt: skip
    if input.dtype == torch.float64:
        mean, rstd = plan.cast(mean, torch.float64), plan.cast(rstd, torch.float64)
    return y, mean, rstd


@row("native_layer_norm_backward")
def layer_norm_backward(plan: Plan, grad_out: T, input: T, normalized_shape: list[int], mean: T, rstd: T,
                        weight: Any, bias: Any, output_mask: list[bool]) -> Any:  # fmt: skip
    if grad_out.dtype != input.dtype:
        raise NoPlan("types")
    results = plan.op("LayerNormGradV3", [grad_out, input, rstd, mean, weight], normalized_shape=list(normalized_shape))
    return tuple(r if m else None for r, m in zip(results, output_mask, strict=True))


def _group_shape(input: T, N: int, C: int, HxW: int) -> tuple[int, ...]:
    return (N, C, HxW)


@row("native_group_norm")
def group_norm(plan: Plan, input: T, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int,
               eps: float) -> Any:  # fmt: skip
    if input.dtype not in FLOATS or not input.numel:
        raise NoPlan("type")
    x = plan.flat(input, _group_shape(input, N, C, HxW))
    y, mean, rstd = plan.op("GroupNorm", [x, weight, bias], num_groups=group, eps=float(eps), data_format="NCHW")
    return plan.flat(y, input.shape), mean, rstd


@row("native_group_norm_backward")
def group_norm_backward(plan: Plan, grad_out: T, input: T, mean: T, rstd: T, weight: Any, N: int, C: int,
                        HxW: int, group: int, output_mask: list[bool]) -> Any:  # fmt: skip
    if grad_out.dtype != input.dtype or not input.numel:
        raise NoPlan("types")
    shape = _group_shape(input, N, C, HxW)
    dx, dgamma, dbeta = plan.op(
        "GroupNormGrad", [plan.flat(grad_out, shape), plan.flat(input, shape), mean, rstd, weight], num_groups=group
    )
    results = (plan.flat(dx, input.shape), dgamma, dbeta)
    return tuple(r if m else None for r, m in zip(results, output_mask, strict=True))


# ---- pooling


def _planes(plan: Plan, x: T, axes: int) -> T:
    """[N, C, spatial...] with or without N."""
    if x.dtype not in FLOATS or not x.numel:
        raise NoPlan("type")
    return x if x.ndim == axes + 2 else plan.flat(x, (1, *x.shape))


def _unplanes(plan: Plan, y: T, x: T, axes: int) -> T:
    return y if x.ndim == axes + 2 else plan.flat(y, y.shape[1:])


def _max_pool(axes: int) -> Any:
    def build(plan: Plan, self: T, kernel_size: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
              ceil_mode: bool = False) -> Any:  # fmt: skip
        x = _planes(plan, self, axes)
        kernel = pair(kernel_size, axes)
        y, index = plan.op(
            "MaxPoolWithArgmaxV3", [x], ksize=kernel, strides=pair(stride, axes) if stride else kernel,
            pads=pair(padding, axes), dilations=pair(dilation, axes), ceil_mode=bool(ceil_mode),
        )  # fmt: skip
        return _unplanes(plan, y, self, axes), _unplanes(plan, index, self, axes)

    return build


row("max_pool2d_with_indices")(_max_pool(2))
row("max_pool3d_with_indices")(_max_pool(3))


def _max_pool_backward(axes: int) -> Any:
    def build(plan: Plan, grad_output: T, self: T, indices: T, **_: Any) -> Any:
        x, g, i = (plan.flat(t, (1, *t.shape)) if t.ndim < axes + 2 else t for t in (self, grad_output, indices))
        if self.dtype not in FLOATS or not grad_output.numel:
            raise NoPlan("type")
        return _unplanes(plan, plan.op("MaxPoolGradWithArgmaxV3", [x, g, i]), self, axes)

    return build


row("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward")(_max_pool_backward(2))
row("max_pool3d_with_indices_backward", "adaptive_max_pool3d_backward")(_max_pool_backward(3))


def _avg_pool(axes: int) -> Any:
    def build(plan: Plan, self: T, kernel_size: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
              count_include_pad: bool = True, divisor_override: Any = None) -> Any:  # fmt: skip
        x = _planes(plan, self, axes)
        kernel = pair(kernel_size, axes)
        strides, pads = (pair(stride, axes) if stride else kernel), pair(padding, axes)
        attrs: dict[str, Any] = {"ceil_mode": bool(ceil_mode), "exclusive": not count_include_pad,
                                 "divisor_override": divisor_override or 0}  # fmt: skip
        if axes == 2:
            h, w = pads
            y = plan.op("AvgPoolV2", [x], ksize=[1, 1, *kernel], strides=[1, 1, *strides], pads=[h, h, w, w],
                        padding_mode="CALCULATED", data_format="NCHW", **attrs)  # fmt: skip
        else:
            y = plan.op("AvgPoolNd", [x], ksize=kernel, strides=strides, pads=pads, **attrs)
        return _unplanes(plan, y, self, axes)

    return build


row("avg_pool2d")(_avg_pool(2))
row("avg_pool3d")(_avg_pool(3))


@row("avg_pool2d_backward")
def avg_pool2d_backward(plan: Plan, grad_output: T, self: T, kernel_size: Any, stride: Any, padding: Any,
                        ceil_mode: bool, count_include_pad: bool, divisor_override: Any) -> Any:  # fmt: skip
    from acl import _eager

    x, g = _planes(plan, self, 2), _planes(plan, grad_output, 2)
    kernel = pair(kernel_size, 2)
    strides, (h, w) = (pair(stride, 2) if stride else kernel), pair(padding, 2)
    size = torch.tensor(x.shape, dtype=torch.int64).numpy().tobytes()
    y = plan.raw(
        "AvgPoolV2Grad", [_eager.tensor_spec((4,), "int64", size), g], ksize=[1, 1, *kernel], strides=[1, 1, *strides],
        pads=[h, h, w, w], padding_mode="CALCULATED", data_format="NCHW", ceil_mode=bool(ceil_mode),
        exclusive=not count_include_pad, divisor_override=divisor_override or 0,
    )  # fmt: skip
    return _unplanes(plan, y, self, 2)


def _adaptive(axes: int) -> Any:
    def build(plan: Plan, self: T, output_size: Any) -> Any:
        if self.dtype not in FLOATS or not self.numel:
            raise NoPlan("type")
        out = pair(output_size, axes)
        if all(n == 1 for n in out):
            return plan.op("ReduceMeanD", [self], axes=list(range(self.ndim - axes, self.ndim)), keep_dims=True)
        return plan.op("AdaptiveAvgPoolNd", [self], output_size=out)

    return build


row("_adaptive_avg_pool2d", "adaptive_avg_pool2d")(_adaptive(2))
row("_adaptive_avg_pool3d", "adaptive_avg_pool3d")(_adaptive(3))


def _adaptive_backward(axes: int) -> Any:
    def build(plan: Plan, grad_output: T, self: T) -> Any:
        if self.dtype not in FLOATS or not self.numel:
            raise NoPlan("type")
        return plan.op("AdaptiveAvgPoolNdGrad", [grad_output], orig_input_shape=list(self.shape), axes=axes)

    return build


row("_adaptive_avg_pool2d_backward")(_adaptive_backward(2))
row("_adaptive_avg_pool3d_backward")(_adaptive_backward(3))


# ---- resampling


def _upsample(mode: str, axes: int) -> Any:
    def build(plan: Plan, self: T, output_size: Any, align_corners: bool = False, scales: Any = None,
              scales_d: Any = None, scales_h: Any = None, scales_w: Any = None) -> Any:  # fmt: skip
        if self.dtype not in FLOATS or not self.numel:
            raise NoPlan("type")
        given = {1: [scales], 2: [scales_h, scales_w], 3: [scales_d, scales_h, scales_w]}[axes]
        return plan.op("Upsample", [self], output_size=list(output_size), mode=mode, align_corners=bool(align_corners),
                       scales=[float(s or 0.0) for s in given])  # fmt: skip

    return build


def _upsample_backward(mode: str, axes: int) -> Any:
    def build(plan: Plan, grad_output: T, output_size: Any, input_size: Any, align_corners: bool = False,
              scales: Any = None, scales_d: Any = None, scales_h: Any = None, scales_w: Any = None) -> Any:  # fmt: skip
        if grad_output.dtype not in FLOATS or not grad_output.numel:
            raise NoPlan("type")
        given = {1: [scales], 2: [scales_h, scales_w], 3: [scales_d, scales_h, scales_w]}[axes]
        return plan.op("UpsampleGrad", [grad_output], input_size=list(input_size), mode=mode,
                       align_corners=bool(align_corners), scales=[float(s or 0.0) for s in given])  # fmt: skip

    return build


for _name, _mode, _axes in (
    ("upsample_nearest1d", "nearest", 1), ("upsample_nearest2d", "nearest", 2), ("upsample_nearest3d", "nearest", 3),
    ("_upsample_nearest_exact1d", "nearest-exact", 1), ("_upsample_nearest_exact2d", "nearest-exact", 2),
    ("_upsample_nearest_exact3d", "nearest-exact", 3), ("upsample_linear1d", "linear", 1),
    ("upsample_bilinear2d", "linear", 2), ("upsample_trilinear3d", "linear", 3), ("upsample_bicubic2d", "cubic", 2),
):  # fmt: skip
    row(_name)(_upsample(_mode, _axes))
    row(f"{_name}_backward")(_upsample_backward(_mode, _axes))


# ---- recurrent cells


@row("_thnn_fused_lstm_cell")
def lstm_cell(
    plan: Plan, input_gates: T, hidden_gates: T, cx: T, input_bias: Any = None, hidden_bias: Any = None
) -> Any:
    return plan.op("ThnnFusedLstmCell", [input_gates, hidden_gates, cx, input_bias, hidden_bias])


@row("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(plan: Plan, grad_hy: Any, grad_cy: Any, cx: T, cy: T, workspace: T, has_bias: bool) -> Any:
    gates, dc, bias = plan.op("ThnnFusedLstmCellGrad", [grad_hy, grad_cy, cx, cy, workspace])
    return gates, dc, bias if has_bias else None


@row("_thnn_fused_gru_cell")
def gru_cell(
    plan: Plan, input_gates: T, hidden_gates: T, hx: T, input_bias: Any = None, hidden_bias: Any = None
) -> Any:
    return plan.op("ThnnFusedGruCell", [input_gates, hidden_gates, hx, input_bias, hidden_bias])


@row("_thnn_fused_gru_cell_backward")
def gru_cell_backward(plan: Plan, grad_hy: T, workspace: T, has_bias: bool) -> Any:
    x, h, state, bias_x, bias_h = plan.op("ThnnFusedGruCellGrad", [grad_hy, workspace])
    return x, h, state, bias_x if has_bias else None, bias_h if has_bias else None


@row("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(plan: Plan, self: T, groups: int) -> Any:
    n, c, *rest = self.shape
    if not self.numel:
        raise NoPlan("empty")
    y = plan.op("TransposeD", [plan.flat(self, (n, groups, c // groups, *rest))],
                perm=[0, 2, 1, *range(3, 3 + len(rest))])  # fmt: skip
    return plan.flat(y, self.shape)
