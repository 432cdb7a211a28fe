"""Pairing of set_flag and wait_flag on one core."""

from __future__ import annotations

from collections import deque

from ascend_sim.asc._sanitizer.clocks import Clocks, Place, Post
from ascend_sim.asc._sanitizer.report import Report, Site, show_place
from ascend_sim.isa.instr import Pipe

Key = tuple[Pipe, Pipe, int]


def flag_name(src: Pipe, dst: Pipe, flag_id: int) -> str:
    return f"{src.name}_{dst.name} {flag_id}"


class Flags:
    """Posts not yet waited for, per (source pipe, destination pipe, id)."""

    def __init__(self, report: Report, clocks: Clocks, core: str) -> None:
        self.report, self.clocks, self.core = report, clocks, core
        self.posts: dict[Key, deque[Post]] = {}
        self.missed: dict[Key, Place | None] = {}  # waits that found no set before them
        self.last_wait: dict[Key, Place | None] = {}

    def set(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None, order: int) -> None:
        key = (src, dst, flag_id)
        waiting = self.posts.setdefault(key, deque())
        if waiting:
            self.report.add(
                "ErrorSync4", "error",
                f"set_flag {flag_name(*key)}: set again before {dst.name} has waited for the set at "
                f"{show_place(waiting[-1].place)}: a wait_flag is missing between them, or the id is taken",
                (Site("second set", place), Site("first set", waiting[-1].place)), self.core,
            )  # fmt: skip
        waiting.append(self.clocks.post(src, place, order))

    def wait(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None) -> bool:
        """False when no set precedes the wait."""
        key = (src, dst, flag_id)
        waiting = self.posts.get(key)
        self.last_wait[key] = place
        if waiting:
            self.clocks.take(dst, waiting.popleft())
            return True
        others = sorted({k[2] for k, p in self.posts.items() if k[:2] == (src, dst) and p})
        set_ids = f" (ids of this pair that are set: {', '.join(map(str, others))})" if others else ""
        near = [
            Site(f"set of id {k[2]} that nobody waited for", p[0].place)
            for k, p in self.posts.items() if k[:2] == (src, dst) and p
        ]  # fmt: skip
        self.report.add(
            "ErrorSync3", "error",
            f"deadlock: pipe {dst.name} is blocked by wait_flag {flag_name(*key)}: no set_flag of pipe {src.name} with "
            f"this id precedes it{set_ids}", (Site("wait", place), *near[:2]), self.core,
        )  # fmt: skip
        self.missed[key] = place
        return False

    def finish(self) -> None:
        """End of the program: flags left set."""
        for key, posts in self.posts.items():
            if not posts:
                continue
            name = flag_name(*key)
            if key in self.missed:
                self.report.add(
                    "ErrorSync3", "error", f"flag {name} is set only after the wait_flag that needs it",
                    (Site("set", posts[0].place), Site("wait", self.missed[key])), self.core,
                )  # fmt: skip
            else:
                self.report.add(
                    "FlagsLeft", "info", f"flag {name} is still set at the end of the kernel",
                    [Site("set", post.place) for post in posts][-1:], self.core,
                )  # fmt: skip
