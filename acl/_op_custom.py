"""acl.op: operators of open shapes whose kernels the program brings: a selector, kernels, and their tiling.

A selector is called before the operator runs; the kernel it names runs when it is one of a Python file
(`acl._rt_kernel`). Machine code is registered, and refused when it would run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acl import errors, handles
from acl._api import api
from acl._common import system
from acl._op_attr import attr_of
from acl._op_call import descs, known
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.memory import rounded

if TYPE_CHECKING:
    from acl._descs import DataBuffer
    from ascend_sim.runtime.stream import Stream


@dataclass
class KernelDesc:
    """What a selector decides for one call."""

    type: str
    kernel: str = ""
    blocks: int = 1
    args: bytes = b""
    workspaces: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class CustomKernel:
    name: str
    code: bytes
    engine: int


_selectors: dict[str, Any] = {}
_kernels: dict[str, dict[str, CustomKernel]] = {}
_chosen: dict[str, KernelDesc] = {}


def forget_all() -> None:
    """Tests: start over."""
    _selectors.clear()
    _kernels.clear()
    _chosen.clear()


@api("acl.op.register_compile_func", "aclopRegisterCompileFunc")
def register_compile_func(op_type: str, function: object, /) -> int:
    if not op_type:
        return errors.bad("op_type", op_type, "the type of an operator")
    if not callable(function):
        return errors.bad("fn", function, "a function")
    if op_type in _selectors:
        return errors.fail(
            errors.SELECTOR_REGISTERED,
            f"{op_type} has a selector already.",
            "acl.op.unregister_compile_func removes it.",
        )
    _selectors[op_type] = function
    return 0


@api("acl.op.unregister_compile_func", "aclopUnregisterCompileFunc")
def unregister_compile_func(op_type: str, /) -> int:
    _selectors.pop(op_type, None)
    return 0


@api("acl.op.create_kernel", "aclopCreateKernel")
def create_kernel(
    op_type: str, kernel_id: str, kernel_name: str, bin_ptr: int, bin_size: int, engine: int, deallocator: int, /
) -> int:
    if not op_type or not kernel_id or not kernel_name:
        return errors.bad("op_type, kernel_id, kernel_name", (op_type, kernel_id, kernel_name), "three names")
    if engine not in (0, 1, 2):
        return errors.bad("engine", engine, "0 (any), 1 (AI Core) or 2 (vector core)")
    if bin_ptr == 0 or bin_size <= 0:
        return errors.bad("bin_ptr, bin_size", (bin_ptr, bin_size), "the address and size of a kernel binary")
    try:
        locate(system(), bin_ptr, bin_size, False, "bin_ptr")
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    kernels = _kernels.setdefault(op_type, {})
    if kernel_id in kernels:
        return errors.fail(errors.KERNEL_REGISTERED, f"{op_type} has a kernel {kernel_id!r} already.")
    kernels[kernel_id] = CustomKernel(kernel_name, ctypes.string_at(bin_ptr, bin_size), engine)
    return 0


def _desc(handle: int) -> KernelDesc | None:
    found = handles.get(handle, KernelDesc)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "KernelDesc", "the selector of register_compile_func"))
    return found


@api("acl.op.set_kernel_args", "aclopSetKernelArgs")
def set_kernel_args(kernel_desc: int, kernel_id: str, block_dim: int, args_ptr: int, args_size: int, /) -> int:
    found = _desc(kernel_desc)
    if found is None:
        return errors.INVALID_PARAM
    if block_dim < 1:
        return errors.bad("block_dim", block_dim, "at least 1 block")
    if kernel_id not in _kernels.get(found.type, {}):
        known_ids = ", ".join(_kernels.get(found.type, {})) or "none"
        return errors.fail(
            errors.KERNEL_NOT_FOUND,
            f"{found.type} has no kernel {kernel_id!r}; it has {known_ids}.",
            "acl.op.create_kernel registers one.",
        )
    data = b""
    if args_size:
        try:
            locate(system(), args_ptr, args_size, False, "args_ptr")
        except BadAddress as error:
            return errors.fail(errors.INVALID_PARAM, f"{error}.")
        data = ctypes.string_at(args_ptr, args_size)
    found.kernel, found.blocks, found.args = kernel_id, block_dim, data
    return 0


@api("acl.op.set_kernel_workspace_sizes", "aclopSetKernelWorkspaceSizes")
def set_kernel_workspace_sizes(kernel_desc: int, num: int, sizes_ptr: int, /) -> int:
    found = _desc(kernel_desc)
    if found is None:
        return errors.INVALID_PARAM
    if num < 0 or num > 64:
        return errors.bad("num", num, "0..64")
    if num == 0:
        found.workspaces = []
        return 0
    try:
        locate(system(), sizes_ptr, 8 * num, False, "sizes_ptr")
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    found.workspaces = [int(v) for v in (ctypes.c_uint64 * num).from_address(sizes_ptr)]
    return 0


@api("acl.op.update_params", "aclopUpdateParams", "api")
def update_params(op_type: str, input_descs: list[int], output_descs: list[int], attr: int, /) -> int:
    """Call the operator's selector, which sets kernel and tiling for these shapes."""
    for listed, what in ((input_descs, "input_descs"), (output_descs, "output_descs")):
        found = descs(listed, what)
        if isinstance(found, int):
            return found
    if attr_of(attr) is None:
        return errors.INVALID_PARAM
    if op_type not in _selectors:
        if op_type in _kernels:
            return errors.fail(
                errors.SELECTOR_NOT_REGISTERED,
                f"{op_type} has kernels but no selector.",
                "acl.op.register_compile_func registers one.",
            )
        return known(op_type)
    return select(op_type, input_descs, output_descs, attr)


def select(op_type: str, inputs: Sequence[int], outputs: Sequence[int], attr: int) -> int:
    """Ask the selector of an operator; 0 when it named a kernel."""
    made = KernelDesc(op_type)
    handle = handles.new(made)
    try:
        ret = _selectors[op_type](len(inputs), list(inputs), len(outputs), list(outputs), attr, handle)
    finally:
        handles.drop(handle)
    if ret not in (0, None):
        return errors.fail(errors.INTERNAL, f"the selector of {op_type} returned {ret!r}.")
    if not made.kernel:
        problem = f"the selector of {op_type} chose no kernel."
        return errors.fail(errors.KERNEL_NOT_FOUND, problem, "acl.op.set_kernel_args chooses one.")
    _chosen[op_type] = made
    return 0


def brought(op_type: str) -> bool:
    """Whether the program brought kernels for an operator."""
    return op_type in _kernels


def run(
    op_type: str,
    inputs: Sequence[int],
    ins: Sequence[DataBuffer],
    outputs: Sequence[int],
    outs: Sequence[DataBuffer],
    attr: int,
    stream: Stream,
) -> int:
    """Launch the kernel that the selector chooses. It takes the addresses of inputs, outputs and workspaces, then the
    words of its tiling."""
    from acl import _rt_launch
    from acl._rt_kernel import Binary, Function, load_kernels

    ret = update_params(op_type, list(inputs), list(outputs), attr)
    if ret:
        return int(ret)
    chosen = _chosen[op_type]
    kernel = _kernels[op_type][chosen.kernel]
    found = load_kernels(kernel.code, f"kernel {chosen.kernel} of {op_type}")
    if isinstance(found, int):
        return found
    _, kernels = found
    function = Function(Binary(f"kernel {chosen.kernel}", kernel.code, kernels), kernel.name)
    words = [b.address.to_bytes(8, "little") for b in (*ins, *outs)]
    for size in chosen.workspaces:
        block = stream.device.arena.allocate(size, rounded(size, 0), f"workspace of {op_type}")
        stream.held.append(block)
        words.append(block.address.to_bytes(8, "little"))
    words += [chosen.args[i : i + 8] for i in range(0, len(chosen.args), 8)]
    return _rt_launch.launch(function, chosen.blocks, words, stream)


# -- only in C ---------------------------------------------------------------------------------------------

_ONLY_C = "pyACL has no such function, only the C interface: acl.op.execute_v2 compiles operators when they are called."


@api("acl.op.compile", "aclopCompile", supported=False)
def compile(*_args: Any) -> int:
    return errors.fail(errors.UNSUPPORTED_API, _ONLY_C)


@api("acl.op.compile_and_execute", "aclopCompileAndExecute", supported=False)
def compile_and_execute(*_args: Any) -> int:
    return errors.fail(errors.UNSUPPORTED_API, _ONLY_C)
