"""The command line: contracts of its JSON, and what a mistake looks like."""

from __future__ import annotations

import json

import pytest

from ascend_sim.cli.main import main


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    assert main(list(argv)) == 0
    return json.loads(capsys.readouterr().out)


def test_op_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_json(capsys, "op", "MatMulV2", "--soc", "910b2", "--input", "512x256:float16", "--input",
                      "256x1024:float16", "--json")  # fmt: skip
    assert set(report) == {"soc", "op", "us", "cycles", "blocks", "bound", "pipes", "bytes", "estimated", "confidence",
                           "figures", "rests_on", "band", "band_text"}  # fmt: skip
    assert (report["soc"], report["op"], report["estimated"]) == ("Ascend910B2", "MatMulV2", False)
    assert set(report["bytes"]) == {"gm_read", "gm_write", "l2_hit"}
    assert report["bytes"]["gm_write"] == 512 * 1024 * 2
    assert report["bytes"]["gm_read"] >= (512 * 256 + 256 * 1024) * 2
    fractals = 512 // 16 * 256 // 16 * 1024 // 16
    assert report["pipes"]["cube"]["busy_cycles"] >= fractals / 24
    assert all(0 <= p["ratio"] <= 1 for p in report["pipes"].values())


def test_cold_is_slower_than_warm(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["op", "Add", "--soc", "Ascend910B2", "--input", "4096x1024:float16", "--input", "4096x1024:float16"]
    warm = run_json(capsys, *words, "--json")
    cold = run_json(capsys, *words, "--l2", "cold", "--json")
    assert cold["us"] > warm["us"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["op", "MatMulV9", "--input", "2x2:float16"], "MatMulV2"),
        (["op", "Add", "--input", "2by2:float16"], "2by2"),
        (["op", "Add", "--input", "2x2:float17", "--input", "2x2:float16"], "float17"),
        (["op", "Add", "--soc", "Ascend311", "--input", "2x2:float16", "--input", "2x2:float16"], "Ascend311"),
        (["op", "MatMulV2", "--input", "2x3:float16", "--input", "4x5:float16"], "MatMulV2"),
        (["op", "Add", "--attr", "x", "--input", "2x2:float16", "--input", "2x2:float16"], "'x'"),
        (["model", "missing.onnx"], "missing.onnx"),
        (["run", "missing.py"], "missing.py"),
        (["configs", "Ascend000"], "Ascend000"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and error.count("\n") <= 3 and "Traceback" not in error


def test_configs_lists_every_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs"]) == 0
    out = capsys.readouterr().out
    for name in ("Ascend310 ", "Ascend310P3", "Ascend910A", "Ascend910B4-1"):
        assert name in out


def test_configs_shows_sources(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_json(capsys, "configs", "910b4", "--json")
    clock = report["figures"]["cores.clock_mhz"]
    assert clock["value"] == 1650 and clock["unit"] == "MHz" and clock["source"]
