"""Huawei's own analyser reads what is written, without complaint: set MSPROF_ANALYZE to its command (26.2.0 of PyPI).

Of its warnings two say nothing about the files: one that every run prints (an analysis that needs no data set), and
that the user is root. A device that talked to no other has no communication to compare.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_sim.profiling import ascend_pt, msprof
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
COMMAND = os.environ.get("MSPROF_ANALYZE", "")
EXPECTED = ("don't rely on any dataset", "root")
PARTS = [f"--enable_{part}_compare" for part in ("profiling", "operator", "memory", "api", "kernel")]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COMMAND, reason="MSPROF_ANALYZE names no command")]


def complaints(*arguments: str | Path) -> list[str]:
    done = subprocess.run([*shlex.split(COMMAND), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^.*\[(?:WARNING|ERROR)\].*$", done.stdout + done.stderr, re.M)
    return [line for line in lines if not any(words in line for words in EXPECTED)]


def outputs(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("performance_comparison_result_*.xlsx"))


def ranks(store: EventStore) -> list[EventStore]:
    """The two devices of a run as two ranks of a job that reduced something together at its end."""
    end, found = max(e.end for e in store.events), []
    for rank in (0, 1):
        mine = store.of_device(rank)
        facts = {"nbytes": 10**6, "wait": 10**6, "link": "HCCS", "ranks": (0, 1), "rank": rank, "queued": end}
        mine(Event("collective", "hcom_allReduce_", rank, 5, 77, end, end + 4 * 10**6, 0, facts))
        found.append(mine)
    return found


@pytest.mark.parametrize("with_framework", [False, True])
def test_advisor_and_compare(
    with_framework: bool, recorded: Recorded, trained: Callable[[EventStore], EventStore], tmp_path: Path
) -> None:
    store, soc = recorded("Ascend910B4")
    store = trained(store) if with_framework else store
    folders = [ascend_pt.write(store.of_device(0), soc, tmp_path, worker=name) for name in ("a", "b")]
    assert not complaints("advisor", "all", "-d", folders[0], "-o", tmp_path)
    parts = [] if with_framework else [part for part in PARTS if "memory" not in part]  # no allocations in these events
    assert not complaints("compare", "-d", folders[0], "-bp", folders[1], "-o", tmp_path, *parts)
    assert outputs(tmp_path)


@pytest.mark.parametrize("chip", ["Ascend910B4", "Ascend310P3"])
def test_compare_takes_the_timeline_of_msprof(chip: str, recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded(chip)
    folder = msprof.write(store, soc, tmp_path)
    (timeline,) = folder.glob("mindstudio_profiler_output/msprof_*.json")
    assert not complaints("compare", "-d", timeline, "-bp", timeline, "-o", tmp_path)
    assert outputs(tmp_path)


def test_ranks_of_a_job(recorded: Recorded, tmp_path: Path) -> None:
    """Both trees: the advisor over all ranks of torch_npu's, the cluster analysis over msprof's."""
    store, soc = recorded("Ascend910B4")
    folders = [
        ascend_pt.write(mine, soc, tmp_path / "job", worker=f"rank{rank}", rank=rank)
        for rank, mine in enumerate(ranks(store))
    ]
    assert not complaints("compare", "-d", folders[0], "-bp", folders[1], "-o", tmp_path, *PARTS[:2],
                          "--enable_communication_compare")  # fmt: skip
    assert not complaints("advisor", "all", "-d", tmp_path / "job", "-o", tmp_path)
    alone = tmp_path / "profs"
    alone.mkdir()
    for folder in folders:
        (tree,) = folder.glob("PROF_*")
        tree.rename(alone / tree.name)
    assert not complaints("cluster", "-m", "all", "-d", alone)
    names = {p.name for p in (alone / "cluster_analysis_output").iterdir()}
    assert {"cluster_communication.json", "cluster_communication_matrix.json", "cluster_step_trace_time.csv"} <= names


@pytest.mark.parametrize("recipe", ["cann_api_sum", "compute_op_sum", "hccl_sum"])
def test_databases_of_ranks(recipe: str, recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded("Ascend910B4")
    for rank, mine in enumerate(ranks(store)):
        msprof.write(mine, soc, tmp_path, contents=msprof.Contents(database=True, rank=rank))
    assert not complaints("cluster", "-m", recipe, "-d", tmp_path, "--export_type", "db")
    assert (tmp_path / "cluster_analysis_output" / "cluster_analysis.db").is_file()


def test_the_advisor_reads_kernels_of_msprof(recorded: Recorded, tmp_path: Path) -> None:
    """26.2.0 knows a profile's type by the end of its directory's name only, and wants files that msprof does not write
    beside op_summary: it says so, and analyses the kernels."""
    store, soc = recorded("Ascend910B4")
    parent = tmp_path / "run_ascend_pt"
    msprof.write(store, soc, parent)
    wanted = (
        "Unknown profiling type",
        "ensure timeline file",
        "ensure communication.json",
        "No such file or directory: ''",
    )
    found = complaints("advisor", "all", "-d", parent, "-o", tmp_path, "-l", "en")
    assert not [line for line in found if not any(words in line for words in wanted)]
    (page,) = tmp_path.glob("mstt_advisor_*.html")
    assert "MatMulV2" in page.read_text()
