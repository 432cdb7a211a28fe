"""Memory rules: sizes, addresses, errors, copies (hicann/runtime api_ref, memory management)."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acl_program import Program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import acl
from acl import _sim

Fails = Callable[..., str]
MIB = 1 << 20


def test_malloc_takes_size_rounded_to_32_plus_padding(program: Program) -> None:
    before = acl.rt.get_mem_info(1)[0]
    pointer = program.empty(33)
    assert pointer % 64 == 0
    taken = before - acl.rt.get_mem_info(1)[0]
    assert taken >= 64 + 32
    block = _sim.arena(0).find(pointer)
    assert block is not None and block.padded >= 96
    assert acl.rt.free(pointer) == 0
    assert acl.rt.get_mem_info(1)[0] == before


def test_size_zero(device: int, fails: Fails) -> None:
    fails(acl.rt.malloc(0, 0), 100000, "size", "at least 1")
    fails(acl.rt.malloc_host(0), 100000, "size")


@pytest.mark.parametrize("policy", [*range(8), 99, -1])
def test_unknown_policies_are_ignored(device: int, policy: int) -> None:
    pointer, ret = acl.rt.malloc(100, policy)
    assert ret == 0 and acl.rt.free(pointer) == 0


def test_hbm_query_and_capacity(device: int) -> None:
    free, total, ret = acl.rt.get_mem_info(1)
    assert ret == 0 and 0 < free <= total == _sim.soc().memory.capacity_bytes
    assert acl.rt.get_mem_info(0) == (0, 0, 0)  # no DDR on this part


def test_out_of_memory_names_sizes_and_holders(program: Program, fails: Fails) -> None:
    total = acl.rt.get_mem_info(1)[1]
    holder, ret = acl.rt.malloc(total // 2, 0)
    assert ret == 0
    message = fails(acl.rt.malloc(total, 0), 207001, str(total), "free", hex(holder))
    assert "largest holders" in message
    assert acl.rt.malloc(-1, 0) == (0, 207001)  # an unsigned size


def test_gibibytes_cost_nothing_until_touched(program: Program) -> None:
    pointer = program.empty(32 << 30)
    data = b"x" * 4096
    assert acl.rt.memcpy(pointer + (31 << 30), 4096, acl.util.bytes_to_ptr(data), 4096, 1) == 0
    assert acl.util.ptr_to_bytes(pointer + (31 << 30), 4096) == data


def test_free_errors(program: Program, fails: Fails) -> None:
    fails(acl.rt.free(0), 100000, "dev_ptr")
    pointer = program.empty(64)
    fails(acl.rt.free(pointer + 32), 107000, "inside a block")
    assert acl.rt.free(pointer) == 0
    fails(acl.rt.free(pointer), 107000, "freed before", "acl.rt.malloc")
    fails(acl.rt.free(12345), 107000, "0x3039")
    host, _ = acl.rt.malloc_host(64)
    fails(acl.rt.free(host), 107000, "acl.rt.free_host")
    assert acl.rt.free_host(host) == 0
    fails(acl.rt.free_host(host), 107000, "freed before")
    fails(acl.rt.free_host(0), 100000, "host_ptr")


def test_free_needs_no_context(program: Program) -> None:
    import threading

    pointer = program.empty(64)
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(acl.rt.free(pointer)))
    thread.start()
    thread.join()
    assert results == [0]


def test_uninitialised_memory_is_poisoned(program: Program) -> None:
    pointer = program.empty(4096)
    assert np.isnan(program.download(pointer, 4096, np.float16)).all()
    assert np.isnan(program.download(pointer, 4096, np.float32)).all()


def test_round_trip_through_bytes(program: Program) -> None:
    values = np.random.default_rng(0).random((100, 7))
    pointer, n = program.upload(values)
    assert np.array_equal(program.download(pointer, n, values.dtype).reshape(values.shape), values)


def test_memcpy_check_order(program: Program, fails: Fails) -> None:
    pointer = program.empty(64)
    data = bytes(64)
    source = acl.util.bytes_to_ptr(data)
    assert acl.rt.memcpy(0, 0, 0, 0, 99) == 0  # nothing to copy: nothing is looked at
    fails(acl.rt.memcpy(0, 64, source, 64, 1), 100000, "dst")
    fails(acl.rt.memcpy(pointer, 64, 0, 64, 1), 100000, "src")
    fails(acl.rt.memcpy(pointer, 64, source, 64, 8), 100000, "kind")
    fails(acl.rt.memcpy(pointer, 32, source, 64, 1), 107000, "dst_max = 32")
    assert acl.rt.memcpy(pointer, 64, pointer, 64, 3) == 0


def test_no_copy_leaves_its_blocks(program: Program, fails: Fails) -> None:
    first, second = program.empty(512), program.empty(512)
    data = b"y" * 4096
    message = fails(acl.rt.memcpy(first, 4096, acl.util.bytes_to_ptr(data), 4096, 1), 107000, "passes the end")
    assert "512 B allocated by acl.rt.malloc" in message
    assert set(program.download(second, 512).tolist()) == {0xFF}
    fails(acl.rt.memcpy(acl.util.bytes_to_ptr(data), 4096, first + 500, 600, 2), 107000, "passes the end")


@pytest.mark.parametrize("address", [1, 0x1000, 0x100_0000_0040, 1 << 60, 2**64 - 16])
def test_wild_pointers_are_codes_not_crashes(program: Program, fails: Fails, address: int) -> None:
    pointer = program.empty(64)
    fails(acl.rt.memcpy(address, 64, pointer, 64, 2), 107000, "not writable memory")
    fails(acl.rt.memcpy(pointer, 64, address, 64, 1), 107000, "not readable memory")
    fails(acl.rt.memset(address, 64, 0, 64), 107000)
    with pytest.raises(ValueError, match="not readable"):
        acl.util.ptr_to_bytes(address, 8)


def test_read_only_memory_is_not_written(program: Program, fails: Fails) -> None:
    pointer = program.empty(64)
    region = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    address = np.frombuffer(region, np.uint8).ctypes.data
    fails(acl.rt.memcpy(address, 64, pointer, 64, 2), 107000, "not writable")
    assert acl.rt.memcpy(pointer, 64, address, 64, 1) == 0


def test_use_after_free_is_named(program: Program, fails: Fails) -> None:
    pointer = program.empty(64)
    acl.rt.free(pointer)
    data = bytes(64)
    fails(acl.rt.memcpy(pointer, 64, acl.util.bytes_to_ptr(data), 64, 1), 107000, "was freed", "64 B")


def test_kind_is_deduced_and_a_wrong_one_warned_about(program: Program) -> None:
    pointer = program.empty(64)
    data = b"z" * 64
    with pytest.warns(RuntimeWarning, match="addresses say h2d"):
        assert acl.rt.memcpy(pointer, 64, acl.util.bytes_to_ptr(data), 64, 2) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert acl.rt.memcpy(pointer, 64, acl.util.bytes_to_ptr(data), 64, 4) == 0
    assert program.download(pointer, 64).tobytes() == data


def test_host_to_host(program: Program, fails: Fails) -> None:
    a, b = b"a" * 32, bytes(32)
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(b), 32, acl.util.bytes_to_ptr(a), 32, 0) == 0
    assert b == a
    ret = acl.rt.memcpy_async(acl.util.bytes_to_ptr(b), 32, acl.util.bytes_to_ptr(a), 32, 0, program.stream())
    fails(ret, 207000, "host memory")


def test_device_to_device_and_between_devices(program: Program) -> None:
    values = np.arange(1000)
    source, n = program.upload(values)
    copy = program.empty(n)
    assert acl.rt.memcpy(copy, n, source, n, 3) == 0
    assert acl.rt.set_device(1) == 0
    far = program.empty(n)
    assert acl.rt.memcpy(far, n, copy, n, 3) == 0
    assert np.array_equal(program.download(far, n, values.dtype), values)
    assert acl.rt.pointer_get_attributes(far)[0]["location"]["id"] == 1


def test_memset(program: Program, fails: Fails) -> None:
    pointer = program.empty(100)
    assert acl.rt.memset(pointer, 100, 0x105, 50) == 0  # the low byte counts
    assert program.download(pointer, 100).tolist() == [5] * 50 + [0xFF] * 50
    fails(acl.rt.memset(pointer, 40, 0, 50), 107000, "max_count = 40")
    fails(acl.rt.memset(0, 40, 0, 4), 100000, "dev_ptr")
    stream = program.stream()
    assert acl.rt.memset_async(pointer, 100, 9, 100, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert program.download(pointer, 100).tolist() == [9] * 100


def test_memcpy2d(program: Program, fails: Fails) -> None:
    image = np.arange(6 * 10, dtype=np.uint8).reshape(6, 10)
    pointer = program.empty(200)
    acl.rt.memset(pointer, 200, 0, 200)
    source, kept = acl.util.numpy_contiguous_to_ptr(image)
    assert acl.rt.memcpy2d(pointer, 16, source, 10, 4, 6, 1) == 0
    got = program.download(pointer, 16 * 6).reshape(6, 16)
    assert np.array_equal(got[:, :4], kept[:, :4]) and not got[:, 4:].any()
    fails(acl.rt.memcpy2d(pointer, 3, source, 10, 4, 6, 1), 100000, "dpitch = 3")
    fails(acl.rt.memcpy2d(pointer, 200, source, 10, 4, 6, 1), 107000, "passes the end")
    stream = program.stream()
    back, _ = acl.rt.malloc_host(64)
    assert acl.rt.memcpy2d_async(back, 4, pointer, 16, 4, 6, 2, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(back, 24) == image[:, :4].tobytes()


def test_pinned_registered_and_pageable(program: Program, fails: Fails) -> None:
    kind = lambda p: acl.rt.pointer_get_attributes(p)[0]["location"]["type"]  # noqa: E731
    pinned, _ = acl.rt.malloc_host(4096)
    array = np.zeros(4096, np.uint8)
    assert (kind(program.empty(8)), kind(pinned), kind(array.ctypes.data)) == (1, 0, 2)
    assert acl.rt.host_register(array.ctypes.data, 4096, 0) == (array.ctypes.data, 0)
    assert kind(array.ctypes.data) == 0
    fails(acl.rt.host_register(array.ctypes.data, 4096, 0), 107000, "pinned already")
    assert acl.rt.host_unregister(array.ctypes.data) == 0
    assert kind(array.ctypes.data) == 2
    fails(acl.rt.host_unregister(array.ctypes.data), 107000, "not registered")


def test_a_bigger_copy_takes_longer(program: Program) -> None:
    pointer = program.empty(64 * MIB)
    data = bytes(64 * MIB)
    source = acl.util.bytes_to_ptr(data)
    times = []
    for n in (4096, MIB, 64 * MIB):
        start = _sim.host().now
        assert acl.rt.memcpy(pointer, n, source, n, 1) == 0
        times.append(_sim.host().now - start)
    assert times == sorted(times)
    # pinned memory reaches about 23 GB/s on 910B2 (msinsight example data), pageable does not
    pinned, _ = acl.rt.malloc_host(64 * MIB)
    start = _sim.host().now
    acl.rt.memcpy(pointer, 64 * MIB, pinned, 64 * MIB, 1)
    assert _sim.host().now - start < times[-1]
    assert 20 < 64 * MIB / (_sim.host().now - start) * 1000 < 24


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 1200)), max_size=20))
def test_copies_agree_with_numpy(program: Program, moves: list[tuple[int, int, int]]) -> None:
    model = np.arange(1024, dtype=np.uint16).view(np.uint8).copy()
    pointer, n = program.upload(model)
    for dst, src, count in moves:
        inside = dst + count <= n and src + count <= n
        ret = acl.rt.memcpy(pointer + dst, n, pointer + src, count, 3)
        if inside:
            assert ret == 0
            model[dst : dst + count] = model[src : src + count].copy()
        else:
            assert ret in (0, 107000)
            if ret == 0 and count and dst != src:  # reached into the block's padding
                return
    assert np.array_equal(program.download(pointer, n), model)
    acl.rt.free(pointer)
    acl.get_recent_err_msg()


def test_util_views(program: Program) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pytest.warns(UserWarning, match="deprecated"):
        pointer = acl.util.numpy_to_ptr(array)
    assert pointer == array.ctypes.data
    with pytest.warns(UserWarning) as caught:
        acl.util.numpy_to_ptr(array.T)
    assert any("C-contiguous" in str(w.message) for w in caught)
    with pytest.warns(UserWarning):
        view: Any = acl.util.ptr_to_numpy(pointer, (2, 6), 11)
    view[0, 0] = 42
    assert array[0, 0] == 42 and view.dtype == np.float32
    device = program.empty(64)
    acl.rt.memset(device, 64, 1, 64)
    with pytest.warns(UserWarning):
        mapped = acl.util.ptr_to_numpy(device, (16,), 5)
    assert mapped.tolist() == [0x01010101] * 16
    with pytest.raises(TypeError):
        acl.util.ptr_to_numpy(pointer, [2, 6], 11)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="type number"):
        acl.util.ptr_to_numpy(pointer, (2,), 999)
    pointer, kept = acl.util.numpy_contiguous_to_ptr(array.T)
    assert kept.flags.c_contiguous and pointer == kept.ctypes.data


def test_bytes_to_ptr_writes_through() -> None:
    data = bytes(16)
    other = bytes(range(16))
    acl.rt.set_device(0)
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(data), 16, acl.util.bytes_to_ptr(other), 16, 0) == 0
    assert data == other
    assert acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), 16) == other


def test_dvpp_memory(program: Program, fails: Fails) -> None:
    pointer, ret = acl.media.dvpp_malloc(1000)
    assert ret == 0
    assert acl.media.dvpp_free(pointer) == 0
    fails(acl.media.dvpp_free(pointer), 107000, "acl.media.dvpp_malloc")
