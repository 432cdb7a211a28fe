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
    """A fitted figure, the chips that have it with this value, and the validated rows whose time rests on it."""

    key: str
    figure: Figure
    meaning: str
    chips: tuple[str, ...]
    rows: int
    users: tuple[str, ...]


def fitted_figures(outcomes: Sequence[Outcome]) -> list[FittedFigure]:
    """Fitted figures of the chips of ``outcomes``, by key and value. Chips that are not known are left out."""
    chips = list(_chips(outcomes))
    users: dict[tuple[str, str], list[str]] = {}
    for o in outcomes:
        for key in o.figures:
            users.setdefault((o.soc, key), []).append(o.id)
    places: dict[tuple[str, str], list[Soc]] = {}
    for chip in chips:
        for key, figure in chip.figures.items():
            if fitted_on(figure.source) is not None:
                places.setdefault((key, str(figure.value)), []).append(chip)
    return [_gather(key, found, users) for (key, _), found in sorted(places.items())]


def _gather(key: str, chips: Sequence[Soc], users: Mapping[tuple[str, str], Sequence[str]]) -> FittedFigure:
    figure = chips[0].figures[key]
    ids = [row for chip in chips for row in users.get((chip.name, key), ())]
    names = tuple(chip.name for chip in chips)
    return FittedFigure(key, figure, chips[0].meaning(key), names, fitted_on(figure.source) or 0, tuple(ids))


def _chips(outcomes: Iterable[Outcome]) -> Iterable[Soc]:
    for name in sorted({o.soc for o in outcomes}):
        try:
            yield load_soc(name)
        except SocError:
            continue
