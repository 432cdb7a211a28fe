"""What a conversion may be told: the flags of ATC that change the compiled model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.progress import Progress
from ascend_sim.soc import Soc

if TYPE_CHECKING:
    from ascend_sim.graph.aipp import AippConfig

FORCE_FP16 = "force_fp16"
PRECISION_MODES = (
    FORCE_FP16, "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16", "must_keep_origin_dtype",
    "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16",
)  # fmt: skip
# --precision_mode_v2 names -> the same modes
PRECISION_MODES_V2 = {
    "fp16": "force_fp16", "origin": "must_keep_origin_dtype", "cube_fp16in_fp32out": "cube_fp16in_fp32out",
    "mixed_float16": "allow_mix_precision_fp16", "mixed_bfloat16": "allow_mix_precision_bf16", "cube_hif8": "cube_hif8",
    "mixed_hif8": "mixed_hif8",
}  # fmt: skip
ONNX_FORMATS = ("NCHW", "ND", "NCDHW")  # of --input_format; programs may also ask for NHWC
OUTPUT_TYPES = {
    "FP32": "float32", "FP16": "float16", "UINT8": "uint8", "INT8": "int8", "UINT16": "uint16", "INT16": "int16",
    "UINT32": "uint32", "INT32": "int32", "UINT64": "uint64", "INT64": "int64", "DOUBLE": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compilation, already checked. ``switched_off`` names passes that do not run;
    ``high_performance`` the operators that trade exactness for speed (--op_select_implmode); ``small_channel`` lets the
    first convolution pack four channels (--enable_small_channel); ``keep_dtype`` names operators whose data type no
    precision mode changes; without ``reuse_memory`` every intermediate tensor has its own; ``compress_attrs`` shortens
    attribute names in the model file."""

    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # -1: open
    ranges: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)  # input -> (low, high or -1) by axis
    input_format: str = "NCHW"
    precision_mode: str = FORCE_FP16
    keep_dtype: tuple[str, ...] = ()
    output_types: dict[str, str] = field(default_factory=dict)  # output name, or "" for all -> dtype
    input_fp16_nodes: tuple[str, ...] = ()
    out_nodes: tuple[str, ...] = ()
    blocked_inputs: tuple[str, ...] = ()  # given as fp16 NC1HWC0 (--is_input_adjust_hw_layout)
    blocked_outputs: tuple[str, ...] = ()  # of out_nodes, made as fp16 NC1HWC0 (--is_output_adjust_hw_layout)
    dynamic_batch: tuple[int, ...] = ()
    dynamic_image: tuple[tuple[int, ...], ...] = ()  # (height, width)
    dynamic_dims: tuple[tuple[int, ...], ...] = ()  # sizes of all open dimensions, in order of inputs and axes
    aipp: tuple[AippConfig, ...] = ()
    switched_off: frozenset[str] = frozenset()
    high_performance: frozenset[str] = frozenset()  # operator types, or "ALL"
    small_channel: bool = False
    reuse_memory: bool = True
    compress_attrs: bool = False
    name: str = ""
    command: str = ""
    progress: Progress = field(default_factory=Progress, compare=False, repr=False)


@dataclass(frozen=True)
class PassOptions:
    """What a pass sees: the conversion's options and the chip it is for."""

    soc: Soc
    options: CompileOptions = field(default_factory=CompileOptions)


Ranges = tuple[tuple[int, int], ...]


def parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """``"n1:1,3,224,224;n2:4"`` as a dict; open dimensions (-1, ranges) are -1. Raises `AtcError` E10002."""
    return parse_input_shape(text)[0]


def parse_input_shape(text: str) -> tuple[dict[str, tuple[int, ...]], dict[str, Ranges]]:
    """Shapes by input, and for inputs with a range such as ``1~10`` the limits of every axis (high -1: none).

    Raises `AtcError`: E10002 for bad syntax, E10011 for dimensions that are not positive."""
    shapes: dict[str, tuple[int, ...]] = {}
    ranges: dict[str, Ranges] = {}
    for part in filter(None, (p.strip() for p in text.strip().strip("\"'").split(";"))):
        name, colon, dims = part.rpartition(":")
        name = name.strip()
        if not colon or not name:
            raise AtcError(
                "E10002",
                f"--input_shape {text!r} is malformed at {part!r}",
                'Write "name1:n,c,h,w;name2:n,c"; a scalar is "name:".',
            )
        if name in shapes:
            raise AtcError("E10002", f"--input_shape {text!r} gives input {name!r} twice")
        limits = tuple(_dimension(d.strip(), name, dims, text) for d in dims.split(",") if d.strip())
        shapes[name] = tuple(low if low == high else -1 for low, high in limits)
        if "~" in dims:
            ranges[name] = limits
    return shapes, ranges


def _dimension(word: str, name: str, dims: str, text: str) -> tuple[int, int]:
    """(low, high) of one dimension: ``4``, ``-1``, ``1~10`` or ``1~-1``."""
    low, tilde, high = word.partition("~")
    try:
        limits = int(low), int(high if tilde else low)
    except ValueError:
        raise AtcError(
            "E10002",
            f"--input_shape {text!r}: {dims!r} of input {name!r} is not a list of whole numbers",
            "A dimension is a number, -1 (open) or a range such as 1~10.",
        ) from None
    if not tilde and limits[0] == -1:
        return 1, -1
    if limits[0] < 1 or limits[1] == 0 or limits[1] < -1:
        raise AtcError("E10011", f"--input_shape gives {dims!r} for {name!r}; dimensions must be positive")
    if limits[1] != -1 and limits[0] > limits[1]:
        raise AtcError("E10002", f"--input_shape {text!r}: the range {word} of input {name!r} ends before it begins")
    return limits
