"""Arenas: placement, poison, limits, and that no two living blocks overlap."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.runtime.memory import GRAIN, KEEP_PAGES, POISON_FRESH, Arena, MemoryMap, OutOfMemory, rounded

MIB = 1 << 20
GIB = 1 << 30


def arena(capacity: int = 64 * MIB) -> Arena:
    return Arena("test", capacity, "device", 0)


def test_rounding_follows_the_documented_rule() -> None:
    # hicann/runtime api_ref, aclrtMalloc: the size is rounded up to 32 B, then 32 B are added
    assert rounded(1, 32) == 64
    assert rounded(32, 32) == 64
    assert rounded(33, 32) == 96
    assert rounded(33, 0) == 64


def test_blocks_are_aligned_and_mapped() -> None:
    memory = arena()
    block = memory.allocate(100, 160, "test")
    assert block.address % 64 == 0
    ctypes.memset(block.address, 7, 100)
    assert memory.view(block.address, 100).tolist() == [7] * 100
    assert memory.find(block.address + 99) is block
    assert memory.find(block.address + block.padded) is None


def test_small_and_recycled_blocks_are_poisoned() -> None:
    memory = arena()
    block = memory.allocate(1000, 1000, "test")
    assert set(memory.view(block.address, 1000).tolist()) == {0xFF}
    ctypes.memset(block.address, 0, 1000)
    memory.release(block)
    again = memory.allocate(1000, 1000, "test")
    assert again.address == block.address
    assert set(memory.view(again.address, 1000).tolist()) == {0xFF}
    big = memory.allocate(4 * MIB, 4 * MIB, "test")
    ctypes.memset(big.address, 1, 4 * MIB)
    memory.release(big)
    second = memory.allocate(4 * MIB, 4 * MIB, "test")
    assert int(memory.view(second.address, 4 * MIB).min()) == 0xFF


def test_large_fresh_blocks_cost_nothing_until_touched() -> None:
    memory = arena(128 * GIB)
    before = _resident()
    block = memory.allocate(100 * GIB, 100 * GIB, "test")
    assert memory.view(block.address + 50 * GIB, 4).tolist() == [0, 0, 0, 0]
    assert _resident() - before < 16 * MIB


def test_large_blocks_give_their_pages_back() -> None:
    memory = arena(2 * GIB)
    size = 4 * KEEP_PAGES
    block = memory.allocate(size, size, "test")
    before = _resident()
    ctypes.memset(block.address, 1, size)
    assert _resident() - before > size // 2
    memory.release(block)
    assert _resident() - before < size // 2


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_out_of_memory_names_requested_free_and_largest_holders() -> None:
    memory = arena(8 * MIB)
    kept = [memory.allocate(n * MIB, n * MIB, f"owner{n}") for n in (1, 3, 2)]
    with pytest.raises(OutOfMemory) as caught:
        memory.allocate(4 * MIB, 4 * MIB, "test")
    error = caught.value
    assert (error.requested, error.free, error.total) == (4 * MIB, 2 * MIB, 8 * MIB)
    assert [b.owner for b in error.holders] == ["owner3", "owner2", "owner1"]
    assert "owner3" in str(error) and str(2 * MIB) in str(error)
    memory.release(kept[1])
    assert memory.allocate(4 * MIB, 4 * MIB, "test").alive


def test_fragments_are_joined_again() -> None:
    memory = arena(64 * MIB)
    blocks = [memory.allocate(MIB, MIB, "test") for _ in range(64)]
    for block in blocks:
        memory.release(block)
    assert memory.used == 0
    assert memory.allocate(64 * MIB, 64 * MIB, "test").alive


def test_freed_blocks_are_remembered() -> None:
    memory = arena()
    block = memory.allocate(10, 64, "acl.rt.malloc")
    memory.release(block)
    book = MemoryMap()
    book.add(memory)
    found = book.last_freed(block.address)
    assert found is block and not found.alive and found.owner == "acl.rt.malloc"
    assert book.find(block.address) is None
    assert book.arena_of(block.address) is memory
    assert book.arena_of(12345) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 300_000), st.booleans()), min_size=1, max_size=60))
def test_living_blocks_never_overlap(steps: list[tuple[int, bool]]) -> None:
    memory = arena(6 * MIB)
    living = []
    for size, free in steps:
        if free and living:
            memory.release(living.pop(size % len(living)))
        else:
            try:
                living.append(memory.allocate(size, size, "test"))
            except OutOfMemory as error:
                assert error.free < size + GRAIN or memory.capacity < size
        spans = sorted((b.address, b.end) for b in living)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        assert memory.used == sum(b.padded for b in living)
        assert all(memory.find(b.address + b.size - 1) is b for b in living)


def test_poison_limit_is_what_the_design_says() -> None:
    assert POISON_FRESH == 1 << 20
