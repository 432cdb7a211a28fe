"""The Llama-2-7B graph: its size is the published one, its times respect the chip, its cost stays small."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ascend_sim.soc import load_soc

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.llama import GOAL_SECONDS, Llama, simulate

PARAMETERS = 6_738_415_616  # of the published checkpoint, without rotary tables


def test_the_graph_has_the_weights_of_the_checkpoint() -> None:
    net = Llama()
    steps = list(net.forward(1, 0, 1))
    assert net.weight_bytes == 2 * PARAMETERS
    places = {address for step in steps for address in step.addresses}
    layers = [step.addresses[1] for step in steps if step.what == "down"]
    assert len(set(layers)) == 32 and set(layers) <= places


def test_two_layers_keep_their_bounds() -> None:
    (prefill, decode), weights = simulate("Ascend910B2", 512, 2)
    chip = load_soc("Ascend910B2")
    read = (weights - 32000 * 4096 * 2) / chip.memory.peak_gbps / 1e3  # embedding rows are not all read
    flops = 2 * 512 * 2 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert decode.busy_us > read
    assert prefill.busy_us > flops / (24 * 1.8e3 * 8192)  # 8192 FLOP a cycle and core
    assert prefill.busy_us > decode.busy_us
    assert {line.count for line in prefill.lines.values()} == {1, 2, 4, 5, 6}
    for found in (prefill, decode):
        assert found.busy_us == pytest.approx(sum(line.us for line in found.lines.values()))


@pytest.mark.slow
def test_the_whole_network_is_cheap() -> None:
    started = time.process_time()
    simulate("Ascend910B2")
    assert time.process_time() - started < GOAL_SECONDS
