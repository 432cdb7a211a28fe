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
    it; ``at`` is the value around which its effect is simulated; ``additive``: time is linear in it, so that one other
    value shows its effect."""

    name: str
    keys: tuple[str, ...]
    unit: str
    low: float
    high: float
    start: float
    at: float
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

    def levels(self) -> tuple[float, ...]:
        """Values to simulate at besides ``at``: towards either end of the range."""
        return (self.high,) if self.additive else ((self.low * self.at) ** 0.5, (self.high * self.at) ** 0.5)


def _execute(low: float, high: float, start: float, at: float) -> Parameter:
    return Parameter(
        "execute", ("launch.model_execute_us",), "us", low, high, start, at,
        "scheduling of one execution of a loaded model, as the host times it", "no public figure", additive=True,
    )  # fmt: skip


def _gap(high: float, start: float, at: float) -> Parameter:
    return Parameter(
        "gap", ("launch.model_gap_us",), "us", 0.0, high, start, at, "device scheduler between two kernels of a model",
        "0 to a few us; only its sum with the launch head shows", additive=True,
    )  # fmt: skip


def _memory(low: float, high: float, start: float, at: float) -> Parameter:
    return Parameter(
        "memory", ("memory.read_gbps", "memory.write_gbps"), "GB/s", low, high, start, at,
        "DDR, reads and writes together, sustained", "at most the peak; start: 0.95 of it",
    )  # fmt: skip


def _im2col(start: float, at: float) -> Parameter:
    return Parameter(
        "im2col", _IM2COL, "B/cycle", 64, 256, start, at, "im2col loads from L1 to L0 of one core",
        "the ini's 512 holds for plain loads; start: value of another chip",
    )  # fmt: skip


def _vector(low: float, high: float, at: float) -> Parameter:
    return Parameter(
        "vector", ("vector.scale",), "factor", low, high, 1.0, at, "vector cycles against the table of 910B",
        "start: the table",
    )  # fmt: skip


def _small(start: float, at: float) -> Parameter:
    return Parameter(
        "c04", _SMALL, "B/cycle", 16, 128, start, at, "im2col loads of four-channel pixels, preprocessing included",
        "start: value of another chip",
    )  # fmt: skip


def _exit() -> Parameter:
    return Parameter(
        "exit", _EXIT, "B/cycle", 100, 400, 142, 195, "L0C to UB with conversion to float16",
        "the ini's 512 without conversion; start: 910A, from its ini and the conversion",
    )  # fmt: skip


PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "Ascend310P3": (
        _execute(50, 250, 100, 130), _gap(3, 1, 0.2), _memory(160, 204.8, 195, 200), _vector(0.7, 2.5, 1.3),
        _im2col(95, 115), _small(60, 28), _exit(),
    ),
    "Ascend310": (_execute(30, 300, 130, 100), _gap(6, 1, 1), _memory(36, 51.2, 48.6, 48), _im2col(115, 90)),
    "Ascend310B1": (
        _execute(60, 300, 130, 130), _gap(3, 1, 0.65), _memory(44, 66, 62.7, 64), _vector(0.35, 1.4, 0.7),
        _im2col(115, 95), _small(28, 60),
    ),
}  # fmt: skip
