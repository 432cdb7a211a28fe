"""What ``report.html`` shows, as plain JSON (``events.json``): chip, totals, operators, roofs and the timeline.

Times are microseconds. The timeline's columns are little-endian arrays, deflated and in base64, slices ordered by lane
and start; slices of one lane do not overlap.
"""

from __future__ import annotations

import base64
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.timing import core_count
from ascend_sim.profiling import bottleneck, optable, whatif
from ascend_sim.profiling.bands import NO_BAND
from ascend_sim.profiling.memory_use import memory_use
from ascend_sim.profiling.spans import merged
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import CONFIDENCES, Soc

VERSION = 1
PIPED = 20_000
PIPE_ORDER = ("cube", "vector", "mte1", "mte2", "mte3", "fixpipe", "scalar")


def report_data(store: EventStore, soc: Soc) -> dict[str, Any]:
    rows = optable.rows(store)
    return {
        "version": VERSION,
        "soc": _chip(soc),
        "totals": _totals(store, rows, soc),
        "models": _models(store),
        "operators": [_operator(row, soc) for row in rows],
        "roofs": _roofs(soc),
        "advice": bottleneck.ADVICE,
        "whatif": whatif.advice(rows, soc),
        "memory": memory_use(store, soc.memory.capacity_bytes),
        "traffic": _traffic(store),
        "timeline": _timeline(store, rows),
    }


def _chip(soc: Soc) -> dict[str, Any]:
    known = Counter(f.confidence for key, f in soc.figures.items() if not key.startswith("board."))
    return {
        "name": soc.name,
        "digest": soc.digest,
        "confidence": {word: known[word] for word in CONFIDENCES},
        "facts": [
            ["AI cores", str(soc.cores.ai_core_count)],
            ["vector cores", str(soc.cores.vector_core_count)],
            ["core clock", f"{soc.cores.clock_mhz:g} MHz"],
            ["memory", f"{soc.memory.capacity_bytes / 2**30:g} GiB {soc.memory.kind}, {soc.memory.peak_gbps:g} GB/s"],
            ["L2", f"{soc.memory.l2_bytes / 2**20:g} MiB, {soc.memory.l2_read_gbps:g} GB/s"],
        ],
    }


def _totals(store: EventStore, rows: list[optable.Row], soc: Soc) -> dict[str, Any]:
    """``span`` from the first kernel's start to the last one's end, ``busy`` the part of it with a kernel running;
    ``pipes``: busy share of all cores' pipes during kernels."""
    kernels = store.kernels()
    spans = merged((e.start, e.end) for e in kernels)
    busy = sum(end - start for start, end in spans)
    used: dict[str, float] = defaultdict(float)
    for event in kernels:
        timing = event.args.get("timing")
        if timing is not None:
            kind = {"MIX": "AIC"}.get(timing.kind, timing.kind)
            for pipe, ps in timing.busy_ps.items():
                used[pipe.removeprefix("aiv_")] += ps * min(1.0, timing.cores_used / core_count(soc, kind))
    total = sum(e.duration for e in kernels) or 1
    return {
        "kernels": len(kernels),
        "busy_us": busy / 1e6,
        "span_us": (spans[-1][1] - spans[0][0]) / 1e6 if spans else 0.0,
        "host_us": max((e.end for e in store.events), default=0) / 1e6,
        "estimated_us": sum(r.ps for r in rows if r.estimated) / 1e6,
        "device_us": sum(r.ps for r in rows) / 1e6,
        "copies": _copies(store),
        "pipes": {pipe: min(1.0, ps / total) for pipe, ps in sorted(used.items(), key=lambda item: -item[1])},
    }


def _copies(store: EventStore) -> list[dict[str, Any]]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for event in store.of_kind("memcpy"):
        found = sums[str(event.args.get("direction", "copy"))]
        found[0] += 1
        found[1] += event.args.get("nbytes", 0)
        found[2] += event.duration
    return [{"direction": d, "count": n, "bytes": b, "us": ps / 1e6} for d, (n, b, ps) in sorted(sums.items())]


def _traffic(store: EventStore) -> dict[str, int]:
    """Bytes that kernels read and wrote, of the reads those found in L2, and what went to and from memory."""
    timings = [t for e in store.kernels() if (t := e.args.get("timing")) is not None]
    return {
        "read": sum(t.gm_read for t in timings), "write": sum(t.gm_write for t in timings),
        "hit": sum(t.l2_hit for t in timings), "hbm": sum(t.hbm_bytes for t in timings),
    }  # fmt: skip


def _models(store: EventStore) -> list[dict[str, Any]]:
    runs: dict[str, list[float]] = defaultdict(list)
    for event in store.of_kind("model"):
        runs[event.name].append(event.duration / 1e6)
    return [{"name": n, "runs": len(t), "us": sum(t) / len(t), "min": min(t), "max": max(t)} for n, t in runs.items()]


def _operator(row: optable.Row, soc: Soc) -> dict[str, Any]:
    us = row.ps / 1e6
    ratios = {pipe: min(1.0, busy / row.core_ps) for pipe, busy in row.busy.items()} if row.core_ps else {}
    ops, compute_us, unit = (0, 0.0, "")
    if row.call is not None:
        ops, compute_us, unit = bottleneck.arithmetic(row.call, soc)
        ops, compute_us = ops * row.count, compute_us * row.count
    paths = {soc.memory.peak_gbps: row.hbm_bytes, max(soc.memory.l2_read_gbps, soc.memory.peak_gbps): row.gm_bytes}
    share, word = bottleneck.peak_share(us, compute_us, paths)
    return {
        "name": row.name, "type": row.type, "shapes": row.shapes, "runs": row.count, "us": us, "blocks": row.blocks,
        "cycles": row.cycles, "bound": row.bound, "class": bottleneck.classify(share, word, ratios), "peak": share,
        "ratios": ratios, "ops": ops, "unit": unit, "gm": row.gm_bytes, "hbm": row.hbm_bytes,
        "estimated": row.estimated, "confidence": row.confidence, "figures": row.figures(soc),
        "band": band.text(row.us) if (band := row.band(soc)) else NO_BAND,
    }  # fmt: skip


def _roofs(soc: Soc) -> dict[str, Any]:
    """Peaks of the units in Tera operations per second, and of the memories in GB/s."""
    cube = soc.cores.ai_core_count * soc.cores.clock_mhz / 1e6 * 2 * 16**3 / soc.cube.fp16_cycles_per_fractal
    vectors = soc.cores.vector_core_count if soc.chip.split_cores else soc.cores.ai_core_count
    vector = vectors * soc.cores.clock_mhz / 1e6 * soc.vector.repeat_bytes / 2
    return {
        "compute": [["cube float16", cube], ["vector float16", vector]],
        "memory": [[soc.memory.kind, soc.memory.peak_gbps], ["L2", soc.memory.l2_read_gbps]],
    }


# -- timeline ----------------------------------------------------------------------------------------------


def _timeline(store: EventStore, rows: list[optable.Row]) -> dict[str, Any]:
    index = {(row.name, row.call): i for i, row in enumerate(rows)}
    lanes: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    for key, events in _by_thread(store).items():
        for depth, parts in enumerate(_disjoint(events)):
            lanes[(*key, depth)] = parts
    names: dict[str, int] = {}
    columns: list[tuple[float, float, int, int, int]] = []
    for lane, events in enumerate(lanes.values()):
        for event in events:
            row = index.get((event.name, event.args.get("call")), -1) if event.kind in ("kernel", "aicpu") else -1
            name = names.setdefault(_label(event), len(names))
            columns.append((event.start / 1e6, event.duration / 1e6, lane, name, row))
    labels = [_lane(*key) for key in lanes]
    for device, pipe, drawn in _pipes(store):
        labels.append([f"NPU {device}", pipe, 0])
        for event, start, busy in drawn:
            name = names.setdefault(_label(event), len(names))
            row = index.get((event.name, event.args.get("call")), -1)
            columns.append((start / 1e6, busy / 1e6, len(labels) - 1, name, row))
    table = np.array(columns, np.float64).reshape(-1, 5)
    return {
        "lanes": labels,
        "names": list(names),
        "count": len(columns),
        "start": _packed(table[:, 0].astype("<f8")),
        "dur": _packed(table[:, 1].astype("<f4")),
        "lane": _packed(table[:, 2].astype("<u2")),
        "name": _packed(table[:, 3].astype("<u4")),
        "op": _packed(table[:, 4].astype("<i4")),
    }


def _pipes(store: EventStore) -> Iterator[tuple[int, str, list[tuple[Event, int, int]]]]:
    """Per device and pipe: kernels with the time that the pipe was busy in them (mean of the cores), drawn from the
    start of the core's work. Left out for runs with more kernels than `PIPED`."""
    kernels = [e for e in store.kernels() if e.args.get("timing") is not None]
    if len(kernels) > PIPED:
        return
    found: dict[tuple[int, str], list[tuple[Event, int, int]]] = defaultdict(list)
    ends: dict[tuple[int, str], int] = defaultdict(int)
    for event in kernels:
        timing = event.args["timing"]
        for pipe, busy in timing.busy_ps.items():
            key = event.device, pipe
            start = max(event.start + timing.head_ps, ends[key])  # streams overlap: one after the other
            found[key].append((event, start, busy))
            ends[key] = start + busy
    for key in sorted(found, key=lambda k: (k[0], list(PIPE_ORDER).index(k[1]) if k[1] in PIPE_ORDER else 99, k[1])):
        yield *key, found[key]


def _by_thread(store: EventStore) -> dict[tuple[int, int], list[Event]]:
    """Events by (-1, host thread) and (device, stream)."""
    found: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in store.events:
        if event.kind == "memory":
            continue
        found[(-1, event.thread) if event.stream < 0 else (event.device, event.stream)].append(event)
    return {key: sorted(found[key], key=lambda e: (e.start, -e.end)) for key in sorted(found)}


def _disjoint(events: list[Event]) -> list[list[Event]]:
    """Events dealt to as few lanes as needed so that none overlap; what lies inside another goes below it."""
    lanes: list[list[Event]] = []
    for event in events:
        free = len(lanes)
        while free and lanes[free - 1][-1].end <= event.start:
            free -= 1
        if free == len(lanes):
            lanes.append([])
        lanes[free].append(event)
    return lanes


def _lane(device: int, thread: int, depth: int) -> list[Any]:
    """Group, label and depth."""
    return ["host", f"thread {thread}", depth] if device < 0 else [f"NPU {device}", f"stream {thread}", depth]


def _label(event: Event) -> str:
    if event.kind == "memcpy":
        return f"memcpy {event.args.get('direction', '')} {event.args.get('nbytes', 0)} B"
    return event.name


def _packed(column: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(column.tobytes(), 6)).decode()
