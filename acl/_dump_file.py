"""Files of dumped operators: a header in protobuf with its length in front, then the bytes of every tensor.

Numbers of fields, types and formats: "hicann/runtime" src/dfx/adump/proto/dump_task.proto (DumpData). Names follow the
public manual of the precision tools: ``type.name.task.stream.time`` below ``path/time/device/model/id/index``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ascend_sim.graph.om.wire import Field, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ascend_sim.ops.schema import TensorSpec

    Tensor = tuple[TensorSpec, NDArray[Any]]

_TYPES = {
    "float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int16": 5, "uint16": 6, "int32": 7, "int64": 8, "uint32": 9,
    "uint64": 10, "bool": 11, "float64": 12, "complex64": 16, "complex128": 17, "bfloat16": 27, "int4": 28,
}  # fmt: skip
_FORMATS = {
    "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "NC1HWC0_C04": 12, "HWCN": 16, "NDHWC": 27,
    "FRACTAL_NZ": 29, "NCDHW": 30, "NDC1HWC0": 32, "FRACTAL_Z_3D": 33,
}  # fmt: skip
_TABLES = {
    "Shape": (Field(1, "dim", "uint", True),),
    "OpOutput": (
        Field(1, "data_type", "int"), Field(2, "format", "int"), Field(3, "shape", "Shape"), Field(6, "size", "uint"),
        Field(7, "original_shape", "Shape"),
    ),
    "OpInput": (
        Field(1, "data_type", "int"), Field(2, "format", "int"), Field(3, "shape", "Shape"), Field(5, "size", "uint"),
        Field(6, "original_shape", "Shape"),
    ),
    "DumpData": (
        Field(1, "version", "str"), Field(2, "dump_time", "uint"), Field(3, "output", "OpOutput", True),
        Field(4, "input", "OpInput", True), Field(6, "op_name", "str"),
    ),
}  # fmt: skip
_VERSION = "2.0"


def file_name(op_type: str, op_name: str, task: int, stream: int, us: int) -> str:
    """Characters that no file name or field may hold become underlines."""
    safe = re.sub(r"[./\\ ]", "_", op_name)
    return f"{op_type}.{safe}.{task}.{stream}.{us}"


def _described(spec: TensorSpec, nbytes: int) -> dict[str, Any]:
    return {
        "data_type": _TYPES.get(spec.dtype, 0),
        "format": _FORMATS.get(spec.format, 2),
        "shape": {"dim": list(spec.shape)},
        "size": nbytes,
        "original_shape": {"dim": list(spec.logical_shape)},
    }


def content(op_name: str, us: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bytes:
    """The bytes of a dump file; inputs come before outputs."""
    import numpy as np

    raw = [[np.ascontiguousarray(array).tobytes() for _, array in group] for group in (inputs, outputs)]
    header = encode(
        "DumpData",
        {
            "version": _VERSION,
            "dump_time": us,
            "input": [_described(spec, len(data)) for (spec, _), data in zip(inputs, raw[0], strict=True)],
            "output": [_described(spec, len(data)) for (spec, _), data in zip(outputs, raw[1], strict=True)],
            "op_name": op_name,
        },
        _TABLES,
    )
    return b"".join([struct.pack("<Q", len(header)), header, *raw[0], *raw[1]])


_STATISTICS = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count"


def statistics(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """A table of what the tensors hold, one line each."""
    import numpy as np

    lines = [_STATISTICS]
    for what, group in (("Input", inputs), ("Output", outputs)):
        for index, (spec, array) in enumerate(group):
            values = np.asarray(array)
            figures = ["nan"] * 3
            if values.size and values.dtype.kind in "fiubV":
                wide = values.astype(np.float64)
                figures = [f"{v:.7g}" for v in (wide.max(), wide.min(), wide.mean())]
            shape = "x".join(map(str, spec.shape))
            known = (what, index, values.nbytes, spec.dtype, spec.format, shape, *figures, values.size)
            lines.append(",".join(map(str, known)))
    return "\n".join(lines) + "\n"
