"""Straight-line vector programs on tiles: what an elementwise operator does to one UB tile, chip by chip.

A `Builder` records vector instructions on virtual registers (one register = one tile of UB); where a chip lacks
an instruction for a type it records the sequence that replaces it (`Builder.div` on a chip without vdiv, `maxs`
without vmaxs, fp32 exp without fp32 vexp). `allocate` then places the registers into as few UB slots as their
lifetimes allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ascend_sim.isa.enums import CMPMODE, RoundMode
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import ITEM_BITS

from ._scalars import Expression
from ._vector import converts, legal

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

BITS = "bits"  # dtype of a comparison result: one bit per element
_COMPARE = {"lt": CMPMODE.LT, "gt": CMPMODE.GT, "eq": CMPMODE.EQ, "le": CMPMODE.LE, "ge": CMPMODE.GE, "ne": CMPMODE.NE}


class Reg(NamedTuple):
    """A virtual register: ``number`` and element type (`BITS` for a comparison result)."""

    number: int
    dtype: str


class Step(NamedTuple):
    """One vector instruction: ``op`` is the name in `ascend_sim.asc`, ``dst`` and ``srcs`` register numbers,
    ``scalar`` an immediate or an expression (`_scalars`) of the scalar inputs, ``mode`` a rounding or comparison
    mode, ``dtype`` the type that masks and counts (the wider one of a conversion)."""

    op: str
    dst: int
    srcs: tuple[int, ...]
    scalar: Expression | None
    mode: int
    dtype: str


@dataclass(frozen=True)
class Program:
    """``dtypes`` per register; ``inputs`` are filled by loads, ``steady`` of them once for many tiles;
    ``outputs`` are stored."""

    dtypes: tuple[str, ...]
    inputs: tuple[int, ...]
    steady: frozenset[int]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


class Builder:
    """Records a `Program` for one chip."""

    def __init__(self, soc: Soc) -> None:
        self.soc = soc
        self._dtypes: list[str] = []
        self._steps: list[Step] = []
        self._inputs: list[int] = []
        self._steady: set[int] = set()
        self._constants: dict[tuple[float, str], Reg] = {}
        self._filled: dict[int, Expression] = {}  # registers that hold one value in every element

    # ---- registers

    def _new(self, dtype: str) -> Reg:
        self._dtypes.append(dtype)
        return Reg(len(self._dtypes) - 1, dtype)

    def input(self, dtype: str, steady: bool = False) -> Reg:
        """A register filled by a load; ``steady`` ones keep their content from tile to tile."""
        reg = self._new(dtype)
        self._inputs.append(reg.number)
        if steady:
            self._steady.add(reg.number)
        return reg

    def _emit(self, op: str, dtype: str, *srcs: Reg, scalar: Expression | None = None, mode: int = 0,
              by: str | None = None) -> Reg:  # fmt: skip
        dst = self._new(dtype)
        self._steps.append(Step(op, dst.number, tuple(s.number for s in srcs), scalar, mode, by or dtype))
        return dst

    def build(self, *outputs: Reg) -> Program:
        """Finish. An output that is an input is copied through the vector unit so that it has its own slot."""
        final = []
        for reg in outputs:
            clash = reg.number in self._inputs or reg.number in final
            final.append(self.copy(reg).number if clash else reg.number)
        wanted, steps = set(final), []
        for step in reversed(self._steps):  # drop what nobody reads
            if step.dst in wanted:
                wanted.update(step.srcs)
                steps.append(step)
        return Program(
            tuple(self._dtypes), tuple(self._inputs), frozenset(self._steady), tuple(reversed(steps)), tuple(final)
        )

    # ---- conversions

    def cast(self, x: Reg, dtype: str, mode: RoundMode = RoundMode.NONE) -> Reg:
        """Convert; through float32 or float16 where the chip has no direct instruction. Raises `NoKernel`."""
        if x.dtype == dtype:
            return x
        path = self._cast_path(x.dtype, dtype, mode)
        if path is None:
            raise NoKernel(f"no conversion {x.dtype} -> {dtype} ({mode.name}) on this chip")
        for step, step_mode in path:
            wide = max(x.dtype, step, key=lambda d: ITEM_BITS[d])
            x = self._emit("cast", step, x, mode=int(step_mode), by=wide)
        return x

    def _cast_path(self, src: str, dst: str, mode: RoundMode) -> list[tuple[str, RoundMode]] | None:
        """Shortest chain of conversions; intermediate types must hold every value of the source exactly."""
        narrowing = mode if mode != RoundMode.NONE else RoundMode.NONE
        for candidate in (narrowing, RoundMode.RINT) if mode == RoundMode.NONE else (mode,):
            if converts(self.soc, src, dst, int(candidate)):
                return [(dst, candidate)]
        exact = {
            "float16": ("float32",), "bfloat16": ("float32",), "int8": ("float16",), "uint8": ("float16",),
            "int16": ("float32", "float16"), "int32": ("float32",), "float32": (), "int64": ("int32", "float32"),
            "bool": ("float16",),
        }  # fmt: skip
        for middle in exact.get(src, ()):
            if converts(self.soc, src, middle, 0):
                rest = self._cast_path(middle, dst, mode) if middle != dst else []
                if rest is not None:
                    return [(middle, RoundMode.NONE), *rest]
        if src == "float32" and dst in ("int8", "uint8") and converts(self.soc, src, "float16", 0):
            rest = self._cast_path("float16", dst, mode)
            if rest is not None:  # the caller sees to it that values are integers of few bits already
                return [("float16", RoundMode.NONE), *rest]
        return None

    # ---- instructions with replacements

    def has(self, instruction: str, dtype: str) -> bool:
        return legal(self.soc, instruction, dtype)

    def _need(self, instruction: str, dtype: str) -> None:
        if not self.has(instruction, dtype):
            raise NoKernel(f"{instruction} does not take {dtype} on this chip")

    def _binary(self, op: str, a: Reg, b: Reg) -> Reg:
        """A two-source instruction; its scalar form when one side is a constant and the chip has the form."""
        if a.dtype != b.dtype:
            raise NoKernel(f"{op} of {a.dtype} and {b.dtype}")
        if op != "sub" and self.has(f"v{op}s", a.dtype):
            for x, y in ((a, b), (b, a)):
                if y.number in self._filled and x.number not in self._filled:
                    return self._emit(op + "s", a.dtype, x, scalar=self._filled[y.number])
        value = self._filled.get(b.number)
        if op == "sub" and isinstance(value, int | float) and self.has("vadds", a.dtype):
            return self._emit("adds", a.dtype, a, scalar=-value)
        self._need("v" + op, a.dtype)
        return self._emit(op, a.dtype, a, b)

    def add(self, a: Reg, b: Reg) -> Reg:
        return self._binary("add", a, b)

    def sub(self, a: Reg, b: Reg) -> Reg:
        return self._binary("sub", a, b)

    def mul(self, a: Reg, b: Reg) -> Reg:
        return self._binary("mul", a, b)

    def max(self, a: Reg, b: Reg) -> Reg:
        return self._binary("max", a, b)

    def min(self, a: Reg, b: Reg) -> Reg:
        return self._binary("min", a, b)

    def div(self, a: Reg, b: Reg) -> Reg:
        """a / b; without vdiv a times the reciprocal of b."""
        if self.has("vdiv", a.dtype):
            return self._emit("div", a.dtype, a, b)
        return self.mul(a, self.reciprocal(b))

    def dup(self, value: float, dtype: str, fresh: bool = False) -> Reg:
        """A tile filled with one value; equal constants share a register unless ``fresh``."""
        key = (value, dtype)
        if fresh or key not in self._constants:
            reg = self._emit("duplicate", dtype, scalar=value)
            self._filled[reg.number] = value
            if fresh:
                return reg
            self._constants[key] = reg
        return self._constants[key]

    def splat(self, argument: int, dtype: str) -> Reg:
        """A tile filled with the value of scalar input ``argument``."""
        reg = self._emit("duplicate", dtype, scalar=("arg", argument))
        self._filled[reg.number] = ("arg", argument)
        return reg

    def _scalar(self, op: str, x: Reg, value: Expression) -> Reg:
        if self.has("v" + op + "s", x.dtype):
            return self._emit(op + "s", x.dtype, x, scalar=value)
        if isinstance(value, int | float):
            return self._binary(op, x, self.dup(value, x.dtype))
        other = self._emit("duplicate", x.dtype, scalar=value)
        return self._binary(op, x, other)

    def adds(self, x: Reg, value: Expression) -> Reg:
        return self._scalar("add", x, value)

    def muls(self, x: Reg, value: Expression) -> Reg:
        return self._scalar("mul", x, value)

    def maxs(self, x: Reg, value: Expression) -> Reg:
        return self._scalar("max", x, value)

    def mins(self, x: Reg, value: Expression) -> Reg:
        return self._scalar("min", x, value)

    def _unary(self, op: str, instruction: str, x: Reg) -> Reg:
        """The instruction, or through float16 where the chip has it for half only."""
        if self.has(instruction, x.dtype):
            return self._emit(op, x.dtype, x)
        if x.dtype == "float32" and self.has(instruction, "float16"):
            return self.cast(self._emit(op, "float16", self.cast(x, "float16")), "float32")
        raise NoKernel(f"{instruction} does not take {x.dtype} on this chip")

    def exp(self, x: Reg) -> Reg:
        return self._unary("exp", "vexp", x)

    def ln(self, x: Reg) -> Reg:
        return self._unary("ln", "vln", x)

    def abs(self, x: Reg) -> Reg:
        if self.has("vabs", x.dtype):
            return self._emit("abs", x.dtype, x)
        return self.max(x, self.muls(x, -1))

    def reciprocal(self, x: Reg) -> Reg:
        return self._unary("reciprocal", "vrec", x)

    def rsqrt(self, x: Reg) -> Reg:
        return self._unary("rsqrt", "vrsqrt", x)

    def sqrt(self, x: Reg) -> Reg:
        """Square root; without vsqrt the reciprocal of the reciprocal square root (right at 0 too)."""
        if self.has("vsqrt", x.dtype):
            return self._emit("sqrt", x.dtype, x)
        return self.reciprocal(self.rsqrt(x))

    def relu(self, x: Reg) -> Reg:
        if self.has("vrelu", x.dtype):
            return self._emit("relu", x.dtype, x)
        return self.maxs(x, 0)

    def leaky_relu(self, x: Reg, slope: float) -> Reg:
        if self.has("vlrelu", x.dtype):
            return self._emit("leaky_relu", x.dtype, x, scalar=slope)
        if 0 <= slope <= 1:
            return self.max(x, self.muls(x, slope))
        return self.add(self.maxs(x, 0), self.muls(self.mins(x, 0), slope))

    def copy(self, x: Reg) -> Reg:
        """Bit-exact copy on the vector unit."""
        return self._emit("move", x.dtype, x)

    def bitwise(self, op: str, a: Reg, b: Reg | None = None) -> Reg:
        """``and``, ``or``, ``not`` on the bits of registers of any type."""
        return self._emit("bitwise_" + op, a.dtype, *((a,) if b is None else (a, b)))

    def truncate(self, x: Reg, mode: RoundMode) -> Reg:
        """Round a float to an integer value of the same type (magnitudes below 2^31)."""
        if converts(self.soc, x.dtype, x.dtype, int(mode)):
            return self._emit("cast", x.dtype, x, mode=int(mode))
        return self.cast(self.cast(self.cast(x, "int32", mode), "float32"), x.dtype)

    # ---- comparison and selection

    @property
    def selects(self) -> bool:
        """Whether vsel takes its mask bits from UB, repeat after repeat (needs the scalar comparison too)."""
        return legal(self.soc, "vcmpvs_gt", "float32")

    def compare(self, how: str, a: Reg, b: Reg | float) -> Reg:
        """Mask bits of ``a how b`` (``lt gt eq le ge ne``)."""
        mode = int(_COMPARE[how])
        if isinstance(b, Reg):
            self._need(f"vcmpv_{how}", a.dtype)
            return self._emit("compare", BITS, a, b, mode=mode, by=a.dtype)
        self._need(f"vcmpvs_{how}", a.dtype)
        return self._emit("compare_scalar", BITS, a, scalar=b, mode=mode, by=a.dtype)

    def select(self, mask: Reg, a: Reg, b: Reg | float) -> Reg:
        """a where the mask bit is 1, else b."""
        self._need("vsel", a.dtype)
        if isinstance(b, Reg):
            return self._emit("select", a.dtype, mask, a, b)
        return self._emit("select", a.dtype, mask, a, scalar=b)

    def step01(self, x: Reg) -> Reg:
        """1.0 where x > 0, else 0.0, by arithmetic alone (float32: exact for normal numbers; NaN gives NaN)."""
        if x.dtype == "float32":
            y = self.mins(self.maxs(x, 0.0), 2.0**-126)
            return self.muls(self.muls(self.muls(y, 2.0**62), 2.0**62), 4.0)
        y = self.mins(self.maxs(x, 0.0), 2.0**-24)
        return self.muls(self.muls(y, 2.0**12), 2.0**12)


@dataclass(frozen=True)
class Allocation:
    """``slot`` per register; ``bits`` per slot and element. ``load_slots`` are filled by DMA, ``store_slots``
    read by DMA, ``steady_slots`` keep their content from tile to tile."""

    slot: tuple[int, ...]
    bits: tuple[int, ...]
    steady: frozenset[int]

    def live_bytes(self) -> float:
        """Bytes per element of the slots that exist once per tile in flight."""
        return sum(b for i, b in enumerate(self.bits) if i not in self.steady) / 8

    def steady_bytes(self) -> float:
        return sum(self.bits[i] for i in self.steady) / 8


def _width(dtype: str) -> int:
    return 1 if dtype == BITS else max(ITEM_BITS[dtype], 8)


def allocate(program: Program, apart: bool = False) -> Allocation:
    """Place registers into slots; registers of dropped steps get slot 0.

    Loaded registers have their own slots, which temporaries may reuse once they are dead, or not when they are kept
    ``apart`` so that the next load can start early; stored registers never share one with a loaded register (its next
    load would overtake the store)."""
    last: dict[int, int] = {}
    for position, step in enumerate(program.steps):
        for src in step.srcs:
            last[src] = position
    for out in program.outputs:
        last[out] = len(program.steps)
    slot: dict[int, int] = {}
    bits: list[int] = []
    loaded: set[int] = set()
    steady: set[int] = set()
    free: list[int] = []
    for reg in program.inputs:
        slot[reg] = len(bits)
        bits.append(_width(program.dtypes[reg]))
        loaded.add(slot[reg])
        if reg in program.steady:
            steady.add(slot[reg])

    def release(reg: int) -> None:
        if slot[reg] not in steady and slot[reg] not in free and not (apart and slot[reg] in loaded):
            free.append(slot[reg])

    for position, step in enumerate(program.steps):
        width = _width(program.dtypes[step.dst])
        dying = [s for s in dict.fromkeys(step.srcs) if last.get(s) == position]
        stored = step.dst in program.outputs
        in_place = step.op not in ("compare", "compare_scalar", "select") and step.op != "cast"
        usable = [*free]
        if in_place:
            usable += [slot[s] for s in dying if slot[s] not in steady and not (apart and slot[s] in loaded)]
        match = [s for s in usable if bits[s] == width and not (stored and s in loaded)]
        if match:
            chosen = match[-1]
            if chosen in free:
                free.remove(chosen)
        else:
            chosen = len(bits)
            bits.append(width)
        slot[step.dst] = chosen
        for s in dying:
            if slot[s] != chosen:
                release(s)
        if step.dst not in last:  # never read: a dead result
            release(step.dst)
    return Allocation(tuple(slot.get(r, 0) for r in range(len(program.dtypes))), tuple(bits), frozenset(steady))

