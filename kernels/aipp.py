"""Aipp on its own: 8-bit images preprocessed on their way to L1 by the image load, turned from pixels to planes by
vnchwconv in UB, written as NCHW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._cube import cube_kind
from ._five_hd import turn
from ._flat import global_tensor
from ._lines import Heap
from ._rows import Rows, rows_of
from ._sync import walk
from ._vector import align, ceil_div, deal
from .aipp_conv import image_of

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

    from ._conv_walk import Image

C0 = 16
BYTES = {"float16": 2, "float32": 4}
_E, _P = asc.HardEvent, asc.TPosition


@dataclass(frozen=True)
class AippPlan:
    """``n`` images of ``size`` (rows, columns) in strips of ``rows``; the last strip steps back to end with the
    image. ``io``: the pixels of a strip, as elements of a plane."""

    image: Image
    n: int
    size: tuple[int, int]
    rows: int
    io: Rows
    dtype: str
    units: int
    buffers: int

    @property
    def strips(self) -> int:
        return ceil_div(self.size[0], self.rows)

    def count(self, block: int) -> int:
        return min(self.units, self.n * self.strips - block * self.units)

    def where(self, unit: int) -> tuple[int, int]:
        """(image, first row) of a strip."""
        image, strip = divmod(unit, self.strips)
        return image, min(strip * self.rows, self.size[0] - self.rows)

    def parts(self) -> list[tuple[int, int, int]]:
        """(place in UB, first pixel of the strip, pixels): leading blocks, then the overlapping last ones."""
        io = self.io
        if io.mode != "overlap":
            return [(0, 0, io.length)]
        head = io.pitch - io.unit
        return [(0, 0, head), (head, io.length - io.unit, io.unit)]


@asc.jit
def aipp_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: AippPlan) -> None:
    """Preprocess this core's strips."""
    source, target = global_tensor(src), global_tensor(dst)
    p, io, heap = plan.image, plan.io, Heap()
    columns, pixels = plan.size[1], plan.io.length
    strip_bytes = pixels * C0 * 2
    sets = [[heap.take("float16", C0 * io.pitch) for _ in range(2)] for _ in range(plan.buffers)]
    wide = [heap.take("float32", C0 * io.pitch) for _ in sets] if plan.dtype == "float32" else []
    pitch = p.columns * p.pixel
    for s in range(plan.buffers):
        asc.set_flag(_E.MTE1_MTE2, s)
        asc.set_flag(_E.V_MTE1, s)
        asc.set_flag(_E.MTE3_V, s)
    first, block = asc.get_block_idx() * plan.units, asc.get_block_idx()
    for u in walk(plan.count(block), lambda u: 0):
        image, row = plan.where(first + u)
        s = u % plan.buffers
        blocks, planes = sets[s]
        strip = asc.LocalTensor("float16", _P.A1, s * align(strip_bytes, 512), pixels * C0)
        at = ((image * p.rows + p.top + row) * p.columns + p.left) * p.pixel
        asc.wait_flag(_E.MTE1_MTE2, s)
        asc.load_image(strip, source[at:], asc.ImageParams(
            plan.rows, columns, pitch, p.pixel, p.order, p.offset, p.scale, C0
        ))  # fmt: skip
        asc.set_flag(_E.MTE2_MTE1, s)
        asc.wait_flag(_E.MTE2_MTE1, s)
        asc.wait_flag(_E.V_MTE1, s)
        for place, pixel, n in plan.parts():
            if n:
                asc.data_copy(blocks[place * C0 :], strip[pixel * C0 :], asc.DataCopyParams(1, n, 0, 0))
        asc.set_flag(_E.MTE1_MTE2, s)
        asc.set_flag(_E.MTE1_V, s)
        asc.wait_flag(_E.MTE1_V, s)
        asc.wait_flag(_E.MTE3_V, s)
        turn(planes, blocks, io.pitch, io.pitch, False)
        asc.set_flag(_E.V_MTE1, s)
        channels = len(p.order)
        if wide:
            asc.cast(wide[s], planes, asc.RoundMode.CAST_NONE, count=channels * io.pitch)
        asc.set_flag(_E.V_MTE3, s)
        asc.wait_flag(_E.V_MTE3, s)
        far = (image * channels * plan.size[0] + row) * columns
        io.store(target[far:], wide[s] if wide else planes, channels, plan.size[0] * columns)
        asc.set_flag(_E.MTE3_V, s)
    for s in range(plan.buffers):
        asc.wait_flag(_E.MTE1_MTE2, s)
        asc.wait_flag(_E.V_MTE1, s)
        asc.wait_flag(_E.MTE3_V, s)


@kernel("Aipp")
def plan_aipp(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """The launch of a static Aipp. Raises `NoKernel` for colour conversion and padding, for dynamic mode, and on chips
    that do not preprocess images."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    if soc.chip.split_cores or soc.chip.arch == "c100":
        raise NoKernel("this chip does not preprocess images on their way to L1")
    if any(spec is not None for spec in call.inputs[1:]) or y.dtype not in BYTES or y.format not in ("NCHW", "ND"):
        raise NoKernel(f"Aipp in dynamic mode or to {y.dtype} {y.format}")
    n, channels, h, w = y.shape
    image = image_of(dict(call.attr("aipp")), channels)
    item = BYTES[y.dtype]
    room = min(soc.buffers.ub_bytes // (2 * C0 * (4 + (4 if item == 4 else 0))), soc.buffers.l1_bytes // (2 * C0 * 2))
    rows = min(max((room // C0 - 1) * C0 // w, 0), h)
    if rows * w < C0:
        raise NoKernel(f"rows of {w} pixels")
    cores = soc.cores.ai_core_count
    strips = max(ceil_div(h, rows), min(ceil_div(cores, n), h))
    rows = max(ceil_div(h, strips), ceil_div(C0, w))
    plan = AippPlan(image, n, (h, w), rows, rows_of(soc, rows * w, [2]), y.dtype, 1, 1)
    units, blocks = deal(n * plan.strips, cores)
    plan = AippPlan(image, n, (h, w), rows, plan.io, y.dtype, units, 2 if units > 1 else 1)
    return [
        asc.Launch(
            aipp_kernel,
            block_dim=blocks,
            kind=cube_kind(soc),
            args=(("in", 0), ("out", 0)),
            gm=[("images", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=plan.count,
        )
    ]
