"""``ascend_sim.profile()``: what a part of a program did on the simulated devices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from ascend_sim.profiling.pages import table
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.system import observers, system

SHOWN = 12  # operators of the notebook view


class Profile:
    """Records while a ``with`` block runs; `data`, `operators` and `totals` are for afterwards.

    ``folder`` gets the files of ``ascend-sim run --profile`` when the block ends, also when it raises; ``layouts`` are
    the trees for Huawei's tools (``msprof``, ``ascend_pt``). A block inside another is recorded by both.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, layouts: Sequence[str] = ()) -> None:
        from ascend_sim.profiling.summary import LAYOUTS

        unknown = [name for name in layouts if name not in LAYOUTS]
        if unknown:
            raise ValueError(f"layouts has {unknown[0]!r}; expected some of {', '.join(LAYOUTS)}")
        self.folder = Path(folder) if folder is not None else None
        self.layouts = tuple(layouts)
        self.store = EventStore()

    def __enter__(self) -> Profile:
        observers().add(self.store)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        observers().remove(self.store)
        if self.folder is not None:
            self.write(self.folder)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``report.html``, tables and timeline into ``folder`` (made when missing)."""
        from ascend_sim.profiling.summary import write_all

        path = Path(folder)
        write_all(self.store, system().soc, path, self.layouts)
        return path

    @cached_property
    def data(self) -> dict[str, Any]:
        """Everything that ``report.html`` shows, as plain values."""
        from ascend_sim.profiling.report_data import report_data

        return report_data(self.store, system().soc)

    @property
    def operators(self) -> list[dict[str, Any]]:
        """Operators in order of first execution: ``name type shapes runs us blocks cycles class ratios ...``."""
        found: list[dict[str, Any]] = self.data["operators"]
        return found

    @property
    def totals(self) -> dict[str, Any]:
        """Times in us: ``device_us`` of all kernels, ``span_us`` from first to last, ``host_us``; ``kernels``."""
        found: dict[str, Any] = self.data["totals"]
        return found

    def __str__(self) -> str:
        from ascend_sim.profiling.optable import render_table

        return render_table(self.store, system().soc)

    def _repr_html_(self) -> str:
        """The busiest operators, for notebooks."""
        totals, ops = self.totals, sorted(self.operators, key=lambda op: -op["us"])
        head = f"{self.data['soc']['name']}: {totals['kernels']} kernels, {totals['device_us']:.1f} us on the device"
        rows = [
            [op["name"], op["type"], op["shapes"], op["runs"], f"{op['us']:.2f}",
             f"{op['us'] / (totals['device_us'] or 1):.1%}", "estimated" if op["estimated"] else op["class"]]
            for op in ops[:SHOWN]
        ]  # fmt: skip
        more = f"{len(ops) - SHOWN} more operators" if len(ops) > SHOWN else ""
        return table(head, ["operator", "type", "inputs", "runs", "us", "share", "bound"], rows, more)


def profile(folder: str | os.PathLike[str] | None = None, layouts: Sequence[str] = ()) -> Profile:
    """Record a part of a program; see `Profile`.

    >>> import acl, ascend_sim
    >>> acl.init(), acl.rt.set_device(0)
    (0, 0)
    >>> with ascend_sim.profile() as prof:
    ...     pointer, ret = acl.rt.malloc(1 << 20, 0)
    ...     ret = acl.rt.memset(pointer, 1 << 20, 0, 1 << 20)
    >>> [(c["direction"], c["count"]) for c in prof.totals["copies"]], prof.totals["kernels"]
    ([], 0)
    >>> [m["peak"] for m in prof.data["memory"]] == [prof.store.events[0].args["nbytes"]]
    True
    >>> acl.rt.free(pointer), acl.rt.reset_device(0), acl.finalize()
    (0, 0, 0)
    """
    return Profile(folder, layouts)
