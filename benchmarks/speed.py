"""``python -m benchmarks.speed``: what simulating costs, in CPU seconds of a running process, against its goals.

    GEMM 1024^3, 8192^3   cold: plan, trace, price and replay; warm: the trace is known, price and replay really run
    4096^3 with values    the product of float16 matrices computed as well
    ResNet-50             batch 1, timing of every operator of the compiled network; cold, warm, peak memory
    native replay         instructions per second on a flat trace (no loops to compress)

Each part runs in a process of its own. ``--scalesim PYTHON`` and ``--zigzag PYTHON`` name interpreters that have
these simulators installed: GEMM 1024^3 is then timed on them too (`benchmarks.peers`).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ascend_sim.cli.table import render

CHIP = "Ascend910B2"
ROOT = Path(__file__).parent.parent
Figures = dict[str, float]


def cpu(work: Callable[[], Any], times: int = 1) -> float:
    """CPU seconds of one call, the least of ``times``."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def peak_mib() -> float:
    """Peak memory of this process; the usage record alone would carry over that of the process it was started by."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _matmul(size: int) -> Any:
    from ascend_sim import ops
    from ascend_sim.ops.schema import TensorSpec

    ops.load()
    operand = TensorSpec((size, size), "float16")
    return ops.call("MatMulV2", [operand, operand, None])


def _forget_replays() -> None:
    from ascend_sim.engine import simulate

    simulate._memo.clear()


def gemm(size: int) -> Figures:
    """Cold and warm timing of a product on a chip whose L2 is cold."""
    from ascend_sim.engine.memory import L2
    from ascend_sim.ops.cost import op_timing
    from ascend_sim.soc import load_soc

    soc = load_soc(CHIP)
    op_timing(_matmul(256), soc, L2(soc))  # the process is running: modules and chip are loaded
    call = _matmul(size)
    cold = cpu(lambda: op_timing(call, soc, L2(soc)))

    def again() -> None:
        _forget_replays()
        op_timing(call, soc, L2(soc))

    return {"cold": cold, "warm": cpu(again, 5), "MiB": peak_mib()}


def values(size: int) -> Figures:
    """Values of a product of random float16 matrices, and its time."""
    import numpy as np

    from ascend_sim import ops
    from ascend_sim.engine.memory import L2
    from ascend_sim.ops.cost import op_timing
    from ascend_sim.soc import load_soc

    soc, rng = load_soc(CHIP), np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(np.float16) for _ in range(2))
    ops.values(_matmul(64), [a[:64, :64].copy(), b[:64, :64].copy(), None])
    call = _matmul(size)

    def both() -> None:
        op_timing(call, soc, L2(soc))
        ops.values(call, [a, b, None])

    return {"cold": cpu(both), "MiB": peak_mib()}


def resnet(path: str) -> Figures:
    """Timing of every operator of a compiled network: first execution, and later ones."""
    from ascend_sim import ops
    from ascend_sim.engine.memory import L2
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.soc import load_soc

    soc = load_soc(CHIP)
    model = LoadedModel.from_file(Path(path))
    ops.load()
    l2 = L2(soc)

    def execute() -> None:
        for _ in model.operator_timings(soc, l2):
            pass

    def replayed() -> None:
        _forget_replays()
        execute()

    cold = cpu(execute)
    execute()
    return {"cold": cold, "warm": cpu(execute, 5), "replayed": cpu(replayed, 5), "MiB": peak_mib()}


def replay(instructions: int) -> Figures:
    """Instructions per second of the native engine on a program without loops: loads, flags, vector work, stores."""
    import numpy as np

    from ascend_sim.engine import native
    from ascend_sim.engine.machine import Core
    from ascend_sim.engine.timing import sync_times
    from ascend_sim.engine.trace import TraceBuilder
    from ascend_sim.isa.instr import MoveWork, Pipe, VectorWork
    from ascend_sim.soc import load_soc

    if not native.available():
        return {"rate": 0.0}
    b, add = TraceBuilder(), VectorWork("vadd", "float32", 32)
    load, store = MoveWork("GM_UB", 1, 8192, gm=0), MoveWork("UB_GM", 1, 8192, gm=1)
    for i in range(instructions // 10):
        slot = i % 2
        if i >= 2:
            b.wait_flag(Pipe.MTE3, Pipe.MTE2, slot)
        b.execute(Pipe.MTE2, load)
        b.set_flag(Pipe.MTE2, Pipe.V, slot)
        b.wait_flag(Pipe.MTE2, Pipe.V, slot)
        for _ in range(2):
            b.execute(Pipe.V, add)
        b.set_flag(Pipe.V, Pipe.MTE3, slot)
        b.wait_flag(Pipe.V, Pipe.MTE3, slot)
        b.execute(Pipe.MTE3, store)
        b.set_flag(Pipe.MTE3, Pipe.MTE2, slot)
    program, soc = b.build(), load_soc(CHIP)
    prices = np.array([100_000] * len(program.works), np.int64)
    core, sync = Core(program, "AIV", prices, prices), sync_times(soc, "AIV")
    native.replay([core], sync)
    return {"rate": program.executed / cpu(lambda: native.replay([core], sync), 5)}


PARTS: dict[str, Callable[[str], Figures]] = {
    "gemm": lambda argument: gemm(int(argument)),
    "values": lambda argument: values(int(argument)),
    "resnet": resnet,
    "replay": lambda argument: replay(int(argument)),
}


def run_part(name: str, argument: str) -> Figures:
    """A part in its own process."""
    command = [sys.executable, "-m", "benchmarks.speed", "--part", name, argument]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def compile_resnet(folder: Path) -> Path:
    """ResNet-50 with seeded weights, batch 1, compiled for the chip."""
    import onnx

    from ascend_sim.graph.compile import compile_model
    from ascend_sim.graph.options import CompileOptions
    from ascend_sim.soc import load_soc
    from benchmarks import seeded_models

    source, target = folder / "resnet50.onnx", folder / "resnet50.om"
    onnx.save(seeded_models.seeded_model("light_resnet50", batch=1), source)
    target.write_bytes(compile_model(source, load_soc(CHIP), CompileOptions()))
    return target


def lines(scalesim: str | None = None, zigzag: str | None = None) -> list[list[str]]:
    """Every measure as (what, found, goal, met)."""
    table: list[list[str]] = []

    def add(what: str, found: float, goal: float, unit: str, more: bool = False) -> None:
        good = found >= goal if more else found <= goal
        sign = ">=" if more else "<="
        table.append([what, f"{found:.3g} {unit}", f"{sign} {goal:g} {unit}", "yes" if good else "NO"])

    small, large = run_part("gemm", "1024"), run_part("gemm", "8192")
    add("GEMM 1024^3 cold", small["cold"], 0.1, "s")
    add("GEMM 8192^3 cold", large["cold"], 0.5, "s")
    add("GEMM 8192^3 warm, replayed", large["warm"] * 1e3, 5, "ms")
    add("GEMM 4096^3 with float16 values", run_part("values", "4096")["cold"], 3, "s")
    with tempfile.TemporaryDirectory() as folder:
        network = run_part("resnet", str(compile_resnet(Path(folder))))
    add("ResNet-50 batch 1 cold", network["cold"], 1, "s")
    add("ResNet-50 batch 1 warm", network["warm"] * 1e3, 20, "ms")
    add("ResNet-50 batch 1 warm, all kernels replayed", network["replayed"] * 1e3, 50, "ms")
    add("ResNet-50 peak memory", network["MiB"], 300, "MiB")
    add("native replay, flat trace", run_part("replay", "2000000")["rate"] / 1e6, 50, "M instr/s", more=True)
    if scalesim or zigzag:
        from benchmarks.peers import compare

        table.extend([what, f"{seconds:.3g} s", f"{seconds / small['cold']:.0f} x ours", ""] for what, seconds in
                     compare(scalesim, zigzag))  # fmt: skip
    return table


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description="CPU time and memory of simulating."
    )
    parser.add_argument("--scalesim", metavar="PYTHON", help="interpreter with scalesim (numpy 2.2)")
    parser.add_argument("--zigzag", metavar="PYTHON", help="interpreter with zigzag-dse and six")
    parser.add_argument("--part", nargs=2, metavar=("NAME", "ARGUMENT"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.part:
        print(json.dumps(PARTS[args.part[0]](args.part[1])))
        return 0
    print(render(["what", "found", "goal", "met"], lines(args.scalesim, args.zigzag)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
