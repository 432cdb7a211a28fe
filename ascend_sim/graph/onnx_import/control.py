"""If, Loop and Scan: taken apart at conversion. Where a condition is only known at run time, both branches of an If run
and their results are selected; a Loop of a known longest length keeps its state once the condition has failed."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table

UNROLL_LIMIT = 4096  # iterations
GUARDED_LIMIT = 1024  # iterations of a loop that may end earlier
NODE_LIMIT = 100_000  # operators of an unrolled graph


def _inline(imp: Importer, node: OnnxNode, which: str, prefix: str, given: dict[str, str]) -> list[str]:
    from ascend_sim.graph.onnx_import import converters
    from ascend_sim.graph.onnx_import.nodes import inline

    if len(imp.graph.nodes) > NODE_LIMIT:
        raise imp.error(f"the unrolled graph has more than {NODE_LIMIT} operators", "Shorten the loop.", "E16002")
    return inline(imp, converters(), node.attrs[which], prefix, given)


def _truth(imp: Importer, name: str) -> bool | None:
    value = imp.constant(name)
    return None if value is None else bool(np.asarray(value).reshape(-1)[0])


def if_(imp: Importer, node: OnnxNode) -> None:
    """If: the branch of a known condition; else both branches and a selection of their results."""
    condition = node.inputs[0]
    known = _truth(imp, condition)
    if known is not None:
        which = "then_branch" if known else "else_branch"
        for target, source in zip(node.outputs, _inline(imp, node, which, node.name, {}), strict=False):
            imp.alias(target, source)
        return
    try:
        yes = _inline(imp, node, "then_branch", f"{node.name}/then", {})
        no = _inline(imp, node, "else_branch", f"{node.name}/else", {})
    except AtcError as error:
        imp.node = node
        raise imp.moving(condition, "cond", f" (both branches were tried: {error.cause})") from error
    flag = _scalar(imp, condition)
    for target, a, b in zip(node.outputs, yes, no, strict=False):
        if not target:
            continue
        if a not in imp.graph.specs or b not in imp.graph.specs or imp.shape(a) != imp.shape(b):
            raise imp.error(
                f"its condition ({condition}) is only known at run time and its branches give different shapes",
                "Make the condition a constant: export the model for one case, or fix the input it depends on.",
                "E16002",
            )
        imp.emit("SelectV2", [flag, a, b], {}, [target])


def _stack(imp: Importer, parts: list[str], axis: int, target: str) -> None:
    """Scan outputs: one slice per iteration, stacked along ``axis``."""
    if not target:
        return
    rows = [imp.emit("Unsqueeze", [p], {"axes": [axis]})[0] for p in parts]
    if len(rows) == 1:
        imp.alias(target, rows[0])
    else:
        imp.emit("ConcatD", rows, {"concat_dim": axis, "N": len(rows)}, [target])


def _scalar(imp: Importer, name: str) -> str:
    """A condition as a scalar."""
    return imp.emit("Reshape", [name, imp.const(np.zeros(0, np.int64))])[0] if imp.rank(name) else name


def _guarded(imp: Importer, node: OnnxNode, flag: str, old: list[str], new: list[str]) -> list[str]:
    """State after an iteration that runs only if ``flag``."""
    kept = []
    for before, after in zip(old, new, strict=True):
        if before == after:
            kept.append(after)
            continue
        if imp.shape(before) != imp.shape(after):
            raise imp.error(
                f"how often it runs is only known at run time and its state changes shape, from "
                f"{list(imp.shape(before))} to {list(imp.shape(after))}",
                "Make the condition independent of the data, or keep the shapes of what the loop carries.",
                "E16002",
            )
        kept.append(imp.emit("SelectV2", [flag, after, before])[0])
    return kept


def loop(imp: Importer, node: OnnxNode) -> None:
    """Loop, unrolled: the longest trip count must be known. Iterations behind a condition of run time are computed in
    any case, and change the state only while it holds."""
    body = node.attrs["body"]
    carried = list(node.inputs[2:])
    limit = imp.ints(node.input(0), "M")[0] if node.input(0) else UNROLL_LIMIT + 1
    going = _truth(imp, node.input(1)) if node.input(1) else True
    count = len(carried)
    scans: list[list[str]] = [[] for _ in range(len(body.output) - 1 - count)]
    flag = ""  # whether the iterations still run, where only the data say so
    if going is None:
        if scans or limit > GUARDED_LIMIT:
            raise imp.moving(node.input(1), "cond")
        going, flag = True, _scalar(imp, node.input(1))
    step = 0
    while going and step < limit:
        if flag and (limit > GUARDED_LIMIT or scans):
            why = "its scan outputs then have an unknown length" if scans else f"it may run {limit} times"
            raise imp.error(
                f"whether iteration {step + 1} runs is only known at run time, and {why}",
                f"Make the condition independent of the data, or give a constant trip count of at most {GUARDED_LIMIT} "
                "and no scan outputs.",
                "E16002",
            )
        if step >= UNROLL_LIMIT:
            raise imp.error(f"it runs more than {UNROLL_LIMIT} times", "Shorten the loop or cut it out.", "E16002")
        given = dict(
            zip(
                (v.name for v in body.input),
                (imp.const(np.asarray(step, np.int64)), imp.const(np.asarray(True)), *carried),
                strict=True,
            )
        )
        outputs = _inline(imp, node, "body", f"{node.name}/{step}", given)
        after = outputs[1 : 1 + count]
        carried = _guarded(imp, node, flag, carried, after) if flag else after
        going = _truth(imp, outputs[0])
        if going is None:
            again, going = _scalar(imp, outputs[0]), True
            flag = imp.emit("LogicalAnd", [flag, again])[0] if flag else again
        for scan, value in zip(scans, outputs[1 + count :], strict=True):
            scan.append(value)
        step += 1
    for target, source in zip(node.outputs, carried, strict=False):
        if target:
            imp.alias(target, source)
    for target, scan in zip(node.outputs[count:], scans, strict=False):
        if not scan and target:
            raise imp.error("it runs no iteration, so the shape of its scan outputs is unknown", code="E16002")
        _stack(imp, scan, 0, target)


def _slice(imp: Importer, x: str, axis: int, index: int) -> str:
    shape = imp.shape(x)
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = index, index + 1
    part = imp.emit("StridedSliceD", [x], {"begin": begin, "end": end, "strides": [1] * len(shape)})[0]
    return imp.emit("Squeeze", [part], {"axis": [axis]})[0]


def scan(imp: Importer, node: OnnxNode) -> None:
    """Scan, unrolled along the scanned axis (opset 8: per batch entry, with sequence lengths in front)."""
    inputs = list(node.inputs)
    if imp.opset < 9:
        _scan8(imp, node, inputs)
        return
    _scan(imp, node, inputs, list(node.outputs), node.name)


def _scan(imp: Importer, node: OnnxNode, inputs: list[str], outputs: list[str], prefix: str) -> None:
    body = node.attrs["body"]
    scanned = int(node.attr("num_scan_inputs"))
    states, sources = inputs[: len(inputs) - scanned], inputs[len(inputs) - scanned :]
    count = len(states)
    in_axes = [imp.axis(a, imp.rank(x)) for a, x in zip(node.attr("scan_input_axes", [0] * scanned), sources,
                                                        strict=True)]  # fmt: skip
    in_back = node.attr("scan_input_directions", [0] * scanned)
    made = len(body.output) - count
    out_axes, out_back = node.attr("scan_output_axes", [0] * made), node.attr("scan_output_directions", [0] * made)
    steps = imp.shape(sources[0])[in_axes[0]]
    if steps > UNROLL_LIMIT or steps < 1:
        raise imp.error(f"it runs {steps} times; expected 1..{UNROLL_LIMIT}", code="E16002")
    scans: list[list[str]] = [[] for _ in range(made)]
    for step in range(steps):
        parts = [_slice(imp, x, axis, steps - 1 - step if back else step)
                 for x, axis, back in zip(sources, in_axes, in_back, strict=True)]  # fmt: skip
        given = dict(zip((v.name for v in body.input), [*states, *parts], strict=True))
        results = _inline(imp, node, "body", f"{prefix}/{step}", given)
        states = results[:count]
        for one, value in zip(scans, results[count:], strict=True):
            one.append(value)
    for target, source in zip(outputs, states, strict=False):
        if target:
            imp.alias(target, source)
    for target, one, axis, back in zip(outputs[count:], scans, out_axes, out_back, strict=False):
        _stack(imp, one[::-1] if back else one, imp.axis(axis, imp.rank(one[0]) + 1), target)


def _scan8(imp: Importer, node: OnnxNode, inputs: list[str]) -> None:
    """The first version: sequence lengths, then states and inputs with a batch axis in front."""
    if inputs[0]:
        raise imp.error("sequence_lens of Scan-8 is not supported", "Export with opset 9 or newer.", "E16002")
    batch = imp.shape(inputs[1])[0]
    columns: list[list[str]] = [[] for _ in node.outputs]
    for entry in range(batch):
        own = [_slice(imp, x, 0, entry) for x in inputs[1:]]
        outs = [imp.fresh(f"{node.name}/{entry}") for _ in node.outputs]
        _scan(imp, node, own, outs, f"{node.name}/batch{entry}")
        for column, name in zip(columns, outs, strict=True):
            column.append(imp.resolve(name))
    for column, target in zip(columns, node.outputs, strict=True):
        _stack(imp, column, 0, target)


TABLE: Table = {"If": if_, "Loop": loop, "Scan": scan}
