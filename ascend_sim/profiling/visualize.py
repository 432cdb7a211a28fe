"""``visualize_data.bin``: what MindStudio Insight opens for one kernel, as a chain of blocks.

A block is a header of 12 bytes, little-endian (content size with padding, u64; type; bytes of padding to a multiple of
4; version, 0 for instructions and 0x5A for all others; 0x5A), for source files a path of 4096 bytes that does not
count, and the content. Source: Ascend/msopprof common/visualize.cpp and Ascend/msinsight SourceFileParser.cpp.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascend_sim.engine.result import KernelTiming
    from ascend_sim.profiling.op_simulator import Core, Kernel

SOURCE, TRACE, FILES, INSTRUCTIONS, BASIC = 1, 2, 3, 4, 5
MAGIC, VERSION, ALIGN, PATH_BYTES = 0x5A, 0x5A, 4, 4096


def block(kind: int, content: bytes, path: str = "") -> bytes:
    """One block; ``path`` names a source file."""
    padding = -len(content) % ALIGN
    version = 0 if kind == INSTRUCTIONS else VERSION
    head = struct.pack("<QBBBB", len(content) + padding, kind, padding, version, MAGIC)
    name = path.encode()[: PATH_BYTES - 1].ljust(PATH_BYTES, b"\0") if kind == SOURCE else b""
    return head + name + content + b"\0" * padding


def write(path: Path, kernel: Kernel, timing: KernelTiming, cores: Sequence[Core], trace: dict[str, Any]) -> None:
    """All blocks of one kernel."""
    instructions, files = _instructions(cores)
    parts = [block(SOURCE, Path(name).read_bytes(), name) for name in files if Path(name).is_file()]
    parts += [
        block(TRACE, _json(trace)), block(FILES, _json(_files(cores))), block(INSTRUCTIONS, _json(instructions)),
        block(BASIC, _json(_basic(kernel, timing))),
    ]  # fmt: skip
    path.write_bytes(b"".join(parts))


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _instructions(cores: Sequence[Core]) -> tuple[dict[str, Any], list[str]]:
    """The table of instructions, a slot per core in every list, and the source files it names."""
    from ascend_sim.profiling.op_simulator import LANES, detail, mnemonic, process_bytes

    rows: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    files: dict[str, None] = {}
    for slot, core in enumerate(cores):
        for i in core.instructions.values():
            name = f"{mnemonic(i.work)} {detail(i.work)}"
            key = core.kind, i.code, LANES[i.pipe][0], name
            row = rows.get(key)
            if row is None:
                zeros = {what: [0] * len(cores) for what in PER_CORE}
                row = rows[key] = {
                    "Address": hex(i.address), "AscendC Inner Code": i.code, "Source": name, "Pipe": LANES[i.pipe][0],
                    **zeros,
                }  # fmt: skip
                if i.place is not None:
                    files[i.place[0]] = None
            row["Instructions Executed"][slot] += len(i.spans)
            row["Cycles"][slot] += core.cycles(i.busy)
            row["Process Bytes"][slot] += process_bytes(i.work) * len(i.spans)
    types = {"Address": "string", "AscendC Inner Code": "string", "Source": "string", "Pipe": "string",
             **dict.fromkeys(PER_CORE, "int")}  # fmt: skip
    table = {"Cores": [c.name for c in cores], "Instructions Dtype": types, "Instructions": list(rows.values())}
    return table, list(files)


PER_CORE = ("Instructions Executed", "Cycles", "GPR Count", "Process Bytes", "Vector Utilization Percentage",
            "UB Read Conflict", "UB Write Conflict")  # fmt: skip


def _files(cores: Sequence[Core]) -> dict[str, Any]:
    """Source lines with what they cost, a slot per core."""
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for slot, core in enumerate(cores):
        for i in core.instructions.values():
            if i.place is None:
                continue
            row = lines.setdefault(i.place, {"Line": i.place[1], "Address Range": [], "Cycles": [0] * len(cores),
                                             "Instructions Executed": [0] * len(cores)})  # fmt: skip
            row["Address Range"].append([hex(i.address), hex(i.address)])
            row["Cycles"][slot] += core.cycles(i.busy)
            row["Instructions Executed"][slot] += len(i.spans)
    files: dict[str, list[dict[str, Any]]] = {}
    for (name, _), row in sorted(lines.items()):
        files.setdefault(name, []).append(row)
    types = {"Line": "int", "Address Range": "list", "Cycles": "int", "Instructions Executed": "int"}
    return {"Cores": [c.name for c in cores], "Files Dtype": {"Lines": types, "Source": "string"},
            "Files": [{"Source": name, "Lines": rows} for name, rows in files.items()]}  # fmt: skip


def _basic(kernel: Kernel, timing: KernelTiming) -> dict[str, Any]:
    return {"name": kernel.name, "soc": kernel.soc.name, "op_type": timing.kind, "duration": timing.us,
            "block_dim": timing.blocks, "frequency": timing.mhz}  # fmt: skip
