"""acl.op and the descriptions it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acl_program import Program

import acl
from acl import _sim
from ascend_sim.graph.atc import atc_main
from ascend_sim.runtime.observe import Event

Fails = Callable[..., str]
FLOAT, FLOAT16, INT32, INT64, ND = 0, 1, 3, 9, 2


def desc(dtype: int, shape: Sequence[int], fmt: int = ND) -> int:
    return int(acl.create_tensor_desc(dtype, list(shape), fmt))


class Case:
    """One operator on arrays."""

    def __init__(
        self, program: Program, inputs: Sequence[np.ndarray[Any, Any]], out: tuple[int, Sequence[int]]
    ) -> None:
        types = {np.dtype(np.float32): FLOAT, np.dtype(np.float16): FLOAT16, np.dtype(np.int32): INT32}
        self.program = program
        self.descs = [desc(types[a.dtype], a.shape) for a in inputs]
        self.buffers = [acl.create_data_buffer(*program.upload(a)) for a in inputs]
        self.nbytes = int(np.prod(out[1])) * acl.data_type_size(out[0])
        self.target = program.empty(self.nbytes)
        self.out_descs, self.out_buffers = [desc(*out)], [acl.create_data_buffer(self.target, self.nbytes)]
        self.attr = acl.op.create_attr()
        self.stream = program.stream()

    def run(self, op_type: str) -> int:
        return int(
            acl.op.execute_v2(
                op_type, self.descs, self.buffers, self.out_descs, self.out_buffers, self.attr, self.stream
            )
        )

    def result(self, dtype: Any) -> np.ndarray[Any, Any]:
        assert acl.rt.synchronize_stream(self.stream) == 0, acl.get_recent_err_msg()
        return self.program.download(self.target, self.nbytes, dtype)


def test_add(program: Program, tmp_path: Path) -> None:
    assert acl.op.set_model_dir(str(tmp_path)) == 0
    a, b = np.arange(8, dtype=np.int32), np.full(8, 5, np.int32)
    case = Case(program, [a, b], (INT32, [8]))
    assert case.run("Add") == 0, acl.get_recent_err_msg()
    assert case.result(np.int32).tolist() == (a + b).tolist()
    assert acl.op.execute("Add", case.descs, case.buffers, case.out_descs, case.out_buffers, 0, case.stream) == 0


def test_matmul_with_attributes(program: Program) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((16, 32), np.float32).astype(np.float16), rng.random((48, 32), np.float32).astype(np.float16)
    case = Case(program, [a, b], (FLOAT16, [16, 48]))
    assert acl.op.set_attr_bool(case.attr, "transpose_x2", 1) == 0
    assert case.run("MatMulV2") == 0, acl.get_recent_err_msg()
    got = case.result(np.float16).reshape(16, 48).astype(np.float32)
    assert np.allclose(got, a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-3)


def test_a_handle(program: Program, fails: Fails) -> None:
    a = np.linspace(-2, 2, 64, dtype=np.float32)
    case = Case(program, [a], (FLOAT, [64]))
    handle, ret = acl.op.create_handle("Relu", case.descs, case.out_descs, case.attr)
    assert ret == 0
    assert acl.op.execute_with_handle(handle, case.buffers, case.out_buffers, case.stream) == 0
    assert np.array_equal(case.result(np.float32), np.maximum(a, 0))
    assert acl.op.destroy_handle(handle) is None
    fails(acl.op.execute_with_handle(handle, case.buffers, case.out_buffers, case.stream), 100000, "destroyed")


def test_cast(program: Program) -> None:
    a = np.array([1.5, -2.25, 1000.0, 65504.0], np.float32)
    case = Case(program, [a], (FLOAT16, [4]))
    args = (case.descs[0], case.buffers[0], case.out_descs[0], case.out_buffers[0], 0, case.stream)
    assert acl.op.cast(*args) == 0, acl.get_recent_err_msg()
    assert case.result(np.float16).tolist() == a.astype(np.float16).tolist()
    handle, ret = acl.op.create_handle_for_cast(case.descs[0], case.out_descs[0], 0)
    assert ret == 0 and acl.op.execute_with_handle(handle, case.buffers, case.out_buffers, case.stream) == 0


def test_constant_and_optional_inputs(program: Program) -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    axes = np.array([1], np.int32)
    case = Case(program, [a, axes], (FLOAT, [4]))
    data = axes.tobytes()
    assert acl.set_tensor_const(case.descs[1], acl.util.bytes_to_ptr(data), len(data)) == 0
    assert acl.op.set_attr_bool(case.attr, "keep_dims", 0) == 0
    assert case.run("ReduceSum") == 0, acl.get_recent_err_msg()
    assert np.allclose(case.result(np.float32), a.sum(1))
    left = Case(program, [np.eye(16, dtype=np.float16)] * 2, (FLOAT16, [16, 16]))
    left.descs.append(int(acl.create_tensor_desc(-1, [], -1)))
    left.buffers.append(acl.create_data_buffer(0, 0))
    assert left.run("MatMulV2") == 0, acl.get_recent_err_msg()
    assert np.array_equal(left.result(np.float16).reshape(16, 16), np.eye(16))


def test_values_that_decide_shapes_are_read_from_the_buffer(program: Program) -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    case = Case(program, [a, np.array([0], np.int32)], (FLOAT, [6]))
    assert case.run("ReduceSum") == 0, acl.get_recent_err_msg()
    assert np.allclose(case.result(np.float32), a.sum(0))


def test_infer_shape(program: Program, fails: Fails) -> None:
    case = Case(program, [np.zeros((3, 5), np.float16), np.zeros((5, 7), np.float16)], (FLOAT16, [3, 7]))
    out = desc(FLOAT16, [-1, -1])
    assert acl.op.infer_shape("MatMulV2", case.descs, case.buffers, 1, [out], case.attr) == 0
    assert [acl.get_tensor_desc_dim_v2(out, i)[0] for i in range(2)] == [3, 7]
    fails(acl.op.infer_shape("MatMulV2", case.descs, case.buffers, 2, [out], case.attr), 100000, "num_outputs")


def test_what_does_not_fit_is_named(program: Program, fails: Fails) -> None:
    a = np.zeros((4, 8), np.float16)
    case = Case(program, [a, np.zeros((8, 4), np.float16)], (FLOAT16, [4, 4]))
    fails(case.run("MatMulV9"), 100024, "MatMulV9", "MatMul")
    wrong_in = Case(program, [a, np.zeros((7, 4), np.float16)], (FLOAT16, [4, 4]))
    fails(wrong_in.run("MatMulV2"), 100021, "K = 7", "K = 8")
    wrong_out = Case(program, [a, np.zeros((8, 4), np.float16)], (FLOAT16, [4, 5]))
    fails(wrong_out.run("MatMulV2"), 100022, "[4, 5]", "[4, 4]")
    case.out_descs.append(desc(FLOAT16, [4, 4]))
    case.out_buffers.append(case.out_buffers[0])
    fails(case.run("MatMulV2"), 100022, "1 outputs")
    cast = Case(program, [a], (FLOAT, [4, 8]))
    fails(cast.run("Cast"), 100023, "dst_type")
    short = Case(program, [a, np.zeros((8, 4), np.float16)], (FLOAT16, [4, 4]))
    acl.update_data_buffer(short.buffers[0], acl.get_data_buffer_addr(short.buffers[0]), 10)
    fails(short.run("MatMulV2"), 100000, "10 B")
    short.buffers.pop()
    fails(short.run("MatMulV2"), 100000, "1 input buffers")


def test_lists_must_be_lists(program: Program) -> None:
    case = Case(program, [np.zeros(4, np.float32)], (FLOAT, [4]))
    with pytest.raises(TypeError):
        acl.op.execute_v2("Relu", tuple(case.descs), case.buffers, case.out_descs, case.out_buffers, 0, 0)
    with pytest.raises(TypeError):
        acl.op.execute_v2("Relu", ["x"], case.buffers, case.out_descs, case.out_buffers, 0, 0)


def test_wrong_addresses(program: Program, fails: Fails) -> None:
    case = Case(program, [np.zeros(4, np.float32)], (FLOAT, [4]))
    acl.update_data_buffer(case.buffers[0], 0x1000, 16)
    fails(case.run("Relu"), 107000, "0x1000")
    data = bytes(16)
    acl.update_data_buffer(case.buffers[0], acl.util.bytes_to_ptr(data), 16)
    fails(case.run("Relu"), 107000, "host memory")


def test_model_dir(tmp_path: Path, fails: Fails) -> None:
    fails(acl.op.set_model_dir(str(tmp_path / "none")), 100000, "directory")
    assert acl.op.set_model_dir(str(tmp_path)) == 0
    fails(acl.op.set_model_dir(str(tmp_path)), 100002, "set once")


def test_attributes(device: int, fails: Fails) -> None:
    attr = acl.op.create_attr()
    assert acl.op.set_attr_int(attr, "i", 5) == 0
    assert acl.op.set_attr_float(attr, "f", 5) == 0
    assert acl.op.set_attr_string(attr, "s", "x") == 0
    assert acl.op.set_attr_data_type(attr, "t", 1) == (attr, 0)
    assert acl.op.set_attr_list_int(attr, "li", [1, 2]) == 0
    with pytest.warns(UserWarning, match="deprecated"):
        assert acl.op.set_attr_list_int(attr, "ln", np.array([1, 2])) == 0
    assert acl.op.set_attr_list_float(attr, "lf", [1.0, 2]) == 0
    assert acl.op.set_attr_list_bool(attr, "lb", [1, 0]) == 0
    assert acl.op.set_attr_list_string(attr, "ls", ["a"]) == 0
    assert acl.op.set_attr_list_list_int(attr, "ll", [[1], [2, 3]]) == 0
    assert acl.op.set_attr_list_data_type(attr, "lt", [1, 27]) == (attr, 0)
    with pytest.raises(TypeError):
        acl.op.set_attr_list_int(attr, "bad", ["x"])
    fails(acl.op.set_attr_int(0, "i", 5), 100000)
    fails(acl.op.set_attr_int(attr, "", 5), 100000, "name")
    assert acl.op.destroy_attr(attr) is None
    fails(acl.op.set_attr_int(attr, "i", 5), 100000, "destroyed")


def test_tensor_descriptions(device: int, fails: Fails) -> None:
    made = desc(FLOAT16, [2, 3, 4], 0)
    assert acl.get_tensor_desc_type(made) == 1 and acl.get_tensor_desc_format(made) == 0
    assert acl.get_tensor_desc_size(made) == 48 and acl.get_tensor_desc_element_count(made) == 24
    assert acl.get_tensor_desc_num_dims(made) == 3
    assert acl.get_tensor_desc_dim(made, 2) == 4 and acl.get_tensor_desc_dim_v2(made, 1) == (3, 0)
    fails(acl.get_tensor_desc_dim_v2(made, 3), 100000, "0..2")
    acl.set_tensor_desc_name(made, "x")
    assert acl.get_tensor_desc_name(made) == "x"
    assert acl.set_tensor_shape_range(made, [[1, 4], [3, 3], [4, 4]]) == 0
    assert acl.get_tensor_desc_dim_range(made, 0, 2) == ([1, 4], 0)
    fails(acl.get_tensor_desc_dim_range(made, 0, 5000), 100000, "4096")
    assert acl.set_tensor_format(made, 3) == 0 and acl.set_tensor_origin_shape(made, [2, 3, 4]) == 0
    assert acl.set_tensor_place_ment(made, 1) == 0
    fails(acl.set_tensor_place_ment(made, 7), 100000)
    fails(acl.set_tensor_const(made, 0x1000, 8), 100000, "not readable")
    assert acl.destroy_tensor_desc(made) is None
    assert acl.get_tensor_desc_size(made) == 0


@pytest.mark.parametrize(
    ("dtype", "size"), [(0, 4), (1, 2), (2, 1), (3, 4), (9, 8), (11, 8), (12, 1), (17, 16), (27, 2)]
)
def test_data_type_sizes(dtype: int, size: int) -> None:
    assert acl.data_type_size(dtype) == size


def test_the_event_of_an_operator(program: Program) -> None:
    seen: list[Event] = []
    case = Case(program, [np.ones((64, 64), np.float16)] * 2, (FLOAT16, [64, 64]))
    _sim.observe(seen.append)
    try:
        assert case.run("MatMulV2") == 0
        assert case.run("Add") == 0
        acl.rt.synchronize_stream(case.stream)
    finally:
        _sim.unobserve(seen.append)
    kernels = [e for e in seen if e.kind == "kernel"]
    assert [k.args["op_type"] for k in kernels] == ["MatMulV2", "Add"]
    assert kernels[0].end <= kernels[1].start and all(k.duration > 0 for k in kernels)
    assert kernels[0].args["call"].inputs[0].shape == (64, 64)


def test_strided_formats(program: Program) -> None:
    """An NC1HWC0 input is read in its storage layout."""
    x = np.random.default_rng(3).standard_normal((1, 20, 4, 4)).astype(np.float16)
    stored = np.zeros((1, 2, 4, 4, 16), np.float16)
    for c in range(20):
        stored[0, c // 16, :, :, c % 16] = x[0, c]
    case = Case(program, [stored], (FLOAT16, [1, 2, 4, 4, 16]))
    for handle in (case.descs[0], case.out_descs[0]):
        assert acl.set_tensor_origin_shape(handle, [1, 20, 4, 4]) == 0
        assert acl.set_tensor_origin_format(handle, 0) == 0
        assert acl.set_tensor_format(handle, 3) == 0
    assert case.run("Relu") == 0, acl.get_recent_err_msg()
    got = case.result(np.float16).reshape(1, 2, 4, 4, 16)
    assert np.array_equal(got, np.maximum(stored, 0))


def test_a_scalar_output_may_be_described_as_one_element(program: Program, tmp_path: Path) -> None:
    """Descriptions of pyACL programs call a scalar [1], also those of operators compiled before."""
    vector, one = ({"format": "ND", "shape": [n], "type": kind} for n, kind in ((1000, "float16"), (1, "int32")))
    op = {"op": "ArgMaxV2", "input_desc": [vector, {**one, "is_const": True, "const_value": [0]}], "output_desc": [one]}
    (tmp_path / "op.json").write_text(json.dumps([op]))
    flags = [f"--singleop={tmp_path}/op.json", f"--output={tmp_path}/models", "--soc_version=Ascend910B2"]
    assert atc_main(flags) == 0
    assert acl.op.set_model_dir(str(tmp_path / "models")) == 0
    data = np.random.default_rng(0).standard_normal(1000).astype(np.float16)
    address, nbytes = program.upload(data)
    out, stream = program.empty(4), program.stream()
    axis = bytes(4)
    descs = [acl.create_tensor_desc(1, [1000], 2), acl.create_tensor_desc(3, [1], 2)]
    assert acl.set_tensor_const(descs[1], acl.util.bytes_to_ptr(axis), 4) == 0
    ret = acl.op.execute_v2(
        "ArgMaxV2", descs, [acl.create_data_buffer(address, nbytes), acl.create_data_buffer(0, 0)],
        [acl.create_tensor_desc(3, [1], 2)], [acl.create_data_buffer(out, 4)], acl.op.create_attr(), stream,
    )  # fmt: skip
    assert ret == 0 and acl.rt.synchronize_stream(stream) == 0
    assert program.download(out, 4, np.int32)[0] == data.argmax()
