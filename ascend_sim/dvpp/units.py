"""Time of media work: every kind of unit is a number of equal servers with a rate in pixels.

A job occupies the server that is free first; a batch is as many jobs as it has pictures, side by side. Rates are those
of the chip (`ascend_sim.soc.Dvpp`).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ascend_sim.runtime.device import Device
    from ascend_sim.soc import Soc

VPC, JPEGD, JPEGE, PNGD, VDEC, VENC = KINDS = ("vpc", "jpegd", "jpege", "pngd", "vdec", "venc")
SOFTWARE: Final = "jpegd_software"


def count(soc: Soc, kind: str) -> int:
    """How many units of a kind the chip has."""
    units: int = getattr(soc.dvpp, f"{kind}_units")
    return units


def job_ps(soc: Soc, kind: str, pixels: int) -> int:
    """How long one unit works on a picture; ``kind`` may be `SOFTWARE`."""
    rate: float = getattr(soc.dvpp, f"{kind}_mpixel_per_s")
    return round(Fraction(pixels) * 1_000_000 / Fraction(rate))


class Units:
    """When each unit of a device is free (ps). Jobs are reserved in the order in which streams reach them."""

    def __init__(self, soc: Soc) -> None:
        self._soc = soc
        self._free = {kind: [0] * count(soc, kind) for kind in KINDS}
        self.busy_ps = dict.fromkeys(KINDS, 0)

    def reserve(self, kind: str, ready: int, pixels: Sequence[int], software: bool = False) -> tuple[int, int]:
        """Work on pictures of these sizes, not before ``ready``: when the first one starts and the last one ends."""
        free = self._free[kind]
        spans = []
        for size in pixels:
            duration = job_ps(self._soc, SOFTWARE if software else kind, size)
            start = ready if software else max(ready, free[0])  # software runs beside the units
            if not software:
                free[0] = start + duration
                free.sort()
                self.busy_ps[kind] += duration
            spans.append((start, start + duration))
        return min((s for s, _ in spans), default=ready), max((e for _, e in spans), default=ready)


_units: weakref.WeakKeyDictionary[Device, Units] = weakref.WeakKeyDictionary()


def units_of(device: Device) -> Units:
    """The media units of a device."""
    found = _units.get(device)
    if found is None:
        found = _units[device] = Units(device.soc)
    return found
