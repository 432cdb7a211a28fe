"""acl.rt: kernel binaries. Handles and arguments are kept; launching machine code is what cannot be simulated."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from typing import Any

from acl import errors, handles
from acl._api import api
from acl._common import current, on_stream, system
from ascend_sim.runtime.copies import BadAddress, locate


@dataclass
class Binary:
    source: str


@dataclass
class Function:
    binary: Binary
    name: str


@dataclass
class KernelArgs:
    function: Function
    values: list[bytes] = field(default_factory=list)
    final: bool = False


def _find(handle: int, kind: type[Any], maker: str) -> Any:
    found = handles.get(handle, kind)
    if found is None:
        errors.fail(errors.RT_PARAM_INVALID, handles.story(handle, kind.__name__, maker))
    return found


@api("acl.rt.binary_load_from_file", "aclrtBinaryLoadFromFile", "api")
def binary_load_from_file(path: str, options: list[Any], /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    if not os.path.isfile(path):
        return 0, errors.bad("path", path, "a kernel binary", code=errors.RT_PARAM_INVALID)
    return handles.new(Binary(path)), 0


@api("acl.rt.binary_load_from_data", "aclrtBinaryLoadFromData", "api")
def binary_load_from_data(data_ptr: int, length: int, options: list[Any], /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    if data_ptr == 0 or length <= 0:
        return 0, errors.bad("data_ptr, length", (data_ptr, length), "the address and size of a kernel binary")
    return handles.new(Binary("data")), 0


@api("acl.rt.binary_unload", "aclrtBinaryUnLoad", "api")
def binary_unload(bin_handle: int, /) -> int:
    if _find(bin_handle, Binary, "acl.rt.binary_load_from_file") is None:
        return errors.RT_PARAM_INVALID
    handles.drop(bin_handle)
    return 0


@api("acl.rt.binary_get_function", "aclrtBinaryGetFunction", "api")
def binary_get_function(bin_handle: int, kernel_name: str, /) -> tuple[int, int]:
    binary = _find(bin_handle, Binary, "acl.rt.binary_load_from_file")
    if binary is None:
        return 0, errors.RT_PARAM_INVALID
    if not kernel_name:
        return 0, errors.bad("kernel_name", kernel_name, "the name of a kernel")
    return handles.new(Function(binary, kernel_name)), 0


@api("acl.rt.get_function_name", "aclrtGetFunctionName")
def get_function_name(func_handle: int, max_len: int, /) -> tuple[str, int]:
    if max_len >= 1024:
        raise ValueError(f"max_len must be below 1024, got {max_len}")
    found = _find(func_handle, Function, "acl.rt.binary_get_function")
    return ("", errors.RT_PARAM_INVALID) if found is None else (found.name[:max_len], 0)


@api("acl.rt.kernel_args_init", "aclrtKernelArgsInit", "api")
def kernel_args_init(func_handle: int, /) -> tuple[int, int]:
    found = _find(func_handle, Function, "acl.rt.binary_get_function")
    return (0, errors.RT_PARAM_INVALID) if found is None else (handles.new(KernelArgs(found)), 0)


@api("acl.rt.kernel_args_append", "aclrtKernelArgsAppend", "api")
def kernel_args_append(args_handle: int, param_ptr: int, size: int, /) -> tuple[int, int]:
    found = _find(args_handle, KernelArgs, "acl.rt.kernel_args_init")
    if found is None:
        return 0, errors.RT_PARAM_INVALID
    if found.final:
        return 0, errors.fail(errors.RT_PARAM_INVALID, "the arguments were finalized before.")
    if size <= 0:
        return 0, errors.bad("size", size, "at least 1 byte", code=errors.RT_PARAM_INVALID)
    try:
        locate(system(), param_ptr, size, False, "param_ptr")
    except BadAddress as error:
        return 0, errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    found.values.append(ctypes.string_at(param_ptr, size))
    return handles.new(found.values[-1]), 0


@api("acl.rt.kernel_args_finalize", "aclrtKernelArgsFinalize", "api")
def kernel_args_finalize(args_handle: int, /) -> int:
    found = _find(args_handle, KernelArgs, "acl.rt.kernel_args_init")
    if found is None:
        return errors.RT_PARAM_INVALID
    found.final = True
    return 0


@api("acl.rt.launch_kernel_with_config", "aclrtLaunchKernelWithConfig", "launch")
def launch_kernel_with_config(
    func_handle: int, block_dim: int, stream: int, cfg: object, args_handle: int, reserve: object, /
) -> int:
    function = _find(func_handle, Function, "acl.rt.binary_get_function")
    if function is None:
        return errors.RT_PARAM_INVALID
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if block_dim <= 0:
        return errors.bad("block_dim", block_dim, "at least 1 block", code=errors.RT_PARAM_INVALID)
    if args_handle and _find(args_handle, KernelArgs, "acl.rt.kernel_args_init") is None:
        return errors.RT_PARAM_INVALID
    return errors.fail(
        errors.RT_FEATURE_NOT_SUPPORT,
        f"kernel {function.name!r} of {function.binary.source!r} is machine code for the chip, which is not simulated; "
        "write the kernel in ascend_sim.asc.",
    )
