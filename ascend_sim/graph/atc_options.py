"""The flags of a conversion as checked options."""

from __future__ import annotations

import difflib
from pathlib import Path

from ascend_sim.graph.atc_flags import BY_NAME, choice
from ascend_sim.graph.dynamic import FLAG as DYNAMIC_FLAGS
from ascend_sim.graph.dynamic import parse_gears
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.options import (
    FORCE_FP16,
    ONNX_FORMATS,
    OUTPUT_TYPES,
    PRECISION_MODES_V2,
    CompileOptions,
    parse_input_shape,
)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _output_types(text: str) -> dict[str, str]:
    """``FP16`` for all outputs, or ``node:0:FP16;...``."""
    out: dict[str, str] = {}
    for part in _names(text):
        name, _, kind = part.rpartition(":")
        if kind not in OUTPUT_TYPES:
            raise AtcError(
                "E10001", f"--output_type={text} is wrong at {kind!r}", f"Types are {', '.join(OUTPUT_TYPES)}."
            )
        out[name] = OUTPUT_TYPES[kind]
    return out


def _high_performance(values: dict[str, str]) -> frozenset[str]:
    """Operator types of --op_select_implmode=high_performance."""
    types = frozenset(t.strip() for t in values["optypelist_for_implmode"].split(",") if t.strip())
    mode = values["op_select_implmode"]
    if not mode:
        if types:
            raise AtcError("E10007", "--optypelist_for_implmode needs --op_select_implmode")
        return frozenset()
    if types and mode.endswith("_for_all"):
        raise AtcError("E10001", f"--op_select_implmode={mode} holds for all operators",
                       "Leave --optypelist_for_implmode out, or drop _for_all.")  # fmt: skip
    if not mode.startswith("high_performance"):
        return frozenset()
    return types or frozenset(("ALL",))


def _input_format(values: dict[str, str]) -> str:
    given = values["input_format"] or "NCHW"
    if given in ONNX_FORMATS:
        return given
    close = difflib.get_close_matches(given, ONNX_FORMATS, 1)
    hint = f"Did you mean {close[0]}?" if close else ""
    if given in ("NHWC", "NDHWC"):
        hint = "Networks that read pixels convert with --input_format=ND."
    raise AtcError("E10001", f"--input_format={given} is wrong. The value must be {', '.join(ONNX_FORMATS)}", hint)


def _kept(path: str) -> tuple[str, ...]:
    """Operator names of --keep_dtype, one a line."""
    if not path:
        return ()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise AtcError("E10410", f"--keep_dtype {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AtcError("E10001", f"--keep_dtype {path} is not a text file") from None
    return tuple(line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#"))


def _blocked(values: dict[str, str], flag: str, names_flag: str) -> tuple[str, ...]:
    """The names of one flag that another one marks ``true``, in order."""
    words = [w.strip().lower() for w in values[flag].split(",") if w.strip()]
    names = _names(values[names_flag])
    if any(w not in ("true", "false") for w in words):
        raise AtcError("E10005", f"--{flag}={values[flag]} is wrong. The value must be true or false for every name")
    if words and len(words) != len(names):
        raise AtcError("E10001", f"--{flag} has {len(words)} values, --{names_flag} names {len(names)}",
                       f"Give one value for every name of --{names_flag}.")  # fmt: skip
    return tuple(name for name, word in zip(names, words, strict=False) if word == "true")


def _precision(values: dict[str, str]) -> str:
    if values["precision_mode"] and values["precision_mode_v2"]:
        raise AtcError("E10047", "--precision_mode and --precision_mode_v2 cannot both be given")
    return PRECISION_MODES_V2.get(values["precision_mode_v2"]) or values["precision_mode"] or FORCE_FP16


def compile_options(values: dict[str, str], name: str, command: str) -> CompileOptions:
    """Checked options of a conversion. Raises `AtcError`."""
    from ascend_sim.graph.aipp_config import parse_config
    from ascend_sim.graph.passes.switches import read_switches

    if values["input_shape_range"]:
        raise AtcError("E10001", "--input_shape_range is not read any more",
                       'Write the ranges in --input_shape: "name:1~8,3,224,224".')  # fmt: skip
    precision = _precision(values)
    shapes, ranges = parse_input_shape(values["input_shape"])
    gears = {kind: parse_gears(kind, values[flag.lstrip("-")]) if values[flag.lstrip("-")] else ()
             for kind, flag in DYNAMIC_FLAGS.items()}  # fmt: skip
    aipp = tuple(parse_config(values["insert_op_conf"])) if values["insert_op_conf"] else ()
    if aipp and gears["dims"]:
        raise AtcError("E10001", "--insert_op_conf does not go with --dynamic_dims",
                       "Use --dynamic_image_size, or prepare images in the application.")  # fmt: skip
    return CompileOptions(
        input_shapes=shapes,
        ranges=ranges,
        input_format=_input_format(values),
        precision_mode=precision,
        output_types=_output_types(values["output_type"]),
        input_fp16_nodes=_names(values["input_fp16_nodes"]),
        out_nodes=_names(values["out_nodes"]),
        blocked_inputs=_blocked(values, "is_input_adjust_hw_layout", "input_fp16_nodes"),
        blocked_outputs=_blocked(values, "is_output_adjust_hw_layout", "out_nodes"),
        keep_dtype=_kept(values["keep_dtype"]),
        dynamic_batch=tuple(g for (g,) in gears["batch"]),
        dynamic_image=gears["image"],
        dynamic_dims=gears["dims"],
        aipp=aipp,
        switched_off=read_switches(values["fusion_switch_file"]) if values["fusion_switch_file"] else frozenset(),
        high_performance=_high_performance(values),
        small_channel=choice(BY_NAME["enable_small_channel"], values["enable_small_channel"]) == "1",
        reuse_memory=values["disable_reuse_memory"] == "0",
        compress_attrs=values["enable_attr_compression"] == "true",
        name=name,
        command=command,
    )
