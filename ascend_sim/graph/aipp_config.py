"""AIPP configuration (--insert_op_conf): its fields, the configuration file, what it allows.

Source: public ATC manual, AIPP configuration; hicann/ge insert_op.proto (names, defaults, limits).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ascend_sim.graph.errors import AtcError

FORMATS = {1: "YUV420SP_U8", 2: "XRGB8888_U8", 3: "RGB888_U8", 4: "YUV400_U8"}
CHANNELS = {"YUV420SP_U8": 3, "XRGB8888_U8": 3, "RGB888_U8": 3, "YUV400_U8": 1}
MAX_SIDE = 4096
MAX_PADDING = 32


STATIC, DYNAMIC = "static", "dynamic"


@dataclass(frozen=True)
class AippConfig:
    """One ``aipp_op`` block; names are those of the configuration file. In dynamic mode all but ``max_src_image_size``
    (bytes of the largest batch of images) comes with every execution."""

    aipp_mode: str = "undefined"
    related_input_rank: int = 0
    max_src_image_size: int = 0
    input_format: str = ""
    src_image_size_w: int = 0
    src_image_size_h: int = 0
    crop: bool = False
    load_start_pos_w: int = 0
    load_start_pos_h: int = 0
    crop_size_w: int = 0
    crop_size_h: int = 0
    padding: bool = False
    left_padding_size: int = 0
    right_padding_size: int = 0
    top_padding_size: int = 0
    bottom_padding_size: int = 0
    padding_value: float = 0.0
    csc_switch: bool = False
    rbuv_swap_switch: bool = False
    ax_swap_switch: bool = False
    matrix: tuple[int, ...] = (298, 516, 0, 298, -100, -208, 298, 0, 409)
    input_bias: tuple[int, int, int] = (16, 128, 128)
    output_bias: tuple[int, int, int] = (16, 128, 128)
    mean: tuple[int, ...] = (0, 0, 0, 0)
    min_chn: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    var_reci: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    extra: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def channels(self) -> int:
        return CHANNELS[self.input_format]

    def source_shape(self, batch: int) -> tuple[int, ...]:
        """Shape of the image the application gives (uint8)."""
        h, w = self.src_image_size_h, self.src_image_size_w
        match self.input_format:
            case "YUV420SP_U8":
                return batch, h * 3 // 2, w, 1
            case "XRGB8888_U8":
                return batch, h, w, 4
            case "RGB888_U8":
                return batch, h, w, 3
        return batch, h, w, 1

    @property
    def window(self) -> tuple[int, int, int, int]:
        """(top, left, height, width) taken from the image."""
        if not self.crop:
            return 0, 0, self.src_image_size_h, self.src_image_size_w
        return self.load_start_pos_h, self.load_start_pos_w, self.crop_size_h, self.crop_size_w

    @property
    def borders(self) -> tuple[int, int, int, int]:
        """(top, bottom, left, right) padding."""
        if not self.padding:
            return 0, 0, 0, 0
        return self.top_padding_size, self.bottom_padding_size, self.left_padding_size, self.right_padding_size


# -- configuration file


_TOKEN = re.compile(r"\s*(?:#[^\n]*\n?)*\s*([\w.+-]+|[{}:]|\"[^\"]*\")")
_INDEXED = {
    **{f"matrix_r{r}c{c}": ("matrix", 3 * r + c) for r in range(3) for c in range(3)},
    **{f"input_bias_{i}": ("input_bias", i) for i in range(3)},
    **{f"output_bias_{i}": ("output_bias", i) for i in range(3)},
    **{f"mean_chn_{i}": ("mean", i) for i in range(4)},
    **{f"min_chn_{i}": ("min_chn", i) for i in range(4)},
    **{f"var_reci_chn_{i}": ("var_reci", i) for i in range(4)},
}


def _bad(path: str, cause: str) -> AtcError:
    return AtcError("E10052", f"AIPP configuration {path}: {cause}")


def _tokens(text: str, path: str) -> Iterator[str]:
    pos = 0
    text = text.rstrip() + "\n"
    while text[pos:].strip() and not re.fullmatch(r"(\s*#[^\n]*\n?)*\s*", text[pos:]):
        match = _TOKEN.match(text, pos)
        if match is None:
            line = text.count("\n", 0, pos) + 1
            raise _bad(path, f"line {line} cannot be read")
        yield match.group(1).strip('"')
        pos = match.end()


def parse_config(path: str) -> list[AippConfig]:
    """The ``aipp_op`` blocks of a configuration file. Raises `AtcError` E10052 (E10410 when it is missing)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise AtcError("E10410", f"--insert_op_conf {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _bad(path, "it is not a text file") from None
    stream = _tokens(text, path)
    blocks: list[AippConfig] = []
    for word in stream:
        if word != "aipp_op" or next(stream, "") != "{":
            raise _bad(path, f'expected "aipp_op {{", found {word!r}')
        pairs: list[tuple[str, str]] = []
        while (name := next(stream, None)) != "}":
            if name is None:
                raise _bad(path, "a block is not closed")
            colon, value = next(stream, ""), next(stream, "")
            if colon != ":" or not value:
                raise _bad(path, f"{name!r} has no value")
            pairs.append((name, value))
        blocks.append(_block(pairs, path))
    if not blocks:
        raise _bad(path, "it has no aipp_op block")
    return blocks


def _block(pairs: Sequence[tuple[str, str]], path: str) -> AippConfig:
    kinds = {f.name: f.type for f in fields(AippConfig)}
    plain: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    extra: dict[str, str] = {}
    try:
        for name, value in pairs:
            if name in _INDEXED:
                target, index = _INDEXED[name]
                items = lists.setdefault(target, list(getattr(AippConfig, target)))
                items[index] = float(value) if target in ("min_chn", "var_reci") else int(value)
            elif name == "input_format":
                plain[name] = FORMATS.get(int(value), value) if value.isdigit() else value
            elif kinds.get(name) == "bool":
                plain[name] = {"true": True, "1": True, "false": False, "0": False}[value.lower()]
            elif kinds.get(name) == "int":
                plain[name] = int(value)
            elif kinds.get(name) == "float":
                plain[name] = float(value)
            elif name in ("aipp_mode",):
                plain[name] = value.lower()
            else:
                extra[name] = value
    except (ValueError, KeyError):
        raise _bad(path, f"{name} has the wrong value {value!r}") from None
    plain.update({k: tuple(v) for k, v in lists.items()})
    config = AippConfig(**plain, extra=extra)
    _check(config, path)
    return config


def _check(config: AippConfig, path: str) -> None:
    if config.aipp_mode not in (STATIC, DYNAMIC):
        raise _bad(path, f"aipp_mode is {config.aipp_mode!r}, expected static or dynamic")
    if config.related_input_rank < 0:
        raise _bad(path, f"related_input_rank is {config.related_input_rank}, expected 0 or more")
    for name in _RESERVED:
        if config.extra.get(name, "0").lower() in ("1", "true"):
            raise _bad(path, f"{name} is reserved: AIPP of this release does not have it")
    for name in config.extra:
        if name not in _RESERVED and name not in _UNUSED:
            close = difflib.get_close_matches(name, [*_INDEXED, *(f.name for f in fields(AippConfig))], 1)
            raise _bad(path, f"there is no field {name!r}" + (f"; did you mean {close[0]}?" if close else ""))
    if config.aipp_mode == DYNAMIC:
        if config.max_src_image_size <= 0:
            raise _bad(path, "dynamic mode needs max_src_image_size, the bytes of the largest batch of images")
        return
    if config.input_format not in CHANNELS:
        raise _bad(path, f"input_format is {config.input_format!r}, expected one of {', '.join(CHANNELS)}")
    problem = fault(config)
    if problem:
        raise _bad(path, problem)


def fault(config: AippConfig) -> str:
    """What is wrong with the sizes and values of a configuration, or ""."""
    yuv = config.input_format == "YUV420SP_U8"
    sizes = (config.src_image_size_w, config.src_image_size_h)
    if min(sizes) < 0 or max(sizes) > MAX_SIDE:
        return f"the source image is larger than {MAX_SIDE}" if max(sizes) > MAX_SIDE else "sizes must not be negative"
    if yuv and any(side % 2 for side in sizes):
        return "width and height of a YUV420SP image must be even"
    if config.input_format == "YUV400_U8" and config.csc_switch:
        return "YUV400 has no colours to convert: csc_switch must be off"
    if config.crop:
        window = (config.load_start_pos_h, config.load_start_pos_w, config.crop_size_h, config.crop_size_w)
        if min(window) < 0:
            return "crop positions and sizes must not be negative"
        if yuv and (config.load_start_pos_h % 2 or config.load_start_pos_w % 2):
            return "load_start_pos_h and load_start_pos_w of a YUV420SP image must be even"
    if max(config.borders) > MAX_PADDING or min(config.borders) < 0:
        return f"padding sizes must lie in 0..{MAX_PADDING}"
    for name, low, high in (("matrix", -32767, 32767), ("input_bias", 0, 255), ("output_bias", 0, 255),
                            ("mean", 0, 255), ("min_chn", 0.0, 255.0), ("var_reci", -65504.0, 65504.0)):  # fmt: skip
        value = next((v for v in getattr(config, name) if not low <= v <= high), None)
        if value is not None:
            return f"{name} has {value}, expected {low}..{high}"
    return ""


# Fields that the manual calls reserved, and fields that change nothing here.
_RESERVED = ("resize", "support_rotation", "raw_rgbir_to_f16_n", "single_line_mode")
_UNUSED = (
    "src_image_size_n", "resize_output_w", "resize_output_h", "cpadding_value", "related_input_name", "input_edge_idx",
)  # fmt: skip
