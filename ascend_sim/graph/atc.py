"""The ``atc`` command: its messages, exit codes and modes.

Public functions: `compile_model` (library use) and `atc_main` (command line).
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from ascend_sim.graph.atc_flags import (
    FLAGS,
    FRAMEWORKS,
    check_log,
    compile_options,
    parse_flags,
    required,
)
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import PATH_INVALID, AtcError, OmError
from ascend_sim.graph.options import CompileOptions

__all__ = ["atc_main", "compile_model"]

START = "ATC start working now, please wait for a moment."
SUCCESS = "ATC run success, welcome to the next use."
FAILURE = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"


def _help() -> str:
    lines = ["usage: atc --parameter=value ...", ""]
    for flag in FLAGS:
        if flag.status == "used":
            lines.append(f"  --{flag.name:<24} {flag.help}" + (f" (default {flag.default})" if flag.default else ""))
    for status, what in (("ignored", "accepted for compatibility, without effect"), ("refused", "not supported")):
        names = ", ".join(f"--{flag.name}" for flag in FLAGS if flag.status == status)
        lines += ["", f"{what}:", textwrap.fill(names, 100, initial_indent="  ", subsequent_indent="  ")]
    lines += ["", "example: atc --model=resnet50.onnx --framework=5 --output=resnet50 --soc_version=Ascend310P3"]
    return "\n".join(lines)


def atc_main(argv: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run ATC with command-line words (default: those of the process). Returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    stream = out or sys.stdout

    def say(text: str) -> None:
        stream.write(text + "\n")
        stream.flush()

    if not words or words[0] in ("--help", "-h", "-help"):
        say(_help())
        return 0
    say(START)
    say("...")
    try:
        values = parse_flags(words)
        check_log(values)
        mode = values["mode"]
        if mode == "0":
            _convert(values, words)
        elif mode == "1":
            _to_json(values)
        elif mode == "6":
            say(_info(required(values, "om", "the path of an .om")))
        else:
            raise AtcError("E10007", f"--mode={mode} is wrong. The value must be 0, 1 or 6")
    except AtcError as error:
        say(FAILURE)
        say(str(error))
        return 1
    except OmError as error:
        say(FAILURE)
        say(f"{'E10410' if error.ret == PATH_INVALID else 'E10001'}: {error}")
        return 1
    except KeyboardInterrupt:
        say(FAILURE)
        return 130
    except MemoryError:
        say(FAILURE)
        say("E19999: Internal Error! The machine ran out of memory")
        return 1
    say(SUCCESS)
    return 0


def _convert(values: dict[str, str], words: Sequence[str]) -> None:
    framework = values["framework"]
    if framework == "-1":
        raise AtcError("E10007", "--framework is required. The value must be 5 (ONNX)")
    if framework not in FRAMEWORKS:
        raise AtcError("E10007", f"--framework={framework} is wrong. The value must be 5 (ONNX)")
    if framework != "5":
        raise AtcError(
            "E10001",
            f"--framework={framework} ({FRAMEWORKS[framework]}) is not supported",
            "Convert the model to ONNX (for example with tf2onnx or the framework's exporter) and use --framework=5.",
        )
    model = required(values, "model", "the path of an ONNX model")
    output = required(values, "output", "the path of the result")
    soc_version = required(values, "soc_version", "a chip such as Ascend310P3")
    target = Path(output if output.endswith(".om") else output + ".om")
    if target.is_dir() or output.endswith("/"):
        raise AtcError("E10001", f"--output={output} is a directory", "Give a file name; .om is appended.")
    options: CompileOptions = compile_options(values, target.stem, "atc " + " ".join(words))
    progress = _progress()
    if progress is not None:
        options = replace(options, progress=progress)
    data = compile_model(model, soc_version, options)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    except OSError as error:
        raise AtcError("E13001", f"{target} cannot be written: {error.strerror}") from None
    if progress is not None:
        progress("")


def _progress() -> Callable[[str], None] | None:
    """A one-line progress display on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(step: str) -> None:
        sys.stderr.write(f"\r{step:<40}" if step else "\r" + " " * 40 + "\r")
        sys.stderr.flush()

    return show


def _to_json(values: dict[str, str]) -> None:
    from ascend_sim.graph.om import read_om
    from ascend_sim.graph.om.to_json import model_json

    om = read_om(required(values, "om", "the path of an .om"))
    target = Path(required(values, "json", "the path of the json file"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(model_json(om.model), indent=2))
    except OSError as error:
        raise AtcError("E13001", f"{target} cannot be written: {error.strerror}") from None


def _info(path: str) -> str:
    """The sections of ``--mode=6``."""
    from ascend_sim.graph.om import read_om

    om = read_om(path)
    attrs = om.model.get("attr", {})

    def text(name: str) -> str:
        return bytes(attrs.get(name, {}).get("s", b"")).decode(errors="replace")

    def number(name: str) -> int:
        return int(attrs.get(name, {}).get("i", 0))

    sizes = om.sizes
    return "\n".join((
        "============ Display Model Info start ============",
        f"Original Atc command line: {text('atc_cmdline')}",
        "system   info:",
        f"  atc_version[{text('atc_version')}]",
        f"  soc_version[{text('soc_version')}]",
        f"  framework_type[{text('framework_type')}]",
        "resource info:",
        f"  memory_size[{number('memory_size')} B]",
        f"  weight_size[{number('weight_size')} B]",
        f"  stream_num[{number('stream_num')}]",
        f"  event_num[{number('event_num')}]",
        "om       info:",
        f"  modeldef_size[{sizes.get('MODEL_DEF', 0)} B]",
        f"  weight_data_size[{sizes.get('WEIGHTS_DATA', 0)} B]",
        f"  tbe_kernels_size[{sizes.get('TBE_KERNELS', 0)} B]",
        f"  cust_aicpu_kernel_store_size[{sizes.get('CUST_AICPU_KERNELS', 0)} B]",
        f"  task_info_size[{sizes.get('TASK_INFO', 0)} B]",
        f"  so_store_size[{sizes.get('SO_BINS', 0)} B]",
        "============ Display Model Info end   ============",
    ))  # fmt: skip
