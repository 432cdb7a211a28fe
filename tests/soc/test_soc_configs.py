"""The packaged chips against public figures."""

from __future__ import annotations

import dataclasses

import pytest

from ascend_sim.soc import CONFIDENCES, SECTIONS, Soc, load_soc, soc_names

CHIPS = (
    "Ascend310",
    "Ascend310B1",
    "Ascend310B4",
    "Ascend310P1",
    "Ascend310P3",
    "Ascend910A",
    "Ascend910B",
    "Ascend910B1",
    "Ascend910B2",
    "Ascend910B3",
    "Ascend910B4",
    "Ascend910B4-1",
    "Ascend910ProB",
)
COUPLED = tuple(name for name in CHIPS if not name.startswith("Ascend910B") or name == "Ascend910B")
SPLIT = tuple(name for name in CHIPS if name not in COUPLED)


@pytest.fixture(autouse=True)
def _no_user_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_SIM_CONFIG_PATH", raising=False)
    monkeypatch.delenv("ASCEND_SIM_SOC", raising=False)


def peak_tflops(soc: Soc) -> float:
    return soc.cores.ai_core_count * soc.cores.clock_mhz * 1e6 * 4096 * 2 / soc.cube.fp16_cycles_per_fractal / 1e12


def test_all_thirteen_chips_are_packaged() -> None:
    assert soc_names() == tuple(sorted(CHIPS))


# fp16 TFLOPS published with three digits or more: hicann/oam-tools hardware-specs.md (910B1 counts 25 cores there),
# product data of 300I Pro (140 TOPS int8), 300T Pro (280), 300T (220), 200I A2 (20 TOPS int8).
@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("Ascend910B1", 378.88 * 24 / 25),
        ("Ascend910B2", 353.89),
        ("Ascend910B3", 294.91),
        ("Ascend910B4", 270),
        ("Ascend310P3", 70),
        ("Ascend910ProB", 280),
        ("Ascend910B", 220),
        ("Ascend310B1", 10),
    ],
)
def test_peak_fp16(name: str, tflops: float) -> None:
    assert peak_tflops(load_soc(name)) == pytest.approx(tflops, rel=0.01)


# Marketing figures that are rounded by more than 1 %: 256 (Hot Chips 31; 32 cores x 8192 FLOP at 1 GHz are 262),
# 176 and 22 TOPS int8, 4 TFLOPS at the documented 500 MHz.
@pytest.mark.parametrize(
    ("name", "tflops"), [("Ascend910A", 256), ("Ascend310P1", 88), ("Ascend310", 11), ("Ascend310B4", 4)]
)
def test_peak_fp16_of_rounded_figures(name: str, tflops: float) -> None:
    assert peak_tflops(load_soc(name)) == pytest.approx(tflops, rel=0.025)


@pytest.mark.parametrize(
    ("name", "mhz", "cores", "kib", "l2_mib"),  # kib: L0C, L1, UB
    [
        ("Ascend310", 680, 2, (256, 1024, 248), 8),
        ("Ascend310B1", 1224, 1, (128, 1024, 248), 4),
        ("Ascend310P3", 1060, 8, (256, 1024, 256), 16),
        ("Ascend910A", 1000, 32, (256, 1024, 256), 32),
        ("Ascend910B1", 1850, 24, (128, 512, 192), 192),
        ("Ascend910B4", 1650, 20, (128, 512, 192), 96),
        ("Ascend910B4-1", 1650, 20, (128, 512, 192), 168),
    ],
)
def test_sizes(name: str, mhz: float, cores: int, kib: tuple[int, int, int], l2_mib: int) -> None:
    soc = load_soc(name)
    b = soc.buffers
    assert (soc.cores.clock_mhz, soc.cores.ai_core_count) == (mhz, cores)
    assert (b.l0a_bytes, b.l0b_bytes) == (65536, 65536)
    assert (b.l0c_bytes, b.l1_bytes, b.ub_bytes) == tuple(n * 1024 for n in kib)
    assert soc.memory.l2_bytes == l2_mib * 2**20


def test_910b_memory_rates_are_not_the_stale_ini_ones() -> None:
    b2, b4 = load_soc("910B2"), load_soc("910B4")
    assert 1220 <= b2.memory.read_gbps <= 1240  # fits over public kernels
    assert b2.memory.write_gbps == 1790  # ZerosLike > 1 GB
    assert 580 <= b4.memory.read_gbps <= 690  # large mixed vector kernels
    assert b4.memory.write_gbps == 790
    assert b2.mte.paths["L1_L0A"].bytes_per_cycle == 256  # the ini writes 512
    assert b2.mte.paths["L1_L0B"].bytes_per_cycle == 128
    assert b2.memory.core_l1_bytes_per_cycle == 77


def test_ddr_and_im2col_of_inference_chips_lie_where_network_fits_allow() -> None:
    ranges = [
        ("310P3", (180, 230), (64, 256)), ("310", (42, 55), (72, 128)), ("310B1", (55, 68), (75, 128)),
    ]  # fmt: skip
    for name, ddr, load3d in ranges:
        soc = load_soc(name)
        assert ddr[0] <= soc.memory.read_gbps <= ddr[1]
        assert load3d[0] <= soc.mte.paths["L1_L0A:3d"].bytes_per_cycle <= load3d[1]
        assert soc.memory.read_gbps <= soc.memory.peak_gbps


# Cost of a kernel between the work of two, at most what fits of whole networks leave for it and for filling the pipes.
@pytest.mark.parametrize(("name", "kernel_us"), [("310P3", 3.3), ("310", 10), ("310B1", 2)])
def test_kernel_cost_in_a_model(name: str, kernel_us: float) -> None:
    soc = load_soc(name)
    head = soc.launch.head_us + soc.launch.per_block_us * soc.cores.ai_core_count
    assert 0 < head + soc.launch.model_gap_us <= kernel_us
    assert 100 <= soc.launch.model_execute_us <= 200


def test_launch_cost_by_blocks_within_what_profiles_show() -> None:
    launch = load_soc("910B1").launch
    for blocks, low, high in [(1, 0.4, 0.54), (5, 0.62, 0.83), (14, 0.9, 1.2), (36, 1.8, 2.6)]:
        assert low <= launch.head_us + launch.per_block_us * blocks <= high


@pytest.mark.parametrize(
    ("op", "first", "slope"),
    [("vadd", 3, 2), ("vexp:float16", 4, 4), ("vdiv", 4, 4), ("vcadd:float16", 7, 7), ("vreducev2", 14, 14)],
)
def test_vector_rows_of_910b1(op: str, first: float, slope: float) -> None:
    assert load_soc("910B1").vector.cycles[op][:2] == (first, slope)


# hw-native-sys/pto-isa fits of isolated float32 instructions on 910B3: fixed + slope x repeats.
@pytest.mark.parametrize(
    ("op", "fixed"), [("vadd", 24), ("vmul", 25), ("vmax", 23), ("vmuls", 26), ("vdiv", 31), ("vexp", 31), ("vln", 33)]
)
def test_isolated_vector_instruction(op: str, fixed: float) -> None:
    assert load_soc("910B3").vector.cycles[op][2] == fixed


@pytest.mark.parametrize("name", CHIPS)
def test_every_figure_has_a_source_and_tables_are_complete(name: str) -> None:
    soc = load_soc(name)
    assert soc.name == name
    for section, cls in SECTIONS.items():
        for f in dataclasses.fields(cls):
            if not f.metadata.get("table"):
                assert soc.figures[f"{section}.{f.name}"].unit == f.metadata["unit"]
    for fig in soc.figures.values():
        assert fig.source and not fig.source.startswith("@") and fig.confidence in CONFIDENCES
    for op in ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vadds", "vmuls", "vmaxs", "vmins", "vaxpy", "vmla",
               "vmadd", "vmaddrelu", "vabs", "vrelu", "vlrelu", "vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vnot",
               "vand", "vor", "vshl", "vshr", "vdup", "vbrcb", "vconv", "vcmp", "vcmps", "vsel", "vreducev2",
               "vgather", "vgatherb", "vcadd", "vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin", "vcpadd",
               "vnchwconv", "vtranspose", "vcopy", "vaddrelu", "vsubrelu", "vmrgsort4", "vbitsort", "vconv_deq",
               "move_l0c_ub"):  # fmt: skip
        first, slope, _ = soc.vector.cycles[op]
        assert first >= slope > 0
    common = {"GM_L1", "GM_UB", "UB_GM", "L1_GM", "L1_L0A", "L1_L0B", "L1_L0A:3d", "L1_L0B:3d",
              "L1_L0A:3d_c04", "L1_L0A:transpose", "L1_L0B:transpose", "GM_L0A", "GM_L0B", "UB_UB"}  # fmt: skip
    assert common <= set(soc.mte.paths)


@pytest.mark.parametrize("name", SPLIT)
def test_split_chips(name: str) -> None:
    soc = load_soc(name)
    assert soc.chip.split_cores and soc.chip.has_fixpipe
    assert soc.cores.vector_core_count == 2 * soc.cores.ai_core_count
    assert {"L0C_GM", "L0C_GM:nz2nd", "L0C_L1", "L1_BT", "L1_FB", "GM_L1:nd2nz"} <= set(soc.mte.paths)


@pytest.mark.parametrize("name", COUPLED)
def test_coupled_chips(name: str) -> None:
    soc = load_soc(name)
    assert not soc.chip.split_cores
    assert soc.chip.has_fixpipe == name.startswith("Ascend310B")
    assert {"L0C_UB", "UB_L1", "L1_UB"} <= set(soc.mte.paths)
    assert soc.launch.mix_head_us == soc.launch.mix_full_us == 0
