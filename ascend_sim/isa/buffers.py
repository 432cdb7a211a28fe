"""Memories of one core: which memory a logical position means on a chip, and their bytes.

Position to memory (asc-devkit, TPosition page): CO2 and C1 are the unified buffer on chips whose cube and vector
units share a core; on split chips CO2 is global memory and C1 is L1. C2 is L0C on chips without a bias table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.enums import TPosition

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

Bytes = NDArray[np.uint8]
Array = NDArray[Any]

BLOCK = 32  # bytes of a data block
REPEAT = 256  # bytes of a vector repeat
FRACTAL = 512  # bytes of a cube input fractal

# asc-devkit, alignment page
ALIGNMENT = {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 64, "BT": 64, "FB": 64, "IDX": 128}
POISON = 0xFF  # fresh memory: NaN in every float format, so a read of unwritten data shows

_FIXED: dict[TPosition, str] = {
    TPosition.GM: "GM", TPosition.A1: "L1", TPosition.B1: "L1", TPosition.A2: "L0A", TPosition.B2: "L0B",
    TPosition.CO1: "L0C", TPosition.VECIN: "UB", TPosition.VECOUT: "UB", TPosition.VECCALC: "UB",
    TPosition.C2PIPE2GM: "FB",
}  # fmt: skip


def position_memories(split_cores: bool, has_fixpipe: bool) -> dict[int, str]:
    """Memory name of every `TPosition` on a chip."""
    table: dict[int, str] = {int(position): memory for position, memory in _FIXED.items()}
    table[TPosition.CO2] = "GM" if split_cores else "UB"
    table[TPosition.C1] = "L1" if has_fixpipe else "UB"
    table[TPosition.C2] = "BT" if has_fixpipe else "L0C"
    return table


def memory_sizes(soc: Soc) -> dict[str, int]:
    """Bytes of every memory of a core, 0 where the chip has none. IDX holds the index of sparse weights in L0B."""
    b = soc.buffers
    return {
        "UB": b.ub_bytes, "L1": b.l1_bytes, "L0A": b.l0a_bytes, "L0B": b.l0b_bytes, "L0C": b.l0c_bytes,
        "BT": b.bt_bytes, "FB": b.fb_bytes, "IDX": b.l0b_bytes // 4,
    }  # fmt: skip


@dataclass
class CoreMemory:
    """The byte arrays of one core, allocated when first touched."""

    sizes: dict[str, int]

    def __post_init__(self) -> None:
        self._arrays: dict[str, Bytes] = {}

    def __getitem__(self, name: str) -> Bytes:
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = np.full(self.sizes[name], POISON, np.uint8)
        return array

    def arrays(self) -> list[tuple[str, Bytes]]:
        """The memories touched so far."""
        return list(self._arrays.items())


class View(NamedTuple):
    """An operand while values are computed: bytes of a memory, first byte, element type."""

    data: Bytes
    start: int
    dtype: DataType

    def flat(self, n: int) -> Array:
        """The next ``n`` elements as a writable array (int4: n must be even; bytes are not unpacked)."""
        d = self.dtype
        nbytes = n * d.bits // 8
        return self.data[self.start : self.start + nbytes].view(np.uint8 if d.bits == 4 else d.np)

    def strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Array:
        """A writable array over this memory; ``strides`` and ``offset`` in bytes.

        Raises IndexError when the last element lies outside the memory.
        """
        size = self.dtype.size
        first = self.start + offset
        last = first + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + size
        if 0 in shape:
            return np.empty(shape, self.dtype.np)
        if first < 0 or last > len(self.data):
            raise IndexError(f"bytes {first}..{last} lie outside a memory of {len(self.data)} bytes")
        if all(s % size == 0 for s in strides) and first % size == 0:
            whole = self.data[first : first + (len(self.data) - first) // size * size].view(self.dtype.np)
            return as_strided(whole, shape, strides)
        raise ValueError(f"strides {strides} are not multiples of the element size {size}")
