"""acl.mdl: loading, describing and executing models."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acl_models import BATCH, expected, mlp
from acl_program import Program

import acl
from acl import _sim
from ascend_sim.runtime.observe import Event

Fails = Callable[..., str]
IN_BYTES, OUT_BYTES = BATCH * 32 * 4, BATCH * 10 * 4


@pytest.fixture
def om(tmp_path: Path) -> str:
    path = tmp_path / "mlp.om"
    path.write_bytes(mlp())
    return str(path)


class Loaded:
    """The model with its datasets, as a program sets them up."""

    def __init__(self, program: Program, om: str) -> None:
        self.program = program
        self.id, ret = acl.mdl.load_from_file(om)
        assert ret == 0, acl.get_recent_err_msg()
        self.desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(self.desc, self.id) == 0
        self.x = np.random.default_rng(1).standard_normal((BATCH, 32)).astype(np.float32)
        self.source, _ = program.upload(self.x)
        self.target = program.empty(OUT_BYTES)
        self.inputs = self.dataset(self.source, IN_BYTES)
        self.outputs = self.dataset(self.target, OUT_BYTES)

    def dataset(self, *pairs: int) -> int:
        made = acl.mdl.create_dataset()
        for address, size in zip(pairs[::2], pairs[1::2], strict=True):
            assert acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(address, size)) == (made, 0)
        return int(made)

    def result(self) -> np.ndarray[Any, Any]:
        return self.program.download(self.target, OUT_BYTES, np.float32).reshape(BATCH, 10)


@pytest.fixture
def model(program: Program, om: str) -> Loaded:
    return Loaded(program, om)


def test_execute_gives_the_right_numbers(model: Loaded) -> None:
    assert acl.mdl.execute(model.id, model.inputs, model.outputs) == 0, acl.get_recent_err_msg()
    assert np.allclose(model.result(), expected(model.x), atol=4e-3)
    assert acl.mdl.unload(model.id) == 0


def test_an_interrupted_execution_leaves_nothing_behind(model: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while values are computed: the next execution is right, not the one before it once more."""
    from ascend_sim.graph.executor import LoadedModel

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LoadedModel, "run_values", interrupted)
        with pytest.raises(KeyboardInterrupt):
            acl.mdl.execute(model.id, model.inputs, model.outputs)
    assert acl.mdl.execute(model.id, model.inputs, model.outputs) == 0
    assert np.allclose(model.result(), expected(model.x), atol=4e-3)
    assert acl.rt.synchronize_device() == 0


def test_description(model: Loaded, fails: Fails) -> None:
    desc = model.desc
    assert (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) == (1, 1)
    assert (acl.mdl.get_input_size_by_index(desc, 0), acl.mdl.get_output_size_by_index(desc, 0)) == (
        IN_BYTES,
        OUT_BYTES,
    )
    dims, ret = acl.mdl.get_input_dims(desc, 0)
    assert ret == 0 and dims == {"name": "x", "dimCount": 2, "dims": [BATCH, 32]}
    assert acl.mdl.get_input_dims_v2(desc, 0)[0]["dims"] == [BATCH, 32]
    out, ret = acl.mdl.get_output_dims(desc, 0)
    assert ret == 0 and out["dims"] == [BATCH, 10]
    assert acl.mdl.get_cur_output_dims(desc, 0) == (out, 0)
    assert (acl.mdl.get_input_data_type(desc, 0), acl.mdl.get_output_data_type(desc, 0)) == (0, 0)
    assert acl.mdl.get_input_format(desc, 0) in (0, 2)
    assert acl.mdl.get_input_index_by_name(desc, "x") == (0, 0)
    assert acl.mdl.get_input_name_by_index(desc, 0) == "x"
    name = acl.mdl.get_output_name_by_index(desc, 0)
    assert acl.mdl.get_output_index_by_name(desc, name) == (0, 0)
    assert acl.mdl.get_tensor_real_name(desc, "x") == "x" and acl.mdl.get_tensor_real_name(desc, "no") is None
    fails(acl.mdl.get_input_index_by_name(desc, "nope"), 100000, "'nope'", "x")
    fails(acl.mdl.get_input_dims(desc, 1), 100000, "below 1")
    assert acl.mdl.get_input_dims(desc, 1)[0] == {}  # an empty dict, not None
    acl.get_recent_err_msg()
    assert acl.mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
    assert acl.mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 0, "hw": []}, 0)
    assert acl.mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)
    assert acl.mdl.get_input_dynamic_dims(desc, -1, 0) == ([], 0)
    fails(acl.mdl.get_input_dynamic_dims(desc, -1, 5000), 100000, "4096")
    assert acl.mdl.destroy_desc(desc) == 0
    fails(acl.mdl.destroy_desc(desc), 100000, "destroyed")


def test_load_from_memory_and_by_config(program: Program, om: str, fails: Fails) -> None:
    data = mlp()
    model_id, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    assert ret == 0 and acl.mdl.unload(model_id) == 0
    work, weight, ret = acl.mdl.query_size(om)
    assert ret == 0 and weight >= (32 * 64 + 64 * 10) * 2 and work >= 0
    assert acl.mdl.query_size_from_mem(acl.util.bytes_to_ptr(data), len(data)) == (work, weight, 0)
    model_id, ret = acl.mdl.load_from_file_with_mem(
        om, program.empty(max(work, 1)), work, program.empty(weight), weight
    )
    assert ret == 0
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc_from_file(desc, om) == 0 and acl.mdl.get_num_inputs(desc) == 1
    config = acl.mdl.create_config_handle()
    fails(acl.mdl.load_with_config(config), 100000, "how to load the model")
    assert acl.mdl.set_config_opt(config, 1, 1) == 0 and acl.mdl.set_config_opt(config, 2, om) == 0
    model_id, ret = acl.mdl.load_with_config(config)
    assert ret == 0 and acl.mdl.unload(model_id) == 0
    assert acl.mdl.destroy_config_handle(config) == 0


def test_bundles(program: Program, om: str, fails: Fails) -> None:
    bundle, ret = acl.mdl.bundle_load_from_file(om)
    assert ret == 0 and acl.mdl.bundle_get_model_num(bundle) == (1, 0)
    model_id, ret = acl.mdl.bundle_get_model_id(bundle, 0)
    assert ret == 0
    fails(acl.mdl.unload(model_id), 100000, "bundle_unload")
    fails(acl.mdl.bundle_get_model_id(bundle, 1), 100000)
    assert acl.mdl.bundle_unload(bundle) == 0
    fails(acl.mdl.bundle_unload(bundle), 148053)


def test_weights_take_device_memory(program: Program, om: str) -> None:
    before = acl.rt.get_mem_info(1)[0]
    model_id, _ = acl.mdl.load_from_file(om)
    assert acl.rt.get_mem_info(1)[0] < before
    acl.mdl.unload(model_id)
    assert acl.rt.get_mem_info(1)[0] == before


def test_models_that_cannot_be_loaded(program: Program, tmp_path: Path, fails: Fails) -> None:
    fails(acl.mdl.load_from_file(str(tmp_path / "none.om")), 145002, "does not exist")
    text = tmp_path / "text.om"
    text.write_text("this is no model")
    assert 145000 <= acl.mdl.load_from_file(str(text))[1] < 546000
    assert "text.om" in acl.get_recent_err_msg()
    short = tmp_path / "short.om"
    short.write_bytes(mlp()[: len(mlp()) // 2])
    assert 145000 <= acl.mdl.load_from_file(str(short))[1] < 546000
    assert "short.om" in acl.get_recent_err_msg()
    other = tmp_path / "other.om"
    other.write_bytes(mlp("Ascend310P3"))
    fails(acl.mdl.load_from_file(str(other)), 145000, "Ascend310P3", "Ascend910B2")
    fails(acl.mdl.load_from_mem(0, 10), 100000)
    fails(acl.mdl.load_from_mem(0x1000, 10), 100000, "not readable")


def test_models_need_init(om: str, fails: Fails) -> None:
    acl.rt.set_device(0)
    fails(acl.mdl.load_from_file(om), 145001, "acl.init")
    fails(acl.mdl.execute(1, 0, 0), 145001)


def test_models_need_a_context(om: str, fails: Fails) -> None:
    acl.init()
    fails(acl.mdl.load_from_file(om), 107002)


def test_unknown_models(model: Loaded, fails: Fails) -> None:
    fails(acl.mdl.execute(999, model.inputs, model.outputs), 145003, "999", "mlp.om")
    fails(acl.mdl.get_desc(model.desc, 999), 145003)
    assert acl.mdl.unload(model.id) == 0
    fails(acl.mdl.unload(model.id), 145003, "was unloaded")


def test_another_context(model: Loaded, fails: Fails) -> None:
    other, _ = acl.rt.create_context(0)
    message = fails(acl.mdl.execute(model.id, model.inputs, model.outputs), 107004, hex(other))
    assert "was loaded in context" in message


def test_buffer_sizes(model: Loaded, fails: Fails) -> None:
    buffer = acl.mdl.get_dataset_buffer(model.inputs, 0)
    acl.update_data_buffer(buffer, model.source, IN_BYTES // 2)
    message = fails(acl.mdl.execute(model.id, model.inputs, model.outputs), 145000, str(IN_BYTES // 2), str(IN_BYTES))
    assert "E13025" in message and "2x32 float32" in message and "'x'" in message
    acl.update_data_buffer(buffer, model.source, IN_BYTES - 64)  # this little is allowed
    assert acl.mdl.execute(model.id, model.inputs, model.outputs) == 0
    acl.update_data_buffer(buffer, model.source, IN_BYTES - 65)
    fails(acl.mdl.execute(model.id, model.inputs, model.outputs), 145000)
    acl.update_data_buffer(buffer, model.source, IN_BYTES + 100_000)  # larger is only a waste
    assert acl.mdl.execute(model.id, model.inputs, model.outputs) == 0
    short = acl.mdl.get_dataset_buffer(model.outputs, 0)
    acl.update_data_buffer(short, model.target, 10)
    fails(acl.mdl.execute(model.id, model.inputs, model.outputs), 145000, "output 0")


def test_buffer_counts(model: Loaded, fails: Fails) -> None:
    acl.mdl.add_dataset_buffer(model.inputs, acl.create_data_buffer(model.source, IN_BYTES))
    fails(acl.mdl.execute(model.id, model.inputs, model.outputs), 145000, "holds 2 buffers", "earlier run", "x 4x32")
    empty = acl.mdl.create_dataset()
    fails(acl.mdl.execute(model.id, empty, model.outputs), 145000, "holds 0 buffers")
    fails(acl.mdl.execute(model.id, 0, model.outputs), 100000, "acl.mdl.create_dataset")


def test_host_memory_as_input(model: Loaded, fails: Fails) -> None:
    data = bytes(IN_BYTES)
    wrong = model.dataset(acl.util.bytes_to_ptr(data), IN_BYTES)
    fails(acl.mdl.execute(model.id, wrong, model.outputs), 107000, "host memory", "acl.rt.malloc")


def test_the_executor_allocates_an_output_left_empty(model: Loaded) -> None:
    outputs = model.dataset(0, 0)
    assert acl.mdl.execute(model.id, model.inputs, outputs) == 0
    buffer = acl.mdl.get_dataset_buffer(outputs, 0)
    address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)
    assert size == OUT_BYTES == acl.get_data_buffer_size(buffer)
    got = model.program.download(address, size, np.float32).reshape(BATCH, 10)
    assert np.allclose(got, expected(model.x), atol=4e-3)
    assert acl.rt.free(address) == 0


def test_async_execution_needs_a_synchronize(model: Loaded) -> None:
    stream = model.program.stream()
    blocker, n = model.program.empty(64 << 20), 64 << 20
    source, _ = acl.rt.malloc_host(n)
    acl.rt.memcpy_async(blocker, n, source, n, 1, stream)
    assert acl.mdl.execute_async(model.id, model.inputs, model.outputs, stream) == 0
    assert np.isnan(model.result()).all()  # the memory as malloc left it
    assert acl.rt.synchronize_stream(stream) == 0
    assert np.allclose(model.result(), expected(model.x), atol=4e-3)


def test_async_executions_overlap_in_time(model: Loaded) -> None:
    stream = model.program.stream()
    acl.mdl.execute(model.id, model.inputs, model.outputs)
    before = _sim.host().now
    acl.mdl.execute(model.id, model.inputs, model.outputs)
    alone = _sim.host().now - before
    before = _sim.host().now
    for _ in range(10):
        acl.mdl.execute_async(model.id, model.inputs, model.outputs, stream)
    enqueued = _sim.host().now - before
    acl.rt.synchronize_stream(stream)
    assert enqueued < 10 * alone and _sim.host().now - before < 10 * alone + alone


def test_execute_v2(model: Loaded, fails: Fails) -> None:
    config = acl.mdl.create_exec_config_handle()
    assert acl.mdl.set_exec_config_opt(config, 0, 1) == 0
    assert acl.mdl.execute_v2(model.id, model.inputs, model.outputs, 0, config) == 0
    assert np.allclose(model.result(), expected(model.x), atol=4e-3)
    fails(acl.mdl.execute_v2(model.id, model.inputs, model.outputs, 0, 0), 100000)
    assert acl.mdl.destroy_exec_config_handle(config) == 0


def test_a_buffer_freed_under_way_is_a_model_failure(model: Loaded, fails: Fails) -> None:
    stream = model.program.stream()
    acl.mdl.execute_async(model.id, model.inputs, model.outputs, stream)
    acl.rt.free(model.target)
    fails(acl.rt.synchronize_stream(stream), 507011, "freed before the model ran")


def test_events_of_a_model(model: Loaded) -> None:
    seen: list[Event] = []
    _sim.observe(seen.append)
    try:
        acl.mdl.execute(model.id, model.inputs, model.outputs)
    finally:
        _sim.unobserve(seen.append)
    kernels = [e for e in seen if e.kind == "kernel"]
    (run,) = [e for e in seen if e.kind == "model"]
    assert kernels and all(run.start <= k.start <= k.end <= run.end for k in kernels)
    assert [k.start for k in kernels] == sorted(k.start for k in kernels)
    assert {k.args["model_id"] for k in kernels} == {model.id}
    assert {"MatMulV2"} <= {k.args["op_type"] for k in kernels}
    (call,) = [e for e in seen if e.name == "aclmdlExecute"]
    assert call.start < run.start and run.end <= call.end


def test_static_models_have_no_gears(model: Loaded, fails: Fails) -> None:
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, 0, 0), 100000)
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, 0, 2), 145013, "fixed shape")
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, 5, 2), 100000, "index")
    fails(acl.mdl.set_dynamic_hw_size(model.id, model.inputs, 0, 2, 2), 145013)
    gear = {"name": "", "dimCount": 1, "dims": [2]}
    fails(acl.mdl.set_input_dynamic_dims(model.id, model.inputs, 0, gear), 145013)


def test_datasets(device: int, fails: Fails) -> None:
    dataset = acl.mdl.create_dataset()
    buffer = acl.create_data_buffer(64, 128)
    assert acl.mdl.add_dataset_buffer(dataset, buffer) == (dataset, 0)
    fails(acl.mdl.add_dataset_buffer(0, buffer), 100000)
    fails(acl.mdl.add_dataset_buffer(dataset, 0), 100000, "acl.create_data_buffer")
    assert acl.mdl.get_dataset_num_buffers(dataset) == 1
    assert acl.mdl.get_dataset_buffer(dataset, 0) == buffer
    assert acl.mdl.get_dataset_buffer(dataset, 1) == 0
    acl.get_recent_err_msg()
    desc = acl.create_tensor_desc(0, [2, 3], 2)
    assert acl.mdl.set_dataset_tensor_desc(dataset, desc, 0) == (dataset, 0)
    got = acl.mdl.get_dataset_tensor_desc(dataset, 0)
    assert acl.get_tensor_desc_dim_v2(got, 1) == (3, 0)
    assert (acl.get_tensor_desc_size(got), acl.get_tensor_desc_num_dims(got)) == (24, 2)
    assert acl.mdl.destroy_dataset(dataset) == 0
    assert acl.get_data_buffer_addr(buffer) == 64  # the dataset does not own it
    assert acl.destroy_data_buffer(buffer) == 0
    fails(acl.destroy_data_buffer(buffer), 100000, "destroyed earlier")
    fails(acl.destroy_data_buffer(0), 100000)
    fails(acl.mdl.destroy_dataset(dataset), 100000)


def test_values_none_gives_time_only(monkeypatch: pytest.MonkeyPatch, model: Loaded) -> None:
    acl.mdl.execute(model.id, model.inputs, model.outputs)
    before = _sim.host().now
    acl.mdl.execute(model.id, model.inputs, model.outputs)
    with_values = _sim.host().now - before
    acl.rt.memset(model.target, OUT_BYTES, 0xFF, OUT_BYTES)
    acl.mdl.execute(model.id, model.inputs, model.outputs)
    _sim.set_values_mode("none")
    acl.rt.memset(model.target, OUT_BYTES, 0xFF, OUT_BYTES)
    before = _sim.host().now
    acl.mdl.execute(model.id, model.inputs, model.outputs)
    assert _sim.host().now - before == with_values
    assert np.isnan(model.result()).all()


def test_same_times_every_time(om: str) -> None:
    def run() -> list[int]:
        _sim.reset()
        from ascend_sim.runtime import system as machine

        machine.configure(soc="Ascend910B2", devices=1)
        acl.init()
        acl.rt.set_device(0)
        model = Loaded(Program(), om)
        times = []
        for _ in range(3):
            acl.mdl.execute(model.id, model.inputs, model.outputs)
            times.append(_sim.host().now)
        return times

    assert run() == run()


def test_a_model_in_a_second_thread(model: Loaded) -> None:
    context = acl.rt.get_context()[0]
    results: list[Any] = []

    def worker() -> None:
        results.append(acl.mdl.execute(model.id, model.inputs, model.outputs))
        acl.rt.set_context(context)
        results.append(acl.mdl.execute(model.id, model.inputs, model.outputs))

    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
    assert results == [107002, 0]
