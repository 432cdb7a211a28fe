"""Checked vector instructions: restrictions, lane selection and the work of one instruction, cached by parameters.

Everything here is a pure function of chip, types, addresses and parameters, so a kernel's loop pays for each distinct
instruction once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ascend_sim.isa.buffers import BLOCK, REPEAT
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.instr import VectorWork
from ascend_sim.isa.lanes import Lanes, Mask, mask_bits
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError

MAX_REPEATS = 255


class Operand(NamedTuple):
    """What a check needs to know of a tensor."""

    name: str
    dtype: DataType
    mem: str
    addr: int
    end: int
    align: int | None = None


class Checked(NamedTuple):
    """A checked instruction: the works it issues and the lanes it touches."""

    works: tuple[VectorWork, ...]
    lanes: Lanes


def work_dtype(dst: DataType, src: DataType) -> str:
    return dst.name if dst is src else f"{src.name}_{dst.name}"


@lru_cache(maxsize=4096)
def check_types(
    rules: ChipRules, call: str, op: str, mixed: bool, dst: DataType, src0: DataType, src1: DataType
) -> None:
    """All operands of one type (or, ``mixed``, a destination of its own) that the chip's instruction takes."""
    if src0 is not src1 or (dst is not src0 and not mixed):
        raise InstructionError(call, "data types", f"{dst}, {src0}, {src1}", "all operands must have the same type")
    rules.require(call, op, dst, src0, src1)


@lru_cache(maxsize=4096)
def check_conversion(rules: ChipRules, call: str, dst: DataType, src: DataType, mode: int) -> None:
    """The chip converts ``src`` to ``dst`` with this rounding mode."""
    rules.require_conversion(call, dst, src, mode)


def mask_lanes(rules: ChipRules, call: str, mask: Mask, width: int) -> int:
    """Lanes up to the last active one; checks the mask's range."""
    if isinstance(mask, int):
        if not 1 <= mask <= width:
            raise InstructionError(call, "mask", mask, f"must lie in 1..{width} for this element width")
        return mask
    if len(mask) not in (1, 2, 4) or any(not 0 <= word < 1 << 64 for word in mask):
        raise InstructionError(call, "mask", list(mask), "must be one or two 64-bit words, low word first")
    bits = mask_bits(mask, width)
    value = sum(int(word) << (64 * i) for i, word in enumerate(mask))
    if value >> width and mask != (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
        raise InstructionError(call, "mask", [hex(w) for w in mask], f"has bits beyond the {width} lanes of a repeat")
    if not bits.any():
        raise InstructionError(call, "mask", list(mask), "selects no lane")
    return int(bits.nonzero()[0][-1]) + 1


def lane_span(dtype: DataType, lanes: int, repeats: int, blk: int, rep: int) -> int:
    """Bytes from the start of an operand to the end of its last active lane."""
    if not repeats or not lanes:
        return 0
    per = dtype.block
    full, rest = divmod(lanes - 1, per)
    return (repeats - 1) * rep * BLOCK + full * blk * BLOCK + (rest + 1) * dtype.size


def check_operand(rules: ChipRules, call: str, operand: Operand, nbytes: int) -> None:
    if operand.mem != "UB":
        raise InstructionError(call, operand.name, operand.mem, "vector operands lie in the unified buffer")
    rules.require_span(call, operand.name, "UB", operand.addr, nbytes, operand.end, operand.align)


def check_overlap(call: str, dst: Operand, dst_bytes: int, src: Operand, src_bytes: int) -> None:
    """Contiguous operands must be the same or disjoint (a narrower result may overwrite its own source)."""
    if dst.addr == src.addr and dst.dtype.size <= src.dtype.size:
        return
    if dst.addr < src.addr + src_bytes and src.addr < dst.addr + dst_bytes:
        raise InstructionError(
            call, f"dst and {src.name}", f"bytes {dst.addr}..{dst.addr + dst_bytes} and {src.addr}.."
            f"{src.addr + src_bytes}", "must be identical or disjoint",
        )  # fmt: skip


def conflicts(rules: ChipRules, operands: tuple[Operand, ...], repeats: int, blk: tuple[int, ...],
              rep: tuple[int, ...]) -> int:  # fmt: skip
    """Repeats that pay a bank conflict: two sources in the same bank group, or a source in the bank that the
    destination writes without lining up with it.

    Model of asc-devkit's bank page: address bits 5.. select the group, then 7 bits the row, the rest the bank.
    """
    groups = rules.bank_groups
    if groups <= 0 or len(operands) < 2 or repeats <= 0:
        return 0
    seen = min(repeats, groups)
    hits = 0
    for r in range(seen):
        starts = [o.addr // BLOCK + r * s for o, s in zip(operands, rep, strict=True)]
        sets = [{(start + b * k) % groups for k in range(8)} for start, b in zip(starts, blk, strict=True)]
        hit = len(operands) > 2 and starts[1] != starts[2] and bool(sets[1] & sets[2])
        if not hit:
            row = groups * 128  # blocks of one bank layer
            for i, start in enumerate(starts[1:], 1):
                same = start // row == starts[0] // row and bool(sets[0] & sets[i])
                hit = hit or (same and (start - starts[0]) % groups != 0)
        hits += hit
    return hits * repeats // seen


@lru_cache(maxsize=1 << 16)
def check_lanes(
    rules: ChipRules, call: str, op: str, work_type: str, operands: tuple[Operand, ...], mask: Mask, repeat: int,
    strides: tuple[int, ...], counter: bool,
) -> Checked:  # fmt: skip
    """Check an elementwise instruction.

    ``repeat`` < 0 is the "first n" form with ``mask`` elements; otherwise ``strides`` holds block strides then repeat
    strides, destination first. ``counter``: the mask counts elements over all repeats.
    """
    width = REPEAT // max(o.dtype.size for o in operands)
    n = len(operands)
    if repeat < 0:
        return _first_n(rules, call, op, work_type, operands, mask, width)
    blk, rep = strides[:n], strides[n:]
    for name, values in (("block stride", blk), ("repeat stride", rep)):
        for o, value in zip(operands, values, strict=True):
            if not 0 <= value <= 255:
                raise InstructionError(call, f"{o.name} {name}", value, "must lie in 0..255")
    if blk[0] == 0:
        raise InstructionError(call, "dst block stride", 0, "must not be 0")
    if counter:
        if not isinstance(mask, int):
            mask = mask[0]
        total = mask
        repeats = ceil_div(total, width)
        lanes = Lanes(-1, repeats, width, width, total, blk, rep)
        used = min(total, width)
    else:
        if not 0 <= repeat <= MAX_REPEATS:
            raise InstructionError(call, "repeat_times", repeat, f"must lie in 0..{MAX_REPEATS}")
        repeats = repeat
        used = mask_lanes(rules, call, mask, width)
        lanes = Lanes(-1, repeats, width, mask, -1, blk, rep)
    spans = [
        lane_span(o.dtype, used, repeats, b, r) for o, b, r in zip(operands, blk, rep, strict=True)
    ]
    for o, span in zip(operands, spans, strict=True):
        check_operand(rules, call, o, span)
    if all(b == 1 for b in blk):
        for o in operands[1:]:
            check_overlap(call, operands[0], lane_span(operands[0].dtype, used, 1, 1, 0), o,
                          lane_span(o.dtype, used, 1, 1, 0))  # fmt: skip
    if not repeats:
        return Checked((), lanes)
    clash = conflicts(rules, operands, repeats, blk, rep)
    return Checked((VectorWork(op, work_type, repeats, counter, clash),), lanes)


def _first_n(
    rules: ChipRules, call: str, op: str, work_type: str, operands: tuple[Operand, ...], count: Mask, width: int
) -> Checked:
    if not isinstance(count, int):
        raise InstructionError(call, "count", count, "must be an integer")
    if count < 0:
        raise InstructionError(call, "count", count, "must not be negative")
    sizes = [(count * o.dtype.bits + 7) // 8 for o in operands]
    for o, nbytes in zip(operands, sizes, strict=True):
        check_operand(rules, call, o, nbytes)
    for o, nbytes in zip(operands[1:], sizes[1:], strict=True):
        check_overlap(call, operands[0], sizes[0], o, nbytes)
    lanes = Lanes(count)
    if not count:
        return Checked((), lanes)
    steps = tuple(width * o.dtype.size // BLOCK for o in operands)
    ones = (1,) * len(operands)

    def work(start: int, repeats: int, counter: bool) -> VectorWork:
        shifted = tuple(o._replace(addr=o.addr + start * s * BLOCK) for o, s in zip(operands, steps, strict=True))
        return VectorWork(op, work_type, repeats, counter, conflicts(rules, shifted, repeats, ones, steps))

    if rules.counter_mode:
        return Checked((work(0, ceil_div(count, width), True),), lanes)
    # without counter mode the language loops over full repeats and finishes with a masked one
    whole, tail = divmod(count, width)
    works = [work(first, min(MAX_REPEATS, whole - first), False) for first in range(0, whole, MAX_REPEATS)]
    if tail:
        works.append(work(whole, 1, False))
    return Checked(tuple(works), lanes)
