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

from ascend_sim.graph.atc_flags import FLAGS, FRAMEWORKS, MODES, UnknownFlag, parse_flags, required
from ascend_sim.graph.atc_options import compile_options
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import PATH_INVALID, AtcError, OmError
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.progress import Bar, Progress

__all__ = ["atc_main", "compile_model"]

START = "ATC start working now, please wait for a moment."
SUCCESS = "ATC run success, welcome to the next use."
FAILURE = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
PATH_LIMIT = 4096

Say = Callable[[str], None]


def _help() -> str:
    lines = ["usage: atc --parameter=value ...", ""]
    for flag in FLAGS:
        if flag.status == "used":
            lines.append(f"  --{flag.name:<24} {flag.help}" + (f" (default {flag.default})" if flag.default else ""))
    names = ", ".join(f"--{flag.name}" for flag in FLAGS if flag.status == "ignored")
    lines += ["", "accepted for compatibility, without effect:"]
    lines += [textwrap.fill(names, 100, initial_indent="  ", subsequent_indent="  ")]
    lines += ["", "example: atc --model=resnet50.onnx --framework=5 --output=resnet50 --soc_version=Ascend310P3"]
    return "\n".join(lines)


def atc_main(argv: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run ATC with command-line words (default: those of the process). Returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    stream = out or sys.stdout

    def say(text: str) -> None:
        stream.write(text + "\n")
        stream.flush()

    if not words or {"--help", "-h", "-help"}.intersection(words):
        say(_help())
        return 0
    say(START)
    try:
        values = parse_flags(words)
    except AtcError as error:
        if isinstance(error, UnknownFlag):
            sys.stderr.write(f"ERROR: {error.cause}\n")
        return _failed(say, error)
    problem: BaseException | None = None
    try:
        _run(values, words, say)
    except (AtcError, OmError, KeyboardInterrupt, MemoryError) as error:
        problem = error
    say("...")
    if problem is not None:
        return _failed(say, problem)
    say(SUCCESS)
    return 0


def _failed(say: Say, error: BaseException) -> int:
    say(FAILURE)
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, OmError):
        say(f"{'E10410' if error.ret == PATH_INVALID else 'E10001'}: {error}")
    elif isinstance(error, MemoryError):
        say("E19999: Internal Error! The machine ran out of memory")
    else:
        say(str(error))
    return 1


def _run(values: dict[str, str], words: Sequence[str], say: Say) -> None:
    mode = values["mode"]
    if values["singleop"]:
        _single_operators(values, words)
    elif mode in ("0", "3"):
        _convert(values, words, say, only_check=mode == "3")
    elif mode == "1":
        from ascend_sim.graph.atc_info import to_json, write_json

        source = required(values, "om", "the path of an .om or, with --framework, of a model", "E10004")
        target = required(values, "json", "the path of the json file", "E10004")
        write_json(to_json(source, values["framework"]), target)
    elif mode == "6":
        from ascend_sim.graph.atc_info import model_info
        from ascend_sim.graph.om import read_om

        path = required(values, "om", "the path of an .om", "E10004")
        info = model_info(read_om(path))
        if values["framework"] != "-1":
            raise AtcError("E10057", "--mode=6 and --om are used together, without --framework")
        say(info)
    else:
        listed = ", ".join(f"{number} ({what})" for number, what in MODES.items())
        raise AtcError("E10001", f"--mode={mode} is not supported. The value must be one of {listed}")


def _target(values: dict[str, str]) -> Path:
    """The .om of --output. Raises `AtcError`."""
    output = required(values, "output", "the path of the result")
    if len(output) > PATH_LIMIT:
        raise AtcError("E10021", f"--output has {len(output)} characters; a path has at most {PATH_LIMIT}")
    target = Path(output if output.endswith(".om") else output + ".om")
    if target.is_dir() or output.endswith("/"):
        raise AtcError("E10022", f"--output={output} is a directory", "Give a file name; .om is appended.")
    return target


def _framework(values: dict[str, str]) -> str:
    framework = values["framework"]
    if framework == "-1":
        listed = ", ".join(f"{number} ({name})" for number, name in FRAMEWORKS.items())
        raise AtcError("E10007", f"--framework is required. The value must be one of {listed}")
    if framework == "0" and not values["weight"]:
        raise AtcError("E10008", "--weight is required when --framework is 0 (Caffe)",
                       "Caffe models are converted to ONNX first; then use --framework=5.")  # fmt: skip
    if framework in ("0", "3"):
        how = "tf2onnx" if framework == "3" else "a Caffe to ONNX converter"
        raise AtcError("E10001", f"--framework={framework} ({FRAMEWORKS[framework]}) is not read",
                       f"Convert the model to ONNX with {how} and use --framework=5.")  # fmt: skip
    return framework


def _soc(values: dict[str, str]) -> str:
    """--soc_version; a name that stands for a family of chips is said to, on stderr."""
    from ascend_sim.soc import SocError, resolve_name

    name = required(values, "soc_version", "a chip such as Ascend310P3")
    try:
        found, notice = resolve_name(name)
    except SocError as error:
        raise AtcError("E10001", f"--soc_version: {error}") from None
    if notice is None and found == "Ascend910B" and name.endswith("910B"):
        notice = "Ascend910B is a chip of the 910 generation; the chips of Atlas A2 are Ascend910B1 to Ascend910B4"
    if notice:
        sys.stderr.write(f"atc: {notice}\n")
    return name


def _convert(values: dict[str, str], words: Sequence[str], say: Say, only_check: bool) -> None:
    framework = _framework(values)
    model = required(values, "model", "the path of a model")
    target = Path() if only_check else _target(values)
    soc_version = _soc(values)
    options = compile_options(values, target.stem, "atc " + " ".join(words))
    options = replace(options, progress=_progress())
    try:
        data = _compile(framework, model, soc_version, options)
    except AtcError as error:
        if only_check:
            _report(values["check_report"], str(error))
        raise
    finally:
        options.progress.end()
    if only_check:
        _report(values["check_report"], "")
        return
    _write(target, data)
    if values["display_model_info"] == "1":
        from ascend_sim.graph.atc_info import model_info
        from ascend_sim.graph.om import read_om

        say(model_info(read_om(data)))


def _compile(framework: str, model: str, soc_version: str, options: CompileOptions) -> bytes:
    if framework == "1":
        from ascend_sim.graph.air import compile_air

        return compile_air(model, soc_version, options)
    return compile_model(model, soc_version, options)


def _write(target: Path, data: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    except OSError as error:
        raise AtcError("E13001", f"{target} cannot be written: {error.strerror}") from None


def _report(path: str, problem: str) -> None:
    """check_result.json of --mode=3."""
    found: dict[str, object] = {"op": [], "result": "failed" if problem else "success"}
    if problem:
        found["reason"] = problem
    try:
        Path(path).write_text(json.dumps(found, indent=2))
    except OSError as error:
        raise AtcError("E13001", f"--check_report {path} cannot be written: {error.strerror}") from None


def _single_operators(values: dict[str, str], words: Sequence[str]) -> None:
    from ascend_sim.graph.op_description import compile_operators

    if values["framework"] != "-1" or values["insert_op_conf"] or values["mode"] != "0":
        raise AtcError("E10001", "--singleop does not go with --framework, --insert_op_conf or --mode other than 0")
    folder = Path(required(values, "output", "the folder of the results"))
    made = compile_operators(values["singleop"], _soc(values), "atc " + " ".join(words))
    for name, data in made:
        _write(folder / f"{name}.om", data)


def _progress() -> Progress:
    """A bar on a terminal, nothing elsewhere."""
    return Bar(sys.stderr) if sys.stderr.isatty() else Progress()
