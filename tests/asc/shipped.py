"""Small calls of every shipped kernel, ready to launch on a chip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ascend_sim import asc, ops
from ascend_sim.isa import layout
from ascend_sim.ops import registry
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs

Array = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Case(NamedTuple):
    """One operator call: ``shapes`` of its inputs (None: absent), storage ``formats``, ``types``, attributes, inputs
    with given ``values`` (constants of the call when listed in ``const``)."""

    name: str
    op: str
    shapes: tuple[tuple[int, ...] | None, ...]
    types: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    out_format: str | None = None
    attrs: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    const: tuple[int, ...] = ()
    values: dict[int, tuple[int, ...]] = {}  # noqa: RUF012 (never changed)


class Ready(NamedTuple):
    """A planned call: its launches, the bytes of every argument role, which roles are results."""

    launches: list[asc.Launch]
    memory: dict[tuple[str, int], Bytes]
    results: list[tuple[str, int]]

    def buffers(self, launch: asc.Launch, memory: dict[tuple[str, int], Bytes]) -> list[Bytes]:
        return [memory[key] for key in launch.args]


def blocked(shape: Sequence[int], dtype: str, fmt: str) -> TensorSpec:
    """Spec of a logical shape stored in ``fmt``."""
    shape = tuple(shape)
    c0 = max(32 // ops_dtype(dtype).itemsize, 16)
    if fmt == "NC1HWC0":
        n, c, h, w = shape
        return TensorSpec((n, -(-c // c0), h, w, c0), dtype, fmt, shape, "NCHW")
    if fmt == "FRACTAL_NZ":
        *b, m, k = shape
        return TensorSpec((*b, -(-k // c0), -(-m // 16), 16, c0), dtype, fmt, shape, "ND")
    if fmt == "FRACTAL_Z":
        n, c, h, w = shape
        return TensorSpec((-(-c // c0) * h * w, -(-n // 16), 16, c0), dtype, fmt, shape, "NCHW")
    return TensorSpec(shape, dtype, fmt)


def ops_dtype(name: str) -> np.dtype[Any]:
    from ascend_sim.ops.dtypes import numpy_dtype

    return numpy_dtype(name)


def stored(array: Array, spec: TensorSpec) -> Bytes:
    """Bytes of a logical array in the spec's format, rounded up to whole 32-byte blocks with zeros, as device memory
    is."""
    if spec.format == "NC1HWC0":
        array = layout.nchw_to_nc1hwc0(array, spec.shape[-1])
    elif spec.format == "FRACTAL_NZ":
        array = layout.nd_to_nz(array, spec.shape[-1])
    elif spec.format == "FRACTAL_Z":
        array = layout.oihw_to_fractal_z(array, spec.shape[-1])
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.concatenate([raw, np.zeros(-len(raw) % 32, np.uint8)])


def values_of(rng: Any, shape: tuple[int, ...], dtype: str) -> Array:
    kind = ops_dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0, 5, shape).astype(kind)
    if kind.kind == "b":
        return rng.random(shape) > 0.5
    return (rng.standard_normal(shape) + 0.1).astype(np.float32).astype(kind)


def prepare(case: Case, soc: Any) -> Ready | None:
    """Plan a case on a chip; None when the chip has no kernel for it."""
    ops.load()
    rng = np.random.default_rng(7)
    logical: list[TensorSpec | None] = []
    arrays: list[Array | None] = []
    for i, shape in enumerate(case.shapes):
        if shape is None:
            logical.append(None)
            arrays.append(None)
            continue
        dtype = case.types[i] if i < len(case.types) else "float16"
        array = values_of(rng, shape, dtype)
        if i in case.values:
            array = np.asarray(case.values[i], array.dtype).reshape(shape)
        const = array.tobytes() if i in case.const else None
        arrays.append(array)
        logical.append(TensorSpec(shape, dtype, "NCHW" if len(shape) == 4 else "ND", const=const))
    outs = ops.infer(case.op, logical, case.attrs)
    formats = case.formats
    inputs = [
        s if s is None or i >= len(formats) or not formats[i] or formats[i] == s.format
        else blocked(s.shape, s.dtype, formats[i])
        for i, s in enumerate(logical)
    ]  # fmt: skip
    fmt = case.out_format or (formats[0] if formats and formats[0] != "ND" else None)
    results = [blocked(o.logical_shape, o.dtype, fmt) if fmt else o for o in outs]
    call = OpCall(case.op, tuple(inputs), tuple(results), freeze_attrs(case.attrs))
    plan = registry.find_kernel(case.op)
    assert plan is not None, case.op
    try:
        launches = [launch for launch in plan(call, soc) if isinstance(launch, asc.Launch)]
    except registry.NoKernel:
        return None
    memory: dict[tuple[str, int], Bytes] = {}
    for i, (array, spec) in enumerate(zip(arrays, inputs, strict=True)):
        if array is not None and spec is not None:
            memory["in", i] = stored(array, spec)
    for launch in launches:
        for key, (_, _, nbytes, _) in zip(launch.args, launch.gm, strict=True):
            held = memory.get(key)
            if held is None or (key[0] != "in" and held.nbytes < nbytes):
                memory[key] = np.full(nbytes, 0xA5, np.uint8)
    return Ready(launches, memory, [("out", i) for i in range(len(results))])


def run(ready: Ready, execute: Callable[[asc.Launch, list[Bytes]], Any]) -> dict[tuple[str, int], Bytes]:
    """Run the launches of a case one after the other on fresh memory; the memory afterwards."""
    memory = {key: data.copy() for key, data in ready.memory.items()}
    for launch in ready.launches:
        execute(launch, ready.buffers(launch, memory))
    return memory


CONV = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "groups": 1, "data_format": "NCHW"}
FIVE = ("NC1HWC0",)
CASES = (
    Case("add", "Add", ((40, 1000), (40, 1000))),
    Case("add_odd", "Add", ((7, 333), (7, 333))),
    Case("add_float", "Add", ((20, 1000), (20, 1000)), ("float32", "float32")),
    Case("exp", "Exp", ((31, 1000),)),
    Case("gelu", "Gelu", ((9, 1000),)),
    Case("sigmoid", "Sigmoid", ((9, 999),)),
    Case("cast", "Cast", ((9, 1000),), ("float16",), attrs={"dst_type": "float32"}),
    Case("prelu", "PRelu", ((6, 32, 70), (32, 1))),
    Case("broadcast", "Mul", ((40, 320), (1, 320))),
    Case("broadcast_column", "Add", ((40, 320), (40, 1))),
    Case("less", "Less", ((9, 1000), (9, 1000))),
    Case("select", "Select", ((9, 1000), (9, 1000), (9, 1000)), ("bool", "float16", "float16")),
    Case("matmul", "MatMulV2", ((96, 160), (160, 112))),
    Case("matmul_t", "MatMulV2", ((100, 70), (130, 70)), attrs={"transpose_x2": True}),
    Case("matmul_bias", "MatMulV2", ((64, 128), (128, 96), (96,)), ("float16", "float16", "float32")),
    Case("matmul_split_k", "MatMulV2", ((48, 9280), (9280, 80))),
    Case("matmul_nz", "MatMulV2", ((96, 160), (160, 112)), formats=("FRACTAL_NZ", "FRACTAL_NZ")),
    Case("batch_matmul", "BatchMatMulV2", ((3, 48, 64), (3, 64, 80))),
    Case("conv", "Conv2D", ((1, 20, 14, 14), (24, 20, 3, 3), (24,)), formats=("NC1HWC0", "FRACTAL_Z"), attrs=CONV),
    Case("conv1x1", "Conv2D", ((2, 48, 9, 9), (64, 48, 1, 1)), formats=("NC1HWC0", "FRACTAL_Z"),
         attrs=CONV | {"pads": (0, 0, 0, 0)}),
    Case("conv_stride", "Conv2D", ((1, 16, 17, 17), (32, 16, 3, 3)), formats=("NC1HWC0", "FRACTAL_Z"),
         attrs=CONV | {"strides": (1, 1, 2, 2)}),
    Case("conv_relu", "Conv2D", ((1, 32, 10, 10), (32, 32, 3, 3), (32,)), formats=("NC1HWC0", "FRACTAL_Z"),
         attrs=CONV | {"epilogue": (("relu",),)}),
    Case("depthwise", "DepthwiseConv2D", ((1, 32, 12, 12), (32, 1, 3, 3)), formats=("NC1HWC0", "FRACTAL_Z"),
         attrs=CONV | {"groups": 32}),
    Case("deconv", "Conv2DTransposeD", ((1, 32, 6, 6), (32, 16, 2, 2)), formats=("NC1HWC0", "FRACTAL_Z"),
         attrs={"input_size": (1, 16, 12, 12), "strides": (1, 1, 2, 2), "pads": (0, 0, 0, 0),
                "dilations": (1, 1, 1, 1), "groups": 1, "data_format": "NCHW", "output_padding": (0, 0, 0, 0)}),
    Case("max_pool", "MaxPoolV3", ((1, 32, 16, 16),), formats=FIVE,
         attrs={"ksize": (1, 1, 3, 3), "strides": (1, 1, 2, 2), "padding_mode": "CALCULATED", "pads": (1, 1, 1, 1)}),
    Case("avg_pool", "AvgPoolV2", ((1, 32, 12, 12),), formats=FIVE,
         attrs={"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "padding_mode": "CALCULATED", "pads": (0, 0, 0, 0)}),
    Case("global_pool", "GlobalAveragePool", ((2, 48, 7, 7),), formats=FIVE),
    Case("softmax", "SoftmaxV2", ((33, 200),), attrs={"axes": (-1,)}),
    Case("softmax_wide", "SoftmaxV2", ((3, 5000),), attrs={"axes": (-1,)}),
    Case("log_softmax", "LogSoftmaxV2", ((17, 300),), attrs={"axes": (-1,)}),
    Case("reduce_sum", "ReduceSumD", ((30, 500),), ("float32",), attrs={"axes": (1,)}),
    Case("reduce_max", "ReduceMaxD", ((30, 500),), attrs={"axes": (0,)}),
    Case("reduce_mean_hw", "ReduceMeanD", ((2, 32, 7, 9),), formats=FIVE, attrs={"axes": (2, 3), "keep_dims": True}),
    Case("layer_norm", "LayerNorm", ((12, 256), (256,), (256,)), attrs={"begin_norm_axis": 1, "begin_params_axis": 1}),
    Case("rms_norm", "RmsNorm", ((77, 67), (67,))),
    Case("bn_infer", "BNInfer", ((2, 32, 7, 9), (32,), (32,), (32,), (32,)), ("float16",) + ("float32",) * 4, FIVE),
    Case("group_norm", "GroupNorm", ((2, 8, 6, 7), (8,), (8,)), attrs={"num_groups": 4, "eps": 1e-5}),
    Case("arg_max", "ArgMaxD", ((37, 67),), attrs={"dimension": 1}),
    Case("swiglu", "SwiGlu", ((12, 256),), attrs={"dim": -1}),
    Case("relu_grad", "ReluGrad", ((5000,), (5000,))),
    Case("momentum", "ApplyMomentumD", ((5000,), (5000,), (), (5000,), ()), ("float32",) * 5,
         attrs={"use_nesterov": False}),
    Case("adam_w", "ApplyAdamWV2", ((3000,), (3000,), (3000,), (3000,), (1,)), ("float32",) * 5,
         attrs={"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-6}),
    Case("tensor_move", "TensorMove", ((40, 300),)),
    Case("fills", "Fills", ((40, 300),), attrs={"value": 3.0}),
    Case("attention", "FusedInferAttentionScore", ((1, 40, 2, 64), (1, 200, 2, 64), (1, 200, 2, 64)),
         attrs={"num_heads": 2, "num_key_value_heads": 2, "scale": 0.125, "input_layout": "BSND"}),
    Case("attention_row", "IncreFlashAttention", ((2, 1, 2, 64), (2, 130, 2, 64), (2, 130, 2, 64)),
         attrs={"num_heads": 2, "scale_value": 0.125, "input_layout": "BSND"}),
    Case("quant_matmul", "QuantBatchMatmulV3", ((40, 96), (96, 64), (64,)), ("int8", "int8", "float32"),
         attrs={"dtype": "float16"}),
    Case("grouped_matmul", "GroupedMatmul", ((60, 96), (3, 96, 80), None, (3,)), ("float16", "float16", "", "int64"),
         const=(3,), values={3: (7, 30, 60)}),
    Case("conv_grad_input", "Conv2DBackpropInput", ((4,), (24, 20, 3, 3), (1, 24, 9, 9)),
         ("int32", "float16", "float16"), ("", "FRACTAL_Z", "NC1HWC0"), "NC1HWC0", CONV, (0,), {0: (1, 20, 9, 9)}),
    Case("conv_grad_filter", "Conv2DBackpropFilter", ((2, 20, 9, 9), (4,), (2, 24, 9, 9)),
         ("float16", "int32", "float16"), ("NC1HWC0", "", "NC1HWC0"), "FRACTAL_Z",
         CONV | {"filter_size": (24, 20, 3, 3)}, (1,), {1: (24, 20, 3, 3)}),
    Case("trans_5hd", "TransData", ((1, 40, 9, 11),), out_format="NC1HWC0",
         attrs={"src_format": "NCHW", "dst_format": "NC1HWC0"}),
    Case("trans_nchw", "TransData", ((1, 40, 9, 11),), formats=FIVE, out_format="NCHW",
         attrs={"src_format": "NC1HWC0", "dst_format": "NCHW"}),
    Case("trans_nz", "TransData", ((70, 90),), out_format="FRACTAL_NZ",
         attrs={"src_format": "ND", "dst_format": "FRACTAL_NZ"}),
    Case("trans_nd", "TransData", ((70, 90),), formats=("FRACTAL_NZ",), out_format="ND",
         attrs={"src_format": "FRACTAL_NZ", "dst_format": "ND"}),
    Case("transpose", "TransposeD", ((40, 70),), attrs={"perm": (1, 0)}),
    Case("transpose_4d", "TransposeD", ((2, 6, 20, 32),), attrs={"perm": (0, 2, 1, 3)}),
    Case("concat", "ConcatD", ((4, 100), (4, 60)), attrs={"concat_dim": 1}),
    Case("split", "SplitVD", ((6, 128),), attrs={"size_splits": (48, 80), "split_dim": 1}),
    Case("slice", "SliceD", ((9, 200),), attrs={"offsets": (1, 32), "size": (6, 96)}),
    Case("tile", "TileD", ((2, 96),), attrs={"multiples": (3, 2)}),
    Case("pad", "PadV3D", ((10, 64),), attrs={"paddings": ((2, 1), (16, 16))}),
    Case("gather", "GatherV2", ((50, 64), (37,)), ("float16", "int32"), attrs={"axis": 0}),
    Case("gather_short", "GatherV2", ((4, 835), (1285,)), ("float16", "int64"), attrs={"axis": 1}),
    Case("transpose_narrow", "TransposeD", ((4, 5, 258),), attrs={"perm": (0, 2, 1)}),
    Case("lstm", "CommonLSTM", ((4, 3, 32), (1, 128, 32), (1, 128, 32), (1, 256), None, (1, 3, 32), (1, 3, 32), None),
         attrs={"hidden_size": 32}),
    Case("gru", "CommonGRU", ((3, 2, 32), (2, 96, 32), (2, 96, 32), (2, 192), None, (2, 2, 32)),
         attrs={"hidden_size": 32, "direction": "bidirectional"}),
    Case("nearest", "ResizeNearestNeighborV2D", ((1, 16, 5, 6),), formats=FIVE, attrs={"size": (10, 12)}),
    Case("bilinear", "ResizeBilinearV2D", ((1, 16, 5, 6),), formats=FIVE, attrs={"size": (10, 12)}),
)  # fmt: skip
BY_NAME = {case.name: case for case in CASES}
