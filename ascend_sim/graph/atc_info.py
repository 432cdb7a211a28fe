"""What ATC tells about models: ``--mode=6`` (an .om in a few lines) and ``--mode=1`` (an .om or a model as json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.om.reader import OmFile

_LIMIT = 1 << 10  # bytes of tensor data that a model's json keeps


def model_info(om: OmFile) -> str:
    """The lines of ``--mode=6`` and ``--display_model_info=1``. Layout: public ATC manual."""
    attrs = om.attrs

    def text(name: str) -> str:
        return bytes(attrs.get(name, {}).get("s", b"")).decode(errors="replace")

    def number(name: str) -> int:
        return int(attrs.get(name, {}).get("i", 0))

    sizes = om.sizes
    return "\n".join((
        "============ Display Model Info start ============",
        f"Original Atc command line: {text('atc_cmdline')}",
        f"system   info: atc_version[{text('atc_version')}], soc_version[{text('soc_version')}], "
        f"framework_type[{text('framework_type')}].",
        f"resource info: memory_size[{number('memory_size')} B], weight_size[{number('weight_size')} B], "
        f"stream_num[{number('stream_num')}], event_num[{number('event_num')}].",
        f"om       info: modeldef_size[{sizes.get('MODEL_DEF', 0)} B], "
        f"weight_data_size[{sizes.get('WEIGHTS_DATA', 0)} B], tbe_kernels_size[{sizes.get('TBE_KERNELS', 0)} B], "
        f"cust_aicpu_kernel_store_size[{sizes.get('CUST_AICPU_KERNELS', 0)} B], "
        f"task_info_size[{sizes.get('TASK_INFO', 0)} B], so_store_size[{sizes.get('SO_BINS', 0)} B].",
        "============ Display Model Info end   ============",
    ))  # fmt: skip


def to_json(source: str, framework: str) -> dict[str, Any]:
    """An .om (no framework) or an ONNX model as JSON values. Raises `AtcError` or `OmError`."""
    if framework in ("-1", ""):
        from ascend_sim.graph.om import read_om
        from ascend_sim.graph.om.to_json import model_json

        return model_json(read_om(source).model)
    if framework != "5":
        raise AtcError("E10001", f"--framework={framework} does not go with --mode=1",
                       "The value must be 5 (ONNX), or left out for an .om.")  # fmt: skip
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

    from ascend_sim.graph.onnx_import.reader import read_model

    model = read_model(source)
    for tensor in model.graph.initializer:  # weights stay in the model
        if tensor.ByteSize() > _LIMIT:
            for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(name)
    found: dict[str, Any] = MessageToDict(model, preserving_proto_field_name=True)
    return found


def write_json(value: dict[str, Any], path: str) -> None:
    """Raises `AtcError` when the file cannot be written."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(value, indent=2))
    except OSError as error:
        raise AtcError("E13001", f"{target} cannot be written: {error.strerror}") from None
