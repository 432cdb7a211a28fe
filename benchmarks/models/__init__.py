"""The networks of ``benchmarks/data/models_calibration.csv`` as ONNX files with seeded weights and free batch.

``python -m benchmarks.models DIR [NAME ...]`` writes ``<model>.onnx``, and ``<model>.json`` with the ATC flags of the
measured conversion where there were any; ``ascend-sim validate --models DIR`` reads both. Architectures are those of
the public model code that each README names; nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from benchmarks.models import densenet, efficientnet, googlenet, inception, mobilenet, resnet, vgg, yolov4
from benchmarks.models.net import Net, write_weights

# Static AIPP of the image networks: 8-bit RGB in, mean and scale of ImageNet.
_AIPP = """aipp_op {{
  aipp_mode: static
  input_format: RGB888_U8
  src_image_size_w: {size}
  src_image_size_h: {size}
  crop: {crop}
  crop_size_w: {net}
  crop_size_h: {net}
  load_start_pos_w: {start}
  load_start_pos_h: {start}
  csc_switch: false
  mean_chn_0: 0
  mean_chn_1: 0
  mean_chn_2: 0
  min_chn_0: 123.675
  min_chn_1: 116.28
  min_chn_2: 103.53
  var_reci_chn_0: 0.0171247538316637
  var_reci_chn_1: 0.0175070028011204
  var_reci_chn_2: 0.0174291938997821
}}
"""


@dataclass(frozen=True)
class Network:
    """``size`` is the side of the input image in pixels; ``flags`` are ATC flags that change time (by README of the
    measured conversion); ``aipp`` is the side of the 8-bit source image when the conversion used static AIPP."""

    build: Callable[[Net], None]
    size: int = 224
    flags: dict[str, str] = field(default_factory=dict)
    aipp: int = 0


_SMALL_CHANNEL = {"enable_small_channel": "1"}
_FAST_SIGMOID = {"op_select_implmode": "high_performance", "optypelist_for_implmode": "Sigmoid"}

# Keys are the names in the column ``model``.
NETWORKS: dict[str, Network] = {
    "Resnet18_for_PyTorch": Network(resnet.resnet18, flags=_SMALL_CHANNEL, aipp=256),
    "Resnet101_Pytorch_Infer": Network(resnet.resnet101, flags=_SMALL_CHANNEL, aipp=256),
    "ResNet18": Network(resnet.resnet18),
    "ResNet101": Network(resnet.resnet101),
    "VGG16": Network(vgg.vgg16),
    "VGG19": Network(vgg.vgg19),
    "GoogleNet_for_Pytorch": Network(googlenet.googlenet, flags=_SMALL_CHANNEL, aipp=224),
    "InceptionV3_for_Pytorch": Network(inception.inception_v3, 299, aipp=299),
    "Densenet121_Pytorch_Infer": Network(densenet.densenet121),
    "MobileNet-v1": Network(mobilenet.mobilenet_v1),
    "MobileNetV3_for_Pytorch": Network(
        mobilenet.mobilenet_v3_small, flags={"input_fp16_nodes": "input", "output_type": "FP16"}
    ),
    "EfficientNet_for_Pytorch": Network(efficientnet.b0, flags=_SMALL_CHANNEL, aipp=224),
    "EfficientNet-B1": Network(efficientnet.b1, 240),
    "EfficientNet-B3": Network(efficientnet.b3, 300),
    "EfficientNet-B5": Network(efficientnet.b5, 456),
    "EfficientNet_b7_for_Pytorch": Network(efficientnet.b7, 600, flags=_FAST_SIGMOID),
    "EfficientNetV2_for_Pytorch": Network(efficientnet.efficientnet_v2_rw_t, 288, flags=_FAST_SIGMOID),
    "Yolov4_for_Pytorch": Network(yolov4.yolov4, 608, flags=_SMALL_CHANNEL, aipp=608),
}


def build(name: str) -> Net:
    """The network of that name, without writing anything. KeyError for a name not in `NETWORKS`."""
    network = NETWORKS[name]
    net = Net(name, network.size)
    network.build(net)
    return net


def write(folder: Path, names: Iterable[str] = ()) -> list[Path]:
    """Write networks (all by default) and the weights they share to ``folder``; returns the .onnx files."""
    folder.mkdir(parents=True, exist_ok=True)
    nets = [build(name) for name in (names or NETWORKS)]
    room = max(net.largest for net in nets)
    write_weights(folder, room)
    paths = []
    for net in nets:
        path = folder / f"{net.name}.onnx"
        onnx.save(net.model(room), str(path))
        flags = atc_flags(folder, net.name)
        if flags:
            path.with_suffix(".json").write_text(json.dumps(flags, indent=1) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def atc_flags(folder: Path, name: str) -> dict[str, str]:
    """ATC flags of a network; writes the AIPP file that they name."""
    network = NETWORKS[name]
    flags = dict(network.flags)
    if network.aipp:
        config = folder / f"{name}.aipp"
        config.write_text(
            _AIPP.format(
                size=network.aipp,
                net=network.size,
                crop="true" if network.aipp != network.size else "false",
                start=(network.aipp - network.size) // 2,
            ),
            encoding="utf-8",
        )
        flags["insert_op_conf"] = config.name
    return flags
