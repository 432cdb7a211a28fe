"""Foreign host memory is asked about before it is touched."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from ascend_sim.runtime.hostmem import HostProbe


@pytest.fixture
def probe() -> HostProbe:
    return HostProbe()


def test_python_objects_are_legal(probe: HostProbe) -> None:
    array = np.zeros(1 << 20, np.uint8)
    assert probe.ok(array.ctypes.data, array.nbytes, True)
    data = bytes(1000)
    assert probe.ok(id(data) + bytes.__basicsize__ - 1, 1000, True)


@pytest.mark.parametrize("address", [0, 1, 4095, 0x1000, 0x100_0000_0040, 1 << 62, (1 << 64) - 8])
def test_wild_addresses_are_refused(probe: HostProbe, address: int) -> None:
    assert not probe.ok(address, 8, False)
    assert not probe.ok(address, 8, True)


def test_ranges_that_run_out_of_their_mapping_are_refused(probe: HostProbe) -> None:
    region = mmap.mmap(-1, 8 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    assert probe.ok(start, 8 * mmap.PAGESIZE, True)
    assert not probe.ok(start, 1 << 45, True)


def test_read_only_memory_is_not_written(probe: HostProbe) -> None:
    region = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    address = np.frombuffer(region, np.uint8).ctypes.data
    assert probe.ok(address, 100, False)
    assert not probe.ok(address, 100, True)


def test_unmapped_memory_is_noticed(probe: HostProbe) -> None:
    region = mmap.mmap(-1, 64 * mmap.PAGESIZE)
    view = np.frombuffer(region, np.uint8)
    address = view.ctypes.data
    assert probe.ok(address, 100, True)
    del view
    region.close()
    assert not probe.ok(address, 100, True)
