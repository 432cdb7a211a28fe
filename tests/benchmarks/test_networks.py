"""The networks of the benchmark against their published sizes."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import models

# Multiply-accumulates (billions) and parameters (millions) per image. Parameters of the torchvision networks are those
# of its documentation; the others from the papers and model code. MACs as published, without pooling and activation.
PUBLISHED = {
    "ResNet18": (1.814, 11.69),
    "ResNet101": (7.801, 44.55),
    "VGG16": (15.470, 138.36),
    "VGG19": (19.632, 143.67),
    "GoogleNet_for_Pytorch": (1.498, 6.62),
    "InceptionV3_for_Pytorch": (5.713, 23.83),
    "Densenet121_Pytorch_Infer": (2.834, 7.98),
    "MobileNet-v1": (0.569, 4.23),
    "MobileNetV3_for_Pytorch": (0.062, 2.94),
    "EfficientNet_for_Pytorch": (0.386, 5.29),
    "EfficientNet-B1": (0.687, 7.79),
    "EfficientNet-B3": (1.827, 12.23),
    "EfficientNet-B5": (10.27, 30.39),
    "EfficientNet_b7_for_Pytorch": (37.75, 66.35),
    "EfficientNetV2_for_Pytorch": (2.970, 13.65),
    "Yolov4_for_Pytorch": (64.20, 64.36),
}


def counts(name: str) -> tuple[float, float]:
    """(GMAC, million parameters) read off the ONNX graph."""
    model = models.build(name).model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    values = [*model.graph.value_info, *model.graph.output]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    weights = {t.name: list(t.dims) for t in model.graph.initializer}
    macs = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            macs += prod(shapes[node.output[0]]) * prod(weights[node.input[1]][1:])
        elif node.op_type == "Gemm":
            macs += prod(weights[node.input[1]])
    parameters = sum(prod(dims) for name, dims in weights.items() if name.startswith("w"))
    return macs / 1e9, parameters / 1e6


@pytest.mark.parametrize("name", PUBLISHED)
def test_size_of_network(name: str) -> None:
    macs, parameters = counts(name)
    assert macs == pytest.approx(PUBLISHED[name][0], rel=0.001, abs=0.0006)
    assert parameters == pytest.approx(PUBLISHED[name][1], rel=0.01)  # folding drops one value a channel


def test_every_measured_network_can_be_built() -> None:
    from ascend_sim.profiling.calibration import read_rows

    rows = read_rows(Path(models.__file__).parents[1] / "data" / "models_calibration.csv")
    assert {row.op for row in rows} == set(models.NETWORKS)


def test_written_network_runs(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = models.write(tmp_path, ["MobileNetV3_for_Pytorch"])[0]
    onnx.checker.check_model(str(path))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(0).standard_normal((2, 3, 224, 224), np.float32)
    result = session.run(None, {"input": image})[0]
    assert result.shape == (2, 1000)
    assert np.isfinite(result).all()
    first = session.run(None, {"input": image[:1]})[0]
    np.testing.assert_allclose(result[:1], first, rtol=1e-3, atol=1e-5)


def test_weights_differ_between_tensors(tmp_path: Path) -> None:
    path = models.write(tmp_path, ["MobileNetV3_for_Pytorch"])[0]
    model = onnx.load(str(path))
    arrays = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name.startswith("w")]
    heads = [tuple(a.reshape(-1)[:4]) for a in arrays if a.size >= 4]
    assert len(set(heads)) > 0.9 * len(heads)


def test_flags_name_their_files(tmp_path: Path) -> None:
    flags = models.atc_flags(tmp_path, "Resnet18_for_PyTorch")
    assert flags["enable_small_channel"] == "1"
    text = (tmp_path / flags["insert_op_conf"]).read_text()
    assert "src_image_size_w: 256" in text
    assert "load_start_pos_h: 16" in text  # the middle 224 of 256
