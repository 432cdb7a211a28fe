"""The public rows of one instruction or one data path, and what the simulator says to each."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ascend_sim import asc
from ascend_sim.soc import Soc, load_soc

from . import cube, paths, vector
from .measure import isolated, stream
from .tiles import read_matrix

DATA = Path(__file__).parent.parent / "data" / "instr_transfer_host_calibration.csv"
GIB = 2**30
TYPES = {
    "FP16": "float16", "FP32": "float32", "BF16": "bfloat16", "INT4": "int4", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32",
}  # fmt: skip
NAMES = {"VECTORDUP": "vdup", "VCMPVS": "vcmps", "VCONVDEQ": "vconv_deq", "VCONVVDEQ": "vconv_vdeq",
         "VMRGSORT": "vmrgsort4"}  # fmt: skip
KINDS = ("instruction", "path")
RECORDED = "recorded"  # put into the trace as it is
NO_CALL = f"{RECORDED}: the kernel language has no call for it"


@dataclass(frozen=True)
class Outcome:
    """One row: cycles (us for whole kernels) measured and simulated; ``simulated`` None with the reason in ``note``."""

    id: str
    kind: str
    chip: str
    what: str
    unit: str
    measured: float
    simulated: float | None
    note: str = ""

    @property
    def error(self) -> float | None:
        return None if self.simulated is None else self.simulated / self.measured - 1


def outcomes(path: Path = DATA) -> Iterator[Outcome]:
    """Every instruction and path row of a 910B chip."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not re.fullmatch(r"910B\d", row["chip"]):
                continue
            if row["level"] == "instr":
                yield _instruction(row)
            elif row["id"].startswith("KPP-"):
                yield _path(row)
            elif row["id"].startswith("ADK-dc"):
                yield _matrix(row)


@lru_cache(maxsize=8)
def chip(name: str) -> Soc:
    return load_soc(f"Ascend{name}")


def _instruction(row: dict[str, str]) -> Outcome:
    soc = chip(row["chip"])
    measured, what = float(row["value"]), f"{row['op']} {row['dtype']} {row['shapes']}"
    if row["op"].startswith("MMAD"):
        m, k, n = (int(x) for x in re.findall(r"\d+", row["shapes"])[:3])
        # the 910B3 series is of single instructions: 23 cycles for none, the 910B1 series of back-to-back ones
        alone = row["chip"] == "910B3"
        make = cube.prepare(m, k, n)
        found = isolated(make, soc, "AIC", asc.PipeID.PIPE_M) if alone else stream(make, soc, "AIC")
        return Outcome(row["id"], "instruction", row["chip"], what, "cycles", measured, found)
    op, types = operands(row["op"], row["dtype"])
    match = re.search(r"(\d+) elements \((\d+) repeats", row["shapes"])
    assert match is not None, row["shapes"]
    elements, repeats = int(match[1]), int(match[2])
    if op not in ("vmrgsort4",):
        repeats = elements // vector.width(*types)
    make_call = vector.prepare(op, types, repeats)
    note = NO_CALL
    if make_call is not None:
        try:
            found = stream(make_call, soc, "AIV")
            return Outcome(row["id"], "instruction", row["chip"], what, "cycles", measured, found)
        except asc.InstructionError as error:
            note = f"{RECORDED}: {error}"
    found = stream(vector.record(op, work_type(op, types), repeats), soc, "AIV")
    return Outcome(row["id"], "instruction", row["chip"], what, "cycles", measured, found, note)


def operands(name: str, dtypes: str) -> tuple[str, tuple[str, ...]]:
    """Machine name and types (sources, then destination) of an instruction row."""
    types = tuple(TYPES[t] for t in dtypes.split("/") if t in TYPES)
    op = NAMES.get(name, name.lower())
    if op in ("vmaxs", "vmins", "vadds", "vmuls", "vlrelu", "vaxpy", "vcmps"):  # the scalar is listed as an operand
        types = (types[0], types[-1])
    return op, types


def work_type(op: str, types: tuple[str, ...]) -> str:
    return types[0] if types[0] == types[-1] else f"{types[0]}_{types[-1]}"


def _path(row: dict[str, str]) -> Outcome:
    soc, path = chip(row["chip"]), row["op"]
    shape, value = row["shapes"], float(row["value"])
    fractals = int(shape[7:]) if shape.startswith("repeat=") else 0
    nbytes = fractals * paths.FRACTAL or round(float(shape.split()[0]) * 1024)
    mhz = soc.cores.clock_mhz
    measured = nbytes / (value * GIB) * mhz * 1e6
    cycles = re.search(r"total_cycles=(\d+) task_time_us=([\d.]+)", row["extra"])
    if cycles and path.startswith("GM"):  # taken at the clock that these two say, whatever the chip is called
        measured *= int(cycles[1]) / float(cycles[2]) / mhz
    what = f"{path} {shape}"
    size = soc.buffers.ub_bytes
    if path.endswith("UB") and nbytes > size:
        return Outcome(row["id"], "path", row["chip"], what, "cycles", measured, None, f"does not fit {size} B")
    misses = row["chip"] == "910B1" and path == "GM_TO_UB"  # 45 B/cycle: the series that L2 does not serve
    make = paths.prepare(path, nbytes, bypass=misses)
    gm = paths.arguments(path, nbytes)
    found = stream(make, soc, paths.kind_of(path), gm, cold=misses)
    return Outcome(row["id"], "path", row["chip"], what, "cycles", measured, found)


def _matrix(row: dict[str, str]) -> Outcome:
    tile = re.search(r"tile (\d+),(\d+)", row["shapes"])
    assert tile is not None, row["shapes"]
    timing = read_matrix(chip(row["chip"]), int(tile[1]), int(tile[2]), "L1" in row["op"])
    what = f"{row['op']} {row['shapes']}"
    return Outcome(row["id"], "path", row["chip"], what, "us", float(row["value"]), timing.us)
