"""What a chip allows: instruction and data type legality, buffer sizes, flag ids, and the error that says so."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from ascend_sim.isa.buffers import ALIGNMENT, memory_sizes, position_memories
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.enums import RoundMode
from ascend_sim.isa.legality_table import COLUMNS, MMAD, TABLE, VCONV

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

FAMILY = {"m100": "910A", "c100": "910A", "m200": "310P3", "m300": "310B1", "c220": "910B1"}
ROUND_LETTERS = {"n": 0, "r": 1, "f": 2, "c": 3, "a": 4, "z": 5, "o": 6}  # suffix -> RoundMode

# Ascend310 has no ini of its own: what TBE's operators work around on it (branches on its soc version)
ABSENT_M100 = {
    "vdiv": frozenset({"f16", "f32"}), "vsqrt": frozenset({"f16", "f32"}), "vexp": frozenset({"f32"}),
    "vln": frozenset({"f32"}),
}  # fmt: skip

# The ini files leave these out; asc-devkit's pages have them (310B's as sequences of its register instructions)
_RELU, _RELU_CAST = frozenset({"f16", "f32", "s16"}), frozenset({"f162s8", "f322f16", "s162s8"})
DOCUMENTED: dict[str, dict[str, frozenset[str]]] = {
    "910B1": {"vsubrelu": _RELU, "vaddreluconv": _RELU_CAST, "vsubreluconv": _RELU_CAST,
              "vgather": frozenset({"bf16"}), "vbrcb": frozenset({"bf16"})},
    "310B1": {
        "vaddrelu": _RELU - {"s16"}, "vsubrelu": _RELU - {"s16"}, "vaddreluconv": _RELU_CAST - {"s162s8"},
        "vsubreluconv": _RELU_CAST - {"s162s8"}, "vmulconv": frozenset({"s8f16f16", "u8f16f16"}),
    },
}  # fmt: skip

Place = tuple[str, int]
_INTERNAL = ("ascend_sim.asc", "ascend_sim.isa")


def source_place() -> Place | None:
    """File and line of the innermost caller outside this package's own rooms: the kernel's source line."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_INTERNAL):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


class InstructionError(ValueError):
    """A broken restriction: ``instruction``, ``operand``, its ``value``, the ``rule``, and ``place`` (source file and
    line of the kernel, when known)."""

    def __init__(self, instruction: str, operand: str, value: object, rule: str) -> None:
        self.instruction, self.operand, self.value, self.rule = instruction, operand, value, rule
        self.place = source_place()
        where = f"{self.place[0]}:{self.place[1]}: " if self.place else ""
        super().__init__(f"{where}{instruction}: {operand} = {value}: {rule}")


def _expand(cell: str) -> frozenset[str]:
    return frozenset() if cell == "-" else frozenset(cell.split())


@lru_cache(maxsize=1)
def legality_tables() -> dict[str, dict[str, frozenset[str]]]:
    """Family -> instruction -> legal type names."""
    tables: dict[str, dict[str, frozenset[str]]] = {family: {} for family in COLUMNS}
    for line in TABLE.strip().splitlines():
        name, *cells = (cell.strip() for cell in line.split("|"))
        current = "-"
        for family, cell in zip(COLUMNS, cells, strict=True):
            current = current if cell == "=" else cell
            tables[family][name] = _expand(current)
    for family in COLUMNS:
        tables[family]["mmad"] = _expand(MMAD[family])
        tables[family]["vconv"] = _expand(VCONV[family])
    return tables


class ChipRules:
    """The restrictions of one chip. One object per instruction set and buffer layout (`rules_for`), compared by
    identity, so it can key the caches of checked instructions.

    ``sizes`` bytes per memory, ``positions`` memory of each TPosition, ``counter_mode`` whether the mask register
    can count elements (Ascend310 and 910 run a mask loop instead), ``half_saturates`` whether half arithmetic
    saturates instead of producing infinities.
    """

    def __init__(self, soc: Soc) -> None:
        chip = soc.chip
        self.arch = chip.arch
        self.family = FAMILY.get(chip.arch)
        if self.family is None:
            raise ValueError(f"chip.arch = {chip.arch!r}: expected one of {', '.join(FAMILY)}")
        self.name = soc.name
        self.split = chip.split_cores
        self.fixpipe = chip.has_fixpipe
        self.sizes = memory_sizes(soc)
        self.positions = position_memories(chip.split_cores, chip.has_fixpipe)
        self.flag_ids = soc.sync.flag_ids
        self.counter_mode = chip.arch not in ("m100", "c100")
        self.half_saturates = chip.arch in ("m100", "c100", "m200")
        self.l1_to_l0c_bias = not chip.has_fixpipe
        self.bank_groups = soc.buffers.ub_bank_groups
        self.banks = soc.buffers.ub_banks
        self.table = dict(legality_tables()[self.family])
        for name, types in DOCUMENTED.get(self.family, {}).items():
            self.table[name] = self.table.get(name, frozenset()) | types
        if self.arch == "m100":
            self.table = {name: types - ABSENT_M100.get(name, frozenset()) for name, types in self.table.items()}
        self.conversions = self._conversions()

    def _conversions(self) -> dict[str, frozenset[int]]:
        pairs: dict[str, frozenset[int]] = {}
        for token in self.table["vconv"]:
            pair, _, modes = token.partition(":")
            pairs[pair] = frozenset(ROUND_LETTERS[letter] for letter in modes)
        return pairs

    def exists(self, instruction: str) -> bool:
        """Whether the chip has the machine instruction."""
        return bool(self.table.get(instruction))

    def legal(self, instruction: str, *types: DataType) -> bool:
        """Whether the instruction takes these types: one (all operands alike) or destination and sources."""
        allowed = self.table.get(instruction, frozenset())
        names = [t.short for t in types]
        key = "".join(names)
        if key in allowed:
            return True
        alike = len(set(names)) == 1
        return alike and (names[0] in allowed or names[0] * 2 in allowed or names[0] * 3 in allowed)

    def require(self, call: str, instruction: str, *types: DataType) -> None:
        """Raise `InstructionError` unless the chip has the instruction for these types."""
        if self.legal(instruction, *types):
            return
        allowed = sorted(self.table.get(instruction, ()))
        value = "/".join(dict.fromkeys(t.name for t in types))
        if not allowed:
            raise InstructionError(call, "chip", self.name, f"has no instruction {instruction}")
        raise InstructionError(
            call, "data type", value, f"{instruction} takes {' '.join(allowed)} on {self.name} (family {self.family})"
        )

    def require_conversion(self, call: str, dst: DataType, src: DataType, mode: int) -> None:
        """Raise `InstructionError` unless vconv converts ``src`` to ``dst`` with this rounding mode."""
        modes = self.conversions.get(f"{src.short}2{dst.short}")
        if modes is None:
            raise InstructionError(
                call, "data types", f"{src.name} -> {dst.name}", f"the conversion does not exist on {self.name}"
            )
        if mode not in modes:
            names = ", ".join(RoundMode(m).name for m in sorted(modes))
            raise InstructionError(
                call, "round_mode", RoundMode(mode).name, f"{src.name} -> {dst.name} takes {names} on {self.name}"
            )

    def require_range(self, call: str, operand: str, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            raise InstructionError(call, operand, value, f"must lie in {low}..{high}")

    def require_memory(self, call: str, operand: str, mem: str, *allowed: str) -> None:
        if mem not in allowed:
            raise InstructionError(call, operand, mem, f"must lie in {' or '.join(allowed)}")

    def require_span(
        self, call: str, operand: str, mem: str, addr: int, nbytes: int, end: int, align: int | None = None
    ) -> None:
        """Check that ``nbytes`` from ``addr`` of a memory are aligned, inside the tensor (``end``) and the memory."""
        unit = ALIGNMENT[mem] if align is None else align
        if addr % unit:
            raise InstructionError(call, f"{operand} address", addr, f"must be a multiple of {unit} bytes in {mem}")
        if addr < 0 or addr + nbytes > self.sizes[mem]:
            raise InstructionError(
                call, operand, f"bytes {addr}..{addr + nbytes}", f"lies outside {mem} of {self.sizes[mem]} bytes"
            )
        if addr + nbytes > end:
            raise InstructionError(
                call, operand, f"bytes {addr}..{addr + nbytes}", f"runs past the end of its tensor at byte {end}"
            )


_RULES: dict[tuple[object, ...], ChipRules] = {}


def rules_for(soc: Soc) -> ChipRules:
    """The `ChipRules` of a chip; chips that differ only in speed share them."""
    key = (soc.name, soc.chip, soc.buffers, soc.sync.flag_ids)
    found = _RULES.get(key)
    if found is None:
        found = _RULES[key] = ChipRules(soc)
    return found
