"""docs/isa.md is what the code says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from ascend_sim import asc
from ascend_sim.asc.page import CHIPS, main, page
from ascend_sim.isa.rows import ROWS

ISA = Path(__file__).resolve().parents[2] / "docs" / "isa.md"


def test_page_is_up_to_date() -> None:
    assert ISA.read_text() == page(), "run `python -m ascend_sim.asc.page docs/isa.md`"


def test_page_tells_everything(tmp_path: Path) -> None:
    main([str(tmp_path / "isa.md")])
    text = (tmp_path / "isa.md").read_text()
    for row in ROWS.values():
        assert f"({row.name})" in text
        for call in row.calls:
            assert callable(getattr(asc, call)) and f"`{call}(" in text
    for chip in CHIPS:
        assert chip.removeprefix("Ascend") in text
    for call in ("set_flag", "cross_core_wait_flag", "ib_set", "printf", "set_atomic_max", "softmax"):
        assert f"`{call}(" in text


def test_every_chip_prices_its_instructions() -> None:
    """A type on a chip without cycles (or the other way round) would be a hole in the tables."""
    lines = page().splitlines()
    pairs = [(a, b) for a, b in pairwise(lines) if a.startswith("| types") and b.startswith("| cyc")]
    assert len(pairs) == len(ROWS)
    for types, cycles in pairs:
        for kind, cost in zip(types.split(" | ")[1:], cycles.split(" | ")[1:], strict=True):
            absent = kind.strip(" |") in ("–", "composed")
            assert absent == (cost.strip(" |") == "–"), (types, cycles)
