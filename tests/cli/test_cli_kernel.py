"""``ascend-sim kernel``: values, times, findings, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.asc import device
from ascend_sim.cli.main import main

SOURCE = '''
import numpy as np
from ascend_sim import asc

E, P = asc.HardEvent, asc.TPosition
N = 2048

@asc.jit
def double(x: "float16[2048]", y: "float16[2048]", flagged: bool = True):
    gx, gy = asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x)
    gy.set_global_buffer(y)
    a, b = asc.LocalTensor("float16", P.VECIN, 0, N), asc.LocalTensor("float16", P.VECOUT, 2 * N, N)
    asc.data_copy(a, gx, N)
    if flagged:
        asc.set_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE2_V, 0)
    asc.muls(b, a, 2.0, N)
    asc.set_flag(E.V_MTE3, 0)
    asc.wait_flag(E.V_MTE3, 0)
    asc.data_copy(gy, b, N)

if __name__ == "__main__":
    import sys
    x, y = np.ones(N, np.float16), np.zeros(N, np.float16)
    double[1](x, y, "--race" not in sys.argv)
    assert (y == 2).all()
    print("values agree")
    if "--wrong" in sys.argv:
        raise SystemExit("values differ")
'''


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASCEND_SIM_SOC", "Ascend910B2")
    monkeypatch.setattr(device, "_device", device.HostDevice())
    path = tmp_path / "double.py"
    path.write_text(SOURCE)
    return path


def run(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, str]:
    code = main(["kernel", *map(str, args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_right_kernel(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, program)
    assert code == 0
    assert "values agree" in out and "sanitizer: double on Ascend910B2: no findings" in out
    assert "mte2" in out and "busy cycles" in out and "timeline of block 0" in out


def test_json_and_other_chips(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, program, "--soc", "Ascend310P3", "--json")
    result = json.loads(out)
    assert code == 0 and "values agree" in err
    (launch,) = result["launches"]
    assert launch["kernel"] == "double" and launch["report"]["clean"] and launch["kind"] == "AICORE"
    assert launch["bytes"]["gm_read"] == 4096 and launch["bytes"]["gm_write"] == 4096
    assert launch["us"] > 0 and 0 < launch["pipes"]["vector"]["ratio"] <= 1


def test_findings_fail(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, program, "--args", "--race")
    assert code == 1
    assert "[ErrorSync2]" in out and "double.py:18: asc.muls(b, a, 2.0, N)" in out and "double.py:14" in out


def test_a_failing_program_fails(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, program, "--args", "--wrong")
    assert code == 1 and "values differ" in err and "no findings" in out


def test_a_function_on_example_arrays(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, program, "--func", "double", "--json")
    assert code == 0 and json.loads(out)["launches"][0]["report"]["clean"]
    code, _, err = run(capsys, program, "--func", "triple")
    assert code == 2 and "triple" in err and "it has double" in err


def test_the_timeline_has_every_instruction_with_its_line(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = program.with_name("timeline.json")
    assert run(capsys, program, "--trace", target)[0] == 0
    events = [e for e in json.loads(target.read_text())["traceEvents"] if e["ph"] == "X"]
    lines = {e["args"].get("source", "").rpartition(":")[2] for e in events}
    assert {"14", "18", "21"} <= lines
    starts = {e["args"]["source"].rpartition(":")[2]: e["ts"] for e in events if "source" in e["args"]}
    assert starts["14"] < starts["18"] < starts["21"]


def test_missing_files_and_kernels(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path / "none.py")[0] == 2
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    code, out, _ = run(capsys, empty)
    assert code == 1 and "no kernel was launched" in out


def test_msprof_op_simulator_says_its_result_to_programs(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["msprof", "op", "simulator", f"--output={out}", "--json", str(program)]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    (kernel,) = result["kernels"]
    assert (result["exit"], kernel["name"], kernel["cores"]) == (0, "double", ["core0.veccore0"])
    assert kernel["us"] > 0
    assert [str(f.resolve()) for f in out.glob("OPPROF_*")] == [result["profile"]]
