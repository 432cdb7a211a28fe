"""``ascend-sim smi``: the layouts of public npu-smi listings, filled from running and finished simulations."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascend_sim.cli.main import main
from ascend_sim.runtime import status

# From 1Panel-dev/1Panel issue 9472 (910B4) and vllm-project/vllm-ascend issue 12980 (process table).
HBM = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASCEND_SIM_STATUS_DIR", str(tmp_path / "status"))
    monkeypatch.setenv("ASCEND_SIM_DEVICES", "2")
    return tmp_path / "status"


def show(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["smi", *argv]) == 0
    return capsys.readouterr().out


def test_idle_chips_with_hbm(capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, "info", "--soc", "Ascend910B4")
    assert HBM in text
    assert "| 0     910B4               | OK            | 93.5        36                0    / 0             |" in text
    assert "| 0                         | 0000:82:00.0  | 0           0    / 0          0    / 32768         |" in text
    assert text.count("No running processes found in NPU") == 2
    assert len({len(line) for line in text.splitlines()}) == 1


def test_idle_chips_without_hbm(capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, "--soc", "Ascend310P3")
    assert "| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)    " in text
    assert "| 1       310P3                 | OK              |" in text
    assert len({len(line) for line in text.splitlines()}) == 1


def test_facts_have_padded_keys(capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(capsys, "info", "-t", "usages", "-i", "1", "--soc", "Ascend910B4").splitlines()
    assert all(line[0] == "\t" and line[32] == ":" for line in lines)
    assert "\tHBM Capacity(MB)               : 32768" in lines
    assert main(["smi", "-t", "power", "-i", "7"]) == 2
    assert "-i 7" in capsys.readouterr().err
    assert "Ascend 910B4" in show(capsys, "-m", "--soc", "Ascend910B4")


PROGRAM = """
import time, acl
acl.init(); acl.rt.set_device(1); acl.rt.malloc(3 << 20, 0)
print("ready", flush=True)
input()
"""


def test_a_running_program_then_the_last_one(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "app.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "ascend_sim.cli.main", "run", "--soc", "Ascend310P3", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdin and app.stdout and app.stdout.readline() == "ready\n"
        for _ in range(100):
            if status.processes():
                break
            assert app.poll() is None
            time.sleep(0.1)
        table = show(capsys)
        assert f"| 1       0                     | {app.pid:<16}| app.py                   | 3 " in table
        app.communicate("\n")
    assert main(["smi"]) == 0
    out = capsys.readouterr()
    assert "app.py" not in out.out and "last run (app.py)" in out.err
    report = json.loads(show(capsys, "--json"))
    assert report["soc"] == "Ascend310P3" and report["devices"][1]["last"][0]["peak"] >= 3 << 20
    assert json.loads(show(capsys, "-t", "usages", "-i", "1", "--json"))["devices"] == report["devices"][1:2]
