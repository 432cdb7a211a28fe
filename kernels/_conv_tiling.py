"""How a convolution is cut: over the cores, into strips of output rows, and into tiles of the cube.

A convolution is the matrix product C (Ho*Wo x Cout) = im2col(x) (Ho*Wo x C1*Kh*Kw*C0) x weights, per image and
group. Everything follows from the shape, the buffer sizes and the number of cores; the choice between candidate
cuts is by `core_cycles`, an estimate with fixed nominal rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from ascend_sim.isa.layout import ceil_div

from ._matmul_tiling import BIAS_BYTES, CubeBuffers

FRACTAL = 512  # bytes of a 16 x C0 input fractal
MAX_TILE_M = 64  # fractals of 16 rows: more do not fit half of L0A

# Nominal rates of the estimate. Cube: one 16 x C0 x 16 fractal a cycle. load3d: hicann/asc-devkit load_data_perf
# (910B) and fits over public 310 / 310P / 310B network throughputs (90-100 B/cycle). load2d and the feed from L2:
# platform ini, GEMM fits.
LOAD3D_BYTES = {True: 200, False: 96}  # per cycle; key: has fixpipe
LOAD2D_BYTES = 192
FEED_BYTES = 72
DMA_CYCLES = 150  # fixed part of one transfer
STEP_CYCLES = 24  # issue and flags of one cube step
SWITCH_CYCLES = 20  # what each further stretch of a streamed reduction costs
EXIT_CYCLES = {True: 8, False: 10}  # per 16 x 16 output fractal, without activation


@dataclass(frozen=True)
class ConvProblem:
    """Sizes of a convolution in NC1HWC0. ``c1`` and ``n1``: blocks of C0 input and of 16 output channels *per
    group*; ``pads`` (left, right, top, bottom); ``item`` bytes per input element; ``exit_cycles``: vector work per
    16 x 16 output fractal besides leaving L0C; ``extras``: tensors read on the way out. ``backward``: weights are those
    of the forward convolution whose input gradient this is; they are turned and transposed on their way to L0B,
    ``w_rows`` output channels and ``w_blocks`` blocks of C0 input channels as stored. ``small``: one block of four
    channels (C04), of which four filter positions share a fractal."""

    batch: int
    groups: int
    c1: int
    h: int
    w: int
    n1: int
    ho: int
    wo: int
    kh: int
    kw: int
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    item: int = 2
    exit_cycles: int = 0
    extras: int = 0
    backward: bool = False
    w_rows: int = 0
    w_blocks: int = 0
    small: bool = False

    @property
    def surplus(self) -> int:
        """Rows of fractals beyond the last that a transposing load of 32-bit weights writes: it brings 16 rows, two
        fractals of 8, of which the second is overwritten by the next load."""
        return 1 if self.backward and self.item == 4 else 0

    @property
    def taps(self) -> int:
        """Fractals along the reduction per input block: one per filter position, or per four of them."""
        return ceil_div(self.kh * self.kw, 4) if self.small else self.kh * self.kw

    @property
    def pixel(self) -> int:
        """Bytes of a pixel and input block in L1."""
        return 8 if self.small else 32

    @property
    def k1(self) -> int:
        """Fractals along the reduction."""
        return self.c1 * self.taps

    def input_rows(self, row: int, rows: int) -> tuple[int, int, int, int]:
        """Input rows that output rows [row, row + rows) read: (first, count, zero rows above, zero rows below)."""
        start = row * self.sh - self.pads[2]
        stop = (row + rows - 1) * self.sh - self.pads[2] + self.dh * (self.kh - 1) + 1
        low, high = max(start, 0), min(stop, self.h)
        if high <= low:  # the window lies in the padding: keep one input row so that the load has a source
            low = min(max(start, 0), self.h - 1)
            high = low + 1
        return low, high - low, max(low - start, 0), max(stop - high, 0)


@dataclass(frozen=True)
class Strip:
    """Output rows [row, row + rows) of an image and the input rows they read; ``m`` = rows x Wo."""

    row: int
    rows: int
    first: int
    count: int
    top: int
    bottom: int
    m: int

    @property
    def kind(self) -> tuple[int, ...]:
        """Equal for strips that issue the same instructions."""
        return self.rows, self.count, self.top, self.bottom


@dataclass(frozen=True)
class Core:
    """What one core computes: ranges (start, count) of images, groups, output rows and output channel blocks. The
    first ``lead`` rows make a strip of their own."""

    images: tuple[int, int]
    groups: tuple[int, int]
    rows: tuple[int, int]
    blocks: tuple[int, int]
    lead: int = 0


@dataclass(frozen=True)
class ConvTiling:
    """``split``: cores along (batch, groups, rows, output blocks). A strip of ``strip_rows`` output rows and a chunk
    of ``chunk_n1`` output blocks are the units brought to L1, whole along the reduction or (``a_c1``, ``w_c1`` below
    C1) that many input blocks at a time; ``a_slots`` / ``w_slots`` buffers each. The cube computes tiles of
    ``tile_m`` x ``tile_n`` fractals, ``step_k`` fractals of the reduction at a time. ``weights_outer``: the chunk
    stays while strips pass, else the strip stays while chunks pass. Small images share a tile: ``images`` of them,
    whole, make a strip, so that weights pass through L0 once for all.

    Bytes: a_slots x strip + w_slots x chunk <= L1; tile_m x step_k x 512 <= L0A / 2; step_k x tile_n x 512 <=
    L0B / 2; tile_m x tile_n x 1024 <= L0C / 2.
    """

    split: tuple[int, int, int, int]
    strip_rows: int
    chunk_n1: int
    tile_m: int
    tile_n: int
    step_k: int
    a_c1: int
    w_c1: int
    a_slots: int
    w_slots: int
    weights_outer: bool
    a_bytes: int
    w_bytes: int
    images: int = 1
    cycles: float = 0.0


def _share(total: int, cores: int, index: int) -> tuple[int, int]:
    """Range of part ``index`` of ``total`` items dealt in equal runs."""
    size = ceil_div(total, cores)
    start = index * size
    return start, max(min(size, total - start), 0)


def core_of(problem: ConvProblem, tiling: ConvTiling, block: int) -> Core:
    """Work of block ``block``; output channel blocks vary fastest, then rows, groups, images."""
    cores_b, cores_g, cores_r, cores_n = tiling.split
    block, i_n = divmod(block, cores_n)
    block, i_r = divmod(block, cores_r)
    i_b, i_g = divmod(block, cores_g)
    return Core(
        _share(problem.batch, cores_b, i_b),
        _share(problem.groups, cores_g, i_g),
        _share(problem.ho, cores_r, i_r),
        _share(problem.n1, cores_n, i_n),
    )


@lru_cache(maxsize=4096)
def strips_of(problem: ConvProblem, strip_rows: int, rows: tuple[int, int], lead: int = 0) -> tuple[Strip, ...]:
    """Strips of a core's rows, behind one of ``lead`` rows."""
    out = []
    starts = [*([rows[0]] if lead else []), *range(rows[0] + lead, rows[0] + rows[1], strip_rows)]
    for row, following in zip(starts, [*starts[1:], rows[0] + rows[1]], strict=True):
        n = following - row
        out.append(Strip(row, n, *problem.input_rows(row, n), n * problem.wo))
    return tuple(out)


@lru_cache(maxsize=4096)
def tile_conv(problem: ConvProblem, buffers: CubeBuffers, bias: bool) -> ConvTiling:
    """The cheapest cut. Raises ValueError when one output row does not fit L1 in any way."""
    options = sorted(_stock_splits(problem, buffers), key=lambda split: (_bound(problem, buffers, split), split))
    best: ConvTiling | None = None
    for split in options[:4]:  # the rest of the list is searched only when none of these fits
        found = _cut(problem, buffers, bias, split)
        if found is not None and (best is None or found.cycles < best.cycles):
            best = found
    if best is None:
        for split in options[4:]:
            best = _cut(problem, buffers, bias, split)
            if best is not None:
                break
    if best is None:
        raise ValueError(f"convolution {problem} does not fit L1 of {buffers.l1} bytes with one output row per strip")
    return best


MIN_PART = 16384  # bytes of a transfer below which splitting does not pay


def deepen(
    p: ConvProblem, t: ConvTiling, b: CubeBuffers, flags: int, bias: str
) -> tuple[ConvTiling, int, int]:
    """Spend the flags and the L1 that are left: (tiling with more buffers, pieces of a strip, pieces of a chunk).

    What is brought once comes in pieces, so that the cube starts on the first of them; what streams gets up to four
    buffers. Each buffer and each piece takes one of the ``flags`` of a pipe pair (one less with a bias table).
    """
    images, groups, rows, n1 = _parts(p, t.split)
    flags -= bias == "table"
    room = b.l1 - (2 * BIAS_BYTES if bias else 0)
    whole_a, whole_w = t.a_c1 == p.c1, t.w_c1 == p.c1
    strips = ceil_div(rows, t.strip_rows) * ceil_div(images, t.images) * groups
    a_once = whole_a and strips == 1
    w_once = whole_w and ceil_div(n1, t.chunk_n1) * groups == 1
    a_slots, w_slots = (1 if a_once else t.a_slots), (1 if w_once else t.w_slots)
    a_parts = w_parts = 1

    def fits(a: int, w: int) -> bool:
        return a * t.a_bytes + w * t.w_bytes <= room and a * a_parts + w * w_parts <= flags

    # two or four buffers only: other numbers make long cycles of slots
    if not a_once and a_slots == 2 and strips * ceil_div(p.c1, t.a_c1) > 2 and fits(4, w_slots):
        a_slots = 4
    if not w_once and w_slots == 2 and fits(a_slots, 4):
        w_slots = 4
    while True:  # one more piece at a time, of what comes in the larger ones
        gains = []
        if a_once and t.a_bytes // (a_parts + 1) >= MIN_PART and a_parts < p.c1:
            gains.append((t.a_bytes / a_parts, 1, 0))
        if w_once and t.w_bytes // (w_parts + 1) >= MIN_PART:
            gains.append((t.w_bytes / w_parts, 0, 1))
        if not gains or a_slots * a_parts + w_slots * w_parts >= flags:
            break
        _, more_a, more_w = max(gains)
        a_parts, w_parts = a_parts + more_a, w_parts + more_w
    return replace(t, a_slots=a_slots, w_slots=w_slots), a_parts, w_parts


def _counts(total: int, cores: int) -> list[int]:
    """Numbers of parts that really differ: each gives another size of the largest part."""
    return sorted({ceil_div(total, ceil_div(total, parts)) for parts in range(1, min(total, cores) + 1)})


def _stock_splits(p: ConvProblem, b: CubeBuffers) -> list[tuple[int, int, int, int]]:
    """Splits to choose from. Chips with separate cube cores deal a batch of half their number or more by images alone,
    to the largest divisor of the batch: what mac times of the stock kernel show (AlexNet training profile, 910B2:
    batch 32 on 16 of 24 cores)."""
    if b.fixpipe and b.cores > 1 and p.batch >= b.cores // 2 and not p.backward:
        parts = max(n for n in range(1, b.cores + 1) if p.batch % n == 0)
        if 2 * parts > b.cores:
            return [s for s in _splits(p, b.cores) if s[0] == parts]
    return _splits(p, b.cores)


def _splits(p: ConvProblem, cores: int) -> list[tuple[int, int, int, int]]:
    out = []
    for b, g in product(_counts(p.batch, cores), _counts(p.groups, cores)):
        if b * g > cores:
            continue
        for r in _counts(p.ho, cores // (b * g)):
            left = cores // (b * g * r)
            parts = _counts(p.n1, left)
            out += [(b, g, r, n) for n in parts]
    return out


def _parts(p: ConvProblem, split: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Largest images, groups, rows and output blocks of a core."""
    return tuple(ceil_div(t, s) for t, s in zip((p.batch, p.groups, p.ho, p.n1), split, strict=True))  # type: ignore


def _bound(p: ConvProblem, b: CubeBuffers, split: tuple[int, int, int, int]) -> float:
    """Lower bound of `core_cycles` for a split: cube, load3d, compulsory traffic, exit."""
    images, groups, rows, n1 = _parts(p, split)
    m1 = ceil_div(rows * p.wo, 16)
    work = images * groups
    count = min(p.input_rows(min(rows, p.ho - rows), rows)[1], p.h)
    traffic = work * count * p.w * p.pixel * p.c1 + groups * p.k1 * n1 * FRACTAL
    output = work * m1 * n1
    return max(
        work * m1 * n1 * p.k1,
        work * m1 * p.k1 * FRACTAL / LOAD3D_BYTES[b.fixpipe] * ceil_div(n1, 16),
        traffic / FEED_BYTES,
        output * (EXIT_CYCLES[b.fixpipe] + p.exit_cycles),
    ) + min(traffic, 65536) / FEED_BYTES


def _cut(p: ConvProblem, b: CubeBuffers, bias: bool, split: tuple[int, int, int, int]) -> ConvTiling | None:
    images, groups, rows, n1 = _parts(p, split)
    room = b.l1 - (BIAS_BYTES * 2 if bias else 0)
    best: ConvTiling | None = None
    for tile_n in _tile_counts(n1, min(16, b.l0c // 2048, b.l0b // 2 // FRACTAL)):
        top = min(b.l0c // 2 // 1024 // tile_n, b.l0a // 2 // FRACTAL, MAX_TILE_M)
        for strip_rows, together in _strip_counts(rows, p.wo, top, images):
            m1 = ceil_div(strip_rows * p.wo, 16) * together
            tile_m = ceil_div(m1, ceil_div(m1, top))
            step_k = min(b.l0a // 2 // FRACTAL // tile_m, b.l0b // 2 // FRACTAL // tile_n - p.surplus, p.k1)
            while step_k > 4 and step_k * max(tile_m, tile_n) > 64 and p.k1 > step_k:
                step_k -= 1  # short steps start the cube sooner
            start = ConvTiling(
                split, strip_rows, tile_n, tile_m, tile_n, step_k, p.c1, p.c1, 2, 2, True, 0, 0, together
            )
            for found in _residencies(p, room, start, n1, ceil_div(images, together)):
                cycles = core_cycles(p, b, found, images, groups, rows, n1)
                if best is None or cycles < best.cycles:
                    best = replace(found, cycles=cycles)
    return best


def _tile_counts(n1: int, most: int) -> list[int]:
    """Widths worth trying: the even cuts of n1 into 1 .. 4 tiles, as wide as ``most`` allows."""
    first = ceil_div(n1, most)
    return sorted({ceil_div(n1, first + i) for i in range(3)} | {min(n1, most)}, reverse=True)


def _strip_counts(rows: int, wo: int, top: int, images: int) -> list[tuple[int, int]]:
    """(height, images) of strips worth trying: all rows, even cuts of them, those near whole cube tiles, and several
    whole images that fit one tile."""
    out = {rows, 1}
    for parts in (2, 3, 4, 6, 8, 12, 16):
        out.add(ceil_div(rows, parts))
    for tiles in (1, 2):
        fit = tiles * top * 16 // wo
        if 1 <= fit < rows:
            out.add(fit)
            out.add(ceil_div(rows, ceil_div(rows, fit)))
    fit = min(top // ceil_div(rows * wo, 16), images)
    together = sorted({ceil_div(images, ceil_div(images, n)) for n in range(2, fit + 1)}, reverse=True)[:3]
    return [(rows, n) for n in together] + [(n, 1) for n in sorted(out, reverse=True)]


def _most_rows(p: ConvProblem, rows: int) -> int:
    """Input rows of the largest strip of so many output rows."""
    return min((rows - 1) * p.sh + p.dh * (p.kh - 1) + 1, p.h)


def _residencies(p: ConvProblem, room: int, start: ConvTiling, n1: int, strips: int) -> list[ConvTiling]:
    """Ways to hold a strip and a weight chunk in L1; ``strips`` per row of strips (images, or sets of them)."""
    a_block = _most_rows(p, start.strip_rows) * p.w * p.pixel * start.images  # bytes of the strip per input block
    w_block = p.taps * FRACTAL  # bytes of weights per input and output block
    tile_n = start.tile_n
    out: list[ConvTiling] = []

    def add(chunk: int, a_c1: int, w_c1: int, a_slots: int, w_slots: int, outer: bool) -> bool:
        a, w = a_c1 * a_block, w_c1 * chunk * w_block + p.surplus * FRACTAL
        if a_slots * a + w_slots * w > room:
            return False
        out.append(
            replace(
                start, chunk_n1=chunk, a_c1=a_c1, w_c1=w_c1, a_slots=a_slots, w_slots=w_slots, weights_outer=outer,
                a_bytes=a, w_bytes=w,
            )
        )  # fmt: skip
        return True

    single = strips == 1 and start.split[1] >= p.groups
    for chunk in sorted({n1, tile_n, min(tile_n * 2, n1), min(tile_n * 4, n1)}, reverse=True):
        chunks = ceil_div(n1, chunk)
        for outer in (True, False):
            w_slots = 1 if chunks == 1 else 2
            if not add(chunk, p.c1, p.c1, 2, w_slots, outer):
                add(chunk, p.c1, p.c1, 1, w_slots, outer)
            if chunks == 1 and single:
                break
    for parts in (1, 2, 4, 8, 16, p.c1):
        c1 = ceil_div(p.c1, parts)
        if parts > 1 and (parts > p.c1 or min(c1 * a_block, c1 * tile_n * w_block) < MIN_PART // 2) and out:
            break
        add(tile_n, p.c1, c1, 1, 2, False)
        add(tile_n, c1, p.c1, 2, 1, True)
        add(tile_n, c1, c1, 2, 2, False)
    return out


def core_cycles(p: ConvProblem, b: CubeBuffers, t: ConvTiling, images: int, groups: int, rows: int, n1: int) -> float:
    """Estimated cycles of the busiest core: the longest of cube, loads to L0, DMA, scalar and exit, plus the first
    transfer and the last exit, which nothing hides."""
    images = ceil_div(images, t.images)
    work = images * groups
    strips, last = divmod(rows, t.strip_rows)
    heights = [t.strip_rows] * min(strips, 1) + ([last] if last else [])
    weights = [strips] * min(strips, 1) + ([1] if last else [])
    m1 = tiles_m = 0
    for height, times in zip(heights, weights, strict=True):
        one = ceil_div(height * p.wo, 16) * t.images
        m1 += one * times
        tiles_m += ceil_div(one, t.tile_m) * times
    strips = sum(weights)
    tiles_n, chunks = ceil_div(n1, t.tile_n), ceil_div(n1, t.chunk_n1)
    cube = work * m1 * n1 * p.k1 * 1.02
    stretch = min(t.a_c1, t.w_c1)
    stretches = work * tiles_m * tiles_n * ceil_div(p.c1, stretch)
    steps = stretches * ceil_div(stretch * p.taps, t.step_k)
    load_a = work * m1 * p.k1 * FRACTAL * tiles_n / LOAD3D_BYTES[b.fixpipe]
    load_b = work * p.k1 * n1 * FRACTAL * tiles_m / LOAD2D_BYTES
    a_once, w_once = p.c1 * _most_rows(p, t.strip_rows) * p.w * p.pixel * t.images, p.k1 * n1 * FRACTAL
    a_full, w_full = t.a_c1 == p.c1, t.w_c1 == p.c1
    per_strip = ceil_div(ceil_div(t.strip_rows * p.wo, 16) * t.images, t.tile_m)
    if not a_full:
        a_times = strips * per_strip * tiles_n
    elif t.weights_outer:
        a_times = strips * (chunks if strips * images > 1 else 1)
    else:
        a_times = strips
    if not w_full:
        w_times = tiles_m
    elif t.weights_outer or chunks == 1:
        w_times = 0
    else:
        w_times = strips
    a_dma = ceil_div(p.c1, t.a_c1) * a_times * work
    w_dma = ceil_div(p.c1, t.w_c1) * chunks * max(w_times * work, groups)
    traffic = a_times * work * a_once + max(w_times * work, groups) * w_once
    fractals, tiles = work * m1 * n1, work * tiles_m * tiles_n
    dma = traffic / FEED_BYTES + (a_dma + w_dma) * DMA_CYCLES
    dma += p.extras * (fractals * FRACTAL / FEED_BYTES + tiles * DMA_CYCLES)
    store = fractals * FRACTAL / FEED_BYTES + tiles * DMA_CYCLES / 2
    leave = fractals * (EXIT_CYCLES[b.fixpipe] + p.exit_cycles) + tiles * STEP_CYCLES
    single = t.a_slots == 1 and strips * work > 1
    busy = [cube + steps * 4, load_a + load_b + steps * 4, steps * STEP_CYCLES, leave, store]
    a_first = t.a_bytes if strips * images > 1 else min(t.a_bytes, max(t.a_bytes // 2, MIN_PART))
    w_first = min(t.w_bytes, max(t.w_bytes // 4, MIN_PART)) if a_full and w_full and chunks == 1 else t.w_bytes
    first = (a_first + w_first) / FEED_BYTES
    final = t.tile_m * t.tile_n * (EXIT_CYCLES[b.fixpipe] + p.exit_cycles)
    total = max(*busy, dma) if not single else max(busy) + dma / 2
    if b.cores == 1 or not b.fixpipe:  # a load starts with the unit before the one that needs it
        units = work * tiles_m * tiles_n * ceil_div(p.c1, stretch)
        loads, size = (a_dma, t.a_bytes) if a_dma >= w_dma else (w_dma, t.w_bytes)
        late = size / FEED_BYTES + DMA_CYCLES - max(busy) / units
        if loads < units and late > 0:
            total = max(total, max(busy) + (loads - 1) * late)
    return total + first + final + (stretches - work * tiles_m * tiles_n) * SWITCH_CYCLES
