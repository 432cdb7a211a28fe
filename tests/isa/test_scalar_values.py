"""Scalar unit: bit counts, conversions, registers, caches and messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from strength import cases

from ascend_sim import asc
from ascend_sim.asc.calls_system import KernelTrap
from ascend_sim.isa.legality import InstructionError

CHIP = "Ascend910B2"
words = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-9, 9), st.sampled_from([-1, 0]))
P = asc.TPosition


@cases(thorough=100, value=words, bit=st.integers(0, 1))
def test_bit_counts(bench: Any, value: int, bit: int) -> None:
    text = format(value & ((1 << 64) - 1), "064b")
    run = bench(CHIP).run
    assert run(lambda: asc.scalar_get_count_of_value(value, bit)) == text.count(str(bit))
    assert run(lambda: asc.scalar_count_leading_zero(value)) == len(text) - len(text.lstrip("0"))
    place = text[::-1].find(str(bit))
    assert run(lambda: asc.scalar_get_sff_value(value, bit)) == place
    alike = len(text) - 1 - len(text[1:].lstrip(text[0]))
    want = -1 if alike == 63 else alike
    assert run(lambda: asc.count_bits_cnt_same_as_sign_bit(value)) == want


ROUND = {
    asc.RoundMode.CAST_FLOOR: math.floor, asc.RoundMode.CAST_CEIL: math.ceil, asc.RoundMode.CAST_RINT: round,
    asc.RoundMode.CAST_ROUND: lambda x: math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1),
}  # fmt: skip


@cases(thorough=100, value=st.floats(-1e6, 1e6, width=32), mode=st.sampled_from(list(ROUND)))
def test_scalar_cast_to_int(bench: Any, value: float, mode: Any) -> None:
    assert bench(CHIP).run(lambda: asc.scalar_cast(value, "int32", mode)) == ROUND[mode](value)


@cases(thorough=100, value=st.floats(-60000, 60000, width=32))
def test_scalar_cast_to_half(bench: Any, value: float) -> None:
    got = bench(CHIP).run(lambda: asc.scalar_cast(value, "float16", asc.RoundMode.CAST_ODD))
    near = np.float16(value)
    if float(near) == value:
        assert float(got) == value
        return
    low, high = sorted([near, np.nextafter(near, np.float16(-np.inf if float(near) > value else np.inf))])
    odd = low if low.view(np.uint16) & 1 else high
    assert np.float16(got) == odd


@cases(kind=st.sampled_from(["int32", "float32", "float16", "uint8", "int16"]), at=st.integers(0, 40),
       value=st.integers(0, 99), memory=st.sampled_from(["GM", "UB"]))  # fmt: skip
def test_get_and_set_value(bench: Any, kind: str, at: int, value: int, memory: str) -> None:
    x = np.arange(64).astype(kind)
    b = bench(CHIP, None, [x])
    b.put("UB", x)

    def program() -> Any:
        if memory == "GM":
            t: Any = asc.GlobalTensor()
            t.set_global_buffer(asc.GlobalAddress(kind, 0, 0, x.nbytes))
        else:
            t = asc.LocalTensor(kind, P.VECCALC)
        before = t.get_value(at)
        t.set_value(at, value)
        return before, t.get_value(at)

    assert b.run(program) == (at, value)
    got = x if memory == "GM" else b.get("UB", kind, 64)
    want = np.arange(64).astype(kind)
    want[at] = value
    np.testing.assert_array_equal(got, want)


def test_registers(bench: Any) -> None:
    b = bench(CHIP)

    def program() -> list[Any]:
        asc.set_store_atomic_config(asc.AtomicDtype.ATOMIC_F16, asc.AtomicOp.ATOMIC_SUM)
        atomic = asc.get_store_atomic_config()
        asc.set_store_atomic_config(asc.AtomicDtype.ATOMIC_NONE, asc.AtomicOp.ATOMIC_SUM)
        asc.init_soc_state()
        asc.icache_preload(2)
        asc.metrics_prof_start()
        asc.metrics_prof_stop()
        asc.print_time_stamp(7)
        return [atomic, asc.get_store_atomic_config()[0], asc.get_arch_version(), asc.get_icache_preload_status()]

    atomic, none, version, done = b.run(program)
    assert atomic == (asc.AtomicDtype.ATOMIC_F16, asc.AtomicOp.ATOMIC_SUM)
    assert (none, version, done) == (0, 2201, 0)


def test_printf(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench(CHIP).run(lambda: asc.printf("block %d of %u: %f %s 0x%x%%\n", 3, 8, 1.5, "ready", 255))
    assert capsys.readouterr().out == "block 3 of 8: 1.500000 ready 0xff%\n"


def test_dump_tensor(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    b = bench(CHIP)
    b.put("UB", np.arange(16, dtype=np.int32))
    b.run(lambda: asc.dump_tensor(asc.LocalTensor("int32", P.VECCALC, 0, 16), 5, 6, asc.ShapeInfo([2, 3])))
    out = capsys.readouterr().out
    assert "desc=5" in out and "int32" in out and "[[0, 1, 2],\n[3, 4, 5]]" in out


def test_trap_stops_the_kernel(bench: Any) -> None:
    with pytest.raises(KernelTrap, match="block 0"):
        bench(CHIP).run(asc.trap)


def test_cache_instructions_are_checked(bench: Any) -> None:
    x = np.zeros(64, np.uint8)
    b = bench(CHIP, None, [x])

    def tensor() -> Any:
        g = asc.GlobalTensor()
        g.set_global_buffer(asc.GlobalAddress("uint8", 0, 0, 64))
        return g

    one = asc.CacheLine.SINGLE_CACHE_LINE
    b.run(lambda: asc.data_cache_clean_and_invalid(one, asc.DcciDst.CACHELINE_OUT, tensor()))
    b.run(lambda: asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, tensor()))
    b.run(lambda: asc.data_cache_preload(tensor(), 32))
    with pytest.raises(InstructionError, match="runs past its end"):
        b.run(lambda: asc.data_cache_preload(tensor(), 64))
    with pytest.raises(InstructionError, match="later chips"):
        b.run(
            lambda: asc.data_cache_clean_and_invalid(
                asc.CacheLine.SINGLE_CACHE_LINE, tensor(), asc.DcciDst.CACHELINE_ATOMIC
            )
        )
    with pytest.raises(InstructionError, match="does not exist"):
        bench("Ascend910A", None, [x]).run(
            lambda: asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, tensor())
        )
