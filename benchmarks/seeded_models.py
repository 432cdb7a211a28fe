"""The ``light_*`` topologies of the onnx wheel with seeded weights and a free batch.

The wheel ships nine full CNN topologies whose weights are constants, so their output is constant and their batch
fixed. This gives them He-initialised weights, plausible batch-norm statistics and a batch that may be chosen at
conversion, so that an implementation can be compared on them.

    python benchmarks/seeded_models.py light_resnet50 out/resnet50.onnx [--batch 8] [--seed 0]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

NAMES = (
    "light_bvlc_alexnet", "light_densenet121", "light_inception_v1", "light_inception_v2", "light_resnet50",
    "light_shufflenet", "light_squeezenet", "light_vgg19", "light_zfnet512",
)  # fmt: skip
BATCH = "batch"


def topology(name: str) -> onnx.ModelProto:
    """The model as the wheel ships it."""
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; known topologies: {', '.join(NAMES)}")
    return onnx.load(path)


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Shape of every weight: ConstantOfShape nodes and initializers."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    shapes = {name: tuple(value.shape) for name, value in values.items()}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(int(v) for v in values[node.input[0]])
    return shapes


def _he(rng: np.random.Generator, shape: tuple[int, ...], fan_in: int, gain: float) -> NDArray[np.float32]:
    return (rng.standard_normal(shape) * np.sqrt(gain / max(fan_in, 1))).astype(np.float32)


def _followed_by_norm_or_sum(model: onnx.ModelProto, name: str) -> bool:
    return any(name in n.input and n.op_type in ("Softmax",) for n in model.graph.node)


def seeded_weights(model: onnx.ModelProto, seed: int) -> dict[str, NDArray[np.float32]]:
    """New values for the weights by the role they play: He for convolutions and Gemm (gain 1 in front of softmax),
    scale near 1, small shift, mean near 0 and variance near 1 for batch norm."""
    rng = np.random.default_rng(seed)
    shapes = _shapes(model)
    sources = {n.output[0]: n for n in model.graph.node}
    out: dict[str, NDArray[np.float32]] = {}

    def weight(name: str) -> str:
        """The tensor behind an Unsqueeze or Reshape."""
        node = sources.get(name)
        return weight(node.input[0]) if node is not None and node.op_type in ("Unsqueeze", "Reshape") else name

    for node in model.graph.node:
        inputs = [weight(n) for n in node.input]
        if node.op_type in ("Conv", "Gemm"):
            shape = shapes[inputs[1]]
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            fan_in = int(np.prod(shape[1:])) if node.op_type == "Conv" or transposed else shape[0]
            gain = 1.0 if _followed_by_norm_or_sum(model, node.output[0]) else 2.0
            out[inputs[1]] = _he(rng, shape, fan_in, gain)
            if len(inputs) > 2 and inputs[2] in shapes:
                out[inputs[2]] = (rng.standard_normal(shapes[inputs[2]]) * 0.05).astype(np.float32)
        elif node.op_type == "BatchNormalization":
            channels = shapes[inputs[1]]
            out[inputs[1]] = rng.uniform(0.5, 1.0, channels).astype(np.float32)
            out[inputs[2]] = (rng.standard_normal(channels) * 0.1).astype(np.float32)
            out[inputs[3]] = (rng.standard_normal(channels) * 0.1).astype(np.float32)
            out[inputs[4]] = rng.uniform(0.8, 1.2, channels).astype(np.float32)
        elif node.op_type in ("Mul", "Add"):
            for name in inputs:
                if name in shapes and name not in out:
                    base = 1.0 if node.op_type == "Mul" else 0.0
                    out[name] = (base + rng.standard_normal(shapes[name]) * 0.1).astype(np.float32)
    return out


def _data_input(model: onnx.ModelProto) -> onnx.ValueInfoProto:
    known = {t.name for t in model.graph.initializer}
    return next(i for i in model.graph.input if i.name not in known)


def seeded_model(name: str, seed: int = 0, batch: int | None = None) -> onnx.ModelProto:
    """A topology with seeded weights; ``batch`` fixes the batch, None leaves it free."""
    model = topology(name)
    weights = seeded_weights(model, seed)
    graph = model.graph
    kept = [n for n in graph.node if not (n.op_type == "ConstantOfShape" and n.output[0] in weights)]
    needed = {i for n in kept for i in n.input}
    tensors = [t for t in graph.initializer if t.name in needed and t.name not in weights]
    for node in kept:  # flattening reshapes: keep the batch
        if node.op_type == "Reshape":
            for tensor in tensors:
                if tensor.name == node.input[1]:
                    shape = numpy_helper.to_array(tensor).copy()
                    if shape[0] == 1:
                        shape[0] = -1 if -1 not in shape[1:] else 0
                    tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
    data = _data_input(model)
    inputs = [data] + [i for i in graph.input if i.name != data.name and i.name in {t.name for t in tensors}]
    outputs = list(graph.output)
    for value in [data, *outputs]:
        dim = value.type.tensor_type.shape.dim[0]
        dim.Clear()
        if batch is None:
            dim.dim_param = BATCH
        else:
            dim.dim_value = batch
    tensors += [numpy_helper.from_array(value, key) for key, value in weights.items()]
    new = helper.make_graph(kept, graph.name, inputs[:1], outputs, tensors)
    result = helper.make_model(new, opset_imports=list(model.opset_import))
    result.ir_version = max(model.ir_version, 4)  # initializers need not be inputs
    return result


def seeded_input(model: onnx.ModelProto, batch: int = 1, seed: int = 1) -> tuple[str, NDArray[np.float32]]:
    """(name, array) of a standard-normal input."""
    value = model.graph.input[0]
    assert value.type.tensor_type.elem_type == TensorProto.FLOAT
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim][1:]
    return value.name, np.random.default_rng(seed).standard_normal((batch, *dims)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", choices=NAMES)
    parser.add_argument("output", type=Path)
    parser.add_argument("--batch", type=int, help="fix the batch (default: free)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(seeded_model(args.topology, args.seed, args.batch), args.output)


if __name__ == "__main__":
    main()
