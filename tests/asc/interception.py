"""The stream of calls that a kernel makes, and one mutation of it.

A mutation hits one execution of a line, as a bug that shows in one iteration would. The wrappers count as part of the
kernel language when a source line is looked for, so findings name the kernel's lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.asc.machine import current
from ascend_sim.isa.enums import EVENT_PIPES
from ascend_sim.isa.legality import source_place

__name__ = "ascend_sim.asc.interception"  # see `source_place`

UNITS = {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 1024, "BT": 64, "FB": 128, "GM": 32}
FLAGS = ("set_flag", "wait_flag", "cross_core_set_flag", "cross_core_wait_flag")
MOVES = ("data_copy", "data_copy_pad", "load_data", "fixpipe")
OTHERS = ("pipe_barrier", "mmad", "add", "sub", "mul", "max", "cast", "duplicate", "exp", "bitwise_or")
FUNCTIONS = {name: getattr(asc, name) for name in (*FLAGS, *MOVES, *OTHERS)}
Handler = Callable[..., None]


class Call(NamedTuple):
    """One call of the original run: number, name, core it ran on, source line, the flag (pipes, id) if it is one."""

    number: int
    name: str
    core: tuple[str, int, int]
    place: Any
    flag: tuple[str, str, int] | None


class Mutation(NamedTuple):
    """``kind`` of change to call ``number``; ``amount`` new id or distance in calls."""

    kind: str
    number: int
    amount: int = 0


def core_of() -> tuple[str, int, int]:
    core = current()
    return core.kind, core.block_idx, core.sub_block_idx


def flag_of(name: str, args: Sequence[Any]) -> tuple[str, str, int] | None:
    if name.startswith("cross_core"):
        return "cross", "core", int(args[0])
    if name not in ("set_flag", "wait_flag"):
        return None
    src, dst = EVENT_PIPES[args[0]]
    return src.name, dst.name, int(args[1]) if len(args) > 1 else 0


class Stream:
    """The calls of one run in order; with a mutation, one of them is changed."""

    def __init__(self, mutation: Mutation | None = None, original: Sequence[Call] = ()) -> None:
        self.mutation, self.original = mutation, original
        self.calls: list[Call] = []
        self.count = 0
        self.held: dict[tuple[str, int, int], list[Any]] = {}  # core -> [calls left, function, args, kwargs]
        self.inside = False

    def wrap(self, name: str, function: Handler) -> Handler:
        def call(*args: Any, **kwargs: Any) -> None:
            if self.inside:  # a call made by another one
                function(*args, **kwargs)
                return
            self.inside = True
            try:
                self._handle(name, function, args, kwargs)
            finally:
                self.inside = False

        return call

    def _handle(self, name: str, function: Handler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        number = self.count
        self.count += 1
        m = self.mutation
        if m is None:
            self.calls.append(Call(number, name, core_of(), source_place(), flag_of(name, args)))
            self._call(function, args, kwargs)
            return
        if m.kind == "earlier" and number == m.number - m.amount:
            target = self.original[m.number]
            assert target.flag is not None
            event = asc.HardEvent["_".join(target.flag[:2])]
            self._call(FUNCTIONS[target.name], (event, target.flag[2]), {})
        if number == m.number:
            changed = self._change(m, name, args)
            if changed is not None:
                self._call(function, changed, kwargs)
            elif m.kind == "later":
                self.held[core_of()] = [m.amount, function, args, kwargs]
            return
        self._call(function, args, kwargs)
        mine = self.held.get(core_of())
        if mine is not None:
            mine[0] -= 1
            if mine[0] == 0:
                del self.held[core_of()]
                self._call(mine[1], mine[2], mine[3])

    def _call(self, function: Handler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Calls may switch to another core's program before they return."""
        self.inside = function.__name__ not in ("cross_core_wait_flag", "sync_all")
        try:
            function(*args, **kwargs)
        finally:
            self.inside = True

    @staticmethod
    def _change(m: Mutation, name: str, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if m.kind in ("drop", "later", "earlier"):
            return None
        if m.kind == "renumber":
            at = 0 if name.startswith("cross") else 1
            return (*args[:at], m.amount, *args[at + 1 :])
        if m.kind == "shrink":
            return shrunk(name, args)
        side = 0 if m.kind == "shift_dst" else 1
        tensor = args[side]
        step = UNITS[tensor.mem] * 8 // tensor.dtype.bits
        return (*args[:side], tensor[m.amount * step :], *args[side + 1 :])


def shrunk(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a smaller transfer."""
    p = args[2]
    if isinstance(p, int):
        unit = max(UNITS.get(args[0].mem, 32), UNITS.get(args[1].mem, 32)) * 8 // args[1].dtype.bits
        return (*args[:2], max(p - unit, 0), *args[3:])
    if isinstance(p, asc.DataCopyParams):
        if p.block_count > 1:
            p = p._replace(block_count=p.block_count - 1)
        else:
            step = 32 if name == "data_copy_pad" else 1
            p = p._replace(block_len=max(p.block_len - step, 0))
    elif isinstance(p, asc.Nd2NzParams):
        p = p._replace(n_value=p.n_value - 1)
    elif isinstance(p, asc.LoadData2DParams):
        p = p._replace(repeat_times=p.repeat_times - 1)
    elif isinstance(p, asc.LoadData3DParamsV2):
        p = p._replace(m_extension=max(p.m_extension - 16, 0))
    elif isinstance(p, asc.LoadData3DParamsV1):
        p = p._replace(repeat_time=p.repeat_time - 1)
    elif isinstance(p, asc.FixpipeParamsV220):
        p = p._replace(m_size=p.m_size - 16) if p.m_size > 16 else p._replace(n_size=max(p.n_size - 16, 1))
    return (*args[:2], p, *args[3:])
