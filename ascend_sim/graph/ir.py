"""Graph IR of a compiled model: nodes are Ascend IR operators, edges are named tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.schema import TensorSpec


@dataclass
class Node:
    """One operator. ``inputs`` and ``outputs`` are tensor names ("" = absent optional input)."""

    name: str
    type: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)
    origin: tuple[str, ...] = ()  # names of the source nodes this one stands for


@dataclass
class Graph:
    """``specs`` has an entry for every tensor; ``constants`` the values of those known at compile time, in
    their origin (not storage) layout and precision; nodes are in execution order."""

    name: str
    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    specs: dict[str, TensorSpec]
    constants: dict[str, NDArray[np.generic]]
    attrs: dict[str, Any] = field(default_factory=dict)
