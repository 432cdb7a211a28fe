"""Fusions of inference networks: first convolutions with AIPP, small channels and pooling; Mish, fast sigmoid, batch
normalisation with ReLU; concats without a kernel. Values against onnxruntime, and instructions against operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_models import make_model, randn, reference, run
from onnx import helper

from ascend_sim.graph.aipp import parse_config, preprocess
from ascend_sim.graph.atc_flags import parse_flags
from ascend_sim.graph.atc_options import compile_options
from ascend_sim.graph.compile import compile_graph, compile_model
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.plan import plan_memory
from ascend_sim.ops.cost import op_timing
from ascend_sim.soc import load_soc

N = helper.make_node


def types(loaded: Any) -> list[str]:
    return [c.call.type for c in loaded.calls if c.call.type not in ("TransData", "Cast")]


AIPP = """aipp_op {{ aipp_mode: static input_format: RGB888_U8 src_image_size_w: {full} src_image_size_h: {full}
 crop: true crop_size_w: {size} crop_size_h: {size} load_start_pos_w: 6 load_start_pos_h: 8 rbuv_swap_switch: true
 min_chn_0: 123.7 min_chn_1: 116.3 min_chn_2: 103.5
 var_reci_chn_0: 0.0171 var_reci_chn_1: 0.0175 var_reci_chn_2: 0.0174 }}"""


@pytest.mark.parametrize(
    ("soc", "size", "channels", "kernel", "pool", "batch", "small", "expected"),
    [
        ("Ascend310P3", 224, 64, 7, True, 1, 1, ["AippConv2D"]),
        ("Ascend310P3", 20, 24, 3, False, 3, 1, ["AippConv2D"]),
        ("Ascend310P3", 20, 24, 3, False, 1, 0, ["AippConv2D"]),
        ("Ascend310P3", 20, 32, 3, True, 1, 1, ["AippConv2D", "MaxPoolV3"]),
        ("Ascend310B1", 20, 16, 7, True, 1, 1, ["AippConv2D", "MaxPoolV3"]),
        ("Ascend310", 16, 16, 3, False, 2, 1, ["AippConv2D"]),
    ],
)
def test_aipp_joins_the_first_convolution(
    tmp_path: Path, soc: str, size: int, channels: int, kernel: int, pool: bool, batch: int, small: int,
    expected: list[str],
) -> None:  # fmt: skip
    full = size + 16
    conf = tmp_path / "a.cfg"
    conf.write_text(AIPP.format(full=full, size=size))
    pad = kernel // 2
    nodes = [N("Conv", ["x", "w", "b"], ["c"], pads=[pad] * 4, strides=[2, 2]), N("Relu", ["c"], ["r"])]
    if pool:
        nodes.append(N("MaxPool", ["r"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    else:
        nodes[-1].output[0] = "y"
    constants = {"w": randn(channels, 3, kernel, kernel, seed=1) * np.float32(0.1), "b": randn(channels, seed=2)}
    model = make_model(nodes, {"x": np.zeros((batch, 3, size, size), np.float32)}, ["y"], constants)
    flags = parse_flags([f"--insert_op_conf={conf}", f"--enable_small_channel={small}"])
    chip = load_soc(soc)
    loaded = LoadedModel.from_bytes(compile_model(model.SerializeToString(), chip, compile_options(flags, "m", "")))
    assert types(loaded) == expected
    image = np.random.default_rng(3).integers(0, 256, (batch, full, full, 3)).astype(np.uint8)
    got = loaded.run_values([image])[0]
    want = reference(model, {"x": preprocess(image, parse_config(str(conf))[0])})[0]
    np.testing.assert_allclose(got, want, atol=0.02, rtol=5e-3)
    by_instruction = loaded.run_values([image], mode="instruction")[0]
    np.testing.assert_allclose(by_instruction, got, atol=0.01, rtol=2e-3)
    assert not op_timing(loaded.calls[0].call, chip).estimated


def test_mish_is_recognised_and_fused() -> None:
    x = randn(1, 16, 8, 8)
    nodes = [
        N("Conv", ["x", "w"], ["c"], pads=[1] * 4), N("Softplus", ["c"], ["s"]), N("Tanh", ["s"], ["t"]),
        N("Mul", ["c", "t"], ["y"]),
    ]  # fmt: skip
    model = make_model(nodes, {"x": x}, ["y"], {"w": randn(16, 16, 3, 3, seed=1) * 0.1})
    got, loaded = run(model, {"x": x}, "Ascend310P3", CompileOptions())
    assert types(loaded) == ["Conv2D"]
    (call,) = [c.call for c in loaded.calls if c.call.type == "Conv2D"]
    assert call.attr("epilogue") == (("mish",),)
    np.testing.assert_allclose(got[0], reference(model, {"x": x})[0], atol=0.01, rtol=0.01)


@pytest.mark.parametrize("types_given", ["", "--optypelist_for_implmode=Sigmoid", "--optypelist_for_implmode=Exp"])
def test_implementation_mode_reaches_sigmoid(types_given: str) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Sigmoid", ["c"], ["s"]), N("Mul", ["c", "s"], ["y"])]
    model = make_model(nodes, {"x": randn(1, 16, 8, 8)}, ["y"], {"w": randn(64, 16, 1, 1, seed=1)})
    chip, raw = load_soc("Ascend310P3"), model.SerializeToString()
    flags = ["--op_select_implmode=high_performance", *([types_given] if types_given else [])]
    fast = LoadedModel.from_bytes(compile_model(raw, chip, compile_options(parse_flags(flags), "m", "")))
    slow = LoadedModel.from_bytes(compile_model(raw, chip))
    (a,), (b,) = ([c.call for c in m.calls if c.call.type == "Conv2D"] for m in (fast, slow))
    assert b.attr("epilogue") == (("swish", 1.0),)
    if types_given.endswith("Exp"):
        assert a.attr("epilogue") == b.attr("epilogue")
        return
    assert a.attr("epilogue") == (("fast_swish", 1.0),)
    fast_busy, slow_busy = (dict(op_timing(call, chip).busy_ps)["vector"] for call in (a, b))
    assert fast_busy < slow_busy


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910B2"])
@pytest.mark.parametrize("shape", [(1, 32, 7, 7), (3, 16, 20, 12)])
def test_batch_normalisation_with_relu_in_one_kernel(soc: str, shape: tuple[int, ...]) -> None:
    c = shape[1]
    x = randn(*shape)
    bn = {"g": randn(c, seed=2), "b": randn(c, seed=3), "m": randn(c, seed=4), "v": np.abs(randn(c, seed=5)) + 0.5}
    nodes = [
        N("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], pads=[1] * 4), N("BatchNormalization", ["p", *bn], ["n"]),
        N("Relu", ["n"], ["r"]), N("MaxPool", ["r"], ["y"], kernel_shape=[3, 3], pads=[1] * 4),
    ]  # fmt: skip
    model = make_model(nodes, {"x": x}, ["y"], bn)
    got, loaded = run(model, {"x": x}, soc, CompileOptions())
    assert types(loaded) == ["MaxPoolV3", "BNInfer", "MaxPoolV3"]
    want = reference(model, {"x": x})[0]
    np.testing.assert_allclose(got[0], want, atol=0.02, rtol=0.01)
    np.testing.assert_allclose(loaded.run_values([x], mode="instruction")[0], got[0], atol=0.02, rtol=0.01)


def _joined(batch: int, reuse: bool) -> Any:
    nodes = [N("Conv", ["x", "w"], ["a"]), N("Conv", ["x", "v"], ["b"]), N("Concat", ["a", "b"], ["c"], axis=1)]
    nodes += [N("Conv", ["c", "u"], ["d"])]
    weights = {"w": randn(16, 16, 1, 1, seed=1), "v": randn(32, 16, 1, 1, seed=2), "u": randn(16, 48, 1, 1, seed=3)}
    if reuse:
        nodes += [N("Concat", ["a", "b", "d"], ["e"], axis=1), N("Conv", ["e", "t"], ["y"])]
        weights["t"] = randn(16, 64, 1, 1, seed=4)
    else:
        nodes[-1].output[0] = "y"
    return make_model(nodes, {"x": np.zeros((batch, 16, 8, 8), np.float32)}, ["y"], weights)


@pytest.mark.parametrize(("batch", "reuse", "left"), [(1, False, 0), (4, False, 0), (1, True, 0), (4, True, 2)])
def test_concats_without_a_kernel(batch: int, reuse: bool, left: int) -> None:
    model, chip = _joined(batch, reuse), load_soc("Ascend310P3")
    graph, plan = compile_graph(model.SerializeToString(), chip)
    loaded = LoadedModel.from_bytes(compile_model(model.SerializeToString(), chip))
    assert types(loaded).count("ConcatD") == left
    x = randn(batch, 16, 8, 8, seed=7)
    np.testing.assert_allclose(loaded.run_values([x])[0], reference(model, {"x": x})[0], atol=0.3, rtol=0.02)
    assert plan.work_size == plan_memory(graph).work_size
    for node in graph.nodes:
        if node.type == "ConcatD" and node.attrs.get("_no_task"):
            at = plan.places[node.outputs[0]].value
            for name in node.inputs:
                assert (plan.places[name].region, plan.places[name].value) == ("work", at)
                at += plan.places[name].nbytes
