"""atc --singleop and --framework=1: models that come as descriptions of Ascend IR operators."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_models import make_model, randn, reference
from onnx import helper

from ascend_sim.graph.atc import atc_main
from ascend_sim.graph.compile import import_graph
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.om.air import write_air
from ascend_sim.graph.options import CompileOptions

ADD = {
    "op": "Add",
    "input_desc": [{"format": "ND", "shape": [3, 3], "type": "int32"}] * 2,
    "output_desc": [{"format": "ND", "shape": [3, 3], "type": "int32"}],
}


def atc(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    return atc_main(list(words), out), out.getvalue()


def single(tmp_path: Path, described: Any, soc: str = "Ascend310P3") -> tuple[int, str]:
    (tmp_path / "op.json").write_text(described if isinstance(described, str) else json.dumps(described))
    return atc(f"--singleop={tmp_path}/op.json", f"--output={tmp_path}/out", f"--soc_version={soc}")


def test_file_names_are_the_manuals(tmp_path: Path) -> None:
    assert single(tmp_path, [ADD, {**ADD, "name": "mine"}])[0] == 0
    # sequence, operator, then data type, format and shape of inputs and output
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"0_Add_3_2_3_3_3_2_3_3_3_2_3_3.om", "mine.om"}
    loaded = LoadedModel.from_file(tmp_path / "out" / "mine.om")
    a = np.arange(9, dtype=np.int32).reshape(3, 3)
    np.testing.assert_array_equal(loaded.run_values([a, a])[0], 2 * a)


def test_attributes_and_constants(tmp_path: Path) -> None:
    reduce = {
        "op": "ReduceMean",
        "input_desc": [
            {"format": "ND", "shape": [2, 4], "type": "float16"},
            {"format": "ND", "shape": [1], "type": "int64", "is_const": True, "const_value": [1]},
        ],
        "output_desc": [{"format": "ND", "shape": [2, 1], "type": "float16"}],
        "attr": [{"name": "keep_dims", "type": "bool", "value": True}],
    }
    cast = {
        "op": "Cast",
        "name": "cast",
        "input_desc": [{"format": "ND", "shape": [4], "type": "fp16"}],
        "output_desc": [{"format": "ND", "shape": [4], "type": "float"}],
        "attr": [{"name": "dst_type", "type": "data_type", "value": "DT_FLOAT"}],
    }
    assert single(tmp_path, [{**reduce, "name": "mean"}, cast])[0] == 0
    mean = LoadedModel.from_file(tmp_path / "out" / "mean.om")
    assert [p.dims for p in mean.inputs] == [(2, 4)]
    x = np.arange(8, dtype=np.float16).reshape(2, 4)
    np.testing.assert_array_equal(mean.run_values([x])[0], x.mean(axis=1, keepdims=True))
    assert LoadedModel.from_file(tmp_path / "out" / "cast.om").outputs[0].dtype == "float32"


@pytest.mark.parametrize(
    ("described", "code"),
    [
        ("no json", "E10025"),
        ("3", "E10025"),
        ([{**ADD, "op": ""}], "E10026"),
        ([{**ADD, "op": "Ad"}], "E10501"),
        ([{**ADD, "input_desc": [{"format": "ND", "shape": [3, 3], "type": "int33"}] * 2}], "E10027"),
        ([{**ADD, "input_desc": [{"format": "XX", "shape": [3, 3], "type": "int32"}] * 2}], "E10027"),
        ([{**ADD, "input_desc": [{"format": "ND", "shape": [-1, 3], "type": "int32"}] * 2}], "E10027"),
        ([{**ADD, "output_desc": [{"format": "ND", "shape": [3, 4], "type": "int32"}]}], "E10027"),
        ([{**ADD, "attr": [{"type": "int", "value": 1}]}], "E10029"),
        ([{**ADD, "attr": [{"name": "a", "type": "int", "value": "x"}]}], "E10030"),
        ([{**ADD, "attr": [{"name": "a", "type": "list_int", "value": 3}]}], "E10030"),
    ],
)
def test_bad_descriptions(tmp_path: Path, described: Any, code: str) -> None:
    status, text = single(tmp_path, described)
    assert status != 0 and code in text and "E19999" not in text


def test_missing_description(tmp_path: Path) -> None:
    status, text = atc("--singleop=/nonexistent.json", f"--output={tmp_path}", "--soc_version=Ascend310P3")
    assert status != 0 and "E10023" in text


def network() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["y"], name="flat"),
    ]
    return make_model(nodes, {"x": randn(1, 3, 8, 8)}, ["y"], {"w": randn(4, 3, 3, 3, seed=1)})


def test_air_models_are_converted(tmp_path: Path) -> None:
    model = network()
    (tmp_path / "m.air").write_bytes(write_air(import_graph(model.SerializeToString(), CompileOptions())))
    words = [f"--model={tmp_path}/m.air", "--framework=1", f"--output={tmp_path}/m", "--soc_version=Ascend310P3"]
    code, text = atc(*words)
    assert code == 0, text
    loaded = LoadedModel.from_file(tmp_path / "m.om")
    assert next(c.call.type for c in loaded.calls if c.call.type not in ("Cast", "TransData")) == "Conv2D"
    x = randn(1, 3, 8, 8)
    np.testing.assert_allclose(loaded.run_values([x])[0], reference(model, {"x": x})[0], atol=2e-2)
    assert "E10016" in atc(*words, "--input_shape=z:1,3,8,8")[1]
    assert "E10050" in atc(*words, "--input_shape=x:2,3,8,8")[1]


@pytest.mark.parametrize("content", [b"", b"hello", bytes(300), b"\x0a\x03abc"])
def test_other_files_as_air(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.air").write_bytes(content)
    words = [f"--model={tmp_path}/m.air", "--framework=1", f"--output={tmp_path}/m", "--soc_version=Ascend310P3"]
    status, text = atc(*words)
    assert status != 0 and ("E13005" in text or "E16004" in text)
