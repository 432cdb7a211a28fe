"""Temporary room of the high-level functions in the unified buffer, and how they walk rows."""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.machine import current
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa.dtypes import DataType, uint8
from ascend_sim.isa.enums import TPosition
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError


class Scratch:
    """Hands out temporaries from ``buffer``, or without one from what queues and automatic buffers leave free."""

    def __init__(self, call: str, buffer: LocalTensor | None) -> None:
        self.call = call
        core = current()
        if buffer is not None:
            if buffer.mem != "UB":
                raise InstructionError(call, "temp_buffer", buffer.mem, "must lie in the unified buffer")
            self.base: LocalTensor = buffer.reinterpret_cast(uint8)
        else:
            start = core.pipe_manager.used("UB") if core.pipe_manager is not None else 0
            end = core.auto.bottom if core.auto is not None else core.rules.sizes["UB"]
            start = ceil_div(start, 32) * 32
            if end - start < 32:
                raise InstructionError(call, "temp_buffer", None, "the unified buffer has no room left for temporaries")
            self.base = LocalTensor(uint8, TPosition.VECCALC, start, end - start)
        self.taken = 0

    @property
    def left(self) -> int:
        """Bytes that can still be taken."""
        return self.base.get_length() - self.taken

    def take(self, dtype: DataType, elements: int) -> LocalTensor:
        """A temporary of ``elements``, aligned to 32 bytes. Raises InstructionError when the room is used up."""
        nbytes = ceil_div(elements * dtype.size, 32) * 32
        if nbytes > self.left:
            raise InstructionError(
                self.call, "temp_buffer", f"{self.base.get_length()} bytes", f"{self.taken + nbytes} bytes are needed"
            )
        tensor = self.base[self.taken :].reinterpret_cast(dtype)
        tensor.set_size(nbytes // dtype.size)
        self.taken += nbytes
        return tensor


def rows_of(call: str, tensor: LocalTensor, rows: int = 0, columns: int = 0) -> tuple[int, int]:
    """(rows, columns) of a tensor: as given, else from its shape info; leading dimensions are rows."""
    if rows > 0 and columns > 0:
        return rows, columns
    info: Any = tensor.get_shape_info()
    if info is None or not info.dims:
        rule = "give the tiling its sizes, or the tensor its shape (set_shape_info)"
        raise InstructionError(call, "shape", None, rule)
    columns = info.dims[-1]
    rows = 1
    for size in info.dims[:-1]:
        rows *= size
    if columns * tensor.dtype.size % 32:
        raise InstructionError(call, "columns", columns, "rows must be multiples of 32 bytes")
    return rows, columns
