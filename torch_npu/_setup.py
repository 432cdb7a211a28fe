"""Installs device ``npu`` into torch: the order of the steps matters, each happens once per process."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import torch

from torch_npu import build
from torch_npu._backend import backend

ext: ModuleType = None  # type: ignore[assignment]


def install() -> None:
    """Load the extension, rename the device, hand over the simulator's functions, connect the dispatcher."""
    global ext
    if ext is not None:
        return
    build.check_version()
    torch.utils.rename_privateuse1_backend("npu")
    ext = build.load()
    ext.set_backend(backend)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_storage=True, unsupported_dtype=[]
    )
    from torch_npu import npu
    from torch_npu.dispatch import run

    torch._register_device_module("npu", npu)
    ext.set_dispatcher(run.compile_plan, run.launch, run.before_fallback, run.after_fallback, backend.settle,
                       backend.redraw)  # fmt: skip
    # one kernel for a whole encoder layer would hide what it is made of
    torch.backends.mha.set_fastpath_enabled(False)


def finish() -> None:
    """What needs `torch_npu.npu` in place."""
    from torch_npu import _names
    from torch_npu.distributed import register
    from torch_npu.npu.memory import host_empty_cache

    _names.install()
    # torch asks a host allocator of its own kind, which a device of this sort has not, without looking
    torch._C._accelerator_emptyHostCache = host_empty_cache  # type: ignore[attr-defined]
    register()
    if os.environ.get("TORCH_TRANSFER_TO_NPU") not in (None, "", "0"):
        if os.environ["TORCH_TRANSFER_TO_NPU"] != "1":
            raise ValueError(f"TORCH_TRANSFER_TO_NPU is {os.environ['TORCH_TRANSFER_TO_NPU']!r}: expected 0 or 1")
        from torch_npu.contrib import transfer_to_npu

        sys.modules["torch_npu.contrib.transfer_to_npu"] = transfer_to_npu
