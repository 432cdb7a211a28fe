"""A mistake or an interruption on the command line gives a line that names the cause, not a traceback of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ascend_sim.cli.main import main
from ascend_sim.graph.single_op import build_call

MATRICES = ("--input", "64x64:float16", "--input", "64x64:float16")


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8])

    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(tmp_path / "relu.onnx"))
    return tmp_path / "relu.onnx"


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def test_a_type_the_chip_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--input", "64x64:bfloat16", "--input", "64x64:bfloat16")
    assert "bfloat16, which Ascend310 does not have" in refused(capsys, "op", "MatMulV2", "--soc", "Ascend310", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--input", "64x64:float16:NCWH", "--input", "64x64:float16"), "NCWH"),
        (("--input", "8x8:float16:NC1HWC0", "--input", "8x8:float16"), "NC1HWC0 of 8x8"),
        ((*MATRICES, "--attr", "transpose_x1=yes"), "transpose_x1=yes"),
        (("--input", "1000000x1000000:float16", "--input", "1000000x8:float16"), "GiB"),
    ],
)
def test_an_operator_that_cannot_be(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, "op", "MatMulV2", *words)


def test_an_attribute_nobody_reads_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["op", "MatMulV2", *MATRICES, "--attr", "transpose_x1=True", "--attr", "transpose_x3=true"]) == 0
    error = capsys.readouterr().err
    assert "transpose_x3" in error and "transpose_x1" not in error


def test_an_attribute_of_the_kernel_is_not_noted(capsys: pytest.CaptureFixture[str]) -> None:
    window = ("--attr", "ksize=[1,1,2,2]", "--attr", "strides=[1,1,2,2]", "--attr", "exclusive=false")
    assert main(["op", "AvgPoolV2", "--input", "1x16x8x8:float16:NC1HWC0", *window]) == 0
    assert "note" not in capsys.readouterr().err


def test_blocked_formats_take_logical_shapes() -> None:
    attrs = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1)}
    call = build_call("Conv2D", ["8x60x56x56:float16:NC1HWC0", "48x60x3x3:float16:FRACTAL_Z"], attrs)
    assert [s.shape for s in (*call.inputs, *call.outputs) if s] == [
        (8, 4, 56, 56, 16), (36, 3, 16, 16), (8, 3, 56, 56, 16)
    ]  # fmt: skip
    assert call.outputs[0].logical_shape == (8, 48, 56, 56)
    call = build_call("MatMulV2", ["100x64:float16:FRACTAL_NZ", "64x32:float16:FRACTAL_NZ"], {})
    assert call.outputs[0].shape == (2, 7, 16, 16) and call.outputs[0].logical_shape == (100, 32)


def test_a_batch_the_model_does_not_have(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "4x8" in refused(capsys, "model", str(relu), "--batch", "8")
    assert main(["model", str(relu)]) == 0
    assert "batch 4" in capsys.readouterr().out


def test_text_instead_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.onnx").write_text("hello world\n" * 50)
    assert "E13005" in refused(capsys, "model", str(tmp_path / "text.onnx"))
    assert "E13001" in refused(capsys, "model", str(tmp_path))


def test_a_profile_folder_that_cannot_be(relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "app.py"
    app.write_text("print('ran')")
    assert main(["run", "--profile", str(relu), str(app)]) == 2
    streams = capsys.readouterr()
    assert str(relu) in streams.err and "ran" not in streams.out


def test_a_config_path_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ASCEND_SIM_CONFIG_PATH", "/no/such/folder")
    assert "/no/such/folder" in refused(capsys, "configs")


def test_an_output_that_cannot_be_written(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = relu.parent / "nothing.py"
    program.write_text("")
    assert "/no/such/t.json" in refused(capsys, "kernel", "--trace", "/no/such/t.json", str(program))


def test_a_module_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no_such_module" in refused(capsys, "run", "-m", "no_such_module")


def test_a_failing_program_shows_its_own_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "app.py"
    app.write_text("def broken():\n    raise RuntimeError('as written')\n\nbroken()\n")
    assert main(["run", str(app)]) == 1
    error = capsys.readouterr().err
    assert "as written" in error and "in broken" in error and "runpy" not in error


def test_a_failing_program_that_shows_only_the_code(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import acl, sys\nacl.init(); acl.rt.set_device(0)\nsys.exit(acl.mdl.load_from_file('no.om')[1] % 256)\n"
    )
    command = [sys.executable, "-m", "ascend_sim.cli.main", "run", str(app)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 145002 % 256 and "'no.om' does not exist" in result.stderr
    environment = {**os.environ, "ASCEND_SLOG_PRINT_TO_STDOUT": "1"}
    result = subprocess.run([sys.executable, str(app)], capture_output=True, text=True, check=False, env=environment)
    assert result.stdout.startswith("[ERROR]") and "'no.om' does not exist" in result.stdout


def test_interrupted_program(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    handler = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in background
    app.write_text(handler + "print('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "ascend_sim.cli.main", "run", str(app)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130 and "runpy" not in error


def test_a_reader_that_has_gone() -> None:
    command = f"{sys.executable} -m ascend_sim.cli.main configs Ascend910B4 | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("figure") and not result.stderr
