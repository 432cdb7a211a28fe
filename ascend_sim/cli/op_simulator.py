"""``msprof op simulator``: instruction timelines of the kernels that a program launches, as an ``OPPROF_*`` tree."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.msprof import python_program
from ascend_sim.cli.msprof_options import split
from ascend_sim.cli.run import check_writable, record
from ascend_sim.cli.table import render
from ascend_sim.soc import Soc, load_soc

DEFAULTS = {
    "soc-version": "", "kernel-name": "", "launch-count": "1", "aic-metrics": "", "core-id": "", "timeout": "",
    "mstx": "off", "mstx-include": "", "dump": "off", "output": "", "application": "",
}  # fmt: skip
USAGE = """usage: msprof op simulator [--option=value ...] PROGRAM [arguments]

  --soc-version=NAME     chip (default: ASCEND_SIM_SOC)
  --kernel-name="a|b*"   which kernels, by name or operator type: prefixes, * stands for anything (default: the first)
  --launch-count=N       how many launches (1 to 5000, default 1)
  --core-id="0|3"        only these cores
  --output=DIR           where OPPROF_* goes (default: here)
  --json                 the result as the last line, for programs (not an option of msprof itself)
  --aic-metrics, --mstx, --mstx-include, --timeout, --dump   accepted; everything is recorded in any case

example: msprof op simulator --soc-version=Ascend910B2 --kernel-name=add python3 kernel.py"""


def main(arguments: list[str]) -> int:
    """The command; its exit code is that of the program, 1 when no kernel matched."""
    if arguments[:1] != ["simulator"]:
        raise CommandError("msprof op runs on hardware; here it is `msprof op simulator`")
    if asks_for_help(arguments[1:]):
        print(USAGE)
        return 0
    options, program = split(arguments[1:], DEFAULTS)
    if not program and not options["application"]:
        print(USAGE)
        return 2
    chip = load_soc(options["soc-version"] or None)
    os.environ["ASCEND_SIM_SOC"] = chip.name
    count = _whole(options, "launch-count", 1, 5000)
    cores = [int(c) for c in re.findall(r"\d+", options["core-id"])]
    script, module, rest = python_program(options["application"].split() or program)
    folder = Path(options["output"] or ".")
    check_writable(folder, "--output")

    from ascend_sim.asc import shim
    from ascend_sim.asc.sanitizer import Sanitizer, listen
    from ascend_sim.profiling import op_simulator
    from ascend_sim.profiling.store import EventStore

    shim.install()  # kernels written for pyasc say "import asc"
    store, launches = EventStore(), list[Sanitizer]()
    with listen(launches.append):
        code = record(store, script, rest, module)
    everything = [*_of_programs(launches), *_of_operators(store, chip)]
    pattern = options["kernel-name"]
    kernels = [k for k in everything if not pattern or matches(pattern, k.name) or matches(pattern, k.type)][:count]
    if not kernels:
        names = ", ".join(dict.fromkeys(k.type or k.name for k in everything)) or "none"
        raise CommandError(f"no launch matches --kernel-name={pattern!r}; launched: {names}")
    written = op_simulator.write(kernels, folder, cores=cores)
    machine, results = options["json"] == "on", []
    for kernel in kernels:
        found, timing = op_simulator.cores_of(kernel, set(cores))
        rows = [[c.name, f"{timing.us:.2f}", f"{max((s.end for s in c.slices), default=0) / 1e6:.2f}"] for c in found]
        results.append({"name": kernel.name, "type": kernel.type, "us": timing.us, "cores": [row[0] for row in rows]})
        if not machine:
            print(f"{kernel.name}\n" + render(["core_name", "duration_time(us)", "running_time(us)"], rows))
    if machine:
        print(json.dumps({"exit": code, "profile": str(written.resolve()), "kernels": results}))
        return code
    print(f"[INFO] Profiling data is saved in {written.resolve()}")
    return code


def asks_for_help(arguments: list[str]) -> bool:
    """Whether ``-h`` or ``--help`` is among the options, not among the program's own arguments."""
    options = list(takewhile(lambda word: word.startswith("-"), arguments))
    return "-h" in options or "--help" in options


def matches(pattern: str, name: str) -> bool:
    """``add|abs*``: alternatives, each a prefix where ``*`` stands for anything."""
    return any(fnmatchcase(name, part + "*") for part in pattern.split("|") if part)


def _whole(options: dict[str, str], name: str, low: int, high: int) -> int:
    try:
        value = int(options[name])
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise CommandError(f"--{name}={options[name]}: expected a whole number from {low} to {high}")
    return value


def _of_programs(launches: list[Any]) -> Iterator[Any]:
    """Kernels that the program wrote itself, as they were executed."""
    from ascend_sim.profiling.op_simulator import Kernel

    for sanitizer in launches:
        if not sanitizer.report.stopped:
            launch = sanitizer.launch
            yield Kernel(launch.name, "", sanitizer.trace(), launch.soc)


def _of_operators(store: Any, chip: Soc) -> Iterator[Any]:
    """Kernels of operators and networks, traced again with their source lines."""
    from ascend_sim.ops.registry import find_kernel
    from ascend_sim.profiling.op_simulator import Kernel

    for event in store.kernels():
        call, part = event.args.get("call"), event.args.get("part", 0)
        if call is not None and find_kernel(call.type) is not None and event.args.get("timing") is not None:
            yield Kernel(event.name, call.type, traced(call, chip)[part], chip)


def traced(call: Any, chip: Soc) -> list[Any]:
    """Traces of an operator's launches in which every instruction knows its source line."""
    from ascend_sim import ops
    from ascend_sim.ops.registry import find_kernel

    ops.load()
    plan = find_kernel(call.type)
    assert plan is not None
    launches: Any = plan(call, chip)
    for launch in launches:
        if hasattr(launch, "debug"):
            launch.debug = True
    return [launch.trace() for launch in launches]
