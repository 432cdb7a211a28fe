"""Precision: which operators run in fp16, and the Cast operators that follow from it.

``force_fp16`` (ATC's default) runs every floating-point operator in fp16; inputs and outputs keep the types of the
source model unless --input_fp16_nodes or --output_type say otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.evaluate import constant_spec
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import CompileOptions, PassOptions
from ascend_sim.graph.passes._affine import CUBE
from ascend_sim.graph.virtual import is_virtual, virtual
from ascend_sim.isa.legality import rules_for
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import Soc

WIDE = ("float32", "float64")
FLOATS = (*WIDE, "float16", "bfloat16")
STATISTICS = {"RmsNorm": (1,), "AddRmsNorm": (1,), "LayerNormV4": (1, 2)}  # outputs that are float32 in every mode
FP16_MAX = 65504.0


def _clipped(value: NDArray[Any]) -> NDArray[np.float16]:
    """fp16 with finite values kept finite (ATC's is_weight_clip)."""
    with np.errstate(over="ignore"):
        half: NDArray[np.float16] = value.astype(np.float16)
    if value.size and not (value.max() <= FP16_MAX and value.min() >= -FP16_MAX):
        large = np.isinf(half) & np.isfinite(value)
        half[large] = np.copysign(np.float16(FP16_MAX), half[large])
    return half


def _as_type(value: NDArray[Any], dtype: str) -> NDArray[Any]:
    if is_virtual(value):
        return virtual(value.shape, numpy_dtype(dtype))
    return _clipped(value) if dtype == "float16" else value.astype(numpy_dtype(dtype))


def _target(node: Node, mode: str, soc: Soc) -> str | None:
    """Floating-point type an operator runs in; None leaves it as it is."""
    if mode == "must_keep_origin_dtype":
        return None
    if mode in ("force_fp16", "allow_mix_precision", "allow_mix_precision_fp16"):
        return "float16"
    if node.type not in CUBE:  # the rest keep fp32 where they can: vector operators have it
        return "float32"
    if mode.startswith("allow_fp32_to") and soc.cube.fp32_cycles_per_fractal > 0:
        return "float32"
    return "bfloat16" if mode.endswith("bf16") else "float16"


def _check_mode(mode: str, soc: Soc) -> None:
    """Whether the chip has the types of a mode. Raises `AtcError`."""
    if mode.endswith("hif8"):
        raise AtcError("E10001", f"--precision_mode_v2={mode} is for Ascend950; {soc.name} has no HiFloat8")
    if mode.endswith("bf16") and "f322bf16" not in rules_for(soc).conversions:
        raise AtcError("E10001", f"--precision_mode={mode}: {soc.name} has no bfloat16", "Use force_fp16.")


def _with_dtype(spec: TensorSpec, dtype: str) -> TensorSpec:
    return TensorSpec(spec.shape, dtype, spec.format, spec.origin_shape, spec.origin_format)


class _Caster:
    """Casts a tensor once per target type."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.made: dict[tuple[str, str], str] = {}

    def __call__(self, name: str, dtype: str, before: Node | None) -> str:
        editor = self.editor
        spec = editor.graph.specs[name]
        if spec.dtype == dtype:
            return name
        key = (name, dtype)
        if key in self.made:
            return self.made[key]
        value = editor.constant(name)
        if value is not None:
            cast = _as_type(value, dtype)
            new = editor.add_constant(f"{name}/{dtype}", cast)
            editor.graph.specs[new] = constant_spec(cast, spec.format)
        else:
            new = editor.new_name(f"{name}/{dtype}")
            node = Node(editor.new_node_name(f"trans_Cast_{name}"), "Cast", [name], [new], {"dst_type": dtype})
            editor.add(node, [_with_dtype(spec, dtype)], before=before)
        self.made[key] = new
        return new


def _input_types(graph: Graph, options: CompileOptions) -> None:
    for name in options.input_fp16_nodes:
        if name not in graph.inputs:
            raise AtcError(
                "E10016", f"--input_fp16_nodes names {name!r}, which is not an input of the model",
                f"The inputs are: {', '.join(graph.inputs)}.",
            )  # fmt: skip
        if graph.specs[name].dtype not in (*WIDE, "float16"):
            raise AtcError("E10003", f"--input_fp16_nodes: input {name!r} is {graph.specs[name].dtype}, not a float")
        graph.specs[name] = _with_dtype(graph.specs[name], "float16")


def _is_scale(node: Node, index: int) -> bool:
    """Scales of quantisation stay float32: fp16 would round them, or lose small ones."""
    return node.type == "Quantize" and index == 1


def _convert(node: Node, graph: Graph, dtype: str, cast: _Caster) -> None:
    """Run one operator in ``dtype``."""
    inputs = list(node.inputs)
    for i, name in enumerate(inputs):
        if name and graph.specs[name].dtype in FLOATS and node.type != "Cast" and not _is_scale(node, i):
            inputs[i] = cast(name, dtype, node)
    if inputs != node.inputs:
        cast.editor.set_inputs(node, inputs)
    for index, name in enumerate(node.outputs):
        spec = graph.specs[name]
        if spec.dtype in FLOATS and index not in STATISTICS.get(node.type, ()):
            graph.specs[name] = _with_dtype(spec, dtype)
    if "dst_type" in node.attrs:  # Cast, Aipp
        node.attrs["dst_type"] = graph.specs[node.outputs[0]].dtype


def _by_way_of_float32(editor: Editor, node: Node) -> None:
    """int64 becomes a 16-bit float in two steps, as the vector unit converts it."""
    graph = editor.graph
    source, target = graph.specs[node.inputs[0]], graph.specs[node.outputs[0]]
    if source.dtype != "int64" or target.dtype not in ("float16", "bfloat16"):
        return
    middle = editor.new_name(f"{node.inputs[0]}/float32")
    name = editor.new_node_name(f"trans_Cast_{node.inputs[0]}")
    first = Node(name, "Cast", [node.inputs[0]], [middle], {"dst_type": "float32"})
    editor.add(first, [_with_dtype(source, "float32")], before=node)
    editor.set_inputs(node, [middle])


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    cast = _Caster(editor)
    mode = options.options.precision_mode
    wanted = [graph.specs[name].dtype for name in graph.outputs]
    kept = set(options.options.keep_dtype)
    _check_mode(mode, options.soc)
    _input_types(graph, options.options)
    for node in editor.nodes():
        dtype = _target(node, mode, options.soc)
        if dtype is not None and kept.intersection((node.name, *node.origin)):
            dtype = next((graph.specs[n].dtype for n in node.outputs if graph.specs[n].dtype in FLOATS), dtype)
        if dtype is None:
            if node.type in CUBE and graph.specs[node.inputs[0]].dtype in WIDE:
                _check_fp32_cube(node, options.soc)
            continue
        _convert(node, graph, dtype, cast)
        if node.type == "Cast" and "s642f32" in rules_for(options.soc).conversions:
            _by_way_of_float32(editor, node)
        if node.type in CUBE and dtype == "float16" and mode in ("force_fp32", "cube_fp16in_fp32out"):
            graph.specs[node.outputs[0]] = _with_dtype(graph.specs[node.outputs[0]], "float32")
    names = graph.attrs["output_names"]
    for index, name in enumerate(list(graph.outputs)):
        types = options.options.output_types
        target = types.get(names[index], types.get("", wanted[index]))
        if names[index] in options.options.blocked_outputs:
            target = "float16"
        if graph.specs[name].dtype != target:
            graph.outputs[index] = cast(name, target, None)
    editor.changed = True
    return editor.finish()


def _check_fp32_cube(node: Node, soc: Soc) -> None:
    if soc.cube.fp32_cycles_per_fractal <= 0:
        raise AtcError(
            "E10001",
            f"operator {node.name!r} ({node.type}) is float32, which the cube of {soc.name} does not multiply",
            "Use --precision_mode=force_fp16 or allow_fp32_to_fp16.",
        )
