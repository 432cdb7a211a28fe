"""How long conversions take: seconds of CPU, since the machine may have other work."""

from __future__ import annotations

import io
import time
from pathlib import Path

import onnx
import pytest
from bert import bert
from seeded_models import seeded_model

from ascend_sim.graph.atc import atc_main

CACHE = Path(__file__).parents[2] / ".cache" / "models"
pytestmark = pytest.mark.slow


def seconds(model: Path, *flags: str) -> float:
    out = io.StringIO()
    started = time.process_time()
    words = [f"--model={model}", "--framework=5", f"--output={model.parent / 'out'}", "--soc_version=Ascend310P3"]
    assert atc_main([*words, *flags], out) == 0, out.getvalue()
    return time.process_time() - started


@pytest.mark.skipif(not (CACHE / "ch_PP-OCRv4_det_infer.onnx").exists(), reason="run the demo once to fetch the models")
def test_text_detector(tmp_path: Path) -> None:
    (tmp_path / "det.onnx").write_bytes((CACHE / "ch_PP-OCRv4_det_infer.onnx").read_bytes())
    assert seconds(tmp_path / "det.onnx", "--input_shape=x:1,3,640,640") <= 5


def test_residual_network(tmp_path: Path) -> None:
    onnx.save(seeded_model("light_resnet50", batch=1), tmp_path / "resnet.onnx")
    assert seconds(tmp_path / "resnet.onnx") <= 5


def test_bert_base(tmp_path: Path) -> None:
    onnx.save(bert(), tmp_path / "bert.onnx")
    assert seconds(tmp_path / "bert.onnx") <= 20
