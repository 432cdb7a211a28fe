"""Reductions, ArgMax/ArgMin, TopK and CumSum."""

from __future__ import annotations

from functools import partial

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def _axes(imp: Importer, node: OnnxNode, since: int) -> list[int] | None:
    """Axes from the attribute, or (from opset ``since``) from the second input; None: all."""
    if imp.opset >= since:
        return imp.ints(node.input(1), "axes") if node.input(1) else None
    given = node.attr("axes")
    return None if given is None else [int(v) for v in given]


def reduce(
    ir: str, since: int, imp: Importer, node: OnnxNode, x: str = "", outputs: tuple[str, ...] | None = None
) -> str:
    """One IR reduction; returns its output."""
    x = x or node.inputs[0]
    axes = _axes(imp, node, since)
    rank = imp.rank(x)
    if not axes:
        if node.attr("noop_with_empty_axes", 0):
            if outputs is not None:
                imp.alias(outputs[0], x)
            return x
        axes = list(range(rank))
    constant = imp.const([imp.axis(a, rank, "axes") for a in axes] if rank else [], "int64")
    attrs = {"keep_dims": bool(node.attr("keepdims", 1))}
    return imp.emit(ir, [x, constant], attrs, outputs)[0]


def plain(ir: str, since: int, imp: Importer, node: OnnxNode) -> None:
    reduce(ir, since, imp, node, outputs=node.outputs)


def l1(imp: Importer, node: OnnxNode) -> None:
    reduce("ReduceSum", 18, imp, node, imp.emit("Abs", node.inputs[:1])[0], node.outputs)


def l2(imp: Importer, node: OnnxNode) -> None:
    total = reduce("ReduceSum", 18, imp, node, imp.emit("Square", node.inputs[:1])[0])
    imp.emit("Sqrt", [total], {}, node.outputs)


def sum_square(imp: Importer, node: OnnxNode) -> None:
    reduce("ReduceSum", 18, imp, node, imp.emit("Square", node.inputs[:1])[0], node.outputs)


def log_sum(imp: Importer, node: OnnxNode) -> None:
    imp.emit("Log", [reduce("ReduceSum", 18, imp, node)], {}, node.outputs)


def log_sum_exp(imp: Importer, node: OnnxNode) -> None:
    total = reduce("ReduceSum", 18, imp, node, imp.emit("Exp", node.inputs[:1])[0])
    imp.emit("Log", [total], {}, node.outputs)


def arg(ir: str, imp: Importer, node: OnnxNode) -> None:
    """ArgMax/ArgMin -> ArgMaxV2/ArgMinV2 (which drop the axis) and Unsqueeze."""
    x = node.inputs[0]
    axis = imp.axis(int(node.attr("axis", 0)), imp.rank(x))
    attrs = {"dtype": "int64"}
    last = bool(node.attr("select_last_index", 0))
    keep = bool(node.attr("keepdims", 1))
    if last:  # the first one of the reversed axis
        x = imp.emit("ReverseV2", [x, imp.const([axis], "int64")])[0]
    found = imp.emit(ir, [x, imp.const(axis, "int64")], attrs, None if keep or last else node.outputs)[0]
    if last:
        end = imp.const(max(imp.shape(x)[axis] - 1, 0), "int64")
        found = imp.emit("Sub", [end, found], {}, None if keep else node.outputs)[0]
    if keep:
        imp.emit("Unsqueeze", [found], {"axes": [axis]}, node.outputs)


def top_k(imp: Importer, node: OnnxNode) -> None:
    """TopK -> TopKV2 (last axis) with transposes around it for other axes; indices become int64."""
    x = node.inputs[0]
    rank = imp.rank(x)
    axis = imp.axis(int(node.attr("axis", -1)), rank)
    k = imp.ints(node.input(1), "K")[0] if imp.opset >= 10 else int(node.attr("k"))
    attrs = {
        "sorted": bool(node.attr("sorted", 1)), "dim": axis, "largest": bool(node.attr("largest", 1)),
        "indices_dtype": "int64",
    }  # fmt: skip
    imp.emit("TopKV2", [x, imp.const(k, "int32")], attrs, [n or imp.fresh("topk") for n in node.outputs])


def cumulative(ir: str, imp: Importer, node: OnnxNode) -> None:
    axis = imp.const(imp.ints(node.input(1), "axis")[0], "int64")
    attrs = {"exclusive": bool(node.attr("exclusive", 0)), "reverse": bool(node.attr("reverse", 0))}
    imp.emit(ir, [node.inputs[0], axis], attrs, node.outputs)


def hardmax(imp: Importer, node: OnnxNode) -> None:
    """Hardmax: one where the first maximum is -> ArgMaxV2 and OneHot. Before opset 13 over all axes from ``axis``."""
    x = node.inputs[0]
    shape = imp.shape(x)
    axis = imp.axis(int(node.attr("axis", -1 if imp.opset >= 13 else 1)), len(shape))
    flat = imp.opset < 13 and axis < len(shape) - 1
    if flat:
        x = imp.emit("Reshape", [x, imp.const([*shape[:axis], -1], "int64")])[0]
    index = imp.emit("ArgMaxV2", [x, imp.const(axis, "int64")], {"dtype": "int32"})[0]
    dtype = imp.dtype(x)
    inputs = [index, imp.const(imp.shape(x)[axis], "int32"), imp.const(1, dtype), imp.const(0, dtype)]
    if not flat:
        imp.emit("OneHot", inputs, {"axis": axis}, node.outputs)
        return
    y = imp.emit("OneHot", inputs, {"axis": axis})[0]
    imp.emit("Reshape", [y, imp.const(list(shape), "int64")], {}, node.outputs)


TABLE: Table = {
    "ReduceMean": partial(plain, "ReduceMean", 18),
    "ReduceSum": partial(plain, "ReduceSum", 13),
    "ReduceMax": partial(plain, "ReduceMax", 18),
    "ReduceMin": partial(plain, "ReduceMin", 18),
    "ReduceProd": partial(plain, "ReduceProd", 18),
    "ReduceL1": l1,
    "ReduceL2": l2,
    "ReduceSumSquare": sum_square,
    "ReduceLogSum": log_sum,
    "ReduceLogSumExp": log_sum_exp,
    "ArgMax": partial(arg, "ArgMaxV2"),
    "ArgMin": partial(arg, "ArgMinV2"),
    "TopK": top_k,
    "CumSum": partial(cumulative, "Cumsum"),
    "CumProd": partial(cumulative, "Cumprod"),
    "Hardmax": hardmax,
}
