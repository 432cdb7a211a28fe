"""The kernel of elementwise operators on contiguous data, whatever the rank: blocks of the flat element range are
dealt to the cores, each runs a `Program` tile by tile through one or two sets of UB buffers.

Lengths that are not a multiple of 32 bytes: chips with byte-exact DMA (data_copy_pad) use it for the last tile;
the others step the last tile back so that it ends where the tensor ends (it recomputes a few elements); fewer
elements than one block go element by element through the scalar unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.schema import TensorSpec

from ._program import BITS, Allocation, Program, allocate
from ._repeat import Call, masked
from ._scalars import evaluate
from ._vector import (
    BLOCK,
    REPEAT,
    FlatTiling,
    align,
    ceil_div,
    flat_tiling,
    item_bytes,
    memory_dtype,
    padded_dma,
    vector_cores,
)

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


@dataclass(frozen=True)
class FlatPlan:
    """``loads`` and ``stores`` pair a kernel argument with a register; ``scalars`` are the kernel arguments whose
    first element is an immediate of the program. ``unit`` elements fill whole 32-byte blocks of every type. The first
    ``loaded`` steps need the loaded registers; then the next load may start."""

    tiling: FlatTiling
    program: Program
    allocation: Allocation
    loads: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, int], ...]
    scalars: tuple[int, ...]
    unit: int
    padded: bool
    loaded: int


def registers(
    program: Program, allocation: Allocation, base: int, tile: int, steady_base: int = 0
) -> list[asc.LocalTensor]:
    """One `LocalTensor` of ``tile`` elements per register of a program: a set of buffers that starts at byte
    ``base``, and the steady registers, shared by all sets, from ``steady_base`` on."""
    offsets, at, kept = [], base, steady_base
    for index, bits in enumerate(allocation.bits):
        size = align(tile * bits // 8, BLOCK)
        if index in allocation.steady:
            offsets.append(kept)
            kept += size
        else:
            offsets.append(at)
            at += size
    return [
        asc.LocalTensor("uint8" if dtype == BITS else memory_dtype(dtype), asc.TPosition.VECCALC, offsets[slot],
                        tile // 8 if dtype == BITS else tile)
        for dtype, slot in zip(program.dtypes, allocation.slot, strict=True)
    ]  # fmt: skip


def compile_steps(
    program: Program, regs: Sequence[Any], count: int, scalars: Sequence[Any], first: int = 0, end: int | None = None
) -> list[Call]:
    """Steps ``first`` up to ``end`` of the program as calls of the kernel language on ``count`` elements."""
    calls: list[Call] = []
    for step in program.steps[first:end]:
        dst, srcs = regs[step.dst], [regs[s] for s in step.srcs]
        value = evaluate(step.scalar, scalars)
        calls += _calls(step.op, dst, srcs, value, step.mode, count)
    return calls


def _calls(op: str, dst: Any, srcs: list[Any], value: Any, mode: int, count: int) -> list[Call]:
    if op == "cast":
        return masked(asc.cast, (dst, srcs[0]), count, asc.RoundMode(mode))
    if not op.startswith(("compare", "select", "move", "bitwise")):
        return masked(getattr(asc, op), (dst, *srcs), count, *(() if value is None else (value,)))
    return [_counted(op, dst, srcs, value, mode, count)]


def _counted(op: str, dst: Any, srcs: list[Any], value: Any, mode: int, count: int) -> Call:
    if op.startswith("compare"):  # compared data are whole repeats; registers are long enough
        count = align(count, REPEAT // srcs[0].dtype.size)
    if op == "compare":
        return asc.compare, (dst, srcs[0], srcs[1], asc.CMPMODE(mode)), {"count": count}
    if op == "compare_scalar":
        return asc.compare_scalar, (dst, srcs[0], value, asc.CMPMODE(mode)), {"count": count}
    if op == "select":
        if value is None:
            return asc.select, (dst, *srcs, asc.SelMode.VSEL_TENSOR_TENSOR_MODE), {"count": count}
        return asc.select, (dst, *srcs, value, asc.SelMode.VSEL_TENSOR_SCALAR_MODE), {"count": count}
    if op == "move":
        return vector_copy, (dst, srcs[0], count), {}
    halves = ceil_div(count * dst.dtype.size, 2)
    return getattr(asc, op), tuple(t.reinterpret_cast("int16") for t in (dst, *srcs)), {"count": halves}


@asc.jit
def flat_kernel(*gm: asc.GlobalAddress, plan: FlatPlan) -> None:
    """Run ``plan.program`` over this core's block."""
    t = plan.tiling
    index = asc.get_block_idx()
    begin, size = index * t.block, t.block_size(index)
    tensors = [global_tensor(address) for address in gm]
    scalars = [tensors[i].get_value(0) for i in plan.scalars]
    tile_bytes = sum(align(t.tile * bits // 8, BLOCK) for bits in plan.allocation.bits)
    sets = [registers(plan.program, plan.allocation, slot * tile_bytes, t.tile) for slot in range(t.buffers)]
    tiles = ceil_div(size, t.tile)
    if scalars:
        asc.set_flag(asc.HardEvent.S_V, 0)
        asc.wait_flag(asc.HardEvent.S_V, 0)
    if t.total < plan.unit and not plan.padded:
        _tiny(plan, tensors, sets[0], scalars)
        return
    parts = ((0, plan.loaded), (plan.loaded, None))
    full = [[compile_steps(plan.program, regs, t.tile, scalars, *part) for part in parts] for regs in sets]
    for i in asc.steady(tiles):
        slot = i % t.buffers
        regs = sets[slot]
        offset, count = begin + i * t.tile, min(t.tile, size - i * t.tile)
        exact = count
        if not plan.padded and count % plan.unit:
            count = align(count, plan.unit)
            offset = max(offset + exact - count, 0)
        if i >= t.buffers and plan.loads:
            asc.wait_flag(asc.HardEvent.V_MTE2, slot)
        for argument, reg in plan.loads:
            if count > t.total:
                load_overlapping(regs[reg], tensors[argument], t.total, plan.unit)
            else:
                load(regs[reg], tensors[argument][offset:], count)
        if plan.loads:
            asc.set_flag(asc.HardEvent.MTE2_V, slot)
            asc.wait_flag(asc.HardEvent.MTE2_V, slot)
        if i >= t.buffers:
            asc.wait_flag(asc.HardEvent.MTE3_V, slot)
        calls = full[slot]
        if count != t.tile:
            calls = [compile_steps(plan.program, regs, count, scalars, *part) for part in parts]
        for function, args, kwargs in calls[0]:
            function(*args, **kwargs)
        if i + t.buffers < tiles and plan.loads:
            asc.set_flag(asc.HardEvent.V_MTE2, slot)
        for function, args, kwargs in calls[1]:
            function(*args, **kwargs)
        asc.set_flag(asc.HardEvent.V_MTE3, slot)
        asc.wait_flag(asc.HardEvent.V_MTE3, slot)
        for argument, reg in plan.stores:
            if count > t.total:
                store_overlapping(tensors[argument], regs[reg], t.total, plan.unit)
            else:
                store(tensors[argument][offset:], regs[reg], count)
        if i + t.buffers < tiles:
            asc.set_flag(asc.HardEvent.MTE3_V, slot)


def vector_copy(dst: asc.LocalTensor, src: asc.LocalTensor, count: int) -> None:
    """Copy ``count`` elements of any type inside UB on the vector unit, bit for bit (or of the data with itself)."""
    halves = ceil_div(count * dst.dtype.size, 2)
    source = src.reinterpret_cast("int16")
    asc.bitwise_or(dst.reinterpret_cast("int16"), source, source, count=halves)


def global_tensor(address: asc.GlobalAddress) -> asc.GlobalTensor:
    """A kernel argument as a tensor."""
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def load(dst: asc.LocalTensor, src: asc.GlobalTensor, count: int) -> None:
    """``count`` contiguous elements to UB; byte-exact DMA when they do not fill whole blocks."""
    nbytes = count * dst.dtype.size
    if dst.dtype.size == 8:  # DMA counts words of up to four bytes
        dst, src = dst.reinterpret_cast("uint32"), src.reinterpret_cast("uint32")
        count *= 2
    if nbytes % BLOCK:
        asc.data_copy_pad(dst, src, asc.DataCopyParams(1, nbytes, 0, 0), asc.DataCopyPadParams())
    else:
        asc.data_copy(dst, src, count)


def store(dst: asc.GlobalTensor, src: asc.LocalTensor, count: int) -> None:
    """``count`` contiguous elements to global memory."""
    nbytes = count * src.dtype.size
    if src.dtype.size == 8:
        dst, src = dst.reinterpret_cast("uint32"), src.reinterpret_cast("uint32")
        count *= 2
    if nbytes % BLOCK:
        asc.data_copy_pad(dst, src, asc.DataCopyParams(1, nbytes, 0, 0))
    else:
        asc.data_copy(dst, src, count)


def load_overlapping(dst: asc.LocalTensor, src: asc.GlobalTensor, total: int, unit: int) -> None:
    """``total`` elements in whole blocks without touching others: the leading blocks, then the last block's worth."""
    head = total // unit * unit
    asc.data_copy(dst, src, head)
    asc.data_copy(dst[head:], src[total - unit :], unit)


def store_overlapping(dst: asc.GlobalTensor, src: asc.LocalTensor, total: int, unit: int) -> None:
    """Inverse of `load_overlapping`."""
    head = total // unit * unit
    asc.data_copy(dst, src, head)
    asc.data_copy(dst[total - unit :], src[head:], unit)


def _tiny(plan: FlatPlan, tensors: Sequence[Any], regs: Sequence[Any], scalars: Sequence[Any]) -> None:
    """Less than one block of elements, moved by the scalar unit."""
    count = plan.tiling.total
    for argument, reg in plan.loads:
        for i in range(count):
            regs[reg].set_value(i, tensors[argument].get_value(i))
    asc.set_flag(asc.HardEvent.S_V, 0)
    asc.wait_flag(asc.HardEvent.S_V, 0)
    for function, args, kwargs in compile_steps(plan.program, regs, count, scalars):
        function(*args, **kwargs)
    asc.set_flag(asc.HardEvent.V_S, 0)
    asc.wait_flag(asc.HardEvent.V_S, 0)
    for argument, reg in plan.stores:
        for i in range(count):
            tensors[argument].set_value(i, regs[reg].get_value(i))


def flat_launch(
    program: Program,
    total: int,
    specs: Sequence[tuple[str, TensorSpec, str]],
    loads: Sequence[int],
    stores: Sequence[int],
    scalars: Sequence[int],
    args: Sequence[tuple[str, int]],
    soc: Soc,
    live_floor: float = 0,
    code: str = "elementwise",
) -> asc.Launch:
    """Launch of `flat_kernel`. ``specs`` are (name, spec, role) of the kernel arguments, ``args`` what they are;
    ``loads``/``stores`` the argument of each program input and output, ``scalars`` those read as immediates."""
    allocation = allocate(program, apart=soc.chip.split_cores)
    slots = {allocation.slot[r] for r in program.inputs}
    loaded = [i + 1 for i, s in enumerate(program.steps) if slots & {allocation.slot[r] for r in (s.dst, *s.srcs)}]
    moved = [item_bytes(program.dtypes[r]) for r in (*program.inputs, *program.outputs)]
    widest = max([item_bytes(d) for d in program.dtypes if d != BITS], default=4)
    has_bits = BITS in program.dtypes
    live = max(allocation.live_bytes(), live_floor)
    tiling = flat_tiling(total, live, widest, min(moved), soc, 256 if has_bits else 128)
    plan = FlatPlan(
        tiling, program, allocation,
        tuple(zip(loads, program.inputs, strict=True)), tuple(zip(stores, program.outputs, strict=True)),
        tuple(scalars), BLOCK // min(moved), padded_dma(soc), max(loaded, default=0),
    )  # fmt: skip
    kind, _ = vector_cores(soc)
    return asc.Launch(
        flat_kernel,
        block_dim=tiling.blocks,
        kind=kind,
        args=tuple(args),
        gm=[(name, memory_dtype(spec.dtype), spec.nbytes, role) for name, spec, role in specs],
        consts={"plan": plan},
        soc=soc,
        signature=tiling.block_size,
        code=code,
    )

