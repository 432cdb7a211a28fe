"""TPipe, TQue, TBuf: buffers of the core's memories handed round between pipes.

A queue slot travels alloc -> enque -> deque -> free. enque posts a flag from the producing to the consuming pipe, deque
waits for it; free posts the way back, and the next alloc of the slot waits for that. Event ids are taken per pair of
pipes from the chip's few ids, lowest first.
"""

from __future__ import annotations

from collections import deque as _deque
from typing import Any

from ascend_sim.asc.calls_sync import pipe_barrier, set_flag, wait_flag
from ascend_sim.asc.machine import current
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa.dtypes import as_dtype
from ascend_sim.isa.enums import EVENT_PIPES, HardEvent, PipeID, TPosition
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError

E = HardEvent


def events_of(pos: TPosition, rules: ChipRules) -> tuple[HardEvent, HardEvent]:
    """(forward, backward) events of a queue at a position."""
    if pos in (TPosition.VECIN, TPosition.VECCALC):
        return E.MTE2_V, E.V_MTE2
    if pos in (TPosition.VECOUT, TPosition.CO2):
        return E.V_MTE3, E.MTE3_V
    if pos in (TPosition.A1, TPosition.B1, TPosition.C1):
        return E.MTE2_MTE1, E.MTE1_MTE2
    if pos in (TPosition.A2, TPosition.B2, TPosition.C2):
        return E.MTE1_M, E.M_MTE1
    if pos == TPosition.CO1:
        return (E.M_FIX, E.FIX_M) if rules.fixpipe else (E.M_V, E.V_M)
    raise InstructionError("TQue", "pos", pos.name, "is no queue position")


class TPipe:
    """Owner of the local memories and event ids of a core. Buffers are handed out from address 0 upwards."""

    def __init__(self) -> None:
        core = current()
        self._rules = core.rules
        self._next: dict[str, int] = {}
        self._events: dict[int, set[int]] = {}
        core.pipe_manager = self

    def init(self) -> None:
        """Forget all buffers and events."""
        self.reset()

    def reset(self) -> None:
        self._next.clear()
        self._events.clear()

    def destroy(self) -> None:
        """End of life: wait for all pipes."""
        pipe_barrier(PipeID.PIPE_ALL)

    def used(self, mem: str) -> int:
        """First byte of a memory that no queue or buffer has taken."""
        return self._next.get(mem, 0)

    def get_base_addr(self, logic_pos: TPosition = TPosition.VECCALC) -> int:
        """Byte address where the buffers of a position begin."""
        return 0

    def take(self, pos: TPosition, nbytes: int, what: str) -> int:
        """Reserve ``nbytes`` (rounded up to 32) in the memory of a position; the byte address."""
        mem = self._rules.positions[pos]
        size = self._rules.sizes.get(mem, 0)
        core = current()
        if mem == "UB" and core.auto is not None:
            size = core.auto.bottom
        addr = self._next.get(mem, 0)
        rounded = ceil_div(nbytes, 32) * 32
        if mem in ("L0A", "L0B"):
            addr = ceil_div(addr, 512) * 512
        elif mem == "L0C":
            addr = ceil_div(addr, 1024) * 1024
        if addr + rounded > size:
            raise InstructionError(
                "TPipe.init_buffer", what, f"{rounded} bytes at {addr}", f"{mem} of {self._rules.name} has {size} bytes"
            )
        self._next[mem] = addr + rounded
        return addr

    def init_buffer(
        self, que: TQueBind | TBuf | None = None, num: int = 0, len: int = 0, *, buf: TBuf | None = None
    ) -> None:
        """Give a queue ``num`` slots of ``len`` bytes, or a buffer ``num`` bytes."""
        target = que if que is not None else buf
        if isinstance(target, TBuf):
            target.bind(self, num or len)
        elif isinstance(target, TQueBind):
            target.bind(self, num, len)
        else:
            raise InstructionError("TPipe.init_buffer", "que", target, "expected a TQue or a TBuf")

    def init_buf_pool(self, buf_pool: TBufPool, len: int = 0, share_buf: TBufPool | None = None) -> None:
        buf_pool.bind(self, len, share_buf)

    def alloc_event_id(self, event: HardEvent = E.V_S) -> int:
        """Take the lowest free id of a pair."""
        used = self._events.setdefault(event, set())
        for i in range(self._rules.flag_ids):
            if i not in used:
                used.add(i)
                return i
        raise InstructionError(
            "alloc_event_id", "event", HardEvent(event).name, f"all {self._rules.flag_ids} ids are taken"
        )

    def fetch_event_id(self, event: HardEvent = E.V_S) -> int:
        """The id that `alloc_event_id` would give, without taking it."""
        used = self._events.get(event, set())
        return next((i for i in range(self._rules.flag_ids) if i not in used), 0)

    def release_event_id(self, id: int, event: HardEvent = E.V_S) -> None:
        self._events.setdefault(event, set()).discard(id)



def get_tpipe_ptr() -> TPipe:
    """The core's TPipe."""
    pipe = current().pipe_manager
    if pipe is None:
        raise InstructionError("get_tpipe_ptr", "TPipe", None, "no TPipe was created")
    return pipe  # type: ignore[no-any-return]


def _watch() -> Any:
    """The sanitizer's view of this core, or None."""
    return getattr(current().tb, "watch", None)


class _Slot:
    __slots__ = ("addr", "busy", "free_id", "full_id")

    def __init__(self, addr: int) -> None:
        self.addr = addr
        self.busy = False
        self.free_id = -1  # pending backward event, -1: none
        self.full_id = -1  # pending forward event


class TQueBind:
    """A queue between a source and a destination position."""

    def __init__(
        self, src: TPosition = TPosition.VECIN, dst: TPosition | None = None, depth: int = 0, mask: int = 0
    ) -> None:
        self.src = TPosition(src)
        self.dst = self.src if dst is None else TPosition(dst)
        self.pos = self.src
        self.depth = depth
        self._pipe: TPipe | None = None
        self._slots: list[_Slot] = []
        self._len = 0
        self._next = 0
        self._queue: _deque[_Slot] = _deque()
        self.forward, self.backward = self._events()

    def _events(self) -> tuple[HardEvent, HardEvent]:
        rules = current().rules
        first = events_of(self.src, rules)
        if self.dst == self.src:
            return first
        if self.src == TPosition.VECIN and self.dst == TPosition.VECOUT:
            return E.MTE2_MTE3, E.MTE3_MTE2
        return first

    def bind(self, pipe: TPipe, num: int, nbytes: int) -> None:
        if num < 1 or nbytes < 1:
            raise InstructionError("TPipe.init_buffer", "num, len", (num, nbytes), "must be positive")
        self._pipe, self._len = pipe, ceil_div(nbytes, 32) * 32
        base = pipe.take(self.pos, num * self._len, f"queue at {self.pos.name}")
        self._slots = [_Slot(base + i * self._len) for i in range(num)]

    def _require(self, call: str) -> TPipe:
        if self._pipe is None:
            raise InstructionError(f"TQue.{call}", "queue", self.pos.name, "init_buffer was not called for it")
        return self._pipe

    def alloc_tensor(self, dtype: Any) -> LocalTensor:
        """A free slot; waits until its last reader is done."""
        pipe = self._require("alloc_tensor")
        if isinstance(dtype, LocalTensor):
            dtype = dtype.dtype
        slot = self._slots[self._next]
        if slot.busy:
            raise InstructionError(
                "TQue.alloc_tensor", "slots", len(self._slots), f"all in use at {self.pos.name}: free_tensor is missing"
            )
        self._next = (self._next + 1) % len(self._slots)
        slot.busy = True
        if slot.free_id >= 0:
            wait_flag(self.backward, slot.free_id)
            pipe.release_event_id(slot.free_id, self.backward)
            slot.free_id = -1
        kind = as_dtype(dtype)
        tensor = LocalTensor(kind, self.pos, slot.addr, self._len * 8 // kind.bits)
        tensor.slot = slot
        watch = _watch()
        if watch is not None:
            watch.allocated(tensor.mem, slot.addr, self._len)
        return tensor

    def enque(self, tensor: LocalTensor) -> bool:
        """Hand the tensor to the consumer."""
        pipe = self._require("enque")
        slot = tensor.slot
        if slot not in self._slots:
            raise InstructionError("TQue.enque", "tensor", tensor, "was not allocated from this queue")
        if self.depth and len(self._queue) >= max(self.depth, len(self._slots)):
            raise InstructionError("TQue.enque", "depth", self.depth, "the queue is full: deque is missing")
        slot.full_id = pipe.alloc_event_id(self.forward)
        set_flag(self.forward, slot.full_id)
        self._queue.append(slot)
        return True

    def deque(self, dtype: Any, src_user_pos: Any = None, dst_user_pos: Any = None) -> LocalTensor:
        """The oldest tensor in the queue; waits until its producer is done."""
        pipe = self._require("deque")
        if not self._queue:
            raise InstructionError("TQue.deque", "queue", self.pos.name, "is empty: enque is missing")
        if isinstance(dtype, LocalTensor):
            dtype = dtype.dtype
        slot = self._queue.popleft()
        wait_flag(self.forward, slot.full_id)
        pipe.release_event_id(slot.full_id, self.forward)
        slot.full_id = -1
        kind = as_dtype(dtype)
        tensor = LocalTensor(kind, self.pos, slot.addr, self._len * 8 // kind.bits)
        tensor.slot = slot
        return tensor

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Give the slot back."""
        pipe = self._require("free_tensor")
        slot = tensor.slot
        if slot not in self._slots or not slot.busy:
            raise InstructionError("TQue.free_tensor", "tensor", tensor, "is not in use in this queue")
        slot.busy = False
        watch = _watch()
        if watch is not None:
            watch.freed(tensor.mem, slot.addr, self._len)
        slot.free_id = pipe.alloc_event_id(self.backward)
        set_flag(self.backward, slot.free_id)

    def free_all_event(self) -> None:
        """Wait for the backward events of all free slots."""
        pipe = self._require("free_all_event")
        for slot in self._slots:
            if slot.free_id >= 0:
                wait_flag(self.backward, slot.free_id)
                pipe.release_event_id(slot.free_id, self.backward)
                slot.free_id = -1

    def has_idle_buffer(self) -> bool:
        return not self._slots[self._next].busy

    def has_tensor_in_que(self) -> bool:
        return bool(self._queue)

    def vacant_in_que(self) -> bool:
        return len(self._queue) < max(self.depth, 1)

    def get_tensor_count_in_que(self) -> int:
        return len(self._queue)


class TQue(TQueBind):
    """A queue at one position."""

    def __init__(self, pos: TPosition = TPosition.VECIN, depth: int = 1, mask: int = 0) -> None:
        super().__init__(pos, pos, depth, mask)


class TBuf:
    """A buffer without queueing."""

    def __init__(self, pos: TPosition = TPosition.VECCALC) -> None:
        self.pos = TPosition(pos)
        self._addr, self._len = -1, 0

    def bind(self, pipe: TPipe, nbytes: int) -> None:
        self._len = ceil_div(nbytes, 32) * 32
        self._addr = pipe.take(self.pos, self._len, f"buffer at {self.pos.name}")

    def get(self, dtype: Any, len: int | None = None, shape: Any = None) -> LocalTensor:
        """The buffer as a tensor of ``len`` elements (all of it by default)."""
        kind = as_dtype(dtype)
        if self._addr < 0:
            raise InstructionError("TBuf.get", "buffer", self.pos.name, "init_buffer was not called for it")
        n = self._len * 8 // kind.bits if len is None else int(len)
        if n * kind.bits > self._len * 8:
            raise InstructionError("TBuf.get", "len", n, f"the buffer has {self._len} bytes")
        return LocalTensor(kind, self.pos, self._addr, n)

    def get_with_offset(self, size: int, buf_offset: int, dtype: Any) -> LocalTensor:
        """``size`` elements from byte ``buf_offset``."""
        kind = as_dtype(dtype)
        if buf_offset < 0 or buf_offset + size * kind.size > self._len:
            raise InstructionError("TBuf.get_with_offset", "size", size, f"the buffer has {self._len} bytes")
        return LocalTensor(kind, self.pos, self._addr + buf_offset, size)

    def alloc_tensor(self, dtype: Any) -> LocalTensor:
        return self.get(dtype)

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Buffers have no flags: nothing to do."""

    def enque(self, tensor: LocalTensor) -> bool:
        return True

    def deque(self, dtype: Any) -> LocalTensor:
        return self.get(dtype)


class TBufPool:
    """A region that several queues and buffers share after each other."""

    def __init__(self, pos: TPosition = TPosition.VECCALC, buf_id_size: int = 4) -> None:
        self.pos = TPosition(pos)
        self._pipe: TPipe | None = None
        self._base = self._size = self._used = 0

    def bind(self, pipe: TPipe, nbytes: int, share: TBufPool | None = None) -> None:
        self._pipe, self._size, self._used = pipe, nbytes, 0
        self._base = share._base if share is not None else pipe.take(self.pos, nbytes, f"pool at {self.pos.name}")

    def take(self, pos: TPosition, nbytes: int, what: str) -> int:
        rounded = ceil_div(nbytes, 32) * 32
        if self._used + rounded > self._size:
            raise InstructionError("TBufPool.init_buffer", what, rounded, f"the pool has {self._size} bytes")
        addr = self._base + self._used
        self._used += rounded
        return addr

    def alloc_event_id(self, event: HardEvent) -> int:
        assert self._pipe is not None
        return self._pipe.alloc_event_id(event)

    def release_event_id(self, id: int, event: HardEvent) -> None:
        assert self._pipe is not None
        self._pipe.release_event_id(id, event)

    def init_buffer(self, que: TQueBind | TBuf, num: int = 0, len: int = 0) -> None:
        if isinstance(que, TBuf):
            que.bind(self, num or len)  # type: ignore[arg-type]
        else:
            que.bind(self, num, len)  # type: ignore[arg-type]

    def init_buf_pool(self, buf_pool: TBufPool, len: int = 0, share_buf: TBufPool | None = None) -> None:
        buf_pool.bind(self, len, share_buf)  # type: ignore[arg-type]

    def reset(self) -> None:
        self._used = 0


class LocalMemAllocator:
    """Hands out tensors of one memory from address 0 upwards."""

    def __init__(self, hard: int = 1) -> None:
        self._hard = hard
        self._next = 0

    def get_cur_addr(self) -> int:
        return self._next

    def alloc(self, pos: TPosition, data_type: Any, tile_size: int) -> LocalTensor:
        kind = as_dtype(data_type)
        tensor = LocalTensor(kind, pos, self._next, tile_size)
        self._next = ceil_div(tensor.end, 32) * 32
        return tensor


__all__ = [
    "EVENT_PIPES", "LocalMemAllocator", "TBuf", "TBufPool", "TPipe", "TQue", "TQueBind", "get_tpipe_ptr",
]  # fmt: skip
