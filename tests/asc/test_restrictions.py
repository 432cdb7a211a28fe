"""Every restriction raises an error that names instruction, operand, value, rule and the kernel's source line."""

# ruff: noqa: E501
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.asc.machine import Core, on_core
from ascend_sim.engine.trace import TraceBuilder
from ascend_sim.isa.rows import ROWS

P, E, M = asc.TPosition, asc.HardEvent, asc.RoundMode


def ub(dtype: Any = "float16", at: int = 0, n: int = 0) -> asc.LocalTensor:
    return asc.LocalTensor(dtype, P.VECIN, at, n)


def gm(dtype: Any = "float16", nbytes: int = 4096, at: int = 0) -> asc.GlobalTensor:
    g = asc.GlobalTensor()
    g.set_global_buffer(asc.GlobalAddress(dtype, 0, at, nbytes))
    return g


def cube(dtype: Any = "float16", acc: Any = "float32") -> tuple[asc.LocalTensor, ...]:
    return asc.LocalTensor(acc, P.CO1), asc.LocalTensor(dtype, P.A2), asc.LocalTensor(dtype, P.B2)


A1 = lambda dtype="float16", at=0, n=0: asc.LocalTensor(dtype, P.A1, at, n)  # noqa: E731
VEC, CUBE, OLD, P3, B1 = "Ascend910B2", "Ascend910B2:AIC", "Ascend910A", "Ascend310P3", "Ascend310B1"
U, B = asc.UnaryRepeatParams, asc.BinaryRepeatParams

CASES: list[tuple[str, Callable[[], Any], str]] = [
    # vector operands
    (VEC, lambda: asc.add(ub(at=16), ub(at=4096), ub(at=8192), 128), r"add: dst address = 16: .*multiple of 32"),
    (VEC, lambda: asc.add(ub(), ub("float32", 4096), ub(at=8192), 128), "add: data types .*same type"),
    (VEC, lambda: asc.add(ub("int8"), ub("int8", 4096), ub("int8", 8192), 32), "vadd takes .* on Ascend910B2"),
    (VEC, lambda: asc.add(ub(n=64), ub(at=4096), ub(at=8192), 128), r"add: dst = bytes 0\.\.256: .*past the end"),
    (VEC, lambda: asc.add(ub(at=196608 - 64), ub(), ub(at=4096), 64), "add: dst .*outside UB of 196608"),
    (VEC, lambda: asc.add(ub(at=32), ub(), ub(at=4096), 64), "dst and src0 .*identical or disjoint"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 129, 1, B()), r"mask = 129: must lie in 1\.\.128"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 128, 256, B()), r"repeat_times = 256: must lie in 0\.\.255"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 128, 2, B(0)), "dst block stride = 0"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 128, 2, B(1, 1, 1, 256)), "dst repeat stride = 256"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), [0, 0], 1, B()), "mask .*selects no lane"),
    (VEC, lambda: asc.exp(ub("float32"), ub("float32", 4096), [1, 1], 1, U()), "mask .*beyond the 64 lanes"),
    (VEC, lambda: asc.exp(ub(), ub(at=4096)), "exp: count = None"),
    (VEC, lambda: asc.exp(gm(), ub(at=4096), 64), "exp: dst = GlobalTensor: must be a LocalTensor"),
    (VEC, lambda: asc.exp(ub(), ub(at=4096), -1), "exp: count = -1"),
    (CUBE, lambda: asc.exp(A1(), A1(at=4096), 64), "exp: dst = L1: .*unified buffer"),
    (VEC, lambda: asc.duplicate(ub("int8"), 1, 32), "duplicate: data type = int8"),
    (VEC, lambda: asc.cast(ub("int16"), ub("float32", 4096), M.ODD, 64), "cast: round_mode = CAST_ODD"),
    (VEC, lambda: asc.cast(ub("uint32"), ub("float32", 4096), M.RINT, 64), "float32 -> uint32: the conversion"),
    (VEC, lambda: asc.compare(ub("uint8"), ub(at=4096), ub(at=8192), asc.CMPMODE.LT, 64), "count = 64: .*multiple of 256"),
    (VEC, lambda: asc.compare(ub("int16"), ub(at=4096), ub(at=8192), asc.CMPMODE.LT, 128), "dst data type = int16"),
    (VEC, lambda: asc.gather(ub(), ub(at=4096), ub("int32", 8192), 0, 64), "src_offset data type = int32"),
    (VEC, lambda: asc.brcb(ub(), ub(at=4096), 256, asc.BrcbRepeatParams()), "repeat_times = 256"),
    (VEC, lambda: asc.whole_reduce_sum(ub(at=1), ub(at=4096), 64, 1, 1, 1, 8), "dst address = 1: .*multiple of 2"),
    (VEC, lambda: asc.block_reduce_sum(ub(at=8), ub(at=4096), 1, 128, 1, 1, 8), "dst address = 8: .*multiple of 16"),
    (VEC, lambda: asc.reduce_sum(ub(), ub(at=4096), ub(at=8192, n=16), 128 * 100), "shared_tmp_buffer .*past the end"),
    (VEC, lambda: asc.trans_data_to_5hd([ub()] * 15, [ub()] * 16, asc.TransDataTo5HDParams()), "dst list = 15: must have 16 entries"),
    (VEC, lambda: asc.gather_mask(ub(), ub(at=4096), 8, False, 0, asc.GatherMaskParams()), r"src1_pattern = 8: .*1\.\.7"),
    # moves
    (VEC, lambda: asc.data_copy(ub(), gm(), 15), "count = 15: 30 bytes are not a multiple of 32"),
    (VEC, lambda: asc.data_copy(ub(), gm(), 4096), r"global tensor = bytes 0\.\.8192 .*past its end at byte 4096"),
    (VEC, lambda: asc.data_copy(ub(), gm(), asc.DataCopyParams(4096, 1)), "block_count = 4096"),
    (VEC, lambda: asc.data_copy(ub(), gm(), asc.DataCopyParams(1, 65536)), "block_len = 65536"),
    (VEC, lambda: asc.data_copy(ub("float32"), gm(), 32), "data types = float16 -> float32"),
    (VEC, lambda: asc.data_copy_pad(ub(), gm(), asc.DataCopyParams(1, 10), asc.DataCopyPadParams(True, 17)), "left_padding = 17"),
    (CUBE, lambda: asc.data_copy(A1(), gm(), asc.Nd2NzParams(1, 16385, 16, 0, 16, 16, 1, 0)), "n_value = 16385"),
    (CUBE, lambda: asc.data_copy(A1(n=64), gm(), asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0)), "dst .*past the end"),
    (CUBE, lambda: asc.data_copy(ub(), A1(), 32), "path = L1 to UB: does not exist on Ascend910B2"),
    (CUBE, lambda: asc.data_copy(gm("float32"), cube()[0], 256), "L0C reaches global memory through fixpipe"),
    (OLD, lambda: asc.set_atomic_add(asc.float16), "set_atomic_add: data type = float16: Ascend910A takes float32"),
    # cube
    (CUBE, lambda: asc.mmad(*cube(), asc.MmadParams(4096, 16, 16)), r"mmad: m = 4096: must lie in 0\.\.4095"),
    (CUBE, lambda: asc.mmad(*cube(), asc.MmadParams(128, 16, 512)), "mmad: fm .*outside L0A of 65536"),
    (CUBE, lambda: asc.mmad(*cube(acc="int32"), asc.MmadParams(16, 16, 16)), "float16 x float16 -> int32"),
    (CUBE, lambda: asc.mmad(cube()[0], cube()[2], cube()[2], asc.MmadParams(16, 16, 16)), "fm = L0B: must lie in L0A"),
    (CUBE, lambda: asc.load_data(cube()[1][8:], A1(), asc.LoadData2DParams(0, 1, 1)), "dst address = 16: .*multiple of 512"),
    (CUBE, lambda: asc.load_data(cube("int8")[1], A1("int8"), asc.LoadData2DParams(0, 1, 1, if_transpose=True)), "if_transpose = int8"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData2DParams(0, 256, 1)), "repeat_times = 256"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0, 0, 0, 256), 4, 4, 16)), "pad_list"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0,) * 4, 4, 4, 16, 16, 16, stride_w=64)), "stride_w = 64"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0,) * 4, 4, 4, 16, 32, 16)), "k_start_pt .* has 16 columns"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0,) * 4, 0, 0, 16, 16, 16)), "set_fmatrix was not called"),
    (CUBE, lambda: asc.fixpipe(gm("float16"), cube()[0], asc.FixpipeParamsV220(16, 16, 16, 16)), "quant_pre = NoQuant"),
    (CUBE, lambda: asc.fixpipe(gm("float32"), cube()[0], asc.FixpipeParamsV220(8, 16, 16, 16), asc.FixpipeConfig.cfg_nz()), "n_size = 8: must be a multiple of 16"),
    # chips
    (OLD, lambda: asc.maxs(ub(), ub(at=4096), 0.0, 128), "maxs: chip = Ascend910A: has no instruction vmaxs"),
    (OLD, lambda: asc.relu(ub("float32"), ub("float32", 4096), 64), "vrelu takes f16 on Ascend910A"),
    ("Ascend310", lambda: asc.div(ub(), ub(at=4096), ub(at=8192), 128), "Ascend310: has no instruction vdiv"),
    (OLD, lambda: asc.brcb(ub(), ub(at=4096), 1, asc.BrcbRepeatParams()), "has no instruction vbrcb"),
    (P3, lambda: asc.data_copy(A1(), gm(), asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0)), "does not exist on this chip"),
    (P3, lambda: asc.data_copy_pad(ub(), gm(), asc.DataCopyParams(1, 10)), "does not exist on this chip"),
    (P3, lambda: asc.fixpipe(gm("float32"), cube()[0], asc.FixpipeParamsV220(16, 16, 16, 16)), "has no fixpipe"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV1()), "does not exist on this chip"),
    (OLD, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2()), "does not exist on this chip"),
    (OLD, lambda: asc.LocalTensor("float16", P.C2PIPE2GM), "pos = C2PIPE2GM: is no local memory"),
    (OLD, lambda: asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_V), "split chips only"),
    # synchronisation
    (OLD, lambda: asc.set_flag(E.MTE2_V, 4), r"event_id = 4: Ascend910A has ids 0\.\.3"),
    (VEC, lambda: asc.set_flag(E.MTE2_V, 8), r"event_id = 8: Ascend910B2 has ids 0\.\.7"),
    (VEC, lambda: asc.set_flag(E.M_FIX, 0), r"event = M_FIX: this core \(AIV\) has no pipe M"),
    (P3, lambda: asc.set_flag(E.M_FIX, 0), "has no pipe FIX"),
    (VEC, lambda: asc.wait_flag(E.MTE2_V, 0), "wait_flag: MTE2_V 0 = 0: no set_flag precedes it"),
    (VEC, lambda: asc.pipe_barrier(asc.PipeID.PIPE_S), "pipe_barrier: pipe"),
    (VEC, lambda: asc.cross_core_set_flag(16, 2, asc.PipeID.PIPE_MTE3), "flag_id = 16"),
    (VEC, lambda: asc.cross_core_set_flag(1, 3, asc.PipeID.PIPE_MTE3), "mode_id = 3"),
    # tensors and queues
    (VEC, lambda: ub(n=10)[2:5], r"only \[start:\] is supported"),
    (VEC, lambda: asc.LocalTensor("float16", P.VECIN, 0, 200000), "UB of Ascend910B2 has 196608 bytes"),
    (VEC, lambda: ub(n=4).get_value(4), "get_value: index = 4: the tensor has 4 elements"),
    (VEC, lambda: asc.TPipe().init_buffer(asc.TQue(P.VECIN, 2), 2, 100000), "UB of Ascend910B2 has 196608 bytes"),
    (VEC, lambda: asc.TQue(P.VECIN, 1).alloc_tensor("half"), "init_buffer was not called"),
]  # fmt: skip


def core_of(soc: Any, chip: str, memory: bool = True) -> Core:
    name, _, kind = chip.partition(":")
    description = soc(name)
    kind = kind or ("AIV" if description.chip.split_cores else "AICORE")
    data = [np.zeros(4096, np.uint8)] if memory else None
    return Core(description, kind, 0, 1, gm=data, trace=None if memory else TraceBuilder())


@pytest.mark.parametrize(("chip", "call", "message"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_restrictions(soc: Any, chip: str, call: Callable[[], Any], message: str) -> None:
    with on_core(core_of(soc, chip)), pytest.raises(asc.InstructionError, match=message) as caught:
        call()
    assert caught.value.place == (__file__, inspect.getsourcelines(call)[1])
    assert str(caught.value).startswith(f"{__file__}:")


@pytest.mark.parametrize(("chip", "call", "message"), [c for c in CASES if "no set_flag" not in c[2]],
                         ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_restrictions_while_tracing(soc: Any, chip: str, call: Callable[[], Any], message: str) -> None:
    """The same errors without values."""
    with on_core(core_of(soc, chip, memory=False)), pytest.raises(asc.InstructionError, match=message):
        call()


def test_gather_offsets_are_checked_with_values(soc: Any) -> None:
    core = core_of(soc, VEC)
    core.memory["UB"][8192:8200] = np.array([0, 4000], np.uint32).view(np.uint8)  # type: ignore[index]
    with on_core(core), pytest.raises(asc.InstructionError, match="offset 4000 is outside the source of 128 bytes"):
        asc.gather(ub(), ub(at=4096, n=64), ub("uint32", 8192), 0, 2)


def test_queue_discipline(soc: Any) -> None:
    with on_core(core_of(soc, VEC)):
        pipe, que = asc.TPipe(), asc.TQue(P.VECIN, 2)
        pipe.init_buffer(que, 2, 64)
        first, second = que.alloc_tensor("half"), que.alloc_tensor("half")
        assert (first.addr, second.addr, first.get_size()) == (0, 64, 32)
        with pytest.raises(asc.InstructionError, match="all in use at VECIN: free_tensor is missing"):
            que.alloc_tensor("half")
        with pytest.raises(asc.InstructionError, match="is empty: enque is missing"):
            que.deque("half")
        que.enque(first)
        assert que.deque("half").addr == 0
        que.free_tensor(first)
        with pytest.raises(asc.InstructionError, match="is not in use in this queue"):
            que.free_tensor(first)
        assert que.alloc_tensor("half").addr == 0


def test_queue_flags(soc: Any) -> None:
    """enque sets the forward flag, deque waits for it; free sets the backward one, the slot's next alloc waits."""
    core = core_of(soc, VEC, memory=False)
    with on_core(core):
        pipe, que = asc.TPipe(), asc.TQue(P.VECOUT, 1)
        pipe.init_buffer(que, 1, 64)
        for _ in range(2):
            t = que.alloc_tensor("half")
            que.enque(t)
            que.free_tensor(que.deque("half"))
    from ascend_sim.isa.instr import Op, Pipe, channel

    v, m = Pipe.V, Pipe.MTE3
    assert core.tb is not None
    sync = [(op, arg) for op, _, arg, _ in core.tb.code]
    once = [(Op.SET, channel(v, m, 0)), (Op.WAIT, channel(v, m, 0)), (Op.SET, channel(m, v, 0))]
    assert sync == [*once, (Op.WAIT, channel(m, v, 0)), *once]


def test_bank_conflicts(soc: Any) -> None:
    """asc-devkit's bank page: sources in the same groups conflict in every repeat, 256 bytes further none does."""
    core = core_of(soc, VEC, memory=False)
    with on_core(core):
        src = ub("float32", 0)
        for at in (65536, 65536 + 256):
            asc.add(ub("float32", 131072), src, ub("float32", at), 64, 64, B())
    assert core.tb is not None
    works = list(core.tb._works)
    assert [w.bank_conflicts for w in works] == [64, 0]


def test_every_row_is_documented() -> None:
    for row in ROWS.values():
        assert row.text and row.calls
        for call in row.calls:
            assert hasattr(asc, call), f"{row.name} names {call}"


@pytest.mark.parametrize(
    ("enum", "values"),
    [(asc.HardEvent, {"MTE2_MTE1": 0, "V_V": 10, "M_FIX": 17, "FIX_FIX": 34}), (asc.PipeID, {"PIPE_ALL": 6, "PIPE_FIX": 10}),
     (asc.TPosition, {"GM": 0, "CO1": 7, "VECCALC": 11}), (asc.RoundMode, {"CAST_NONE": 0, "CAST_ODD": 6}),
     (asc.QuantModes, {"NoQuant": 0, "VREQ8": 8}), (asc.CMPMODE, {"LT": 0, "NE": 5})],
)  # fmt: skip
def test_enum_values_are_pyascs(enum: Any, values: dict[str, int]) -> None:
    for name, value in values.items():
        assert enum[name] == value
