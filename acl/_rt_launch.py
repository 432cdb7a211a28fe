"""acl.rt: launching the kernels of a binary."""

from __future__ import annotations

import ctypes
import inspect
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acl import _model, errors
from acl._api import api
from acl._common import on_stream, system
from acl._rt_kernel import Function, KernelArgs, args_of, find
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.kernels import KernelTask

if TYPE_CHECKING:
    from ascend_sim.runtime.stream import Stream

_WORD = 8  # bytes of an argument in the list of a launch


def _function(handle: int, blocks: int) -> Function | int:
    function: Function | None = find(handle, Function, "acl.rt.binary_get_function")
    if function is None:
        return errors.RT_PARAM_INVALID
    if blocks <= 0:
        return errors.bad("block_dim", blocks, "at least 1 block", code=errors.RT_PARAM_INVALID)
    if function.binary.kernels is None:
        return _machine_code(function)
    return function


def _machine_code(function: Function) -> int:
    return errors.fail(
        errors.RT_FEATURE_NOT_SUPPORT,
        f"kernel {function.name!r} of {function.binary.source!r} is machine code for the chip, which is not simulated.",
        "a Python file with the kernel in ascend_sim.asc is a binary, too, and runs.",
    )


def _pointer(value: int, what: str, stream: Stream) -> Any:
    """The bytes of the block behind a device address, from there on."""
    block = system().memory.find(value)
    if block is None or block.device != stream.device.index:
        where = "nothing" if block is None else f"memory of device {block.device}"
        errors.fail(
            errors.RT_PARAM_INVALID, f"{what} {value:#x} is {where}: the kernel needs memory of its own device."
        )
        return None
    return block


def _arguments(function: Function, values: Sequence[bytes], stream: Stream) -> tuple[list[Any], list[int]] | int:
    """(arguments as the kernel takes them, addresses of those in global memory)."""
    kernel = (function.binary.kernels or {})[function.name]
    parameters = list(inspect.signature(kernel.source).parameters.values())
    if len(values) != len(parameters):
        names = ", ".join(p.name for p in parameters)
        return errors.fail(
            errors.RT_PARAM_INVALID,
            f"kernel {function.name!r} has {len(parameters)} arguments ({names}), {len(values)} are given.",
        )
    given: list[Any] = []
    addresses: list[int] = []
    for parameter, raw in zip(parameters, values, strict=True):
        kind = getattr(parameter.annotation, "__name__", str(parameter.annotation)).rpartition(".")[2]
        number = int.from_bytes(raw[:_WORD], "little")
        pointer = kind == "GlobalAddress" or (kind in ("_empty", "") and system().memory.find(number) is not None)
        if pointer:
            if _pointer(number, f"argument {parameter.name}", stream) is None:
                return errors.RT_PARAM_INVALID
            given.append(ctypes.c_void_p(number))
            addresses.append(number)
        elif kind == "float":
            given.append(struct.unpack("<d" if len(raw) == _WORD else "<f", raw[: len(raw) // 4 * 4])[0])
        else:
            given.append(int.from_bytes(raw, "little", signed=True))
    return given, addresses


def launch(function: Function, blocks: int, values: Sequence[bytes], stream: Stream) -> int:
    """Enqueue a kernel; ``values`` are its arguments in order."""
    if function.binary.kernels is None:
        return _machine_code(function)
    made = _arguments(function, values, stream)
    if isinstance(made, int):
        return made
    from ascend_sim.asc.kernel import user_launch
    from ascend_sim.asc.sanitizer import run_user_launch
    from ascend_sim.ops.schema import OpCall, TensorSpec

    given, addresses = made
    machine = system()
    held = [machine.memory.find(a) for a in addresses]

    def memory(address: int) -> Any:
        block = machine.memory.find(address)
        assert block is not None
        return block.arena.view(address, block.address + block.size - address)

    kernel = (function.binary.kernels or {})[function.name]
    try:
        description, buffers = user_launch(kernel, blocks, given, {}, machine.soc, memory)
    except (TypeError, ValueError) as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")

    def compute() -> None:
        if machine.values != "none":
            run_user_launch(description, buffers)

    specs = tuple(TensorSpec((len(b),), "uint8") for b in buffers[: len(addresses)])
    task = KernelTask(function.name, description.trace, compute, OpCall(function.name, specs, ()), addresses, held)
    stream.submit(task, host_thread())
    return 0


def _words(raw: bytes) -> list[bytes]:
    return [raw[i : i + _WORD] for i in range(0, len(raw), _WORD)]


@api("acl.rt.launch_kernel", "aclrtLaunchKernel", "launch")
def launch_kernel(func_handle: int, block_dim: int, args_ptr: int, args_size: int, stream: int, /) -> int:
    """``args_ptr`` is device memory with one 8-byte word per argument."""
    return _from_memory(func_handle, block_dim, args_ptr, args_size, stream, _device_bytes)


def _device_bytes(address: int, size: int) -> bytes | int:
    place = _model.where(address, size, "args_ptr", False)
    return place if isinstance(place, int) else _model.view(place, size).tobytes()


def _host_bytes(address: int, size: int) -> bytes | int:
    try:
        locate(system(), address, size, False, "host_args")
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    return ctypes.string_at(address, size)


def _from_memory(
    func: int, blocks: int, address: int, size: int, stream: int, read: Callable[[int, int], bytes | int]
) -> int:
    function = _function(func, blocks)
    if isinstance(function, int):
        return function
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if size < 0 or size % _WORD:
        return errors.bad("args_size", size, f"a multiple of {_WORD} bytes", code=errors.RT_PARAM_INVALID)
    raw = read(address, size) if size else b""
    return raw if isinstance(raw, int) else launch(function, blocks, _words(raw), found)


@api("acl.rt.launch_kernel_with_host_args", "aclrtLaunchKernelWithHostArgs", "launch")
def launch_kernel_with_host_args(
    func_handle: int,
    block_dim: int,
    stream: int,
    cfg: object,
    host_args: int,
    args_size: int,
    place_holders: object,
    place_holder_num: int,
    /,
) -> int:
    if place_holder_num:
        return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, "placeholders in arguments of the host are not simulated.")
    return _from_memory(func_handle, block_dim, host_args, args_size, stream, _host_bytes)


@api("acl.rt.launch_kernel_with_config", "aclrtLaunchKernelWithConfig", "launch")
def launch_kernel_with_config(
    func_handle: int, block_dim: int, stream: int, cfg: object, args_handle: int, reserve: object, /
) -> int:
    function = find(func_handle, Function, "acl.rt.binary_get_function")
    if function is None:
        return errors.RT_PARAM_INVALID
    found, ret = on_stream(stream)
    if found is None:
        return ret
    checked = _function(func_handle, block_dim)
    if isinstance(checked, int):
        return checked
    args: KernelArgs | None = args_of(args_handle) if args_handle else KernelArgs(function)
    if args is None:
        return errors.RT_PARAM_INVALID
    if args_handle and not args.final:
        return errors.fail(
            errors.RT_PARAM_INVALID, "the arguments are not complete.", "acl.rt.kernel_args_finalize ends the list."
        )
    values: list[bytes] = []
    for value in args.values:
        if value is None:
            return errors.fail(
                errors.RT_PARAM_INVALID,
                "a placeholder has no memory.",
                "acl.rt.kernel_args_get_place_holder_buffer gives it some.",
            )
        values.append(value if isinstance(value, bytes) else _holder(found, value))
    return launch(checked, block_dim, values, found)


def _holder(stream: Stream, room: ctypes.Array[ctypes.c_char]) -> bytes:
    """The content of a placeholder, moved to device memory; the kernel gets its address."""
    from ascend_sim.runtime.memory import rounded

    block = stream.device.arena.allocate(len(room), rounded(len(room), 0), "placeholder of a kernel")
    ctypes.memmove(block.address, room, len(room))
    stream.held.append(block)
    return struct.pack("<Q", block.address)
