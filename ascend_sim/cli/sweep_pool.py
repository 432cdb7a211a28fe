"""Runs the points of a sweep: in this process, on a pool of processes, or on a Dask cluster.

A worker keeps to the group of points that it has compiled; when no group is left unopened it helps with the one that
has most left. Which worker does what never shows in the results.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from ascend_sim import ops
from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.sweep_time import Point, run

PIECE = 10  # points handed out at a time
Job = tuple[int, Point]
Result = tuple[int, dict[str, Any]]


def run_all(jobs: Sequence[Job], workers: int, scheduler: str | None = None) -> Iterator[Result]:
    """Results of ``(index, point)`` jobs as they come, in no particular order."""
    if scheduler is not None:
        yield from _on_dask(jobs, scheduler)
    elif workers <= 1 or len(jobs) <= PIECE:
        for index, point in jobs:
            yield index, run(point)
    else:
        yield from _on_processes(jobs, workers)


def run_piece(piece: Sequence[Job]) -> list[Result]:
    return [(index, run(point)) for index, point in piece]


def _pieces(jobs: Sequence[Job]) -> list[list[list[Job]]]:
    """Groups, each cut into pieces."""
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job[1].group, []).append(job)
    return [[group[i : i + PIECE] for i in range(0, len(group), PIECE)] for group in groups.values()]


class _Queue:
    def __init__(self, jobs: Sequence[Job]) -> None:
        self._groups = _pieces(jobs)
        self._opened: set[int] = set()
        self._of: dict[int, int] = {}

    def next(self, worker: int) -> list[Job] | None:
        own = self._of.get(worker)
        if own is None or not self._groups[own]:
            fresh = [g for g, pieces in enumerate(self._groups) if pieces and g not in self._opened]
            left = fresh or sorted((g for g, p in enumerate(self._groups) if p), key=lambda g: -len(self._groups[g]))
            if not left:
                return None
            own = self._of[worker] = left[0]
            self._opened.add(own)
        return self._groups[own].pop(0)


def _serve(pipe: Connection, others: Sequence[Connection]) -> None:
    """A worker: pieces in, results out, until there is none or the sweep is gone."""
    for other in others:  # inherited; while open, nobody would notice that the sweep is gone
        other.close()
    try:
        while (piece := pipe.recv()) is not None:
            pipe.send(run_piece(piece))
            gc.freeze()  # what was compiled and traced stays: there is no need to look through it for garbage
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass


def _on_processes(jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if method == "fork":
        ops.load()  # once, not in every worker
    queue, pipes, processes = _Queue(jobs), [], []
    for _ in range(workers):
        ours, theirs = context.Pipe()
        pipes.append(ours)
        inherited = pipes if method == "fork" else []
        process = context.Process(target=_serve, args=(theirs, inherited), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
    try:
        busy: dict[Connection, int] = {}
        for worker, pipe in enumerate(pipes):
            if (piece := queue.next(worker)) is not None:
                pipe.send(piece)
                busy[pipe] = worker
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                worker = busy[ready]
                try:
                    results = ready.recv()
                except EOFError:
                    raise CommandError(f"a worker of the sweep died (process {processes[worker].pid})") from None
                if (piece := queue.next(worker)) is None:
                    del busy[ready]
                    ready.send(None)
                else:
                    ready.send(piece)
                yield from results
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _on_dask(jobs: Sequence[Job], scheduler: str) -> Iterator[Result]:
    try:
        dask = importlib.import_module("distributed")
    except ImportError as error:
        raise CommandError("--scheduler needs Dask: pip install 'ascend-sim[cluster]'") from error
    cluster = dask.LocalCluster(n_workers=int(scheduler.partition(":")[2] or 2), threads_per_worker=1,
                           dashboard_address=None) if scheduler.startswith("local") else None  # fmt: skip
    try:
        with dask.Client(cluster if cluster is not None else scheduler) as client:
            pieces = [piece for group in _pieces(jobs) for piece in group]
            futures = [client.submit(run_piece, piece, pure=False) for piece in pieces]
            for _, results in dask.as_completed(futures, with_results=True):
                yield from results
    except OSError as error:
        raise CommandError(f"--scheduler {scheduler}: no Dask scheduler answers there: {error}") from error
    finally:
        if cluster is not None:
            cluster.close()
