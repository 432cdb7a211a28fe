"""Broadcast, comparison, selection, gathering and transposition of lanes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ascend_sim.asc.calls_vector import BINARY, UNARY, issue, operand, selection
from ascend_sim.asc.checked import MAX_REPEATS, Checked, Operand, check_lanes, check_operand, check_types, lane_span
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import (
    BinaryRepeatParams,
    BrcbRepeatParams,
    GatherMaskParams,
    GatherRepeatParams,
    TransDataTo5HDParams,
    TransposeParamsExt,
    UnaryRepeatParams,
)
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa import rearrange
from ascend_sim.isa.buffers import BLOCK, REPEAT, View
from ascend_sim.isa.dtypes import DataType, as_dtype, integer_range, uint8, uint32, uint64
from ascend_sim.isa.enums import CMPMODE, SelMode, TPosition, TransposeType
from ascend_sim.isa.instr import Pipe, ScalarWork, VectorWork
from ascend_sim.isa.lanes import Lanes, Mask
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError


@lru_cache(maxsize=1 << 14)
def _check_brcb(rules: ChipRules, dst: Operand, src: Operand, repeats: int, p: BrcbRepeatParams) -> Checked:
    call = "brcb"
    if dst.dtype is not src.dtype and dst.dtype.size != src.dtype.size:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    rules.require_range(call, "repeat_times", repeats, 0, MAX_REPEATS)
    rules.require_range(call, "dst_blk_stride", p.dst_blk_stride, 1, 255)
    rules.require_range(call, "dst_rep_stride", p.dst_rep_stride, 0, 255)
    composed = rules.family == "310P3" and dst.dtype.size > 1  # rows of copies, transposed
    if not composed:
        rules.require(call, "vbrcb", dst.dtype)
    check_operand(rules, call, src, repeats * 8 * src.dtype.size)
    width = REPEAT // dst.dtype.size
    check_operand(rules, call, dst, lane_span(dst.dtype, width, repeats, p.dst_blk_stride, p.dst_rep_stride))
    if not repeats:
        return Checked((), Lanes())
    works = [VectorWork("vbrcb", dst.dtype.name, repeats)]
    if composed:
        copies, squares = ceil_div(repeats * 8, 16), ceil_div(repeats * 8, dst.dtype.block)
        works = [VectorWork("vadds", dst.dtype.name, copies), VectorWork("vnchwconv", dst.dtype.name, squares)]
    return Checked(tuple(works), Lanes())


def brcb(dst: LocalTensor, src0: LocalTensor, repeat_times: int, repeat_params: BrcbRepeatParams) -> None:
    """Each repeat takes 8 elements of src0 and fills 8 blocks of dst with them (vbrcb)."""
    core = current()
    p = BrcbRepeatParams(*repeat_params)
    checked = _check_brcb(core.rules, operand("dst", dst, "brcb"), operand("src0", src0, "brcb"), int(repeat_times), p)
    issue(core, checked, dst, src0)
    if core.memory is not None and repeat_times:
        rearrange.run_brcb(core.view(dst), core.view(src0), int(repeat_times), p.dst_blk_stride, p.dst_rep_stride)


_MODE_NAMES = {m: m.name.lower() for m in CMPMODE}


@lru_cache(maxsize=1 << 14)
def _check_compare(
    rules: ChipRules, call: str, op: str, dst: Operand | None, sources: tuple[Operand, ...], mode: int, mask: Any,
    repeat: int, params: tuple[int, ...], counter: bool,
) -> Checked:  # fmt: skip
    dtype = sources[0].dtype
    machine = f"{'vcmpvs' if op == 'vcmps' else 'vcmpv'}_{_MODE_NAMES[CMPMODE(mode)]}"
    if any(s.dtype is not dtype for s in sources):
        raise InstructionError(call, "data types", ", ".join(str(s.dtype) for s in sources), "must be the same")
    rules.require(call, machine, dtype)
    # lanes are those of the sources; the bit result is checked apart
    n = len(sources)
    blk, rep = params[1 : n + 1], params[n + 2 :]
    checked = check_lanes(rules, call, op, dtype.name, (sources[0], *sources), mask, repeat,
                          (1, *blk, 8, *rep), counter)  # fmt: skip
    if dst is not None:
        if dst.dtype.size != 1:
            raise InstructionError(call, "dst data type", dst.dtype, "must be uint8 or int8")
        if repeat < 0:
            if mask * dtype.size % REPEAT:
                raise InstructionError(call, "count", mask, "the compared bytes must be a multiple of 256")
            check_operand(rules, call, dst, ceil_div(mask, 8))
        else:
            check_operand(rules, call, dst, checked.lanes.repeats * checked.lanes.width // 8)
    return checked


def compare(*args: Any, **kwargs: Any) -> None:
    """``compare(dst, src0, src1, mode, count)``, ``compare(dst, src0, src1, mode, mask, repeat_times, params)`` write
    packed bits; ``compare(src0, src1, mode, mask, params)`` writes the comparison register (one repeat)."""
    core = current()
    call = "compare"
    if len(args) >= 3 and isinstance(args[2], LocalTensor):
        names = ("dst", "src0", "src1", "cmp_mode", "mask", "repeat_times", "repeat_params", "is_set_mask")
        given = dict(zip(names, args, strict=False)) | kwargs
        mask, repeat, counter = selection(
            core, call, given.get("mask"), given.get("repeat_times"), None, given.get("is_set_mask", True),
            given.get("count"),
        )  # fmt: skip
        dst, a, b = given["dst"], given["src0"], given["src1"]
        p = BinaryRepeatParams(*(given.get("repeat_params") or BINARY))
        checked = _check_compare(
            core.rules, call, "vcmpv", operand("dst", dst, call), (operand("src0", a, call), operand("src1", b, call)),
            int(given["cmp_mode"]), mask, repeat, tuple(p), counter,
        )  # fmt: skip
        issue(core, checked, dst, a, b)
        if core.memory is not None:
            rearrange.run_compare(core.view(dst), core.view(a), core.view(b), int(given["cmp_mode"]), checked.lanes)
        return
    short = ("src0", "src1", "cmp_mode", "mask", "repeat_params", "is_set_mask")
    given = dict(zip(short, args, strict=False)) | kwargs
    a, b = given["src0"], given["src1"]
    mask, repeat, _ = selection(core, call, given.get("mask"), 1, None, given.get("is_set_mask", True), None)
    p = BinaryRepeatParams(*(given.get("repeat_params") or BINARY))
    checked = _check_compare(
        core.rules, call, "vcmp", None, (operand("src0", a, call), operand("src1", b, call)), int(given["cmp_mode"]),
        mask, repeat, tuple(p), False,
    )  # fmt: skip
    issue(core, checked, None, a, b)
    if core.memory is not None:
        target = View(core.cmp_mask, 0, uint8)
        rearrange.run_compare(target, core.view(a), core.view(b), int(given["cmp_mode"]), checked.lanes)


def compare_scalar(
    dst: LocalTensor, src0: LocalTensor, src1_scalar: Any, cmp_mode: CMPMODE, mask: Any = None,
    repeat_times: Any = None, repeat_params: UnaryRepeatParams | None = None, is_set_mask: bool = True, *,
    count: int | None = None,
) -> None:  # fmt: skip
    """Packed bits of ``src0 <mode> scalar`` (vcmps)."""
    core = current()
    call = "compare_scalar"
    selected, repeat, counter = selection(core, call, mask, repeat_times, None, is_set_mask, count)
    checked = _check_compare(
        core.rules, call, "vcmps", operand("dst", dst, call), (operand("src0", src0, call),), int(cmp_mode), selected,
        repeat, tuple(repeat_params or UNARY), counter,
    )  # fmt: skip
    issue(core, checked, dst, src0)
    if core.memory is not None:
        rearrange.run_compare_scalar(core.view(dst), core.view(src0), src1_scalar, int(cmp_mode), checked.lanes)


def get_cmp_mask(dst: LocalTensor) -> None:
    """Comparison register to the unified buffer (16 bytes)."""
    core = current()
    core.rules.require_span("get_cmp_mask", "dst", "UB", dst.addr, 16, dst.end, 16)
    issue(core, Checked((VectorWork("vcmp", "uint8", 1),), Lanes()), dst)
    if core.memory is not None:
        rearrange.run_move_register(core.view(dst), View(core.cmp_mask, 0, uint8), 16)


def set_cmp_mask(src: LocalTensor) -> None:
    """Comparison register from the unified buffer (16 bytes)."""
    core = current()
    core.rules.require_span("set_cmp_mask", "src", "UB", src.addr, 16, src.end, 16)
    issue(core, Checked((VectorWork("vcmp", "uint8", 1),), Lanes()), None, src)
    if core.memory is not None:
        rearrange.run_move_register(View(core.cmp_mask, 0, uint8), core.view(src), 16)


def select(dst: LocalTensor, *args: Any, **kwargs: Any) -> None:
    """``select(dst, sel_mask, src0, src1, sel_mode, count | mask, repeat_times, params)`` with src1 a tensor or a
    scalar; ``select(dst, src0, src1, repeat_times=, repeat_params=, sel_mode=)`` uses the comparison register."""
    core = current()
    call = "select"
    if len(args) == 2 or (len(args) > 2 and isinstance(args[2], int) and not isinstance(args[2], SelMode)):
        short = ("src0", "src1", "repeat_times", "repeat_params", "sel_mode")
        given = dict(zip(short, args, strict=False)) | kwargs
        _select(core, dst, None, given["src0"], given["src1"], int(given.get("sel_mode", 0)), None,
                given["repeat_times"], given.get("repeat_params"), True, None)  # fmt: skip
        return
    names = ("sel_mask", "src0", "src1", "sel_mode", "mask", "repeat_times", "repeat_params", "is_set_mask")
    given = dict(zip(names, args, strict=False)) | kwargs
    for name in ("sel_mask", "src0", "src1"):
        if name not in given:
            raise InstructionError(call, name, None, "is missing")
    _select(
        core, dst, given["sel_mask"], given["src0"], given["src1"], int(given.get("sel_mode", 0)), given.get("mask"),
        given.get("repeat_times"), given.get("repeat_params"), given.get("is_set_mask", True), given.get("count"),
    )  # fmt: skip


def _select(
    core: Core, dst: LocalTensor, sel_mask: LocalTensor | None, src0: LocalTensor, src1: Any, mode: int, mask: Any,
    repeat_times: Any, params: Any, is_set_mask: bool, count: int | None,
) -> None:  # fmt: skip
    call = "select"
    if mode != SelMode.VSEL_CMPMASK_SPR and core.rules.family == "910A":
        raise InstructionError(call, "sel_mode", SelMode(mode).name, f"{core.rules.name} has VSEL_CMPMASK_SPR only")
    width = REPEAT // dst.dtype.size
    selected: Mask
    if sel_mask is None:
        selected, repeat, counter = width, int(repeat_times), False
    else:
        selected, repeat, counter = selection(core, call, mask, repeat_times, params, is_set_mask, count)
    tensor = isinstance(src1, LocalTensor)
    check_types(core.rules, call, "vsel", False, dst.dtype, src0.dtype, src1.dtype if tensor else src0.dtype)
    operands = [operand("dst", dst, call), operand("src0", src0, call)]
    p = BinaryRepeatParams(*(params or BINARY))
    strides: tuple[int, ...] = tuple(p)
    if tensor:
        operands.append(operand("src1", src1, call))
    else:
        strides = (p[0], p[1], p[3], p[4])
    checked = check_lanes(core.rules, call, "vsel", dst.dtype.name, tuple(operands), selected, repeat, strides, counter)
    lanes = checked.lanes
    total = lanes.n if lanes.n >= 0 else lanes.repeats * width
    bits_needed = width if mode == SelMode.VSEL_CMPMASK_SPR else total
    if sel_mask is not None:
        core.rules.require_span(call, "sel_mask", "UB", sel_mask.addr, ceil_div(bits_needed, 8), sel_mask.end)
    issue(core, checked, dst, sel_mask, src0, src1)
    if core.memory is None or not total:
        return
    bits = View(core.cmp_mask, 0, uint8) if sel_mask is None else core.view(sel_mask)
    second = core.view(src1) if tensor else None
    rearrange.run_select_masked(
        core.view(dst), bits, width if sel_mask is None else bits_needed, core.view(src0), second,
        None if tensor else src1, mode, lanes, width,
    )  # fmt: skip


@lru_cache(maxsize=1 << 14)
def _check_gather(
    rules: ChipRules, dst: Operand, src: Operand, offset: Operand, mask: Any, repeat: int, dst_rep: int, counter: bool
) -> Checked:
    call = "gather"
    if dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    if offset.dtype is not uint32:
        raise InstructionError(call, "src_offset data type", offset.dtype, "must be uint32")
    rules.require(call, "vgather", dst.dtype)
    checked = check_lanes(rules, call, "vgather", dst.dtype.name, (dst,), mask, repeat, (1, dst_rep), counter)
    lanes = checked.lanes
    check_operand(rules, call, offset, (lanes.n if lanes.n >= 0 else lanes.repeats * lanes.width) * 4)
    check_operand(rules, call, src, dst.dtype.size)
    return checked


def gather(
    dst: LocalTensor, src: LocalTensor, src_offset: LocalTensor, src_base: int, mask: Any = None,
    repeat_times: Any = None, dst_rep_stride: int = 8, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst lane i = the element at byte ``src_base + src_offset[i]`` of src (vgather)."""
    core = current()
    selected, repeat, counter = selection(core, "gather", mask, repeat_times, None, True, count)
    checked = _check_gather(
        core.rules, operand("dst", dst, "gather"), operand("src", src, "gather"),
        operand("src_offset", src_offset, "gather"), selected, repeat, int(dst_rep_stride), counter,
    )  # fmt: skip
    issue(core, checked, dst, src, src_offset)
    if core.memory is None:
        return
    try:
        rearrange.run_gather_table(
            core.view(dst), core.view(src), core.view(src_offset), int(src_base), checked.lanes, src.end - src.addr
        )
    except IndexError as error:
        raise InstructionError("gather", "src_offset", "out of range", str(error)) from error


def gatherb(
    dst: LocalTensor, src0: LocalTensor, offset: LocalTensor, repeat_times: int, repeat_params: GatherRepeatParams
) -> None:
    """Each repeat collects 8 blocks of 32 bytes by byte offsets (vgatherb)."""
    core = current()
    call, p = "gatherb", GatherRepeatParams(*repeat_params)
    check_types(core.rules, call, "vgatherb", False, dst.dtype, src0.dtype, src0.dtype)
    if offset.dtype is not uint32:
        raise InstructionError(call, "offset data type", offset.dtype, "must be uint32")
    core.rules.require_range(call, "repeat_times", repeat_times, 0, MAX_REPEATS)
    check_operand(core.rules, call, operand("offset", offset, call), repeat_times * 32)
    span = lane_span(dst.dtype, REPEAT // dst.dtype.size, repeat_times, p.dst_blk_stride, p.dst_rep_stride)
    check_operand(core.rules, call, operand("dst", dst, call), span)
    if not repeat_times:
        return
    issue(core, Checked((VectorWork("vgatherb", dst.dtype.name, repeat_times),), Lanes()), dst, src0, offset)
    if core.memory is not None:
        try:
            rearrange.run_gatherb_table(
                core.view(dst), core.view(src0), core.view(offset), repeat_times, p.dst_blk_stride, p.dst_rep_stride,
                src0.end - src0.addr,
            )  # fmt: skip
        except IndexError as error:
            raise InstructionError(call, "offset", "out of range", str(error)) from error


def gather_mask(
    dst: LocalTensor, src0: LocalTensor, src1_pattern: Any, reduce_mode: bool, mask: int, params: GatherMaskParams,
    gather_mask_mode: Any = None,
) -> int:  # fmt: skip
    """Pack the lanes whose pattern bit is set (vreducev2); returns how many.

    ``reduce_mode`` False: whole repeats; True: ``mask`` elements of each repeat. Without values a tensor pattern counts
    as keeping all lanes, and the trace is marked value dependent.
    """
    core = current()
    call, p = "gather_mask", GatherMaskParams(*params)
    dtype = src0.dtype
    machine = "vreducev2" if core.rules.exists("vreducev2") else "vreduce"
    check_types(core.rules, call, machine, False, dst.dtype, dtype, dtype)
    width = REPEAT // dtype.size
    fixed = not isinstance(src1_pattern, LocalTensor)
    top = 7 if machine == "vreducev2" else 6
    if fixed and not 1 <= int(src1_pattern) <= top:
        raise InstructionError(call, "src1_pattern", src1_pattern, f"fixed patterns are 1..{top}")
    elements = int(mask) if reduce_mode else width
    blocks = ceil_div(elements, dtype.block)
    span = ((p.repeat_times - 1) * p.src0_repeat_stride + (blocks - 1) * p.src0_block_stride + 1) * BLOCK
    check_operand(core.rules, call, operand("src0", src0, call), span if p.repeat_times else 0)
    check_operand(core.rules, call, operand("dst", dst, call), dtype.size)
    per_repeat = ceil_div(elements, width)
    if p.repeat_times:
        work = VectorWork(machine, dtype.name, p.repeat_times * per_repeat, reduce_mode)
        issue(core, Checked((work,), Lanes()), dst, src0, src1_pattern)
    if fixed:
        bits = rearrange.pattern_bits(int(src1_pattern), elements)
        kept = int(bits.sum()) * p.repeat_times
    else:
        core.value_dependent = True
        kept = elements * p.repeat_times
    if core.memory is not None and p.repeat_times:
        kept = rearrange.run_gather_mask_rows(
            core.view(dst), core.view(src0), int(src1_pattern) if fixed else core.view(src1_pattern), p.repeat_times,
            elements, (p.src0_repeat_stride, p.src0_block_stride), p.src1_repeat_stride,
        )  # fmt: skip
    core.remain_count = kept
    return kept


def get_gather_mask_remain_count() -> int:
    """Elements the last `gather_mask` kept."""
    return current().remain_count


@lru_cache(maxsize=1 << 14)
def _check_5hd(
    rules: ChipRules, dtype: DataType, dst: tuple[tuple[str, int, int], ...], src: tuple[tuple[str, int, int], ...],
    p: TransDataTo5HDParams,
) -> Checked:  # fmt: skip
    call = "trans_data_to_5hd"
    rules.require(call, "vnchwconv", dtype)
    rules.require_range(call, "repeat_times", p.repeat_times, 0, MAX_REPEATS)
    for side, rows, stride in (("dst", dst, p.dst_rep_stride), ("src", src, p.src_rep_stride)):
        if len(rows) != 16:
            raise InstructionError(call, f"{side} list", len(rows), "must have 16 entries")
        rules.require_range(call, f"{side}_rep_stride", stride, 0, 65535)
        span = ((p.repeat_times - 1) * stride if p.repeat_times > 1 else 0) * BLOCK + BLOCK
        for i, (mem, addr, end) in enumerate(rows):
            rules.require_memory(call, f"{side}[{i}]", mem, "UB")
            rules.require_span(call, f"{side}[{i}]", "UB", addr, span, end)
    if not p.repeat_times:
        return Checked((), Lanes())
    return Checked((VectorWork("vnchwconv", dtype.name, p.repeat_times),), Lanes())


def _addresses(core: Core, side: str, rows: Any, dtype: Any) -> list[LocalTensor]:
    """The 16 rows of one side: tensors, byte addresses in the unified buffer, or a uint64 tensor of such addresses."""
    call = "trans_data_to_5hd"
    if isinstance(rows, LocalTensor):
        if rows.dtype is not uint64:
            raise InstructionError(call, f"{side} data type", rows.dtype, "a tensor of addresses is uint64")
        check_operand(core.rules, call, operand(side, rows, call), 128)
        rows = core.view(rows).flat(16).tolist() if core.memory is not None else [0] * 16
        core.value_dependent = True
    rows = list(rows)
    if len(rows) != 16:
        raise InstructionError(call, f"{side} list", len(rows), "must have 16 entries")
    kind = as_dtype(dtype)
    return [t if isinstance(t, LocalTensor) else LocalTensor(kind, TPosition.VECCALC, int(t)) for t in rows]


def trans_data_to_5hd(
    dst_or_list: Any, src_or_list: Any, params: TransDataTo5HDParams, dtype: Any = "float16"
) -> None:
    """Transpose 16 rows of 32 bytes (vnchwconv). Both lists hold 16 tensors or byte addresses, the rows' starts;
    addresses may also come in two uint64 tensors. ``dtype``: element type where addresses do not tell."""
    core = current()
    call, p = "trans_data_to_5hd", TransDataTo5HDParams(*params)
    dst, src = (_addresses(core, side, rows, dtype) for side, rows in (("dst", dst_or_list), ("src", src_or_list)))
    dtype = src[0].dtype
    if any(t.dtype is not dtype for t in (*dst, *src)):
        raise InstructionError(call, "data types", str(dtype), "all rows must have the same type")
    checked = _check_5hd(
        core.rules, dtype, tuple((t.mem, t.addr, t.end) for t in dst), tuple((t.mem, t.addr, t.end) for t in src), p
    )
    issue(core, checked, dst, *src)
    if core.memory is not None and p.repeat_times:
        rearrange.run_nchwconv(
            [core.view(t) for t in dst], [core.view(t) for t in src], p.repeat_times, p.dst_rep_stride,
            p.src_rep_stride, bool(p.dst_high_half), bool(p.src_high_half),
        )  # fmt: skip


def transpose(
    dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: LocalTensor | None = None,
    params: TransposeParamsExt | None = None,
) -> None:  # fmt: skip
    """``transpose(dst, src)``: one 16 x 16 block of 16-bit elements (vtranspose). With a buffer and
    `TransposeParamsExt` also NCHW to NHWC and back, which the language expands to vnchwconv."""
    core = current()
    call = "transpose"
    kind = params.transpose_type if params is not None else TransposeType.TRANSPOSE_ND2ND_B16
    if kind == TransposeType.TRANSPOSE_TYPE_NONE:
        return
    if kind in (TransposeType.TRANSPOSE_NCHW2NHWC, TransposeType.TRANSPOSE_NHWC2NCHW):
        assert params is not None
        _transpose_nchw(core, dst, src, shared_tmp_buffer, params)
        return
    if kind != TransposeType.TRANSPOSE_ND2ND_B16:
        rule = "ND2ND_B16, NCHW2NHWC and NHWC2NCHW exist"
        raise InstructionError(call, "transpose_type", TransposeType(kind).name, rule)
    check_types(core.rules, call, "vtranspose", False, dst.dtype, src.dtype, src.dtype)
    for name, t in (("dst", dst), ("src", src)):
        check_operand(core.rules, call, operand(name, t, call), 512)
    issue(core, Checked((VectorWork("vtranspose", dst.dtype.name, 1),), Lanes()), dst, src)
    if core.memory is not None:
        rearrange.run_transpose(core.view(dst), core.view(src))


def _transpose_nchw(
    core: Core, dst: LocalTensor, src: LocalTensor, tmp: LocalTensor | None, p: TransposeParamsExt
) -> None:
    call, rules = "transpose", core.rules
    if rules.family == "310B1":
        raise InstructionError(call, "transpose_type", p.transpose_type.name, f"does not exist on {rules.name}")
    if dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    rules.require(call, "vnchwconv", src.dtype)
    n, c, hw, size = int(p.n_size), int(p.c_size), int(p.h_size) * int(p.w_size), src.dtype.size
    rules.require_range(call, "n_size", n, 0, 65535)
    rules.require_range(call, "c_size", c, 0, 4095)
    rules.require_range(call, "h_size x w_size", hw, 0, 4095)
    if hw * size % BLOCK:
        raise InstructionError(call, "h_size x w_size", hw, "rows must be multiples of 32 bytes")
    if not n or not c or not hw:
        return
    to_nhwc = p.transpose_type == TransposeType.TRANSPOSE_NCHW2NHWC
    for name, t in (("dst", dst), ("src", src)):
        check_operand(rules, call, operand(name, t, call), n * c * hw * size)
    if rules.family == "910B1":
        high, wide = (32 if size == 1 else 16), 32 // size
        needed = ((c + 2) if to_nhwc else (2 * c + 1)) * high * wide * size
        if tmp is None:
            raise InstructionError(call, "shared_tmp_buffer", None, f"{needed} bytes are needed")
        check_operand(rules, call, operand("shared_tmp_buffer", tmp, call), needed)
    # 16 rows of one side become 16 (8-bit: 32 in two halves) columns of the other
    squares = n * ceil_div(c, 16) * ceil_div(hw * size, BLOCK) * (2 if size == 1 else 1)
    issue(core, Checked((VectorWork("vnchwconv", src.dtype.name, squares),), Lanes()), dst, src, tmp)
    if core.memory is not None:
        rearrange.run_transpose_nchw(core.view(dst), core.view(src), n, c, hw, to_nhwc)


@lru_cache(maxsize=1 << 14)
def _check_scatter(
    rules: ChipRules, dst: Operand, src: Operand, offset: Operand, mask: Any, repeat: int, src_rep: int, counter: bool
) -> Checked:
    call = "scatter"
    if dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    if offset.dtype is not uint32:
        raise InstructionError(call, "dst_offset data type", offset.dtype, "must be uint32")
    rules.require(call, "vscatter", dst.dtype)
    walked = (src._replace(name="src"),)
    checked = check_lanes(rules, call, "vscatter", dst.dtype.name, walked, mask, repeat, (1, src_rep), counter)
    lanes = checked.lanes
    check_operand(rules, call, offset, (lanes.n if lanes.n >= 0 else lanes.repeats * lanes.width) * 4)
    check_operand(rules, call, dst, dst.dtype.size)
    # the source is operand 1 of the semantics
    return checked._replace(lanes=lanes._replace(blk=(1, 1), rep=(8, src_rep)))


def scatter(
    dst: LocalTensor, src: LocalTensor, dst_offset: LocalTensor, dst_base: int, mask: Any = None,
    repeat_times: Any = None, src_rep_stride: int = 8, *, count: int | None = None,
) -> None:  # fmt: skip
    """The element at byte ``dst_base + dst_offset[i]`` of dst = src lane i (vscatter; 310P, 310B)."""
    core = current()
    selected, repeat, counter = selection(core, "scatter", mask, repeat_times, None, True, count)
    if int(dst_base) % dst.dtype.size:
        raise InstructionError("scatter", "dst_base", dst_base, f"must be a multiple of {dst.dtype.size} bytes")
    checked = _check_scatter(
        core.rules, operand("dst", dst, "scatter"), operand("src", src, "scatter"),
        operand("dst_offset", dst_offset, "scatter"), selected, repeat, int(src_rep_stride), counter,
    )  # fmt: skip
    issue(core, checked, dst, src, dst_offset)
    if core.memory is not None and (checked.lanes.n or checked.lanes.repeats):
        try:
            rearrange.run_scatter(
                core.view(dst), core.view(src), core.view(dst_offset), int(dst_base), checked.lanes, dst.end - dst.addr
            )
        except IndexError as error:
            raise InstructionError("scatter", "dst_offset", "out of range", str(error)) from error


def create_vec_index(
    dst: LocalTensor, first_value: Any, mask: Any = None, repeat_times: Any = None, dst_blk_stride: int = 1,
    dst_rep_stride: int = 8, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst lanes count up from ``first_value``: ``(dst, first, count)`` or with mask, repeat_times and strides. One
    instruction (vci) on 310B; on 310P and 910B the language writes one block by the scalar unit and adds the rest."""
    core = current()
    call, rules = "create_vec_index", core.rules
    if rules.family == "910A":
        raise InstructionError(call, "chip", rules.name, "does not exist on this chip")
    if dst.dtype.name not in ("int16", "float16", "int32", "float32"):
        raise InstructionError(call, "data type", dst.dtype, "takes int16, float16, int32 and float32")
    if dst.dtype.is_int():
        low, high = integer_range(dst.dtype)
        rules.require_range(call, "first_value", int(first_value), low, high)
    selected, repeat, counter = selection(core, call, mask, repeat_times, None, True, count)
    strides = (int(dst_blk_stride), int(dst_rep_stride))
    op = "vci" if rules.exists("vci") else "vadds"
    checked = check_lanes(
        rules, call, op, dst.dtype.name, (operand("dst", dst, call),), selected, repeat, strides, counter
    )
    if not checked.works:
        return
    if op == "vadds":  # 8 or 16 scalar writes, doubled to a repeat, then each repeat from the one before
        per = dst.dtype.block
        core.emit(Pipe.S, ScalarWork("set_value", per), dst)
        work = checked.works[0]
        repeats = sum(w.repeats for w in checked.works)
        checked = checked._replace(works=(work._replace(repeats=1, counter=False),) * (2 + repeats))
    issue(core, checked, dst)
    if core.memory is not None:
        rearrange.run_arange(core.view(dst), first_value, checked.lanes)


arange = create_vec_index
