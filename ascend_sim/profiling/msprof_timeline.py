"""``msprof_*.json``: the timeline as Ascend/msprof exports it, an array of Chrome trace events.

Processes CANN (host threads), Ascend Hardware (streams of a device) and Overlap Analysis; flows lead from the call that
enqueued a task to its first slice on the device. ``ts`` is text in microseconds of the
simulated clock, equal to the start times of the tables.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ascend_sim.profiling.digits import ns, us
from ascend_sim.profiling.msprof_memory import by_kind, process_changes
from ascend_sim.profiling.msprof_tables import shown_name, task_type, tasks
from ascend_sim.profiling.op_summary import NOT_A_MODEL
from ascend_sim.profiling.spans import merged, without
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event

PROCESS = 1  # stands for the id of the process: its own would differ from run to run
HOST = 31  # "device" of host rows
CANN, HARDWARE, OVERLAP = (7, "CANN"), (14, "Ascend Hardware"), (31, "Overlap Analysis")  # (layer, process name)
COMMUNICATION, NPU_MEM = (16, "Communication"), (17, "NPU MEM")
MEMORY_SERIES = ("DDR", "HBM", "Memory")
OVERLAP_ROWS = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")

TraceEvent = dict[str, Any]


def trace_events(store: EventStore, memory: str = "HBM") -> list[TraceEvent]:
    """All events, metadata first; ``memory`` is the kind of the device's memory."""
    host = sorted(store.of_kind("api", "host"), key=lambda e: (e.thread, e.start, -e.end))
    device = tasks(store)
    connections, called = links(host, device)
    names: list[TraceEvent] = []
    if host:
        names += process(CANN, HOST, "CPU")
        names += [thread(CANN, HOST, t, f"Thread {t}") for t in sorted({e.thread for e in host})]
    for number in sorted({e.device for e in device}):
        names += process(HARDWARE, number, f"NPU {number}")
        streams = sorted({e.stream for e in device if e.device == number})
        names += [thread(HARDWARE, number, s, f"Stream {s}") for s in streams]
        names += process(OVERLAP, number, f"NPU {number}")
        names += [thread(OVERLAP, number, row, name) for row, name in enumerate(OVERLAP_ROWS)]
    slices = [_host_slice(e, i) for i, e in enumerate(host)]
    slices += [_device_slice(e, connections[_task_key(e)]) for e in device]
    flows: list[TraceEvent] = []
    for key, first in _firsts(device).items():
        if (call := called.get(key)) is not None:
            flows += _flow(host[call], first, connections[key])
            slices[call]["args"]["connection_id"] = connections[key]
    return [*names, *slices, *flows, *_communication(device), *_memory(store, memory), *_overlap(device)]


TaskKey = tuple[int, int, int]  # device, stream, task


def links(host: list[Event], device: list[Event]) -> tuple[dict[TaskKey, int], dict[TaskKey, int]]:
    """Of every task its connection, and the index in ``host`` of the call that enqueued it, where one did."""
    calls = _Calls(host)
    called = {key: call for key, first in _firsts(device).items() if (call := calls.of(first)) is not None}
    return _connections(device), called


def process(layer: tuple[int, str], device: int, label: str) -> Iterator[TraceEvent]:
    pid = process_id(layer, device)
    for kind, args in (("process_name", {"name": layer[1]}), ("process_labels", {"labels": label}),
                       ("process_sort_index", {"sort_index": layer[0]})):  # fmt: skip
        yield {"name": kind, "pid": pid, "tid": 0, "args": args, "ph": "M"}


def thread(layer: tuple[int, str], device: int, tid: int, name: str) -> TraceEvent:
    return {"name": "thread_name", "pid": process_id(layer, device), "tid": tid, "args": {"name": name}, "ph": "M"}


def process_id(layer: tuple[int, str], device: int) -> int:
    return PROCESS << 10 | layer[0] << 5 | max(device, 0)


def span(name: str, pid: int, tid: int, start: int, end: int, args: dict[str, Any]) -> TraceEvent:
    dur = (ns(end) - ns(start)) / 1000  # both ends are rounded, so neighbours never overlap
    return {"name": name, "pid": pid, "tid": tid, "ts": us(start), "dur": dur, "args": args, "ph": "X"}


# -- host --------------------------------------------------------------------------------------------------


class _Calls:
    """Finds the host call that enqueued a task: a task is queued within its call, after the call began."""

    def __init__(self, host: list[Event]) -> None:
        self._host = host
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._index: dict[int, list[int]] = defaultdict(list)
        for i, event in enumerate(host):
            if event.kind == "api":
                self._starts[event.thread].append(event.start)
                self._index[event.thread].append(i)

    def of(self, task: Event) -> int | None:
        """Index of the call."""
        queued: int = task.args.get("queued", 0)
        at = bisect_left(self._starts[task.thread], queued) - 1
        if at < 0:
            return None
        index = self._index[task.thread][at]
        return index if queued <= self._host[index].end else None


def _host_slice(event: Event, index: int) -> TraceEvent:
    args: dict[str, Any] = {"Thread Id": event.thread, "Mode": _mode(event), "level": "acl", "id": event.name,
                            "item_id": event.name, "connection_id": index}  # fmt: skip
    return span(f"AscendCL@{event.name}", process_id(CANN, HOST), event.thread, event.start, event.end, args)


def _mode(event: Event) -> str:
    module = str(event.args.get("module", "")).rpartition(".")[2]
    return {"mdl": "ACL_MODEL", "op": "ACL_OP"}.get(module, "ACL_RTS" if module == "rt" else "ACL_OTHERS")


# -- device ------------------------------------------------------------------------------------------------


def _task_key(event: Event) -> TaskKey:
    return event.device, event.stream, event.task


def _firsts(device: Iterable[Event]) -> dict[TaskKey, Event]:
    found: dict[TaskKey, Event] = {}
    for event in device:
        found.setdefault(_task_key(event), event)
    return found


def _connections(device: Iterable[Event]) -> dict[TaskKey, int]:
    """Connection ids of tasks, in order of their first slice; ids of host calls come from their own count."""
    return {key: 1 << 20 | i for i, key in enumerate(_firsts(device))}


def _device_slice(event: Event, connection: int) -> TraceEvent:
    args: dict[str, Any] = {
        "Model Id": event.args.get("model_id", NOT_A_MODEL), "Task Type": task_type(event),
        "Physic Stream Id": event.stream, "Task Id": event.task, "Batch Id": 0, "Subtask Id": NOT_A_MODEL,
        "connection_id": connection,
    }  # fmt: skip
    if event.kind == "memcpy":
        nbytes = event.args.get("nbytes", 0)
        args |= {"size(B)": nbytes, "bandwidth(GB/s)": round(nbytes * 1e3 / event.duration, 6) if event.duration else 0,
                 "operation": operation(event)}  # fmt: skip
    return span(shown_name(event), process_id(HARDWARE, event.device), event.stream, event.start, event.end, args)


def operation(event: Event) -> str:
    """What a copy moves, in msprof's words: ``host to device``."""
    words = {"h": "host", "d": "device"}
    source, _, target = str(event.args.get("direction", "d2d")).partition("2")
    return f"{words.get(source, 'device')} to {words.get(target, 'device')}"


def _flow(call: Event, first: Event, connection: int) -> Iterator[TraceEvent]:
    common = {"name": f"HostToDevice{connection}", "cat": "HostToDevice", "id": str(connection)}
    yield common | {"ph": "s", "pid": process_id(CANN, HOST), "tid": call.thread, "ts": us(call.start)}
    yield common | {"ph": "f", "bp": "e", "pid": process_id(HARDWARE, first.device), "tid": first.stream,
                    "ts": us(first.start)}  # fmt: skip


def _memory(store: EventStore, kind: str) -> Iterator[TraceEvent]:
    """Memory that the program holds, as counters of each device: by kind of memory, and all of it."""
    held = process_changes(store)
    for device in sorted({e.device for e in held}):
        yield from process(NPU_MEM, device, f"NPU {device}")
    for event in held:
        values = (*by_kind(event, kind), event.args["allocated"])
        for series, nbytes in zip(MEMORY_SERIES, values, strict=True):
            yield {"name": f"APP/{series}", "pid": process_id(NPU_MEM, event.device), "tid": 0,
                   "ts": us(event.start), "args": {"KB": nbytes / 1024}, "ph": "C"}  # fmt: skip


def _communication(device: Iterable[Event]) -> Iterator[TraceEvent]:
    """A row per communicator, and below it the one plane that carries it."""
    groups: dict[tuple[int, str], int] = {}
    for event in device:
        if event.kind != "collective":
            continue
        key = event.device, event.args.get("group", "hccl_world_group")
        if key not in groups:
            number = groups[key] = sum(d == event.device for d, _ in groups)
            if not number:
                yield from process(COMMUNICATION, event.device, f"NPU {event.device}")
            for tid, name in ((2 * number, f"Group {number} Communication"), (2 * number + 1, "Plane 0")):
                yield thread(COMMUNICATION, event.device, tid, name)
                yield thread(COMMUNICATION, event.device, tid, "") | {
                    "name": "thread_sort_index", "args": {"sort_index": tid}}  # fmt: skip
        place, row = process_id(COMMUNICATION, event.device), 2 * groups[key]
        facts = {"size(Byte)": event.args.get("nbytes", 0), "transport type": event.args.get("link", "HCCS")}
        yield span(event.name, place, row, event.start, event.end, facts)
        wait = event.args.get("wait", 0)
        if wait:
            yield span("Notify_Wait", place, row + 1, event.start, event.start + wait, {})
        yield span("Memcpy", place, row + 1, event.start + wait, event.end, facts)


# -- overlap -----------------------------------------------------------------------------------------------


def _overlap(device: Iterable[Event]) -> Iterator[TraceEvent]:
    by_device: dict[int, list[Event]] = defaultdict(list)
    for event in device:
        by_device[event.device].append(event)
    for number, events in by_device.items():
        computing = merged((e.start, e.end) for e in events if e.kind in ("kernel", "aicpu"))
        talking = merged((e.start, e.end) for e in events if e.kind == "collective")
        busy = merged([*computing, *talking])
        free = without([(busy[0][0], busy[-1][1])], busy) if busy else []
        for row, spans in enumerate((computing, talking, without(talking, computing), free)):
            for start, end in spans:
                yield span(OVERLAP_ROWS[row], process_id(OVERLAP, number), row, start, end, {})
