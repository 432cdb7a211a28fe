"""The search for figures of networks: known figures are found again, and stay at their start when nothing tells."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.profiling.calibration import ModelRow
from ascend_sim.soc import load_soc
from benchmarks.networks.fit import Effects, combined, loss, search
from benchmarks.networks.parameters import PARAMETERS, Parameter

EXECUTE = Parameter("execute", ("launch.model_execute_us",), "us", 50, 250, 100, 100, (250,), "", "", additive=True)
MEMORY = Parameter("memory", ("memory.read_gbps",), "GB/s", 100, 400, 150, 200, (100, 400), "", "")
UNUSED = Parameter("unused", ("vector.scale",), "factor", 0.5, 2, 1, 1, (0.7, 1.4), "", "")


def effects(true_execute: float, true_memory: float) -> Effects:
    """Networks of which ``mb`` megabytes and the execution decide the time, measured at the true values."""
    rows, base, slow, fast = [], [], [], []
    for network, mb in (("a", 20.0), ("b", 80.0), ("c", 320.0)):
        for batch in (1, 4, 16):
            moved = mb * batch * 1e3  # us x GB/s
            us = true_execute + moved / true_memory
            rows.append(ModelRow(f"{network}{batch}", "Ascend310P3", network, batch, us, ""))
            base.append(100 + moved / 200)
            slow.append(100 + moved / 100)
            fast.append(100 + moved / 400)
    now = np.asarray(base)
    times = (np.asarray([now, now + 150]), np.asarray([slow, base, fast]), np.asarray([base, base, base]))
    levels = ((100.0, 250.0), (100.0, 200.0, 400.0), (0.7, 1.0, 1.4))
    return Effects(tuple(rows), (EXECUTE, MEMORY, UNUSED), (100.0, 200.0, 1.0), now, levels, times)


@pytest.mark.parametrize(("execute", "memory"), [(100, 200), (180, 200), (60, 380), (220, 110)])
def test_known_figures_are_found(execute: float, memory: float) -> None:
    found = effects(execute, memory)
    values = search(found, np.ones(len(found.rows), bool))
    assert values[0] == pytest.approx(execute, abs=25)
    assert values[1] == pytest.approx(memory, rel=0.1)
    assert values[2] == 1.0


def test_rows_left_out_do_not_count() -> None:
    found = effects(100, 200)
    wrong = [r if r.model != "c" else ModelRow(r.id, r.soc, r.model, r.batch, 3 * r.us, "") for r in found.rows]
    spoilt = Effects(tuple(wrong), *(getattr(found, n) for n in ("parameters", "values", "base", "levels", "times")))
    chosen = np.asarray([r.model != "c" for r in wrong])
    assert search(spoilt, chosen) == search(found, chosen)
    assert loss(found.base, found.rows, chosen) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("chip", sorted(PARAMETERS))
def test_parameters_are_figures_of_their_chip(chip: str) -> None:
    soc = load_soc(chip)
    for p in PARAMETERS[chip]:
        assert p.low <= p.start <= p.high and p.low <= p.value(soc) <= p.high, p.name
        changed = soc.override(combined([p], [p.high]))
        assert p.value(changed) == pytest.approx(p.high)
        assert p.probes and p.at not in p.probes
