"""NPUGraph: launches recorded once and replayed with one call of the host for all of them."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from acl import _eager
from torch_npu import _setup
from torch_npu._backend import backend
from torch_npu.npu.devices import current_device, synchronize
from torch_npu.npu.options import super_kernel_scope_begin, super_kernel_scope_end
from torch_npu.npu.streams import Stream, current_stream
from torch_npu.npu.streams import stream as stream_context

__all__ = ["NPUGraph", "NpuGraphOpHandler", "graph", "graph_pool_handle", "graph_task_group_begin",
           "graph_task_group_end", "graph_task_update_begin", "graph_task_update_end", "is_current_stream_capturing",
           "make_graphed_callables", "register_npu_graph_handler", "super_kernel_scope_begin",
           "super_kernel_scope_end"]  # fmt: skip

_pools = itertools.count(1 << 20)


def graph_pool_handle() -> tuple[int, int]:
    """A memory pool that several graphs may share."""
    return (0, next(_pools))


class NPUGraph:
    """What a capture recorded: operators with the addresses of their tensors, which belong to the graph's pool."""

    def __init__(self) -> None:
        self._kernels: list[tuple[Any, Any]] = []
        self._draws: list[tuple[int, Any]] = []  # random values, and how many kernels come before them
        self._pool: tuple[int, int] | None = None
        self._device = -1

    # called by the dispatcher while this graph is recorded
    def add(self, kernels: Any, addresses: Any) -> None:
        self._kernels += [(kernel, addresses) for kernel in kernels]

    def add_draw(self, draw: Any) -> None:
        self._draws.append((len(self._kernels), draw))

    def copy(self, dst: int, src: int, nbytes: int, kind: int) -> None:
        if kind in (1, 2):
            raise RuntimeError(
                "operation not permitted when stream is capturing: a copy between host and device, error code is 107027"
            )

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        if backend.capture is not None:
            raise RuntimeError("another graph is being captured, error code is 107027")
        self._device = current_device()
        self._pool = pool if pool is not None else graph_pool_handle()
        _setup.ext.set_pool(self._device, self._pool[1])
        backend.capture = self

    def capture_end(self) -> None:
        backend.capture = None
        _setup.ext.set_pool(self._device, 0)

    def replay(self) -> None:
        where = backend.stream(self._device, current_stream(self._device).stream_id)
        done = 0
        for index, (before, draw) in enumerate(self._draws):
            _eager.replay(self._kernels[done:before], where, charge=index == 0)
            backend.settle(self._device)  # what is queued still reads the numbers of the last replay
            draw()
            done = before
        _eager.replay(self._kernels[done:], where, charge=not self._draws)

    def reset(self) -> None:
        self._kernels, self._draws = [], []
        if self._pool is not None:
            _setup.ext.release_pool(self._device, self._pool[1])

    def pool(self) -> tuple[int, int]:
        if self._pool is None:
            raise RuntimeError("the graph was not captured")
        return self._pool

    def super_kernel_optimize(self, *_: Any, **__: Any) -> None:
        """Kernels are not joined here; accepted."""

    def enable_debug_mode(self) -> None:
        """Accepted."""

    def debug_dump(self, debug_path: str) -> None:
        with open(debug_path, "w", encoding="utf-8") as file:
            file.writelines(f"{kernel.call.type}\n" for kernel, _ in self._kernels)

    def update(self, cpu_update_input: Any = None) -> None:
        """Sizes that the host would update are part of the recorded operators."""


class graph:
    """Context manager: what is launched inside becomes part of ``npu_graph``."""

    default_capture_stream: Any = None

    def __init__(self, npu_graph: NPUGraph, pool: Any = None, stream: Any = None,
                 capture_error_mode: str = "global", **_: Any) -> None:  # fmt: skip
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.npu_graph, self.pool, self.stream = npu_graph, pool, stream
        self.mode = capture_error_mode

    def __enter__(self) -> NPUGraph:
        synchronize()
        self._context = stream_context(self.stream)
        self._context.__enter__()
        self.npu_graph.capture_begin(self.pool, self.mode)
        return self.npu_graph

    def __exit__(self, *args: Any) -> None:
        self.npu_graph.capture_end()
        self._context.__exit__(*args)


def is_current_stream_capturing() -> bool:
    return backend.capture is not None


def make_graphed_callables(callables: Any, sample_args: Any, **_: Any) -> Any:
    """The callables with their forward replayed from a graph; inputs are copied into the captured ones."""
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    made = []
    for function, sample in zip(functions, samples, strict=True):
        recorded = NPUGraph()
        with torch.no_grad():
            function(*sample)
            with graph(recorded):
                result = function(*sample)

        def run(*args: Any, _g: NPUGraph = recorded, _s: Any = sample, _r: Any = result) -> Any:
            for target, given in zip(_s, args, strict=True):
                if isinstance(given, torch.Tensor) and given is not target:
                    target.copy_(given)
            _g.replay()
            return _r

        made.append(run)
    return made[0] if single else tuple(made)


def graph_task_group_begin(stream: Any = None) -> None:
    """Tasks of a capture that the host may update; recorded like all others."""


def graph_task_group_end(stream: Any = None) -> int:
    return 0


def graph_task_update_begin(stream: Any = None, handle: Any = None) -> None:
    """See `graph_task_group_begin`."""


def graph_task_update_end(stream: Any = None) -> None:
    """See `graph_task_group_begin`."""


class NpuGraphOpHandler:
    """Base of handlers that prepare operators for capture: by default nothing is changed."""

    @classmethod
    def prepare_capture(cls, func: Any, args: Any, kwargs: Any) -> Any:
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: Any) -> Any:
        return result

    @classmethod
    def update_args(cls, dispatch_record: Any, update_input: Any) -> None:
        """New values for arguments of a recorded call: sizes are part of the recorded operators."""

    @classmethod
    def get_update_specs(cls, op_name: str) -> Any:
        return None

    @classmethod
    def record_wrap_kwarg(cls, key: str, value: Any, tensor_param_names: Any) -> Any:
        return value


def register_npu_graph_handler(*names: str) -> Any:
    return lambda cls: cls
