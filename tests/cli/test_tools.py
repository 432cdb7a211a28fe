"""compare, doctor, completion, shims, msprof, simulated clocks for programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_sim.cli import msprof, progress, virtual_time
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.main import COMMANDS, main

APP = """
import sys
import acl
assert acl.init() == 0
assert acl.rt.set_device(0) == 0
pointer, _ = acl.rt.malloc(1 << 20, 0)
host = bytes(1 << 20)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    assert acl.rt.memcpy(pointer, 1 << 20, acl.util.bytes_to_ptr(host), 1 << 20, 1) == 0
print("copied")
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


def outside(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ascend_sim.cli.main", *map(str, command)], capture_output=True,
                          text=True, check=False, cwd=Path(__file__).parents[2],
                          env=os.environ | {"ASCEND_SIM_QUIET": "1"} | environment)  # fmt: skip


# -- compare -----------------------------------------------------------------------------------------------


def profile(folder: Path, soc: str, us: list[float]) -> Path:
    """A profile of operators a, b, c; only what compare reads."""
    names = "abc"[: len(us)]
    operators = [{"name": n, "type": "Relu", "shapes": "4x4", "runs": 2, "us": t, "class": "memory bound"}
                 for n, t in zip(names, us, strict=True)]  # fmt: skip
    totals = {"device_us": sum(us), "span_us": 9.0, "host_us": 10.0, "kernels": len(us), "estimated_us": 0.0}
    folder.mkdir()
    data = {"version": 1, "soc": {"name": soc}, "totals": totals, "operators": operators}
    (folder / "events.json").write_text(json.dumps(data))
    return folder


def test_compare_lists_the_largest_change_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (
        profile(tmp_path / "1", "Ascend310P3", [2.0, 10.0]),
        profile(tmp_path / "2", "Ascend910B4", [4.0, 3.0, 1.0]),
    )
    assert main(["compare", str(one), str(two), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(o["name"], o["us_one"], o["us_two"], o["change"]) for o in found["operators"]] == [
        ("b", 5.0, 1.5, -7.0), ("a", 1.0, 2.0, 2.0), ("c", None, 0.5, 1.0)]  # fmt: skip
    assert found["totals"][0] == {"what": "device time in kernels, us", "one": 12.0, "two": 8.0}
    assert main(["compare", str(one), str(two)]) == 0
    shown = capsys.readouterr().out
    assert "0.30x" in shown and "Ascend310P3" in shown
    assert main(["compare", str(one), str(tmp_path / "none")]) == 2


def test_run_ends_with_a_summary(app: Path, tmp_path: Path) -> None:
    done = outside("run", "--profile", tmp_path / "p", "--json", app)
    *_, last = done.stdout.splitlines()
    found = json.loads(last)
    assert found["exit"] == 0 and found["kernels"] == 0 and (Path(found["profile"]) / "report.html").is_file()
    assert outside("run", "--json", app).returncode == 2


# -- doctor, completion, shims -----------------------------------------------------------------------------


def test_doctor_names_what_is_wrong() -> None:
    good = outside("doctor", "--json")
    found = json.loads(good.stdout)
    assert good.returncode == 0 and not [f for f in found if f["state"] == "fail"]
    bad = outside("doctor", ASCEND_SIM_SOC="Ascend999", ASCEND_SIM_VALUES="sometimes")
    assert bad.returncode == 1 and "Ascend999" in bad.stdout and "sometimes" in bad.stdout
    assert "\x1b" not in bad.stdout  # no colours in pipes


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_words(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command in script
    assert "Ascend310P3" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = tmp_path / "complete"
    script.write_text(capsys.readouterr().out)
    ask = f'source {script}; COMP_WORDS=({{}}); COMP_CWORD={{}}; _ascend_sim; echo "${{{{COMPREPLY[*]}}}}"'

    def complete(words: str, at: int) -> str:
        done = subprocess.run(["bash", "-c", ask.format(words, at)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert complete("ascend-sim comp", 1) == "compare completion"
    assert complete("ascend-sim op MatMulV2 --l2 w", 4) == "warm"
    assert "Ascend310P3" in complete("ascend-sim run --soc Ascend310", 3)
    assert complete("ascend-sim sweep --sched", 2) == "--scheduler"


def test_shims_run_and_replace_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    assert main(["shims", str(folder)]) == 0
    done = subprocess.run([folder / "npu-smi", "info", "-l"], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[2], env=os.environ | {"PYTHONPATH": "."})  # fmt: skip
    assert "NPU ID" in done.stdout
    assert main(["shims", str(folder)]) == 0  # again
    (folder / "msprof").write_text("#!/bin/sh\n")
    assert main(["shims", str(folder)]) == 2
    assert (folder / "msprof").read_text() == "#!/bin/sh\n"


# -- msprof ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["recommended", "application"])
def test_msprof_takes_both_ways_to_name_the_program(way: str, app: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["python3", str(app), "3"]
    program = words if way == "recommended" else [f"--application={' '.join(words)}"]
    done = outside("msprof", f"--output={out}", "--ascendcl=on", "--aic-metrics=Memory", *program)
    assert done.returncode == 0, done.stderr
    (folder,) = out.glob("PROF_*")
    assert "copied" in done.stdout and str(folder.resolve()) in done.stdout
    (table,) = folder.glob("mindstudio_profiler_output/task_time_*.csv")
    (calls,) = folder.glob("mindstudio_profiler_output/api_statistic_*.csv")
    assert "aclrtMemcpy" in calls.read_text() and table.is_file()
    (summary,) = folder.glob("mindstudio_profiler_output/op_summary_*.csv")
    assert "aic_l2_read_bw(GB/s)" in summary.read_text()


def test_msprof_says_its_result_to_programs(app: Path, tmp_path: Path) -> None:
    done = outside("msprof", f"--output={tmp_path / 'out'}", "--json", "python3", str(app), "3")
    assert "[INFO]" not in done.stdout and "copied" in done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["exit"] == done.returncode == 0 and result["kernels"] == 0
    assert Path(result["profile"]).match("PROF_*")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--aic-metrics=Everything", "x.py"], "PipeUtilization"),
        (["--task-time=l9", "x.py"], "l0, l1"),
        (["--unknown=1", "x.py"], "no such option"),
        (["--output", "x.py"], "--output=VALUE"),
        (["--export=on"], "nothing to export"),
        (["none.py"], "is not a file"),
        (["--environment=A"], "no program"),
        (["op", "--kernel-name=x", "y.py"], "msprof op simulator"),
        (["op", "simulator", "--launch-count=0", "y.py"], "--launch-count=0"),
    ],
)
def test_msprof_names_mistakes(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["msprof", *words]) == 2
    assert said in capsys.readouterr().err


def test_only_python_programs_run(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/usr/bin/env python3\n")
    assert msprof.python_program([str(script), "1"]) == (script, False, ["1"])
    assert msprof.python_program(["python3.11", "-m", "pkg.mod", "1"]) == (Path("pkg.mod"), True, ["1"])
    script.write_bytes(b"\x7fELF")
    with pytest.raises(CommandError, match="not a Python program"):
        msprof.python_program([str(script)])


# -- time --------------------------------------------------------------------------------------------------

TIMED = """
import time
from time import perf_counter
import acl
acl.init()
acl.rt.set_device(0)
n = 64 << 20
p, _ = acl.rt.malloc(n, 0)
host = bytes(n)
begin, wall = perf_counter(), time.time()
acl.rt.memcpy(p, n, acl.util.bytes_to_ptr(host), n, 1)
print(perf_counter() - begin, time.time() - wall)
begin = time.monotonic_ns()
time.sleep(2.5)
print(time.monotonic_ns() - begin)
import queue
try:
    queue.Queue().get(timeout=0.01)
except queue.Empty:
    print("waited")
"""


def test_programs_that_time_themselves_see_simulated_time(tmp_path: Path) -> None:
    path = tmp_path / "timed.py"
    path.write_text(TIMED)
    runs = [outside("run", "--virtual-time", "--soc", "Ascend910B2", path) for _ in range(2)]
    first, second = (r.stdout.splitlines() for r in runs)
    took, wall = map(float, first[0].split())
    assert 64 / 2**10 / 32 < took < 64 / 2**10 / 4  # s: PCIe, 4 to 32 GiB/s
    assert wall == pytest.approx(took, abs=1e-6) and first[1:] == ["2500000000", "waited"]
    assert first[0].split()[0] == second[0].split()[0]


def test_clocks_come_back() -> None:
    import time

    real = time.time
    virtual_time.install()
    assert time.time is not real
    virtual_time.uninstall()
    assert time.time is real


def test_colours_only_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert progress.colored(Terminal()) and not progress.colored(open(os.devnull))  # type: ignore[arg-type]  # noqa: SIM115
    monkeypatch.setenv("NO_COLOR", "1")
    assert not progress.colored(Terminal())  # type: ignore[arg-type]
