"""Device memory over time, and who held most of it at the peak."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ascend_sim.profiling.ascend_pt_memory import changes
from ascend_sim.profiling.store import EventStore

POINTS = 2000  # of a curve; more are thinned out, peaks are kept
HOLDERS = 8


def memory_use(store: EventStore, capacity: int) -> list[dict[str, Any]]:
    """Per device: ``points`` as (us, bytes), ``peak`` bytes and the us of it, ``holders`` as (name, blocks, bytes)."""
    curves: dict[int, list[tuple[int, int]]] = defaultdict(list)
    living: dict[int, dict[int, tuple[str, int]]] = defaultdict(dict)
    peaks: dict[int, tuple[int, int, dict[str, list[int]]]] = {}
    for event in changes(store):
        if event.args.get("component", "APP") != "APP":
            continue
        used, device = event.args["allocated"], event.device
        curves[device].append((event.start, used))
        if event.args["nbytes"] >= 0:
            living[device][event.args["address"]] = event.name, event.args["nbytes"]
            if used > peaks.get(device, (0, 0, {}))[0]:
                peaks[device] = used, event.start, {}
                held = peaks[device][2]
                for name, nbytes in living[device].values():
                    entry = held.setdefault(name, [0, 0])
                    entry[0] += 1
                    entry[1] += nbytes
        else:
            living[device].pop(event.args["address"], None)
    return [
        {
            "device": device, "capacity": capacity, "peak": peaks[device][0], "peak_us": peaks[device][1] / 1e6,
            "points": [[t / 1e6, n] for t, n in thinned(curve)],
            "holders": [[name, *found] for name, found in
                        sorted(peaks[device][2].items(), key=lambda item: -item[1][1])[:HOLDERS]],
        }
        for device, curve in sorted(curves.items()) if device in peaks
    ]  # fmt: skip


def thinned(curve: list[tuple[int, int]], most: int = POINTS) -> list[tuple[int, int]]:
    """At most about ``most`` points: of each stretch the first, the largest and the last."""
    if len(curve) <= most:
        return curve
    step = -(-3 * len(curve) // most)
    found: list[tuple[int, int]] = []
    for at in range(0, len(curve), step):
        part = curve[at : at + step]
        top = max(range(len(part)), key=lambda i: part[i][1])
        found += [part[i] for i in sorted({0, top, len(part) - 1})]
    return found
