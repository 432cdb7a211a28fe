"""The matrix object of asc.adv on whole launches: types, storage, bias, tails, exits, batches, cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.asc import adv
from ascend_sim.asc.lib import host
from ascend_sim.asc.runtime import config
from ascend_sim.isa.legality import InstructionError

P, ND, NZ = asc.TPosition, asc.CubeFormat.ND, asc.CubeFormat.NZ
HOST = {"float16": host.DataType.DT_FLOAT16, "float32": host.DataType.DT_FLOAT, "int8": host.DataType.DT_INT8,
        "bfloat16": host.DataType.DT_BF16, "int32": host.DataType.DT_INT32}  # fmt: skip
WORKSPACE = 4 << 20


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "error")
    config.set_platform(config.Backend.Model, "Ascend910B2")
    yield
    config.set_platform(config.Backend.Model)


def tile(m: int, n: int, k: int, dtype: str, cores: int, bias: bool = False, base: Any = None) -> adv.TCubeTiling:
    t = host.MultiCoreMatmulTiling(host.get_ascendc_platform())
    t.set_a_type(host.TPosition.GM, host.CubeFormat.ND, HOST[dtype], False)
    t.set_b_type(host.TPosition.GM, host.CubeFormat.ND, HOST[dtype], False)
    t.set_c_type(host.TPosition.GM, host.CubeFormat.ND, host.DataType.DT_FLOAT)
    t.enable_bias(bias)
    t.set_dim(cores)
    t.set_org_shape(m, n, k)
    t.set_shape(m, n, k)
    if base:
        t.set_fix_split(*base)
    out = adv.TCubeTiling()
    assert t.get_tiling(out) == 0
    return out


def offsets(tiling: Any, a_trans: bool, b_trans: bool) -> tuple[int, int, int, int]:
    """Offsets of this core's parts of A, B, C and bias."""
    m1 = tiling.m.ceildiv(tiling.single_core_m)
    block = asc.get_block_idx()
    mi, ni = block % m1, block // m1
    a = mi * tiling.single_core_m * (1 if a_trans else tiling.k_a)
    b = ni * tiling.single_core_n * (tiling.k_b if b_trans else 1)
    return a, b, mi * tiling.n * tiling.single_core_m + ni * tiling.single_core_n, ni * tiling.single_core_n


@asc.jit
def product(
    a: Any, b: Any, c: Any, bias: Any, workspace: Any, tiling: Any, way: asc.ConstExpr[str],
    a_trans: asc.ConstExpr[bool], b_trans: asc.ConstExpr[bool], has_bias: asc.ConstExpr[bool],
    hf32: asc.ConstExpr[bool],
) -> None:  # fmt: skip
    da, db, dc, dbias = offsets(tiling, a_trans, b_trans)
    ga, gb, gc, gbias = (asc.GlobalTensor() for _ in range(4))
    for g, address in ((ga, a + da), (gb, b + db), (gc, c + dc), (gbias, bias + dbias)):
        g.set_global_buffer(address)
    pipe = asc.TPipe()
    mm = adv.Matmul(
        adv.MatmulType(P.GM, ND, a.dtype, a_trans), adv.MatmulType(P.GM, ND, b.dtype, b_trans),
        adv.MatmulType(P.VECCALC if way == "local" else P.GM, ND, c.dtype), adv.MatmulType(P.GM, ND, bias.dtype),
    )  # fmt: skip
    adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() >= tiling.used_core_num:
        mm.end()
        return
    m1 = tiling.m.ceildiv(tiling.single_core_m)
    block = asc.get_block_idx()
    left_m = tiling.m - block % m1 * tiling.single_core_m
    left_n = tiling.n - block // m1 * tiling.single_core_n
    tail_m, tail_n = min(left_m, tiling.single_core_m), min(left_n, tiling.single_core_n)
    mm.set_tail(tail_m, tail_n)
    mm.set_tensor_a(ga, a_trans)
    mm.set_tensor_b(gb, b_trans)
    mm.set_hf32(hf32)
    if has_bias:
        mm.set_bias(gbias)
    if way == "all":
        mm.iterate_all(gc)
    elif way == "atomic":
        mm.iterate_all(gc, 1)
    elif way == "blocks":
        while mm.advance():
            mm.get_tensor_c(gc)
    else:
        queue = asc.TQue(P.VECOUT, 1)
        pipe.init_buffer(queue, 1, tiling.base_m * tiling.base_n * c.dtype.sizeof())
        while mm.advance():
            local = queue.alloc_tensor(c.dtype)
            mm.get_tensor_c(local, en_sequential_write=True)
            asc.muls(local, local, 2.0, count=tiling.base_m * tiling.base_n)
            queue.enque(local)
            local = queue.deque(c.dtype)
            at, size = mm.get_offset_c(), c.dtype.sizeof()
            rows, columns = min(at.height, tiling.base_m), min(at.width, tiling.base_n)
            asc.data_copy(
                gc[at.offset :], local,
                asc.DataCopyParams(rows, columns * size // 32, 0, (tiling.n - columns) * size // 32),
            )  # fmt: skip
            queue.free_tensor(local)
    mm.end()


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return rng.integers(-6, 7, shape).astype(kind)


def run(
    m: int, n: int, k: int, dtype: str = "float16", way: str = "all", cores: int = 4, a_trans: bool = False,
    b_trans: bool = False, bias: bool = False, hf32: bool = False, base: Any = None,
) -> None:  # fmt: skip
    rng = np.random.default_rng(m * n + k)
    a, b = numbers(rng, (m, k), dtype), numbers(rng, (k, n), dtype)
    to = "int32" if dtype == "int8" else "float32"
    row = rng.integers(-50, 50, n).astype(to)
    start = rng.integers(-9, 9, (m, n)).astype(to)
    c = start.copy()
    tiling = tile(m, n, k, dtype, cores, bias, base)
    stored = [np.ascontiguousarray(x.T if turn else x) for x, turn in ((a, a_trans), (b, b_trans))]
    workspace = np.zeros(WORKSPACE, np.uint8)
    pair = 2 if config.device().soc().chip.split_cores else 1  # vector cores that share a cube core
    launch = product[-(-tiling.used_core_num // pair), None]
    launch(*stored, c, row, workspace, tiling, way, a_trans, b_trans, bias, hf32)
    want = a.astype(np.float64) @ b.astype(np.float64) + (row if bias else 0)
    if way == "atomic":
        want = want + start
    np.testing.assert_array_equal(c, want * 2 if way == "local" else want)


@pytest.mark.parametrize("way", ["all", "blocks"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
def test_types(dtype: str, way: str) -> None:
    run(96, 64, 128, dtype, way)


@pytest.mark.parametrize(("a_trans", "b_trans"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_transposed_storage(dtype: str, a_trans: bool, b_trans: bool) -> None:
    run(64, 96, 64, dtype, cores=2, a_trans=a_trans, b_trans=b_trans)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_bias(dtype: str) -> None:
    run(64, 96, 160, dtype, bias=True)


@pytest.mark.parametrize(("m", "n", "k"), [(70, 50, 40), (33, 100, 17), (1, 64, 256), (200, 24, 500)])
@pytest.mark.parametrize("cores", [1, 6])
def test_tails(m: int, n: int, k: int, cores: int) -> None:
    run(m, n, k, cores=cores)


@pytest.mark.parametrize("base", [(32, 32, 32), (16, 64, 16), (64, 16, 128)])
def test_fixed_base_blocks(base: tuple[int, int, int]) -> None:
    run(128, 128, 128, base=base, cores=2)


def test_results_add_up() -> None:
    run(64, 64, 64, way="atomic")


def test_results_for_the_vector_unit() -> None:
    run(64, 64, 96, way="local", base=(32, 32, 32), cores=2)


def test_hf32_inputs_are_rounded() -> None:
    run(32, 32, 32, "float32", hf32=True)  # small integers are exact


@pytest.mark.parametrize("chip", ["Ascend310B1", "Ascend310P3"])
def test_coupled_cores(chip: str) -> None:
    config.set_platform(config.Backend.Model, chip)
    if chip == "Ascend310P3":  # its cube has no fixpipe for the object to use
        with pytest.raises(InstructionError):
            run(64, 64, 64, cores=1)
    else:
        run(64, 64, 64, cores=1)


@asc.jit(matmul_cube_only=True)
def cube_only(a: Any, b: Any, c: Any, workspace: Any, tiling: Any, scale: float, per_column: Any) -> None:
    ga, gb, gc, gs = (asc.GlobalTensor() for _ in range(4))
    for g, address in ((ga, a), (gb, b), (gc, c), (gs, per_column)):
        g.set_global_buffer(address)
    mm = adv.Matmul(*(adv.MatmulType(P.GM, ND, x.dtype) for x in (a, b, c)))
    adv.register_matmul(asc.TPipe(), workspace, mm, tiling)
    mm.set_tensor_a(ga)
    mm.set_tensor_b(gb)
    if scale:
        word = int(np.float32(scale).view(np.uint32)) | (1 << 46 if c.dtype.name == "int8" else 0)
        mm.set_quant_scalar(word)
    else:
        mm.set_quant_vector(gs)
    mm.iterate_all(gc)
    mm.end()


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize(("src", "dst"), [("int8", "float16"), ("int8", "int8"), ("float16", "int8")])
def test_quantised_results(src: str, dst: str, vector: bool) -> None:
    rng = np.random.default_rng(1)
    m, n, k = 48, 32, 64
    a, b = numbers(rng, (m, k), src), numbers(rng, (k, n), src)
    c = np.zeros((m, n), dst)
    scales = (rng.integers(1, 9, n) / 32).astype(np.float32)
    words = scales.view(np.uint32).astype(np.uint64) | np.uint64(1 << 46 if dst == "int8" else 0)
    tiling = tile(m, n, k, src, 1)
    workspace = np.zeros(WORKSPACE, np.uint8)
    cube_only[1, None](a, b, c, workspace, tiling, 0.0 if vector else float(scales[0]), words)
    exact = (a.astype(np.float64) @ b.astype(np.float64)) * (scales if vector else scales[0])
    want = np.clip(np.rint(exact), -128, 127) if dst == "int8" else exact
    np.testing.assert_array_equal(c, want.astype(dst))


@asc.jit
def batches(a: Any, b: Any, c: Any, workspace: Any, tiling: Any, n_a: int, n_b: int) -> None:
    ga, gb, gc = (asc.GlobalTensor() for _ in range(3))
    for g, address in ((ga, a), (gb, b), (gc, c)):
        g.set_global_buffer(address)
    mm = adv.Matmul(*(adv.MatmulType(P.GM, ND, x.dtype, False, asc.LayoutMode.NORMAL) for x in (a, b, c)))
    adv.register_matmul(asc.TPipe(), workspace, mm, tiling)
    mm.set_tensor_a(ga)
    mm.set_tensor_b(gb)
    mm.iterate_batch(gc, n_a, n_b, False)
    mm.end()


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (4, 2), (1, 3)])
def test_batches(n_a: int, n_b: int) -> None:
    rng = np.random.default_rng(2)
    m, n, k, total = 32, 48, 64, max(n_a, n_b)
    a, b = numbers(rng, (n_a, m, k), "float16"), numbers(rng, (n_b, k, n), "float16")
    c = np.zeros((total, m, n), np.float32)
    batches[1, None](a, b, c, np.zeros(WORKSPACE, np.uint8), tile(m, n, k, "float16", 1), n_a, n_b)
    for i in range(total):
        want = a[i * n_a // total].astype(np.float32) @ b[i * n_b // total].astype(np.float32)
        np.testing.assert_array_equal(c[i], want)


@asc.jit
def fractal(a: Any, b: Any, c: Any, workspace: Any, tiling: Any) -> None:
    ga, gb, gc = (asc.GlobalTensor() for _ in range(3))
    for g, address in ((ga, a), (gb, b), (gc, c)):
        g.set_global_buffer(address)
    mm = adv.Matmul(*(adv.MatmulType(P.GM, NZ, x.dtype) for x in (a, b, c)))
    adv.register_matmul(asc.TPipe(), workspace, mm, tiling)
    mm.set_tensor_a(ga)
    mm.set_tensor_b(gb)
    mm.iterate_all(gc)
    mm.end()


def nz(x: np.ndarray, c0: int = 16) -> np.ndarray:
    return np.ascontiguousarray(x.reshape(x.shape[0], -1, c0).transpose(1, 0, 2))


def test_fractal_operands() -> None:
    rng = np.random.default_rng(3)
    m, n, k = 64, 48, 96
    a, b = numbers(rng, (m, k), "float16"), numbers(rng, (k, n), "float16")
    c = np.zeros((n // 16, m, 16), np.float32)
    fractal[1, None](nz(a), nz(b), c, np.zeros(WORKSPACE, np.uint8), tile(m, n, k, "float16", 1, base=(32, 48, 32)))
    np.testing.assert_array_equal(c, nz(a.astype(np.float32) @ b.astype(np.float32)))


@asc.jit
def misuse(a: Any, workspace: Any, tiling: Any, what: asc.ConstExpr[str]) -> None:
    g = asc.GlobalTensor()
    g.set_global_buffer(a)
    mm = adv.Matmul(*(adv.MatmulType(P.GM, ND, a.dtype) for _ in range(3)))
    if what != "register":
        adv.register_matmul(asc.TPipe(), workspace, mm, tiling)
        mm.set_tensor_a(g)
    if what == "iterate":
        mm.set_tensor_b(g)
        mm.iterate(en_partial_sum=True)
    elif what == "get":
        mm.set_tensor_b(g)
        mm.get_tensor_c(g)
    elif what == "sparse":
        mm.set_sparse_index(g)
    else:
        mm.iterate_all(g)


@pytest.mark.parametrize(
    ("what", "message"),
    [("register", "tiling"), ("operand", "set_tensor_b"), ("iterate", "partial sums"), ("get", "inside iterate"),
     ("sparse", "not supported")],
)  # fmt: skip
def test_misuse(what: str, message: str) -> None:
    a = np.zeros((32, 32), np.float32)
    with pytest.raises(InstructionError, match=message):
        misuse[1, None](a, np.zeros(WORKSPACE, np.uint8), tile(32, 32, 32, "float32", 1), what)
