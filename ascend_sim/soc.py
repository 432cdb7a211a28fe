"""Chip descriptions: every figure of a simulated Ascend chip, typed, with unit, source and confidence.

Parameters are named here and nowhere else; their values live in ``configs/*.toml``, which
`ascend_sim.soc_files` finds, merges and checks.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

CONFIDENCES = ("measured", "documented", "derived", "guess")  # best first
DEFAULT_SOC = "Ascend910B2"


class SocError(ValueError):
    """A chip that does not exist, or a chip description that cannot be used: names file and key."""


def figure(unit: str, meaning: str = "", **kwargs: Any) -> Any:
    """A dataclass field whose TOML value must carry this unit. ``meaning`` is one line for reports."""
    return field(metadata={"unit": unit, "meaning": meaning}, **kwargs)


@dataclass(frozen=True)
class Figure:
    """One figure as written in the file. ``value`` is a tuple for a row of a table."""

    value: float | int | str | bool | tuple[float, ...]
    unit: str
    source: str
    confidence: str  # one of CONFIDENCES


@dataclass(frozen=True)
class Board:
    """Names and ratings that tools print; nothing here decides a time."""

    short_name: str = figure("name", "family as the platform files call it: Ascend910B")
    smi_name: str = figure("name", "as npu-smi prints it: 910B2")
    product: str = figure("name")
    power_w: float = figure("W")
    idle_power_w: float = figure("W")


@dataclass(frozen=True)
class Chip:
    arch: str = figure("name", "m100 | m200 | m300 | c100 | c220")
    npu_arch: int = figure("number")
    split_cores: bool = figure("flag", "AIC and AIV are separate cores (c220)")
    has_fixpipe: bool = figure("flag", "L0C leaves through FIX, else through V")
    run_mode: int = figure("enum", "0 device, 1 host (acl.rt.get_run_mode)")


@dataclass(frozen=True)
class Cores:
    ai_core_count: int = figure("cores", "AIC on split chips, AI cores otherwise")
    vector_core_count: int = figure("cores", "AIV on split chips; stand-alone vector cores on 310P; else 0")
    ai_cpu_count: int = figure("cores")
    clock_mhz: float = figure("MHz", "core clock under load")
    vector_core_clock_mhz: float = figure("MHz")


@dataclass(frozen=True)
class Buffers:
    l0a_bytes: int = figure("B")
    l0b_bytes: int = figure("B")
    l0c_bytes: int = figure("B")
    l1_bytes: int = figure("B")
    ub_bytes: int = figure("B", "usable by kernels")
    bt_bytes: int = figure("B", "0: no bias table")
    fb_bytes: int = figure("B", "0: no fixpipe buffer")
    ub_banks: int = figure("banks")
    ub_bank_groups: int = figure("groups")


@dataclass(frozen=True)
class Cube:
    head_cycles: float = figure("cycles", "occupancy of an mmad besides its fractals")
    tail_cycles: float = figure("cycles", "further latency until its result is visible")
    floor_cycles: float = figure("cycles", "no mmad occupies the cube for less")
    fp16_cycles_per_fractal: float = figure("cycles", "one 16 x 16 x 16 product")
    int8_cycles_per_fractal: float = figure("cycles", "one 16 x 32 x 16 product")
    fp32_cycles_per_fractal: float = figure("cycles", "one 16 x 8 x 16 product; 0: not supported")
    hf32_cycles_per_fractal: float = figure("cycles", "one 16 x 8 x 16 product of HF32; 0: not supported")
    int4_cycles_per_fractal: float = figure("cycles", "one 16 x 64 x 16 product; 0: not supported")
    depthwise_cycles_per_fractal: float = figure("cycles", "16 pixels x 16 channels of one filter tap")


@dataclass(frozen=True)
class Vector:
    """``cycles`` maps ``op`` or ``op:dtype`` to [first, per_repeat, tail]: the least occupancy of an instruction in a
    stream, cycles per repeat, latency after the last repeat."""

    repeat_bytes: int = figure("B")
    instruction_cycles: float = figure("cycles", "issue overhead each vector instruction adds")
    counter_mode_cycles: float = figure("cycles", "further cost of an instruction in counter mode")
    conflict_cycles: float = figure("cycles", "one bank conflict of the unified buffer")
    scale: float = figure("factor", "multiplies every entry of the cycle table")
    cycles: dict[str, tuple[float, float, float]] = field(default_factory=dict, metadata={"table": True})


@dataclass(frozen=True)
class Path:
    """A data path. An on-chip move occupies its pipe for fixed + bursts x burst + bytes / rate cycles, a transfer to or
    from global memory for the longer of fixed + bursts x burst (requests) and bytes / rate (port); neither for less
    than ``floor``. Its data is visible ``latency`` cycles after that."""

    fixed_cycles: float = figure("cycles")
    burst_cycles: float = figure("cycles")
    bytes_per_cycle: float = figure("B/cycle")
    latency_cycles: float = figure("cycles")
    floor_cycles: float = figure("cycles", default=0.0)


@dataclass(frozen=True)
class Mte:
    """``paths`` by name (``GM_L1``, ``GM_L1:nd2nz``, ``L1_L0A``, ``L1_L0A:3d``, ``UB_GM``, ``L0C_UB`` ...).

    ``L1_L0A:3d`` is im2col with consecutive pixels, ``:3d_strided`` with a column stride above 1, ``:3d_c04`` the
    small-channel (4) layout; ``L0C_UB:float32_float16`` is the move that also converts."""

    paths: dict[str, Path] = field(default_factory=dict, metadata={"table": True})


@dataclass(frozen=True)
class Scalar:
    """What the scalar unit does besides issuing the instructions of a program, by class of kernel (`Launch.code`):
    ``start`` before the first instruction, ``operands`` with every instruction it dispatches. ``work``: one run of a
    named routine (`asc.scalar_instructions`). Rows that are not there: nothing more."""

    start: dict[str, float] = field(default_factory=dict, metadata={"table": True})
    operands: dict[str, float] = field(default_factory=dict, metadata={"table": True})
    work: dict[str, float] = field(default_factory=dict, metadata={"table": True})


@dataclass(frozen=True)
class Sync:
    flag_ids: int = figure("ids")
    queue_depth: int = figure("instructions")
    issue_cycles: float = figure("cycles", "scalar unit, per dispatched instruction")
    set_cycles: float = figure("cycles")
    wait_cycles: float = figure("cycles")
    barrier_cycles: float = figure("cycles")
    cross_core_cycles: float = figure("cycles", "AIC <-> AIV flag")


@dataclass(frozen=True)
class Memory:
    capacity_bytes: int = figure("B")
    kind: str = figure("name", "HBM | DDR")
    read_gbps: float = figure("GB/s", "sustained HBM/DDR, reads (and write-backs mixed with them)")
    write_gbps: float = figure("GB/s", "sustained, write-only streams")
    read_only_factor: float = figure("factor", "read-only streams run at this times read_gbps")
    peak_gbps: float = figure("GB/s", "HBM/DDR interface, for rooflines and reports")
    l2_kind: str = figure("name", "cache | buffer (310: placed by the compiler)")
    l2_bytes: int = figure("B")
    l2_policy: str = figure("name", "lru | random: which chunk makes room for a new one")
    l2_read_gbps: float = figure("GB/s", "L2 to all cores together")
    l2_write_gbps: float = figure("GB/s", "all cores together to L2")
    core_l1_bytes_per_cycle: float = figure("B/cycle", "cap of one core's GM->L1 stream while all cores stream")
    core_ub_bytes_per_cycle: float = figure("B/cycle", "cap of one core's GM->UB stream while all cores stream")
    core_miss_bytes_per_cycle: float = figure("B/cycle", "most that one core can have in flight from memory")
    core_ub_write_bytes_per_cycle: float = figure("B/cycle", "what L2 takes of one core's UB->GM stream")
    short_burst_bytes: int = figure("B", "bursts below this are short: they run at a fraction of the cap")
    short_burst_factor: float = figure("factor", "fraction of the cap that short bursts reach")
    partial_line_bytes: int = figure("B", "further traffic of a burst that does not start on a line")
    unaligned_bytes_per_cycle: float = figure("B/cycle", "one core's rate at a GM pitch or start off 32 B")
    odd_write_cycles: float = figure("cycles", "further cycles of a move UB->GM of a line or more that starts off 32 B")
    miss_latency_cycles: float = figure("cycles", "further latency of data that misses L2")
    miss_burst_cycles: float = figure("cycles", "further cycles of a burst (row) that misses")
    miss_overlap: float = figure("share", "hits beside misses of a stream: 0 in turn, 1 while memory brings the others")
    miss_replay_cycles: float = figure("cycles", "further cycles of a replayed transfer that misses")
    line_bytes: int = figure("B")


@dataclass(frozen=True)
class Launch:
    head_us: float = figure("us", "launch outside the core: head + per_block x blocks")
    per_block_us: float = figure("us", "launch cost of each block")
    mix_head_us: float = figure("us", "further cost of a MIX kernel: mix_head + mix_full x blocks / AI cores")
    mix_full_us: float = figure("us", "see mix_head_us")
    cold_icache_us: float = figure("us", "first run of a kernel's code after the caches were flushed")
    model_gap_us: float = figure("us", "between kernels of a loaded model")
    model_execute_us: float = figure("us", "per execute of a loaded model")
    stream_gap_us: float = figure("us", "between back-to-back tasks of an eager stream")
    ai_cpu_task_us: float = figure("us", "one task on the AI CPU")
    # By class of code (`Launch.code` of a kernel): [flushed, network], what its first run costs after the caches were
    # flushed (in place of ``cold_icache_us``), and what a run after other kernels costs in a network.
    code: dict[str, tuple[float, float]] = field(default_factory=dict, metadata={"table": True})


@dataclass(frozen=True)
class Host:
    api_us: float = figure("us", "a cheap runtime call")
    launch_us: float = figure("us", "enqueue of one kernel")
    eager_us: float = figure("us", "one operator called from PyTorch, enqueue of its kernel included")
    memcpy_call_us: float = figure("us", "synchronous copy, besides its transfer")
    memcpy_async_us: float = figure("us")
    event_us: float = figure("us")
    sync_us: float = figure("us")
    set_device_us: float = figure("us")
    malloc_us: float = figure("us")


@dataclass(frozen=True)
class Link:
    h2d_gbps: float = figure("GB/s")
    d2h_gbps: float = figure("GB/s")
    pageable_factor: float = figure("factor")
    h2d_fixed_us: float = figure("us")
    d2h_fixed_us: float = figure("us")
    d2d_gbps: float = figure("GB/s", "inside one device")
    d2d_fixed_us: float = figure("us")
    peer_gbps: float = figure("GB/s", "to a neighbouring device")
    peer_fixed_us: float = figure("us")


@dataclass(frozen=True)
class Limits:
    streams: int = figure("count")
    events: int = figure("count")
    stream_depth: int = figure("tasks")
    malloc_padding_bytes: int = figure("B")
    timestamp_tick_ns: float = figure("ns")


@dataclass(frozen=True)
class Dvpp:
    """Media units. Each kind is a number of equal servers, a job occupies one; 0 units: the chip has none."""

    vpc_units: int = figure("units", "image processing: resize, crop, paste, colour")
    vpc_mpixel_per_s: float = figure("Mpx/s", "one unit, larger of input and output picture")
    jpegd_units: int = figure("units", "JPEG decoders")
    jpegd_mpixel_per_s: float = figure("Mpx/s", "one unit")
    jpegd_software_mpixel_per_s: float = figure("Mpx/s", "JPEG kinds that the decoder leaves to software")
    jpege_units: int = figure("units", "JPEG encoders")
    jpege_mpixel_per_s: float = figure("Mpx/s", "one unit")
    pngd_units: int = figure("units", "PNG decoders")
    pngd_mpixel_per_s: float = figure("Mpx/s", "one unit")
    vdec_units: int = figure("units", "video decoders")
    vdec_mpixel_per_s: float = figure("Mpx/s", "one unit")
    venc_units: int = figure("units", "video encoders")
    venc_mpixel_per_s: float = figure("Mpx/s", "one unit")
    task_us: float = figure("us", "fixed part of every media task")


@dataclass(frozen=True, eq=False)
class Soc:
    """One chip. ``name`` is the genuine soc name (``Ascend910B2``); ``figures`` maps ``section.key`` (table rows:
    ``vector.cycles.vadd``, ``mte.paths.GM_L1``) to the figure with its source. ``digest`` changes with any value;
    two chips are equal, and hash alike, when their digests are. ``texts``: the values of each section as text."""

    name: str
    aliases: tuple[str, ...]
    board: Board
    chip: Chip
    cores: Cores
    buffers: Buffers
    cube: Cube
    vector: Vector
    mte: Mte
    scalar: Scalar
    sync: Sync
    memory: Memory
    launch: Launch
    host: Host
    link: Link
    limits: Limits
    dvpp: Dvpp
    figures: dict[str, Figure] = field(repr=False, default_factory=dict)
    digest: str = field(init=False, default="")
    texts: dict[str, str] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.texts.update((name, _canonical(getattr(self, name))) for name in SECTIONS)
        text = self.name + "".join(f"|{name}:{body}" for name, body in self.texts.items())
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest()[:20])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Soc) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def tiling_key(self) -> tuple[Any, ...]:
        """Everything a trace may depend on: instruction set, core counts, buffer sizes, L2 size, flag ids.

        Equal keys: the same traces are valid; clocks, rates and latencies are free."""
        parts: list[Any] = []
        for section in (self.chip, self.buffers):
            parts.extend(getattr(section, f.name) for f in dataclasses.fields(section) if f.name != "run_mode")
        cores = (self.cores.ai_core_count, self.cores.vector_core_count)
        return (*parts, *cores, self.memory.l2_bytes, self.sync.flag_ids)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Index in `CONFIDENCES` of every figure's confidence."""
        order = {word: rank for rank, word in enumerate(CONFIDENCES)}
        return {key: order[figure.confidence] for key, figure in self.figures.items()}

    def confidence(self, *keys: str) -> str:
        """Worst confidence among figures. A key is a figure (``memory.read_gbps``), a row (``mte.paths.GM_L1``) or
        a prefix of them (``memory``, ``vector.cycles``); no key means every figure. `SocError` if a key is unknown."""
        worst = 0
        for key in keys or tuple(SECTIONS):
            if key in self.figures:
                found = [self.figures[key]]
            else:
                found = [fig for name, fig in self.figures.items() if name.startswith(key + ".")]
            if not found:
                raise SocError(f"{self.name} has no figure '{key}'" + closest(key, self.figures))
            worst = max(worst, *(CONFIDENCES.index(fig.confidence) for fig in found))
        return CONFIDENCES[worst]

    def meaning(self, key: str) -> str:
        """One line on what a figure (``memory.read_gbps``, ``mte.paths.GM_L1``) stands for; empty where the name says
        it all. `SocError` if the key is unknown."""
        if key not in self.figures:
            raise SocError(f"{self.name} has no figure '{key}'" + closest(key, self.figures))
        return _meaning(*key.split(".", 2))

    def override(self, changes: Mapping[str, Any]) -> Soc:
        """A copy with other values, for sweeps: ``soc.override({"memory.read_gbps": 900})``.

        Keys are ``section.key``, or ``key`` alone where only one section has it; rows of tables are
        ``vector.cycles.vadd`` (three numbers), ``mte.paths.GM_L1.bytes_per_cycle`` (one number). Two keys move more
        than one figure: ``memory.hbm_gbps`` sets ``read_gbps`` and scales ``write_gbps`` with it, and
        ``ai_core_count`` of a chip with split cores scales ``vector_core_count`` (unless that is given too).
        `SocError` names an unknown key or a value of the wrong type."""
        from ascend_sim import soc_files

        return soc_files.apply_overrides(self, changes)


SECTIONS: dict[str, type[Any]] = {
    "board": Board,
    "chip": Chip,
    "cores": Cores,
    "buffers": Buffers,
    "cube": Cube,
    "vector": Vector,
    "mte": Mte,
    "scalar": Scalar,
    "sync": Sync,
    "memory": Memory,
    "launch": Launch,
    "host": Host,
    "link": Link,
    "limits": Limits,
    "dvpp": Dvpp,
}


def load_soc(name: str | os.PathLike[str] | None = None) -> Soc:
    """The chip called ``name`` as users type it (``Ascend310P3``, ``310p3``, ``910b2``), or described by a ``.toml``
    file. None: environment ``ASCEND_SIM_SOC``, else Ascend910B2. Files in the directories of
    ``ASCEND_SIM_CONFIG_PATH`` come before the packaged ones. Results are cached until a file changes.

    `SocError` for an unknown chip or a wrong description."""
    from ascend_sim import soc_files

    return soc_files.load(name)


def resolve_name(name: str | os.PathLike[str] | None = None) -> tuple[str, str | None]:
    """(canonical soc name or path, notice to show once or None) for a name as users type it.

    A notice is due when the name stands for a family (``910B``, ``310P``) or when nothing was chosen."""
    from ascend_sim import soc_files

    chosen = soc_files.resolve(name)
    return chosen.name, chosen.notice


def soc_names() -> tuple[str, ...]:
    """Names of all chips `load_soc` finds, sorted."""
    from ascend_sim import soc_files

    return soc_files.names()


def closest(word: str, choices: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    """``"; did you mean a, b?"`` for the choices that resemble ``word``, else an empty string."""
    import difflib

    lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word.lower(), list(lower), n=3, cutoff=0.6)
    return f"; did you mean {', '.join(lower[n] for n in near)}?" if near else ""


def _meaning(section: str, name: str, row: str = "") -> str:
    if row:
        return _TABLES[section, name].format(row=row)
    found: str = SECTIONS[section].__dataclass_fields__[name].metadata.get("meaning", "")
    return found


# What a row of a table stands for.
_TABLES = {
    ("vector", "cycles"): "cost of {row}: least occupancy in a stream, cycles per repeat, latency after the last",
    ("mte", "paths"): "data path {row}: fixed, per burst, bytes per cycle, latency, least occupancy",
    ("launch", "code"): "fetch of the code of {row} kernels: after a flush, in a network",
    ("scalar", "start"): "scalar unit before the first instruction of {row} kernels: tiling data, queues, objects",
    ("scalar", "operands"): "scalar unit with each instruction of {row} kernels, besides its issue: operands, loops",
    ("scalar", "work"): "scalar routine {row}",
}


def _canonical(section: Any) -> str:
    """Text of a section's values that does not depend on table order."""
    parts = []
    for f in dataclasses.fields(section):
        value = getattr(section, f.name)
        parts.append(f"{f.name}={sorted(value.items()) if isinstance(value, dict) else value!r}")
    return ";".join(parts)
