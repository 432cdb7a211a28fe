"""One point of a sweep: the time of a network or an operator on a variant of a chip.

What is compiled, traced and found in L2 once serves all variants that change clocks, rates and latencies only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ascend_sim.api import network_ps
from ascend_sim.engine.memory import L2
from ascend_sim.engine.noted import Note, NotingL2, ToldL2
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.load import load_network
from ascend_sim.graph.options import parse_shapes
from ascend_sim.graph.single_op import build_call
from ascend_sim.ops.cost import OpTiming, op_timing
from ascend_sim.ops.schema import OpCall
from ascend_sim.soc import Soc, SocError, load_soc

COMPILED = 8  # networks kept at a time
VARIANTS = 1024  # chips kept at a time
FIGURES = ("us", "fps", "cycles", "bound", "hbm_bytes", "l2_hit", "estimated")


@dataclass(frozen=True)
class Point:
    """``target`` is a network file or an operator's name, ``shape`` free shapes as for atc or the operator's inputs,
    ``changes`` figures of the chip as `Soc.override` takes them."""

    target: str
    soc: str
    batch: int
    shape: str = ""
    l2: str = "warm"
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def group(self) -> tuple[Any, ...]:
        """Points of one group share what is compiled."""
        return self.target, self.soc, self.batch, self.shape


def run(point: Point) -> dict[str, Any]:
    """`FIGURES` of a point; what cannot be timed has ``error`` instead."""
    try:
        return _timed(point)
    except (SocError, ValueError) as error:  # AtcError and OmError are ValueErrors
        return {"error": " ".join(str(error).split())}


def _timed(point: Point) -> dict[str, Any]:
    soc = _variant(point.soc, point.changes)
    work = _work(*point.group)
    timings = work.timings(soc, point.l2)
    ps = network_ps(soc, timings) if isinstance(work, _Network) else timings[0].task_ps
    bounds: dict[str, int] = {}
    for timing in timings:
        bounds[timing.bound] = bounds.get(timing.bound, 0) + timing.task_ps
    return {
        "us": ps / 1e6,
        "fps": point.batch * 1e12 / ps if ps else 0.0,
        "cycles": sum(t.cycles for t in timings),
        "bound": max(bounds, key=lambda pipe: (bounds[pipe], pipe)),
        "hbm_bytes": sum(t.hbm_bytes for t in timings),
        "l2_hit": sum(t.l2_hit for t in timings),
        "estimated": sum(t.task_ps for t in timings if t.estimated) / (sum(t.task_ps for t in timings) or 1),
    }


@lru_cache(maxsize=VARIANTS)
def _variant(name: str, changes: tuple[tuple[str, Any], ...]) -> Soc:
    base = load_soc(name)
    return base.override(dict(changes)) if changes else base


class _Work(ABC):
    """Something to time, with what its launches find in L2 by everything that this depends on."""

    def __init__(self) -> None:
        self._notes: OrderedDict[Hashable, list[Note]] = OrderedDict()

    @abstractmethod
    def pass_over(self, soc: Soc, l2: L2) -> list[OpTiming]:
        """Times of one execution."""

    def timings(self, soc: Soc, state: str) -> list[OpTiming]:
        key = soc.tiling_key, soc.memory.l2_policy, state
        warm = state == "warm"
        notes = self._notes.get(key)
        if notes is not None:
            return self.pass_over(soc, ToldL2(soc, notes, warm))
        l2 = NotingL2(soc)
        l2.flush_cold()
        if warm:
            self.pass_over(soc, l2)
            l2.notes = []
        timings = self.pass_over(soc, l2)
        self._notes[key] = l2.notes
        return timings


class _Network(_Work):
    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        self.model = model

    def pass_over(self, soc: Soc, l2: L2) -> list[OpTiming]:
        return [timing for _, timing in self.model.operator_timings(soc, l2)]


class _Operator(_Work):
    def __init__(self, call: OpCall) -> None:
        super().__init__()
        self.call = call

    def pass_over(self, soc: Soc, l2: L2) -> list[OpTiming]:
        return [op_timing(self.call, soc, l2)]


@lru_cache(maxsize=COMPILED)
def _work(target: str, soc: str, batch: int, shape: str) -> _Work:
    if is_network(target):
        return _Network(load_network(target, load_soc(soc), batch, parse_shapes(shape)))
    name, _, attrs = target.partition("?")
    return _Operator(build_call(name, shape.split(), _attributes(attrs)))


def is_network(target: str) -> bool:
    return target.endswith((".onnx", ".om"))


def _attributes(text: str) -> Mapping[str, Any]:
    from ascend_sim.cli.op import parse_attr

    return dict(parse_attr(part) for part in text.split("&") if part)
