"""Tables behind switches, and who throws them: msprof's options, acl.json, configurations of acl.prof."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import acl
import ascend_sim
from acl import _sim
from ascend_sim.engine.result import KernelTiming
from ascend_sim.graph.compile import compile_model
from ascend_sim.profiling import msprof, msprof_optional, op_summary
from ascend_sim.profiling.msprof_switches import of_config, of_options
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime import system as machine
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import load_soc

HEADERS = {  # Ascend/msprof, analysis/msconfig/msprof_export_data_config.py; Device_id stands before all of them
    "fusion_op": "Model Name,Model ID,Fusion Op,Original Ops,Memory Input(KB),Memory Output(KB),Memory Weight(KB),"
    "Memory Workspace(KB),Memory Total(KB)",
    "msprof_tx": "pid,tid,category,event_type,payload_type,payload_value,Start_time(us),End_time(us),message_type,"
    "message,domain,mark_id",
    "l2_cache": "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",
}
AICPU = "Device_id,Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),Total_time(us),"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_QUIET", "1")
    _sim.reset()
    machine.configure(soc="Ascend310P3", devices=1)
    yield
    _sim.reset()


def network() -> bytes:
    """x [4, 3, 8, 8] -> convolution, normalization, rectifier as one operator."""
    values = {"w": (8, 3, 3, 3), "scale": (8,), "bias": (8,), "mean": (8,), "variance": (8,)}
    weights = [numpy_helper.from_array(np.ones(s, np.float16), n) for n, s in values.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["y"], name="act"),
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in (("x", (4, 3, 8, 8)), ("y", (4, 8, 8, 8)))
    ]
    made: Any = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], weights),
                                  opset_imports=[helper.make_opsetid("", 13)])  # fmt: skip
    made.ir_version = 8
    return compile_model(made.SerializeToString(), "Ascend310P3")


def run_with_marks() -> None:
    data = network()
    number, _ = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    sets = []
    for size in (4 * 3 * 64 * 2, 4 * 8 * 64 * 2):
        sets.append(acl.mdl.create_dataset())
        acl.mdl.add_dataset_buffer(sets[-1], acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size))
    stamp = acl.prof.create_stamp()
    acl.prof.set_stamp_trace_message(stamp, "inference", 9)
    acl.prof.mark(stamp)
    acl.prof.push(stamp)
    assert acl.mdl.execute(number, *sets) == 0
    acl.prof.pop()
    acl.mdl.unload(number)


def table(folder: Path, name: str) -> list[dict[str, str]]:
    (path,) = folder.glob(f"mindstudio_profiler_output/{name}_*.csv")
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def names(folder: Path) -> set[str]:
    return {p.name.rpartition("_")[0] for p in folder.glob("mindstudio_profiler_output/*.csv")}


def test_tables_of_a_run(tmp_path: Path) -> None:
    acl.init(), acl.rt.set_device(0)
    with ascend_sim.profile() as prof:
        run_with_marks()
    folder = msprof.write(prof.store, load_soc("Ascend310P3"), tmp_path)
    for name, header in HEADERS.items():
        assert list(table(folder, name)[0]) == ["Device_id", *header.split(",")]
    (fused,) = table(folder, "fusion_op")
    assert fused["Original Ops"].split(";") == ["conv", "norm", "act"] and fused["Device_id"] == "host"
    sizes = [float(v) for k, v in fused.items() if k.startswith("Memory")]
    assert sum(sizes[:-1]) == sizes[-1] and sizes[1] * 1024 >= 4 * 8 * 64 * 2
    mark, span = table(folder, "msprof_tx")
    assert (mark["event_type"], span["event_type"], span["message"]) == ("marker", "push/pop", "inference")
    assert mark["Start_time(us)"] == mark["End_time(us)"]
    kernels = table(folder, "op_summary")
    assert float(span["Start_time(us)"]) <= float(kernels[0]["Task Start Time(us)"]) <= float(span["End_time(us)"])
    hits = table(folder, "l2_cache")
    assert [r["Op Name"] for r in hits] == [r["Op Name"] for r in kernels]
    assert all(0 <= float(r["Hit Rate"]) <= 1 for r in hits)


@given(read=st.integers(0, 1 << 20), written=st.integers(0, 1 << 20), data=st.data())
def test_rates_are_shares_of_the_traffic(read: int, written: int, data: st.DataObject) -> None:
    hit = data.draw(st.integers(0, read))
    back = data.draw(st.integers(0, written))
    timing = KernelTiming("k", "AICORE", 1, 1, 0, 1, 1, {}, read, written, hit, read - hit + back, 1000.0, 1, "derived")
    store = EventStore()
    store(Event("kernel", "k", 0, 1, 2, 0, 1, 0, {"timing": timing, "op_type": "k"}))
    ((*_, found, victims, name),) = msprof_optional.l2_cache(store)
    total = max(read + written, 1)
    assert float(found) == pytest.approx((hit + written) / total, abs=5e-5) and name == "k"
    assert float(victims) == pytest.approx(back / total, abs=5e-5)


def test_operators_of_the_cpus() -> None:
    store = EventStore()
    store(Event("aicpu", "unique", 1, 3, 7, 2_000_000, 5_500_000, 0, {"op_type": "Unique"}))
    (row,) = msprof_optional.aicpu(store)
    assert ",".join(msprof_optional.AICPU) == AICPU + "Stream ID,Task ID"
    assert row == [1, "2.000\t", "unique", "3.500", "0.000", "3.500", "0.000", "3.500", 3, 7]


def test_configurations_of_acl_prof(tmp_path: Path) -> None:
    """Masks of acl_prof.h: 0x2 task times, 0x4 counters, 0x10 L2, 0x80 marks, 0x1000 memory of tasks."""
    acl.init(), acl.rt.set_device(0)
    everything = 0x2 | 0x4 | 0x10 | 0x80 | 0x1000
    wanted = {"l2_cache", "msprof_tx", "memory_record", "operator_memory", "static_op_mem"}
    for number, (metrics, mask) in enumerate(((2, everything), (0xFF, 0x2))):
        assert acl.prof.init(str(tmp_path / str(number))) == 0
        config = acl.prof.create_config([0], metrics, 0, mask)
        assert acl.prof.start(config) == 0
        run_with_marks()
        assert acl.prof.stop(config) == 0 and acl.prof.finalize() == 0
        (folder,) = (tmp_path / str(number)).glob("PROF_*")
        assert names(folder) & {*wanted, "npu_mem", "aicpu"} == (wanted if number == 0 else set())
        columns = list(table(folder, "op_summary")[0])
        assert ("l1_read_bw(GB/s)" in columns) == (number == 0) and "vec_ratio" not in columns


def test_switches_of_acl_json(tmp_path: Path) -> None:
    settings = {"switch": "on", "output": str(tmp_path / "out"), "aic_metrics": "ArithmeticUtilization", "l2": "on",
                "task_memory": "on"}  # fmt: skip
    (tmp_path / "acl.json").write_text(json.dumps({"profiler": settings}))
    assert acl.init(str(tmp_path / "acl.json")) == 0 and acl.rt.set_device(0) == 0
    run_with_marks()
    assert acl.finalize() == 0
    (folder,) = (tmp_path / "out").glob("PROF_*")
    assert {"l2_cache", "static_op_mem"} <= names(folder) and not {"msprof_tx", "npu_mem"} & names(folder)
    assert "mac_fp16_ratio" in table(folder, "op_summary")[0]


def test_options_and_masks_agree() -> None:
    off = of_options({})
    assert (off.counters, off.metrics) == (True, op_summary.DEFAULT_METRICS)
    assert not any((off.task_memory, off.device_memory, off.aicpu, off.l2, off.marks))
    words = {"task-memory": "on", "sys-hardware-mem": "on", "aicpu": "on", "l2": "on", "msproftx": "on"}
    assert of_options(words) == of_config(1, 0x4 | 0x8 | 0x10 | 0x80 | 0x1000, {3: "50"})
    for without in ({"task-time": "l0"}, {"ai-core": "off"}):
        assert not of_options(without).counters
    assert not of_config(0xFF, 0x4, {}).counters and not of_config(1, 0x2, {}).counters
    assert of_options({"sys-hardware-mem": "off", "sys-hardware-mem-freq": "50"}).device_memory is False
    assert of_options({"sys_hardware_mem_freq": "50"}).device_memory
