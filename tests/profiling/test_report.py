"""report.html: complete in one file, its numbers those of the events, its words those of msopprof."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.cli.main import main
from ascend_sim.profiling import bottleneck, report
from ascend_sim.profiling.bands import NO_BAND
from ascend_sim.profiling.report_data import report_data
from ascend_sim.profiling.store import EventStore
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]


PIPES = ("cube", "vector", "mte1", "mte2", "mte3", "fixpipe", "scalar", "aiv_scalar", "aiv_mte2")


def column(timeline: dict[str, Any], name: str, dtype: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(timeline[name])), dtype)


@pytest.mark.parametrize("chip", ["Ascend910B4", "Ascend310P3"])
def test_the_data_says_what_the_events_say(chip: str, recorded: Recorded) -> None:
    store, soc = recorded(chip)
    data = json.loads(json.dumps(report_data(store, soc)))
    assert data["soc"]["name"] == chip
    assert sum(data["soc"]["confidence"].values()) == sum(not k.startswith("board.") for k in soc.figures)
    device = sum(e.duration for e in store.kernels()) / 1e6
    assert data["totals"]["device_us"] == pytest.approx(device)
    assert sum(o["us"] for o in data["operators"]) == pytest.approx(device)
    assert data["totals"]["busy_us"] <= data["totals"]["span_us"]
    estimated = {o["type"] for o in data["operators"] if o["estimated"]}
    assert estimated == {"NonZero"} and data["totals"]["estimated_us"] > 0
    for op in data["operators"]:
        assert op["class"] in data["advice"] and 0 <= op["peak"] <= 1 + 1e-9
        assert all(0 <= r <= 1 for r in op["ratios"].values())
        assert sum(op["figures"].values()) > 0 and (op["estimated"] or op["figures"][op["confidence"]] > 0)
        assert op["type"] != "NonZero" or op["band"] == NO_BAND
    matmul = next(o for o in data["operators"] if o["type"] == "MatMulV2")
    assert ("gemm rows" in matmul["band"]) == (chip == "Ascend910B4") or "of this length" in matmul["band"]
    assert matmul["ops"] == 2 * 256 * 128 * 512 * matmul["runs"]
    assert matmul["gm"] >= (256 * 128 + 128 * 512 + 256 * 512) * 2 * matmul["runs"]


def test_the_timeline_holds_every_event_and_lanes_do_not_overlap(recorded: Recorded) -> None:
    store, soc = recorded("Ascend910B4")
    timeline = report_data(store, soc)["timeline"]
    start, dur = column(timeline, "start", "<f8"), column(timeline, "dur", "<f4")
    lane, name, op = column(timeline, "lane", "<u2"), column(timeline, "name", "<u4"), column(timeline, "op", "<i4")
    pipes = [i for i, (group, label, _) in enumerate(timeline["lanes"]) if label in PIPES]
    mine = ~np.isin(lane, pipes)
    assert mine.sum() == len(store.events) and len(start) == timeline["count"]
    assert dur[mine].sum(dtype=np.float64) == pytest.approx(sum(e.duration for e in store.events) / 1e6, rel=1e-5)
    busy = sum(sum(t.busy_ps.values()) for e in store.kernels() if (t := e.args["timing"]) is not None)
    assert dur[~mine].sum(dtype=np.float64) == pytest.approx(busy / 1e6, rel=1e-5)
    assert (np.diff(lane.astype(int)) >= 0).all() and name.max() < len(timeline["names"])
    assert (op[mine] >= 0).sum() == len(store.kernels())
    for number in range(len(timeline["lanes"])):
        first, length = start[lane == number], dur[lane == number]
        assert (first[1:] >= first[:-1] + length[:-1] - 1e-4).all()


def test_peaks_of_the_roofs_are_the_documented_ones(recorded: Recorded) -> None:
    """Ascend/msopprof: 8192 operations a cycle and core in float16 on the cube; 910B1: 24 cores of 1.85 GHz, 364 T."""
    store, soc = recorded("Ascend910B4")
    roofs = report_data(store, soc)["roofs"]
    assert roofs["compute"][0][1] == pytest.approx(20 * soc.cores.clock_mhz * 8192 / 1e6)


@pytest.mark.parametrize(
    ("share", "word", "ratios", "said"),
    [
        (0.81, bottleneck.COMPUTE, {"cube": 0.99}, "compute bound"),
        (0.95, bottleneck.MEMORY, {"mte2": 0.5}, "memory bound"),
        (0.8, bottleneck.COMPUTE, {"cube": 0.79, "mte2": 0.5}, "latency bound:pipeline caused"),
        (0.3, bottleneck.COMPUTE, {"cube": 0.5, "mte2": 0.9}, "latency bound:memory caused"),
        (0.3, bottleneck.MEMORY, {"vector": 0.85, "mte2": 0.8}, "latency bound:compute caused"),
        (0.0, bottleneck.MEMORY, {}, "latency bound:pipeline caused"),
    ],
)
def test_words_and_thresholds_of_msopprof(share: float, word: str, ratios: dict[str, float], said: str) -> None:
    assert bottleneck.classify(share, word, ratios) == said


def test_share_of_the_peak_is_that_of_the_nearer_roof() -> None:
    """1000 us at peak compute; 1 MB at 1 GB/s takes as long; half of either is the smaller share."""
    assert bottleneck.peak_share(2000, 1000, {1.0: 500_000}) == (0.5, bottleneck.COMPUTE)
    assert bottleneck.peak_share(2000, 500, {1.0: 1_000_000, 10.0: 2_000_000}) == (0.5, bottleneck.MEMORY)


def test_the_page_fetches_nothing_and_survives_any_name(recorded: Recorded) -> None:
    store, soc = recorded("Ascend910B4")
    data = report_data(store, soc)
    data["operators"][0]["name"] = evil = "</script><b>@DATA@ \u2028"
    page = report.render(data)
    assert not re.search(r"(?:src|href)=\"(?!data:)|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page)
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert embedded and json.loads(embedded[1])["operators"][0]["name"] == evil


def test_the_command_makes_the_same_page_again(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ascend_sim.profiling.summary import write_all

    write_all(*recorded("Ascend910B4"), tmp_path)
    page = (tmp_path / "report.html").read_bytes()
    (tmp_path / "report.html").unlink()
    assert main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_bytes() == page
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["soc"]["name"] == "Ascend910B4"


def test_a_folder_without_a_profile_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "events.json" in capsys.readouterr().err
    (tmp_path / "events.json").write_text('{"version": 0}')
    assert main(["report", str(tmp_path)]) == 2
    assert "version 0" in capsys.readouterr().err
