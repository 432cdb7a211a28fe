"""Gradients of pooling. That of a maximum goes to the first element of its window that equals it, that of a mean to all
of them alike.

The order of work is that of the stock kernel (stored copies of the TBE repository, Apache-2.0, restated). Planes of one
image and channel block are dealt to the cores; fewer planes than cores are cut into strips of rows. Per tap of the
window: the elements it finds (im2col from L1 into UB where the core has that load, else strided copies of rows), their
comparison with the maxima, less the windows that have found theirs, the gradients selected by it one comparison
register of 128 lanes at a time, widened, and added in float32 to the positions they came from. Buffers are single; a
vector instruction that takes all of another's result waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.legality import rules_for
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.pooling import pool_window

from ._flat import global_tensor
from ._vector import BLOCK, MAX_REPEATS, REPEAT, align, ceil_div, vector_cores
from .pooling import shares_of

if TYPE_CHECKING:
    from ascend_sim.ops.values._window import Window
    from ascend_sim.soc import Soc

C0 = 16
HALVES = REPEAT // 2  # lanes of a repeat
_LOWEST = -65504.0
_L1_SLACK = 512  # bytes
_E, _P = asc.HardEvent, asc.TPosition


@dataclass(frozen=True)
class GradPlan:
    """Geometry (heights, then widths). A core takes ``planes_per_core`` planes and one of ``cuts`` shares of ``share``
    output rows, in strips of ``rows``; ``im2col``: elements of a tap come by load3d. ``average``: of a mean, whose
    shares are 1 / (number of counted elements) per output row and column (no columns: one for all)."""

    planes: int
    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    before: tuple[int, int]
    planes_per_core: int
    cuts: int
    share: int
    rows: int
    im2col: bool
    average: bool = False
    row_share: tuple[float, ...] = ()
    column_share: tuple[float, ...] = ()

    @property
    def reach(self) -> int:
        """Output rows before a strip whose windows reach into it."""
        return ceil_div(max(self.kernel[0] - self.stride[0], 0), self.stride[0])

    @property
    def width(self) -> int:
        """Pixels of a row with its padding."""
        return max(self.before[1] + self.size[1], (self.out[1] - 1) * self.stride[1] + self.kernel[1])

    def strips(self, cut: int) -> list[Strip]:
        """Strips of a share of the output rows."""
        end = min((cut + 1) * self.share, self.out[0])
        return [self._strip(r, min(self.rows, end - r)) for r in range(cut * self.share, end, self.rows)]

    def _strip(self, row: int, rows: int) -> Strip:
        first = max(row - self.reach, 0)
        stop = row + rows
        top, stride = self.before[0], self.stride[0]
        low = first * stride - top  # of the windows, padding included
        high = (stop - 1) * stride + self.kernel[0] - top
        own = max(row * stride - top, 0) if row else 0
        own_end = self.size[0] if stop == self.out[0] else min(stop * stride - top, self.size[0])
        return Strip(
            first, stop - first, low, high - low, max(low, 0), min(high, self.size[0]) - max(low, 0), own,
            max(own_end - own, 0),
        )  # fmt: skip

    def positions(self, rows: int) -> int:
        """Output pixels of a strip, rounded up to whole fractals."""
        return align(rows * self.out[1], C0)

    def column_rows(self, s: Strip) -> int:
        """Rows that receive gradients, and rows of the strip behind them that get none."""
        return max(s.height, s.own + s.owned - s.low)

    def buffers(self, s: Strip) -> list[tuple[str, str, int]]:
        """(name, type, elements) in UB."""
        n, canvas = self.positions(s.count) * C0, self.column_rows(s) * self.width * C0
        bits = align(n // 8, REPEAT)
        if self.average:
            shares = align(self.out[1] * C0, REPEAT // 4)
            return [("dy", "float16", n), ("wide", "float32", n), ("sums", "float32", canvas),
                    ("dx", "float16", canvas), ("shares", "float32", shares)]  # fmt: skip
        out = [("found", "float16", n), ("y", "float16", n), ("dy", "float16", n), ("part", "float16", n)]
        out += [("wide", "float32", n), ("sums", "float32", canvas), ("dx", "float16", canvas)]
        out += [("zeros", "float16", HALVES), *((name, "uint8", bits) for name in ("mask", "equal", "done", "open"))]
        if not self.im2col:
            out.append(("x", "float16", (s.height * self.width + HALVES // C0 * self.stride[1]) * C0))
        return out

    def fits(self, soc: Soc) -> bool:
        worst = max((s for cut in range(self.cuts) for s in self.strips(cut)), key=lambda s: (s.count, s.height))
        sizes = {"float16": 2, "float32": 4, "uint8": 1}
        need = sum(align(n * sizes[dtype], BLOCK) for _, dtype, n in self.buffers(worst))
        l1 = worst.have * self.size[1] * C0 * 2 + _L1_SLACK
        return need <= soc.buffers.ub_bytes and (not self.im2col or l1 <= soc.buffers.l1_bytes)

    def work(self, block: int) -> tuple[range, list[Strip]]:
        """Planes and strips of a core."""
        group, cut = divmod(block, self.cuts)
        first = group * self.planes_per_core
        return range(first, min(first + self.planes_per_core, self.planes)), self.strips(cut)

    def signature(self, block: int) -> object:
        planes, strips = self.work(block)
        return len(planes), tuple(
            (s.count, s.height, s.have, s.low - s.top, s.owned, s.own - s.low, s.top % 16 * self.size[1] % 16)
            for s in strips
        )


@dataclass(frozen=True)
class Strip:
    """``count`` output rows from ``first``; their windows span ``height`` rows from ``low`` (may be padding), of which
    ``have`` from ``top`` are in the image; the strip writes ``owned`` rows from ``own``."""

    first: int
    count: int
    low: int
    height: int
    top: int
    have: int
    own: int
    owned: int


@asc.jit
def max_pool_grad_kernel(
    x: asc.GlobalAddress, y: asc.GlobalAddress, dy: asc.GlobalAddress, dx: asc.GlobalAddress, plan: GradPlan
) -> None:
    """Gradients of this core's strips."""
    _Gradient(plan, *(global_tensor(a) for a in (x, y, dy, dx))).run()


@asc.jit
def avg_pool_grad_kernel(dy: asc.GlobalAddress, dx: asc.GlobalAddress, plan: GradPlan) -> None:
    """Gradients of this core's strips."""
    _Gradient(plan, *(global_tensor(a) for a in (dy, dx))).run()


class _Gradient:
    """Buffers of a core and the steps of a strip."""

    def __init__(self, plan: GradPlan, *gm: asc.GlobalTensor) -> None:
        self.plan = plan
        *self.compared, self.dy, self.dx = gm
        self.local: dict[str, asc.LocalTensor] = {}

    def run(self) -> None:
        planes, strips = self.plan.work(asc.get_block_idx())
        if self.plan.im2col:
            asc.set_load_data_padding_value(_LOWEST)
        asc.set_flag(_E.MTE3_V, 0)
        asc.set_flag(_E.V_MTE2, 0)
        if self.plan.im2col:
            asc.set_flag(_E.MTE1_MTE2, 0)
        for strip in strips:
            for plane in asc.steady(planes.start, planes.stop):
                self._strip(plane, strip)
        asc.wait_flag(_E.MTE3_V, 0)
        asc.wait_flag(_E.V_MTE2, 0)
        if self.plan.im2col:
            asc.wait_flag(_E.MTE1_MTE2, 0)

    def _place(self, s: Strip) -> None:
        at = 0
        for name, dtype, n in self.plan.buffers(s):
            tensor = asc.LocalTensor(dtype, _P.VECCALC, at, n)
            self.local[name] = tensor
            at += align(n * tensor.dtype.size, BLOCK)

    def _strip(self, plane: int, s: Strip) -> None:
        p, t = self.plan, self.local
        self._place(s)
        ho, wo = p.out
        n = p.positions(s.count) * C0
        real = s.count * wo * C0
        at = (plane * ho + s.first) * wo * C0
        if p.average:
            asc.wait_flag(_E.V_MTE2, 0)
            asc.data_copy(t["dy"], self.dy[at:], real)
            asc.set_flag(_E.MTE2_V, 0)
            asc.wait_flag(_E.MTE2_V, 0)
        else:
            self._load(plane, s, at, real)
        asc.wait_flag(_E.MTE3_V, 0)
        if real < n and not p.average:  # positions that fill the last fractal select nothing
            asc.duplicate(t["dy"][real:], 0.0, count=n - real)
            asc.duplicate(t["y"][real:], 0.0, count=n - real)
            if not p.im2col:
                asc.duplicate(t["found"][real:], 0.0, count=n - real)
        asc.duplicate(t["sums"], 0.0, count=p.column_rows(s) * p.width * C0)
        if p.average:
            self._shares(s, real)
        else:
            asc.duplicate(t["zeros"], 0.0, count=HALVES)
        for tap in range(p.kernel[0] * p.kernel[1]):
            if p.average:
                self._scatter(*divmod(tap, p.kernel[1]), s)
            else:
                self._tap(tap, s, n)
        asc.set_flag(_E.V_MTE2, 0)
        asc.cast(t["dx"], t["sums"], asc.RoundMode.CAST_NONE, count=p.column_rows(s) * p.width * C0)
        asc.set_flag(_E.V_MTE3, 0)
        asc.wait_flag(_E.V_MTE3, 0)
        if s.owned:
            local = t["dx"][((s.own - s.low) * p.width + p.before[1]) * C0 :]
            far = self.dx[(plane * p.size[0] + s.own) * p.size[1] * C0 :]
            asc.data_copy(far, local, asc.DataCopyParams(s.owned, p.size[1], p.width - p.size[1], 0))
        asc.set_flag(_E.MTE3_V, 0)

    def _load(self, plane: int, s: Strip, at: int, real: int) -> None:
        """Input rows to L1 or, padded, to UB; maxima and gradients to UB."""
        p, t = self.plan, self.local
        h, w = p.size
        x, y = self.compared
        source = x[(plane * h + s.top) * w * C0 :]
        asc.wait_flag(_E.V_MTE2, 0)
        if p.im2col:
            asc.wait_flag(_E.MTE1_MTE2, 0)
            self.image = asc.LocalTensor("float16", _P.A1, 0, s.have * w * C0)
            asc.data_copy(self.image, source, s.have * w * C0)
            asc.set_flag(_E.MTE2_MTE1, 0)
            asc.wait_flag(_E.MTE2_MTE1, 0)
        else:
            if s.height > s.have or p.width > w:
                asc.duplicate(t["x"], _LOWEST, count=s.height * p.width * C0)
                asc.set_flag(_E.V_MTE2, 1)
                asc.wait_flag(_E.V_MTE2, 1)
            inside = ((s.top - s.low) * p.width + p.before[1]) * C0
            asc.data_copy(t["x"][inside:], source, asc.DataCopyParams(s.have, w, 0, p.width - w))
        asc.data_copy(t["y"], y[at:], real)
        asc.data_copy(t["dy"], self.dy[at:], real)
        asc.set_flag(_E.MTE2_V, 0)
        asc.wait_flag(_E.MTE2_V, 0)

    def _tap(self, tap: int, s: Strip, n: int) -> None:
        p, t = self.plan, self.local
        row, column = divmod(tap, p.kernel[1])
        if p.im2col:
            self._im2col(row, column, s, n)
        else:
            self._rows(row, column, s)
        self._first_found(tap == 0, n)
        self._select(n)
        _barrier()
        widen(t["wide"], t["part"], n)
        _barrier()
        self._scatter(row, column, s)

    def _shares(self, s: Strip, real: int) -> None:
        """Gradients of means in float32, each divided among the elements that its window counts."""
        p, t = self.plan, self.local
        widen(t["wide"], t["dy"], real)
        _barrier()
        width = p.out[1] * C0
        if not p.column_share:
            asc.muls(t["wide"], t["wide"], p.row_share[0], count=real)
        else:
            usual = max(set(p.column_share), key=p.column_share.count)
            asc.duplicate(t["shares"], usual, count=width)
            for i, share in enumerate(p.column_share):
                if share != usual:
                    asc.duplicate(t["shares"][i * C0 :], share, count=C0)
            _barrier()
            for r in range(s.count):
                line = t["wide"][r * width :]
                asc.mul(line, line, t["shares"], count=width)
                if p.row_share[s.first + r] != 1.0:
                    asc.muls(line, line, p.row_share[s.first + r], count=width)
        _barrier()

    def _im2col(self, row: int, column: int, s: Strip, n: int) -> None:
        """Elements of a tap by the im2col load, for all positions of the strip."""
        p = self.plan
        asc.set_flag(_E.V_MTE1, 0)
        asc.wait_flag(_E.V_MTE1, 0)
        right = max(p.width - p.before[1] - p.size[1], 0)
        above, below = s.top - s.low, max(s.low + s.height - s.top - s.have, 0)
        fractals = n // (C0 * C0)
        for first in range(0, fractals, MAX_REPEATS):
            top, left = divmod(first * C0, p.out[1])
            asc.load_data(self.local["found"][first * C0 * C0 :], self.image, asc.LoadData3DParamsV1(
                (p.before[1], right, above, below), s.have, p.size[1], 0, column, row,
                left * p.stride[1] - p.before[1], top * p.stride[0] - above, p.stride[1], p.stride[0], p.kernel[1],
                p.kernel[0], 1, 1, 1, 1, min(MAX_REPEATS, fractals - first),
            ))  # fmt: skip
        if row == p.kernel[0] - 1 and column == p.kernel[1] - 1:
            asc.set_flag(_E.MTE1_MTE2, 0)
        asc.set_flag(_E.MTE1_V, 0)
        asc.wait_flag(_E.MTE1_V, 0)

    def _rows(self, row: int, column: int, s: Strip) -> None:
        """Elements of a tap by strided copies, row by row."""
        p, t = self.plan, self.local
        wo, step = p.out[1], p.stride[1]
        whole, rest = divmod(wo * C0, HALVES)
        for r in asc.steady(s.count):
            dst = t["found"][r * wo * C0 :]
            src = t["x"][((r * p.stride[0] + row) * p.width + column) * C0 :]
            for first in range(0, whole, MAX_REPEATS):
                asc.adds(
                    dst[first * HALVES :], src[first * HALVES * step :], 0.0, HALVES, min(MAX_REPEATS, whole - first),
                    asc.UnaryRepeatParams(1, step, 8, 8 * step),
                )  # fmt: skip
            if rest:
                asc.adds(
                    dst[whole * HALVES :], src[whole * HALVES * step :], 0.0, rest, 1,
                    asc.UnaryRepeatParams(1, step, 8, 8 * step),
                )  # fmt: skip
        _barrier()

    def _first_found(self, first: bool, n: int) -> None:
        """Bits of positions whose first largest element is this tap's into ``mask``."""
        t, equal = self.local, self.local["mask" if first else "equal"]
        for at in range(0, n, MAX_REPEATS * HALVES):
            count = min(MAX_REPEATS, (n - at) // HALVES)
            asc.compare(
                equal[at // 8 :], t["y"][at:], t["found"][at:], asc.CMPMODE.EQ, HALVES, count,
                asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8),
            )  # fmt: skip
        _barrier()
        words = ceil_div(n, 8 * REPEAT) * HALVES  # 16-bit words of whole repeats
        done, left, mask, same = (_words(t[name]) for name in ("done", "open", "mask", "equal"))
        if first:
            asc.bitwise_or(done, mask, mask, count=words)
            _barrier()
        else:
            asc.bitwise_and(mask, left, same, count=words)
            _barrier()
            asc.bitwise_or(done, done, mask, count=words)
            _barrier()
        asc.bitwise_not(left, done, count=words)
        _barrier()

    def _select(self, n: int) -> None:
        """Gradients where ``mask`` is set, else zero, a register of comparison bits at a time."""
        t = self.local
        for i in asc.steady(n // HALVES):
            asc.set_cmp_mask(t["mask"][i * HALVES // 8 :])
            asc.select(
                t["part"][i * HALVES :], t["dy"][i * HALVES :], t["zeros"], repeat_times=1,
                repeat_params=asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8), sel_mode=asc.SelMode.VSEL_CMPMASK_SPR,
            )  # fmt: skip

    def _scatter(self, row: int, column: int, s: Strip) -> None:
        """Add a tap's gradients to where they came from: per output row, the two halves of the pixels' channels."""
        p, t = self.plan, self.local
        wo, step = p.out[1], 2 * p.stride[1]  # blocks from pixel to pixel
        whole, rest = divmod(wo, 8)
        for r in asc.steady(s.count):
            target = t["sums"][((r * p.stride[0] + row) * p.width + column) * C0 :]
            source = t["wide"][r * wo * C0 :]
            for half in (0, 8):
                for first, lanes, repeats in ((0, 64, whole), (whole * 8, rest * 8, 1 if rest else 0)):
                    for done in range(0, repeats, MAX_REPEATS):
                        count = min(MAX_REPEATS, repeats - done)
                        pixel = first + done * 8
                        dst = target[pixel * p.stride[1] * C0 + half :]
                        asc.add(
                            dst, source[pixel * C0 + half :], dst, lanes, count,
                            asc.BinaryRepeatParams(step, 2, step, 8 * step, 16, 8 * step),
                        )  # fmt: skip


def widen(dst: asc.LocalTensor, src: asc.LocalTensor, count: int) -> None:
    """float16 to float32."""
    for first in range(0, count, MAX_REPEATS * HALVES // 2):
        part = min(MAX_REPEATS * HALVES // 2, count - first)
        asc.cast(dst[first:], src[first:], asc.RoundMode.CAST_NONE, count=part)


def _words(t: asc.LocalTensor) -> asc.LocalTensor:
    return t.reinterpret_cast("uint16")


def _barrier() -> None:
    asc.pipe_barrier(asc.PipeID.V)


def _deal(planes: int, rows: int, cores: int) -> tuple[int, int]:
    """(planes per core, cuts of the rows of a plane), as the stock kernel cuts them."""
    if planes >= cores:
        return ceil_div(planes, cores), 1
    if planes * rows < cores:
        return 1, rows
    for groups in range(cores, 0, -1):
        if cores % groups == 0 and planes >= groups and rows >= cores // groups:
            return ceil_div(planes, groups), cores // groups
    return 1, cores // planes


def _cut(soc: Soc, planes: int, size: tuple[int, int], out: tuple[int, int], window: Window, im2col: bool) -> GradPlan:
    """Planes and rows dealt to the cores."""
    per_core, cuts = _deal(planes, out[0], vector_cores(soc)[1])
    share = ceil_div(out[0], cuts)
    (kh, kw), (sh, sw) = window.kernel, window.strides
    before = (window.pads[0], window.pads[2])
    return GradPlan(
        planes, size, out, (kh, kw), (sh, sw), before, per_core, ceil_div(out[0], share), share, share, im2col
    )  # fmt: skip


def _fitting(plan: GradPlan, soc: Soc) -> GradPlan:
    """The same with strips that fit the unified buffer. Raises `NoKernel`."""
    while not plan.fits(soc):
        if plan.rows == 1:
            raise NoKernel(f"a row of {plan.size[1]} pixels does not fit the unified buffer")
        plan = replace(plan, rows=ceil_div(plan.rows, 2))
    return plan


@kernel("AvgPoolGrad", "AvgPoolV2Grad")
def plan_avg_pool_grad(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """The launch of an average pooling's gradient, float16 NC1HWC0. Raises `NoKernel` as `plan_max_pool_grad`."""
    dy, dx = call.inputs[1], call.outputs[0]
    assert dy is not None
    if any(t.format != "NC1HWC0" or t.dtype != "float16" or t.shape[-1] != C0 for t in (dy, dx)):
        raise NoKernel(f"{call.type} outside float16 NC1HWC0")
    n, c1, h, w, _ = dx.shape
    fmt = call.attr("data_format", "NHWC" if call.type == "AvgPoolGrad" else "NCHW")
    window, _ = pool_window(call.attr, (h, w), fmt)
    out = (dy.shape[2], dy.shape[3])
    if max(window.dilations) > 1 or 16 * window.strides[1] > 255:
        raise NoKernel(f"dilation {window.dilations}, column stride {window.strides[1]}")
    plan = _cut(soc, n * c1, (h, w), out, window, False)
    rows, columns = shares_of((h, w), out, window, call)
    plan = _fitting(replace(plan, average=True, row_share=rows, column_share=columns), soc)
    return [
        asc.Launch(
            avg_pool_grad_kernel,
            block_dim=ceil_div(plan.planes, plan.planes_per_core) * plan.cuts,
            kind=vector_cores(soc)[0],
            args=(("in", 1), ("out", 0)),
            gm=[("dy", "float16", dy.nbytes, "in"), ("dx", "float16", dx.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=lambda block: (plan.signature(block), block % plan.cuts if columns else 0),
        )
    ]


@kernel("MaxPoolGrad", "MaxPoolV3Grad")
def plan_max_pool_grad(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """The launch of a max pooling's gradient, float16 NC1HWC0. Raises `NoKernel` for others, for windows with
    dilation and where a row does not fit the unified buffer."""
    x, y, dy, dx = *call.inputs[:3], call.outputs[0]
    assert x is not None and y is not None and dy is not None
    if any(t.format != "NC1HWC0" or t.dtype != "float16" or t.shape[-1] != C0 for t in (x, y, dy, dx)):
        raise NoKernel(f"{call.type} outside float16 NC1HWC0")
    n, c1, h, w, _ = x.shape
    fmt = call.attr("data_format", "NHWC" if call.type == "MaxPoolGrad" else "NCHW")
    window, _ = pool_window(call.attr, (h, w), fmt)
    out = (y.shape[2], y.shape[3])
    if max(window.dilations) > 1 or 16 * window.strides[1] > 255:
        raise NoKernel(f"dilation {window.dilations}, column stride {window.strides[1]}")
    plan = _fitting(_cut(soc, n * c1, (h, w), out, window, _has_im2col(soc)), soc)
    if plan.im2col and not _regular(plan):
        plan = replace(plan, im2col=False)
        if not plan.fits(soc):
            raise NoKernel(f"windows {window.kernel} of {(h, w)} that end short of {out}")
    return [
        asc.Launch(
            max_pool_grad_kernel,
            block_dim=ceil_div(plan.planes, plan.planes_per_core) * plan.cuts,
            kind=vector_cores(soc)[0],
            args=(("in", 0), ("in", 1), ("in", 2), ("out", 0)),
            gm=[(name, "float16", t.nbytes, role) for name, t, role in
                (("x", x, "in"), ("y", y, "in"), ("dy", dy, "in"), ("dx", dx, "out"))],
            consts={"plan": plan},
            soc=soc,
            signature=plan.signature,
        )
    ]  # fmt: skip


def _has_im2col(soc: Soc) -> bool:
    """Whether im2col loads reach the unified buffer (load3dv1)."""
    return rules_for(soc).family in ("910A", "310P3")


def _regular(plan: GradPlan) -> bool:
    """Whether the im2col load finds the same windows: padding within its range, and as many columns."""
    right = max(plan.width - plan.before[1] - plan.size[1], 0)
    columns = (plan.size[1] + plan.before[1] + right - plan.kernel[1]) // plan.stride[1] + 1
    pads = (plan.before[1], right, plan.before[0])
    kernel_fits = max(plan.kernel) <= 255 and max(plan.stride) <= 63
    return columns == plan.out[1] and max(pads) <= 255 and kernel_fits
