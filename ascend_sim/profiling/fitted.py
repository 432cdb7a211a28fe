"""Figures of chip files that were fitted to times of kernels or networks: their source says so.

A source of a fitted figure reads ``fit over N rows ...`` (or times, kernels, throughputs): the number of measurements
is part of it, and fewer than `LEAST_ROWS` do not make a fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ascend_sim.profiling.accuracy import Outcome
from ascend_sim.soc import Figure, Soc, SocError, load_soc

LEAST_ROWS = 3
NO_DURATION = ("memory.l2_policy", "memory.miss_overlap", "memory.short_burst_bytes")  # they say how figures meet
_FITTED = re.compile(r"\bfit(?:s|ted)? (?:over|to)\b")
_COUNT = re.compile(_FITTED.pattern + r".*?(?<![\w.])(\d+) (?:[\w-]+ )*?(?:rows|kernels|times|throughputs)\b")


def fitted_on(source: str) -> int | None:
    """How many measurements a figure with this source was fitted on; 0 when it does not say, None when not fitted."""
    if not _FITTED.search(source):
        return None
    found = _COUNT.search(source)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class FittedFigure:
    """One fitted value: the figures that have it from this fit (im2col into L0A and L0B may share one), the chips, and
    the validated rows whose time rests on it. ``users`` is None where the figure is no part of a duration (a policy, a
    threshold)."""

    keys: tuple[str, ...]
    figure: Figure
    meaning: str
    chips: tuple[str, ...]
    rows: int
    users: tuple[str, ...] | None


def fitted_figures(outcomes: Sequence[Outcome]) -> list[FittedFigure]:
    """Fitted figures of the chips of ``outcomes``, sorted by key. Chips that are not known are left out."""
    users: dict[tuple[str, str], list[str]] = {}
    for o in outcomes:
        for key in o.figures:
            users.setdefault((o.soc, key), []).append(o.id)
    places: dict[tuple[str, str, str, str], list[tuple[Soc, str]]] = {}
    for chip in _chips(outcomes):
        for key, figure in chip.figures.items():
            if fitted_on(figure.source) is not None:
                table = key.rpartition(".")[0]
                places.setdefault((table, figure.unit, str(figure.value), figure.source), []).append((chip, key))
    return sorted((_gather(found, users) for found in places.values()), key=lambda f: (f.keys, f.chips))


def _gather(found: Sequence[tuple[Soc, str]], users: Mapping[tuple[str, str], Sequence[str]]) -> FittedFigure:
    chip, key = found[0]
    figure = chip.figures[key]
    keys = tuple(dict.fromkeys(k for _, k in found))
    ids = dict.fromkeys(row for c, k in found for row in users.get((c.name, k), ()))
    return FittedFigure(
        keys,
        figure,
        chip.meaning(key),
        chips=tuple(dict.fromkeys(c.name for c, _ in found)),
        rows=fitted_on(figure.source) or 0,
        users=None if key in NO_DURATION else tuple(ids),
    )


def _chips(outcomes: Iterable[Outcome]) -> Iterable[Soc]:
    for name in sorted({o.soc for o in outcomes}):
        try:
            yield load_soc(name)
        except SocError:
            continue
