"""Random cases of products, convolutions, pooling, images and attention; see `benchmarks.values.cases`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ascend_sim import ops
from ascend_sim.graph.aipp_config import AippConfig
from ascend_sim.ops.schema import TensorSpec
from benchmarks.values.cases import CHIPS, SPLIT, Rng, cases, normal, pick, plain, some_chip
from benchmarks.values.run import Array, Case, Operand

BLOCKED = "NC1HWC0"
FIXPIPE = ("Ascend310B1", SPLIT)
TRIANGLE = np.triu(np.ones((2048, 2048), np.bool_), 1)


# ---- products


@cases("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "GEMM")
def product(op: str, rng: Rng) -> Case:
    chip, ta, tb = some_chip(rng), bool(rng.random() < 0.4), bool(rng.random() < 0.4)
    m, k, n = (int(rng.integers(1, 120)) for _ in range(3))
    lead: tuple[int, ...] = (int(rng.integers(1, 4)),) if op.startswith("Batch") else ()
    kind = pick(rng, np.float16, np.float16, np.float32, ml_dtypes.bfloat16) if chip == SPLIT else np.float16
    a, b = normal(rng, (*lead, m, k), kind, 0.25), normal(rng, (*lead, k, n), kind, 0.25)
    a, b = (np.ascontiguousarray(x.swapaxes(-1, -2)) if t else x for x, t in ((a, ta), (b, tb)))
    flags = {"GEMM": ("transpose_a", "transpose_b"), "Batch": ("adj_x1", "adj_x2")}.get(
        "Batch" if lead else op, ("transpose_x1", "transpose_x2"))  # fmt: skip
    attrs = {flags[0]: ta, flags[1]: tb, **({"enable_hf32": False} if kind is np.float32 else {})}
    fmt = "FRACTAL_NZ" if kind is np.float16 and (rng.random() < 0.4 or chip not in FIXPIPE) else "ND"
    inputs: tuple[Operand | None, ...] = (Operand(a, fmt), Operand(b, fmt))
    if op != "GEMM" and not lead and fmt == "ND" and rng.random() < 0.4:
        inputs = (*inputs, Operand(normal(rng, (n,), np.float32 if kind is not np.float16 else kind)))
    elif op == "GEMM":
        one = Operand(np.asarray([1], kind), const=True)
        inputs = (*inputs, None, one, one)
    return Case(op, chip, inputs, attrs, outputs=fmt)


@cases("GroupedMatmul")
def grouped(op: str, rng: Rng) -> Case:
    chip = pick(rng, *FIXPIPE)
    kind = ml_dtypes.bfloat16 if chip == SPLIT and rng.random() < 0.5 else np.float16
    sizes = [int(pick(rng, 1, 7, 16, 60)) for _ in range(int(rng.integers(1, 4)))]
    k, n, trans = int(rng.integers(1, 200)), int(rng.integers(1, 200)), bool(rng.random() < 0.5)
    x, w = normal(rng, (sum(sizes), k), kind, 0.25), normal(rng, (len(sizes), k, n), kind, 0.25)
    w = np.ascontiguousarray(w.swapaxes(1, 2)) if trans else w
    return Case(op, chip, plain(x, w, None, np.cumsum(sizes), const=(3,)), {"transpose_weight": trans})


@cases("QuantBatchMatmulV3")
def quantised(op: str, rng: Rng) -> Case:
    m, k, n, dtype = *(int(rng.integers(1, 150)) for _ in range(3)), pick(rng, "float16", "bfloat16", "int32")
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    scale = ((rng.random(n) + 0.5) * 1e-3).astype(np.float32)
    scale = (scale.view(np.uint32) & 0xFFFFE000).view(np.float32)  # what the fixpipe keeps of a scale
    return Case(op, SPLIT, plain(a, b, scale), {"dtype": dtype})


# ---- convolutions


def window_attrs(rng: Rng, most: int = 3) -> tuple[tuple[int, int], dict[str, Any]]:
    kernel = (int(rng.integers(1, most + 1)), int(rng.integers(1, most + 1)))
    strides = tuple(int(rng.integers(1, 3)) for _ in "hw")
    pads = tuple(int(rng.integers(0, k)) for k in kernel for _ in range(2))
    return kernel, {"strides": (1, 1, *strides), "pads": pads, "dilations": (1, 1, 1, 1), "data_format": "NCHW"}


def extent(size: int, k: int, stride: int, pads: tuple[int, int]) -> int:
    return (size + sum(pads) - k) // stride + 1


@cases("Conv2D", "DepthwiseConv2D")
def convolution(op: str, rng: Rng) -> Case:
    chip, n, c, o = some_chip(rng), int(rng.integers(1, 3)), int(rng.integers(1, 50)), int(rng.integers(1, 50))
    (kh, kw), attrs = window_attrs(rng)
    single = chip == SPLIT and op == "Conv2D" and rng.random() < 0.3
    kind, c0 = (np.float32, 8) if single else (np.float16, 16)
    deep = op == "DepthwiseConv2D"
    x = normal(rng, (n, c, int(rng.integers(4, 15)), int(rng.integers(4, 15))), kind, 0.25)
    w = normal(rng, (c if deep else o, 1 if deep else c, kh, kw), kind, 0.25)
    bias = Operand(normal(rng, (len(w),), kind, 0.25)) if rng.random() < 0.5 else None
    attrs["enable_hf32"] = False
    attrs["epilogue"] = pick(rng, (), (("relu",),), (("hswish",),)) if not single else ()
    filters = Operand(w, "FRACTAL_Z", c0, c if deep else 1)
    return Case(op, chip, (Operand(x, BLOCKED, c0), filters, bias), attrs, outputs=BLOCKED, c0=c0)


@cases("Conv2DTransposeD")
def transposed(op: str, rng: Rng) -> Case:
    chip, n, c, o = some_chip(rng), int(rng.integers(1, 3)), int(rng.integers(1, 40)), int(rng.integers(1, 40))
    sh, sw = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    kh, kw = sh + int(rng.integers(0, 3)), sw + int(rng.integers(0, 3))
    x = normal(rng, (n, c, int(rng.integers(2, 9)), int(rng.integers(2, 9))), np.float16, 0.25)
    w = normal(rng, (c, o, kh, kw), np.float16, 0.25)
    attrs = {"strides": (1, 1, sh, sw), "pads": (0, 0, 0, 0), "data_format": "NCHW", "output_padding": (0, 0, 0, 0)}
    bias = Operand(normal(rng, (o,), np.float16, 0.25)) if rng.random() < 0.5 else None
    return Case(op, chip, (Operand(x, BLOCKED), Operand(w, "FRACTAL_Z"), bias), attrs, outputs=BLOCKED)


@cases("Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DBackpropFilter", "Conv2DBackpropFilterD")
def gradient(op: str, rng: Rng) -> Case:
    single = rng.random() < 0.3
    chip, kind, c0 = (SPLIT, np.float32, 8) if single else (some_chip(rng), np.float16, 16)
    n, c, o = int(rng.integers(1, 3)), int(rng.integers(1, 40)), int(rng.integers(1, 40))
    while True:
        (kh, kw), attrs = window_attrs(rng)
        sh, sw = attrs["strides"][2:]
        if "Filter" in op or (sh == sw == 1) or (not single and sh == sw and kh >= sh and kw >= sw):
            break
    h, w = int(rng.integers(3, 12)), int(rng.integers(3, 12))
    pads = attrs["pads"]
    dy = normal(rng, (n, o, extent(h, kh, sh, pads[:2]), extent(w, kw, sw, pads[2:])), kind, 0.25)
    attrs["enable_hf32"] = False
    sizes = (n, c, h, w) if "Input" in op else (o, c, kh, kw)
    name = "input_size" if "Input" in op else "filter_size"
    size = () if op.endswith("D") else (Operand(np.asarray(sizes, np.int32), const=True),)
    attrs[name] = sizes
    if "Input" in op:
        f = Operand(normal(rng, (o, c, kh, kw), kind, 0.25), "FRACTAL_Z", c0)
        return Case(op, chip, (*size, f, Operand(dy, BLOCKED, c0)), attrs, outputs=BLOCKED, c0=c0)
    x = Operand(normal(rng, (n, c, h, w), kind, 0.25), BLOCKED, c0)
    return Case(op, chip, (x, *size, Operand(dy, BLOCKED, c0)), attrs, outputs="FRACTAL_Z", c0=c0)


@cases("DepthwiseConv2DBackpropInput", "DepthwiseConv2DBackpropInputD")
def depthwise_gradient(op: str, rng: Rng) -> Case:
    chip, n, c, k = pick(rng, *CHIPS), int(rng.integers(1, 3)), int(rng.integers(1, 60)), int(pick(rng, 1, 3, 5))
    h, w, pad = int(rng.integers(6, 24)), int(rng.integers(6, 24)), int(rng.integers(0, k // 2 + 1))
    f = normal(rng, (c, 1, k, k), np.float16, 0.25)
    dy = normal(rng, (n, c, h + 2 * pad - k + 1, w + 2 * pad - k + 1), np.float16, 0.25)
    attrs = {"strides": (1, 1, 1, 1), "pads": (pad,) * 4, "dilations": (1, 1, 1, 1), "data_format": "NCHW",
             "input_size": (n, c, h, w)}  # fmt: skip
    if op.endswith("D"):
        return Case(op, chip, plain(f, dy), attrs)
    return Case(op, chip, plain(np.asarray((n, c, h, w), np.int32), f, dy, const=(0,)), attrs)


# ---- windows of images


def pool_attrs(rng: Rng, size: tuple[int, int], tf: bool) -> dict[str, Any]:
    kernel = tuple(int(rng.integers(1, min(4, s) + 1)) for s in size)
    strides = tuple(int(rng.integers(1, min(3, k) + 1)) for k in kernel)
    attrs: dict[str, Any] = {"ksize": (1, 1, *kernel), "strides": (1, 1, *strides), "data_format": "NCHW"}
    if tf:
        return {**attrs, "padding": pick(rng, "SAME", "VALID")}
    pads = tuple(int(rng.integers(0, k)) // 2 for k in kernel for _ in range(2))
    return {**attrs, "pads": pads, "padding_mode": "CALCULATED", "ceil_mode": bool(rng.random() < 0.3)}


@cases("MaxPool", "MaxPoolV3", "AvgPool", "AvgPoolV2")
def pooling(op: str, rng: Rng) -> Case:
    size = int(rng.integers(1, 25)), int(rng.integers(1, 25))
    attrs = pool_attrs(rng, size, op in ("MaxPool", "AvgPool"))
    if op == "AvgPoolV2":
        attrs["exclusive"] = bool(rng.random() < 0.5)
    x = normal(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 40)), *size), np.float16)
    return Case(op, some_chip(rng), (Operand(x, BLOCKED),), attrs, outputs=BLOCKED)


@cases("MaxPoolGrad", "MaxPoolV3Grad")
def pooling_grad(op: str, rng: Rng) -> Case:
    size = int(rng.integers(4, 20)), int(rng.integers(4, 20))
    attrs = pool_attrs(rng, size, op == "MaxPoolGrad")
    x = normal(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 40)), *size), np.float16)
    forward = "MaxPool" if op == "MaxPoolGrad" else "MaxPoolV3"
    (y,) = ops.values(ops.call(forward, [TensorSpec(x.shape, "float16", "NCHW")], attrs), [x])
    inputs = tuple(Operand(a, BLOCKED) for a in (x, y, normal(rng, y.shape, np.float16)))
    return Case(op, some_chip(rng), inputs, attrs, outputs=BLOCKED)


@cases("GlobalAveragePool", "GlobalMaxPool")
def whole_pooling(op: str, rng: Rng) -> Case:
    x = normal(rng, tuple(int(rng.integers(1, top)) for top in (4, 60, 30, 30)), np.float16)
    return Case(op, some_chip(rng), (Operand(x, BLOCKED),), outputs=BLOCKED)


@cases("ResizeBilinearV2", "ResizeBilinearV2D", "ResizeNearestNeighborV2", "ResizeNearestNeighborV2D")
def resize(op: str, rng: Rng) -> Case:
    x = normal(rng, (2, int(rng.integers(1, 40)), int(rng.integers(1, 20)), int(rng.integers(1, 20))), np.float16)
    out = (int(rng.integers(1, 40)), int(rng.integers(1, 40)))
    how = pick(rng, "", "align_corners", "half_pixel_centers")
    attrs: dict[str, Any] = {how: True} if how else {}
    if op.endswith("D"):
        return Case(op, some_chip(rng), (Operand(x, BLOCKED),), {**attrs, "size": out}, outputs=BLOCKED)
    size = Operand(np.asarray(out, np.int32), const=True)
    return Case(op, some_chip(rng), (Operand(x, BLOCKED), size), attrs, outputs=BLOCKED)


@cases("Resize")
def onnx_resize(op: str, rng: Rng) -> Case:
    factor = int(pick(rng, 2, 4))
    x = normal(rng, (1, int(rng.integers(1, 40)), int(rng.integers(2, 20)), int(rng.integers(2, 20))), np.float16)
    attrs = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest", "nearest_mode": "floor"}
    scales = Operand(np.asarray([1, 1, factor, factor], np.float32), const=True)
    return Case(op, some_chip(rng), (Operand(x, BLOCKED), None, scales), attrs, outputs=BLOCKED)


# ---- attention


def heads(rng: Rng, b: int, tokens: int, n: int, d: int, layout: str, kind: Any) -> Array:
    x = normal(rng, (b, n, tokens, d), kind)
    return x if layout == "BNSD" else np.ascontiguousarray(x.transpose(0, 2, 1, 3))


@cases("FusedInferAttentionScore", "PromptFlashAttention")
def attention(op: str, rng: Rng) -> Case:
    chip = pick(rng, SPLIT, SPLIT, *CHIPS)
    layout, d = pick(rng, "BSND", "BNSD"), int(pick(rng, 16, 64, 128))
    b, kv, group = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(pick(rng, 1, 2, 3))
    s = int(pick(rng, 1, 2, 17, 40))
    t = 16 * int(rng.integers(1, 12)) if chip != SPLIT else int(rng.integers(s, 200))
    kind = ml_dtypes.bfloat16 if chip == SPLIT and rng.random() < 0.3 else np.float16
    q, k, v = (heads(rng, b, n, h, d, layout, kind) for n, h in ((s, group * kv), (t, kv), (t, kv)))
    mode = int(pick(rng, 0, 0, 2, 3)) if chip == SPLIT else 0
    name = "scale" if op == "FusedInferAttentionScore" else "scale_value"
    attrs = {"num_heads": group * kv, "num_key_value_heads": kv, name: 0.2, "input_layout": layout, "sparse_mode": mode}
    inputs = plain(q, k, v, None, TRIANGLE) if mode else plain(q, k, v)
    return Case(op, chip, inputs, attrs, outs=(0,))


@cases("IncreFlashAttention")
def decoding(op: str, rng: Rng) -> Case:
    n, d, t = int(rng.integers(1, 4)), int(pick(rng, 48, 64, 128)), int(rng.integers(1, 300))
    q, k, v = (heads(rng, 2, s, n, d, "BSND", np.float16) for s in (1, t, t))
    return Case(op, SPLIT, plain(q, k, v), {"num_heads": n, "scale_value": 0.125, "input_layout": "BSND"}, outs=(0,))


@cases("FlashAttentionScore")
def training(op: str, rng: Rng) -> Case:
    s, t, n, d = int(rng.integers(1, 120)), int(rng.integers(120, 200)), int(rng.integers(1, 4)), int(pick(rng, 48, 64))
    q, k, v = (heads(rng, 1, tokens, n, d, "BSND", np.float16) for tokens in (s, t, t))
    attrs = {"head_num": n, "scale_value": 0.125, "input_layout": "BSND", "sparse_mode": 0}
    return Case(op, SPLIT, plain(q, k, v), attrs, outs=(0, 1, 3))


@cases("FlashAttentionScoreGrad")
def attention_grad(op: str, rng: Rng) -> Case:
    s, t, n, d = int(rng.integers(1, 100)), int(rng.integers(100, 150)), int(rng.integers(1, 3)), int(pick(rng, 48, 64))
    q, k, v = (heads(rng, 1, tokens, n, d, "BSND", np.float16) for tokens in (s, t, t))
    attrs = {"head_num": n, "scale_value": 0.125, "input_layout": "BSND", "sparse_mode": 0}
    forward = ops.call("FlashAttentionScore", [TensorSpec(x.shape, "float16") for x in (q, k, v)], attrs)
    top, total, _, y = ops.values(forward, [q, k, v])
    dy = normal(rng, q.shape, np.float16)
    return Case(op, SPLIT, plain(q, k, v, dy, None, None, None, None, top, total, None, y), attrs, outs=(0, 1, 2))


# ---- images in front of a network


def preprocessing(rng: Rng, h: int, w: int) -> AippConfig:
    return AippConfig(
        input_format=pick(rng, "RGB888_U8", "XRGB8888_U8"), src_image_size_h=h, src_image_size_w=w, crop=True,
        load_start_pos_h=1, load_start_pos_w=2, crop_size_h=h - 4, crop_size_w=w - 2, mean=(1, 2, 3, 0),
        min_chn=(10.5, 3, 0, 0), var_reci=(0.017, 0.5, 1.0, 1.0), rbuv_swap_switch=bool(rng.random() < 0.5),
    )  # fmt: skip


@cases("Aipp", "AippConv2D")
def images(op: str, rng: Rng) -> Case:
    chip = pick(rng, "Ascend310", "Ascend310P3", "Ascend310B1")
    n, h, w = int(rng.integers(1, 3)), 2 * int(rng.integers(5, 20)), 2 * int(rng.integers(10, 20))
    config = preprocessing(rng, h, w)
    fields = {k: v for k, v in vars(config).items() if k != "extra"}
    pixels = Operand(rng.integers(0, 256, config.source_shape(n)).astype(np.uint8), axes="NHWC")
    if op == "Aipp":
        return Case(op, chip, (pixels,), {"aipp": fields, "dst_type": pick(rng, "float16", "float32")})
    o, (kernel, attrs) = int(rng.integers(1, 40)), window_attrs(rng)
    filters = Operand(normal(rng, (o, 3, *kernel), np.float16, 0.1), "FRACTAL_Z")
    bias = Operand(normal(rng, (o,), np.float16))
    attrs |= {"aipp": fields, "small_channel": False, "epilogue": pick(rng, (), (("relu",),))}
    return Case(op, chip, (pixels, filters, bias), attrs, outputs=BLOCKED, wide="float16")


@cases("AvgPoolGrad", "AvgPoolV2Grad")
def average_grad(op: str, rng: Rng) -> Case:
    n, c, size = int(rng.integers(1, 3)), int(rng.integers(1, 40)), (int(rng.integers(4, 20)), int(rng.integers(4, 20)))
    attrs = pool_attrs(rng, size, op == "AvgPoolGrad")
    if op == "AvgPoolV2Grad":
        attrs |= {"ceil_mode": False, "exclusive": bool(rng.random() < 0.5)}
    forward = "AvgPool" if op == "AvgPoolGrad" else "AvgPoolV2"
    (y,) = ops.infer(forward, [TensorSpec((n, c, *size), "float16", "NCHW")], attrs)
    shape = Operand(np.asarray((n, c, *size), np.int32), const=True)
    dy = Operand(normal(rng, y.shape, np.float16), BLOCKED)
    return Case(op, some_chip(rng), (shape, dy), {**attrs, "orig_input_shape": (n, c, *size)}, outputs=BLOCKED)
