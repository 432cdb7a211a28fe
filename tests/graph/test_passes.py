"""Each pass on a small graph: what it makes of it, and that values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_models import FP32, check, make_model, randn, reference, run
from onnx import helper

from ascend_sim.graph.compile import compile_graph
from ascend_sim.graph.edit import Editor, sort_nodes
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.passes import pass_names
from ascend_sim.graph.passes.switches import read_switches
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import load_soc

N = helper.make_node
X = randn(1, 16, 8, 8)
W = randn(16, 16, 3, 3, seed=1) * 0.1
BN = {"g": randn(16, seed=2), "b": randn(16, seed=3), "m": randn(16, seed=4), "v": np.abs(randn(16, seed=5)) + 0.5}


def types(loaded: Any) -> list[str]:
    return [c.call.type for c in loaded.calls if c.call.type not in ("TransData", "Cast")]


def conv(x: str, y: str, **attrs: Any) -> Any:
    return N("Conv", [x, "w"], [y], pads=[1, 1, 1, 1], **attrs)


def checked(nodes: list[Any], constants: dict[str, Any], soc: str = "Ascend310P3", **tolerance: float) -> Any:
    """Compiled in fp32 on a chip with UB fusion; fp32 cube is only on 910B, so values run there for matrix work."""
    model = make_model(nodes, {"x": X}, ["y"], {"w": W, **constants})
    expected = reference(model, {"x": X})[0]
    got, loaded = run(model, {"x": X}, soc, CompileOptions())
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(got[0], expected, atol=4e-3 * scale, rtol=4e-3)
    return loaded


def test_bn_and_relu_become_part_of_the_convolution() -> None:
    nodes = [conv("x", "a"), N("BatchNormalization", ["a", *BN], ["c"]), N("Relu", ["c"], ["y"])]
    loaded = checked(nodes, BN)
    assert types(loaded) == ["Conv2D"]
    assert loaded.calls[2].call.attr("epilogue") == (("relu",),)
    check(make_model(nodes, {"x": X}, ["y"], {"w": W, **BN}), {"x": X})  # exact in fp32


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "Gemm"])
def test_bn_behind_other_matrix_operators(kind: str) -> None:
    if kind == "Gemm":
        x = randn(4, 8)
        nodes = [N("Gemm", ["x", "w"], ["a"]), N("BatchNormalization", ["a", *BN], ["y"])]
        model = make_model(nodes, {"x": x}, ["y"], {"w": randn(8, 16, seed=1), **BN})
        assert types(check(model, {"x": x})) == ["MatMulV2"]
        return
    w = randn(16, 8, 3, 3, seed=1)
    node = N("Conv", ["x", "w"], ["a"], group=2) if kind == "Conv" else N("ConvTranspose", ["x", "w"], ["a"], group=2)
    model = make_model([node, N("BatchNormalization", ["a", *BN], ["y"])], {"x": X}, ["y"], {"w": w, **BN})
    assert len(types(check(model, {"x": X}, atol=1e-4))) == 1


def test_bn_stays_when_the_convolution_is_read_elsewhere() -> None:
    nodes = [conv("x", "a"), N("BatchNormalization", ["a", *BN], ["c"]), N("Add", ["a", "c"], ["y"])]
    assert "BNInfer" in types(checked(nodes, BN))


def test_scales_and_shifts_fold() -> None:
    constants = {"s": np.float32(1.5), "t": randn(1, 16, 1, 1, seed=6), "d": np.asarray([2.0], np.float32)}
    nodes = [
        conv("x", "a"),
        N("Mul", ["s", "a"], ["c"]),
        N("Add", ["c", "t"], ["e"]),
        N("Div", ["e", "d"], ["f"]),
        N("Sub", ["s", "f"], ["y"]),
    ]
    model = make_model(nodes, {"x": X}, ["y"], {"w": W, **constants})
    assert types(check(model, {"x": X})) == ["Conv2D"]


def test_spatial_constants_do_not_fold() -> None:
    nodes = [conv("x", "a"), N("Add", ["a", "t"], ["y"])]
    assert types(checked(nodes, {"t": randn(1, 1, 8, 8, seed=6)})) == ["Conv2D", "Add"]


def test_residual_is_added_in_the_later_convolution() -> None:
    nodes = [
        conv("x", "a"),
        conv("x", "c"),
        N("Relu", ["c"], ["d"]),
        conv("d", "e"),
        N("Add", ["a", "e"], ["f"]),
        N("Relu", ["f"], ["y"]),
    ]
    loaded = checked(nodes, {})
    assert types(loaded) == ["Conv2D"] * 3
    epilogues = [c.call.attr("epilogue", ()) for c in loaded.calls if c.call.type == "Conv2D"]
    assert sorted(len(e) for e in epilogues) == [0, 1, 2] and (("add",), ("relu",)) in epilogues
    split = checked(nodes, {}, "Ascend910B4")  # the fix-pipe of 910B has only ReLU
    assert types(split).count("FusedElementwise") == 1


def hswish(x: str, y: str, variant: int) -> list[Any]:
    add, clip = N("Add", [x, "three"], ["hs1"]), N("Clip", ["hs1", "zero", "six"], ["hs2"])
    if variant == 0:
        return [add, clip, N("Mul", [x, "hs2"], ["hs3"]), N("Div", ["hs3", "six"], [y])]
    if variant == 1:
        return [add, clip, N("Div", ["hs2", "six"], ["hs3"]), N("Mul", ["hs3", x], [y])]
    return [N("HardSigmoid", [x], ["hs1"], alpha=1 / 6, beta=0.5), N("Mul", [x, "hs1"], [y])]


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_hard_swish_is_recognised(variant: int) -> None:
    constants = {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)}
    loaded = checked([conv("x", "a"), *hswish("a", "y", variant)], constants)
    assert types(loaded) == ["Conv2D"]
    assert ("hswish",) in loaded.calls[2].call.attr("epilogue")
    assert types(checked([conv("x", "a"), *hswish("a", "y", variant)], constants, "Ascend910B4")) == [
        "Conv2D",
        "HardSwish",
    ]


def test_swish_and_gelu_are_recognised() -> None:
    assert types(checked([N("Sigmoid", ["x"], ["a"]), N("Mul", ["x", "a"], ["y"])], {})) == ["Swish"]
    nodes = [
        N("Div", ["x", "r"], ["a"]),
        N("Erf", ["a"], ["b"]),
        N("Add", ["b", "one"], ["c"]),
        N("Mul", ["x", "c"], ["d"]),
        N("Mul", ["d", "half"], ["y"]),
    ]
    constants = {"r": np.float32(np.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5)}
    assert types(checked(nodes, constants)) == ["GeluV2"]


def test_written_out_layer_norm_is_recognised() -> None:
    x = randn(2, 5, 16)
    nodes = [
        N("ReduceMean", ["x"], ["m"], axes=[-1]),
        N("Sub", ["x", "m"], ["d"]),
        N("Pow", ["d", "two"], ["s"]),
        N("ReduceMean", ["s"], ["v"], axes=[-1]),
        N("Add", ["v", "eps"], ["e"]),
        N("Sqrt", ["e"], ["r"]),
        N("Div", ["d", "r"], ["n"]),
        N("Mul", ["n", "g"], ["a"]),
        N("Add", ["a", "b"], ["y"]),
    ]
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "g": randn(16, seed=1), "b": randn(16, seed=2)}
    assert types(check(make_model(nodes, {"x": x}, ["y"], constants), {"x": x})) == ["LayerNormV4"]
    bare = [*nodes[:6], N("Div", ["d", "r"], ["y"])]
    assert types(check(make_model(bare, {"x": x}, ["y"], constants), {"x": x})) == ["LayerNormV4"]
    shared = [*nodes[:7], N("Add", ["n", "d"], ["y"])]  # the centred input is needed elsewhere
    assert "LayerNormV4" not in types(check(make_model(shared, {"x": x}, ["y"], constants), {"x": x}))


def test_a_gate_used_twice_is_kept() -> None:
    nodes = [N("Sigmoid", ["x"], ["a"]), N("Mul", ["x", "a"], ["b"]), N("Add", ["a", "b"], ["y"])]
    assert "Sigmoid" in types(checked(nodes, {}))


def test_pad_moves_into_the_convolution() -> None:
    nodes = [N("Pad", ["x", "p"], ["a"]), N("Conv", ["a", "w"], ["y"])]
    assert types(checked(nodes, {"p": np.asarray([0, 0, 1, 2, 0, 0, 0, 1])})) == ["Conv2D"]


def test_elementwise_chain_becomes_one_kernel() -> None:
    nodes = [N("Exp", ["x"], ["a"]), N("Add", ["a", "x"], ["b"]), N("Tanh", ["b"], ["y"])]
    loaded = checked(nodes, {})
    assert types(loaded) == ["FusedElementwise"]
    assert loaded.calls[1].call.attr("steps") == (("exp",), ("add",), ("tanh",))


def test_shared_matrix_becomes_one_product() -> None:
    x = randn(2, 3, 4, 8)
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["y"])]
    model = make_model(nodes, {"x": x}, ["y"], {"w": randn(8, 6, seed=1), "b": randn(6, seed=2)})
    loaded = check(model, {"x": x})
    assert types(loaded) == ["MatMulV2"]
    assert loaded.calls[0].call.inputs[0].shape == (24, 8)


def test_inverse_transposes_and_reshape_chains_vanish() -> None:
    nodes = [
        N("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        N("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2]),
        N("Reshape", ["b", "s"], ["c"]),
        N("Reshape", ["c", "t"], ["d"]),
        N("Relu", ["d"], ["y"]),
    ]
    constants = {"s": np.asarray([4, -1]), "t": np.asarray([2, 8, 64])}
    graph, _ = compile_graph(
        make_model(nodes, {"x": X}, ["y"], constants).SerializeToString(), load_soc("Ascend910B2"), FP32
    )
    assert [n.type for n in graph.nodes] == ["Reshape", "Relu"]


def test_formats_change_only_at_the_borders() -> None:
    nodes = [
        conv("x", "a"),
        N("Relu", ["a"], ["b"]),
        N("MaxPool", ["b"], ["c"], kernel_shape=[2, 2]),
        conv("c", "d"),
        N("Add", ["d", "c"], ["e"]),
        N("GlobalAveragePool", ["e"], ["f"]),
        N("Flatten", ["f"], ["y"]),
    ]
    loaded = checked(nodes, {})
    formats = [c.call.outputs[0].format for c in loaded.calls]
    assert [c.call.type for c in loaded.calls].count("TransData") == 1  # the way out is the same bytes
    first, last = formats.index("NC1HWC0"), len(formats) - 1 - formats[::-1].index("NC1HWC0")
    assert all(f == "NC1HWC0" for f in formats[first : last + 1])
    spec = next(c.call for c in loaded.calls if c.call.type == "Conv2D").inputs[1]
    assert (spec.format, spec.shape, spec.origin_shape) == ("FRACTAL_Z", (9, 1, 16, 16), (16, 16, 3, 3))


@pytest.mark.parametrize(("channels", "transdata"), [(16, 2), (12, 5)])
def test_concat_stays_blocked_only_when_channels_fill_blocks(channels: int, transdata: int) -> None:
    w = {
        "w1": randn(channels, 16, 1, 1, seed=1),
        "w2": randn(channels, 16, 1, 1, seed=2),
        "w3": randn(8, 2 * channels, 1, 1, seed=3),
    }
    nodes = [
        N("Conv", ["x", "w1"], ["a"]),
        N("Conv", ["x", "w2"], ["b"]),
        N("Concat", ["a", "b"], ["c"], axis=1),
        N("Conv", ["c", "w3"], ["y"]),
    ]
    loaded = checked(nodes, w)
    assert [c.call.type for c in loaded.calls].count("TransData") == transdata


def test_fp16_is_the_default_and_inputs_keep_their_type() -> None:
    nodes = [conv("x", "a"), N("Relu", ["a"], ["y"])]
    loaded = checked(nodes, {})
    assert [d.dtype for d in (*loaded.inputs, *loaded.outputs)] == ["float32", "float32"]
    assert {c.call.type: c.call.outputs[0].dtype for c in loaded.calls}["Conv2D"] == "float16"
    options = CompileOptions(input_fp16_nodes=("x",), output_types={"": "float16"})
    model = make_model(nodes, {"x": X}, ["y"], {"w": W})
    got, small = run(model, {"x": X.astype(np.float16)}, "Ascend310", options)
    assert got[0].dtype == np.float16
    assert [c.call.type for c in small.calls] == ["TransData", "Conv2D", "TransData"]


def test_precision_modes() -> None:
    model = make_model([conv("x", "a"), N("Sin", ["a"], ["y"])], {"x": X}, ["y"], {"w": W})
    data = model.SerializeToString()
    with pytest.raises(AtcError, match=r"float32.*Ascend310"):
        compile_graph(data, load_soc("Ascend310"), FP32)
    for mode in ("allow_fp32_to_fp16", "cube_fp16in_fp32out"):
        graph, _ = compile_graph(data, load_soc("Ascend310"), CompileOptions(precision_mode=mode))
        dtypes = {n.type: graph.specs[n.inputs[0]].dtype for n in graph.nodes}
        assert dtypes["Conv2D"] == "float16" and dtypes["Sin"] == "float32"


def test_constants_beyond_fp16_are_clipped() -> None:
    loaded = checked([N("Min", ["x", "big"], ["y"])], {"big": np.full((1, 16, 1, 1), 1e30, np.float32)})
    assert all(np.isfinite(v).all() for v in loaded.graph.constants.values())


@pytest.mark.parametrize("name", [n for n in pass_names() if n not in ("precision", "cleanup")])
def test_values_stay_with_a_pass_switched_off(name: str) -> None:
    constants = {**BN, "three": np.float32(3), "zero": np.float32(0), "six": np.float32(6), "s": np.float32(1.1)}
    nodes = [
        conv("x", "a"),
        N("BatchNormalization", ["a", *BN], ["n"]),
        *hswish("n", "c", 0),
        N("Mul", ["c", "s"], ["d"]),
        conv("d", "e"),
        N("Add", ["e", "d"], ["f"]),
        N("Relu", ["f"], ["y"]),
    ]
    model = make_model(nodes, {"x": X}, ["y"], {"w": W, **constants})
    expected = reference(model, {"x": X})[0]
    for soc in ("Ascend310", "Ascend910B4"):
        got, _ = run(model, {"x": X}, soc, CompileOptions(switched_off=frozenset((name,))))
        np.testing.assert_allclose(got[0], expected, atol=5e-3 * float(np.abs(expected).max()), rtol=5e-3)


def test_fusion_switch_file(tmp_path: Any) -> None:
    lines = tmp_path / "a.cfg"
    lines.write_text("bn_fold:off\nepilogue:on\n")
    assert read_switches(str(lines)) == {"bn_fold"}
    lines.write_text('{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"AutomaticUbFusion": "on"}}}')
    assert read_switches(str(lines)) == {"ALL"}
    lines.write_text("{broken")
    with pytest.raises(AtcError, match="E10001"):
        read_switches(str(lines))
    with pytest.raises(AtcError, match="E10410"):
        read_switches(str(tmp_path / "none"))


def _graph(edges: list[tuple[str, list[str], str]], outputs: list[str]) -> Graph:
    nodes = [Node(n, "Add", i, [o]) for n, i, o in edges]
    specs = {t: TensorSpec((4,), "float32") for n in nodes for t in (*n.inputs, *n.outputs)}
    return Graph("g", nodes, ["x"], outputs, specs, {})


def test_sorting_and_cycles() -> None:
    graph = _graph([("c", ["b", "x"], "z"), ("a", ["x", "x"], "b")], ["z"])
    sort_nodes(graph)
    assert [n.name for n in graph.nodes] == ["a", "c"]
    with pytest.raises(ValueError, match="cycle"):
        sort_nodes(_graph([("a", ["x", "q"], "p"), ("b", ["p", "x"], "q")], ["q"]))
    with pytest.raises(ValueError, match="nobody makes"):
        sort_nodes(_graph([("a", ["x", "ghost"], "p")], ["p"]))


def test_editor_keeps_its_index() -> None:
    graph = _graph([("a", ["x", "x"], "b"), ("c", ["b", "x"], "z"), ("d", ["z", "b"], "y")], ["y"])
    editor = Editor(graph)
    assert editor.only_user("b") is None and editor.only_user("z").name == "d"
    editor.bypass(graph.nodes[1], "b")
    assert editor.finish()
    assert [(n.name, n.inputs) for n in graph.nodes] == [("a", ["x", "x"]), ("d", ["b", "b"])]
    assert "z" not in graph.specs
