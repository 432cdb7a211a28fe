"""Launching kernels: traces for the engine, values on byte arrays, and the user's ``kernel[cores, stream](...)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    (kernels that use `sync_all`).

    Raises ValueError for inconsistent descriptions.
    """

    def __init__(
        self, kernel: Callable[..., Any], block_dim: int, kind: str, args: Sequence[tuple[str, int]] = (),
        gm: Sequence[Gm] = (), consts: dict[str, Any] | None = None, *, soc: Soc,
        signature: Callable[[int], Hashable] | None = None, name: str | None = None, debug: bool = False,
        cooperative: bool = False,
    ) -> None:  # fmt: skip
        self.kernel: Callable[..., Any] = kernel.function if isinstance(kernel, Kernel) else kernel
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
        self.debug, self.cooperative = debug, cooperative

    def addresses(self) -> list[GlobalAddress]:
        """The kernel's arguments. Inputs may be read up to the end of their last 32-byte block: device memory is
        allocated in blocks, and chips without byte-granular copies have to read so."""
        ends = (ceil_div(b, BLOCK) * BLOCK if role == "in" else b for _, _, b, role in self.gm)
        return [GlobalAddress(g[1], i, 0, end) for i, (g, end) in enumerate(zip(self.gm, ends, strict=True))]

    def _core(self, block: int, kind: str, sub: int, trace: TraceBuilder | None, gm: Sequence[Bytes] | None) -> Core:
        ratio = vector_ratio(self.soc) if self.kind == "MIX" else 1
        return Core(
            self.soc, kind, block, self.block_dim, sub, ratio, trace, gm, [g[0] for g in self.gm], self.debug
        )

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
                programs: list[Program] = []
                code: list[Hashable] = []
                kinds = _programs(self.kind, vector_ratio(self.soc))
                for kind, sub in kinds:
                    builder = TraceBuilder()
                    core = self._core(index, kind, sub, builder, None)
                    run_on(core, self.kernel, self.addresses(), self.consts)
                    value_dependent |= core.value_dependent
                    notes.update(dict.fromkeys(core.notes))
                    program = builder.build()
                    programs.append(program)
                    code.append(_code_key(program))
                known = by_code.setdefault(tuple(code), len(blocks))
                if known == len(blocks):
                    blocks.append(Block(tuple(programs), tuple(kind for kind, _ in kinds)))
                if signature is not None:
                    by_signature[signature] = known
            block_of.append(known)
        args = tuple(GmArg(name, nbytes, role) for name, _, nbytes, role in self.gm)
        return KernelTrace(self.name, self.kind, tuple(blocks), tuple(block_of), args, value_dependent, tuple(notes))

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
                run_on(self._core(block, self.kind, 0, None, flat), self.kernel, self.addresses(), self.consts)

    def _together(self, blocks: Sequence[int] | range, gm: Sequence[Bytes]) -> None:
        layout = _programs(self.kind, vector_ratio(self.soc))
        cores = [self._core(block, kind, sub, None, gm) for block in blocks for kind, sub in layout]

        def program(core: Core) -> Callable[[], None]:
            return lambda: run_on(core, self.kernel, self.addresses(), self.consts)

        Baton(cores).run([program(core) for core in cores])


def _code_key(program: Program) -> Hashable:
    return (program.op.tobytes(), program.pipe.tobytes(), program.arg.tobytes(), program.works)


class Kernel:
    """A function marked with `jit`. Inside a kernel it is called like a function; from the host it is launched with
    ``kernel[cores, stream](*arguments)``: NumPy arrays are global memory (changed in place), the rest are constants."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None) -> None:
        self.function = function
        self.options = dict(options or {})
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getitem__(self, options: Any) -> Callable[..., None]:
        cores = options[0] if isinstance(options, tuple) else options
        return lambda *args, **kwargs: launch_arrays(self, int(cores), args, kwargs)


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Mark a kernel: ``@asc.jit`` or ``@asc.jit(option=...)``. Options of the real compiler are accepted and kept."""
    if function is None:
        return lambda f: Kernel(f, options)
    return Kernel(function, options)


def kernel_kind(kernel: Kernel, soc: Soc) -> str:
    """Kind of a user launch: ``kernel_type`` option when given (aic, aiv, mix), else MIX on split chips."""
    if not rules_for(soc).split:
        return "AICORE"
    asked = str(kernel.options.get("kernel_type", "")).lower()
    if "mix" in asked:
        return "MIX"
    if "aic" in asked or "cube" in asked or kernel.options.get("matmul_cube_only"):
        return "AIC"
    if "aiv" in asked or "vec" in asked:
        return "AIV"
    return guess_kind(kernel.function)


_CUBE_NAMES = frozenset({"mmad", "load_data", "fixpipe", "load_data_with_transpose", "Matmul", "register_matmul"})
_VECTOR_NAMES = frozenset({
    "add", "sub", "mul", "div", "adds", "muls", "exp", "ln", "relu", "cast", "duplicate", "reduce_sum", "reduce_max",
    "leaky_relu", "abs", "select", "compare", "whole_reduce_sum", "sqrt",
})  # fmt: skip


def guess_kind(function: Callable[..., Any]) -> str:
    """AIC, AIV or MIX by the instructions a kernel and the functions it calls name, as the compiler does."""
    names: set[str] = set()
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo:
        f = todo.pop()
        f = f.function if isinstance(f, Kernel) else f
        code = getattr(f, "__code__", None)
        if code is None or id(code) in seen:
            continue
        seen.add(id(code))
        names.update(code.co_names)
        scope = getattr(f, "__globals__", {})
        called = (scope.get(name) for name in code.co_names)
        todo.extend(c for c in called if isinstance(c, Kernel) or inspect.isfunction(c))
    cube, vector = bool(names & _CUBE_NAMES), bool(names & _VECTOR_NAMES)
    if cube and not vector:
        return "AIC"
    return "MIX" if cube else "AIV"


def user_launch(
    kernel: Kernel, cores: int, args: Sequence[Any], kwargs: dict[str, Any], soc: Soc
) -> tuple[Launch, list[Bytes]]:
    """The `Launch` of ``kernel[cores](*args)`` and the bytes of its arrays."""
    bound = inspect.signature(kernel.function).bind(*args, **kwargs)
    bound.apply_defaults()
    gm: list[Gm] = []
    buffers: list[Bytes] = []
    names: list[str] = []
    consts: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        array = as_array(value)
        if array is None:
            consts[name] = value
            continue
        if not array.flags.c_contiguous:
            raise ValueError(f"launch of {kernel.__name__}: argument {name!r} must be contiguous")
        gm.append((name, as_dtype(array.dtype), array.nbytes, "inout"))
        buffers.append(array.reshape(-1).view(np.uint8))
        names.append(name)
    function = kernel.function

    def entry(*addresses: GlobalAddress, **constants: Any) -> Any:
        return function(**dict(zip(names, addresses, strict=True)), **constants)

    launch = Launch(
        entry, cores, kernel_kind(kernel, soc), gm=gm, consts=consts, soc=soc, name=kernel.__name__, debug=True,
        cooperative=True,
    )  # fmt: skip
    return launch, buffers


def as_array(value: Any) -> NDArray[Any] | None:
    """The NumPy array behind an argument (NumPy array or CPU torch tensor), or None for scalars and structures."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy"):
        if str(value.dtype) == "torch.bfloat16":
            import ml_dtypes
            import torch  # type: ignore[import-not-found]

            return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
        return value.numpy()  # type: ignore[no-any-return]
    return None


def launch_arrays(kernel: Kernel, cores: int, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Run ``kernel[cores, stream](...)`` on arrays with values, on the default chip."""
    from ascend_sim.soc import load_soc

    launch, buffers = user_launch(kernel, cores, args, kwargs, load_soc(None))
    launch.execute(buffers)


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


__all__ = ["Kernel", "Launch", "jit", "on_core", "steady"]
