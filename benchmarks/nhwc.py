"""A small network the way tf2onnx writes TensorFlow ones: NHWC tensors, and transposes around whatever ONNX knows in
NCHW only. Biases, activations, pads, joins, means and residuals stay in NHWC.

    python benchmarks/nhwc.py out/nhwc.onnx [--batch 1] [--size 32] [--blocks 3]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TO_PLANES, TO_PIXELS = [0, 3, 1, 2], [0, 2, 3, 1]


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, *shape: int, scale: float = 1.0) -> str:
        return self.fixed((self.random.standard_normal(shape) * scale).astype(np.float32))

    def fixed(self, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        name = f"const_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def op(self, kind: str, *inputs: str, **attrs: object) -> str:
        name = f"{kind}__{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}:0"], name, **attrs))
        return f"{name}:0"

    def conv(self, x: str, rows: int, columns: int, kernel: int = 3, stride: int = 1) -> str:
        """Conv2D and BiasAdd: planes only around the convolution."""
        planes = self.op("Transpose", x, perm=TO_PLANES)
        weights = self.constant(columns, rows, kernel, kernel, scale=(2 / (rows * kernel * kernel)) ** 0.5)
        made = self.op("Conv", planes, weights, strides=[stride] * 2, kernel_shape=[kernel] * 2, auto_pad="SAME_UPPER")
        return self.op("Add", self.op("Transpose", made, perm=TO_PIXELS), self.constant(columns, scale=0.1))


def nhwc_network(batch: int = 1, size: int = 32, blocks: int = 3, channels: int = 16, seed: int = 0) -> onnx.ModelProto:
    """``input:0`` [batch, size, size, 3] to ``Identity:0`` [batch, 10]."""
    w = _Writer(seed)
    padded = w.op("Pad", "input:0", w.fixed(np.asarray([0, 1, 1, 0, 0, 1, 1, 0], np.int64)))
    x = w.op("Relu", w.conv(padded, 3, channels, stride=2))
    for _ in range(blocks):
        inner = w.op("Relu", w.conv(x, channels, channels))
        x = w.op("Relu", w.op("Add", w.conv(inner, channels, channels), x))
    pooled = w.op("MaxPool", w.op("Transpose", x, perm=TO_PLANES), kernel_shape=[2, 2], strides=[2, 2])
    pooled = w.op("Transpose", pooled, perm=TO_PIXELS)
    gate = w.op("Clip", w.conv(pooled, channels, channels, kernel=1), w.fixed(np.float32(0)), w.fixed(np.float32(6)))
    joined = w.op("Concat", pooled, gate, axis=3)
    mean = w.op("ReduceMean", joined, axes=[1, 2], keepdims=0)
    logits = w.op("Add", w.op("MatMul", mean, w.constant(2 * channels, 10, scale=0.2)), w.constant(10))
    w.nodes.append(helper.make_node("Softmax", [logits], ["Identity:0"], "Identity", axis=-1))
    graph = helper.make_graph(
        w.nodes, "tf2onnx",
        [helper.make_tensor_value_info("input:0", TensorProto.FLOAT, [batch, size, size, 3])],
        [helper.make_tensor_value_info("Identity:0", TensorProto.FLOAT, [batch, 10])], w.weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="write a network of NHWC tensors")
    parser.add_argument("output", type=Path)
    for name, default in (("batch", 1), ("size", 32), ("blocks", 3), ("channels", 16), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    output: Path = options.pop("output")
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(nhwc_network(**options), output)


if __name__ == "__main__":
    main()
