"""What torch_npu costs on the host: us of processor time per call on 4x4 tensors; plain CPU tensors before and after.

``python benchmarks/torch_dispatch.py`` (needs torch). ``enqueue`` is the call itself; ``with values`` includes the
simulated device's share (timing model and values) when the host synchronises.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

CALLS, ROUNDS = 200, 9


def median_us(call: Callable[[], Any], settle: Callable[[], Any] = lambda: None) -> tuple[float, float]:
    """Median over rounds of (us to enqueue, us with the device's share) per call."""
    enqueue, whole = [], []
    for _ in range(ROUNDS):
        settle()
        begin = time.thread_time()
        for _ in range(CALLS):
            call()
        middle = time.thread_time()
        settle()
        end = time.thread_time()
        enqueue.append((middle - begin) / CALLS * 1e6)
        whole.append((end - begin) / CALLS * 1e6)
    return statistics.median(enqueue), statistics.median(whole)


def cases(x: Any) -> dict[str, Callable[[], Any]]:
    import torch

    return {
        "add": lambda: x + x, "mul scalar": lambda: x * 2.0, "mm": lambda: x @ x, "relu": x.relu,
        "softmax": lambda: torch.softmax(x, -1), "sum": x.sum, "add_": lambda: x.add_(0.0),
    }  # fmt: skip


def main() -> int:
    os.environ.setdefault("ASCEND_SIM_QUIET", "1")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch alone first
    import torch

    torch.set_num_threads(1)
    cpu = torch.rand(4, 4)
    with torch.no_grad():
        before = {name: median_us(call)[0] for name, call in cases(cpu).items()}
        import torch_npu

        assert torch_npu.npu.is_available()
        after = {name: median_us(call)[0] for name, call in cases(cpu).items()}
        again = {name: median_us(call)[0] for name, call in cases(cpu).items()}
        npu = cpu.npu()
        for call in cases(npu).values():
            call()
        device = {name: median_us(call, torch.npu.synchronize) for name, call in cases(npu).items()}
    write = sys.stdout.write
    write(f"{'':<12}{'CPU before':>12}{'CPU after':>12}{'npu enqueue':>14}{'with values':>14}   (us)\n")
    for name, early in before.items():
        late = min(after[name], again[name])
        write(f"{name:<12}{early:>12.2f}{late:>12.2f}{device[name][0]:>14.2f}{device[name][1]:>14.2f}\n")
    change = sum(min(after[n], again[n]) for n in before) / sum(before.values()) - 1
    write(f"CPU tensors with torch_npu imported: {100 * change:+.1f} %\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
