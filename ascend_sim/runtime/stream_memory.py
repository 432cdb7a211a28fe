"""Tasks of a stream on device memory besides copies and fills."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.runtime.copies import BadAddress, direction, locate
from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.tasks import Task, alive, move

if TYPE_CHECKING:
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.stream import Stream


class StoreTask(Task):
    """Writes what ``content()`` returns, a few bytes, to device memory."""

    kind = "memset"

    def __init__(self, name: str, address: int, content: Callable[[], bytes], block: Block | None) -> None:
        super().__init__(name)
        self.address, self.content, self.block = address, content, block

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        end = begin + device.link.ps("set", 8)
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        alive((self.block,), self.name)
        data = self.content()
        if data:
            ctypes.memmove(self.address, data, len(data))
        self.emit(stream, begin, end, nbytes=len(data))
        return end


class CacheTask(Task):
    """Brings ``nbytes`` of device memory into the last-level cache; takes what reading them takes."""

    kind = "memset"
    writes = False

    def __init__(self, address: int, nbytes: int, block: Block | None) -> None:
        super().__init__("prefetch")
        self.address, self.nbytes, self.block = address, nbytes, block

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        alive((self.block,), self.name)
        missed = device.l2.access(device.offset(self.address), self.nbytes, False)
        end = begin + (device.link.ps("d2d", missed) if missed else 0)
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        self.emit(stream, begin, end, nbytes=self.nbytes)
        return end


class DescribedCopyTask(Task):
    """A copy inside the device whose addresses are read when its turn comes: ``read()`` is (src, dst, bytes)."""

    kind = "memcpy"

    def __init__(self, read: Callable[[], tuple[int, int, int]], block: Block | None) -> None:
        super().__init__("memcpy")
        self.read, self.block = read, block

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        alive((self.block,), "copy by descriptor")
        src, dst, nbytes = self.read()
        try:
            target = locate(device.system, dst, nbytes, True, "dst of the descriptor")
            source = locate(device.system, src, nbytes, False, "src of the descriptor")
        except BadAddress as error:
            raise TaskFailure("copy", f"copy by descriptor: {error}") from None
        if direction(target, source) != "d2d" or target.device != device.index:
            raise TaskFailure("copy", f"copy by descriptor: {src:#x} and {dst:#x} must lie on device {device.index}")
        duration = device.link.ps("d2d", nbytes)
        start = device.reserve_channel("d2d", begin, duration)
        end = start + duration
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        alive((target.block, source.block), "copy by descriptor")
        move(dst, src, nbytes)
        self.emit(stream, start, end, direction="d2d", nbytes=nbytes, pinned=True)
        return end


class ReduceTask(Task):
    """Combines ``nbytes`` of device memory with others on the copy engine; ``reduce`` does it."""

    kind = "memcpy"

    def __init__(self, nbytes: int, reduce: Callable[[], None], blocks: tuple[Block | None, Block | None]) -> None:
        super().__init__("reduce")
        self.nbytes, self.reduce, self.blocks = nbytes, reduce, blocks

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        duration = device.link.ps("d2d", self.nbytes)
        start = device.reserve_channel("d2d", begin, duration)
        end = start + duration
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        alive(self.blocks, "reduction")
        self.reduce()
        self.emit(stream, start, end, direction="d2d", nbytes=self.nbytes, pinned=True)
        return end
