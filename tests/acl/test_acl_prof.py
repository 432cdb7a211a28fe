"""acl.prof: sessions and marks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
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
