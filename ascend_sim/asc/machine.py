"""The core a kernel runs on right now: chip, block index, what is recorded (a trace), what is computed (values).

Trace and values are independent: a core has a `TraceBuilder`, a memory, or both. Program order is a legal order of a
race-free kernel, so values are computed as instructions are issued, without simulating events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.trace import TraceBuilder
from ascend_sim.isa.buffers import BLOCK, CoreMemory, View
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.instr import Pipe, ScalarWork, Work
from ascend_sim.isa.legality import ChipRules, rules_for, source_place

if TYPE_CHECKING:
    from ascend_sim.asc.auto import AutoSync
    from ascend_sim.asc.group import Group
    from ascend_sim.asc.interleave import Baton
    from ascend_sim.soc import Soc

Bytes = NDArray[np.uint8]
FULL_MASK = (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


class Core:
    """State of one core while its program runs.

    ``kind`` is AICORE, AIC or AIV. ``tb`` collects the trace or is None; ``memory`` and ``gm`` (one byte array per
    kernel argument) hold values or are None. The rest are the core's registers.
    """

    __slots__ = (
        "atomic", "auto", "baton", "block_idx", "block_num", "cmp_mask", "contexts", "cube_worker", "debug",
        "deq_scale", "deq_vector", "deq_word", "dma_pad", "flags", "fmatrix", "gm", "gm_names", "group", "hf32",
        "image", "kind", "l1_boundary", "mask", "mask_counter", "memory", "merged", "notes", "pad_value",
        "pipe_manager", "quant_word", "remain_count", "repeat_config", "rules", "soc", "sub_block_idx",
        "sub_block_num", "sys_workspace", "tb", "value_dependent",
    )  # fmt: skip

    def __init__(
        self, soc: Soc, kind: str, block_idx: int, block_num: int, sub_block_idx: int = 0, sub_block_num: int = 1,
        trace: TraceBuilder | None = None, gm: Sequence[Bytes] | None = None, gm_names: Sequence[str] = (),
        debug: bool = False,
    ) -> None:  # fmt: skip
        self.soc = soc
        self.rules: ChipRules = rules_for(soc)
        self.kind = kind
        self.block_idx, self.block_num = block_idx, block_num
        self.sub_block_idx, self.sub_block_num = sub_block_idx, sub_block_num
        self.tb = trace
        self.gm = gm
        self.gm_names = tuple(gm_names)
        self.memory = CoreMemory(self.rules.sizes) if gm is not None else None
        self.debug = debug
        self.baton: Baton | None = None
        self.auto: AutoSync | None = None  # inserts flags between dependent instructions
        self.group: Group | None = None  # the cores of a MIX block
        self.cube_worker: Any = None
        self.sys_workspace: Any = None
        self.value_dependent = False
        self.notes: list[str] = []
        self.flags: dict[tuple[int, int], int] = {}
        self.mask: tuple[int, int] = FULL_MASK  # (low, high); in counter mode low is the element count
        self.mask_counter = False
        self.cmp_mask = np.zeros(32, np.uint8)
        self.atomic: tuple[str, DataType] | None = None
        self.fmatrix: dict[int, tuple[int, int, tuple[int, int, int, int]]] = {}
        self.pad_value: Any = 0
        self.repeat_config: tuple[int, int, int] | None = None
        self.quant_word = 0
        self.deq_scale: Any = 1.0
        self.deq_word: int | None = None
        self.deq_vector: Any = None
        self.dma_pad: Any = None
        self.l1_boundary = 0  # bytes of L1 behind which load3d goes on from its start; 0: none
        self.merged: tuple[int, ...] = (0, 0, 0, 0)  # taken of each queue by the last merge
        self.contexts: dict[int, Any] = {}
        self.image: Any = None  # source and registers of image loads
        self.hf32 = False
        self.remain_count = 0
        self.pipe_manager: Any = None

    def emit(self, pipe: int, work: Work, dst: Any = None, *srcs: Any) -> None:
        """Record one instruction. ``dst`` and ``srcs`` are its tensors, for the insertion of flags."""
        if self.auto is not None:
            self.auto.before(pipe, dst, srcs)
        if self.tb is not None:
            self.tb.execute(pipe, work, source_place() if self.debug else None)

    def emit_transfer(self, pipe: int, work: Work, dst: Any, src: Any) -> None:
        """Record a transfer from or to global memory, with the L2 hint of its global tensor."""
        if self.auto is not None:
            piece = work.burst_bytes if work.bursts == 1 else 0  # type: ignore[union-attr]
            self.auto.before(pipe, dst, (src,), piece)
        if self.tb is not None:
            tensor = src if src.mem == "GM" else dst
            if tensor.bypass:
                work = work._replace(bypass=True)  # type: ignore[call-arg]
            self.tb.execute(pipe, work, source_place() if self.debug else None, tensor.addr)

    def view(self, tensor: Any) -> View:
        """The bytes behind a local or global tensor (values mode only)."""
        mem = tensor.mem
        if mem == "GM":
            assert self.gm is not None
            return View(self.gm[tensor.arg], tensor.addr, tensor.dtype)
        assert self.memory is not None
        return View(self.memory[mem], tensor.addr, tensor.dtype)

    @property
    def vector_side(self) -> bool:
        return self.kind != "AIC"

    @property
    def cube_side(self) -> bool:
        return self.kind in ("AICORE", "AIC")


class _Local(threading.local):
    core: Core | None = None


_local = _Local()


def current() -> Core:
    """The core of the running kernel. Raises RuntimeError outside a kernel."""
    core = _local.core
    if core is None:
        _outside()
    return core


def _outside() -> NoReturn:
    raise RuntimeError(
        "asc instructions can only be issued inside a kernel: launch it with kernel[cores, stream](...) or asc.Launch"
    )


@contextmanager
def on_core(core: Core) -> Iterator[Core]:
    """Make ``core`` the current one of this thread."""
    before = _local.core
    _local.core = core
    try:
        yield core
    finally:
        _local.core = before


class EndOfProgram(BaseException):
    """Ends a program early: a cube program that has become a server of its vector cores."""


def run_on(core: Core, program: Callable[..., Any], args: Sequence[Any], consts: dict[str, Any]) -> None:
    """Run a kernel function on a core."""
    with on_core(core), suppress(EndOfProgram):
        program(*args, **consts)


def current_soc() -> Soc:
    """The chip the running kernel is launched on."""
    return current().soc


def get_block_idx() -> int:
    """Index of this block. On split chips in a pure vector kernel: of this vector core; in a MIX kernel the AIVs of a
    group number them group * ratio + sub block, as on hardware."""
    core = current()
    if core.kind == "AIV" and core.sub_block_num > 1:
        return core.block_idx * core.sub_block_num + core.sub_block_idx
    return core.block_idx


def get_block_num() -> int:
    """Number of blocks of this launch (groups on MIX kernels)."""
    return current().block_num


def get_sub_block_idx() -> int:
    """Index of this vector core in its group (0 or 1), 0 on cube cores."""
    return current().sub_block_idx


def get_sub_block_num() -> int:
    """Vector cores of this group."""
    return current().sub_block_num


def get_task_ratio() -> int:
    """Vector cores per cube core in this kernel."""
    return current().sub_block_num


def get_system_cycle() -> int:
    """System counter. Simulated time is not known while instructions are issued: 0, and the trace is marked value
    dependent."""
    core = current()
    core.emit(Pipe.S, ScalarWork("get_system_cycle"))
    core.value_dependent = True
    return 0


def get_data_block_size_in_bytes() -> int:
    """Bytes of a data block."""
    return BLOCK


def ascend_is_aic() -> bool:
    """Whether this program runs on a cube core (true on coupled cores, which are both)."""
    return current().cube_side


def ascend_is_aiv() -> bool:
    """Whether this program runs on a vector core (true on coupled cores, which are both)."""
    return current().vector_side


def no_pipe(pipe: Pipe, kind: str) -> bool:
    """Whether a core of ``kind`` lacks the pipe."""
    if kind == "AIC":
        return pipe == Pipe.V
    return kind == "AIV" and pipe in (Pipe.M, Pipe.MTE1, Pipe.FIX)
