"""acl.rt beyond the everyday: notifies, values in memory, mappings, limits, reductions, sharing, products."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable

import numpy as np
import pytest
from acl_program import Program

import acl
from acl import _sim
from ascend_sim.runtime import system as machine

Fails = Callable[..., str]
PROP = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}, "reserve": 0}
MB2 = 2 << 20


def chip(name: str) -> None:
    _sim.reset()
    machine.configure(soc=name, devices=2)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0


# -- notifies ----------------------------------------------------------------------------------------------


def test_a_notify_orders_two_streams(program: Program) -> None:
    """08_notify_management: record on one stream, wait and reset on the other."""
    first, second = program.stream(), program.stream()
    notify, ret = acl.rt.create_notify(0)
    assert ret == 0
    source, n = program.upload(np.arange(1 << 16, dtype=np.int32))
    middle, target = program.empty(n), program.empty(n)
    assert acl.rt.wait_and_reset_notify(notify, second, 0) == 0
    assert acl.rt.memcpy_async(target, n, middle, n, 3, second) == 0  # what the first stream writes
    assert acl.rt.memcpy_async(middle, n, source, n, 3, first) == 0
    assert acl.rt.record_notify(notify, first) == 0
    assert acl.rt.synchronize_stream(second) == 0
    assert np.array_equal(program.download(target, n, np.int32), np.arange(1 << 16))
    # it is clear again: the next wait needs a record of its own
    assert acl.rt.wait_and_reset_notify(notify, second, 1) == 0
    assert acl.rt.synchronize_stream(second) == 107020
    assert "within 1 s" in (acl.get_recent_err_msg() or "")
    assert acl.rt.record_notify(notify, first) == 0 and acl.rt.synchronize_stream(first) == 0
    assert acl.rt.notify_batch_reset([notify]) == 0
    assert acl.rt.destroy_notify(notify) == 0


def test_a_notify_between_devices_and_threads(program: Program) -> None:
    here = program.stream()
    notify, _ = acl.rt.create_notify(0)
    assert acl.rt.wait_and_reset_notify(notify, here, 0) == 0

    def other() -> None:
        acl.rt.set_device(1)
        acl.rt.record_notify(notify, 0)

    thread = threading.Thread(target=other)
    thread.start()
    assert acl.rt.synchronize_stream(here) == 0
    thread.join()


def test_notify_names_and_limits(program: Program, fails: Fails) -> None:
    notify, _ = acl.rt.create_notify(0)
    assert acl.rt.get_notify_id(notify) == (0, 0)
    key, ret = acl.rt.notify_get_export_key(notify, 65, 0)
    assert ret == 0 and len(key) == 64
    fails(acl.rt.notify_import_by_key(key, 1), 207006, "may not import", "notify_set_import_pid")
    assert acl.rt.notify_set_import_pid(notify, [acl.rt.device_get_bare_tgid()[0]]) == 0
    again, ret = acl.rt.notify_import_by_key(key, 1)
    assert ret == 0 and acl.rt.get_notify_id(again) == (0, 0)
    fails(acl.rt.notify_import_by_key("x", 0), 107000, "no such key")
    foreign = f"{os.getpid() + 1:08x}" + "0" * 56
    fails(acl.rt.notify_import_by_key(foreign, 0), 107000, "not shared between processes")
    fails(acl.rt.wait_and_reset_notify(notify, 0, -1), 107000, "number of seconds")
    assert acl.rt.destroy_notify(notify) == 0 and acl.rt.destroy_notify(again) == 0
    fails(acl.rt.record_notify(notify, 0), 107000, "was a Notify that acl.rt.destroy_notify destroyed")
    fails(acl.rt.destroy_notify(0), 100000, "acl.rt.create_notify")
    chip("Ascend310P3")
    made = [acl.rt.create_notify(0)[1] for _ in range(1025)]
    assert made == [0] * 1024 + [207009]


# -- values in memory --------------------------------------------------------------------------------------


def test_a_stream_waits_for_a_value(program: Program, fails: Fails) -> None:
    """11-09: at least, equal, and, nor."""
    waiting, writing = program.stream(), program.stream()
    flag, _ = program.upload(np.zeros(8, np.uint64))
    done, _ = program.upload(np.zeros(1, np.uint64))
    for step, (value, kind, wanted) in enumerate([(5, 0, 5), (7, 1, 7), (8, 2, 12), (0, 3, 5)], 1):
        assert acl.rt.value_wait(flag, wanted, kind, waiting) == 0
        assert acl.rt.value_write(done, step, 0, waiting) == 0
        assert acl.rt.value_write(flag, value, 0, writing) == 0
        assert acl.rt.synchronize_stream(waiting) == 0
        assert program.download(done, 8, np.uint64)[0] == step
    fails(acl.rt.value_write(flag + 4, 1, 0, writing), 107000, "a multiple of 8")
    fails(acl.rt.value_wait(flag, 1, 9, writing), 107000, "flag is 9")
    # a copy of the host may bring the value about, too
    assert acl.rt.value_wait(flag, 9, 1, waiting) == 0
    assert acl.rt.stream_query(waiting)[0] == 1
    data = struct.pack("<Q", 9)
    assert acl.rt.memcpy(flag, 8, acl.util.bytes_to_ptr(data), 8, 1) == 0
    assert acl.rt.synchronize_stream(waiting) == 0


def test_reductions_on_the_copy_engine(program: Program, fails: Fails) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 1000)).astype(np.float32)
    for kind, function in ((10, np.add), (11, np.maximum), (12, np.minimum)):
        target, n = program.upload(x)
        source, _ = program.upload(y)
        assert acl.rt.reduce_async(target, source, n, kind, 0, 0, 0) == 0
        assert acl.rt.synchronize_stream(0) == 0
        assert np.array_equal(program.download(target, n, np.float32), function(x, y))
    fails(acl.rt.reduce_async(target, source, n, 13, 0, 0, 0), 100000, "10 sum")
    fails(acl.rt.reduce_async(target, source, n, 10, 9, 0, 0), 207000, "float32")
    fails(acl.rt.reduce_async(target, source, 6, 10, 0, 0, 0), 107000, "whole elements")
    chip("Ascend910A")
    assert acl.rt.reduce_async(1, 1, 4, 11, 0, 0, 0) == 100000  # sum only


def test_a_copy_described_in_memory(program: Program, fails: Fails) -> None:
    source, n = program.upload(np.arange(64, dtype=np.int32))
    target = program.empty(n)
    size, ret = acl.rt.get_memcpy_desc_size(6)
    assert ret == 0
    desc = program.empty(size)
    assert acl.rt.set_memcpy_desc(desc, 6, source, target, n, 0) == (desc, 0)
    assert acl.rt.memcpy_async_with_desc(desc, 6, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert np.array_equal(program.download(target, n, np.int32), np.arange(64))
    fails(acl.rt.get_memcpy_desc_size(1), 207000, "only 6")
    acl.rt.set_memcpy_desc(desc, 6, source, target, 1 << 20, 0)
    acl.rt.memcpy_async_with_desc(desc, 6, 0)
    fails(acl.rt.synchronize_stream(0), 507899, "passes the end of its block")


def test_prefetching_makes_the_next_read_a_hit(program: Program) -> None:
    pointer = program.empty(1 << 20)
    l2 = _sim.system().devices[0].l2
    assert acl.rt.cmo_async(pointer, 1 << 20, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert l2.access(_sim.system().devices[0].offset(pointer), 1 << 20, False) == 0


# -- mappings ----------------------------------------------------------------------------------------------


def test_one_piece_of_memory_at_two_addresses(program: Program, fails: Fails) -> None:
    """11-04: reserve, allocate, map, use, unmap, free, release."""
    assert acl.rt.mem_get_allocation_granularity(PROP, 0) == (MB2, 0)
    free, _, _ = acl.rt.get_mem_info(1)
    piece, ret = acl.rt.malloc_physical(MB2, PROP, 0)
    assert ret == 0
    assert acl.rt.get_mem_info(1)[0] == free - MB2
    area, ret = acl.rt.reserve_mem_address(4 * MB2, 0, 0, 0)
    assert ret == 0
    data = np.arange(MB2 // 4, dtype=np.int32).tobytes()
    pointer = acl.util.bytes_to_ptr(data)
    fails(acl.rt.memcpy(area, MB2, pointer, MB2, 1), 107000, "no allocation covers it")
    for place in (area, area + 2 * MB2):
        assert acl.rt.map_mem(place, MB2, 0, piece, 0) == 0
    assert acl.rt.memcpy(area, MB2, pointer, MB2, 1) == 0
    assert program.download(area + 2 * MB2, MB2).tobytes() == data
    assert acl.rt.pointer_get_attributes(area)[0]["location"] == {"id": 0, "type": 1}
    fails(acl.rt.map_mem(area, MB2, 0, piece, 0), 107000, "mapped at")
    fails(acl.rt.release_mem_address(area), 107000, "acl.rt.unmap_mem comes first")
    assert acl.rt.free_physical(piece) == 0  # still mapped: not given back yet
    assert acl.rt.unmap_mem(area) == 0
    fails(acl.rt.memcpy(area, 4, pointer, 4, 1), 107000, "was freed")
    assert program.download(area + 2 * MB2, 4096).tobytes() == data[:4096]
    assert acl.rt.get_mem_info(1)[0] == free - MB2
    assert acl.rt.unmap_mem(area + 2 * MB2) == 0
    assert acl.rt.get_mem_info(1)[0] == free
    assert acl.rt.release_mem_address(area) == 0
    fails(acl.rt.unmap_mem(area), 107000, "nothing is mapped")


def test_physical_memory_has_the_size_of_the_chip(program: Program, fails: Fails) -> None:
    """vllm-project/vllm-ascend issue 2171: which field is bad?"""
    total = acl.rt.get_mem_info(1)[1]
    fails(acl.rt.malloc_physical(total + MB2, PROP, 0), 207001, "largest holders")
    held, _ = acl.rt.malloc_physical(total // 2, PROP, 0)
    fails(acl.rt.malloc(total // 2 + MB2, 0), 207001, f"{total // 2} B at 0x0 (acl.rt.malloc_physical)")
    assert acl.rt.free_physical(held) == 0
    fails(acl.rt.mem_get_allocation_granularity({**PROP, "memAttr": 99}, 0), 100000, "memAttr is 99", "one of [1, 2")
    fails(acl.rt.mem_get_allocation_granularity({**PROP, "location": {"id": 9, "type": 1}}, 0), 107001, "0..1")
    assert acl.rt.mem_get_allocation_granularity({**PROP, "memAttr": 10}, 1) == (1 << 30, 0)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
def test_physical_memory_is_shared_with_another_process() -> None:
    """Fork first, then each side uses the device: only a number goes from one to the other."""
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  # another process
        status = 1
        try:
            acl.rt.set_device(0)
            handle, ret = acl.rt.mem_import_from_shareable_handle(int(os.read(to_child, 64)), 0)
            area, _ = acl.rt.reserve_mem_address(MB2, 0, 0, 0)
            ret |= acl.rt.map_mem(area, MB2, 0, handle, 0)
            seen = bytes(8)
            ret |= acl.rt.memcpy(acl.util.bytes_to_ptr(seen), 8, area, 8, 2)
            ret |= acl.rt.memset(area, 8, 0x77, 8)
            os.write(from_child, seen)
            status = ret
        finally:
            os._exit(status)
    acl.rt.set_device(0)
    piece, _ = acl.rt.malloc_physical(MB2, PROP, 0)
    area, _ = acl.rt.reserve_mem_address(MB2, 0, 0, 0)
    assert acl.rt.map_mem(area, MB2, 0, piece, 0) == 0
    assert acl.rt.memset(area, 8, 0x55, 8) == 0
    share, ret = acl.rt.mem_export_to_shareable_handle(piece, 0, 0)
    assert ret == 0
    assert acl.rt.mem_set_pid_to_shareable_handle(share, [child]) == 0
    os.write(from_parent, str(share).encode())
    assert os.read(to_parent, 8) == b"\x55" * 8
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert Program().download(area, 8).tobytes() == b"\x77" * 8


def test_names_for_memory_inside_a_process(program: Program, fails: Fails) -> None:
    pointer = program.empty(4096)
    key, ret = acl.rt.ipc_mem_get_export_key(pointer, 4096, 65, 0)
    assert ret == 0
    fails(acl.rt.ipc_mem_import_by_key(key, 0), 207006, "may not import")
    assert acl.rt.ipc_mem_set_import_pid(key, [os.getpid()]) == 0
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (pointer, 0)
    assert acl.rt.ipc_mem_close(key) == 0 and acl.rt.ipc_mem_close(key) == 0
    fails(acl.rt.ipc_mem_close(key), 107000, "no such key")
    with pytest.raises(ValueError, match="1024"):
        acl.rt.ipc_mem_get_export_key(pointer, 4096, 1024, 0)


# -- what a device is and how much of it may be used -------------------------------------------------------


def test_device_attributes(program: Program, fails: Fails) -> None:
    for attr, value in ((101, 24), (102, 24), (201, 48), (202, 0), (601, 2201)):
        assert acl.rt.get_device_info(0, attr) == (value, 0)
    assert acl.rt.get_device_info(0, 301)[0] == acl.rt.get_mem_info(1)[1]
    fails(acl.rt.get_device_info(0, 409), 207000)
    fails(acl.rt.get_device_info(2, 101), 107001, "0..1")
    assert acl.get_device_capability(0, 0) == (24, 0)
    assert acl.get_device_capability(0, 1) == (48, 0)
    assert acl.get_cann_attribute_list() == ([0, 1, 2], 3, 0)
    assert acl.get_cann_attribute(1) == (1, 0)
    assert acl.rt.get_devices_topo(0, 1) == (1, 0)
    chip("Ascend310P3")
    assert acl.get_cann_attribute(1) == (0, 0)
    assert acl.rt.get_device_info(0, 601) == (2002, 0)


def _matmul_us(program: Program) -> float:
    descs = [acl.create_tensor_desc(1, [2048, 2048], 2)] * 2
    buffers = [acl.create_data_buffer(program.empty(8 << 20), 8 << 20) for _ in range(3)]
    start, end = program.event(), program.event()
    acl.rt.record_event(start, 0)
    assert acl.op.execute_v2("MatMulV2", descs, buffers[:2], descs[:1], buffers[2:], 0, 0) == 0
    acl.rt.record_event(end, 0)
    assert acl.rt.synchronize_stream(0) == 0
    return float(acl.rt.event_elapsed_time(start, end)[0])


def test_fewer_cores_take_longer(program: Program, fails: Fails) -> None:
    """03_runtime_configuration: stream limit over process limit over hardware."""
    _sim.set_values_mode("none")
    assert acl.rt.get_device_res_limit(0, 0) == (24, 0)
    _matmul_us(program)
    all_cores = _matmul_us(program)
    assert acl.rt.set_device_res_limit(0, 0, 12) == 0
    half = _matmul_us(program)
    assert 1.5 < half / all_cores < 2.5
    stream = program.stream()
    assert acl.rt.get_stream_res_limit(stream, 0) == (12, 0)
    assert acl.rt.set_stream_res_limit(stream, 0, 6) == 0
    assert acl.rt.get_res_in_current_thread(0) == (12, 0)
    assert acl.rt.use_stream_res_in_current_thread(stream) == 0
    assert acl.rt.get_res_in_current_thread(0) == (6, 0)
    assert _matmul_us(program) > 1.5 * half
    assert acl.rt.unuse_stream_res_in_current_thread(stream) == 0
    assert acl.rt.reset_stream_res_limit(stream) == 0 and acl.rt.reset_device_res_limit(0) == 0
    assert acl.rt.get_res_in_current_thread(0) == (24, 0)
    assert _matmul_us(program) < 1.2 * all_cores
    fails(acl.rt.set_device_res_limit(0, 0, 25), 107000, "1..24")
    fails(acl.rt.set_device_res_limit(0, 5, 1), 107000, "vector cores")


def test_operator_time_outs(program: Program) -> None:
    """12_execution_control: 1091 s by default, steps of the longest over 254."""
    assert acl.rt.get_op_execute_timeout() == (1091000, 0)
    interval, _ = acl.rt.get_op_timeout_interval()
    assert interval * 254 == pytest.approx(1091e6, rel=1e-4)
    assert acl.rt.set_op_execute_timeout_v2(1) == (interval, 0)
    assert acl.rt.set_op_execute_timeout_v2(0) == (254 * interval, 0)
    assert acl.rt.set_op_execute_time_out(10) == 0
    assert acl.rt.get_op_execute_timeout()[0] == -(-10_000_000 // interval) * interval // 1000


def test_overflow_is_reported_on_request(program: Program) -> None:
    desc = [acl.create_tensor_desc(1, [16], 2)]
    big, n = program.upload(np.full(16, 60000, np.float16))
    buffers = [acl.create_data_buffer(big, n)]
    status = program.empty(64)

    def overflowed() -> bool:
        assert acl.rt.get_overflow_status(status, 64, 0) == 0
        assert acl.rt.synchronize_stream(0) == 0
        return bool(program.download(status, 64, np.int32)[0])

    assert acl.rt.reset_overflow_status(0) == 0
    assert not overflowed()
    out = [acl.create_data_buffer(program.empty(n), n)]
    assert acl.op.execute_v2("Add", desc * 2, buffers * 2, desc, out, 0, 0) == 0
    assert overflowed()
    assert acl.rt.reset_overflow_status(0) == 0
    assert not overflowed()


@pytest.mark.parametrize("name", ["Ascend310P3", "Ascend910A"])
def test_functions_that_other_products_lack(name: str, fails: Fails) -> None:
    chip(name)
    fails(acl.rt.value_write(64, 1, 0, 0), 207000, f"{name} has no acl.rt.value_write")
    fails(acl.rt.stream_abort(0), 207000)
    fails(acl.rt.device_get_uuid(0), 207000)
    assert acl.rt.device_can_access_peer(0, 1) == (1, 0)


# -- failures ----------------------------------------------------------------------------------------------


def _fail_relu(program: Program, stream: int) -> None:
    desc = [acl.create_tensor_desc(0, [1024], 2)]
    pointer = program.empty(4096)
    buffers = [acl.create_data_buffer(pointer, 4096)]
    assert acl.op.execute_v2("Relu", desc, buffers, desc, buffers, 0, stream) == 0
    acl.rt.free(pointer)


def test_an_exception_callback_is_told_who_failed(program: Program, fails: Fails) -> None:
    """13_exception_handling: ids of task, stream, thread, device, and the code."""
    told: list[tuple[int, ...]] = []
    described = []

    def callback(info: int) -> None:
        ids = [
            acl.rt.get_task_id_from_exception_info(info),
            acl.rt.get_stream_id_from_exception_info(info),
            acl.rt.get_device_id_from_exception_info(info),
            acl.rt.get_error_code_from_exception_info(info),
        ]
        told.append(tuple(ids))
        name, inputs, count, _, outputs, ret = acl.mdl.create_and_get_op_desc(ids[2], ids[1], ids[0], 256)
        first = acl.get_tensor_desc_by_index(inputs, 0)
        described.append((name, count, outputs, ret, acl.get_tensor_desc_size(first)))

    stream = program.stream()
    assert acl.rt.set_exception_info_callback(callback) == 0
    _fail_relu(program, stream)
    line = test_an_exception_callback_is_told_who_failed.__code__.co_filename
    fails(acl.rt.synchronize_stream(stream), 507015, "Relu", "task 1 of stream 1", line)
    assert told == [(1, 1, 0, 507015)]
    assert described == [("Relu", 1, 1, 0, 4096)]
    assert acl.rt.get_task_id_from_exception_info(1) == 0xFFFFFFFF
    assert acl.rt.set_exception_info_callback(None) == 0
    _fail_relu(program, stream)
    assert acl.rt.synchronize_stream(stream) == 507015 and len(told) == 1


def test_a_stream_that_stops_on_failure(program: Program, fails: Fails) -> None:
    stream = program.stream()
    fails(acl.rt.set_stream_failure_mode(0, 1), 107000, "default stream")
    assert acl.rt.set_stream_failure_mode(stream, 1) == 0
    target, n = program.upload(np.zeros(4, np.int32))
    _fail_relu(program, stream)
    acl.rt.memset_async(target, n, 1, n, stream)
    assert acl.rt.synchronize_stream(stream) == 507015
    acl.rt.memset_async(target, n, 1, n, stream)
    assert acl.rt.synchronize_stream(stream) == 507015
    assert not program.download(target, n).any()
    going_on = program.stream()
    _fail_relu(program, going_on)
    acl.rt.memset_async(target, n, 1, n, going_on)
    assert acl.rt.synchronize_stream(going_on) == 507015 and acl.rt.synchronize_stream(going_on) == 0
    assert program.download(target, n).all()


def test_tasks_of_a_device_are_dropped(program: Program, fails: Fails) -> None:
    stream = program.stream()
    target, n = program.upload(np.zeros(4, np.int32))
    big = program.empty(1 << 30)
    acl.rt.memset_async(big, 1 << 30, 1, 1 << 30, stream)
    acl.rt.memset_async(target, n, 1, n, stream)
    assert acl.rt.device_task_abort(0, 0) == 0
    assert acl.rt.synchronize_device() == 0
    assert not program.download(target, n).any()
    fails(acl.rt.device_task_abort(0, 1 << 30), 107000, "ms")
    assert acl.rt.get_mem_uce_info(0, 128) == ([], 0)


# -- kernels of a program ----------------------------------------------------------------------------------

KERNEL = """
import ascend_sim.asc as asc

@asc.jit(insert_sync=True, kernel_type="AIV")
def scale(x: asc.GlobalAddress, y: asc.GlobalAddress, n: int, by: float):
    size = n // asc.get_block_num()
    source, target = asc.GlobalTensor(asc.float32), asc.GlobalTensor(asc.float32)
    source.set_global_buffer(x + asc.get_block_idx() * size * 4, size)
    target.set_global_buffer(y + asc.get_block_idx() * size * 4, size)
    tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, size)
    asc.data_copy(tile, source, size)
    asc.muls(tile, tile, by, size)
    asc.data_copy(target, tile, size)
"""


def _words(*values: int | float) -> bytes:
    return b"".join(struct.pack("<d" if isinstance(v, float) else "<q", v) for v in values)


def test_kernels_of_a_python_file_run(program: Program, fails: Fails, tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "kernels.py")
    with open(path, "w") as file:
        file.write(KERNEL)
    binary, ret = acl.rt.binary_load_from_file(path, [])
    assert ret == 0, acl.get_recent_err_msg()
    fails(acl.rt.binary_get_function(binary, "other"), 107000, "one of scale")
    function, _ = acl.rt.binary_get_function(binary, "scale")
    assert acl.rt.get_function_name(function, 100) == ("scale", 0)
    x = np.arange(1024, dtype=np.float32)
    source, n = program.upload(x)
    target = program.empty(n)
    args, _ = acl.rt.kernel_args_init(function)
    params = []
    for value in (_words(source), _words(target), _words(1024), _words(2.0)):
        param, ret = acl.rt.kernel_args_append(args, acl.util.bytes_to_ptr(value), 8)
        assert ret == 0
        params.append(param)
    fails(acl.rt.launch_kernel_with_config(function, 2, 0, 0, args, 0), 107000, "kernel_args_finalize")
    three = _words(3.0)
    assert acl.rt.kernel_args_para_update(args, params[3], acl.util.bytes_to_ptr(three), 8) == 0
    assert acl.rt.kernel_args_finalize(args) == 0
    assert acl.rt.launch_kernel_with_config(function, 2, 0, 0, args, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    assert np.array_equal(program.download(target, n, np.float32), 3 * x)
    words = _words(source, target, 1024, 5.0)
    device_words, size = program.upload(np.frombuffer(words, np.uint8))
    assert acl.rt.launch_kernel(function, 4, device_words, size, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert np.array_equal(program.download(target, n, np.float32), 5 * x)
    pointer = acl.util.bytes_to_ptr(words)
    assert acl.rt.launch_kernel_with_host_args(function, 1, 0, 0, pointer, size, 0, 0) == 0
    fails(acl.rt.launch_kernel(function, 4, device_words, 16, 0), 107000, "4 arguments (x, y, n, by), 2 are given")
    fails(acl.rt.launch_kernel(function, 4, device_words, 15, 0), 107000, "multiple of 8")
    acl.rt.synchronize_stream(0)
    assert acl.rt.binary_unload(binary) == 0


def test_machine_code_is_refused_with_a_reason(program: Program, fails: Fails) -> None:
    code = b"\x7fELF" + bytes(100)
    made = acl.rt.create_binary(acl.util.bytes_to_ptr(code), len(code))
    binary, ret = acl.rt.binary_load(made)
    assert ret == 0 and acl.rt.destroy_binary(made) == 0
    function, ret = acl.rt.binary_get_function(binary, "add")
    assert ret == 0
    fails(acl.rt.launch_kernel(function, 1, 0, 0, 0), 207000, "machine code", "ascend_sim.asc")
    args, _ = acl.rt.kernel_args_init(function)
    holder, ret = acl.rt.kernel_args_append_place_holder(args)
    address, ret = acl.rt.kernel_args_get_place_holder_buffer(args, holder, 64)
    assert ret == 0 and address
    assert acl.rt.kernel_args_get_mem_size(function, 20)[0] >= 24


def test_allocator_descriptions(program: Program, fails: Fails) -> None:
    stream = program.stream()
    desc = acl.rt.allocator_create_desc()
    fails(acl.rt.allocator_register(stream, desc), 100000, "alloc, free, address")
    assert acl.rt.allocator_set_obj_to_desc(desc, 5) == 0
    assert acl.rt.allocator_set_alloc_func_to_desc(desc, lambda o, n: n) == 0
    assert acl.rt.allocator_set_free_func_to_desc(desc, lambda o, b: None) == 0
    assert acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, lambda b: b) == 0
    assert acl.rt.allocator_register(stream, desc) == 0
    assert acl.rt.allocator_destroy_desc(desc) == 0
    assert acl.rt.allocator_unregister(stream) == 0 and acl.rt.allocator_unregister(stream) == 0
    fails(acl.rt.allocator_register(0, desc), 100000, "create_stream")
