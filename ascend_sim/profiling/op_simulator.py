"""The ``OPPROF_*`` tree of ``msprof op simulator``: what every core's pipes did, instruction by instruction.

Layout, lanes and colours are those of Ascend/msopprof (parse/data_visualizer), which MindStudio Insight reads. A core
runs what its first block asks for; where a block's source is known (kernels in ``asc``) instructions carry the line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ascend_sim.engine.result import KernelTiming, Slice
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.engine.timing import clock_mhz
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.isa.instr import CubeWork, Load3dWork, MoveWork, Pipe, VectorWork, Work
from ascend_sim.profiling import visualize
from ascend_sim.profiling.spans import length, merged
from ascend_sim.soc import Soc

# pipe -> lane, order of the lane, colour
LANES = {
    Pipe.S: ("SCALAR", 1, "startup"), Pipe.MTE1: ("MTE1", 3, "thread_state_running"),
    Pipe.M: ("CUBE", 4, "background_memory_dump"), Pipe.FIX: ("FIXP", 5, "thread_state_unknown"),
    Pipe.MTE2: ("MTE2", 6, "thread_state_iowait"), Pipe.V: ("VECTOR", 7, "cq_build_failed"),
    Pipe.MTE3: ("MTE3", 8, "rail_response"),
}  # fmt: skip
MNEMONICS = {"GM": "OUT"}
CODE_EXE = ("code", "call_count", "cycles", "running_time(us)")
INSTR_EXE = ("instr", "addr", "pipe", "call_count", "cycles", "running_time(us)", "detail")
FIRST_ADDRESS = 0x10000000


@dataclass(frozen=True)
class Kernel:
    """A launch to look into: its ``trace`` on ``soc``, and its time in the run it was taken from."""

    name: str
    type: str
    trace: KernelTrace
    soc: Soc


@dataclass
class Core:
    """One core of one launch, ``core<i>`` with its part of split cores behind a dot."""

    name: str
    index: int
    kind: str
    mhz: float
    slices: list[Slice]
    works: Sequence[Work]
    order: int = 0

    @cached_property
    def instructions(self) -> dict[tuple[int, Any], Instruction]:
        """By work and source line, in order of the first execution."""
        found: dict[tuple[int, Any], Instruction] = {}
        for s in self.slices:
            key = s.work, s.place
            into = found.get(key)
            if into is None:
                address = FIRST_ADDRESS + 4 * len(found)
                into = found[key] = Instruction(self.works[s.work], s.pipe, address, s.place)
            into.spans.append((s.start, s.end))
        return found

    def cycles(self, ps: int) -> int:
        return round(ps * self.mhz / 1e6)


@dataclass
class Instruction:
    work: Work
    pipe: Pipe
    address: int
    place: tuple[str, int] | None
    spans: list[tuple[int, int]] = field(default_factory=list)

    @property
    def code(self) -> str:
        return f"{self.place[0]}:{self.place[1]}" if self.place else ""

    @property
    def busy(self) -> int:
        """Sum of the durations of its executions, ps."""
        return length(self.spans)

    @property
    def running(self) -> int:
        """Time with at least one of them running, ps."""
        return length(merged(self.spans))


def write(kernels: Sequence[Kernel], parent: Path, now: datetime | None = None, cores: Iterable[int] = ()) -> Path:
    """Write a new ``OPPROF_*`` directory below ``parent`` and return it. ``cores``: only these (none: all)."""
    moment = now or datetime.now()
    root = parent / f"OPPROF_{moment:%Y%m%d%H%M%S}_{_letters(kernels)}"
    counts: dict[str, int] = {}
    wanted = set(cores)
    for kernel in kernels:
        number = counts[kernel.name] = counts.get(kernel.name, -1) + 1
        folder = root if len(kernels) == 1 else root / kernel.name / str(number)
        stamp = "" if len(kernels) == 1 else f"_{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
        _write_kernel(kernel, folder, stamp, wanted)
    return root


def _letters(kernels: Sequence[Kernel]) -> str:
    import hashlib

    text = repr([(k.name, k.trace.block_dim, k.soc.digest) for k in kernels])
    return "".join(chr(ord("A") + b % 26) for b in hashlib.sha256(text.encode()).digest()[:3])


def _write_kernel(kernel: Kernel, folder: Path, stamp: str, wanted: set[int]) -> None:
    (folder / "dump").mkdir(parents=True)
    found, timing = cores_of(kernel, wanted)
    simulator = folder / "simulator"
    for core in found:
        place = simulator / core.name
        place.mkdir(parents=True)
        _csv(place / f"{core.name}_code_exe{stamp}.csv", CODE_EXE, code_rows(core))
        _csv(place / f"{core.name}_instr_exe{stamp}.csv", INSTR_EXE, instr_rows(core))
        (place / "trace.json").write_text(json.dumps(core_trace(core)))
    trace = summary_trace(found)
    (simulator / "trace.json").write_text(json.dumps(trace))
    _csv(folder / "OpBasicInfo.csv", *_basic(kernel, timing))
    visualize.write(simulator / "visualize_data.bin", kernel, timing, found, trace)


def cores_of(kernel: Kernel, wanted: set[int] | None = None) -> tuple[list[Core], KernelTiming]:
    """Every core of the first wave with its timeline, and the launch's time (data in L2)."""
    trace, soc = kernel.trace, kernel.soc
    timing = simulate_kernel(trace, soc)
    timelines: dict[int, tuple[Slice, ...]] = {}
    found: list[Core] = []
    for index in range(timing.cores_used):
        if wanted and index not in wanted:
            continue
        block = trace.block_of[index]
        if block not in timelines:
            first = trace.block_of.index(block)  # timelines are those of the first block, so it goes to the front
            turned = replace(trace, block_of=(block, *trace.block_of[:first], *trace.block_of[first + 1 :]))
            timelines[block] = simulate_kernel(turned, soc, timeline=True).slices
        programs, kinds = trace.blocks[block].programs, trace.blocks[block].kinds
        vectors = 0
        for k, (program, kind) in enumerate(zip(programs, kinds, strict=True)):
            name, order = f"core{index}", 3 * index + 1
            if kind == "AIC":
                name = f"core{index}.cubecore0"
            elif kind == "AIV":
                number = vectors if trace.kind == "MIX" else index % 2
                core = index if trace.kind == "MIX" else index // 2
                name, order = f"core{core}.veccore{number}", 3 * core + 2 + number
                vectors += 1
            mine = sorted((s for s in timelines[block] if s.core == k), key=lambda s: (s.start, s.end))
            mhz = clock_mhz(soc, "AIC" if kind == "MIX" else kind)
            found.append(Core(name, index, kind, mhz, mine, program.works, order))
    return found, timing


def code_rows(core: Core) -> list[list[object]]:
    """Source lines, the most costly first."""
    by_line: dict[str, list[Instruction]] = {}
    for instruction in core.instructions.values():
        if instruction.place is not None:
            by_line.setdefault(instruction.code, []).append(instruction)
    rows: list[list[object]] = []
    for code, group in by_line.items():
        busy = sum(i.busy for i in group)
        running = length(merged(span for i in group for span in i.spans))
        rows.append([code, sum(len(i.spans) for i in group), core.cycles(busy), f"{running / 1e6:.2f}"])
    return sorted(rows, key=lambda row: (-int(str(row[2])), str(row[0])))


def instr_rows(core: Core) -> list[list[object]]:
    return [
        [mnemonic(i.work), hex(i.address), LANES[i.pipe][0], len(i.spans), core.cycles(i.busy),
         f"{i.running / 1e6:.2f}", detail(i.work)]
        for i in core.instructions.values()
    ]  # fmt: skip


def mnemonic(work: Work) -> str:
    if isinstance(work, MoveWork):
        source, _, target = work.path.partition("_")
        suffix = f".{work.mode.upper()}" if work.mode else ""
        return f"MOV_{MNEMONICS.get(source, source)}_TO_{MNEMONICS.get(target, target)}{suffix}"
    if isinstance(work, Load3dWork):
        return f"LOAD3D_{work.path.replace('_', '_TO_')}"
    if isinstance(work, CubeWork):
        return "MMAD"
    return (work.op or "SCALAR").upper()


def detail(work: Work) -> str:
    """Parameters as ``key:value``."""
    shown = {k: v for k, v in work._asdict().items() if v not in ("", False, -1)}
    return ", ".join(f"{k}:{v}" for k, v in shown.items())


def process_bytes(work: Work) -> int:
    """Bytes an execution moves or computes on."""
    if isinstance(work, MoveWork):
        return work.bursts * work.burst_bytes
    if isinstance(work, Load3dWork):
        return work.nbytes
    return 256 * work.repeats if isinstance(work, VectorWork) else 0


# -- traces ------------------------------------------------------------------------------------------------


def summary_trace(cores: Sequence[Core]) -> dict[str, Any]:
    """All cores: a process each, a row a pipe."""
    events: list[dict[str, Any]] = []
    for core in cores:
        pid = core.name
        events.append(_meta("process_sort_index", pid, "", {"sort_index": core.order}))
        for lane, order, _ in sorted({LANES[s.pipe] for s in core.slices}, key=lambda item: item[1]):
            events.append(_meta("thread_sort_index", pid, lane, {"sort_index": order}))
        events += [_slice(core, s, pid, LANES[s.pipe][0]) for s in core.slices]
    return {"displayTimeUnit": "ns", "profilingType": "op", "schemaVersion": 2, "traceEvents": events}


def core_trace(core: Core) -> dict[str, Any]:
    """One core: a process a pipe, as many rows below it as its instructions overlap."""
    events: list[dict[str, Any]] = []
    for pipe, (lane, order, _) in LANES.items():
        mine = [s for s in core.slices if s.pipe == pipe]
        if not mine:
            continue
        events.append(_meta("process_name", order, "", {"name": lane}))
        events.append(_meta("process_sort_index", order, "", {"sort_index": order}))
        ends: list[int] = []
        for s in mine:
            row = next((i for i, end in enumerate(ends) if end <= s.start), len(ends))
            ends[row : row + 1] = [s.end]
            events.append(_slice(core, s, order, f"{lane}_{row}"))
    return {"displayTimeUnit": "ns", "profilingType": "op", "schemaVersion": 1, "traceEvents": events}


def _meta(name: str, pid: Any, tid: Any, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _slice(core: Core, s: Slice, pid: Any, tid: str) -> dict[str, Any]:
    instruction = core.instructions[s.work, s.place]
    args = {"pc_addr": hex(instruction.address), "code": instruction.code, "detail": detail(instruction.work)}
    if nbytes := process_bytes(instruction.work):
        args["process_bytes"] = str(nbytes)
    return {
        "name": mnemonic(instruction.work), "cname": LANES[s.pipe][2], "ph": "X", "ts": s.start / 1e6,
        "dur": (s.end - s.start) / 1e6, "pid": pid, "tid": tid, "args": args,
    }  # fmt: skip


def _basic(kernel: Kernel, timing: KernelTiming) -> tuple[Sequence[str], list[list[object]]]:
    header = ["Op Name", "Op Type", "Task Duration(us)", "Block Dim", "Mix Block Dim", "Device Id", "Pid",
              "Current Freq", "Rated Freq"]  # fmt: skip
    mix = 2 * timing.blocks if timing.kind == "MIX" else 0
    row = [kernel.name, {"AIC": "cube", "AIV": "vector", "MIX": "mix"}.get(timing.kind, "aicore"), f"{timing.us:.3f}",
           timing.blocks, mix, 0, 0, f"{timing.mhz:g}", f"{timing.mhz:g}"]  # fmt: skip
    return header, [row]


def _csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(header)
        writer.writerows(rows)
