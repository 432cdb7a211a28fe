"""A small profiled run: two models' worth of kernels, copies and calls on two devices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc, load_soc

sys.path.insert(0, str(Path(__file__).parent))  # helpers of these tests

Recorded = tuple[EventStore, Soc]
US = 1_000_000


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float16")


CALLS = [
    ("mm", OpCall("MatMulV2", (spec(256, 128), spec(128, 512), None), (spec(256, 512),))),
    ("add", OpCall("Add", (spec(256, 512), spec(256, 512)), (spec(256, 512),))),
    ("relu", OpCall("Relu", (spec(64, 64),), (spec(64, 64),))),
    ("indices", OpCall("NonZero", (spec(64, 64),), (spec(64, 2),))),
]


def record(chip: str) -> Recorded:
    """Events as the runtime emits them: a call of the host, then the kernels of a model with gaps between them."""
    soc, store = load_soc(chip), EventStore()
    now = 0
    for device in (0, 1):
        for model, repeats in ((1, 2), (2, 1)):
            for _ in range(repeats):
                begin, task = now, len(store.events)
                called = {"module": "acl.mdl", "ret": 0}
                store(Event("api", "aclmdlExecuteAsync", device, -1, 0, now, now + 5_000_000, 0, called))
                queued = now = now + 5_000_000
                for name, call in CALLS:
                    now = _kernel(store, soc, name, call, now + 1_200_000, device, task, model, queued)
                facts = {"model_id": model, "queued": queued}
                store(Event("model", f"m{model}", device, 3, task, begin, now, 0, facts))
        copy: dict[str, Any] = {"direction": "d2h", "nbytes": 4096, "queued": now}
        store(Event("memcpy", "memcpy", device, 3, 10**6, now, now + 1_500_000, 0, copy))
        now += 2_000_000
    return store, soc


def _kernel(
    store: EventStore, soc: Soc, name: str, call: OpCall, start: int, device: int, task: int, model: int, queued: int
) -> int:
    op = op_timing(call, soc)
    end = start
    for part, timing in enumerate(op.kernels or (None,)):
        begin, end = end, end + (timing.task_ps if timing else op.task_ps)
        facts = {"op_type": call.type, "call": call, "estimated": op.estimated, "op": op, "timing": timing,
                 "task_type": timing.kind if timing else "AICORE", "model_id": model, "queued": queued,
                 "part": part}  # fmt: skip
        store(Event("kernel", name, device, 3, task, begin, end, 0, facts))
    return end


def framework(store: EventStore) -> EventStore:
    """The run as a training loop: a step per execution of a model on device 0, an operator around each call."""
    found = EventStore()
    found.events = list(store.events)
    calls = [e for e in store.events if e.kind == "api" and e.device == 0]
    for number, call in enumerate(calls):
        begin, end = call.start, call.end + US // 2
        shapes = {"shapes": ((256, 128), (), (128, 512)), "types": ("c10::Half", "Scalar", "c10::Half")}
        found(Event("step", "step", -1, -1, 0, begin, end + US // 4, 0, {"step": number + 3}))
        found(Event("op", "aten::linear", -1, -1, 0, begin, end, 0, {"sequence": number, **shapes}))
        found(Event("op", "aten::mm", -1, -1, 0, begin + 10, end - 10, 0, {"stack": "train.py(7): step"}))
        memory = {"component": "PTA", "address": 512 * number, "nbytes": 2048, "allocated": 2048, "reserved": 1 << 21}
        found(Event("memory", "block", 0, -1, 0, begin + 20, begin + 20, 0, memory))
        if number == 0:
            gone = memory | {"nbytes": -2048, "allocated": 0}
            found(Event("memory", "block", 0, -1, 0, end, end, 0, gone))
    ring = {"nbytes": 10**6, "wait": US, "link": "HCCS", "ranks": (0, 1), "queued": calls[0].start}
    last = max(e.end for e in store.events)
    for start in (calls[0].start, last):
        found(Event("collective", "hcom_allReduce_", 0, 5, 77, start, start + 4 * US, 0, ring | {"queued": start}))
    return found


@pytest.fixture(scope="session")
def trained() -> Callable[[EventStore], EventStore]:
    """Makes a run one of a framework."""
    return framework


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Recorded]:
    """Runs by chip, each made once."""
    made: dict[str, Recorded] = {}
    return lambda chip: made.setdefault(chip, made[chip] if chip in made else record(chip))
