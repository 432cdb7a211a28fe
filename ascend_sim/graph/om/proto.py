"""Field tables of the protobuf messages in an .om: ``ge.proto.ModelDef`` and ``domi.ModelTaskDef``.

Field numbers are facts of the public schema (hicann/ge, graph_metadef ge_ir.proto and task.proto).
"""

from __future__ import annotations

from ascend_sim.graph.om.wire import Field


def _f(number: int, name: str, kind: str) -> Field:
    return Field(number, name, kind)


def _r(number: int, name: str, kind: str) -> Field:
    return Field(number, name, kind, repeated=True)


def _m(number: int, name: str, kind: str) -> Field:
    return Field(number, name, kind, map=True)


TABLES: dict[str, tuple[Field, ...]] = {
    "ModelDef": (
        _f(1, "name", "str"), _f(2, "version", "uint"), _f(3, "custom_version", "str"), _r(7, "graph", "GraphDef"),
        _m(11, "attr", "AttrDef"),
    ),
    "GraphDef": (
        _f(1, "name", "str"), _r(4, "input", "str"), _r(5, "output", "str"), _r(6, "op", "OpDef"),
        _m(11, "attr", "AttrDef"),
    ),
    "OpDef": (
        _f(1, "name", "str"), _f(2, "type", "str"), _r(5, "input", "str"), _m(10, "attr", "AttrDef"),
        _f(20, "has_out_attr", "bool"), _f(21, "id", "int"), _f(22, "stream_id", "int"), _r(23, "input_name", "str"),
        _r(24, "src_name", "str"), _r(25, "src_index", "int"), _r(26, "dst_name", "str"), _r(27, "dst_index", "int"),
        _r(28, "input_i", "int"), _r(29, "output_i", "int"), _r(30, "workspace", "int"),
        _r(31, "workspace_bytes", "int"), _r(32, "is_input_const", "bool"), _r(33, "input_desc", "TensorDescriptor"),
        _r(34, "output_desc", "TensorDescriptor"), _r(35, "subgraph_name", "str"),
    ),
    "ShapeDef": (_r(1, "dim", "int"),),
    "TensorDescriptor": (
        _f(1, "name", "str"), _f(2, "dtype", "int"), _f(3, "shape", "ShapeDef"), _f(4, "layout", "str"),
        _m(5, "attr", "AttrDef"), _f(9, "has_out_attr", "bool"), _f(10, "size", "int"), _f(11, "weight_size", "int"),
        _f(12, "reuse_input", "bool"), _f(13, "output_tensor", "bool"), _f(14, "device_type", "str"),
        _f(15, "input_tensor", "bool"), _f(16, "real_dim_cnt", "int"), _f(17, "reuse_input_index", "int"),
        _f(18, "data_offset", "int"), _f(19, "cmps_size", "int"), _f(20, "cmps_tab", "bytes"),
        _f(21, "cmps_tab_offset", "int"),
    ),
    "TensorDef": (_f(1, "desc", "TensorDescriptor"), _f(2, "data", "bytes")),
    "AttrDef": (
        _f(1, "list", "ListValue"), _f(2, "s", "bytes"), _f(3, "i", "int"), _f(4, "f", "float"), _f(5, "b", "bool"),
        _f(7, "bt", "bytes"), _f(10, "func", "NamedAttrs"), _f(11, "td", "TensorDescriptor"), _f(12, "t", "TensorDef"),
        _f(13, "g", "GraphDef"), _f(14, "list_list_int", "ListListInt"), _f(15, "dt", "int"),
        _f(16, "list_list_float", "ListListFloat"), _f(17, "expression", "bytes"),
    ),
    "ListValue": (
        _r(2, "s", "bytes"), _r(3, "i", "int"), _r(4, "f", "float"), _r(5, "b", "bool"), _r(7, "bt", "bytes"),
        _r(8, "td", "TensorDescriptor"), _r(9, "t", "TensorDef"), _r(10, "g", "GraphDef"), _r(11, "na", "NamedAttrs"),
        _r(12, "dt", "int"), _f(20, "val_type", "int"),
    ),
    "ListInt": (_r(1, "list_i", "int"),),
    "ListListInt": (_r(1, "list_list_i", "ListInt"),),
    "ListFloat": (_r(1, "list_f", "float"),),
    "ListListFloat": (_r(1, "list_list_f", "ListFloat"),),
    "NamedAttrs": (_f(1, "name", "str"), _m(2, "attr", "AttrDef")),
    "ModelTaskDef": (
        _f(1, "version", "str"), _m(9, "attr", "str"), _r(10, "task", "TaskDef"), _f(11, "memory_size", "uint"),
        _f(12, "stream_num", "uint"), _f(13, "event_num", "uint"), _f(14, "weight_size", "uint"), _r(15, "op", "bytes"),
        _f(16, "base_addr", "uint"), _f(17, "weight_addr", "uint"), _f(18, "batch_num", "uint"),
    ),
    "TaskDef": (
        _f(1, "id", "uint"), _f(2, "type", "uint"), _f(10, "stream_id", "uint"), _f(11, "event_id", "uint"),
        _f(20, "kernel", "KernelDef"),
    ),
    "KernelDef": (
        _f(1, "context", "KernelContext"), _f(10, "stub_func", "str"), _f(11, "block_dim", "uint"),
        _f(12, "args_size", "uint"), _f(13, "args", "bytes"), _f(16, "so_name", "str"), _f(17, "kernel_name", "str"),
    ),
    "KernelContext": (
        _f(1, "kernel_type", "uint"), _f(4, "op_index", "uint"), _f(7, "args_count", "uint"),
        _r(8, "origin_op_index", "uint"), _f(10, "args_format", "bytes"),
    ),
}  # fmt: skip

# ge.proto.DataType: differs from the runtime's enumeration.
PROTO_DTYPES = {
    "float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int16": 5, "uint16": 6, "int32": 7, "int64": 8, "uint32": 9,
    "uint64": 10, "bool": 11, "float64": 12, "string": 13, "complex64": 16, "complex128": 17, "bfloat16": 27,
    "int4": 28, "uint1": 29,
}  # fmt: skip
PROTO_DTYPE_NAMES = {number: name for name, number in PROTO_DTYPES.items()}

# aclDataType and aclFormat, as MODEL_INOUT_INFO and pyACL use them.
ACL_DTYPES = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "float64": 11, "bool": 12, "string": 13, "complex64": 16, "complex128": 17, "bfloat16": 27,
    "int4": 29, "uint1": 30,
}  # fmt: skip
ACL_FORMATS = {
    "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "NC1HWC0_C04": 12, "HWCN": 16, "NDHWC": 27,
    "FRACTAL_NZ": 29, "NCDHW": 30, "NDC1HWC0": 32, "FRACTAL_Z_3D": 33,
}  # fmt: skip
ACL_DTYPE_NAMES = {number: name for name, number in ACL_DTYPES.items()}
ACL_FORMAT_NAMES = {number: name for name, number in ACL_FORMATS.items()}

# AttrDef.ListValue.val_type
LIST_STRING, LIST_INT, LIST_FLOAT, LIST_BOOL, LIST_BYTES, LIST_TENSOR_DESC, LIST_TENSOR, LIST_GRAPH, LIST_NAMED = range(
    1, 10
)
