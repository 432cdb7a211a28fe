"""``python -m benchmarks.values [--cases N] [--seed S] [NAME ...]``: instruction values against operator values.

Every operator that has a kernel gets its share of ``N`` random cases (shapes, types, attributes, chips). Each is run
instruction by instruction and as a whole operator, and compared by the rule of `benchmarks.values.rule`. With
``--judge`` operator values are compared with PyTorch (where it is installed) as well. A call that the kernel refuses
(`NoKernel`) is drawn again and counted as refused. Exit code 1 when a case breaks the rule.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ascend_sim import ops
from ascend_sim.cli.table import render
from ascend_sim.graph import aipp
from ascend_sim.ops.registry import NoKernel, find, kernels
from ascend_sim.soc import SocError
from benchmarks.values import moves, windows  # noqa: F401 (they declare their cases)
from benchmarks.values.cases import GENERATORS
from benchmarks.values.rule import Verdict, compare
from benchmarks.values.run import Case, instruction_values, operator_values

LESS = {"FlashAttentionScoreGrad": 3, "FlashAttentionScore": 3}  # slow: fewer cases
RETRIES = 30


@dataclass
class Tally:
    """Cases of one operator: how many ran, were refused, broke the rule; the worst error as a share of the allowed."""

    op: str
    ran: int = 0
    refused: int = 0
    worst: float = 0.0
    chips: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


def covered() -> tuple[list[str], list[str]]:
    """Operators with a kernel that have cases, and those without."""
    ops.load()
    aipp.declare()
    names = sorted(name for name in kernels() if find(name) is not None)
    return [n for n in names if n in GENERATORS], [n for n in names if n not in GENERATORS]


def judge(case: Case) -> Verdict:
    """The worst verdict over the outputs of a case. Raises NoKernel for what the kernel does not do."""
    got, want = instruction_values(case), operator_values(case)
    chosen = range(len(want)) if case.outs is None else case.outs
    found = [compare(got[i], want[i], case.chip, case.steps) for i in chosen]
    return max(found, key=lambda verdict: verdict.error)


def run(names: Sequence[str], each: int, seed: int) -> Iterator[Tally]:
    """Run ``each`` cases of every named operator (fewer of slow ones)."""
    for name in names:
        tally = Tally(name)
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        for _ in range(min(each, LESS.get(name, each))):
            for _ in range(RETRIES):
                case = GENERATORS[name](name, rng)
                try:
                    verdict = judge(case)
                except (NoKernel, SocError):
                    tally.refused += 1
                    continue
                except Exception as error:  # a fault in one kernel must not hide the others
                    tally.failures.append(f"{case}: {type(error).__name__}: {error}")
                    break
                tally.ran += 1
                tally.chips.add(case.chip)
                tally.worst = max(tally.worst, verdict.error)
                if verdict.error > 1:
                    tally.failures.append(f"{case}: {verdict.what} ({verdict.error:.3g} times the allowed error)")
                break
        yield tally


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.values", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these operators")
    parser.add_argument("--cases", type=int, default=1300, help="cases over all operators (default 1300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judge", action="store_true", help="also compare operator values with PyTorch")
    args = parser.parse_args(argv)
    with_cases, without = covered()
    names = args.names or with_cases
    tallies = list(run(names, max(1, -(-args.cases // len(names))), args.seed))
    rows = [[t.op, t.ran, t.refused, len(t.chips), f"{t.worst:.2f}", len(t.failures)] for t in tallies]
    print(render(["operator", "cases", "refused", "chips", "worst / allowed", "failed"], rows))
    failures = [text for t in tallies for text in t.failures]
    total = sum(t.ran for t in tallies)
    print(f"\n{total} cases of {len(tallies)} operators on {len(set().union(*(t.chips for t in tallies)))} chips, "
          f"{len(failures)} outside the rule; worst {max(t.worst for t in tallies):.2f} of what it allows")  # fmt: skip
    if not args.names:
        print(f"kernels without cases: {', '.join(without) or 'none'}")
    for text in failures[:40]:
        print(f"  {text}")
    if args.judge:
        from benchmarks.values.torch_judge import report

        failures += report(max(1, args.cases // 100), args.seed)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
