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
    """Posts not yet waited for, per (source pipe, destination pipe, id), and pipes blocked by a wait without a set.

    A wait may come before its set in the program: its pipe is then blocked until the set is issued, which is right as
    long as nothing else is given to the pipe meanwhile.
    """

    def __init__(self, report: Report, clocks: Clocks, core: str) -> None:
        self.report, self.clocks, self.core = report, clocks, core
        self.posts: dict[Key, deque[Post]] = {}
        self.blocked: dict[Pipe, tuple[Key, Place | None]] = {}
        self.missed: dict[Key, Place | None] = {}  # waits reported as blocked for ever

    def set(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None, order: int) -> None:
        key = (src, dst, flag_id)
        if src in self.blocked:
            self.stuck(src, f"set_flag {flag_name(*key)}", place)
        post = self.clocks.post(src, place, order)
        if self.blocked.get(dst, (None, None))[0] == key:
            del self.blocked[dst]
            self.clocks.take(dst, post)
            return
        waiting = self.posts.setdefault(key, deque())
        if waiting:
            self.report.add(
                "ErrorSync4", "error",
                f"set_flag {flag_name(*key)}: set again before {dst.name} has waited for the set at "
                f"{show_place(waiting[-1].place)}: a wait_flag is missing between them, or the id is taken",
                (Site("second set", place), Site("first set", waiting[-1].place)), self.core,
            )  # fmt: skip
        waiting.append(post)

    def wait(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None) -> bool:
        """False when no set precedes the wait."""
        key = (src, dst, flag_id)
        if dst in self.blocked:
            self.stuck(dst, f"wait_flag {flag_name(*key)}", place)
        waiting = self.posts.get(key)
        if waiting:
            self.clocks.take(dst, waiting.popleft())
            return True
        self.blocked[dst] = key, place
        if dst == Pipe.S:
            self.stuck(dst, "the scalar unit, which issues all others,", None)
        return False

    def issued(self, pipe: Pipe, name: str, place: Place | None) -> None:
        """An instruction or barrier goes to a pipe."""
        for p in (pipe,) if pipe != Pipe.ALL else tuple(self.blocked):
            if p in self.blocked:
                self.stuck(p, name, place)

    def stuck(self, pipe: Pipe, name: str, place: Place | None) -> None:
        """Report the wait that keeps ``name`` from ever running."""
        key, wait = self.blocked.pop(pipe)
        src, dst, _ = key
        same_pair = [(k, p) for k, p in self.posts.items() if k[:2] == (src, dst) and p]
        ids = sorted({k[2] for k, _ in same_pair})
        others = f" (ids of this pair that are set: {', '.join(map(str, ids))})" if ids else ""
        sites = [Site("wait", wait)]
        if place is not None:
            sites.append(Site(f"{name} cannot start", place))
        sites += [Site(f"set of id {k[2]} that nobody has waited for", p[0].place) for k, p in same_pair[:2]]
        self.report.add(
            "ErrorSync3", "error",
            f"deadlock: pipe {dst.name} is blocked by wait_flag {flag_name(*key)}: no set_flag of pipe {src.name} with "
            f"this id precedes it{others}", sites, self.core,
        )  # fmt: skip
        self.missed[key] = wait

    def finish(self) -> None:
        """End of the program: waits never answered, flags left set."""
        for pipe in list(self.blocked):
            self.stuck(pipe, "the end of the kernel", None)
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
