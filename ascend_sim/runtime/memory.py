"""Device and pinned host memory: really mapped bytes, and a map of what every address is.

One `Arena` per device (and one for pinned host memory) reserves address space without committing it, so a
64 GB device costs nothing until touched and its addresses are ints that NumPy and ctypes can view. Sizes and
alignments follow the public runtime documentation ("hicann/runtime" api_ref, memory management): a block is
rounded up to 32 B plus a padding of the chip, its address is aligned to at least 64 B.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRAIN: Final = 512  # every block starts on this; a multiple of the documented 64 B
HUGE_PAGE: Final = 2 << 20
POISON: Final = 0xFF  # NaN in every float format, -1 in every signed integer
POISON_FRESH: Final = 1 << 20  # fresh blocks above this stay uncommitted (and read as zero)
KEEP_PAGES: Final = 16 << 20  # recycled blocks above this give their pages back to the machine
REMEMBERED: Final = 4096  # freed blocks kept for messages about double frees
_NORESERVE: Final[int] = getattr(mmap, "MAP_NORESERVE", 0x4000)


class OutOfMemory(MemoryError):
    """No room for a block. ``requested``, ``free`` and ``total`` are bytes; ``holders`` the largest blocks."""

    def __init__(self, arena: Arena, requested: int) -> None:
        self.requested = requested
        self.free = arena.capacity - arena.used
        self.total = arena.capacity
        held = [*arena.blocks.values(), *arena.claims.values()]
        self.holders = sorted(held, key=lambda b: (-b.padded, b.address))[:3]
        top = ", ".join(f"{b.size} B at {b.address:#x} ({b.owner})" for b in self.holders) or "none"
        super().__init__(
            f"{arena.name} out of memory: requested {requested} B, free {self.free} B of {self.total} B "
            f"in {len(held)} blocks; largest holders: {top}"
        )


class Block:
    """One allocation. ``size`` is what was asked for, ``padded`` what it occupies; ``space`` is ``"device"``
    or ``"host"``; ``owner`` says who allocated it; ``serial`` counts allocations of the arena;
    ``reset`` says that it went with its device."""

    __slots__ = ("address", "alive", "arena", "device", "owner", "padded", "reset", "serial", "size", "space")

    def __init__(self, arena: Arena, address: int, size: int, padded: int, owner: str, serial: int) -> None:
        self.arena = arena
        self.address = address
        self.size = size
        self.padded = padded
        self.owner = owner
        self.serial = serial
        self.space = arena.space
        self.device = arena.device
        self.alive = True
        self.reset = False

    @property
    def end(self) -> int:
        return self.address + self.padded

    def __repr__(self) -> str:
        state = "alive" if self.alive else "freed"
        return f"<{self.space} block {self.address:#x} {self.size} B by {self.owner}, {state}>"


class Arena:
    """A reserved stretch of address space with an allocator.

    ``capacity`` (bytes) is the chip's, not this machine's: pages are committed when touched. ``device`` is
    the device index, -1 for host memory.
    """

    def __init__(self, name: str, capacity: int, space: str, device: int) -> None:
        self.name = name
        self.capacity = capacity
        self.space = space
        self.device = device
        self.blocks: dict[int, Block] = {}
        self.freed: OrderedDict[int, Block] = OrderedDict()
        self.claims: dict[int, Block] = {}  # physical memory without addresses, by serial number
        self.used = 0
        self.peak = 0
        self.changed: Callable[[Block, int], None] | None = None  # told (block, bytes taken or -bytes given back)
        self.base = 0
        self.end = 0
        self._lock = threading.Lock()
        self._bases: list[int] = []
        self._sizes: dict[int, list[int]] = {}  # rounded size -> free addresses, last freed last
        self._top = 0  # nothing was handed out above
        self._high = 0  # nothing was ever handed out above: below is recycled memory
        self._serial = 0
        self._map: mmap.mmap | None = None
        self._start = 0
        self._bytes: NDArray[Any] | None = None

    # -- mapping ---------------------------------------------------------------------------------------

    def _reserve(self) -> None:
        """Reserve the address range; where the machine refuses, as much as it grants."""
        length = 2 * self.capacity  # addresses are plenty: fragments do not matter, as with paged device memory
        while True:
            try:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
                self._map = mmap.mmap(-1, length + HUGE_PAGE, flags=flags)
                break
            except (OSError, ValueError, OverflowError):
                length //= 2
                if length < 64 << 20:
                    raise OutOfMemory(self, self.capacity) from None
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.base = -(-self._start // HUGE_PAGE) * HUGE_PAGE
        self.end = self.base + length
        self._top = self._high = self.base

    def view(self, address: int, nbytes: int) -> NDArray[Any]:
        """The bytes at ``address`` as a writable uint8 array; the range must lie inside the arena."""
        if self._bytes is None:
            import numpy as np

            assert self._map is not None
            whole = np.frombuffer(self._map, np.uint8)
            shift = self.base - whole.ctypes.data
            self._bytes = whole[shift:]
        offset = address - self.base
        return self._bytes[offset : offset + nbytes]

    # -- allocation ------------------------------------------------------------------------------------

    def allocate(self, size: int, padded: int, owner: str, align: int = GRAIN) -> Block:
        """A block of ``padded`` bytes (rounded up to `GRAIN`), poisoned when it is recycled or small."""
        room = -(-padded // GRAIN) * GRAIN
        with self._lock:
            if self._map is None:
                self._reserve()
            if self.used + room > self.capacity:
                raise OutOfMemory(self, size)
            address = self._take(room, align)
            recycled = address < self._high
            self._high = max(self._high, address + room)
            self.used += room
            self.peak = max(self.peak, self.used)
            self._serial += 1
            block = Block(self, address, size, room, owner, self._serial)
            self.blocks[address] = block
            if self.freed:
                self.freed.pop(address, None)
            bases = self._bases
            if not bases or address > bases[-1]:
                bases.append(address)
            else:
                bisect.insort(bases, address)
        if self.changed is not None:
            self.changed(block, room)
        if room <= POISON_FRESH:
            ctypes.memset(address, POISON, room)
        elif recycled:
            ctypes.memset(address, POISON, room if room <= KEEP_PAGES else POISON_FRESH)
        return block

    def claim(self, size: int, owner: str) -> int:
        """Count physical memory that is not addressed here; returns a number for `unclaim`."""
        with self._lock:
            if self.used + size > self.capacity:
                raise OutOfMemory(self, size)
            self._serial += 1
            self.claims[self._serial] = Block(self, 0, size, size, owner, self._serial)
            self.used += size
            self.peak = max(self.peak, self.used)
            return self._serial

    def unclaim(self, serial: int) -> None:
        with self._lock:
            block = self.claims.pop(serial, None)
            if block is not None:
                self.used -= block.padded

    def _take(self, room: int, align: int) -> int:
        free = self._sizes.get(room)
        if free and align <= GRAIN:
            return free.pop()
        address = -(-self._top // align) * align
        if address + room <= self.end:
            self._top = address + room
            return address
        return self._fit(room, align)

    def _fit(self, room: int, align: int) -> int:
        """Best fit among the coalesced gaps between living blocks; rebuilds the free lists."""
        gaps: list[tuple[int, int]] = []
        cursor = self.base
        for base in self._bases:
            if base > cursor:
                gaps.append((cursor, base - cursor))
            cursor = self.blocks[base].end
        self._top = cursor
        best: tuple[int, int] | None = None
        for start, length in gaps:
            aligned = -(-start // align) * align
            if aligned + room <= start + length and (best is None or length < best[1]):
                best = (start, length)
        self._sizes = {}
        for start, length in gaps:
            if best is None or start != best[0]:
                self._sizes.setdefault(length, []).append(start)
        if best is None:
            address = -(-self._top // align) * align
            if address + room > self.end:
                raise OutOfMemory(self, room)
            self._top = address + room
            return address
        start, length = best
        address = -(-start // align) * align
        if address > start:
            self._sizes.setdefault(address - start, []).append(start)
        rest = start + length - (address + room)
        if rest:
            self._sizes.setdefault(rest, []).append(address + room)
        return address

    def release(self, block: Block) -> None:
        """Give a block back; its address may be handed out again."""
        with self._lock:
            if not block.alive:
                return
            block.alive = False
            address, room = block.address, block.padded
            del self.blocks[address]
            bases = self._bases
            if bases[-1] == address:
                bases.pop()
            else:
                del bases[bisect.bisect_left(bases, address)]
            self.used -= room
            if address + room == self._top:
                self._top = address
            else:
                self._sizes.setdefault(room, []).append(address)
            self.freed[address] = block
            if len(self.freed) > REMEMBERED:
                self.freed.popitem(last=False)
        if self.changed is not None:
            self.changed(block, -room)
        if room > KEEP_PAGES and self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            page = mmap.PAGESIZE
            offset = address - self._start
            first = -(-offset // page) * page
            last = (offset + room) // page * page
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def release_all(self) -> list[Block]:
        """Free every block (device reset); returns them, oldest first."""
        blocks = sorted(self.blocks.values(), key=lambda b: b.serial)
        for block in blocks:
            block.reset = True
            self.release(block)
        return blocks

    def find(self, address: int) -> Block | None:
        """The living block that holds ``address``, or None."""
        block = self.blocks.get(address)
        if block is not None:
            return block
        with self._lock:
            i = bisect.bisect_right(self._bases, address) - 1
            if i < 0:
                return None
            block = self.blocks[self._bases[i]]
        return block if address < block.end else None

    def contains(self, address: int) -> bool:
        return self.base <= address < self.end


def rounded(size: int, padding: int) -> int:
    """Bytes that ``acl.rt.malloc`` really takes: the size rounded up to 32 B plus the chip's padding."""
    return (size + 31) // 32 * 32 + padding


class MemoryMap:
    """Every arena of the process: says what an address is."""

    def __init__(self) -> None:
        self.arenas: list[Arena] = []

    def add(self, arena: Arena) -> Arena:
        self.arenas.append(arena)
        return arena

    def arena_of(self, address: int) -> Arena | None:
        """The arena whose reserved range holds ``address`` (whether or not a block is there)."""
        for arena in self.arenas:
            if arena.base <= address < arena.end:
                return arena
        return None

    def find(self, address: int) -> Block | None:
        arena = self.arena_of(address)
        return None if arena is None else arena.find(address)

    def last_freed(self, address: int) -> Block | None:
        """The block that was freed at exactly this address, if it is remembered."""
        arena = self.arena_of(address)
        return None if arena is None else arena.freed.get(address)
