"""Calls of single operators that cannot work are refused where they are made; results may be smaller than described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acl_program import Program

import acl

Fails = Callable[..., str]


def call(op: str, inputs: list[tuple[int, list[int], int]], output: tuple[int, list[int], int]) -> Any:
    """Return code of an operator on descriptions (type, dims, format), with room for everything."""
    room = [acl.create_data_buffer(acl.rt.malloc(1 << 16, 0)[0], 1 << 16) for _ in range(len(inputs) + 1)]
    descs = [acl.create_tensor_desc(*desc) for desc in (*inputs, output)]
    return acl.op.execute_v2(op, descs[:-1], room[:-1], descs[-1:], room[-1:], 0, 0)


PLAIN = (1, [8, 8], 2)


@pytest.mark.parametrize("values", [np.eye(3, dtype=np.float32), np.zeros((2, 5), np.float32), np.ones(4, np.float32)])
@pytest.mark.parametrize("described", ["open", "most"])
def test_a_result_whose_size_depends_on_values(program: Program, values: Any, described: str) -> None:
    pointer, _ = program.upload(values)
    most = [values.size, values.ndim]
    target = program.empty(values.size * values.ndim * 8)
    source = acl.create_tensor_desc(0, list(values.shape), 2)
    desc = acl.create_tensor_desc(9, most if described == "most" else [-1, -1], 2)
    ins, outs = acl.create_data_buffer(pointer, values.nbytes), acl.create_data_buffer(target, values.size * 8 * 2)
    assert acl.op.execute_v2("NonZero", [source], [ins], [desc], [outs], 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    expected = np.argwhere(values)
    assert [acl.get_tensor_desc_dim_v2(desc, i)[0] for i in range(2)] == list(expected.shape)
    if expected.size:
        assert np.array_equal(program.download(target, expected.size * 8, np.int64).reshape(expected.shape), expected)


@pytest.mark.parametrize("op", ["Add", "Less", "Relu", "Pow", "MatMulV2", "Conv2D"])
def test_more_inputs_than_the_operator_has(program: Program, fails: Fails, op: str) -> None:
    fails(call(op, [PLAIN] * 4, PLAIN), 100021, "inputs", "4 are given")


@pytest.mark.parametrize(
    ("number", "dims"), [(3, [8, 8]), (3, []), (12, [1, 8, 8]), (4, [8]), (29, [8, 8]), (32, [8, 8, 8]), (33, [2])]
)
def test_formats_whose_dimensions_are_others(program: Program, fails: Fails, number: int, dims: list[int]) -> None:
    fails(call("Relu", [(1, dims, number)], (1, dims, number)), 100000, "input 0", "dimensions")


@pytest.mark.parametrize("number", [999, -7, 1 << 31])
def test_formats_that_are_none(program: Program, fails: Fails, number: int) -> None:
    fails(call("Relu", [(1, [8], number)], PLAIN), 100000, "format")


@pytest.mark.parametrize("dtype", [13, 29, 30])
def test_types_without_values(program: Program, fails: Fails, dtype: int) -> None:
    fails(call("Relu", [(dtype, [8], 2)], (dtype, [8], 2)), 100026, "input 0 data type")


def test_what_no_rule_refused_is_an_exception_of_the_core(program: Program) -> None:
    boolean = (12, [8], 2)
    ret = call("HuberLoss", [boolean, boolean], (12, [-1], 2)) or acl.rt.synchronize_stream(0)
    assert ret in (100021, 100022, 100023, 507015)


def described(dims: list[int], number: int, origin: tuple[int, list[int]] | None) -> int:
    desc = acl.create_tensor_desc(1, dims, number)
    if origin is not None:
        assert acl.set_tensor_origin_format(desc, origin[0]) == 0
        assert acl.set_tensor_origin_shape(desc, origin[1]) == 0
    return int(desc)


FIVE, NZ, Z = [2, 1, 4, 4, 16], [2, 1, 16, 16], [1, 1, 16, 16]


@pytest.mark.parametrize(
    ("dims", "number", "origin"),
    [(FIVE, 3, None), (FIVE, 3, (0, [2, 16, 4, 4])), (FIVE, 3, (0, [2, 11, 4, 4])), (FIVE, 3, (1, [2, 4, 4, 16])),
     (NZ, 29, None), (NZ, 29, (2, [16, 32])), (NZ, 29, (2, [9, 17])), (Z, 4, (0, [16, 16, 1, 1]))],
)  # fmt: skip
def test_fractal_memory(program: Program, dims: list[int], number: int, origin: Any) -> None:
    """The description of create_tensor_desc is that of the memory; an origin says what it stands for."""
    values = np.random.default_rng(0).standard_normal(dims).astype(np.float16)
    pointer, n = program.upload(values)
    desc, buffer = described(dims, number, origin), acl.create_data_buffer(pointer, n)
    assert acl.op.execute_v2("Relu", [desc], [buffer], [desc], [buffer], 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    result = program.download(pointer, n, np.float16).reshape(dims)
    whole = origin is None or np.prod(origin[1]) == values.size
    assert np.array_equal(result, np.maximum(values, 0)) or not whole


@pytest.mark.parametrize(
    ("dims", "number", "origin"),
    [(FIVE, 3, (0, [16])), (FIVE, 3, (0, [2, 17, 4, 4])), (FIVE, 3, (1, [2, 16, 4, 4])), (NZ, 29, (2, [16])),
     (NZ, 29, (2, [99, 99])), (NZ, 29, (2, [2, 16, 32])), (Z, 4, (0, [16, 16]))],
)  # fmt: skip
def test_memory_that_does_not_hold_its_origin(
    program: Program, fails: Fails, dims: list[int], number: int, origin: Any
) -> None:
    desc, buffer = described(dims, number, origin), acl.create_data_buffer(program.empty(1 << 16), 1 << 16)
    fails(acl.op.execute_v2("Relu", [desc], [buffer], [desc], [buffer], 0, 0), 100000, "does not hold")


def test_a_constant_that_is_too_short(program: Program, fails: Fails) -> None:
    desc, buffer = acl.create_tensor_desc(1, [8, 8], 2), acl.create_data_buffer(program.empty(128), 128)
    data = bytes(16)
    assert acl.set_tensor_const(desc, acl.util.bytes_to_ptr(data), 16) == 0
    fails(acl.op.execute_v2("Relu", [desc], [buffer], [desc], [buffer], 0, 0), 100000, "16 B", "128 B")
