"""AIPP: image preprocessing in front of a model's first operator (--insert_op_conf).

The application then gives 8-bit images. Order of the stages: channel swap, crop, colour conversion, normalisation
``(x - mean - min) * var_reci`` , padding. Colour conversion is integer: ``(M (x - in_bias)) >> 8`` (+ out_bias when the
target is YUV), saturated to 8 bits. In dynamic mode the parameters come with every execution, in a second input.
Source: public ATC manual, AIPP configuration; hicann/ge insert_op.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.aipp_config import DYNAMIC, AippConfig, fault, parse_config
from ascend_sim.graph.aipp_params import params_size, unpack_params
from ascend_sim.graph.edit import sort_nodes
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.evaluate import evaluate, infer
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.om.inout import AIPP_INPUT
from ascend_sim.ops.registry import OpDef, find, register
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze, freeze_attrs

__all__ = ["AippConfig", "AippPort", "declare", "insert", "parse_config", "ports_of", "preprocess"]

Array = NDArray[Any]


@dataclass(frozen=True)
class AippPort:
    """An input behind which AIPP runs. ``image`` and ``params`` are indices of the graph's inputs (``params`` -1 in
    static mode); ``network`` is the shape [N, C, H, W] that the network reads."""

    image: int
    params: int
    config: AippConfig
    network: tuple[int, ...]


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
    if config.aipp_mode == DYNAMIC:
        return [TensorSpec(tuple(attrs["network"]), str(attrs.get("dst_type", "float32")), "NCHW")]
    shape = (image.shape[0], config.channels, *output_size(config))
    return [TensorSpec(shape, str(attrs.get("dst_type", "float32")), "NCHW")]


def _dynamic(image: Array, params: Array, network: tuple[int, ...]) -> Array:
    """Images one behind the other in a flat buffer, each with its own parameters. Raises ValueError."""
    configs = unpack_params(np.ascontiguousarray(params).tobytes())
    if len(configs) != network[0]:
        raise ValueError(f"dynamic AIPP: parameters for {len(configs)} images, the network takes {network[0]}")
    flat = np.ascontiguousarray(image).reshape(-1)
    rows, position = [], 0
    for config in configs:
        problem = fault(config) if config.input_format else "input_format was not set"
        shape = config.source_shape(1)
        size = int(np.prod(shape))
        if not problem and position + size > flat.size:
            problem = f"the images take more than max_src_image_size = {flat.size} bytes"
        if not problem and network[1:] != (config.channels, *output_size(config)):
            height, width = output_size(config)
            problem = f"it gives {config.channels} x {height} x {width}, the network takes {list(network[1:])}"
        if problem:
            raise ValueError(f"dynamic AIPP: {problem}")
        rows.append(preprocess(flat[position : position + size].reshape(shape), config))
        position += size
    return np.concatenate(rows)


def output_size(config: AippConfig) -> tuple[int, int]:
    """(height, width) of what the network reads."""
    _, _, height, width = config.window
    up, down, before, after = config.borders
    return height + up + down, width + before + after


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    image = arrays[0]
    assert image is not None
    if len(arrays) > 1 and arrays[1] is not None:
        result = _dynamic(image, arrays[1], call.outputs[0].shape)
    else:
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
        register(OpDef("Aipp", _infer, _values, "movement", False, ("images", "params?")))
        register(OpDef(FUSED, _infer_fused, _fused_values, "conv", False, ("images", "filter", "bias?")))


def insert(graph: Graph, configs: Sequence[AippConfig]) -> None:
    """Put Aipp operators behind the inputs that ``configs`` name; these become 8-bit images. Raises `AtcError`."""
    declare()
    names = list(graph.inputs)
    ranks = [config.related_input_rank for config in configs]
    for config in configs:
        rank = config.related_input_rank
        if rank >= len(names):
            raise AtcError("E10052", f"AIPP: related_input_rank {rank} names no input; there are {len(names)}")
        if ranks.count(rank) > 1:
            raise AtcError("E10052", f"AIPP: two aipp_op blocks have related_input_rank {rank}")
        name = names[rank]
        spec = graph.specs[name]
        if len(spec.shape) != 4:
            raise AtcError("E10052", f"AIPP: input {name!r} is {list(spec.shape)}, expected an image batch of 4 axes")
        network = _network(spec)
        if config.aipp_mode == DYNAMIC:
            node = _dynamic_node(graph, name, config, network)
        else:
            node = _static_node(graph, name, config, network)
        inner = f"{name}/aipp"
        for reader in graph.nodes:
            reader.inputs = [inner if n == name else n for n in reader.inputs]
        graph.outputs = [inner if n == name else n for n in graph.outputs]
        graph.nodes.insert(0, node)
        if spec.format == "NHWC":  # AIPP writes planes; the network asks for pixels
            graph.specs[node.outputs[0]] = TensorSpec(network, spec.dtype, "NCHW")
            turn = Node(f"aipp_{name}/Transpose", "TransposeD", [node.outputs[0]], [inner], {"perm": [0, 2, 3, 1]})
            graph.nodes.insert(1, turn)
        graph.specs[inner] = TensorSpec(spec.shape, spec.dtype, "ND" if spec.format == "NHWC" else spec.format)
    sort_nodes(graph)


def _network(spec: TensorSpec) -> tuple[int, ...]:
    """[N, C, H, W] of the network's input."""
    n, a, b, c = spec.shape
    return (n, c, a, b) if spec.format == "NHWC" else spec.shape


def _output_name(graph: Graph, name: str) -> str:
    return f"{name}/aipp/planes" if graph.specs[name].format == "NHWC" else f"{name}/aipp"


def _static_node(graph: Graph, name: str, config: AippConfig, network: tuple[int, ...]) -> Node:
    if network[1] != config.channels:
        raise AtcError(
            "E10052",
            f"AIPP: input {name!r} is {list(graph.specs[name].shape)}; {config.input_format} gives {config.channels} "
            "channels",
        )
    full = _complete(config, network[2], network[3])
    output = _output_name(graph, name)
    graph.specs[name] = TensorSpec(full.source_shape(network[0]), "uint8", "NHWC")
    attrs = {k: v for k, v in vars(full).items() if k != "extra"}
    return Node(f"aipp_{name}", "Aipp", [name], [output], {"aipp": freeze(attrs)})


def _dynamic_node(graph: Graph, name: str, config: AippConfig, network: tuple[int, ...]) -> Node:
    """Images in a flat buffer of ``max_src_image_size`` bytes, parameters in an input of their own."""
    output = _output_name(graph, name)
    graph.specs[name] = TensorSpec((config.max_src_image_size,), "uint8", "ND")
    taken = sum(n.startswith(AIPP_INPUT) for n in graph.inputs)
    params = AIPP_INPUT if not taken else f"{AIPP_INPUT}_{taken}"
    graph.inputs.append(params)
    graph.specs[params] = TensorSpec((params_size(network[0]),), "uint8", "ND")
    attrs = {k: v for k, v in vars(config).items() if k != "extra"}
    return Node(f"aipp_{name}", "Aipp", [name, params], [output], {"aipp": freeze(attrs), "network": network})


def ports_of(graph: Graph) -> tuple[AippPort, ...]:
    """The inputs of a compiled graph that AIPP prepares."""
    found = []
    for node in graph.nodes:
        if node.type in ("Aipp", FUSED):
            image = graph.inputs.index(node.inputs[0])
            dynamic = node.type == "Aipp" and len(node.inputs) > 1
            network = graph.specs[node.outputs[0]].logical_shape
            if node.type == FUSED:
                specs = [graph.specs[name] if name else None for name in node.inputs]
                network = _infer(specs[:1], dict(node.attrs))[0].shape
            params = graph.inputs.index(node.inputs[1]) if dynamic else -1
            found.append(AippPort(image, params, _config_of(dict(node.attrs)), network))
    return tuple(found)


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
