"""Models whose shapes are open at conversion: gears of batch, image size and dimensions, and free shapes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graph_models import make_model, randn, reference
from onnx import helper

from ascend_sim.graph.atc import atc_main
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import AtcError, OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.om.inout import InOut, IoDesc, read_inout, write_inout
from ascend_sim.graph.options import CompileOptions, parse_input_shape
from ascend_sim.soc import load_soc

W = randn(4, 3, 3, 3, seed=1) * 0.2


def image_model() -> onnx.ModelProto:
    """A convolution and a global mean on [batch, 3, height, width]."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    model = make_model(nodes, {"x": randn(2, 3, 8, 8)}, ["r", "y"], {"w": W})
    for value in (*model.graph.input, *model.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if axis != 1:
                dim.dim_param = f"d{axis}"
    return model


def two_inputs() -> onnx.ModelProto:
    """``y = a @ b`` with a [1, m, k] and b [k, n]; m and n open."""
    model = make_model([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": randn(1, 2, 8), "b": randn(8, 4)}, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "m"
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "n"
    for axis in (1, 2):
        model.graph.output[0].type.tensor_type.shape.dim[axis].dim_param = f"o{axis}"
    return model


def convert(model: onnx.ModelProto, soc: str = "Ascend310P3", **options: Any) -> LoadedModel:
    return LoadedModel.from_bytes(compile_model(model.SerializeToString(), soc, CompileOptions(**options)))


def close(model: onnx.ModelProto, loaded: LoadedModel, variant: int, inputs: dict[str, np.ndarray]) -> None:
    got = loaded.run_values([inputs[p.name] for p in loaded.inputs if p.name in inputs], variant)
    for value, expected in zip(got, reference(model, inputs), strict=True):
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, atol=2e-2)


def test_image_sizes() -> None:
    model = image_model()
    loaded = convert(model, input_shapes={"x": (1, 3, -1, -1)}, dynamic_image=((8, 16), (32, 16), (4, 4)))
    assert (loaded.kind, loaded.dynamic_hw) == ("image", ((8, 16), (32, 16), (4, 4)))
    assert [(p.name, p.dims, p.size, p.dtype) for p in loaded.inputs] == [
        ("x", (1, 3, -1, -1), 3 * 32 * 16 * 4, "float32"),
        ("ascend_mbatch_shape_data", (2,), 8, "int32"),
    ]
    assert [p.dims for p in loaded.outputs] == [(1, 4, -1, -1), (1, 4)]
    assert loaded.default_variant == 1  # the largest
    assert loaded.variant_for_gear(4, 4) == 2
    for height, width in loaded.dynamic_hw:
        variant = loaded.variant_for_gear(height, width)
        inputs, outputs = loaded.ports(variant)
        assert (inputs[0].dims, inputs[0].size) == ((1, 3, height, width), 12 * height * width)
        assert outputs[0].dims == (1, 4, height, width)
        assert loaded.variant_for_shapes([(1, 3, height, width)]) == variant
        close(model, loaded, variant, {"x": randn(1, 3, height, width)})
    with pytest.raises(OmError, match="5,5 is no gear") as error:
        loaded.variant_for_gear(5, 5)
    assert error.value.ret == 145013
    with pytest.raises(OmError, match="takes no inputs of shape"):
        loaded.variant_for_shapes([(1, 3, 5, 5)])


def test_dimensions_of_several_inputs() -> None:
    model = two_inputs()
    loaded = convert(model, input_shapes={"b": (8, -1), "a": (1, -1, 8)}, dynamic_dims=((4, 2), (16, 6)))
    assert loaded.gears == ((4, 2), (16, 6))  # in the order of --input_shape: n, m
    assert loaded.dynamic_dims == ((1, 2, 8, 8, 4), (1, 6, 8, 8, 16))  # every dimension of a, then of b
    assert loaded.variant_for_gear(16, 6) == loaded.variant_for_gear(1, 6, 8, 8, 16) == 1
    assert [p.dims for p in loaded.inputs] == [(1, -1, 8), (8, -1), (2,)]
    for variant, (n, m) in enumerate(loaded.gears):
        close(model, loaded, variant, {"a": randn(1, m, 8), "b": randn(8, n)})


def test_open_shapes_are_compiled_when_they_come() -> None:
    model = image_model()
    loaded = convert(model, input_shapes={"x": (-1, 3, -1, -1)})
    assert (loaded.kind, loaded.gears) == ("shape", ())
    (port,) = loaded.inputs
    assert (port.dims, port.size, port.ranges) == ((-1, 3, -1, -1), 0, ((1, -1), (3, 3), (1, -1), (1, -1)))
    assert [(p.dims, p.size) for p in loaded.outputs] == [((-1, 4, -1, -1), 0), ((-1, 4), 0)]
    weights = loaded.weight_size
    for batch, height, width in ((2, 9, 11), (1, 64, 48), (2, 9, 11)):
        variant = loaded.variant_for_shapes([(batch, 3, height, width)])
        assert loaded.ports(variant)[1][0].dims == (batch, 4, height, width)
        close(model, loaded, variant, {"x": randn(batch, 3, height, width)})
        assert all(t.task_ps for _, t in loaded.operator_timings(load_soc("Ascend310P3"), variant=variant))
        graph, plan = loaded._variants[variant].graph, loaded._variants[variant].plan
        shared = [p for n, p in plan.places.items() if n in graph.constants and p.region == "weight"]
        assert shared and max(p.value + p.nbytes for p in shared) <= weights  # one copy of the weights
    assert len(loaded._variants) == 3  # the example and two shapes
    with pytest.raises(OmError, match=r"has shape \[2, 4, 8, 8\]") as error:
        loaded.variant_for_shapes([(2, 4, 8, 8)])
    assert error.value.ret == 145022


def test_ranges_limit_the_shapes() -> None:
    shapes, ranges = parse_input_shape("x:1~4,3,8~16,-1")
    assert shapes == {"x": (-1, 3, -1, -1)}
    assert ranges == {"x": ((1, 4), (3, 3), (8, 16), (1, -1))}
    shapes, ranges = parse_input_shape("x:1~4,3,8~16,8~32")
    loaded = convert(image_model(), input_shapes=shapes, ranges=ranges)
    assert loaded.inputs[0].size == 4 * 3 * 16 * 32 * 4
    assert [p.size for p in loaded.outputs] == [4 * 4 * 16 * 32 * 4, 4 * 4 * 4]
    with pytest.raises(OmError, match="8~16"):
        loaded.variant_for_shapes([(1, 3, 17, 8)])
    assert loaded.variant_for_shapes([(4, 3, 16, 32)]) > 0


def test_shapes_the_operators_cannot_take_are_an_error() -> None:
    loaded = convert(two_inputs(), input_shapes={"a": (1, -1, 8), "b": (8, -1)})
    assert loaded.variant_for_shapes([(1, 3, 8), (8, 5)]) > 0
    with pytest.raises(OmError, match="has 2 inputs, 1 shapes"):
        loaded.variant_for_shapes([(1, 3, 8)])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"dynamic_batch": (1, 2), "dynamic_image": ((8, 8), (4, 4))}, "E10009"),
        ({"dynamic_image": ((8, 8), (4, 4)), "input_shapes": {"x": (1, 3, 8, 8)}}, "E10040"),
        ({"dynamic_image": ((8, 8), (4, 4)), "input_shapes": {"x": (-1, 3, -1, -1)}}, "E10019"),
        ({"dynamic_batch": (1, 2), "input_shapes": {"x": (-1, 3, -1, 8)}}, "E10018"),
        ({"dynamic_dims": ((1, 2), (3, 4)), "input_shapes": {"x": (-1, 3, 8, 8)}}, "E10045"),
    ],
)
def test_flags_that_do_not_fit(options: dict[str, Any], code: str) -> None:
    with pytest.raises(AtcError, match=code):
        convert(image_model(), **{"input_shapes": {"x": (-1, 3, -1, -1)}, **options})


@pytest.mark.parametrize(
    ("flag", "text", "code"),
    [
        ("dynamic_image_size", "8,8", "E10035"),
        ("dynamic_image_size", "8,8;8", "E10020"),
        ("dynamic_image_size", "8,8;8,8", "E10039"),
        ("dynamic_image_size", "8,8;0,8", "E10038"),
        ("dynamic_dims", "1,2;3", "E10037"),
        ("dynamic_dims", "1,a;3,4", "E10003"),
        ("dynamic_dims", ";".join(f"{i}" for i in range(1, 200)), "E10036"),
    ],
)
def test_bad_gears(tmp_path: Path, flag: str, text: str, code: str) -> None:
    onnx.save(image_model(), tmp_path / "m.onnx")
    out = io.StringIO()
    words = [f"--model={tmp_path}/m.onnx", "--framework=5", f"--output={tmp_path}/m", "--soc_version=Ascend310P3",
             "--input_shape=x:1,3,-1,-1", f"--{flag}={text}"]  # fmt: skip
    assert atc_main(words, out) != 0 and code in out.getvalue()


def test_description_round_trip() -> None:
    port = IoDesc("a", 8, (-1, 2), "ND", "int32", (-1, 2), ((1, 4), (2, 2)))
    for info in (
        InOut((port,), (port,), (1, 2)),
        InOut((port,), (port,), (), ((8, 8), (16, 4)), (), ("0,0,8,8",)),
        InOut((port,), (), (), (), ((1, 2, 3), (4, 5, 6)), (), ("b", "a")),
    ):
        assert read_inout(memoryview(write_inout(info))) == info
