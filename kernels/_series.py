"""Kernels one after the other inside one launch on one AI core: what recurrent operators are made of.

A part is a planned launch of few cores whose arguments lie somewhere inside the arguments of the whole, at places that
move from step to step. On coupled cores a barrier stands between parts; on split chips the cube core and its two
vector cores take turns, with a cross-core flag each way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel

from ._cube import cube_kind

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

Role = tuple[str, int]
CUBE_DONE, VECTOR_DONE = 0, 1  # cross-core flags


class Place(NamedTuple):
    """Where a part's argument lies: in argument ``role`` of the whole, from byte ``start`` on, ``stride`` bytes
    further at each step."""

    role: Role
    start: int = 0
    stride: int = 0


@dataclass(frozen=True)
class Part:
    """One kernel of a step, with the place of each of its arguments."""

    launch: Any
    places: tuple[Place, ...]

    @property
    def cube(self) -> bool:
        return bool(self.launch.kind == "AIC")


def parts(launches: Sequence[Any], places: Mapping[Role, Place]) -> list[Part]:
    """Launches of a plan as parts. Raises `NoKernel` for plans with a workspace of their own."""
    made = []
    for launch in launches:
        if any(role not in places for role in launch.args) or launch.kind == "MIX":
            raise NoKernel("a step that needs a workspace of its own")
        made.append(Part(launch, tuple(places[role] for role in launch.args)))
    return made


@lru_cache(maxsize=64)
def one_core(soc: Soc) -> Soc:
    """The chip with one AI core (and the vector cores that serve it): what parts are planned for."""
    counts: dict[str, Any] = {"cores.ai_core_count": 1}
    if soc.chip.split_cores:
        counts["cores.vector_core_count"] = max(soc.cores.vector_core_count // soc.cores.ai_core_count, 1)
    return soc.override(counts)


@asc.jit
def series_kernel(*gm: Any, roles: dict[Role, int], steps: int, at: Callable[[int], Sequence[Part]]) -> None:
    """``steps`` times the parts that ``at`` gives for a step."""
    turn = _coupled if not asc.current_soc().chip.split_cores else _split
    before: Part | None = None
    for t in asc.steady(steps):
        for part in at(t):
            if turn(before, part):
                addresses = []
                for place, (_, dtype, nbytes, _) in zip(part.places, part.launch.gm, strict=True):
                    start = place.start + t * place.stride
                    addresses.append(asc.GlobalAddress(dtype, roles[place.role], start, start + nbytes))
                part.launch.kernel(*addresses, **part.launch.consts)
            before = part


def _coupled(before: Part | None, part: Part) -> bool:
    if before is not None:
        asc.pipe_barrier(asc.PipeID.ALL)
    return True


def _split(before: Part | None, part: Part) -> bool:
    """Hand over between the cores; whether this core runs the part."""
    cube = asc.ascend_is_aic()
    if before is not None:
        asc.pipe_barrier(asc.PipeID.ALL)
        if before.cube != part.cube:
            flag, pipe = (CUBE_DONE, asc.PipeID.FIX) if before.cube else (VECTOR_DONE, asc.PipeID.MTE3)
            if before.cube == cube:
                asc.cross_core_set_flag(flag, 2, pipe)
            else:
                asc.cross_core_wait_flag(flag, 2, asc.PipeID.MTE2)
    return bool(part.cube == cube and (cube or asc.get_block_idx() < part.launch.block_dim))


def series(
    name: str, steps: int, at: Callable[[int], Sequence[Part]], gm: Mapping[Role, tuple[str, str, int, str]], soc: Soc,
    signature: Callable[[int], Hashable] | None = None,
) -> asc.Launch:  # fmt: skip
    """The launch of ``steps`` steps. ``gm``: (name, type, bytes, role) of each argument of the whole, by its role in
    the operator. Raises `NoKernel` where two vector parts follow each other on a split chip."""
    if soc.chip.split_cores:
        kinds = [part.cube for t in (0, min(1, steps - 1), steps - 1) for part in at(t)]
        if any(a == b for a, b in pairwise(kinds)) and steps > 1:
            raise NoKernel("cores do not take turns")
    roles = {role: index for index, role in enumerate(gm)}
    return asc.Launch(
        series_kernel, block_dim=1, kind="MIX" if soc.chip.split_cores else cube_kind(soc), args=tuple(gm),
        gm=list(gm.values()), consts={"roles": roles, "steps": steps, "at": at}, soc=soc, name=name,
        signature=signature,
    )  # fmt: skip
