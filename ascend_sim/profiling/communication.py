"""communication.json and communication_matrix.json from ``collective`` events.

Layout: Ascend/pytorch, torch_npu/profiler/analysis/prof_view/cann_parse. Of an event, ``nbytes`` is what this rank
sent, ``wait`` the ps it waited for the others, ``link`` what carried it (``HCCS``, ``PCIE``, ``RDMA``, ``SDMA``),
``group`` the communicator and ``ranks`` its members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ascend_sim.profiling.scopes import Scopes
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event

LINKS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
POINT_TO_POINT = ("send", "receive", "recv")
ON_CHIP = ("HCCS", "PCIE", "SDMA", "SIO")  # what the chip's own copy engine (SDMA) carries
TOTAL = "Total Op Info"


def communication(store: EventStore) -> dict[str, Any]:
    """Times and bandwidths of every operation, by step and kind, with a total of each kind."""
    found: dict[str, Any] = {}
    for step, events in _by_step(store):
        kinds: dict[str, dict[str, Any]] = {"p2p": {}, "collective": {}}
        parts: dict[str, list[Event]] = defaultdict(list)
        for number, event in enumerate(events):
            kind = _kind(event)
            parts[kind].append(event)
            kinds[kind][_name(event, number)] = _info([event])
        for kind, members in parts.items():
            kinds[kind][TOTAL] = _info(members)
        kinds["collective"].setdefault(TOTAL, _info([]))  # readers look here also where nothing was communicated
        found[step] = kinds
    return found


def matrix(store: EventStore) -> dict[str, Any]:
    """Traffic between pairs of ranks, as far as the events say who took part."""
    found: dict[str, Any] = {}
    for step, events in _by_step(store):
        kinds: dict[str, dict[str, Any]] = {"p2p": {}, "collective": {}}
        for number, event in enumerate(events):
            ranks = members(event)
            mine = event.args.get("rank", event.device)
            others = [r for r in ranks if r != mine]
            share = event.args.get("nbytes", 0) / max(len(others), 1)
            kinds[_kind(event)][_name(event, number)] = {f"{mine}-{other}": _pair(event, share) for other in others}
        found[step] = kinds
    return found


def members(event: Event) -> list[int]:
    """Ranks of a communicator, where only their number is known counted from 0."""
    ranks = event.args.get("ranks", ())
    return list(range(ranks)) if isinstance(ranks, int) else list(ranks)


def _by_step(store: EventStore) -> Iterator[tuple[str, list[Event]]]:
    scopes = Scopes(store)
    steps: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(store.of_kind("collective"), key=lambda e: (e.start, e.device)):
        number = scopes.step_of(event)
        steps["step" if number is None else f"step{number}"].append(event)
    yield from steps.items() or [("step", [])]


def _kind(event: Event) -> str:
    return "p2p" if any(word in event.name.lower() for word in POINT_TO_POINT) else "collective"


def _name(event: Event, number: int) -> str:
    return f"{event.name}__{number}@{event.args.get('group', 'hccl_world_group')}"


def _info(events: list[Event]) -> dict[str, Any]:
    elapse = sum(e.duration for e in events) / 1e9
    wait = sum(e.args.get("wait", 0) for e in events) / 1e9
    transit = elapse - wait
    ratio = round(wait / elapse, 4) if elapse else 0
    bandwidth: dict[str, Any] = {}
    for link in LINKS:
        over = [e for e in events if e.args.get("link", "HCCS") in (ON_CHIP if link == "SDMA" else (link,))]
        size = sum(e.args.get("nbytes", 0) for e in over) / 1e6
        ms = sum(e.duration - e.args.get("wait", 0) for e in over) / 1e9
        sizes: dict[str, list[float]] = {}
        for e in over:
            entry = sizes.setdefault(str(e.args.get("nbytes", 0) / 1e6), [0, 0.0])
            entry[0] += 1
            entry[1] += (e.duration - e.args.get("wait", 0)) / 1e9
        bandwidth[link] = {
            "Transit Size(MB)": size, "Transit Time(ms)": ms, "Bandwidth(GB/s)": round(size / ms, 4) if ms else 0,
            "Large Packet Ratio": 1.0 if over else 0, "Size Distribution": sizes,
        }  # fmt: skip
    return {
        "Communication Time Info": {
            "Start Timestamp(us)": min((e.start for e in events), default=0) / 1e6, "Elapse Time(ms)": elapse,
            "Transit Time(ms)": transit, "Wait Time(ms)": wait, "Synchronization Time(ms)": wait, "Idle Time(ms)": 0,
            "Wait Time Ratio": ratio, "Synchronization Time Ratio": ratio,
        },
        "Communication Bandwidth Info": bandwidth,
    }  # fmt: skip


def _pair(event: Event, nbytes: float) -> dict[str, Any]:
    ms = (event.duration - event.args.get("wait", 0)) / 1e9
    return {
        "Transport Type": event.args.get("link", "HCCS"), "Transit Size(MB)": nbytes / 1e6, "Transit Time(ms)": ms,
        "Bandwidth(GB/s)": round(nbytes / 1e6 / ms, 4) if ms else 0, "Op Name": event.name,
    }  # fmt: skip
