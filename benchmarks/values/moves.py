"""Random cases of operators that move data; see `benchmarks.values.cases`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.values.cases import Rng, cases, normal, pick, plain, shape_of, some_chip
from benchmarks.values.run import Array, Case, Operand


def some(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Numbers of any common type."""
    kind = pick(rng, np.float16, np.float32, np.int32, np.uint8, np.int64)
    return rng.integers(0, 100, shape).astype(kind)


@cases("TransData")
def layouts(op: str, rng: Rng) -> Case:
    """NCHW to and from channel blocks, rows to and from fractals, filters to fractals."""
    what = pick(rng, "blocks", "rows", "filters")
    chip = some_chip(rng)
    if what == "blocks":
        x = normal(rng, tuple(int(rng.integers(1, top)) for top in (4, 50, 20, 20)), np.float16)
        plain_format, stored = "NCHW", "NC1HWC0"
    elif what == "rows":
        x = normal(rng, (int(rng.integers(1, 70)), int(rng.integers(1, 70))), np.float16)
        plain_format, stored = "ND", "FRACTAL_NZ"
    else:
        x = normal(rng, (int(rng.integers(1, 40)), int(rng.integers(1, 40)), 3, 3), np.float16)
        plain_format, stored = "NCHW", "FRACTAL_Z"
    if what == "filters" or rng.random() < 0.5:
        return Case(op, chip, (Operand(x),), {"src_format": plain_format, "dst_format": stored}, outputs=stored)
    return Case(op, chip, (Operand(x, stored),), {"src_format": stored, "dst_format": plain_format})


@cases("Transpose", "TransposeD")
def transpose(op: str, rng: Rng) -> Case:
    x = normal(rng, shape_of(rng, 2, 4), pick(rng, np.float16, np.float32))
    perm = tuple(int(i) for i in rng.permutation(x.ndim))
    if op == "TransposeD":
        return Case(op, some_chip(rng), plain(x), {"perm": perm})
    return Case(op, some_chip(rng), plain(x, np.asarray(perm), const=(1,)))


def parts_of(rng: Rng) -> tuple[list[Array], int]:
    axis = int(rng.integers(3))
    kind = pick(rng, np.float16, np.float32, np.int32)
    shapes = [[int(rng.integers(1, 40)) if a == axis else 6 for a in range(3)] for _ in range(int(rng.integers(1, 5)))]
    return [rng.integers(0, 100, shape).astype(kind) for shape in shapes], axis


@cases("Concat", "ConcatD", "ConcatV2", "ConcatV2D")
def concat(op: str, rng: Rng) -> Case:
    parts, axis = parts_of(rng)
    where = np.asarray([axis], np.int32)
    if op == "Concat":
        return Case(op, some_chip(rng), plain(where, *parts, const=(0,)))
    if op == "ConcatV2":
        return Case(op, some_chip(rng), plain(*parts, where, const=(len(parts),)))
    return Case(op, some_chip(rng), plain(*parts), {"concat_dim": axis})


@cases("SplitV", "SplitVD")
def split_by_sizes(op: str, rng: Rng) -> Case:
    parts, axis = parts_of(rng)
    sizes = tuple(p.shape[axis] for p in parts)
    whole = np.concatenate(parts, axis)
    if op == "SplitVD":
        return Case(op, some_chip(rng), plain(whole), {"size_splits": sizes, "split_dim": axis})
    return Case(op, some_chip(rng), plain(whole, np.asarray(sizes), np.asarray([axis]), const=(1, 2)))


@cases("Split", "SplitD")
def split_evenly(op: str, rng: Rng) -> Case:
    count, axis, shape = int(rng.integers(1, 5)), int(rng.integers(3)), [6, 6, 6]
    shape[axis] = count * int(rng.integers(1, 20))
    x = some(rng, tuple(shape))
    if op == "SplitD":
        return Case(op, some_chip(rng), plain(x), {"split_dim": axis, "num_split": count})
    return Case(op, some_chip(rng), plain(np.asarray([axis], np.int32), x, const=(0,)), {"num_split": count})


@cases("Pack")
def stack(op: str, rng: Rng) -> Case:
    shape, kind = shape_of(rng, 1, 3, 4000), pick(rng, np.float16, np.float32)
    parts = [normal(rng, shape, kind) for _ in range(int(rng.integers(1, 5)))]
    return Case(op, some_chip(rng), plain(*parts), {"axis": int(rng.integers(len(shape) + 1)), "N": len(parts)})


@cases("Unpack")
def unstack(op: str, rng: Rng) -> Case:
    shape = list(shape_of(rng, 2, 3, 4000))
    axis = int(rng.integers(len(shape)))
    shape[axis] = int(rng.integers(1, 5))
    x = normal(rng, tuple(shape), pick(rng, np.float16, np.float32))
    return Case(op, some_chip(rng), plain(x), {"axis": axis, "num": shape[axis]})


@cases("Slice", "SliceD", "StridedSlice", "StridedSliceD", "StridedSliceV2")
def cut(op: str, rng: Rng) -> Case:
    x = some(rng, (int(rng.integers(1, 9)), int(rng.integers(1, 30)), int(rng.integers(1, 60))))
    begin = [int(rng.integers(s)) for s in x.shape]
    end = [int(rng.integers(b + 1, s + 1)) for b, s in zip(begin, x.shape, strict=True)]
    if op.startswith("Slice"):
        sizes = [e - b for b, e in zip(begin, end, strict=True)]
        if op == "SliceD":
            return Case(op, some_chip(rng), plain(x), {"offsets": tuple(begin), "size": tuple(sizes)})
        return Case(op, some_chip(rng), plain(x, np.asarray(begin), np.asarray(sizes), const=(1, 2)))
    steps = [int(rng.integers(1, 4)), int(rng.integers(1, 4)), 1]
    if op == "StridedSliceD":
        return Case(op, some_chip(rng), plain(x), {"begin": tuple(begin), "end": tuple(end), "strides": tuple(steps)})
    lists = [np.asarray(v) for v in (begin, end, steps)]
    if op == "StridedSlice":
        return Case(op, some_chip(rng), plain(x, *lists, const=(1, 2, 3)))
    return Case(op, some_chip(rng), plain(x, *lists[:2], np.arange(3), lists[2], const=(1, 2, 3, 4)))


@cases("Pad", "PadD", "PadV2", "PadV3", "PadV3D")
def pad(op: str, rng: Rng) -> Case:
    shape = shape_of(rng, 1, 3, 4000)
    x = normal(rng, shape, pick(rng, np.float16, np.float32))
    pads = [[int(rng.integers(0, 4)) for _ in range(2)] for _ in shape]
    if op in ("PadD", "PadV3D"):
        attrs: dict[str, Any] = {"paddings": tuple(map(tuple, pads))}
        return Case(op, some_chip(rng), plain(x), {**attrs, **({"constant_values": 1.5} if op == "PadV3D" else {})})
    listed = np.asarray(pads, np.int32)
    if op == "Pad":
        return Case(op, some_chip(rng), plain(x, listed, const=(1,)))
    return Case(op, some_chip(rng), plain(x, listed, np.asarray(1.5, x.dtype), const=(1, 2)))


@cases("Tile", "TileD", "BroadcastTo", "BroadcastToD", "Expand", "ExpandD")
def repeat(op: str, rng: Rng) -> Case:
    shape = shape_of(rng, 1, 3, 500)
    times = [int(rng.integers(1, 4)) for _ in shape]
    x = normal(rng, shape, pick(rng, np.float16, np.float32))
    if op.startswith("Tile"):
        values, name = times, "multiples"
    else:
        lead = [int(rng.integers(1, 4))] if rng.random() < 0.3 else []
        kept = [1 if rng.random() < 0.4 else s for s in shape]
        x = normal(rng, tuple(kept), x.dtype)
        values, name = [*lead, *shape], "shape"
    if op.endswith("D"):
        return Case(op, some_chip(rng), plain(x), {name: tuple(values)})
    return Case(op, some_chip(rng), plain(x, np.asarray(values), const=(1,)))


@cases("Gather", "GatherV2", "GatherV2D")
def gather(op: str, rng: Rng) -> Case:
    shape = shape_of(rng, 2, 3, 8000)
    axis = 0 if op == "Gather" else int(rng.integers(len(shape)))
    x = normal(rng, shape, pick(rng, np.float16, np.float32))
    index = rng.integers(0, shape[axis], int(rng.integers(1, 40))).astype(pick(rng, np.int32, np.int64))
    if op == "GatherV2":
        return Case(op, some_chip(rng), plain(x, index, np.asarray([axis]), const=(2,)))
    return Case(op, some_chip(rng), plain(x, index), {"axis": axis} if op == "GatherV2D" else {})
