"""A TensorFlow network on a simulated NPU, by way of tf2onnx.

With TensorFlow and tf2onnx installed, a saved model becomes ONNX (opset 11 to 18) by

    python -m tf2onnx.convert --saved-model saved_model --output network.onnx --opset 13

TensorFlow keeps pictures as NHWC, ONNX convolutions take NCHW, so tf2onnx writes transposes around them. atc pushes
them together until they cancel; the one at the input becomes part of the change to the chip's own layout. The
application goes on giving NHWC. This program does the rest: it converts, shows what became of the transposes, runs the
model through pyACL and compares with onnxruntime.

    python examples/tensorflow_model.py [network.onnx] [--soc Ascend310P3]

Without a model it takes a network that is written the way tf2onnx writes them. Caffe networks come the same way,
through any Caffe to ONNX converter; they are NCHW, so nothing needs to be turned.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from ascend_sim.cli.table import render
from ascend_sim.graph.atc import atc_main
from ascend_sim.graph.executor import LoadedModel

ROOT = Path(__file__).resolve().parent.parent
H2D, D2H = 1, 2


def stand_in(path: Path) -> Path:
    """The network of `benchmarks/nhwc.py`."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.nhwc import nhwc_network

    onnx.save(nhwc_network(), path)
    return path


def input_of(model: onnx.ModelProto) -> tuple[str, tuple[int, ...]]:
    """Name and shape of the first input; open dimensions are 1."""
    constants = {tensor.name for tensor in model.graph.initializer}
    value = next(v for v in model.graph.input if v.name not in constants)
    return value.name, tuple(d.dim_value or 1 for d in value.type.tensor_type.shape.dim)


def run(om: Path, x: np.ndarray) -> np.ndarray:
    """The first output, by a plain pyACL program."""
    import acl

    acl.init()
    acl.rt.set_device(0)
    model, ret = acl.mdl.load_from_file(str(om))
    assert ret == 0, acl.get_recent_err_msg()
    desc = acl.mdl.create_desc()
    acl.mdl.get_desc(desc, model)
    datasets, first = [], 0
    for count, size_of in ((acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index),
                           (acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index)):  # fmt: skip
        dataset = acl.mdl.create_dataset()
        for index in range(count):
            pointer, _ = acl.rt.malloc(size_of(desc, index), 0)
            acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size_of(desc, index)))
            first = pointer if index == 0 else first
        if not datasets:
            acl.rt.memcpy(first, x.nbytes, acl.util.bytes_to_ptr(x.tobytes()), x.nbytes, H2D)
        datasets.append(dataset)
    assert acl.mdl.execute(model, *datasets) == 0, acl.get_recent_err_msg()
    dims = acl.mdl.get_output_dims(desc, 0)[0]["dims"]
    data = bytes(int(np.prod(dims)) * 4)
    acl.rt.memcpy(acl.util.bytes_to_ptr(data), len(data), first, len(data), D2H)
    acl.mdl.unload(model)
    acl.finalize()
    return np.frombuffer(data, np.float32).reshape(dims)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--soc", default="Ascend310P3")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "tensorflow")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ["ASCEND_SIM_SOC"] = args.soc
    source = args.model or stand_in(args.out / "network.onnx")
    model = onnx.load(source)
    name, shape = input_of(model)
    words = [f"--model={source}", "--framework=5", f"--output={args.out / 'network'}", f"--soc_version={args.soc}",
             "--input_format=ND", f"--input_shape={name}:{','.join(map(str, shape))}"]  # fmt: skip
    print("atc " + " ".join(words))
    if atc_main(words):
        return 1
    om = args.out / "network.om"
    before = Counter(node.op_type for node in model.graph.node)
    after = Counter(call.call.type for call in LoadedModel.from_file(om).calls)
    print(render(["", "transposes", "operators"], [
        ["network.onnx", before["Transpose"], sum(before.values())],
        ["network.om", after["TransposeD"], sum(after.values())],
    ]))  # fmt: skip
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    got = run(om, x)
    expected = onnxruntime.InferenceSession(str(source)).run(None, {name: x})[0]
    print(f"{args.soc}: largest difference to onnxruntime {np.abs(got - expected).max():.5f}, "
          f"decisions {got.reshape(-1, got.shape[-1]).argmax(1)} and "
          f"{expected.reshape(-1, expected.shape[-1]).argmax(1)}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
