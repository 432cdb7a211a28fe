"""The table a person reads after a run: one line an operator, with what bounds it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ascend_sim.engine.result import KernelTiming
from ascend_sim.engine.simulate import MATTERS
from ascend_sim.ops.schema import OpCall
from ascend_sim.profiling.bands import Band, band_of, family_of
from ascend_sim.profiling.store import EventStore
from ascend_sim.soc import CONFIDENCES, Soc

FOOTER = """\
us: tasks with their launch; cycles: the slowest core without it; both summed over runs; busy pipes: of a core's time
error: nine of ten measured tasks like this one (kind, length, chip) lie within; "-": none were measured"""
SHORT = {"vector": "vec", "cube": "cube", "scalar": "scl", "fixpipe": "fix"}


@dataclass
class Row:
    """All executions of one operator instance: sums over ``count`` runs, the weakest confidence of any, ``rests_on``
    the figures of the chip that matter in any."""

    name: str
    type: str
    shapes: str
    count: int
    ps: int
    blocks: int
    cycles: int
    busy: dict[str, int]
    core_ps: int
    estimated: bool
    confidence: str
    call: OpCall | None = None
    gm_bytes: int = 0
    hbm_bytes: int = 0
    rests_on: set[str] = field(default_factory=set)

    @property
    def bound(self) -> str:
        return max(self.busy, key=lambda p: (self.busy[p], p)) if self.busy else "-"

    @property
    def us(self) -> float:
        """Mean of a run."""
        return self.ps / 1e6 / max(self.count, 1)

    def figures(self, soc: Soc) -> dict[str, int]:
        """How many figures are measured, documented, derived and guessed."""
        known = Counter(soc.figures[key].confidence for key in self.rests_on if key in soc.figures)
        return {word: known[word] for word in CONFIDENCES}

    def band(self, soc: Soc) -> Band | None:
        """Error of the measured rows like this operator; None without such rows, or without a kernel."""
        return None if self.estimated else band_of(soc.name, family_of(self.type))


def rows(store: EventStore) -> list[Row]:
    """Operators in order of first execution, executions of the same one summed."""
    table: dict[tuple[Any, ...], Row] = {}
    for event in store.kernels():
        call: OpCall | None = event.args.get("call")
        key = (event.device, event.args.get("model_id"), event.name, call)
        row = table.get(key)
        if row is None:
            row = table[key] = Row(event.name, event.args["op_type"], _shapes(call), 0, 0, 0, 0, {}, 0, False, "", call)
        row.ps += event.duration
        row.count += event.args.get("part", 0) == 0
        row.estimated |= bool(event.args.get("estimated"))
        timing: KernelTiming | None = event.args.get("timing")
        if timing is not None:
            row.blocks = max(row.blocks, timing.blocks)
            row.cycles += timing.cycles
            row.core_ps += timing.core_ps
            word = timing.confidence if (op := event.args.get("op")) is None else op.confidence
            row.confidence = max(row.confidence or CONFIDENCES[0], word, key=CONFIDENCES.index)
            row.gm_bytes += timing.gm_read + timing.gm_write
            row.hbm_bytes += timing.hbm_bytes
            row.rests_on.update(key for key, _ in timing.rests_on)
            row.rests_on.update(key for key, us in timing.head_rests_on if us * 1e6 >= MATTERS * timing.task_ps)
            for pipe, busy in timing.busy_ps.items():
                row.busy[pipe] = row.busy.get(pipe, 0) + busy
        elif (op := event.args.get("op")) is not None:
            row.confidence = op.confidence
            row.rests_on.update(op.rests_on())
            row.gm_bytes += op.gm_read + op.gm_write
            row.hbm_bytes += op.hbm_bytes
    return list(table.values())


def render_table(store: EventStore, soc: Soc, most: int = 40) -> str:
    """The busiest ``most`` operators, by time."""
    everything = rows(store)
    total = sum(r.ps for r in everything)
    if not total:
        return f"{soc.name}: no operator ran on the device"
    busiest = sorted(everything, key=lambda r: -r.ps)[:most]
    lines = [
        [r.name[-40:], r.type, r.shapes, str(r.count), str(r.blocks), str(r.cycles), f"{r.ps / 1e6:.2f}",
         f"{r.ps / total:.1%}", "estimated" if r.estimated else r.bound, _ratios(r), _band(r, soc)]
        for r in busiest
    ]  # fmt: skip
    header = ["operator", "type", "inputs", "runs", "blocks", "cycles", "us", "share", "bound", "busy pipes", "error"]
    text = _render(header, lines)
    hidden = len(everything) - len(busiest)
    more = f"\n({hidden} more operators)" if hidden else ""
    return f"{soc.name}: {len(everything)} operators, {total / 1e6:.1f} us on the device\n{text}{more}\n{FOOTER}"


def _shapes(call: OpCall | None) -> str:
    if call is None:
        return ""
    return " ".join("x".join(map(str, s.shape)) or "1" for s in call.inputs if s is not None)[:48]


def _band(row: Row, soc: Soc) -> str:
    found = (band := row.band(soc)) and band.for_task(row.us)
    return f"+-{found[1]}" if found else "-"


def _ratios(row: Row) -> str:
    if not row.core_ps:
        return ""
    parts = sorted(((b / row.core_ps, p) for p, b in row.busy.items()), reverse=True)[:3]
    return " ".join(f"{SHORT.get(p, p)} {ratio:.0%}" for ratio, p in parts if ratio >= 0.01)


def _render(header: list[str], lines: list[list[str]]) -> str:
    widths = [max(len(h), *(len(line[i]) for line in lines)) for i, h in enumerate(header)]
    left = {0, 1, 2, 8, 9}
    shown = [
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in [header, *lines]
    ]
    return "\n".join(s.rstrip() for s in shown)
