"""Sorting: 32 scores at a time, merging sorted queues, region proposals."""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.calls_vector import issue, operand
from ascend_sim.asc.checked import MAX_REPEATS, Checked, check_operand
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import MrgSort4Info
from ascend_sim.asc.scalars import Int
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa import sort as semantics
from ascend_sim.isa.dtypes import as_dtype, float16, float32, uint32
from ascend_sim.isa.instr import Pipe, ScalarWork, VectorWork
from ascend_sim.isa.lanes import Lanes
from ascend_sim.isa.legality import InstructionError

QUEUES = {3: 2, 7: 3, 15: 4}  # valid_bit -> queues
MAX_LENGTH = 4095
GET_REGISTER = ScalarWork("get_register")


class MrgSortSrcList:
    """Two to four sorted queues to merge."""

    def __init__(
        self, dtype: Any, src1: LocalTensor, src2: LocalTensor, src3: LocalTensor | None = None,
        src4: LocalTensor | None = None,
    ) -> None:  # fmt: skip
        self.dtype = as_dtype(dtype)
        self.sources: list[LocalTensor | None] = [src1, src2, src3, src4]

    def tensors(self) -> list[LocalTensor]:
        return [s for s in self.sources if s is not None]


def _works(core: Core, op: str, dtype: str, repeats: int, dst: Any, *srcs: Any) -> None:
    if repeats:
        issue(core, Checked((VectorWork(op, dtype, repeats),), Lanes()), dst, *srcs)


def _same_float(core: Core, call: str, machine: str, dst: LocalTensor, src: LocalTensor) -> None:
    if dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    core.rules.require(call, machine, src.dtype)


def sort32(dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, repeat_time: int) -> None:
    """Each repeat sorts 32 scores of ``src0`` with their uint32 indices ``src1`` into pairs of 8 bytes (vbitsort32)."""
    core = current()
    call, n = "sort32", int(repeat_time)
    core.rules.require_range(call, "repeat_time", n, 0, MAX_REPEATS)
    _same_float(core, call, "vbitsort32", dst, src0)
    if src1.dtype is not uint32:
        raise InstructionError(call, "src1 data type", src1.dtype, "must be uint32")
    size = src0.dtype.size
    for name, t, nbytes, unit in (("dst", dst, n * 256, 256), ("src0", src0, n * 32 * size, 32 * size),
                                  ("src1", src1, n * 128, 128)):  # fmt: skip
        check_operand(core.rules, call, operand(name, t, call)._replace(align=unit), nbytes)
    _works(core, "vbitsort32", src0.dtype.name, n, dst, src0, src1)
    if core.memory is not None:
        semantics.run_sort32(core.view(dst), core.view(src0), core.view(src1), n)


def _merge(
    call: str, machine: str, unit: int, dst: LocalTensor, sources: MrgSortSrcList, info: MrgSort4Info
) -> None:
    """``unit``: bytes of a queue's item."""
    core = current()
    rules = core.rules
    queues = QUEUES.get(int(info.valid_bit))
    if queues is None:
        raise InstructionError(call, "valid_bit", info.valid_bit, "3, 7 or 15: the first two, three or four queues")
    tensors = sources.tensors()[:queues]
    lengths = [int(n) for n in info.element_lengths][:queues]
    if len(tensors) < queues or len(lengths) < queues:
        raise InstructionError(call, "sort_list", len(tensors), f"valid_bit {info.valid_bit} needs {queues} queues")
    for i, n in enumerate(lengths):
        rules.require_range(call, f"element_lengths[{i}]", n, 0, MAX_LENGTH)
    repeats = int(info.repeat_times)
    rules.require_range(call, "repeat_times", repeats, 0, MAX_REPEATS)
    for i, t in enumerate(tensors):
        _same_float(core, call, machine, dst, t)
        align = 8 if machine == "vmrgsort4v2" else 16 if t.dtype is float16 else 32
        span = (repeats - 1) * sum(lengths) * unit + lengths[i] * unit if repeats else 0
        check_operand(rules, call, operand(f"src{i + 1}", t, call)._replace(align=align), span)
    total = sum(lengths) * unit * repeats
    align = 32 if machine == "vmrgsort4v2" or dst.dtype is float32 else 16
    check_operand(rules, call, operand("dst", dst, call)._replace(align=align), total)
    for i, t in enumerate(tensors):
        if t.addr < dst.addr + total and dst.addr < t.addr + lengths[i] * unit * max(repeats, 1):
            raise InstructionError(call, f"dst and src{i + 1}", f"bytes {dst.addr} and {t.addr}", "must not overlap")
    if repeats > 1:
        adjacent = all(t.addr == tensors[0].addr + i * lengths[0] * unit for i, t in enumerate(tensors))
        if info.if_exhausted_suspension or queues != 4 or len(set(lengths)) != 1 or not adjacent:
            rule = "above 1 needs four adjacent queues of one length and no suspension"
            raise InstructionError(call, "repeat_times", repeats, rule)
    # a repeat of the pipe merges what fits in 256 bytes
    _works(core, machine, dst.dtype.name, -(-total // 256), dst, *tensors)
    taken = lengths
    if core.memory is not None and repeats:
        run = semantics.run_merge_pairs if machine == "vmrgsort4v2" else semantics.run_merge_proposals
        stop = bool(info.if_exhausted_suspension)
        taken = run(core.view(dst), [core.view(t) for t in tensors], lengths, stop, repeats)
    elif info.if_exhausted_suspension:
        core.value_dependent = True
    core.merged = (*taken, *[0] * (4 - len(taken)))


def mrg_sort(dst: LocalTensor, sort_list: MrgSortSrcList, *args: Any, params: MrgSort4Info | None = None,
             **kwargs: Any) -> None:  # fmt: skip
    """Merge up to four sorted queues of (score, index) pairs (vmrgsort4v2). ``mrg_sort(dst, list, MrgSort4Info)``, or
    ``mrg_sort(dst, list, element_count_list, sorted_num, valid_bit, repeat_time, is_exhausted_suspension)``, which
    fills ``sorted_num`` with how much of each queue was taken."""
    if args and isinstance(args[0], MrgSort4Info):
        params = args[0]
    sorted_num: Any = None
    if params is None:
        names = ("element_count_list", "sorted_num", "valid_bit", "repeat_time", "is_exhausted_suspension")
        given = dict(zip(names, args, strict=False)) | kwargs
        for name in names[:4]:
            if name not in given:
                raise InstructionError("mrg_sort", name, None, "is missing")
        sorted_num = given["sorted_num"]
        params = MrgSort4Info(
            tuple(given["element_count_list"]), bool(given.get("is_exhausted_suspension", False)),
            int(given["valid_bit"]), int(given["repeat_time"]),
        )  # fmt: skip
    _merge("mrg_sort", "vmrgsort4v2", semantics.PAIR, dst, sort_list, params)
    if sorted_num is not None and hasattr(sorted_num, "__setitem__"):
        for i, n in enumerate(current().merged[: len(sorted_num)]):
            sorted_num[i] = n


def mrg_sort4(dst: LocalTensor, src: MrgSortSrcList, params: MrgSort4Info) -> None:
    """Merge up to four sorted queues of region proposals (vmrgsort4; 310, 910 and 310P)."""
    _proposals_exist("mrg_sort4")
    _merge("mrg_sort4", "vmrgsort4", 8 * dst.dtype.size, dst, src, params)


def get_mrg_sort_result() -> tuple[Int, Int, Int, Int]:
    """How much of each of four queues the last merge took."""
    core = current()
    core.emit(Pipe.S, GET_REGISTER)
    a, b, c, d = core.merged
    return Int(a), Int(b), Int(c), Int(d)


def _proposals_exist(call: str) -> None:
    rules = current().rules
    if rules.family not in ("910A", "310P3"):
        raise InstructionError(call, "chip", rules.name, "has no region proposals: use sort32 and mrg_sort")


def _proposals(
    call: str, machine: str, dst: LocalTensor, src: LocalTensor, repeat_time: int, dst_unit: int, src_unit: int
) -> int:
    """Checks and work of an instruction on 16 proposals per repeat; units in elements per proposal."""
    core = current()
    _proposals_exist(call)
    n = int(repeat_time)
    core.rules.require_range(call, "repeat_time", n, 0, MAX_REPEATS)
    _same_float(core, call, machine, dst, src)
    for name, t, unit in (("dst", dst, dst_unit), ("src", src, src_unit)):
        check_operand(core.rules, call, operand(name, t, call), n * semantics.GROUP * unit * t.dtype.size)
    _works(core, machine, dst.dtype.name, n, dst, src)
    return n


def rp_sort16(dst: LocalTensor, src: LocalTensor, repeat_time: int) -> None:
    """Each repeat sorts 16 region proposals by score (vbitsort; 310, 910 and 310P)."""
    n = _proposals("rp_sort16", "vbitsort", dst, src, repeat_time, 8, 8)
    core = current()
    if core.memory is not None:
        semantics.run_rp_sort16(core.view(dst), core.view(src), n)


def _field(call: str, mode_number: int) -> int:
    if not 0 <= int(mode_number) <= 5:
        raise InstructionError(call, "mode_number", mode_number, "0..5: x1, y1, x2, y2, score, label")
    return int(mode_number)


def proposal_concat(dst: LocalTensor, src: LocalTensor, repeat_time: int, mode_number: int) -> None:
    """Each repeat puts 16 elements into a field of 16 region proposals (vconcat; 310, 910 and 310P)."""
    field = _field("proposal_concat", mode_number)
    n = _proposals("proposal_concat", "vconcat", dst, src, repeat_time, 8, 1)
    core = current()
    if core.memory is not None:
        semantics.run_proposal_concat(core.view(dst), core.view(src), n, field)


def proposal_extract(dst: LocalTensor, src: LocalTensor, repeat_time: int, mode_number: int) -> None:
    """Each repeat takes a field out of 16 region proposals (vextract; 310, 910 and 310P)."""
    field = _field("proposal_extract", mode_number)
    n = _proposals("proposal_extract", "vextract", dst, src, repeat_time, 1, 8)
    core = current()
    if core.memory is not None:
        semantics.run_proposal_extract(core.view(dst), core.view(src), n, field)


def _item(core: Core, element: Any) -> int:
    """Elements of half or float32 that a sorted item takes: a pair of 8 bytes, or a proposal of eight elements."""
    return 8 if core.rules.family in ("910A", "310P3") else semantics.PAIR // element.size


def get_sort_len(elem_count: int, dtype: Any = float32) -> Int:
    """Elements a sorted queue of ``elem_count`` scores takes."""
    return Int(int(elem_count) * _item(current(), as_dtype(dtype)))


def get_sort_offset(elem_offset: int, dtype: Any = float32) -> Int:
    """Element offset of the score number ``elem_offset`` in a sorted queue."""
    return get_sort_len(elem_offset, dtype)


def sort(
    dst: LocalTensor, concat: LocalTensor, index: LocalTensor, tmp: LocalTensor, repeat_time: int,
    is_full_sort: bool = False,
) -> None:  # fmt: skip
    """Sort scores with their indices: ``repeat_time`` groups of 32, and with ``is_full_sort`` all of them, by merging
    four queues at a time through ``tmp`` (310B, 910B)."""
    n = int(repeat_time)
    sort32(dst, concat, index, n)
    if not is_full_sort or n < 2:
        return
    per = semantics.PAIR // dst.dtype.size
    here, there = dst, tmp
    runs = [32] * n
    while len(runs) > 1:
        at, merged = 0, []
        for first in range(0, len(runs), 4):
            group = runs[first : first + 4]
            total = sum(group)
            if len(group) == 1:
                _move(there[at * per :], here[at * per :], total * per)
            else:
                starts = [at + sum(group[:i]) for i in range(len(group))]
                queues = [here[s * per :] for s in starts]
                info = MrgSort4Info(tuple(group), False, (1 << len(group)) - 1, 1)
                mrg_sort(there[at * per :], MrgSortSrcList(dst.dtype, *queues), info)
            merged.append(total)
            at += total
        here, there, runs = there, here, merged
    if here is not dst:
        _move(dst, here, n * 32 * per)


def _move(dst: LocalTensor, src: LocalTensor, elements: int) -> None:
    from ascend_sim.asc.calls_move import data_copy

    data_copy(dst, src, elements)


def concat(dst: LocalTensor, src: LocalTensor, tmp: LocalTensor, repeat_time: int) -> None:
    """Scores ready to be sorted: proposals with their scores on 310P, the scores themselves elsewhere."""
    if current().rules.family in ("910A", "310P3"):
        proposal_concat(dst, src, repeat_time, semantics.SCORE)
    else:
        dst.set_addr_with_offset(src, 0)


def extract(dst_value: LocalTensor, dst_index: LocalTensor, src: LocalTensor, repeat_time: int) -> None:
    """Scores and indices of sorted queues, apart: ``repeat_time`` groups of 32 pairs (16 proposals on 310P)."""
    core = current()
    call, n = "extract", int(repeat_time)
    if core.rules.family in ("910A", "310P3"):
        proposal_extract(dst_value, src, n, semantics.SCORE)
        return
    core.rules.require_range(call, "repeat_time", n, 0, MAX_REPEATS)
    if dst_value.dtype is not src.dtype or dst_index.dtype is not uint32:
        given = f"{dst_value.dtype}, {dst_index.dtype}, {src.dtype}"
        raise InstructionError(call, "data types", given, "values as the queues, indices uint32")
    count = n * 32
    for name, t, nbytes in (("dst_value", dst_value, count * src.dtype.size), ("dst_index", dst_index, count * 4),
                            ("src", src, count * semantics.PAIR)):  # fmt: skip
        check_operand(core.rules, call, operand(name, t, call), nbytes)
    _works(core, "vreducev2", "uint32", 2 * n, [dst_value, dst_index], src)
    if core.memory is not None and n:
        semantics.run_extract_pairs([core.view(dst_value), core.view(dst_index)], core.view(src), count)
