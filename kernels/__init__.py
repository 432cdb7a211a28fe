"""Stock operator kernels written in `ascend_sim.asc`.

Importing this package imports every public module in it (names without a leading underscore); each declares
its plans with `ascend_sim.ops.registry.kernel`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

MODULES: tuple[str, ...] = tuple(
    sorted(info.name for info in iter_modules(__path__) if not info.name.startswith("_"))
)

for _name in MODULES:
    import_module(f"{__name__}.{_name}")
