"""MatMul and Gemm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascend_sim.graph.onnx_import import integer
from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def product(imp: Importer, a: str, b: str, outputs: Sequence[str] | None = None) -> str:
    """Matrix product of any ranks -> MatMulV2 (two matrices) or BatchMatMulV2; returns its tensor."""
    if imp.rank(a) == 2 and imp.rank(b) == 2:
        return imp.emit("MatMulV2", [a, b], {"transpose_x1": False, "transpose_x2": False}, outputs)[0]
    if imp.rank(a) == 0 or imp.rank(b) == 0:
        raise imp.error("a factor is a scalar; use Mul")
    # vectors become matrices, and lose the extra axis afterwards
    drop: list[int] = []
    if imp.rank(a) == 1:
        a = imp.emit("Unsqueeze", [a], {"axes": [0]})[0]
        drop.append(-2)
    if imp.rank(b) == 1:
        b = imp.emit("Unsqueeze", [b], {"axes": [1]})[0]
        drop.append(-1)
    flat = imp.rank(a) == 2 and imp.rank(b) == 2
    op = "MatMulV2" if flat else "BatchMatMulV2"
    attrs = {"transpose_x1": False, "transpose_x2": False} if flat else {"adj_x1": False, "adj_x2": False}
    if not drop:
        return imp.emit(op, [a, b], attrs, outputs)[0]
    y = imp.emit(op, [a, b], attrs)[0]
    rank = imp.rank(y)
    return imp.emit("Squeeze", [y], {"axis": sorted(v + rank for v in drop)}, outputs)[0]


def matmul(imp: Importer, node: OnnxNode) -> None:
    if not integer.product(imp, node):
        product(imp, node.inputs[0], node.inputs[1], node.outputs)


def gemm(imp: Importer, node: OnnxNode) -> None:
    """Gemm -> MatMulV2 with the bias inside when it is one row; alpha and beta go into constants."""
    a, b, c = node.inputs[0], node.inputs[1], node.input(2)
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    attrs = {"transpose_x1": bool(node.attr("transA", 0)), "transpose_x2": bool(node.attr("transB", 0))}
    dtype = imp.dtype(a)
    plain = alpha == beta == 1.0 and not attrs["transpose_x1"]
    if plain and integer.product(imp, node, bool(attrs["transpose_x2"]), c):
        return
    if alpha != 1.0:
        b = imp.emit("Mul", [b, imp.const(alpha, dtype)])[0]
    n = imp.shape(b)[0 if attrs["transpose_x2"] else 1]
    if not c or beta == 0.0:
        imp.emit("MatMulV2", [a, b], attrs, node.outputs)
        return
    if beta != 1.0:
        c = imp.emit("Mul", [c, imp.const(beta, dtype)])[0]
    value = imp.constant(c)
    if value is not None and value.size in (1, n) and (value.ndim < 2 or value.shape[-2] == 1):
        bias = np.broadcast_to(value.reshape(-1), (n,))
        imp.emit("MatMulV2", [a, b, imp.const(bias, base="bias")], attrs, node.outputs)
        return
    y = imp.emit("MatMulV2", [a, b], attrs)[0]
    imp.emit("Add", [y, c], {}, node.outputs)


def einsum(imp: Importer, node: OnnxNode) -> None:
    imp.emit("Einsum", node.inputs, {"equation": node.attr("equation"), "N": len(node.inputs)}, node.outputs)


def det(imp: Importer, node: OnnxNode) -> None:
    imp.emit("MatrixDeterminant", node.inputs[:1], {}, node.outputs)


TABLE: Table = {"MatMul": matmul, "Gemm": gemm, "Einsum": einsum, "Det": det}
