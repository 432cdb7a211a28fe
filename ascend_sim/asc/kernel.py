"""Kernels as users write them: ``@jit`` and ``kernel[cores, stream](...)``.

Arguments of a launch that are arrays (NumPy, CPU torch tensors, device pointers) become global memory, changed in
place; the others are constants. How a launch is carried out is decided by the device in use
(`ascend_sim.asc.device`).
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc.launch import Bytes, Gm, Launch
from ascend_sim.asc.scalars import Int
from ascend_sim.asc.source import looping
from ascend_sim.asc.tensor import GlobalAddress
from ascend_sim.isa.dtypes import as_dtype
from ascend_sim.isa.legality import rules_for
from ascend_sim.soc import Soc

SYS_WORKSPACE_BYTES = 16 << 20  # what the framework reserves for its own use
OPTIONS = frozenset({
    "always_compile", "auto_sync", "auto_sync_log", "bisheng_options", "debug", "insert_sync", "kernel_type",
    "matmul_cube_only", "opt_level", "print_ir_before_all", "run_passes", "strip_loc", "verify_sync",
})  # fmt: skip


class Kernel:
    """A function marked with `jit`. Inside a kernel it is called like a function; from the host it is launched with
    ``kernel[cores, stream](*arguments)``. ``function`` is what runs, ``options`` are those of the mark."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None) -> None:
        self.source = function
        self.function = looping(function)
        self.options = dict(options or {})
        unknown = sorted(set(self.options) - OPTIONS)
        if unknown:
            raise TypeError(f"jit: option {unknown[0]!r} is not known; there are {', '.join(sorted(OPTIONS))}")
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getitem__(self, options: Any) -> Callable[..., None]:
        cores, stream = launch_options(options)
        return lambda *args, **kwargs: launch(self, cores, stream, args, kwargs)

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}>"


@dataclass(frozen=True)
class LaunchOptions:
    """``kernel[LaunchOptions(cores, stream)]``, the long form of ``kernel[cores, stream]``."""

    core_num: int = 0
    stream: Any = None


def launch_options(options: Any) -> tuple[int, Any]:
    """(cores, stream) of ``kernel[...]``. Raises TypeError for anything else than one or two options."""
    if isinstance(options, LaunchOptions):
        options = (options.core_num, options.stream)
    given = options if isinstance(options, tuple) else (options,)
    if not 1 <= len(given) <= 2 or isinstance(given[0], bool) or not isinstance(given[0], int | np.integer):
        raise TypeError(f"kernel[{options!r}]: expected kernel[cores] or kernel[cores, stream]")
    return int(given[0]), given[1] if len(given) == 2 else None


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Mark a kernel: ``@asc.jit`` or ``@asc.jit(option=...)``. ``kernel_type``, ``matmul_cube_only`` and
    ``insert_sync`` decide how it is launched; the compiler's other options are accepted."""
    if function is None:
        return lambda f: Kernel(f, options)
    return Kernel(function, options)


_CUBE_NAMES = frozenset({"mmad", "load_data", "fixpipe", "load_data_with_transpose", "mmad_with_sparse"})
_MATRIX_NAMES = frozenset({"Matmul", "register_matmul"})
_VECTOR_NAMES = frozenset({
    "add", "sub", "mul", "div", "adds", "muls", "exp", "ln", "relu", "cast", "duplicate", "reduce_sum", "reduce_max",
    "leaky_relu", "abs", "select", "compare", "whole_reduce_sum", "sqrt",
})  # fmt: skip

# kernel_type -> (kind, vector cores per cube core)
_TYPES = {
    "AIV_ONLY": ("AIV", None), "AIC_ONLY": ("AIC", None), "MIX_AIV_HARD_SYNC": ("AIV", None),
    "MIX_AIC_HARD_SYNC": ("AIC", None), "MIX_AIV_1_0": ("AIV", None), "MIX_AIC_1_0": ("AIC", None),
    "MIX_AIC_1_1": ("MIX", 1), "MIX_AIC_1_2": ("MIX", 2),
}  # fmt: skip


def names_of(function: Callable[..., Any]) -> frozenset[str]:
    """Every name a kernel and the functions it calls mention."""
    names: set[str] = set()
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo:
        f = todo.pop()
        f = f.function if isinstance(f, Kernel) else f
        code = getattr(f, "__code__", None)
        if code is None or id(code) in seen:
            continue
        seen.add(id(code))
        names.update(code.co_names)
        scope = getattr(f, "__globals__", {})
        called = (scope.get(name) for name in code.co_names)
        todo.extend(c for c in called if isinstance(c, Kernel) or inspect.isfunction(c))
    return frozenset(names)


def kernel_kind(kernel: Kernel, soc: Soc) -> tuple[str, int | None]:
    """Kind of a user launch and vector cores per cube core (None: the chip's).

    ``kernel_type`` decides when given; else the instructions that the kernel and the functions it calls name: AIC, AIV
    or MIX, as the compiler finds out.
    """
    if not rules_for(soc).split:
        return "AICORE", None
    asked = kernel.options.get("kernel_type")
    if asked is not None:
        name = str(getattr(asked, "name", asked)).upper()
        plain = {"AIC": "AIC_ONLY", "AIV": "AIV_ONLY", "MIX": "MIX_AIC_1_2"}
        if plain.get(name, name) not in _TYPES:
            raise ValueError(f"kernel {kernel.__name__}: kernel_type = {asked!r}: expected one of {', '.join(_TYPES)}")
        return _TYPES[plain.get(name, name)]
    names = names_of(kernel.function)
    if kernel.options.get("matmul_cube_only"):
        return "AIC", None
    if names & _MATRIX_NAMES:  # the matrix object lives on the vector cores and asks the cube core
        return "MIX", None
    cube, vector = bool(names & _CUBE_NAMES), bool(names & _VECTOR_NAMES)
    if cube and not vector:
        return "AIC", None
    return ("MIX" if cube else "AIV"), None


def user_launch(
    kernel: Kernel, cores: int, args: Sequence[Any], kwargs: dict[str, Any], soc: Soc,
    memory: Callable[[int], Bytes] | None = None,
) -> tuple[Launch, list[Bytes]]:  # fmt: skip
    """The `Launch` of ``kernel[cores](*args)`` and the bytes of its arrays. ``memory(address)`` gives the bytes behind
    a device pointer."""
    bound = inspect.signature(kernel.source).bind(*args, **kwargs)
    bound.apply_defaults()
    gm: list[Gm] = []
    buffers: list[Bytes] = []
    names: list[str] = []
    consts: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        found = as_memory(kernel, name, value, memory)
        if found is None:
            plain = value.item() if isinstance(value, np.generic) else value
            consts[name] = Int(plain) if type(plain) is int else plain
            continue
        dtype, data = found
        gm.append((name, dtype, data.nbytes, "inout"))
        buffers.append(data)
        names.append(name)
    function = kernel.function
    used = names_of(function)
    workspace = bool(used & {"get_sys_workspace", *_MATRIX_NAMES})
    if workspace:
        gm.append(("system workspace", "uint8", SYS_WORKSPACE_BYTES, "workspace"))
        buffers.append(np.zeros(SYS_WORKSPACE_BYTES, np.uint8))

    def entry(*addresses: GlobalAddress, **constants: Any) -> Any:
        if workspace:
            from ascend_sim.asc.machine import current

            current().sys_workspace = addresses[-1]
        return function(**dict(zip(names, addresses, strict=False)), **constants)

    kind, ratio = kernel_kind(kernel, soc)
    description = Launch(
        entry, cores, kind, gm=gm, consts=consts, soc=soc, name=kernel.__name__, debug=True, cooperative=True,
        ratio=ratio, auto_sync=bool(kernel.options.get("insert_sync")),
    )  # fmt: skip
    return description, buffers


def as_memory(
    kernel: Kernel, name: str, value: Any, memory: Callable[[int], Bytes] | None
) -> tuple[Any, Bytes] | None:
    """(element type, bytes) of an argument that is global memory, or None for a constant."""
    array = as_array(value)
    if array is not None:
        if not array.flags.c_contiguous:
            raise ValueError(f"launch of {kernel.__name__}: argument {name!r} must be contiguous")
        return as_dtype(array.dtype), array.reshape(-1).view(np.uint8)
    address = value.value if isinstance(value, ctypes.c_void_p) else None
    wanted = inspect.signature(kernel.source).parameters[name].annotation
    if address is None and type(value) is int and wanted in (GlobalAddress, "asc.GlobalAddress", "GlobalAddress"):
        address = value
    if address is None or memory is None:
        return None
    return "uint8", memory(address)


def as_array(value: Any) -> NDArray[Any] | None:
    """The NumPy array behind an argument (NumPy array, CPU torch tensor, bytes), or None for scalars and structures.
    Immutable bytes are copied."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bytes | bytearray):
        return np.frombuffer(value if isinstance(value, bytearray) else bytearray(value), np.uint8)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy"):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            import ml_dtypes
            import torch  # type: ignore[import-not-found, unused-ignore]

            return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
        return value.numpy()  # type: ignore[no-any-return]
    return None


def launch(kernel: Kernel, cores: int, stream: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Carry out ``kernel[cores, stream](...)`` on the device in use."""
    from ascend_sim.asc.device import device

    device().launch(kernel, cores, stream, args, kwargs)
