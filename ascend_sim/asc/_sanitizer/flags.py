"""Pairing of set_flag and wait_flag on one core."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ascend_sim.asc._sanitizer.clocks import Clocks, Place, Post
from ascend_sim.asc._sanitizer.report import Report, Site, show_place
from ascend_sim.isa.instr import Pipe

Key = tuple[Pipe, Pipe, int]


def flag_name(src: Pipe, dst: Pipe, flag_id: int) -> str:
    return f"{src.name}_{dst.name} {flag_id}"


@dataclass
class _Missed:
    """A wait that held its pipe back: ``sites`` of wait and what could not start, ``others`` sets of other ids of the
    pair, ``late`` the set that came after all."""

    key: Key
    sites: list[Site]
    others: list[Site]
    late: list[Site] = field(default_factory=list)


class Flags:
    """Posts not yet waited for, per (source pipe, destination pipe, id), and pipes blocked by a wait without a set.

    A wait may come before its set in the program: its pipe is then blocked until the set is issued, which is right as
    long as nothing but more waits is given to the pipe meanwhile.
    """

    def __init__(self, report: Report, clocks: Clocks, core: str) -> None:
        self.report, self.clocks, self.core = report, clocks, core
        self.posts: dict[Key, deque[Post]] = {}
        self.blocked: dict[Pipe, deque[tuple[Key, Place | None]]] = {}
        self.missed: list[_Missed] = []

    def set(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None, order: int) -> None:
        key = (src, dst, flag_id)
        self.issued(src, f"set_flag {flag_name(*key)}", place)
        late = next((m for m in self.missed if m.key == key and not m.late), None)
        if late is not None:
            late.late = [Site("set", place)]
            return
        waiting = self.posts.setdefault(key, deque())
        if waiting:
            self.report.add(
                "ErrorSync4", "error",
                f"set_flag {flag_name(*key)}: set again before {dst.name} has waited for the set at "
                f"{show_place(waiting[-1].place)}: a wait_flag is missing between them, or the id is taken",
                (Site("second set", place), Site("first set", waiting[-1].place)), self.core,
            )  # fmt: skip
        waiting.append(self.clocks.post(src, place, order))
        self._go_on(dst)

    def wait(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None) -> bool:
        """False when no set precedes the wait."""
        key = (src, dst, flag_id)
        found = bool(self.posts.get(key)) and not any(k == key for k, _ in self.blocked.get(dst, ()))
        self.blocked.setdefault(dst, deque()).append((key, place))
        self._go_on(dst)
        if dst == Pipe.S:
            self.issued(dst, "what the scalar unit issues next", None)
        return found

    def _go_on(self, pipe: Pipe) -> None:
        """Pass the waits of a pipe that are answered by now."""
        waits = self.blocked.get(pipe)
        while waits:
            posts = self.posts.get(waits[0][0])
            if not posts:
                return
            waits.popleft()
            self.clocks.take(pipe, posts.popleft())

    def issued(self, pipe: Pipe, name: str, place: Place | None) -> None:
        """An instruction, set or barrier goes to a pipe: report the waits that keep it from ever running."""
        for p in (pipe,) if pipe != Pipe.ALL else tuple(self.blocked):
            waits = self.blocked.get(p)
            while waits:
                self._stuck(*waits.popleft(), name, place)
                self._go_on(p)

    def _stuck(self, key: Key, wait: Place | None, name: str, place: Place | None) -> None:
        """A wait without a set holds back an instruction: either the set comes later, or never."""
        src, dst, _ = key
        same_pair = [(k, p) for k, p in self.posts.items() if k[:2] == (src, dst) and p]
        sites = [Site("wait", wait)]
        if place is not None:
            sites.append(Site(f"{name} cannot start", place))
        others = [Site(f"set of id {k[2]} that nobody has waited for", p[0].place) for k, p in same_pair[:2]]
        self.missed.append(_Missed(key, sites, others))

    def finish(self, complete: bool = True) -> None:
        """End of the program (``complete``: it was not cut short): waits never answered, or too late, and flags left
        set."""
        self.issued(Pipe.ALL, "the end of the kernel", None)
        for m in self.missed:
            src, dst, _ = m.key
            if m.late:
                text = (
                    f"pipe {dst.name} waits for {flag_name(*m.key)}, which the program sets only later; what the pipe "
                    "was given in between was carried out too early here"
                )
                self.report.add("ErrorSync3", "suspicious", text, [*m.sites, *m.late], self.core)
            else:
                text = (
                    f"deadlock: pipe {dst.name} is blocked by wait_flag {flag_name(*m.key)}: no set_flag of pipe "
                    f"{src.name} with this id precedes it"
                )
                self.report.add("ErrorSync3", "error", text, [*m.sites, *m.others], self.core)
        self.missed.clear()
        if not complete:
            return
        for key, posts in self.posts.items():
            if posts:
                self.report.add(
                    "FlagsLeft", "info", f"flag {flag_name(*key)} is still set at the end of the kernel",
                    [Site("set", post.place) for post in posts][-1:], self.core,
                )  # fmt: skip
