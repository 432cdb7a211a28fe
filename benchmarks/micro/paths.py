"""One transfer of a data path, of a given size, on one core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ascend_sim import asc

from .measure import Gm

P = asc.TPosition
FRACTAL = 512
ND_ROWS = 64  # rows of the ND to NZ transfer; the public series does not say
Maker = Callable[..., Callable[[], None]]
VECTOR_PATHS = ("GM_TO_UB", "UB_TO_GM", "UB_TO_UB")


def kind_of(path: str) -> str:
    """The core that has the path on split chips."""
    return "AIV" if path in VECTOR_PATHS else "AIC"


def arguments(path: str, nbytes: int) -> tuple[Gm, ...]:
    """Kernel arguments the transfer needs."""
    if path.startswith("GM_"):
        return (("x", "float16", nbytes, "in"),)
    return (("y", "float32", nbytes, "out"),) if "_GM" in path else ()


def prepare(path: str, nbytes: int, bypass: bool = False) -> Maker:
    """Maker, on the kernel's arguments, of the call that moves ``nbytes`` once. Raises KeyError for other paths."""
    make = _MAKERS[path]
    return lambda *addresses: make(nbytes, *(_tensor(a, bypass) for a in addresses))


def _tensor(address: Any, bypass: bool) -> asc.GlobalTensor:
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    if bypass:
        tensor.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_DISABLE)
    return tensor


def _blocks(nbytes: int, unit: int = 32) -> asc.DataCopyParams:
    return asc.DataCopyParams(1, nbytes // unit)


def _load(position: asc.TPosition) -> Callable[..., Callable[[], None]]:
    def make(nbytes: int, src: Any) -> Callable[[], None]:
        dst = asc.LocalTensor("float16", position)
        return lambda: asc.data_copy(dst, src, _blocks(nbytes))

    return make


def _load_nd2nz(nbytes: int, src: Any) -> Callable[[], None]:
    dst, columns = asc.LocalTensor("float16", P.A1), nbytes // ND_ROWS // 2
    params = asc.Nd2NzParams(1, ND_ROWS, columns, 0, columns, ND_ROWS, 1, 0)
    return lambda: asc.data_copy(dst, src, params)


def _store(nbytes: int, dst: Any) -> Callable[[], None]:
    src = asc.LocalTensor("float32", P.VECOUT)
    return lambda: asc.data_copy(dst, src, _blocks(nbytes))


def _inside(nbytes: int) -> Callable[[], None]:
    size = asc.current_soc().buffers.ub_bytes
    src, dst = asc.LocalTensor("float16", P.VECIN), asc.LocalTensor("float16", P.VECOUT, size - nbytes)
    return lambda: asc.data_copy(dst, src, _blocks(nbytes))


def _load2d(dst_position: asc.TPosition, from_gm: bool) -> Callable[..., Callable[[], None]]:
    def make(nbytes: int, *gm: Any) -> Callable[[], None]:
        src = gm[0] if from_gm else asc.LocalTensor("float16", P.A1)
        dst = asc.LocalTensor("float16", dst_position)
        params = asc.LoadData2DParams(0, nbytes // FRACTAL, 1, 0, 0, False)
        return lambda: asc.load_data(dst, src, params)

    return make


def _table(position: asc.TPosition, unit: int, dtype: str) -> Callable[..., Callable[[], None]]:
    def make(nbytes: int) -> Callable[[], None]:
        src, dst = asc.LocalTensor(dtype, P.C1), asc.LocalTensor(dtype, position)
        return lambda: asc.data_copy(dst, src, _blocks(nbytes, unit))

    return make


def _exit(row_major: bool) -> Callable[..., Callable[[], None]]:
    def make(nbytes: int, dst: Any) -> Callable[[], None]:
        src, fractals = asc.LocalTensor("float32", P.CO1), nbytes // 1024
        m, n = (16, 16 * fractals) if row_major else (16 * fractals, 16)
        params = asc.FixpipeParamsV220(n, m, m, n if row_major else 2 * m)
        layout = asc.FixpipeConfig() if row_major else asc.FixpipeConfig.cfg_nz()
        return lambda: asc.fixpipe(dst, src, params, layout)

    return make


_MAKERS: dict[str, Callable[..., Callable[[], None]]] = {
    "GM_TO_UB": _load(P.VECIN),
    "GM_TO_L1": _load(P.A1),
    "GM_TO_L1_TRANS": _load_nd2nz,
    "GM_TO_L0A": _load2d(P.A2, True),
    "GM_TO_L0B": _load2d(P.B2, True),
    "UB_TO_GM": _store,
    "UB_TO_UB": _inside,
    "L1_TO_L0A": _load2d(P.A2, False),
    "L1_TO_L0B": _load2d(P.B2, False),
    "L1_TO_BT": _table(P.C2, 64, "float32"),
    "L1_TO_FB": _table(P.C2PIPE2GM, 128, "uint64"),
    "L0C_TO_GM": _exit(False),
    "L0C_TO_GM_TRANS": _exit(True),
}
