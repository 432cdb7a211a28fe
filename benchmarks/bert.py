"""A BERT encoder as exporters write it: decomposed layer normalisation and GELU, attention in elementary operators.

The graph has the operators that torch's exporter gives for transformers' BertModel at opset 14; weights are random and
scaled as an untrained model's.

    python benchmarks/bert.py out/bert.onnx [--layers 12] [--hidden 768] [--heads 12] [--tokens 128] [--batch 1]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

BASE = {"layers": 12, "hidden": 768, "heads": 12, "tokens": 128, "vocabulary": 30522}


class _Writer:
    def __init__(self, hidden: int, seed: int) -> None:
        self.hidden = hidden
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: NDArray[np.generic], name: str = "") -> str:
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def scalar(self, value: float) -> str:
        return self.constant(np.asarray(value, np.float32))

    def op(self, kind: str, *inputs: str, name: str = "", **attrs: object) -> str:
        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name, **attrs))
        return f"{name}_out"

    def normal(self, *shape: int, scale: float = 0.02) -> NDArray[np.float32]:
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def linear(self, x: str, rows: int, columns: int) -> str:
        weights = self.constant(self.normal(rows, columns, scale=rows**-0.5))
        return self.op("Add", self.constant(self.normal(columns)), self.op("MatMul", x, weights))

    def layer_norm(self, x: str) -> str:
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1], keepdims=1))
        square = self.op("Pow", centred, self.scalar(2.0))
        variance = self.op("Add", self.op("ReduceMean", square, axes=[-1], keepdims=1), self.scalar(1e-12))
        y = self.op("Div", centred, self.op("Sqrt", variance))
        scaled = self.op("Mul", y, self.constant(1 + self.normal(self.hidden)))
        return self.op("Add", scaled, self.constant(self.normal(self.hidden)))

    def gelu(self, x: str) -> str:
        gate = self.op("Add", self.op("Erf", self.op("Div", x, self.scalar(2**0.5))), self.scalar(1.0))
        return self.op("Mul", self.op("Mul", x, gate), self.scalar(0.5))

    def attention(self, x: str, mask: str, heads: int) -> str:
        width = self.hidden // heads
        split = self.constant(np.asarray([0, 0, heads, width], np.int64))
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = self.op("Reshape", self.linear(x, self.hidden, self.hidden), split)
            parts.append(self.op("Transpose", part, perm=perm))
        q, k, v = parts
        scores = self.op("Div", self.op("MatMul", q, k), self.scalar(width**0.5))
        weights = self.op("Softmax", self.op("Add", scores, mask), axis=-1)
        context = self.op("Transpose", self.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", context, self.constant(np.asarray([0, 0, self.hidden], np.int64)))
        return self.linear(joined, self.hidden, self.hidden)


def bert(
    layers: int = 12, hidden: int = 768, heads: int = 12, tokens: int = 128, vocabulary: int = 30522,
    batch: int | str = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """``input_ids`` and ``attention_mask`` int64 [batch, tokens] to ``last_hidden_state`` [batch, tokens, hidden]."""
    w = _Writer(hidden, seed)
    words = w.op("Gather", w.constant(w.normal(vocabulary, hidden), "word_embeddings"), "input_ids")
    x = w.layer_norm(w.op("Add", words, w.constant(w.normal(1, tokens, hidden))))
    wide = w.op("Unsqueeze", "attention_mask", w.constant(np.asarray([1, 2], np.int64)))
    hidden_keys = w.op("Sub", w.scalar(1.0), w.op("Cast", wide, to=TensorProto.FLOAT))
    mask = w.op("Mul", hidden_keys, w.scalar(-10000.0))
    for _ in range(layers):
        x = w.layer_norm(w.op("Add", w.attention(x, mask, heads), x))
        inner = w.gelu(w.linear(x, hidden, 4 * hidden))
        x = w.layer_norm(w.op("Add", w.linear(inner, 4 * hidden, hidden), x))
    w.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"], "output"))
    names = ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, [batch, tokens]) for n in names]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [batch, tokens, hidden])
    graph = helper.make_graph(w.nodes, "bert", inputs, [output], w.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("output", type=Path)
    for name, default in {**BASE, "batch": 1, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    options = vars(args)
    output: Path = options.pop("output")
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(bert(**options), output)


if __name__ == "__main__":
    main()
