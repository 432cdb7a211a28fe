"""Shipped kernels are clean on every chip that has them; mutants of them are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from judging import Verdict, subjects, tally
from mutants import choose
from reordering import differing_order
from shipped import BY_NAME, CASES, Case, prepare, run

from ascend_sim.asc.sanitizer import History, Report, check
from ascend_sim.isa.legality import InstructionError
from ascend_sim.soc import load_soc

UB_BYTES = 32768
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2", "Ascend310B1")


def narrow(chip: str, ub_bytes: int | None = None) -> Any:
    """The chip with few cores (and a small unified buffer), so that small data make loops of several tiles."""
    soc = load_soc(chip)
    changes: dict[str, Any] = {"cores.ai_core_count": 2}
    if soc.chip.split_cores:
        changes["cores.vector_core_count"] = 4
    if ub_bytes:
        changes["buffers.ub_bytes"] = ub_bytes
    return soc.override(changes)


def small(case: Case, chip: str) -> Any:
    """`narrow` with a small unified buffer, where the kernel's tiling fits into it."""
    soc = narrow(chip, UB_BYTES)
    ready = prepare(case, soc)
    try:
        if ready is not None:
            run(ready, lambda launch, buffers: launch.execute(buffers))
    except InstructionError:
        return narrow(chip)
    return soc


def reports(case: Case, soc: Any) -> list[Report]:
    ready = prepare(case, soc)
    found: list[Report] = []
    history = History()
    if ready is not None:
        run(ready, lambda launch, buffers: found.append(check(launch, buffers, history=history)))
    return found


def demand_clean(cases: Sequence[Case], soc_of: Callable[[Case], Any]) -> int:
    seen = 0
    for case in cases:
        for report in reports(case, soc_of(case)):
            assert report.clean, f"{case.name}: {report.text(hints=False)}"
            assert not [f for f in report.of("info") if f.code != "ErrorRead2"], report.text()
            seen += 1
    return seen


@pytest.mark.parametrize("chip", CHIPS)
def test_shipped_kernels_are_clean(chip: str) -> None:
    assert demand_clean(CASES[CHIPS.index(chip) % 3 :: 3], lambda case: narrow(chip)) >= 15


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_all_shipped_kernels_are_clean(chip: str) -> None:
    assert demand_clean(CASES, lambda case: small(case, chip)) >= 55
    assert demand_clean(CASES, lambda case: load_soc(chip)) >= 55


def orders_agree(chip: str, names: list[str]) -> None:
    for name in names:
        case = BY_NAME[name]
        ready = prepare(case, small(case, chip))
        if ready is None:
            continue

        def execute(launch: Any, buffers: Any, name: str = name) -> None:
            outputs = [i for i, entry in enumerate(launch.gm) if entry[3] != "in"]
            assert differing_order(launch, buffers, outputs) is None, name

        run(ready, execute)


def test_order_does_not_matter_to_the_values_of_shipped_kernels() -> None:
    orders_agree("Ascend910B2", ["add", "matmul", "deconv", "softmax"])


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_order_does_not_matter_to_any_shipped_kernel(chip: str) -> None:
    orders_agree(chip, list(BY_NAME))


def verdicts(chip: str, names: list[str], each: int) -> list[Verdict]:
    out: list[Verdict] = []
    for seed, name in enumerate(names):
        soc = small(BY_NAME[name], chip)
        ready = prepare(BY_NAME[name], soc)
        if ready is None:
            continue
        for subject in subjects(ready):
            if subject.calls:
                out += [subject.judge(m) for m in choose(subject.calls, each, soc.sync.flag_ids, seed)]
    return out


def demand(found: list[Verdict], alone: float, placed: float) -> None:
    """Every wrong mutant is reported (``alone`` of them without comparing values), ``placed`` with the right line."""
    wrong = [v for v in found if v.wrong]
    missed = [v for v in wrong if not v.reported]
    assert not missed, missed[:3]
    order = [v for v in wrong if v.wrong.startswith("order") and not v.alone]
    assert not order, order[:3]
    assert sum(v.alone for v in wrong) >= alone * len(wrong), tally(found)
    assert sum(v.placed for v in wrong) >= placed * len(wrong), tally(found)


def test_mutants_of_shipped_kernels_are_found() -> None:
    found = verdicts("Ascend910B2", ["add", "matmul", "conv", "softmax", "concat"], 6)
    found += verdicts("Ascend310P3", ["conv1x1"], 6)
    assert len([v for v in found if v.wrong]) >= 20
    demand(found, 0.9, 0.9)


@pytest.mark.slow
def test_many_mutants_of_all_shipped_kernels_are_found() -> None:
    found = verdicts("Ascend910B2", list(BY_NAME), 9) + verdicts("Ascend310P3", list(BY_NAME), 9)
    assert len(found) >= 800 and len([v for v in found if v.wrong]) >= 500, tally(found)
    demand(found, 0.94, 0.9)
