"""Counter groups besides PipeUtilization: bytes that a kernel must move, operations that it must do."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling import op_summary, pmu_groups
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import load_soc

M, K, N = 512, 256, 1024


def spec(*shape: int, dtype: str = "float16") -> TensorSpec:
    return TensorSpec(shape, dtype)


MATMUL = OpCall("MatMulV2", (spec(M, K), spec(K, N), None), (spec(M, N),))
ADD = OpCall("Add", (spec(1024, 512), spec(1024, 512)), (spec(1024, 512),))


def counters(chip: str, call: OpCall, group: str) -> dict[str, float]:
    soc = load_soc(chip)
    op = op_timing(call, soc)
    facts: dict[str, Any] = {"op_type": call.type, "call": call, "op": op, "timing": op.kernels[0],
                             "task_type": op.kernels[0].kind}  # fmt: skip
    event = Event("kernel", "k", 0, 0, 0, 0, op.task_ps, 0, facts)
    split = soc.chip.split_cores
    names = [*pmu_groups.times(split), *pmu_groups.header(group, split)]
    return {k: float(str(v)) for k, v in zip(names, pmu_groups.values(group, event, soc), strict=True)}


@pytest.mark.parametrize("chip", ["Ascend910B4", "Ascend310P3"])
def test_operations_of_a_matrix_product(chip: str) -> None:
    found = counters(chip, MATMUL, "ArithmeticUtilization")
    prefix = "aic_" if chip == "Ascend910B4" else ""
    assert found[f"{prefix}cube_fops"] == 2 * M * K * N
    cycles = found["aic_total_cycles" if prefix else "total_cycles"] * found[f"{prefix}mac_fp16_ratio"]
    assert found[f"{prefix}cube_fops"] <= 8192 * cycles * 1.001  # the cube's rate in fp16 (Ascend/msprof)
    assert found[f"{prefix}mac_int8_ratio"] == 0


def test_bytes_that_must_move() -> None:
    found = counters("Ascend910B4", MATMUL, "MemoryAccess")
    assert found["aic_GM_to_L1_datas(KB)"] >= (M * K + K * N) * 2 / 1024
    assert found["aic_L0C_to_GM_datas(KB)"] == M * N * 2 / 1024
    assert found["aiv_GM_to_UB_datas(KB)"] == 0
    found = counters("Ascend910B4", ADD, "MemoryAccess")
    assert found["aiv_GM_to_UB_datas(KB)"] == 2 * 1024 * 512 * 2 / 1024
    assert found["aiv_UB_to_GM_datas(KB)"] == 1024 * 512 * 2 / 1024


def test_bandwidths_and_vector_operations() -> None:
    memory = counters("Ascend910B4", ADD, "Memory")
    seconds = memory["aiv_time(us)"] / 1e6
    assert memory["aiv_l2_read_bw(GB/s)"] == pytest.approx(2 * 1024 * 512 * 2 / seconds / 2**30, rel=1e-3)
    assert memory["aiv_ub_write_bw(GB/s)"] == pytest.approx(memory["aiv_l2_read_bw(GB/s)"], rel=1e-3)
    assert counters("Ascend910B4", ADD, "ArithmeticUtilization")["aiv_vector_fops"] == 1024 * 512
    unified = counters("Ascend910B4", ADD, "MemoryUB")
    read, written = (unified[f"aiv_ub_{way}_bw_vector(GB/s)"] for way in ("read", "write"))
    assert read == pytest.approx(2 * written, rel=1e-4)
    level0 = counters("Ascend910B4", MATMUL, "MemoryL0")
    assert level0["aic_l0a_read_bw(GB/s)"] >= level0["aic_l0a_write_bw(GB/s)"] > 0
    assert all(v == 0 for k, v in level0.items() if k.startswith("aiv_"))


def test_requests_to_l2_are_the_traffic() -> None:
    found = counters("Ascend910B4", ADD, "L2Cache")
    read = found["aiv_r0_read_cache_hit"] + found["aiv_r0_read_cache_miss_allocate"]
    assert read * 128 == 2 * 1024 * 512 * 2 and found["aiv_write_cache_hit"] * 128 == 1024 * 512 * 2


sizes = st.integers(1, 40).map(lambda n: 16 * n)


@pytest.mark.parametrize("chip", ["Ascend910B4", "Ascend310P3"])
@settings(max_examples=6)
@given(m=sizes, k=sizes, n=sizes)
def test_what_holds_for_any_product(chip: str, m: int, k: int, n: int) -> None:
    """Ratios are shares, cores are busy within the task, operations fit into busy cycles, bytes are moved."""
    call = OpCall("MatMulV2", (spec(m, k), spec(k, n), None), (spec(m, n),))
    soc = load_soc(chip)
    prefix = "aic_" if soc.chip.split_cores else ""
    timing = op_timing(call, soc).kernels[0]
    sums = counters(chip, call, "ArithmeticUtilization")
    assert 0 < sums["aicore_time(us)"] <= timing.us * (1 + 1e-3)
    assert all(0 <= v <= 1 for key, v in sums.items() if key.endswith("ratio"))
    busy = sums[f"{prefix}mac_fp16_ratio"] * sums[f"{prefix}total_cycles"]
    assert 2 * m * k * n <= sums[f"{prefix}cube_fops"] <= 8192 * busy * 1.01 + 8192
    moved = counters(chip, call, "MemoryAccess")
    into = moved[f"{prefix}GM_to_L1_datas(KB)"] + moved[f"{prefix}GM_to_UB_datas(KB)"]
    out = moved[f"{prefix}L0C_to_GM_datas(KB)"] + moved[f"{prefix}UB_to_GM_datas(KB)"]
    assert into >= (m * k + k * n) * 2 / 1024 * 0.999 and out >= m * n * 2 / 1024 * 0.999
    assert into + out == pytest.approx((timing.gm_read + timing.gm_write) / 1024, rel=1e-3)


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310P3"])
@settings(max_examples=8)
@given(kind=st.sampled_from(("Add", "Mul", "Exp", "Relu", "SoftmaxV2")), rows=sizes, width=st.integers(16, 700))
def test_what_holds_for_any_vector_operator(chip: str, kind: str, rows: int, width: int) -> None:
    """All groups of one kernel tell of the same bytes, operations and time. Rows have a block at least: what scalars
    move is no transfer."""
    out = spec(rows, width)
    inputs = (out, out) if kind in ("Add", "Mul") else (out,)
    call = OpCall(kind, inputs, (out,), (("axes", (-1,)),) if kind == "SoftmaxV2" else ())
    soc = load_soc(chip)
    prefix, core = ("aiv_", "aiv_time(us)") if soc.chip.split_cores else ("", "aicore_time(us)")
    timing = op_timing(call, soc).kernels[0]
    found = {group: counters(chip, call, group) for group in pmu_groups.GROUPS}
    for group in found.values():
        assert group[core] == found["Memory"][core] > 0
        assert all(v >= 0 for v in group.values())
        assert all(v <= 1 for name, v in group.items() if name.endswith("ratio"))
    moved, gib = found["MemoryAccess"], found["Memory"][core] / 1e6 * 2**30 / 1024  # KiB in a second's core time
    into, back = moved[f"{prefix}GM_to_UB_datas(KB)"], moved[f"{prefix}UB_to_GM_datas(KB)"]
    assert (into, back) == (
        pytest.approx(timing.gm_read / 1024, rel=1e-5),
        pytest.approx(timing.gm_write / 1024, rel=1e-5),
    )
    assert back >= rows * width * 2 / 1024 * 0.9999 and into >= len(inputs) * rows * width * 2 / 1024 * 0.9999
    assert (
        moved[f"{prefix}read_main_memory_datas(KB)"] <= into and moved[f"{prefix}write_main_memory_datas(KB)"] <= back
    )
    rounding = 0.0006 / found["Memory"][core] + 1e-5  # times have three digits, rates six
    for column, kb in (("l2_read", into), ("l2_write", back), ("ub_write", into), ("ub_read", back)):
        assert found["Memory"][f"{prefix}{column}_bw(GB/s)"] * gib == pytest.approx(kb, rel=rounding)
    lookups = sum(v for name, v in found["L2Cache"].items() if "read_cache" in name and name.startswith(prefix))
    assert lookups * 128 == pytest.approx(into * 1024, abs=256)
    sums = found["ArithmeticUtilization"]
    assert sums[f"{prefix}vector_fops"] >= rows * width and sums.get(f"{prefix}cube_fops", 0) == 0


@pytest.mark.parametrize("group", pmu_groups.GROUPS)
@pytest.mark.parametrize("chip", ["Ascend910B4", "Ascend310P3"])
def test_tables_with_each_group(chip: str, group: str, recorded: Any, tmp_path: Path) -> None:
    store, soc = recorded(chip)
    assert isinstance(store, EventStore)
    op_summary.write(store, soc, tmp_path / "t.csv", group)
    with (tmp_path / "t.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    names = pmu_groups.header(group, soc.chip.split_cores)
    assert len(rows) == len(store.kernels())
    for row in rows:
        for name in names:
            value = float(row[name])
            assert value >= 0 and ("ratio" not in name or value <= 1)
