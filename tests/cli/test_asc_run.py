"""Kernel programs under ``ascend-sim run --shim asc``: launches take their place and time on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes
import warnings
import numpy as np
import asc
import asc.lib.runtime as rt
import asc.runtime.config as config

@asc.jit
def vadd(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int]):
    gx, gy = asc.GlobalTensor(asc.float32), asc.GlobalTensor(asc.float32)
    gx.set_global_buffer(x)
    gy.set_global_buffer(y)
    a = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, n)
    asc.data_copy(a, gx, n)
    asc.set_flag(asc.HardEvent.MTE2_V)
    asc.wait_flag(asc.HardEvent.MTE2_V)
    asc.adds(a, a, 1.0, n)
    asc.set_flag(asc.HardEvent.V_MTE3)
    asc.wait_flag(asc.HardEvent.V_MTE3)
    asc.data_copy(gy, a, n)

config.set_platform(config.Backend.Model, {platform})
assert rt.current_platform() == "{chip}"
x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
before = rt.current_tick()
vadd[1, rt.current_stream()](x, y, 1024)
assert (y == x + 1).all() and rt.current_tick() > before + 1000
here = rt.copy_data_to_device(x.ctypes.data_as(ctypes.c_void_p), x.nbytes)
stream = rt.create_stream()
vadd[1, stream](here, here, 1024)
vadd[1, stream](here, here, 1024)
rt.synchronize(stream)
rt.copy_data_from_device(y, here, y.nbytes)
assert (y == x + 2).all()
rt.free(here)
rt.destroy_stream(stream)
try:
    rt.free(here)
except ValueError as error:
    print(error)
"""


def run(tmp_path: Path, platform: str, chip: str, *options: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "kernels.py"
    script.write_text(PROGRAM.replace("{platform}", platform).replace("{chip}", chip))
    command = [sys.executable, "-m", "ascend_sim.cli.main", "run", "--shim", "asc", *options, str(script)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_SIM_")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_profile_of_kernels(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(tmp_path, '"Ascend910B4"', "Ascend910B4", "--profile", str(out))
    assert done.returncode == 0, done.stderr
    assert "was not allocated" in done.stdout and "vadd" in done.stdout and "Ascend910B4: " in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["soc"] == "Ascend910B4" and summary["kernels"] == 3 and summary["device_us"] > 1
    rows = (out / "op_summary.csv").read_text().splitlines()
    assert sum("vadd" in row for row in rows) == 3


def test_without_profile_on_another_chip(tmp_path: Path) -> None:
    done = run(tmp_path, '"Ascend310P3"', "Ascend310P3", "--soc", "Ascend310P3")
    assert done.returncode == 0, done.stderr


def test_program_names_a_chip_the_machine_is_not(tmp_path: Path) -> None:
    """The profile asks for the machine first; the kernels still run on the chip the program names."""
    done = run(tmp_path, '"Ascend310B1"', "Ascend310B1", "--soc", "Ascend910B2")
    assert done.returncode == 0, done.stderr
