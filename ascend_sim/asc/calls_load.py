"""Loads into L0 (2D, transposing, im2col) and the registers they use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ascend_sim.asc.calls_move import check_gm, gm_align
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import (
    LoadData2DParams,
    LoadData2DParamsV2,
    LoadData2dTransposeParams,
    LoadData2dTransposeParamsV2,
    LoadData3DParamsV1,
    LoadData3DParamsV2,
    LoadData3DParamsV2Pro,
    LoadDataRepeatParam,
)
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor, Tensor
from ascend_sim.isa import load3d, mte
from ascend_sim.isa.buffers import FRACTAL, View
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.instr import Load3dWork, MoveWork, Pipe, ScalarWork, Work
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError

SET_REGISTER = ScalarWork("set_register")
MAX_MMAD = 4095


@lru_cache(maxsize=1 << 16)
def _check_load2d(
    rules: ChipRules, src_mem: str, dst_mem: str, src_type: DataType, dst_type: DataType, p: LoadData2DParams,
    src_local: tuple[int, int], dst_local: tuple[int, int], gm: int, align: int,
) -> tuple[Work, int]:  # fmt: skip
    call = "load_data(LoadData2DParams)"
    rules.require_memory(call, "src", src_mem, "L1", "GM")
    rules.require_memory(call, "dst", dst_mem, *(("L0A", "L0B") if src_mem == "L1" else ("L0A", "L0B", "L1")))
    if src_type is not dst_type:
        raise InstructionError(call, "data types", f"{src_type} -> {dst_type}", "must be the same")
    rules.require_range(call, "start_index", p.start_index, 0, 65535)
    rules.require_range(call, "repeat_times", p.repeat_times, 0, 255)
    rules.require_range(call, "src_stride", p.src_stride, 0, 65535)
    rules.require_range(call, "dst_gap", p.dst_gap, 0, 65535)
    if p.if_transpose and src_type.size != 2:
        raise InstructionError(call, "if_transpose", src_type, "turns 16-bit fractals only")
    if p.if_transpose and dst_mem not in ("L0A", "L0B"):
        raise InstructionError(call, "if_transpose", dst_mem, "works on the way to L0A or L0B")
    n = p.repeat_times
    step = -1 if p.addr_mode else 1
    last = p.start_index + (n - 1) * p.src_stride * step if n else p.start_index
    if last < 0:
        raise InstructionError(call, "src_stride", p.src_stride, "walks below the start of the source")
    source = (max(last, p.start_index) + 1) * FRACTAL if n else 0
    if src_mem == "L1":
        rules.require_span(call, "src", "L1", src_local[0], source, src_local[1])
    span = ((n - 1) * (1 + p.dst_gap) + 1) * FRACTAL if n else 0
    rules.require_span(call, "dst", dst_mem, dst_local[0], span, dst_local[1], 32 if dst_mem == "L1" else None)
    contiguous = src_mem == "GM" and p.src_stride == 1
    bursts, nbytes = (1, n * FRACTAL) if contiguous else (n, FRACTAL)
    mode = "transpose" if p.if_transpose else ""
    return MoveWork(f"{src_mem}_{dst_mem}", bursts, nbytes, align, gm, mode, src_type.name), source


def load_data(dst: LocalTensor, src: Tensor, params: Any) -> None:
    """Load fractals (`LoadData2DParams`), or a window of the im2col matrix (`LoadData3DParamsV1`/`V2`), into L0A or
    L0B. 2D loads may also come straight from global memory."""
    core = current()
    kind = type(params)
    if kind is LoadData2DParams:
        _load2d(core, dst, src, params)
    elif kind is LoadData3DParamsV2:
        _load3d_v2(core, dst, src, params)
    elif kind is LoadData3DParamsV1:
        _load3d_v1(core, dst, src, params)
    elif kind is LoadData2DParamsV2:
        raise InstructionError("load_data(LoadData2DParamsV2)", "chip", core.rules.name, "exists on later chips only")
    elif kind is LoadData3DParamsV2Pro:
        _load3d_v2(core, dst, src, params.unpacked())
    else:
        rule = "expected LoadData2DParams, LoadData3DParamsV1, V2 or V2Pro"
        raise InstructionError("load_data", "params", kind.__name__, rule)


def _load2d(core: Core, dst: LocalTensor, src: Tensor, p: LoadData2DParams) -> None:
    gm = src.arg if isinstance(src, GlobalTensor) else -1
    align = gm_align(src.addr) if gm >= 0 else 512
    work, span = _check_load2d(
        core.rules, src.mem, dst.mem, src.dtype, dst.dtype, p, (0, 0) if gm >= 0 else (src.addr, src.end),
        (dst.addr, dst.end), gm, align,
    )  # fmt: skip
    if gm >= 0:
        check_gm("load_data(LoadData2DParams)", src, span)  # type: ignore[arg-type]
    if gm >= 0:
        core.emit_transfer(Pipe.MTE2, work, dst, src)
    else:
        core.emit(Pipe.MTE1, work, dst, src)
    if core.memory is not None:
        mte.run_load2d(
            core.view(dst), core.view(src), p.start_index, p.repeat_times, p.src_stride, p.dst_gap,
            bool(p.if_transpose), -1 if p.addr_mode else 1,
        )  # fmt: skip


def load_data_with_transpose(
    dst: LocalTensor, src: LocalTensor, params: LoadData2dTransposeParams | LoadData2dTransposeParamsV2
) -> None:
    """Load square blocks and transpose them (310B, 910B): b16 16x16, b8 32x32, b32 16x16, b4 64x64."""
    core = current()
    call = "load_data_with_transpose"
    name = {"L0A": "data_move_transpose_l12l0a", "L0B": "data_move_transpose_l12l0b"}.get(dst.mem)
    if name is None or src.mem != "L1":
        raise InstructionError(call, "operands", f"{src.mem} -> {dst.mem}", "L1 to L0A or L0B")
    if not core.rules.exists(name):
        raise InstructionError(call, "chip", core.rules.name, "the instruction does not exist on this chip")
    if src.dtype is not dst.dtype:
        raise InstructionError(call, "data types", f"{src.dtype} -> {dst.dtype}", "must be the same")
    p = params
    if src.dtype.bits == 4 and dst.mem != "L0B":
        raise InstructionError(call, "data type", src.dtype, "4-bit types go to L0B only")
    if isinstance(p, LoadData2dTransposeParamsV2):
        raise InstructionError(call, "params", type(p).__name__, f"{core.rules.name} takes LoadData2dTransposeParams")
    for field, value, high in (
        ("start_index", p.start_index, 65535), ("repeat_times", p.repeat_times, 255),
        ("src_stride", p.src_stride, 65535), ("dst_gap", p.dst_gap, 65535), ("dst_frac_gap", p.dst_frac_gap, 65535),
    ):  # fmt: skip
        core.rules.require_range(call, field, value, 0, high)
    n, parts = p.repeat_times, max(src.dtype.block // CUBE, CUBE // src.dtype.block)
    if not n:
        return
    last = ((n - 1) * (1 + p.dst_gap) + (parts - 1) * (1 + p.dst_frac_gap) + 1) * FRACTAL
    core.rules.require_span(call, "dst", dst.mem, dst.addr, last, dst.end)
    source = (p.start_index + (n - 1) * p.src_stride + 1) * parts * FRACTAL
    core.rules.require_span(call, "src", "L1", src.addr, source, src.end)
    work = MoveWork(f"L1_{dst.mem}", n, parts * FRACTAL, 512, -1, "transpose", src.dtype.name)
    core.emit(Pipe.MTE1, work, dst, src)
    if core.memory is not None:
        mte.run_load2d_transposed(
            core.view(dst), core.view(src), p.start_index, n, p.src_stride, p.dst_gap, p.dst_frac_gap
        )


def set_fmatrix(l1_h: int, l1_w: int, pad_list: Any, fmatrix_mode: int = 0) -> None:
    """Feature map size and pads (left, right, top, bottom) for load3d calls whose parameters leave them open
    (``l1_h`` = 0); mode 0 is the left register, 1 the right one (``f_matrix_ctrl``)."""
    core = current()
    pads = tuple(int(x) for x in pad_list)
    core.rules.require_range("set_fmatrix", "l1_h", l1_h, 1, 32767)
    core.rules.require_range("set_fmatrix", "l1_w", l1_w, 1, 32767)
    if len(pads) != 4 or not all(0 <= x <= 255 for x in pads):
        raise InstructionError("set_fmatrix", "pad_list", pads, "four pads (left, right, top, bottom) of 0..255")
    core.fmatrix[fmatrix_mode] = (int(l1_h), int(l1_w), (pads[0], pads[1], pads[2], pads[3]))
    core.emit(Pipe.S, SET_REGISTER)


def set_load_data_padding_value(pad_value: Any) -> None:
    """Value load3d puts where the window leaves the feature map."""
    core = current()
    core.pad_value = pad_value
    core.emit(Pipe.S, SET_REGISTER)


def set_load_data_boundary(boundary: int) -> None:
    """Where load3d goes on from the start of L1: bytes (v2) or 32-byte blocks (v1); 0 for no wrap-around (310, 910,
    310P, 910B)."""
    core = current()
    call, value = "set_load_data_boundary", int(boundary)
    if core.rules.family == "310B1":
        raise InstructionError(call, "chip", core.rules.name, "does not exist on this chip")
    if value and not 1024 <= value <= core.rules.sizes["L1"]:
        raise InstructionError(call, "boundary", value, f"0, or 1024..{core.rules.sizes['L1']}")
    core.l1_boundary = value
    core.emit(Pipe.S, SET_REGISTER)


def _source(core: Core, src: LocalTensor, nbytes: int, boundary: int) -> View:
    """The source of a load3d; beyond ``boundary`` bytes of L1 it goes on at address 0."""
    view = core.view(src)
    if not boundary or view.start + nbytes <= boundary:
        return view
    where = view.start + np.arange(nbytes)
    return View(view.data[np.where(where >= boundary, where - boundary, where)], 0, view.dtype)


def _wrapped(core: Core, call: str, src: LocalTensor, boundary: int) -> tuple[int, int]:
    """(address, end) of a load3d source for its check: with a boundary it may run on at the start of L1."""
    if not boundary:
        return src.addr, src.end
    if src.addr >= boundary:
        raise InstructionError(call, "src address", src.addr, f"must lie below the boundary of {boundary} bytes")
    return 0, core.rules.sizes["L1"]


def set_load_data_repeat(param: LoadDataRepeatParam) -> None:
    """Repeats of load3d v2: ``repeat_time`` windows, ``repeat_stride`` x 16 apart along m (mode 0), or x C0 (310B: x 2
    C0) apart along k (mode 1)."""
    core = current()
    core.rules.require_range("set_load_data_repeat", "repeat_stride", param.repeat_stride, 0, 65535)
    core.rules.require_range("set_load_data_repeat", "repeat_mode", param.repeat_mode, 0, 1)
    core.rules.require_range("set_load_data_repeat", "repeat_time", param.repeat_time, 0, 255)
    core.repeat_config = (param.repeat_time, param.repeat_stride, param.repeat_mode)
    core.emit(Pipe.S, SET_REGISTER)


@lru_cache(maxsize=1 << 14)
def _window(
    rules: ChipRules, call: str, geometry: tuple[int, ...], pads: tuple[int, int, int, int], limit: int
) -> load3d.Window:
    h, w, fh, fw, sh, sw, dh, dw = geometry
    for name, value, low, high in (
        ("l1_h", h, 1, 32767), ("l1_w", w, 1, 32767), ("filter_h", fh, 1, limit), ("filter_w", fw, 1, limit),
        ("stride_h", sh, 1, 63), ("stride_w", sw, 1, 63), ("dilation_filter_h", dh, 1, 255),
        ("dilation_filter_w", dw, 1, 255),
    ):  # fmt: skip
        rules.require_range(call, name, value, low, high)
    if len(pads) != 4 or not all(0 <= x <= 255 for x in pads):
        raise InstructionError(call, "pad_list", pads, "four pads (left, right, top, bottom) of 0..255")
    window = load3d.Window(h, w, fh, fw, sh, sw, dh, dw, pads)
    if window.out_h < 1 or window.out_w < 1:
        raise InstructionError(call, "filter", (fh, fw), f"is larger than the padded feature map {h} x {w}")
    return window


@lru_cache(maxsize=1 << 16)
def _check_load3d_v2(
    rules: ChipRules, dtype: DataType, dst_type: DataType, src_mem: str, dst_mem: str, p: LoadData3DParamsV2,
    window: load3d.Window, src_local: tuple[int, int], dst_local: tuple[int, int],
) -> Work:  # fmt: skip
    call = "load_data(LoadData3DParamsV2)"
    if rules.family == "910A":
        raise InstructionError(call, "chip", rules.name, "the instruction does not exist on this chip")
    rules.require_memory(call, "src", src_mem, "L1")
    rules.require_memory(call, "dst", dst_mem, "L0A", "L0B")
    legal = ("int8", "uint8", "float16", "int4") if rules.family == "310P3" else (
        "int8", "uint8", "float16", "bfloat16", "float32", "int32", "uint32", "int4"
    )
    if dtype is not dst_type or dtype.name not in legal:
        raise InstructionError(call, "data types", f"{dtype} -> {dst_type}", f"one of {', '.join(legal)} on both sides")
    if dst_mem == "L0B" and dtype.size == 1:
        raise InstructionError(call, "data type", dtype, "8-bit types do not go to L0B by this instruction")
    c0 = dtype.block
    rules.require_range(call, "channel_size", p.channel_size, 1, 63 * 1024)
    rest = p.channel_size % c0
    if rest not in (0, 4, 8, 16):
        raise InstructionError(call, "channel_size", p.channel_size, f"a multiple of {c0}, or 4, 8 or 16 more")
    if p.k_start_pt % c0:
        raise InstructionError(call, "k_start_pt", p.k_start_pt, f"must be a multiple of {c0}")
    if p.m_start_pt % CUBE:
        raise InstructionError(call, "m_start_pt", p.m_start_pt, f"must be a multiple of {CUBE}")
    rules.require_range(call, "m_extension", p.m_extension, 0, 65535)
    rules.require_range(call, "k_extension", p.k_extension, 0, 65535)
    positions = window.out_h * window.out_w
    taps = window.kernel_h * window.kernel_w
    columns = taps * p.channel_size
    if p.m_start_pt + p.m_extension > ceil_div(positions, CUBE) * CUBE:
        raise InstructionError(
            call, "m_start_pt + m_extension", p.m_start_pt + p.m_extension, f"there are {positions} output positions"
        )
    if p.k_start_pt + p.k_extension > ceil_div(columns, c0) * c0:
        raise InstructionError(
            call, "k_start_pt + k_extension", p.k_start_pt + p.k_extension, f"the im2col matrix has {columns} columns"
        )
    if not p.m_extension or not p.k_extension:
        return Load3dWork(f"L1_{dst_mem}", 0, window.stride_w, window.kernel_w, rest != 0)
    rules.require_span(
        call, "src", "L1", src_local[0], window.h * window.w * p.channel_size * dtype.bits // 8, src_local[1]
    )
    m1, k1 = ceil_div(p.m_extension, CUBE), ceil_div(p.k_extension, c0)
    nbytes = m1 * k1 * FRACTAL
    rules.require_span(call, "dst", dst_mem, dst_local[0], nbytes, dst_local[1])
    return Load3dWork(f"L1_{dst_mem}", nbytes, window.stride_w, window.kernel_w, rest != 0)


def _load3d_v2(core: Core, dst: LocalTensor, src: Tensor, p: LoadData3DParamsV2) -> None:
    call = "load_data(LoadData3DParamsV2)"
    if not isinstance(src, LocalTensor):
        raise InstructionError(call, "src", src, "must lie in L1")
    h, w, pads = p.l1_h, p.l1_w, p.pad_list
    if not h or not w:
        if int(p.f_matrix_ctrl) not in core.fmatrix:
            raise InstructionError(call, "l1_h", h, "is 0 and set_fmatrix was not called")
        h, w, pads = core.fmatrix[int(p.f_matrix_ctrl)]
    geometry = (
        h, w, p.filter_h + 256 * bool(p.filter_size_h), p.filter_w + 256 * bool(p.filter_size_w), p.stride_h,
        p.stride_w, p.dilation_filter_h, p.dilation_filter_w,
    )  # fmt: skip
    window = _window(core.rules, call, geometry, pads, 511)
    times, stride, mode = core.repeat_config or (1, 0, 0)
    for i in range(times):
        part = p
        if i:
            unit = src.dtype.block * (2 if core.rules.family == "310B1" else 1)
            m, k = (i * stride * CUBE, 0) if mode == 0 else (0, i * stride * unit)
            part = p._replace(m_start_pt=p.m_start_pt + m, k_start_pt=p.k_start_pt + k)
        work = _check_load3d_v2(
            core.rules, src.dtype, dst.dtype, src.mem, dst.mem, part, window,
            _wrapped(core, call, src, core.l1_boundary), (dst.addr, dst.end),
        )  # fmt: skip
        core.emit(Pipe.MTE1, work, dst, src)
        if core.memory is not None:
            value = part.pad_value or core.pad_value
            target = core.view(dst)
            target = target._replace(start=target.start + i * work.nbytes)  # type: ignore[union-attr]
            load3d.run_load3d_v2(
                target, _source(core, src, h * w * part.channel_size * src.dtype.bits // 8, core.l1_boundary), window,
                part.channel_size, part.m_start_pt, part.k_start_pt, part.m_extension,
                part.k_extension, value, dst.mem == "L0B", bool(part.en_transpose) and dst.mem == "L0A",
            )  # fmt: skip


def _blocks_v1(p: LoadData3DParamsV1, window: load3d.Window) -> int:
    """Channel blocks of the feature map that a load3d v1 reaches."""
    taps = window.kernel_h * window.kernel_w
    tap = p.fetch_filter_h * window.kernel_w + p.fetch_filter_w + (p.repeat_time - 1 if p.repeat_mode == 0 else 0)
    return p.c1_index + max(tap, 0) // taps + 1


@lru_cache(maxsize=1 << 16)
def _check_load3d_v1(
    rules: ChipRules, dtype: DataType, dst_type: DataType, src_mem: str, dst_mem: str, p: LoadData3DParamsV1,
    window: load3d.Window, src_local: tuple[int, int], dst_local: tuple[int, int],
) -> Work:  # fmt: skip
    call = "load_data(LoadData3DParamsV1)"
    if rules.family not in ("910A", "310P3"):
        raise InstructionError(call, "chip", rules.name, "the instruction does not exist on this chip")
    rules.require_memory(call, "src", src_mem, "L1")
    rules.require_memory(call, "dst", dst_mem, "L0A", "L0B", "UB")
    if dtype is not dst_type or dtype.name not in ("int8", "uint8", "float16"):
        raise InstructionError(call, "data types", f"{dtype} -> {dst_type}", "int8, uint8 or float16 on both sides")
    for name, value, low, high in (
        ("c1_index", p.c1_index, 0, 4095), ("fetch_filter_h", p.fetch_filter_h, 0, window.kernel_h - 1),
        ("fetch_filter_w", p.fetch_filter_w, 0, window.kernel_w - 1), ("left_top_h", p.left_top_h, -255, 32767),
        ("left_top_w", p.left_top_w, -255, 32767), ("jump_stride", p.jump_stride, 1, 127),
        ("repeat_mode", p.repeat_mode, 0, 1), ("repeat_time", p.repeat_time, 0, 255),
    ):  # fmt: skip
        rules.require_range(call, name, value, low, high)
    n = p.repeat_time
    span = ((n - 1) * p.jump_stride + 1) * FRACTAL if n else 0
    rules.require_span(call, "dst", dst_mem, dst_local[0], span, dst_local[1])
    per_pixel = 8 if p.c_size else 32 * _blocks_v1(p, window)
    rules.require_span(call, "src", "L1", src_local[0], per_pixel * window.h * window.w, src_local[1])
    return Load3dWork(f"L1_{dst_mem}", n * FRACTAL, window.stride_w, window.kernel_w, bool(p.c_size))


def _load3d_v1(core: Core, dst: LocalTensor, src: Tensor, p: LoadData3DParamsV1) -> None:
    call = "load_data(LoadData3DParamsV1)"
    if not isinstance(src, LocalTensor):
        raise InstructionError(call, "src", src, "must lie in L1")
    core.rules.require_range(call, "c_size", p.c_size, 0, 1)
    h, w, pads = p.l1_h, p.l1_w, p.pad_list
    if not h or not w:
        if 0 not in core.fmatrix:
            raise InstructionError(call, "l1_h", h, "is 0 and set_fmatrix was not called")
        h, w, pads = core.fmatrix[0]
    geometry = (h, w, p.filter_h, p.filter_w, p.stride_h, p.stride_w, p.dilation_filter_h, p.dilation_filter_w)
    window = _window(core.rules, call, geometry, pads, 255)
    boundary = core.l1_boundary * 32
    work = _check_load3d_v1(
        core.rules, src.dtype, dst.dtype, src.mem, dst.mem, p, window, _wrapped(core, call, src, boundary),
        (dst.addr, dst.end),
    )  # fmt: skip
    core.emit(Pipe.MTE1, work, dst, src)
    if core.memory is not None:
        few = src.dtype.block // 4 if p.c_size else 0
        nbytes = h * w * (few * src.dtype.size if few else 32 * _blocks_v1(p, window))
        load3d.run_load3d_v1(
            core.view(dst), _source(core, src, nbytes, boundary), window, p.c1_index, p.fetch_filter_h,
            p.fetch_filter_w, p.left_top_h, p.left_top_w, p.jump_stride, p.repeat_mode, p.repeat_time,
            p.pad_value or core.pad_value, few, dst.mem == "L0B",
        )  # fmt: skip


def require_sparse(core: Core, call: str) -> None:
    if core.rules.family != "910B1":
        raise InstructionError(call, "chip", core.rules.name, "4:2 sparse weights exist on 910B only")


def load_data_with_sparse(
    dst: LocalTensor, src: LocalTensor, idx: LocalTensor, load_data_params: LoadData2DParams
) -> None:
    """Weights with two of four rows kept, from L1 to L0B, and their 2-bit index (128 bytes per fractal) to the buffer
    beside it (910B). Only ``start_index`` and ``repeat_times`` count."""
    core = current()
    call, p = "load_data_with_sparse", load_data_params
    require_sparse(core, call)
    for name, t, dtype, mem in (("dst", dst, "int8", "L0B"), ("src", src, "int8", "L1"), ("idx", idx, "uint8", "L1")):
        core.rules.require_memory(call, name, t.mem, mem)
        if t.dtype.name != dtype:
            raise InstructionError(call, f"{name} data type", t.dtype, f"must be {dtype}")
    core.rules.require_range(call, "start_index", p.start_index, 0, 65535)
    core.rules.require_range(call, "repeat_times", p.repeat_times, 0, 255)
    n, end = p.repeat_times, p.start_index + p.repeat_times
    if not n:
        return
    core.rules.require_span(call, "dst", "L0B", dst.addr, n * FRACTAL, dst.end)
    core.rules.require_span(call, "src", "L1", src.addr, end * FRACTAL, src.end)
    core.rules.require_span(call, "idx", "L1", idx.addr, end * FRACTAL // 4, idx.end)
    core.emit(Pipe.MTE1, MoveWork("L1_L0B", n, FRACTAL * 5 // 4, 512, -1, "", "int8"), dst, src, idx)
    if core.memory is not None:
        index = View(core.memory["IDX"], dst.addr // 4, idx.dtype)
        mte.run_load_sparse([core.view(dst), index], [core.view(src), core.view(idx)], p.start_index, n)
