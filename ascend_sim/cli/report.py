"""``ascend-sim report``: make the report page of a profile again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ascend_sim.cli.errors import CommandError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "report",
        help="make report.html of a profile again",
        epilog="example: ascend-sim run --profile out app.py && ascend-sim report out",
    )
    parser.add_argument("profile", type=Path, metavar="DIR", help="what `ascend-sim run --profile DIR` wrote")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page (default: DIR/report.html)")
    parser.add_argument("--json", action="store_true", help="print totals and operators instead of writing a page")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ascend_sim.profiling import report

    try:
        data = report.read(args.profile)
    except report.ReportError as error:
        raise CommandError(str(error)) from error
    if args.json:
        print(json.dumps({key: data[key] for key in ("soc", "totals", "models", "operators")}, indent=1))
        return 0
    target = args.output or args.profile / report.REPORT
    try:
        report.write(data, target)
    except OSError as error:
        raise CommandError(f"{target}: {error.strerror or error}") from error
    print(target)
    return 0
