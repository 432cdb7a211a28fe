"""A small profiled run: two models' worth of kernels, copies and calls on two devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc, load_soc

Recorded = tuple[EventStore, Soc]


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


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Recorded]:
    """Runs by chip, each made once."""
    made: dict[str, Recorded] = {}
    return lambda chip: made.setdefault(chip, made[chip] if chip in made else record(chip))
