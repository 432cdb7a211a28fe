"""A child that the program forks and that ends like any program leaves the parent's reports alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PROGRAM = """
import os, sys
import acl
acl.init(*sys.argv[1:])
acl.rt.set_device(0)
pointer, _ = acl.rt.malloc(64, 0)
acl.rt.memset(pointer, 64, 0, 64)
if os.fork() == 0:
    {end}
os.wait()
acl.rt.free(pointer)
acl.rt.reset_device(0)
acl.finalize()
"""


def run(tmp_path: Path, end: str, *command: str, arguments: tuple[str, ...] = (), strict: str = "0") -> str:
    script = tmp_path / "app.py"
    script.write_text(PROGRAM.format(end=end))
    done = subprocess.run(
        [sys.executable, *command, str(script), *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "ASCEND_SIM_QUIET": "1", "ASCEND_SIM_STRICT": strict},
    )  # fmt: skip
    return done.stdout + done.stderr


def test_one_profile_of_the_command(tmp_path: Path) -> None:
    command = ("-m", "ascend_sim.cli.main", "run", "--strict", "--profile", "out")
    text = run(tmp_path, "raise KeyError(1)", *command)
    assert len(list((tmp_path / "out").glob("PROF_*"))) == 1
    assert text.count("profile: out") == 1 and text.count("strict: ") == 1 and "strict: nothing found" in text


@pytest.mark.parametrize("end", ["sys.exit(0)", "acl.finalize(); sys.exit(0)"])
def test_one_profile_of_acl_json(tmp_path: Path, end: str) -> None:
    (tmp_path / "acl.json").write_text(json.dumps({"profiler": {"switch": "on", "output": "out"}}))
    text = run(tmp_path, end, arguments=("acl.json",), strict="1")
    assert len(list((tmp_path / "out").glob("PROF_*"))) == 1
    assert text.count("strict: ") == 1 and "strict: nothing found" in text
