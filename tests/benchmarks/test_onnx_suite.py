"""The ONNX backend suite through atc, .om and acl.mdl.execute: a sample every day, all of it when asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GOALS = {"node": 1050, "simple": 23, "pytorch": 110}


def results(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    out = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "benchmarks.onnx_suite", *words, "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=1200)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_simple_and_pytorch_operator_cases(tmp_path: Path) -> None:
    found = results(tmp_path, "simple", "pytorch-operator")
    assert len(found) == 58 and all(r["status"] == "passed" for r in found)
    assert sum(not r["folded"] for r in found) >= 45  # most of them execute something


@pytest.mark.slow
def test_the_whole_suite(tmp_path: Path) -> None:
    found = results(tmp_path)
    for kind, goal in GOALS.items():
        passed = [r["name"] for r in found if r["kind"].startswith(kind) and r["status"] == "passed"]
        assert len(passed) >= goal, f"{kind}: {len(passed)}"
    assert not [r["name"] for r in found if r["status"] == "crashed"]
    refused = [r for r in found if r["status"] == "refused"]
    assert all(r["reason"].startswith("E1") for r in refused)
