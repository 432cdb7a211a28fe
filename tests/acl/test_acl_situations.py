"""Mistakes that users reported in public, each with the code it gives and a message that names the cause.

The numbers are those of the list in the public record: forum threads of hiascend.com and GitHub issues, named where
the case comes from one. Cases of dynamic shapes and media processing belong to tests of those.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acl_models import BATCH, mlp
from acl_program import Program

import acl
from ascend_sim.runtime import system as machine

Fails = Callable[..., str]
IN_BYTES, OUT_BYTES = BATCH * 32 * 4, BATCH * 10 * 4


def in_thread(function: Callable[[], Any]) -> tuple[Any, str | None]:
    """Result and message of a call in a thread of its own."""
    results: list[Any] = []

    def run() -> None:
        results.append(function())
        results.append(acl.get_recent_err_msg())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0], results[1]


class Model:
    def __init__(self, program: Program, tmp_path: Path) -> None:
        path = tmp_path / "mlp.om"
        path.write_bytes(mlp())
        self.id, ret = acl.mdl.load_from_file(str(path))
        assert ret == 0
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        self.source, self.target = program.empty(IN_BYTES), program.empty(OUT_BYTES)
        self.in_buffer = acl.create_data_buffer(self.source, IN_BYTES)
        acl.mdl.add_dataset_buffer(self.inputs, self.in_buffer)
        acl.mdl.add_dataset_buffer(self.outputs, acl.create_data_buffer(self.target, OUT_BYTES))

    def execute(self) -> int:
        return int(acl.mdl.execute(self.id, self.inputs, self.outputs))


@pytest.fixture
def model(program: Program, tmp_path: Path) -> Model:
    return Model(program, tmp_path)


def test_01_memcpy_in_a_worker_thread(program: Program) -> None:
    """hiascend forum thread-02111203655587849207."""
    pointer, data = program.empty(64), bytes(64)
    context = acl.rt.get_context()[0]
    ret, message = in_thread(lambda: acl.rt.memcpy(pointer, 64, acl.util.bytes_to_ptr(data), 64, 1))
    assert ret == 107002
    assert message is not None and "no current context" in message and hex(context) in message
    assert "acl.rt.set_context" in message


def test_02_inference_in_a_thread(model: Model) -> None:
    """hiascend forum thread-0236176974654398055."""
    ret, message = in_thread(model.execute)
    assert ret == 107002
    assert message is not None and "made by thread 0" in message


def test_03_execute_in_another_context(model: Model, fails: Fails) -> None:
    """hiascend forum thread-0273133513507863064."""
    loaded_in = acl.rt.get_context()[0]
    current, _ = acl.rt.create_context(0)
    fails(model.execute(), 107004, f"model {model.id} was loaded in context {loaded_in:#x}", f"{current:#x}")


def test_04_half_the_input_then_a_buffer_left_over(model: Model, fails: Fails) -> None:
    """hiascend forum thread-0244147501197173005."""
    acl.update_data_buffer(model.in_buffer, model.source, IN_BYTES // 2)
    fails(
        model.execute(), 145000, "256 B given", "512 B = 4x32 float32", "256 B would be 2x32 float32: the batch differs"
    )
    acl.mdl.add_dataset_buffer(model.inputs, acl.create_data_buffer(model.source, IN_BYTES))
    fails(model.execute(), 145000, "holds 2 buffers", "earlier run")


def test_05_the_cause_is_in_the_message(model: Model) -> None:
    """hiascend forum thread-02108173814998442274: only INFO logs to go by."""
    acl.mdl.destroy_dataset(model.outputs)
    assert model.execute() == 100000
    message = acl.get_recent_err_msg()
    assert "Dataset that acl.mdl.destroy_dataset destroyed earlier" in message


def test_06_a_file_that_is_no_model(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "broken.om"
    path.write_bytes(mlp()[:100])
    _, ret = acl.mdl.load_from_file(str(path))
    message = acl.get_recent_err_msg()
    assert ret != 0 and "broken.om" in message and len(message) > 80


def test_07_an_output_that_is_too_small(model: Model, fails: Fails) -> None:
    acl.update_data_buffer(acl.mdl.get_dataset_buffer(model.outputs, 0), model.target, 16)
    fails(model.execute(), 145000, "output 0", "16 B given", f"{OUT_BYTES} B", "get_output_size_by_index")


def test_08_the_number_of_inputs(model: Model, fails: Fails) -> None:
    empty = acl.mdl.create_dataset()
    fails(acl.mdl.execute(model.id, empty, model.outputs), 145000, "1 inputs: x 4x32 float32 512 B")


def test_10_an_operator_whose_shapes_do_not_fit(program: Program, fails: Fails) -> None:
    descs = [acl.create_tensor_desc(1, shape, 2) for shape in ([4, 8], [9, 4])]
    buffers = [acl.create_data_buffer(program.empty(128), 128)] * 2
    out = [acl.create_tensor_desc(1, [4, 4], 2)]
    ret = acl.op.execute_v2("MatMulV2", descs, buffers, out, buffers[:1], 0, 0)
    fails(ret, 100021, "float16[9,4]", "float16[4,8]", "expected equal K")


def test_11_two_frameworks_initialize(fails: Fails) -> None:
    """opendatalab/MinerU issue 2547."""
    assert acl.init() == 0
    fails(acl.init(), 100002, "harmless", "another framework")
    assert acl.rt.set_device(0) == 0 and acl.rt.malloc(64, 0)[1] == 0


def test_12_after_a_second_init_no_misleading_context_message(fails: Fails) -> None:
    """BytePioneer-AI/PaddleOCR-NPU issue 9."""
    acl.init()
    acl.rt.set_device(0)
    acl.init()
    message = acl.get_recent_err_msg()
    assert "context" not in message
    assert acl.rt.get_context()[1] == 0


def test_13_going_on_after_set_device_failed(fails: Fails) -> None:
    """Ascend/samples issue 16."""
    fails(acl.rt.set_device(7), 107001, "device_id is 7", "0..1")
    fails(acl.rt.reset_device(0), 507007, "device 0 is not set", "acl.rt.set_device failed")


def test_14_15_memory_is_full(program: Program, fails: Fails) -> None:
    """vllm-project/vllm-ascend issue 2546: the allocator repeats the failing call without size."""
    free, total, _ = acl.rt.get_mem_info(1)
    kept, _ = acl.rt.malloc(free - (1 << 30), 0)
    message = fails(acl.rt.malloc(2 << 30, 0), 207001, str(2 << 30), f"of {total} B", hex(kept))
    assert "EL0004" in message


def test_16_which_field_is_bad(program: Program, fails: Fails) -> None:
    """vllm-project/vllm-ascend issue 2171: only 100000."""
    good = {"handleType": 0, "allocationType": 0, "memAttr": 1, "location": {"id": 0, "type": 1}, "reserve": 0}
    assert acl.rt.mem_get_allocation_granularity(good, 0) == (2 << 20, 0)
    for field, value in (("handleType", 7), ("allocationType", 1), ("memAttr", 77), ("location", 3)):
        fails(acl.rt.mem_get_allocation_granularity({**good, field: value}, 0), 100000, f"prop {field}", "expected")
    fails(acl.rt.mem_get_allocation_granularity(good, 5), 100000, "option is 5", "0 (minimum) or 1")


def test_17_an_operator_fails_far_from_its_call(program: Program, fails: Fails) -> None:
    """vllm-project/vllm-ascend issue 5661."""
    desc = acl.create_tensor_desc(0, [1024], 2)
    pointer = program.empty(4096)
    buffers = [acl.create_data_buffer(pointer, 4096)]
    assert acl.op.execute_v2("Relu", [desc], buffers, [desc], buffers, 0, 0) == 0
    acl.rt.free(pointer)
    fails(acl.rt.synchronize_stream(0), 507015, "Relu", "freed before the operator ran", "task 1", "situations.py:")


def test_18_an_address_out_of_range(program: Program, fails: Fails) -> None:
    """vllm-project/vllm-ascend issue 16581."""
    desc = acl.create_tensor_desc(0, [1024], 2)
    small = acl.create_data_buffer(program.empty(512), 4096)  # the buffer claims more than was allocated
    good = acl.create_data_buffer(program.empty(4096), 4096)
    ret = acl.op.execute_v2("Relu", [desc], [small], [desc], [good], 0, 0)
    fails(ret, 107000, "input 0 of Relu", "passes the end of its block")


@pytest.mark.parametrize("number", ["19", "21"])
def test_19_21_a_model_for_another_chip(program: Program, tmp_path: Path, fails: Fails, number: str) -> None:
    """Project-HAMi/HAMi issue 1846; PaddlePaddle/PaddleX issues 4543 and 5027."""
    path = tmp_path / "other.om"
    path.write_bytes(mlp("Ascend310P3"))
    fails(acl.mdl.load_from_file(str(path)), 145000, "Ascend310P3", "Ascend910B2", "--soc_version=Ascend910B2")


def test_20_a_data_type_that_does_not_exist(program: Program, fails: Fails) -> None:
    """microsoft/onnxruntime issue 18807."""
    desc = acl.create_tensor_desc(99, [4], 2)
    buffers = [acl.create_data_buffer(program.empty(64), 64)]
    fails(acl.op.execute_v2("Relu", [desc], buffers, [desc], buffers, 0, 0), 100026, "99", "one of [0, 1, 2")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_22_a_forked_child(program: Program) -> None:
    """vllm-project/vllm-ascend issue 4502."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  # another process
        answer = acl.rt.malloc(64, 0)
        message = acl.get_recent_err_msg() or ""
        os.write(writer, f"{answer} {acl.init()} {message}".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    text = os.read(reader, 4096).decode()
    os.close(reader)
    assert text.startswith("(0, 507000) 507000") and "spawn" in text and "forked" in text
    assert acl.rt.malloc(64, 0)[1] == 0  # the parent is not affected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_22_fork_alone_is_fine() -> None:
    """A fork before the device is used (a DataLoader) leaves both processes able to use it."""
    machine.discard()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0 if acl.rt.set_device(0) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width_stride": 34}, ("stride", "16")),
        ({"size": 100}, ("size", "100")),
        ({"width": 5}, ("5x32", "expected 10x6")),
    ],
)
def test_23_a_picture_that_vpc_refuses(program: Program, change: dict[str, int], words: tuple[str, ...]) -> None:
    """hiascend troubleshooting_0164 and _0166; blog.csdn.net/hiascend/article/details/131300755."""
    channel = acl.media.dvpp_create_channel_desc()
    assert acl.media.dvpp_create_channel(channel) == 0
    stream = program.stream()

    def picture(**values: int) -> int:
        facts = {"format": 1, "width": 32, "height": 32, "width_stride": 32, "height_stride": 32, "size": 1536}
        facts.update(values)
        desc = acl.media.dvpp_create_pic_desc()
        acl.media.dvpp_set_pic_desc_data(desc, acl.media.dvpp_malloc(4096)[0])
        for name, value in facts.items():
            assert getattr(acl.media, f"dvpp_set_pic_desc_{name}")(desc, value) == 0
        return int(desc)

    resize = acl.media.dvpp_create_resize_config()
    ret = acl.media.dvpp_vpc_resize_async(channel, picture(), picture(**change), resize, stream)
    if ret == 0:
        ret = acl.rt.synchronize_stream(stream)
    message = acl.get_recent_err_msg()
    assert ret != 0 and message is not None
    assert all(word in message for word in words), message


def test_24_a_device_beyond_the_count(fails: Fails) -> None:
    """FAQ of aclrtSetDevice."""
    fails(acl.rt.set_device(8), 107001, "device_id is 8", "0..1", "acl.rt.get_device_count")


def test_25_a_stream_of_another_device(program: Program, fails: Fails) -> None:
    """FAQ of aclrtMemcpyAsync."""
    stream = program.stream()
    pinned, _ = acl.rt.malloc_host(64)
    acl.rt.set_device(1)
    pointer = program.empty(64)
    fails(acl.rt.memcpy_async(pointer, 64, pinned, 64, 1, stream), 107003, "on device 0", "on device 1")


def test_nothing_above_disturbed_a_buffer(program: Program) -> None:
    values = np.arange(4096, dtype=np.int32)
    pointer, n = program.upload(values)
    for address in (pointer + n - 4, pointer - 64, 0, 8, pointer + 100_000):
        acl.rt.memset(address, 1 << 40, 0x55, 1 << 20)
        acl.rt.memcpy(address, 1 << 40, pointer, 1 << 20, 3)
    assert np.array_equal(program.download(pointer, n, np.int32), values)
