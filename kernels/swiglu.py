"""SwiGlu: a / (1 + exp(-a)) * b of the two halves of x along ``dim``, as the stock AscendC kernel runs it
(hicann/ops-nn, restated).

x is seen as ``rows`` rows of two halves of ``length``. The tiler steps the tile width down from the widest one by
512 bytes and takes the most cores, then the fewest tiles, then the larger tile: tiles may be 512-byte strips of many
rows. Queues are two deep, instructions of the counter mode follow each other over barriers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.shapes import axis_of

from ._flat import global_tensor
from ._lines import Heap
from ._rows import Rows, rows_of
from ._sync import Pipeline, walk
from ._vector import BLOCK, align, ceil_div, item_bytes, legal, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

STRIP_BYTES = 512  # step of the tile width, and the narrowest one
RESERVED_BYTES = 2048
_LIVE = {2: 20, 4: 28}  # bytes of UB per element: x, gate and y two deep, float32 temporaries


@dataclass(frozen=True)
class SwiGluPlan:
    """Tiles of ``tile_rows`` x ``tile_columns``, dealt round robin to ``blocks`` cores."""

    rows: int
    length: int
    tile_rows: int
    tile_columns: int
    io: Rows
    last: Rows
    blocks: int
    buffers: int
    dtype: str

    @property
    def columns(self) -> int:
        return ceil_div(self.length, self.tile_columns)

    @property
    def tiles(self) -> int:
        return ceil_div(self.rows, self.tile_rows) * self.columns

    def where(self, tile: int) -> tuple[int, int, int, Rows]:
        """(first row, first column, rows, moves) of a tile."""
        group, column = divmod(tile, self.columns)
        row = group * self.tile_rows
        io = self.io if column + 1 < self.columns else self.last
        return row, column * self.tile_columns, min(self.tile_rows, self.rows - row), io

    def shape(self, tile: int) -> tuple[int, int]:
        _, _, n, io = self.where(tile)
        return n, io.length

    def own(self, block: int) -> range:
        """Tiles of a block."""
        return range(block, self.tiles, self.blocks)

    def signature(self, block: int) -> object:
        """What a block's tiles look like, in run lengths."""
        runs: list[list[Any]] = []
        for tile in self.own(block):
            shape = self.shape(tile)
            if runs and runs[-1][0] == shape:
                runs[-1][1] += 1
            else:
                runs.append([shape, 1])
        return tuple((a, n) for a, n in runs)

    def start(self, block: int) -> int:
        row, column, _, _ = self.where(block)
        return row * 2 * self.length + column


@asc.jit
def swiglu_kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, plan: SwiGluPlan) -> None:
    """This core's tiles."""
    source, target = global_tensor(x), global_tensor(y)
    area = plan.tile_rows * plan.io.pitch
    heap = Heap()
    sets = [[heap.take(plan.dtype, area) for _ in range(3)] for _ in range(plan.buffers)]
    one = heap.take("float32", area)
    two = None if plan.dtype == "float32" else heap.take("float32", area)
    own = plan.own(asc.get_block_idx())
    pipe = Pipeline(plan.buffers)
    for i in walk(len(own), lambda i: plan.shape(own[i])):
        row, column, n, io = plan.where(own[i])
        slot = i % plan.buffers
        a, b, result = sets[slot]
        at, size = row * 2 * plan.length + column, n * io.pitch
        pipe.load(slot)
        io.load(a, source[at:], n, 2 * plan.length)
        io.load(b, source[at + plan.length :], n, 2 * plan.length)
        pipe.compute(slot)
        gate, up, out = a, b, result
        if two is not None:
            gate = two
            _barrier(asc.cast, gate, a, asc.RoundMode.CAST_NONE, count=size)
        _barrier(asc.muls, one, gate, -1.0, count=size)
        _barrier(asc.exp, one, one, count=size)
        _barrier(asc.adds, one, one, 1.0, count=size)
        _barrier(asc.div, gate, gate, one, count=size)
        if two is not None:
            up = out = one
            _barrier(asc.cast, up, b, asc.RoundMode.CAST_NONE, count=size)
        _barrier(asc.mul, out, gate, up, count=size)
        if two is not None:
            mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
            _barrier(asc.cast, result, out, mode, count=size)
        pipe.store(slot)
        io.store(target[row * plan.length + column :], result, n, plan.length)
        pipe.done(slot)
    pipe.drain()


def _barrier(instruction: Any, *args: Any, **kwargs: Any) -> None:
    instruction(*args, **kwargs)
    asc.pipe_barrier(asc.PipeID.V)


def _tiling(rows: int, length: int, item: int, cores: int, ub_bytes: int) -> tuple[int, int]:
    """(rows, columns) of a tile."""
    room = (ub_bytes - RESERVED_BYTES) // _LIVE[item]
    block, strip = BLOCK // item, STRIP_BYTES // item
    widest = min(align(length, block), room // block * block)
    if widest < length:
        widest = max(widest // strip * strip, block)
    best: tuple[tuple[int, int, int], tuple[int, int]] | None = None
    column = min(widest, length)
    while True:
        tall = max(min(room // align(column, block), rows, 4095), 1)
        across = ceil_div(length, column)
        if tall * cores > rows * across:  # not enough tiles: lower ones
            tall = max(ceil_div(rows * across, cores), 1) if rows * across > cores else 1
        tiles = ceil_div(rows, tall) * across
        key = (-min(tiles, cores), ceil_div(tiles, cores), -tall * column)
        if best is None or key < best[0]:
            best = (key, (tall, column))
        step = (column - 1) // strip * strip
        if column <= strip or step < 1:
            return best[1]
        column = step


@kernel("SwiGlu")
def plan_swiglu(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.dtype not in ("float16", "bfloat16", "float32") or x.size == 0 or x.format != "ND":
        raise NoKernel("SwiGlu of this type or format")
    if not all(legal(soc, i, "float32") for i in ("vexp", "vdiv")):
        raise NoKernel("SwiGlu without float32 exp and div")
    axis = axis_of(int(call.attr("dim", -1)), len(x.shape))
    rows, length = prod(x.shape[:axis]), prod(x.shape[axis:]) // 2
    item = item_bytes(x.dtype)
    kind, cores = vector_cores(soc)
    tall, column = _tiling(rows, length, item, cores, soc.buffers.ub_bytes)
    io = rows_of(soc, column, [item])
    last = rows_of(soc, length - (ceil_div(length, column) - 1) * column, [item])
    if "scalar" in (io.mode, last.mode) and rows * length > 4096:
        raise NoKernel(f"rows of {length} elements are shorter than a block")
    plan = SwiGluPlan(rows, length, tall, column, io, last, 1, 2, x.dtype)
    blocks = min(plan.tiles, cores)
    plan = SwiGluPlan(rows, length, tall, column, io, last, blocks, 2, x.dtype)
    return [
        asc.Launch(
            swiglu_kernel,
            block_dim=blocks,
            kind=kind,
            args=(("in", 0), ("out", 0)),
            gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=phased(plan.signature, lambda block: plan.start(block) * item),
            code="ascendc",
        )
    ]
