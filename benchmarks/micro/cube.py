"""One mmad on tiles that lie in L0."""

from __future__ import annotations

from collections.abc import Callable

from ascend_sim import asc

P = asc.TPosition


def prepare(m: int, k: int, n: int, dtype: str = "float16", out: str = "float32") -> Callable[[], Callable[[], None]]:
    """Maker of the call that issues one m x k x n product."""

    def make() -> Callable[[], None]:
        a, b, c = asc.LocalTensor(dtype, P.A2), asc.LocalTensor(dtype, P.B2), asc.LocalTensor(out, P.CO1)
        return lambda: asc.mmad(c, a, b, asc.MmadParams(m, n, k))

    return make
