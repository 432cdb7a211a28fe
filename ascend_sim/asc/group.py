"""The cube core of a MIX block as a server of its vector cores.

High-level matrix objects run on the vector cores and send their work to the cube core. With values a request is carried
out at once, on the cube core's memories, in the order the vector cores issue it: that is a legal order, because the
sender waits for the answer. In a trace the requests of both vector cores are collected first and then issued on
the cube core in turns, each behind the flag that says it has been sent and before the flag that says it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ascend_sim.asc.machine import EndOfProgram, on_core
from ascend_sim.isa.instr import Pipe

if TYPE_CHECKING:
    from ascend_sim.asc.machine import Core

REQUEST = 11  # flag ids of the protocol; programs of their own use the low ids
DONE = (12, 13)  # one for each vector core

Job = Callable[[], None]


class Group:
    """One block of a MIX launch: its cube core and its vector cores."""

    def __init__(self, cube: Core, vectors: list[Core]) -> None:
        self.cube, self.vectors = cube, vectors
        self.jobs: list[list[Job]] = [[] for _ in vectors]

    def request(self, sender: Core, job: Job) -> None:
        """Send a job to the cube core."""
        if sender.tb is not None:
            sender.tb.cross_set(REQUEST, 2, Pipe.MTE2)
        if self.cube.memory is not None:
            trace, self.cube.tb = self.cube.tb, None
            with on_core(self.cube):
                job()
            self.cube.tb = trace
        if sender.tb is not None:
            self.jobs[sender.sub_block_idx].append(job)

    def wait(self, sender: Core, pipe: Pipe) -> None:
        """``pipe`` of the sender waits for the oldest answer it has not seen."""
        if sender.tb is not None:
            sender.tb.cross_wait(DONE[sender.sub_block_idx], pipe)

    def serve(self) -> None:
        """Issue the collected requests on the cube core, which runs this."""
        tb = self.cube.tb
        if tb is None:
            return
        memory, self.cube.memory = self.cube.memory, None
        rounds = max(len(jobs) for jobs in self.jobs)
        for i, jobs in enumerate(self.jobs):
            vector = self.vectors[i].tb
            if vector is not None:  # a core without work still answers each round: the flag needs all vector cores
                for _ in range(rounds - len(jobs)):
                    vector.cross_set(REQUEST, 2, Pipe.S)
        for turn in range(rounds):
            tb.cross_wait(REQUEST, Pipe.S)
            for i, jobs in enumerate(self.jobs):
                if turn < len(jobs):
                    jobs[turn]()
                    tb.cross_set(DONE[i], 2, Pipe.FIX)
        self.cube.memory = memory


__all__ = ["DONE", "REQUEST", "EndOfProgram", "Group"]
