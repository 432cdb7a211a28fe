"""``msprof_<time>.db``: the run as the SQLite database that ``msprof --type=db`` writes.

Tables, columns, types and enumerations are those of Ascend/msprof ("profile data file references", database). Times are
nanoseconds of the simulated clock, names numbers of STRING_IDS, threads the pseudo process 1 in the upper 32 bits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ascend_sim.profiling import communication, op_summary
from ascend_sim.profiling.digits import ns
from ascend_sim.profiling.msprof_memory import by_kind, engine_changes, process_changes
from ascend_sim.profiling.msprof_tables import task_type, tasks
from ascend_sim.profiling.msprof_timeline import PROCESS, links, operation
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

VERSION = (1, 1, 0)
NO_CONTEXT = 4294967295
ENUMS: dict[str, Mapping[int, str]] = {
    "ENUM_API_TYPE": {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime", 50001: "op",
                      50002: "queue", 50003: "trace", 50004: "mstx"},
    "ENUM_HCCL_DATA_TYPE": {0: "INT8", 1: "INT16", 2: "INT32", 3: "FP16", 4: "FP32", 5: "INT64", 6: "UINT64",
                            7: "UINT8", 8: "UINT16", 9: "UINT32", 10: "FP64", 11: "BFP16", 12: "INT128",
                            255: "RESERVED", 65534: "N/A", 65535: "INVALID_TYPE"},
    "ENUM_HCCL_LINK_TYPE": {0: "ON_CHIP", 1: "HCCS", 2: "PCIE", 3: "ROCE", 4: "SIO", 5: "HCCS_SW", 6: "STANDARD_ROCE",
                            255: "RESERVED", 65534: "N/A", 65535: "INVALID_TYPE"},
    "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 1: "RDMA", 2: "LOCAL", 255: "RESERVED", 65534: "N/A",
                                 65535: "INVALID_TYPE"},
    "ENUM_HCCL_RDMA_TYPE": {0: "RDMA_SEND_NOTIFY", 1: "RDMA_SEND_PAYLOAD", 255: "RESERVED", 65534: "N/A",
                            65535: "INVALID_TYPE"},
    "ENUM_MSTX_EVENT_TYPE": {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"},
    "ENUM_MEMCPY_OPERATION": {0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device",
                              4: "managed memory", 5: "addr device to device", 6: "host to device ex",
                              7: "device to host ex", 65535: "other"},
}  # fmt: skip
ACL, UNKNOWN = 20000, 65534
LINKS = {"HCCS": 1, "PCIE": 2, "RDMA": 3, "SIO": 4}  # of events -> ENUM_HCCL_LINK_TYPE; the rest on the chip

# table -> columns, INTEGER where nothing else is said
TABLES = {
    "STRING_IDS": "id, value TEXT",
    "SESSION_TIME_INFO": "startTimeNs, endTimeNs",
    "NPU_INFO": "id, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "META_DATA": "name TEXT, value TEXT",
    "TASK": "startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, "
    "modelId",
    "COMPUTE_TASK_INFO": "name, globalTaskId, blockNum, mixBlockNum, taskType, opType, inputFormats, inputDataTypes, "
    "inputShapes, outputFormats, outputDataTypes, outputShapes, attrInfo, opState, hf32Eligible",
    "TASK_PMU_INFO": "globalTaskId, name, value NUMERIC",
    "COMMUNICATION_OP": "opName, startNs, endNs, connectionId, groupName, opId, relay, retry, dataType, algType, "
    "count NUMERIC, opType, deviceId",
    "COMMUNICATION_TASK_INFO": "name, globalTaskId, taskType, planeId, groupName, notifyId, rdmaType, srcRank, "
    "dstRank, transportType, size, dataType, linkType, opId, isMaster, bandwidth NUMERIC",
    "MEMCPY_INFO": "globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC",
    "CANN_API": "startNs, endNs, type, globalTid, connectionId, name",
    "MSTX_EVENTS": "startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, "
    "connectionId",
    "NPU_MEM": "type, ddr NUMERIC, hbm NUMERIC, timestampNs, deviceId",
    "NPU_OP_MEM": "operatorName, addr, type, size, timestampNs, globalTid, totalAllocate NUMERIC, "
    "totalReserve NUMERIC, component, deviceId",
}  # fmt: skip
SPECS = {"inputFormats": "Input Formats", "inputDataTypes": "Input Data Types", "inputShapes": "Input Shapes",
         "outputFormats": "Output Formats", "outputDataTypes": "Output Data Types",
         "outputShapes": "Output Shapes"}  # fmt: skip

Row = tuple[Any, ...]


class Strings:
    """STRING_IDS: every text once, numbered in order of use."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def write(store: EventStore, soc: Soc, path: Path, metrics: str = op_summary.DEFAULT_METRICS) -> None:
    """Write the database; ``metrics`` is the group of counters ("": none). Tables without rows are left out."""
    ids = Strings()
    found = _Run(store, soc, ids, metrics).rows()
    found["STRING_IDS"] = [(number, text) for text, number in ids.known.items()]
    with closing(sqlite3.connect(path)) as base, base:
        for name, words in ENUMS.items():
            base.execute(f"CREATE TABLE {name} (id INTEGER, name TEXT)")
            base.executemany(f"INSERT INTO {name} VALUES (?, ?)", words.items())
        for name, columns in TABLES.items():
            rows = found[name]
            if not rows:
                continue
            typed = [c if " " in c else f"{c} INTEGER" for c in columns.split(", ")]
            base.execute(f"CREATE TABLE {name} ({', '.join(typed)})")
            base.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(typed))})", rows)
        if found["TASK"]:
            base.execute("CREATE INDEX TaskIndex ON TASK (startNs, globalTaskId)")


class _Run:
    def __init__(self, store: EventStore, soc: Soc, ids: Strings, metrics: str) -> None:
        self.store, self.soc, self.ids, self.metrics = store, soc, ids, metrics
        self.host = sorted(store.of_kind("api"), key=lambda e: (e.thread, e.start, -e.end))
        self.tasks = tasks(store)
        self.number = {id(event): i for i, event in enumerate(self.tasks)}
        self.of_task, called = links(self.host, self.tasks)
        self.of_call = {call: self.of_task[key] for key, call in called.items()}

    def rows(self) -> dict[str, list[Row]]:
        makers: dict[str, Callable[[], Iterable[Row]]] = {
            "STRING_IDS": tuple, "SESSION_TIME_INFO": self._session, "NPU_INFO": self._chips,
            "HOST_INFO": lambda: [("0", "simulated")], "META_DATA": self._meta, "TASK": self._tasks,
            "COMPUTE_TASK_INFO": self._compute, "TASK_PMU_INFO": self._counters, "COMMUNICATION_OP": self._collectives,
            "COMMUNICATION_TASK_INFO": self._transfers, "MEMCPY_INFO": self._copies, "CANN_API": self._calls,
            "MSTX_EVENTS": self._marks, "NPU_MEM": self._memory, "NPU_OP_MEM": self._blocks,
        }  # fmt: skip
        return {name: list(maker()) for name, maker in makers.items()}

    def _session(self) -> list[Row]:
        events = self.store.events
        return [(min((ns(e.start) for e in events), default=0), max((ns(e.end) for e in events), default=0))]

    def _chips(self) -> list[Row]:
        return [(device, self.soc.name) for device in sorted({e.device for e in self.store.events if e.device >= 0})]

    def _meta(self) -> list[Row]:
        parts = zip(("MAJOR", "MINOR", "MICRO"), VERSION, strict=True)
        whole = ("SCHEMA_VERSION", ".".join(map(str, VERSION)))
        return [whole, *((f"SCHEMA_VERSION_{name}", str(number)) for name, number in parts)]

    def _tasks(self) -> Iterable[Row]:
        for i, e in enumerate(self.tasks):
            yield (ns(e.start), ns(e.end), e.device, self._link(e), i, PROCESS, self.ids(task_type(e)), NO_CONTEXT,
                   e.stream, e.task, e.args.get("model_id", op_summary.NOT_A_MODEL))  # fmt: skip

    def _link(self, event: Event) -> int:
        return self.of_task[event.device, event.stream, event.task]

    def _compute(self) -> Iterable[Row]:
        header, rows = op_summary.table(self.store, self.soc, "")
        for event, cells in zip(self.store.kernels(), rows, strict=True):
            row = {name: str(cell) for name, cell in zip(header, cells, strict=True)}
            specs = [self.ids(row[column].strip('"')) for column in SPECS.values()]
            yield (self.ids(row["Op Name"]), self.number[id(event)], int(row["Block Num"]), int(row["Mix Block Num"]),
                   self.ids(row["Task Type"]), self.ids(row["OP Type"]), *specs, self.ids(""),
                   self.ids(row["OP State"]), self.ids(row["HF32 Eligible"]))  # fmt: skip

    def _counters(self) -> Iterable[Row]:
        if not self.metrics:
            return
        plain = op_summary.table(self.store, self.soc, "")[0]
        header, rows = op_summary.table(self.store, self.soc, self.metrics)
        for event, cells in zip(self.store.kernels(), rows, strict=True):
            for name, cell in zip(header, cells, strict=True):
                if name not in plain:
                    yield self.number[id(event)], self.ids(name), float(str(cell))

    def _collectives(self) -> Iterable[Row]:
        for i, e in enumerate(communication.ordered(self.store)):
            name = communication.operation_name(e, i).partition("@")[0]
            yield (self.ids(name), ns(e.start), ns(e.end), self._link(e), self.ids(communication.group_of(e)), i, 0, 0,
                   UNKNOWN, self.ids("NA"), e.args.get("nbytes", 0), self.ids(e.name), e.device)  # fmt: skip

    def _transfers(self) -> Iterable[Row]:
        for i, e in enumerate(communication.ordered(self.store)):
            mine, size = communication.rank_of(e), e.args.get("nbytes", 0)
            other = next((r for r in communication.members(e) if r != mine), mine)
            moving = e.duration - e.args.get("wait", 0)
            rdma = e.args.get("link", "HCCS") == "RDMA"
            yield (self.ids("Memcpy"), self.number[id(e)], self.ids(task_type(e)), 0,
                   self.ids(communication.group_of(e)), UNKNOWN, 1 if rdma else UNKNOWN, mine, other, int(rdma), size,
                   UNKNOWN, LINKS.get(e.args.get("link", "HCCS"), 0), i, 1,
                   size * 1e12 / moving if moving else 0)  # fmt: skip

    def _copies(self) -> Iterable[Row]:
        words = {word: number for number, word in ENUMS["ENUM_MEMCPY_OPERATION"].items()}
        for e in self.tasks:
            if e.kind == "memcpy":
                yield self.number[id(e)], e.args.get("nbytes", 0), words[operation(e)]

    def _calls(self) -> Iterable[Row]:
        for i, e in enumerate(self.host):
            yield ns(e.start), ns(e.end), ACL, _thread(e), self.of_call.get(i, i), self.ids(e.name)

    def _marks(self) -> Iterable[Row]:
        words = {word: number for number, word in ENUMS["ENUM_MSTX_EVENT_TYPE"].items()}
        for i, e in enumerate(e for e in self.store.of_kind("host") if e.args.get("mark")):
            kind = words[e.args.get("event", "marker")]
            yield (ns(e.start), ns(e.end), kind, i, 0, self.ids(e.name), _thread(e), _thread(e), self.ids("default"),
                   NO_CONTEXT)  # fmt: skip

    def _memory(self) -> Iterable[Row]:
        for e in process_changes(self.store):
            yield self.ids("APP"), *by_kind(e, self.soc.memory.kind), ns(e.start), e.device

    def _blocks(self) -> Iterable[Row]:
        for e, held in engine_changes(self.store):
            size = e.args["nbytes"]
            yield (self.ids(e.name), e.args["address"], self.ids("allocate" if size >= 0 else "release"), abs(size),
                   ns(e.start), _thread(e), held, held, self.ids("GE"), e.device)  # fmt: skip


def _thread(event: Event) -> int:
    return PROCESS << 32 | event.thread
