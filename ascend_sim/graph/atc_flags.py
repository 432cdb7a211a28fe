"""The command line of ATC: its flags, their defaults and how they are checked.

Names and defaults: public ATC manual and hicann/ge api/atc/atc_flags.cc.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_sim.graph.dynamic import FLAG as DYNAMIC_FLAGS
from ascend_sim.graph.dynamic import parse_gears
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.options import (
    INPUT_FORMATS,
    OUTPUT_TYPES,
    PRECISION_MODES,
    PRECISION_MODES_V2,
    CompileOptions,
    parse_input_shape,
)


@dataclass(frozen=True)
class Flag:
    """``status``: ``used``; ``ignored`` (accepted, changes nothing here); ``refused`` (valid ATC, not supported)."""

    name: str
    default: str
    status: str
    help: str


# Accepted for compatibility; they change nothing here. Default -> names.
_IGNORED: dict[str, tuple[str, ...]] = {
    "": (
        "op_precision_mode",
        "modify_mixlist",
        "keep_dtype",
        "aicore_num",
        "host_env_os",
        "host_env_cpu",
        "cluster_config",
        "enable_scope_fusion_passes",
        "auto_tune_mode",
        "op_compiler_cache_dir",
        "debug_dir",
        "compress_weight_conf",
        "is_output_adjust_hw_layout",
        "is_input_adjust_hw_layout",
        "ddk_version",
        "op_name_map",
        "fusion_debug",
        "compression_optimize_conf",
        "mdl_bank_path",
        "op_bank_path",
        "customize_dtypes",
        "model_relation_config",
    ),
    "0": (
        "disable_reuse_memory",
        "virtual_type",
        "deterministic",
        "external_weight",
        "sparsity",
        "status_check",
        "op_debug_level",
        "display_model_info",
        "atomic_clean_policy",
        "ac_parallel_enable",
        "tiling_schedule_optimize",
        "quant_dumpable",
        "distributed_cluster_build",
    ),
    "l2_optimize": ("buffer_optimize",),
    "AiCore": ("core_type",),
    "1": (
        "jit_compile",
        "is_weight_clip",
    ),
    "O3": ("oo_level",),
    "true": ("enable_attr_compression",),
    "check_result.json": ("check_report",),
    "disable": ("op_compiler_cache_mode",),
    "false": (
        "enable_compress_weight",
        "save_original_model",
        "enable_single_stream",
    ),
    "shape_precise": ("shape_generalized_build_mode",),
}
FLAGS: tuple[Flag, ...] = (
    Flag("mode", "0", "used", "0: model to .om; 1: .om to json; 6: information about an .om"),
    Flag("model", "", "used", "path of the ONNX model"),
    Flag("framework", "-1", "used", "5: ONNX"),
    Flag("output", "", "used", "path of the result; .om is appended"),
    Flag("soc_version", "", "used", "chip, e.g. Ascend310P3"),
    Flag("input_shape", "", "used", 'shapes of inputs: "name1:1,3,224,224;name2:1,4"; open: -1 or a range 1~10'),
    Flag("input_format", "NCHW", "used", "layout of 4-D inputs: NCHW or ND"),
    Flag("precision_mode", "force_fp16", "used", ", ".join(PRECISION_MODES)),
    Flag("precision_mode_v2", "", "used", ", ".join(PRECISION_MODES_V2)),
    Flag("output_type", "", "used", 'FP32, FP16, ... for all outputs, or "node:0:FP16;..." for some'),
    Flag("input_fp16_nodes", "", "used", 'inputs that the application gives as fp16: "name1;name2"'),
    Flag("out_nodes", "", "used", 'outputs of the converted model: "node1:0;node2:0"'),
    Flag("fusion_switch_file", "", "used", "file that switches fusion passes off"),
    Flag("op_select_implmode", "", "used", "high_precision or high_performance"),
    Flag("optypelist_for_implmode", "", "used", 'operator types it applies to: "Sigmoid,Tanh"; all when left out'),
    Flag("enable_small_channel", "0", "used", "1: the first convolution packs four channels (with static AIPP)"),
    Flag("log", "null", "used", "null, debug, info, warning or error"),
    Flag("om", "", "used", "path of an .om (modes 1 and 6)"),
    Flag("json", "", "used", "path of the json (mode 1)"),
    Flag("dump_mode", "0", "ignored", "shape inference in mode 1"),
    Flag("weight", "", "refused", "Caffe weights"),
    Flag("dynamic_batch_size", "", "used", 'batch sizes to choose from at run time: "1,2,4"'),
    Flag("dynamic_image_size", "", "used", 'image sizes to choose from at run time: "416,416;832,832"'),
    Flag("dynamic_dims", "", "used", 'sizes of all open dimensions to choose from at run time: "1,20;2,40"'),
    Flag("insert_op_conf", "", "used", "AIPP configuration (static mode)"),
    Flag("singleop", "", "refused", "single-operator description"),
    *(
        Flag(name, default, "ignored", "accepted for compatibility")
        for default, names in _IGNORED.items()
        for name in names
    ),
)
BY_NAME = {flag.name: flag for flag in FLAGS}
FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow", "5": "ONNX"}
LOGS = ("null", "debug", "info", "warning", "error")


def parse_flags(argv: Sequence[str]) -> dict[str, str]:
    """``--flag=value`` words (also ``-flag=value`` and ``--flag value``) as a dict with defaults filled in.

    Raises `AtcError` for an unknown flag, with the nearest known one.
    """
    values = {flag.name: flag.default for flag in FLAGS}
    words = list(argv)
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-"):
            raise AtcError(
                "E10001",
                f"value {word!r} belongs to no parameter",
                "Write --parameter=value, and quote values with blanks or semicolons.",
            )
        name, equals, value = word.lstrip("-").partition("=")
        if name not in BY_NAME:
            close = difflib.get_close_matches(name, BY_NAME, 1)
            hint = f"Did you mean --{close[0]}?" if close else "See atc --help for all parameters."
            raise AtcError("E10001", f"unknown command line flag '--{name}'", hint)
        if not equals:
            if index < len(words) and not words[index].startswith("--"):
                value = words[index]
                index += 1
            else:
                raise AtcError("E10004", f"--{name} has no value", f"Write --{name}=value.")
        values[name] = value.strip().strip("\"'")
    for flag in FLAGS:
        if flag.status == "refused" and values[flag.name]:
            raise AtcError("E10001", f"--{flag.name}={values[flag.name]} is not supported", _REFUSED[flag.name])
    return values


_REFUSED = {
    "weight": "Caffe models are not read; convert the model to ONNX and use --framework=5.",
    "singleop": "Single operators run with acl.op.execute_v2 without a compiled model.",
}


def required(values: dict[str, str], name: str, expected: str) -> str:
    if not values[name]:
        raise AtcError("E10007", f"--{name} is required. The value must be {expected}")
    return values[name]


def _choice(values: dict[str, str], name: str, choices: Sequence[str], code: str = "E10007") -> str:
    value = values[name]
    if value not in choices:
        close = difflib.get_close_matches(value, choices, 1)
        hint = f"Did you mean {close[0]}?" if close else ""
        raise AtcError(code, f"--{name}={value} is wrong. The value must be one of {', '.join(choices)}", hint)
    return value


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


IMPL_MODES = (
    "high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all",
)  # fmt: skip


def _high_performance(values: dict[str, str]) -> frozenset[str]:
    """Operator types of --op_select_implmode=high_performance."""
    types = frozenset(t.strip() for t in values["optypelist_for_implmode"].split(",") if t.strip())
    if not values["op_select_implmode"]:
        if types:
            raise AtcError("E10007", "--optypelist_for_implmode needs --op_select_implmode")
        return frozenset()
    if not _choice(values, "op_select_implmode", IMPL_MODES, "E10001").startswith("high_performance"):
        return frozenset()
    return types or frozenset(("ALL",))


def compile_options(values: dict[str, str], name: str, command: str) -> CompileOptions:
    """Checked options of a conversion. Raises `AtcError`."""
    from ascend_sim.graph.aipp import parse_config
    from ascend_sim.graph.passes.switches import read_switches

    precision = _choice(values, "precision_mode", PRECISION_MODES, "E10001")
    if values["precision_mode_v2"]:
        if values["precision_mode"] != BY_NAME["precision_mode"].default:
            raise AtcError("E10047", "--precision_mode and --precision_mode_v2 cannot both be given")
        precision = PRECISION_MODES_V2[_choice(values, "precision_mode_v2", tuple(PRECISION_MODES_V2), "E10001")]
    shapes, ranges = parse_input_shape(values["input_shape"])
    gears = {kind: parse_gears(kind, values[flag.lstrip("-")]) if values[flag.lstrip("-")] else ()
             for kind, flag in DYNAMIC_FLAGS.items()}  # fmt: skip
    return CompileOptions(
        input_shapes=shapes,
        ranges=ranges,
        input_format=_choice(values, "input_format", INPUT_FORMATS, "E10001"),
        precision_mode=precision,
        output_types=_output_types(values["output_type"]),
        input_fp16_nodes=_names(values["input_fp16_nodes"]),
        out_nodes=_names(values["out_nodes"]),
        dynamic_batch=tuple(g for (g,) in gears["batch"]),
        dynamic_image=gears["image"],
        dynamic_dims=gears["dims"],
        aipp=tuple(parse_config(values["insert_op_conf"])) if values["insert_op_conf"] else (),
        switched_off=read_switches(values["fusion_switch_file"]) if values["fusion_switch_file"] else frozenset(),
        high_performance=_high_performance(values),
        small_channel=_choice(values, "enable_small_channel", ("0", "1"), "E10001") == "1",
        name=name,
        command=command,
    )


def check_log(values: dict[str, str]) -> None:
    if values["log"] not in LOGS:
        raise AtcError("E10010", f"--log={values['log']} is wrong. The value must be one of {', '.join(LOGS)}")
