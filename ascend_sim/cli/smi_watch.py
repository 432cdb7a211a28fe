"""``npu-smi info watch`` and ``npu-smi info -t proc-mem``: devices as they change, processes of one of them.

Layouts are those of public listings: columns of twelve characters that scroll, one line a device and interval; lines
``Process id:... Process name:... Process memory(MB):...``. Letters of ``-s`` are those of the npu-smi reference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ascend_sim.cli.errors import CommandError

COLUMNS = {
    "p": "Pwr(W)", "t": "Temp(C)", "a": "AI Core(%)", "i": "AI Cpu(%)", "c": "Ctrl Cpu(%)", "m": "Memory(%)",
    "b": "Memory BW(%)",
}  # fmt: skip
ALL = "ptaicmb"
WIDTH, NAME_WIDTH = 12, 18
DELAYS = range(1, 101)  # seconds
MIB = 1 << 20


def title(metrics: str) -> str:
    """Titles of the columns ``metrics``, in the order of `COLUMNS`."""
    return _line(["NpuID(Idx)", "ChipId(Idx)", *(COLUMNS[letter] for letter in _chosen(metrics))])


def row(device: dict[str, Any], metrics: str, temperature: int) -> str:
    """A device as it is now. What nothing models (its own CPUs) is idle, what nothing measures meanwhile is NA."""
    cells = {
        "p": f"{device['power']:.1f}", "t": str(temperature), "a": f"{100 * device['aicore']:.0f}", "i": "0", "c": "0",
        "m": f"{100 * device['used'] / device['capacity']:.0f}", "b": "NA",
    }  # fmt: skip
    return _line([str(device["id"]), "0", *(cells[letter] for letter in _chosen(metrics))])


def rounds(delay: int, count: int | None) -> Iterator[int]:
    """Numbers from 0 that come ``delay`` seconds after each other, ``count`` of them (None: for ever)."""
    number = 0
    while count is None or number < count:
        if number:
            time.sleep(delay)
        yield number
        number += 1


def check(metrics: str, delay: int) -> None:
    """Raises `CommandError` for letters and delays that npu-smi does not take."""
    unknown = [letter for letter in metrics if letter not in COLUMNS]
    if unknown or not metrics:
        raise CommandError(f"-s {metrics}: expected letters of {ALL}")
    if delay not in DELAYS:
        raise CommandError(f"-d {delay}: expected seconds from {DELAYS.start} to {DELAYS.stop - 1}")


def _chosen(metrics: str) -> list[str]:
    return [letter for letter in COLUMNS if letter in metrics]


def _line(cells: Sequence[str]) -> str:
    return "".join(f"{cell:<{WIDTH}}" for cell in cells)


def processes(device: dict[str, Any]) -> str:
    """The processes of a device."""
    lines = [
        f"\tProcess id:{p['pid']:<8}Process name:{p['name'][:15]:<{NAME_WIDTH}}Process memory(MB):{p['used'] // MIB}"
        for p in device["processes"]
    ]
    return "\n".join(lines or ["\tNo process in device."])
