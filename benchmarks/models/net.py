"""A small builder of ONNX networks, layer by layer, as exporters write them in evaluation mode.

Batch normalisation behind a convolution is folded into it (weights and bias), as exporters do. Weights are seeded
normal numbers in one external file that every network shares: each tensor is a window of it, so even networks with
a hundred million weights are quick to write.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 11
WEIGHTS_FILE = "weights.bin"
_ALIGN = 64  # bytes


@dataclass
class Net:
    """A network under construction. Methods append operators and return the name of their result."""

    name: str
    size: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=lambda: {"input": 3})
    largest: int = 0  # bytes of the largest weight

    # ---- tensors

    def weight(self, *shape: int) -> str:
        """A seeded fp32 weight: a window of the weights file, placed by a hash of network and tensor."""
        name = f"w{len(self.initializers)}"
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        nbytes = 4 * int(np.prod(shape))
        self.largest = max(self.largest, nbytes)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS_FILE), ("offset", "0"), ("length", str(nbytes))):
            tensor.external_data.add(key=key, value=value)
        self.initializers.append(tensor)
        return name

    def constant(self, value: Any) -> str:
        """A small constant tensor."""
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, op_type: str, inputs: list[str], channels: int, **attrs: Any) -> str:
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attrs))
        self.channels[name] = channels
        return name

    def same(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """An operator whose result has the channels of its first input."""
        return self.op(op_type, list(inputs), self.channels[inputs[0]], **attrs)

    # ---- layers

    def conv(
        self,
        x: str,
        out: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        pad: int | tuple[int, ...] | None = None,
        *,
        groups: int = 1,
        act: str = "",
        bias: bool = True,
    ) -> str:
        """Convolution (+ folded batch normalisation) + activation. ``pad``: one number, (h, w) or (top, left, bottom,
        right); None keeps the size at stride 1."""
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        if pad is None:
            pads = [(kh - 1) // 2, (kw - 1) // 2] * 2
        elif isinstance(pad, int):
            pads = [pad] * 4
        else:
            pads = list(pad) * (2 if len(pad) == 2 else 1)
        inputs = [x, self.weight(out, self.channels[x] // groups, kh, kw)]
        if bias:
            inputs.append(self.weight(out))
        y = self.op(
            "Conv", inputs, out,
            kernel_shape=[kh, kw], strides=[stride, stride], pads=pads, group=groups, dilations=[1, 1],
        )  # fmt: skip
        return self.activate(y, act)

    def depthwise(
        self, x: str, kernel: int, stride: int = 1, act: str = "", pad: int | tuple[int, ...] | None = None
    ) -> str:
        return self.conv(x, self.channels[x], kernel, stride, pad, groups=self.channels[x], act=act)

    def linear(self, x: str, out: int, bias: bool = True) -> str:
        inputs = [x, self.weight(out, self.channels[x]), *([self.weight(out)] if bias else [])]
        return self.op("Gemm", inputs, out, alpha=1.0, beta=1.0, transB=1)

    def batch_norm(self, x: str) -> str:
        """Batch normalisation that no convolution precedes."""
        c = self.channels[x]
        variance = self.constant(np.full(c, 1.5, np.float32))
        return self.same(
            "BatchNormalization", x, self.weight(c), self.weight(c), self.weight(c), variance, epsilon=1e-5
        )

    def max_pool(self, x: str, kernel: int, stride: int, pad: int = 0, ceil: bool = False) -> str:
        attrs: dict[str, Any] = {"ceil_mode": 1} if ceil else {}
        return self.same("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **attrs)

    def avg_pool(self, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        """Average pooling that counts padding, PyTorch's default."""
        return self.same(
            "AveragePool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, count_include_pad=1
        )

    def global_pool(self, x: str) -> str:
        return self.same("GlobalAveragePool", x)

    def concat(self, *parts: str) -> str:
        return self.op("Concat", list(parts), sum(self.channels[p] for p in parts), axis=1)

    def add(self, x: str, y: str) -> str:
        return self.same("Add", x, y)

    def classifier(self, x: str, classes: int = 1000) -> None:
        """Global average pool, flatten, linear layer, output."""
        self.output(self.linear(self.same("Flatten", self.global_pool(x), axis=1), classes), 2)

    def output(self, x: str, rank: int) -> None:
        self.outputs.append((x, rank))

    # ---- activations, spelled as PyTorch exports them at opset 11

    def activate(self, x: str, act: str) -> str:
        return {
            "": lambda: x,
            "relu": lambda: self.same("Relu", x),
            "leaky": lambda: self.same("LeakyRelu", x, alpha=0.1),
            "relu6": lambda: self.same("Clip", x, *self._limits()),
            "swish": lambda: self.same("Mul", x, self.same("Sigmoid", x)),
            "sigmoid": lambda: self.same("Sigmoid", x),
            "hsigmoid": lambda: self._over_six(self._shifted(x)),
            "hswish": lambda: self._over_six(self.same("Mul", x, self._shifted(x))),
            "mish": lambda: self.same("Mul", x, self.same("Tanh", self.same("Softplus", x))),
        }[act]()

    def _limits(self) -> tuple[str, str]:
        return self.constant(np.float32(0)), self.constant(np.float32(6))

    def _shifted(self, x: str) -> str:
        return self.same("Clip", self.same("Add", x, self.constant(np.float32(3))), *self._limits())

    def _over_six(self, x: str) -> str:
        return self.same("Div", x, self.constant(np.float32(6)))

    # ---- finish

    def model(self, weights_bytes: int = 0) -> onnx.ModelProto:
        """The network; its weights lie in a file of ``weights_bytes`` bytes (0: just large enough)."""
        room = max(weights_bytes, self.largest)
        for index, tensor in enumerate(self.initializers):
            if tensor.data_location == TensorProto.EXTERNAL:
                entries = {e.key: e for e in tensor.external_data}
                spare = (room - int(entries["length"].value)) // _ALIGN
                seed = hashlib.sha256(f"{self.name}/{index}".encode()).digest()
                entries["offset"].value = str(int.from_bytes(seed[:8], "little") % (spare + 1) * _ALIGN)
        image = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, self.size, self.size])
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *([None] * (rank - 1))])
            for name, rank in self.outputs
        ]
        graph = helper.make_graph(self.nodes, self.name, [image], results, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=6)


def write_weights(folder: Path, nbytes: int, seed: int = 1) -> None:
    """The shared weights file: seeded normal fp32 numbers of standard deviation 0.02, at least ``nbytes`` bytes. An
    existing file that is large enough is kept."""
    path = folder / WEIGHTS_FILE
    if path.exists() and path.stat().st_size >= nbytes:
        return
    generator = np.random.default_rng(seed)
    with path.open("wb") as handle:
        left = -(-nbytes // 4)
        while left > 0:
            count = min(left, 1 << 22)
            (generator.standard_normal(count, np.float32) * np.float32(0.02)).tofile(handle)
            left -= count
