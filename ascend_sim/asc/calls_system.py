"""Scalar arithmetic, caches, system registers, output and traps of the kernel language."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from ascend_sim.asc.calls_move import check_gm, set_atomic_none
from ascend_sim.asc.calls_vector import reset_mask, set_mask_norm
from ascend_sim.asc.machine import current
from ascend_sim.asc.scalars import Int
from ascend_sim.asc.tensor import GlobalAddress, GlobalTensor, LocalTensor, Tensor
from ascend_sim.isa.dtypes import as_dtype, cast_values, float16, int32
from ascend_sim.isa.enums import AtomicDtype, AtomicOp, CacheLine, DcciDst, RoundMode, TPosition
from ascend_sim.isa.instr import Pipe, ScalarWork
from ascend_sim.isa.legality import InstructionError

SCALAR = ScalarWork("scalar")
SET_REGISTER = ScalarWork("set_register")
CACHE_LINE = 64  # bytes of a line of the scalar unit's data cache
OUTPUT_LIMIT = 30 * 1024  # bytes one dump may have
_MASK64 = (1 << 64) - 1
UNSUPPORTED = "images are prepared by the host here (acl.media, AIPP of a model); the instruction is not simulated"


class KernelTrap(RuntimeError):
    """A kernel called `trap`."""


# ---- scalar unit


def scalar_cast(value_in: float, dtype: Any, round_mode: RoundMode) -> Any:
    """A float32 scalar as half or int32, rounded (conv of the scalar unit)."""
    kind = as_dtype(dtype)
    if kind not in (float16, int32):
        raise InstructionError("scalar_cast", "dtype", kind, "float32 becomes float16 or int32")
    current().emit(Pipe.S, SCALAR)
    value = cast_values(np.asarray([value_in], np.float32), kind, int(round_mode))[0]
    return Int(value) if kind is int32 else float(value)


def _bit(call: str, count_value: int) -> int:
    if int(count_value) not in (0, 1):
        raise InstructionError(call, "count_value", count_value, "0 or 1")
    return int(count_value)


def scalar_get_count_of_value(value_in: int, count_value: int) -> Int:
    """How many of the 64 bits are ``count_value`` (bcnt0, bcnt1)."""
    ones = bin(int(value_in) & _MASK64).count("1")
    current().emit(Pipe.S, SCALAR)
    return Int(ones if _bit("scalar_get_count_of_value", count_value) else 64 - ones)


def scalar_count_leading_zero(value_in: int) -> Int:
    """Leading zeros of 64 bits (clz); 64 for zero."""
    current().emit(Pipe.S, SCALAR)
    return Int(64 - (int(value_in) & _MASK64).bit_length())


def count_bits_cnt_same_as_sign_bit(value_in: int) -> Int:
    """Bits behind the sign bit that equal it (sflbits); -1 when all do."""
    current().emit(Pipe.S, SCALAR)
    value = int(value_in) & _MASK64
    body = value & (_MASK64 >> 1)
    if value >> 63:
        body ^= _MASK64 >> 1
    return Int(63 - body.bit_length() if body else -1)


def scalar_get_sff_value(value_in: int, count_value: int) -> Int:
    """Lowest bit that is ``count_value`` (sff0, sff1); -1 when there is none."""
    current().emit(Pipe.S, SCALAR)
    value = int(value_in) & _MASK64
    if not _bit("scalar_get_sff_value", count_value):
        value ^= _MASK64
    return Int((value & -value).bit_length() - 1)


# ---- caches: cost only


def data_cache_clean_and_invalid(
    entire_type: CacheLine, dst: Any, dcci_dst: DcciDst | None = None, *rest: Any
) -> None:
    """Write back and drop lines of the scalar unit's data cache. Called ``(entire_type, dst)`` or with ``dcci_dst``
    before ``dst``. Scalar accesses are coherent here: it only takes time."""
    core = current()
    call = "data_cache_clean_and_invalid"
    if isinstance(dst, DcciDst):
        dst, dcci_dst = dcci_dst, dst
    if core.rules.family == "910A":
        raise InstructionError(call, "chip", core.rules.name, "does not exist on this chip")
    if not isinstance(dst, GlobalTensor | LocalTensor):
        raise InstructionError(call, "dst", dst, "expected a tensor")
    if dcci_dst == DcciDst.CACHELINE_ATOMIC:
        raise InstructionError(call, "dcci_dst", DcciDst(dcci_dst).name, "exists on later chips only")
    lines = 1 if entire_type == CacheLine.SINGLE_CACHE_LINE else 16384 // CACHE_LINE
    core.emit(Pipe.S, ScalarWork("data_cache", lines))


def data_cache_preload(src: GlobalTensor, cache_offset: int) -> None:
    """Bring one line of global memory into the scalar unit's data cache."""
    core = current()
    if core.rules.family == "910A":
        raise InstructionError("data_cache_preload", "chip", core.rules.name, "does not exist on this chip")
    at = src[0:]
    at.addr = src.addr + int(cache_offset)
    check_gm("data_cache_preload", at, 1)
    core.emit(Pipe.S, ScalarWork("data_cache"))


def icache_preload(pre_fetch_len: int) -> None:
    """Bring instructions into the instruction cache, ``pre_fetch_len`` x 2 KiB."""
    core = current()
    limit = (32 if core.kind == "AIC" else 16) // 2 - 1
    core.rules.require_range("icache_preload", "pre_fetch_len", int(pre_fetch_len), 0, limit)
    core.emit(Pipe.S, ScalarWork("icache_preload"))


def get_icache_preload_status() -> Int:
    """0: the preload is done."""
    current().emit(Pipe.S, SCALAR)
    return Int(0)


# ---- system


def get_program_counter() -> Int:
    """Program counter: 0, kernels have no machine code here."""
    core = current()
    core.emit(Pipe.S, SCALAR)
    core.value_dependent = True
    return Int(0)


def get_arch_version(core_version: Any = None) -> Int:
    """Number of the core's architecture (2201 for 910B)."""
    core = current()
    core.emit(Pipe.S, SCALAR)
    return Int(core.soc.chip.npu_arch)


def get_sys_workspace() -> GlobalAddress:
    """Global memory the framework reserves for its own use."""
    core = current()
    if core.sys_workspace is None:
        raise InstructionError("get_sys_workspace", "workspace", None, "set_sys_workspace was not called")
    workspace: GlobalAddress = core.sys_workspace
    return workspace


def set_sys_workspace(workspace: GlobalAddress) -> None:
    """Name the global memory `get_sys_workspace` returns."""
    current().sys_workspace = workspace


def set_hccl_context(index: int, context: GlobalAddress) -> None:
    """Remember a communication context."""
    core = current()
    core.rules.require_range("set_hccl_context", "index", int(index), 0, 1)
    core.contexts[int(index)] = context


def get_hccl_context(index: int) -> GlobalAddress:
    """The communication context remembered under ``index``."""
    core = current()
    if int(index) not in core.contexts:
        raise InstructionError("get_hccl_context", "index", index, "set_hccl_context was not called for it")
    context: GlobalAddress = core.contexts[int(index)]
    return context


def init_soc_state() -> None:
    """Registers as at the start of a kernel: full mask, normal mode, no atomic operation."""
    set_atomic_none()
    set_mask_norm()
    reset_mask()


def check_local_memory_ia(check_params: Any) -> None:
    """Watch an address range of the local memory; the sanitizer watches all of it."""
    current().emit(Pipe.S, SET_REGISTER)


_STORE_TYPES = {
    AtomicDtype.ATOMIC_F32: "float32", AtomicDtype.ATOMIC_F16: "float16", AtomicDtype.ATOMIC_S16: "int16",
    AtomicDtype.ATOMIC_S32: "int32", AtomicDtype.ATOMIC_S8: "int8", AtomicDtype.ATOMIC_BF16: "bfloat16",
}  # fmt: skip


def set_store_atomic_config(atomic_type: AtomicDtype, atomic_op: AtomicOp) -> None:
    """Atomic mode of writes to global memory by its register fields."""
    from ascend_sim.asc.calls_move import set_atomic_add

    if atomic_type == AtomicDtype.ATOMIC_NONE:
        set_atomic_none()
    else:
        set_atomic_add(_STORE_TYPES[AtomicDtype(atomic_type)])


def get_store_atomic_config() -> tuple[Int, Int]:
    """(type, operation) of the atomic mode."""
    core = current()
    core.emit(Pipe.S, SCALAR)
    if core.atomic is None:
        return Int(0), Int(0)
    kinds = {name: kind for kind, name in _STORE_TYPES.items()}
    return Int(kinds[core.atomic[1].name]), Int(("add", "max", "min").index(core.atomic[0]))


def metrics_prof_start() -> None:
    """Begin of a profiled range: recorded as a scalar instruction of that name."""
    current().emit(Pipe.S, ScalarWork("metrics_prof_start"))


def metrics_prof_stop() -> None:
    """End of a profiled range."""
    current().emit(Pipe.S, ScalarWork("metrics_prof_stop"))


def trap() -> None:
    """Stop the kernel. Raises `KernelTrap` when values are computed."""
    core = current()
    core.emit(Pipe.S, ScalarWork("trap"))
    if core.memory is not None:
        raise KernelTrap(f"trap on {core.kind} {core.sub_block_idx} of block {core.block_idx}")


# ---- output


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def printf(desc: str, *params: Any) -> None:
    """Formatted output of a kernel to standard output, with C's conversions."""
    core = current()
    core.emit(Pipe.S, ScalarWork("printf"))
    if core.memory is None:
        return
    pattern = re.sub(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|ll|[hlzjt])?([a-zA-Z%])", _conversion, desc)
    try:
        _write(pattern % params if params else pattern.replace("%%", "%"))
    except (TypeError, ValueError) as error:
        raise InstructionError("printf", "params", params, f"do not fit the format {desc!r}: {error}") from error


def _conversion(match: re.Match[str]) -> str:
    flags, kind = match.groups()
    return f"%{flags}{ {'p': 'x', 'u': 'd', 'i': 'd', 'F': 'f'}.get(kind, kind)}"


def dump_tensor(tensor: Tensor, desc: int, dump_size: int, shape_info: Any = None) -> None:
    """Print ``dump_size`` elements of a tensor, labelled ``desc``, shaped like ``shape_info``."""
    _dump("dump_tensor", "DumpTensor", tensor, int(desc), 0, int(dump_size), shape_info)


def dump_acc_chk_point(tensor: Tensor, index: int, count_off: int, dump_size: int) -> None:
    """As `dump_tensor`, from element ``count_off``."""
    _dump("dump_acc_chk_point", "DumpAccChkPoint", tensor, int(index), int(count_off), int(dump_size), None)


def _dump(call: str, title: str, tensor: Tensor, label: int, offset: int, count: int, shape: Any) -> None:
    core = current()
    core.rules.require_memory(call, "tensor", tensor.mem, "UB", "L1", "L0C", "GM")
    size = tensor.dtype.size
    if count < 0 or offset < 0 or (offset + count) * size > tensor.end - tensor.addr:
        given = f"{offset}..{offset + count}"
        raise InstructionError(call, "dump_size", given, f"the tensor has {tensor.get_size()} elements")
    if count * size > OUTPUT_LIMIT:
        raise InstructionError(call, "dump_size", count, f"one dump has at most {OUTPUT_LIMIT} bytes")
    core.emit(Pipe.S, ScalarWork("dump", max(count, 1)), None, tensor)
    if core.memory is None:
        return
    values = core.view(tensor[offset:]).flat(count).copy()
    dims = tuple(shape.dims) if shape is not None and shape.dims else (count,)
    total = int(np.prod(dims))
    text = [f"{float(v):f}" if tensor.dtype.is_float() else str(int(v)) for v in values[:total]]
    text += ["-"] * (total - len(text))
    addr = tensor.addr + offset * size
    _write(
        f"{title}: desc={label}, addr={addr:x}, data_type={tensor.dtype.name}, position={tensor.mem}, "
        f"dump_size={count}\n{_brackets(np.array(text, object).reshape(dims))}\n"
    )


def _brackets(values: Any) -> str:
    if values.ndim == 1:
        return "[" + ", ".join(values) + "]"
    return "[" + ",\n".join(_brackets(row) for row in values) + "]"


def print_time_stamp(desc_id: int) -> None:
    """A labelled mark in the trace; time is not known while instructions are issued."""
    current().emit(Pipe.S, ScalarWork(f"time_stamp_{int(desc_id)}"))


def inline(code: str, args: Any = None, before_function: bool = False) -> None:
    """Source text for the compiler of the hardware: it cannot run here. Raises InstructionError."""
    raise InstructionError("inline", "code", repr(code), "text of another language cannot be simulated")


def set_pad_value(padding_value: Any, pos: TPosition = TPosition.MAX) -> None:
    """What `data_copy_pad` puts into padding when its parameters do not say (``is_pad`` False)."""
    core = current()
    call = "set_pad_value"
    if not core.rules.split:
        raise InstructionError(call, "chip", core.rules.name, "does not exist on this chip")
    if pos not in (TPosition.MAX, TPosition.VECIN, TPosition.VECOUT):
        raise InstructionError(call, "pos", TPosition(pos).name, "VECIN or VECOUT")
    core.dma_pad = padding_value
    core.emit(Pipe.S, SET_REGISTER)

