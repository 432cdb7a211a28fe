"""What msprof's switches write, how its options are taken apart, and the lines that explain the operator table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.main import main
from ascend_sim.cli.msprof_options import split
from ascend_sim.profiling import optable
from ascend_sim.profiling.store import EventStore
from ascend_sim.soc import Soc

APP = """
import acl
acl.init(); acl.rt.set_device(0)
acl.rt.free(acl.rt.malloc(1 << 20, 0)[0])
acl.rt.reset_device(0); acl.finalize()
"""


@pytest.mark.parametrize(
    ("switches", "tables"),
    [((), set()), (("--sys-hardware-mem=on", "--task-memory=on"), {"npu_mem"})],  # the program loads no model
)
def test_memory_is_written_where_it_was_asked_for(switches: tuple[str, ...], tables: set[str], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "ascend_sim.cli.main", "msprof", f"--output={tmp_path}", *switches,
               str(tmp_path / "app.py")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    names = {p.name.rpartition("_")[0] for p in tmp_path.glob("PROF_*/mindstudio_profiler_output/*.csv")}
    assert names == {"op_summary", "op_statistic", "task_time", "api_statistic"} | tables


def even(name: str, value: str) -> str:
    return "" if name != "n" or int(value) % 2 == 0 else "an even number"


def test_options_end_where_the_program_begins() -> None:
    options, rest = split(["--a=1", "--json", "--n=4", "python3", "--b=2"], {"a": "", "b": "0", "n": "0"}, even)
    assert options == {"json": "on", "a": "1", "b": "0", "n": "4"} and rest == ["python3", "--b=2"]
    assert split(["--a="], {"a": "x"}) == ({"json": "off", "a": ""}, [])
    for words, said in ((["--c=1"], "--a="), (["--a"], "--a=VALUE"), (["--n=3"], "an even number")):
        with pytest.raises(CommandError, match=said):
            split(words, {"a": "", "n": ""}, even)


def test_the_operator_simulator_without_a_program_shows_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in ((["--help"], 0), (["--launch-count=2"], 2)):
        assert main(["msprof", "op", "simulator", *words]) == code
        assert "--kernel-name" in capsys.readouterr().out
    assert main(["msprof", "op", "simulator", "--core=1", "x.py"]) == 2
    assert "--core-id=" in capsys.readouterr().err


def test_the_operator_table_explains_its_columns(recorded: Callable[[str], tuple[EventStore, Soc]]) -> None:
    lines = optable.render_table(*recorded("Ascend910B4")).splitlines()
    header = lines[1]
    for line, columns in zip(lines[-2:], (("us", "cycles", "busy pipes"), ("error",)), strict=True):
        assert len(line) <= 120
        for column in columns:
            assert column in header and f"{column}:" in line
    assert '"-"' in lines[-1]
    empty = optable.render_table(EventStore(), recorded("Ascend910B4")[1])
    assert len(empty.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--profile", "app.py"], "expected a directory before the program, for example `--profile out app.py`"),
     (["--profile", "app.py", "model.om"], "expected a directory"), (["--profile", "out"], "no program")],
)  # fmt: skip
def test_a_profile_without_its_directory(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("app.py", "model.om"):
        Path(name).write_text("")
    assert main(["run", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("out").exists()
