"""docs/onnx.md: what of ONNX is supported, from the results of the backend suite."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import onnx

from ascend_sim.graph.onnx_import import converters
from ascend_sim.graph.onnx_import.reader import MAX_OPSET, MIN_OPSET
from benchmarks.onnx_suite.cases import KINDS
from benchmarks.onnx_suite.networks import Row
from benchmarks.onnx_suite.operators import OPERATORS
from benchmarks.onnx_suite.run import PRECISION, SOC, Result

COMMAND = "python -m benchmarks.onnx_suite --page docs/onnx.md --networks DIR"
GOALS = {"node": 1050, "simple": 23, "pytorch-converted": 77, "pytorch-operator": 33}
SHOWN = 6  # names of cases behind a reason

NOTES = {
    "If": "a condition known at conversion chooses a branch; else both run and the result is selected",
    "Loop": "unrolled: the longest trip count must be known at conversion; scan outputs need a known condition too",
    "Constant": "no operator is left of it",
    "Range": "start, limit and delta must be known at conversion",
    "Dropout": "of inference; training mode is refused",
    "ConvInteger": "int8 on the cube with zero points 0; else in float32",
    "MatMulInteger": "int8 on the cube with zero points 0; else in float32",
    "NonZero": "as many rows as there can be; the output's size is reported after execution",
    "NonMaxSuppression": "as many rows as there can be; the output's size is reported after execution",
}


def _head(results: Sequence[Result]) -> list[str]:
    lines = [
        "# ONNX",
        "",
        f"Written by `{COMMAND}` with onnx {onnx.__version__}; do not edit.",
        "",
        f"`atc` reads models of ai.onnx opsets {MIN_OPSET} to {MAX_OPSET} (the genuine one: 11 to 18). An operator",
        "without a converter of its own that the ONNX standard defines by a function is converted by its body.",
        "Everything else is refused with E16002, the node, its operator and its opset.",
        "",
        "## Backend suite",
        "",
        f"Every case of the suite goes through the `atc` command (`--soc_version={SOC}`,",
        f"`--precision_mode={PRECISION}`), the .om file and `acl.mdl.execute`; outputs are compared by the rule of the",
        "suite. *Fixed*: passed after inputs that shapes depend on (axes, sizes, indices) were made constants of the",
        "model, as ATC wants them. *Folded*: passed, and nothing was left to execute.",
        "",
        "| suite | cases | passed | fixed | folded | refused | wrong | goal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        mine = [r for r in results if r.kind == kind]
        passed = [r for r in mine if r.status == "passed"]
        counts = Counter(r.status for r in mine)
        cells = (
            kind, len(mine), len(passed), sum(bool(r.fixed) for r in passed), sum(r.folded for r in passed),
            counts["refused"], counts["wrong"] + counts["crashed"], GOALS[kind],
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def _since(operator: str) -> str:
    """Versions of the standard that changed the operator."""
    versions = sorted(
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == operator and s.domain == ""
    )
    return ", ".join(map(str, versions))


def _operators(results: Sequence[Result]) -> list[str]:
    table = converters()
    by_operator: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        for operator in result.operators:
            by_operator[operator].append(result)
    lines = [
        "",
        f"## The {len(OPERATORS)} operators of common networks",
        "",
        "*Becomes*: Ascend IR operators in the compiled models of the cases that consist of this operator alone.",
        "*Cases*: passed of those that contain it. *Estimated*: passed cases in which an operator was priced by the",
        "roofline, for want of a kernel for its type or shape.",
        "",
        "| operator | versions | becomes | cases | estimated | notes |",
        "|---|---|---|---|---|---|",
    ]
    for operator in sorted(OPERATORS):
        mine = by_operator[operator]
        passed = [r for r in mine if r.status == "passed"]
        alone = Counter(d for r in passed if len(r.operators) == 1 for d in r.device)
        becomes = ", ".join(d for d, _ in alone.most_common(5)) or ("" if operator in table else "by its function")
        estimated = sum(bool(r.estimated) for r in passed)
        cells = (
            operator,
            _since(operator),
            becomes,
            f"{len(passed)} of {len(mine)}",
            estimated or "",
            NOTES.get(operator, ""),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    others = sorted(set(table) - set(OPERATORS))
    return [*lines, "", f"Further operators with a converter: {', '.join(others)}."]


def _reasons(results: Sequence[Result]) -> list[str]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.status != "passed":
            groups[_reason(result)].append(result)
    lines = ["", "## The rest", "", "| cases | reason | which |", "|---|---|---|"]
    for reason, mine in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        names = [r.name.removeprefix("test_") for r in mine]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        lines.append(f"| {len(mine)} | {reason} | {', '.join(names[:SHOWN])}{more} |")
    return lines


def _reason(result: Result) -> str:
    """The reason without the names of one model."""
    text = result.reason
    if result.status == "refused":
        text = re.sub(r"\s*\(node '[^']*', opset \d+\)", "", text)
        text = re.sub(r"node '[^']*' \((\w+), opset \d+\)", r"\1", text)
        text = re.sub(r"(input|output|initializer) '[^']*'", r"\1", text)
        return re.sub(r"ai\.onnx([.\w]*)::\d+::", r"ai.onnx\1::", text).replace("|", "\\|")
    return f"{result.status}: {text}".replace("|", "\\|")


def _networks(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        "",
        "## Networks",
        "",
        "Converted with the defaults of ATC (fp16); the smallest cosine of the outputs with those of onnxruntime. The",
        "files are those of `benchmarks/onnx_suite/networks.py`; `--networks DIR` names where they lie.",
        "",
        "| network | chip | operators | µs | cosine | goal | estimated |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        estimated = ", ".join(r.estimated) or "none"
        lines.append(
            f"| {r.file} | {r.soc} | {r.operators} | {r.us:.0f} | {min(r.cosines):.6f} | {r.goal} | {estimated} |"
        )
    return lines


def page(results: Iterable[Result], networks: Sequence[Row] = ()) -> str:
    found = list(results)
    return "\n".join([*_head(found), *_operators(found), *_networks(networks), *_reasons(found)]) + "\n"
