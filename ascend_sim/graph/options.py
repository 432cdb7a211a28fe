"""What a conversion may be told: the flags of ATC that change the compiled model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ascend_sim.graph.errors import AtcError
from ascend_sim.soc import Soc

if TYPE_CHECKING:
    from ascend_sim.graph.aipp import AippConfig

PRECISION_MODES = (
    "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16", "must_keep_origin_dtype",
    "allow_mix_precision", "allow_mix_precision_fp16",
)  # fmt: skip
# --precision_mode_v2 names -> the same modes
PRECISION_MODES_V2 = {
    "fp16": "force_fp16", "origin": "must_keep_origin_dtype", "cube_fp16in_fp32out": "cube_fp16in_fp32out",
    "mixed_float16": "allow_mix_precision_fp16",
}  # fmt: skip
INPUT_FORMATS = ("NCHW", "NHWC", "ND", "NCDHW")
OUTPUT_TYPES = {"FP32": "float32", "FP16": "float16", "UINT8": "uint8", "INT8": "int8"}


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compilation, already checked. ``switched_off`` names passes that do not run;
    ``high_performance`` the operators that trade exactness for speed (--op_select_implmode); ``small_channel`` lets the
    first convolution pack four channels (--enable_small_channel)."""

    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    input_format: str = "NCHW"
    precision_mode: str = "force_fp16"
    output_types: dict[str, str] = field(default_factory=dict)  # output name, or "" for all -> dtype
    input_fp16_nodes: tuple[str, ...] = ()
    out_nodes: tuple[str, ...] = ()
    dynamic_batch: tuple[int, ...] = ()
    aipp: tuple[AippConfig, ...] = ()
    switched_off: frozenset[str] = frozenset()
    high_performance: frozenset[str] = frozenset()  # operator types, or "ALL"
    small_channel: bool = False
    name: str = ""
    command: str = ""
    progress: Callable[[str], None] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class PassOptions:
    """What a pass sees: the conversion's options and the chip it is for."""

    soc: Soc
    options: CompileOptions = field(default_factory=CompileOptions)


def parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """``"n1:1,3,224,224;n2:4"`` as a dict. Raises `AtcError` E10002 on bad syntax."""
    shapes: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (p.strip() for p in text.strip().strip("\"'").split(";"))):
        name, colon, dims = part.rpartition(":")
        if not colon or not name:
            raise AtcError(
                "E10002",
                f"--input_shape {text!r} is malformed at {part!r}",
                'Write "name1:n,c,h,w;name2:n,c"; a scalar is "name:".',
            )
        if name.strip() in shapes:
            raise AtcError("E10002", f"--input_shape {text!r} gives input {name.strip()!r} twice")
        try:
            shapes[name.strip()] = tuple(int(d) for d in dims.split(",") if d.strip())
        except ValueError:
            raise AtcError(
                "E10002",
                f"--input_shape {text!r}: {dims!r} of input {name!r} is not a list of whole numbers",
                "Ranges such as 1~10 are not supported.",
            ) from None
    for name, shape in shapes.items():
        if any(d < -1 or d == 0 for d in shape):
            raise AtcError("E10011", f"--input_shape gives {list(shape)} for {name!r}; dimensions must be positive")
    return shapes
