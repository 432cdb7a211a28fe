"""Waiting for other blocks through global memory: pairs of blocks, blocks in ascending order.

With values the order is real: blocks of a launch run together and wait for each other. In a trace each block's own
instructions are recorded (its flag is written by MTE3 and polled once by MTE2); how long it waits for another block
is not, and the trace says so.
"""

from __future__ import annotations

from ascend_sim.asc.calls_move import data_copy
from ascend_sim.asc.calls_sync import pipe_barrier, set_flag, wait_flag
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import DataCopyParams
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor
from ascend_sim.isa.buffers import BLOCK
from ascend_sim.isa.enums import HardEvent, PipeID
from ascend_sim.isa.legality import InstructionError

NOTE = "time that blocks wait for each other through global memory is not modelled"


def _require(core: Core, call: str, gm: GlobalTensor, ub: LocalTensor, gm_bytes: int, ub_bytes: int) -> None:
    if core.rules.family == "310B1":
        raise InstructionError(call, "chip", core.rules.name, "does not exist on this chip")
    if not core.vector_side:
        raise InstructionError(call, "core", core.kind, "works on vector cores only")
    core.rules.require_memory(call, "ub_workspace", ub.mem, "UB")
    if gm.end - gm.addr < gm_bytes:
        raise InstructionError(call, "gm_workspace", f"{gm.end - gm.addr} bytes", f"at least {gm_bytes} are needed")
    if ub.end - ub.addr < ub_bytes:
        raise InstructionError(call, "ub_workspace", f"{ub.end - ub.addr} bytes", f"at least {ub_bytes} are needed")


def _blocks(core: Core) -> int:
    return core.block_num * core.sub_block_num


def _slot(core: Core, call: str, gm: GlobalTensor, ub: LocalTensor, block_idx: int, event_id: int) -> int:
    """Bytes from the workspace's start to the flag of a pair."""
    blocks = _blocks(core)
    core.rules.require_range(call, "block_idx", block_idx, 0, blocks - 1)
    core.rules.require_range(call, "event_id", event_id, 0, 65535)
    at = blocks * BLOCK * event_id + block_idx * BLOCK
    _require(core, call, gm, ub, at + BLOCK, BLOCK)
    return at


def _trace_only(core: Core, gm: GlobalTensor, ub: LocalTensor, at: int, write: bool, blocks: int = 1) -> None:
    """Record the copies of a flag; values of flags live in the launch, not in memory."""
    memory, core.memory = core.memory, None
    try:
        pipe_barrier(PipeID.PIPE_ALL)
        flag = gm[at // gm.dtype.size :]
        if write:
            data_copy(flag, ub, DataCopyParams(1, blocks))
        else:
            data_copy(ub, flag, DataCopyParams(1, blocks))
        event = HardEvent.MTE3_S if write else HardEvent.MTE2_S
        set_flag(event, 0)
        wait_flag(event, 0)
    finally:
        core.memory = memory
    if NOTE not in core.notes:
        core.notes.append(NOTE)


def _alone(core: Core, call: str) -> None:
    if core.memory is not None and core.baton is None:
        raise InstructionError(
            call, "launch", "sequential", "blocks must run together: launch with cooperative=True"
        )


def ib_set(
    gm_workspace: GlobalTensor, ub_workspace: LocalTensor, block_idx: int, event_id: int, is_aiv_only: bool = True
) -> None:
    """Tell the block that waits on (``block_idx``, ``event_id``) with `ib_wait` that everything before is done."""
    core = current()
    at = _slot(core, "ib_set", gm_workspace, ub_workspace, int(block_idx), int(event_id))
    _trace_only(core, gm_workspace, ub_workspace, at, True)
    _alone(core, "ib_set")
    if core.baton is not None:
        core.baton.signal((gm_workspace.arg, gm_workspace.addr + at))


def ib_wait(
    gm_workspace: GlobalTensor, ub_workspace: LocalTensor, block_idx: int, event_id: int, is_aiv_only: bool = True
) -> None:
    """Wait for the `ib_set` with the same workspace, ``block_idx`` and ``event_id``, and consume it."""
    core = current()
    at = _slot(core, "ib_wait", gm_workspace, ub_workspace, int(block_idx), int(event_id))
    _trace_only(core, gm_workspace, ub_workspace, at, False)
    _alone(core, "ib_wait")
    if core.baton is not None:
        what = f"ib_set of block {block_idx}, event {event_id}"
        core.baton.await_signal(core, (gm_workspace.arg, gm_workspace.addr + at), what)


def init_determine_compute_workspace(gm_workspace: GlobalTensor, ub_workspace: LocalTensor) -> None:
    """Prepare the workspaces of `wait_pre_block` and `notify_next_block`."""
    core = current()
    _require(core, "init_determine_compute_workspace", gm_workspace, ub_workspace, *_ordered_bytes(core))
    _trace_only(core, gm_workspace, ub_workspace, 0, True, _blocks(core))


def _ordered_bytes(core: Core) -> tuple[int, int]:
    return _blocks(core) * BLOCK, _blocks(core) * BLOCK + BLOCK


def _number(core: Core) -> int:
    return core.block_idx * core.sub_block_num + core.sub_block_idx


def notify_next_block(gm_workspace: GlobalTensor, ub_workspace: LocalTensor) -> None:
    """Let the block after this one pass its `wait_pre_block`."""
    core = current()
    _require(core, "notify_next_block", gm_workspace, ub_workspace, *_ordered_bytes(core))
    _trace_only(core, gm_workspace, ub_workspace, _number(core) * BLOCK, True)
    _alone(core, "notify_next_block")
    if core.baton is not None:
        following = (_number(core) + 1) % _blocks(core)
        core.baton.signal((gm_workspace.arg, gm_workspace.addr, following))


def wait_pre_block(gm_workspace: GlobalTensor, ub_workspace: LocalTensor) -> None:
    """Wait until the block before this one has called `notify_next_block`, so that blocks pass in ascending order; the
    first block of the first round does not wait, of later rounds it waits for the last block."""
    core = current()
    _require(core, "wait_pre_block", gm_workspace, ub_workspace, *_ordered_bytes(core))
    _trace_only(core, gm_workspace, ub_workspace, 0, False, _blocks(core))
    _alone(core, "wait_pre_block")
    if core.baton is not None:
        me = _number(core)
        key = (gm_workspace.arg, gm_workspace.addr, me)
        if me == 0 and core.baton.first_time(key):
            return
        core.baton.await_signal(core, key, f"notify_next_block of block {(me - 1) % _blocks(core)}")
