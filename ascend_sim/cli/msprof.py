"""``ascend-sim msprof`` (and the ``msprof`` of `ascend_sim.cli.shims`): profile a program with msprof's own options.

Options are those of the msprof documentation (hicann/oam-tools, docs/zh/profiling). Everything is recorded in any case:
options choose what is written. ``msprof op simulator`` is `ascend_sim.cli.op_simulator`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from pathlib import Path

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.msprof_options import split
from ascend_sim.cli.run import check_writable, record

SWITCH = ("on", "off")
METRICS = ("PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio",
           "L2Cache", "MemoryAccess", "PipelineExecuteUtilization")  # fmt: skip
# option -> words it takes (none: any), default
OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "output": ((), ""), "type": (("text", "db"), "text"), "environment": ((), ""), "storage-limit": ((), ""),
    "ascendcl": (SWITCH, "on"), "runtime-api": (SWITCH, "off"), "task-time": (("l0", "l1", "l2", "l3", *SWITCH), "on"),
    "ai-core": (SWITCH, "on"), "aic-mode": (("task-based", "sample-based"), "task-based"), "aic-freq": ((), "100"),
    "aic-metrics": ((), ""), "aicpu": (SWITCH, "off"), "l2": (SWITCH, "off"), "hccl": (SWITCH, "off"),
    "model-execution": (SWITCH, "off"), "msproftx": (SWITCH, "off"), "task-memory": (SWITCH, "off"),
    "ge-api": (("off", "l0", "l1"), "off"), "sys-hardware-mem": (SWITCH, "off"), "sys-hardware-mem-freq": ((), "50"),
    "sys-profiling": (SWITCH, "off"), "sys-cpu-profiling": (SWITCH, "off"), "host-sys": ((), ""),
    "dynamic": (SWITCH, "off"), "application": ((), ""),
}  # fmt: skip
OFFLINE = ("export", "parse", "query", "analyze", "clear", "reports", "model-id", "iteration-id", "summary-format")
EPILOG = """examples:
  ascend-sim msprof --output=out python3 app.py model.om
  ascend-sim msprof --output=out --application="python3 app.py model.om"
  ascend-sim msprof op simulator --soc-version=Ascend910B2 --kernel-name=add python3 kernel.py"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "msprof", help="profile a program with msprof's options", epilog=EPILOG, add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("arguments", nargs="*", help="options of msprof, the program, its arguments")
    parser.set_defaults(func=lambda args: main(args.arguments))


def main(arguments: list[str]) -> int:
    """The command; returns its exit code, that of the program if it ran."""
    if arguments[:1] == ["op"]:
        from ascend_sim.cli import op_simulator

        return op_simulator.main(arguments[1:])
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    options, program = _options(arguments)
    if options["application"]:
        program = shlex.split(options["application"])
    script, module, rest = python_program(program)
    _set_environment(options["environment"])
    folder = Path(options["output"] or os.environ.get("ASCEND_WORK_PATH") or ".")
    check_writable(folder, "--output")
    return _profile(script, module, rest, folder, options)


def _usage() -> str:
    lines = []
    for name, (words, default) in OPTIONS.items():
        takes = "{" + ",".join(words) + "}" if words else "..."
        lines.append(f"  --{name}={takes}" + (f"  ({default})" if default else ""))
    lines.append("  --json  the result as the last line, for programs (not an option of msprof itself)")
    known = "\n".join(lines)
    return f"usage: msprof [--option=value ...] PROGRAM [arguments]\n\noptions (default):\n{known}\n\n{EPILOG}"


def _options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    for word in arguments:
        if not word.startswith("--"):
            break
        if (name := word[2:].partition("=")[0]) in OFFLINE:
            raise CommandError(f"{word}: profiles are written complete, there is nothing to {name}")
    return split(arguments, {name: default for name, (_, default) in OPTIONS.items()}, _expected)


def _expected(name: str, value: str) -> str:
    words = OPTIONS[name][0]
    if words and value not in words:
        return "one of " + ", ".join(words)
    if name == "aic-metrics" and value not in METRICS and not re.fullmatch(r"Custom:(0x[0-9a-fA-F]+,?){1,8}", value):
        return "one of " + ", ".join(METRICS)
    return ""


def python_program(words: list[str]) -> tuple[Path, bool, list[str]]:
    """(script or module, whether it is a module, its arguments) of ``python3 app.py ...`` or ``app.py ...``."""
    if words and re.fullmatch(r"python[\d.]*", Path(words[0]).name):
        words = words[1:]
        if words[:1] == ["-m"] and len(words) > 1:
            return Path(words[1]), True, words[2:]
    if not words:
        raise CommandError("no program: expected for example `python3 app.py`")
    script = Path(words[0])
    if not script.is_file():
        raise CommandError(f"program {words[0]!r} is not a file")
    if script.suffix != ".py" and not _python_script(script):
        raise CommandError(f"program {words[0]!r} is not a Python program; only these run on the simulator")
    return script, False, words[1:]


def _python_script(path: Path) -> bool:
    with path.open("rb") as lines:
        first = lines.readline(200)
    return first.startswith(b"#!") and b"python" in first


def _set_environment(text: str) -> None:
    for pair in filter(None, text.split(";")):
        name, eq, value = pair.partition("=")
        if not eq:
            raise CommandError(f"--environment={text}: expected NAME=VALUE;NAME=VALUE")
        os.environ[name] = value


def _profile(script: Path, module: bool, rest: list[str], folder: Path, options: dict[str, str]) -> int:
    from ascend_sim.profiling import msprof
    from ascend_sim.profiling.msprof_switches import of_options
    from ascend_sim.profiling.store import EventStore
    from ascend_sim.runtime.system import system

    store, machine = EventStore(), options["json"] == "on"
    if not machine:
        print("[INFO] Start profiling....", flush=True)
    try:
        code = record(store, script, rest, module)
    finally:
        if options["ascendcl"] == "off":
            store.events = [e for e in store.events if e.kind != "api"]
        written = msprof.write(store, system().soc, folder, contents=of_options(options))
    if machine:
        print(json.dumps({"exit": code, "profile": str(written.resolve()), "kernels": len(list(store.kernels()))}))
    else:
        print(f"[INFO] Process profiling data complete. Data is saved in {written.resolve()}")
    return code
