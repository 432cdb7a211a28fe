"""Storage formats: convolution networks run in NC1HWC0 with weights in FRACTAL_Z; matrix products of chips whose DMA
cannot turn rows into fractals (310, 310P, 910) run in FRACTAL_NZ; TransData stands at the borders.

Every tensor has one version in the layout its maker writes; another version is made, once, where a reader needs it, so
inverse pairs of TransData never arise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ascend_sim.graph.aipp import FUSED as AIPP_CONV
from ascend_sim.graph.edit import Editor
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._affine import CONVOLUTIONS, MATMULS
from ascend_sim.graph.storage import merged
from ascend_sim.isa.legality import rules_for
from ascend_sim.ops.schema import ITEM_BITS, TensorSpec
from ascend_sim.soc import Soc

POOLS = ("MaxPoolV3", "AvgPoolV2", "GlobalAveragePool")
ELEMENTWISE = (
    "Relu", "Relu6", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Swish", "Gelu", "GeluV2", "Abs",
    "Neg", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Square", "ClipByValue", "Adds", "Muls", "Elu", "Softplus",
    "Mish", "Erf", "Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "FusedElementwise",
)  # fmt: skip
FOLLOWERS = (*ELEMENTWISE, "BNInfer", "PRelu", "ResizeNearestNeighborV2", "ResizeBilinearV2", "ConcatD")
BLOCKED, NZ, PLAIN = "NC1HWC0", "FRACTAL_NZ", "ND"
N0 = 16


def c0_of(dtype: str) -> int:
    """Channels of one block: 32 bytes of elements, and 16 for wider types."""
    return max(256 // ITEM_BITS[dtype], 16)


def stored(spec: TensorSpec, fmt: str) -> TensorSpec:
    """Storage of a logical tensor in ``fmt``."""
    shape = spec.logical_shape
    c0 = c0_of(spec.dtype)
    if fmt == BLOCKED:
        n, c, h, w = shape
        return TensorSpec((n, -(-c // c0), h, w, c0), spec.dtype, BLOCKED, shape, "NCHW", spec.const)
    if fmt == NZ:
        *lead, m, k = shape
        storage = (*lead, -(-k // c0), -(-m // N0), N0, c0)
        return TensorSpec(storage, spec.dtype, NZ, shape, "ND", spec.const)
    return TensorSpec(shape, spec.dtype, "NCHW" if len(shape) == 4 else "ND", const=spec.const)


def fractal_z(spec: TensorSpec, groups: int, dtype: str) -> TensorSpec:
    """FRACTAL_Z storage of a filter [N, C, Kh, Kw]; groups that share blocks of 16 channels are merged."""
    n, c, kh, kw = spec.logical_shape
    c0 = c0_of(dtype)
    count, c1, n1 = (1, -(-c // c0), -(-n // N0)) if groups == 1 else merged(groups, spec.logical_shape)
    shape = (count * c1 * kh * kw, n1, N0, c0)
    return TensorSpec(shape, dtype, "FRACTAL_Z", (n, c, kh, kw), "NCHW")


def fractal_z_c04(spec: TensorSpec, dtype: str) -> TensorSpec:
    """FRACTAL_Z_C04 storage of a filter [N, C <= 4, Kh, Kw]: four filter positions of four channels a fractal."""
    n, _, kh, kw = spec.logical_shape
    return TensorSpec((-(-kh * kw // 4), -(-n // N0), N0, 16), dtype, "FRACTAL_Z_C04", spec.logical_shape, "NCHW")


def depthwise_z(spec: TensorSpec, dtype: str) -> TensorSpec:
    """FRACTAL_Z storage of a depthwise filter [C, 1, Kh, Kw]: 16 channels share a diagonal fractal."""
    n, _, kh, kw = spec.logical_shape
    c0 = c0_of(dtype)
    return TensorSpec((-(-n // c0) * kh * kw, 1, N0, c0), dtype, "FRACTAL_Z", spec.logical_shape, "NCHW")


class _Assigner:
    def __init__(self, editor: Editor, soc: Soc) -> None:
        self.editor = editor
        self.graph = editor.graph
        self.whole_blocks = not soc.chip.split_cores and not soc.chip.has_fixpipe  # what DMA moves
        self.versions: dict[tuple[str, str], str] = {}

    def format_of(self, name: str) -> str:
        fmt = self.graph.specs[name].format
        return fmt if fmt in (BLOCKED, NZ) else PLAIN

    def to(self, name: str, fmt: str, before: Node | None) -> str:
        """The version of ``name`` stored in ``fmt``; made in front of ``before`` if it does not exist yet."""
        own = self.format_of(name)
        if own == fmt:
            return name
        if PLAIN not in (own, fmt):
            name = self.to(name, PLAIN, before)
        key = (name, fmt)
        if key not in self.versions:
            self.versions[key] = self._make(name, fmt, before)
        return self.versions[key]

    def _make(self, name: str, fmt: str, before: Node | None) -> str:
        source = self.graph.specs[name]
        target = stored(source, fmt)
        pixels = self._pixels(name) if fmt == BLOCKED else ""
        value = self.graph.constants.get(name)
        if value is not None:
            new = self.editor.new_name(f"{name}/{fmt}")
            self.graph.constants[new] = value
            self.graph.specs[new] = target
            return new
        new = self.editor.new_name(f"{name}/{target.format}")
        base = self.editor.new_node_name(f"trans_TransData_{name}")
        if pixels:  # the transpose in front is part of the change of format
            spec = self.graph.specs[pixels]
            self.graph.specs[pixels] = replace(spec, format="NHWC")
            attrs = {"src_format": "NHWC", "dst_format": BLOCKED, "groups": 1}
            node = Node(base, "TransData", [pixels], [new], attrs)
        elif self._same_bytes(source, target):
            shape = self.editor.add_constant(f"{new}/shape", np.asarray(target.logical_shape, np.int64))
            node = Node(base, "Reshape", [name, shape], [new])
        else:
            attrs = {"src_format": source.format, "dst_format": target.format, "groups": 1}
            node = Node(base, "TransData", [name], [new], attrs)
        self.editor.add(node, [target], before=before)
        return new

    def _pixels(self, name: str) -> str:
        """The NHWC tensor that ``name`` is the transpose of, "" if it is none."""
        maker = self.editor.maker(name)
        if maker is None or maker.type != "TransposeD" or list(maker.attrs["perm"]) != [0, 3, 1, 2]:
            return ""
        source = self.graph.specs[maker.inputs[0]]
        plain = maker.inputs[0] not in self.graph.constants and self.format_of(maker.inputs[0]) == PLAIN
        return maker.inputs[0] if plain and ITEM_BITS[source.dtype] == 16 else ""

    @staticmethod
    def _same_bytes(source: TensorSpec, target: TensorSpec) -> bool:
        """One pixel per image and whole channel blocks: NC1HWC0 is NCHW."""
        if BLOCKED not in (source.format, target.format):
            return False
        _, c, h, w = source.logical_shape
        return h == w == 1 and c % c0_of(source.dtype) == 0


def _blocked_follows(graph: Graph, node: Node) -> bool:
    """Whether an operator can run in NC1HWC0: 4-D, and no operand that broadcasts along part of a channel block."""
    out = graph.specs[node.outputs[0]].logical_shape
    if len(out) != 4 or len(node.outputs) != 1:
        return False
    if node.type == "ConcatD":
        aligned = all(graph.specs[n].logical_shape[1] % c0_of(graph.specs[n].dtype) == 0 for n in node.inputs[:-1])
        return int(node.attrs["concat_dim"]) == 1 and aligned
    names = node.inputs[:1] if node.type.startswith("Resize") or node.type == "BNInfer" else node.inputs
    for name in names:
        spec = graph.specs[name]
        if (spec.size == 1 and name in graph.constants) or (node.type == "PRelu" and name != node.inputs[0]):
            continue
        if len(spec.logical_shape) != 4 or spec.logical_shape[1] != out[1]:
            return False
    return True


def _nz_follows(graph: Graph, node: Node) -> bool:
    """Elementwise operators on equal shapes (and scalars) run in FRACTAL_NZ."""
    out = graph.specs[node.outputs[0]].logical_shape
    return (
        node.type in ELEMENTWISE
        and len(out) >= 2
        and all(graph.specs[n].logical_shape == out or graph.specs[n].size == 1 for n in node.inputs)
    )


def _wanted(assigner: _Assigner, node: Node, soc: Soc) -> str:
    """Format an operator runs in."""
    graph = assigner.graph
    spec = graph.specs[node.outputs[0]]
    if node.type in (*CONVOLUTIONS, AIPP_CONV) or (node.type in POOLS and len(spec.logical_shape) == 4):
        return BLOCKED
    if node.type in MATMULS:
        fractal = not rules_for(soc).exists("data_move_out2l1_nd2nz") and spec.dtype == "float16"
        return NZ if fractal else PLAIN
    if node.type in FOLLOWERS:
        present = {assigner.format_of(n) for n in node.inputs if n}
        if BLOCKED in present and _blocked_follows(graph, node):
            return BLOCKED
        if NZ in present and _nz_follows(graph, node):
            return NZ
    return PLAIN


def _assign(assigner: _Assigner, node: Node, fmt: str) -> None:
    graph = assigner.graph
    if _to_pixels(assigner, node):
        return
    inputs = list(node.inputs)
    for i, name in enumerate(inputs):
        if not name:
            continue
        spec = graph.specs[name]
        if node.type in (*CONVOLUTIONS, AIPP_CONV) and i == 1:
            inputs[i] = _filter(assigner, node, name)
        elif node.type == AIPP_CONV and i == 0:
            continue  # images stay as they are
        elif node.type == "PRelu" and i == 1 and fmt == BLOCKED:
            inputs[i] = _slopes(assigner, name)
        elif _is_parameter(node, i, spec, name in graph.constants, fmt):
            continue
        else:
            inputs[i] = assigner.to(name, fmt, node)
    if inputs != node.inputs:
        assigner.editor.set_inputs(node, inputs)
    if fmt != PLAIN:
        for name in node.outputs:
            graph.specs[name] = stored(graph.specs[name], fmt)


def _to_pixels(assigner: _Assigner, node: Node) -> bool:
    """A transpose of NC1HWC0 to NHWC is one change of format. Few planes go by way of NC1HWC0 where DMA moves whole
    blocks only."""
    graph = assigner.graph
    if node.type != "TransposeD" or list(node.attrs["perm"]) != [0, 2, 3, 1]:
        return False
    source, target = graph.specs[node.inputs[0]], graph.specs[node.outputs[0]]
    if len(source.logical_shape) != 4 or ITEM_BITS[source.dtype] != 16:
        return False
    if source.format != BLOCKED:
        if not assigner.whole_blocks or source.logical_shape[1] >= N0 or source.format == NZ:
            return False
        assigner.editor.set_inputs(node, [assigner.to(node.inputs[0], BLOCKED, node)])
    node.type, node.attrs = "TransData", {"src_format": BLOCKED, "dst_format": "NHWC", "groups": 1}
    graph.specs[node.outputs[0]] = TensorSpec(target.logical_shape, target.dtype, "NHWC")
    return True


def _is_parameter(node: Node, index: int, spec: TensorSpec, constant: bool, fmt: str) -> bool:
    """Inputs that keep their layout whatever the operator runs in: biases, scalars, sizes, per-channel vectors."""
    if fmt == BLOCKED:
        return len(spec.logical_shape) != 4 or (constant and spec.size == 1)
    if fmt == NZ:
        return (node.type in MATMULS and index == 2) or spec.size == 1
    return False


def _slopes(assigner: _Assigner, name: str) -> str:
    """Constant slopes of channels, filled up to whole channel blocks with slopes that nothing uses."""
    graph = assigner.graph
    value = graph.constants.get(name)
    c0 = c0_of(graph.specs[name].dtype)
    if value is None or value.ndim != 1 or value.size == 1 or value.size % c0 == 0:
        return name
    key = (name, "blocks")
    if key not in assigner.versions:
        filled = np.pad(value, (0, -value.size % c0))
        assigner.versions[key] = assigner.editor.add_constant(f"{name}/blocks", filled)
    return assigner.versions[key]


def _filter(assigner: _Assigner, node: Node, name: str) -> str:
    """A constant filter in FRACTAL_Z; one that is computed at run time stays NCHW."""
    graph = assigner.graph
    if name not in graph.constants:
        return assigner.to(name, PLAIN, node)
    spec = graph.specs[name]
    small = bool(node.attrs.get("small_channel"))
    key = f"{name}/FRACTAL_Z_C04" if small else f"{name}/FRACTAL_Z"
    if key not in graph.constants:
        graph.constants[key] = graph.constants[name]
        if small:
            graph.specs[key] = fractal_z_c04(spec, spec.dtype)
        elif node.type == "DepthwiseConv2D":
            graph.specs[key] = depthwise_z(spec, spec.dtype)
        else:
            graph.specs[key] = fractal_z(spec, int(node.attrs.get("groups", 1)), spec.dtype)
    return key


def _boundary(graph: Graph, name: str, flag: str) -> TensorSpec:
    """NC1HWC0 of a tensor that the application sees. Raises `AtcError`."""
    spec = graph.specs[name]
    if len(spec.logical_shape) != 4:
        raise AtcError("E10001", f"{flag}: {name!r} has {len(spec.logical_shape)} axes; NC1HWC0 is of 4-D tensors")
    return stored(spec, BLOCKED)


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    assigner = _Assigner(editor, options.soc)
    for name in options.options.blocked_inputs:
        graph.specs[name] = _boundary(graph, name, "--is_input_adjust_hw_layout")
    for node in editor.nodes():
        _assign(assigner, node, _wanted(assigner, node, options.soc))
    named = dict(zip(graph.outputs, graph.attrs["output_names"], strict=True))
    outputs = []
    for name in graph.outputs:
        blocked = named[name] in options.options.blocked_outputs
        if blocked:
            _boundary(graph, name, "--is_output_adjust_hw_layout")
        outputs.append(assigner.to(name, BLOCKED if blocked else PLAIN, None))
    graph.outputs = outputs
    editor.changed = True
    return editor.finish()
