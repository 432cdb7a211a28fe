"""What the graph passes are worth: operators and time of networks with every pass, and with each one switched off.

    python -m benchmarks.fusion [--chip Ascend310P3] [--page docs/fusion.md] [MODEL.onnx[:INPUT=1x3x640x640] ...]

Without models: light_resnet50 with seeded weights and, when the demo has fetched it, the PP-OCRv4 text detector. Times
are of the second run, without host copies. ``--page`` writes the table and its figure as documentation.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_sim.api import Simulator
from ascend_sim.cli.table import render
from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.passes import PIPELINE, REQUIRED, pass_names
from ascend_sim.soc import Soc, load_soc

CACHE = Path(__file__).parents[1] / ".cache" / "models"
DETECTOR, DETECTOR_SHAPE = "ch_PP-OCRv4_det_infer", (1, 3, 640, 640)
NOISE = 0.0005  # smaller changes are left out of the figure


@dataclass(frozen=True)
class Network:
    """An ONNX model in bytes and the shapes of its inputs."""

    name: str
    model: bytes
    shapes: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Line:
    """``off`` is the pass that is switched off ("" none, ``all`` every one); times in microseconds."""

    off: str
    operators: int
    us: float
    estimated: int
    types: dict[str, int]


def networks() -> list[Network]:
    from benchmarks.seeded_models import seeded_model

    found = [Network("light_resnet50", seeded_model("light_resnet50", batch=1).SerializeToString(), {})]
    path = CACHE / f"{DETECTOR}.onnx"
    if path.exists():
        found.append(Network("PP-OCRv4 det", path.read_bytes(), {"x": DETECTOR_SHAPE}))
    return found


def nodes(network: Network) -> int:
    """Operators of the ONNX graph, without constants."""
    import onnx

    graph = onnx.load_from_string(network.model).graph
    return sum(node.op_type not in ("Constant", "Identity") for node in graph.node)


def measure(network: Network, chip: Soc, off: Sequence[str]) -> tuple[int, float, int, dict[str, int]]:
    options = CompileOptions(input_shapes=network.shapes, switched_off=frozenset(off))
    loaded = LoadedModel.from_bytes(compile_model(network.model, chip, options))
    report = Simulator(chip).model(loaded)
    types = Counter(op.op for op in report.ops)
    return len(report.ops), report.us, sum(op.estimated for op in report.ops), dict(types)


def lines(network: Network, chip: Soc) -> list[Line]:
    """All passes, none, and all but one each."""
    single = [name for name in pass_names() if name not in REQUIRED and name != "formats"]
    found = [Line("", *measure(network, chip, ()))]
    for name in single:
        found.append(Line(name, *measure(network, chip, (name,))))
    found.append(Line("all fusions", *measure(network, chip, single)))
    return found


def table(network: Network, found: Sequence[Line]) -> str:
    base = found[0]
    rows = [["ONNX graph", nodes(network), "", ""], ["every pass", base.operators, f"{base.us:.1f}", ""]]
    for line in sorted(found[1:], key=lambda item: -item.us):
        name = f"without {line.off}" if line.off != "all fusions" else "without any fusion"
        rows.append([name, line.operators, f"{line.us:.1f}", f"{line.us / base.us - 1:+.1%}"])
    return render(["passes", "operators", "us", "change"], rows)


def figure(chip: Soc, measured: Sequence[tuple[Network, Sequence[Line]]]) -> str:
    """Bars: how much longer a network takes without a pass (SVG)."""
    bars, y = [], 40
    parts: list[str] = []
    for network, found in measured:
        base = found[0].us
        parts.append(f'<text x="16" y="{y}" font-weight="600">{network.name}: {nodes(network)} ONNX operators, '
                     f"{found[0].operators} on the device, {base / 1e3:.2f} ms</text>")  # fmt: skip
        y += 12
        changes = sorted(((line.us / base - 1, line) for line in found[1:]), key=lambda item: -item[0])
        widest = max(changes[0][0], 0.01)
        for change, line in changes:
            if change < NOISE:
                continue
            width = 300 * change / widest
            name = f"without {line.off}" if line.off != "all fusions" else "without any fusion"
            label = f"+{change:.1%}, {line.operators} operators"
            parts.append(f'<text x="196" y="{y + 13}" text-anchor="end">{name}</text>'
                         f'<rect x="204" y="{y + 2}" width="{width:.1f}" height="14" fill="#3b6ea5"/>'
                         f'<text x="{210 + width:.1f}" y="{y + 13}">{label}</text>')  # fmt: skip
            y += 20
        bars.append(y)
        y += 28
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{y}" font-family="sans-serif" '
            f'font-size="12" fill="#222"><rect width="720" height="{y}" fill="#fff"/>'
            f'<text x="16" y="18" font-size="14">Time of networks on {chip.name} without one pass</text>')  # fmt: skip
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def page(chip: Soc, measured: Sequence[tuple[Network, Sequence[Line]]], image: str) -> str:
    text = [
        "# What the graph passes are worth", "",
        f"Batch 1 on {chip.name}, second run, without host copies; made by `python -m benchmarks.fusion --page "
        "docs/fusion.md`. A pass is switched off by its name in `--fusion_switch_file` (`epilogue:off`).", "",
        f"![Time without each pass]({image})", "",
    ]  # fmt: skip
    text += ["## The passes, in order", "", "| pass | stock fusions it stands for | what it does |", "|---|---|---|"]
    seen: set[str] = set()
    for name, module, stock in PIPELINE:
        if name not in seen:
            what = (module.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")
            text.append(f"| `{name}` | {', '.join(stock) or '-'} | {what} |")
        seen.add(name)
    text += ["", "`precision` and `cleanup` always run.", ""]
    for network, found in measured:
        types = ", ".join(f"{count} {kind}" for kind, count in sorted(found[0].types.items(), key=lambda kv: -kv[1]))
        text += [f"## {network.name}", "", "```", table(network, found), "```", "", f"With every pass: {types}.", ""]
    return "\n".join(text)


def _given(word: str) -> Network:
    path, _, rest = word.partition(":")
    shapes = {name: tuple(int(d) for d in dims.split("x")) for name, _, dims in
              (part.partition("=") for part in rest.split(",") if part)}  # fmt: skip
    return Network(Path(path).stem, Path(path).read_bytes(), shapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL.onnx[:INPUT=1x3x640x640]")
    parser.add_argument("--chip", default="Ascend310P3")
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    chip = load_soc(args.chip)
    measured = [(network, lines(network, chip)) for network in [_given(m) for m in args.models] or networks()]
    for network, found in measured:
        print(f"{network.name} on {chip.name}\n{table(network, found)}\n")
    if args.page:
        image = args.page.parent / "img" / "fusion.svg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_text(figure(chip, measured))
        args.page.write_text(page(chip, measured, f"img/{image.name}"))


if __name__ == "__main__":
    main()
