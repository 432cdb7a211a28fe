"""Chip descriptions: every figure of a simulated Ascend chip, typed, with unit, source and confidence.

Parameters are named here and nowhere else; their values live in ``configs/*.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def figure(unit: str, **kwargs: Any) -> Any:
    """A dataclass field whose TOML value must carry this unit."""
    return field(metadata={"unit": unit}, **kwargs)


@dataclass(frozen=True)
class Figure:
    """One figure as written in the file."""

    value: float | int | str | bool
    unit: str
    source: str
    confidence: str  # measured | documented | derived | guess


@dataclass(frozen=True)
class Chip:
    arch: str = figure("name")  # m100 | m200 | m300 | c100 | c220
    npu_arch: int = figure("number")
    split_cores: bool = figure("flag")  # AIC and AIV are separate cores (c220)
    has_fixpipe: bool = figure("flag")  # L0C leaves through FIX, else through V
    run_mode: int = figure("enum")  # 0 device, 1 host (acl.rt.get_run_mode)


@dataclass(frozen=True)
class Cores:
    ai_core_count: int = figure("cores")  # AIC on split chips, AI cores otherwise
    vector_core_count: int = figure("cores")  # AIV on split chips; stand-alone vector cores on 310P; else 0
    ai_cpu_count: int = figure("cores")
    clock_mhz: float = figure("MHz")
    vector_core_clock_mhz: float = figure("MHz")


@dataclass(frozen=True)
class Buffers:
    l0a_bytes: int = figure("B")
    l0b_bytes: int = figure("B")
    l0c_bytes: int = figure("B")
    l1_bytes: int = figure("B")
    ub_bytes: int = figure("B")  # usable by kernels
    bt_bytes: int = figure("B")  # 0: no bias table
    fb_bytes: int = figure("B")  # 0: no fixpipe buffer
    ub_banks: int = figure("banks")
    ub_bank_groups: int = figure("groups")


@dataclass(frozen=True)
class Cube:
    head_cycles: float = figure("cycles")  # occupancy of an mmad besides its fractals
    tail_cycles: float = figure("cycles")  # further latency until its result is visible
    fp16_cycles_per_fractal: float = figure("cycles")
    int8_cycles_per_fractal: float = figure("cycles")
    fp32_cycles_per_fractal: float = figure("cycles")  # 0: not supported
    hf32_cycles_per_fractal: float = figure("cycles")  # 0: not supported
    int4_cycles_per_fractal: float = figure("cycles")  # 0: not supported


@dataclass(frozen=True)
class Vector:
    """``cycles`` maps ``op`` or ``op:dtype`` to [first, per_repeat, tail]: occupancy of a one-repeat
    instruction in a stream, slope per further repeat, latency after the last repeat."""

    repeat_bytes: int = figure("B")
    instruction_cycles: float = figure("cycles")  # issue overhead each vector instruction adds
    counter_mode_cycles: float = figure("cycles")
    conflict_cycles: float = figure("cycles")
    scale: float = figure("factor")  # multiplies every entry of the cycle table
    cycles: dict[str, tuple[float, float, float]] = field(default_factory=dict, metadata={"table": True})


@dataclass(frozen=True)
class Path:
    """A data path: occupancy of one instruction is fixed + bursts x burst + bytes / rate cycles; its data is
    visible ``latency`` cycles after that."""

    fixed_cycles: float = figure("cycles")
    burst_cycles: float = figure("cycles")
    bytes_per_cycle: float = figure("B/cycle")
    latency_cycles: float = figure("cycles")


@dataclass(frozen=True)
class Mte:
    """``paths`` by name (``GM_L1``, ``GM_L1:nd2nz``, ``L1_L0A``, ``L1_L0A:3d``, ``UB_GM``, ``L0C_UB`` ...)."""

    paths: dict[str, Path] = field(default_factory=dict, metadata={"table": True})


@dataclass(frozen=True)
class Sync:
    flag_ids: int = figure("ids")
    queue_depth: int = figure("instructions")
    issue_cycles: float = figure("cycles")  # scalar unit, per dispatched instruction
    set_cycles: float = figure("cycles")
    wait_cycles: float = figure("cycles")
    barrier_cycles: float = figure("cycles")
    cross_core_cycles: float = figure("cycles")  # AIC <-> AIV flag


@dataclass(frozen=True)
class Memory:
    capacity_bytes: int = figure("B")
    kind: str = figure("name")  # HBM | DDR
    read_gbps: float = figure("GB/s")  # sustained HBM/DDR, reads (and write-backs mixed with them)
    write_gbps: float = figure("GB/s")  # sustained, write-only streams
    l2_bytes: int = figure("B")
    l2_read_gbps: float = figure("GB/s")  # all cores together
    l2_write_gbps: float = figure("GB/s")
    core_l1_bytes_per_cycle: float = figure("B/cycle")  # cap of one core's GM->L1 stream while all cores stream
    core_ub_bytes_per_cycle: float = figure("B/cycle")  # same for GM->UB
    short_burst_bytes: int = figure("B")  # bursts below this run at ``short_burst_factor`` of the cap
    short_burst_factor: float = figure("factor")
    unaligned_bytes_per_cycle: float = figure("B/cycle")  # source pitch not a multiple of 32 B
    miss_latency_cycles: float = figure("cycles")
    line_bytes: int = figure("B")


@dataclass(frozen=True)
class Launch:
    head_us: float = figure("us")  # launch outside the core: head + per_block x blocks
    per_block_us: float = figure("us")
    mix_head_us: float = figure("us")  # further cost of a MIX kernel
    cold_icache_us: float = figure("us")  # first run of a kernel's code after the caches were flushed
    model_gap_us: float = figure("us")  # between kernels of a loaded model
    model_execute_us: float = figure("us")  # per execute of a loaded model
    stream_gap_us: float = figure("us")  # between back-to-back tasks of an eager stream
    ai_cpu_task_us: float = figure("us")


@dataclass(frozen=True)
class Host:
    api_us: float = figure("us")  # a cheap runtime call
    launch_us: float = figure("us")  # enqueue of one kernel
    memcpy_call_us: float = figure("us")  # synchronous copy, besides its transfer
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
    d2d_gbps: float = figure("GB/s")  # inside one device
    d2d_fixed_us: float = figure("us")
    peer_gbps: float = figure("GB/s")  # to a neighbouring device
    peer_fixed_us: float = figure("us")


@dataclass(frozen=True)
class Limits:
    streams: int = figure("count")
    events: int = figure("count")
    stream_depth: int = figure("tasks")
    malloc_padding_bytes: int = figure("B")
    timestamp_tick_ns: float = figure("ns")


@dataclass(frozen=True)
class Soc:
    """One chip. ``name`` is the genuine soc name (``Ascend910B2``); ``figures`` maps ``section.key`` to the
    figure with its source; ``digest`` changes with any value."""

    name: str
    aliases: tuple[str, ...]
    chip: Chip
    cores: Cores
    buffers: Buffers
    cube: Cube
    vector: Vector
    mte: Mte
    sync: Sync
    memory: Memory
    launch: Launch
    host: Host
    link: Link
    limits: Limits
    figures: dict[str, Figure] = field(repr=False, hash=False, compare=False, default_factory=dict)
    digest: str = ""
