"""Prices of works against public measurements and against the rules of the module."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.engine.timing import MemoryShares, core_count, cycle_ps, exact, price, round_ps, sync_times
from ascend_sim.isa.instr import CubeWork, Load3dWork, MoveWork, ScalarWork, VectorWork, Work
from ascend_sim.soc import Soc, SocError, load_soc, soc_names

ALONE = MemoryShares(1)


@pytest.fixture(scope="module")
def b1() -> Soc:
    return load_soc("Ascend910B1")


def cycles(work: Work, soc: Soc, kind: str = "AIC", memory: MemoryShares = ALONE) -> float:
    return int(price([work], soc, kind, memory).occupancy[0]) * soc.cores.clock_mhz / 1e6


# measured on board, one core, instructions back to back (Ascend/mskpp prof_data, 910B1); transfers replay one buffer
MEASURED = [
    (CubeWork("float16", 2, 1, 1), 4.9, 0.2),
    (CubeWork("float16", 2, 64, 1), 130.1, 0.01),
    (MoveWork("L1_L0A", 1, 65536), 257.0, 0.01),
    (MoveWork("L1_L0B", 1, 65536), 513.0, 0.01),
    (MoveWork("L1_BT", 1, 1024), 32.0, 0.02),
    (MoveWork("L1_FB", 1, 1024), 47.0, 0.01),
    (MoveWork("L0C_GM", 1, 131072, gm=0), 1147.3, 0.05),
    (MoveWork("GM_L1", 1, 524288, gm=0, again=True), 3356.4, 0.06),
    (MoveWork("GM_L1", 1, 1024, gm=0, again=True), 172.8, 0.31),
    (VectorWork("vadd", "float32", 16), 32.033, 0.01),
    (VectorWork("vabs", "float32", 16), 16.025, 0.01),
    (VectorWork("vadd", "float16", 1), 6.058, 0.02),
    (VectorWork("vadd", "float16", 192), 384.055, 0.01),
    (VectorWork("vgatherb", "uint32", 32), 67.029, 0.02),
]


@pytest.mark.parametrize(
    ("work", "measured", "tolerance"), MEASURED, ids=lambda v: str(v) if isinstance(v, tuple) else ""
)
def test_against_board_measurements(b1: Soc, work: Work, measured: float, tolerance: float) -> None:
    assert cycles(work, b1) == pytest.approx(measured, rel=tolerance)


@pytest.mark.parametrize(("path", "measured"), [("L1_L0A", 56), ("L1_L0B", 55)])
def test_im2col_at_stride_four_brings_two_pixels_a_line(b1: Soc, path: str, measured: float) -> None:
    """mte1 times of the first layer of AlexNet and of its filter gradient (public 910B2 profile): 56 and 55 B/cycle."""
    rate = 65536 / cycles(Load3dWork(path, 65536, 4, 11), b1)
    assert rate == pytest.approx(measured, rel=0.17)
    assert cycles(Load3dWork(path, 65536, 2, 3), b1) <= cycles(Load3dWork(path, 65536, 4, 11), b1)
    assert 65536 / cycles(Load3dWork(path, 65536, 64, 64), b1) == pytest.approx(32, rel=0.01)  # a block at the least


def test_all_cores_together_feed_l1_at_77_bytes_a_cycle() -> None:
    """Fit over 26 public GEMM times: 72 to 83 B/cycle a core with all cores busy."""
    soc = load_soc("Ascend910B2")
    rate = 65536 / cycles(MoveWork("GM_L1", 128, 512, gm=0), soc, memory=MemoryShares(24))
    assert 72 <= rate <= 83


def test_missed_bytes_of_all_cores_add_up_to_the_memory_rate() -> None:
    soc = load_soc("Ascend910B2")
    shares = MemoryShares(24, {0: Fraction(1)})
    ps = int(price([MoveWork("GM_L1", 128, 512, gm=0)], soc, "AIC", shares).occupancy[0])
    assert 24 * 65536 * 1000 / ps == pytest.approx(soc.memory.read_gbps, rel=1e-3)


def test_hits_and_misses_add() -> None:
    soc = load_soc("Ascend910B2")
    work = MoveWork("GM_L1", 1024, 512, gm=3)

    def at(miss: Fraction) -> int:
        return int(price([work], soc, "AIC", MemoryShares(24, {3: miss})).occupancy[0])

    assert at(Fraction(1, 4)) == pytest.approx((3 * at(Fraction(0)) + at(Fraction(1))) / 4, abs=2)


def test_hits_beside_misses() -> None:
    """With ``miss_overlap`` 1 a half-missed stream takes as long as the longer of the whole at the rate of L2 and its
    missed half at the rate of memory; with 0.5 the mean of that and of both in turn."""
    work = MoveWork("GM_L1", 1, 65536, gm=0)

    def time(overlap: float, miss: Fraction) -> int:
        soc = load_soc("Ascend310P3").override({"memory.miss_overlap": overlap})
        return int(price([work], soc, "AICORE", MemoryShares(8, {0: miss})).occupancy[0])

    hit, missed = time(0, Fraction(0)), time(0, Fraction(1))
    in_turn, half, at_once = (time(x, Fraction(1, 2)) for x in (0, 0.5, 1))
    assert in_turn == pytest.approx((hit + missed) / 2, abs=2)
    assert at_once == pytest.approx(max(hit, missed / 2), abs=2)
    assert half == pytest.approx((in_turn + at_once) / 2, abs=2)


def test_odd_pitch_is_slow() -> None:
    """Grouped matmul with odd K or N on 910B2: 12 to 13 B/cycle a core of what is used, 14.5 to 15.9 of what moves."""
    soc = load_soc("Ascend910B2")
    rate = 65536 / cycles(MoveWork("GM_L1", 128, 512, align=2, gm=0), soc, memory=MemoryShares(24))
    assert 12 <= rate <= 16


def test_rounding_is_once_and_exact() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert [round_ps(Fraction(n, 4)) for n in (0, 1, 2, 3, 4, 5, 6)] == [0, 0, 1, 1, 1, 1, 2]
    soc = load_soc("Ascend910B1")
    assert cycle_ps(soc, "AIC") == Fraction(1_000_000, 1850)
    # 2.1 + 1000 cycles of 1/1850 us, not 1000 times a rounded cycle
    assert int(price([CubeWork("float16", 10, 10, 10)], soc, "AIC", ALONE).occupancy[0]) == round(1002.1e6 / 1850)


def test_figures_that_a_price_rests_on_exist_in_the_chip() -> None:
    works: list[Work] = [
        CubeWork("float16", 1, 1, 1),
        VectorWork("vadd", "float16", 2, counter=True, bank_conflicts=1),
        MoveWork("GM_UB", 4, 100, align=4, gm=0),
        MoveWork("UB_GM", 1, 4096, gm=1),
        ScalarWork("div"),
    ]
    memory = MemoryShares(8, {0: Fraction(1, 2)}, {}, {1: Fraction(1, 2)})
    for name in soc_names():
        soc = load_soc(name)
        kind = "AIV" if soc.chip.split_cores else "AICORE"
        for keys in price(works, soc, kind, memory).figures:
            assert keys
            assert all(key in soc.figures for key in keys)


def test_what_a_chip_lacks_is_an_error_that_names_it() -> None:
    soc = load_soc("Ascend310")
    with pytest.raises(SocError, match="float32"):
        price([CubeWork("float32", 1, 1, 1)], soc, "AICORE", ALONE)
    with pytest.raises(SocError, match="nonsense"):
        price([VectorWork("nonsense", "float16", 1)], soc, "AICORE", ALONE)
    with pytest.raises(SocError, match="UB_L0A"):
        price([MoveWork("UB_L0A", 1, 32)], soc, "AICORE", ALONE)
    with pytest.raises(ValueError, match="core kind 'CPU'"):
        sync_times(soc, "CPU")


MOVES = st.builds(
    MoveWork,
    st.sampled_from(("GM_L1", "GM_UB", "UB_GM")),
    st.integers(1, 300),
    st.integers(1, 4096),
    st.sampled_from((2, 32, 512)),
    st.just(0),
    st.sampled_from(("", "nd2nz")),
    st.just("float16"),
)
WORKS = st.one_of(
    MOVES,
    st.builds(CubeWork, st.sampled_from(("float16", "int8")), *(st.integers(1, 16) for _ in range(3))),
    st.builds(
        VectorWork,
        st.sampled_from(("vadd", "vexp", "vconv")),
        st.just("float16"),
        st.integers(1, 255),
        st.booleans(),
        st.just(0),
    ),
    st.builds(Load3dWork, st.just("L1_L0A"), st.integers(512, 65536), st.integers(1, 4), st.just(3), st.booleans()),
)
FRACTIONS = st.fractions(0, 1, max_denominator=64)
FASTER = {
    "memory.read_gbps": 1.5,
    "memory.l2_read_gbps": 2,
    "memory.l2_write_gbps": 2,
    "memory.core_l1_bytes_per_cycle": 1.2,
    "memory.unaligned_bytes_per_cycle": 2,
    "memory.core_miss_bytes_per_cycle": 1.5,
    "memory.core_ub_write_bytes_per_cycle": 1.5,
    "memory.read_only_factor": 1.1,
    "memory.short_burst_factor": 1.1,
    "cores.clock_mhz": 1.3,
}
CHIPS = {"Ascend910A": "AICORE", "Ascend310P3": "AICORE", "Ascend910B1": "AIC", "Ascend910B4": "AIV"}
SHARES = st.builds(
    lambda active, miss, back, only, mix, pure: MemoryShares(
        active, {0: miss}, {0: back / 4}, {0: back}, only and not miss, 1 + mix, pure
    ),
    st.integers(1, 48), FRACTIONS, FRACTIONS, st.booleans(), FRACTIONS, FRACTIONS,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(WORKS, st.sampled_from(sorted(FASTER)), st.sampled_from(sorted(CHIPS)), SHARES, st.booleans())
def test_more_bandwidth_or_clock_never_costs_time(
    work: Work, key: str, chip: str, memory: MemoryShares, again: bool
) -> None:
    soc, kind = load_soc(chip), CHIPS[chip]
    if isinstance(work, MoveWork):
        work = work._replace(again=again)
    section, name = key.split(".")
    fast = soc.override({key: getattr(getattr(soc, section), name) * FASTER[key]})
    now, then = price([work], soc, kind, memory), price([work], fast, kind, memory)
    assert then.occupancy[0] <= now.occupancy[0]
    assert then.latency[0] <= now.latency[0]


@settings(max_examples=200, deadline=None)
@given(MOVES, st.sampled_from(sorted(CHIPS)), st.integers(1, 31), FRACTIONS, st.booleans())
def test_more_active_cores_or_misses_never_save_time(
    work: MoveWork, chip: str, active: int, miss: Fraction, again: bool
) -> None:
    soc, kind, work = load_soc(chip), CHIPS[chip], work._replace(again=again)
    now = price([work], soc, kind, MemoryShares(active, {0: miss / 2})).occupancy[0]
    assert price([work], soc, kind, MemoryShares(active + 1, {0: miss / 2})).occupancy[0] >= now
    assert price([work], soc, kind, MemoryShares(active, {0: miss})).occupancy[0] >= now
    assert price([work._replace(again=False)], soc, kind, MemoryShares(active, {0: miss / 2})).occupancy[0] <= now


@settings(max_examples=200, deadline=None)
@given(WORKS, st.sampled_from(sorted(CHIPS)), SHARES)
def test_more_work_never_takes_less(work: Work, chip: str, memory: MemoryShares) -> None:
    soc, kind = load_soc(chip), CHIPS[chip]
    if isinstance(work, MoveWork):
        grown: list[Work] = [work._replace(bursts=work.bursts + 1)]
    elif isinstance(work, CubeWork):
        grown = [work._replace(**{axis: getattr(work, axis) + 1}) for axis in "mkn"]
    elif isinstance(work, VectorWork):
        grown = [work._replace(repeats=work.repeats + 1), work._replace(bank_conflicts=work.bank_conflicts + 1)]
    else:
        assert isinstance(work, Load3dWork)
        grown = [work._replace(nbytes=work.nbytes + 512)]
    now = price([work], soc, kind, memory).occupancy[0]
    assert all(price([other], soc, kind, memory).occupancy[0] >= now for other in grown)


@settings(max_examples=300, deadline=None)
@given(MOVES, st.sampled_from(sorted(CHIPS)), SHARES)
def test_no_transfer_beats_its_port_or_its_share_of_the_memory(work: MoveWork, chip: str, memory: MemoryShares) -> None:
    soc, kind = load_soc(chip), CHIPS[chip]
    nbytes = work.bursts * work.burst_bytes
    ps = int(price([work], soc, kind, memory).occupancy[0])
    rows = [row for name, row in soc.mte.paths.items() if name.partition(":")[0] == work.path]
    port = max(row.bytes_per_cycle for row in rows)
    assert ps >= nbytes / port * 1e6 / soc.cores.clock_mhz * 0.999
    if work.path.startswith("GM"):
        active = min(memory.active_cores, core_count(soc, kind))
        fetched = nbytes * float(memory.miss[0]) * active
        assert ps >= fetched / (soc.memory.read_gbps * soc.memory.read_only_factor) * 1000 * 0.999
