"""acl.prof: sessions and marks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from acl_models import BATCH, mlp
from acl_program import Program

import acl
from acl import _sim
from ascend_sim.runtime.observe import Event

Fails = Callable[..., str]


def test_a_session_writes_reports(program: Program, tmp_path: Path, fails: Fails) -> None:
    fails(acl.prof.start(0), 100001, "acl.prof.init")
    assert acl.prof.init(str(tmp_path / "out")) == 0
    fails(acl.prof.init(str(tmp_path)), 100002)
    config = acl.prof.create_config([0], 1, 0, 0x7)
    assert config and acl.prof.start(config) == 0
    fails(acl.prof.start(config), 100000, "runs already")
    values = np.ones((64, 64), np.float16)
    source, n = program.upload(values)
    desc, buffers = acl.create_tensor_desc(1, [64, 64], 2), [acl.create_data_buffer(source, n)]
    assert acl.op.execute_v2("MatMulV2", [desc] * 2, buffers * 2, [desc], buffers, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert acl.prof.stop(config) == 0
    fails(acl.prof.stop(config), 100000, "does not run")
    assert acl.prof.destroy_config(config) == 0
    assert acl.prof.finalize() == 0
    (folder,) = (tmp_path / "out").glob("PROF_*")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["kernels"] == 1 and summary["soc"] == "Ascend910B2"
    assert "MatMulV2" in (folder / "op_summary.csv").read_text()


def test_configs(device: int, fails: Fails) -> None:
    assert acl.prof.create_config([5], 0, 0, 1) == 0
    assert "0..1" in acl.get_recent_err_msg()
    assert acl.prof.create_config([0], 99, 0, 1) == 0
    acl.get_recent_err_msg()
    fails(acl.prof.destroy_config(0), 100000)
    assert acl.prof.set_config(1, "50") == 0
    fails(acl.prof.set_config(1, ""), 100000)


def test_marks_are_events(device: int) -> None:
    seen: list[Event] = []
    _sim.observe(seen.append)
    try:
        stamp = acl.prof.create_stamp()
        assert acl.prof.set_stamp_trace_message(stamp, "step 1", 6) == 0
        assert acl.prof.push(stamp) == 0
        acl.rt.malloc(64, 0)
        assert acl.prof.pop() == 0
        number, ret = acl.prof.range_start(stamp)
        assert ret == 0 and acl.prof.range_stop(number) == 0
        assert acl.prof.range_stop(number) == 100000
        assert acl.prof.mark(stamp) == 0
        assert acl.prof.destroy_stamp(stamp) is None
    finally:
        _sim.unobserve(seen.append)
    marks = [e for e in seen if e.kind == "host"]
    assert [m.name for m in marks] == ["step 1"] * 3
    assert marks[0].duration > 0 and marks[2].duration == 0


# -- subscriptions -----------------------------------------------------------------------------------------


def test_operators_of_a_subscribed_model(program: Program, fails: Callable[..., str]) -> None:
    """19-03 of the runtime's documentation: records through a pipe, read from memory."""
    data = mlp()
    model, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    assert ret == 0
    reader, writer = os.pipe()
    config = acl.prof.create_subscribe_config(1, 255, writer)
    assert acl.prof.model_subscribe(model, config) == 0
    fails(acl.prof.model_subscribe(model, config), 148046, "is subscribed")
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for dataset, size in ((inputs, BATCH * 32 * 4), (outputs, BATCH * 10 * 4)):
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(program.empty(size), size))
    seen: list[Any] = []
    observer = _sim.observe(lambda e: seen.append(e) if e.kind == "kernel" else None)
    assert acl.mdl.execute(model, inputs, outputs) == 0
    _sim.unobserve(observer)
    assert acl.prof.model_unsubscribe(model) == 0
    fails(acl.prof.model_un_subscribe(model), 100000, "a subscribed model")
    assert acl.prof.destroy_subscribe_config(config) == 0
    raw = b""
    while chunk := os.read(reader, 1 << 16):
        raw += chunk
    os.close(reader)
    size, _ = acl.prof.get_op_desc_size()
    pointer = acl.util.bytes_to_ptr(raw)
    count, ret = acl.prof.get_op_num(pointer, len(raw))
    assert ret == 0 and count == len(seen) == len(raw) // size
    for index, event in enumerate(seen):
        where = (pointer, len(raw), index)
        assert acl.prof.get_op_name_v2(*where) == (event.name, 0)
        assert acl.prof.get_op_type_v2(*where) == (event.args["op_type"], 0)
        assert acl.prof.get_op_name(*where, 300) == (event.name, 0)
        assert acl.prof.get_op_type_len(*where) == (len(event.args["op_type"]) + 1, 0)
        assert acl.prof.get_op_start(*where) == event.start // 1000
        assert acl.prof.get_op_duration(*where) == event.end // 1000 - event.start // 1000
        assert acl.prof.get_model_id(*where) == model
    fails(acl.prof.get_op_num(pointer, len(raw) - 1), 100000, f"a multiple of {size}")
    fails(acl.prof.get_op_name(pointer, len(raw), count, 300), 100000, f"below {count}")


def test_a_pipe_that_nobody_reads_holds_nobody_up(program: Program) -> None:
    data = mlp()
    model, _ = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    reader, writer = os.pipe()
    os.close(reader)
    assert acl.prof.model_subscribe(model, acl.prof.create_subscribe_config(1, 255, writer)) == 0
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for dataset, size in ((inputs, BATCH * 32 * 4), (outputs, BATCH * 10 * 4)):
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(program.empty(size), size))
    assert acl.mdl.execute(model, inputs, outputs) == 0
    assert acl.prof.model_unsubscribe(model) == 0


def test_two_ways_to_profile_do_not_mix(program: Program, tmp_path: Path, fails: Callable[..., str]) -> None:
    data = mlp()
    model, _ = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    assert acl.prof.init(str(tmp_path)) == 0
    _, writer = os.pipe()
    config = acl.prof.create_subscribe_config(1, 255, writer)
    fails(acl.prof.model_subscribe(model, config), 148047, "acl.prof.finalize")
    assert acl.prof.finalize() == 0
    assert acl.prof.model_subscribe(model, config) == 0
    fails(acl.prof.init(str(tmp_path)), 148047, f"models {model} are subscribed")


def test_marks_of_steps(program: Program, fails: Callable[..., str]) -> None:
    seen: list[Any] = []
    observer = _sim.observe(lambda e: seen.append(e) if e.args.get("mark") else None)
    info = acl.prof.create_step_info()
    fails(acl.prof.get_step_timestamp(info, 1, 0), 100000, "not started")
    assert acl.prof.get_step_timestamp(info, 0, 0) == 0
    target = program.empty(1 << 20)
    acl.rt.memset_async(target, 1 << 20, 0, 1 << 20, 0)
    assert acl.prof.mark_ex("half way", 0) == 0
    assert acl.prof.get_step_timestamp(info, 1, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    _sim.unobserve(observer)
    step = next(e for e in seen if "step" in e.args)
    assert step.duration > 0 and step.args["step"] >= 1
    assert [e.name for e in seen if e.name == "half way"] == ["half way"] * 2  # on the host and in the stream
    acl.prof.destroy_step_info(info)
    fails(acl.prof.mark_ex("x" * 128, 0), 100000, "1..127")
