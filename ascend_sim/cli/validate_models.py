"""Predictions for measured networks: compile for the chip with the measured conversion's flags, time the second run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_sim.api import Report, Simulator
from ascend_sim.cli.errors import CommandError
from ascend_sim.graph.atc_flags import parse_flags
from ascend_sim.graph.atc_options import compile_options
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import AtcError, OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.profiling.accuracy import Outcome, tidy
from ascend_sim.profiling.calibration import ModelRow
from ascend_sim.soc import Soc, SocError, load_soc

# Flags that say where files are and what for, not how to convert: the command decides those.
_OWN = ("model", "framework", "output", "soc_version", "mode", "input_shape", "dynamic_batch_size", "log")


class Models:
    """Networks of a directory: ``<model>.onnx`` with free batch and optionally ``<model>.json`` with ATC flags, an
    object ``{"flag": "value"}`` or a list of ``"--flag=value"``; files that flags name are relative to it."""

    def __init__(self, directory: str | None) -> None:
        if directory is None:
            raise CommandError("rows of networks need --models DIR, a directory with <model>.onnx files")
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise CommandError(f"--models {directory}: no such directory")

    def predict(self, row: ModelRow) -> Outcome:
        """Steady-state time of one execution, without host copies. Never raises for a row it cannot predict."""
        try:
            return self._predict(row)
        except (AtcError, OmError, SocError, OSError, ValueError) as error:
            reason = str(error)
        except Exception as error:  # a fault in one kernel must not hide the other rows
            reason = f"{type(error).__name__}: {error}"
        return Outcome(row.id, row.soc, row.family, row.model, row.us, batch=row.batch, reason=tidy(reason))

    def _predict(self, row: ModelRow) -> Outcome:
        path = self.directory / f"{row.model}.onnx"
        if not path.is_file():
            raise ValueError(f"there is no {path.name} in the directory of --models")
        soc = load_soc(row.soc)
        model, notes = self._compile(path, soc, row.batch)
        report = Simulator(soc).model(model)
        guessed = sorted({op.op for op in report.ops if op.estimated})
        if guessed:
            notes.append(f"roofline for {', '.join(guessed)}")
        return Outcome(
            id=row.id,
            soc=row.soc,
            family=row.family,
            op=row.model,
            us_measured=row.us,
            batch=row.batch,
            us_predicted=report.us,
            bound=report.bound,
            estimated=report.estimated,
            confidence=report.confidence,
            figures=_figures(report),
            reason="; ".join(notes),
        )

    def compiled(self, row: ModelRow, soc: Soc) -> LoadedModel:
        """The network of a row for ``soc``. Raises `AtcError`, `OmError` and ValueError."""
        return self._compile(self.directory / f"{row.model}.onnx", soc, row.batch)[0]

    def _compile(self, path: Path, soc: Soc, batch: int) -> tuple[LoadedModel, list[str]]:
        """The compiled model, and what of its flags could not be honoured."""
        words = [w for w in self._flags(path.with_suffix(".json")) if _name(w) not in _OWN]
        words.append(f"--input_shape={_shapes(path, batch)}")
        notes: list[str] = []
        while True:
            try:
                options = compile_options(parse_flags(words), path.stem, "")
                return LoadedModel.from_bytes(compile_model(path, soc, options)), notes
            except AtcError as error:
                refused = [w for w in words if f"--{_name(w)}" in str(error) and _name(w) not in _OWN]
                if not refused:
                    raise
                words.remove(refused[0])
                notes.append(f"without --{_name(refused[0])}, which the converter refuses")

    def _flags(self, path: Path) -> list[str]:
        """Words of the flags file; none when there is no such file."""
        if not path.is_file():
            return []
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if isinstance(content, dict):
            words = [f"--{key.lstrip('-')}={value}" for key, value in content.items()]
        elif isinstance(content, list) and all(isinstance(word, str) and "=" in word for word in content):
            words = content
        else:
            raise ValueError(f'{path}: expected an object of ATC flags or a list of "--flag=value"')
        return [self._located(word) for word in words]

    def _located(self, word: str) -> str:
        """A flag whose value names a file beside the model, with the file's full path."""
        flag, _, value = word.partition("=")
        beside = self.directory / value
        return f"{flag}={beside.resolve()}" if value and beside.is_file() else word


def _figures(report: Report) -> tuple[str, ...]:
    """What the network and each of its kernels rest on."""
    inside = (key for op in report.ops for key in op.rests_on)
    return tuple(dict.fromkeys(("launch.model_execute_us", "launch.model_gap_us", *report.rests_on, *inside)))


def _name(word: str) -> str:
    return word.lstrip("-").partition("=")[0]


def _shapes(path: Path, batch: int) -> str:
    """``--input_shape`` with the batch in every free first dimension."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    parts = []
    for value in graph.input:
        if value.name in constants:
            continue
        dims = [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else 0 for d in _dims(value)]
        if dims and dims[0] == 0:
            dims[0] = batch
        if 0 in dims:
            raise ValueError(f"{path.name}: input {value.name} has a free dimension besides the batch")
        parts.append(f"{value.name}:{','.join(map(str, dims))}")
    return ";".join(parts)


def _dims(value: Any) -> Sequence[Any]:
    dims: Sequence[Any] = value.type.tensor_type.shape.dim
    return dims
