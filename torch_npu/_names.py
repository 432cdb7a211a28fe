"""Modules of torch_npu that here are other names of one: programs import the same things by several paths."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_OPTIMIZERS = ("adadelta", "adam", "adamp", "adamw", "bert_adam", "lamb", "optim_base", "rmsprop", "rmsprop_tf", "sgd")
_LAYERS = ("activations", "bidirectional_lstm", "crossentropy", "drop_path", "ensemble_dropout",
           "focus", "npu_modules", "prefetcher")  # fmt: skip
_FUNCTIONS = ("fuse_add_softmax_dropout", "index_op", "matmul_transpose", "npu_functional", "roll")

# module -> where its names are looked up, in this order (below torch_npu, or torch's own)
MODULES: dict[str, tuple[str, ...]] = {
    "npu.npu_config": ("npu",),
    "npu.autocast_utils": ("npu",),
    "npu.deterministic": ("npu",),
    "npu.backends": ("npu",),
    "profiler.experimental_config": ("profiler.config", "profiler"),
    "profiler.scheduler": ("profiler.schedule",),
    "profiler.profiler_interface": ("profiler",),
    "utils.combine_tensors": ("utils",),
    "utils.serialization": ("utils", "torch.serialization"),
    "utils.flops_count": ("utils",),
    "utils.affinity": ("utils",),
    "distributed.distributed_c10d": ("distributed", "torch.distributed.distributed_c10d"),
    "distributed.fsdp": ("torch.distributed.fsdp",),
    "distributed.run": ("torch.distributed.run",),
    **{f"optim.npu_fused_{name}": ("optim",) for name in _OPTIMIZERS},
    **{f"contrib.module.{name}": ("contrib.module",) for name in _LAYERS},
    **{f"contrib.function.{name}": ("contrib.function",) for name in _FUNCTIONS},
}


class _Alias(ModuleType):
    """Finds its names in the modules of ``_sources``, imported when first asked."""

    _sources: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for source in self._sources:
                full = source if source.startswith("torch.") else f"torch_npu.{source}"
                try:
                    return getattr(importlib.import_module(full), name)
                except AttributeError:
                    continue
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def install() -> None:
    """Make every module of `MODULES` importable, and an attribute of its parent where that has no such name."""
    for name, sources in MODULES.items():
        full = f"torch_npu.{name}"
        module = _Alias(full, f"Other names of {', '.join(sources)}.")
        module._sources = sources
        module.__file__ = __file__
        sys.modules[full] = module
        parent, _, last = full.rpartition(".")
        found = sys.modules.get(parent)
        if found is not None and not hasattr(found, last):
            setattr(found, last, module)
