"""``ascend-sim model``: one run, several chips and batches, and .om files of every kind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ascend_sim.cli.main import main
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import OmError
from ascend_sim.graph.load import load_network
from ascend_sim.graph.options import CompileOptions
from ascend_sim.soc import load_soc


def network(width: int = 64, layers: int = 2) -> onnx.ModelProto:
    """``layers`` products of [n, width] with ReLU between."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        weights.append(numpy_helper.from_array(random.standard_normal((width, width)).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"]))
        last = f"r{i}"
    shape = ["n", width]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)], weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(network(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["model", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_chips_and_batches_in_one_table(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = said(capsys, path, "--soc", "Ascend310P3,Ascend910B4", "--batch", "1,64,1024")["runs"]
    chips, batches = ("Ascend310P3", "Ascend910B4"), (1, 64, 1024)
    assert [(r["soc"], r["batch"]) for r in runs] == [(chip, batch) for chip in chips for batch in batches]
    assert runs[0]["us"] < runs[2]["us"] and not any(r["estimated"] for r in runs)
    alone = said(capsys, path, "--soc", "Ascend310P3", "--batch", "64")
    assert (alone["us"], alone["batch"]) == (runs[1]["us"], 64) and len(alone["ops"]) >= 2
    assert main(["model", path, "--soc", "Ascend310P3", "--batch", "1,64"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "net" and table[1].split()[:3] == ["chip", "batch", "us"] and len(table) == 5


def test_time_does_not_depend_on_the_weights(path: str) -> None:
    """Sizes of weights decide their places, so an .om and a model without weights have the same time."""
    from ascend_sim.api import Simulator

    chip = load_soc("Ascend310P3")
    with_, without = (load_network(path, chip, 16, weights=w) for w in (True, False))
    assert Simulator(chip).model(with_).us == Simulator(chip).model(without).us
    x = np.zeros((16, 64), np.float32)
    assert with_.run_values([x])[0].shape == (16, 64)
    with pytest.raises(OmError, match="without its weights"):
        without.run_values([x])


def test_weights_are_not_in_memory(tmp_path: Path) -> None:
    """1.2 GB of weights in a file of external data that does not exist: nobody reads it."""
    model = network(64, 1)
    model.graph.initializer[0].dims[:] = [64, 64]
    for i, tensor in enumerate(model.graph.initializer):
        del tensor.dims[:]
        tensor.dims.extend([64, 5_000_000])
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", f"weights{i}.bin"
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5_000_000
    onnx.save(model, tmp_path / "large.onnx")
    code = (
        "from ascend_sim.graph.load import load_network; from ascend_sim.soc import load_soc\n"
        f"m = load_network({str(tmp_path / 'large.onnx')!r}, load_soc('Ascend910B4'))\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(m.weight_size, int(peak.split()[1]) // 1024)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    size, megabytes = map(int, out.stdout.split())
    assert size >= 640_000_000 and megabytes < 400


def test_gears_and_open_shapes_of_an_om(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = network().SerializeToString()
    kinds = {
        "batch": CompileOptions(input_shapes={"x": (-1, 64)}, dynamic_batch=(1, 256)),
        "dims": CompileOptions(input_shapes={"x": (-1, 64)}, dynamic_dims=((1,), (256,))),
        "shape": CompileOptions(input_shapes={"x": (-1, 64)}),
    }
    for name, options in kinds.items():
        (tmp_path / f"{name}.om").write_bytes(compile_model(data, "Ascend310P3", options))
    batch = said(capsys, str(tmp_path / "batch.om"), "--batch", "256")  # the chip is that of the file
    assert (batch["soc"], batch["batch"]) == ("Ascend310P3", 256)
    dims = said(capsys, str(tmp_path / "dims.om"), "--gear", "256")
    shape = said(capsys, str(tmp_path / "shape.om"), "--input-shape", "x:256,64")
    assert dims["batch"] == shape["batch"] == 256
    assert abs(dims["us"] - batch["us"]) < 0.02 * batch["us"] and abs(shape["us"] - batch["us"]) < 0.02 * batch["us"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--batch", "0"], "--batch 0"),
        (["--batch", "a"], "--batch a"),
        (["--gear", "4,4"], "no gear"),
        (["--input-shape", "x:-1,-1"], "the model fixes it|open dimension"),
        (["--soc", "Ascend310P3,Ascend999"], "Ascend999"),
    ],
)
def test_mistakes(path: str, words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", path, *words]) == 2
    error = capsys.readouterr().err
    assert any(p in error for p in part.split("|")) and "Traceback" not in error


@pytest.mark.parametrize("content", [b"", b"no model at all", bytes(range(256)) * 4])
def test_other_files(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    assert main(["model", str(tmp_path / "m.onnx")]) == 2
    assert "m.onnx" in capsys.readouterr().err
