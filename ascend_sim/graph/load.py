"""A network file as a loaded model: ONNX is compiled for the chip, .om is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.onnx_import.reader import read_model
from ascend_sim.graph.options import CompileOptions
from ascend_sim.soc import Soc


def load_network(
    path: str | os.PathLike[str], soc: Soc, batch: int = 1, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> LoadedModel:
    """The network for ``soc``. ``shapes`` are those of free inputs; remaining free first dimensions become ``batch``.

    Raises AtcError or OmError for a file that cannot be compiled or read, or is of another chip."""
    file = Path(path)
    if file.suffix == ".om":
        model = LoadedModel.from_file(file)
        model.check_soc(soc)
        return model
    options = CompileOptions(input_shapes=_free(file, dict(shapes or {}), batch))
    return LoadedModel.from_bytes(compile_model(file, soc, options))


def _free(path: Path, given: dict[str, tuple[int, ...]], batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all inputs whose first dimension is free, with the batch filled in."""
    graph = read_model(path).graph
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
