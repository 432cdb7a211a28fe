"""acl.json, environment variables, logs, dumps."""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acl_models import BATCH, expected, mlp
from acl_program import Program

import acl
from acl import _sim
from ascend_sim.graph.om.wire import decode
from ascend_sim.runtime import system as machine

Fails = Callable[..., str]


def config(folder: Path, content: Any) -> str:
    path = folder / "acl.json"
    path.write_text(json.dumps(content))
    return str(path)


# -- acl.json ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ({"max_opqueue_num": "0"}, 148048, "max_opqueue_num is '0'"),
        ({"err_msg_mode": "2"}, 100000, "err_msg_mode"),
        ({"defaultDevice": {"default_device": "9"}}, 100000, "default_device is '9'"),
        ({"StackSize": {"aicore_stack_size": "x"}}, 100000, "aicore_stack_size"),
        ({"event_mode": 5}, 100000, "event_mode is 5"),
        ({"dump": {"dump_path": "/nowhere", "dump_list": [{}]}}, 100009, "dump_path is '/nowhere'"),
        ({"dump": {"dump_mode": "both"}}, 100009, "input, output, all"),
        ({"dump": {"dump_debug": "on", "dump_op_switch": "on"}}, 100009, "does not go with"),
        ({"profiler": {"switch": "yes"}}, 100010, "profiler switch is 'yes'"),
        ({"profiler": {"switch": "on", "aic_metrics": "All"}}, 100010, "PipeUtilization"),
    ],
)
def test_wrong_values(tmp_path: Path, fails: Fails, content: Any, code: int, words: str) -> None:
    fails(acl.init(config(tmp_path, content)), code, words)
    assert acl.init() == 0  # nothing was left behind


def test_a_default_device_serves_threads_that_chose_none(tmp_path: Path) -> None:
    assert acl.init(config(tmp_path, {"defaultDevice": {"default_device": "1"}})) == 0
    found: list[Any] = []

    def run() -> None:
        found.append(acl.rt.get_device())
        found.append(acl.rt.malloc(64, 0)[1])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(1, 0), 0]
    assert acl.rt.set_device(0) == 0 and acl.rt.get_device() == (0, 0)


def test_a_profiler_section_writes_at_finalize(tmp_path: Path) -> None:
    section = {"switch": "on", "output": str(tmp_path / "prof"), "aicpu": "on", "aic_metrics": "PipeUtilization"}
    assert acl.init(config(tmp_path, {"profiler": section})) == 0
    assert acl.rt.set_device(0) == 0
    program = Program()
    source, n = program.upload(np.ones(64, np.float16))
    desc, buffers = [acl.create_tensor_desc(1, [64], 2)], [acl.create_data_buffer(source, n)]
    assert acl.op.execute_v2("Relu", desc, buffers, desc, buffers, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert acl.finalize() == 0
    (folder,) = (tmp_path / "prof").glob("PROF_*")
    assert "Relu" in (folder / "op_summary.csv").read_text()


# -- environment -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "devices"), [("1", [1]), ("0,1", [0, 1]), ("1, 0", [1]), ("1,7,0", [1]), ("x", []), ("", [])]
)
def test_visible_devices(monkeypatch: pytest.MonkeyPatch, fails: Fails, value: str, devices: list[int]) -> None:
    """docs/zh/env_vars: what comes before the first wrong entry."""
    _sim.reset()
    machine.configure(soc="Ascend910B2", devices=2)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", value)
    assert acl.rt.get_device_count() == (len(devices), 0)
    for user, logic in enumerate(devices):
        assert acl.rt.set_device(user) == 0
        assert acl.rt.get_logic_dev_id_by_user_dev_id(user) == (logic, 0)
        assert acl.rt.get_user_dev_id_by_logic_dev_id(logic) == (user, 0)
    fails(acl.rt.set_device(len(devices)), 107001, "ASCEND_RT_VISIBLE_DEVICES")


def test_logs_have_the_layout_of_plog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/zh/log_ref: [Level] ModuleName(PID,PName):DateTimeMS [FileName:LineNumber]LogContent."""
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path))
    acl.init()
    acl.rt.set_device(99)
    acl.app_log(3, "the program says so")
    acl.app_log(1, "not at this level")
    monkeypatch.setenv("ASCEND_MODULE_LOG_LEVEL", "APP=1:GE=3")
    acl.app_log(1, "at this one")
    (path,) = (tmp_path / "debug" / "plog").iterdir()
    assert re.fullmatch(rf"plog-{os.getpid()}_\d{{17}}\.log", path.name)
    lines = path.read_text().splitlines()
    shape = re.compile(
        rf"\[(DEBUG|INFO|WARNING|ERROR)\] \w+\({os.getpid()},[^)]*\):\d{{4}}-\d\d-\d\d-\d\d:\d\d:\d\d"
        r"\.\d{3}\.\d{3} \[[\w.-]+:\d+\]\d+ .+"
    )
    assert all(shape.fullmatch(line) for line in lines), lines
    assert "107001" in lines[0] and "ASCENDCL" in lines[0]
    assert "the program says so" in lines[1] and "[test_acl_config.py:" in lines[1]
    assert len(lines) == 3 and "at this one" in lines[2]
    (run,) = (tmp_path / "run" / "plog").iterdir()
    assert "acl.init" in run.read_text()


def test_logs_on_the_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    acl.rt.set_device(99)
    assert "[ERROR] ASCENDCL(" in capsys.readouterr().out
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "4")
    acl.rt.set_device(99)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("ASCEND_LOG_PRINT_TO_STDOUT", "0")  # the newer one decides
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "0")
    acl.rt.set_device(99)
    assert capsys.readouterr().out == ""


# -- dumps -------------------------------------------------------------------------------------------------


def read_dump(data: bytes) -> tuple[dict[str, Any], bytes]:
    from acl._dump_file import _TABLES as tables

    (length,) = struct.unpack_from("<Q", data)
    header = decode("DumpData", data[8 : 8 + length], tables)
    return header, data[8 + length :]


class Model:
    def __init__(self, program: Program) -> None:
        data = mlp()
        self.id, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
        assert ret == 0
        self.x = np.random.default_rng(1).standard_normal((BATCH, 32)).astype(np.float32)
        source, n = program.upload(self.x)
        self.target = program.empty(BATCH * 40)
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        acl.mdl.add_dataset_buffer(self.inputs, acl.create_data_buffer(source, n))
        acl.mdl.add_dataset_buffer(self.outputs, acl.create_data_buffer(self.target, BATCH * 40))

    def execute(self) -> None:
        assert acl.mdl.execute(self.id, self.inputs, self.outputs) == 0


def test_the_operators_of_a_model_are_dumped(program: Program, tmp_path: Path, fails: Fails) -> None:
    fails(acl.mdl.set_dump("x.json"), 100001, "acl.mdl.init_dump")
    fails(acl.mdl.finalize_dump(), 100001)
    before = Model(program)
    assert acl.mdl.init_dump() == 0
    fails(acl.mdl.init_dump(), 100002)
    fails(acl.mdl.set_dump(str(tmp_path / "none.json")), 100003)
    section = {"dump_list": [{"model_name": "model"}], "dump_path": str(tmp_path), "dump_mode": "all"}
    assert acl.mdl.set_dump(config(tmp_path, {"dump": section})) == 0
    model = Model(program)
    model.execute()
    before.execute()  # loaded before: not dumped
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.name != "acl.json")
    assert files and all(p.parent.name == "0" and p.parent.parent.name == str(model.id) for p in files)
    last = next(p for p in files if "fc2" in p.name)
    kind, name, task, stream, us = last.name.split(".")
    assert kind.startswith("MatMul") and name == "fc2" and task.isdigit() and stream.isdigit() and us.isdigit()
    header, raw = read_dump(last.read_bytes())
    sizes = [t["size"] for t in (*header["input"], *header["output"])]
    assert sum(sizes) == len(raw) and header["op_name"] == "fc2"
    out = header["output"][0]
    assert out["shape"]["dim"] == [BATCH, 10]
    values = np.frombuffer(raw[-out["size"] :], {1: np.float32, 2: np.float16}[out["data_type"]]).reshape(BATCH, 10)
    assert np.allclose(values, expected(model.x), atol=0.02)
    assert acl.mdl.finalize_dump() == 0


def test_a_callback_gets_dumps_instead_of_files(program: Program, tmp_path: Path) -> None:
    got: list[tuple[str, bytes, int]] = []

    def take(chunk: dict[str, Any]) -> int:
        got.append((chunk["file_name"], ctypes.string_at(chunk["data_buf"], chunk["buf_len"]), chunk["is_last_chunk"]))
        return 0

    assert acl.mdl.init_dump() == 0
    assert acl.mdl.dump_reg_callback(take, 0) == 0
    assert acl.mdl.dump_reg_callback(take, 1) == 100000
    Model(program).execute()
    assert got and all(last == 1 for _, _, last in got)
    assert any("fc1" in name for name, _, _ in got) and read_dump(got[0][1])[0]["op_name"]
    acl.mdl.dump_unreg_callback()
    assert acl.mdl.finalize_dump() == 0


def test_single_operators_and_statistics_are_dumped(tmp_path: Path) -> None:
    section = {"dump_path": str(tmp_path), "dump_op_switch": "on", "dump_data": "stats", "dump_list": []}
    assert acl.init(config(tmp_path, {"dump": section})) == 0
    assert acl.mdl.init_dump() == 100002  # acl.json has a dump section
    assert acl.rt.set_device(0) == 0
    program = Program()
    source, n = program.upload(np.arange(16, dtype=np.float32) - 8)
    desc, buffers = [acl.create_tensor_desc(0, [16], 2)], [acl.create_data_buffer(source, n)]
    out = [acl.create_data_buffer(program.empty(n), n)]
    assert acl.op.execute_v2("Relu", desc, buffers, desc, out, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    (path,) = tmp_path.rglob("*.csv")
    header, line = path.read_text().splitlines()
    figures = dict(zip(header.split(","), line.split(","), strict=True))
    assert figures["Input/Output"] == "Output" and figures["Max Value"] == "7" and figures["Shape"] == "16"
    assert float(figures["Avg Value"]) == pytest.approx(28 / 16)


def test_an_operator_that_fails_is_dumped(tmp_path: Path) -> None:
    section = {"dump_path": str(tmp_path), "dump_scene": "lite_exception"}
    assert acl.init(config(tmp_path, {"dump": section})) == 0
    assert acl.rt.set_device(0) == 0
    program = Program()
    x = np.arange(16, dtype=np.float32)
    kept, n = program.upload(x)
    lost, _ = program.upload(x)
    descs = [acl.create_tensor_desc(0, [16], 2)] * 3
    buffers = [acl.create_data_buffer(a, n) for a in (kept, lost, program.empty(n))]
    stream = program.stream()
    assert acl.op.execute_v2("Add", descs[:2], buffers[:2], descs[2:], buffers[2:], 0, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0 and not list(tmp_path.rglob("Add.*"))
    assert acl.op.execute_v2("Add", descs[:2], buffers[:2], descs[2:], buffers[2:], 0, stream) == 0
    acl.rt.free(lost)
    assert acl.rt.synchronize_stream(stream) == 507015
    (path,) = (tmp_path / "extra-info" / "data-dump" / "0").iterdir()
    header, raw = read_dump(path.read_bytes())
    assert path.name.startswith("Add.Add.") and len(header["input"]) == len(header["output"]) == 1
    assert np.array_equal(np.frombuffer(raw[:n], np.float32), x)


def test_arguments_of_operators_are_collected(program: Program, tmp_path: Path, fails: Fails) -> None:
    fails(acl.op.stop_dump_args(1), 100045, "start_dump_args")
    fails(acl.op.start_dump_args(2, str(tmp_path)), 100000, "dump_type is 2")
    assert acl.op.start_dump_args(1, str(tmp_path / "args")) == 0
    fails(acl.op.start_dump_args(1, str(tmp_path / "args")), 100044)
    source, n = program.upload(np.ones(16, np.float32))
    desc, buffers = [acl.create_tensor_desc(0, [16], 2)], [acl.create_data_buffer(source, n)]
    for _ in range(3):
        assert acl.op.execute_v2("Relu", desc, buffers, desc, buffers, 0, 0) == 0
    assert acl.op.stop_dump_args(1) == 0
    (path,) = (tmp_path / "args").iterdir()
    content = json.loads(path.read_text())
    assert content["op"] == "Relu" and content["count"] == 3 and content["inputs"][0]["shape"] == [16]


# -- operator models ---------------------------------------------------------------------------------------


def add_models(folder: Path) -> Path:
    described = [
        {
            "op": "Add",
            "input_desc": [{"format": "ND", "shape": [8, 16], "type": "int32"}] * 2,
            "output_desc": [{"format": "ND", "shape": [8, 16], "type": "int32"}],
        }
    ]
    (folder / "add.json").write_text(json.dumps(described))
    out = folder / "op_models"
    out.mkdir()
    from ascend_sim.graph.op_description import compile_operators

    for name, data in compile_operators(str(folder / "add.json"), "Ascend910B2"):
        (out / f"{name}.om").write_bytes(data)
    return out


def _add(program: Program, shape: list[int], dtype: int = 3, op: str = "Add") -> int:
    n = int(np.prod(shape)) * 4
    desc = acl.create_tensor_desc(dtype, shape, 2)
    buffers = [acl.create_data_buffer(program.empty(n), n) for _ in range(3)]
    return int(acl.op.execute_v2(op, [desc] * 2, buffers[:2], [desc], buffers[2:], 0, 0))


def test_10_an_operator_that_is_not_in_the_model_directory(
    program: Program, tmp_path: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hiascend caselibrary topic_0000001382314237: descriptions that differ from those of the model."""
    folder = add_models(tmp_path)
    assert _add(program, [4, 4]) == 0  # no directory named: compiled when called
    assert acl.op.set_model_dir(str(folder)) == 0
    assert _add(program, [8, 16]) == 0
    message = fails(_add(program, [8, 32]), 100021, "the nearest operator model is", "[8, 16]", "[8, 32]")
    assert ".om" in message
    fails(_add(program, [8, 16], 0), 100021, "int32", "float32")
    fails(_add(program, [8, 16], 3, "Mul"), 100024, "no operator model of Mul", "there are those of Add")
    monkeypatch.setenv("ASCEND_SIM_OP_COMPILE", "1")
    assert _add(program, [8, 32]) == 0
    data = next(folder.iterdir()).read_bytes()
    assert acl.op.load(acl.util.bytes_to_ptr(data), len(data)) == 0
    fails(acl.op.load(acl.util.bytes_to_ptr(bytes(100)), 100), 100025, "no operator model")


def test_kernels_that_the_program_brings(program: Program, fails: Fails) -> None:
    code = b"""
import ascend_sim.asc as asc

@asc.jit(insert_sync=True, kernel_type="AIV")
def twice(x: asc.GlobalAddress, y: asc.GlobalAddress, n: int):
    source, target = asc.GlobalTensor(asc.float32), asc.GlobalTensor(asc.float32)
    source.set_global_buffer(x, n)
    target.set_global_buffer(y, n)
    tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, n)
    asc.data_copy(tile, source, n)
    asc.muls(tile, tile, 2.0, n)
    asc.data_copy(target, tile, n)
"""

    def choose(num_in: int, inputs: list[int], num_out: int, outputs: list[int], attr: int, desc: int) -> int:
        tiling = struct.pack("<q", acl.get_tensor_desc_element_count(inputs[0]))
        ret = acl.op.set_kernel_args(desc, "twice_1", 1, acl.util.bytes_to_ptr(tiling), 8)
        fails(acl.op.set_kernel_args(desc, "other", 1, 0, 0), 100029, "it has twice_1")
        return int(ret or acl.op.set_kernel_workspace_sizes(desc, 0, 0))

    pointer = acl.util.bytes_to_ptr(code)
    assert acl.op.create_kernel("Twice", "twice_1", "twice", pointer, len(code), 0, 0) == 0
    fails(acl.op.create_kernel("Twice", "twice_1", "twice", pointer, len(code), 0, 0), 100031)
    desc = acl.create_tensor_desc(0, [64], 2)
    source, n = program.upload(np.arange(64, dtype=np.float32))
    target = program.empty(n)
    buffers = [acl.create_data_buffer(source, n), acl.create_data_buffer(target, n)]
    fails(acl.op.update_params("Twice", [desc], [desc], 0), 100028, "no selector")
    assert acl.op.register_compile_func("Twice", choose) == 0
    fails(acl.op.register_compile_func("Twice", choose), 100030, "unregister_compile_func")
    assert acl.op.execute_v2("Twice", [desc], buffers[:1], [desc], buffers[1:], 0, 0) == 0, acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    assert np.array_equal(program.download(target, n, np.float32), 2 * np.arange(64))
    assert acl.op.unregister_compile_func("Twice") == 0


def test_only_c_has_a_compiler_call(fails: Fails) -> None:
    fails(acl.op.compile(1, 2, 3), 200001, "acl.op.execute_v2")


# -- a process of its own ----------------------------------------------------------------------------------


def test_an_exception_at_the_end_loses_no_profile(tmp_path: Path) -> None:
    """acl.json's profiler of a program that never finalizes."""
    path = config(tmp_path, {"profiler": {"switch": "on", "output": str(tmp_path / "out")}})
    code = (
        f"import acl; assert acl.init({path!r}) == 0; acl.rt.set_device(0); p, _ = acl.rt.malloc(64, 0); "
        "acl.rt.memset(p, 64, 0, 64)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "ASCEND_SIM_QUIET": "1"})
    assert list((tmp_path / "out").glob("PROF_*"))
