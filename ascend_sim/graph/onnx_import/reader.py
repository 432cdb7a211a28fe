"""Reading an ONNX file: parse, check, and hand out the graph with its declared inputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_sim.graph.errors import AtcError

if TYPE_CHECKING:
    from onnx import ModelProto

# ATC itself takes opsets 11 to 18. Operators of older and newer versions of the standard are understood here as far as
# the converters know them: the newest version they were written for is the limit.
MIN_OPSET, MAX_OPSET = 1, 28


def read_model(source: str | os.PathLike[str] | bytes) -> ModelProto:
    """Parse ONNX bytes or a file (external data included). Raises `AtcError`."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    model = onnx.ModelProto()
    folder: str | None = None
    if isinstance(source, bytes):
        data, what = source, "the given bytes"
    else:
        path = Path(source)
        what = str(path)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise AtcError("E10410", f"model file {what} does not exist", "Check the path given to --model.") from None
        except OSError as error:
            raise AtcError("E13001", f"model file {what} cannot be opened: {error.strerror}") from None
        folder = str(path.parent)
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise AtcError("E13005", f"{what} is not an ONNX model: its protobuf cannot be parsed") from None
    if not model.HasField("graph"):
        raise AtcError("E16004", f"{what} holds no graph", "Export the model again; the file may be truncated.")
    if not model.graph.output:
        raise AtcError("E16001", f"the graph of {what} has no output")
    if model.functions:
        model = _inlined(model, what)
    if folder is not None:
        try:
            onnx.load_external_data_for_model(model, folder)
        except Exception as error:
            raise AtcError("E13001", f"external data of {what} cannot be read: {error}") from None
    return model


def _inlined(model: ModelProto, what: str) -> ModelProto:
    """The model without functions of its own: their nodes in place of the calls."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:
        raise AtcError("E13005", f"the functions of {what} cannot be expanded: {error}") from None


def opset_of(model: ModelProto) -> int:
    """Version of the default ONNX domain, checked against what the front end accepts."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 0))
    if not version:
        version = 1 if not versions and model.ir_version < 3 else 0
        if versions and all(domain for domain in versions):
            version = MAX_OPSET  # operators of other domains only
    if not MIN_OPSET <= version <= MAX_OPSET:
        raise AtcError(
            "E16005",
            f"the model uses ai.onnx opset {version}; opsets {MIN_OPSET} to {MAX_OPSET} are supported",
            f"Export the model with an opset of at most {MAX_OPSET}, or convert it with onnx.version_converter.",
        )
    return int(version)
