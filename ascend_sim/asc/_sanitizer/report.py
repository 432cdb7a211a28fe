"""Findings of the sanitizer and how they are told.

Codes are those of npu_check (asc-tools, npu check page) as far as it has one, and a few of our own: ``Deadlock``
(nobody will set what a pipe or core waits for), ``Restriction`` (an instruction's own rule), ``FlagsLeft``,
``WrongValue``, ``Irregular``, ``BankConflict`` and ``Habit``.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import dataclass, field
from os.path import basename
from typing import Any, NamedTuple

SEVERITIES = ("error", "suspicious", "info", "hint")

CODES = {
    "ErrorRead1": "read of memory that was freed or never allocated",
    "ErrorRead2": "use of bytes that were never written",
    "ErrorRead3": "read out of bounds",
    "ErrorRead4": "read from an unaligned address",
    "ErrorWrite1": "write to memory that was freed or never allocated",
    "ErrorWrite2": "write out of bounds",
    "ErrorWrite3": "bytes overwritten, or left over, without having been used as written",
    "ErrorWrite4": "write to an unaligned address",
    "ErrorSync1": "write not ordered with another access",
    "ErrorSync2": "read not ordered with a write",
    "ErrorSync3": "set and wait do not pair up",
    "ErrorSync4": "flag set again before it was waited for",
    "ErrorLeak": "a tensor was allocated and not freed",
    "ErrorFree": "a tensor was freed twice",
    "ErrorBuffer0": "a queue or buffer was used before init_buffer",
    "ErrorBuffer1": "a tensor does not belong to this queue",
    "ErrorBuffer2": "a queue was used out of turn",
    "ErrorBuffer3": "a buffer does not fit its memory",
    "ErrorBuffer4": "a buffer pool was used before init_buf_pool",
    "Deadlock": "a wait that nobody will answer",
    "Restriction": "an instruction's restriction was broken",
    "WrongValue": "a result differs from the values expected",
    "Irregular": "one execution of a line strays from the regular walk of the others",
    "FlagsLeft": "flags still set at the end of the kernel",
    "BankConflict": "vector operands share banks of the unified buffer",
    "Habit": "slow, not wrong",
}

Place = tuple[str, int]


class Site(NamedTuple):
    """A source line and what it has to do with a finding."""

    role: str
    place: Place | None

    def __str__(self) -> str:
        return f"{self.role} at {show_place(self.place)}"


def show_place(place: Place | None) -> str:
    return f"{basename(place[0])}:{place[1]}" if place else "an unknown line"


def source_line(place: Place | None) -> str:
    """The text of a source line, empty when it cannot be read."""
    return linecache.getline(*place).strip() if place else ""


@dataclass
class Finding:
    """One fault: ``code``, ``severity``, a sentence, the source lines (the faulty one first), the core it was seen on
    (block, kind) and how often it occurred."""

    code: str
    severity: str
    message: str
    sites: tuple[Site, ...] = ()
    core: str = ""
    count: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        sites = [
            {"role": s.role, "file": s.place[0] if s.place else None, "line": s.place[1] if s.place else None}
            for s in self.sites
        ]
        return {
            "code": self.code, "severity": self.severity, "message": self.message, "sites": sites, "core": self.core,
            "count": self.count,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = (f"    {site}: {source_line(site.place)}".rstrip(": ") for site in self.sites)
        where = "\n".join(lines)
        times = f" ({self.count} times)" if self.count > 1 else ""
        core = f" [{self.core}]" if self.core else ""
        return f"[{self.code}] {self.severity}: {self.message}{core}{times}" + (f"\n{where}" if where else "")


@dataclass
class Report:
    """All findings of one launch of ``kernel``; ``stopped`` tells why the kernel did not run to its end, if so."""

    kernel: str
    soc: str
    findings: list[Finding] = field(default_factory=list)
    stopped: str = ""

    def __post_init__(self) -> None:
        self._known: dict[tuple[Any, ...], Finding] = {}

    def add(
        self, code: str, severity: str, message: str, sites: Iterable[Site] = (), core: str = "", key: Any = None
    ) -> Finding:
        """Record a finding; one with the same code and lines (and ``key``) as before only counts up."""
        lines = tuple(sites)
        identity = (code, severity, lines, key)
        found = self._known.get(identity)
        if found is None:
            found = self._known[identity] = Finding(code, severity, message, lines, core)
            self.findings.append(found)
        else:
            found.count += 1
        return found

    def of(self, *severities: str) -> list[Finding]:
        return [f for f in self.findings if f.severity in severities]

    @property
    def faults(self) -> list[Finding]:
        """Errors and suspicious findings."""
        return self.of("error", "suspicious")

    @property
    def clean(self) -> bool:
        return not self.faults and not self.stopped

    def ordered(self) -> list[Finding]:
        return sorted(self.findings, key=lambda f: SEVERITIES.index(f.severity))

    def as_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel, "soc": self.soc, "clean": self.clean, "stopped": self.stopped,
            "findings": [f.as_dict() for f in self.ordered()],
        }  # fmt: skip

    def text(self, hints: bool = True) -> str:
        """The report as lines of text."""
        shown = [f for f in self.ordered() if hints or f.severity != "hint"]
        head = f"sanitizer: {self.kernel} on {self.soc}: "
        if not shown:
            return head + "no findings"
        counts = [f"{len(self.of(s))} {s}" for s in SEVERITIES if self.of(s)]
        return "\n".join([head + ", ".join(counts), *(str(f) for f in shown)])
