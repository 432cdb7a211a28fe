"""The cases of the ONNX backend suite: generated node cases, and the stored ones of the wheel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
DEFAULT_TOLERANCE = (1e-3, 1e-7)  # relative, absolute: of the suite's own runner


@dataclass(frozen=True)
class Case:
    """A model with its data sets: (inputs, expected outputs) in the order of the graph. Values are arrays, lists
    (sequences) or None (an empty optional)."""

    name: str
    kind: str
    model: onnx.ModelProto
    data_sets: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float

    def operators(self) -> tuple[str, ...]:
        """Operator types of the model, those of subgraphs included."""
        found: dict[str, None] = {}

        def walk(graph: onnx.GraphProto) -> None:
            for node in graph.node:
                found[f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type] = None
                for attribute in node.attribute:
                    if attribute.HasField("g"):
                        walk(attribute.g)

        walk(self.model.graph)
        return tuple(found)


def _value(item: Any) -> Any:
    """A generated or stored value as NumPy has it."""
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    if isinstance(item, onnx.SequenceProto):
        return numpy_helper.to_list(item)
    if isinstance(item, onnx.OptionalProto):
        return numpy_helper.to_optional(item)
    if isinstance(item, list | tuple):
        return [_value(v) for v in item]
    return item if item is None else np.asarray(item)


def node_cases() -> Iterator[Case]:
    """The generated node cases, in the suite's order."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        sets = tuple(([_value(v) for v in ins], [_value(v) for v in outs]) for ins, outs in case.data_sets)
        yield Case(case.name, "node", case.model, sets, case.rtol, case.atol)


def _stored(path: Path, kind: Any) -> Any:
    _, proto = {
        "tensor_type": ("tensor_type", onnx.TensorProto),
        "sequence_type": ("sequence_type", onnx.SequenceProto),
        "optional_type": ("optional_type", onnx.OptionalProto),
    }[kind.WhichOneof("value")]
    made = proto()
    made.ParseFromString(path.read_bytes())
    return _value(made)


def stored_cases(kind: str) -> Iterator[Case]:
    """The cases that the wheel ships as files."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data" / kind
    for folder in sorted(p for p in root.iterdir() if (p / "model.onnx").exists()):
        model = onnx.load(folder / "model.onnx")
        fixed = {t.name for t in model.graph.initializer}
        inputs = [v for v in model.graph.input if v.name not in fixed]
        sets = []
        for data in sorted(folder.glob("test_data_set_*")):
            given = [_stored(data / f"input_{i}.pb", v.type) for i, v in enumerate(inputs)]
            wanted = [_stored(data / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output)]
            sets.append((given, wanted))
        yield Case(folder.name, kind, model, tuple(sets), *DEFAULT_TOLERANCE)


def cases(kind: str) -> Iterator[Case]:
    return node_cases() if kind == "node" else stored_cases(kind)
