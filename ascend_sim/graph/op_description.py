"""``atc --singleop``: operators described in a json, each converted to an .om of its own.

Fields and file names: public ATC manual, description of single operators.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim import ops
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.evaluate import constant_spec
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.om.proto import ACL_DTYPES, ACL_FORMATS
from ascend_sim.graph.om.writer import write_om
from ascend_sim.graph.plan import plan_memory
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import load_soc

DTYPES = {**{name: name for name in ACL_DTYPES}, "fp16": "float16", "half": "float16", "float": "float32",
          "double": "float64"}  # fmt: skip
UNDEFINED, RESERVED = "UNDEFINED", "RESERVED"  # type and format of an optional input that is absent
_ABSENT = (28, 40)  # their numbers in file names
_SCALARS = {"bool": bool, "int": int, "float": float, "string": str}


def compile_operators(path: str, soc: str, command: str = "") -> list[tuple[str, bytes]]:
    """(file name without .om, bytes) of every operator of the file. Raises `AtcError`."""
    chip = load_soc(soc)
    ops.load()
    made = []
    for index, described in enumerate(_read(path)):
        graph, name = _graph(described, index)
        made.append((name, write_om([(graph, plan_memory(graph))], chip, name, command)))
    return made


def _read(path: str) -> list[dict[str, Any]]:
    file = Path(path)
    if not file.is_file():
        raise AtcError("E10023", f"--singleop={path} names no file", "Check the path.")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise AtcError("E10024", f"--singleop {path} cannot be opened: {error.strerror}") from None
    except ValueError as error:
        raise AtcError("E10025", f"--singleop {path} is no json: {error}") from None
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not found or not all(isinstance(item, dict) for item in found):
        raise AtcError("E10025", f"--singleop {path} is no array of operator descriptions")
    return found


def _graph(described: dict[str, Any], index: int) -> tuple[Graph, str]:
    """One operator between its inputs and outputs, and the name of its file."""
    kind = described.get("op")
    if not isinstance(kind, str) or not kind:
        raise AtcError("E10026", f"operator {index} of the --singleop file has no name in \"op\"")
    if ops.registry.find(kind) is None:
        raise AtcError("E10501", f"operator {kind} is not registered", _nearest(kind))
    graph = Graph(kind, [], [], [], {}, {}, {"framework": "singleop"})
    inputs, numbers = [], [str(index), kind]
    for i, desc in enumerate(_descs(described, "input_desc", kind)):
        spec = _spec(desc, kind, "input", i)
        numbers += _numbers(spec)
        name = "" if spec is None else str(desc.get("name") or f"x{i}")
        while name and name in graph.specs:
            name += "_"
        inputs.append(name)
        if spec is None:
            continue
        if desc.get("is_const"):
            value = _const(desc, spec, kind, i)
            graph.constants[name], graph.specs[name] = value, constant_spec(value, spec.format)
        else:
            graph.inputs.append(name)
            graph.specs[name] = spec
    for i, desc in enumerate(_descs(described, "output_desc", kind)):
        spec = _spec(desc, kind, "output", i)
        numbers += _numbers(spec)
        if spec is not None:
            graph.outputs.append(f"y{i}")
            graph.specs[f"y{i}"] = spec
    attrs = dict(_attr(a, kind) for a in described.get("attr", []))
    node = Node(kind, kind, inputs, list(graph.outputs), attrs, (kind,))
    graph.nodes.append(node)
    _check(graph, node)
    graph.attrs["output_names"] = list(graph.outputs)
    graph.attrs["output_nodes"] = [f"{kind}:{i}" for i in range(len(graph.outputs))]
    return graph, str(described.get("name") or "_".join(numbers))


def _descs(described: dict[str, Any], field: str, kind: str) -> list[dict[str, Any]]:
    found = described.get(field)
    if not isinstance(found, list) or not all(isinstance(d, dict) for d in found):
        raise AtcError("E10027", f"operator {kind}: {field} is no array of tensor descriptions")
    return found


def _spec(desc: dict[str, Any], kind: str, what: str, index: int) -> TensorSpec | None:
    """The tensor of a description; None for an absent optional input."""
    dtype, fmt, shape = desc.get("type"), desc.get("format"), desc.get("shape")

    def bad(field: str, expected: str) -> AtcError:
        given = desc.get(field)
        return AtcError("E10027", f"operator {kind}: {field} of {what} {index} is {given!r}, expected {expected}")

    if dtype == UNDEFINED and fmt == RESERVED:
        return None
    if dtype not in DTYPES:
        raise bad("type", f"one of {', '.join(sorted(DTYPES))}")
    if fmt not in ACL_FORMATS:
        raise bad("format", f"one of {', '.join(ACL_FORMATS)}")
    if not isinstance(shape, list) or not all(isinstance(d, int) and d >= 1 for d in shape):
        raise bad("shape", "a list of positive numbers; operators of open shapes are compiled by acl.op at run time")
    origin, origin_format = desc.get("origin_shape"), desc.get("origin_format")
    if origin is None or list(origin) == shape:
        return TensorSpec(tuple(shape), DTYPES[dtype], fmt)
    return TensorSpec(tuple(shape), DTYPES[dtype], fmt, tuple(int(d) for d in origin), origin_format or "ND")


def _numbers(spec: TensorSpec | None) -> list[str]:
    if spec is None:
        return [str(n) for n in _ABSENT]
    return [str(n) for n in (ACL_DTYPES[spec.dtype], ACL_FORMATS[spec.format], *spec.shape)]


def _const(desc: dict[str, Any], spec: TensorSpec, kind: str, index: int) -> NDArray[Any]:
    values = desc.get("const_value")
    try:
        array = np.asarray(values).reshape(-1).astype(numpy_dtype(spec.dtype))
    except (TypeError, ValueError):
        array = np.empty(0)
    if values is None or array.size != spec.size:
        raise AtcError("E10027", f"operator {kind}: const_value of input {index} has {array.size} values, its shape "
                       f"takes {spec.size}")  # fmt: skip
    return array.reshape(spec.shape)


def _attr(described: dict[str, Any], kind: str) -> tuple[str, Any]:
    name, type_, value = described.get("name"), described.get("type"), described.get("value")
    if not isinstance(name, str) or not name:
        raise AtcError("E10029", f"operator {kind}: an attribute has no name")
    problem = AtcError("E10030", f"operator {kind}: attribute {name} of type {type_} has the value {value!r}")
    if type_ == "data_type":
        text = str(value).lower().removeprefix("dt_")
        numbers = {number: dtype for dtype, number in ACL_DTYPES.items()}
        found = DTYPES.get(text) or (numbers.get(value) if isinstance(value, int) else None)
        if found is None:
            raise problem
        return name, found
    scalar = _SCALARS.get(str(type_).removeprefix("list_").removeprefix("list_"))
    if scalar is None:
        raise problem
    depth = str(type_).count("list_")

    def convert(item: Any, level: int) -> Any:
        if level:
            if not isinstance(item, list):
                raise problem
            return [convert(part, level - 1) for part in item]
        if not isinstance(item, (int, float) if scalar is float else scalar) or (scalar is int and item is True):
            raise problem
        return scalar(item)

    return name, convert(value, depth)


def _check(graph: Graph, node: Node) -> None:
    """Whether shape inference agrees with the described outputs. Raises `AtcError`."""
    specs = [graph.specs[n] if n else None for n in node.inputs]
    try:
        inferred = ops.infer(node.type, specs, node.attrs)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise AtcError("E10030", f"operator {node.type}: {error}") from None
    for i, (name, spec) in enumerate(zip(node.outputs, inferred, strict=False)):
        given = graph.specs[name]
        if (given.logical_shape, spec.logical_shape) == ((1,), ()):  # descriptions have no other way to say scalar
            continue
        if given.logical_shape != spec.logical_shape and given.shape != spec.shape:
            raise AtcError("E10027", f"operator {node.type}: shape of output {i} is {list(given.logical_shape)}, its "
                           f"inputs and attributes give {list(spec.logical_shape)}")  # fmt: skip


def _nearest(kind: str) -> str:
    import difflib

    close = difflib.get_close_matches(kind, ops.registry.operators(), 1)
    return f"Did you mean {close[0]}?" if close else ""
