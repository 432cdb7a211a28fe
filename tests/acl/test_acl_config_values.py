"""acl.json with every kind of value under every key: a code with the cause, never an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import acl
from acl import _sim

VALUES: list[Any] = [1, -1, 1.5, float("inf"), "x", "²", "9" * 5000, "a\0b", "\ud800", True, [], {}, [[1]], {"a": 1}]
KEYS: dict[str, tuple[str, ...]] = {
    "dump": ("dump_list", "dump_path", "dump_mode", "dump_op_switch", "dump_data", "dump_level", "dump_scene"),
    "profiler": ("switch", "output", "aic_metrics", "task_time", "ge_api"),
    "defaultDevice": ("default_device",),
    "StackSize": ("aicore_stack_size",),
    "ascend_sim": ("soc", "devices", "op_compile"),
    "err_msg_mode": (), "max_opqueue_num": (), "event_mode": (),
}  # fmt: skip
LISTED = ("model_name", "layer", "watcher_nodes")


def contents(section: str, folder: Path) -> list[Any]:
    whole: dict[str, Any] = {"dump": {"dump_path": str(folder), "dump_list": [{"model_name": "m"}]}}
    whole["profiler"] = {"switch": "on", "output": str(folder / "prof")}
    found: list[Any] = [{section: value} for value in VALUES]
    found += [{section: {**whole.get(section, {}), key: value}} for key in KEYS[section] for value in VALUES]
    if section == "dump":
        found += [{"dump": {**whole["dump"], "dump_list": [{key: value}]}} for key in LISTED for value in VALUES]
    return found


@pytest.mark.parametrize("section", KEYS)
def test_any_value_of_any_key(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "acl.json"
    for content in contents(section, tmp_path):
        path.write_text(json.dumps(content))
        _sim.reset()
        ret = acl.init(str(path))
        message = acl.get_recent_err_msg()
        assert isinstance(ret, int) and (ret == 0) == (message is None), (content, ret, message)
        if ret == 0:
            assert acl.finalize() == 0
        if section == "dump":
            acl.init()
            ret = acl.mdl.init_dump() or acl.mdl.set_dump(str(path))
            assert isinstance(ret, int)
            acl.get_recent_err_msg()


@pytest.mark.parametrize(
    "content",
    [
        {"ascend_sim": 1}, {"ascend_sim": {"devices": [2]}}, {"ascend_sim": {"op_compile": "yes"}},
        {"max_opqueue_num": "²"}, {"defaultDevice": "²"}, {"profiler": {"switch": "on", "output": 1}},
        {"dump": {"dump_path": "/tmp", "dump_list": [{"model_name": "m", "layer": 1}]}},
        {"dump": {"dump_path": "/tmp", "dump_list": [{"model_name": 7}]}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_values_of_the_wrong_kind_are_refused(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "acl.json"
    path.write_text(json.dumps(content))
    assert acl.init(str(path)) in (100000, 100009, 100010, 148048)
    message = acl.get_recent_err_msg()
    assert message is not None and "expected" in message
