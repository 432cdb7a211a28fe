"""``ascend-sim configs``: list the chips, or show one chip's figures with their sources."""

from __future__ import annotations

import argparse
import json

from ascend_sim import soc
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.table import render


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("configs", help="list chips, or show one chip's figures and their sources")
    parser.add_argument("name", nargs="?", help="chip name or path of a config file; without it: the list")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.name is None:
        return _list(args.json)
    try:
        chip = soc.load_soc(args.name)
    except soc.SocError as error:
        raise CommandError(str(error)) from error
    figures = {
        key: {"value": f.value, "unit": f.unit, "confidence": f.confidence, "source": f.source}
        for key, f in chip.figures.items()
    }
    if args.json:
        print(json.dumps({"soc": chip.name, "figures": figures}, indent=1))
    else:
        rows = [[key, f["value"], f["unit"], f["confidence"], f["source"]] for key, f in figures.items()]
        print(render(["figure", "value", "unit", "confidence", "source"], rows))
    return 0


def _list(as_json: bool) -> int:
    chips = [soc.load_soc(name) for name in soc.soc_names()]
    if as_json:
        print(json.dumps([chip.name for chip in chips]))
        return 0
    rows = [
        [c.name, c.chip.arch, c.cores.ai_core_count, c.cores.vector_core_count, f"{c.cores.clock_mhz:g}",
         f"{c.memory.capacity_bytes / 2**30:g}", f"{c.memory.read_gbps:g}", f"{c.memory.l2_bytes / 2**20:g}"]
        for c in chips
    ]  # fmt: skip
    print(render(["chip", "core", "AI cores", "vector cores", "MHz", "GiB", "GB/s", "L2 MiB"], rows))
    return 0
