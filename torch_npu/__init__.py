"""PyTorch device ``npu``: operators go through ``acl`` to the simulated Ascend chip.

``import torch_npu`` renames torch's private device to ``npu`` and registers memory, streams, events, random
generators, operators and automatic mixed precision; ``torch.npu`` is `torch_npu.npu`. The device layer in ``csrc`` is
built at the first import (`torch_npu.build`).

``import torch`` alone does the same (torch's entry point ``torch.backends``, unless
``TORCH_DEVICE_BACKEND_AUTOLOAD=0``) once the device layer has been built: it never builds, and never stops torch.
"""

from __future__ import annotations

import sys

__version__ = "2.13.0"


def _wanted() -> bool:
    if "torch_npu.build" in getattr(sys, "orig_argv", []):
        return False
    from torch_npu import build

    if build.autoloading():
        return build.ready()
    build.import_torch()
    return True


_loaded = _wanted()
if _loaded:
    from torch_npu import _setup

    _setup.install()

    from torch_npu import _C, distributed, npu, optim, profiler, utils
    from torch_npu._ops import *  # noqa: F403
    from torch_npu.npu import config
    from torch_npu.npu.memory import _erase_stream as erase_stream

    _setup.finish()


def _autoload() -> None:
    """Entry point ``torch.backends``. Where nothing could be loaded, a later ``import torch_npu`` does so, or says why
    not."""
    if not _loaded:
        sys.modules.pop("torch_npu", None)
