"""Scores of predictions against measurements, in plain Python.

A row is scored by the signed relative error of its prediction. Where the state of L2 at the measurement is unknown the
prediction is the interval between the warm and the cold time, and the error is the distance to its nearer end (zero
inside).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

SHORT_US = 10.0  # rows below are scored in microseconds: launch jitter outweighs the kernel
PIPE_FLOOR_US = 1.0  # pipe times at or below are not compared
TIE = 0.05  # pipes whose measured times differ by less share the bound: profiles of one thing differ by as much


@dataclass(frozen=True)
class Outcome:
    """One row and what was predicted for it.

    ``us_predicted`` is None when nothing was (``reason`` says why); ``us_predicted_cold`` is set where L2 was unknown,
    and then ``us_predicted`` is the warm time. ``pipes`` and ``pipes_cold`` are busy times in us by pipe, mean over
    the used cores; ``pipe_us_measured`` the same from the profile. ``pipe_cycles`` go with ``pipes``.
    ``figures`` are those of the chip that the prediction rests on.
    """

    id: str
    soc: str
    family: str
    op: str
    us_measured: float
    batch: int = 0  # of a network; 0 for operators
    us_predicted: float | None = None
    us_predicted_cold: float | None = None
    pipes: Mapping[str, float] = field(default_factory=dict)
    pipes_cold: Mapping[str, float] = field(default_factory=dict)
    pipe_cycles: Mapping[str, int] = field(default_factory=dict)
    core_us: float = 0.0
    pipe_us_measured: Mapping[str, float] = field(default_factory=dict)
    bound: str | None = None
    estimated: bool = False
    confidence: str = ""
    figures: tuple[str, ...] = ()
    reason: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lowest and highest prediction in us."""
        if self.us_predicted is None:
            return None
        other = self.us_predicted if self.us_predicted_cold is None else self.us_predicted_cold
        return min(self.us_predicted, other), max(self.us_predicted, other)

    @property
    def error_us(self) -> float | None:
        """Predicted minus measured, in us, from the nearer end of the interval."""
        return None if self.interval is None else miss(self.us_measured, *self.interval)

    @property
    def error(self) -> float | None:
        """`error_us` relative to the measurement."""
        return None if self.error_us is None else self.error_us / self.us_measured

    @property
    def centre(self) -> float | None:
        """Geometric middle of the interval, for ranks."""
        return None if self.interval is None else sqrt(self.interval[0] * self.interval[1])


@dataclass(frozen=True)
class Score:
    """Figures of one group of rows. ``median``, ``p90`` and ``bias`` are fractions (``bias`` is the median signed
    error, positive when predictions are slow) over rows of at least `SHORT_US`; ``short_median_us`` and
    ``short_p90_us`` are absolute errors of the ``short`` rows below. None: no such rows."""

    soc: str
    family: str
    rows: int
    predicted: int
    estimated: int
    long: int
    median: float | None
    p90: float | None
    spearman: float | None
    bias: float | None
    short: int
    short_median_us: float | None
    short_p90_us: float | None


@dataclass(frozen=True)
class PipeScore:
    """Agreement of pipe times: by pipe (compared, median and 90th percentile of the absolute relative error), and how
    often the measured bounding pipe (more than half of the task) is the predicted one."""

    pipe: str
    compared: int
    median: float | None
    p90: float | None
    bias: float | None


@dataclass(frozen=True)
class BoundScore:
    """Rows in which a pipe fills more than half of the task; in how many of them the predicted bound is the longest
    pipe or within `TIE` of it (``agreed``), or exactly the longest (``longest``)."""

    rows: int
    agreed: int
    longest: int
    missed: tuple[tuple[str, str, str], ...]  # row id, measured bound, predicted bound


@dataclass(frozen=True)
class StateScore:
    """Rows of unknown L2 state that last at least `SHORT_US`: (median, 90th percentile) of the absolute error to the
    ``interval`` between warm and cold, and of single predictions: ``warm``, ``cold`` and their geometric ``middle``.
    ``inside`` counts measurements inside the interval, ``width`` is the median of its upper over its lower end."""

    soc: str
    family: str
    rows: int
    inside: int
    width: float
    interval: tuple[float, float]
    warm: tuple[float, float]
    cold: tuple[float, float]
    middle: tuple[float, float]


@dataclass(frozen=True)
class NetworkScore:
    """One network on one chip over its batch sizes: errors of time, and the batch of highest throughput, measured and
    predicted. ``steps_apart`` counts how many of the measured batch sizes lie between the two."""

    soc: str
    model: str
    batches: int
    median: float | None
    worst: float | None
    bias: float | None
    best_measured: int
    best_predicted: int
    steps_apart: int


def tidy(reason: str) -> str:
    """A reason without the directories of this installation."""
    root = str(Path(__file__).resolve().parents[2])
    return " ".join(reason.replace(root + "/", "").split())


def miss(measured: float, low: float, high: float) -> float:
    """Signed distance from ``measured`` to the interval [low, high]: positive when the whole interval lies above."""
    return low - measured if measured < low else high - measured if measured > high else 0.0


def median(values: Iterable[float]) -> float | None:
    return quantile(values, 0.5)


def quantile(values: Iterable[float], share: float) -> float | None:
    """Quantile with linear interpolation between order statistics (NumPy's default); None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Rank correlation; ties share their mean rank. None below three pairs or when one side is constant."""
    if len(xs) < 3:
        return None
    a, b = ranks(xs), ranks(ys)
    mean = (len(xs) + 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return top / spread if spread else None


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, the mean rank for ties."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop + 1 < len(order) and values[order[stop + 1]] == values[order[start]]:
            stop += 1
        for place in range(start, stop + 1):
            out[order[place]] = (start + stop) / 2 + 1
        start = stop + 1
    return out


def score(outcomes: Sequence[Outcome], soc: str, family: str) -> Score:
    """Figures of all ``outcomes`` together, labelled ``soc`` and ``family``."""
    done = [o for o in outcomes if o.us_predicted is not None]
    long = [o for o in done if o.us_measured >= SHORT_US]
    short = [abs(_known(o.error_us)) for o in done if o.us_measured < SHORT_US]
    errors = [_known(o.error) for o in long]
    return Score(
        soc=soc,
        family=family,
        rows=len(outcomes),
        predicted=len(done),
        estimated=sum(o.estimated for o in done),
        long=len(long),
        median=median(map(abs, errors)),
        p90=quantile(map(abs, errors), 0.9),
        spearman=spearman([o.us_measured for o in long], [_known(o.centre) for o in long]),
        bias=median(errors),
        short=len(short),
        short_median_us=median(short),
        short_p90_us=quantile(short, 0.9),
    )


def score_groups(outcomes: Sequence[Outcome]) -> list[Score]:
    """One score per chip and family, sorted by both."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.soc, outcome.family), []).append(outcome)
    return [score(rows, *key) for key, rows in sorted(groups.items())]


def score_states(outcomes: Sequence[Outcome]) -> list[StateScore]:
    """One score per chip and family with long rows of unknown L2 state, and all of them together."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for o in outcomes:
        if o.us_predicted_cold is not None and o.us_measured >= SHORT_US:
            groups.setdefault((o.soc, o.family), []).append(o)
    if len(groups) > 1:
        groups["all", "all"] = [o for rows in groups.values() for o in rows]
    return [_score_state(*key, rows) for key, rows in groups.items()]


def _score_state(soc: str, family: str, rows: Sequence[Outcome]) -> StateScore:
    def spread(predicted: Sequence[float | None]) -> tuple[float, float]:
        errors = [abs(_known(p) / o.us_measured - 1) for p, o in zip(predicted, rows, strict=True)]
        return _known(median(errors)), _known(quantile(errors, 0.9))

    ends = [o.interval or (0.0, 0.0) for o in rows]
    to_interval = [abs(_known(o.error)) for o in rows]
    return StateScore(
        soc,
        family,
        len(rows),
        inside=sum(error == 0 for error in to_interval),
        width=_known(median(high / low for low, high in ends if low)),
        interval=(_known(median(to_interval)), _known(quantile(to_interval, 0.9))),
        warm=spread([o.us_predicted for o in rows]),
        cold=spread([o.us_predicted_cold for o in rows]),
        middle=spread([o.centre for o in rows]),
    )


def score_networks(outcomes: Sequence[Outcome]) -> list[NetworkScore]:
    """One score per chip and network with at least one prediction."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for o in outcomes:
        if o.batch and o.us_predicted is not None:
            groups.setdefault((o.soc, o.op), []).append(o)
    out = []
    for (soc, model), rows in sorted(groups.items()):
        errors = [_known(o.error) for o in rows]
        sizes = sorted({o.batch for o in rows})
        measured = max(rows, key=lambda o: o.batch / o.us_measured).batch
        predicted = max(rows, key=lambda o: o.batch / _known(o.us_predicted)).batch
        apart = abs(sizes.index(measured) - sizes.index(predicted))
        worst = max(map(abs, errors))
        middle = median(map(abs, errors))
        out.append(NetworkScore(soc, model, len(rows), middle, worst, median(errors), measured, predicted, apart))
    return out


def score_pipes(outcomes: Sequence[Outcome]) -> list[PipeScore]:
    """Pipe by pipe, and last all pipes together, over rows that carry measured pipe times above `PIPE_FLOOR_US`."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.us_predicted is None or outcome.estimated:
            continue
        for pipe, measured in outcome.pipe_us_measured.items():
            if measured > PIPE_FLOOR_US:
                warm = outcome.pipes.get(pipe, 0.0)
                cold = outcome.pipes_cold.get(pipe, warm)
                found.setdefault(pipe, []).append(miss(measured, min(warm, cold), max(warm, cold)) / measured)
    groups = [*sorted(found.items()), ("all", [e for errors in found.values() for e in errors])]
    return [
        PipeScore(pipe, len(errors), median(map(abs, errors)), quantile(map(abs, errors), 0.9), median(errors))
        for pipe, errors in groups
    ]


def score_bounds(outcomes: Sequence[Outcome]) -> BoundScore:
    """Whether the pipe that fills more than half of a measured task is the predicted bound."""
    rows, longest, missed = 0, 0, []
    for outcome in outcomes:
        if not outcome.pipe_us_measured or outcome.us_predicted is None or outcome.estimated:
            continue
        pipe, busy = max(outcome.pipe_us_measured.items(), key=lambda item: item[1])
        if busy <= outcome.us_measured / 2:
            continue
        rows += 1
        states = [pipes for pipes in (outcome.pipes, outcome.pipes_cold) if pipes]
        bounds = [max(pipes, key=lambda p: pipes[p]) for pipes in states]
        longest += pipe in bounds
        if all(outcome.pipe_us_measured.get(bound, 0.0) < busy * (1 - TIE) for bound in bounds):
            missed.append((outcome.id, pipe, "/".join(dict.fromkeys(bounds))))
    return BoundScore(rows, rows - len(missed), longest, tuple(missed))


def _known(value: float | None) -> float:
    assert value is not None
    return value
