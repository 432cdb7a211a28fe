"""The profiler: records the simulator's events while active, and writes them step by step or at the end."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from acl import _eager, _sim
from torch_npu import _setup
from torch_npu.dispatch import run
from torch_npu.profiler.config import ProfilerActivity, _ExperimentalConfig
from torch_npu.profiler.schedule import ProfilerAction, schedule


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU, ProfilerActivity.NPU}


def tensorboard_trace_handler(dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True,
                              async_mode: bool = False) -> Callable[[Any], None]:  # fmt: skip
    """A handler for ``on_trace_ready`` that writes a ``*_ascend_pt`` directory below ``dir_name``."""

    def handle(prof: Any) -> None:
        prof._write(dir_name, worker_name)

    return handle


def analyse(profiler_path: str, max_process_number: int = 0, export_type: Any = None) -> None:
    """Parse raw data: here results are written at once, so only the path is checked."""
    if not os.path.isdir(profiler_path):
        raise RuntimeError(f"profiler_path {profiler_path!r} is no directory")


class _Average:
    """One row of `profile.key_averages`."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.key, self.count = row["name"], row["count"]
        self.self_cpu_time_total, self.cpu_time_total = row["self_us"], row["total_us"]
        self.self_device_time_total, self.device_time_total = row["device_self_us"], row["device_total_us"]


class _Averages(list[Any]):
    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """The rows as text."""
        key = {"cpu_time_total": "cpu_time_total", "self_cpu_time_total": "self_cpu_time_total"}.get(
            sort_by or "", "self_device_time_total"
        )
        rows = sorted(self, key=lambda r: -getattr(r, key))[: row_limit if row_limit > 0 else None]
        head = f"{'Name':<48}{'Self CPU us':>14}{'CPU us':>12}{'Self NPU us':>14}{'NPU us':>12}{'Calls':>8}"
        lines = ["-" * len(head), head, "-" * len(head)]
        for r in rows:
            lines.append(
                f"{r.key[:47]:<48}{r.self_cpu_time_total:>14.3f}{r.cpu_time_total:>12.3f}"
                f"{r.self_device_time_total:>14.3f}{r.device_time_total:>12.3f}{r.count:>8}"
            )
        return "\n".join([*lines, "-" * len(head)])


class profile:
    """Context manager and object as `torch.profiler.profile`; times are simulated."""

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None, use_cuda: bool | None = None, **_: Any,
    ) -> None:  # fmt: skip
        self.activities = tuple(activities) if activities is not None else (ProfilerActivity.CPU, ProfilerActivity.NPU)
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config = experimental_config or _ExperimentalConfig()
        self.step_num = 0
        self.metadata: dict[str, Any] = {}
        self._store: Any = None
        self._kept: Any = None
        self._step_began = 0
        self._action = ProfilerAction.NONE
        self._trace_id: str | None = None
        self._make_trace_id: Callable[[], str] = lambda: uuid.uuid4().hex

    # -- life

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._action = self._wanted(0)
        self._change()
        self._step_began = _eager.host().now

    def stop(self) -> None:
        if self._store is not None:
            self._end_step()
            self._finish()

    def step(self) -> None:
        """The next step begins."""
        if self._store is not None:
            self._end_step()
            if self._action is ProfilerAction.RECORD_AND_SAVE:
                self._finish()
        self.step_num += 1
        self._action = self._wanted(self.step_num)
        self._change()
        self._step_began = _eager.host().now

    def _wanted(self, step: int) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(step)

    def _change(self) -> None:
        recording = self._action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self._store is None:
            torch.npu.synchronize()  # type: ignore[attr-defined]
            self._store = _sim.recorder()
            run.record_shapes(self.record_shapes)
            _setup.ext.watch_memory(self.profile_memory)

    def _end_step(self) -> None:
        torch.npu.synchronize()  # type: ignore[attr-defined]
        now = _eager.host().now
        _sim.emit("step", f"ProfilerStep#{self.step_num}", self._step_began, now, step=self.step_num,
                  device=torch.npu.current_device())  # type: ignore[attr-defined]  # fmt: skip

    def _finish(self) -> None:
        _setup.ext.watch_memory(False)
        _sim.unobserve(self._store)
        self._kept, self._store = self._store, None
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # -- results

    def _write(self, dir_name: str | None, worker: str | None) -> Path:
        if dir_name is None:
            root = os.environ.get("ASCEND_WORK_PATH")
            dir_name = os.path.join(root, "profiling_data") if root else os.getcwd()
        config = self.experimental_config
        rank = int(os.environ.get("RANK", "-1"))
        named = ("CPU", "NPU")
        return _sim.write_ascend_pt(
            self._kept, dir_name, worker=worker, rank=rank, metadata=self.metadata,
            profiler_level=config.profiler_level, aic_metrics=config.aic_metrics, record_shapes=self.record_shapes,
            profile_memory=self.profile_memory, with_stack=self.with_stack, with_flops=self.with_flops,
            with_modules=self.with_modules,
            activities=tuple(f"ProfilerActivity.{named[min(a.value, 1)]}" for a in self.activities),
            schedule=self.schedule.facts() if isinstance(self.schedule, schedule) else None,
        )  # fmt: skip

    def export_chrome_trace(self, output_path: str) -> None:
        """Write the events as a trace for Perfetto or Chrome."""
        _sim.write_trace(self._kept or self._store, output_path)

    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> None:
        Path(output_path).write_text("", encoding="utf-8")

    def add_metadata(self, key: str, value: str) -> None:
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        self.metadata[key] = json.loads(value)

    def get_trace_id(self) -> str:
        """The identity of this trace: of the callback, else made once."""
        if self._trace_id is None:
            self._trace_id = self._make_trace_id()
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        self._make_trace_id, self._trace_id = callback, None

    @staticmethod
    def enable_profiler_in_child_thread(record_shapes: bool = False, profile_memory: bool = False,
                                        with_stack: bool = False, with_flops: bool = False,
                                        with_modules: bool = False) -> None:  # fmt: skip
        """Threads are recorded anyhow; accepted."""

    @staticmethod
    def disable_profiler_in_child_thread() -> None:
        """Ends what `enable_profiler_in_child_thread` began."""

    def events(self) -> list[Any]:
        return list((self._kept or self._store).events)

    def key_averages(self, **_: Any) -> _Averages:
        return _Averages(_Average(row) for row in _sim.key_averages(self._kept or self._store))
