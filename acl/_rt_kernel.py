"""acl.rt: kernel binaries, their functions, and lists of arguments.

Machine code for the chip cannot be simulated: it is loaded and its functions are named, but not launched. A Python file
with kernels in `ascend_sim.asc` is a binary, too, and its kernels run.
"""

from __future__ import annotations

import ctypes
import itertools
import linecache
import os
from dataclasses import dataclass, field
from typing import Any

from acl import errors, handles
from acl._api import api
from acl._common import current, system
from ascend_sim.runtime.copies import BadAddress, locate

_ARGS_HANDLE_BYTES = 256
_SYSTEM_ARGS_BYTES = 64  # what the runtime keeps behind the arguments
_ALIGN = 8
_texts = itertools.count(1)


@dataclass
class Binary:
    """``code`` holds the bytes; ``kernels`` the kernels of a Python file, by name (None: machine code)."""

    source: str
    code: bytes = b""
    kernels: dict[str, Any] | None = None


@dataclass
class BinaryData:
    """What create_binary was given: an address that is read when the binary is loaded."""

    address: int
    size: int


@dataclass
class Function:
    binary: Binary
    name: str
    cpu: bool = False


@dataclass
class KernelArgs:
    """``values`` in order; a placeholder is memory of our own that the program fills."""

    function: Function
    values: list[bytes | ctypes.Array[ctypes.c_char] | None] = field(default_factory=list)
    final: bool = False


@dataclass
class Param:
    args: KernelArgs
    index: int


def find(handle: int, kind: type[Any], maker: str) -> Any:
    """The object behind a handle; None (and the cause stored) when there is none."""
    found = handles.get(handle, kind)
    if found is None:
        errors.fail(errors.RT_PARAM_INVALID, handles.story(handle, kind.__name__, maker))
    return found


def _load(code: bytes, source: str) -> tuple[int, int]:
    """A handle for a binary."""
    found = load_kernels(code, source)
    if isinstance(found, int):
        return 0, found
    return handles.new(Binary(found[0], code, found[1])), 0


def load_kernels(code: bytes, source: str) -> tuple[str, dict[str, Any] | None] | int:
    """Where the code is found, and its kernels by name: Python text is executed; None for machine code."""
    kernels = None
    if b"\0" not in code and b"import" in code:
        from ascend_sim.asc.kernel import Kernel

        if not os.path.exists(source):  # the kernel compiler reads the text of functions
            lines = code.decode(errors="replace").splitlines(keepends=True)
            source = f"<kernel binary {next(_texts)}>"
            linecache.cache[source] = (len(code), None, lines, source)
        scope: dict[str, Any] = {"__name__": "kernel_binary", "__file__": source}
        try:
            exec(compile(code, source, "exec"), scope)
        except Exception as error:
            kind = type(error).__name__
            return errors.fail(errors.RT_PARAM_INVALID, f"kernel program {source!r} fails: {kind}: {error}.")
        kernels = {name: value for name, value in scope.items() if isinstance(value, Kernel)}
        if not kernels:
            return errors.fail(errors.RT_PARAM_INVALID, f"kernel program {source!r} has no function marked asc.jit.")
    return source, kernels


def _options(options: list[Any]) -> int:
    for option in options:
        if not isinstance(option, dict) or "type" not in option:
            return errors.bad("options", option, 'dicts with "type" and "value"', code=errors.RT_PARAM_INVALID)
    return 0


@api("acl.rt.binary_load_from_file", "aclrtBinaryLoadFromFile", "api")
def binary_load_from_file(path: str, options: list[Any], /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    ret = _options(options)
    if ret:
        return 0, ret
    try:
        with open(path, "rb") as file:
            return _load(file.read(), path)
    except OSError as error:
        return 0, errors.bad("path", path, f"a kernel binary ({error.strerror})", code=errors.RT_PARAM_INVALID)


def _read(address: int, size: int, what: str) -> bytes | int:
    try:
        locate(system(), address, size, False, what)
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    return ctypes.string_at(address, size)


@api("acl.rt.binary_load_from_data", "aclrtBinaryLoadFromData", "api")
def binary_load_from_data(data_ptr: int, length: int, options: list[Any], /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    ret = _options(options)
    if ret:
        return 0, ret
    if data_ptr == 0 or length <= 0:
        return 0, errors.bad("data_ptr, length", (data_ptr, length), "the address and size of a kernel binary")
    code = _read(data_ptr, length, "data_ptr")
    return (0, code) if isinstance(code, int) else _load(code, "data")


@api("acl.rt.create_binary", "aclrtCreateBinary")
def create_binary(data_ptr: int, length: int, /) -> int:
    if data_ptr == 0 or length <= 0:
        errors.bad("data_ptr, len", (data_ptr, length), "the address and size of a kernel binary")
        return 0
    return handles.new(BinaryData(data_ptr, length))


@api("acl.rt.destroy_binary", "aclrtDestroyBinary")
def destroy_binary(binary: int, /) -> int:
    if find(binary, BinaryData, "acl.rt.create_binary") is None:
        return errors.RT_PARAM_INVALID
    handles.drop(binary)
    return 0


@api("acl.rt.binary_load", "aclrtBinaryLoad", "api")
def binary_load(binary: int, /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    found = find(binary, BinaryData, "acl.rt.create_binary")
    if found is None:
        return 0, errors.RT_PARAM_INVALID
    code = _read(found.address, found.size, "data of the binary")
    return (0, code) if isinstance(code, int) else _load(code, "data")


@api("acl.rt.binary_unload", "aclrtBinaryUnLoad", "api")
def binary_unload(bin_handle: int, /) -> int:
    if find(bin_handle, Binary, "acl.rt.binary_load_from_file") is None:
        return errors.RT_PARAM_INVALID
    handles.drop(bin_handle)
    return 0


@api("acl.rt.binary_get_function", "aclrtBinaryGetFunction", "api")
def binary_get_function(bin_handle: int, kernel_name: str, /) -> tuple[int, int]:
    binary = find(bin_handle, Binary, "acl.rt.binary_load_from_file")
    if binary is None:
        return 0, errors.RT_PARAM_INVALID
    if not kernel_name:
        return 0, errors.bad("kernel_name", kernel_name, "the name of a kernel")
    if binary.kernels is not None and kernel_name not in binary.kernels:
        known = ", ".join(binary.kernels)
        return 0, errors.bad("kernel_name", kernel_name, f"one of {known}", code=errors.RT_PARAM_INVALID)
    return handles.new(Function(binary, kernel_name)), 0


@api("acl.rt.register_cpu_func", "aclrtRegisterCpuFunc", "api")
def register_cpu_func(bin_handle: int, func_name: str, kernel_name: str, /) -> tuple[int, int]:
    binary = find(bin_handle, Binary, "acl.rt.binary_load_from_data")
    if binary is None:
        return 0, errors.RT_PARAM_INVALID
    if not func_name or not kernel_name:
        return 0, errors.bad("func_name, kernel_name", (func_name, kernel_name), "names", code=errors.RT_PARAM_INVALID)
    if binary.kernels is not None:
        return 0, errors.fail(errors.RT_PARAM_INVALID, f"{binary.source!r} holds AI Core kernels, none for the AI CPU.")
    return handles.new(Function(binary, kernel_name, cpu=True)), 0


@api("acl.rt.get_function_name", "aclrtGetFunctionName")
def get_function_name(func_handle: int, max_len: int, /) -> tuple[str, int]:
    if max_len >= 1024:
        raise ValueError(f"max_len must be below 1024, got {max_len}")
    found = find(func_handle, Function, "acl.rt.binary_get_function")
    return ("", errors.RT_PARAM_INVALID) if found is None else (found.name[: max(0, max_len)], 0)


@api("acl.rt.get_function_addr", "aclrtGetFunctionAddr", "api")
def get_function_addr(func_handle: int, /) -> tuple[int, int, int]:
    """Addresses in the device's code space: they identify the function and cannot be read."""
    found = find(func_handle, Function, "acl.rt.binary_get_function")
    if found is None:
        return 0, 0, errors.RT_PARAM_INVALID
    if found.binary.kernels is None:
        return func_handle, 0 if not system().soc.chip.split_cores else func_handle, 0
    from ascend_sim.asc.kernel import kernel_kind

    kind, _ = kernel_kind(found.binary.kernels[found.name], system().soc)
    return 0 if kind == "AIV" else func_handle, func_handle if kind in ("AIV", "MIX") else 0, 0


# -- lists of arguments ------------------------------------------------------------------------------------


@api("acl.rt.kernel_args_init", "aclrtKernelArgsInit", "api")
def kernel_args_init(func_handle: int, /) -> tuple[int, int]:
    found = find(func_handle, Function, "acl.rt.binary_get_function")
    return (0, errors.RT_PARAM_INVALID) if found is None else (handles.new(KernelArgs(found)), 0)


@api("acl.rt.kernel_args_get_handle_mem_size", "aclrtKernelArgsGetHandleMemSize", "api")
def kernel_args_get_handle_mem_size(func_handle: int, /) -> tuple[int, int]:
    found = find(func_handle, Function, "acl.rt.binary_get_function")
    return (0, errors.RT_PARAM_INVALID) if found is None else (_ARGS_HANDLE_BYTES, 0)


@api("acl.rt.kernel_args_get_mem_size", "aclrtKernelArgsGetMemSize", "api")
def kernel_args_get_mem_size(func_handle: int, user_args_size: int, /) -> tuple[int, int]:
    if find(func_handle, Function, "acl.rt.binary_get_function") is None:
        return 0, errors.RT_PARAM_INVALID
    if user_args_size < 0:
        return 0, errors.bad("user_args_size", user_args_size, "at least 0", code=errors.RT_PARAM_INVALID)
    return -(-user_args_size // _ALIGN) * _ALIGN + _SYSTEM_ARGS_BYTES, 0


_user_memory: dict[int, KernelArgs] = {}  # lists whose handle is an address of the program


def forget_all() -> None:
    """Tests: start over."""
    _user_memory.clear()


@api("acl.rt.kernel_args_init_by_user_mem", "aclrtKernelArgsInitByUserMem", "api")
def kernel_args_init_by_user_mem(func_handle: int, args_handle: int, host_mem: int, size: int, /) -> int:
    found = find(func_handle, Function, "acl.rt.binary_get_function")
    if found is None:
        return errors.RT_PARAM_INVALID
    for address, nbytes, what in ((args_handle, _ARGS_HANDLE_BYTES, "args_handle"), (host_mem, size, "host_mem")):
        if address == 0 or nbytes < 0:
            return errors.bad(what, address, "the address of host memory", code=errors.RT_PARAM_INVALID)
        try:
            locate(system(), address, nbytes, True, what)
        except BadAddress as error:
            return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    _user_memory[args_handle] = KernelArgs(found)
    return 0


def args_of(handle: int) -> KernelArgs | None:
    """The list of arguments behind a handle or behind memory of the program."""
    found = _user_memory.get(handle)
    if found is None:
        found = find(handle, KernelArgs, "acl.rt.kernel_args_init")
    return found


def _open(handle: int) -> KernelArgs | None:
    found = args_of(handle)
    if found is not None and found.final:
        errors.fail(errors.RT_PARAM_INVALID, "the arguments were finalized before.")
        return None
    return found


@api("acl.rt.kernel_args_append", "aclrtKernelArgsAppend", "api")
def kernel_args_append(args_handle: int, param_ptr: int, size: int, /) -> tuple[int, int]:
    found = _open(args_handle)
    if found is None:
        return 0, errors.RT_PARAM_INVALID
    if size <= 0:
        return 0, errors.bad("size", size, "at least 1 byte", code=errors.RT_PARAM_INVALID)
    data = _read(param_ptr, size, "param_ptr")
    if isinstance(data, int):
        return 0, data
    found.values.append(data)
    return handles.new(Param(found, len(found.values) - 1)), 0


@api("acl.rt.kernel_args_append_place_holder", "aclrtKernelArgsAppendPlaceHolder", "api")
def kernel_args_append_place_holder(args_handle: int, /) -> tuple[int, int]:
    found = _open(args_handle)
    if found is None:
        return 0, errors.RT_PARAM_INVALID
    found.values.append(None)
    return handles.new(Param(found, len(found.values) - 1)), 0


def _param(args_handle: int, param_handle: int) -> Param | None:
    args = args_of(args_handle)
    if args is None:
        return None
    found = find(param_handle, Param, "acl.rt.kernel_args_append")
    if found is None:
        return None
    if found.args is not args:
        errors.fail(errors.RT_PARAM_INVALID, f"parameter {param_handle:#x} belongs to another list of arguments.")
        return None
    return found  # type: ignore[no-any-return]


@api("acl.rt.kernel_args_get_place_holder_buffer", "aclrtKernelArgsGetPlaceHolderBuffer", "api")
def kernel_args_get_place_holder_buffer(args_handle: int, param_handle: int, size: int, /) -> tuple[int, int]:
    param = _param(args_handle, param_handle)
    if param is None:
        return 0, errors.RT_PARAM_INVALID
    if isinstance(param.args.values[param.index], bytes):
        return 0, errors.fail(errors.RT_PARAM_INVALID, f"parameter {param_handle:#x} is a value, not a placeholder.")
    if not 0 < size <= 1 << 20:
        return 0, errors.bad("size", size, "1 B to 1 MiB", code=errors.RT_PARAM_INVALID)
    room = ctypes.create_string_buffer(size)
    param.args.values[param.index] = room
    return ctypes.addressof(room), 0


@api("acl.rt.kernel_args_para_update", "aclrtKernelArgsParaUpdate", "api")
def kernel_args_para_update(args_handle: int, param_handle: int, param_ptr: int, size: int, /) -> int:
    param = _param(args_handle, param_handle)
    if param is None:
        return errors.RT_PARAM_INVALID
    old = param.args.values[param.index]
    if not isinstance(old, bytes):
        return errors.fail(errors.RT_PARAM_INVALID, f"parameter {param_handle:#x} is a placeholder, not a value.")
    if size != len(old):
        return errors.bad("size", size, f"{len(old)}, the size it was appended with", code=errors.RT_PARAM_INVALID)
    data = _read(param_ptr, size, "param_ptr")
    if isinstance(data, int):
        return data
    param.args.values[param.index] = data
    return 0


@api("acl.rt.kernel_args_finalize", "aclrtKernelArgsFinalize", "api")
def kernel_args_finalize(args_handle: int, /) -> int:
    found = args_of(args_handle)
    if found is None:
        return errors.RT_PARAM_INVALID
    found.final = True
    return 0
