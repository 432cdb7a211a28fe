"""Data buffers and tensor descriptions."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from math import prod
from typing import Any

from acl import errors, handles
from acl._api import api
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.system import system

# acl data type -> (name in ascend_sim.ops, bits)
DTYPES: dict[int, tuple[str, int]] = {
    0: ("float32", 32),
    1: ("float16", 16),
    2: ("int8", 8),
    3: ("int32", 32),
    4: ("uint8", 8),
    6: ("int16", 16),
    7: ("uint16", 16),
    8: ("uint32", 32),
    9: ("int64", 64),
    10: ("uint64", 64),
    11: ("float64", 64),
    12: ("bool", 8),
    13: ("string", 2048),
    16: ("complex64", 64),
    17: ("complex128", 128),
    27: ("bfloat16", 16),
    29: ("int4", 4),
    30: ("uint1", 1),
}
DTYPE_NUMBERS = {name: number for number, (name, _) in DTYPES.items()}

FORMATS: dict[int, str] = {
    -1: "UNDEFINED",
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    12: "NC1HWC0_C04",
    16: "HWCN",
    27: "NDHWC",
    29: "FRACTAL_NZ",
    30: "NCDHW",
    32: "NDC1HWC0",
    33: "FRACTAL_Z_3D",
}
FORMAT_NUMBERS = {name: number for number, name in FORMATS.items()}

_LIMIT = 4096


@dataclass
class DataBuffer:
    """A device address with a size; owns nothing."""

    address: int
    size: int


@dataclass
class TensorDesc:
    dtype: int
    dims: list[int]
    format: int
    name: str = ""
    storage_format: int | None = None
    storage_dims: list[int] | None = None
    origin_format: int | None = None
    origin_dims: list[int] | None = None
    ranges: list[list[int]] = field(default_factory=list)
    value_ranges: list[list[int]] = field(default_factory=list)
    const: bytes | None = None
    placement: int = 0
    dynamic_input: str = ""
    address: int = 0
    others: list[int] = field(default_factory=list)  # further descriptions that came with this one

    @property
    def elements(self) -> int:
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor; 0 where a dimension or the type is unknown."""
        if any(d < 0 for d in self.dims) or self.dtype not in DTYPES:
            return 0
        return (self.elements * DTYPES[self.dtype][1] + 7) // 8


def _buffer(handle: int) -> DataBuffer | None:
    found = handles.get(handle, DataBuffer)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "DataBuffer", "acl.create_data_buffer"))
    return found


def desc_of(handle: int) -> TensorDesc | None:
    """The description behind a handle; None (and the cause stored) when there is none."""
    found = handles.get(handle, TensorDesc)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "TensorDesc", "acl.create_tensor_desc"))
    return found


@api("acl.create_data_buffer", "aclCreateDataBuffer")
def create_data_buffer(data_ptr: int, size: int, /) -> int:
    return handles.new(DataBuffer(data_ptr, size))


@api("acl.destroy_data_buffer", "aclDestroyDataBuffer")
def destroy_data_buffer(buffer_ptr: int, /) -> int:
    if _buffer(buffer_ptr) is None:
        return errors.INVALID_PARAM
    handles.drop(buffer_ptr)
    return 0


@api("acl.get_data_buffer_addr", "aclGetDataBufferAddr")
def get_data_buffer_addr(buffer_ptr: int, /) -> int:
    found = _buffer(buffer_ptr)
    return 0 if found is None else found.address


@api("acl.get_data_buffer_size", "aclGetDataBufferSize")
def get_data_buffer_size(buffer_ptr: int, /) -> int:
    found = _buffer(buffer_ptr)
    return 0 if found is None else found.size & 0xFFFFFFFF


@api("acl.get_data_buffer_size_v2", "aclGetDataBufferSizeV2")
def get_data_buffer_size_v2(buffer_ptr: int, /) -> int:
    found = _buffer(buffer_ptr)
    return 0 if found is None else found.size


@api("acl.update_data_buffer", "aclUpdateDataBuffer")
def update_data_buffer(buffer_ptr: int, data_ptr: int, size: int, /) -> int:
    found = _buffer(buffer_ptr)
    if found is None:
        return errors.INVALID_PARAM
    found.address, found.size = data_ptr, size
    return 0


@api("acl.data_type_size", "aclDataTypeSize")
def data_type_size(data_type: int, /) -> int:
    known = DTYPES.get(data_type)
    return 0 if known is None or known[1] < 8 else known[1] // 8


# -- tensor descriptions -----------------------------------------------------------------------------------


def _dims(dims: list[Any]) -> list[int]:
    for dim in dims:
        if not isinstance(dim, int):
            raise TypeError(f"dims must be a list of int, got {dims!r}")
    return list(dims)


@api("acl.create_tensor_desc", "aclCreateTensorDesc")
def create_tensor_desc(data_type: int, dims: list[int], format: int, /) -> int:
    if any(d < -2 for d in _dims(dims)):
        errors.bad("dims", dims, "sizes >= 0, or -1 and -2 for unknown ones")
        return 0
    return handles.new(TensorDesc(data_type, list(dims), format))


@api("acl.destroy_tensor_desc", "aclDestroyTensorDesc")
def destroy_tensor_desc(desc_ptr: int, /) -> None:
    desc = desc_of(desc_ptr)
    if desc is not None:
        for other in desc.others:
            handles.drop(other)
        handles.drop(desc_ptr)


@api("acl.get_tensor_desc_type", "aclGetTensorDescType")
def get_tensor_desc_type(desc_ptr: int, /) -> int:
    desc = desc_of(desc_ptr)
    return -1 if desc is None else desc.dtype


@api("acl.get_tensor_desc_format", "aclGetTensorDescFormat")
def get_tensor_desc_format(desc_ptr: int, /) -> int:
    desc = desc_of(desc_ptr)
    return -1 if desc is None else desc.format


@api("acl.get_tensor_desc_size", "aclGetTensorDescSize")
def get_tensor_desc_size(desc_ptr: int, /) -> int:
    desc = desc_of(desc_ptr)
    return 0 if desc is None else desc.nbytes


@api("acl.get_tensor_desc_element_count", "aclGetTensorDescElementCount")
def get_tensor_desc_element_count(desc_ptr: int, /) -> int:
    desc = desc_of(desc_ptr)
    return 0 if desc is None or any(d < 0 for d in desc.dims) else desc.elements


@api("acl.get_tensor_desc_num_dims", "aclGetTensorDescNumDims")
def get_tensor_desc_num_dims(desc_ptr: int, /) -> int:
    desc = desc_of(desc_ptr)
    return 0 if desc is None else len(desc.dims)


def _dim(desc_ptr: int, index: int) -> tuple[int, int]:
    desc = desc_of(desc_ptr)
    if desc is None:
        return -1, errors.INVALID_PARAM
    if not 0 <= index < len(desc.dims):
        return -1, errors.bad("index", index, f"0..{len(desc.dims) - 1}")
    return desc.dims[index], 0


@api("acl.get_tensor_desc_dim", "aclGetTensorDescDim")
def get_tensor_desc_dim(desc_ptr: int, index: int, /) -> int:
    return _dim(desc_ptr, index)[0]


@api("acl.get_tensor_desc_dim_v2", "aclGetTensorDescDimV2")
def get_tensor_desc_dim_v2(desc_ptr: int, index: int, /) -> tuple[int, int]:
    return _dim(desc_ptr, index)


@api("acl.get_tensor_desc_dim_range", "aclGetTensorDescDimRange")
def get_tensor_desc_dim_range(desc_ptr: int, index: int, dim_range_num: int, /) -> tuple[list[int] | None, int]:
    if not 0 < dim_range_num <= _LIMIT:
        return None, errors.bad("dim_range_num", dim_range_num, f"1..{_LIMIT}")
    desc = desc_of(desc_ptr)
    if desc is None:
        return None, errors.INVALID_PARAM
    if not 0 <= index < len(desc.ranges):
        return None, errors.bad("index", index, f"below {len(desc.ranges)}, the ranges that were set")
    return desc.ranges[index][:dim_range_num], 0


@api("acl.get_tensor_desc_name", "aclGetTensorDescName")
def get_tensor_desc_name(desc_ptr: int, /) -> str:
    desc = desc_of(desc_ptr)
    return "" if desc is None else desc.name


@api("acl.set_tensor_desc_name", "aclSetTensorDescName")
def set_tensor_desc_name(desc_ptr: int, name: str, /) -> None:
    desc = desc_of(desc_ptr)
    if desc is not None:
        desc.name = name


@api("acl.get_tensor_desc_address", "aclGetTensorDescAddress")
def get_tensor_desc_address(desc_ptr: int, /) -> int:
    desc = desc_of(desc_ptr)
    return 0 if desc is None else desc.address


@api("acl.get_tensor_desc_by_index", "aclGetTensorDescByIndex")
def get_tensor_desc_by_index(desc_ptr: int, index: int, /) -> int:
    desc = desc_of(desc_ptr)
    if desc is None:
        return 0
    if not 0 <= index <= len(desc.others):
        errors.bad("index", index, f"below {len(desc.others) + 1}, the number of descriptions")
        return 0
    return desc.others[index - 1] if index else desc_ptr


@api("acl.trans_tensor_desc_format", "aclTransTensorDescFormat", supported=False)
def trans_tensor_desc_format(src_desc: int, format: int, /) -> tuple[int, int]:
    wanted = FORMATS.get(format, format)
    return 0, errors.fail(
        errors.RT_FEATURE_NOT_SUPPORT,
        f"a description cannot be changed to format {wanted}: the function is reserved, no release supports it.",
    )


@api("acl.set_tensor_storage_format", "aclSetTensorStorageFormat")
def set_tensor_storage_format(desc_ptr: int, format: int, /) -> int:
    return _set(desc_ptr, storage_format=format)


@api("acl.set_tensor_storage_shape", "aclSetTensorStorageShape")
def set_tensor_storage_shape(desc_ptr: int, dims: list[int], /) -> int:
    return _set(desc_ptr, storage_dims=_dims(dims))


@api("acl.set_tensor_format", "aclSetTensorFormat")
def set_tensor_format(desc_ptr: int, format: int, /) -> int:
    return _set(desc_ptr, storage_format=format)


@api("acl.set_tensor_shape", "aclSetTensorShape")
def set_tensor_shape(desc_ptr: int, dims: list[int], /) -> int:
    return _set(desc_ptr, storage_dims=_dims(dims))


@api("acl.set_tensor_origin_format", "aclSetTensorOriginFormat")
def set_tensor_origin_format(desc_ptr: int, format: int, /) -> int:
    return _set(desc_ptr, origin_format=format)


@api("acl.set_tensor_origin_shape", "aclSetTensorOriginShape")
def set_tensor_origin_shape(desc_ptr: int, dims: list[int], /) -> int:
    return _set(desc_ptr, origin_dims=_dims(dims))


@api("acl.set_tensor_dynamic_input", "aclSetTensorDynamicInput")
def set_tensor_dynamic_input(desc_ptr: int, name: str, /) -> int:
    return _set(desc_ptr, dynamic_input=name)


@api("acl.set_tensor_shape_range", "aclSetTensorShapeRange")
def set_tensor_shape_range(desc_ptr: int, ranges: list[list[int]], /) -> int:
    return _set(desc_ptr, ranges=[list(r) for r in ranges])


@api("acl.set_tensor_value_range", "aclSetTensorValueRange")
def set_tensor_value_range(desc_ptr: int, ranges: list[list[int]], /) -> int:
    return _set(desc_ptr, value_ranges=[list(r) for r in ranges])


@api("acl.set_tensor_place_ment", "aclSetTensorPlaceMent")
def set_tensor_place_ment(desc_ptr: int, mem_type: int, /) -> int:
    if mem_type not in (0, 1, 2):
        return errors.bad("mem_type", mem_type, "0 (device), 1 (host) or 2 (host, compile-time known)")
    return _set(desc_ptr, placement=mem_type)


@api("acl.set_tensor_const", "aclSetTensorConst")
def set_tensor_const(desc_ptr: int, data_ptr: int, size: int, /) -> int:
    if size <= 0:
        return errors.bad("size", size, "at least 1 byte")
    try:
        locate(system(), data_ptr, size, False, "data_ptr")
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    return _set(desc_ptr, const=ctypes.string_at(data_ptr, size))


def _set(desc_ptr: int, **values: Any) -> int:
    desc = desc_of(desc_ptr)
    if desc is None:
        return errors.INVALID_PARAM
    for name, value in values.items():
        setattr(desc, name, value)
    return 0


@api("acl.float16_to_float", "aclFloat16ToFloat")
def float16_to_float(value: int, /) -> float:
    return float(struct.unpack("<e", struct.pack("<H", value & 0xFFFF))[0])


@api("acl.float_to_float16", "aclFloatToFloat16")
def float_to_float16(value: float, /) -> int:
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00
