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


# From a page on Atlas 200I DK A2 and vllm-ascend's issues: columns of twelve, left aligned.
WATCH = "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  AI Cpu(%)   Ctrl Cpu(%) Memory(%)   Memory BW(%)"


def test_watch_scrolls_a_line_a_device(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    title, *lines = show(capsys, "info", "watch", "-d", "7", "--rounds", "3", "--soc", "Ascend910B4").splitlines()
    assert title.rstrip() == WATCH and waits == [7, 7]
    assert [" ".join(line.split()) for line in lines] == 3 * [f"{i} 0 93.5 36 0 0 0 0 NA" for i in (0, 1)]
    assert all(line[:12].strip().isdigit() and line[24:28] == "93.5" for line in lines)
    shown = show(capsys, "info", "watch", "-i", "1", "-c", "0", "-s", "map", "--rounds", "1", "--soc", "Ascend310P3")
    assert [line.split()[-3:] for line in shown.splitlines()[1:]] == [["20.0", "0", "0"]]
    report = json.loads(show(capsys, "info", "watch", "-i", "1", "--rounds", "1", "--json"))
    assert [d["id"] for d in report["devices"]] == [1]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["watch", "-s", "pq"], "ptaicmb"), (["watch", "-d", "0"], "from 1 to 100"), (["watch", "-i", "9"], "-i 9"),
     (["-t", "proc-mem", "-c", "1"], "-c 1")],
)  # fmt: skip
def test_watch_names_mistakes(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["smi", "info", *words]) == 2
    out = capsys.readouterr()
    assert said in out.err and not out.out


def test_processes_of_a_device(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idle = show(capsys, "info", "-t", "proc-mem", "-i", "0", "-c", "0").splitlines()
    assert idle[-2:] == ["\tNo process in device.", "\tChip ID                        : 0"]
    assert "does not support" in show(capsys, "info", "proc", "-i", "0", "-c", "0", "-d", "2")
    place.mkdir()
    state = {"pid": 1, "program": "a_very_long_name.py", "alive": True, "soc": "Ascend910B4", "count": 2,
             "devices": [{"id": 1, "used": 177 << 20, "peak": 1, "aicore": 0.5, "us": 1.0}]}  # fmt: skip
    (place / "1.json").write_text(json.dumps(state))
    lines = show(capsys, "info", "-t", "proc-mem", "-i", "1").splitlines()
    assert "\tProcess id:1       Process name:a_very_long_nam   Process memory(MB):177" in lines
    assert lines[0] == "\tNPU ID                         : 1"
