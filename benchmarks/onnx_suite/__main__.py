"""``python -m benchmarks.onnx_suite [KIND ...]``: run the cases and print counts and reasons.

--out FILE     one JSON object per case
--match TEXT   only cases whose name contains the text
--networks DIR compare the real networks in DIR with onnxruntime too (see `benchmarks.onnx_suite.networks`)
--page FILE    write the documentation page (docs/onnx.md)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.onnx_suite.cases import KINDS, Case, cases
from benchmarks.onnx_suite.networks import rows
from benchmarks.onnx_suite.run import Result, run


def _chosen(kinds: list[str], match: str) -> Iterator[Case]:
    for kind in kinds:
        yield from (case for case in cases(kind) if match in case.name)


def _summary(results: list[Result]) -> None:
    for kind in KINDS:
        mine = [r for r in results if r.kind == kind]
        if mine:
            counts = Counter(r.status for r in mine)
            fixed = sum(1 for r in mine if r.status == "passed" and r.fixed)
            folded = sum(1 for r in mine if r.status == "passed" and r.folded)
            words = ", ".join(f"{counts[s]} {s}" for s in ("passed", "refused", "wrong", "crashed"))
            print(f"{kind:18} {len(mine):5} cases: {words} (of the passed: {fixed} with inputs fixed at conversion, "
                  f"{folded} folded to constants)")  # fmt: skip


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_suite", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"which suites: {', '.join(KINDS)} (default all)")
    parser.add_argument("--out", type=Path, help="file for one JSON object per case")
    parser.add_argument("--page", type=Path, help="file for the documentation page")
    parser.add_argument("--networks", type=Path, help="directory with packages and exported networks")
    parser.add_argument("--match", default="", help="only cases whose name contains this text")
    args = parser.parse_args(argv)
    results = []
    sink = args.out.open("w") if args.out else None
    for result in run(_chosen(args.kinds or list(KINDS), args.match)):
        results.append(result)
        if sink is not None:
            sink.write(result.line() + "\n")
    if args.match:
        for result in results:
            print(f"{result.status:8} {result.name}: {result.reason}")
    _summary(results)
    networks = list(rows(args.networks)) if args.networks else []
    for row in networks:
        print(f"{row.file:32} {row.soc:12} {row.operators:4} operators {row.us:8.1f} us  cosine {min(row.cosines):.6f} "
              f"converted in {row.seconds:.1f} s  estimated: {', '.join(row.estimated) or 'none'}")  # fmt: skip
    if args.page is not None:
        from benchmarks.onnx_suite.page import page

        args.page.write_text(page(results, networks))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
