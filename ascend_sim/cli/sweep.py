"""``ascend-sim sweep``: a network or operator on many variants of chips, batches and shapes."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_sim.cli import sweep_plan, sweep_table
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.sweep_time import Point, is_network
from ascend_sim.soc import load_soc

EPILOG = """examples:
  ascend-sim sweep resnet50.onnx --soc Ascend310P3 --soc Ascend910B2 --batch 1,4,16
  ascend-sim sweep resnet50.onnx --batch 1,8 --grid cores.clock_mhz=1000:1800:9 --grid memory.hbm_gbps=800,1600 -o s.csv
  ascend-sim sweep MatMulV2 --shapes "4096x4096:float16 4096x4096:float16" --grid ai_core_count=2,4,8,16,24
A sweep that was interrupted goes on where it stopped when it is started again with the same arguments."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "sweep", help="time many variants of chip, batch and shape", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("target", help="an ONNX file, an .om, or an operator such as MatMulV2 (MatMulV2?K=V&K=V)")
    parser.add_argument("--soc", action="append", help="chip name or config path; may be repeated")
    parser.add_argument("--batch", default="1", metavar="N,N,...", help="sizes of a free first dimension (default 1)")
    parser.add_argument(
        "--shapes", action="append", default=[], metavar="SHAPE",
        help="shapes of free inputs as for atc, or the inputs of an operator, separated by spaces; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--grid", action="append", default=[], metavar="KEY=V,V,...",
        help="a figure of the chip (`ascend-sim configs NAME` lists them) and its values, or FIRST:LAST:COUNT",
    )  # fmt: skip
    parser.add_argument("--list", type=Path, metavar="CSV", help="points from a file instead of a product")
    parser.add_argument("--l2", choices=("cold", "warm"), default="warm", help="state of L2: warm is the second run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask cluster (tcp://host:8786), or local:N for one of N processes"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="table: .csv or .parquet (default sweep.csv)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="heat-map and Pareto front as a page")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an interrupted sweep")
    parser.add_argument("--json", action="store_true", help="print the rows instead of a summary")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    points = _points(args)
    sweep_plan.check(points)
    output: Path = args.output or Path("sweep.csv")
    sweep_table.check_format(output)
    results = _results(points, args, output.with_name(output.name + ".part"))
    rows = sweep_table.rows(points, results)
    sweep_table.write(output, rows)
    if args.report is not None:
        from ascend_sim.cli.sweep_page import write as write_page

        write_page(args.report, Path(args.target).name, rows)
    if args.json:
        print(json.dumps(rows))
    else:
        print(sweep_table.summary(rows))
        print(f"table: {output}" + (f"\nreport: {args.report}" if args.report else ""))
    return int(all("error" in result for result in results.values()))


def _points(args: argparse.Namespace) -> list[Point]:
    if args.workers < 1:
        raise CommandError(f"--workers {args.workers}: expected at least 1")
    target = args.target
    if is_network(target):
        if not Path(target).is_file():
            raise CommandError(f"{target}: no such file")
        target = str(Path(target).resolve())
    elif not args.shapes and args.list is None:
        raise CommandError(f"{target}: an operator needs --shapes with its inputs")
    try:
        batches = [int(b) for b in args.batch.split(",")]
    except ValueError as error:
        raise CommandError(f"--batch {args.batch}: expected whole numbers such as 1,4,16") from error
    if min(batches) < 1:
        raise CommandError(f"--batch {args.batch}: expected numbers of at least 1")
    socs = [name if Path(name).is_file() else load_soc(name).name for name in args.soc or [load_soc().name]]
    if args.list is not None:
        if args.grid or args.shapes:
            raise CommandError("--list takes the place of --grid and --shapes")
        return sweep_plan.listed_points(target, args.list, socs, batches, args.l2)
    grid = sweep_plan.parse_grid(args.grid)
    return sweep_plan.grid_points(target, socs, batches, args.shapes or [""], grid, args.l2)


def _results(points: Sequence[Point], args: argparse.Namespace, journal: Path) -> dict[int, dict[str, Any]]:
    """Results by index of the point. Each is appended to ``journal`` at once, so that nothing is done twice."""
    from ascend_sim.cli import sweep_pool

    identity = _identity(points)
    results = {} if args.fresh else _read_journal(journal, identity, len(points))
    jobs = [(i, point) for i, point in enumerate(points) if i not in results]
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("w") as log:
        log.write(json.dumps(identity) + "\n")
        for index, result in results.items():
            log.write(json.dumps([index, result]) + "\n")
        log.flush()
        with Progress("sweep", len(jobs)) as bar:
            for index, result in sweep_pool.run_all(jobs, args.workers, args.scheduler):
                results[index] = result
                log.write(json.dumps([index, result]) + "\n")
                log.flush()
                bar.advance()
    journal.unlink()
    return results


def _identity(points: Sequence[Point]) -> str:
    """What a journal belongs to: these points, this network file and these chip descriptions."""
    files = []
    for target in sorted({p.target for p in points if is_network(p.target)}):
        facts = os.stat(target)
        files.append((target, facts.st_size, facts.st_mtime_ns))
    chips = sorted((name, load_soc(name).digest) for name in {p.soc for p in points})
    return hashlib.sha256(repr((list(points), files, chips)).encode()).hexdigest()


def _read_journal(path: Path, identity: str, count: int) -> dict[int, dict[str, Any]]:
    """Results of an interrupted sweep; a line that was cut off is left out."""
    if not path.is_file():
        return {}
    found: dict[int, dict[str, Any]] = {}
    first, *lines = path.read_text().splitlines() or [""]
    if first != json.dumps(identity):
        return {}
    for line in lines:
        try:
            index, result = json.loads(line)
        except ValueError:
            continue
        if 0 <= index < count:
            found[index] = result
    return found
