"""Invariants of profiles: over random runs that never happened, and over random programs that did, on two families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from profile_checks import check_everything

import acl
import ascend_sim
from acl import _sim
from ascend_sim.engine.result import KernelTiming
from ascend_sim.graph.compile import compile_model
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime import system as machine
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc, load_soc

CHIPS = ("Ascend310P3", "Ascend910B2")
BUSY = ("scalar", "vector", "mte1", "mte2", "mte3", "cube", "fixpipe", "aiv_scalar", "aiv_mte2")
US = 1_000_000

# -- runs that never happened: the tables may not assume anything but that a stream does one thing after the other


@st.composite
def timings(draw: st.DrawFn, soc: Soc) -> KernelTiming:
    """A timing that a replay could return."""
    kind = draw(st.sampled_from(("AIC", "AIV", "MIX") if soc.chip.split_cores else ("AICORE",)))
    cores = soc.cores.vector_core_count if kind == "AIV" else soc.cores.ai_core_count
    blocks = draw(st.integers(1, 3 * cores))
    core = draw(st.integers(US // 10, 1000 * US))
    mean = draw(st.integers(core // 2, core))
    return KernelTiming(
        name="k", kind=kind, blocks=blocks, cores_used=min(blocks, cores), head_ps=draw(st.integers(0, 10 * US)),
        core_ps=core, mean_core_ps=mean, busy_ps={p: draw(st.integers(0, mean)) for p in BUSY}, gm_read=0, gm_write=0,
        l2_hit=0, hbm_bytes=0, mhz=soc.cores.clock_mhz, instructions=1, confidence="derived",
    )  # fmt: skip


class Run:
    """Draws the events of a run: host threads that call, streams that work, marks of a framework."""

    def __init__(self, draw: st.DrawFn, soc: Soc) -> None:
        self.draw, self.soc, self.store = draw, soc, EventStore()
        self.free: dict[tuple[int, int], int] = {}
        self.task = 0

    def span(self, most: int = 50) -> int:
        return self.draw(st.integers(0, most * US))

    def place(self) -> tuple[int, int, int]:
        """Device, stream, and when something may start there."""
        device, stream = self.draw(st.integers(0, 1)), self.draw(st.integers(2, 4))
        self.task += 1
        return device, stream, self.free.get((device, stream), 0) + self.span()

    def add(self, kind: str, name: str, at: tuple[int, int, int], length: int, facts: dict[str, Any]) -> int:
        device, stream, start = at
        self.store(Event(kind, name, device, stream, self.task, start, start + length, 0, {"queued": 0} | facts))
        self.free[device, stream] = start + length
        return start + length

    def kernel(self, at: tuple[int, int, int], model: int | None = None) -> int:
        shape = TensorSpec((self.draw(st.integers(1, 9)), 16), "float16")
        kind = self.draw(st.sampled_from(("Add", "MatMulV2", "Relu")))
        facts: dict[str, Any] = {"op_type": kind, "call": OpCall(kind, (shape, None), (shape,)), "estimated": False}
        if model is not None:
            facts["model_id"] = model
        if self.draw(st.integers(0, 4)) == 0:
            facts |= {"timing": None, "estimated": True}
            return self.add("aicpu" if self.draw(st.booleans()) else "kernel", kind.lower(), at, self.span(), facts)
        timing = self.draw(timings(self.soc))
        facts |= {"timing": timing, "task_type": timing.kind}
        return self.add("kernel", kind.lower(), at, timing.task_ps, facts)

    def model(self) -> None:
        device, stream, start = self.place()
        model, end = self.draw(st.integers(1, 2)), start
        for _ in range(self.draw(st.integers(0, 3))):
            end = self.kernel((device, stream, end + self.span(2)), model)
        self.store(Event("model", "m", device, stream, self.task, start, end, 0, {"model_id": model, "queued": 0}))

    def other(self) -> None:
        kind = self.draw(st.sampled_from(("memcpy", "memset", "event", "callback")))
        self.add(kind, kind, self.place(), self.span(), {"nbytes": 64, "direction": "d2d"})

    def collective(self) -> None:
        at, length = self.place(), self.span()
        facts = {"nbytes": self.draw(st.integers(0, 1 << 30)), "wait": self.draw(st.integers(0, length))}
        facts |= {"ranks": (0, 1), "link": self.draw(st.sampled_from(("HCCS", "PCIE", "RDMA")))}
        self.add("collective", self.draw(st.sampled_from(("hcom_allReduce_", "hcom_receive_"))), at, length, facts)

    def host(self) -> None:
        now = 0
        for number in range(self.draw(st.integers(0, 4))):
            begin = now + self.span()
            length = self.span()
            now = begin + length
            self.store(Event("api", self.draw(st.sampled_from(("a", "b"))), 0, -1, 0, begin, now, 0, {"ret": 0}))
            if self.draw(st.booleans()):
                self.store(Event("op", "aten::mm", -1, -1, 0, begin, now, 0, {}))
                self.store(Event("op", "npu::mm", -1, -1, 0, begin + length // 3, begin + length // 2, 0, {}))
                self.store(Event("step", "step", -1, -1, 0, begin, now, 0, {"step": number}))
        tasks = [e for e in self.store.events if e.stream >= 0]
        for event in tasks:  # who enqueued what does not matter to sums
            event.args["queued"] = self.draw(st.integers(0, event.start))


@st.composite
def runs(draw: st.DrawFn, soc: Soc) -> EventStore:
    run = Run(draw, soc)
    for _ in range(draw(st.integers(0, 8))):
        step = draw(st.sampled_from((run.model, run.other, run.collective, lambda: run.kernel(run.place()))))
        step()
    run.host()
    return run.store


@pytest.mark.parametrize("chip", CHIPS)
@settings(max_examples=40)
@given(data=st.data())
def test_tables_of_any_run(chip: str, data: st.DataObject) -> None:
    soc = load_soc(chip)
    check_everything(data.draw(runs(soc)), soc)


# -- programs that did happen


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_QUIET", "1")
    monkeypatch.setenv("ASCEND_SIM_VALUES", "none")
    yield
    _sim.reset()


UNARY = ("Relu", "Sigmoid", "Exp", "Softmax", "Neg")


def network(layers: list[str], rows: int, width: int, chip: str) -> bytes:
    """``rows x width`` through layers: a matrix product, a sum with the input, or one of `UNARY`."""
    nodes, weights, now = [], [], "x"
    for number, layer in enumerate(layers):
        given, after = [now], f"t{number}"
        if layer == "MatMul":
            weights.append(numpy_helper.from_array(np.zeros((width, width), np.float16), f"w{number}"))
            given.append(f"w{number}")
        elif layer == "Add":
            given.append("x")
        nodes.append(helper.make_node(layer, given, [after], name=f"{layer}_{number}"))
        now = after
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [rows, width]) for n in ("x", now)]
    made: Any = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], weights),
                                  opset_imports=[helper.make_opsetid("", 13)])  # fmt: skip
    made.ir_version = 8
    return compile_model(made.SerializeToString(), chip)


def ok(result: Any) -> Any:
    """What a call returned beside its code, which is 0."""
    value, code = result if isinstance(result, tuple) else (None, result)
    assert code == 0, acl.get_recent_err_msg()
    return value


def execute(data: bytes, size: int, steps: list[tuple[str, int]]) -> EventStore:
    """Load a model on both devices and take steps: execute (at once or on one of two streams), copy, set, wait."""
    ok(acl.init())
    with ascend_sim.profile() as prof:
        setups = []
        for device in (0, 1):
            ok(acl.rt.set_device(device))
            model = ok(acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data)))
            buffers = [ok(acl.rt.malloc(size, 0)) for _ in range(2)]
            sets = []
            for address in buffers:
                sets.append(acl.mdl.create_dataset())
                ok(acl.mdl.add_dataset_buffer(sets[-1], acl.create_data_buffer(address, size))[1])
            setups.append((model, sets, buffers, [ok(acl.rt.create_stream()) for _ in range(2)]))
        host = bytes(size)
        for what, pick in steps:
            model, sets, buffers, streams = setups[pick & 1]
            ok(acl.rt.set_device(pick & 1))
            stream = streams[pick >> 1 & 1]
            if what == "execute":
                ok(acl.mdl.execute(model, *sets))
            elif what == "async":
                ok(acl.mdl.execute_async(model, *sets, stream))
            elif what == "copy":
                ok(acl.rt.memcpy_async(buffers[0], size, acl.util.bytes_to_ptr(host), size, 1, stream))
            elif what == "set":
                ok(acl.rt.memset(buffers[0], size, 0, size))
            else:
                ok(acl.rt.synchronize_stream(stream))
        for device in (0, 1):
            ok(acl.rt.set_device(device))
            ok(acl.rt.synchronize_device())
            ok(acl.mdl.unload(setups[device][0]))
            ok(acl.rt.reset_device(device))
    ok(acl.finalize())
    return prof.store


programs = st.lists(
    st.tuples(st.sampled_from(("execute", "async", "async", "copy", "set", "wait")), st.integers(0, 3)), max_size=10
)


@pytest.mark.parametrize("chip", CHIPS)
@settings(max_examples=12)
@given(
    layers=st.lists(st.sampled_from(("MatMul", "MatMul", "Add", *UNARY)), min_size=1, max_size=5),
    rows=st.sampled_from((1, 16, 100)), width=st.sampled_from((16, 48, 200)), steps=programs,
)  # fmt: skip
def test_tables_of_any_program(
    chip: str, layers: list[str], rows: int, width: int, steps: list[tuple[str, int]]
) -> None:
    _sim.reset()
    machine.configure(soc=chip, devices=2)
    data = network(layers, rows, width, chip)
    store = execute(data, rows * width * 2, steps)
    check_everything(store, load_soc(chip))
    runs_ = sum(what in ("execute", "async") for what, _ in steps)
    assert len(list(store.of_kind("model"))) == runs_
    kernels = len(store.kernels())
    assert kernels % max(runs_, 1) == 0 and (kernels > 0) == (runs_ > 0)
