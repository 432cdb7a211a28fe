"""Huawei's own analyser reads what is written, without complaint: set MSPROF_ANALYZE to its command (26.2.0 of PyPI).

Of its warnings three say nothing about the files: one that every run prints (an analysis that needs no data set), that
the user is root, and that a device which talked to no other has no communication.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_sim.profiling import ascend_pt
from ascend_sim.profiling.store import EventStore
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
COMMAND = os.environ.get("MSPROF_ANALYZE", "")
EXPECTED = ("don't rely on any dataset", "root", "Can't find any communication op")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COMMAND, reason="MSPROF_ANALYZE names no command")]


def complaints(*arguments: str | Path) -> list[str]:
    done = subprocess.run([*shlex.split(COMMAND), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^.*\[(?:WARNING|ERROR)\].*$", done.stdout + done.stderr, re.M)
    return [line for line in lines if not any(words in line for words in EXPECTED)]


@pytest.mark.parametrize("with_framework", [False, True])
def test_advisor_and_compare(
    with_framework: bool, recorded: Recorded, trained: Callable[[EventStore], EventStore], tmp_path: Path
) -> None:
    store, soc = recorded("Ascend910B4")
    store = trained(store) if with_framework else store
    folders = [ascend_pt.write(store.of_device(0), soc, tmp_path, worker=name) for name in ("a", "b")]
    assert not complaints("advisor", "all", "-d", folders[0], "-o", tmp_path)
    missing = [] if with_framework else ["memory event"]  # these events hold no allocations
    found = complaints("compare", "-d", folders[0], "-bp", folders[1], "-o", tmp_path)
    assert not [line for line in found if not any(words in line for words in missing)]
    assert list(tmp_path.glob("performance_comparison_result_*.xlsx"))
