"""What importing torch_npu costs CPU tensors in the same process: pairs of processes take turns on one core.

``python benchmarks/torch_cpu.py`` (needs torch). A turn is a few milliseconds of one case in each process, so a change
of the machine's clock or load meets both; the figures are medians of the ratio of the two
times. Two equal processes differ by a per cent or two (memory layout): pairs without torch_npu show how much.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PAIRS, TURNS, SECONDS = 5, 50, 0.004


def cases() -> dict[str, Callable[[], Any]]:
    import torch

    x, big = torch.rand(4, 4), torch.rand(128, 128)
    net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    batch = torch.rand(8, 32)

    def train() -> None:
        net.zero_grad()
        net(batch).sum().backward()

    return {
        "add": lambda: x + x, "add_": lambda: x.add_(0.0), "empty": lambda: torch.empty(4, 4), "view": lambda: x[1:],
        "softmax": lambda: torch.softmax(x, -1), "sum": x.sum, "copy": lambda: x.clone().to(torch.float16),
        "mm 128": lambda: big @ big, "train step": train,
    }  # fmt: skip


def worker(with_npu: bool) -> None:
    """Answers 'case calls' with the thread's seconds of that many calls."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import torch

    torch.set_num_threads(1)
    if with_npu:
        import torch_npu  # noqa: F401

        (torch.ones(2, device="npu") + 1).cpu()  # everything is set up
    known = cases()
    for line in sys.stdin:
        name, calls = line.rstrip("\n").rsplit(" ", 1)
        call = known[name]
        begin = time.thread_time()
        for _ in range(int(calls)):
            call()
        print(time.thread_time() - begin, flush=True)


def pair(flags: tuple[str, str]) -> dict[str, float]:
    """Ratio of the second process's time to the first's, by case."""
    env = {**os.environ, "ASCEND_SIM_QUIET": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    sides = [
        subprocess.Popen([sys.executable, __file__, "--worker", flag], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True, env=env)
        for flag in flags
    ]  # fmt: skip

    def ask(side: subprocess.Popen[str], name: str, calls: int) -> float:
        assert side.stdin is not None and side.stdout is not None
        side.stdin.write(f"{name} {calls}\n")
        side.stdin.flush()
        return float(side.stdout.readline())

    ratios = {}
    for name in cases():
        calls = 10
        while ask(sides[0], name, calls) < SECONDS:
            calls *= 2
        ask(sides[1], name, calls)
        turns = []
        for turn in range(TURNS):
            took = {i: ask(sides[i], name, calls) for i in ((0, 1) if turn % 2 else (1, 0))}
            turns.append(took[1] / took[0])
        ratios[name] = statistics.median(turns)
    for side in sides:
        assert side.stdin is not None
        side.stdin.close()
        side.wait()
    return ratios


def main() -> int:
    for title, flags in (("neither has torch_npu (noise)", ("0", "0")), ("one has torch_npu", ("0", "1"))):
        pairs = [pair(flags) for _ in range(PAIRS)]
        medians = {name: statistics.median(p[name] for p in pairs) for name in pairs[0]}
        print(title)
        for name, ratio in medians.items():
            print(f"  {name:<12}{100 * (ratio - 1):+6.1f} %")
        each = ", ".join(f"{100 * (statistics.geometric_mean(p.values()) - 1):+.1f}" for p in pairs)
        print(f"  all          {100 * (statistics.geometric_mean(medians.values()) - 1):+.1f} %   (by pair: {each})")
    return 0


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker(sys.argv[-1] == "1")
    else:
        raise SystemExit(main())
