"""Data movement: data_copy in all its forms, data_copy_pad, atomic mode."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import (
    DataCopyCO12DstParams,
    DataCopyEnhancedParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    DataCopyParams,
    InitConstValueParams,
    Nd2NzParams,
    Nz2NdParamsFull,
)
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor, Tensor
from ascend_sim.isa import fixpipe as fixpipe_semantics
from ascend_sim.isa import mte
from ascend_sim.isa.buffers import BLOCK, FRACTAL
from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.enums import BlockMode, DeqScale
from ascend_sim.isa.instr import MoveWork, Pipe, ScalarWork, Work
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError

SET_REGISTER = ScalarWork("set_register")
NORMAL = DataCopyEnhancedParams()

# pipe of every path; the FIX and V exits of the cube have their own functions
PATH_PIPES = {
    "GM_UB": Pipe.MTE2, "GM_L1": Pipe.MTE2, "GM_L0A": Pipe.MTE2, "GM_L0B": Pipe.MTE2,
    "UB_GM": Pipe.MTE3, "UB_L1": Pipe.MTE3, "L1_GM": Pipe.MTE3, "UB_UB": Pipe.V, "L1_UB": Pipe.MTE1,
    "L1_BT": Pipe.MTE1, "L1_FB": Pipe.FIX, "UB_L0C": Pipe.V, "L0C_UB": Pipe.V, "L1_L0C": Pipe.MTE1,
}  # fmt: skip
_INSTRUCTION = {
    "GM_UB": "data_move_out2ub", "GM_L1": "data_move_out2l1", "UB_GM": "data_move_ub2out", "UB_L1": "data_move_ub2l1",
    "L1_UB": "data_move_l12ub", "L1_BT": "data_move_l12bt", "L1_GM": "data_move_l12out", "L1_FB": "fix_pipe_l12fb",
    "UB_UB": "data_move_ub2ub", "L0C_UB": "data_move_l0c2ub",
}  # fmt: skip


def gm_align(addr: int) -> int:
    """Alignment class of a global address: 512, 32, or the power of two below."""
    if not addr & 511:
        return 512
    return 32 if not addr & 31 else addr & -addr


def pitch_align(pitch: int) -> int:
    return 512 if not pitch else gm_align(pitch)


def check_gm(call: str, t: GlobalTensor, nbytes: int) -> None:
    """Global extent of one transfer."""
    if t.addr < 0 or t.addr + nbytes > t.end:
        raise InstructionError(
            call, "global tensor", f"bytes {t.addr}..{t.addr + nbytes} of argument {t.arg}",
            f"runs past its end at byte {t.end}",
        )  # fmt: skip


def path_exists(rules: ChipRules, path: str) -> bool:
    """Whether the chip has this data path. 910B's vector cores have no ini entry for the unified buffer because the
    copy belongs to the separate vector core; the path exists there."""
    if path in ("GM_UB", "UB_GM", "UB_UB"):
        return True
    if path in ("UB_L1", "L1_UB"):
        return not rules.split
    if path in ("UB_L0C", "L0C_UB", "L1_L0C"):
        return not rules.fixpipe
    if path == "L1_GM":
        return rules.exists("data_move_l12out") or rules.arch in ("m100", "c100", "m200")
    if path in ("L1_BT", "L1_FB"):
        return bool(rules.sizes[path[3:]])
    return path in PATH_PIPES


def require_path(rules: ChipRules, call: str, path: str) -> None:
    if not path_exists(rules, path):
        raise InstructionError(call, "path", path.replace("_", " to "), f"does not exist on {rules.name}")


@lru_cache(maxsize=1 << 16)
def _check_copy(
    rules: ChipRules, src_mem: str, dst_mem: str, src_type: DataType, dst_type: DataType, params: DataCopyParams,
    src_local: tuple[int, int], dst_local: tuple[int, int], gm: int, align: int, atomic: bool,
) -> tuple[Pipe, Work, int, int]:  # fmt: skip
    """(pipe, work, source span, destination span in bytes)."""
    path = f"{src_mem}_{dst_mem}"
    require_path(rules, "data_copy", path)
    widen = dst_mem == "BT" and dst_type.name == "float32" and src_type.name in ("float16", "bfloat16")
    if src_type.size != dst_type.size and not widen:
        raise InstructionError("data_copy", "data types", f"{src_type} -> {dst_type}", "must have the same width")
    p = params
    rules.require_range("data_copy", "block_count", p.block_count, 0, 4095)
    for name, value in (("block_len", p.block_len), ("src_stride", p.src_stride), ("dst_stride", p.dst_stride)):
        rules.require_range("data_copy", name, value, 0, 65535)
    src_unit = dst_unit = len_unit = BLOCK
    if dst_mem == "BT":
        len_unit, dst_unit = 64, 64
    elif dst_mem == "FB":
        len_unit, dst_unit = 128, 128
    length = p.block_len * len_unit
    src_gap, dst_gap = p.src_stride * src_unit, p.dst_stride * dst_unit
    read = length // 2 if widen else length  # half and bf16 bias rows become float32 on the way
    sides = ((read, src_gap), (length, dst_gap))
    spans = [(p.block_count - 1) * (n + gap) + n if p.block_count else 0 for n, gap in sides]
    if src_mem != "GM":
        rules.require_span("data_copy", "src", src_mem, src_local[0], spans[0], src_local[1])
    if dst_mem != "GM":
        rules.require_span("data_copy", "dst", dst_mem, dst_local[0], spans[1], dst_local[1])
    gap = src_gap if src_mem == "GM" else dst_gap
    if p.block_count > 1 and gm >= 0:
        pitch = pitch_align(length + gap)
        align = min(align, pitch)
    mode = "atomic" if atomic else ""
    work = MoveWork(path, p.block_count, length, align if gm >= 0 else 512, gm, mode, src_type.name)
    return PATH_PIPES[path], work, spans[0], spans[1]


def data_copy(
    dst: Tensor, src: Tensor, params: Any = None, enhanced: Any = None, *rest: Any, count: int | None = None,
    repeat_params: Any = None, intri_params: Any = None, enhanced_params: Any = None, slice_list1: Any = None,
    slice_list2: Any = None, dim_value: int = 1,
) -> None:  # fmt: skip
    """Copy between memories.

    Third operand: ``count`` elements; `DataCopyParams` (bursts of 32-byte blocks); `Nd2NzParams` (global ND to Nz in
    L1); `Nz2NdParamsFull`; `DataCopyCO12DstParams` (L0C through the fixpipe); `DataCopyParams` with
    `DataCopyEnhancedParams` (L0C and unified buffer on coupled chips); two lists of `SliceInfo` and their dimension
    (pieces of a tensor between global memory and the unified buffer). Errors name instruction, operand and rule.
    """
    core = current()
    if slice_list1 is not None or (isinstance(params, list | tuple) and not hasattr(params, "_fields")):
        first, second = (slice_list1, slice_list2) if slice_list1 is not None else (params, enhanced)
        _copy_slices(core, dst, src, first, second, int(rest[0]) if rest else int(dim_value))
        return
    p: Any = params if params is not None else next((x for x in (repeat_params, intri_params) if x is not None), count)
    enhanced = enhanced if enhanced is not None else enhanced_params
    kind = type(p)
    if kind is Nd2NzParams:
        _nd2nz(core, dst, src, p)
        return
    if kind is Nz2NdParamsFull:
        _nz2nd(core, dst, src, p)
        return
    if kind is DataCopyCO12DstParams:
        from ascend_sim.asc.calls_cube import copy_co1

        copy_co1(core, dst, src, p)
        return
    if kind is DataCopyParams:
        if src.mem == "L0C" or dst.mem == "L0C":
            _cube_exit(core, dst, src, p, enhanced or NORMAL)
            return
        plain = p
    elif p is None or kind is float:
        raise InstructionError("data_copy", "count", p, "give a count or a parameter block")
    else:
        n = int(p)
        nbytes = n * (dst if dst.mem == "BT" else src).dtype.bits // 8
        if src.mem == "L0C" or dst.mem == "L0C":
            _cube_exit(core, dst, src, DataCopyParams(1, nbytes // (256 * src.dtype.size)), enhanced or NORMAL)
            return
        unit = 64 if dst.mem == "BT" else 128 if dst.mem == "FB" else BLOCK
        if nbytes % unit or n < 0:
            raise InstructionError("data_copy", "count", n, f"{nbytes} bytes are not a multiple of {unit}")
        blocks = nbytes // unit
        if blocks > 65535:
            _copy_long(core, dst, src, nbytes, unit)
            return
        plain = DataCopyParams(1, blocks)
    _copy(core, dst, src, plain)


def _copy(core: Core, dst: Tensor, src: Tensor, p: DataCopyParams) -> None:
    s_gm, d_gm = src.mem == "GM", dst.mem == "GM"
    gm = src.arg if s_gm else dst.arg if d_gm else -1  # type: ignore[union-attr]
    align = gm_align(src.addr) if s_gm else gm_align(dst.addr) if d_gm else 512
    pipe, work, src_span, dst_span = _check_copy(
        core.rules, src.mem, dst.mem, src.dtype, dst.dtype, p, (0, 0) if s_gm else (src.addr, src.end),
        (0, 0) if d_gm else (dst.addr, dst.end), gm, align, d_gm and core.atomic is not None,
    )  # fmt: skip
    if s_gm:
        check_gm("data_copy", src, src_span)  # type: ignore[arg-type]
    if d_gm:
        check_gm("data_copy", dst, dst_span)  # type: ignore[arg-type]
    if s_gm or d_gm:
        core.emit_transfer(pipe, work, dst, src)
    else:
        core.emit(pipe, work, dst, src)
    if core.memory is not None:
        length = work.burst_bytes  # type: ignore[union-attr]
        dst_unit = {"BT": 64, "FB": 128}.get(dst.mem, BLOCK)
        target = core.view(dst)
        atomic = None
        if d_gm and core.atomic is not None:
            atomic, dtype = core.atomic
            target = target._replace(dtype=dtype)
        gaps = (p.src_stride * BLOCK, p.dst_stride * dst_unit)
        if src.dtype.size != dst.dtype.size:
            mte.run_widen(target, core.view(src), p.block_count, length, *gaps)
        else:
            mte.run_copy(target, core.view(src), p.block_count, length, *gaps, atomic)


def _pieces(call: str, infos: Any, dims: int, size: int) -> tuple[list[int], int]:
    """(first element of every piece, elements of a piece) that slices select. The first slice walks along rows, the
    others over rows, planes and so on; ends are inclusive."""
    first = infos[0]
    length = int(first.burst_len or 0) * BLOCK // size
    if length < 1:
        raise InstructionError(call, "burst_len", first.burst_len, "pieces have at least one 32-byte block")
    end = int(first.end_index) if first.end_index is not None else int(first.start_index) + length - 1
    starts = list(range(int(first.start_index), end + 1, length + int(first.stride)))
    if any(at + length - 1 > end for at in starts):
        rule = f"{int(first.start_index)}..{end} is not whole pieces of {length} elements"
        raise InstructionError(call, "burst_len", first.burst_len, rule)
    step = int(first.shape_value)
    for info in infos[1:dims]:
        last = int(info.end_index) if info.end_index is not None else int(info.start_index)
        outer = range(int(info.start_index), last + 1, 1 + int(info.stride))
        starts = [o * step + at for o in outer for at in starts]
        step *= int(info.shape_value)
    return starts, length


def _copy_slices(core: Core, dst: Tensor, src: Tensor, dst_infos: Any, src_infos: Any, dims: int) -> None:
    """Pieces of a tensor between global memory and the unified buffer, one burst each."""
    call = "data_copy(SliceInfo)"
    if core.rules.family in ("910A", "310B1"):
        raise InstructionError(call, "chip", core.rules.name, "does not exist on this chip")
    if {dst.mem, src.mem} != {"GM", "UB"}:
        raise InstructionError(call, "path", f"{src.mem} to {dst.mem}", "global memory and the unified buffer")
    if not 1 <= dims <= min(len(dst_infos), len(src_infos)):
        raise InstructionError(call, "dim_value", dims, f"must lie in 1..{min(len(dst_infos), len(src_infos))}")
    size = src.dtype.size
    to, length = _pieces(call, dst_infos, dims, size)
    frm, length2 = _pieces(call, src_infos, dims, size)
    if length != length2 or len(to) != len(frm):
        given = f"{len(frm)} x {length2} to {len(to)} x {length} elements"
        raise InstructionError(call, "slices", given, "both sides must select the same pieces")
    for a, b in zip(to, frm, strict=True):
        _copy(core, dst[a:], src[b:], DataCopyParams(1, length * size // BLOCK))


def _copy_long(core: Core, dst: Tensor, src: Tensor, nbytes: int, unit: int) -> None:
    """A contiguous copy beyond 65535 blocks, split as the language's library does."""
    step = 65535 * unit // src.dtype.size
    done, total = 0, nbytes // src.dtype.size
    while done < total:
        part = min(step, total - done)
        _copy(core, dst[done:], src[done:], DataCopyParams(1, part * src.dtype.size // unit))
        done += part


@lru_cache(maxsize=1 << 14)
def _check_nd2nz(
    rules: ChipRules, dtype: DataType, dst_type: DataType, p: Nd2NzParams, mem: str, addr: int, end: int, gm: int,
    align: int,
) -> tuple[Work, int]:  # fmt: skip
    call = "data_copy(Nd2NzParams)"
    if not rules.exists("data_move_out2l1_nd2nz"):
        raise InstructionError(call, "chip", rules.name, "the ND to Nz move does not exist on this chip")
    rules.require_memory(call, "dst", mem, "L1")
    if dtype.size != dst_type.size:
        raise InstructionError(call, "data types", f"{dtype} -> {dst_type}", "must have the same width")
    rules.require_range(call, "nd_num", p.nd_num, 0, 4095)
    rules.require_range(call, "n_value", p.n_value, 0, 16384)
    rules.require_range(call, "d_value", p.d_value, 0, 65535)
    rules.require_range(call, "src_nd_matrix_stride", p.src_nd_matrix_stride, 0, 65535)
    rules.require_range(call, "src_d_value", p.src_d_value, 1, 65535)
    rules.require_range(call, "dst_nz_c0_stride", p.dst_nz_c0_stride, 1, 16384)
    rules.require_range(call, "dst_nz_n_stride", p.dst_nz_n_stride, 1, 16384)
    rules.require_range(call, "dst_nz_matrix_stride", p.dst_nz_matrix_stride, 0, 65535)
    size = dtype.size
    if not p.nd_num or not p.n_value or not p.d_value:
        return MoveWork("GM_L1", 0, 0, 512, gm, "nd2nz", dtype.name), 0
    c1 = ceil_div(p.d_value, dtype.block)
    span = (p.nd_num - 1) * p.dst_nz_matrix_stride * size + (
        (c1 - 1) * p.dst_nz_c0_stride + (p.n_value - 1) * p.dst_nz_n_stride + 1
    ) * BLOCK
    rules.require_span(call, "dst", mem, addr, span, end)
    source = ((p.nd_num - 1) * p.src_nd_matrix_stride + (p.n_value - 1) * p.src_d_value + p.d_value) * size
    if p.n_value > 1:
        align = min(align, pitch_align(p.src_d_value * size))
    return MoveWork("GM_L1", p.nd_num * p.n_value, p.d_value * size, align, gm, "nd2nz", dtype.name), source


def _nd2nz(core: Core, dst: Tensor, src: Tensor, p: Nd2NzParams) -> None:
    if not isinstance(src, GlobalTensor) or not isinstance(dst, LocalTensor):
        raise InstructionError("data_copy(Nd2NzParams)", "operands", f"{src}, {dst}", "global source, L1 destination")
    work, span = _check_nd2nz(
        core.rules, src.dtype, dst.dtype, p, dst.mem, dst.addr, dst.end, src.arg, gm_align(src.addr)
    )
    check_gm("data_copy(Nd2NzParams)", src, span)
    core.emit_transfer(Pipe.MTE2, work, dst, src)
    if core.memory is not None:
        mte.run_nd2nz(core.view(dst), core.view(src), *p)


def _nz2nd(core: Core, dst: Tensor, src: Tensor, p: Nz2NdParamsFull) -> None:
    call = "data_copy(Nz2NdParamsFull)"
    if not isinstance(src, LocalTensor) or not isinstance(dst, GlobalTensor):
        raise InstructionError(call, "operands", f"{src}, {dst}", "unified buffer source, global destination")
    core.rules.require_memory(call, "src", src.mem, "UB")
    size = dst.dtype.size
    span = ((p.nd_num - 1) * p.dst_nd_matrix_stride + (p.n_value - 1) * p.dst_d_stride + p.d_value) * size
    check_gm(call, dst, span)
    align = min(gm_align(dst.addr), pitch_align(p.dst_d_stride * size))
    mode = "nz2nd" if core.atomic is None else "atomic"
    work = MoveWork("UB_GM", p.nd_num * p.n_value, p.d_value * size, align, dst.arg, mode, dst.dtype.name)
    core.emit_transfer(Pipe.MTE3, work, dst, src)
    if core.memory is not None:
        atomic = core.atomic[0] if core.atomic else None
        mte.run_nz2nd(
            core.view(dst), core.view(src), p.nd_num, p.n_value, p.d_value, p.src_nd_matrix_stride, p.src_n_stride,
            p.dst_d_stride, p.dst_nd_matrix_stride, atomic,
        )  # fmt: skip


@lru_cache(maxsize=1 << 14)
def _check_cube_exit(
    rules: ChipRules, src_mem: str, dst_mem: str, src_type: DataType, dst_type: DataType, p: DataCopyParams,
    vector_mode: bool, src_local: tuple[int, int], dst_local: tuple[int, int],
) -> Work:  # fmt: skip
    call = "data_copy"
    path = f"{src_mem}_{dst_mem}"
    if path not in PATH_PIPES:
        raise InstructionError(call, "path", path.replace("_", " to "), f"does not exist on {rules.name}")
    require_path(rules, call, path)
    rules.require_range(call, "block_count", p.block_count, 0, 4095)
    for name, value in (("block_len", p.block_len), ("src_stride", p.src_stride), ("dst_stride", p.dst_stride)):
        rules.require_range(call, name, value, 0, 65535)
    per_src = (16 if vector_mode else 256) * src_type.size
    per_dst = 256 * dst_type.size
    src_unit = per_src if src_mem == "L0C" else BLOCK
    dst_unit = per_dst if dst_mem == "L0C" else BLOCK
    for name, mem, local, unit, gap in (
        ("src", src_mem, src_local, per_src, p.src_stride * src_unit),
        ("dst", dst_mem, dst_local, per_dst, p.dst_stride * dst_unit),
    ):
        row = p.block_len * unit
        span = (p.block_count - 1) * (row + gap) + row if p.block_count else 0
        rules.require_span(call, name, mem, local[0], span, local[1])
    if src_mem == "L0C" and src_type is not dst_type:
        legal = {("float32", "float16"), ("int32", "float16"), ("int32", "int8"), ("int32", "uint8")}
        if (src_type.name, dst_type.name) not in legal:
            raise InstructionError(call, "data types", f"{src_type} -> {dst_type}", "no such conversion on this path")
    name = dst_type.name if src_type is dst_type else f"{src_type.name}_{dst_type.name}"
    on_l0c = src_type if src_mem == "L0C" else dst_type
    row = p.block_len * 256 * on_l0c.size  # bytes on the L0C side: a converting exit is as fast as it reads
    return MoveWork(path, p.block_count, row, 512, -1, "", name)


def _cube_exit(core: Core, dst: Tensor, src: Tensor, p: DataCopyParams, e: DataCopyEnhancedParams) -> None:
    """Copies to and from L0C on chips without a fixpipe: L0C to UB, UB or L1 to L0C (bias)."""
    if isinstance(dst, GlobalTensor) or isinstance(src, GlobalTensor):
        raise InstructionError(
            "data_copy", "path", f"{src.mem} to {dst.mem}",
            "L0C reaches global memory through fixpipe, or through the unified buffer on coupled chips",
        )  # fmt: skip
    broadcast = e.block_mode == BlockMode.BLOCK_MODE_VECTOR and dst.mem == "L0C"
    work = _check_cube_exit(
        core.rules, src.mem, dst.mem, src.dtype, dst.dtype, p, broadcast, (src.addr, src.end), (dst.addr, dst.end)
    )
    core.emit(PATH_PIPES[work.path], work, dst, src)  # type: ignore[union-attr]
    if core.memory is None:
        return
    to, source = core.view(dst), core.view(src)
    if dst.mem == "L0C":
        if broadcast:
            fixpipe_semantics.run_broadcast_to_l0c(to, source, p.block_count, p.block_len, p.src_stride, p.dst_stride)
        else:
            fixpipe_semantics.run_ub_to_l0c(to, source, p.block_count, p.block_len, p.src_stride, p.dst_stride)
        return
    scale = None
    if e.deq_scale == DeqScale.DEQ:
        scale = np.asarray(e.deq_value_in & 0xFFFF, np.uint16).view(np.float16)
    fixpipe_semantics.run_l0c_to_ub(
        to, source, p.block_count, p.block_len, p.src_stride, p.dst_stride, scale, bool(e.is_relu_in)
    )


def data_copy_pad(
    dst: Tensor, src: Tensor, data_copy_params: DataCopyParams | DataCopyExtParams,
    pad_params: DataCopyPadParams | DataCopyPadExtParams | None = None,
) -> None:  # fmt: skip
    """Copy rows whose length is any number of bytes between global memory and the unified buffer (310B, 910B).

    ``block_len`` in bytes; the global gap in bytes, the local gap in 32-byte blocks; padding in elements.
    """
    core = current()
    call = "data_copy_pad"
    p = data_copy_params
    if isinstance(dst, LocalTensor) and isinstance(src, GlobalTensor):
        pad = pad_params or DataCopyPadParams()
        left, right = pad.left_padding, pad.right_padding
        work, gm_span = _check_pad(
            core.rules, call, True, src.dtype, dst.dtype, tuple(p[:4]), left, right, dst.mem, dst.addr, dst.end,
            src.arg, gm_align(src.addr), False,
        )  # fmt: skip
        check_gm(call, src, gm_span)
        core.emit_transfer(Pipe.MTE2, work, dst, src)
        if core.memory is not None and p.block_count and p.block_len:
            value = _pad_value(core, pad, dst.dtype)
            mte.run_pad_in(
                core.view(dst), core.view(src), p.block_count, p.block_len, p.src_stride, p.dst_stride * BLOCK, left,
                right, value,
            )  # fmt: skip
        return
    if isinstance(dst, GlobalTensor) and isinstance(src, LocalTensor):
        work, gm_span = _check_pad(
            core.rules, call, False, src.dtype, dst.dtype, tuple(p[:4]), 0, 0, src.mem, src.addr, src.end, dst.arg,
            gm_align(dst.addr), core.atomic is not None,
        )  # fmt: skip
        check_gm(call, dst, gm_span)
        core.emit_transfer(Pipe.MTE3, work, dst, src)
        if core.memory is not None:
            target, atomic = core.view(dst), None
            if core.atomic is not None:
                atomic, dtype = core.atomic
                target = target._replace(dtype=dtype)
            mte.run_pad_out(
                target, core.view(src), p.block_count, p.block_len, p.src_stride * BLOCK, p.dst_stride, atomic
            )
        return
    raise InstructionError(call, "operands", f"{src} -> {dst}", "one global and one local tensor")


def _pad_value(core: Core, pad: Any, dtype: DataType) -> Any:
    """Padding value: `DataCopyPadExtParams` holds a number, `DataCopyPadParams` the raw bits; without ``is_pad`` the
    value of `set_pad_value`. None: nobody chose one."""
    if not pad.is_pad:
        return np.asarray(core.dma_pad).astype(dtype.np) if core.dma_pad is not None else None
    if isinstance(pad, DataCopyPadExtParams):
        return np.asarray(pad.padding_value).astype(dtype.np)
    raw = int(pad.padding_value) & ((1 << dtype.bits) - 1)
    return np.frombuffer(raw.to_bytes(dtype.size, "little"), dtype.np)[0]


@lru_cache(maxsize=1 << 14)
def _check_pad(
    rules: ChipRules, call: str, inward: bool, src: DataType, dst: DataType, p: tuple[int, ...], left: int, right: int,
    mem: str, addr: int, end: int, gm: int, align: int, atomic: bool,
) -> tuple[Work, int]:  # fmt: skip
    count, length, src_gap, dst_gap = p
    if not rules.exists("data_move_pad"):
        raise InstructionError(call, "chip", rules.name, "the padded copy does not exist on this chip")
    rules.require(call, "data_move_pad", src)
    if src.size != dst.size:
        raise InstructionError(call, "data types", f"{src} -> {dst}", "must have the same width")
    rules.require_memory(call, "local tensor", mem, "UB")
    rules.require_range(call, "block_count", count, 0, 4095)
    rules.require_range(call, "block_len", length, 0, 2097151)
    for name, value in (("left_padding", left), ("right_padding", right)):
        if not 0 <= value * dst.size <= BLOCK:
            raise InstructionError(call, name, value, "must not exceed 32 bytes")
    row = ceil_div((left + right) * dst.size + length, BLOCK) * BLOCK
    local_gap = (dst_gap if inward else src_gap) * BLOCK
    global_gap = src_gap if inward else dst_gap
    if count and length:
        rules.require_span(call, "local tensor", mem, addr, (count - 1) * (row + local_gap) + row, end)
    span = (count - 1) * (length + global_gap) + length if count and length else 0
    if count > 1:
        align = min(align, pitch_align(length + global_gap))
    mode = "atomic" if atomic else "pad"
    return MoveWork("GM_UB" if inward else "UB_GM", count, length, align, gm, mode, dst.name), span


def set_atomic_add(dtype: Any) -> None:
    """Writes to global memory add to what is there, until `set_atomic_none`."""
    _set_atomic("add", dtype)


def set_atomic_max(dtype: Any) -> None:
    """Writes to global memory keep the greater value, until `set_atomic_none`."""
    _set_atomic("max", dtype)


def set_atomic_min(dtype: Any) -> None:
    """Writes to global memory keep the smaller value, until `set_atomic_none`."""
    _set_atomic("min", dtype)


def set_atomic_type(dtype: Any) -> None:
    """Change the type of the atomic operation that is set."""
    core = current()
    _set_atomic(core.atomic[0] if core.atomic else "add", dtype)


ATOMIC_TYPES = {
    "910A": ("float32",), "310P3": ("float32", "float16", "int16"),
    "310B1": ("float32", "float16", "int16", "int32"),
    "910B1": ("float32", "float16", "int16", "int32", "int8", "bfloat16"),
}  # fmt: skip


def _set_atomic(operation: str, dtype: Any) -> None:
    core = current()
    kind = as_dtype(dtype)
    allowed = ATOMIC_TYPES[core.rules.family or "910B1"]
    if kind.name not in allowed:
        rule = f"{core.rules.name} takes {', '.join(allowed)}"
        raise InstructionError(f"set_atomic_{operation}", "data type", kind, rule)
    core.atomic = (operation, kind)
    core.emit(Pipe.S, SET_REGISTER)


def set_atomic_none() -> None:
    """Plain writes again."""
    core = current()
    core.atomic = None
    core.emit(Pipe.S, SET_REGISTER)


def init_const_value(dst: LocalTensor, init_const_value_params: InitConstValueParams) -> None:
    """Fill L1 (32-byte blocks) or L0A/L0B (512-byte fractals) with a constant (310B, 910B)."""
    core = current()
    call, p = "init_const_value", init_const_value_params
    name = {"L1": "set_l1", "L0A": "set_l0a", "L0B": "set_l0b"}.get(dst.mem)
    if name is None:
        raise InstructionError(call, "dst", dst.mem, "must lie in L1, L0A or L0B")
    unit = BLOCK if dst.mem == "L1" else FRACTAL
    if not core.rules.exists(name):
        raise InstructionError(call, "chip", core.rules.name, "the instruction does not exist on this chip")
    for field, value in (("repeat_times", p.repeat_times), ("block_num", p.block_num), ("dst_gap", p.dst_gap)):
        core.rules.require_range(call, field, value, 0, 32767)
    span = (p.repeat_times * (p.block_num + p.dst_gap) - p.dst_gap) * unit if p.repeat_times else 0
    core.rules.require_span(call, "dst", dst.mem, dst.addr, span, dst.end)
    pipe = Pipe.MTE2 if dst.mem == "L1" else Pipe.MTE1
    work = MoveWork(f"CONST_{dst.mem}", p.repeat_times, p.block_num * unit, 512, -1, "", dst.dtype.name)
    core.emit(pipe, work, dst)
    if core.memory is not None and span:
        mte.run_fill(core.view(dst), p.repeat_times, p.block_num, p.dst_gap, p.init_value, unit)
