"""``ascend-sim run``: run any Python program on the simulated device, with a profile if wanted."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ascend_sim import soc
from ascend_sim.cli.errors import CommandError

if TYPE_CHECKING:
    from ascend_sim.profiling.store import EventStore

SHOWN_MESSAGES = 3  # of a failed program, the newest first
# name programs import -> modules whose install() provides it and what it runs on
SHIMS = {"asc": ("ascend_sim.asc.shim", "ascend_sim.cli.asc_device")}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a program on a simulated chip",
        epilog="example: ascend-sim run --soc Ascend310P3 --profile out app.py model.om cat.jpg",
    )
    parser.add_argument("--soc", help="chip name or config path (default: ASCEND_SIM_SOC, else Ascend910B2)")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="write report, tables, timeline, msprof tree here")
    parser.add_argument(
        "--layout", action="append", choices=("msprof", "ascend_pt"), metavar="NAME",
        help="also write the tree of msprof (PROF_*, the default) or torch_npu.profiler (ascend_pt); may be repeated",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="say what works by luck: races, freed memory, leaks")
    parser.add_argument("--json", action="store_true", help="with --profile: the summary as the last line, no table")
    parser.add_argument("--quiet", action="store_true", help="do not print the operator table")
    parser.add_argument(
        "--shim", action="append", choices=sorted(SHIMS), default=[], metavar="NAME",
        help="let `import NAME` find the simulator's own module (asc: the kernel language)",
    )  # fmt: skip
    parser.add_argument(
        "--virtual-time",
        action="store_true",
        help="let the program's time.time(), perf_counter() ... and sleep() be simulated",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, as in `python -m`")
    parser.add_argument("script", type=Path, nargs="?", help="the program")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.profile is not None and args.profile.is_file():
        raise CommandError(f"--profile {args.profile}: expected a directory before the program, for example "
                           f"`--profile out {args.profile}`")  # fmt: skip
    if args.script is None:
        raise CommandError("no program: expected for example `ascend-sim run app.py`")
    if not args.module and not args.script.is_file():
        raise CommandError(f"script {str(args.script)!r} is not a file")
    if args.json and args.profile is None:
        raise CommandError("--json is the summary of a profile: give --profile DIR too")
    if args.soc:
        try:
            os.environ["ASCEND_SIM_SOC"] = soc.load_soc(args.soc).name if not Path(args.soc).is_file() else args.soc
        except soc.SocError as error:
            raise CommandError(str(error)) from error
    for name in args.shim:
        for module in SHIMS[name]:
            importlib.import_module(module).install()
    if args.virtual_time:
        from ascend_sim.cli import virtual_time

        virtual_time.install()
    from ascend_sim.runtime import status

    if args.strict:
        from acl import _strict

        watch = _strict.start()
    reporter = status.Reporter(args.script.name)
    process = os.getpid()
    try:
        code = run_script(args.script, args.args, args.module) if args.profile is None else _run_profiled(args)
    finally:
        reporter.close()
        if args.strict and os.getpid() == process:  # a child that the program forked ends here, too
            watch.left()
            print(f"ascend-sim: {watch.report()}", file=sys.stderr)
    if code:
        _explain()
    return code


def _explain() -> None:
    """Why calls of a failed program failed, as far as it did not ask itself."""
    errors = sys.modules.get("acl.errors")
    messages = errors.take_messages() if errors is not None else None
    for line in (messages or "").splitlines()[:SHOWN_MESSAGES]:
        print(f"ascend-sim: {line}", file=sys.stderr)


def _run_profiled(args: argparse.Namespace) -> int:
    from ascend_sim.profiling import optable, summary
    from ascend_sim.profiling.store import EventStore
    from ascend_sim.runtime.system import system

    check_writable(args.profile, "--profile")
    store, process = EventStore(), os.getpid()
    try:
        code = record(store, args.script, args.args, args.module)
    finally:
        if os.getpid() == process:
            summary.write_all(store, system().soc, args.profile, args.layout or summary.LAYOUTS[:1])
    if os.getpid() != process:  # a child that the program forked
        return code
    if args.json:
        print(json.dumps({"exit": code, "profile": str(args.profile), **summary.summary(store, system().soc)}))
    elif not args.quiet:
        print(optable.render_table(store, system().soc))
        print(f"profile: {args.profile}")
    return code


def check_writable(folder: Path, option: str) -> None:
    """Make ``folder``; CommandError when nothing can be written there: before the program runs, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CommandError(f"{option} {folder}: cannot write there: {error.strerror}") from error


def record(store: EventStore, script: Path, arguments: list[str], module: bool = False) -> int:
    """`run_script` with every event in ``store``."""
    from ascend_sim.runtime.system import observers

    listening = observers()
    listening.add(store)
    try:
        return run_script(script, arguments, module)
    finally:
        listening.remove(store)


def run_script(script: Path, arguments: list[str], module: bool = False) -> int:
    """Run a script as ``__main__`` with its own argv and its folder first on the path (a module: the current folder);
    returns its exit code."""
    saved = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path[0:0] = [os.getcwd() if module else str(script.resolve().parent)]
    try:
        if module:
            runpy.run_module(str(script), run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        return _exit_code(stop)
    except (Exception, KeyboardInterrupt) as error:
        users = _users_frames(error.__traceback__)
        if users is None and module and isinstance(error, ImportError):
            raise CommandError(f"-m {script}: {error}") from error
        sys.excepthook(type(error), error.with_traceback(users), users)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.argv, sys.path[:] = saved
    return 0


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame of the program on; None when it failed before it began."""
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    frame = traceback
    while frame is not None and frame.tb_frame.f_code.co_filename in ours:
        frame = frame.tb_next
    return frame
