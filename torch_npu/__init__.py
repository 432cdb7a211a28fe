"""PyTorch device ``npu``: operators go through ``acl`` to the simulated Ascend chip.

``import torch_npu`` renames torch's private device to ``npu`` and registers memory, streams, events, random
generators, operators and automatic mixed precision; ``torch.npu`` is `torch_npu.npu`. The device layer in ``csrc`` is
built at the first import (`torch_npu.build`).
"""

from __future__ import annotations

import sys

__version__ = "2.13.0"

if "torch_npu.build" not in getattr(sys, "orig_argv", []):
    from torch_npu import _setup

    _setup.install()

    from torch_npu import _C, distributed, npu, optim, profiler, utils
    from torch_npu._ops import *  # noqa: F403
    from torch_npu.npu import config
    from torch_npu.npu.memory import _erase_stream as erase_stream

    _setup.finish()


def _autoload() -> None:
    """Entry point ``torch.backends``: importing this module has done everything."""
