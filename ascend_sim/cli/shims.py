"""Stand-ins for the vendor's command-line tools: ``atc`` is installed, ``msprof`` and ``npu-smi`` where one asks.

``ascend-sim shims DIR`` writes them as small scripts: on PATH before anything else they serve programs that call these
tools, and nothing shadows the real ones by accident.
"""

from __future__ import annotations

import argparse
import json
import stat
import sys
from pathlib import Path

from ascend_sim.cli.errors import CommandError

TOOLS = {"atc": "atc", "msprof": "msprof", "npu-smi": "npu_smi"}  # command -> function of this module
SCRIPT = """#!{python}
import sys

from ascend_sim.cli.shims import {function}

sys.exit({function}())
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "shims",
        help="write atc, msprof and npu-smi for PATH",
        epilog='example: ascend-sim shims ~/sim && PATH=~/sim:"$PATH"',
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the commands go (made when missing)")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    args.folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for command, function in TOOLS.items():
        path = args.folder / command
        if path.exists() and "ascend_sim.cli.shims" not in path.read_text(errors="replace"):
            raise CommandError(f"{path} is another program: it stays as it is")
        path.write_text(SCRIPT.format(python=sys.executable, function=function))
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        paths.append(str(path))
    print(json.dumps(paths) if args.json else "\n".join(paths))
    return 0


def atc() -> int:
    """The ``atc`` command."""
    from ascend_sim.graph.atc import atc_main

    return atc_main()


def msprof() -> int:
    """The ``msprof`` command."""
    from ascend_sim.cli.main import main

    return main(["msprof", *sys.argv[1:]])


def npu_smi() -> int:
    """The ``npu-smi`` command."""
    from ascend_sim.cli.main import main

    return main(["smi", *sys.argv[1:]])
