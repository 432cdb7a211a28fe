"""Cost of moving bytes: over PCIe, inside a device, to a neighbour. Every figure is the chip's ``[link]``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


def picoseconds(us: float) -> int:
    """A figure in microseconds as integer ps, rounded once."""
    return round(Fraction(str(us)) * 1_000_000)


@dataclass(frozen=True)
class Line:
    """A transfer of n bytes takes ``fixed + n * per_byte`` ps, rounded once."""

    fixed: Fraction
    per_byte: Fraction

    @staticmethod
    def of(fixed_us: float, gbps: float, factor: float = 1.0) -> Line:
        if gbps <= 0 or factor <= 0:
            raise ValueError(f"a link needs a positive rate, got {gbps} GB/s x {factor}")
        rate = Fraction(str(gbps)) * Fraction(str(factor))
        return Line(Fraction(str(fixed_us)) * 1_000_000, 1000 / rate)

    def ps(self, nbytes: int) -> int:
        return round(self.fixed + nbytes * self.per_byte)


class Link:
    """The lines of one chip. Directions: ``h2d``, ``d2h``, ``d2d`` (inside a device), ``p2p`` (to another)."""

    def __init__(self, soc: Soc) -> None:
        link, memory = soc.link, soc.memory
        self._lines = {
            ("h2d", True): Line.of(link.h2d_fixed_us, link.h2d_gbps),
            ("h2d", False): Line.of(link.h2d_fixed_us, link.h2d_gbps, link.pageable_factor),
            ("d2h", True): Line.of(link.d2h_fixed_us, link.d2h_gbps),
            ("d2h", False): Line.of(link.d2h_fixed_us, link.d2h_gbps, link.pageable_factor),
            ("d2d", True): Line.of(link.d2d_fixed_us, link.d2d_gbps),
            ("p2p", True): Line.of(link.peer_fixed_us, link.peer_gbps),
            ("set", True): Line.of(link.d2d_fixed_us, memory.write_gbps),
        }
        for key in ("d2d", "p2p", "set"):
            self._lines[key, False] = self._lines[key, True]
        self._known: dict[tuple[str, bool, int], int] = {}

    def ps(self, direction: str, nbytes: int, pinned: bool = True) -> int:
        """Duration in ps of a transfer; ``set`` is a fill of device memory."""
        key = (direction, pinned, nbytes)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 4096:
                self._known.clear()
            known = self._known[key] = self._lines[direction, pinned].ps(nbytes)
        return known
