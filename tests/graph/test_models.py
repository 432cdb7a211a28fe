"""Whole networks against onnxruntime in fp32: cosine and decisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from graph_models import cosine
from seeded_models import NAMES, seeded_input, seeded_model

from ascend_sim.engine.memory import L2
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions
from ascend_sim.soc import load_soc

CACHE = Path(__file__).parents[2] / ".cache" / "models"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4")
EVERYDAY = ("light_squeezenet", "light_resnet50")


def _compare(data: bytes, soc: str, inputs: dict[str, np.ndarray], distinct: int = 100) -> LoadedModel:
    shapes = {name: value.shape for name, value in inputs.items()}
    model = LoadedModel.from_bytes(compile_model(data, soc, CompileOptions(input_shapes=shapes)))
    got = model.run_values([inputs[d.name] for d in model.inputs])
    session = onnxruntime.InferenceSession(data)
    for value, expected in zip(got, session.run(None, inputs), strict=True):
        assert value.shape == expected.shape
        assert len(np.unique(expected)) > distinct  # a comparison could fail
        assert cosine(value, expected) >= 0.999
        flat, wanted = value.reshape(value.shape[0], -1), expected.reshape(value.shape[0], -1)
        assert (flat.argmax(1) == wanted.argmax(1)).all()
    return model


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B4"])
@pytest.mark.parametrize("name", EVERYDAY)
def test_seeded_topologies(name: str, soc: str) -> None:
    model = seeded_model(name)
    batch = 2 if name == "light_squeezenet" else 1
    key, value = seeded_input(model, batch)
    _compare(model.SerializeToString(), soc, {key: value})


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B4"])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in EVERYDAY])
def test_other_topologies(name: str, soc: str) -> None:
    """With a free batch: gears of 1 and 2, both run, every operator timed from a trace."""
    model = seeded_model(name)
    key, value = seeded_input(model, 2)
    options = CompileOptions(input_shapes={key: (-1, *value.shape[1:])}, dynamic_batch=(1, 2))
    _gears(model.SerializeToString(), soc, options, [{key: value[:1]}, {key: value}])


def _gears(data: bytes, soc: str, options: CompileOptions, runs: list[dict[str, np.ndarray]]) -> None:
    """Every gear against onnxruntime: cosine, decisions, and no estimated time."""
    model = LoadedModel.from_bytes(compile_model(data, soc, options))
    session = onnxruntime.InferenceSession(data)
    for inputs in runs:
        variant = model.variant_for_shapes([inputs[p.name].shape for p in model.inputs if p.name in inputs])
        got = model.run_values([inputs[p.name] for p in model.inputs if p.name in inputs], variant)
        for value, expected in zip(got, session.run(None, inputs), strict=True):
            assert value.shape == expected.shape and cosine(value, expected) >= 0.999
            if np.allclose(expected.sum(-1), 1, atol=1e-3):  # classes, not coordinates
                np.testing.assert_array_equal(value.argmax(-1), expected.argmax(-1))
        chip = load_soc(soc)
        timed = [(n, t) for n, t in model.operator_timings(chip, variant=variant) if t.estimated]
        assert [f"{n.name} ({n.call.type}): {t.reason}" for n, t in timed] == []


@pytest.mark.skipif(not (CACHE / "pnet.onnx").exists(), reason="MTCNN's networks are not in .cache/models")
@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B4"])
def test_face_detector_with_free_batch_and_size(soc: str) -> None:
    sizes = ((1, 120, 160), (2, 38, 50))
    options = CompileOptions(input_shapes={"input_1": (-1, -1, -1, 3)}, input_format="ND", dynamic_dims=sizes)
    rng = np.random.default_rng(0)
    pictures = [{"input_1": rng.standard_normal((*s, 3)).astype(np.float32)} for s in sizes]
    _gears((CACHE / "pnet.onnx").read_bytes(), soc, options, pictures)
    for name, key, side in (("rnet", "input_2", 24), ("onet", "input_3", 48)):
        options = CompileOptions(input_shapes={key: (-1, side, side, 3)}, input_format="ND", dynamic_batch=(1, 16))
        faces = [{key: rng.standard_normal((b, side, side, 3)).astype(np.float32)} for b in (1, 16)]
        _gears((CACHE / f"{name}.onnx").read_bytes(), soc, options, faces)


def test_residual_network_is_fused_to_its_kernels() -> None:
    """53 convolutions with everything behind them, two pools, one product, softmax and the borders."""
    model = seeded_model("light_resnet50", batch=1)
    loaded = LoadedModel.from_bytes(compile_model(model.SerializeToString(), "Ascend310P3"))
    types = [c.call.type for c in loaded.calls]
    assert {t: types.count(t) for t in set(types)} == {
        "Conv2D": 53, "MaxPoolV3": 1, "AvgPoolV2": 1, "MatMulV2": 1, "SoftmaxV2": 1, "Cast": 2, "TransData": 3,
    }  # fmt: skip


@pytest.mark.skipif(not (CACHE / "ch_PP-OCRv4_det_infer.onnx").exists(), reason="run the demo once to fetch the models")
@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B4"])
def test_text_detector_and_classifier(soc: str) -> None:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 3, 160, 160)).astype(np.float32)
    _compare((CACHE / "ch_PP-OCRv4_det_infer.onnx").read_bytes(), soc, {"x": image})
    strip = rng.standard_normal((2, 3, 48, 192)).astype(np.float32)
    _compare((CACHE / "ch_ppocr_mobile_v2.0_cls_infer.onnx").read_bytes(), soc, {"x": strip}, distinct=2)


def _estimated(data: bytes, soc: str, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    chip = load_soc(soc)
    model = LoadedModel.from_bytes(compile_model(data, chip, CompileOptions(input_shapes=shapes)))
    return [f"{node.name} ({node.call.type}): {t.reason}" for node, t in model.operator_timings(chip) if t.estimated]


@pytest.mark.parametrize("soc", CHIPS)
def test_every_operator_is_timed_from_a_trace(soc: str) -> None:
    for name in EVERYDAY:
        assert _estimated(seeded_model(name, batch=1).SerializeToString(), soc, {}) == []
    for name, shape in (
        ("ch_PP-OCRv4_det_infer", (1, 3, 320, 320)),
        ("ch_ppocr_mobile_v2.0_cls_infer", (1, 3, 48, 192)),
    ):
        path = CACHE / f"{name}.onnx"
        if path.exists():
            assert _estimated(path.read_bytes(), soc, {"x": shape}) == []


@pytest.mark.slow
@pytest.mark.parametrize("soc", CHIPS)
def test_every_operator_of_vgg_is_timed_from_a_trace(soc: str) -> None:
    assert _estimated(seeded_model("light_vgg19", batch=1).SerializeToString(), soc, {}) == []


def test_time_is_the_same_twice_and_a_warm_run_is_not_slower() -> None:
    chip = load_soc("Ascend310P3")
    model = LoadedModel.from_bytes(compile_model(seeded_model("light_squeezenet", batch=1).SerializeToString(), chip))
    runs = []
    for _ in range(2):
        l2 = L2(chip)
        runs.append([sum(t.task_ps for _, t in model.operator_timings(chip, l2)) for _ in range(2)])
    assert runs[0] == runs[1]
    assert runs[0][1] <= runs[0][0]
