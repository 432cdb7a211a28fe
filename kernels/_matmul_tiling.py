"""Tiles of the matmul family: how C = A x B is cut for the cube's buffers and dealt to the cores.

On chips whose cube leaves through the fixpipe the rules are those of the stock MatMulV3 tiler (hicann/ops-nn,
mat_mul_v3 op_tiling; restated), elsewhere a search over tiles with one cost formula. Everything follows from buffer
sizes and core counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ascend_sim.isa.layout import ceil_div


def align(value: int, unit: int) -> int:
    return ceil_div(value, unit) * unit


@dataclass(frozen=True)
class CubeBuffers:
    """Bytes of the cube's memories, the number of cores, and how the result leaves."""

    l0a: int
    l0b: int
    l0c: int
    l1: int
    cores: int
    fixpipe: bool


@dataclass(frozen=True)
class MatmulProblem:
    """C (m x n) = A (m x k) x B (k x n), ``batch`` times. ``item`` bytes per input element, ``k0`` elements per
    32 bytes; ``trans_a`` / ``trans_b``: stored k x m / n x k; ``nz``: inputs come in fractals, not rows."""

    m: int
    k: int
    n: int
    batch: int = 1
    item: int = 2
    trans_a: bool = False
    trans_b: bool = False
    nz: bool = False
    bias: bool = False

    @property
    def k0(self) -> int:
        return 32 // self.item


@dataclass(frozen=True)
class MatmulTiling:
    """One core computes ``base_m x base_n`` tiles; each step of the cube takes ``base_k`` of K; one DMA brings
    ``step_ka`` (A) or ``step_kb`` (B) such steps to L1, two buffers each. ``l0c_slots`` accumulators are in use.

    ``base_m x base_k`` and ``base_k x base_n`` fit half of L0A and L0B, ``base_m x base_n x 4 B x l0c_slots`` fits
    L0C, and twice both DMA tiles (plus the bias row) fit L1.
    """

    base_m: int
    base_n: int
    base_k: int
    step_ka: int
    step_kb: int
    l0c_slots: int
    cores: int


BIAS_BYTES = 1024  # of L1, kept for the bias row


@lru_cache(maxsize=4096)
def tile(problem: MatmulProblem, buffers: CubeBuffers) -> MatmulTiling:
    """The tiling of a problem."""
    if _short_rows(problem, buffers):
        return _short_row_tiling(problem, buffers)
    base_m, base_n, base_k = _stock_base(problem, buffers) if buffers.fixpipe else _searched_base(problem, buffers)
    step_ka, step_kb = _steps(problem, buffers, base_m, base_n, base_k)
    if _four_by_four(problem, buffers, base_m, base_n, base_k):
        step_ka = step_kb = 4
    tiles = problem.batch * ceil_div(problem.m, base_m) * ceil_div(problem.n, base_n)
    slots = 2 if base_m * base_n * 8 <= buffers.l0c else 1
    tiling = MatmulTiling(base_m, base_n, base_k, step_ka, step_kb, slots, min(buffers.cores, tiles))
    return _within_k(problem, tiling)


def _short_rows(p: MatmulProblem, b: CubeBuffers) -> bool:
    """Whether the older stock tiler (MatMulV2) is in charge: few rows of A, float32, or 16-bit with B in rows of whole
    lines. The newer one takes over where A stays in L1 or K is split."""
    if not b.fixpipe or b.cores == 1 or p.batch > 1 or p.m > 128 or p.nz or p.trans_a:
        return False
    if 2 * _column_cores(p, b) < min(b.cores, ceil_div(p.n, 16)):
        return False
    if p.item == 2:
        return p.trans_b and not p.bias and p.k * p.item % 256 == 0 and p.n >= 16 * b.cores
    resident = p.trans_b and p.m <= 16 and p.k >= 4096 and p.k % 128 == 0 and p.n <= 16 * b.cores
    split = p.m <= 64 and p.n <= 64 and p.k >= 6144
    return p.item == 4 and not (resident or split)


def _column_cores(p: MatmulProblem, b: CubeBuffers) -> int:
    """Cores along N: the largest divisor of its blocks of 16."""
    blocks = ceil_div(p.n, 16)
    return max(c for c in range(1, min(b.cores, blocks) + 1) if blocks % c == 0)


def _short_row_tiling(p: MatmulProblem, b: CubeBuffers) -> MatmulTiling:
    """Every DMA brings one cube step of float32 (128 bytes of K), two of 16-bit types (512 bytes). Source: core counts
    that mac times and the stock library's expected tilings show (N = 4096 on 16, 9216 on 24, 11264 on 22), and the 17 B
    a cycle at which an AlexNet training profile streams float32 weights."""
    blocks, cores = ceil_div(p.n, 16), _column_cores(p, b)
    base_m, base_k, steps = align(p.m, 16), min(128, align(p.k, 16)), min(2, ceil_div(p.k, 128))
    if p.item == 4:
        base_k, steps = min(32, align(p.k, 16)), 1
    wide = 128 if p.item == 2 else 256 if p.trans_b else 64
    most = min(wide, b.l0c // 4 // base_m // 16 * 16, b.l0b // 2 // (base_k * p.item) // 16 * 16)
    base_n = 16 * ceil_div(blocks // cores, ceil_div(blocks // cores * 16, most))
    slots = 2 if base_m * base_n * 8 <= b.l0c else 1
    return MatmulTiling(base_m, base_n, base_k, steps, steps, slots, cores)


def _within_k(problem: MatmulProblem, tiling: MatmulTiling) -> MatmulTiling:
    """No DMA longer than K, and the longer one a multiple of the shorter."""
    steps = ceil_div(problem.k, tiling.base_k)
    a, b = min(tiling.step_ka, steps), min(tiling.step_kb, steps)
    small, large = min(a, b), max(a, b)
    large = large // small * small if large < steps or large % small == 0 else small * ceil_div(large, small)
    limit = max(tiling.step_ka, tiling.step_kb)
    while large > limit:
        large -= small
    return replace(tiling, step_ka=large if a >= b else small, step_kb=small if a >= b else large)


def _steps(p: MatmulProblem, b: CubeBuffers, base_m: int, base_n: int, base_k: int) -> tuple[int, int]:
    """Half of L1 per operand, two buffers: depth = (L1 + 256)/2 / (base x base_k x item), step = depth / 2; DMA rows
    rounded down to 512 (or 256) bytes unless they cover K. The reserved bias row halves the smaller operand."""
    depth_a = max((b.l1 + 256) // 2 // (base_m * base_k * p.item), 2)
    depth_b = max((b.l1 + 256) // 2 // (base_n * base_k * p.item), 2)
    reserve = BIAS_BYTES if p.bias else 0
    while (depth_a * base_m + depth_b * base_n) * base_k * p.item > b.l1 - reserve:
        if (base_m <= base_n and depth_a > 2) or depth_b <= 2:
            depth_a //= 2
        else:
            depth_b //= 2
    a, c = _round_step(p, depth_a // 2, base_k), _round_step(p, depth_b // 2, base_k)
    if a >= c:
        a = a // c * c
    else:
        c = c // a * a
    return a, c


def _round_step(p: MatmulProblem, step: int, base_k: int) -> int:
    step = max(step, 1)
    if step * base_k >= p.k:
        return step
    for unit in (512, 256):
        rounded = step * base_k * p.item // unit * unit // (base_k * p.item)
        if rounded >= 1:
            return rounded
    return step


def _four_by_four(p: MatmulProblem, b: CubeBuffers, base_m: int, base_n: int, base_k: int) -> bool:
    """Stock special case on 24 cube cores: equal DMA depth for well aligned large shapes."""
    if not b.fixpipe or b.cores != 24 or p.item != 2 or base_m * base_n != 32768 or base_k != 64 or p.nz:
        return False
    aligned = all(v % 256 == 0 for v in (p.m, p.k, p.n)) and min(p.m, p.n) >= 768
    power = p.k & (p.k - 1) == 0
    return aligned and not power and p.m % 16384 != 0 and p.n % 16384 != 0 and p.m * p.n > 32768 * 24


# -- stock rules, chips with a fixpipe -------------------------------------------------------------------------------


def _stock_base(p: MatmulProblem, b: CubeBuffers) -> tuple[int, int, int]:
    base_m, base_n, base_k = 128, 256, 128 // p.item
    if p.trans_a and p.trans_b:
        base_m, base_n = 256, 128
    elif p.trans_a != p.trans_b and not p.nz:
        base_m, base_n = _one_transposed(p, b)
    tiles = p.batch * (align(p.m, 128) // base_m) * (align(p.n, 256) // base_n)
    if tiles < b.cores or p.m < 256 or p.n < 256:
        base_m, base_n, base_k = _stock_small(p, b, base_m, base_n, base_k)
        if 128 < p.m < 256 and base_n > 128:
            base_m, base_n = min(base_m, 128), 128
        elif 128 < p.n < 256 and base_m > 128:
            base_m, base_n = 128, min(base_n, 128)
    else:
        base_m = _balanced(p, b, base_m, base_n)
    if p.bias:
        base_n = min(base_n, 256)
    return _clamp(p, b, base_m, base_n, base_k)


def _one_transposed(p: MatmulProblem, b: CubeBuffers) -> tuple[int, int]:
    big = 256 * (b.cores // 2)
    swap = False
    if p.m >= big and p.n >= big:
        tall = ceil_div(p.m, 256) * p.n + ceil_div(p.n, 128) * p.m
        wide = ceil_div(p.m, 128) * p.n + ceil_div(p.n, 256) * p.m
        swap = tall < wide
    elif p.m >= big:
        swap = True
    elif p.n < big:
        swap = p.m > p.n
    return (256, 128) if swap else (128, 256)


def _stock_small(p: MatmulProblem, b: CubeBuffers, base_m: int, base_n: int, base_k: int) -> tuple[int, int, int]:
    """Few tiles: shrink the tile until the cores are used. The cost is the L1 fill of the slowest core,
    (base_m + base_n) x rounds."""
    batch, cores = p.batch, max(b.cores // p.batch, 1)
    inner_a, inner_b = (p.m if p.trans_a else p.k), (p.k if p.trans_b else p.n)
    aligned_a, aligned_b = inner_a * p.item % 256 == 0, inner_b * p.item % 256 == 0
    default_k = 128 // p.item
    if p.trans_a and p.trans_b:
        rows = batch * ceil_div(p.m, base_m)
        return base_m, min(256, align(max(p.n // max(b.cores // rows, 1), 1), 16)), base_k
    if p.trans_a and aligned_a and aligned_b:
        return base_m, base_n, base_k
    if p.trans_a or (aligned_a and not aligned_b):
        return (*_shrink(p, cores, base_m, base_n), default_k)
    if not aligned_a and not aligned_b:
        if p.m >= 128:
            return 128, min(256, align(ceil_div(p.n, max(cores // ceil_div(p.m, 128), 1)), 16)), default_k
        return align(p.m, 16), min(max(align(max(p.n // cores, 1), 16), 16), 256), default_k
    if not aligned_a:
        columns = ceil_div(p.n, 256)
        return min(128, align(max(p.m // max(cores // columns, 1), 1), 16)), 256, default_k
    return _cheapest(p, b, cores)


def _cheapest(p: MatmulProblem, b: CubeBuffers, cores: int) -> tuple[int, int, int]:
    candidates = [(128, 256), (128, 128), (64, 512)] if not p.trans_b else [(64, 64), (128, 128), (128, 256)]
    best: tuple[int, int, int] | None = None
    for m, n in candidates:
        n_tiles, m_tiles = ceil_div(p.n, n), ceil_div(p.m, m)
        if not p.trans_b or m_tiles >= n_tiles:
            tile_m = min(m, align(max(p.m // max(cores // n_tiles, 1), 1), 16))
            tile_n = min(n, align(p.n, 16))
        else:
            tile_m = min(m, align(p.m, 16))
            tile_n = min(n, align(max(p.n // max(cores // m_tiles, 1), 1), 16))
        tiles = p.batch * ceil_div(p.m, tile_m) * ceil_div(p.n, tile_n)
        cost = (tile_m + tile_n) * ceil_div(tiles, b.cores)
        if best is None or cost < best[0]:
            best = (cost, tile_m, tile_n)
    assert best is not None
    return best[1], best[2], 128 // p.item


def _shrink(p: MatmulProblem, cores: int, base_m: int, base_n: int) -> tuple[int, int]:
    """Shrink the axis with more tiles so that all cores get one."""
    m_tiles, n_tiles = ceil_div(p.m, base_m), ceil_div(p.n, base_n)
    if m_tiles >= n_tiles:
        return min(base_m, align(max(p.m // max(cores // n_tiles, 1), 1), 16)), min(base_n, align(p.n, 16))
    return min(base_m, align(p.m, 16)), min(base_n, align(max(p.n // max(cores // m_tiles, 1), 1), 16))


def _balanced(p: MatmulProblem, b: CubeBuffers, base_m: int, base_n: int) -> int:
    """Fewer rows per tile where that fills the last round (stock: 24 cores, A not transposed, full tiles)."""
    if b.cores != 24 or p.trans_a or base_m * base_n != 32768 or p.batch > 1:
        return base_m
    n_tiles = ceil_div(p.n, base_n)
    tiles = ceil_div(p.m, base_m) * n_tiles
    if tiles < 96:
        m_tiles = max(align(tiles, 24) // n_tiles, 1)
        return min(base_m, align(ceil_div(p.m, m_tiles), 16))
    if 128 < p.m <= 672:
        while base_m > 16 and ceil_div(p.m, base_m - 16) == ceil_div(p.m, base_m):
            base_m -= 16
    return base_m


def _clamp(p: MatmulProblem, b: CubeBuffers, base_m: int, base_n: int, base_k: int) -> tuple[int, int, int]:
    """Keep the tile inside the problem and the buffers."""
    base_m, base_n = min(base_m, align(p.m, 16)), min(base_n, align(p.n, 16))
    while base_m * base_n * 4 > b.l0c:
        if base_n > base_m:
            base_n = align(base_n // 2, 16)
        else:
            base_m = align(base_m // 2, 16)
    k_unit = max(p.k0, 16)
    limit = min(b.l0a // 2 // (base_m * p.item), b.l0b // 2 // (base_n * p.item)) // k_unit * k_unit
    base_k = max(min(base_k, limit), k_unit)
    if limit > base_k and max(base_m, base_n) <= 128:
        base_k = base_k * 2 if base_k * 2 <= limit and max(base_m, base_n) <= 64 else base_k
    return base_m, base_n, min(base_k, align(p.k, k_unit))


# -- chips whose cube leaves through the vector unit -------------------------------------------------------------


def _searched_base(p: MatmulProblem, b: CubeBuffers) -> tuple[int, int, int]:
    """Least time of the slowest core over tiles up to half of L0C: per 16 (K0) of K a tile takes
    max(m1 x n1 cube cycles, (m + n) x 32 B / 64 B a cycle from L2), plus 4 cycles per 16 x 16 fractal to leave."""
    k_unit = max(p.k0, 16)
    steps = ceil_div(p.k, p.k0)
    sizes = [16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 512]
    best: tuple[float, int, int, int] | None = None
    for m in sizes:
        if m > align(p.m, 16) and m != 16:
            continue
        for n in sizes:
            if (n > align(p.n, 16) and n != 16) or m * n * 8 > b.l0c:
                continue
            limit = min(b.l0a // 2 // (m * p.item), b.l0b // 2 // (n * p.item)) // k_unit * k_unit
            if limit == 0:
                continue
            rounds = ceil_div(p.batch * ceil_div(p.m, m) * ceil_div(p.n, n), b.cores)
            fractals = (m // 16) * (n // 16)
            cost = rounds * (steps * max(fractals, (m + n) / 2) + 4 * fractals)
            if best is None or cost < best[0]:
                best = (cost, m, n, limit)
    assert best is not None
    _, base_m, base_n, limit = best
    return base_m, base_n, min(limit, 128 // p.item * 2, align(p.k, k_unit))
