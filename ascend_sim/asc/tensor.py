"""Tensors of the kernel language: addresses and extents, no data. Slicing moves the start (``t[offset:]``)."""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.machine import current
from ascend_sim.isa import scalar
from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.enums import CacheMode, CacheRwMode, TPosition
from ascend_sim.isa.instr import Pipe, ScalarWork
from ascend_sim.isa.legality import InstructionError

GET_VALUE = ScalarWork("get_value")
SET_VALUE = ScalarWork("set_value")
UNBOUNDED = 1 << 62


def _offset(index: Any, what: str) -> int:
    if isinstance(index, slice):
        if index.stop is not None or index.step is not None:
            raise InstructionError(what, "slice", index, "only [start:] is supported, stop and step are not")
        return 0 if index.start is None else int(index.start)
    return int(index)


class GlobalAddress:
    """A kernel argument in global memory: ``arg`` its index, ``dtype``, ``addr`` the byte offset, ``end`` the byte
    behind the argument. ``address + n`` moves by n elements."""

    __slots__ = ("addr", "arg", "dtype", "end")

    def __init__(self, dtype: Any, arg: int, addr: int = 0, end: int = UNBOUNDED) -> None:
        self.dtype: DataType = as_dtype(dtype)
        self.arg, self.addr, self.end = arg, addr, end

    def __add__(self, offset: int) -> GlobalAddress:
        return GlobalAddress(self.dtype, self.arg, self.addr + int(offset) * self.dtype.size, self.end)

    __radd__ = __add__

    def reinterpret_cast(self, dtype: Any) -> GlobalAddress:
        """The same address as another element type."""
        return GlobalAddress(dtype, self.arg, self.addr, self.end)

    def __repr__(self) -> str:
        return f"GlobalAddress({self.dtype}, argument {self.arg}, byte {self.addr})"


class GlobalTensor:
    """A typed window into global memory. Without ``dtype`` it takes the type of the buffer it is bound to."""

    __slots__ = ("addr", "arg", "cache_mode", "chosen", "dtype", "end", "shape_info")
    mem = "GM"

    def __init__(self, dtype: Any = None) -> None:
        self.arg, self.addr, self.end = -1, 0, 0
        self.chosen = dtype is not None
        if dtype is not None:
            self.dtype: DataType = as_dtype(dtype)
        self.cache_mode = CacheMode.CACHE_MODE_NORMAL
        self.shape_info: Any = None

    def set_global_buffer(self, buffer: GlobalAddress, buffer_size: int | None = None) -> None:
        """Bind to ``buffer``; ``buffer_size`` in elements limits the extent."""
        if not isinstance(buffer, GlobalAddress):
            raise TypeError(f"set_global_buffer: buffer = {buffer!r}: expected a GlobalAddress (a kernel argument)")
        if not self.chosen:
            self.dtype = buffer.dtype
        self.arg, self.addr, self.end = buffer.arg, buffer.addr, buffer.end
        if buffer_size:
            self.end = min(self.end, self.addr + int(buffer_size) * self.dtype.size)

    def __getitem__(self, index: Any) -> GlobalTensor:
        t = GlobalTensor.__new__(GlobalTensor)
        t.dtype, t.arg, t.end, t.chosen = self.dtype, self.arg, self.end, self.chosen
        t.addr = self.addr + _offset(index, "GlobalTensor") * self.dtype.size
        t.cache_mode = self.cache_mode
        return t

    def __call__(self, index: int) -> GlobalTensor:
        return self[index]

    def get_phy_addr(self, offset: int = 0) -> GlobalAddress:
        return GlobalAddress(self.dtype, self.arg, self.addr + offset * self.dtype.size, self.end)

    def reinterpret_cast(self, dtype: Any) -> GlobalTensor:
        """The same window as another element type."""
        t = self[0:]
        t.dtype = as_dtype(dtype)
        return t

    def get_size(self) -> int:
        """Elements up to the end of the buffer."""
        return (self.end - self.addr) // self.dtype.size

    @property
    def bypass(self) -> bool:
        """Whether transfers are not to be kept in L2."""
        return self.cache_mode == CacheMode.CACHE_MODE_DISABLE

    def set_l2_cache_hint(
        self, mode: CacheMode = CacheMode.CACHE_MODE_NORMAL, rw_mode: CacheRwMode = CacheRwMode.RW
    ) -> None:
        """How L2 treats this tensor's transfers: ``CACHE_MODE_DISABLE`` bypasses it; the others are normal here."""
        self.cache_mode = CacheMode(mode)

    def set_shape_info(self, shape_info: Any) -> None:
        self.shape_info = shape_info

    def get_shape_info(self) -> Any:
        return self.shape_info

    def get_value(self, offset: int) -> Any:
        """Scalar read. In a trace without values the result is 0 and the trace is marked value dependent."""
        return _get_value(self, int(offset))

    def set_value(self, offset: int, value: Any) -> None:
        _set_value(self, int(offset), value)

    def __repr__(self) -> str:
        return f"GlobalTensor({self.dtype}, argument {self.arg}, bytes {self.addr}..{self.end})"


class LocalTensor:
    """A typed window into a memory of the core: ``mem`` its name, ``addr`` first byte, ``end`` byte behind it."""

    __slots__ = ("addr", "dtype", "end", "mem", "pos", "shape_info", "slot", "tag")

    def __init__(
        self, dtype: Any, pos: TPosition = TPosition.VECIN, addr: int = 0, tile_size: int = 0, shape: Any = None
    ) -> None:
        rules = current().rules
        self.dtype: DataType = as_dtype(dtype)
        self.pos = TPosition(pos)
        self.mem = rules.positions[self.pos]
        if self.mem == "GM" or not rules.sizes.get(self.mem):
            raise InstructionError("LocalTensor", "pos", self.pos.name, f"is no local memory of {rules.name}")
        self.addr = int(addr)
        size = rules.sizes[self.mem]
        nbytes = (int(tile_size) * self.dtype.bits + 7) // 8
        self.end = self.addr + nbytes if tile_size else size
        if self.addr < 0 or self.end > size:
            raise InstructionError(
                "LocalTensor", f"bytes in {self.pos.name}", f"{self.addr}..{self.end}",
                f"{self.mem} of {rules.name} has {size} bytes",
            )  # fmt: skip
        self.slot: Any = None
        self.tag = 0
        self.shape_info: Any = None

    def _moved(self, addr: int) -> LocalTensor:
        t = LocalTensor.__new__(LocalTensor)
        t.dtype, t.pos, t.mem, t.end, t.slot, t.tag = self.dtype, self.pos, self.mem, self.end, self.slot, self.tag
        t.addr, t.shape_info = addr, self.shape_info
        return t

    def __getitem__(self, index: Any) -> LocalTensor:
        return self._moved(self.addr + _offset(index, "LocalTensor") * self.dtype.bits // 8)

    def __call__(self, index: int) -> LocalTensor:
        return self[index]

    def reinterpret_cast(self, dtype: Any) -> LocalTensor:
        """The same bytes as another element type."""
        t = self._moved(self.addr)
        t.dtype = as_dtype(dtype)
        return t

    def get_size(self) -> int:
        """Elements up to the end of the tensor."""
        return (self.end - self.addr) * 8 // self.dtype.bits

    def get_length(self) -> int:
        """Bytes up to the end of the tensor."""
        return self.end - self.addr

    def set_size(self, size: int = 0) -> None:
        self.end = self.addr + (int(size) * self.dtype.bits + 7) // 8

    def set_buffer_len(self, data_len: int) -> None:
        self.end = self.addr + int(data_len)

    def set_addr_with_offset(self, src: LocalTensor, offset: int) -> None:
        """Move to ``offset`` elements (of this tensor's type) behind ``src``."""
        self.mem, self.pos, self.end = src.mem, src.pos, src.end
        self.addr = src.addr + int(offset) * self.dtype.bits // 8

    def get_phy_addr(self, offset: int = 0) -> int:
        """Byte address inside the memory."""
        return self.addr + offset * self.dtype.bits // 8

    def get_position(self) -> TPosition:
        return self.pos

    def get_user_tag(self) -> int:
        return self.tag

    def set_user_tag(self, tag: int = 0) -> None:
        self.tag = tag

    def set_shape_info(self, shape_info: Any) -> None:
        self.shape_info = shape_info

    def get_shape_info(self) -> Any:
        return self.shape_info

    def get_value(self, index: int) -> Any:
        """Scalar read. In a trace without values the result is 0 and the trace is marked value dependent."""
        return _get_value(self, int(index))

    def set_value(self, index: int, value: Any) -> None:
        _set_value(self, int(index), value)

    def __repr__(self) -> str:
        return f"LocalTensor({self.dtype}, {self.pos.name} in {self.mem}, bytes {self.addr}..{self.end})"


Tensor = GlobalTensor | LocalTensor


def _check_index(call: str, tensor: Tensor, index: int) -> None:
    if index < 0 or tensor.addr + (index + 1) * tensor.dtype.size > tensor.end:
        raise InstructionError(call, "index", index, f"the tensor has {tensor.get_size()} elements")
    if tensor.mem not in ("GM", "UB"):
        raise InstructionError(call, "tensor", tensor.mem, "the scalar unit reaches GM and UB only")


def _get_value(tensor: Tensor, index: int) -> Any:
    core = current()
    _check_index("get_value", tensor, index)
    core.emit(Pipe.S, GET_VALUE, None, tensor)
    core.value_dependent = True
    if core.gm is None:
        return 0
    view = core.view(tensor)
    return scalar.run_get(view._replace(start=view.start + index * tensor.dtype.size))


def _set_value(tensor: Tensor, index: int, value: Any) -> None:
    core = current()
    _check_index("set_value", tensor, index)
    core.emit(Pipe.S, SET_VALUE, tensor)
    if core.gm is None:
        return
    view = core.view(tensor)
    scalar.run_set(view._replace(start=view.start + index * tensor.dtype.size), value)
