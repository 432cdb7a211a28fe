"""Cube side of the kernel language: loads into L0, mmad, the fixpipe, and the registers they use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ascend_sim.asc.calls_move import check_gm, gm_align, pitch_align
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import (
    DataCopyCO12DstParams,
    FixpipeConfig,
    FixpipeParamsV220,
    LoadData2DParams,
    LoadData2DParamsV2,
    LoadData2dTransposeParams,
    LoadData2dTransposeParamsV2,
    LoadData3DParamsV1,
    LoadData3DParamsV2,
    LoadDataRepeatParam,
    MmadParams,
)
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor, Tensor
from ascend_sim.isa import cube, load3d, mte
from ascend_sim.isa import fixpipe as fixpipe_semantics
from ascend_sim.isa.buffers import FRACTAL
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.enums import CO2Layout, QuantModes
from ascend_sim.isa.instr import CubeWork, Load3dWork, MoveWork, Pipe, ScalarWork, Work
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
    else:
        raise InstructionError("load_data", "params", kind.__name__, "expected LoadData2DParams, LoadData3DParamsV1/V2")


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
    core.rules.require_range(call, "repeat_times", p.repeat_times, 0, 255)
    parts = max(src.dtype.block // CUBE, CUBE // src.dtype.block)
    nbytes = p.repeat_times * parts * FRACTAL
    work = MoveWork(f"L1_{dst.mem}", p.repeat_times, parts * FRACTAL, 512, -1, "transpose", src.dtype.name)
    core.emit(Pipe.MTE1, work, dst, src)
    core.rules.require_span(call, "dst", dst.mem, dst.addr, min(nbytes, FRACTAL), dst.end)
    if core.memory is not None:
        gap = p.src_frac_gap if isinstance(p, LoadData2dTransposeParamsV2) else 0
        mte.run_load2d_transposed(
            core.view(dst), core.view(src), p.start_index, p.repeat_times, p.src_stride, p.dst_gap, p.dst_frac_gap, gap
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
    """L1 wrap-around boundary in bytes; only 0 (no wrap) is supported."""
    if boundary:
        raise InstructionError("set_load_data_boundary", "boundary", boundary, "only 0 (no wrap-around) is supported")
    current().emit(Pipe.S, SET_REGISTER)


def set_load_data_repeat(param: LoadDataRepeatParam) -> None:
    """Repeats of load3d v2: ``repeat_time`` windows, ``repeat_stride`` x 16 apart along m (mode 0) or k (mode 1)."""
    core = current()
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
            shift = i * stride * CUBE
            m, k = (shift, 0) if mode == 0 else (0, shift)
            part = p._replace(m_start_pt=p.m_start_pt + m, k_start_pt=p.k_start_pt + k)
        work = _check_load3d_v2(
            core.rules, src.dtype, dst.dtype, src.mem, dst.mem, part, window, (src.addr, src.end), (dst.addr, dst.end)
        )
        core.emit(Pipe.MTE1, work, dst, src)
        if core.memory is not None:
            value = part.pad_value or core.pad_value
            target = core.view(dst)
            target = target._replace(start=target.start + i * work.nbytes)  # type: ignore[union-attr]
            load3d.run_load3d_v2(
                target, core.view(src), window, part.channel_size, part.m_start_pt, part.k_start_pt, part.m_extension,
                part.k_extension, value, dst.mem == "L0B", bool(part.en_transpose) and dst.mem == "L0A",
            )  # fmt: skip


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
    taps = window.kernel_h * window.kernel_w
    tap = (p.fetch_filter_h * window.kernel_w + p.fetch_filter_w) + (n - 1 if p.repeat_mode == 0 else 0)
    c1 = p.c1_index + max(tap, 0) // taps + 1
    rules.require_span(call, "src", "L1", src_local[0], c1 * window.h * window.w * 32, src_local[1])
    return Load3dWork(f"L1_{dst_mem}", n * FRACTAL, window.stride_w, window.kernel_w, bool(p.c_size))


def _load3d_v1(core: Core, dst: LocalTensor, src: Tensor, p: LoadData3DParamsV1) -> None:
    call = "load_data(LoadData3DParamsV1)"
    if not isinstance(src, LocalTensor):
        raise InstructionError(call, "src", src, "must lie in L1")
    if p.c_size:
        raise InstructionError(call, "c_size", p.c_size, "the small-channel mode is not supported")
    h, w, pads = p.l1_h, p.l1_w, p.pad_list
    if not h or not w:
        if 0 not in core.fmatrix:
            raise InstructionError(call, "l1_h", h, "is 0 and set_fmatrix was not called")
        h, w, pads = core.fmatrix[0]
    geometry = (h, w, p.filter_h, p.filter_w, p.stride_h, p.stride_w, p.dilation_filter_h, p.dilation_filter_w)
    window = _window(core.rules, call, geometry, pads, 255)
    work = _check_load3d_v1(
        core.rules, src.dtype, dst.dtype, src.mem, dst.mem, p, window, (src.addr, src.end), (dst.addr, dst.end)
    )
    core.emit(Pipe.MTE1, work, dst, src)
    if core.memory is not None:
        load3d.run_load3d_v1(
            core.view(dst), core.view(src), window, p.c1_index, p.fetch_filter_h, p.fetch_filter_w, p.left_top_h,
            p.left_top_w, p.jump_stride, p.repeat_mode, p.repeat_time, p.pad_value or core.pad_value,
        )  # fmt: skip


# destination, A, B types of mmad -> name in the chip tables
_MMAD = {
    ("float32", "float16", "float16"): "f32f16f16", ("float16", "float16", "float16"): "f16f16f16",
    ("float32", "bfloat16", "bfloat16"): "bf162f32", ("float32", "float32", "float32"): "f322f32",
    ("int32", "int8", "int8"): "s32s8s8", ("int32", "uint8", "int8"): "s32u8s8",
    ("uint32", "uint8", "uint8"): "u32u8u8", ("int32", "uint8", "uint8"): "s32u8u8",
    ("int32", "int4", "int4"): "s32s4s4",
}  # fmt: skip


@lru_cache(maxsize=1 << 14)
def _check_mmad(
    rules: ChipRules, types: tuple[DataType, ...], mems: tuple[str, ...], spans: tuple[tuple[int, int], ...],
    m: int, n: int, k: int, hf32: bool, a_depth: int,
) -> Work | None:  # fmt: skip
    call = "mmad"
    for name, mem, expected in zip(("dst", "fm", "filter", "bias"), mems, ("L0C", "L0A", "L0B", "BT"), strict=False):
        rules.require_memory(call, name, mem, expected)
    key = tuple(t.name for t in types[:3])
    token = _MMAD.get((key[0], key[1], key[2]))
    table = rules.table["mmad"]
    extra = token == "s32u8s8" and "s32s8s8" in table
    extra = extra or (token in ("bf162f32", "s32s4s4") and rules.family == "910B1")  # asc-devkit page, not in the ini
    if token is None or not (token in table or extra):
        given = f"{key[1]} x {key[2]} -> {key[0]}"
        raise InstructionError(call, "data types", given, f"{rules.name} has {' '.join(sorted(table))}")
    for name, value in (("m", m), ("n", n), ("k", k)):
        rules.require_range(call, name, value, 0, MAX_MMAD)
    if not m or not n or not k:
        return None
    k0 = types[1].block
    m1, n1, k1 = ceil_div(m, CUBE), ceil_div(n, CUBE), ceil_div(k, k0)
    rules.require_span(call, "fm", "L0A", spans[1][0], m1 * ceil_div(a_depth, k0) * FRACTAL, spans[1][1])
    rules.require_span(call, "filter", "L0B", spans[2][0], n1 * k1 * FRACTAL, spans[2][1])
    rules.require_span(call, "dst", "L0C", spans[0][0], m1 * n1 * 256 * types[0].size, spans[0][1])
    if len(mems) > 3:
        rules.require_span(call, "bias", "BT", spans[3][0], n * types[3].size, spans[3][1])
        if types[3].size != types[0].size:
            raise InstructionError(call, "bias data type", types[3], f"must have the width of {types[0]}")
    return CubeWork("hf32" if hf32 and key[1] == "float32" else types[1].name, m1, k1, n1)


def mmad(dst: LocalTensor, fm: LocalTensor, filter: LocalTensor, *args: Any, bias: LocalTensor | None = None,
         params: MmadParams | None = None) -> None:  # fmt: skip
    """``mmad(c, a, b, MmadParams)`` or ``mmad(c, a, b, bias, MmadParams)``: C = A x B, plus C when
    ``cmatrix_init_val`` is False, plus a bias row from the bias table."""
    core = current()
    for arg in args:
        if isinstance(arg, LocalTensor):
            bias = arg
        else:
            params = arg
    if not isinstance(params, MmadParams):
        raise InstructionError("mmad", "params", params, "expected MmadParams")
    p = params
    initialise = p.cmatrix_init_val if p.cmatrix_init_val is not None else not p.is_bias
    if bias is None and not initialise and p.cmatrix_source:
        raise InstructionError("mmad", "cmatrix_source", True, "needs a bias tensor in the bias table")
    operands = (dst, fm, filter) if bias is None else (dst, fm, filter, bias)
    a_depth = ceil_div(p.k, CUBE) * CUBE if p.k_direction_align else p.k
    work = _check_mmad(
        core.rules, tuple(t.dtype for t in operands), tuple(t.mem for t in operands),
        tuple((t.addr, t.end) for t in operands), p.m, p.n, p.k, core.hf32, a_depth,
    )  # fmt: skip
    if work is None:
        return
    core.emit(Pipe.M, work, dst, fm, filter, bias)
    if core.memory is not None:
        cube.run_mmad(
            core.view(dst), core.view(fm), core.view(filter), p.m, p.n, p.k, bool(initialise),
            None if bias is None else core.view(bias), core.hf32, a_depth,
        )  # fmt: skip


def set_hf32_mode(hf32_mode: bool) -> None:
    """Round float32 inputs of mmad to hf32 (twice the float32 rate)."""
    core = current()
    core.hf32 = bool(hf32_mode)
    core.emit(Pipe.S, SET_REGISTER)


def set_hf32_trans_mode(trans_mode: bool) -> None:
    """Rounding of hf32: only half to even (False) is supported."""
    if trans_mode:
        raise InstructionError("set_hf32_trans_mode", "trans_mode", trans_mode, "only False (half to even) exists here")
    current().emit(Pipe.S, SET_REGISTER)


def set_mm_layout_transform(mm_layout_mode: bool) -> None:
    """Order in which the cube walks its output (no effect on values)."""
    current().emit(Pipe.S, SET_REGISTER)


def set_fix_pipe_pre_quant_flag(config: int) -> None:
    """Scalar quantisation word of the fixpipe."""
    core = current()
    core.quant_word = int(config)
    core.emit(Pipe.S, SET_REGISTER)


_QUANT_TYPES = {
    QuantModes.F322F16: ("float32", ("float16",)), QuantModes.F322BF16: ("float32", ("bfloat16",)),
    QuantModes.DEQF16: ("int32", ("float16",)), QuantModes.VDEQF16: ("int32", ("float16",)),
    QuantModes.QF322B8_PRE: ("float32", ("int8", "uint8")), QuantModes.VQF322B8_PRE: ("float32", ("int8", "uint8")),
    QuantModes.REQ8: ("int32", ("int8", "uint8")), QuantModes.VREQ8: ("int32", ("int8", "uint8")),
}  # fmt: skip


@lru_cache(maxsize=1 << 14)
def _check_fixpipe(
    rules: ChipRules, src_mem: str, dst_mem: str, src_type: DataType, dst_type: DataType, p: FixpipeParamsV220,
    row_major: bool, src_local: tuple[int, int], dst_local: tuple[int, int], gm: int, align: int, atomic: bool,
) -> tuple[Work, int]:  # fmt: skip
    call = "fixpipe"
    if not rules.fixpipe:
        raise InstructionError(call, "chip", rules.name, "has no fixpipe: the cube leaves through data_copy L0C to UB")
    rules.require_memory(call, "src", src_mem, "L0C")
    targets = ("GM", "L1", "UB") if rules.exists("fix_pipe_l0c2ub") else ("GM", "L1")
    rules.require_memory(call, "dst", dst_mem, *targets)
    if p.quant_pre == QuantModes.NoQuant:
        if src_type.name != dst_type.name:
            raise InstructionError(call, "quant_pre", "NoQuant", f"{src_type} -> {dst_type} needs a quantisation mode")
    else:
        source, targets_t = _QUANT_TYPES[QuantModes(p.quant_pre)]
        if src_type.name != source or dst_type.name not in targets_t:
            raise InstructionError(
                call, "quant_pre", QuantModes(p.quant_pre).name, f"converts {source} to {' or '.join(targets_t)}, "
                f"not {src_type} to {dst_type}",
            )  # fmt: skip
    rules.require_range(call, "n_size", p.n_size, 1, 4095)
    rules.require_range(call, "m_size", p.m_size, 1, 8192 if row_major else 65535)
    rules.require_range(call, "src_stride", p.src_stride, 0, 65535)
    if not row_major:
        unit = 8 if p.is_channel_split else CUBE
        if p.n_size % unit:
            raise InstructionError(call, "n_size", p.n_size, f"must be a multiple of {unit} for Nz output")
        if p.nd_num > 1:
            raise InstructionError(call, "nd_num", p.nd_num, "applies to row-major output only")
    if p.is_channel_split and (row_major or dst_type.size != 4):
        raise InstructionError(call, "is_channel_split", True, "needs Nz output of float32")
    n1 = ceil_div(p.n_size, CUBE)
    in_size, out_size = src_type.size, dst_type.size
    panel = ((n1 - 1) * p.src_stride + p.m_size) * CUBE * in_size
    rules.require_span(call, "src", "L0C", src_local[0], panel + (p.nd_num - 1) * p.src_nd_stride * 1024, src_local[1])
    if row_major:
        span = ((p.m_size - 1) * p.dst_stride + p.n_size + (p.nd_num - 1) * p.dst_nd_stride) * out_size
        bursts, nbytes, mode = p.m_size * p.nd_num, p.n_size * out_size, "nz2nd"
        if p.m_size > 1:
            align = min(align, pitch_align(p.dst_stride * out_size))
    else:
        c0 = 32 if out_size == 1 else 8 if p.is_channel_split else CUBE
        c1 = ceil_div(p.n_size, c0)
        row = p.m_size * c0 * out_size
        span = (c1 - 1) * p.dst_stride * 32 + row
        bursts, nbytes, mode = c1, row, ""
        if c1 > 1:
            align = min(align, pitch_align(p.dst_stride * 32))
    if dst_mem != "GM":
        rules.require_span(call, "dst", dst_mem, dst_local[0], span, dst_local[1])
        align = 512
    if atomic:
        mode = "atomic"
    return MoveWork(f"L0C_{dst_mem}", bursts, nbytes, align, gm, mode, dst_type.name), span


def fixpipe(
    dst: Tensor, src: LocalTensor, *args: Any, params: FixpipeParamsV220 | None = None,
    config: FixpipeConfig | None = None, cbuf_workspace: LocalTensor | None = None,
) -> None:  # fmt: skip
    """``fixpipe(dst, c, FixpipeParamsV220[, config])`` or with the quantisation vector's workspace before the
    parameters: L0C to global memory, L1 or (310B) the unified buffer; row major unless config is Nz."""
    core = current()
    for arg in args:
        if isinstance(arg, FixpipeParamsV220):
            params = arg
        elif isinstance(arg, FixpipeConfig):
            config = arg
        elif isinstance(arg, LocalTensor):
            cbuf_workspace = arg
    if params is None:
        raise InstructionError("fixpipe", "params", None, "expected FixpipeParamsV220")
    row_major = config is None or config.layout == CO2Layout.ROW_MAJOR
    _fixpipe(core, dst, src, params, row_major, cbuf_workspace)


def _fixpipe(
    core: Core, dst: Tensor, src: LocalTensor, p: FixpipeParamsV220, row_major: bool, vector: LocalTensor | None
) -> None:
    gm = dst.arg if isinstance(dst, GlobalTensor) else -1
    atomic = gm >= 0 and core.atomic is not None
    work, span = _check_fixpipe(
        core.rules, src.mem, dst.mem, src.dtype, dst.dtype, p, row_major, (src.addr, src.end),
        (0, 0) if gm >= 0 else (dst.addr, dst.end), gm, gm_align(dst.addr) if gm >= 0 else 512, atomic,
    )  # fmt: skip
    if gm >= 0:
        check_gm("fixpipe", dst, span)  # type: ignore[arg-type]
    if gm >= 0:
        core.emit_transfer(Pipe.FIX, work, dst, src)
    else:
        core.emit(Pipe.FIX, work, dst, src, vector)
    if core.memory is None:
        return
    words = None
    if p.quant_pre in fixpipe_semantics.VECTOR_QUANT:
        if vector is None:
            raise InstructionError("fixpipe", "quant_pre", QuantModes(p.quant_pre).name, "needs the vector of scales")
        words = core.view(vector)._replace(dtype=vector.dtype).flat(p.n_size).view(np.uint64)
    elif p.quant_pre in fixpipe_semantics.TO_BYTE or p.quant_pre in fixpipe_semantics.TO_HALF:
        words = np.asarray([p.deq_scalar or core.quant_word], np.uint64)
    fixpipe_semantics.run_fixpipe(
        core.view(dst), core.view(src), p.n_size, p.m_size, p.src_stride, p.dst_stride, int(p.quant_pre), words,
        bool(p.relu_en), row_major, p.nd_num, p.src_nd_stride, p.dst_nd_stride, bool(p.is_channel_split),
        core.atomic[0] if atomic and core.atomic else None,
    )  # fmt: skip


def copy_co1(core: Core, dst: Tensor, src: Tensor, p: DataCopyCO12DstParams) -> None:
    """data_copy of L0C with `DataCopyCO12DstParams`: the fixpipe under another name."""
    if not isinstance(src, LocalTensor):
        raise InstructionError("data_copy(DataCopyCO12DstParams)", "src", src, "must lie in L0C")
    params = FixpipeParamsV220(
        p.n_size, p.m_size, p.src_stride, p.dst_stride, p.quant_pre, relu_en=bool(p.relu_pre),
        is_channel_split=p.channel_split,
    )  # fmt: skip
    _fixpipe(core, dst, src, params, bool(p.nz2nd_en), None)
