"""Coordinate search for the parameters of a chip that bring simulated times of networks nearest to measured ones.

Between simulated values of a parameter its effect on a time is interpolated, and the effects of several add up:
kernels bound by different units respond to different parameters. What is reported is simulated again at the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from ascend_sim.profiling.calibration import ModelRow

from .parameters import Parameter

Array = NDArray[np.float64]
STEPS = 61  # values of a parameter that the search tries
ROUNDS = 30
WORST = 0.5  # errors of ln(time) above count as this: rows that no parameter explains
HOLD = 0.01  # of the loss, at the end of a parameter's range: rows that say nothing leave it at its start


@dataclass(frozen=True)
class Effects:
    """Simulated times of rows: ``base`` at the ``values`` of the parameters, and by parameter at ``levels``."""

    rows: tuple[ModelRow, ...]
    parameters: tuple[Parameter, ...]
    values: tuple[float, ...]
    base: Array
    levels: tuple[tuple[float, ...], ...]
    times: tuple[Array, ...]  # (levels, rows) each, levels ascending and with the base value among them

    def change(self, index: int, value: float) -> Array:
        """What ``value`` of a parameter adds to the base times, us: linear in it, or in its logarithm between and
        beyond the simulated values."""
        at, times = self.levels[index], self.times[index]
        scale: Callable[[float], float] = float if self.parameters[index].additive else log
        low = max((i for i in range(len(at) - 1) if at[i] <= value), default=0)
        part = (scale(value) - scale(at[low])) / (scale(at[low + 1]) - scale(at[low]))
        result: Array = times[low] * (1 - part) + times[low + 1] * part - self.base
        return result

    def predicted(self, values: Sequence[float]) -> Array:
        total: Array = self.base + sum(self.change(i, v) for i, v in enumerate(values))
        return total


def loss(predicted: Array, rows: Sequence[ModelRow], chosen: Array) -> float:
    """Mean over networks of the mean absolute error of ln(time) of the chosen rows."""
    errors = np.minimum(np.abs(np.log(predicted / np.asarray([r.us for r in rows]))), WORST)
    names = [r.model for r in rows]
    groups: dict[str, list[float]] = {}
    for name, error, use in zip(names, errors, chosen, strict=True):
        if use:
            groups.setdefault(name, []).append(float(error))
    return float(np.mean([np.mean(g) for g in groups.values()]))


def _grid(p: Parameter) -> Array:
    if p.additive:
        return np.linspace(p.low, p.high, STEPS)
    return np.exp(np.linspace(log(p.low), log(p.high), STEPS))


def _pull(p: Parameter, value: float) -> float:
    """Cost of leaving the start: `HOLD` at the farther end of the range."""
    if p.additive:
        return HOLD * ((value - p.start) / max(p.high - p.start, p.start - p.low)) ** 2
    return HOLD * (log(value / p.start) / max(log(p.high / p.start), log(p.start / p.low))) ** 2


def search(effects: Effects, chosen: Array) -> tuple[float, ...]:
    """Parameter values with the least loss over the ``chosen`` rows (a mask)."""
    parameters = effects.parameters
    values = [p.start for p in parameters]
    changes = [effects.change(i, v) for i, v in enumerate(values)]
    best = _cost(effects, chosen, changes, values)
    for _ in range(ROUNDS):
        before = best
        for i, p in enumerate(parameters):
            for value in map(float, _grid(p)):
                change = effects.change(i, value)
                tried = [*changes[:i], change, *changes[i + 1 :]]
                cost = _cost(effects, chosen, tried, [*values[:i], value, *values[i + 1 :]])
                if cost < best - 1e-9:
                    best, values[i], changes[i] = cost, value, change
        if best > before - 1e-6:
            break
    return tuple(float(f"{v:.3g}") for v in values)


def _cost(effects: Effects, chosen: Array, changes: Sequence[Array], values: Sequence[float]) -> float:
    total = effects.base + sum(changes)
    pulls = sum(_pull(p, v) for p, v in zip(effects.parameters, values, strict=True))
    return loss(np.maximum(total, 1.0), effects.rows, chosen) + pulls


def combined(parameters: Sequence[Parameter], values: Sequence[float]) -> dict[str, float]:
    """Overrides of all parameters."""
    out: dict[str, float] = {}
    for p, value in zip(parameters, values, strict=True):
        out |= p.changes(value)
    return out
