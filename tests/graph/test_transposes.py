"""Transposes of networks that came from NHWC: gone, and the values stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_models import check, cosine, make_model, randn, reference, run
from nhwc import TO_PIXELS, TO_PLANES, nhwc_network
from onnx import helper

from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions
from ascend_sim.soc import load_soc

N = helper.make_node
X = randn(2, 3, 4, 5)


def turns(loaded: LoadedModel) -> list[str]:
    return [n.call.type for n in loaded.calls if n.call.type == "TransposeD"]


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B4"])
def test_network_written_by_tf2onnx(soc: str) -> None:
    """18 transposes; none is left: the first became part of the change from pixels to channel blocks."""
    model = nhwc_network(batch=2)
    assert sum(node.op_type == "Transpose" for node in model.graph.node) == 18
    inputs = {"input:0": randn(2, 32, 32, 3)}
    got, loaded = run(model, inputs, soc, CompileOptions())
    expected = reference(model, inputs)[0]
    assert cosine(got[0], expected) > 0.9999 and (got[0].argmax(1) == expected.argmax(1)).all()
    types = [n.call.type for n in loaded.calls]
    assert "TransposeD" not in types and types.count("TransData") <= 4
    assert "PadV3" not in types  # padding went into the first convolution
    first = next(n.call for n in loaded.calls if n.call.type == "TransData")
    assert (first.attr("src_format"), first.attr("dst_format")) == ("NHWC", "NC1HWC0")
    off = CompileOptions(switched_off=frozenset(("transposes",)))
    moved = [n.call.type for n in run(model, inputs, soc, off)[1].calls if n.call.type in ("TransData", "TransposeD")]
    assert len(moved) >= 17


def turned(middle: list[Any], constants: dict[str, Any], shape: tuple[int, ...] = (2, 4, 5, 3)) -> LoadedModel:
    """pixels -> ``middle`` on z giving r -> planes, between two transposes; exact in fp32."""
    nodes = [N("Transpose", ["x"], ["z"], perm=TO_PIXELS), *middle, N("Transpose", ["r"], ["y"], perm=TO_PLANES)]
    return check(make_model(nodes, {"x": X}, ["y"], constants), {"x": X})


@pytest.mark.parametrize(
    ("middle", "constants"),
    [
        ([N("Relu", ["z"], ["r"])], {}),
        ([N("Add", ["z", "c"], ["r"])], {"c": randn(3)}),
        ([N("Mul", ["c", "z"], ["r"])], {"c": randn(4, 1, 3)}),
        ([N("Sub", ["z", "c"], ["r"])], {"c": np.float32(2)}),
        ([N("Sigmoid", ["z"], ["s"]), N("Mul", ["z", "s"], ["r"])], {}),
        ([N("Concat", ["z", "z2"], ["r"], axis=3), ], {}),
        ([N("Pad", ["z", "p"], ["r"])], {"p": np.asarray([0, 1, 2, 0, 0, 3, 4, 0], np.int64)}),
        ([N("ReduceMean", ["z"], ["m"], axes=[1, 2], keepdims=1), N("Add", ["z", "m"], ["r"])], {}),
        ([N("ReduceMax", ["z"], ["m"], axes=[3], keepdims=1), N("Sub", ["z", "m"], ["r"])], {}),
    ],
)  # fmt: skip
def test_operators_between_transposes(middle: list[Any], constants: dict[str, Any]) -> None:
    if middle[0].op_type == "Concat":
        middle = [N("Transpose", ["x"], ["z2"], perm=TO_PIXELS), *middle]
    assert turns(turned(middle, constants)) == []


@pytest.mark.parametrize("axes", [[1, 2], [3], [0, 1, 2, 3], [1]])
def test_reductions_that_drop_axes(axes: list[int]) -> None:
    nodes = [N("Transpose", ["x"], ["z"], perm=TO_PIXELS), N("ReduceSum", ["z", "a"], ["y"], keepdims=0)]
    loaded = check(make_model(nodes, {"x": X}, ["y"], {"a": np.asarray(axes, np.int64)}), {"x": X})
    assert len(turns(loaded)) <= (axes == [1])  # [N, W, C] of planes is still a transpose, of fewer bytes


def test_a_transpose_that_others_need_stays() -> None:
    nodes = [N("Transpose", ["x"], ["z"], perm=TO_PIXELS), N("Relu", ["z"], ["r"]), N("Softmax", ["r"], ["y"], axis=2)]
    assert len(turns(check(make_model(nodes, {"x": X}, ["y"]), {"x": X}))) == 1
    both = [N("Transpose", ["x"], ["z"], perm=TO_PIXELS), N("Relu", ["z"], ["y"])]
    assert len(turns(check(make_model(both, {"x": X}, ["y", "z"]), {"x": X}))) == 1  # a graph output itself


def test_equal_transposes_become_one() -> None:
    nodes = [N("Transpose", ["x"], ["a"], perm=TO_PIXELS), N("Transpose", ["x"], ["b"], perm=TO_PIXELS),
             N("Softmax", ["a"], ["c"], axis=1), N("MatMul", ["c", "w"], ["d"]), N("MatMul", ["b", "w"], ["e"]),
             N("Add", ["d", "e"], ["y"])]  # fmt: skip
    assert len(turns(check(make_model(nodes, {"x": X}, ["y"], {"w": randn(3, 6)}), {"x": X}))) == 1


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B4"])
def test_pixels_become_channel_blocks_at_once(soc: str) -> None:
    """Both ways, value for value, also by the kernels' instructions."""
    nodes = [N("Transpose", ["x"], ["a"], perm=TO_PLANES), N("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]),
             N("Transpose", ["b"], ["y"], perm=TO_PIXELS)]  # fmt: skip
    x = randn(2, 6, 5, 19)
    model = make_model(nodes, {"x": x}, ["y"])
    got, loaded = run(model, {"x": x}, soc, CompileOptions())
    assert [n.call.type for n in loaded.calls if n.call.type != "Cast"] == ["TransData", "MaxPoolV3", "TransData"]
    expected = reference(model, {"x": x})[0].astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(loaded.run_values([x], mode="instruction")[0], expected)


@pytest.mark.slow
def test_example_of_a_tensorflow_network(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "examples" / "tensorflow_model.py"
    words = [sys.executable, str(program), "--out", str(tmp_path)]
    out = subprocess.run(words, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    rows = {line.split()[0]: line.split()[1:] for line in out.stdout.splitlines() if line.startswith("network.")}
    assert (rows["network.onnx"][0], rows["network.om"][0]) == ("18", "0")


@pytest.mark.parametrize(("soc", "kinds"), [
    ("Ascend310P3", ["TransData", "SoftmaxV2", "TransData", "TransData"]), ("Ascend910B4", ["TransData", "SoftmaxV2"]),
])  # fmt: skip
def test_few_classes_of_many_pixels(soc: str, kinds: list[str]) -> None:
    """Softmax over two channels runs on planes where DMA moves whole blocks only, and every step has a kernel."""
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Transpose", ["c"], ["z"], perm=TO_PIXELS)]
    nodes.append(N("Softmax", ["z"], ["y"], axis=3))
    x = randn(1, 16, 55, 75)
    model = make_model(nodes, {"x": x}, ["y"], {"w": randn(2, 16, 1, 1, seed=1) * 0.3})
    got, loaded = run(model, {"x": x}, soc, CompileOptions())
    np.testing.assert_allclose(got[0], reference(model, {"x": x})[0], atol=2e-3)
    types = [n.call.type for n in loaded.calls if n.call.type != "Cast"]
    assert types[types.index("Conv2D") + 1 :] == kinds
    assert not any(t.estimated for _, t in loaded.operator_timings(load_soc(soc)))
