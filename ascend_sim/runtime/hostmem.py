"""Is a foreign host address safe to touch? Python bytes and NumPy arrays are legal host memory that no
allocator of ours knows, so copies ask the operating system before they touch it."""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
import sys
from collections.abc import Callable

_PAGE = mmap.PAGESIZE
_CHUNK = 4096  # pages asked about in one call


def _load_mincore() -> Callable[[int, int, int], int] | None:
    if os.name != "posix":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=False).mincore
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function


class HostProbe:
    """Answers whether a byte range of this process is mapped and readable or writable.

    ``mincore`` says whether the pages are mapped *now*; the permissions come from ``/proc/self/maps``, read
    again only when an address lies in none of the stretches known. Elsewhere than on Linux permissions are
    taken for granted.
    """

    def __init__(self) -> None:
        self._mincore = _load_mincore()
        self._vector = ctypes.create_string_buffer(_CHUNK)
        self._vector_at = ctypes.addressof(self._vector)
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._writable_starts: list[int] = []
        self._writable_ends: list[int] = []
        self._has_maps = sys.platform.startswith("linux")

    def _mapped(self, address: int, nbytes: int) -> bool:
        if self._mincore is None:
            return True
        first = address // _PAGE * _PAGE
        pages = (address + nbytes - 1) // _PAGE - first // _PAGE + 1
        while pages > 0:
            n = min(pages, _CHUNK)
            if self._mincore(first, n * _PAGE, self._vector_at) != 0:
                return False
            first += n * _PAGE
            pages -= n
        return True

    def _refresh(self) -> None:
        readable: list[tuple[int, int]] = []
        writable: list[tuple[int, int]] = []
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            for line in maps:
                span, rights = line.split(maxsplit=2)[:2]
                start, end = (int(v, 16) for v in span.split("-"))
                for wanted, spans in (("r", readable), ("w", writable)):
                    if wanted in rights:
                        if spans and spans[-1][1] == start:
                            spans[-1] = (spans[-1][0], end)
                        else:
                            spans.append((start, end))
        self._starts, self._ends = [s for s, _ in readable], [e for _, e in readable]
        self._writable_starts, self._writable_ends = [s for s, _ in writable], [e for _, e in writable]

    def _allowed(self, address: int, nbytes: int, write: bool) -> bool:
        starts, ends = (self._writable_starts, self._writable_ends) if write else (self._starts, self._ends)
        i = bisect.bisect_right(starts, address) - 1
        return i >= 0 and address + nbytes <= ends[i]

    def ok(self, address: int, nbytes: int, write: bool) -> bool:
        """True when ``nbytes`` at ``address`` can be read (or written) without a fault."""
        if nbytes <= 0:
            return True
        if address < _PAGE or address + nbytes > 1 << 63 or not self._mapped(address, nbytes):
            return False
        if not self._has_maps or self._allowed(address, nbytes, write):
            return True
        try:
            self._refresh()
        except OSError:
            self._has_maps = False
            return True
        return self._allowed(address, nbytes, write)
