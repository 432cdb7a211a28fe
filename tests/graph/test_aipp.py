"""Static AIPP: against a pixel-by-pixel model written from the manual's formulas, and through a compiled model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graph_models import make_model, randn
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st
from onnx import helper

from ascend_sim.graph.aipp import AippConfig, parse_config, preprocess
from ascend_sim.graph.aipp_params import pack_params, unpack_params
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
        ("aipp_op { aipp_mode: dynamic input_format: RGB888_U8 }", "max_src_image_size"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 resize: true }", "resize is reserved"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 crap: true }", "crap.*crop"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 256 }", "mean has 256"),
        ("aipp_op { aipp_mode: static input_format: YUV400_U8 csc_switch: true }", "no colours"),
        ("aipp_op { aipp_mode: static input_format: YUV420SP_U8 crop: true load_start_pos_w: 3 }", "even"),
        ("aipp_op { aipp_mode: fixed }", "expected static or dynamic"),
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


def nv12_to_rgb(image: np.ndarray, matrix: list[list[int]], bias: list[int], swap: bool) -> np.ndarray:
    """[N, 3/2 H, W, 1] to [N, H, W, 3] by whole-array integer arithmetic in 64 bits."""
    height = image.shape[1] * 2 // 3
    luma, chroma = image[:, :height, :, 0].astype(np.int64), image[:, height:, :, 0].astype(np.int64)
    u, v = (np.kron(chroma[:, :, k::2], np.ones((1, 2, 2), np.int64)) for k in ((1, 0) if swap else (0, 1)))
    centred = np.stack([luma - bias[0], u - bias[1], v - bias[2]], axis=-1)
    return np.clip(np.floor_divide(np.einsum("ij,nhwj->nhwi", np.asarray(matrix, np.int64), centred), 256), 0, 255)


@settings(max_examples=60, deadline=None)
@given_(st.integers(0, 2**32 - 1), st.booleans())
def test_integer_stage_is_exact(seed: int, swap: bool) -> None:
    """Colour conversion, crop, mean and padding of random pictures: no bit differs from the NumPy model."""
    source = np.random.default_rng(seed)
    height, width = (2 * int(v) for v in source.integers(4, 12, 2))
    top, left = (2 * int(v) for v in source.integers(0, 2, 2))
    rows, columns = height - top - int(source.integers(0, 2)), width - left - int(source.integers(0, 2))
    matrix = source.integers(-512, 512, (3, 3)).tolist()
    bias = source.integers(0, 256, 3).tolist()
    mean = source.integers(0, 256, 3).tolist()
    pads = source.integers(0, 5, 4).tolist()
    parsed = AippConfig(
        aipp_mode="static", input_format="YUV420SP_U8", src_image_size_w=width, src_image_size_h=height, crop=True,
        load_start_pos_w=left, load_start_pos_h=top, crop_size_w=columns, crop_size_h=rows, padding=True,
        top_padding_size=pads[0], bottom_padding_size=pads[1], left_padding_size=pads[2], right_padding_size=pads[3],
        csc_switch=True, rbuv_swap_switch=swap, matrix=tuple(v for row in matrix for v in row),
        input_bias=tuple(bias), mean=(*mean, 0),
    )  # fmt: skip
    image = source.integers(0, 256, (2, height * 3 // 2, width, 1)).astype(np.uint8)
    rgb = nv12_to_rgb(image, matrix, bias, swap)[:, top : top + rows, left : left + columns] - np.asarray(mean)
    expected = np.pad(rgb, ((0, 0), tuple(pads[:2]), tuple(pads[2:]), (0, 0))).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(preprocess(image, parsed), expected.astype(np.float32))


def identity(tmp_path: Path, text: str, shape: tuple[int, ...], **options: object) -> LoadedModel:
    """A network that gives what it reads, behind AIPP."""
    model = make_model([helper.make_node("Identity", ["x"], ["y"])], {"x": randn(*shape)}, ["y"])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    (tmp_path / "aipp.cfg").write_text(text)
    given = {"precision_mode": "must_keep_origin_dtype", "aipp": tuple(parse_config(str(tmp_path / "aipp.cfg"))),
             "input_shapes": {"x": shape}, **options}  # fmt: skip
    om = compile_model(model.SerializeToString(), "Ascend310P3", CompileOptions(**given))  # type: ignore[arg-type]
    return LoadedModel.from_bytes(om)


def test_compiled_preprocessing_is_exact(tmp_path: Path) -> None:
    loaded = identity(tmp_path, YUV, (1, 3, 9, 11))
    image = np.random.default_rng(3).integers(0, 256, (1, 15, 12, 1)).astype(np.uint8)
    (port,) = loaded.aipp()
    assert (port.image, port.params, port.network) == (0, -1, (1, 3, 9, 11))
    np.testing.assert_array_equal(loaded.run_values([image])[0], preprocess(image, config(tmp_path, YUV)))


def test_network_of_pixels(tmp_path: Path) -> None:
    """--input_format=NHWC: the network reads pixels, the application gives pixels."""
    text = "aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_1: 7 }"
    loaded = identity(tmp_path, text, (2, 5, 6, 3), input_format="NHWC")
    image = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 3)).astype(np.uint8)
    np.testing.assert_array_equal(loaded.run_values([image])[0], image.astype(np.float32) - np.asarray([0, 7, 0]))


PICTURE = AippConfig(
    input_format="YUV420SP_U8", src_image_size_w=16, src_image_size_h=12, crop=True, crop_size_w=10, crop_size_h=8
)
DYNAMIC = "aipp_op { aipp_mode: dynamic max_src_image_size: 4000 }"


def test_dynamic_parameters_come_with_the_images(tmp_path: Path) -> None:
    loaded = identity(tmp_path, DYNAMIC, (2, 3, 8, 10))
    assert [(p.name, p.dims, p.size, p.dtype) for p in loaded.inputs] == [
        ("x", (2, -1, -1, -1), 4000, "uint8"),
        ("ascend_dynamic_aipp_data", (64 + 2 * 96,), 256, "uint8"),
    ]
    (port,) = loaded.aipp()
    assert (port.image, port.params, port.config.max_src_image_size) == (0, 1, 4000)
    base = replace(PICTURE, csc_switch=True)
    other = replace(base, load_start_pos_h=4, mean=(1, 2, 3, 0), var_reci=(0.5,) * 4)
    images = [replace(base, load_start_pos_w=2), other]
    source = np.random.default_rng(1).integers(0, 256, (2, 18, 16, 1)).astype(np.uint8)
    given = np.zeros(4000, np.uint8)
    given[: source.size] = source.ravel()
    params = np.frombuffer(pack_params(images), np.uint8)
    (got,) = loaded.run_values([given, params])
    expected = np.concatenate([preprocess(source[i : i + 1], images[i]) for i in range(2)])
    np.testing.assert_array_equal(got, expected)
    plain = [AippConfig(input_format="RGB888_U8", src_image_size_w=10, src_image_size_h=8)] * 2
    (got,) = loaded.run_values([given, np.frombuffer(pack_params(plain), np.uint8)])  # another format, same model
    np.testing.assert_array_equal(got, given[:480].reshape(2, 8, 10, 3).transpose(0, 3, 1, 2).astype(np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crop_size_w": 8}, r"3 x 8 x 8.*\[3, 8, 10\]"),
        ({"input_format": ""}, "input_format was not set"),
        ({"src_image_size_w": 400, "src_image_size_h": 400}, "max_src_image_size"),
        ({"src_image_size_w": 15}, "even"),
    ],
)
def test_dynamic_parameters_that_do_not_fit(tmp_path: Path, change: dict[str, int], message: str) -> None:
    loaded = identity(tmp_path, DYNAMIC, (1, 3, 8, 10))
    params = np.frombuffer(pack_params([replace(PICTURE, **change)]), np.uint8)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        loaded.run_values([np.zeros(4000, np.uint8), params])
    with pytest.raises(ValueError, match="set_input_aipp"):
        loaded.run_values([np.zeros(4000, np.uint8), np.zeros(160, np.uint8)])


def test_dynamic_parameters_survive_packing() -> None:
    one = AippConfig(
        aipp_mode="dynamic", input_format="XRGB8888_U8", src_image_size_w=20, src_image_size_h=10, ax_swap_switch=True,
        rbuv_swap_switch=True, csc_switch=True, crop=True, crop_size_w=4, crop_size_h=3, load_start_pos_w=1,
        load_start_pos_h=2, padding=True, left_padding_size=1, right_padding_size=2, top_padding_size=3,
        bottom_padding_size=4, mean=(1, 2, 3, 4), min_chn=(0.5, 0.25, 0.125, 0.0), var_reci=(0.5, 2.0, 1.0, 4.0),
    )  # fmt: skip
    assert unpack_params(pack_params([one, one])) == [one, one]


def test_gears_and_dynamic_preprocessing_together(tmp_path: Path) -> None:
    loaded = identity(tmp_path, DYNAMIC, (2, 3, 8, 10), input_shapes={"x": (-1, 3, 8, 10)}, dynamic_batch=(1, 2))
    assert [p.name for p in loaded.inputs] == ["x", "ascend_mbatch_shape_data", "ascend_dynamic_aipp_data"]
    base = AippConfig(input_format="RGB888_U8", src_image_size_w=10, src_image_size_h=8)
    given = np.random.default_rng(1).integers(0, 256, 4000).astype(np.uint8)
    for batch in (1, 2):
        variant = loaded.variant_for_gear(batch)
        params = np.frombuffer(pack_params([base] * batch), np.uint8)
        (got,) = loaded.run_values([given, np.asarray([batch], np.int32), params], variant)
        np.testing.assert_array_equal(got, given[: 240 * batch].reshape(batch, 8, 10, 3).transpose(0, 3, 1, 2))
        assert loaded.aipp(variant)[0].params == 2
