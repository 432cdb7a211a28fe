"""Image preprocessing on the way to L1: `set_aipp_functions` and `load_image_to_local`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ascend_sim.asc.calls_image import PATH_MODE
from ascend_sim.asc.calls_move import check_gm, gm_align, pitch_align
from ascend_sim.asc.machine import current
from ascend_sim.asc.params import LoadImageToLocalParams
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor
from ascend_sim.isa import aipp
from ascend_sim.isa.aipp import PIXEL, ImageSettings
from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.enums import AippInputFormat
from ascend_sim.isa.instr import MoveWork, Pipe, ScalarWork
from ascend_sim.isa.legality import InstructionError

SET, LOAD = "set_aipp_functions", "load_image_to_local"
SIDE, BORDER = 4095, 32
_ALIGN = {AippInputFormat.YUV420SP_U8: 2, AippInputFormat.XRGB8888_U8: 4}


@dataclass
class AippPaddingParams:
    """Borders: ``padding_mode`` 0 constant (left and right only), 1 nearest, 2 blocks, 3 mirrored blocks."""

    padding_mode: int = 0
    padding_value_ch0: float = 0
    padding_value_ch1: float = 0
    padding_value_ch2: float = 0
    padding_value_ch3: float = 0


@dataclass
class AippSwapParams:
    """Channel exchange: R and B, U and V, X moved to the end."""

    is_swap_rb: bool = False
    is_swap_uv: bool = False
    is_swap_ax: bool = False


@dataclass
class AippSingleLineParams:
    """Read one row only, whatever height the load asks for."""

    is_single_line_copy: bool = False


@dataclass
class AippDataTypeConvParams:
    """Normalisation by channel: mean, minimum, factor. ``dtc_round_mode`` 0 half away from zero, 1 half to even."""

    dtc_mean_ch0: int = 0
    dtc_mean_ch1: int = 0
    dtc_mean_ch2: int = 0
    dtc_min_ch0: float = 0.0
    dtc_min_ch1: float = 0.0
    dtc_min_ch2: float = 0.0
    dtc_var_ch0: float = 1.0
    dtc_var_ch1: float = 1.0
    dtc_var_ch2: float = 1.0
    dtc_round_mode: int = 0


@dataclass
class AippChannelPaddingParams:
    """Channels of a stored pixel: mode 0 as many as fit 32 bytes, mode 1 four; the value of the missing ones."""

    c_padding_mode: int = 0
    c_padding_value: float = 0


@dataclass
class AippColorSpaceConvParams:
    """Colour conversion: 3 x 3 matrix in 1/256, biases."""

    is_enable_csc: bool = False
    csc_matrix_r0_c0: int = 0
    csc_matrix_r0_c1: int = 0
    csc_matrix_r0_c2: int = 0
    csc_matrix_r1_c0: int = 0
    csc_matrix_r1_c1: int = 0
    csc_matrix_r1_c2: int = 0
    csc_matrix_r2_c0: int = 0
    csc_matrix_r2_c1: int = 0
    csc_matrix_r2_c2: int = 0
    csc_bias_in_0: int = 0
    csc_bias_in_1: int = 0
    csc_bias_in_2: int = 0
    csc_bias_out_0: int = 0
    csc_bias_out_1: int = 0
    csc_bias_out_2: int = 0

    def matrix(self) -> tuple[int, ...]:
        return tuple(int(getattr(self, f"csc_matrix_r{r}_c{c}")) for r in range(3) for c in range(3))


@dataclass
class AippParams:
    """Everything `set_aipp_functions` configures; ``dtype`` is the type the load stores."""

    dtype: Any
    padding_params: AippPaddingParams | None = None
    swap_params: AippSwapParams | None = None
    single_line_params: AippSingleLineParams | None = None
    dtc_params: AippDataTypeConvParams | None = None
    c_padding_params: AippChannelPaddingParams | None = None
    csc_params: AippColorSpaceConvParams | None = None


class Image(NamedTuple):
    """A configured source: its planes, the registers, the type of the result."""

    src: GlobalTensor
    chroma: GlobalTensor | None
    settings: ImageSettings
    dtype: DataType


def _triple(params: Any, name: str, kind: type = int) -> tuple[Any, ...]:
    return tuple(kind(getattr(params, name.format(i))) for i in range(3))


def set_aipp_functions(src0: GlobalTensor, *args: Any, **kwargs: Any) -> None:
    """``set_aipp_functions(src0, format, config)``, or ``(src0, src1, format, config)`` with the UV plane of a
    YUV420SP image: source and preprocessing of the next image loads."""
    core = current()
    names = ("src1", "input_format", "config") if len(args) + len(kwargs) == 3 else ("input_format", "config")
    given = dict(zip([n for n in names if n not in kwargs], args, strict=False)) | kwargs
    src1, config = given.get("src1"), given.get("config")
    if core.rules.arch == "c100":
        raise InstructionError(SET, "chip", core.rules.name, "does not preprocess images")
    if not isinstance(config, AippParams):
        raise InstructionError(SET, "config", config, "expected AippParams")
    given_format: Any = given.get("input_format", given.get("format"))
    try:
        image_format = AippInputFormat(given_format)
    except ValueError:
        raise InstructionError(SET, "format", given_format, "expected an AippInputFormat") from None
    to = as_dtype(config.dtype)
    yuv = image_format == AippInputFormat.YUV420SP_U8
    if yuv != isinstance(src1, GlobalTensor):
        raise InstructionError(SET, "src1", src1, "the UV plane is given for YUV420SP, and for nothing else")
    for name, plane in (("src0", src0), ("src1", src1)):
        align = _ALIGN.get(image_format, 1)
        if plane is not None and plane.addr % align:
            raise InstructionError(SET, f"{name} address", plane.addr, f"must be a multiple of {align} bytes")
    swap = config.swap_params or AippSwapParams()
    dtc = config.dtc_params or AippDataTypeConvParams()
    pad = config.padding_params or AippPaddingParams()
    csc = config.csc_params or AippColorSpaceConvParams()
    channels = config.c_padding_params or AippChannelPaddingParams()
    single = config.single_line_params or AippSingleLineParams()
    core.rules.require_range(SET, "padding_mode", int(pad.padding_mode), 0, 3)
    core.rules.require_range(SET, "c_padding_mode", int(channels.c_padding_mode), 0, 1)
    core.rules.require_range(SET, "dtc_round_mode", int(dtc.dtc_round_mode), 0, 1)
    if dtc.dtc_round_mode and core.rules.arch != "m300":
        raise InstructionError(SET, "dtc_round_mode", dtc.dtc_round_mode, "only 310B rounds half to even")
    settings = ImageSettings(
        image_format, bool(swap.is_swap_rb), bool(swap.is_swap_uv), bool(swap.is_swap_ax),
        bool(single.is_single_line_copy), csc.matrix() if csc.is_enable_csc else (),
        _triple(csc, "csc_bias_in_{}"), _triple(csc, "csc_bias_out_{}"), _triple(dtc, "dtc_mean_ch{}"),
        _triple(dtc, "dtc_min_ch{}", float), _triple(dtc, "dtc_var_ch{}", float), bool(dtc.dtc_round_mode),
        int(pad.padding_mode), tuple(float(getattr(pad, f"padding_value_ch{i}")) for i in range(4)),
        4 if channels.c_padding_mode else 32 // to.size, float(channels.c_padding_value),
    )  # fmt: skip
    core.image = Image(src0, src1, settings, to)
    core.emit(Pipe.S, ScalarWork("set_register", 8))


def _check(call: str, p: LoadImageToLocalParams, s: ImageSettings, core: Any) -> None:
    for name in ("horiz_size", "vert_size", "src_horiz_size"):
        core.rules.require_range(call, name, getattr(p, name), 2, SIDE)
    for name in ("horiz_start_pos", "vert_start_pos"):
        core.rules.require_range(call, name, getattr(p, name), 0, SIDE)
    for name in ("top_pad_size", "bot_pad_size", "left_pad_size", "right_pad_size"):
        core.rules.require_range(call, name, getattr(p, name), 0, BORDER)
    even = ("horiz_start_pos", "vert_start_pos", "src_horiz_size")
    for name in even if s.format == AippInputFormat.YUV420SP_U8 else even[:1]:
        if getattr(p, name) % 2:
            raise InstructionError(call, name, getattr(p, name), f"must be even for {s.format.name}")
    if p.horiz_start_pos + p.horiz_size > p.src_horiz_size:
        value = f"{p.horiz_start_pos} + {p.horiz_size}"
        raise InstructionError(call, "horiz_start_pos + horiz_size", value, f"exceeds the image's {p.src_horiz_size}")
    if s.border == 0 and (p.top_pad_size or p.bot_pad_size):
        sizes = (p.top_pad_size, p.bot_pad_size)
        raise InstructionError(call, "top_pad_size, bot_pad_size", sizes, "constant borders are left and right only")
    if s.border in (2, 3):
        wide, high = p.horiz_size, p.vert_size
        for name, limit in zip(("left", "right", "top", "bot"), (wide, wide, high, high), strict=True):
            pad = getattr(p, f"{name}_pad_size")
            if pad > limit:
                raise InstructionError(call, f"{name}_pad_size", pad, f"exceeds the {limit} pixels it is copied from")


def load_image_to_local(dst: LocalTensor, load_data_params: LoadImageToLocalParams) -> None:
    """Part of the configured image to (rows, columns, channels) in L1, preprocessed on the way."""
    core, call, p = current(), LOAD, load_data_params
    image: Image | None = core.image
    if image is None:
        raise InstructionError(call, "image", None, "set_aipp_functions was not called")
    s = image.settings
    core.rules.require_memory(call, "dst", dst.mem, "L1")
    wide = core.rules.arch in ("m100", "m200", "m300")
    if dst.dtype is not image.dtype or dst.dtype.name not in ("int8", "float16", *(("uint8",) if wide else ())):
        rule = f"must be {image.dtype} as configured, one of int8, {'uint8, ' if wide else ''}float16"
        raise InstructionError(call, "dst data type", dst.dtype, rule)
    _check(call, p, s, core)
    rows = 1 if s.single_line else p.vert_size
    window = (p.horiz_start_pos, p.vert_start_pos, p.horiz_size, rows)
    borders = (p.left_pad_size, p.right_pad_size, p.top_pad_size, p.bot_pad_size)
    size = PIXEL[s.format]
    stored = (rows + borders[2] + borders[3]) * (p.horiz_size + borders[0] + borders[1]) * s.channels * dst.dtype.size
    core.rules.require_span(call, "dst", "L1", dst.addr, stored, dst.end)
    first, last = p.vert_start_pos, p.vert_start_pos + rows - 1
    check_gm(call, image.src, (last * p.src_horiz_size + p.horiz_start_pos + p.horiz_size) * size)
    if image.chroma is not None:
        check_gm(call, image.chroma, last // 2 * p.src_horiz_size + p.horiz_start_pos + -(-p.horiz_size // 2) * 2)
    planes = ((image.src, p.horiz_size * size, rows), (image.chroma, p.horiz_size, last // 2 - first // 2 + 1))
    for plane, burst, lines in planes:
        if plane is not None:
            align = min(gm_align(plane.addr), pitch_align(p.src_horiz_size * size) if lines > 1 else 512)
            work = MoveWork("GM_L1", lines, burst, max(align, 32), plane.arg, PATH_MODE, "uint8")
            core.emit_transfer(Pipe.MTE2, work, dst, plane)
    if core.memory is not None:
        src = core.view(image.src)
        chroma = core.view(image.chroma) if image.chroma is not None else src
        aipp.run_load_image_to_local(core.view(dst), src, chroma, s, window, p.src_horiz_size, borders)
