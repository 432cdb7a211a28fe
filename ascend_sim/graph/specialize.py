"""Models of open shapes: described when they are converted, compiled for a shape when it first comes.

The model file keeps the ONNX graph and the options of the conversion beside an example graph. Constants that the
example has stay where they are in device memory, so all shapes share the weights.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from math import prod
from typing import Any

from ascend_sim.graph import dynamic
from ascend_sim.graph.aipp import AippConfig
from ascend_sim.graph.errors import LOAD_MODEL_FAILED, SHAPE_INVALID, AtcError, OmError
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om.inout import InOut, IoDesc
from ascend_sim.graph.om.writer import Source
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.plan import MemoryPlan
from ascend_sim.graph.weights import lay_out_again, places_by_content
from ascend_sim.ops.schema import ITEM_BITS
from ascend_sim.soc import Soc, load_soc

_SKIPPED = ("progress", "command", "name")
Shape = tuple[int, ...]


def dump_options(options: CompileOptions) -> dict[str, Any]:
    """The options as JSON values."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in _SKIPPED:
            continue
        if field.name == "aipp":
            value = [dataclasses.asdict(config) for config in value]
        elif isinstance(value, frozenset):
            value = sorted(value)
        out[field.name] = value
    return out


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    return {k: _tuples(v) for k, v in value.items()} if isinstance(value, dict) else value


def load_options(raw: dict[str, Any]) -> CompileOptions:
    """The options that `dump_options` wrote."""
    values = {key: _tuples(value) for key, value in raw.items()}
    for name in ("switched_off", "high_performance"):
        values[name] = frozenset(values.get(name, ()))
    values["aipp"] = tuple(AippConfig(**config) for config in values.get("aipp", ()))
    return CompileOptions(**values)


def compile_open(
    source: str | os.PathLike[str] | bytes, soc: Soc, options: CompileOptions
) -> tuple[tuple[Graph, MemoryPlan], Source]:
    """The example graph of a model of open shapes, and what compiles it for other shapes. Raises `AtcError`."""
    from ascend_sim.graph.compile import compile_graph
    from ascend_sim.graph.onnx_import.reader import read_model

    model = read_model(source)
    try:
        data = source if isinstance(source, bytes) else model.SerializeToString()
    except ValueError as error:
        raise AtcError("E19999", f"Internal Error! A model of open shapes must be below 2 GiB: {error}") from None
    if options.aipp:
        raise AtcError("E10001", "AIPP does not go with open dimensions in --input_shape",
                       "Use --dynamic_batch_size or --dynamic_image_size.")  # fmt: skip
    first: AtcError | None = None
    for shapes in dynamic.examples(options):
        try:
            variant = compile_graph(data, soc, dynamic.fixed(options, shapes))
        except AtcError as error:
            if error.code not in ("E14001", "E10001", "E19999"):
                raise
            first = first or error
            continue
        return variant, Source(data, dump_options(options), _describe(data, options, variant[0], shapes))
    assert first is not None
    raise first


def _describe(data: bytes, options: CompileOptions, graph: Graph, shapes: dict[str, Shape]) -> InOut:
    """Ports with -1 on open axes; sizes are those of the largest shape, 0 without an upper limit."""
    from ascend_sim.graph.om.encode import ports

    inputs, outputs = ports(graph)
    largest = {n: tuple(h if d == -1 else d for d, (_, h) in zip(s, _limits(options, n), strict=True))
               for n, s in options.input_shapes.items()}  # fmt: skip
    bounded = all(-1 not in shape for shape in largest.values())
    described = []
    for port in inputs:
        dims = options.input_shapes.get(port.name, port.dims)
        if -1 not in dims:
            described.append(port)
            continue
        limits = _limits(options, port.name)
        size = 0 if -1 in largest[port.name] else prod(largest[port.name]) * ITEM_BITS[port.dtype] // 8
        described.append(dataclasses.replace(port, dims=dims, size=size, ranges=limits))
    others = [_output_dims(data, options, tried) for tried in _others(options, shapes)]
    wide = _output_dims(data, options, largest) if bounded else None
    results = [_open_output(port, i, [o for o in others if o is not None], wide) for i, port in enumerate(outputs)]
    return InOut(tuple(described), tuple(results))


def _limits(options: CompileOptions, name: str) -> tuple[tuple[int, int], ...]:
    """(low, high) of every axis of an input; high -1 is none."""
    given = options.ranges.get(name)
    return given or tuple((1, -1) if d == -1 else (d, d) for d in options.input_shapes[name])


def _others(options: CompileOptions, shapes: dict[str, Shape]) -> list[dict[str, Shape]]:
    """A few shapes that differ from ``shapes`` in every open dimension."""
    found = []
    for tried in dynamic.examples(options):
        if all(a != b for n, s in options.input_shapes.items() for d, a, b in zip(s, tried[n], shapes[n], strict=True)
               if d == -1):  # fmt: skip
            found.append(tried)
        if len(found) == 2:
            break
    return found


def _output_dims(data: bytes, options: CompileOptions, shapes: dict[str, Shape]) -> list[Shape] | None:
    """Shapes of the outputs for input shapes; None when the graph does not take these."""
    from ascend_sim.graph.compile import import_graph

    try:
        graph = import_graph(data, dynamic.fixed(options, shapes))
    except AtcError:
        return None
    return [graph.specs[name].shape for name in graph.outputs]


def _open_output(port: IoDesc, index: int, others: list[list[Shape]], wide: list[Shape] | None) -> IoDesc:
    versions = [port.dims, *(o[index] for o in others if len(o[index]) == len(port.dims))]
    same = [len(versions) > 1 and len(set(sizes)) == 1 for sizes in zip(*versions, strict=True)]
    dims = tuple(size if known else -1 for size, known in zip(port.dims, same, strict=True))
    if -1 not in dims:
        return port
    size = prod(wide[index]) * ITEM_BITS[port.dtype] // 8 if wide is not None else 0
    return dataclasses.replace(port, dims=dims, size=size)


class Specializer:
    """Compiles a loaded model of open shapes for the shapes that come. ``weights`` is its weights partition."""

    def __init__(
        self, model: bytes, options: dict[str, Any], soc: str, base: tuple[Graph, MemoryPlan], weights: memoryview
    ) -> None:
        self._model = model
        self._options = load_options(options)
        self._soc = soc
        self._base = base
        self._weights = weights
        self._known: dict[tuple[str, bytes], int] | None = None

    def check(self, name: str, shape: Shape) -> None:
        """Whether an input may have this shape. Raises `OmError`."""
        given = self._options.input_shapes.get(name)
        if given is None:
            return
        limits = _limits(self._options, name)
        fits = len(shape) == len(given) and all(
            low <= size and (high == -1 or size <= high) for size, (low, high) in zip(shape, limits, strict=True)
        )
        if not fits:
            wanted = ", ".join(str(a) if a == b else f"{a}~{b if b != -1 else ''}" for a, b in limits)
            raise OmError(f"input {name!r} has shape {list(shape)}; the model takes [{wanted}]", SHAPE_INVALID)

    def compile(self, shapes: Sequence[Shape]) -> tuple[Graph, MemoryPlan]:
        """The graph for these shapes of all inputs. Raises `OmError`."""
        from ascend_sim.graph.compile import compile_graph

        graph, plan = self._base
        named = dict(zip(graph.inputs, shapes, strict=True))
        for name, shape in named.items():
            self.check(name, shape)
        try:
            made, places = compile_graph(self._model, load_soc(self._soc), dynamic.fixed(self._options, named))
        except AtcError as error:
            text = ", ".join(f"{name} {list(shape)}" for name, shape in named.items())
            raise OmError(f"the model cannot run on {text}: {error}", LOAD_MODEL_FAILED) from None
        if self._known is None:
            self._known = places_by_content(graph, plan, self._weights)
        lay_out_again(made, places, self._known)
        places.weight_size = plan.weight_size
        return made, places
