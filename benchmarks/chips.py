"""One network on several chips, beside the roofline of each.

    python -m benchmarks.chips out/resnet50.onnx [--chips Ascend310 ...] [--batch 1 8]

The roofline is the larger of the network's multiply-accumulates at the cube's peak and its compulsory traffic
(weights, inputs, outputs once) at the memory interface's peak. Times are of the second run, without host copies.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ascend_sim import ops
from ascend_sim.api import Simulator
from ascend_sim.cli.table import render
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.load import load_network
from ascend_sim.ops.work import work_of
from ascend_sim.soc import Soc, load_soc

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4")


def roofline_us(model: LoadedModel, chip: Soc) -> float:
    """Least time of one execution, microseconds."""
    families = {name: op.family for name, op in ops.registry.operators().items()}
    macs = sum(work_of(node.call, families[node.call.type]).macs for node in model.calls)
    cube = macs / (4096 * chip.cores.ai_core_count * chip.cores.clock_mhz)
    nbytes = model.weight_size + sum(d.size for d in (*model.inputs, *model.outputs))
    return max(cube, nbytes / (chip.memory.peak_gbps * 1e3))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--chips", nargs="+", default=CHIPS)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    args = parser.parse_args()
    rows, broken = [], False
    for name in args.chips:
        chip = load_soc(name)
        for batch in args.batch:
            model = load_network(args.model, chip, batch)
            us = Simulator(chip).model(model).us
            least = roofline_us(model, chip)
            broken |= us < least
            rows.append([chip.name, batch, f"{us:.0f}", f"{batch * 1e6 / us:.0f}", f"{batch * 1e6 / least:.0f}",
                         f"{least / us:.0%}"])  # fmt: skip
    print(render(["chip", "batch", "us", "fps", "roofline fps", "of roofline"], rows))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
