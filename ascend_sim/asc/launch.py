"""Launches of kernels: traces for the engine, values on byte arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc.auto import AutoSync
from ascend_sim.asc.group import Group
from ascend_sim.asc.interleave import Baton
from ascend_sim.asc.machine import Core, current, on_core, run_on
from ascend_sim.asc.tensor import GlobalAddress
from ascend_sim.engine.trace import Block, GmArg, KernelTrace, Program, TraceBuilder
from ascend_sim.isa.buffers import BLOCK, POISON
from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import rules_for
from ascend_sim.soc import Soc

Bytes = NDArray[np.uint8]
Gm = tuple[str, Any, int, str]
ROLES = ("in", "out", "inout", "workspace")
KINDS = ("AICORE", "AIC", "AIV", "MIX")


def _programs(kind: str, ratio: int) -> list[tuple[str, int]]:
    """(core kind, sub block index) of the programs of one block."""
    if kind == "MIX":
        return [("AIC", 0), *(("AIV", i) for i in range(ratio))]
    return [(kind, 0)]


def vector_ratio(soc: Soc) -> int:
    """Vector cores per cube core of a split chip."""
    return max(soc.cores.vector_core_count // max(soc.cores.ai_core_count, 1), 1)


class Launch:
    """One kernel launch: implements `ascend_sim.ops.registry.Launch`.

    ``kernel`` is called as ``kernel(*addresses, **consts)`` with one `GlobalAddress` per entry of ``gm`` = (name,
    dtype, bytes, role). ``args`` says what each argument is to the operator: ("in", i), ("out", i) or
    ("workspace", k). ``kind`` is AICORE (coupled chips), AIC, AIV or MIX (split chips). ``signature(block_idx)`` names
    blocks that issue the same instructions; without it every block is traced. ``cooperative`` runs all blocks together
    (kernels that use `sync_all`). ``ratio`` vector cores serve each cube core of a MIX launch (the chip's by default).
    ``auto_sync`` inserts flags between dependent instructions. ``code`` is the class of the code by size, a row of the
    chip's ``launch.code`` table; ``serial`` marks kernels with queues one deep, whose cores compute between their
    transfers.

    Raises ValueError for inconsistent descriptions.
    """

    def __init__(
        self, kernel: Callable[..., Any], block_dim: int, kind: str, args: Sequence[tuple[str, int]] = (),
        gm: Sequence[Gm] = (), consts: dict[str, Any] | None = None, *, soc: Soc,
        signature: Callable[[int], Hashable] | None = None, name: str | None = None, debug: bool = False,
        cooperative: bool = False, ratio: int | None = None, auto_sync: bool = False, code: str = "",
        serial: bool = False,
    ) -> None:  # fmt: skip
        self.kernel: Callable[..., Any] = getattr(kernel, "function", kernel)  # what jit wraps
        self.name: str = name or str(getattr(self.kernel, "__name__", "kernel"))
        if block_dim < 1:
            raise ValueError(f"launch of {self.name}: block_dim = {block_dim}: must be at least 1")
        rules = rules_for(soc)
        allowed = ("AIC", "AIV", "MIX") if rules.split else ("AICORE",)
        if kind not in allowed:
            raise ValueError(f"launch of {self.name}: kind = {kind!r}: {soc.name} takes {', '.join(allowed)}")
        for entry in gm:
            if len(entry) != 4 or entry[3] not in ROLES:
                raise ValueError(f"launch of {self.name}: gm entry {entry!r}: expected (name, dtype, bytes, role)")
        if args and len(args) != len(gm):
            raise ValueError(f"launch of {self.name}: {len(args)} args but {len(gm)} gm entries")
        self.block_dim, self.kind, self.soc = int(block_dim), kind, soc
        self.args: tuple[tuple[str, int], ...] = tuple((str(a), int(b)) for a, b in args)
        self.gm: tuple[tuple[str, DataType, int, str], ...] = tuple((n, as_dtype(t), int(b), r) for n, t, b, r in gm)
        self.consts = dict(consts or {})
        self.signature = signature
        self.debug, self.cooperative, self.auto_sync = debug, cooperative, auto_sync
        self.code, self.serial = code, serial
        self.ratio = (ratio or vector_ratio(soc)) if kind == "MIX" else 1

    def addresses(self) -> list[GlobalAddress]:
        """The kernel's arguments. Inputs may be read up to the end of their last 32-byte block: device memory is
        allocated in blocks, and chips without byte-granular copies have to read so."""
        ends = (ceil_div(b, BLOCK) * BLOCK if role == "in" else b for _, _, b, role in self.gm)
        return [GlobalAddress(g[1], i, 0, end) for i, (g, end) in enumerate(zip(self.gm, ends, strict=True))]

    def _core(self, block: int, kind: str, sub: int, trace: TraceBuilder | None, gm: Sequence[Bytes] | None) -> Core:
        core = Core(
            self.soc, kind, block, self.block_dim, sub, self.ratio, trace, gm, [g[0] for g in self.gm], self.debug
        )
        if self.auto_sync:
            core.auto = AutoSync(core)
        return core

    def _cores(
        self, block: int, trace: Callable[[], TraceBuilder] | None, gm: Sequence[Bytes] | None
    ) -> list[Core]:
        """The cores of one block, in the order of its programs."""
        kinds = _programs(self.kind, self.ratio)
        cores = [self._core(block, kind, sub, trace() if trace is not None else None, gm) for kind, sub in kinds]
        if self.kind == "MIX":
            group = Group(cores[0], cores[1:])
            for core in cores:
                core.group = group
        return cores

    def _run(self, core: Core) -> None:
        """Run the kernel on a core; structures are handed over by value."""
        consts = {
            name: value.create_local() if hasattr(value, "create_local") else value
            for name, value in self.consts.items()
        }
        run_on(core, self.kernel, self.addresses(), consts)

    def trace(self) -> KernelTrace:
        """Trace without values; equal blocks share an entry."""
        blocks: list[Block] = []
        by_signature: dict[Hashable, int] = {}
        by_code: dict[Hashable, int] = {}
        block_of: list[int] = []
        value_dependent = False
        notes: dict[str, None] = {}
        for index in range(self.block_dim):
            signature = self.signature(index) if self.signature is not None else None
            known = by_signature.get(signature) if signature is not None else None
            if known is None:
                cores = self._cores(index, TraceBuilder, None)
                for core in cores[1:] + cores[:1]:  # the cube core last: it serves what its vector cores asked for
                    self._run(core)
                    value_dependent |= core.value_dependent
                    notes.update(dict.fromkeys(core.notes))
                programs = tuple(core.tb.build() for core in cores if core.tb is not None)
                known = by_code.setdefault(tuple(_code_key(p) for p in programs), len(blocks))
                if known == len(blocks):
                    blocks.append(Block(programs, tuple(core.kind for core in cores)))
                if signature is not None:
                    by_signature[signature] = known
            block_of.append(known)
        args = tuple(GmArg(name, nbytes, role) for name, _, nbytes, role in self.gm)
        return KernelTrace(
            self.name, self.kind, tuple(blocks), tuple(block_of), args, value_dependent, tuple(notes), self.code,
            self.serial,
        )  # fmt: skip

    def execute(self, buffers: Sequence[Bytes]) -> None:
        """Run instruction by instruction on the storage bytes (uint8 arrays) of each argument, in place.

        Blocks run one after the other; the programs of a MIX block run together and switch at cross-core flags.
        Raises ValueError when a buffer is missing or too small.
        """
        if len(buffers) != len(self.gm):
            raise ValueError(f"launch of {self.name}: {len(buffers)} buffers for {len(self.gm)} arguments")
        flat: list[Bytes] = []
        for (name, _, nbytes, role), buffer in zip(self.gm, buffers, strict=True):
            if buffer.dtype != np.uint8 or not buffer.flags.c_contiguous or buffer.nbytes < nbytes:
                raise ValueError(
                    f"launch of {self.name}: argument {name!r}: expected at least {nbytes} contiguous bytes (uint8), "
                    f"got {buffer.nbytes} of {buffer.dtype}"
                )
            data = buffer.reshape(-1)
            room = ceil_div(nbytes, BLOCK) * BLOCK
            if role == "in" and len(data) < room:
                data = np.concatenate([data, np.full(room - len(data), POISON, np.uint8)])
            flat.append(data)
        if self.cooperative:
            self._together(range(self.block_dim), flat)
        elif self.kind == "MIX":
            for block in range(self.block_dim):
                self._together([block], flat)
        else:
            for block in range(self.block_dim):
                self._run(self._core(block, self.kind, 0, None, flat))

    def _together(self, blocks: Sequence[int] | range, gm: Sequence[Bytes]) -> None:
        cores = [core for block in blocks for core in self._cores(block, None, gm)]

        def program(core: Core) -> Callable[[], None]:
            return lambda: self._run(core)

        Baton(cores).run([program(core) for core in cores])


def _code_key(program: Program) -> Hashable:
    return (program.op.tobytes(), program.pipe.tobytes(), program.arg.tobytes(), program.works)


def steady(start: int, stop: int | None = None, step: int = 1, tail: int = 2) -> Iterator[int]:
    """A loop whose middle iterations issue the same instructions with a period of at most 4.

    With values it is a plain range. In a trace only representative iterations run: once two periods are equal the rest,
    except the last ``tail`` iterations, is folded into a loop. Everything must be derived from the index.
    """
    core = current()
    indices = range(start) if stop is None else range(start, stop, step)
    if core.tb is None or core.memory is not None:
        return iter(indices)
    return core.tb.steady(indices, tail)


def repeated(key: Hashable, body: Callable[[], None]) -> None:
    """Run ``body``; in a trace, equal keys promise equal instructions, which are then copied instead of issued again.

    The body must leave Python state (ring positions) as it found it, and should not read tensors several times over:
    a copy does not know which addresses it touches."""
    core = current()
    if core.tb is None or core.memory is not None:
        body()
    else:
        core.tb.repeat(key, body)


__all__ = ["Launch", "on_core", "repeated", "steady"]
