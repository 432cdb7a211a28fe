"""Flags of a load - compute - store pipeline with one or two sets of buffers.

The pipeline works with credits: every buffer set starts free for loading and for storing into, each stage takes its
credit and passes the next one on, and `Pipeline.drain` takes the last credits back, so sets and waits pair up
whatever the number of tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ascend_sim import asc

STEADY = 2  # flag id of data that serves many tiles


def walk(count: int, kind: Callable[[int], object]) -> Iterator[int]:
    """The loop ``range(count)``, folded in a trace only over runs of iterations of the same ``kind``: an odd
    iteration in the middle (the last rows of each plane, say) is never skipped."""
    first = 0
    while first < count:
        end, this = first + 1, kind(first)
        while end < count and kind(end) == this:
            end += 1
        yield from asc.steady(first, end)
        first = end


class Pipeline:
    """Use per tile: `load`, DMA, `compute`, vector work, `store`, DMA, `done`."""

    def __init__(self, buffers: int) -> None:
        self.buffers = buffers
        for slot in range(buffers):
            asc.set_flag(asc.HardEvent.V_MTE2, slot)
            asc.set_flag(asc.HardEvent.MTE3_V, slot)

    def load(self, slot: int) -> None:
        """Wait until the vector unit has finished with what was loaded into ``slot`` before."""
        asc.wait_flag(asc.HardEvent.V_MTE2, slot)

    def compute(self, slot: int) -> None:
        """Loads are issued: the vector unit waits for them, and for the store of the slot's earlier results."""
        asc.set_flag(asc.HardEvent.MTE2_V, slot)
        asc.wait_flag(asc.HardEvent.MTE2_V, slot)
        asc.wait_flag(asc.HardEvent.MTE3_V, slot)

    def store(self, slot: int) -> None:
        """Vector work is issued: free the loaded data, let the store wait for the results."""
        asc.set_flag(asc.HardEvent.V_MTE2, slot)
        asc.set_flag(asc.HardEvent.V_MTE3, slot)
        asc.wait_flag(asc.HardEvent.V_MTE3, slot)

    def done(self, slot: int) -> None:
        """Stores are issued."""
        asc.set_flag(asc.HardEvent.MTE3_V, slot)

    def drain(self) -> None:
        """Take the remaining credits at the end of the kernel."""
        for slot in range(self.buffers):
            asc.wait_flag(asc.HardEvent.V_MTE2, slot)
            asc.wait_flag(asc.HardEvent.MTE3_V, slot)


class Mover:
    """The same for kernels that only move data: use per tile `load`, DMA, `store`, DMA, `done`."""

    def __init__(self, buffers: int) -> None:
        self.buffers = buffers
        for slot in range(buffers):
            asc.set_flag(asc.HardEvent.MTE3_MTE2, slot)

    def load(self, slot: int) -> None:
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, slot)

    def store(self, slot: int) -> None:
        asc.set_flag(asc.HardEvent.MTE2_MTE3, slot)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, slot)

    def done(self, slot: int) -> None:
        asc.set_flag(asc.HardEvent.MTE3_MTE2, slot)

    def drain(self) -> None:
        for slot in range(self.buffers):
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, slot)
