"""Device memory in two halves: physical pieces, and reserved addresses that show them.

A piece is a memory file, so that it can be mapped at more than one address and, by its name below ``/proc``, in another
process. Needs Linux; elsewhere the functions raise `NotHere`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Any

from ascend_sim.runtime.memory import HUGE_PAGE, Arena, Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ascend_sim.runtime.device import Device

SPACE = 1 << 42  # bytes of addresses that a process may reserve
_PROT_NONE, _PROT_RW = 0, mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED = 0x10


class NotHere(RuntimeError):
    """This system cannot map memory at a chosen address."""


class Piece:
    """Physical memory of a device. ``uses`` counts its handle and its mappings: it is given back when none is left."""

    def __init__(self, device: Device, size: int, fd: int, serial: int) -> None:
        self.device = device
        self.size = size
        self.fd = fd
        self.serial = serial
        self.uses = 1
        self.exported = 0
        self.allowed: set[int] | None = set()  # processes that may import it; None: any

    def release(self) -> None:
        self.uses -= 1
        if self.uses == 0:
            self.device.arena.unclaim(self.serial)
            os.close(self.fd)


class VirtualArena(Arena):
    """Reserved addresses. Blocks are mapped pieces; an address without one is not memory."""

    def __init__(self) -> None:
        super().__init__("reserved addresses", SPACE, "device", -1)
        self.ranges: dict[int, int] = {}  # address -> size of what was reserved
        self.mapped: dict[int, Piece] = {}
        self._mmap: Any = None

    def reserve(self, size: int) -> int:
        """Addresses for ``size`` bytes, aligned to 2 MiB (1 GiB for large ones)."""
        if not hasattr(os, "memfd_create"):
            raise NotHere("reserving addresses needs Linux")
        if self._map is None:
            self.capacity = SPACE // 2
            self._reserve()
            self._mmap = ctypes.CDLL(None, use_errno=True).mmap
            self._mmap.restype = ctypes.c_void_p
            self._mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        align = 1 << 30 if size > 1 << 30 else HUGE_PAGE
        cursor = self.base
        for address in sorted(self.ranges):
            start = -(-cursor // align) * align
            if start + size <= address:
                break
            cursor = address + self.ranges[address]
        start = -(-cursor // align) * align
        if start + size > self.end:
            raise MemoryError(f"no addresses are left for {size} B")
        self.ranges[start] = size
        return start

    def holder(self, address: int, size: int) -> int | None:
        """The start of the reserved range that holds these addresses."""
        for start, length in self.ranges.items():
            if start <= address and address + size <= start + length:
                return start
        return None

    def map(self, address: int, piece: Piece) -> None:
        """Show ``piece`` at ``address`` (the caller checked that nothing is there)."""
        shown = self._mmap(address, piece.size, _PROT_RW, mmap.MAP_SHARED | _MAP_FIXED, piece.fd, 0)
        if shown != address:
            raise NotHere(f"mapping failed with error {ctypes.get_errno()}")
        self._serial += 1
        block = Block(self, address, piece.size, piece.size, "acl.rt.map_mem", self._serial)
        block.device = piece.device.index
        self.blocks[address] = block
        self._bases.append(address)
        self._bases.sort()
        self.mapped[address] = piece
        piece.uses += 1

    def unmap(self, address: int) -> None:
        piece = self.mapped.pop(address)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self._mmap(address, piece.size, _PROT_NONE, flags, -1, 0)
        block = self.blocks.pop(address)
        block.alive = False
        self.freed[address] = block
        self._bases.remove(address)
        piece.release()

    def view(self, address: int, nbytes: int) -> NDArray[Any]:
        import numpy as np

        return np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(address)), np.uint8)


def allocate(device: Device, size: int, owner: str) -> Piece:
    """Physical memory of a device. Raises `OutOfMemory` or `NotHere`."""
    serial = device.arena.claim(size, owner)
    try:
        fd = os.memfd_create("device memory")
        os.ftruncate(fd, size)
    except (AttributeError, OSError) as error:
        device.arena.unclaim(serial)
        raise NotHere(f"memory that can be mapped twice needs Linux: {error}") from None
    return Piece(device, size, fd, serial)


def shareable(piece: Piece) -> int:
    """A number by which another process finds the piece."""
    return os.getpid() << 32 | piece.fd << 8 | piece.device.index


def adopt(handle: int, device: Device) -> Piece:
    """The piece that another process exported. Raises OSError when it is gone."""
    pid, fd = handle >> 32, handle >> 8 & 0xFFFFFF
    own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
    return Piece(device, os.fstat(own).st_size, own, device.arena.claim(0, "import"))
