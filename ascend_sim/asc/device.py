"""The device that kernels of user programs run on: chip, memory, streams. The one here has no clock: launches compute
values at once. A runtime that keeps time registers its own with `use`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ascend_sim.asc.launch import Bytes
from ascend_sim.soc import Soc, load_soc

if TYPE_CHECKING:
    from ascend_sim.asc.kernel import Kernel

ALIGN = 512  # bytes, of every allocation


class Device(Protocol):
    """What `ascend_sim.asc` and its host interface ask of a device."""

    def soc(self) -> Soc: ...

    def set_platform(self, name: str | None) -> None: ...

    def device_count(self) -> int: ...

    def set_device(self, index: int) -> None: ...

    def current_device(self) -> int: ...

    def create_stream(self, priority: int) -> Any: ...

    def destroy_stream(self, stream: Any) -> None: ...

    def current_stream(self) -> Any: ...

    def synchronize(self, stream: Any) -> None: ...

    def malloc(self, nbytes: int) -> int: ...

    def free(self, address: int) -> None: ...

    def memory(self, address: int) -> Bytes: ...

    def tick(self) -> int | None: ...

    def launch(
        self, kernel: Kernel, cores: int, stream: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None: ...


class Stream:
    """An ordered queue of launches."""

    _numbers = itertools.count(1)

    def __init__(self, device: int, priority: int = 0) -> None:
        self.device, self.priority = device, priority
        self.number = next(self._numbers)

    def __repr__(self) -> str:
        return f"<stream {self.number} of device {self.device}>"


class HostDevice:
    """Memory and launches in this process, in program order. Bad addresses raise ValueError."""

    def __init__(self) -> None:
        self._soc: Soc | None = None
        self._index = 0
        self._streams: dict[int, Stream] = {}
        self._blocks: dict[int, tuple[Bytes, Bytes]] = {}  # address -> (usable bytes, what they lie in)

    def soc(self) -> Soc:
        if self._soc is None:
            self._soc = load_soc(None)
        return self._soc

    def set_platform(self, name: str | None) -> None:
        self._soc = load_soc(name)

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None:
        if not 0 <= index < self.device_count():
            raise ValueError(f"device_id = {index}: there is device 0 only")
        self._index = index

    def current_device(self) -> int:
        return self._index

    def create_stream(self, priority: int) -> Stream:
        return Stream(self._index, priority)

    def destroy_stream(self, stream: Any) -> None:
        """Nothing is left in a stream: launches are carried out at once."""

    def current_stream(self) -> Stream:
        return self._streams.setdefault(self._index, Stream(self._index))

    def synchronize(self, stream: Any) -> None:
        """Launches are carried out at once."""

    def malloc(self, nbytes: int) -> int:
        if nbytes <= 0:
            raise ValueError(f"malloc: size = {nbytes}: must be positive")
        whole = np.zeros(nbytes + ALIGN, np.uint8)
        start = -whole.ctypes.data % ALIGN
        block = whole[start : start + nbytes]
        self._blocks[block.ctypes.data] = (block, whole)
        return block.ctypes.data

    def free(self, address: int) -> None:
        if self._blocks.pop(address, None) is None:
            raise ValueError(f"free: address {address:#x} was not allocated or is already free")

    def memory(self, address: int) -> Bytes:
        for start, (block, _) in self._blocks.items():
            if start <= address < start + block.nbytes:
                return block[address - start :]
        raise ValueError(f"address {address:#x} lies in no allocation of this device")

    def tick(self) -> int | None:
        """There is no clock."""
        return None

    def launch(
        self, kernel: Kernel, cores: int, stream: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        from ascend_sim.asc.kernel import user_launch
        from ascend_sim.asc.sanitizer import run_user_launch

        description, buffers = user_launch(kernel, cores, args, kwargs, self.soc(), self.memory)
        run_user_launch(description, buffers)


_device: Device = HostDevice()


def device() -> Device:
    """The device in use."""
    return _device


def use(other: Device) -> Device:
    """Use another device from now on; returns the one used before."""
    global _device
    before, _device = _device, other
    return before
