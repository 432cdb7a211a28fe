"""AIPP: image preprocessing in front of a model's first operator (--insert_op_conf, static mode).

The application then gives 8-bit images. Order of the stages: channel swap, crop, colour conversion, normalisation
``(x - mean - min) * var_reci`` , padding. Colour conversion is integer: ``(M (x - in_bias)) >> 8`` (+ out_bias when the
target is YUV), saturated to 8 bits. Source: public ATC manual, AIPP configuration; hicann/ge insert_op.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.edit import sort_nodes
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.evaluate import evaluate, infer
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.ops.registry import OpDef, find, register
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze, freeze_attrs

Array = NDArray[Any]
FORMATS = {1: "YUV420SP_U8", 2: "XRGB8888_U8", 3: "RGB888_U8", 4: "YUV400_U8"}
CHANNELS = {"YUV420SP_U8": 3, "XRGB8888_U8": 3, "RGB888_U8": 3, "YUV400_U8": 1}
MAX_SIDE = 4096
MAX_PADDING = 32


@dataclass(frozen=True)
class AippConfig:
    """One ``aipp_op`` block; names are those of the configuration file."""

    aipp_mode: str = "undefined"
    related_input_rank: int = 0
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
    if config.aipp_mode == "dynamic":
        raise AtcError("E10001", f"AIPP configuration {path}: aipp_mode dynamic is not supported", "Use static.")
    if config.aipp_mode != "static":
        raise _bad(path, f"aipp_mode is {config.aipp_mode!r}, expected static or dynamic")
    if config.input_format not in CHANNELS:
        raise _bad(path, f"input_format is {config.input_format!r}, expected one of {', '.join(CHANNELS)}")
    if max(config.src_image_size_w, config.src_image_size_h) > MAX_SIDE:
        raise _bad(path, f"the source image is larger than {MAX_SIDE}")
    if config.input_format == "YUV420SP_U8" and (config.src_image_size_w % 2 or config.src_image_size_h % 2):
        raise _bad(path, "width and height of a YUV420SP image must be even")
    if max(config.borders) > MAX_PADDING or min(config.borders) < 0:
        raise _bad(path, f"padding sizes must lie in 0..{MAX_PADDING}")
    for name in ("resize", "src_image_size_n", "raw_rgbir_to_f16_n"):
        if config.extra.get(name, "0").lower() in ("1", "true"):
            raise _bad(path, f"{name} is not supported")


# -- values


def _planes(image: Array, config: AippConfig) -> Array:
    """The image as [N, H, W, 3 or 1] int32 before cropping; chroma is repeated."""
    if config.input_format == "YUV420SP_U8":
        n, rows, w, _ = image.shape
        h = rows * 2 // 3
        luma = image[:, :h, :, 0]
        chroma = image[:, h:].reshape(n, h // 2, w // 2, 2)
        if config.rbuv_swap_switch:
            chroma = chroma[..., ::-1]
        full = chroma.repeat(2, axis=1).repeat(2, axis=2)
        return np.concatenate([luma[..., None], full], axis=-1).astype(np.int32)
    pixels = image.astype(np.int32)
    if config.input_format == "XRGB8888_U8":
        pixels = pixels[..., :3] if config.ax_swap_switch else pixels[..., 1:]
    if config.rbuv_swap_switch and pixels.shape[-1] == 3:
        pixels = pixels[..., ::-1]
    return pixels


def _convert(pixels: Array, config: AippConfig) -> Array:
    matrix = np.asarray(config.matrix, np.int32).reshape(3, 3)
    if config.input_format == "YUV420SP_U8":
        shifted = ((pixels - np.asarray(config.input_bias, np.int32)) @ matrix.T) >> 8
    else:
        shifted = ((pixels @ matrix.T) >> 8) + np.asarray(config.output_bias, np.int32)
    clipped: Array = np.clip(shifted, 0, 255)
    return clipped


def preprocess(image: Array, config: AippConfig) -> Array:
    """[N, ...] uint8 as the network's input [N, C, H, W] float32."""
    pixels = _planes(image, config)
    top, left, height, width = config.window
    pixels = pixels[:, top : top + height, left : left + width]
    if config.csc_switch and pixels.shape[-1] == 3:
        pixels = _convert(pixels, config)
    c = pixels.shape[-1]
    mean = np.asarray(config.mean[:c], np.float32) + np.asarray(config.min_chn[:c], np.float32)
    values = (pixels.astype(np.float32) - mean) * np.asarray(config.var_reci[:c], np.float32)
    up, down, before, after = config.borders
    if any(config.borders):
        values = np.pad(values, ((0, 0), (up, down), (before, after), (0, 0)), constant_values=config.padding_value)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))


# -- the operator


def _config_of(attrs: dict[str, Any]) -> AippConfig:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(attrs["aipp"]).items()}
    return AippConfig(**values)


def _infer(inputs: Sequence[TensorSpec | None], attrs: dict[str, Any]) -> list[TensorSpec]:
    image = inputs[0]
    assert image is not None
    config = _config_of(attrs)
    _, _, height, width = config.window
    up, down, before, after = config.borders
    shape = (image.shape[0], config.channels, height + up + down, width + before + after)
    return [TensorSpec(shape, str(attrs.get("dst_type", "float32")), "NCHW")]


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    image = arrays[0]
    assert image is not None
    result = preprocess(image, _config_of({"aipp": call.attr("aipp")}))
    with np.errstate(over="ignore"):
        return [result.astype(call.outputs[0].dtype)]


# -- fused with the first convolution

FUSED = "AippConv2D"  # attributes of Conv2D, ``aipp``, ``small_channel`` and, with max pooling behind it, ``pool``
_OWN = ("aipp", "small_channel", "pool")


def _inner_calls(inputs: Sequence[TensorSpec | None], attrs: dict[str, Any]) -> list[OpCall]:
    """Conv2D (and MaxPoolV3) calls that follow the preprocessing, on logical specs; outputs inferred."""
    weights = inputs[1]
    assert weights is not None
    picture = replace(_infer(inputs, attrs)[0], dtype=weights.dtype)
    rest = {k: v for k, v in attrs.items() if k not in _OWN}
    outs = infer("Conv2D", [picture, *inputs[1:]], rest)
    calls = [OpCall("Conv2D", (picture, *inputs[1:]), tuple(outs), freeze_attrs(rest))]
    if "pool" in attrs:
        pool = dict(attrs["pool"])
        pooled = infer("MaxPoolV3", outs, pool)
        calls.append(OpCall("MaxPoolV3", tuple(outs), tuple(pooled), freeze_attrs(pool)))
    return calls


def _infer_fused(inputs: Sequence[TensorSpec | None], attrs: dict[str, Any]) -> list[TensorSpec]:
    return list(_inner_calls(inputs, attrs)[-1].outputs)


def _fused_values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    image = arrays[0]
    assert image is not None
    first, *others = _inner_calls(call.inputs, dict(call.attrs))
    picture = first.inputs[0]
    assert picture is not None
    with np.errstate(over="ignore"):
        x = preprocess(image, _config_of({"aipp": call.attr("aipp")})).astype(picture.dtype)
    results = evaluate(first, [x, *arrays[1:]])
    for other in others:
        results = evaluate(other, results)
    return results


def declare() -> None:
    """Register the operators of this module (once)."""
    if find("Aipp") is None:
        register(OpDef("Aipp", _infer, _values, "movement", False, ("images",)))
        register(OpDef(FUSED, _infer_fused, _fused_values, "conv", False, ("images", "filter", "bias?")))


def insert(graph: Graph, configs: Sequence[AippConfig]) -> None:
    """Put Aipp operators behind the inputs that ``configs`` name; these become 8-bit images."""
    declare()
    for config in configs:
        rank = config.related_input_rank
        if rank >= len(graph.inputs):
            raise AtcError("E10052", f"AIPP: related_input_rank {rank} names no input; there are {len(graph.inputs)}")
        name = graph.inputs[rank]
        spec = graph.specs[name]
        if len(spec.shape) != 4 or spec.shape[1] != config.channels:
            raise AtcError(
                "E10052",
                f"AIPP: input {name!r} is {list(spec.shape)}; {config.input_format} gives {config.channels} channels",
            )
        full = _complete(config, spec.shape[2], spec.shape[3])
        inner = f"{name}/aipp"
        for node in graph.nodes:
            node.inputs = [inner if n == name else n for n in node.inputs]
        graph.outputs = [inner if n == name else n for n in graph.outputs]
        graph.specs[inner] = spec
        graph.specs[name] = TensorSpec(full.source_shape(spec.shape[0]), "uint8", "NHWC")
        attrs = {k: v for k, v in vars(full).items() if k != "extra"}
        graph.nodes.insert(0, Node(f"aipp_{name}", "Aipp", [name], [inner], {"aipp": freeze(attrs)}))
    sort_nodes(graph)


def _complete(config: AippConfig, height: int, width: int) -> AippConfig:
    """Sizes left out follow from the network's input; what does not add up is an error."""
    up, down, before, after = config.borders
    inner_h, inner_w = height - up - down, width - before - after
    if config.crop:
        config = replace(config, crop_size_h=config.crop_size_h or inner_h, crop_size_w=config.crop_size_w or inner_w)
    config = replace(
        config,
        src_image_size_h=config.src_image_size_h or inner_h,
        src_image_size_w=config.src_image_size_w or inner_w,
    )
    top, left, crop_h, crop_w = config.window
    if (crop_h, crop_w) != (inner_h, inner_w):
        raise AtcError(
            "E10052",
            f"AIPP gives {crop_h + up + down} x {crop_w + before + after} pixels, the network takes {height} x {width}",
        )
    if top + crop_h > config.src_image_size_h or left + crop_w > config.src_image_size_w:
        raise AtcError("E10052", "AIPP: the crop leaves the source image")
    return config
