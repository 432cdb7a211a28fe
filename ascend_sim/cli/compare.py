"""``ascend-sim compare``: what changed between two profiles, operator by operator."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render

EPILOG = """example:
  ascend-sim run --soc Ascend310P3 --profile a app.py && ascend-sim run --soc Ascend910B4 --profile b app.py
  ascend-sim compare a b --report compare.html"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "compare", help="compare two profiles", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("one", type=Path, metavar="DIR", help="what `ascend-sim run --profile DIR` wrote")
    parser.add_argument("two", type=Path, metavar="DIR", help="another one")
    parser.add_argument("--report", type=Path, metavar="FILE", help="a page with both side by side")
    parser.add_argument("--most", type=int, default=20, help="operators shown in the table (default 20)")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ascend_sim.profiling import report
    from ascend_sim.profiling.compare import compare

    try:
        one, two = report.read(args.one), report.read(args.two)
    except report.ReportError as error:
        raise CommandError(str(error)) from error
    found = compare(one, two)
    if args.report is not None:
        report.write(two | {"compare": found}, args.report)
    print(json.dumps(found) if args.json else _text(found, args.most))
    if args.report is not None and not args.json:
        print(f"report: {args.report}")
    return 0


def _text(found: dict[str, Any], most: int) -> str:
    one, two = found["names"]
    totals = [[t["what"], _number(t["one"]), _number(t["two"]), _ratio(t["one"], t["two"])] for t in found["totals"]]
    shown = [
        [op["name"][-36:], op["type"], op["shapes"][-36:], _number(op["us_one"]), _number(op["us_two"]),
         _ratio(op["us_one"], op["us_two"]), f"{op['change']:+.2f}", op["bound_two"] or op["bound_one"]]
        for op in found["operators"][: max(most, 0)]
    ]  # fmt: skip
    hidden = len(found["operators"]) - len(shown)
    text = f"1: {one}\n2: {two}\n{render(['', '1', '2', '2 / 1'], totals)}\n\n"
    text += render(["operator", "type", "inputs", "us 1", "us 2", "2 / 1", "change, us", "bound"], shown)
    return text + (f"\n({hidden} more operators)" if hidden > 0 else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _ratio(one: float | None, two: float | None) -> str:
    return f"{two / one:.2f}x" if one and two is not None else "-"
