"""The atc command line: what it prints and returns."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graph_models import make_model, randn, reference
from onnx import helper

from ascend_sim.graph.atc import atc_main
from ascend_sim.graph.executor import LoadedModel


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"),
        helper.make_node("Relu", ["h"], ["y"], name="act"),
    ]
    built = make_model(nodes, {"x": randn(2, 8)}, ["y"], {"w": randn(8, 4, seed=1)})
    built.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(built, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def atc(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    return atc_main(list(words), out), out.getvalue()


def base(model_path: Path, **flags: str) -> list[str]:
    given = {
        "model": str(model_path),
        "framework": "5",
        "output": str(model_path.parent / "m"),
        "soc_version": "Ascend310P3",
        "input_shape": "x:2,8",
        **flags,
    }
    return [f"--{k}={v}" for k, v in given.items() if v != "-"]


def test_success(model: Path) -> None:
    code, text = atc(*base(model))
    assert code == 0
    assert text.splitlines() == [
        "ATC start working now, please wait for a moment.",
        "...",
        "ATC run success, welcome to the next use.",
    ]
    loaded = LoadedModel.from_file(model.parent / "m.om")
    assert (loaded.name, loaded.soc_version) == ("m", "Ascend310P3")
    assert loaded.outputs[0].name == "act:0:y"


def test_unknown_flags_are_named_on_stderr(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = atc("--input_shap=x:2,8", *base(model))
    assert code != 0 and "Did you mean --input_shape?" in text
    assert capsys.readouterr().err == "ERROR: unknown command line flag '--input_shap'\n"


def test_families_of_chips_are_said(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, chip in (("Ascend310P", "Ascend310P3"), ("910B", "Ascend910B2"), ("Ascend910B", "Ascend910B")):
        assert atc(*base(model, soc_version=name))[0] == 0
        notice = capsys.readouterr().err
        assert LoadedModel.from_file(model.parent / "m.om").soc_version == chip
        assert ("Ascend910B1 to Ascend910B4" if name == "Ascend910B" else f"simulating {chip}") in notice
    assert atc(*base(model))[0] == 0
    assert capsys.readouterr().err == ""  # an exact name, not a terminal


def test_flags_that_change_nothing_are_taken(model: Path) -> None:
    words = ["--weight=w.caffemodel", "--enable-compress-weight=true", "--compress_weight_conf=c.cfg",
             "--buffer_optimize=off_optimize", "--core_type=AiCore", "--oo_level=O1", "--op_debug_level=2"]  # fmt: skip
    assert atc(*base(model), *words)[0] == 0


def test_check_only(model: Path) -> None:
    report = model.parent / "check.json"
    assert atc(*base(model, output="-", mode="3", check_report=str(report)))[0] == 0
    assert json.loads(report.read_text())["result"] == "success" and not (model.parent / "m.om").exists()
    assert atc(*base(model, output="-", mode="3", check_report=str(report), input_shape="x:2,9"))[0] != 0
    assert "E10050" in json.loads(report.read_text())["reason"]


def test_information_is_printed_when_asked_for(model: Path) -> None:
    text = atc(*base(model, display_model_info="1"))[1]
    lines = text.splitlines()
    assert lines[1] == "============ Display Model Info start ============" and lines[-2] == "..."
    assert lines[2].startswith("Original Atc command line: atc --model=")
    assert lines[3].startswith("system   info: atc_version[sim ") and "soc_version[Ascend310P3]" in lines[3]
    assert lines[4].startswith("resource info: memory_size[") and lines[4].endswith("event_num[0].")
    assert lines[5].startswith("om       info: modeldef_size[") and lines[5].endswith("so_store_size[0 B].")


def test_model_to_json(model: Path) -> None:
    target = model.parent / "m.json"
    assert atc("--mode=1", f"--om={model}", "--framework=5", f"--json={target}")[0] == 0
    graph = json.loads(target.read_text())["graph"]
    assert [node["op_type"] for node in graph["node"]] == ["MatMul", "Relu"]


def test_every_tensor_has_its_own_memory_when_asked_for(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"t{i}", "w"], [f"t{i + 1}"]) for i in range(6)]
    onnx.save(make_model(nodes, {"x": randn(16, 16)}, ["t6"], {"w": randn(16, 16)}), tmp_path / "m.onnx")
    sizes = []
    for reuse in ("0", "1"):
        assert atc(*base(tmp_path / "m.onnx", input_shape="-", disable_reuse_memory=reuse))[0] == 0
        sizes.append(LoadedModel.from_file(tmp_path / "m.om").work_size)
    assert sizes[1] > sizes[0]


def test_operators_that_keep_their_type(model: Path) -> None:
    keep = model.parent / "keep.txt"
    keep.write_text("fc\n")
    assert atc(*base(model, soc_version="Ascend910B4", keep_dtype=str(keep)))[0] == 0
    loaded = LoadedModel.from_file(model.parent / "m.om")
    (call,) = [c.call for c in loaded.calls if c.call.type == "MatMulV2"]
    assert call.inputs[0] is not None and call.inputs[0].dtype == "float32"


def test_hardware_layout_at_the_boundary(tmp_path: Path) -> None:
    """One network's NC1HWC0 result goes into the next without a change of format."""
    from ascend_sim.isa.layout import nchw_to_nc1hwc0

    w = randn(20, 16, 3, 3, seed=1) * 0.1
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], name="conv")
    built = make_model([conv], {"x": randn(1, 16, 6, 6)}, ["y"], {"w": w})
    onnx.save(built, tmp_path / "m.onnx")
    flags = {"input_shape": "-", "input_fp16_nodes": "x", "is_input_adjust_hw_layout": "true", "out_nodes": "conv:0",
             "is_output_adjust_hw_layout": "true"}  # fmt: skip
    assert atc(*base(tmp_path / "m.onnx", **flags))[0] == 0
    loaded = LoadedModel.from_file(tmp_path / "m.om")
    ports = [(p.dims, p.format, p.dtype) for p in (*loaded.inputs, *loaded.outputs)]
    assert ports == [((1, 1, 6, 6, 16), "NC1HWC0", "float16"), ((1, 2, 6, 6, 16), "NC1HWC0", "float16")]
    assert [c.call.type for c in loaded.calls] == ["Conv2D"]
    x = randn(1, 16, 6, 6).astype(np.float16)
    (got,) = loaded.run_values([nchw_to_nc1hwc0(x, 16)])
    plain = reference(built, {"x": x.astype(np.float32)})[0]
    np.testing.assert_allclose(got, nchw_to_nc1hwc0(plain, 16), atol=1e-2)
    assert "E10001" in atc(*base(tmp_path / "m.onnx", **{**flags, "is_input_adjust_hw_layout": "true,true"}))[1]
    assert "E10005" in atc(*base(tmp_path / "m.onnx", **{**flags, "is_input_adjust_hw_layout": "yes"}))[1]


def test_bfloat16(model: Path) -> None:
    words = base(model, soc_version="Ascend910B4", precision_mode="allow_mix_precision_bf16")
    assert atc(*words)[0] == 0
    loaded = LoadedModel.from_file(model.parent / "m.om")
    (call,) = [c.call for c in loaded.calls if c.call.type == "MatMulV2"]
    assert call.inputs[0] is not None and call.inputs[0].dtype == "bfloat16"
    x = randn(2, 8)
    np.testing.assert_allclose(loaded.run_values([x])[0], np.maximum(x @ randn(8, 4, seed=1), 0), atol=6e-2)


def test_progress_is_a_bar_on_a_terminal_and_silent_in_a_pipe(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        assert atc(*base(model))[0] == 0
        shown = [part.removeprefix("\x1b[K") for part in stream.getvalue().split("\r")]
        assert (len(shown) > 10) == stream.isatty()
        if stream.isatty():
            assert shown[1].startswith("[------------------------]   0%") and shown[-1] == ""
            assert max(int(part.split("]")[1].split("%")[0]) for part in shown[1:-1]) > 90


def test_other_spellings(model: Path) -> None:
    words = base(model)
    single = [w.replace("--", "-", 1) for w in words[:2]]
    spaced = [part for w in words[2:] for part in w.split("=", 1)]
    assert atc(*single, *spaced)[0] == 0


def test_output_may_end_in_om_and_name_new_folders(model: Path) -> None:
    target = model.parent / "a" / "b" / "n.om"
    assert atc(*base(model, output=str(target)))[0] == 0 and target.exists()


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ({"soc_version": "Ascend311"}, ["E10001", "Ascend311", "Ascend310"]),
        ({"soc_version": "-"}, ["E10054", "--soc_version is required"]),
        ({"framework": "-"}, ["E10007", "--framework"]),
        ({"framework": "0"}, ["E10008", "Caffe", "ONNX"]),
        ({"framework": "0", "weight": "w.caffemodel"}, ["E10001", "Caffe", "ONNX"]),
        ({"framework": "3"}, ["E10001", "TensorFlow", "tf2onnx"]),
        ({"input_format": "NHWC"}, ["E10001", "NCHW, ND, NCDHW", "ND"]),
        ({"enable_attr_compression": "maybe"}, ["E10005", "true or false"]),
        ({"disable_reuse_memory": "2"}, ["E10006", "1 or 0"]),
        ({"jit_compile": "7"}, ["E10001", "0, 1, 2"]),
        ({"auto_tune_mode": "RL"}, ["E10001", "automatic tuning"]),
        ({"precision_mode_v2": "cube_hif8"}, ["E10001", "Ascend950"]),
        ({"precision_mode": "allow_fp32_to_bf16"}, ["E10001", "no bfloat16"]),
        ({"keep_dtype": "/nonexistent/keep.txt"}, ["E10410", "keep.txt"]),
        ({"op_select_implmode": "high_precision_for_all", "optypelist_for_implmode": "Exp"}, ["E10001", "_for_all"]),
        ({"input_shape_range": "x:[1~2,8]"}, ["E10001", "--input_shape"]),
        ({"output": "/tmp/"}, ["E10022", "directory"]),
        ({"output": "a" * 5000}, ["E10021", "4096"]),
        ({"mode": "1", "om": "a.om"}, ["E10004", "--json"]),
        ({"singleop": "x.json"}, ["E10001", "--framework"]),
        ({"precision_mode": "force_fp32", "precision_mode_v2": "fp16"}, ["E10047", "--precision_mode_v2"]),
        ({"input_shape": "x:2,8;x:3,8"}, ["E10002", "'x' twice"]),
        ({"mode": "6", "om": "missing.om"}, ["E10410", "missing.om"]),
        ({"framework": "9"}, ["E10007", "--framework=9"]),
        ({"output": "-"}, ["E10054", "--output"]),
        ({"model": "/nonexistent.onnx"}, ["E10410", "/nonexistent.onnx"]),
        ({"input_shape": "-"}, ["E10001", "'x'", "--input_shape"]),
        ({"input_shape": "x;2"}, ["E10002", "x"]),
        ({"input_shape": "x:a,b"}, ["E10002", "a,b"]),
        ({"input_shape": "x:0,8"}, ["E10011"]),
        ({"input_shape": "x:-2,8"}, ["E10011", "-2"]),
        ({"input_shape": "x:4~2,8"}, ["E10002", "4~2"]),
        ({"input_shape": "x:2,-1", "insert_op_conf": "-"}, ["E10050", "8"]),
        ({"input_shape": "z:2,8"}, ["E10016", "z", "x"]),
        ({"input_shap": "x:2,8"}, ["E10001", "--input_shap", "--input_shape"]),
        ({"precision_mode": "force_fp17"}, ["E10001", "force_fp16"]),
        ({"output_type": "FP99"}, ["E10001", "FP99"]),
        ({"out_nodes": "ghost:0"}, ["E11017", "ghost:0"]),
        ({"input_fp16_nodes": "ghost"}, ["E10016", "ghost"]),
        ({"log": "loud"}, ["E10010", "loud"]),
        ({"mode": "7"}, ["E10001", "--mode=7"]),
        ({"mode": "2"}, ["E10001", "--mode=2"]),
        ({"insert_op_conf": "/nonexistent/aipp.cfg"}, ["E10410", "aipp.cfg"]),
    ],
)
def test_errors(model: Path, flags: dict[str, str], parts: list[str]) -> None:
    code, text = atc(*base(model, **flags))
    assert code != 0
    lines = text.splitlines()
    assert lines[0].startswith("ATC start")
    assert lines[1 if lines[1] != "..." else 2].startswith("ATC run failed, Please check the detail log")
    assert all(part in text for part in parts), text
    assert "Traceback" not in text


def test_stray_word_and_missing_value(model: Path) -> None:
    assert "stray" in atc("stray", *base(model))[1]
    assert "E10004" in atc(*base(model), "--log")[1]


def test_help() -> None:
    code, text = atc("--help")
    assert code == 0 and "--soc_version" in text


def test_out_nodes_cut_the_graph(model: Path) -> None:
    assert atc(*base(model, out_nodes="fc:0"))[0] == 0
    loaded = LoadedModel.from_file(model.parent / "m.om")
    x = randn(2, 8)
    np.testing.assert_allclose(loaded.run_values([x])[0], x @ randn(8, 4, seed=1), atol=2e-2)
    assert loaded.outputs[0].name == "fc:0:fc:0"
    assert atc(*base(model, out_nodes="h"))[0] == 0  # an ONNX tensor name


def test_output_type_and_fp16_input(model: Path) -> None:
    assert atc(*base(model, output_type="FP16", input_fp16_nodes="x"))[0] == 0
    loaded = LoadedModel.from_file(model.parent / "m.om")
    assert (loaded.inputs[0].dtype, loaded.inputs[0].size) == ("float16", 32)
    assert (loaded.outputs[0].dtype, loaded.outputs[0].size) == ("float16", 16)


def test_json_and_info(model: Path, tmp_path: Path) -> None:
    assert atc(*base(model))[0] == 0
    om, target = model.parent / "m.om", tmp_path / "m.json"
    assert atc("--mode=1", f"--om={om}", f"--json={target}")[0] == 0
    graph: Any = json.loads(target.read_text())["graph"][0]
    assert [op["type"] for op in graph["op"] if op["type"] not in ("Cast", "Const", "TransData")] == [
        "Data",
        "MatMulV2",
        "NetOutput",
    ]
    assert graph["op"][0]["output_desc"][0]["dtype"] == "DT_FLOAT"
    code, text = atc("--mode=6", f"--om={om}")
    assert code == 0 and "soc_version[Ascend310P3]" in text and "weight_data_size[" in text
    code, text = atc("--mode=6", f"--om={model}")
    assert code != 0 and "E10001" in text and "model header" in text


def test_dynamic_batch(model: Path) -> None:
    words = base(model, input_shape="x:-1,8", dynamic_batch_size="4,1,2")
    assert atc(*words)[0] == 0
    loaded = LoadedModel.from_file(model.parent / "m.om")
    assert loaded.dynamic_batch == (1, 2, 4)
    assert [(d.name, d.dims, d.size) for d in loaded.inputs] == [
        ("x", (-1, 8), 128),
        ("ascend_mbatch_shape_data", (1,), 4),
    ]
    assert (loaded.outputs[0].dims, loaded.outputs[0].size) == ((-1, 4), 64)
    x = randn(4, 8)
    for variant, batch in enumerate(loaded.dynamic_batch):
        (got,) = loaded.run_values([x[:batch], np.asarray([batch], np.int32)], variant)
        np.testing.assert_allclose(got, np.maximum(x[:batch] @ randn(8, 4, seed=1), 0), atol=2e-2)
    fixed = base(model, output=str(model.parent / "f"), input_shape="x:4,8")
    assert atc(*fixed)[0] == 0
    assert LoadedModel.from_file(model.parent / "f.om").weight_size <= loaded.weight_size  # weights are shared
    assert loaded.weight_size < 2 * 1024 + 3 * 512


@pytest.mark.parametrize(
    ("sizes", "code"),
    [
        ("1", "E10035"),
        ("1,1", "E10039"),
        ("0,1", "E10038"),
        ("a,b", "E10003"),
        (",".join(map(str, range(1, 200))), "E10036"),
    ],
)
def test_dynamic_batch_errors(model: Path, sizes: str, code: str) -> None:
    status, text = atc(*base(model, input_shape="x:-1,8", dynamic_batch_size=sizes))
    assert status != 0 and code in text


def test_dynamic_batch_needs_an_open_batch(model: Path) -> None:
    assert "E10040" in atc(*base(model, dynamic_batch_size="1,2"))[1]
    assert "E10018" in atc(*base(model, input_shape="x:2,-1", dynamic_batch_size="1,2"))[1]


@pytest.mark.parametrize("flag", ["fusion_switch_file", "insert_op_conf", "model"])
@pytest.mark.parametrize("content", [b"hello world\n", bytes(range(256))])
def test_other_files_in_place_of_a_flags_file(model: Path, flag: str, content: bytes) -> None:
    wrong = model.parent / "wrong"
    wrong.write_bytes(content)
    code, text = atc(*base(model, **{flag: str(wrong)}))
    assert code == 1 and "wrong" in text and "E1" in text and "E19999" not in text
