"""The counter groups of msprof besides PipeUtilization: columns and values of one launch.

Columns and formulas are those of Ascend/msprof (analysis/csrc, metric.cpp and the calculators): bandwidths are bytes
over core time in GiB/s although the columns say GB/s; ratios are cycles of a kind over all cycles of the cores; counts
of operations end in ``fops``. What the hardware counts and the model does not have (bank groups, a vector unit that
waits for its own port, instruction caches) is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ascend_sim.engine.result import KernelTiming
from ascend_sim.ops.schema import OpCall
from ascend_sim.profiling import pmu, traffic
from ascend_sim.profiling.traffic import Traffic
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

REQUEST_BYTES = 128  # of L2 and main memory counters
FRACTAL_BYTES, L0C_FRACTAL_BYTES, REPEAT_BYTES = 512, 1024, 256
CUBE_OPS = {"float16": 8192, "bfloat16": 8192, "int8": 16384, "uint8": 16384, "float32": 4096, "hf32": 4096,
            "int4": 32768}  # fmt: skip
LANES = {"float32": 64, "float16": 128, "bfloat16": 128, "int32": 64, "int16": 128}  # counted by vector_fops; others 32

BANDWIDTHS = {
    "Memory": ("ub_read", "ub_write", "l1_read", "l1_write", "main_mem_read", "main_mem_write", "l2_read", "l2_write"),
    "MemoryL0": ("l0a_read", "l0a_write", "l0b_read", "l0b_write", "l0c_read", "l0c_write", "l0c_read_bw_cube",
                 "l0c_write_bw_cube"),
    "MemoryUB": ("ub_read_bw_vector", "ub_write_bw_vector", "ub_read_bw_scalar", "ub_write_bw_scalar"),
}  # fmt: skip
PLAIN = {
    "ArithmeticUtilization": ("mac_fp16_ratio", "mac_int8_ratio", "vec_fp32_ratio", "vec_fp16_ratio", "vec_int32_ratio",
                              "vec_misc_ratio", "cube_fops", "vector_fops"),
    "ResourceConflictRatio": ("vec_bankgroup_cflt_ratio", "vec_bank_cflt_ratio", "vec_resc_cflt_ratio"),
    "L2Cache": ("write_cache_hit", "write_cache_miss_allocate", "r0_read_cache_hit", "r0_read_cache_miss_allocate",
                "r1_read_cache_hit", "r1_read_cache_miss_allocate"),
    "MemoryAccess": ("read_main_memory_datas(KB)", "write_main_memory_datas(KB)", "GM_to_L1_datas(KB)",
                     "L0C_to_L1_datas(KB)", "L0C_to_GM_datas(KB)", "GM_to_UB_datas(KB)", "UB_to_GM_datas(KB)"),
}  # fmt: skip
GROUPS = (*PLAIN, *BANDWIDTHS)
PATHS = ("GM_L1", "L0C_L1", "L0C_GM", "GM_UB", "UB_GM")


def header(group: str, split: bool) -> list[str]:
    """Column names; those of split cores once for the cube cores and once for the vector cores."""
    if group in PLAIN:
        names = list(PLAIN[group])
    else:
        names = [f"{n}(GB/s)" if "_bw" in n else f"{n}_bw(GB/s)" for n in BANDWIDTHS[group]]
    return [prefix + name for prefix in ("aic_", "aiv_") for name in names] if split else names


def times(split: bool) -> list[str]:
    """The columns that stand before every group."""
    if split:
        return ["aicore_time(us)", "aic_total_cycles", "aiv_time(us)", "aiv_total_cycles"]
    return ["aicore_time(us)", "total_cycles"]


def values(group: str, event: Event, soc: Soc) -> list[object]:
    """`times` and the group's columns of a kernel; zeros where it has no trace."""
    timing: KernelTiming | None = event.args.get("timing")
    split = soc.chip.split_cores
    if timing is None:
        return [0] * (len(times(split)) + len(header(group, split)))
    call: OpCall | None = event.args.get("call")
    found = traffic.of_launch(call, event.args.get("part", 0), soc)
    head: list[object] = []
    rest: list[object] = []
    for kind in ("AIC", "AIV") if split else ("AICORE",):
        core = pmu.counters(timing, kind, soc)
        head += [f"{core.time_us:.3f}", core.total_cycles]
        rest += [_shown(v) for v in WRITERS[group](found.get(kind, Traffic()), core, timing, soc)]
    return [*head, *rest]


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _arithmetic(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    cube, vector = sum(t.fractals.values()), sum(t.repeats.values())
    mac = core.pipes.get("mac", (0, 0.0))[1]
    vec = core.pipes.get("vec", (0, 0.0))[1]
    half = t.fractals["float16"] + t.fractals["bfloat16"]
    whole = t.fractals["int8"] + t.fractals["uint8"]
    named = {"float32": 0, "float16": 0, "int32": 0}
    named |= {k: t.repeats[k] for k in named}
    misc = vector - sum(named.values())
    fops = sum(n * CUBE_OPS.get(k, 8192) for k, n in t.fractals.items())
    return [
        mac * half / cube if cube else 0.0, mac * whole / cube if cube else 0.0,
        *(vec * n / vector if vector else 0.0 for n in (*named.values(), misc)),
        fops, sum(n * LANES.get(k, 32) for k, n in t.repeats.items()),
    ]  # fmt: skip


def _conflicts(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    total = core.total_cycles
    return [0, min(1.0, t.conflicts * soc.vector.conflict_cycles / total) if total else 0.0, 0]


def _l2(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    """Requests of this kind of core: its part of the launch's by its part of the bytes."""
    read, write = _global(t)
    missed = timing.gm_read - timing.l2_hit
    hit = read * timing.l2_hit / timing.gm_read if timing.gm_read else 0.0
    lost = read * missed / timing.gm_read if timing.gm_read else 0.0
    return [write // REQUEST_BYTES, 0, round(hit / REQUEST_BYTES), round(lost / REQUEST_BYTES), 0, 0]


def _access(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    read, write = _main(t, timing)
    return [read / 1024, write / 1024, *(t.moved[path] / 1024 for path in PATHS)]


def _global(t: Traffic) -> tuple[int, int]:
    """Bytes from and to global memory."""
    read = sum(n for path, n in t.moved.items() if path.startswith("GM_"))
    return read, sum(n for path, n in t.moved.items() if path.endswith("_GM"))


def _main(t: Traffic, timing: KernelTiming) -> tuple[float, float]:
    """Bytes from and to memory behind L2."""
    read, write = _global(t)
    missed = timing.gm_read - timing.l2_hit
    back = max(timing.hbm_bytes - missed, 0)
    return (
        read * missed / timing.gm_read if timing.gm_read else 0.0,
        write * min(back / timing.gm_write, 1.0) if timing.gm_write else 0.0,
    )


def _into(t: Traffic, memory: str) -> int:
    return sum(n for path, n in t.moved.items() if path.endswith(f"_{memory}"))


def _out_of(t: Traffic, memory: str) -> int:
    return sum(n for path, n in t.moved.items() if path.startswith(f"{memory}_"))


def _bandwidths(core: pmu.CoreCounters, *nbytes: float) -> list[float]:
    seconds = core.time_us / 1e6
    return [n / seconds / 2**30 if seconds else 0.0 for n in nbytes]


def _memory(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    return _bandwidths(
        core, _out_of(t, "UB"), _into(t, "UB"), _out_of(t, "L1"), _into(t, "L1"), *_main(t, timing), *_global(t)
    )


def _l0(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    fractals = sum(t.fractals.values())
    used, sums = fractals * FRACTAL_BYTES, fractals * L0C_FRACTAL_BYTES
    out = _out_of(t, "L0C")
    return _bandwidths(core, used, _into(t, "L0A"), used, _into(t, "L0B"), out, sums, sums, sums)


def _ub(t: Traffic, core: pmu.CoreCounters, timing: KernelTiming, soc: Soc) -> list[float]:
    return _bandwidths(core, t.operands * REPEAT_BYTES, sum(t.repeats.values()) * REPEAT_BYTES, 0, 0)


Writer = Callable[[Traffic, pmu.CoreCounters, KernelTiming, Soc], list[float]]
WRITERS: dict[str, Writer] = {
    "ArithmeticUtilization": _arithmetic, "ResourceConflictRatio": _conflicts, "L2Cache": _l2, "MemoryAccess": _access,
    "Memory": _memory, "MemoryL0": _l0, "MemoryUB": _ub,
}  # fmt: skip
