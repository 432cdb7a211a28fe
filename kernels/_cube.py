"""What the cube kernels share: buffer rings, block copies, loads to L0, and the bias.

Memories are laid out by byte offsets that the tiling fixed; every multi-buffered tile is a `Ring` of slots guarded
by a pair of hardware flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import rules_for

from ._matmul_tiling import CubeBuffers

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

E = asc.HardEvent
P = asc.TPosition

BLOCK = 32  # bytes
FRACTAL = 512  # bytes of a 16 x K0 input fractal
MAX_BLOCKS = 65535  # of a DMA burst and of a gap
MAX_BURSTS = 4095
MAX_REPEAT = 255


@lru_cache(maxsize=64)
def cube_buffers(soc: Soc) -> CubeBuffers:
    """Buffer sizes and core count the tilings need."""
    b = soc.buffers
    return CubeBuffers(
        b.l0a_bytes, b.l0b_bytes, b.l0c_bytes, b.l1_bytes, soc.cores.ai_core_count, soc.chip.has_fixpipe
    )


def cube_kind(soc: Soc) -> str:
    """Kind of a launch that uses the cube alone."""
    return "AIC" if soc.chip.split_cores else "AICORE"


def cube_code(kind: str = "AIC") -> str:
    """Class of the code of a launch of this kind that runs on the cube (`asc.Launch`, ``code``)."""
    return "" if kind == "MIX" else "cube"


def block_index() -> int:
    """Index of this block: of the cube core, also on the vector cores that serve it."""
    index = asc.get_block_idx()
    return index // asc.get_sub_block_num() if asc.ascend_is_aiv() and not asc.ascend_is_aic() else index


def load3d_v2(soc: Soc) -> bool:
    """Whether im2col loads take a window of the matrix (V2) rather than runs of fractals (V1)."""
    return soc.chip.arch not in ("m100", "c100")


def nd2nz(soc: Soc) -> bool:
    """Whether DMA turns rows into fractals on the way to L1."""
    return rules_for(soc).exists("data_move_out2l1_nd2nz")


class Ring:
    """``slots`` equal buffers filled by one pipe and emptied by another. Flags ``first`` .. ``first + slots - 1`` of
    ``free`` (consumer to producer) and ``ready`` (producer to consumer) guard them."""

    __slots__ = ("first", "free", "ready", "slots", "turn")

    def __init__(self, free: Any, ready: Any, first: int, slots: int) -> None:
        self.free, self.ready, self.first, self.slots, self.turn = free, ready, first, slots, 0

    def open(self) -> None:
        """All slots start free."""
        for s in range(self.slots):
            asc.set_flag(self.free, self.first + s)

    def take(self) -> int:
        """The next slot, once it is free (the producer waits)."""
        s = self.turn
        self.turn = s + 1 if s + 1 < self.slots else 0
        asc.wait_flag(self.free, self.first + s)
        return s

    def hand(self, s: int) -> None:
        """Slot filled: the consumer waits for it."""
        asc.set_flag(self.ready, self.first + s)
        asc.wait_flag(self.ready, self.first + s)

    def give(self, s: int) -> None:
        """Slot emptied by the consumer."""
        asc.set_flag(self.free, self.first + s)

    def close(self) -> None:
        """Take every free flag back, so none is left set at the end."""
        for i in range(self.slots):
            asc.wait_flag(self.free, self.first + (self.turn + i) % self.slots)


def runs(keys: Sequence[Any]) -> Iterator[int]:
    """Indices 0 .. len(keys) - 1; stretches of equal keys issue equal code, so a trace folds them."""
    start, n = 0, len(keys)
    while start < n:
        stop = start + 1
        while stop < n and keys[stop] == keys[start]:
            stop += 1
        if stop - start > 4:
            yield from asc.steady(start, stop, 1, 2)
        else:
            yield from range(start, stop)
        start = stop


def copy_rows(dst: Any, src: Any, count: int, blocks: int, src_pitch: int, dst_pitch: int) -> None:
    """Copy ``count`` rows of ``blocks`` 32-byte blocks, ``src_pitch`` / ``dst_pitch`` blocks apart, as few transfers
    as the instruction's ranges allow."""
    if count > 1 and src_pitch == blocks and dst_pitch == blocks:
        count, blocks = 1, count * blocks
    unit = BLOCK // src.dtype.size
    src_gap, dst_gap = src_pitch - blocks, dst_pitch - blocks
    if count == 1:
        for at in range(0, blocks, MAX_BLOCKS):
            n = min(MAX_BLOCKS, blocks - at)
            asc.data_copy(dst[at * unit :], src[at * unit :], asc.DataCopyParams(1, n, 0, 0))
    elif blocks > MAX_BLOCKS or src_gap > MAX_BLOCKS or dst_gap > MAX_BLOCKS:
        for i in range(count):
            copy_rows(dst[i * dst_pitch * unit :], src[i * src_pitch * unit :], 1, blocks, blocks, blocks)
    else:
        for at in range(0, count, MAX_BURSTS):
            n = min(MAX_BURSTS, count - at)
            asc.data_copy(
                dst[at * dst_pitch * unit :],
                src[at * src_pitch * unit :],
                asc.DataCopyParams(n, blocks, src_gap, dst_gap),
            )


def load_fractals(
    dst: Any, src: Any, outer: int, inner: int, src_outer: int, src_inner: int, transpose: bool = False
) -> None:
    """Load an ``outer`` x ``inner`` grid of fractals to L0, inner varying fastest there; the source distances are in
    fractals. As few load2d as repeat counts and strides allow."""
    per = FRACTAL // src.dtype.size
    if src_outer == inner * src_inner or outer == 1:
        total = outer * inner
        for at in range(0, total, MAX_REPEAT):
            n = min(MAX_REPEAT, total - at)
            asc.load_data(
                dst[at * per :], src, asc.LoadData2DParams(at * src_inner, n, src_inner, 0, 0, transpose)
            )
    elif outer <= inner or inner == 1:
        for i in range(outer):
            asc.load_data(
                dst[i * inner * per :], src, asc.LoadData2DParams(i * src_outer, inner, src_inner, 0, 0, transpose)
            )
    else:
        for i in range(inner):
            asc.load_data(
                dst[i * per :], src, asc.LoadData2DParams(i * src_inner, outer, src_outer, 0, inner - 1, transpose)
            )


def accumulate(
    ring: Ring,
    a2: Any,
    b2: Any,
    slot_elements: tuple[int, int],
    acc: Any,
    keys: Sequence[Any],
    load: Callable[[int, Any, Any], tuple[int, int, int]],
    first: bool,
    bias: Any = None,
    align_k: bool = False,
) -> None:
    """Run cube steps into ``acc``: ``load(i, a, b)`` fills slot tensors ``a`` and ``b`` of L0 and returns (m, n, k)
    of step i. ``first``: the first of them starts the accumulator (from ``bias`` when given). ``align_k``: K of a
    float32 A is filled up to 16, as transposing loads leave it."""
    for i in runs(keys):
        s = ring.take()
        a, b = a2[s * slot_elements[0] :], b2[s * slot_elements[1] :]
        m, n, k = load(i, a, b)
        ring.hand(s)
        start = first and i == 0
        if start and bias is not None:
            asc.mmad(acc, a, b, bias, asc.MmadParams(m, n, k, cmatrix_init_val=False))
        else:
            asc.mmad(acc, a, b, asc.MmadParams(m, n, k, cmatrix_init_val=start, k_direction_align=align_k or None))
        ring.give(s)


def tensor(address: Any) -> Any:
    """GlobalTensor over a kernel argument."""
    g = asc.GlobalTensor()
    g.set_global_buffer(address)
    return g


def even(total: int, size: int) -> list[tuple[int, int]]:
    """(start, size) pieces of ``total``, all ``size`` but the last."""
    return [(at, min(size, total - at)) for at in range(0, total, size)]


def balanced(total: int, most: int) -> list[tuple[int, int]]:
    """(start, size) pieces of ``total`` of at most ``most``, as few and as equal as that allows."""
    return even(total, ceil_div(total, ceil_div(total, most)))


def blocks_of(elements: int, item: int) -> int:
    """32-byte blocks of so many elements."""
    return ceil_div(elements * item, BLOCK)
