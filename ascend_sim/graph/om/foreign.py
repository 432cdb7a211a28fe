"""Operators of a model that another ATC compiled, as calls whose time can be estimated.

Such a model keeps shapes, formats and the types of its operators, but fused operators have lost attributes: stride and
padding of a convolution then follow from the sizes of its tensors. What was fused behind an operator is left out, and
a vector fusion counts as one elementwise operator. So these calls tell times, not values. Source: a model compiled by
ATC for 310B4 (public repository), decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim import ops
from ascend_sim.graph.om import container
from ascend_sim.graph.om.decode import attributes
from ascend_sim.graph.om.proto import PROTO_DTYPE_NAMES
from ascend_sim.graph.om.reader import OmFile
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs

Message = Mapping[str, Any]
NOT_RUN = ("Data", "AippData", "Const", "Constant", "FileConstant", "NetOutput", "PartitionedCall", "Case", "Variable")
_CONVOLUTIONS = {"Conv2D": False, "DepthwiseConv2D": False, "Conv2DTransposeD": True}
_FORMATS = ("NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ", "NCDHW", "NDHWC", "HWCN")
_VECTOR = "Relu"  # stands for a fusion of vector operators
_SMALL = 1024  # bytes of constants that shape inference and tiling read


def operator_calls(om: OmFile) -> list[tuple[str, OpCall]]:
    """(name, call) of the device operators in order. Raises `OmError` when the model is malformed."""
    ops.load()
    weights = om.container.partition(container.WEIGHTS_DATA)
    found = []
    for graph in om.model.get("graph", [])[:1]:
        constants = {op.get("name", ""): _constant(op, weights) for op in graph.get("op", [])}
        for op in graph.get("op", []):
            if op.get("type", "") in NOT_RUN or not op.get("output_desc"):
                continue
            call = _call(op, constants)
            if call is not None:
                found.append((str(op.get("name", "")), call))
    return found


def _constant(op: Message, weights: memoryview | None) -> bytes | None:
    """The bytes of a small Const."""
    desc = op.get("attr", {}).get("value", {}).get("t", {}).get("desc", {})
    offset, size = desc.get("data_offset", 0), desc.get("weight_size", 0)
    if op.get("type") != "Const" or weights is None or not 0 < size <= _SMALL or offset + size > len(weights):
        return None
    return bytes(weights[offset : offset + size])


def _spec(desc: Message, const: bytes | None = None) -> TensorSpec | None:
    """The tensor of a description; None for an absent input and for types the device does not compute with."""
    dtype = PROTO_DTYPE_NAMES.get(desc.get("dtype", 0))
    layout = desc.get("layout", "ND")
    if dtype is None or dtype == "string" or layout == "FORMAT_RESERVED":
        return None
    shape = tuple(max(int(d), 1) for d in desc.get("shape", {}).get("dim", []))
    attrs = attributes(desc.get("attr", {}))
    origin = attrs.get("origin_shape")
    fmt = layout if layout in _FORMATS else "ND"
    if fmt in ("NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ") and not isinstance(origin, list):
        fmt = "ND"
    if const is not None and len(const) != TensorSpec(shape, dtype).nbytes:
        const = None
    if fmt in ("NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ") and isinstance(origin, list):
        logical = tuple(max(int(d), 1) for d in origin)
        kind = str(attrs.get("origin_format", "NCHW"))
        return TensorSpec(shape, dtype, fmt, logical, kind if fmt != "FRACTAL_NZ" else "ND", const)
    return TensorSpec(shape, dtype, fmt, const=const)


def _call(op: Message, constants: Mapping[str, bytes | None]) -> OpCall | None:
    sources = [name for name in op.get("input", []) if not name.endswith(":-1")]
    inputs: list[TensorSpec | None] = []
    for index, desc in enumerate(op.get("input_desc", [])):
        source = sources[index].rpartition(":")[0] if index < len(sources) else ""
        inputs.append(_spec(desc, constants.get(source)))
    outputs = [spec for spec in map(_spec, op["output_desc"]) if spec is not None]
    if not outputs:
        return None
    kind = str(op.get("type", ""))
    attrs = {k: v for k, v in attributes(op.get("attr", {})).items() if not k.startswith("_")}
    if kind in _CONVOLUTIONS and len(inputs) >= 2 and inputs[0] is not None and inputs[1] is not None:
        return _convolution(kind, inputs[:3], outputs[0], attrs)
    definition = ops.registry.find(kind)
    if definition is None:
        kind, inputs, attrs = _VECTOR, [outputs[0]], {}
    return OpCall(kind, tuple(inputs), tuple(outputs[:1] if kind == _VECTOR else outputs), freeze_attrs(attrs))


def _convolution(kind: str, inputs: list[TensorSpec | None], output: TensorSpec, attrs: Message) -> OpCall:
    x, weights = inputs[0], inputs[1]
    assert x is not None and weights is not None
    bias = inputs[2] if len(inputs) > 2 else None
    if len(x.logical_shape) != 4 or len(weights.logical_shape) != 4 or len(output.logical_shape) != 4:
        return OpCall(_VECTOR, (output,), (output,))
    transposed = _CONVOLUTIONS[kind]
    small, large = (x, output) if transposed else (output, x)
    kernel = weights.logical_shape[2:]
    strides, pads = attrs.get("strides"), attrs.get("pads")
    if not isinstance(strides, list) or len(strides) != 4 or not isinstance(pads, list) or len(pads) != 4:
        steps = [guess(large.logical_shape[2 + i], small.logical_shape[2 + i], kernel[i]) for i in range(2)]
        strides = [1, 1, *(step for step, _ in steps)]
        pads = [steps[0][1], steps[0][1], steps[1][1], steps[1][1]]
    channels = x.logical_shape[1] // (1 if transposed else max(weights.logical_shape[1], 1))
    known = {
        "strides": strides, "pads": pads, "dilations": [1, 1, 1, 1], "groups": 1 if transposed else max(channels, 1),
        "data_format": "NCHW",
    }  # fmt: skip
    if transposed:
        known["input_size"] = list(output.logical_shape)
    return OpCall(kind, (x, weights, bias), (output,), freeze_attrs(known))


def guess(large: int, small: int, kernel: int) -> tuple[int, int]:
    """(stride, padding on both sides) with which a window of ``kernel`` makes ``small`` positions of ``large``."""
    likely = max(round(large / max(small, 1)), 1)
    for stride in (likely, *(s for s in range(1, kernel + 2) if s != likely)):
        for pad in ((kernel - 1) // 2, *range(kernel)):
            if (large + 2 * pad - kernel) // stride + 1 == small:
                return stride, pad
    return likely, (kernel - 1) // 2
