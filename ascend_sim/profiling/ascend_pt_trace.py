"""``trace_view.json``: the framework's operators above msprof's timeline, with flows from operators to kernels.

Flows: ``async_npu`` from the operator that enqueued a task to its first slice, ``fwdbwd`` from a forward operator to
the backward one with its sequence number, ``HostToDevice`` from msprof's timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ascend_sim.profiling import msprof_timeline as timeline
from ascend_sim.profiling.digits import us
from ascend_sim.profiling.msprof_tables import tasks
from ascend_sim.profiling.msprof_timeline import HOST, TraceEvent
from ascend_sim.profiling.scopes import Scopes, step_number
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event

ASYNC_NPU, FORWARD_BACKWARD = 2 << 32, 3 << 32  # flows are told apart by number, also of different categories
PYTHON = (0, "Python")  # layer and name of the framework's process


def trace_events(store: EventStore, memory: str = "HBM") -> list[TraceEvent]:
    """All events, those of the framework first; ``memory`` is the kind of the device's memory."""
    scopes = Scopes(store)
    rest = timeline.trace_events(store, memory)
    if not scopes.ops and not scopes.steps:
        return rest
    threads = sorted({e.thread for e in (*scopes.ops, *scopes.steps)})
    names = [*timeline.process(PYTHON, HOST, "CPU")]
    names += [timeline.thread(PYTHON, HOST, t, f"Thread {t}") for t in threads]
    slices = [_step(s) for s in scopes.steps] + [_op(o) for o in scopes.ops]
    return [*names, *slices, *_flows(store, scopes), *_forward_backward(scopes), *rest]


def _op(op: Event) -> TraceEvent:
    found = {
        "Sequence number": op.args.get("sequence", -1), "Fwd thread id": op.args.get("fwd_thread", 0),
        "Input Dims": ";".join(",".join(map(str, s)) for s in op.args.get("shapes", ())),
        "Input type": ";".join(op.args.get("types", ())),
    }  # fmt: skip
    if op.args.get("stack"):
        found["Call stack"] = op.args["stack"]
    return timeline.span(op.name, _pid(), op.thread, op.start, op.end, found) | {"cat": "cpu_op"}


def _step(step: Event) -> TraceEvent:
    name = f"ProfilerStep#{step_number(step)}"
    return timeline.span(name, _pid(), step.thread, step.start, step.end, {}) | {"cat": "cpu_op"}


def _pid() -> int:
    return timeline.process_id(PYTHON, HOST)


def _flows(store: EventStore, scopes: Scopes) -> Iterator[TraceEvent]:
    seen: set[tuple[int, int, int]] = set()
    for task in tasks(store):
        key = task.device, task.stream, task.task
        index = scopes.op_of(task)
        if key in seen or index < 0:
            continue
        seen.add(key)
        op = scopes.ops[index]
        source = {"pid": _pid(), "tid": op.thread, "ts": us(op.start)}
        target = {"pid": timeline.process_id(timeline.HARDWARE, task.device), "tid": task.stream,
                  "ts": us(task.start)}  # fmt: skip
        yield from _flow("async_npu", ASYNC_NPU | len(seen), source, target)


def _forward_backward(scopes: Scopes) -> Iterator[TraceEvent]:
    forward: dict[int, Event] = {}
    found = 0
    for op in sorted(scopes.ops, key=lambda e: e.start):
        number = op.args.get("sequence", -1)
        if number < 0:
            continue
        if not op.args.get("backward"):
            forward[number] = op
        elif number in forward:
            ends = [{"pid": _pid(), "tid": e.thread, "ts": us(e.start)} for e in (forward.pop(number), op)]
            yield from _flow("fwdbwd", FORWARD_BACKWARD | found, *ends)
            found += 1


def _flow(category: str, ident: int, source: dict[str, Any], target: dict[str, Any]) -> Iterator[TraceEvent]:
    common = {"name": category, "cat": category, "id": str(ident)}
    yield common | {"ph": "s"} | source
    yield common | {"ph": "f", "bp": "e"} | target
