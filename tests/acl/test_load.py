"""Load: many buffers, streams, models, devices and threads; serving for a long time."""

from __future__ import annotations

import gc
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import acl_models
import numpy as np
import pytest
from onnx import TensorProto, helper

import acl
from acl import _sim
from ascend_sim.graph.compile import compile_model
from ascend_sim.runtime import system as machine

DEVICES, THREADS, STREAMS, BUFFERS, MODELS = 8, 32, 1000, 10_000, 64
H2D, D2H = 1, 2


def ok(ret: int) -> None:
    assert ret == 0, (ret, acl.get_recent_err_msg())


def value(result: tuple[Any, int]) -> Any:
    ok(result[-1])
    return result[0]


def pointer(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@pytest.fixture
def machine_of_8() -> None:
    _sim.reset()
    machine.configure(soc="Ascend910B2", devices=DEVICES)
    ok(acl.init())


@pytest.fixture
def events() -> Iterator[list[Any]]:
    """Every event from now on."""
    seen: list[Any] = []
    observer = _sim.observe(seen.append)
    yield seen
    _sim.unobserve(observer)


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Results of ``work(index)`` in threads of their own; the first exception of any is raised."""
    results: list[Any] = [None] * count
    problems: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = work(index)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return results


def resident_bytes() -> int:
    """Memory of this process that is really there."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def doubling() -> bytes:
    """A compiled model of one operator: y = x + x, int32 [8, 64]."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])], "doubling",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [8, 64])],
    )  # fmt: skip
    model: Any = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return compile_model(model.SerializeToString(), "Ascend910B2")


class Served:
    """A loaded model with buffers and datasets of its own in the current context."""

    def __init__(self, blob: bytes, dtype: type = np.float32) -> None:
        self.blob = blob
        self.id = value(acl.mdl.load_from_mem(acl.util.bytes_to_ptr(blob), len(blob)))
        desc = acl.mdl.create_desc()
        ok(acl.mdl.get_desc(desc, self.id))
        self.x = np.zeros(value(acl.mdl.get_input_dims(desc, 0))["dims"], dtype)
        self.y = np.zeros(value(acl.mdl.get_output_dims(desc, 0))["dims"], dtype)
        ok(acl.mdl.destroy_desc(desc))
        self.datasets, self.addresses = [], []
        for array in (self.x, self.y):
            address = value(acl.rt.malloc(array.nbytes, 0))
            dataset = acl.mdl.create_dataset()
            ok(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, array.nbytes))[1])
            self.datasets.append(dataset)
            self.addresses.append(address)

    def send(self, x: np.ndarray) -> None:
        self.x[:] = x
        ok(acl.rt.memcpy(self.addresses[0], self.x.nbytes, pointer(self.x), self.x.nbytes, H2D))

    def fetch(self) -> np.ndarray:
        ok(acl.rt.memcpy(pointer(self.y), self.y.nbytes, self.addresses[1], self.y.nbytes, D2H))
        return self.y.copy()

    def execute(self) -> None:
        ok(acl.mdl.execute(self.id, *self.datasets))

    def close(self) -> None:
        ok(acl.mdl.unload(self.id))
        for dataset, address in zip(self.datasets, self.addresses, strict=True):
            ok(acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, 0)))
            ok(acl.mdl.destroy_dataset(dataset))
            ok(acl.rt.free(address))


@pytest.mark.slow
def test_ten_thousand_buffers_on_a_thousand_streams(machine_of_8: None) -> None:
    """Every buffer gets its own bytes through its stream, and keeps them."""
    contexts, streams = [], []
    for device in range(DEVICES):
        contexts.append(value(acl.rt.create_context(device)))
        streams.append([value(acl.rt.create_stream()) for _ in range(STREAMS // DEVICES)])
    size = 4096
    pinned = value(acl.rt.malloc_host(size * BUFFERS))
    source = _sim.view(pinned, size * BUFFERS).reshape(BUFFERS, size)
    source[:] = np.random.default_rng(0).integers(0, 256, (BUFFERS, size), np.uint8)
    buffers = []
    for index in range(BUFFERS):
        device = index % DEVICES
        ok(acl.rt.set_context(contexts[device]))
        buffers.append(value(acl.rt.malloc(size, 0)))
        stream = streams[device][index // DEVICES % len(streams[device])]
        ok(acl.rt.memcpy_async(buffers[-1], size, pinned + index * size, size, H2D, stream))
    out = np.zeros(size, np.uint8)
    for device in range(DEVICES):
        ok(acl.rt.set_context(contexts[device]))
        ok(acl.rt.synchronize_device())
        assert _sim.arena(device).used >= size * BUFFERS // DEVICES
        for index in range(device, BUFFERS, DEVICES):
            ok(acl.rt.memcpy(pointer(out), size, buffers[index], size, D2H))
            assert np.array_equal(out, source[index]), index
            ok(acl.rt.free(buffers[index]))
        assert _sim.arena(device).used == 0
        for stream in streams[device]:
            ok(acl.rt.destroy_stream(stream))
        ok(acl.rt.destroy_context(contexts[device]))
    ok(acl.rt.free_host(pinned))


@pytest.mark.slow
def test_32_threads_copy_and_execute_on_8_devices(machine_of_8: None, events: list[Any]) -> None:
    """64 models, two a thread: right values, order of every stream kept."""
    blob = acl_models.mlp()
    rounds = 40

    def work(index: int) -> int:
        context = value(acl.rt.create_context(index % DEVICES))
        models = [Served(blob) for _ in range(MODELS // THREADS)]
        stream = value(acl.rt.create_stream())
        rng = np.random.default_rng(index)
        counter, seen = value(acl.rt.malloc_host(4 * rounds)), 0
        numbers = _sim.view(counter, 4 * rounds).view(np.int32)
        numbers[:] = np.arange(rounds)
        place = value(acl.rt.malloc(4, 0))
        for number in range(rounds):
            for model in models:
                x = rng.standard_normal(model.x.shape).astype(np.float32)
                model.send(x)
                if number % 2:
                    model.execute()
                else:
                    ok(acl.mdl.execute_async(model.id, *model.datasets, stream))
                    ok(acl.rt.synchronize_stream(stream))
                assert np.abs(model.fetch() - acl_models.expected(x)).max() < 0.02
                seen += 1
            ok(acl.rt.memcpy_async(place, 4, counter + 4 * number, 4, H2D, stream))
        ok(acl.rt.synchronize_stream(stream))
        last = np.zeros(1, np.int32)
        ok(acl.rt.memcpy(pointer(last), 4, place, 4, D2H))
        assert last[0] == rounds - 1
        for model in models:
            model.close()
        ok(acl.rt.free(place))
        ok(acl.rt.free_host(counter))
        ok(acl.rt.destroy_stream(stream))
        ok(acl.rt.destroy_context(context))
        return seen

    assert sum(in_threads(THREADS, work)) == MODELS * rounds
    assert all(_sim.arena(device).used == 0 for device in range(DEVICES))
    tasks: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for event in events:
        if event.stream >= 0 and event.kind in ("model", "memcpy"):
            tasks[event.device, event.stream].append(event)
    assert sum(e.kind == "model" for queue in tasks.values() for e in queue) == MODELS * rounds
    for queue in tasks.values():
        numbers = [e.task for e in queue]
        assert numbers == sorted(numbers)
        assert all(a.end <= b.start for a, b in pairwise(queue))


@pytest.mark.slow
def test_times_of_threads_on_devices_of_their_own_repeat(events: list[Any]) -> None:
    """Eight threads, one device each: the same simulated times in every run, whatever order the machine chose."""
    blob = acl_models.mlp()

    def run() -> tuple[list[int], list[list[tuple[Any, ...]]]]:
        _sim.reset()
        machine.configure(soc="Ascend910B2", devices=DEVICES)
        events.clear()
        ok(acl.init())

        def work(device: int) -> int:
            context = value(acl.rt.create_context(device))
            model, stream = Served(blob), value(acl.rt.create_stream())
            other = value(acl.rt.create_stream())
            mark = value(acl.rt.create_event())
            for number in range(30):
                model.send(np.full(model.x.shape, number, np.float32))
                ok(acl.mdl.execute_async(model.id, *model.datasets, stream))
                ok(acl.rt.record_event(mark, stream))
                ok(acl.rt.stream_wait_event(other, mark))
                ok(acl.rt.memset_async(model.addresses[0], 64, 0, 64, other))
                ok(acl.rt.synchronize_stream(other))
                model.execute()
            now = int(_sim.host().now)
            model.close()
            ok(acl.rt.destroy_event(mark))
            ok(acl.rt.destroy_context(context))
            return now

        times = in_threads(DEVICES, work)
        spans = [
            sorted((e.kind, e.name, e.stream, e.task, e.start, e.end) for e in events
                   if e.device == device and e.stream >= 0)
            for device in range(DEVICES)
        ]  # fmt: skip
        return times, spans

    first, again = run(), run()
    assert first == again
    assert len(set(first[0])) == 1  # the devices are alike


def serve(requests: int, mark: int) -> list[int]:
    """Simulated serving with 4 streams, a callback thread and events; memory of the process at the mark and at the
    end."""
    ok(acl.rt.set_device(0))
    context = value(acl.rt.get_context())
    blob = doubling()
    running, answered = [True], []

    def listen(_args: Any) -> None:
        ok(acl.rt.set_context(context))
        while running[0]:
            acl.rt.process_report(20)

    listener = value(acl.util.start_thread(listen, []))
    streams = [value(acl.rt.create_stream()) for _ in range(4)]
    models = [Served(blob, np.int32) for _ in streams]
    marks = [value(acl.rt.create_event()) for _ in streams]
    pinned = [value(acl.rt.malloc_host(m.y.nbytes)) for m in models]
    rng = np.random.default_rng(0)
    for model in models:
        model.send(rng.standard_normal(model.x.shape).astype(np.float32))
    for stream in streams:
        ok(acl.rt.subscribe_report(listener, stream))
    memory = []
    for number in range(requests):
        lane = number % 4
        model, stream = models[lane], streams[lane]
        if number >= 4:
            ok(acl.rt.synchronize_event(marks[lane]))
        ok(acl.mdl.execute_async(model.id, *model.datasets, stream))
        ok(acl.rt.memcpy_async(pinned[lane], model.y.nbytes, model.addresses[1], model.y.nbytes, D2H, stream))
        ok(acl.rt.launch_callback(answered.append, number, number % 2, stream))
        ok(acl.rt.record_event(marks[lane], stream))
        if len(answered) > 1000:
            del answered[:-100]
        if number == mark:
            gc.collect()
            memory.append(resident_bytes())
    for stream in streams:
        ok(acl.rt.synchronize_stream(stream))
    gc.collect()
    memory.append(resident_bytes())
    deadline = time.monotonic() + 20
    while (not answered or max(answered) < requests - 1) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert max(answered) == requests - 1
    for lane, model in enumerate(models):
        made = _sim.view(pinned[lane], model.y.nbytes).view(np.int32).reshape(model.y.shape)
        assert np.array_equal(made, 2 * model.x)
    for stream in streams:
        ok(acl.rt.unsubscribe_report(listener, stream))
    running[0] = False
    acl.util.stop_thread(listener)
    return memory


@pytest.mark.slow
def test_200_000_requests_with_flat_memory(machine_of_8: None) -> None:
    start, end = serve(200_000, 20_000)
    assert end - start < 8 << 20, (start, end)


def test_serving_for_a_while(machine_of_8: None) -> None:
    start, end = serve(1200, 800)
    assert end - start < 32 << 20, (start, end)
