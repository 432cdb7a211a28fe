"""Everything programs may import from ``asc.language`` and the modules below it.

pyasc spreads the language over many modules; here they are one namespace, which `ascend_sim.asc.shim` shows under
every one of those names.
"""

from __future__ import annotations

from ascend_sim.asc.adv import *  # noqa: F403
from ascend_sim.asc.adv import __all__ as _adv

from ascend_sim.asc import *  # noqa: F403  # isort: skip  (of equal names these are meant)
from ascend_sim.asc import __all__ as _base  # isort: skip
from ascend_sim.asc.scalars import Int
from ascend_sim.asc.struct import Field, Struct, StructField  # noqa: F401
from ascend_sim.isa import dtypes as _types


class KnownTypes:
    """The element types as attributes of one class, under their names and C names."""

    int8, int16, int32, int64 = _types.int8, _types.int16, _types.int32, _types.int64
    uint8, uint16, uint32, uint64 = _types.uint8, _types.uint16, _types.uint32, _types.uint64
    float16, bfloat16, float32, float64 = _types.float16, _types.bfloat16, _types.float32, _types.float64
    half, float_, double, int_, bool_ = float16, float32, float64, int32, int8


PlainValue = Int

__all__ = sorted({*_base, *_adv, "Field", "KnownTypes", "PlainValue", "Struct", "StructField"})  # noqa: PLE0605
