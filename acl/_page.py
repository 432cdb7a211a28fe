"""Generator of ``docs/pyacl.md``: ``python -m acl._page docs/pyacl.md``.

What the page says comes from the functions themselves: one that only explains why it cannot be simulated carries a
mark, and every other one does what it is documented to do.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acl
from acl import _names
from acl._support import MISSING_ON
from acl._used import USED

_INTRO = """# pyACL

Written by `python -m acl._page docs/pyacl.md` from the functions; do not edit.

Names, arguments and results are those of pyACL ("hicann/runtime", python/pyACL and its documentation).
**Implemented**: the function does what it is documented to do. **Explained**: it exists, takes its arguments, returns
its documented code (207000, or 200001) in its documented shape, and `acl.get_recent_err_msg()` says why. **Used**:
public programs call it (17 repositories, 202 files).
"""
_USE = """
## Settings

`acl.init(path)` reads a JSON file: `dump`, `profiler`, `err_msg_mode`, `defaultDevice`, `max_opqueue_num`, `StackSize`
and `event_mode` as documented (the last two are checked and kept: nothing here depends on them), and beside them
`"ascend_sim": {"soc": "Ascend910B2", "devices": 8, "op_compile": true}`.

| variable | meaning |
|---|---|
| `ASCEND_RT_VISIBLE_DEVICES` | the devices that programs see, in their order |
| `ASCEND_SLOG_PRINT_TO_STDOUT=1`, `ASCEND_LOG_PRINT_TO_STDOUT=1` | logs on the screen |
| `ASCEND_PROCESS_LOG_PATH`, `ASCEND_WORK_PATH` | logs in `debug/plog/plog-PID_TIME.log` below; without either no file |
| `ASCEND_GLOBAL_LOG_LEVEL`, `ASCEND_MODULE_LOG_LEVEL` | 0 debug, 1 info, 2 warning, 3 error (default), 4 none |
| `ASCEND_HOST_LOG_FILE_NUM` | log files of a process that stay (10; each up to 20 MB) |
| `ASCEND_DUMP_PATH` | where dumps go, before `dump_path` |
| `ASCEND_SIM_OP_COMPILE=1` | operators without an operator model are compiled when called, beside those of a store |
| `ASCEND_SIM_STRICT=1` | strict mode |

## Strict mode

`ascend-sim run --strict app.py` changes no return code. At the end it lists on stderr, with the lines of the program:

* use of freed memory, with the line that allocated it; access beyond the end of a block, also of the padding behind it,
* a copy whose kind disagrees with its addresses,
* device memory looked at by the host (`acl.util` conversions),
* a result read before the stream that writes it was synchronized,
* memory, streams, events, models, descriptions, ... that the program never gave back (a reset takes them all), with
  the line that made them.
"""
_MODULES = ("", "rt", "mdl", "op", "blas", "media", "prof", "util", "himpi", "fv")
_REASONS = {
    "himpi": "media V2, which chips have beside V1 (`acl.media`) and programs must not mix with it",
    "fv": "feature retrieval, a separate package",
}
# why functions cannot be simulated; a name may be the beginning of several
_WHY = {
    "acl.trans_tensor_desc_format": "reserved: the documentation says no release supports it",
    "acl.rt.device_set_limit": "limits the stack of SIMT operators, which these chips do not have",
    "acl.rt.device_get_limit": "limits the stack of SIMT operators, which these chips do not have",
    "acl.rt.set_group": "core groups exist only where programs run on the chip's own CPUs",
    "acl.rt.get_group": "core groups exist only where programs run on the chip's own CPUs",
    "acl.rt.create_group": "core groups exist only where programs run on the chip's own CPUs",
    "acl.rt.destroy_group": "core groups exist only where programs run on the chip's own CPUs",
    "acl.rt.get_all_group": "core groups exist only where programs run on the chip's own CPUs",
    "acl.mdl.load_from_file_with_q": "queues between processes are not simulated",
    "acl.mdl.load_from_mem_with_q": "queues between processes are not simulated",
    "acl.op.compile": "only in the C interface",
}
_CHIPS = {"m300": "200I/500 A2 (310B)", "m200": "inference series (310P)", "c100": "training series (910)"}


def function(name: str) -> Any:
    target: Any = acl
    for part in name.split(".")[1:]:
        target = getattr(target, part)
    return target


def names(module: str) -> list[str]:
    """All names of a sub-module ("" is the top level), as programs write them."""
    return [f"acl.{module}.{name}" if module else f"acl.{name}" for name in _names.table(module)]


def implemented(name: str) -> bool:
    return not getattr(function(name), "unsupported", False)


def _table() -> Iterator[str]:
    yield "| module | functions | implemented | explained | used | of these implemented |"
    yield "|---|---:|---:|---:|---:|---:|"
    sums = [0] * 5
    core = [0] * 5
    for module in _MODULES:
        listed = names(module)
        done = [n for n in listed if implemented(n)]
        used = [n for n in listed if n in USED]
        figures = [len(listed), len(done), len(listed) - len(done), len(used), len(set(used) & set(done))]
        sums = [a + b for a, b in zip(sums, figures, strict=True)]
        if module not in _REASONS:
            core = [a + b for a, b in zip(core, figures, strict=True)]
        yield f"| {'acl.' + module if module else 'acl'} | {' | '.join(map(str, figures))} |"
    yield f"| **outside himpi and fv** | {' | '.join(f'**{v}**' for v in core)} |"
    yield f"| all | {' | '.join(map(str, sums))} |"


def _why(name: str) -> str:
    for start, reason in _WHY.items():
        if name.startswith(start):
            return reason
    return "not simulated"


def _explained() -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for module in _MODULES:
        if module in _REASONS:
            by_reason.setdefault(_REASONS[module], []).append(f"all of acl.{module}")
            continue
        for name in names(module):
            if not implemented(name):
                by_reason.setdefault(_why(name), []).append(name)
    for reason, listed in by_reason.items():
        yield f"* {', '.join(f'`{n}`' if n.startswith('acl') else n for n in listed)}: {reason}."


def _elsewhere() -> Iterator[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, archs in MISSING_ON.items():
        groups.setdefault(archs, []).append(name)
    for archs, listed in groups.items():
        chips = ", ".join(_CHIPS[a] for a in archs)
        yield f"* {chips}: {', '.join(f'`{n}`' for n in sorted(listed))}."


def signature(name: str) -> str:
    """The function with the names of its arguments."""
    target = inspect.unwrap(function(name))
    code = getattr(target, "__code__", None)
    if code is None or not hasattr(function(name), "__wrapped__"):
        arguments, _ = _names.table(name.split(".")[1] if name.count(".") == 2 else "")[name.rpartition(".")[2]]
        return f"{name}({'...' if arguments != '0' else ''})"
    listed = code.co_varnames[: code.co_argcount]
    optional = len(target.__defaults__ or ())
    shown = [f"[{a}]" if i >= len(listed) - optional else a for i, a in enumerate(listed)]
    return f"{name}({', '.join(a.rstrip('_') for a in shown)})"


def page() -> str:
    lines = [_INTRO + _USE, "## Coverage", "", *_table(), "", "## Explained", "", *_explained(), ""]
    lines += ["## Not on every chip", "", "As on hardware these return 207000 on", "", *_elsewhere(), ""]
    lines += ["## Functions", "", "`+` implemented, `-` explained; `*` used by public programs.", ""]
    for module in _MODULES:
        if module in _REASONS:
            continue
        lines += [f"### {'acl.' + module if module else 'acl'}", "", "```text"]
        for name in names(module):
            lines.append(f"{'+' if implemented(name) else '-'}{'*' if name in USED else ' '} {signature(name)}")
        lines += ["```", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
