"""Instructions one at a time: what public sources measured or document of single instructions, and the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ascend_sim import asc
from ascend_sim.soc import Soc, load_soc

from . import cube, paths, vector
from .measure import isolated, stream

P = asc.TPosition
F32, S16 = ("float32", "float32"), ("int16", "int16")
FEW, MANY = 8, 64  # repeats, fractals between which a slope is taken


class Line(NamedTuple):
    """A figure of a table: ``simulated`` beside ``stated``, both in cycles or cycles per piece."""

    what: str
    stated: float
    simulated: float

    @property
    def error(self) -> float:
        return self.simulated / self.stated - 1


# hw-native-sys/pto-isa: fits of one tile instruction on an idle 910B3, (per repeat, fixed)
TILE_INSTRUCTIONS = [
    ("vadd", (*F32, "float32"), 2.11, 24), ("vsub", (*F32, "float32"), 2.11, 24), ("vmul", (*F32, "float32"), 2.3, 25),
    ("vmax", (*F32, "float32"), 2.01, 23), ("vmin", (*F32, "float32"), 2.01, 23), ("vmuls", F32, 1, 26),
    ("vdiv", (*F32, "float32"), 4.03, 31), ("vexp", F32, 2.0, 31), ("vln", F32, 2.0, 33), ("vrsqrt", F32, 1.07, 24),
    ("vrelu", F32, 1.0, 23), ("vmaxs", F32, 1.0, 23), ("vlrelu", F32, 1.03, 26),
    ("vand", (*S16, "int16"), 2.03, 20), ("vor", (*S16, "int16"), 2.03, 20),
]  # fmt: skip


def vector_lines(soc: Soc) -> Iterator[Line]:
    """Slope and fixed part of single vector instructions, and what counting elements adds."""

    def alone(op: str, types: tuple[str, ...], repeats: int) -> float:
        make = vector.prepare(op, types, repeats)
        assert make is not None, op
        return isolated(make, soc, "AIV", asc.PipeID.PIPE_V)

    for op, types, slope, fixed in TILE_INSTRUCTIONS:
        low, high = alone(op, types, FEW), alone(op, types, MANY)
        per_repeat = (high - low) / (MANY - FEW)
        yield Line(f"{op} {types[0]}, per repeat", slope, per_repeat)
        yield Line(f"{op} {types[0]}, fixed", fixed, low - FEW * per_repeat)
    yield Line("vgather uint32, one row of 64", 46.6, alone("vgather", ("uint32", "uint32"), 1))

    def counted() -> Callable[[], None]:
        dst, a, b = vector.tensors(*F32, "float32")
        return lambda: asc.add(dst, a, b, count=64 * FEW)

    masked = alone("vadd", (*F32, "float32"), FEW)
    yield Line("elements counted by the mask, more", 16, isolated(counted, soc, "AIV", asc.PipeID.PIPE_V) - masked)


def cube_lines(soc: Soc) -> Iterator[Line]:
    """Head and cycles per fractal of mmad, alone and back to back."""

    def alone(k: int, dtype: str = "float16", out: str = "float32") -> float:
        return isolated(cube.prepare(16, k, 16, dtype, out), soc, "AIC", asc.PipeID.PIPE_M)

    low, high = alone(16 * FEW), alone(16 * MANY)
    per_fractal = (high - low) / (MANY - FEW)
    yield Line("mmad float16 alone, per 16x16x16", 0.9996, per_fractal)
    yield Line("mmad float16 alone, head", 23.04, low - FEW * per_fractal)
    flow = [stream(cube.prepare(16, 16 * n, 16), soc, "AIC") for n in (FEW, MANY)]
    per_fractal = (flow[1] - flow[0]) / (MANY - FEW)
    yield Line("mmad float16 back to back, head", 2.13, flow[0] - FEW * per_fractal)
    int8 = [alone(32 * n, "int8", "int32") for n in (FEW, MANY)]
    yield Line("mmad int8, per 16x32x16", 1, (int8[1] - int8[0]) / (MANY - FEW))
    fp32 = [alone(8 * n, "float32") for n in (FEW, MANY)]
    yield Line("mmad float32, per 16x8x16", 2, (fp32[1] - fp32[0]) / (MANY - FEW))


def move_lines(soc: Soc) -> Iterator[Line]:
    """Fixed part and rate of single on-chip moves (asc-devkit tests/perf)."""
    mte1, fix = asc.PipeID.PIPE_MTE1, asc.PipeID.PIPE_FIX
    for what, make, pipe, unit, rate, fixed in (
        ("load2d L1 to L0A", lambda n: paths.prepare("L1_TO_L0A", n), mte1, 512, 256, 28),
        ("load2d L1 to L0B", lambda n: paths.prepare("L1_TO_L0B", n), mte1, 512, 128, 28),
        ("load3d L1 to L0A", lambda n: _window(P.A2, n), mte1, 512, 256, 50),
        ("load3d L1 to L0B", lambda n: _window(P.B2, n), mte1, 512, 128, 50),
        ("L1 to bias table", lambda n: paths.prepare("L1_TO_BT", n), mte1, 64, 32, 20),
        ("L1 to fixpipe buffer", lambda n: paths.prepare("L1_TO_FB", n), fix, 128, 32, 20),
        ("fixpipe L0C to L1, float32 to float16", _to_l1, fix, 512, 128, 20),
    ):
        low, high = (isolated(make(unit * n), soc, "AIC", pipe) for n in (1, 8))
        per_byte = (high - low) / (7 * unit)
        yield Line(f"{what}, B/cycle", rate, 1 / per_byte)
        yield Line(f"{what}, fixed", fixed, low - unit * per_byte)


def _window(position: asc.TPosition, nbytes: int) -> paths.Maker:
    """load3d of 16 consecutive pixels and ``nbytes`` / 32 channels."""

    def make() -> Callable[[], None]:
        channels = nbytes // 32
        src, dst = asc.LocalTensor("float16", P.A1), asc.LocalTensor("float16", position)
        params = asc.LoadData3DParamsV2((0, 0, 0, 0), 1, 16, channels, channels, 16, 0, 0)
        return lambda: asc.load_data(dst, src, params)

    return make


def _to_l1(nbytes: int) -> paths.Maker:
    def make() -> Callable[[], None]:
        rows = nbytes // 32
        src, dst = asc.LocalTensor("float32", P.CO1), asc.LocalTensor("float16", P.A1)
        params = asc.FixpipeParamsV220(16, rows, rows, 2 * rows, asc.QuantModes.F322F16)
        return lambda: asc.fixpipe(dst, src, params, asc.FixpipeConfig.cfg_nz())

    return make


def tables() -> Iterator[tuple[str, list[Line]]]:
    """(title, lines) of every table."""
    b3, b1 = load_soc("Ascend910B3"), load_soc("Ascend910B1")
    yield "single vector instructions, 910B3 (hw-native-sys/pto-isa)", list(vector_lines(b3))
    yield (
        "mmad, 910B3 alone and 910B1 back to back (Ascend/mskpp; int8, float32: hicann/asc-devkit)",
        [
            *(line for line in cube_lines(b3) if "back" not in line.what),
            *(line for line in cube_lines(b1) if "back" in line.what),
        ],
    )
    yield "single on-chip moves (hicann/asc-devkit)", list(move_lines(b1))
