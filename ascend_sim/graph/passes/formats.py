"""Storage formats: convolution networks run in NC1HWC0 with weights in FRACTAL_Z; TransData stands at the borders.

Every tensor has one version in the layout its maker writes; another version is made, once, where a reader needs it, so
inverse pairs of TransData never arise.
"""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._affine import CONVOLUTIONS
from ascend_sim.ops.schema import ITEM_BITS, TensorSpec

POOLS = ("MaxPoolV3", "AvgPoolV2", "GlobalAveragePool")
FOLLOWERS = (
    "Relu", "Relu6", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Swish", "Gelu", "GeluV2", "Abs",
    "Neg", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Square", "ClipByValue", "Adds", "Muls", "Elu", "Softplus",
    "Mish", "Erf", "Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "FusedElementwise", "BNInfer", "PRelu",
    "ResizeNearestNeighborV2", "ResizeBilinearV2", "ConcatD",
)  # fmt: skip
N0 = 16


def c0_of(dtype: str) -> int:
    """Channels of one block: 32 bytes of elements, and 16 for wider types."""
    return max(256 // ITEM_BITS[dtype], 16)


def blocked(spec: TensorSpec) -> TensorSpec:
    """NC1HWC0 storage of an NCHW tensor."""
    n, c, h, w = spec.logical_shape
    c0 = c0_of(spec.dtype)
    return TensorSpec((n, -(-c // c0), h, w, c0), spec.dtype, "NC1HWC0", (n, c, h, w), "NCHW", spec.const)


def plain(spec: TensorSpec) -> TensorSpec:
    fmt = "NCHW" if len(spec.logical_shape) == 4 else "ND"
    return TensorSpec(spec.logical_shape, spec.dtype, fmt, const=spec.const)


def fractal_z(spec: TensorSpec, groups: int, dtype: str) -> TensorSpec:
    """FRACTAL_Z storage of a filter [N, C, Kh, Kw], one stack of fractals per group."""
    n, c, kh, kw = spec.logical_shape
    c0 = c0_of(dtype)
    per_group = n // groups
    shape = (groups * -(-c // c0) * kh * kw, -(-per_group // N0), N0, c0)
    return TensorSpec(shape, dtype, "FRACTAL_Z", (n, c, kh, kw), "NCHW")


def depthwise_z(spec: TensorSpec, dtype: str) -> TensorSpec:
    """FRACTAL_Z storage of a depthwise filter [C, 1, Kh, Kw]: 16 channels share a diagonal fractal."""
    n, _, kh, kw = spec.logical_shape
    c0 = c0_of(dtype)
    return TensorSpec((-(-n // c0) * kh * kw, 1, N0, c0), dtype, "FRACTAL_Z", spec.logical_shape, "NCHW")


class _Assigner:
    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.graph = editor.graph
        self.other: dict[str, str] = {}

    def is_blocked(self, name: str) -> bool:
        return self.graph.specs[name].format == "NC1HWC0"

    def _convert(self, name: str, target: TensorSpec, before: Node | None) -> str:
        if name in self.other:
            return self.other[name]
        source = self.graph.specs[name]
        src, dst = ("NC1HWC0", "NCHW") if source.format == "NC1HWC0" else ("NCHW", "NC1HWC0")
        new = self.editor.new_name(f"{name}/{dst}")
        _, c, h, w = source.logical_shape
        base = f"trans_TransData_{name}"
        if h == w == 1 and c % c0_of(source.dtype) == 0:  # the same bytes in the same order
            shape = self.editor.add_constant(f"{new}/shape", np.asarray(target.logical_shape, np.int64))
            node = Node(self.editor.new_node_name(base), "Reshape", [name, shape], [new])
        else:
            attrs = {"src_format": src, "dst_format": dst, "groups": 1}
            node = Node(self.editor.new_node_name(base), "TransData", [name], [new], attrs)
        self.editor.add(node, [target], before=before)
        self.other[name] = new
        return new

    def to_blocked(self, name: str, before: Node) -> str:
        spec = self.graph.specs[name]
        if self.is_blocked(name):
            return name
        if name in self.graph.constants:
            key = f"{name}/NC1HWC0"
            if key not in self.graph.constants:
                self.graph.constants[key] = self.graph.constants[name].reshape(spec.logical_shape)
                self.graph.specs[key] = blocked(spec)
            return key
        return self._convert(name, blocked(spec), before)

    def to_plain(self, name: str, before: Node | None) -> str:
        return self._convert(name, plain(self.graph.specs[name]), before) if self.is_blocked(name) else name


def _follows(graph: Graph, node: Node) -> bool:
    """Whether an elementwise-like operator can run in NC1HWC0: 4-D, one operand already there, and no operand
    that broadcasts along part of a channel block."""
    out = graph.specs[node.outputs[0]].logical_shape
    if len(out) != 4 or len(node.outputs) != 1:
        return False
    names = node.inputs[:1] if node.type.startswith("Resize") or node.type == "BNInfer" else node.inputs
    if not any(n and graph.specs[n].format == "NC1HWC0" for n in names):
        return False
    if node.type == "ConcatD":
        aligned = all(graph.specs[n].logical_shape[1] % c0_of(graph.specs[n].dtype) == 0 for n in node.inputs[:-1])
        return int(node.attrs["concat_dim"]) == 1 and aligned
    for name in names:
        spec = graph.specs[name]
        shape = spec.logical_shape
        if spec.size == 1 and name in graph.constants:
            continue
        if len(shape) != 4:
            if node.type == "PRelu":
                continue
            return False
        if shape[1] != out[1]:
            return False
    return True


def _assign(assigner: _Assigner, node: Node, graph: Graph) -> None:
    inputs = list(node.inputs)
    if node.type in CONVOLUTIONS:
        extras = range(3, len(inputs))
        for i in (0, *extras):
            inputs[i] = assigner.to_blocked(inputs[i], node)
        _store_filter(assigner, node, inputs)
    else:
        for i, name in enumerate(inputs):
            spec = graph.specs[name] if name else None
            small = spec is not None and (spec.size == 1 or len(spec.logical_shape) != 4) and name in graph.constants
            if spec is not None and len(spec.logical_shape) == 4 and not small:
                inputs[i] = assigner.to_blocked(name, node)
    assigner.editor.set_inputs(node, inputs)
    for name in node.outputs:
        graph.specs[name] = blocked(graph.specs[name])


def _store_filter(assigner: _Assigner, node: Node, inputs: list[str]) -> None:
    graph = assigner.graph
    name = inputs[1]
    if name not in graph.constants:
        return  # a filter computed at run time stays NCHW
    spec = graph.specs[name]
    groups = int(node.attrs.get("groups", 1))
    key = f"{name}/FRACTAL_Z"
    if key not in graph.constants:
        graph.constants[key] = graph.constants[name]
        if node.type == "DepthwiseConv2D":
            graph.specs[key] = depthwise_z(spec, spec.dtype)
        else:
            graph.specs[key] = fractal_z(spec, groups, spec.dtype)
    inputs[1] = key


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    assigner = _Assigner(editor)
    for node in editor.nodes():
        image = len(graph.specs[node.outputs[0]].logical_shape) == 4
        wants = node.type in CONVOLUTIONS or (node.type in POOLS and image)
        if wants or (node.type in FOLLOWERS and _follows(graph, node)):
            _assign(assigner, node, graph)
        else:
            inputs = [assigner.to_plain(n, node) if n else n for n in node.inputs]
            if inputs != node.inputs:
                editor.set_inputs(node, inputs)
    graph.outputs = [assigner.to_plain(name, None) for name in graph.outputs]
    editor.changed = True
    return editor.finish()
