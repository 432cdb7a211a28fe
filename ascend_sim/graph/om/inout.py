"""MODEL_INOUT_INFO: the TLV list of model inputs and outputs that describes a model without its graph.

Source: public layout of hicann/ge (base/common/model/model_introduction.cc).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ascend_sim.graph.errors import MODEL_PARTITION_FAILED, OmError
from ascend_sim.graph.om.proto import ACL_DTYPE_NAMES, ACL_DTYPES, ACL_FORMAT_NAMES, ACL_FORMATS

INPUTS, OUTPUTS, DYNAMIC_BATCH, DYNAMIC_HW, DYNAMIC_DIMS, DYNAMIC_OUTPUT_SHAPES, SHAPE_ORDER = range(7)
DYNAMIC_INPUT = "ascend_mbatch_shape_data"  # ACL_DYNAMIC_TENSOR_NAME: the input that carries a gear
AIPP_INPUT = "ascend_dynamic_aipp_data"  # ACL_DYNAMIC_AIPP_NAME: the input that carries AIPP parameters
_FIXED = struct.Struct("<QiiIIII")


@dataclass(frozen=True)
class IoDesc:
    """One model input or output as pyACL describes it: ``size`` in bytes, ``dims`` with -1 on dynamic axes,
    ``format`` and ``dtype`` by name (`acl_format`, `acl_dtype` give the numbers)."""

    name: str
    size: int
    dims: tuple[int, ...]
    format: str
    dtype: str
    dims_v2: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def acl_format(self) -> int:
        return ACL_FORMATS[self.format]

    @property
    def acl_dtype(self) -> int:
        return ACL_DTYPES[self.dtype]


@dataclass(frozen=True)
class InOut:
    """``dynamic_batch`` etc. are the gears of the dynamic flags (empty for static models); ``output_shapes`` the shape
    of every output in every gear as ``gear,output,dim,dim,...``; ``shape_order`` the inputs as --input_shape names
    them, whose open dimensions ``dynamic_dims`` lists in that order."""

    inputs: tuple[IoDesc, ...]
    outputs: tuple[IoDesc, ...]
    dynamic_batch: tuple[int, ...] = ()
    dynamic_hw: tuple[tuple[int, ...], ...] = ()
    dynamic_dims: tuple[tuple[int, ...], ...] = ()
    output_shapes: tuple[str, ...] = ()
    shape_order: tuple[str, ...] = ()


def _pack_ints(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _pack_descs(descs: Sequence[IoDesc]) -> bytes:
    parts = [struct.pack("<I", len(descs))]
    for desc in descs:
        name = desc.name.encode()
        dims = _pack_ints(desc.dims)
        dims_v2 = _pack_ints(desc.dims_v2 or desc.dims)
        ranges = _pack_ints([v for pair in desc.ranges for v in pair])
        head = _FIXED.pack(desc.size, desc.acl_format, desc.acl_dtype, len(name), len(dims), len(dims_v2), len(ranges))
        parts += [head, name, dims, dims_v2, ranges]
    return b"".join(parts)


def _pack_lists(lists: Sequence[Sequence[int]]) -> bytes:
    """Count, the length of each list, then all values."""
    sizes = struct.pack(f"<{len(lists) + 1}I", len(lists), *(len(part) for part in lists))
    return sizes + b"".join(_pack_ints(part) for part in lists)


def _pack_texts(texts: Sequence[bytes]) -> bytes:
    """Count, the length of each text, then all texts."""
    return struct.pack(f"<{len(texts) + 1}I", len(texts), *map(len, texts)) + b"".join(texts)


def write_inout(info: InOut) -> bytes:
    items = [(INPUTS, _pack_descs(info.inputs)), (OUTPUTS, _pack_descs(info.outputs))]
    if info.dynamic_batch:
        items.append((DYNAMIC_BATCH, struct.pack("<I", len(info.dynamic_batch)) + _pack_ints(info.dynamic_batch)))
    for kind, lists in ((DYNAMIC_HW, info.dynamic_hw), (DYNAMIC_DIMS, info.dynamic_dims)):
        if lists:
            items.append((kind, _pack_lists(lists)))
    if info.output_shapes:
        texts = [text.encode() for text in info.output_shapes]
        items.append((DYNAMIC_OUTPUT_SHAPES, _pack_texts(texts)))
    if info.shape_order:
        items.append((SHAPE_ORDER, _pack_texts([name.encode() for name in info.shape_order])))
    return b"".join(struct.pack("<II", kind, len(value)) + value for kind, value in items)


class _Cursor:
    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.pos = 0

    def take(self, size: int) -> memoryview:
        if size > len(self.data) - self.pos:
            raise OmError("MODEL_INOUT_INFO is corrupt: an item runs past its end", MODEL_PARTITION_FAILED)
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def ints(self, nbytes: int) -> tuple[int, ...]:
        if nbytes % 8:
            raise OmError("MODEL_INOUT_INFO is corrupt: a shape is not made of 64-bit numbers", MODEL_PARTITION_FAILED)
        return struct.unpack(f"<{nbytes // 8}q", self.take(nbytes))

    def u32(self) -> int:
        return int(struct.unpack("<I", self.take(4))[0])


def _read_descs(data: memoryview) -> tuple[IoDesc, ...]:
    cursor = _Cursor(data)
    out = []
    for _ in range(cursor.u32()):
        size, fmt, dtype, name_len, dims_len, v2_len, range_len = _FIXED.unpack(cursor.take(_FIXED.size))
        name = bytes(cursor.take(name_len)).decode(errors="replace")
        dims, dims_v2, ranges = cursor.ints(dims_len), cursor.ints(v2_len), cursor.ints(range_len)
        if dtype not in ACL_DTYPE_NAMES or fmt not in ACL_FORMAT_NAMES:
            raise OmError(f"tensor {name!r} has unknown data type {dtype} or format {fmt}", MODEL_PARTITION_FAILED)
        pairs = tuple(zip(ranges[::2], ranges[1::2], strict=True)) if len(ranges) % 2 == 0 else ()
        out.append(IoDesc(name, size, dims, ACL_FORMAT_NAMES[fmt], ACL_DTYPE_NAMES[dtype], dims_v2, pairs))
    return tuple(out)


def read_inout(data: memoryview) -> InOut:
    """Raises `OmError` when the list is malformed."""
    cursor = _Cursor(data)
    found: dict[str, Any] = {"inputs": (), "outputs": ()}
    while cursor.pos < len(data):
        kind, size = cursor.u32(), cursor.u32()
        value = cursor.take(size)
        if kind in (INPUTS, OUTPUTS):
            found["inputs" if kind == INPUTS else "outputs"] = _read_descs(value)
        elif kind == DYNAMIC_BATCH:
            inner = _Cursor(value)
            found["dynamic_batch"] = inner.ints(8 * inner.u32())
        elif kind in (DYNAMIC_HW, DYNAMIC_DIMS):
            found["dynamic_hw" if kind == DYNAMIC_HW else "dynamic_dims"] = _read_lists(value)
        elif kind in (DYNAMIC_OUTPUT_SHAPES, SHAPE_ORDER):
            found["output_shapes" if kind == DYNAMIC_OUTPUT_SHAPES else "shape_order"] = _read_texts(value)
    return InOut(**found)


def _lengths(cursor: _Cursor) -> list[int]:
    """The count and as many lengths; each takes four bytes, so a wrong count ends at the end of the item."""
    return [cursor.u32() for _ in range(cursor.u32())]


def _read_lists(data: memoryview) -> tuple[tuple[int, ...], ...]:
    cursor = _Cursor(data)
    return tuple(cursor.ints(8 * length) for length in _lengths(cursor))


def _read_texts(data: memoryview) -> tuple[str, ...]:
    cursor = _Cursor(data)
    return tuple(bytes(cursor.take(length)).decode(errors="replace") for length in _lengths(cursor))
