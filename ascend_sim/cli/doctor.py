"""``ascend-sim doctor``: whether this installation and environment can simulate, and what to do where not."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ascend_sim import __version__
from ascend_sim.cli.progress import colored
from ascend_sim.soc import SocError, load_soc, soc_names

OK, NOTE, FAIL = "ok", "note", "fail"
COLORS = {OK: "32", NOTE: "33", FAIL: "31"}
REQUIRED = ("numpy", "cffi", "simpy", "ml_dtypes", "onnx", "PIL")
OPTIONAL = {
    "onnxruntime": "the demo compares with it",
    "rich": "progress bars",
    "distributed": "sweeps on a Dask cluster",
    "pyarrow": "sweeps as Parquet",
    "torch": "PyTorch programs",
    "av": "video decoding",
}
NEW_ENOUGH = (3, 10)
DISK_MIB = 200


@dataclass(frozen=True)
class Finding:
    """``state`` is ``ok``, ``note`` (works without) or ``fail``; ``advice`` says what to do."""

    state: str
    what: str
    advice: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor", help="check installation and environment", epilog="exit code 1 when something does not work"
    )
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    found = [finding for check in CHECKS for finding in check()]
    if args.json:
        print(json.dumps([finding.__dict__ for finding in found], indent=1))
    else:
        paint = colored(sys.stdout)
        for finding in found:
            mark = f"{finding.state:4}"
            mark = f"\x1b[{COLORS[finding.state]}m{mark}\x1b[0m" if paint else mark
            print(f"{mark}  {finding.what}" + (f"\n      {finding.advice}" if finding.advice else ""))
        worst = sum(f.state == FAIL for f in found)
        print(f"{worst} problem{'s' * (worst != 1)} found" if worst else "ready")
    return int(any(finding.state == FAIL for finding in found))


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= NEW_ENOUGH
    yield Finding(OK if good else FAIL, f"ascend-sim {__version__}, Python {version} on {sys.platform}",
                  "" if good else "Python 3.10 or newer is needed")  # fmt: skip
    if not sys.platform.startswith("linux"):
        yield Finding(NOTE, f"{sys.platform} is not tested", "on Windows use WSL2")


def _packages() -> Iterator[Finding]:
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding(FAIL, f"missing: {', '.join(missing)}", "pip install --upgrade ascend-sim")
    else:
        yield Finding(OK, "required packages: " + ", ".join(REQUIRED))
    for name, use in OPTIONAL.items():
        if importlib.util.find_spec(name) is None:
            yield Finding(NOTE, f"{name} is not installed ({use})")
        else:
            yield Finding(OK, f"{name} {_version(name)} ({use})")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _engine() -> Iterator[Finding]:
    from ascend_sim.engine import native

    if native.available():
        yield Finding(OK, "native replay engine")
    else:
        yield Finding(NOTE, "the native replay engine is not built: replay is about thirty times slower",
                      "install a C compiler (Debian: apt install gcc python3-dev), then reinstall")  # fmt: skip


def _acl() -> Iterator[Finding]:
    ours = Path(__file__).parents[2] / "acl" / "__init__.py"
    spec = importlib.util.find_spec("acl")
    where = spec.origin if spec is not None else None
    if where is not None and ours.is_file() and Path(where).resolve() != ours.resolve():
        yield Finding(FAIL, f"`import acl` finds {where}, not the simulator's",
                      "take CANN's pyACL (set_env.sh, PYTHONPATH) or a package of that name away")  # fmt: skip
    elif where is None:
        yield Finding(FAIL, "`import acl` finds nothing", "reinstall ascend-sim")
    else:
        yield Finding(OK, f"`import acl` is the simulator's ({where})")


def _chip() -> Iterator[Finding]:
    chosen = os.environ.get("ASCEND_SIM_SOC")
    try:
        chip = load_soc()
    except SocError as error:
        yield Finding(FAIL, f"ASCEND_SIM_SOC={chosen}: {error}", "choose one of " + ", ".join(soc_names()))
        return
    yield Finding(OK, f"default chip {chip.name} ({'ASCEND_SIM_SOC' if chosen else 'ASCEND_SIM_SOC is not set'})")


def _environment() -> Iterator[Finding]:
    from ascend_sim.runtime.system import VALUES_MODES, device_count

    try:
        yield Finding(OK, f"{device_count()} devices")
    except ValueError as error:
        yield Finding(FAIL, str(error), "unset ASCEND_SIM_DEVICES")
    mode = os.environ.get("ASCEND_SIM_VALUES")
    if mode and mode not in VALUES_MODES:
        yield Finding(FAIL, f"ASCEND_SIM_VALUES={mode}", f"expected one of {', '.join(VALUES_MODES)}")
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
        if os.environ.get(name):
            yield Finding(NOTE, f"{name} is set and has no effect here")


def _places() -> Iterator[Finding]:
    from ascend_sim.runtime import status

    for what, folder in (("temporary files", Path(tempfile.gettempdir())), ("state for smi", status.folder())):
        place = folder if folder.is_dir() else folder.parent
        if not os.access(place, os.W_OK):
            yield Finding(NOTE, f"{what}: cannot write to {folder}", "set TMPDIR or ASCEND_SIM_STATUS_DIR")
            continue
        facts = os.statvfs(place)
        free = facts.f_bavail * facts.f_frsize >> 20
        good = free >= DISK_MIB
        yield Finding(OK if good else NOTE, f"{what}: {folder}, {free} MiB free",
                      "" if good else "profiles of long runs may not fit")  # fmt: skip


def _works() -> Iterator[Finding]:
    try:
        from ascend_sim.api import simulate_op

        us = simulate_op("Add", ["1024:float16"] * 2).us
    except Exception as error:  # whatever it is, it is what the user has to know
        yield Finding(FAIL, f"an operator cannot be simulated: {type(error).__name__}: {error}")
    else:
        yield Finding(OK, f"an operator simulates ({us:.2f} us)")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python, _packages, _engine, _acl, _chip, _environment, _places, _works
)  # fmt: skip
