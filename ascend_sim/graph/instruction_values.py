"""Values of one operator from its kernels, instruction by instruction, on storage bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.storage import from_storage, to_storage
from ascend_sim.ops.registry import NoKernel, find_kernel

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall
    from ascend_sim.soc import Soc

Array = NDArray[Any]
POISON = 0xFF  # what fresh device memory holds: NaN in every float format


def run_kernels(call: OpCall, soc: Soc, inputs: Sequence[Array | None], kinds: Sequence[int]) -> list[Array]:
    """Outputs (logical arrays) of a call on storage specs.

    ``inputs`` are logical arrays, ``kinds`` the filter kind of each (see `storage.filter_kinds`). Raises `NoKernel`
    when no kernel takes the call.
    """
    plan = find_kernel(call.type)
    if plan is None:
        raise NoKernel(f"{call.type} has no kernel")
    launches: list[Any] = list(plan(call, soc))
    held: dict[tuple[str, int], NDArray[np.uint8]] = {}
    for index, (spec, value) in enumerate(zip(call.inputs, inputs, strict=True)):
        if spec is not None and value is not None:
            stored = to_storage(np.asarray(value), spec, kinds[index])
            held["in", index] = np.ascontiguousarray(stored).reshape(-1).view(np.uint8).copy()
    for index, spec in enumerate(call.outputs):
        held["out", index] = np.full(spec.nbytes, POISON, np.uint8)
    for launch in launches:
        for role, entry in zip(launch.args, launch.gm, strict=True):
            known = held.get(role)
            if known is None or (role[0] == "workspace" and known.nbytes < entry[2]):
                held[role] = np.full(entry[2], POISON, np.uint8)
    for launch in launches:
        launch.execute([held[role] for role in launch.args])
    return [from_storage(held["out", i].tobytes(), spec) for i, spec in enumerate(call.outputs)]
