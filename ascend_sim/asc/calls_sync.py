"""Synchronisation: flags between pipes, barriers, flags between cores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ascend_sim.asc.machine import Core, current, no_pipe
from ascend_sim.asc.params import DataCopyParams
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor
from ascend_sim.isa.enums import EVENT_PIPES, PIPE_OF, HardEvent, PipeID
from ascend_sim.isa.instr import CROSS_FLAG_IDS, Pipe, ScalarWork
from ascend_sim.isa.legality import ChipRules, InstructionError, source_place

SCALAR_SYNC = ScalarWork("sync")


@lru_cache(maxsize=4096)
def _flag(rules: ChipRules, kind: str, call: str, event: int, event_id: int) -> tuple[Pipe, Pipe]:
    """(source, destination) pipe of a legal flag."""
    pair = EVENT_PIPES.get(event)
    if pair is None:
        raise InstructionError(call, "event", event, "expected a HardEvent")
    if not 0 <= event_id < rules.flag_ids:
        raise InstructionError(call, "event_id", event_id, f"{rules.name} has ids 0..{rules.flag_ids - 1}")
    for pipe in pair:
        if (pipe == Pipe.FIX and not rules.fixpipe) or no_pipe(pipe, kind):
            rule = f"this core ({kind}) has no pipe {pipe.name}"
            raise InstructionError(call, "event", HardEvent(event).name, rule)
    return pair


def set_flag(event: HardEvent, event_id: int = 0) -> None:
    """Post flag ``event_id`` of the pair when the source pipe has finished everything issued before."""
    core = current()
    src, dst = _flag(core.rules, core.kind, "set_flag", event, event_id)
    if core.tb is not None:
        core.tb.set_flag(src, dst, event_id, source_place() if core.debug else None)
    if core.memory is not None:
        key = (int(event), event_id)
        core.flags[key] = core.flags.get(key, 0) + 1


def wait_flag(event: HardEvent, event_id: int = 0) -> None:
    """Block the destination pipe until the flag is posted, and consume it."""
    core = current()
    src, dst = _flag(core.rules, core.kind, "wait_flag", event, event_id)
    if core.tb is not None:
        core.tb.wait_flag(src, dst, event_id, source_place() if core.debug else None)
    if core.memory is not None:
        key = (int(event), event_id)
        posted = core.flags.get(key, 0)
        if not posted:
            raise InstructionError(
                "wait_flag", f"{HardEvent(event).name} {event_id}", 0, "no set_flag precedes it: the core would hang"
            )
        core.flags[key] = posted - 1


def pipe_barrier(pipe: PipeID) -> None:
    """Order work within one pipe, or all pipes (PIPE_ALL)."""
    core = current()
    target = PIPE_OF.get(pipe)
    if target is None or target == Pipe.S:
        raise InstructionError("pipe_barrier", "pipe", pipe, "expected PIPE_V, M, MTE1, MTE2, MTE3, FIX or ALL")
    if core.tb is not None:
        core.tb.barrier(target, source_place() if core.debug else None)


def data_sync_barrier(arg0: Any = 0) -> None:
    """Scalar unit waits for outstanding memory accesses."""
    current().emit(Pipe.S, SCALAR_SYNC)


def scalar_instructions(count: int, routine: str = "bookkeeping") -> None:
    """``count`` instructions of the scalar unit that the program does not spell out: reading tiling data, computing
    addresses. They hold up dispatch and have no effect on values. ``routine`` names a piece of code with a row in the
    chip's ``scalar.work`` table: ``count`` runs of it."""
    if count < 0:
        raise InstructionError("scalar_instructions", "count", count, "must be at least 0")
    if count:
        current().emit(Pipe.S, ScalarWork(routine, count))


def _cross(core: Core, call: str, flag_id: int, mode_id: int, pipe: PipeID) -> Pipe:
    if not core.rules.split:
        raise InstructionError(call, "chip", core.rules.name, "flags between cores exist on split chips only")
    if not 0 <= flag_id < CROSS_FLAG_IDS:
        raise InstructionError(call, "flag_id", flag_id, f"must lie in 0..{CROSS_FLAG_IDS - 1}")
    if mode_id not in (0, 1, 2):
        raise InstructionError(call, "mode_id", mode_id, "0 (all cores), 1 (AIVs of a group) or 2 (AIC and AIVs)")
    target = PIPE_OF.get(pipe)
    if target is None or target == Pipe.ALL or no_pipe(target, core.kind):
        raise InstructionError(call, "pipe", pipe, f"is no pipe of this core ({core.kind})")
    return target


def cross_core_set_flag(flag_id: int, mode_id: int, pipe: PipeID) -> None:
    """Post a flag to other cores when ``pipe`` has finished: mode 0 all cores of this kind, 1 the AIVs of a group,
    2 from AIC to its AIVs or from the AIVs to their AIC (which needs both)."""
    core = current()
    target = _cross(core, "cross_core_set_flag", flag_id, mode_id, pipe)
    if core.tb is not None:
        core.tb.cross_set(flag_id, mode_id, target, source_place() if core.debug else None)
    if core.baton is not None:
        core.baton.post(core, flag_id, mode_id)


def cross_core_wait_flag(flag_id: int, mode_id: int = 2, pipe: PipeID = PipeID.PIPE_S) -> None:
    """Block ``pipe`` until the flag has been posted by the other side."""
    core = current()
    target = _cross(core, "cross_core_wait_flag", flag_id, mode_id, pipe)
    if core.tb is not None:
        core.tb.cross_wait(flag_id, target, source_place() if core.debug else None)
    if core.baton is not None:
        core.baton.wait(core, flag_id)
    elif core.memory is not None:
        raise InstructionError("cross_core_wait_flag", "flag_id", flag_id, "no other core runs in this launch")


def sync_all(
    gm_workspace: GlobalTensor | None = None, ub_workspace: LocalTensor | None = None, used_cores: int = 0,
    is_aiv_only: bool = True,
) -> None:  # fmt: skip
    """Barrier over all cores of the launch: by flags on split chips, through global memory with workspaces."""
    core = current()
    if gm_workspace is None:
        if not core.rules.split:
            raise InstructionError("sync_all", "gm_workspace", None, "a chip without flags between cores needs it")
        if core.tb is not None:
            place = source_place() if core.debug else None
            pipe = Pipe.MTE3 if core.vector_side else Pipe.FIX
            core.tb.barrier(Pipe.ALL, place)
            core.tb.cross_set(CROSS_FLAG_IDS - 1, 0, pipe, place)
            core.tb.cross_wait(CROSS_FLAG_IDS - 1, Pipe.S, place)
    elif core.tb is not None and ub_workspace is not None:
        _software_barrier(core, gm_workspace, ub_workspace, used_cores or core.block_num)
    if core.baton is not None:
        core.baton.barrier(core)
    elif core.memory is not None and core.block_num > 1:
        raise InstructionError(
            "sync_all", "launch", "sequential", "blocks must run together: launch with cooperative=True"
        )


def _software_barrier(core: Core, gm: GlobalTensor, ub: LocalTensor, cores: int) -> None:
    """Trace of the barrier through global memory: write the own counter, read everybody's."""
    from ascend_sim.asc.calls_move import data_copy

    memory, core.memory = core.memory, None
    try:
        pipe_barrier(PipeID.PIPE_ALL)
        data_copy(gm, ub, DataCopyParams(1, 1))
        set_flag(HardEvent.MTE3_MTE2, 0)
        wait_flag(HardEvent.MTE3_MTE2, 0)
        data_copy(ub, gm, DataCopyParams(1, cores))
        set_flag(HardEvent.MTE2_S, 0)
        wait_flag(HardEvent.MTE2_S, 0)
    finally:
        core.memory = memory
