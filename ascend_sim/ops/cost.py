"""Time of an operator on a chip: its kernels' traces replayed, or the roofline when it has no kernel.

``op_timing`` plans the launches of a call, traces each once per tiling inputs of the chip, and replays them
against the device's L2. Operators without a kernel are charged the roofline of their compulsory traffic and work
plus one launch, and are marked ``estimated``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ascend_sim.engine.memory import CHUNK_BYTES
from ascend_sim.engine.result import KernelTiming
from ascend_sim.engine.simulate import MATTERS, head_ps, simulate_kernel, weakest
from ascend_sim.engine.timing import core_count, cycle_ps, exact, round_ps
from ascend_sim.isa.legality import InstructionError, rules_for
from ascend_sim.ops.registry import Launch, NoKernel, find, find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.work import work_of
from ascend_sim.soc import CONFIDENCES

if TYPE_CHECKING:
    from ascend_sim.engine.memory import L2
    from ascend_sim.engine.trace import KernelTrace
    from ascend_sim.soc import Soc

_TRACE_CACHE = 4096  # plans kept
_ALIGN = 512  # bytes; workspaces start on such boundaries
_DEFAULT_BASE = 1 << 30  # where tensors lie when the caller names no addresses
_WORKSPACE_BASE = 1 << 46  # one scratch area, used by every operator in turn


@dataclass(frozen=True)
class OpTiming:
    """Time of one operator, alone on an idle device.

    ``kernels`` are its launches in order (empty when ``estimated`` or without device work); ``task_ps`` is launch
    heads plus slowest cores; ``core_ps`` without the heads; ``busy_ps`` per pipe, summed over launches, mean of the
    used cores; ``bound`` the busiest pipe; ``confidence`` that of the weakest figure used; ``reason`` why the time
    is only estimated, ``roofline`` the figures of that estimate.
    """

    kernels: tuple[KernelTiming, ...]
    task_ps: int
    core_ps: int
    cycles: int
    blocks: int
    bound: str
    estimated: bool
    confidence: str
    gm_read: int
    gm_write: int
    l2_hit: int
    hbm_bytes: int
    busy_ps: tuple[tuple[str, int], ...] = ()
    mhz: float = 0.0
    reason: str = ""
    roofline: tuple[str, ...] = ()

    @property
    def us(self) -> float:
        return self.task_ps / 1e6

    def pipes(self) -> dict[str, dict[str, float]]:
        """``{pipe: {"busy_cycles", "ratio"}}``; the ratio is to the makespan of the slowest core."""
        return {
            name: {"busy_cycles": round(busy * self.mhz / 1e6), "ratio": busy / self.core_ps if self.core_ps else 0.0}
            for name, busy in self.busy_ps
        }

    def rests_on(self) -> dict[str, float]:
        """Figures of the chip that matter, most important first: each with the time that it decides as a share of the
        task (pipes overlap, so the shares may sum to more than 1)."""
        shares: dict[str, float] = dict.fromkeys(self.roofline, 1.0)
        for kernel in self.kernels:
            for key, share in kernel.rests_on:
                shares[key] = shares.get(key, 0.0) + share * kernel.core_ps
            for key, us in kernel.head_rests_on:
                shares[key] = shares.get(key, 0.0) + us * 1e6
            shares["cores.clock_mhz"] = shares.get("cores.clock_mhz", 0.0) + kernel.core_ps
        if self.kernels:
            shares = {key: ps / self.task_ps for key, ps in shares.items()}
        matter = {key: share for key, share in shares.items() if share >= MATTERS}
        return dict(sorted(matter.items(), key=lambda item: (-item[1], item[0])))

    def figures(self, soc: Soc) -> dict[str, int]:
        """How many of the figures that matter (`rests_on`) are measured, documented, derived and guessed."""
        known = Counter(soc.figures[key].confidence for key in self.rests_on() if key in soc.figures)
        return {word: known[word] for word in CONFIDENCES}

    def bytes(self) -> dict[str, int]:
        """Bytes moved to and from global memory, and how many of them hit in L2."""
        return {"gm_read": self.gm_read, "gm_write": self.gm_write, "l2_hit": self.l2_hit}


def check_types(call: OpCall, soc: Soc) -> None:
    """Raise ValueError when a tensor is of a type that the chip does not know at all (its operators are no slower
    there: they do not exist)."""
    if any(name.startswith("bf16") for name in rules_for(soc).conversions):
        return
    for index, spec in enumerate(call.inputs):
        if spec is not None and spec.dtype == "bfloat16":
            raise ValueError(
                f"{call.type}: input {index} is bfloat16, which {soc.name} does not have; expected float16 or float32"
            )


@dataclass(frozen=True)
class _Planned:
    """Launches of a call: what each kernel argument is, and the trace. ``reason`` set: no kernel."""

    launches: tuple[tuple[tuple[tuple[str, int], ...], KernelTrace], ...]
    reason: str = ""


_plans: OrderedDict[Any, _Planned] = OrderedDict()
_sums: OrderedDict[tuple[Any, ...], OpTiming] = OrderedDict()


def _plan(call: OpCall, soc: Soc) -> _Planned:
    key = (call, soc.tiling_key)
    found = _plans.get(key)
    if found is not None:
        _plans.move_to_end(key)
        return found
    planned = _make_plan(call, soc)
    _plans[key] = planned
    if len(_plans) > _TRACE_CACHE:
        _plans.popitem(last=False)
    return planned


def _make_plan(call: OpCall, soc: Soc) -> _Planned:
    from ascend_sim import ops

    ops.load()
    plan = find_kernel(call.type)
    if plan is None:
        return _Planned((), f"{call.type} has no kernel")
    try:
        launches: Sequence[Launch] = plan(call, soc)
        return _Planned(tuple((tuple(launch.args), _named(launch.trace(), call)) for launch in launches))
    except NoKernel as error:
        return _Planned((), str(error) or f"no kernel of {call.type} takes this call")
    except InstructionError as error:  # a type or size that the kernel did not refuse, but the chip does
        return _Planned((), f"the kernel of {call.type} issues what {soc.name} does not have: {error}")


def _named(trace: KernelTrace, call: OpCall) -> KernelTrace:
    """The trace under the name of its binary: kernels that share a program are compiled once per operator and input
    types, and the instruction cache (`L2.first_run`) knows them by that."""
    types = "_".join(spec.dtype for spec in call.inputs if spec is not None)
    return replace(trace, name=f"{call.type}_{trace.name}_{types}")


def traces(call: OpCall, soc: Soc) -> tuple[KernelTrace, ...]:
    """Traces of a call's launches; empty when it has no kernel."""
    return tuple(trace for _, trace in _plan(call, soc).launches)


def op_timing(
    call: OpCall, soc: Soc, l2: L2 | None = None, addresses: Sequence[int] | None = None, *, timeline: bool = False
) -> OpTiming:
    """Time of ``call`` on ``soc``.

    ``l2`` is the device's cache, which the operator changes (None: everything hits). ``addresses`` are the device
    addresses of the inputs (0 for absent ones) and then of the outputs; None lays tensors out one after the other,
    at the same place for equal calls. Raises `UnknownOpError` for an operator that is not registered.
    """
    from ascend_sim import ops

    ops.load()
    op = find(call.type)
    if op is None:
        raise ops.UnknownOpError(f"operator {call.type!r} is not in the registry")
    if op.host or not any(spec.size for spec in call.outputs):
        return OpTiming((), 0, 0, 0, 0, "none", False, CONFIDENCES[0], 0, 0, 0, 0)
    planned = _plan(call, soc)
    places = _addresses(call, addresses)
    if planned.reason or not planned.launches:
        return _roofline(call, soc, l2, places, planned.reason or f"{call.type} plans no launch")
    kernels = []
    for args, trace in planned.launches:
        where = _argument_addresses(args, trace, call, places)
        kernels.append(simulate_kernel(trace, soc, l2, where, timeline=timeline))
    return _sum(tuple(kernels), soc)


def _addresses(call: OpCall, given: Sequence[int] | None) -> list[int]:
    specs: list[TensorSpec | None] = [*call.inputs, *call.outputs]
    if given is not None:
        if len(given) != len(specs):
            raise ValueError(
                f"addresses has {len(given)} entries; expected one per input and output of {call.type}: {len(specs)}"
            )
        return list(given)
    out, at = [], _DEFAULT_BASE
    for spec in specs:
        out.append(at)
        at += -(-(0 if spec is None else spec.nbytes) // CHUNK_BYTES) * CHUNK_BYTES  # no two share a cache chunk
    return out


def _argument_addresses(
    args: Sequence[tuple[str, int]], trace: KernelTrace, call: OpCall, places: Sequence[int]
) -> list[int]:
    """Address of every kernel argument; workspaces follow each other in the scratch area."""
    out, scratch = [], _WORKSPACE_BASE
    for (role, index), gm in zip(args, trace.args, strict=True):
        if role == "in":
            out.append(places[index])
        elif role == "out":
            out.append(places[len(call.inputs) + index])
        else:
            out.append(scratch)
            scratch += -(-gm.nbytes // _ALIGN) * _ALIGN
    return out


def _sum(kernels: tuple[KernelTiming, ...], soc: Soc) -> OpTiming:
    """Launches together; remembered by the timings themselves, which repeated launches share."""
    key = (soc.digest, *map(id, kernels))
    found = _sums.get(key)
    if found is None:  # what is remembered holds its timings, so their ids are not used again
        found = _sums[key] = _summed(kernels, soc)
        if len(_sums) > _TRACE_CACHE:
            _sums.popitem(last=False)
    return found


def _summed(kernels: tuple[KernelTiming, ...], soc: Soc) -> OpTiming:
    task = sum(k.task_ps for k in kernels)
    heads = [key for k in kernels for key, us in k.head_rests_on if us * 1e6 >= MATTERS * task]
    busy: dict[str, int] = {}
    for kernel in kernels:
        for pipe, ps in kernel.busy_ps.items():
            busy[pipe] = busy.get(pipe, 0) + ps
    return OpTiming(
        kernels=kernels,
        task_ps=task,
        core_ps=sum(k.core_ps for k in kernels),
        cycles=sum(k.cycles for k in kernels),
        blocks=max(k.blocks for k in kernels),
        bound=max(busy, key=lambda p: (busy[p], p)) if busy else "scalar",
        estimated=False,
        confidence=max((*(k.confidence for k in kernels), weakest(soc, heads)), key=CONFIDENCES.index),
        gm_read=sum(k.gm_read for k in kernels),
        gm_write=sum(k.gm_write for k in kernels),
        l2_hit=sum(k.l2_hit for k in kernels),
        hbm_bytes=sum(k.hbm_bytes for k in kernels),
        busy_ps=tuple(busy.items()),
        mhz=max(kernels, key=lambda k: k.core_ps).mhz,
    )


# ---- roofline


def memory_ps(soc: Soc, hit: int, missed: int, written: int) -> Fraction:
    """Time that traffic takes at full rate: L2 hits, memory reads and memory writes (bytes) one after the other."""
    memory = soc.memory
    fast = exact(max(memory.l2_read_gbps, memory.read_gbps))
    slow_write = exact(max(memory.l2_write_gbps, memory.write_gbps))
    return 1000 * (hit / fast + missed / exact(memory.read_gbps) + written / slow_write)


def _roofline(call: OpCall, soc: Soc, l2: L2 | None, places: Sequence[int], reason: str) -> OpTiming:
    op = find(call.type)
    assert op is not None
    family = op.family
    reads, writes, missed = 0, sum(spec.nbytes for spec in call.outputs), 0
    for index, spec in enumerate([*call.inputs, *call.outputs]):
        if spec is None:
            continue
        output = index >= len(call.inputs)
        reads += 0 if output else spec.nbytes
        if l2 is not None:
            missed += l2.access(places[index], spec.nbytes, output)
    traffic = memory_ps(soc, reads - missed, missed, writes)
    compute, pipe = compute_ps(call, soc, family)
    core = round_ps(max(traffic, compute))
    kind = "AIC" if pipe == "cube" and soc.chip.split_cores else "AIV" if soc.chip.split_cores else "AICORE"
    blocks = core_count(soc, kind)
    bound = pipe if compute > traffic else "mte2" if reads >= writes else "mte3"
    head = head_ps(soc, kind, blocks)
    if family == "aicpu":
        head = max(head, round_ps(exact(soc.launch.ai_cpu_task_us) * 1_000_000))
    mhz = soc.cores.clock_mhz
    return OpTiming(
        kernels=(),
        task_ps=head + core,
        core_ps=core,
        cycles=round(core * mhz / 1e6),
        blocks=blocks,
        bound=bound,
        estimated=True,
        confidence=CONFIDENCES[-1],
        gm_read=reads,
        gm_write=writes,
        l2_hit=reads - missed,
        hbm_bytes=missed,
        busy_ps=((bound, core),),
        mhz=mhz,
        reason=reason,
        roofline=("cores.clock_mhz" if compute > traffic else "memory.read_gbps", "launch.head_us"),
    )


def compute_ps(call: OpCall, soc: Soc, family: str) -> tuple[Fraction, str]:
    """Time of the arithmetic at the peak rate of all cores, and the unit that does it (``cube`` or ``vector``)."""
    work = work_of(call, family)
    cube = soc.cube
    rate = {"float32": cube.fp32_cycles_per_fractal, "int8": cube.int8_cycles_per_fractal,
            "uint8": cube.int8_cycles_per_fractal, "int4": cube.int4_cycles_per_fractal}  # fmt: skip
    per_fractal = rate.get(work.dtype, 0.0) or cube.fp16_cycles_per_fractal
    macs_per_fractal = 16 * 16 * {"float32": 8, "int8": 32, "uint8": 32, "int4": 64}.get(work.dtype, 16)
    kind = "AIC" if soc.chip.split_cores else "AICORE"
    # steps of a recurrent network wait for each other: without a word between cores one core does them all
    shared = 1 if family == "recurrent" else core_count(soc, kind)
    cube_ps = Fraction(work.macs, macs_per_fractal) * exact(per_fractal) * cycle_ps(soc, kind) / shared
    kind = "AIV" if soc.chip.split_cores else "AICORE"
    lanes = soc.vector.repeat_bytes // max(work.item_bytes, 1)
    shared = 1 if family == "recurrent" else core_count(soc, kind)
    vector_ps = Fraction(work.vector, lanes) * cycle_ps(soc, kind) / shared
    return (cube_ps, "cube") if cube_ps >= vector_ps else (vector_ps, "vector")
