"""The ``PROF_*`` tree of msprof, as msprof-analyze, MindStudio Insight and people's scripts read it.

Only names carry the wall clock; contents are simulated and the same in every run. Layout: Ascend/msprof,
"mindstudio_profiler_output" of the user guide.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ascend_sim.profiling import communication, msprof_db, op_summary
from ascend_sim.profiling import msprof_memory as memory
from ascend_sim.profiling import msprof_optional as optional
from ascend_sim.profiling import msprof_tables as tables
from ascend_sim.profiling.msprof_timeline import trace_events
from ascend_sim.profiling.store import EventStore
from ascend_sim.soc import Soc

OUTPUT = "mindstudio_profiler_output"

DEFAULT_METRICS = op_summary.DEFAULT_METRICS
ALWAYS = ("op_statistic", "task_time", "api_statistic")  # tables that are written without rows, too

README = """Simulated profile of {soc}, in the layout of msprof's text export. Times are those of the simulated clock.

op_summary            one row a kernel, with counters of the PipeUtilization group
op_statistic          time by operator type
task_time             everything that streams executed
api_statistic         calls of the host
npu_mem               what the program held on each device (when it asked for memory)
memory_record, operator_memory   what models and single operators took of it (when they ran)
static_op_mem         what the operators of a model hold of its work area, and when (when one ran)
step_trace            one iteration per execution of a model (when one ran)
fusion_op             operators of models that stand for several of the source
l2_cache, aicpu, msprof_tx   hit rates, operators on the device's CPUs, marks of the program
communication_statistic, ../analyze/*.json   collectives, their bandwidths and who talked to whom (when there were any)
msprof_*.json         the timeline

{estimated}
"""


@dataclass(frozen=True)
class Contents:
    """What of a run is written: with the ``counters`` of kernels or not, and which group of them; ``task_memory`` the
    tables of the graph engine's memory, ``device_memory`` that of the process, ``aicpu``, ``l2`` and ``marks`` what
    their names say; ``rank`` is -1 without a job of many. ``database``: one ``msprof_*.db`` in place of the files."""

    counters: bool = True
    metrics: str = DEFAULT_METRICS
    task_memory: bool = True
    device_memory: bool = True
    aicpu: bool = True
    l2: bool = True
    marks: bool = True
    rank: int = -1
    database: bool = False


def write(
    store: EventStore, soc: Soc, parent: Path, now: datetime | None = None, contents: Contents | None = None
) -> Path:
    """Write a new ``PROF_*`` directory below ``parent`` (made when missing) and return it. ``now`` dates the names."""
    chosen = contents or Contents()
    moment = now or datetime.now()
    stamp = moment.strftime("%Y%m%d%H%M%S")
    name = f"PROF_{_number(parent):06d}_{stamp}{moment.microsecond // 1000:03d}_{_letters(store, soc)}"
    root = parent / name
    root.mkdir(parents=True)
    if chosen.database:
        msprof_db.write(store, soc, root / f"msprof_{stamp}.db", chosen.metrics if chosen.counters else "")
    else:
        _write_texts(store, soc, root / OUTPUT, stamp, chosen)
    for device in sorted({e.device for e in store.events if e.device >= 0}):
        place = root / f"device_{device}"
        place.mkdir()
        (place / f"info.json.{device}").write_text(json.dumps(device_info(soc, device, chosen.rank)))
    return root


def _write_texts(store: EventStore, soc: Soc, folder: Path, stamp: str, chosen: Contents) -> None:
    folder.mkdir()
    op_summary.write(store, soc, folder / f"op_summary_{stamp}.csv", chosen.metrics if chosen.counters else "")
    for table, (header, rows) in _tables(store, soc, chosen).items():
        if rows or table in ALWAYS:
            tables.write_csv(folder / f"{table}_{stamp}.csv", header, rows)
    if any(store.of_kind("collective")):
        analyze = folder.parent / "analyze"
        analyze.mkdir()
        (analyze / "communication.json").write_text(json.dumps(communication.plain(store)))
        (analyze / "communication_matrix.json").write_text(json.dumps(communication.plain_matrix(store)))
    (folder / f"msprof_{stamp}.json").write_text(json.dumps(trace_events(store, soc.memory.kind)))
    (folder / "README.txt").write_text(README.format(soc=soc.name, estimated=_estimated(store)))


def _tables(store: EventStore, soc: Soc, chosen: Contents) -> dict[str, tuple[tuple[str, ...], tables.Rows]]:
    found = {
        "op_statistic": (tables.OP_STATISTIC, tables.op_statistic(store)),
        "task_time": (tables.TASK_TIME, tables.task_time(store)),
        "api_statistic": (tables.API_STATISTIC, tables.api_statistic(store)),
        "step_trace": (tables.STEP_TRACE, tables.step_trace(store)),
        "communication_statistic": (tables.COMMUNICATION, tables.communication_statistic(store)),
    }
    found["fusion_op"] = optional.FUSION_OP, optional.fusion_op(store)
    if chosen.aicpu:
        found["aicpu"] = optional.AICPU, optional.aicpu(store)
    if chosen.l2:
        found["l2_cache"] = optional.L2_CACHE, optional.l2_cache(store)
    if chosen.marks:
        found["msprof_tx"] = optional.MSPROF_TX, optional.msprof_tx(store)
    if chosen.device_memory:
        found["npu_mem"] = memory.NPU_MEM, memory.npu_mem(store, soc.memory.kind)
    if chosen.task_memory:
        found["memory_record"] = memory.MEMORY_RECORD, memory.memory_record(store)
        found["operator_memory"] = memory.OPERATOR_MEMORY, memory.operator_memory(store)
        found["static_op_mem"] = memory.STATIC_OP_MEM, memory.static_op_mem(store)
    return found


def device_info(soc: Soc, device: int, rank: int = -1) -> dict[str, object]:
    """What msprof's ``info.json`` says of a device (analysis tools read core counts, frequency and rank there)."""
    facts = {
        "id": device, "ai_core_num": soc.cores.ai_core_count, "aiv_num": soc.cores.vector_core_count,
        "ai_cpu_core_num": soc.cores.ai_cpu_count, "aic_frequency": f"{soc.cores.clock_mhz:g}",
        "aiv_frequency": f"{soc.cores.vector_core_clock_mhz:g}",
    }  # fmt: skip
    return {"devices": str(device), "platform": soc.name, "rank_id": rank, "hostUid": "0", "DeviceInfo": [facts]}


def _number(parent: Path) -> int:
    return len(list(parent.glob("PROF_*"))) + 1


def _letters(store: EventStore, soc: Soc) -> str:
    """Sixteen capital letters that tell profiles of different runs apart."""
    facts = f"{soc.digest} {[(e.kind, e.start, e.end) for e in store.events]}"
    return "".join(chr(ord("A") + byte % 26) for byte in hashlib.sha256(facts.encode()).digest()[:16])


def _estimated(store: EventStore) -> str:
    types = sorted({e.args["op_type"] for e in store.kernels() if e.args.get("estimated")})
    if not types:
        return "Every kernel was replayed instruction by instruction."
    return "Times of these operators are estimated (no kernel; their counters are 0): " + ", ".join(types) + "."
