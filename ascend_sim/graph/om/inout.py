"""MODEL_INOUT_INFO: the TLV list of model inputs and outputs that describes a model without its graph.

Source: public layout of hicann/ge (base/common/model/model_introduction.cc).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_sim.graph.errors import MODEL_PARTITION_FAILED, OmError
from ascend_sim.graph.om.proto import ACL_DTYPE_NAMES, ACL_DTYPES, ACL_FORMAT_NAMES, ACL_FORMATS

INPUTS, OUTPUTS, DYNAMIC_BATCH, DYNAMIC_HW, DYNAMIC_DIMS, DYNAMIC_OUTPUT_SHAPES, SHAPE_ORDER = range(7)
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
    """``dynamic_batch`` etc. are the gears of the dynamic flags (empty for static models)."""

    inputs: tuple[IoDesc, ...]
    outputs: tuple[IoDesc, ...]
    dynamic_batch: tuple[int, ...] = ()
    dynamic_hw: tuple[tuple[int, int], ...] = ()
    dynamic_dims: tuple[tuple[int, ...], ...] = ()


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


def write_inout(info: InOut) -> bytes:
    items = [(INPUTS, _pack_descs(info.inputs)), (OUTPUTS, _pack_descs(info.outputs))]
    if info.dynamic_batch:
        items.append((DYNAMIC_BATCH, struct.pack("<I", len(info.dynamic_batch)) + _pack_ints(info.dynamic_batch)))
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
    inputs: tuple[IoDesc, ...] = ()
    outputs: tuple[IoDesc, ...] = ()
    batch: tuple[int, ...] = ()
    while cursor.pos < len(data):
        kind, size = cursor.u32(), cursor.u32()
        value = cursor.take(size)
        if kind == INPUTS:
            inputs = _read_descs(value)
        elif kind == OUTPUTS:
            outputs = _read_descs(value)
        elif kind == DYNAMIC_BATCH:
            inner = _Cursor(value)
            batch = inner.ints(8 * inner.u32())
    return InOut(inputs, outputs, batch)
