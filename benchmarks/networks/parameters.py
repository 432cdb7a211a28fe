"""The figures of chips that are fitted to measured networks.

Each has a physical meaning, a range that other sources leave open, and a start: its value where the rows at hand say
nothing about it, taken from a document or from another chip, not from the networks of this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ascend_sim.soc import Soc

_IM2COL = tuple(f"mte.paths.L1_{side}:3d{how}" for side in ("L0A", "L0B") for how in ("", "_stride2", "_strided"))
_EXIT = ("mte.paths.L0C_UB:float32_float16", "mte.paths.L0C_UB:int32_float16")
_SMALL = ("mte.paths.L1_L0A:3d_c04",)


@dataclass(frozen=True)
class Parameter:
    """``keys`` are the figures that share the value (of a data path: its bytes per cycle); ``low`` and ``high`` bound
    it. Its effect is simulated at ``at`` and at the ``probes``; ``additive``: time is linear in it, so that one probe
    shows it."""

    name: str
    keys: tuple[str, ...]
    unit: str
    low: float
    high: float
    start: float
    at: float
    probes: tuple[float, ...]
    meaning: str
    why: str
    additive: bool = False

    def changes(self, value: float) -> dict[str, float]:
        """For `Soc.override`."""
        return {f"{k}.bytes_per_cycle" if k.startswith("mte.paths.") else k: value for k in self.keys}

    def value(self, soc: Soc) -> float:
        """What the chip file holds."""
        key = self.keys[0]
        if key.startswith("mte.paths."):
            return float(soc.mte.paths[key.removeprefix("mte.paths.")].bytes_per_cycle)
        return float(soc.figures[key].value)  # type: ignore[arg-type]


def _execute(start: float, at: float, probe: float) -> Parameter:
    return Parameter(
        "execute", ("launch.model_execute_us",), "us", 100, probe, start, at, (probe,),
        "scheduling of one execution of a loaded model, as the host times it",
        "rooflines of networks give 100 to 200", additive=True,
    )  # fmt: skip


def _gap(start: float, at: float, probe: float) -> Parameter:
    return Parameter(
        "gap", ("launch.model_gap_us",), "us", 0.0, probe, start, at, (probe,),
        "device scheduler between two kernels of a model", "only its sum with the launch head shows", additive=True,
    )  # fmt: skip


def _memory(low: float, high: float, start: float, at: float, *probes: float) -> Parameter:
    return Parameter(
        "memory", ("memory.read_gbps", "memory.write_gbps"), "GB/s", low, high, start, at, probes,
        "DDR, reads and writes together, sustained", "at most the peak; start: 0.95 of it",
    )  # fmt: skip


def _im2col(low: float, high: float, start: float, at: float, *probes: float) -> Parameter:
    return Parameter(
        "im2col", _IM2COL, "B/cycle", low, high, start, at, probes, "im2col loads from L1 to L0 of one core",
        "the ini's 512 holds for plain loads; start: value of another chip",
    )  # fmt: skip


def _vector(low: float, high: float, at: float, *probes: float) -> Parameter:
    return Parameter(
        "vector", ("vector.scale",), "factor", low, high, 1.0, at, probes, "vector cycles against the table of 910B",
        "start: the table",
    )  # fmt: skip


def _small(start: float, at: float, *probes: float) -> Parameter:
    return Parameter(
        "c04", _SMALL, "B/cycle", 16, 128, start, at, probes,
        "im2col loads of four-channel pixels, preprocessing included", "start: value of another chip",
    )  # fmt: skip


def _exit(at: float, *probes: float) -> Parameter:
    return Parameter(
        "exit", _EXIT, "B/cycle", 100, 400, 142, at, probes, "L0C to UB with conversion to float16",
        "the ini's 512 without conversion; start: 310, from its ini and the conversion",
    )  # fmt: skip


PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "Ascend310P3": (
        _execute(100, 130, 250), _gap(1, 0.2, 3), _memory(180, 204.8, 195, 200, 178.885, 202.386),
        _vector(0.7, 2.5, 1.3, 0.953939, 1.80278), _im2col(64, 256, 95, 115, 85.7904, 171.581),
        _small(60, 28, 21.166, 59.8665), _exit(195, 139.642, 279.285),
    ),
    "Ascend310": (
        _execute(130, 100, 300), _gap(1, 1, 6), _memory(42, 51.2, 48.6, 48, 41.5692, 49.5742),
        _im2col(72, 128, 115, 90, 75.8947, 151.789),
    ),
    "Ascend310B1": (
        _execute(130, 130, 300), _gap(1, 0.65, 3), _memory(55, 66, 62.7, 64, 53.066, 64.9923),
        _vector(0.35, 1.4, 0.7, 0.494975, 0.989949), _im2col(75, 128, 115, 95, 77.9744, 155.949),
        _small(28, 60, 30.9839, 87.6356),
    ),
}  # fmt: skip
