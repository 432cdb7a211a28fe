"""Devices, contexts, streams, events, callbacks and threads."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acl_program import Program

import acl
from acl import _sim
from ascend_sim.runtime.observe import Event

Fails = Callable[..., str]
MIB = 1 << 20


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


# -- init, finalize ----------------------------------------------------------------------------------------


def test_init_counts(fails: Fails) -> None:
    assert acl.init() == 0
    fails(acl.init(), 100002, "harmless")
    assert acl.finalize_reference() == (1, 0)
    assert acl.finalize_reference() == (0, 0)
    fails(acl.finalize_reference(), 100037)
    assert acl.init() == 0
    assert acl.init() == 100002
    assert acl.finalize() == 0  # whatever the count
    fails_message = acl.get_recent_err_msg()
    assert fails_message is not None
    fails(acl.finalize(), 100037, "finalize was called before")
    assert acl.init() == 0


def test_finalize_without_init() -> None:
    assert acl.finalize() == 0


def test_init_file(tmp_path: Path, fails: Fails) -> None:
    fails(acl.init(str(tmp_path / "none.json")), 100003, "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text("{]")
    fails(acl.init(str(bad)), 100006, "not JSON")
    deep: Any = {}
    for _ in range(12):
        deep = {"a": deep}
    bad.write_text(json.dumps(deep))
    fails(acl.init(str(bad)), 100006, "nests deeper")
    bad.write_text(json.dumps({"err_msg_mode": "7"}))
    fails(acl.init(str(bad)), 100000, "err_msg_mode")
    with pytest.raises(TypeError):
        acl.init(5)
    good, other = tmp_path / "acl.json", tmp_path / "other.json"
    good.write_text(json.dumps({"dump": {}, "profiler": {"switch": "off"}}))
    other.write_text("{}")
    assert acl.init(str(good)) == 0
    assert acl.init(str(good)) == 100002
    acl.get_recent_err_msg()
    fails(acl.init(str(other)), 100000, "differs")


@pytest.mark.parametrize("content", [{"soc": "Ascend310P3"}, {"ascend_sim": {"soc": "310p3", "devices": 3}}])
def test_the_init_file_chooses_the_chip(tmp_path: Path, content: dict[str, Any]) -> None:
    _sim.reset()
    path = tmp_path / "acl.json"
    path.write_text(json.dumps(content))
    assert acl.init(str(path)) == 0
    assert acl.get_soc_name() == "Ascend310P3"
    assert acl.rt.get_device_count() == (content.get("ascend_sim", {"devices": 8})["devices"], 0)


def test_an_unknown_or_late_chip_is_refused(tmp_path: Path, fails: Fails) -> None:
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"soc": "Ascend999"}))
    fails(acl.init(str(path)), 100000, "Ascend999")
    assert acl.get_soc_name() == "Ascend910B2"
    path.write_text(json.dumps({"soc": "Ascend310P3"}))
    fails(acl.init(str(path)), 100000, "Ascend910B2 is already being simulated")


def test_the_environment_chooses_the_chip(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    _sim.reset()
    monkeypatch.delenv("ASCEND_SIM_QUIET")
    monkeypatch.setenv("ASCEND_SIM_SOC", "910a")
    monkeypatch.setenv("ASCEND_SIM_DEVICES", "1")
    assert acl.get_soc_name() == "Ascend910A"
    assert acl.rt.get_device_count() == (1, 0)
    acl.get_soc_name()
    assert capfd.readouterr().err.count("Ascend910A") == 1  # said once


def test_a_wrong_environment_is_a_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], fails: Fails
) -> None:
    _sim.reset()
    monkeypatch.setenv("ASCEND_SIM_SOC", "Ascend123")
    fails(acl.init(), 100000, "Ascend123")
    assert acl.get_soc_name() is None
    acl.get_recent_err_msg()
    fails(acl.rt.set_device(0), 100000, "Ascend123")
    assert capfd.readouterr().err.count("Ascend123") >= 1
    monkeypatch.setenv("ASCEND_SIM_SOC", "Ascend310P3")
    monkeypatch.setenv("ASCEND_SIM_DEVICES", "many")
    fails(acl.init(), 100000, "ASCEND_SIM_DEVICES", "many")
    monkeypatch.setenv("ASCEND_SIM_DEVICES", "2")
    monkeypatch.setenv("ASCEND_SIM_VALUES", "maybe")
    fails(acl.init(), 100000, "ASCEND_SIM_VALUES")
    monkeypatch.delenv("ASCEND_SIM_VALUES")
    assert acl.init() == 0 and acl.get_soc_name() == "Ascend310P3"


def test_messages_are_per_thread_newest_first_and_cleared() -> None:
    assert acl.get_recent_err_msg() is None
    acl.rt.free(0)
    acl.rt.free(77)
    assert in_thread(acl.get_recent_err_msg) is None
    first, second = acl.get_recent_err_msg().split("\n")
    assert "0x4d" in first or "77" in first
    assert "dev_ptr is 0" in second
    assert acl.get_recent_err_msg() is None


def test_messages_of_the_whole_process(tmp_path: Path) -> None:
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"err_msg_mode": "1"}))
    assert acl.init(str(path)) == 0
    acl.rt.free(0)
    message = in_thread(acl.get_recent_err_msg)
    assert message is not None and "acl.rt.free" in message


def test_versions() -> None:
    major, minor, patch, ret = acl.get_version()
    assert ret == 0 and acl.get_version_str("runtime") == (f"{major}.{minor}.{patch}", 0)
    assert acl.get_cann_version(0)[0]["major_version"] == str(major)
    acl.app_log(1, "hello")
    assert acl.float16_to_float(acl.float_to_float16(0.5)) == 0.5
    assert acl.float_to_float16(1e9) == 0x7C00


# -- devices and contexts ----------------------------------------------------------------------------------


def test_device_ids(fails: Fails) -> None:
    fails(acl.rt.set_device(2), 107001, "0..1")
    fails(acl.rt.set_device(-1), 107001)
    fails(acl.rt.create_context(9), 107001)
    fails(acl.rt.reset_device(0), 507007, "acl.rt.set_device")
    assert acl.rt.get_device_count() == (2, 0)


def test_set_device_counts_references(fails: Fails) -> None:
    assert acl.rt.set_device(0) == 0
    context = acl.rt.get_context()
    assert acl.rt.set_device(0) == 0
    assert acl.rt.get_context() == context  # threads and calls share the default context
    assert acl.rt.reset_device(0) == 0
    assert acl.rt.get_device() == (0, 0)
    assert acl.rt.reset_device(0) == 0
    fails(acl.rt.get_device(), 107002)
    fails(acl.rt.reset_device(0), 507007)


def test_a_new_thread_has_no_context(program: Program) -> None:
    def worker() -> tuple[Any, Any]:
        ret = acl.rt.malloc(10, 0)
        return ret, acl.get_recent_err_msg()

    (pointer, ret), message = in_thread(worker)
    assert (pointer, ret) == (0, 107002)
    context = acl.rt.get_context()[0]
    assert hex(context) in message and "acl.rt.set_context" in message


def test_threads_share_a_context_by_set_context(program: Program) -> None:
    context = acl.rt.get_context()[0]
    pointer = program.empty(64)

    def worker() -> Any:
        assert acl.rt.set_context(context) == 0
        return acl.rt.memset(pointer, 64, 3, 64)

    assert in_thread(worker) == 0
    assert program.download(pointer, 64).tolist() == [3] * 64


def test_explicit_contexts(device: int, fails: Fails) -> None:
    default = acl.rt.get_context()[0]
    context, ret = acl.rt.create_context(0)
    assert ret == 0 and acl.rt.get_context() == (context, 0) and context != default
    stream, _ = acl.rt.create_stream()
    assert acl.rt.set_context(default) == 0
    fails(acl.rt.synchronize_stream(stream), 107003, "belongs to context", hex(context))
    fails(acl.rt.destroy_stream(stream), 107003)
    fails(acl.rt.destroy_context(default), 107000, "default context")
    assert acl.rt.destroy_context(context) == 0
    fails(acl.rt.set_context(context), 107000, "destroyed earlier")
    fails(acl.rt.destroy_context(context), 107000, "destroyed")
    fails(acl.rt.destroy_context(0), 100000)
    fails(acl.rt.set_context(0), 100000)
    assert acl.rt.get_context() == (default, 0)


def test_context_without_set_device(fails: Fails) -> None:
    context, ret = acl.rt.create_context(1)
    assert ret == 0 and acl.rt.get_device() == (1, 0)
    stream, ret = acl.rt.ctx_get_current_default_stream()
    assert ret == 0 and stream
    assert acl.rt.synchronize_stream(stream) == 0 and acl.rt.synchronize_stream(0) == 0
    assert acl.rt.destroy_context(context) == 0
    fails(acl.rt.get_context(), 107002, "no current context")


def test_reset_device_frees_what_the_process_holds(program: Program) -> None:
    program.empty(MIB)
    assert acl.rt.reset_device(0) == 0
    assert acl.rt.set_device(0) == 0
    free, total, _ = acl.rt.get_mem_info(1)
    assert free == total


def test_run_mode_and_queries(device: int) -> None:
    assert acl.rt.get_run_mode() == (1, 0)
    assert acl.rt.get_primary_ctx_state(0) == (1, 0, 0)
    rates, ret = acl.rt.get_device_utilization_rate(0)
    assert ret == 0 and set(rates) == {
        "cube_utilization", "vector_utilization", "aicpu_utilization", "memory_utilization", "utilization_extend",
    }  # fmt: skip


# -- streams -----------------------------------------------------------------------------------------------


def test_stream_handles(device: int, fails: Fails) -> None:
    fails(acl.rt.destroy_stream(0), 100000)
    fails(acl.rt.synchronize_stream(12345), 107000, "never returned by")
    stream, _ = acl.rt.create_stream()
    event, _ = acl.rt.create_event()
    fails(acl.rt.synchronize_stream(event), 107000, "is a DeviceEvent, not a Stream")
    assert acl.rt.destroy_stream(stream) == 0
    fails(acl.rt.synchronize_stream(stream), 107000, "acl.rt.destroy_stream destroyed earlier")


def test_missing_synchronize_shows_stale_data(program: Program) -> None:
    stream, n = program.stream(), 64 * MIB
    source, _ = acl.rt.malloc_host(n)
    pointer = program.empty(n)
    assert acl.rt.memset(source, n, 1, n) == 0
    assert acl.rt.memset(pointer, n, 0, n) == 0
    assert acl.rt.memcpy_async(pointer, n, source, n, 1, stream) == 0
    assert program.download(pointer + n - 8, 8).tolist() == [0] * 8  # 64 MiB take 2.9 ms, the host looks after 0.05
    assert acl.rt.stream_query(stream) == (1, 0)
    assert acl.rt.synchronize_stream(stream) == 0
    assert program.download(pointer + n - 8, 8).tolist() == [1] * 8
    assert acl.rt.stream_query(stream) == (0, 0)


def test_pageable_memory_makes_the_copy_synchronous(program: Program) -> None:
    stream, n = program.stream(), 16 * MIB
    data = b"\x07" * n
    pointer = program.empty(n)
    assert acl.rt.memcpy_async(pointer, n, acl.util.bytes_to_ptr(data), n, 1, stream) == 0
    assert acl.rt.stream_query(stream) == (0, 0)
    assert program.download(pointer, 4).tolist() == [7] * 4


def test_destroy_stream_waits(program: Program) -> None:
    stream, n = program.stream(), 16 * MIB
    source, _ = acl.rt.malloc_host(n)
    acl.rt.memset(source, n, 9, n)
    pointer = program.empty(n)
    acl.rt.memcpy_async(pointer, n, source, n, 1, stream)
    assert acl.rt.destroy_stream(stream) == 0
    assert program.download(pointer, 4).tolist() == [9] * 4


def test_a_buffer_freed_under_way_is_a_task_failure(program: Program, fails: Fails) -> None:
    stream, n = program.stream(), 16 * MIB
    source, _ = acl.rt.malloc_host(n)
    pointer = program.empty(n)
    acl.rt.memcpy_async(pointer, n, source, n, 1, stream)
    acl.rt.free(pointer)
    other = program.empty(n)
    acl.rt.memset(other, n, 5, n)
    fails(acl.rt.synchronize_stream(stream), 507899, "freed before")
    assert program.download(other, 8).tolist() == [5] * 8
    assert acl.rt.synchronize_stream(stream) == 0


def test_timeouts_are_simulated_time(program: Program, fails: Fails) -> None:
    stream, n = program.stream(), 256 * MIB
    source, _ = acl.rt.malloc_host(n)
    pointer = program.empty(n)
    acl.rt.memcpy_async(pointer, n, source, n, 1, stream)  # 11.7 ms
    started = time.monotonic()
    fails(acl.rt.synchronize_stream_with_timeout(stream, 5), 507046, "5 ms of simulated time")
    assert acl.rt.synchronize_stream_with_timeout(stream, 60_000) == 0
    assert time.monotonic() - started < 20
    fails(acl.rt.synchronize_stream_with_timeout(stream, -2), 107000)
    fails(acl.rt.synchronize_stream_with_timeout(stream, 0), 107000)
    assert acl.rt.synchronize_stream_with_timeout(stream, -1) == 0
    assert acl.rt.synchronize_device_with_timeout(10) == 0


def test_stream_limit(device: int, fails: Fails) -> None:
    available, ret = acl.rt.get_stream_available_num()
    assert ret == 0
    streams = [acl.rt.create_stream()[0] for _ in range(available)]
    fails(acl.rt.create_stream(), 207008, "limit")
    for stream in streams:
        assert acl.rt.destroy_stream(stream) == 0
    assert acl.rt.get_stream_available_num() == (available, 0)


def test_stream_priorities(device: int, fails: Fails) -> None:
    stream, ret = acl.rt.create_stream_with_config(3, 1)
    assert ret == 0 and acl.rt.stream_get_id(stream)[1] == 0
    fails(acl.rt.create_stream_with_config(9, 0), 100000, "priority")


# -- events ------------------------------------------------------------------------------------------------


def test_event_states(program: Program, fails: Fails) -> None:
    event, stream, n = program.event(), program.stream(), 64 * MIB
    assert acl.rt.query_event(event) == (1, 0)  # not recorded
    fails(acl.rt.synchronize_event(event), 107000, "never recorded")
    source, _ = acl.rt.malloc_host(n)
    pointer = program.empty(n)
    acl.rt.memcpy_async(pointer, n, source, n, 1, stream)
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.query_event(event) == (1, 0)
    assert acl.rt.query_event_status(event) == (0, 0)  # the opposite order
    fails(acl.rt.event_elapsed_time(event, event), 107006, "has not been reached")
    fails(acl.rt.synchronize_event_with_timeout(event, 1), 507047)
    assert acl.rt.synchronize_event(event) == 0
    assert acl.rt.query_event(event) == (0, 0)
    assert acl.rt.query_event_status(event) == (1, 0)
    assert acl.rt.destroy_event(event) == 0
    fails(acl.rt.query_event(event), 107000, "destroyed")
    fails(acl.rt.destroy_event(0), 100000)


def test_elapsed_time_is_the_transfer(program: Program, fails: Fails) -> None:
    start, end, stream, n = program.event(), program.event(), program.stream(), 230 * 10**6
    source, _ = acl.rt.malloc_host(n)
    pointer = program.empty(n)
    acl.rt.record_event(start, stream)
    acl.rt.memcpy_async(pointer, n, source, n, 1, stream)
    acl.rt.record_event(end, stream)
    assert acl.rt.synchronize_stream(stream) == 0
    elapsed, ret = acl.rt.event_elapsed_time(start, end)
    assert ret == 0 and 9.5 < elapsed < 10.5  # 230 MB at 23 GB/s
    first, last = acl.rt.event_get_timestamp(start)[0], acl.rt.event_get_timestamp(end)[0]
    assert isinstance(first, int) and last - first == pytest.approx(elapsed * 1000, abs=2)
    fails(acl.rt.event_elapsed_time(end, start), 107007)


def test_a_stream_waits_for_an_event(program: Program) -> None:
    event, first, second, n = program.event(), program.stream(), program.stream(), 16 * MIB
    source, _ = acl.rt.malloc_host(n)
    back, _ = acl.rt.malloc_host(n)
    acl.rt.memset(source, n, 6, n)
    pointer = program.empty(n)
    acl.rt.memcpy_async(pointer, n, source, n, 1, first)
    acl.rt.record_event(event, first)
    assert acl.rt.stream_wait_event(second, event) == 0
    assert acl.rt.query_event_wait_status(event) == (1, 0)
    acl.rt.memcpy_async(back, n, pointer, n, 2, second)
    assert acl.rt.synchronize_stream(second) == 0
    assert acl.util.ptr_to_bytes(back, 8) == b"\x06" * 8
    assert acl.rt.query_event_wait_status(event) == (0, 0)
    assert acl.rt.reset_event(event, first) == 0
    assert acl.rt.query_event(event) == (1, 0)


def test_without_the_event_the_second_stream_reads_stale_data(program: Program) -> None:
    first, second, n = program.stream(), program.stream(), 64 * MIB
    source, _ = acl.rt.malloc_host(n)
    back, _ = acl.rt.malloc_host(64)
    acl.rt.memset(source, n, 6, n)
    pointer = program.empty(n)
    acl.rt.memset(pointer, n, 0, n)
    acl.rt.memcpy_async(pointer, n, source, n, 1, first)
    acl.rt.memcpy_async(back, 64, pointer, 64, 2, second)
    assert acl.rt.synchronize_device() == 0
    assert acl.util.ptr_to_bytes(back, 8) == bytes(8)


def test_a_wait_that_nothing_ends_does_not_hang(program: Program, fails: Fails) -> None:
    if threading.active_count() > 1:
        pytest.skip("another thread could end it")
    stream = program.stream()
    assert acl.rt.stream_wait_event(stream, program.event()) == 0
    fails(acl.rt.synchronize_stream(stream), 507046, "can never finish")


def test_event_flags(device: int, fails: Fails) -> None:
    for flag in (1, 2, 8, 9):
        event, ret = acl.rt.create_event_with_flag(flag)
        assert ret == 0 and acl.rt.get_event_id(event)[1] == 0
        assert acl.rt.create_event_ex_with_flag(flag)[1] == 0
    fails(acl.rt.create_event_with_flag(1 << 20), 100000, "flag")


# -- callbacks ---------------------------------------------------------------------------------------------


class Reports:
    """The loop that asynchronous programs run in their callback thread."""

    def __init__(self) -> None:
        self.context = acl.rt.get_context()[0]
        self.stop = False
        self.idents: set[int] = set()

    def loop(self, args: list[Any]) -> None:
        context, timeout = args
        acl.rt.set_context(context)
        while not self.stop:
            acl.rt.process_report(timeout)

    def __enter__(self) -> int:
        self.ident, ret = acl.util.start_thread(self.loop, [self.context, 50])
        assert ret == 0
        return int(self.ident)

    def __exit__(self, *_: object) -> None:
        self.stop = True
        assert acl.util.stop_thread(self.ident) == 0


@pytest.mark.parametrize("block", [0, 1])
def test_callbacks_run_in_order_in_the_subscribed_thread(program: Program, block: int) -> None:
    stream, seen = program.stream(), []
    pointer = program.empty(64)
    source, _ = acl.rt.malloc_host(64)
    with Reports() as ident:
        assert acl.rt.subscribe_report(ident, stream) == 0
        for i in range(20):
            acl.rt.memset_async(pointer, 64, i, 64, stream)
            acl.rt.memcpy_async(source, 64, pointer, 64, 2, stream)
            ret = acl.rt.launch_callback(
                lambda i: seen.append((i, acl.util.ptr_to_bytes(source, 1)[0], threading.get_ident())), i, block, stream
            )
            assert ret == 0
        assert acl.rt.synchronize_stream(stream) == 0
        deadline = time.monotonic() + 5
        while len(seen) < 20 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert acl.rt.unsubscribe_report(ident, stream) == 0
    assert [s[0] for s in seen] == list(range(20)) and {s[2] for s in seen} == {ident}
    if block:  # a blocking callback sees exactly what was there
        assert [s[1] for s in seen] == list(range(20))


def test_callbacks_arrive_without_a_synchronize(program: Program) -> None:
    stream, done = program.stream(), threading.Event()
    with Reports() as ident:
        acl.rt.subscribe_report(ident, stream)
        acl.rt.launch_callback(lambda _: done.set(), None, 1, stream)
        assert done.wait(5)
        acl.rt.unsubscribe_report(ident, stream)


def test_a_callback_in_the_only_thread(program: Program, fails: Fails) -> None:
    stream, seen, me = program.stream(), [], threading.get_ident()
    assert acl.rt.subscribe_report(me, stream) == 0
    acl.rt.launch_callback(seen.append, "x", 1, stream)
    acl.rt.launch_callback(seen.append, "y", 0, stream)
    assert acl.rt.process_report(100) == 0
    assert acl.rt.process_report(-1) == 0
    assert seen == ["x", "y"]
    fails(acl.rt.process_report(1), 507012, "no callback")
    fails(acl.rt.process_report(0), 100000)
    fails(acl.rt.process_report(-2), 100000)
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.unsubscribe_report(me, stream) == 0
    fails(acl.rt.process_report(5), 107012, "not subscribed")


def test_subscription_errors(program: Program, fails: Fails) -> None:
    stream, me = program.stream(), threading.get_ident()
    fails(acl.rt.launch_callback(print, None, 1, stream), 107015, "acl.rt.subscribe_report")
    assert acl.rt.subscribe_report(me, stream) == 0
    fails(acl.rt.subscribe_report(me, stream), 107012, "already")
    fails(acl.rt.subscribe_report(me + 1, stream), 107011, "one thread per stream")
    fails(acl.rt.launch_callback(print, None, 2, stream), 100000, "block_type")
    fails(acl.rt.unsubscribe_report(me + 1, stream), 107012)
    assert acl.rt.unsubscribe_report(me, stream) == 0
    with pytest.raises(TypeError):
        acl.rt.launch_callback(5, None, 1, stream)


def test_an_exception_in_a_callback_is_shown_and_survived(program: Program, capfd: pytest.CaptureFixture[str]) -> None:
    stream, me = program.stream(), threading.get_ident()
    acl.rt.subscribe_report(me, stream)

    def broken(_: Any) -> None:
        raise ValueError("broken callback")

    acl.rt.launch_callback(broken, None, 1, stream)
    assert acl.rt.process_report(100) == 0
    assert "broken callback" in capfd.readouterr().err
    assert acl.rt.synchronize_stream(stream) == 0


# -- threads -----------------------------------------------------------------------------------------------


def test_start_thread(fails: Fails) -> None:
    seen: list[Any] = []
    ident, ret = acl.util.start_thread(lambda args: seen.append((args, threading.get_ident())), ["a", 1])
    assert ret == 0 and acl.util.stop_thread(ident) == 0
    assert seen == [(["a", 1], ident)]
    ident, _ = acl.util.start_thread(lambda: seen.append("bare"), None)
    acl.util.stop_thread(ident)
    assert seen[-1] == "bare"
    fails(acl.util.stop_thread(ident), 100000, "thread_id")


def test_an_exception_in_a_thread_comes_out_of_stop_thread() -> None:
    def broken(_: Any) -> None:
        raise KeyError("gone")

    ident, _ = acl.util.start_thread(broken, [])
    with pytest.raises(RuntimeError, match="KeyError"):
        acl.util.stop_thread(ident)


def test_threads_have_their_own_clocks(program: Program) -> None:
    context = acl.rt.get_context()[0]
    n = 64 * MIB
    pointer = program.empty(n)
    source, _ = acl.rt.malloc_host(n)
    before = _sim.host().now
    ends: list[int] = []

    def worker(_: Any) -> None:
        acl.rt.set_context(context)
        acl.rt.memcpy(pointer, n, source, n, 1)
        ends.append(_sim.host().now)

    ident, _ = acl.util.start_thread(worker, [])
    while not ends:
        time.sleep(0.001)
    assert _sim.host().now - before < 10**9  # this thread did not copy
    acl.util.stop_thread(ident)
    assert _sim.host().now >= ends[0] > before + 2 * 10**9  # and knows now when the other ended


def test_devices_do_not_disturb_each_other() -> None:
    """Threads on different devices get the same times, whatever the order they really run in."""

    def worker(device: int, pause: float) -> list[int]:
        times = []
        acl.rt.set_device(device)
        stream = acl.rt.create_stream()[0]
        n = MIB
        pointer, source = acl.rt.malloc(n, 0)[0], acl.rt.malloc_host(n)[0]
        for _ in range(20):
            time.sleep(pause)
            acl.rt.memcpy_async(pointer, n, source, n, 1, stream)
            acl.rt.memset_async(pointer, n, 1, n, stream)
            acl.rt.synchronize_stream(stream)
            times.append(_sim.host().now)
        return times

    def both(first: float, second: float) -> list[list[int]]:
        results: list[list[int]] = [[], []]

        def run(device: int, pause: float) -> None:
            results[device] = worker(device, pause)

        threads = [threading.Thread(target=run, args=(0, first)), threading.Thread(target=run, args=(1, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    first = both(0, 0.001)
    _sim.reset()
    from ascend_sim.runtime import system as machine

    machine.configure(soc="Ascend910B2", devices=2)
    assert both(0.001, 0) == first


def test_every_call_leaves_an_event(device: int) -> None:
    seen: list[Event] = []
    _sim.observe(seen.append)
    try:
        stream, _ = acl.rt.create_stream()
        pointer, _ = acl.rt.malloc(64, 0)
        acl.rt.memset_async(pointer, 64, 1, 64, stream)
        acl.rt.synchronize_stream(stream)
        acl.rt.free(pointer)
        acl.rt.free(pointer)
    finally:
        _sim.unobserve(seen.append)
    calls = [(e.name, e.args["ret"]) for e in seen if e.kind == "api"]
    assert calls == [
        ("aclrtCreateStream", 0), ("aclrtMalloc", 0), ("aclrtMemsetAsync", 0), ("aclrtSynchronizeStream", 0),
        ("aclrtFree", 0), ("aclrtFree", 107000),
    ]  # fmt: skip
    fill = next(e for e in seen if e.kind == "memset")
    sync = next(e for e in seen if e.name == "aclrtSynchronizeStream")
    assert fill.args["queued"] <= fill.start < fill.end <= sync.end
    assert all(e.args["module"] == "acl.rt" for e in seen if e.kind == "api")


def test_switches_keep_what_they_are_told(program: Program, fails: Fails) -> None:
    stream = program.stream()
    assert acl.rt.set_stream_overflow_switch(stream, 1) == 0
    assert acl.rt.get_stream_overflow_switch(stream) == (1, 0)
    assert acl.rt.set_stream_attribute(stream, 3, {"userCustomTag": 7}) == 0
    assert acl.rt.get_stream_attribute(stream, 3) == ({"userCustomTag": 7}, 0)
    fails(acl.rt.set_stream_attribute(stream, 3, {"wrong": 7}), 100000, "userCustomTag")
    assert acl.rt.set_device_sat_mode(1) == 0 and acl.rt.get_device_sat_mode() == (1, 0)
    fails(acl.rt.get_sys_param_opt(3), 100000)
    assert acl.rt.set_sys_param_opt(3, 1) == 0 and acl.rt.get_sys_param_opt(3) == (1, 0)
    assert acl.rt.device_peer_access_status(0, 1) == (0, 0)
    assert acl.rt.device_enable_peer_access(1, 0) == 0
    assert acl.rt.device_peer_access_status(0, 1) == (1, 0)
    assert acl.rt.device_disable_peer_access(1) == 0
    assert acl.rt.device_peer_access_status(0, 1) == (0, 0)
    first, second = acl.rt.device_get_uuid(0)[0]["bytes"], acl.rt.device_get_uuid(1)[0]["bytes"]
    assert len(first) == 16 and first != second


def test_the_last_error_of_a_thread(program: Program) -> None:
    assert acl.rt.get_last_error(0) == 0
    acl.rt.free(0)
    assert acl.rt.peek_at_last_error(0) == 100000
    assert in_thread(lambda: acl.rt.peek_at_last_error(0)) == 0
    assert acl.rt.get_last_error(0) == 100000 and acl.rt.get_last_error(0) == 0
    acl.rt.memset_async(program.empty(64), 64, 0, 64, 0)
    assert acl.rt.get_thread_last_task_id() == (1, 0)
