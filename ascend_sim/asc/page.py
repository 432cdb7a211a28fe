"""Generator of ``docs/isa.md``: ``python -m ascend_sim.asc.page docs/isa.md``.

Everything on the page comes from where it is used: rows of `ascend_sim.isa.rows`, signatures and descriptions of the
language's functions, types of the chips' tables, cycles and their confidence of ``configs/``.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ascend_sim.asc as language
from ascend_sim.asc import adv
from ascend_sim.asc.calls_move import ATOMIC_TYPES, PATH_PIPES
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.legality import ChipRules, rules_for
from ascend_sim.isa.rows import ROWS, Row
from ascend_sim.soc import Soc, load_soc

CHIPS = ("Ascend310", "Ascend910A", "Ascend310P3", "Ascend310B1", "Ascend910B2")
TITLES = {
    Pipe.V: "Vector unit (V)", Pipe.M: "Cube (M)", Pipe.MTE1: "L1 to L0 (MTE1)", Pipe.MTE2: "Global memory in (MTE2)",
    Pipe.MTE3: "Global memory out (MTE3)", Pipe.FIX: "Cube result out (FIX)",
}  # fmt: skip
# data paths of the transfers: path of configs/, machine instruction whose types the chip lists
PATHS: dict[str, tuple[tuple[str, str], ...]] = {
    "data_move": (
        ("GM_UB", "data_move_out2ub"), ("GM_L1", "data_move_out2l1"), ("UB_GM", "data_move_ub2out"),
        ("L1_GM", "data_move_l12out"), ("UB_UB", "data_move_ub2ub"), ("UB_L1", "data_move_ub2l1"),
        ("L1_UB", "data_move_l12ub"), ("L1_FB", "fix_pipe_l12fb"),
    ),
    "data_move_l12bt": (("L1_BT", "data_move_l12bt"),),
    "data_move_nd2nz": (("GM_L1:nd2nz", "data_move_out2l1_nd2nz"),),
    "data_move_nz2nd": (("UB_GM", "data_move_ub2out"),),
    "data_move_pad_in": (("GM_UB:pad", "data_move_pad"),),
    "data_move_pad_out": (("UB_GM", "data_move_pad"),),
    "load2d": (
        ("L1_L0A", "data_move_l12l0a"), ("L1_L0B", "data_move_l12l0b"), ("GM_L0A", "data_move_out2l0a"),
        ("GM_L0B", "data_move_out2l0b"), ("GM_L1", "data_move_out2l1"),
    ),
    "load2dt": (
        ("L1_L0A:transpose", "data_move_transpose_l12l0a"), ("L1_L0B:transpose", "data_move_transpose_l12l0b"),
    ),
    "load2d_sparse": (("L1_L0B", ""),),
    "load3dv2": (("L1_L0A:3d", ""), ("L1_L0B:3d", ""), ("L1_L0A:3d_c04", "")),
    "load3dv1": (("L1_L0A:3d", ""), ("L1_L0B:3d", ""), ("L1_L0A:3d_c04", "")),
    "set_l1": (("CONST_L1", "set_l1"), ("CONST_L0A", "set_l0a"), ("CONST_L0B", "set_l0b")),
    "fixpipe": (
        ("L0C_GM", "fix_pipe_l0c2out"), ("L0C_GM:nz2nd", "fix_pipe_l0c2out"), ("L0C_GM:atomic", "fix_pipe_l0c2out"),
        ("L0C_L1", "fix_pipe_l0c2l1"),
    ),
    "data_move_l0c2ub": (("L0C_UB", "data_move_l0c2ub"), ("L0C_UB:float32_float16", "data_move_l0c2ub")),
    "data_move_ub2l0c": (("UB_L0C", "data_move_l0c2ub"),),
    "broadcast_ub_to_cc": (("UB_L0C", "broadcast_ub_to_cc"),),
    "load_image_to_cbuf": (("GM_L1:aipp", ""),),
    "load_image_to_local": (("GM_L1:aipp", ""),),
}  # fmt: skip
# chips (families) of instructions that the tables do not list
FAMILIES = {
    "load2d_sparse": ("910B1",), "mmad_sp": ("910B1",), "load3dv1": ("910A", "310P3"),
    "load3dv2": ("310P3", "310B1", "910B1"), "load_image_to_local": ("910A", "310P3", "310B1", "910B1"),
    "load_image_to_cbuf": ("910A", "310P3", "310B1"), "vconv_deq": ("310P3", "910B1"), "vbi": ("310P3",),
}  # fmt: skip
# chips where the language puts the call together from other instructions
COMPOSED = {"vadddeqrelu": ("910B1",), "vbi": ("910B1",), "vci": ("310P3", "910B1"), "vbrcb": ("310P3",)}
WITHOUT = {"load_image_to_cbuf": ("c100",), "load_image_to_local": ("c100",)}  # of a family, these have it not
LISTED = {"vcmp": "vcmpv_eq", "vcmps": "vcmpvs_eq", "vconv_deq": ""}  # instruction -> its name in the tables
CUBE = (
    ("half", "fp16", 16), ("int8", "int8", 32), ("float32", "fp32", 8), ("HF32", "hf32", 8), ("int4", "int4", 64),
)  # fmt: skip
SECTIONS = (
    ("calls_sync", "Flags, barriers and masks"), ("calls_move", "Atomic writes"),
    ("calls_load", "Registers of loads"), ("calls_cube", "Registers of the cube and its exit"),
    ("calls_rearrange", "Registers of comparisons"), ("calls_composite", "Registers of conversions"),
    ("calls_aipp", "Registers of image loads"), ("calls_reduce", "Compositions: reductions"),
    ("calls_sort", "Compositions: sorting"), ("calls_block", "Order between blocks"),
    ("calls_system", "Scalar unit, caches, messages"), ("machine", "Place of a core"),
)  # fmt: skip

HEAD = """# Instructions

Written by `python -m ascend_sim.asc.page docs/isa.md` from the code and the chip descriptions; do not edit.

Calls are those of `ascend_sim.asc`; the machine name in brackets is what traces and timelines show. Chips: Ascend310,
910A, 310P3, 310B1 and 910B2 stand for their families (910B1 to B4 differ in rates only).

**Forms.** Vector instructions take the first `count` elements, or `mask` (a number of lanes, or 64-bit words, lowest
first), `repeat_times` (0..255; 0 does nothing) and a record of strides: between the 32-byte blocks of a repeat and
between repeats (0..255, in blocks). A repeat is 256 bytes of the widest operand. Lanes outside the mask keep what the
destination holds. After `set_mask_count()` the mask counts elements over all repeats (not on 310 and 910, where the
first-`count` form is a loop of whole repeats and a masked rest).

**Restrictions of all.** Vector operands lie in the unified buffer, starts are multiples of 32 bytes unless an
instruction says otherwise, extents stay inside tensor and buffer, a block stride of the destination is not 0. Buffers
align to 32 bytes, L0A and L0B to 512, L0C to 64. A broken restriction raises `InstructionError` with instruction,
operand, value, rule and the kernel's source line.

**Numbers.** Half and bfloat16 are computed in float32 and rounded once, half to even; 310, 910 and 310P limit half
results to 65504 instead of producing infinities. Integers wrap in arithmetic and saturate in conversions.

**Cycles.** Vector: `a / b / c` = an instruction of n repeats occupies the unit for max(a, b n) cycles and its result is
visible c cycles later; besides, every instruction costs {floor} (issue), counter mode and bank conflicts more.
Transfers: `f + q r + B/w, +l` = fixed cycles, q cycles for each of r rows (bursts), B bytes at w per cycle, latency; a
transfer to or from global memory takes the longer of requests (f + q r) and port (B/w), within its share of the memory
bandwidth. How the figures combine: [timing.md](timing.md). Confidence: **m**easured, **d**ocumented, d**e**rived,
**g**uess, the worst of a cell's figures. Types: f16 half, bf16, f32, s8/u8 to s32/u32; `f162s8` converts, letters
behind a colon are rounding modes (r rint, f floor, c ceil, a half away from zero, z trunc, o odd, n exact or default).
"""
_LETTER = {"measured": "m", "documented": "d", "derived": "e", "guess": "g"}


def _number(value: float) -> str:
    return f"{value:.4g}"


def _signature(name: str, function: Callable[..., Any]) -> str:
    """The call without types: ``add(dst, src0, src1, mask=None, ...)``."""
    parts: list[str] = []
    star = False
    for p in inspect.signature(function).parameters.values():
        if p.name == "self":
            continue
        text = p.name
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if p.kind is p.VAR_POSITIONAL:
            text, star = "*" + text, True
        elif p.kind is p.VAR_KEYWORD:
            text = "**" + text
        elif p.default is not p.empty:
            default = p.default.name if hasattr(p.default, "name") else repr(p.default)
            text += f"={default}"
        parts.append(text)
    return f"{name}({', '.join(parts)})"


def _first(function: Callable[..., Any]) -> str:
    """The description of a call, one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _types(row: Row, rules: ChipRules) -> str:
    """Types of an instruction on a chip, or why there are none."""
    if rules.family in COMPOSED.get(row.name, ()):
        return "composed"
    families = FAMILIES.get(row.name)
    if families is not None:
        return "yes" if rules.family in families and rules.arch not in WITHOUT.get(row.name, ()) else "–"
    paths = PATHS.get(row.name)
    if paths is None:
        name = LISTED.get(row.name, row.name)
        if name == "vreducev2" and not rules.exists(name):
            name = "vreduce"
        return " ".join(sorted(rules.table.get(name, ()))) or "–"
    found = [(path, _path_types(path, name, rules)) for path, name in paths]
    if len({cell for _, cell in found}) == 1:
        return found[0][1] or "–"
    alike: dict[str, list[str]] = {}
    for path, cell in found:
        alike.setdefault(cell, []).append(path)
    return "<br>".join(f"{', '.join(paths)}: {cell}" for cell, paths in alike.items() if cell) or "–"


def _path_types(path: str, name: str, rules: ChipRules) -> str:
    if rules.split and path in ("GM_UB", "UB_GM", "UB_UB"):
        return "all"  # the tables of 910B describe its cube cores only
    return " ".join(sorted(rules.table.get(name, ())))


def _vector_rows(op: str, soc: Soc) -> list[str]:
    table = soc.vector.cycles
    return [name for name in table if name == op or name.startswith(f"{op}:")] or [x for x in table if x == "default"]


def _vector(row: Row, soc: Soc) -> str:
    lines = []
    for name in _vector_rows(row.name, soc):
        first, each, tail = (_number(float(c) * soc.vector.scale) for c in soc.vector.cycles[name])
        label = f"{name.split(':')[1]}: " if ":" in name else ""
        letter = _LETTER[soc.confidence(f"vector.cycles.{name}", "vector.scale")]
        lines.append(f"{label}{first} / {each} / {tail} {letter}")
    return "<br>".join(lines)


def _path(name: str, soc: Soc) -> str:
    key = name if name in soc.mte.paths else name.split(":", maxsplit=1)[0]
    path = soc.mte.paths.get(key)
    if path is None:
        return ""
    terms = [_number(path.fixed_cycles)]
    if path.burst_cycles:
        terms.append(f"{_number(path.burst_cycles)} r")
    terms.append(f"B/{_number(path.bytes_per_cycle)}")
    return f"{' + '.join(terms)}, +{_number(path.latency_cycles)} {_LETTER[soc.confidence(f'mte.paths.{key}')]}"


def _label(path: str) -> str:
    """A path with its unit."""
    pipe = PATH_PIPES.get(path.split(":", maxsplit=1)[0])
    return f"{path} ({pipe.name})" if pipe is not None else path


def _cube(soc: Soc) -> str:
    c, lines = soc.cube, []
    for title, key, k in CUBE:
        each = getattr(c, f"{key}_cycles_per_fractal")
        if each:
            letter = _LETTER[soc.confidence(f"cube.{key}_cycles_per_fractal", "cube.head_cycles", "cube.tail_cycles")]
            lines.append(f"{title} 16x{k}x16: {_number(each)} {letter}")
    return "<br>".join([f"{_number(c.head_cycles)} + fractals x", *lines, f"+{_number(c.tail_cycles)}"])


def _cycles(row: Row, rules: ChipRules, soc: Soc) -> str:
    if _types(row, rules) in ("–", "composed"):
        return "–"
    if row.pipe is Pipe.M:
        return _cube(soc)
    if row.name in PATHS:
        cells = [(name, _path(name, soc)) for name, _ in PATHS[row.name]]
        several = len(cells) > 1
        return "<br>".join(f"{_label(name)}: {cell}" if several else cell for name, cell in cells if cell) or "–"
    return _vector(row, soc)


def _table(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    yield "| | " + " | ".join(name.removeprefix("Ascend") for name in CHIPS) + " |"
    yield "|---" * (len(CHIPS) + 1) + "|"
    for title, cells in rows:
        yield f"| {title} | " + " | ".join(cells) + " |"


def _instruction(row: Row, socs: Sequence[Soc], rules: Sequence[ChipRules]) -> Iterator[str]:
    yield f"### {', '.join(row.calls)} ({row.name})"
    yield ""
    for call in row.calls:
        function = getattr(language, call)
        signature = _signature(call, function)
        yield f"`{signature}`" + (f": {_first(function)}" if "*args" in signature or "*rest" in signature else "")
        yield ""
    yield row.text + "."
    yield ""
    for rule in row.rules:
        yield f"- {rule}"
    if row.rules:
        yield ""
    types = [_types(row, r) for r in rules]
    cycles = [_cycles(row, r, s) for r, s in zip(rules, socs, strict=True)]
    yield from _table([("types", types), ("cycles", cycles)])
    yield ""


def _others() -> dict[str, list[str]]:
    """Calls without an instruction of their own, by the module that defines them."""
    told = {call for row in ROWS.values() for call in row.calls}
    found: dict[str, list[str]] = {}
    for name in language.__all__:
        value = getattr(language, name)
        if name not in told and inspect.isfunction(value):
            found.setdefault(value.__module__.rsplit(".", 1)[1], []).append(name)
    return found


def _section(title: str, names: Sequence[str], room: Any) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    for name in sorted(names):
        value = getattr(room, name)
        told = _first(value)
        yield f"- `{_signature(name, value)}`" + (f": {told}" if told else "")
    yield ""


def page() -> str:
    """The whole page."""
    socs = [load_soc(name) for name in CHIPS]
    rules = [rules_for(soc) for soc in socs]
    out = [HEAD.replace("{floor}", f"{_number(socs[-1].vector.instruction_cycles)} cycles")]
    count = sum(len(row.calls) for row in ROWS.values())
    others = _others()
    out.append(f"{len(ROWS)} instructions behind {count} calls, and {sum(map(len, others.values()))} further calls.\n")
    for pipe, title in TITLES.items():
        out += [f"## {title}", ""]
        for row in sorted((r for r in ROWS.values() if r.pipe is pipe), key=lambda r: r.calls):
            out += _instruction(row, socs, rules)
    out += ["## Scalar unit and compositions", ""]
    out.append("Scalar instructions hold up the scalar unit, which dispatches for all others. Their cycles:\n")
    sync = ("issue_cycles", "set_cycles", "wait_cycles", "barrier_cycles", "cross_core_cycles", "flag_ids")
    out += _table([
        (name, [f"{_number(getattr(s.sync, name))} {_LETTER[s.confidence(f'sync.{name}')]}" for s in socs])
        for name in sync
    ])  # fmt: skip
    out.append("")
    out += _table([("types of atomic writes", [" ".join(ATOMIC_TYPES[r.family or ""]) for r in rules])])
    out.append("")
    for module, title in SECTIONS:
        if module in others:
            out += _section(title, others[module], language)
    high = [n for n in adv.__all__ if inspect.isfunction(getattr(adv, n)) and n[0].islower()]
    out += ["## High level (`asc.adv`)", ""]
    out += _section("Functions", high, adv)
    methods = {n: m for n, m in vars(adv.Matmul).items() if inspect.isfunction(m) and not n.startswith("_")}
    out += _section(f"Methods of `Matmul`: {_first(adv.Matmul)}", list(methods), adv.Matmul)
    text = "\n".join(out)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def main(argv: Sequence[str]) -> None:
    """Write the page to the file named, or to standard output."""
    if argv:
        Path(argv[0]).write_text(page())
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
