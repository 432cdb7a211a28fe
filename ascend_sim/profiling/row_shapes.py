"""What a profile leaves out, recovered from shapes: axes, permutations, windows, formats.

A profiled kernel row shows tensors but rarely attributes. Where several answers fit, the most usual one is taken; each
function says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise, permutations
from math import isqrt

Shape = Sequence[int]


class NotPredicted(ValueError):
    """The row cannot be turned into an operator call; the message says why."""


def reduced_axes(source: Shape, target: Shape) -> tuple[tuple[int, ...], bool]:
    """(axes, keep_dims) that reduce ``source`` to ``target``: the fewest axes, the earliest of them."""
    for count in range(len(source) + 1):
        for axes in combinations(range(len(source)), count):
            if [1 if i in axes else d for i, d in enumerate(source)] == list(target):
                return axes, True
            if [d for i, d in enumerate(source) if i not in axes] == list(target):
                return axes, False
    raise NotPredicted(f"no reduction turns {list(source)} into {list(target)}")


def permutation(source: Shape, target: Shape) -> tuple[int, ...]:
    """Axes order that turns ``source`` into ``target``; of several, the one that keeps most neighbours together, and
    of those the one closest to the identity."""
    best: tuple[tuple[int, tuple[int, ...]], tuple[int, ...]] | None = None
    if len(source) == len(target) <= 8:
        for perm in permutations(range(len(source))):
            if all(source[p] == t for p, t in zip(perm, target, strict=True)):
                breaks = sum(b != a + 1 for a, b in pairwise(perm))
                if best is None or (breaks, perm) < best[0]:
                    best = ((breaks, perm), perm)
    if best is None:
        raise NotPredicted(f"no order of axes turns {list(source)} into {list(target)}")
    return best[1]


def matmul_transposes(a: Shape, b: Shape, out: Shape | None) -> tuple[bool, bool]:
    """(transpose_x1, transpose_x2) of a product of the last two axes; plain operands win where several fit."""
    for ta, tb in ((False, False), (False, True), (True, False), (True, True)):
        m, k = (a[-1], a[-2]) if ta else (a[-2], a[-1])
        kb, n = (b[-1], b[-2]) if tb else (b[-2], b[-1])
        if k == kb and (out is None or tuple(out[-2:]) == (m, n)):
            return ta, tb
    wanted = "" if out is None else f" with output {list(out)}"
    raise NotPredicted(f"no transposition makes {list(a)} x {list(b)} a matrix product{wanted}")


def window(size: int, out: int, kernel: int | None = None) -> tuple[int, int, int]:
    """(kernel, stride, padding per side) that turn ``size`` into ``out`` along one axis.

    The stride is the nearest to size / out. With a known kernel the padding is the smallest that fits. Without one no
    padding is assumed and the kernel is stride + 1 if that fits, else the stride (overlapping pools as in AlexNet)."""
    stride = max(1, round(size / out))
    for s in (stride, *(x for x in range(1, 9) if x != stride)):
        kernels = (kernel,) if kernel is not None else (s + 1, s, s + 2)
        for k in kernels:
            for pad in range(k // 2 + 1) if kernel is not None else (0, k // 2):
                if (size + 2 * pad - k) // s + 1 == out:
                    return k, s, pad
    raise NotPredicted(f"no window turns {size} into {out}")


def square_root(taps: int) -> int:
    """Side of a square filter of so many taps."""
    side = isqrt(taps)
    if side * side != taps:
        raise NotPredicted(f"a filter of {taps} taps is not square")
    return side


def real_format(shape: Shape, named: str) -> str:
    """Format of a tensor: profiles print the format of the origin or of a neighbour for some; ranks decide."""
    if len(shape) == 5 and shape[-1] in (4, 8, 16, 32) and named != "NCDHW":
        return "NC1HWC0"
    if len(shape) == 4 and shape[-2] == 16 and shape[-1] in (4, 8, 16, 32) and named.upper().startswith("FRAC"):
        return "FRACTAL_Z"
    return "NCHW" if len(shape) == 4 and named == "NCHW" else "ND"


def concat_axis(parts: Sequence[Shape], out: Shape) -> int:
    """Axis along which ``parts`` joined give ``out``."""
    for axis in range(len(out)):
        joined = [*out]
        joined[axis] = sum(p[axis] if len(p) > axis else 0 for p in parts)
        same = all(len(p) == len(out) for p in parts) and all(
            p[i] == out[i] for p in parts for i in range(len(out)) if i != axis
        )
        if same and joined == list(out):
            return axis
    raise NotPredicted(f"{[list(p) for p in parts]} do not join to {list(out)} along one axis")


def stacked_axis(part: Shape, count: int, out: Shape) -> int:
    """Axis that ``count`` equal parts were stacked on."""
    for axis in range(len(out)):
        if out[axis] == count and [*out[:axis], *out[axis + 1 :]] == list(part):
            return axis
    raise NotPredicted(f"{count} x {list(part)} do not stack to {list(out)}")


def gather_axis(x: Shape, indices: Shape, out: Shape) -> int:
    """Axis that ``indices`` select from."""
    for axis in range(len(x)):
        if [*x[:axis], *indices, *x[axis + 1 :]] == list(out):
            return axis
    raise NotPredicted(f"indices {list(indices)} of {list(x)} do not give {list(out)}")
