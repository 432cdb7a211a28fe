"""``ascend-sim kernel``: run a user's kernel file, see its time pipe by pipe and what the sanitizer says."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from ascend_sim import soc
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.kernel_example import launch_function
from ascend_sim.cli.kernel_timeline import chart, write_perfetto
from ascend_sim.cli.run import run_script
from ascend_sim.cli.table import render

EXAMPLE = "example: ascend-sim kernel vadd.py --soc Ascend910B2 --trace timeline.json"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "kernel", help="run a kernel file: values, timeline, pipes, sanitizer", epilog=EXAMPLE,
        description="Runs FILE as a program; every kernel it launches is executed instruction by instruction, checked "
        "and timed. With --func NAME the kernel NAME of the file is launched on made-up arrays instead, described by "
        "its annotations (x: 'float16[4096]').",
    )  # fmt: skip
    parser.add_argument("file", type=Path, metavar="FILE", help="Python file with the kernel and its launch")
    parser.add_argument("--soc", help="chip name or config path (default: ASCEND_SIM_SOC, else Ascend910B2)")
    parser.add_argument("--func", dest="function", metavar="NAME", help="launch this kernel instead of running FILE")
    parser.add_argument("--cores", type=int, default=1, help="cores of a --func launch (default 1)")
    parser.add_argument("--trace", type=Path, metavar="OUT.json", help="write the instruction timeline (Perfetto)")
    parser.add_argument("--no-hints", action="store_true", help="leave hints out of the report")
    parser.add_argument("--json", action="store_true", help="machine readable; the program's own output to stderr")
    parser.add_argument("--args", nargs=argparse.REMAINDER, default=[], help="everything behind it is for the program")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ascend_sim.asc import shim
    from ascend_sim.asc.device import device
    from ascend_sim.asc.sanitizer import Sanitizer, listen

    if not args.file.is_file():
        raise CommandError(f"file {str(args.file)!r} does not exist")
    try:
        chip = soc.load_soc(args.soc)
    except soc.SocError as error:
        raise CommandError(str(error)) from error
    if args.soc:
        os.environ["ASCEND_SIM_SOC"] = args.soc
        device().set_platform(args.soc)
    shim.install()  # kernels written for pyasc say "import asc"
    launches: list[Sanitizer] = []
    with listen(launches.append), _program_output(args.json):
        if args.function:
            code = launch_function(args.file, args.function, args.cores)
        else:
            code = run_script(args.file, args.args)
    results = [_Result(launch, timeline=True) for launch in launches]
    if args.trace is not None:
        write_perfetto(args.trace, [(r.trace, r.timing) for r in results if r.timing is not None])
    if args.json:
        print(json.dumps({"soc": chip.name, "exit": code, "launches": [r.as_dict() for r in results]}))
    else:
        for result in results:
            print(result.text(hints=not args.no_hints))
        if not results:
            print(f"{args.file}: no kernel was launched")
        if args.trace is not None:
            print(f"timeline: {args.trace}")
    failed = any(r.report.of("error") or r.report.stopped for r in results)
    return code or int(failed or not results)


@contextlib.contextmanager
def _program_output(machine: bool) -> Any:
    if not machine:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


class _Result:
    """One launch: its report and, when it ran to its end, its time."""

    def __init__(self, sanitizer: Any, timeline: bool) -> None:
        from ascend_sim.engine.machine import DeadlockError
        from ascend_sim.engine.simulate import simulate_kernel

        self.report = sanitizer.report
        self.launch = sanitizer.launch
        self.timing = None
        self.trace = None
        self.untimed = self.report.stopped
        if self.untimed:
            return
        # what was executed, data-dependent branches as taken; where cores work for each other only a trace without
        # values shows both sides
        for make in (sanitizer.trace, self.launch.trace):
            try:
                self.trace = make()
                self.timing = simulate_kernel(self.trace, self.launch.soc, timeline=timeline)
            except (DeadlockError, soc.SocError, ValueError) as error:
                self.untimed = str(error)
            else:
                self.untimed = ""
                return

    def pipes(self) -> dict[str, dict[str, float]]:
        timing = self.timing
        if timing is None:
            return {}
        total = max(timing.mean_core_ps, 1)
        return {
            pipe: {"busy_cycles": round(ps * timing.mhz / 1e6), "ratio": round(ps / total, 4)}
            for pipe, ps in timing.busy_ps.items()
        }

    def as_dict(self) -> dict[str, Any]:
        timing = self.timing
        out: dict[str, Any] = {
            "kernel": self.launch.name, "kind": self.launch.kind, "blocks": self.launch.block_dim,
            "report": self.report.as_dict(), "untimed": self.untimed,
        }  # fmt: skip
        if timing is not None:
            out |= {
                "us": timing.us, "cycles": timing.cycles, "bound": timing.bound, "instructions": timing.instructions,
                "pipes": self.pipes(), "confidence": timing.confidence,
                "bytes": {"gm_read": timing.gm_read, "gm_write": timing.gm_write, "l2_hit": timing.l2_hit},
            }  # fmt: skip
        return out

    def text(self, hints: bool) -> str:
        head = f"{self.launch.name}: {self.launch.block_dim} blocks ({self.launch.kind}) on {self.launch.soc.name}"
        parts = [head]
        if self.timing is not None:
            t = self.timing
            parts[0] += f": {t.us:.2f} us, {t.cycles} cycles in the cores, {t.instructions} instructions"
            parts[0] += f", bound by {t.bound}"
            rows = [[pipe, v["busy_cycles"], f"{v['ratio']:.1%}"] for pipe, v in self.pipes().items()]
            parts += [render(["pipe", "busy cycles", "ratio"], rows), chart(t)]
        else:
            parts.append(f"not timed: {self.untimed}")
        parts.append(self.report.text(hints))
        return "\n".join(p for p in parts if p)
