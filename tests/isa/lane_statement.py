"""A vector instruction stated lane by lane: what each active lane reads, computes and writes; the rest is unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ascend_sim import asc

CHIP = "Ascend910B2"
UB = 65536
f16, f32, i16, i32, u16, u32 = "float16", "float32", "int16", "int32", "uint16", "uint32"
f = np.float32


def fill(rng: np.random.Generator, dtype: str, low: float = -8, high: float = 8) -> np.ndarray:
    n = UB // np.dtype(dtype).itemsize
    if dtype.startswith("float"):
        return rng.uniform(low, high, n).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -1000), min(info.max, 1000), n).astype(dtype)


def lane_on(mask: Any, lane: int) -> bool:
    return lane < mask if isinstance(mask, int) else bool(mask[lane // 64] >> lane % 64 & 1)


def masks(width: int) -> st.SearchStrategy[Any]:
    words = 2 if width > 64 else 1
    limit = (1 << min(width, 64)) - 1
    bits = st.lists(st.integers(1, limit), min_size=words, max_size=words)
    return st.one_of(st.integers(1, width), bits)


def lane_value(x: Any) -> Any:
    return f(x) if isinstance(x, np.floating) else int(x)


def store(value: Any, dtype: str) -> Any:
    if dtype.startswith("float"):
        return np.asarray(f(value)).astype(dtype)
    return np.asarray(int(value) & (2 ** (np.dtype(dtype).itemsize * 8) - 1)).astype(
        dtype.replace("int", "uint").replace("uuint", "uint")
    ).view(dtype)


def check(bench: Any, seed: int, dtypes: list[str], mask: Any, repeat: int, blk: list[int], rep: list[int],
          statement: Callable[..., Any], issue: Callable[..., None], positive: bool = False,
          chip: str = CHIP) -> None:  # fmt: skip
    """``dtypes`` destination first; operands at byte 0, 16384 and 32768 of the buffer."""
    rng = np.random.default_rng(seed)
    width = 256 // max(np.dtype(t).itemsize for t in dtypes)
    b = bench(chip)
    at = [i * 16384 for i in range(len(dtypes))]
    for t, start in zip(dtypes, at, strict=True):
        values = fill(rng, t, 0.1 if positive else -8)[: 16384 // np.dtype(t).itemsize]
        b.put("UB", values, start)
    images = [b.get("UB", t, 16384 // np.dtype(t).itemsize, start) for t, start in zip(dtypes, at, strict=True)]
    want = images[0].copy()
    for r in range(repeat):
        for lane in range(width):
            if not lane_on(mask, lane):
                continue
            where = []
            for t, bs, rs in zip(dtypes, blk, rep, strict=True):
                per = 32 // np.dtype(t).itemsize
                where.append((r * rs + lane // per * bs) * per + lane % per)
            operands = [lane_value(image[w]) for image, w in zip(images[1:], where[1:], strict=True)]
            with np.errstate(all="ignore"):
                want[where[0]] = store(statement(lane_value(want[where[0]]), *operands), dtypes[0])

    def program() -> None:
        tensors = [asc.LocalTensor(t, asc.TPosition.VECCALC, start) for t, start in zip(dtypes, at, strict=True)]
        issue(*tensors)

    b.run(program)
    got = b.get("UB", dtypes[0], len(want), 0)
    if dtypes[0] == "float32":
        np.testing.assert_allclose(got, want, rtol=3e-7)  # libm of arrays and of scalars may differ by 1 ulp
    else:
        np.testing.assert_array_equal(got, want)


strides = st.integers(1, 3)
reps = st.sampled_from([0, 4, 8, 9, 24])
