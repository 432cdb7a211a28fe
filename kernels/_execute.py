"""Run an operator's plan instruction by instruction on storage bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.schema import OpCall

Bytes = NDArray[np.uint8]
POISON = 0xFF  # fresh memory: NaN in every float format


def run_plan(call: OpCall, launches: Sequence[Any], inputs: Sequence[NDArray[Any] | None]) -> list[Bytes]:
    """Execute ``launches`` in order. ``inputs`` are arrays in storage layout, one per input of the call (None where
    absent); the result is the storage bytes of each output. Workspaces are shared by number between launches."""
    held: dict[tuple[str, int], Bytes] = {}
    for i, array in enumerate(inputs):
        if array is not None:
            held["in", i] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for i, spec in enumerate(call.outputs):
        held["out", i] = np.full(spec.nbytes, POISON, np.uint8)
    sizes: dict[tuple[str, int], int] = {}
    for launch in launches:
        for role, entry in zip(launch.args, launch.gm, strict=True):
            sizes[role] = max(sizes.get(role, 0), entry[2])
    for role, nbytes in sizes.items():
        if role not in held:
            held[role] = np.full(nbytes, POISON, np.uint8)
    for launch in launches:
        launch.execute([held[role] for role in launch.args])
    return [held["out", i] for i in range(len(call.outputs))]
