"""The outer shape of an .om: 256-byte header, partition tables, partitions.

Source: public layout of hicann/ge (inc/framework/common/framework_types_internal.h,
base/common/helper/om_file_helper.cc).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from ascend_sim.graph.errors import MODEL_PARTITION_FAILED, PARAM_INVALID, SIZE_INVALID, OmError

HEADER = struct.Struct("<4sII64sIBBBB32sI32sII20sB3sQBB62s")
MAGIC = b"IMOD"
HEADER_SIZE = 256
OURS = "sim"  # platform_version of files written here
FILE_VERSION = 0x20000000
MAX_PARTITIONS = 4096

MODEL_DEF, WEIGHTS_DATA, TASK_INFO, TBE_KERNELS, CUST_AICPU_KERNELS, SO_BINS = range(6)
FLOW_SUBMODEL, MODEL_INOUT_INFO = 7, 8
SIM_SOURCE, SIM_EXECUTABLE = 1000, 1001  # ours; outside the set that the vendor's loader knows

PARTITION_NAMES = {
    0: "MODEL_DEF", 1: "WEIGHTS_DATA", 2: "TASK_INFO", 3: "TBE_KERNELS", 4: "CUST_AICPU_KERNELS", 5: "SO_BINS",
    6: "FLOW_MODEL", 7: "FLOW_SUBMODEL", 8: "MODEL_INOUT_INFO", 9: "STATIC_TASK_DESC", 10: "DYNAMIC_TASK_DESC",
    11: "TASK_PARAM", 12: "TILING_DATA", 20: "PRE_MODEL_DESC", 21: "PRE_MODEL_SQE", 22: "PRE_KERNEL_ARGS",
    23: "PRE_MODEL_DESC_EXTEND", 24: "BUNDLE_MODEL_INFO", 25: "BUNDLE_MODEL_VAR_INFO", 26: "CUSTOM_OPS",
    SIM_SOURCE: "SIM_SOURCE", SIM_EXECUTABLE: "SIM_EXECUTABLE",
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """The fields of the file header that mean something; the rest is zero."""

    name: str
    om_ir_version: int = 2
    model_num: int = 1
    platform_version: str = ""
    platform_type: int = 0
    model_type: int = 0
    gen_mode: int = 0
    is_encrypt: int = 0
    is_unknown_model: int = 0
    version: int = FILE_VERSION


@dataclass
class Container:
    """``models`` holds, per model block, its partitions as (type, content) in file order."""

    header: Header
    models: list[list[tuple[int, memoryview]]] = field(default_factory=list)

    def partition(self, kind: int, model: int = 0) -> memoryview | None:
        for found, data in self.models[model]:
            if found == kind:
                return data
        return None


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def pack_header(header: Header, payload: int) -> bytes:
    return HEADER.pack(
        MAGIC, HEADER_SIZE, header.version, bytes(64), 0, header.is_encrypt, 0, header.model_type, header.gen_mode,
        header.name.encode()[:31], 0, bytes(32), header.om_ir_version, header.model_num,
        header.platform_version.encode()[:19], header.platform_type, bytes(3), payload, 0, header.is_unknown_model,
        bytes(62),
    )  # fmt: skip


def pack_table(sizes: Sequence[tuple[int, int]]) -> bytes:
    """Partition table of one model block from (type, size) in file order."""
    out = [struct.pack("<II", len(sizes), 0)]
    offset = 0
    for kind, size in sizes:
        out.append(struct.pack("<IIQQ", kind, 0, offset, size))
        offset += size
    return b"".join(out)


def write_container(header: Header, partitions: Sequence[tuple[int, bytes]]) -> bytes:
    """One model block: header, table, partitions back to back."""
    table = pack_table([(kind, len(data)) for kind, data in partitions])
    payload = len(table) + sum(len(data) for _, data in partitions)
    return b"".join([pack_header(header, payload), table, *(data for _, data in partitions)])


def _looks_like_text(data: bytes) -> bool:
    head = data[:256]
    return len(head) >= 8 and all(b in (9, 10, 13) or 32 <= b < 127 for b in head)


def read_header(data: memoryview) -> tuple[Header, int, int]:
    """(header, payload length, 32-bit length). Raises `OmError`."""
    if len(data) < HEADER_SIZE:
        what = "text, not a model" if _looks_like_text(bytes(data)) else "shorter than the 256-byte model header"
        raise OmError(f"the file has {len(data)} bytes: {what}", SIZE_INVALID)
    (magic, head_size, version, _, length, encrypt, _, model_type, gen_mode, name, _, _, ir, num, platform, ptype, _,
     model_length, _, unknown, _) = HEADER.unpack_from(data)  # fmt: skip
    if magic != MAGIC:
        what = "it looks like a text file" if _looks_like_text(bytes(data[:256])) else f"it begins with {magic!r}"
        raise OmError(f"not an offline model: the magic 'IMOD' is missing, {what}", PARAM_INVALID)
    if head_size != HEADER_SIZE:
        raise OmError(f"the model header says it has {head_size} bytes, expected {HEADER_SIZE}", PARAM_INVALID)
    header = Header(_text(name), ir, num, _text(platform), ptype, model_type, gen_mode, encrypt, unknown, version)
    return header, model_length, length


def read_container(source: bytes | memoryview) -> Container:
    """Header and partitions of an .om, as views into ``source``. Raises `OmError` naming the cause."""
    data = memoryview(source).cast("B")
    header, model_length, length = read_header(data)
    payload = len(data) - HEADER_SIZE
    stated = model_length or length
    if stated != payload:
        state = "truncated" if payload < stated else "longer than it says"
        raise OmError(
            f"the file is {state}: its header promises {stated} bytes after the header, it holds {payload}",
            SIZE_INVALID,
        )
    if header.is_encrypt:
        raise OmError("the model is encrypted; encrypted models are not supported", PARAM_INVALID)
    if not 1 <= header.model_num <= 1024:
        raise OmError(f"the header says {header.model_num} model blocks, expected 1 to 1024", PARAM_INVALID)
    container = Container(header)
    pos = HEADER_SIZE
    for index in range(header.model_num):
        partitions, pos = _read_block(data, pos, index, wide=model_length != 0)
        container.models.append(partitions)
    if pos != len(data):
        raise OmError(f"{len(data) - pos} bytes after the last partition belong to none", MODEL_PARTITION_FAILED)
    return container


def _read_block(data: memoryview, pos: int, index: int, wide: bool) -> tuple[list[tuple[int, memoryview]], int]:
    head, entry = (8, 24) if wide else (4, 12)
    if len(data) - pos < head:
        raise OmError(f"the partition table of model block {index} is truncated", MODEL_PARTITION_FAILED)
    (count,) = struct.unpack_from("<I", data, pos)
    if not 1 <= count <= MAX_PARTITIONS or count * entry > len(data) - pos - head:
        raise OmError(
            f"the partition table of model block {index} says {count} partitions, which do not fit the file",
            MODEL_PARTITION_FAILED,
        )
    start = pos + head + count * entry
    partitions: list[tuple[int, memoryview]] = []
    for i in range(count):
        at = pos + head + i * entry
        if wide:
            kind, _, _, size = struct.unpack_from("<IIQQ", data, at)
        else:
            kind, _, size = struct.unpack_from("<III", data, at)
        if size > len(data) - start:
            name = PARTITION_NAMES.get(kind, f"type {kind}")
            raise OmError(
                f"partition {i} ({name}) has {size} bytes but only {len(data) - start} remain", MODEL_PARTITION_FAILED
            )
        if kind != FLOW_SUBMODEL and any(kind == known for known, _ in partitions):
            raise OmError(f"partition type {kind} appears twice", MODEL_PARTITION_FAILED)
        partitions.append((kind, data[start : start + size]))
        start += size
    return partitions, start
