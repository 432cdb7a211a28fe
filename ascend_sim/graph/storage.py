"""Tensors in their storage formats as bytes, both ways."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.ir import Graph
from ascend_sim.isa import layout
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import TensorSpec

Array = NDArray[Any]
DEPTHWISE = -1  # filter kind: 16 channels on the diagonal of one fractal; else the number of groups


def filter_kinds(graph: Graph) -> dict[str, int]:
    """FRACTAL_Z constants -> number of groups, or `DEPTHWISE`."""
    kinds: dict[str, int] = {}
    for node in graph.nodes:
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if name in graph.constants and graph.specs[name].format == "FRACTAL_Z":
            depthwise = node.type == "DepthwiseConv2D"
            kinds[name] = DEPTHWISE if depthwise else int(node.attrs.get("groups", 1))
    return kinds


def merged(groups: int, logical: tuple[int, ...]) -> tuple[int, int, int]:
    """(merged groups, C1, N1) of a grouped filter [N, C / groups, Kh, Kw]: groups share dense blocks of 16 channels."""
    return layout.merged_groups(groups, logical[1], logical[0] // groups)


def _merge(x: Array, groups: int) -> Array:
    """[N, C, Kh, Kw] of several groups -> [merged groups, n, c, Kh, Kw] with the groups of one on its diagonal."""
    n, c, kh, kw = x.shape
    count, rows = merged(groups, x.shape)[0], n // groups
    each = -(-groups // count)
    out = np.zeros((count, each * rows, each * c, kh, kw), x.dtype)
    for g, part in enumerate(np.split(x, groups)):
        i = g % each
        out[g // each, i * rows : (i + 1) * rows, i * c : (i + 1) * c] = part
    return out


def _unmerge(y: Array, groups: int, rows: int, c: int) -> Array:
    each = y.shape[1] // rows
    parts = [y[g // each, g % each * rows : (g % each + 1) * rows, g % each * c : (g % each + 1) * c]
             for g in range(groups)]  # fmt: skip
    return np.concatenate(parts)


def _diagonal(x: Array, c0: int) -> Array:
    """[C, 1, Kh, Kw] -> (C1*Kh*Kw, 1, 16, C0) with channel i of a block at (i, i)."""
    c, _, kh, kw = x.shape
    c1 = -(-c // c0)
    padded = np.zeros((c1 * c0, kh, kw), x.dtype)
    padded[:c] = x[:, 0]
    out = np.zeros((c1, kh * kw, layout.CUBE, c0), x.dtype)
    index = np.arange(min(c0, layout.CUBE))
    out[:, :, index, index] = padded.reshape(c1, c0, kh * kw).transpose(0, 2, 1)[:, :, : len(index)]
    return out.reshape(c1 * kh * kw, 1, layout.CUBE, c0)


def _undiagonal(y: Array, shape: tuple[int, ...]) -> Array:
    c, _, kh, kw = shape
    c0 = y.shape[-1]
    index = np.arange(min(c0, layout.CUBE))
    taps = y.reshape(-1, kh * kw, layout.CUBE, c0)[:, :, index, index]
    return np.ascontiguousarray(taps.transpose(0, 2, 1).reshape(-1, kh, kw)[:c, None])


def _c04(x: Array) -> Array:
    """[N, C, Kh, Kw] with C <= 4 -> (K1, N1, 16 n, 16 k), k running over filter positions and four channels."""
    n, c, kh, kw = x.shape
    k = kh * kw * 4
    k1, n1 = -(-k // 16), -(-n // layout.CUBE)
    padded = np.zeros((n1 * layout.CUBE, k1 * 16), x.dtype)
    spread = np.zeros((n, kh, kw, 4), x.dtype)
    spread[..., :c] = x.transpose(0, 2, 3, 1)
    padded[:n, :k] = spread.reshape(n, k)
    return np.ascontiguousarray(padded.reshape(n1, layout.CUBE, k1, 16).transpose(2, 0, 1, 3))


def _from_c04(y: Array, shape: tuple[int, ...]) -> Array:
    n, c, kh, kw = shape
    k1, n1, rows, width = y.shape
    flat = y.transpose(1, 2, 0, 3).reshape(n1 * rows, k1 * width)[:n, : kh * kw * 4]
    return np.ascontiguousarray(flat.reshape(n, kh, kw, 4)[..., :c].transpose(0, 3, 1, 2))


def to_storage(array: Array, spec: TensorSpec, kind: int = 1) -> Array:
    """A logical array as stored (contiguous, of ``spec.shape``). ``kind``: see `filter_kinds`."""
    if spec.format == "NC1HWC0":
        stored = layout.nchw_to_nc1hwc0(array.reshape(spec.logical_shape), spec.shape[-1])
    elif spec.format == "FRACTAL_Z_C04":
        stored = _c04(array)
    elif spec.format == "FRACTAL_Z":
        c0 = spec.shape[-1]
        if kind == DEPTHWISE:
            stored = _diagonal(array, c0)
        elif kind == 1:
            stored = layout.oihw_to_fractal_z(array, c0)
        else:
            stored = np.concatenate([layout.oihw_to_fractal_z(part, c0) for part in _merge(array, kind)])
    elif spec.format == "FRACTAL_NZ":
        stored = layout.nd_to_nz(array, spec.shape[-1])
        stored = stored.reshape(spec.shape)
    else:
        stored = np.ascontiguousarray(array)
    if prod(stored.shape) != spec.size:
        raise ValueError(f"{spec.format} storage has shape {stored.shape}, its spec says {spec.shape}")
    return stored


def from_storage(data: bytes | memoryview, spec: TensorSpec, kind: int = 1) -> Array:
    """The logical array of stored bytes (a read-only view where no conversion is needed)."""
    stored: Array = np.frombuffer(data, numpy_dtype(spec.dtype), spec.size).reshape(spec.shape)
    logical = spec.logical_shape
    if spec.format == "NC1HWC0":
        return layout.nc1hwc0_to_nchw(stored, logical[1])
    if spec.format == "FRACTAL_Z_C04":
        return _from_c04(stored, logical)
    if spec.format == "FRACTAL_Z":
        n, c, kh, kw = logical
        if kind == DEPTHWISE:
            return _undiagonal(stored, logical)
        if kind == 1:
            return layout.fractal_z_to_oihw(stored, (n, c, kh, kw))
        count = merged(kind, logical)[0]
        each = -(-kind // count)
        shape = (each * (n // kind), each * c, kh, kw)
        parts = [layout.fractal_z_to_oihw(part, shape) for part in np.split(stored, count)]
        return _unmerge(np.stack(parts), kind, n // kind, c)
    if spec.format == "FRACTAL_NZ":
        m, k = logical[-2:]
        *lead, k1, m1, m0, k0 = stored.shape
        return layout.nz_to_nd(stored.reshape(*lead, k1, m1 * m0, k0), m, k)
    return stored
