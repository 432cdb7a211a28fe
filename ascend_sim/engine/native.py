"""The native replay engine, where it was built (`available`). Same machine and results as `replay.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.machine import Core, SyncTimes, busy_times, check, cross_sources, uses_cross_flags
from ascend_sim.engine.result import BlockTiming
from ascend_sim.isa.instr import CROSS_FLAG_IDS

try:
    from ascend_sim.engine import _native_lib as _native  # type: ignore[attr-defined, unused-ignore]
except ImportError:  # no C compiler at install
    _native = None

_DEADLOCK, _NO_MEMORY = 1, 2
_NO_SOURCES = np.zeros(CROSS_FLAG_IDS + 1, np.int32)
_NOBODY = np.zeros(1, np.int32)


def available() -> bool:
    """Whether the engine was built on this machine."""
    return _native is not None


def replay(cores: Sequence[Core], sync: SyncTimes, *, compress: bool = True) -> BlockTiming:
    """Run the programs of ``cores`` together; same result and errors as `ascend_sim.engine.replay.replay`.

    Raises RuntimeError when the engine is not built, MemoryError when memory runs out.
    """
    if _native is None:
        raise RuntimeError("the native engine is not built on this machine (no C compiler at install)")
    check(cores, sync)
    ffi, lib = _native.ffi, _native.lib
    linked = any(uses_cross_flags(c.program) for c in cores)
    sources = cross_sources(cores) if linked else None
    inputs = ffi.new("ascend_core[]", len(cores))
    alive: list[Any] = []  # buffers the C side reads
    for k, core in enumerate(cores):
        program, target = core.program, inputs[k]
        begin, source = (_NO_SOURCES, _NOBODY) if sources is None else _table(sources[k])
        target.length = len(program)
        for name, words, dtype, array in (
            ("op", "uint8_t[]", np.uint8, program.op),
            ("pipe", "uint8_t[]", np.uint8, program.pipe),
            ("arg", "int32_t[]", np.int32, program.arg),
            ("occupancy", "int64_t[]", np.int64, core.occupancy),
            ("latency", "int64_t[]", np.int64, core.latency),
            ("source_begin", "int32_t[]", np.int32, begin),
            ("source", "int32_t[]", np.int32, source),
        ):
            buffer = ffi.from_buffer(words, np.ascontiguousarray(array, dtype))
            alive.append(buffer)
            setattr(target, name, buffer)
    costs = ffi.new("ascend_sync *", (sync.issue, sync.set, sync.wait, sync.barrier, sync.cross, sync.queue_depth))
    ends = ffi.new("int64_t[]", len(cores))
    result = lib.ascend_replay(len(cores), inputs, costs, int(compress), ends)
    if result == _NO_MEMORY:
        raise MemoryError("the native replay engine ran out of memory")
    if result == _DEADLOCK:
        from ascend_sim.engine.replay import replay as explain

        return explain(cores, sync, compress=compress)  # raises DeadlockError, in words
    return BlockTiming(
        end=max(ends),
        busy=tuple(busy_times(c) for c in cores),
        instructions=sum(c.program.executed for c in cores),
    )


def _table(owed: dict[int, tuple[int, ...]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sources of each cross-core flag as offsets and a flat list (a flag nobody sets owes itself to nobody)."""
    begin = np.zeros(CROSS_FLAG_IDS + 1, np.int32)
    flat: list[int] = []
    for flag in range(CROSS_FLAG_IDS):
        flat.extend(owed.get(flag, ()))
        begin[flag + 1] = len(flat)
    return begin, np.array(flat or [0], np.int32)
