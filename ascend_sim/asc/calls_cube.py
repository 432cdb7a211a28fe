"""mmad, the fixpipe, and the registers they use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ascend_sim.asc.calls_load import SET_REGISTER, require_sparse
from ascend_sim.asc.calls_move import check_gm, gm_align, pitch_align
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import DataCopyCO12DstParams, FixpipeConfig, FixpipeParamsV220, MmadParams
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor, Tensor
from ascend_sim.isa import cube
from ascend_sim.isa import fixpipe as fixpipe_semantics
from ascend_sim.isa.buffers import FRACTAL, View
from ascend_sim.isa.dtypes import DataType, uint8
from ascend_sim.isa.enums import CO2Layout, QuantModes
from ascend_sim.isa.instr import CubeWork, MoveWork, Pipe, Work
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError

MAX_MMAD = 4095

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


def mmad_with_sparse(dst: LocalTensor, fm: LocalTensor, filter: LocalTensor, mmad_params: MmadParams) -> None:
    """C = A x B, + C unless ``cmatrix_init_val``, with B's rows kept two of four (910B, int8): ``k`` counts columns of
    A; L0B holds k / 2 rows and, beside them, their index."""
    core = current()
    call, p = "mmad_with_sparse", mmad_params
    require_sparse(core, call)
    expected = (("dst", dst, "int32", "L0C"), ("fm", fm, "int8", "L0A"), ("filter", filter, "int8", "L0B"))
    for name, t, dtype, mem in expected:
        core.rules.require_memory(call, name, t.mem, mem)
        if t.dtype.name != dtype:
            raise InstructionError(call, f"{name} data type", t.dtype, f"must be {dtype}")
    for name, value in (("m", p.m), ("n", p.n), ("k", p.k)):
        core.rules.require_range(call, name, value, 0, MAX_MMAD)
    if p.k % 4:
        raise InstructionError(call, "k", p.k, "must be a multiple of 4: two of four are kept")
    if p.k_direction_align:
        raise InstructionError(call, "k_direction_align", True, "must be False")
    if not p.m or not p.n or not p.k:
        return
    m1, n1, k1 = ceil_div(p.m, CUBE), ceil_div(p.n, CUBE), ceil_div(p.k // 2, 32)
    core.rules.require_span(call, "fm", "L0A", fm.addr, m1 * ceil_div(p.k, 32) * FRACTAL, fm.end)
    core.rules.require_span(call, "filter", "L0B", filter.addr, n1 * k1 * FRACTAL, filter.end)
    core.rules.require_span(call, "dst", "L0C", dst.addr, m1 * n1 * 1024, dst.end)
    core.emit(Pipe.M, CubeWork("int8", m1, k1, n1), dst, fm, filter)
    if core.memory is not None:
        initialise = p.cmatrix_init_val if p.cmatrix_init_val is not None else not p.is_bias
        index = View(core.memory["IDX"], filter.addr // 4, uint8)
        cube.run_mmad_sparse(
            core.view(dst), core.view(fm), core.view(filter), index, p.m, p.n, p.k, bool(initialise)
        )


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
        bursts, nbytes, mode = c1, row, "split" if p.is_channel_split else ""
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
