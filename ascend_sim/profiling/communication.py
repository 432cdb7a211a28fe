"""communication.json and communication_matrix.json from ``collective`` events.

`communication` and `matrix` are torch_npu's, by step and kind (Ascend/pytorch, torch_npu/profiler/analysis/prof_view/
cann_parse); `plain` and `plain_matrix` those that ``msprof --analyze`` writes into ``PROF_*/analyze``: operations and
their total (Ascend/msprof, analysis/analyzer). Of an event, ``nbytes`` is what this rank sent, ``wait`` the ps it
waited for the others, ``link`` what carried it (``HCCS``, ``PCIE``, ``RDMA``, ``SDMA``), ``group`` the communicator
and ``ranks`` its members.
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
TOTAL, PLAIN_TOTAL = "Total Op Info", "Total HCCL Operators"
GROUP = "hccl_world_group"
MULTIPLIERS = (29, 131)  # of the two hashes in the number of a communicator


def communication(store: EventStore) -> dict[str, Any]:
    """Times and bandwidths of every operation, by step and kind, with a total of each kind."""
    found: dict[str, Any] = {}
    for step, events in _by_step(store):
        kinds: dict[str, dict[str, Any]] = {"p2p": {}, "collective": {}}
        parts: dict[str, list[Event]] = defaultdict(list)
        for number, event in enumerate(events):
            kind = _kind(event)
            parts[kind].append(event)
            kinds[kind][operation_name(event, number)] = _info([event])
        for kind, members in parts.items():
            kinds[kind][TOTAL] = _info(members)
        kinds["collective"].setdefault(TOTAL, _info([]))  # readers look here also where nothing was communicated
        found[step] = kinds
    return found


def matrix(store: EventStore) -> dict[str, Any]:
    """Traffic between pairs of ranks of a communicator, as far as the events say who took part."""
    found: dict[str, Any] = {}
    for step, events in _by_step(store):
        kinds: dict[str, dict[str, Any]] = {"p2p": {}, "collective": {}}
        for number, event in enumerate(events):
            kinds[_kind(event)][operation_name(event, number)] = _links(event)
        found[step] = kinds
    return found


def plain(store: EventStore) -> dict[str, Any]:
    """Times and bandwidths of every operation and of all together."""
    events = ordered(store)
    return {operation_name(e, i): _info([e]) for i, e in enumerate(events)} | {PLAIN_TOTAL: _info(events)}


def plain_matrix(store: EventStore) -> dict[str, Any]:
    """Traffic between pairs of ranks by operation, and that of all together."""
    found = {operation_name(e, i): _links(e) for i, e in enumerate(ordered(store))}
    total: dict[str, dict[str, Any]] = {}
    for links in found.values():
        for pair, link in links.items():
            size, ms = (total.get(pair, {}).get(key, 0) + link[key] for key in ("Transit Size(MB)", "Transit Time(ms)"))
            total[pair] = _link(link["Transport Type"], size, ms)
    return found | {PLAIN_TOTAL: total}


def groups(store: EventStore) -> dict[str, dict[str, Any]]:
    """Communicators as ``profiler_metadata.json`` lists them: by name, this rank's number in it and its members."""
    found: dict[str, dict[str, Any]] = {}
    for event in ordered(store):
        facts = {"group_name": "default_group", "group_rank": rank_of(event), "global_ranks": members(event)}
        found.setdefault(group_of(event), facts)
    return found


def group_number(name: str) -> int:
    """The number that stands for a communicator in file: two polynomial hashes of its name, 32 bits each."""
    low = high = 0
    for letter in name:
        high = (high * MULTIPLIERS[0] + ord(letter)) % 2**32
        low = (low * MULTIPLIERS[1] + ord(letter)) % 2**32
    return high << 32 | low


def members(event: Event) -> list[int]:
    """Ranks of a communicator, where only their number is known counted from 0."""
    ranks = event.args.get("ranks", ())
    return list(range(ranks)) if isinstance(ranks, int) else list(ranks)


def ordered(store: EventStore) -> list[Event]:
    """Collectives in the order that numbers them."""
    return sorted(store.of_kind("collective"), key=lambda e: (e.start, e.device))


def _by_step(store: EventStore) -> Iterator[tuple[str, list[Event]]]:
    scopes = Scopes(store)
    steps: dict[str, list[Event]] = defaultdict(list)
    for event in ordered(store):
        number = scopes.step_of(event)
        steps["step" if number is None else f"step{number}"].append(event)
    yield from steps.items() or [("step", [])]


def _kind(event: Event) -> str:
    return "p2p" if any(word in event.name.lower() for word in POINT_TO_POINT) else "collective"


def group_of(event: Event) -> str:
    """The communicator's name."""
    return str(event.args.get("group", GROUP))


def operation_name(event: Event, number: int) -> str:
    """``hcom_allReduce__123_0_1@<number of the communicator>``: operation ``number`` of a run."""
    group = group_number(group_of(event))
    return f"{event.name}_{group % 1000:03d}_{number}_1@{group}"


def rank_of(event: Event) -> int:
    """Who took part: the rank of the event's process in the communicator."""
    return int(event.args.get("rank", event.device))


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


def _links(event: Event) -> dict[str, Any]:
    """Pairs of ranks with what went from the first to the second; that of a rank with itself names the rank."""
    mine = rank_of(event)
    others = [r for r in members(event) if r != mine]
    share = event.args.get("nbytes", 0) / max(len(others), 1) / 1e6
    ms = (event.duration - event.args.get("wait", 0)) / 1e9
    found = {f"{mine}-{mine}": _link("LOCAL", 0, 0)}
    found |= {f"{mine}-{other}": _link(event.args.get("link", "HCCS"), share, ms) for other in others}
    return {pair: link | {"Op Name": event.name} for pair, link in found.items()}


def _link(transport: str, mb: float, ms: float) -> dict[str, Any]:
    return {"Transport Type": transport, "Transit Size(MB)": mb, "Transit Time(ms)": ms,
            "Bandwidth(GB/s)": round(mb / ms, 4) if ms else 0}  # fmt: skip
