"""Models of open shapes and with image preprocessing, through pyACL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acl_program import Program
from onnx import TensorProto, helper, numpy_helper

import acl
from ascend_sim.graph.aipp_config import AippConfig
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.options import CompileOptions

Fails = Callable[..., str]
CHOICE = "ascend_mbatch_shape_data"
PARAMETERS = "ascend_dynamic_aipp_data"


def relu_pool(options: CompileOptions) -> bytes:
    """x [n, 3, h, w] -> y = mean over h and w of relu(x) * 2, [n, 3, 1, 1]."""
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["r"], name="act"),
            helper.make_node("Mul", ["r", "two"], ["m"], name="scale"),
            helper.make_node("GlobalAveragePool", ["m"], ["y"], name="pool"),
        ],
        "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 1, 1])],
        [numpy_helper.from_array(np.float32(2).reshape(()), "two")],
    )
    model: Any = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return compile_model(model.SerializeToString(), "Ascend910B2", options)


def relu(options: CompileOptions) -> bytes:
    """x -> relu(x), of any shape."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="act")],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
    )
    model: Any = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return compile_model(model.SerializeToString(), "Ascend910B2", options)


class Loaded:
    def __init__(self, program: Program, data: bytes) -> None:
        self.program = program
        self.id, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
        assert ret == 0, acl.get_recent_err_msg()
        self.desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(self.desc, self.id) == 0
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        self.pointers: list[int] = []
        for index in range(acl.mdl.get_num_inputs(self.desc)):
            size = acl.mdl.get_input_size_by_index(self.desc, index) or 1 << 16
            self.pointers.append(program.empty(size))
            acl.mdl.add_dataset_buffer(self.inputs, acl.create_data_buffer(self.pointers[-1], size))
        for index in range(acl.mdl.get_num_outputs(self.desc)):
            size = acl.mdl.get_output_size_by_index(self.desc, index) or 1 << 16
            self.target = program.empty(size)
            acl.mdl.add_dataset_buffer(self.outputs, acl.create_data_buffer(self.target, size))

    def index(self, name: str) -> int:
        found, ret = acl.mdl.get_input_index_by_name(self.desc, name)
        assert ret == 0
        return int(found)

    def give(self, index: int, array: np.ndarray[Any, Any]) -> None:
        data = np.ascontiguousarray(array)
        assert acl.rt.memcpy(self.pointers[index], data.nbytes, data.ctypes.data, data.nbytes, 1) == 0

    def execute(self) -> int:
        return int(acl.mdl.execute(self.id, self.inputs, self.outputs))

    def out(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        n = int(np.prod(shape)) * 4
        return self.program.download(self.target, n, np.float32).reshape(shape)


def pooled(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = (np.maximum(x, 0) * 2).mean(axis=(2, 3), keepdims=True)
    return result


# -- gears -------------------------------------------------------------------------------------------------


def test_gears_of_a_batch(program: Program, fails: Fails) -> None:
    options = CompileOptions(input_shapes={"x": (-1, 3, 8, 8)}, dynamic_batch=(1, 2, 4))
    model = Loaded(program, relu_pool(options))
    assert acl.mdl.get_dynamic_batch(model.desc) == ({"batchCount": 3, "batch": [1, 2, 4]}, 0)
    assert acl.mdl.get_input_dims(model.desc, 0)[0]["dims"] == [-1, 3, 8, 8]
    assert acl.mdl.get_cur_output_dims(model.desc, 0)[0]["dims"] == [4, 3, 1, 1]  # nothing chosen: the largest
    assert acl.mdl.get_output_dims(model.desc, 0)[0]["dims"] == [4, 3, 1, 1]  # as documented
    choice = model.index(CHOICE)
    fails(model.execute(), 145000, "gears 1; 2; 4", "acl.mdl.set_dynamic_batch_size")
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, choice, 3), 145013, "1; 2; 4")
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, choice, 0), 100000)
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, 9, 1), 100000, "below 2")
    fails(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, 0, 1), 100000, "1, the input")
    fails(acl.mdl.set_dynamic_hw_size(model.id, model.inputs, choice, 8, 8), 145013, "set_dynamic_batch_size")
    rng = np.random.default_rng(0)
    for batch in (4, 1, 2):
        x = rng.standard_normal((batch, 3, 8, 8)).astype(np.float32)
        model.give(0, x)
        assert acl.mdl.set_dynamic_batch_size(model.id, model.inputs, choice, batch) == 0
        assert acl.mdl.get_cur_output_dims(model.desc, 0)[0]["dims"] == [batch, 3, 1, 1]
        assert model.execute() == 0
        assert np.allclose(model.out((batch, 3, 1, 1)), pooled(x), atol=2e-3)
    dims = {"name": "", "dimCount": 4, "dims": [2, 3, 8, 8]}
    assert acl.mdl.set_input_dynamic_dims(model.id, model.inputs, choice, dims) == 0
    assert acl.mdl.get_cur_output_dims(model.desc, 0)[0]["dims"] == [2, 3, 1, 1]
    dims["dims"] = [3, 3, 8, 8]
    fails(acl.mdl.set_input_dynamic_dims(model.id, model.inputs, choice, dims), 145013, "no gear")
    # the choice lies in the buffer: another dataset with it needs no call of its own
    again = acl.mdl.create_dataset()
    for index in range(2):
        acl.mdl.add_dataset_buffer(again, acl.mdl.get_dataset_buffer(model.inputs, index))
    assert acl.mdl.execute(model.id, again, model.outputs) == 0
    acl.update_data_buffer(acl.mdl.get_dataset_buffer(again, 1), model.pointers[1], 2)
    fails(acl.mdl.set_dynamic_batch_size(model.id, again, choice, 1), 145012, "2 B, the choice takes 4 B")


def test_gears_of_an_image(program: Program) -> None:
    options = CompileOptions(input_shapes={"x": (1, 3, -1, -1)}, dynamic_image=((8, 8), (4, 16)))
    model = Loaded(program, relu_pool(options))
    assert acl.mdl.get_dynamic_hw(model.desc, 0) == ({"hwCount": 2, "hw": [[8, 8], [4, 16]]}, 0)
    choice = model.index(CHOICE)
    for height, width in ((4, 16), (8, 8)):
        x = np.random.default_rng(height).standard_normal((1, 3, height, width)).astype(np.float32)
        model.give(0, x)
        assert acl.mdl.set_dynamic_hw_size(model.id, model.inputs, choice, height, width) == 0
        assert model.execute() == 0
        assert np.allclose(model.out((1, 3, 1, 1)), pooled(x), atol=2e-3)
    assert acl.mdl.set_dynamic_hw_size(model.id, model.inputs, choice, 16, 4) == 145013


def test_gears_of_dimensions(program: Program) -> None:
    options = CompileOptions(input_shapes={"x": (-1, -1)}, dynamic_dims=((2, 8), (4, 16)), input_format="ND")
    model = Loaded(program, relu(options))
    assert acl.mdl.get_input_dynamic_gear_count(model.desc, -1) == (2, 0)
    gears, ret = acl.mdl.get_input_dynamic_dims(model.desc, -1, 2)
    assert ret == 0 and [g["dims"] for g in gears] == [[2, 8], [4, 16]]
    choice = model.index(CHOICE)
    x = np.random.default_rng(3).standard_normal((2, 8)).astype(np.float32)
    model.give(0, x)
    dims = {"name": "", "dimCount": 2, "dims": [2, 8]}
    assert acl.mdl.set_input_dynamic_dims(model.id, model.inputs, choice, dims) == 0
    assert acl.mdl.get_cur_output_dims(model.desc, 0)[0]["dims"] == [2, 8]
    assert model.execute() == 0
    assert np.allclose(model.out((2, 8)), np.maximum(x, 0), atol=2e-3)
    assert acl.mdl.set_input_dynamic_dims(model.id, model.inputs, choice, {"dimCount": 3, "dims": [2, 8]}) == 100000
    assert acl.mdl.set_input_dynamic_dims(model.id, model.inputs, choice, {"dimCount": 2, "dims": [2, 9]}) == 145013


# -- open shapes -------------------------------------------------------------------------------------------


@pytest.fixture
def open_model(program: Program) -> Loaded:
    return Loaded(program, relu(CompileOptions(input_shapes={"x": (-1, -1)}, input_format="ND")))


def test_open_shapes_come_with_the_dataset(program: Program, open_model: Loaded, fails: Fails) -> None:
    model = open_model
    fails(model.execute(), 145000, "open shape [-1, -1]", "set_dataset_tensor_desc")
    for shape in ((3, 5), (7, 20)):
        x = np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)
        model.give(0, x)
        desc = acl.create_tensor_desc(0, list(shape), 2)
        assert acl.mdl.set_dataset_tensor_desc(model.inputs, desc, 0) == (model.inputs, 0)
        assert model.execute() == 0, acl.get_recent_err_msg()
        out = acl.mdl.get_dataset_tensor_desc(model.outputs, 0)
        assert [acl.get_tensor_desc_dim_v2(out, i)[0] for i in range(acl.get_tensor_desc_num_dims(out))] == list(shape)
        assert np.allclose(model.out(shape), np.maximum(x, 0), atol=2e-3)
    fails(acl.mdl.get_cur_output_dims(model.desc, 0), 200001, "open shapes", "get_dataset_tensor_desc")


def test_09_an_output_of_an_open_shape_that_is_too_small(program: Program, open_model: Loaded, fails: Fails) -> None:
    """canncommercial troubleshooting: size out of range."""
    model = open_model
    acl.mdl.set_dataset_tensor_desc(model.inputs, acl.create_tensor_desc(0, [64, 64], 2), 0)
    buffer = acl.mdl.get_dataset_buffer(model.outputs, 0)
    acl.update_data_buffer(buffer, model.target, 1024)
    fails(model.execute(), 145000, "1024 B given", "16384 B = 64x64 float32", "address 0 and size 0")
    acl.update_data_buffer(buffer, 0, 0)
    model.give(0, np.ones((64, 64), np.float32))
    assert model.execute() == 0
    assert acl.get_data_buffer_size_v2(buffer) == 16384
    address = acl.get_data_buffer_addr(buffer)
    assert (program.download(address, 16384, np.float32) == 1).all()
    assert acl.rt.free(address) == 0


def test_an_allocator_of_the_program_serves_open_shapes(program: Program, open_model: Loaded) -> None:
    model, stream = open_model, program.stream()
    taken: list[int] = []
    freed: list[int] = []

    def alloc(owner: int, size: int) -> int:
        taken.append(size)
        return program.empty(max(size, 64))

    desc = acl.rt.allocator_create_desc()
    acl.rt.allocator_set_obj_to_desc(desc, 1)
    acl.rt.allocator_set_alloc_func_to_desc(desc, alloc)
    acl.rt.allocator_set_free_func_to_desc(desc, lambda owner, block: freed.append(block))
    acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, lambda block: block)
    assert acl.rt.allocator_register(stream, desc) == 0
    acl.mdl.set_dataset_tensor_desc(model.inputs, acl.create_tensor_desc(0, [4, 4], 2), 0)
    assert acl.mdl.execute_async(model.id, model.inputs, model.outputs, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert len(taken) == len(freed) == 1


# -- loading into memory of the program --------------------------------------------------------------------


def test_memory_of_the_program_for_a_model(program: Program, fails: Fails) -> None:
    data = relu_pool(CompileOptions(input_shapes={"x": (1, 3, 8, 8)}))
    pointer = acl.util.bytes_to_ptr(data)
    work, weight, ret = acl.mdl.query_size_from_mem(pointer, len(data))
    assert ret == 0
    area, weights = program.empty(work + 64), program.empty(weight + 64)
    used = acl.rt.get_mem_info(1)[0]
    model, ret = acl.mdl.load_from_mem_with_mem(pointer, len(data), area, work, weights, weight + 64)
    assert ret == 0 and acl.rt.get_mem_info(1)[0] == used
    assert acl.mdl.unload(model) == 0
    fails(acl.mdl.load_from_mem_with_mem(pointer, len(data), area, work - 1, weights, weight), 145000, "query_size")
    handle = acl.mdl.create_config_handle()
    fails(acl.mdl.load_with_config(handle), 100000, "attribute 1 is missing")
    assert acl.mdl.set_config_opt(handle, 1, 4) == 0
    fails(acl.mdl.load_with_config(handle), 100000, "missing: 3, 4, 5, 6, 7, 8")
    for attr, value in ((3, pointer), (4, len(data)), (5, weights), (6, weight + 64), (7, area), (8, work)):
        assert acl.mdl.set_config_opt(handle, attr, value) == 0
    fails(acl.mdl.set_config_opt(handle, 0, 8), 100000, "0 (highest) to 7")
    fails(acl.mdl.set_config_opt(handle, 2, 5), 100000, "str")
    model, ret = acl.mdl.load_with_config(handle)
    assert ret == 0
    assert acl.mdl.destroy_config_handle(handle) == 0


def test_original_names_of_a_fused_operator(program: Program) -> None:
    model = Loaded(program, relu_pool(CompileOptions(input_shapes={"x": (1, 3, 8, 8)})))
    names = {acl.mdl.get_op_attr(model.desc, n, "_datadump_original_op_names") for n in ("act", "pool", "scale", "no")}
    assert "" in names and any("[" in n for n in names)


# -- image preprocessing -----------------------------------------------------------------------------------


def aipp_model(config: AippConfig) -> bytes:
    return relu_pool(CompileOptions(input_shapes={"x": (2, 3, 8, 8)}, aipp=(config,)))


def test_static_preprocessing_is_described(program: Program, fails: Fails) -> None:
    config = AippConfig(
        aipp_mode="static", input_format="RGB888_U8", src_image_size_w=8, src_image_size_h=8, mean=(1, 2, 3, 0)
    )
    model = Loaded(program, aipp_model(config))
    assert acl.mdl.get_aipp_type(model.id, 0) == (1, 0xFFFFFFFF, 0)
    info, ret = acl.mdl.get_first_aipp_info(model.id, 0)
    assert ret == 0 and info is not None
    assert info["inputFormat"] == 3 and info["srcImageSizeW"] == 8 and info["meanChn1"] == 2
    assert info["srcDimNum"] == 4 and info["shapeCount"] == 1
    fails(acl.mdl.get_first_aipp_info(model.id, 1), 100000, "below 1")
    plain = Loaded(program, relu_pool(CompileOptions(input_shapes={"x": (1, 3, 8, 8)})))
    assert acl.mdl.get_aipp_type(plain.id, 0) == (0, 0xFFFFFFFF, 0)
    fails(acl.mdl.get_first_aipp_info(plain.id, 0), 100038, "has no AIPP")


def test_parameters_come_with_every_execution(program: Program, fails: Fails) -> None:
    model = Loaded(program, aipp_model(AippConfig(aipp_mode="dynamic", max_src_image_size=2 * 16 * 16 * 3)))
    parameters = model.index(PARAMETERS)
    assert acl.mdl.get_aipp_type(model.id, 0) == (2, parameters, 0)
    assert acl.mdl.get_aipp_type(model.id, parameters) == (3, 0xFFFFFFFF, 0)
    assert acl.mdl.get_aipp_data_size(2)[0] == acl.mdl.get_input_size_by_index(model.desc, parameters)
    aipp = acl.mdl.create_aipp(2)
    fails(acl.mdl.set_input_aipp(model.id, model.inputs, parameters, aipp), 100000, "no image format")
    assert acl.mdl.set_aipp_input_format(aipp, 3) == 0
    assert acl.mdl.set_aipp_src_image_size(aipp, 16, 16) == 0
    images = np.random.default_rng(5).integers(0, 256, (2, 16, 16, 3), np.uint8)
    for index in range(2):
        assert acl.mdl.set_aipp_crop_params(aipp, 1, 2 + index, 4, 8, 8, index) == 0
        assert acl.mdl.set_aipp_dtc_pixel_mean(aipp, 10, 20, 30, 0, index) == 0
        assert acl.mdl.set_aipp_pixel_var_reci(aipp, 0.5, 0.25, 0.125, 1, index) == 0
    assert acl.mdl.set_input_aipp(model.id, model.inputs, parameters, aipp) == 0
    model.give(0, images)
    assert model.execute() == 0, acl.get_recent_err_msg()
    windows = np.stack([images[i, 4:12, 2 + i : 10 + i] for i in range(2)]).astype(np.float32)
    x = (windows - [10, 20, 30]) * [0.5, 0.25, 0.125]
    assert np.allclose(model.out((2, 3, 1, 1)), pooled(x.transpose(0, 3, 1, 2)), rtol=2e-3, atol=0.02)
    assert acl.mdl.set_aipp_rbuv_swap_switch(aipp, 1) == 0
    assert acl.mdl.set_aipp_by_input_index(model.id, model.inputs, 0, aipp) == 0
    assert model.execute() == 0
    x = (windows[..., ::-1] - [10, 20, 30]) * [0.5, 0.25, 0.125]
    assert np.allclose(model.out((2, 3, 1, 1)), pooled(x.transpose(0, 3, 1, 2)), rtol=2e-3, atol=0.02)
    fails(acl.mdl.set_aipp_crop_params(aipp, 1, 0, 0, 8, 8, 2), 100000, "below 2")
    fails(acl.mdl.set_aipp_scf_params(aipp, 1, 8, 8, 4, 4, 0), 207000, "resize")
    fails(acl.mdl.set_input_aipp(model.id, model.inputs, 0, aipp), 100000, f"[{parameters}]")
    one = acl.mdl.create_aipp(1)
    fails(acl.mdl.set_input_aipp(model.id, model.inputs, parameters, one), 100000, "of 2 images")
    assert acl.mdl.destroy_aipp(aipp) == 0
    assert acl.mdl.destroy_aipp(aipp) == 100000
