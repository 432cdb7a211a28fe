"""The command line of ATC: its flags, their defaults and values, and how words become them.

Names, defaults, value ranges and codes: public ATC manual and hicann/ge api/atc (atc_flags.cc, cmd_flag_info.cc).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.options import PRECISION_MODES, PRECISION_MODES_V2


@dataclass(frozen=True)
class Flag:
    """``status``: ``used``, or ``ignored`` (accepted, changes nothing here). ``choices`` are the allowed values, when
    they are few; a value outside them is an error with ``code``."""

    name: str
    default: str
    status: str
    help: str
    choices: tuple[str, ...] = ()
    code: str = "E10001"


BITS = ("0", "1")
BOOLS = ("true", "false")
LOGS = ("null", "debug", "info", "warning", "error")
FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow", "5": "ONNX"}
MODES = {"0": "model to .om", "1": "model or .om to json", "3": "only check the model", "6": "information about an .om"}
IMPL_MODES = ("high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all")


def _bits(*names: str) -> list[Flag]:
    return [Flag(name, "0", "ignored", "", BITS, "E10006") for name in names]


def _texts(*names: str) -> list[Flag]:
    return [Flag(name, "", "ignored", "") for name in names]


FLAGS: tuple[Flag, ...] = (
    Flag("mode", "0", "used", "; ".join(f"{k}: {v}" for k, v in MODES.items()), ("0", "1", "3", "5", "6", "7", "30")),
    Flag("model", "", "used", "path of the model (.onnx, .air)"),
    Flag("framework", "-1", "used", "5: ONNX; 1: .air", tuple(FRAMEWORKS), "E10007"),
    Flag("output", "", "used", "path of the result; .om is appended"),
    Flag("soc_version", "", "used", "chip, e.g. Ascend310P3"),
    Flag("input_shape", "", "used", 'shapes of inputs: "name1:1,3,224,224;name2:1,4"; open: -1 or a range 1~10'),
    Flag("input_format", "", "used", "layout of 4-D inputs: NCHW (default) or ND; NCDHW of 5-D ones"),
    Flag("dynamic_batch_size", "", "used", 'batch sizes to choose from at run time: "1,2,4"'),
    Flag("dynamic_image_size", "", "used", 'image sizes to choose from at run time: "416,416;832,832"'),
    Flag("dynamic_dims", "", "used", 'sizes of all open dimensions to choose from at run time: "1,20;2,40"'),
    Flag("precision_mode", "", "used", "force_fp16 (default), " + ", ".join(PRECISION_MODES[1:]), PRECISION_MODES),
    Flag("precision_mode_v2", "", "used", ", ".join(PRECISION_MODES_V2), tuple(PRECISION_MODES_V2)),
    Flag("output_type", "", "used", 'FP32, FP16, ... for all outputs, or "node:0:FP16;..." for some'),
    Flag("input_fp16_nodes", "", "used", 'inputs that the application gives as fp16: "name1;name2"'),
    Flag("out_nodes", "", "used", 'outputs of the converted model: "node1:0;node2:0"'),
    Flag("is_input_adjust_hw_layout", "", "used", "true for inputs of --input_fp16_nodes that are given as NC1HWC0"),
    Flag("is_output_adjust_hw_layout", "", "used", "true for outputs of --out_nodes that are wanted as fp16 NC1HWC0"),
    Flag("insert_op_conf", "", "used", "AIPP configuration: preprocessing of 8-bit images"),
    Flag("fusion_switch_file", "", "used", "file that switches fusion passes off"),
    Flag("op_select_implmode", "", "used", ", ".join(IMPL_MODES), IMPL_MODES),
    Flag("optypelist_for_implmode", "", "used", 'operator types it applies to: "Sigmoid,Tanh"; all when left out'),
    Flag("keep_dtype", "", "used", "file with names of operators that keep their data type"),
    Flag("enable_small_channel", "0", "used", "1: the first convolution packs four channels (with static AIPP)", BITS),
    Flag("disable_reuse_memory", "0", "used", "1: every intermediate tensor has memory of its own", BITS, "E10006"),
    Flag("enable_attr_compression", "true", "used", "short names of attributes in the .om", BOOLS, "E10005"),
    Flag("display_model_info", "0", "used", "1: print what --mode=6 prints", BITS, "E10006"),
    Flag("check_report", "check_result.json", "used", "report of --mode=3"),
    Flag("singleop", "", "used", "json of single operators; each becomes an .om in the folder --output"),
    Flag("log", "null", "used", ", ".join(LOGS), LOGS, "E10010"),
    Flag("om", "", "used", "path of the model (modes 1 and 6)"),
    Flag("json", "", "used", "path of the json (mode 1)"),
    Flag("weight", "", "ignored", "Caffe weights"),
    *_bits("dump_mode", "virtual_type", "deterministic", "sparsity", "status_check", "atomic_clean_policy",
           "ac_parallel_enable", "tiling_schedule_optimize", "quant_dumpable", "distributed_cluster_build"),
    *_texts("input_shape_range", "input_hint_shape", "op_precision_mode", "modify_mixlist", "aicore_num", "host_env_os",
            "host_env_cpu", "cluster_config", "enable_scope_fusion_passes", "op_compiler_cache_dir",
            "debug_dir", "compress_weight_conf",
            "ddk_version", "op_name_map", "fusion_debug", "compression_optimize_conf", "mdl_bank_path", "op_bank_path",
            "customize_dtypes", "model_relation_config", "allow_hf32", "cal_conf", "target", "raw_ge_options",
            "optimization_switch", "static_model_ops_lower_limit", "h2d_overlapped_with_compute", "op_debug_config",
            "hccl_sub_comm_config", "build_config", "auto_tune_mode", "topo_sorting_mode", "export_compile_stat",
            "multi_stream_parallel_mode"),
    Flag("deterministic_level", "0", "ignored", "", ("0", "1", "2", "3")),
    Flag("external_weight", "0", "ignored", "", ("0", "1", "2"), "E10006"),
    Flag("op_debug_level", "0", "ignored", "", ("0", "1", "2", "3", "4")),
    Flag("device_id", "0", "ignored", ""),
    Flag("buffer_optimize", "l2_optimize", "ignored", "", ("l1_optimize", "l2_optimize", "off_optimize")),
    Flag("core_type", "AiCore", "ignored", "", ("AiCore", "VectorCore")),
    Flag("jit_compile", "1", "ignored", "", ("0", "1", "2")),
    Flag("is_weight_clip", "1", "ignored", "", BITS, "E10006"),
    Flag("oo_level", "O3", "ignored", "", ("O1", "O3")),
    Flag("op_compiler_cache_mode", "disable", "ignored", "", ("enable", "disable", "force")),
    Flag("enable_compress_weight", "false", "ignored", "", BOOLS, "E10005"),
    Flag("save_original_model", "false", "ignored", "", BOOLS, "E10005"),
    Flag("enable_single_stream", "false", "ignored", "", BOOLS, "E10005"),
    Flag("shape_generalized_build_mode", "shape_precise", "ignored", "", ("shape_generalized", "shape_precise")),
)  # fmt: skip
BY_NAME = {flag.name: flag for flag in FLAGS}


class UnknownFlag(AtcError):
    """A word of the command line that is no flag of ATC; ``word`` is its name."""

    def __init__(self, word: str, cause: str, hint: str) -> None:
        self.word = word
        super().__init__("E10001", cause, hint)


def parse_flags(argv: Sequence[str]) -> dict[str, str]:
    """``--flag=value`` words (also ``-flag=value``, ``--flag value`` and minus signs for underscores) as a dict with
    defaults filled in. Of a flag given twice the last one counts.

    Raises `AtcError` for values outside a flag's range and `UnknownFlag`, which suggests the nearest flag.
    """
    values = {flag.name: flag.default for flag in FLAGS}
    words = list(argv)
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-"):
            raise UnknownFlag(
                word,
                f"value {word!r} belongs to no parameter",
                "Write --parameter=value, and quote values with blanks or semicolons.",
            )
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if name not in BY_NAME:
            close = difflib.get_close_matches(name, BY_NAME, 1)
            hint = f"Did you mean --{close[0]}?" if close else "See atc --help for all parameters."
            raise UnknownFlag(name, f"unknown command line flag '--{name}'", hint)
        if not equals:
            if index < len(words) and not words[index].startswith("--"):
                value = words[index]
                index += 1
            else:
                raise AtcError("E10004", f"--{name} has no value", f"Write --{name}=value.")
        values[name] = value.strip().strip("\"'")
    for flag in FLAGS:
        if flag.choices and values[flag.name] != flag.default:
            choice(flag, values[flag.name])
    if values["auto_tune_mode"]:
        raise AtcError("E10001", f"--auto_tune_mode={values['auto_tune_mode']}: automatic tuning was removed from ATC",
                       "Leave the flag out; AOE tunes models.")  # fmt: skip
    return values


def choice(flag: Flag, value: str) -> str:
    """``value`` if the flag allows it. Raises `AtcError` with the nearest allowed one."""
    if value in flag.choices:
        return value
    close = difflib.get_close_matches(value, flag.choices, 1)
    hint = f"Did you mean {close[0]}?" if close else ""
    words = {"E10005": "either true or false", "E10006": "either 1 or 0"}.get(flag.code)
    if flag.name == "framework":
        words = ", ".join(f"{number} ({name})" for number, name in FRAMEWORKS.items())
    expected = words or "one of " + ", ".join(flag.choices)
    raise AtcError(flag.code, f"--{flag.name}={value} is wrong. The value must be {expected}", hint)


def required(values: dict[str, str], name: str, expected: str, code: str = "E10054") -> str:
    """A flag that must be given."""
    if not values[name]:
        raise AtcError(code, f"--{name} is required. The value must be {expected}",
                       "Values with blanks or semicolons stand in quotation marks.")  # fmt: skip
    return values[name]
