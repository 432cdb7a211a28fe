"""Fourier transforms as matrix products with constant cosines and sines, STFT, and mel filters."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Array, Importer, OnnxNode, Table

SIZE_LIMIT = 8192  # points of a transform: its matrix has the square of that


def _matrix(imp: Importer, points: int, bins: int, parts: int, dtype: str, inverse: bool) -> Array:
    """[points * parts, bins * 2]: real (and imaginary) samples to interleaved real and imaginary bins."""
    if points > SIZE_LIMIT:
        raise imp.error(f"a transform of {points} points is not supported; at most {SIZE_LIMIT}", code="E16002")
    sign = 1.0 if inverse else -1.0
    angle = sign * 2 * np.pi / points * (np.outer(np.arange(points), np.arange(bins)) % points)
    real, imaginary = np.cos(angle), np.sin(angle)
    table = np.empty((points, parts, bins, 2))
    table[:, 0, :, 0], table[:, 0, :, 1] = real, imaginary
    if parts == 2:
        table[:, 1, :, 0], table[:, 1, :, 1] = -imaginary, real
    if inverse:
        table /= points
    kind = "float32" if dtype in ("float16", "bfloat16") else dtype
    return table.reshape(points * parts, bins * 2).astype(kind)


def transform(
    imp: Importer, x: str, points: int, onesided: bool, inverse: bool, outputs: tuple[str, ...] | None
) -> str:
    """DFT along the last axis but one of ``x`` [..., points, 1 | 2] -> [..., bins, 2]."""
    shape = imp.shape(x)
    bins = points // 2 + 1 if onesided else points
    parts = shape[-1]
    rows = int(np.prod(shape[:-2], dtype=np.int64))
    flat = imp.emit("Reshape", [x, imp.const([rows, shape[-2] * parts], "int64")])[0]
    table = imp.const(_matrix(imp, points, bins, parts, imp.dtype(x), inverse), base="dft")
    if imp.dtype(table) != imp.dtype(x):
        table = imp.emit("Cast", [table], {"dst_type": imp.dtype(x)})[0]
    y = imp.emit("MatMulV2", [flat, table], {"transpose_x1": False, "transpose_x2": False})[0]
    return imp.emit("Reshape", [y, imp.const([*shape[:-2], bins, 2], "int64")], {}, outputs)[0]


def _fitted(imp: Importer, x: str, axis: int, length: int) -> str:
    """``x`` cut or filled with zeros to ``length`` along ``axis``."""
    shape = imp.shape(x)
    if shape[axis] > length:
        end = [*shape[:axis], length, *shape[axis + 1 :]]
        return imp.emit("StridedSliceD", [x], {"begin": [0] * len(shape), "end": end, "strides": [1] * len(shape)})[0]
    if shape[axis] < length:
        pads = np.zeros((len(shape), 2), np.int64)
        pads[axis, 1] = length - shape[axis]
        attrs = {"mode": "constant", "paddings_contiguous": True}
        return imp.emit("PadV3", [x, imp.const(pads), imp.const(0, imp.dtype(x))], attrs)[0]
    return x


def _one_sided_inverse(imp: Importer, x: str, axis: int, length: int) -> str:
    """The bins of a real signal that a one-sided spectrum leaves out, by symmetry (``axis`` is the last but one)."""
    bins = length // 2 + 1
    x = _fitted(imp, x, axis, bins)
    rest = length - bins
    if rest <= 0:
        return x
    index = imp.const(np.arange(rest, 0, -1), "int64")
    mirrored = imp.emit("GatherV2", [x, index, imp.const(axis, "int64")], {"batch_dims": 0})[0]
    sign = np.ones((*[1] * (imp.rank(x) - 1), 2))
    sign[..., 1] = -1
    mirrored = imp.emit("Mul", [mirrored, imp.const(sign, imp.dtype(x))])[0]
    return imp.emit("ConcatD", [x, mirrored], {"concat_dim": axis, "N": 2})[0]


def dft(imp: Importer, node: OnnxNode) -> None:
    """DFT -> one MatMulV2 along the axis, which moves in front of the real and imaginary part and back."""
    x = node.inputs[0]
    rank = imp.rank(x)
    if imp.opset >= 20:
        axis = imp.ints(node.input(2), "axis")[0] if node.input(2) else -2
    else:
        axis = int(node.attr("axis", 1))
    axis = imp.axis(axis, rank)
    if axis == rank - 1:
        raise imp.error("its axis is that of the real and imaginary part")
    onesided, inverse = bool(node.attr("onesided", 0)), bool(node.attr("inverse", 0))
    moved = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    if axis != rank - 2:
        x = imp.emit("TransposeD", [x], {"perm": moved})[0]
    if node.input(1):
        length = imp.ints(node.input(1), "dft_length")[0]
    else:
        length = imp.shape(x)[-2] if not (onesided and inverse) else 2 * (imp.shape(x)[-2] - 1)
    real = onesided and inverse
    x = _one_sided_inverse(imp, x, rank - 2, length) if real else _fitted(imp, x, rank - 2, length)
    back = [moved.index(i) for i in range(rank)]
    last = axis == rank - 2
    y = transform(imp, x, length, onesided and not inverse, inverse, node.outputs if last and not real else None)
    if real:  # the imaginary part is 0
        end = [*imp.shape(y)[:-1], 1]
        attrs = {"begin": [0] * rank, "end": end, "strides": [1] * rank}
        y = imp.emit("StridedSliceD", [y], attrs, node.outputs if last else None)[0]
    if not last:
        imp.emit("TransposeD", [y], {"perm": back}, node.outputs)


def stft(imp: Importer, node: OnnxNode) -> None:
    """STFT: frames gathered, weighted by the window, then one DFT."""
    signal = node.inputs[0]
    step = imp.ints(node.input(1), "frame_step")[0]
    window = node.input(2)
    length = imp.ints(node.input(3), "frame_length")[0] if node.input(3) else imp.shape(window)[0]
    size = imp.shape(signal)[1]
    count = 1 + (size - length) // step
    if count < 1:
        raise imp.error(f"the signal of {size} samples is shorter than a frame of {length}")
    places = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    frames = imp.emit("GatherV2", [signal, imp.const(places, "int64"), imp.const(1, "int64")], {"batch_dims": 0})[0]
    if imp.rank(frames) == 3:
        frames = imp.emit("Unsqueeze", [frames], {"axes": [3]})[0]
    if window:
        column = imp.emit("Reshape", [window, imp.const([length, 1], "int64")])[0]
        frames = imp.emit("Mul", [frames, column])[0]
    transform(imp, frames, length, bool(node.attr("onesided", 1)), False, node.outputs)


def mel_weights(imp: Importer, node: OnnxNode) -> None:
    """MelWeightMatrix: triangular filters on the mel scale, [dft_length // 2 + 1, bins]."""
    from ascend_sim.graph.onnx_import.logic import onnx_dtype

    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, length, rate, low, high = (
        np.asarray(imp.value(n, what)).reshape(-1)[0].item() for n, what in zip(node.inputs, names, strict=True)
    )
    spectrum = length // 2 + 1
    first, last = (float(2595 * np.log10(1 + v / 700)) for v in (low, high))
    edges = np.linspace(first, last, bins + 3)[: bins + 2]
    hertz = 700 * (10 ** (edges / 2595) - 1)
    points = np.floor((length + 1) * hertz / rate).astype(np.int64)
    table = np.zeros((spectrum, bins))
    for i in range(bins):
        left, centre, right = points[i : i + 3]
        if centre == left:
            table[centre, i] = 1
        else:
            table[left : centre + 1, i] = (np.arange(left, centre + 1) - left) / (centre - left)
        if right > centre:
            table[centre:right, i] = (right - np.arange(centre, right)) / (right - centre)
    dtype = onnx_dtype(imp, int(node.attr("output_datatype", 1)))
    imp.define(node.outputs[0], table.astype(dtype))


TABLE: Table = {"DFT": dft, "STFT": stft, "MelWeightMatrix": mel_weights}
