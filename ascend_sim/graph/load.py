"""A network file as a loaded model: ONNX is compiled for the chip, .om is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ascend_sim.graph import dynamic
from ascend_sim.graph.compile import compile_graph, compile_model
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.om import container
from ascend_sim.graph.om.encode import in_out
from ascend_sim.graph.om.reader import OmFile
from ascend_sim.graph.onnx_import.reader import read_model
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.strip import strip
from ascend_sim.graph.weights import lay_out_sizes
from ascend_sim.soc import Soc


def load_network(
    path: str | os.PathLike[str], soc: Soc, batch: int = 1, shapes: Mapping[str, tuple[int, ...]] | None = None,
    *, weights: bool = False,
) -> LoadedModel:  # fmt: skip
    """The network for ``soc``. ``shapes`` are those of free inputs; remaining free first dimensions become ``batch``.

    Without ``weights`` those of an ONNX file are not read, and the model has times only. Raises AtcError or OmError for
    a file that cannot be compiled or read, or is of another chip."""
    file = Path(path)
    if file.suffix == ".om":
        model = LoadedModel.from_file(file)
        model.check_soc(soc)
        return model
    data = strip(file)
    options = CompileOptions(input_shapes=_free(data, dict(shapes or {}), batch))
    if dynamic.kind_of(options):
        name = next(n for n, s in options.input_shapes.items() if -1 in s)
        raise AtcError("E10001", f"input {name!r} has an open dimension: {list(options.input_shapes[name])}",
                       "Times are those of one shape; give every size.")  # fmt: skip
    if weights:
        return LoadedModel.from_bytes(compile_model(file, soc, options))
    graph, plan = compile_graph(data, soc, options)
    lay_out_sizes(graph, plan)
    described = OmFile(container.Container(container.Header(file.stem[:31])), in_out([graph]), {"soc": soc.name})
    return LoadedModel(described, [(graph, plan)])


def _free(data: bytes, given: dict[str, tuple[int, ...]], batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all inputs whose first dimension is free, with the batch filled in."""
    graph = read_model(data).graph
    constants = {i.name for i in graph.initializer}
    shapes = dict(given)
    for value in graph.input:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.name in constants or value.name in shapes or not dims or all(dims):
            continue
        if dims[0] == 0 and all(dims[1:]):
            shapes[value.name] = (batch, *dims[1:])
    return {
        name: tuple(batch if d == -1 and i == 0 else d for i, d in enumerate(dims)) for name, dims in shapes.items()
    }
