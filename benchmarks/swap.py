"""``python -m benchmarks.swap [--report docs/chips.md]``: the same operators on several chips, and why they differ.

The ratio of each time to the reference chip is split into factors: the figures of the reference are replaced by those
of the other chip, one group after the other (clock, cores, L2, memory, launch), and the operator is timed after each.
What then remains comes from the design of the cores: instruction set, buffers, data paths, and the kernel written for
them. A group's factor depends on what was replaced before it: more cores do not help a stream that memory bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_sim.api import Report, Simulator
from ascend_sim.cli.table import render
from ascend_sim.graph.single_op import build_call
from ascend_sim.ops.schema import OpCall
from ascend_sim.soc import Soc, load_soc

REFERENCE = "Ascend910B2"
CHIPS = ("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910A")
NOTABLE = 0.01  # factors nearer to 1 are left out of the reasons

OPERATORS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "GEMM 4096 x 4096 x 4096": ("MatMulV2", ["4096x4096:float16", "4096x4096:float16"], {}),
    "Add of 64 MB tensors": ("Add", ["33554432:float16", "33554432:float16"], {}),
    "Softmax 8192 x 4096": ("SoftmaxV2", ["8192x4096:float16"], {"axes": (-1,)}),
    "Conv 3 x 3, 32 x 128 x 28 x 28": (
        "Conv2D",
        ["32x128x28x28:float16:NC1HWC0", "128x128x3x3:float16:FRACTAL_Z"],
        {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "groups": 1, "data_format": "NCHW"},
    ),
    "Attention 32 heads of 128, 2048 tokens": (
        "FusedInferAttentionScore",
        ["1x2048x32x128:float16"] * 3,
        {"num_heads": 32, "num_key_value_heads": 32, "scale": 128**-0.5, "input_layout": "BSND"},
    ),
}

# Figures that can be replaced, and the sentence that says so.
GROUPS: dict[str, tuple[tuple[str, ...], str]] = {
    "clock": (("cores.clock_mhz", "cores.vector_core_clock_mhz"), "{cores.clock_mhz:g} MHz"),
    "cores": (("cores.ai_core_count",), "{cores.ai_core_count} cores"),
    "L2": (
        ("memory.l2_bytes", "memory.l2_read_gbps", "memory.l2_write_gbps"),
        "L2 of {l2_mib:g} MiB at {memory.l2_read_gbps:g} GB/s",
    ),
    "memory": (
        ("memory.read_gbps", "memory.write_gbps", "memory.read_only_factor"),
        "memory at {memory.read_gbps:g} GB/s",
    ),
    "launch": (
        ("launch.head_us", "launch.per_block_us"),
        "launch of {launch.head_us:g} us and {launch.per_block_us:g} us a block",
    ),
}


@dataclass(frozen=True)
class Comparison:
    """An operator on a chip: ``ratio`` of its time to the reference, and ``factors`` by group; their product times
    ``design`` is the ratio."""

    what: str
    chip: Soc
    report: Report
    ratio: float
    factors: Mapping[str, float]
    design: float

    @property
    def reason(self) -> str:
        """Which figures make the difference, the largest factor first."""
        if self.chip.name == REFERENCE:
            return f"reference: bound by {self.report.bound}"
        found = [(f, _say(group, self.chip)) for group, f in self.factors.items() if abs(f - 1) > NOTABLE]
        if abs(self.design - 1) > NOTABLE:
            found.append((self.design, f"design of its cores ({self.chip.chip.arch}) and their kernel"))
        found.sort(key=lambda item: -abs(item[0] - 1))
        same = [_say(group, self.chip) for group in self.factors if self.differs(group)]
        idle = f"{', '.join(same)}: within 1 %" if same else "no figure of the time differs"
        return "; ".join(f"{text}: x{factor:.2f}" for factor, text in found) or idle

    def differs(self, group: str) -> bool:
        """Whether the chip has other figures than the reference."""
        reference = load_soc(REFERENCE)
        return any(_value(self.chip, key) != _value(reference, key) for key in GROUPS[group][0])


def compare(what: str, chip: Soc, reference: Soc) -> Comparison:
    """Time an operator on the chip, and on the reference with more and more of the chip's figures."""
    call = _call(what, reference)
    base = _us(call, reference)
    changes: dict[str, Any] = {}
    factors, before = {}, base
    for group, (keys, _) in GROUPS.items():
        changes |= {key: _value(chip, key) for key in keys}
        now = _us(call, reference.override(changes))
        factors[group], before = now / before, now
    report = Simulator(chip).op(_call(what, chip))
    return Comparison(what, chip, report, report.us / base, factors, report.us / before)


def _call(what: str, chip: Soc) -> OpCall:
    """The operator as the stock library stores its operands: matrices as FRACTAL_NZ where the DMA cannot block them."""
    op, inputs, attrs = OPERATORS[what]
    if op == "MatMulV2" and not chip.chip.has_fixpipe:
        inputs = [f"{word}:FRACTAL_NZ" for word in inputs]
    return build_call(op, inputs, attrs)


def _us(call: OpCall, soc: Soc) -> float:
    return Simulator(soc).op(call).us


def _value(soc: Soc, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(soc, section), name)


def _say(group: str, soc: Soc) -> str:
    return GROUPS[group][1].format(
        cores=soc.cores, memory=soc.memory, launch=soc.launch, l2_mib=soc.memory.l2_bytes / 2**20
    )


def comparisons() -> list[Comparison]:
    """All operators on all chips."""
    reference = load_soc(REFERENCE)
    return [compare(what, load_soc(name), reference) for what in OPERATORS for name in CHIPS]


HEADER = ["operator", "chip", "us", f"to {REFERENCE.removeprefix('Ascend')}", "bound", "why", "error band"]


def cells(c: Comparison) -> list[str]:
    """One line under `HEADER`."""
    bound = "estimated" if c.report.estimated else c.report.bound
    return [c.what, c.chip.name.removeprefix("Ascend"), f"{c.report.us:.1f}", f"{c.ratio:.2f}", bound, c.reason,
            c.report.band_text]  # fmt: skip


def page(found: Sequence[Comparison]) -> str:
    """The Markdown page."""
    from ascend_sim.profiling.accuracy_page import table

    chips = [load_soc(name) for name in CHIPS]
    figures = [
        ["AI cores", *(str(c.cores.ai_core_count) for c in chips)],
        ["vector cores", *(str(c.cores.vector_core_count) for c in chips)],
        ["clock, MHz", *(f"{c.cores.clock_mhz:g}" for c in chips)],
        ["memory, GB/s", *(f"{c.memory.read_gbps:g}" for c in chips)],
        ["L2, MiB", *(f"{c.memory.l2_bytes / 2**20:g}" for c in chips)],
        ["L2, GB/s", *(f"{c.memory.l2_read_gbps:g}" for c in chips)],
        ["launch, us", *(f"{c.launch.head_us + c.launch.per_block_us * c.cores.ai_core_count:.2f}" for c in chips)],
    ]
    text = (__doc__ or "").partition("\n\n")[2]
    parts = [
        "# The same operators on several chips\n",
        "Generated by `python -m benchmarks.swap --report docs/chips.md`. Times are of the second of two runs on the "
        "same buffers, on an idle device, launch included. Matrices of 910A are FRACTAL_NZ, as its converter stores "
        "them.\n",
        text,
        table(["", *(c.name.removeprefix("Ascend") for c in chips)], figures),
        table(HEADER, [cells(c) for c in found]),
    ]
    return "\n".join(parts)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.swap", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the page (Markdown)")
    args = parser.parse_args(argv)
    found = comparisons()
    if args.report:
        args.report.write_text(page(found), encoding="utf-8")
    print(render(HEADER, [cells(c) for c in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
