"""``--framework=1``: models in .air, which are ``ge.proto.ModelDef`` graphs of Ascend IR operators not yet compiled.

Weights are inline in the ``value`` attribute of Const operators. Source: hicann/ge graph_metadef (ge_ir.proto).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim import ops
from ascend_sim.graph.compile import lower
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.evaluate import constant_spec, infer
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.om.decode import attributes
from ascend_sim.graph.om.proto import PROTO_DTYPE_NAMES, TABLES
from ascend_sim.graph.om.wire import WireError, decode
from ascend_sim.graph.om.writer import write_om
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.progress import Progress
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import Soc, SocError, load_soc

Message = dict[str, Any]
# Operators of older releases -> the ones that took their place, with the same inputs and attributes
RENAMED = {
    "MatMul": "MatMulV2", "BatchMatMul": "BatchMatMulV2", "Constant": "Const", "Softmax": "SoftmaxV2",
    "LayerNorm": "LayerNormV4", "MaxPool": "MaxPoolV3", "AvgPool": "AvgPoolV2", "BNInference": "BNInfer",
}  # fmt: skip
_ATTRIBUTES = {"MatMulV2": {"transpose_a": "transpose_x1", "transpose_b": "transpose_x2"}}


def compile_air(path: str, soc: str | Soc, options: CompileOptions) -> bytes:
    """The .om of an .air. Raises `AtcError`; open shapes are not supported."""
    try:
        chip = load_soc(soc) if isinstance(soc, str) else soc
    except SocError as error:
        raise AtcError("E10001", f"--soc_version: {error}") from None
    if options.dynamic_batch or options.dynamic_image or options.dynamic_dims or options.ranges:
        raise AtcError("E10001", "an .air has the shapes it was exported with; dynamic flags do not go with it",
                       "Export the model to ONNX for open shapes.")  # fmt: skip
    progress: Progress = options.progress
    progress.step("read the model")
    graph = read_air(path)
    for name, shape in options.input_shapes.items():
        if name not in graph.inputs:
            raise AtcError("E10016", f"--input_shape names {name!r}; the inputs are {', '.join(graph.inputs)}")
        if graph.specs[name].shape != shape:
            raise AtcError("E10050", f"--input_shape gives {list(shape)} for {name!r}, the .air has "
                           f"{list(graph.specs[name].shape)}")  # fmt: skip
    return write_om([lower(graph, chip, options)], chip, options.name or Path(path).stem, options.command)


def read_air(path: str) -> Graph:
    """The graph of an .air file. Raises `AtcError`."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise AtcError("E10410", f"model file {path} cannot be read: {error.strerror}") from None
    try:
        model = decode("ModelDef", data, TABLES)
    except WireError as error:
        raise AtcError("E13005", f"{path} is not an .air model: {error}") from None
    graphs = model.get("graph") or []
    if not graphs or not graphs[0].get("op"):
        raise AtcError("E16004", f"{path} holds no graph")
    return _Reader(graphs[0]).graph()


class _Reader:
    def __init__(self, message: Message) -> None:
        self.message = message
        self.made = Graph(str(message.get("name", "graph")), [], [], [], {}, {}, {"framework": "MindSpore"})

    def graph(self) -> Graph:
        ops.load(kernels=False)
        graph = self.made
        tops: list[str] = []
        for op in self.message["op"]:
            kind = RENAMED.get(op.get("type", ""), op.get("type", ""))
            name = str(op.get("name", ""))
            if kind == "Data":
                graph.inputs.append(self._output(name, 0))
                graph.specs[graph.inputs[-1]] = _spec(_first(op, "output_desc", name))
            elif kind == "Const":
                array = _constant(op, name)
                graph.constants[self._output(name, 0)] = array
                graph.specs[self._output(name, 0)] = constant_spec(array)
            elif kind == "NetOutput":
                tops = [n for n in op.get("input", []) if n and not n.endswith(":-1")]
            else:
                self._operator(op, kind, name)
        if not graph.inputs:
            raise AtcError("E16001", "the .air has no input")
        graph.outputs = [self._tensor(n) for n in tops or self.message.get("output", [])]
        if not graph.outputs or any(n not in graph.specs for n in graph.outputs):
            raise AtcError("E16001", "the .air has no output")
        graph.attrs["output_names"] = list(graph.outputs)
        graph.attrs["output_nodes"] = [n if ":" in n else f"{n}:0" for n in tops]
        return graph

    def _output(self, name: str, index: int) -> str:
        return name if index == 0 else f"{name}:{index}"

    def _tensor(self, source: str) -> str:
        """The tensor of ``op:index``; "" for an absent input and control edges."""
        name, colon, index = source.rpartition(":")
        if not colon or not index.lstrip("-").isdigit():
            return source
        return "" if int(index) < 0 else self._output(name, int(index))

    def _operator(self, op: Message, kind: str, name: str) -> None:
        graph = self.made
        definition = ops.registry.find(kind)
        if definition is None:
            raise AtcError("E10501", f"operator {name!r} has type {kind}, which is not registered")
        inputs = [self._tensor(source) for source in op.get("input", []) if not source.endswith(":-1")]
        for source in inputs:
            if source and source not in graph.specs:
                raise AtcError("E13005", f"operator {name!r} ({kind}) reads {source!r}, which no earlier one makes")
        renamed = _ATTRIBUTES.get(kind, {})
        attrs = {renamed.get(key, key): value for key, value in attributes(op.get("attr", {})).items()}
        attrs = {key: value for key, value in attrs.items() if not key.startswith("_")}
        specs = [graph.specs[n] if n else None for n in inputs]
        try:
            results = infer(kind, specs, attrs)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise AtcError("E14001", f"operator {name!r} ({kind}): {error}") from error
        outputs = [self._output(name, i) for i in range(min(len(results), max(len(op.get("output_desc", [])), 1)))]
        for output, spec in zip(outputs, results, strict=False):
            graph.specs[output] = spec
        graph.nodes.append(Node(name, kind, inputs, outputs, attrs, (name,)))


def _first(op: Message, field: str, name: str) -> Message:
    found = op.get(field) or []
    if not found:
        raise AtcError("E13005", f"operator {name!r} has no {field}")
    return dict(found[0])


def _spec(desc: Message) -> TensorSpec:
    dtype = PROTO_DTYPE_NAMES.get(desc.get("dtype", 0))
    shape = tuple(int(d) for d in desc.get("shape", {}).get("dim", []))
    if dtype is None or any(d < 1 for d in shape):
        name = desc.get("name", "")
        raise AtcError("E13005", f"tensor {name!r} has data type {desc.get('dtype')}, shape {list(shape)}")
    layout = desc.get("layout", "ND")
    return TensorSpec(shape, dtype, layout if layout in ("NCHW", "NHWC", "NCDHW") else "ND")


def _constant(op: Message, name: str) -> NDArray[Any]:
    value = op.get("attr", {}).get("value", {}).get("t")
    if value is None:
        raise AtcError("E13005", f"constant {name!r} has no value")
    spec = _spec(value.get("desc", {}))
    data = value.get("data", b"")
    kind = numpy_dtype(spec.dtype)
    if len(data) != spec.nbytes or spec.nbytes != spec.size * kind.itemsize:
        raise AtcError("E13005", f"constant {name!r} is {spec.dtype}{list(spec.shape)} and holds {len(data)} bytes")
    return np.frombuffer(data, kind).reshape(spec.shape)
