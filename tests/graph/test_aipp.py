"""Static AIPP: against a pixel-by-pixel model written from the manual's formulas, and through a compiled model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_models import make_model, randn
from onnx import helper

from ascend_sim.graph.aipp import AippConfig, parse_config, preprocess
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions

YUV = """
# NV12 camera picture to RGB
aipp_op {
    aipp_mode: static
    related_input_rank: 0
    input_format: YUV420SP_U8
    src_image_size_w: 12
    src_image_size_h: 10
    crop: true
    load_start_pos_w: 2
    load_start_pos_h: 4
    crop_size_w: 8
    crop_size_h: 6
    padding: true
    left_padding_size: 1
    right_padding_size: 2
    top_padding_size: 3
    bottom_padding_size: 0
    padding_value: 0.5
    csc_switch: true
    matrix_r0c0: 256  matrix_r0c1: 0  matrix_r0c2: 359
    matrix_r1c0: 256  matrix_r1c1: -88  matrix_r1c2: -183
    matrix_r2c0: 256  matrix_r2c1: 454  matrix_r2c2: 0
    input_bias_0: 0
    input_bias_1: 128
    input_bias_2: 128
    mean_chn_0: 104
    mean_chn_1: 117
    mean_chn_2: 123
    min_chn_0: 0.5
    var_reci_chn_0: 0.25
    var_reci_chn_1: 0.5
    var_reci_chn_2: 0.125
}
"""


def config(tmp_path: Path, text: str) -> AippConfig:
    (tmp_path / "aipp.cfg").write_text(text)
    return parse_config(str(tmp_path / "aipp.cfg"))[0]


def pixel(image: np.ndarray, y: int, x: int) -> list[float]:
    """One RGB pixel of the picture above, from scalar integers."""
    flat = image[0, :, :, 0].astype(int)
    luma = int(flat[y, x])
    u, v = (int(flat[10 + y // 2, (x // 2) * 2 + k]) for k in (0, 1))
    rows = [[256, 0, 359], [256, -88, -183], [256, 454, 0]]
    rgb = []
    for row in rows:
        total = row[0] * luma + row[1] * (u - 128) + row[2] * (v - 128)
        rgb.append(min(max(total >> 8, 0), 255))
    mean, low, scale = (104, 117, 123), (0.5, 0.0, 0.0), (0.25, 0.5, 0.125)
    return [(c - m - n) * s for c, m, n, s in zip(rgb, mean, low, scale, strict=True)]


def test_yuv_crop_convert_normalise_and_pad(tmp_path: Path) -> None:
    parsed = config(tmp_path, YUV)
    image = np.random.default_rng(0).integers(0, 256, (1, 15, 12, 1)).astype(np.uint8)
    got = preprocess(image, parsed)
    assert got.shape == (1, 3, 9, 11)
    expected = np.full((3, 9, 11), 0.5)
    for y in range(6):
        for x in range(8):
            expected[:, 3 + y, 1 + x] = pixel(image, 4 + y, 2 + x)
    np.testing.assert_array_equal(got[0], expected.astype(np.float32))


def test_channel_swaps(tmp_path: Path) -> None:
    image = np.arange(16, dtype=np.uint8).reshape(1, 2, 2, 4)
    text = "aipp_op {{ aipp_mode: static input_format: {} src_image_size_w: 2 src_image_size_h: 2 {} }}"
    got = preprocess(image, config(tmp_path, text.format("XRGB8888_U8", "")))
    assert got[0, :, 0, 1].tolist() == [5, 6, 7]  # X is dropped
    got = preprocess(image, config(tmp_path, text.format("XRGB8888_U8", "ax_swap_switch: true rbuv_swap_switch: true")))
    assert got[0, :, 0, 1].tolist() == [6, 5, 4]
    got = preprocess(image[..., :3], config(tmp_path, text.format("RGB888_U8", "rbuv_swap_switch: true")))
    assert got[0, :, 0, 0].tolist() == [2, 1, 0]


def test_model_takes_images(tmp_path: Path) -> None:
    w = randn(4, 3, 3, 3, seed=1) * 0.1
    model = make_model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": randn(1, 3, 9, 11)}, ["y"], {"w": w})
    parsed = config(tmp_path, YUV)
    om = compile_model(model.SerializeToString(), "Ascend310", CompileOptions(aipp=(parsed,)))
    loaded = LoadedModel.from_bytes(om)
    (port,) = loaded.inputs
    assert (port.dims, port.dtype, port.format, port.size) == ((1, 15, 12, 1), "uint8", "NHWC", 180)
    image = np.random.default_rng(0).integers(0, 256, (1, 15, 12, 1)).astype(np.uint8)
    plain = LoadedModel.from_bytes(compile_model(model.SerializeToString(), "Ascend310"))
    expected = plain.run_values([preprocess(image, parsed)])[0]
    np.testing.assert_allclose(loaded.run_values([image])[0], expected, atol=1e-2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no aipp_op"),
        ("aipp_op { aipp_mode: static", "not closed"),
        ("aipp { }", "expected"),
        ("aipp_op { aipp_mode static }", "no value"),
        ("aipp_op { aipp_mode: static input_format: RGB }", "input_format"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 crop: maybe }", "crop has the wrong value 'maybe'"),
        ("aipp_op { aipp_mode: dynamic input_format: RGB888_U8 }", "dynamic"),
        ("aipp_op { aipp_mode: static input_format: YUV420SP_U8 src_image_size_w: 3 src_image_size_h: 2 }", "even"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_w: 9999 }", "larger"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 padding: true left_padding_size: 40 }", "padding"),
    ],
)
def test_bad_configurations(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AtcError, match=message):
        config(tmp_path, text)


def test_sizes_must_fit_the_network(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": randn(1, 3, 9, 12)}, ["y"])
    with pytest.raises(AtcError, match=r"E10052.*9 x 11.*9 x 12"):
        compile_model(model.SerializeToString(), "Ascend310", CompileOptions(aipp=(config(tmp_path, YUV),)))
