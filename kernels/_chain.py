"""Operators made of other operators' kernels: launches in a row, results in workspaces between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ascend_sim import ops
from ascend_sim.ops.registry import NoKernel, find_kernel
from ascend_sim.ops.schema import TensorSpec

from ._layouts import rewire

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

INNER = 1000  # workspaces an inner kernel may number


class Link(NamedTuple):
    """A tensor of the chain: where it lies (``("in", i)``, ``("out", i)`` or ``("workspace", n)``) and what it is."""

    place: tuple[str, int]
    spec: TensorSpec


class Chain:
    """Launches collected by `add`."""

    def __init__(self, soc: Soc) -> None:
        self.soc = soc
        self.launches: list[Any] = []
        self.count = 0

    def add(
        self, op: str, inputs: Sequence[Link | TensorSpec | None], attrs: Mapping[str, Any], to: Link | None = None
    ) -> Link:
        """Run an operator; plain specs are its constants. The result goes to ``to`` or to a workspace of its own."""
        specs = [x.spec if isinstance(x, Link) else x for x in inputs]
        call = ops.call(op, specs, attrs)
        plan = find_kernel(op)
        if plan is None:
            raise NoKernel(f"{op} has no kernel")
        self.count += 1
        place = ("workspace", self.count) if to is None else to.place
        table = {("in", i): x.place for i, x in enumerate(inputs) if isinstance(x, Link)} | {("out", 0): place}
        for launch in plan(call, self.soc):
            inner = {
                arg: ("workspace", self.count * INNER + arg[1]) for arg in launch.args if arg[0] == "workspace"
            }
            self.launches.append(rewire(launch, table | inner))
        return Link(place, call.outputs[0])


def view(link: Link, shape: tuple[int, ...]) -> Link:
    """The same bytes as another shape."""
    return Link(link.place, replace(link.spec, shape=shape))
