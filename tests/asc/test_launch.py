"""Whole kernels: values from NumPy, traces counted against what the kernel says it moves and computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.isa.instr import CubeWork, MoveWork, Op, Pipe, VectorWork


@asc.jit
def vadd(x: Any, y: Any, z: Any, block_len: int, tile: asc.ConstExpr[int], folded: bool = True) -> None:
    gx, gy, gz = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    off = asc.get_block_idx() * block_len
    for g, a in ((gx, x), (gy, y), (gz, z)):
        g.set_global_buffer(a + off, block_len)
    pipe = asc.TPipe()
    qx, qy = asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECIN, 2)
    qz = asc.TQue(asc.TPosition.VECOUT, 2)
    for q in (qx, qy, qz):
        pipe.init_buffer(q, 2, tile * x.dtype.sizeof())
    for i in (asc.steady if folded else asc.range)(block_len // tile):
        lx, ly = qx.alloc_tensor(x.dtype), qy.alloc_tensor(x.dtype)
        asc.data_copy(lx, gx[i * tile :], tile)
        asc.data_copy(ly, gy[i * tile :], tile)
        qx.enque(lx)
        qy.enque(ly)
        lx, ly = qx.deque(x.dtype), qy.deque(x.dtype)
        lz = qz.alloc_tensor(x.dtype)
        asc.add(lz, lx, ly, tile)
        qz.enque(lz)
        qx.free_tensor(lx)
        qy.free_tensor(ly)
        lz = qz.deque(x.dtype)
        asc.data_copy(gz[i * tile :], lz, tile)
        qz.free_tensor(lz)


@asc.jit
def matmul(a: Any, b: Any, c: Any, M: int, N: int, K: int, TM: int, TN: int, TK: int, folded: bool = True) -> None:
    P, E, h, f = asc.TPosition, asc.HardEvent, a.dtype, c.dtype
    ga, gb, gc = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    ga.set_global_buffer(a)
    gb.set_global_buffer(b)
    gc.set_global_buffer(c)
    A1 = [asc.LocalTensor(h, P.A1, s * TM * TK * 2, TM * TK) for s in (0, 1)]
    B1 = [asc.LocalTensor(h, P.B1, 2 * TM * TK * 2 + s * TK * TN * 2, TK * TN) for s in (0, 1)]
    A2 = [asc.LocalTensor(h, P.A2, s * 32768, TM * TK) for s in (0, 1)]
    B2 = [asc.LocalTensor(h, P.B2, s * 32768, TK * TN) for s in (0, 1)]
    L0C = asc.LocalTensor(f, P.CO1, 0, TM * TN)
    for s in (0, 1):
        asc.set_flag(E.MTE1_MTE2, s)
        asc.set_flag(E.M_MTE1, s)
    asc.set_flag(E.FIX_M, 0)
    for t in range(asc.get_block_idx(), (M // TM) * (N // TN), asc.get_block_num()):
        m, n = t // (N // TN) * TM, t % (N // TN) * TN
        asc.wait_flag(E.FIX_M, 0)
        for i in (asc.steady if folded else asc.range)(K // TK):
            s, k = i % 2, i * TK
            asc.wait_flag(E.MTE1_MTE2, s)
            asc.data_copy(A1[s], ga[m * K + k :], asc.Nd2NzParams(1, TM, TK, 0, K, TM, 1, 0))
            asc.data_copy(B1[s], gb[k * N + n :], asc.Nd2NzParams(1, TK, TN, 0, N, TK, 1, 0))
            asc.set_flag(E.MTE2_MTE1, s)
            asc.wait_flag(E.MTE2_MTE1, s)
            asc.wait_flag(E.M_MTE1, s)
            for r in range(TM // 16):
                asc.load_data(A2[s][r * TK * 16 :], A1[s], asc.LoadData2DParams(r, TK // 16, TM // 16))
            for r in range(TK // 16):
                p = asc.LoadData2DParams(r, TN // 16, TK // 16, if_transpose=True)
                asc.load_data(B2[s][r * TN * 16 :], B1[s], p)
            asc.set_flag(E.MTE1_MTE2, s)
            asc.set_flag(E.MTE1_M, s)
            asc.wait_flag(E.MTE1_M, s)
            asc.mmad(L0C, A2[s], B2[s], asc.MmadParams(TM, TN, TK, cmatrix_init_val=(i == 0)))
            asc.set_flag(E.M_MTE1, s)
        asc.set_flag(E.M_FIX, 0)
        asc.wait_flag(E.M_FIX, 0)
        asc.fixpipe(gc[m * N + n :], L0C, asc.FixpipeParamsV220(TN, TM, TM, N))
        asc.set_flag(E.FIX_M, 0)


def vadd_launch(soc: Any, n: int, cores: int, tile: int, folded: bool = True, kind: str = "AIV") -> asc.Launch:
    gm = [(name, "float16", 2 * n, role) for name, role in (("x", "in"), ("y", "in"), ("z", "out"))]
    consts = {"block_len": n // cores, "tile": tile, "folded": folded}
    return asc.Launch(vadd, cores, kind, [("in", 0), ("in", 1), ("out", 0)], gm, consts, soc=soc)


def matmul_launch(soc: Any, m: int, n: int, k: int, cores: int = 4, folded: bool = True) -> asc.Launch:
    gm = [("a", "float16", 2 * m * k, "in"), ("b", "float16", 2 * k * n, "in"), ("c", "float32", 4 * m * n, "out")]
    consts = {"M": m, "N": n, "K": k, "TM": 128, "TN": 128, "TK": 64, "folded": folded}
    return asc.Launch(matmul, cores, "AIC", [("in", 0), ("in", 1), ("out", 0)], gm, consts, soc=soc)


def executed_works(trace: KernelTrace, block: int = 0) -> dict[type, int]:
    program = trace.blocks[block].programs[0]
    total: dict[type, int] = {}
    for work, n in zip(program.works, program.counts.tolist(), strict=True):
        total[type(work)] = total.get(type(work), 0) + n
    return total


@pytest.mark.parametrize(("chip", "kind"), [("Ascend910B2", "AIV"), ("Ascend310P3", "AICORE"), ("Ascend310", "AICORE")])
def test_vector_add(soc: Any, chip: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 65536)).astype(np.float16)
    z = np.zeros_like(x)
    vadd_launch(soc(chip), 65536, 4, 2048, kind=kind).execute([v.view(np.uint8) for v in (x, y, z)])
    np.testing.assert_array_equal(z, x + y)


def test_matmul(soc: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 9, (256, 320)).astype(np.float16), rng.integers(-8, 9, (320, 256)).astype(np.float16)
    c = np.zeros((256, 256), np.float32)
    matmul_launch(soc("Ascend910B2"), 256, 256, 320).execute([v.reshape(-1).view(np.uint8) for v in (a, b, c)])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_user_launch_on_arrays() -> None:
    x, y = np.arange(8192, dtype=np.float16), np.ones(8192, np.float16)
    z = np.zeros_like(x)
    vadd[4, None](x, y, z, 2048, 512)
    np.testing.assert_array_equal(z, x + y)
    with pytest.raises(ValueError, match="contiguous"):
        vadd[4, None](x[::2], y[::2], z[::2], 1024, 512)


def test_vector_trace(soc: Any) -> None:
    trace = vadd_launch(soc("Ascend910B2"), 1 << 20, 8, 2048).trace()
    assert trace.block_dim == 8 and len(trace.blocks) == 1  # all blocks issue the same instructions
    assert trace.gm_bytes == {(0, False): 2 << 20, (1, False): 2 << 20, (2, True): 2 << 20}
    works = executed_works(trace)
    tiles = (1 << 20) // 8 // 2048
    assert works == {MoveWork: 3 * tiles, VectorWork: tiles}
    vector = [w for w in trace.blocks[0].programs[0].works if isinstance(w, VectorWork)]
    assert {w._replace(bank_conflicts=0) for w in vector} == {VectorWork("vadd", "float16", 16, True)}
    assert len(trace.blocks[0].programs[0]) < 200  # folded


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 9, 16, 33])
def test_folding_executes_the_same_instructions(soc: Any, steps: int) -> None:
    chip = soc("Ascend910B2")
    n = 2048 * steps
    folded, plain = (vadd_launch(chip, n, 1, 2048, f).trace().blocks[0].programs[0] for f in (True, False))
    assert folded.executed == plain.executed
    assert dict(zip(folded.works, folded.counts.tolist(), strict=True)) == dict(
        zip(plain.works, plain.counts.tolist(), strict=True)
    )
    launches = (matmul_launch(chip, 128, 256, 64 * steps, 2, f) for f in (True, False))
    folded, plain = (launch.trace().blocks[0].programs[0] for launch in launches)
    assert folded.executed == plain.executed and folded.gm_bytes == plain.gm_bytes


def unrolled(program: Any) -> list[tuple[int, int, int]]:
    """The instruction stream with loops multiplied out."""

    def expand(at: int, end: int) -> list[tuple[int, int, int]]:
        out: list[tuple[int, int, int]] = []
        while at < end:
            op, pipe, arg = int(program.op[at]), int(program.pipe[at]), int(program.arg[at])
            if op == Op.LOOP:
                depth, stop = 1, at
                while depth:
                    stop += 1
                    depth += int(program.op[stop] == Op.LOOP) - int(program.op[stop] == Op.END)
                out += expand(at + 1, stop) * arg
                at = stop + 1
            else:
                out.append((op, pipe, arg))
                at += 1
        return out

    return expand(0, len(program))


def test_folded_order_is_the_plain_order(soc: Any) -> None:
    chip = soc("Ascend910B2")
    folded, plain = (matmul_launch(chip, 128, 128, 1024, 1, f).trace().blocks[0].programs[0] for f in (True, False))
    assert folded.works == plain.works
    assert unrolled(folded) == unrolled(plain)


def test_matmul_trace(soc: Any) -> None:
    trace = matmul_launch(soc("Ascend910B2"), 512, 512, 512).trace()
    tiles, steps = 16, 8
    read = tiles * 128 * 512 * 2
    assert trace.gm_bytes == {(0, False): read, (1, False): read, (2, True): 512 * 512 * 4}
    per_block = executed_works(trace)
    assert per_block[CubeWork] == tiles // 4 * steps
    cube = [w for w in trace.blocks[0].programs[0].works if isinstance(w, CubeWork)]
    assert cube == [CubeWork("float16", 8, 4, 8)]
    pipes = set(trace.blocks[0].programs[0].pipe.tolist())
    assert {Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX} <= pipes and Pipe.V not in pipes


def test_signature_spares_blocks(soc: Any) -> None:
    calls = []

    def kernel(x: Any) -> None:
        calls.append(asc.get_block_idx())
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)

    launch = asc.Launch(kernel, 40, "AIV", gm=[("x", "int8", 32, "in")], soc=soc("Ascend910B2"),
                        signature=lambda i: i % 3)  # fmt: skip
    trace = launch.trace()
    assert calls == [0, 1, 2] and trace.block_dim == 40 and len(trace.blocks) == 1


def test_source_lines_on_demand(soc: Any) -> None:
    launch = vadd_launch(soc("Ascend910B2"), 4096, 1, 2048)
    launch.debug = True
    program = launch.trace().blocks[0].programs[0]
    assert program.line is not None and {p[0] for p in program.places} == {__file__}


def test_value_dependent_traces_are_marked(soc: Any) -> None:
    def kernel(x: Any) -> None:
        g = asc.GlobalTensor()
        g.set_global_buffer(x)
        if g.get_value(0) > 3:
            asc.pipe_barrier(asc.PipeID.PIPE_V)

    launch = asc.Launch(kernel, 1, "AIV", gm=[("x", "int32", 32, "in")], soc=soc("Ascend910B2"))
    assert launch.trace().value_dependent


def mix_kernel(x: Any, work: Any, y: Any) -> None:
    """AIC doubles into the workspace through L0C; each AIV adds one to its half."""
    gx, gw, gy = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    for g, a in ((gx, x), (gw, work), (gy, y)):
        g.set_global_buffer(a)
    E, P = asc.HardEvent, asc.TPosition
    if asc.ascend_is_aic():
        a1 = asc.LocalTensor("float16", P.A1)
        a2, b2 = asc.LocalTensor("float16", P.A2), asc.LocalTensor("float16", P.B2)
        acc = asc.LocalTensor("float32", P.CO1)
        for i in range(2):
            asc.data_copy(a1, gx[i * 256 :], 256)
            asc.set_flag(E.MTE2_MTE1)
            asc.wait_flag(E.MTE2_MTE1)
            asc.load_data(a2, a1, asc.LoadData2DParams(0, 1, 1))
            asc.load_data(b2, a1, asc.LoadData2DParams(0, 1, 1))
            asc.set_flag(E.MTE1_M)
            asc.wait_flag(E.MTE1_M)
            asc.mmad(acc, a2, b2, asc.MmadParams(16, 16, 16))
            asc.set_flag(E.M_FIX)
            asc.wait_flag(E.M_FIX)
            if i:
                asc.cross_core_wait_flag(1, 2, asc.PipeID.PIPE_FIX)
            asc.fixpipe(gw, acc, asc.FixpipeParamsV220(16, 16, 16, 16))
            asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_FIX)
    if asc.ascend_is_aiv():
        half = asc.get_sub_block_idx() * 128
        t = asc.LocalTensor("float32", P.VECCALC, 0, 128)
        for i in range(2):
            asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)
            asc.data_copy(t, gw[half:], 128)
            asc.set_flag(E.MTE2_V)
            asc.wait_flag(E.MTE2_V)
            asc.adds(t, t, 1.0, 128)
            asc.set_flag(E.V_MTE3)
            asc.wait_flag(E.V_MTE3)
            asc.data_copy(gy[i * 256 + half :], t, 128)
            asc.cross_core_set_flag(1, 2, asc.PipeID.PIPE_MTE2)


def mix_launch(soc: Any, kernel: Any = mix_kernel) -> asc.Launch:
    gm = [("x", "float16", 1024, "in"), ("w", "float32", 1024, "workspace"), ("y", "float32", 2048, "out")]
    return asc.Launch(kernel, 1, "MIX", gm=gm, soc=soc)


def test_mixed_kernel_interleaves_at_flags(soc: Any) -> None:
    x = np.random.default_rng(0).integers(-4, 5, (2, 16, 16)).astype(np.float16)
    y = np.zeros((2, 16, 16), np.float32)
    launch = mix_launch(soc("Ascend910B2"))
    launch.execute([x.reshape(-1).view(np.uint8), np.zeros(1024, np.uint8), y.reshape(-1).view(np.uint8)])
    a = x.astype(np.float32)
    np.testing.assert_array_equal(y, a @ a.transpose(0, 2, 1) + 1)  # B2 holds X read as Zn, that is its transpose
    trace = launch.trace()
    assert trace.blocks[0].kinds == ("AIC", "AIV", "AIV")
    ops = [p.op.tolist() for p in trace.blocks[0].programs]
    assert ops[0].count(Op.CROSS_SET) == 2 and ops[1].count(Op.CROSS_WAIT) == 2


def test_deadlock_between_cores_is_named(soc: Any) -> None:
    def kernel(x: Any, w: Any, y: Any) -> None:
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(5, 2, asc.PipeID.PIPE_MTE2)

    with pytest.raises(asc.CoreDeadlockError, match=r"block 0 AIV0 waits for flag 5.*AIV1 waits for flag 5"):
        mix_launch(soc("Ascend910B2"), kernel).execute([np.zeros(n, np.uint8) for n in (1024, 1024, 2048)])


def test_error_in_one_program_ends_the_launch(soc: Any) -> None:
    def kernel(x: Any, w: Any, y: Any) -> None:
        if asc.ascend_is_aic():
            raise KeyError("cube side")
        asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)

    with pytest.raises(KeyError, match="cube side"):
        mix_launch(soc("Ascend910B2"), kernel).execute([np.zeros(n, np.uint8) for n in (1024, 1024, 2048)])


def test_sync_all_between_blocks(soc: Any) -> None:
    """Every block writes its part, meets the others, then reads its neighbour's part."""

    def kernel(x: Any, y: Any) -> None:
        gx, gy = asc.GlobalTensor(), asc.GlobalTensor()
        gx.set_global_buffer(x)
        gy.set_global_buffer(y)
        me, n = asc.get_block_idx(), asc.get_block_num()
        t = asc.LocalTensor("int32", asc.TPosition.VECCALC, 0, 64)
        asc.duplicate(t, me + 1, 64)
        asc.set_flag(asc.HardEvent.V_MTE3)
        asc.wait_flag(asc.HardEvent.V_MTE3)
        asc.data_copy(gx[me * 64 :], t, 64)
        asc.sync_all()
        asc.data_copy(t, gx[(me + 1) % n * 64 :], 64)
        asc.set_flag(asc.HardEvent.MTE2_MTE3)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gy[me * 64 :], t, 64)

    gm = [("x", "int32", 4 * 256, "workspace"), ("y", "int32", 4 * 256, "out")]
    buffers = [np.zeros(1024, np.uint8), np.zeros(1024, np.uint8)]
    asc.Launch(kernel, 4, "AIV", gm=gm, soc=soc("Ascend910B2"), cooperative=True).execute(buffers)
    np.testing.assert_array_equal(buffers[1].view(np.int32).reshape(4, 64)[:, 0], [2, 3, 4, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"block_dim": 0}, "block_dim = 0"), ({"kind": "AICORE"}, "kind = 'AICORE'"),
     ({"gm": [("x", "float16", 2)]}, "gm entry"), ({"args": [("in", 0), ("in", 1)]}, "2 args but 1 gm")],
)  # fmt: skip
def test_bad_launches(soc: Any, change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"block_dim": 1, "kind": "AIV", "gm": [("x", "float16", 2, "in")], "soc": soc("Ascend910B2")}
    with pytest.raises(ValueError, match=message):
        asc.Launch(lambda x: None, **{**good, **change})


def test_bad_buffers(soc: Any) -> None:
    launch = vadd_launch(soc("Ascend910B2"), 4096, 1, 2048)
    with pytest.raises(ValueError, match="2 buffers for 3"):
        launch.execute([np.zeros(8192, np.uint8)] * 2)
    with pytest.raises(ValueError, match="argument 'x': expected at least 8192"):
        launch.execute([np.zeros(100, np.uint8)] * 3)


def test_outside_a_kernel() -> None:
    with pytest.raises(RuntimeError, match="inside a kernel"):
        asc.get_block_idx()
