"""When the profiler records: wait, warm up, be active, repeat."""

from __future__ import annotations

from enum import Enum


class ProfilerAction(Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class schedule:
    """``wait`` steps nothing, ``warmup`` steps prepared, ``active`` steps recorded; ``repeat`` times (0: always), after
    ``skip_first`` steps; the waits of the first round may be skipped (``skip_first_wait``)."""

    def __init__(self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0,
                 skip_first_wait: int = 0) -> None:  # fmt: skip
        for name, value in {"wait": wait, "active": active, "warmup": warmup, "repeat": repeat}.items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} is {value!r}; expected an integer of at least 0")
        if active < 1:
            raise ValueError(f"active is {active}; expected at least 1")
        self.wait, self.active, self.warmup, self.repeat = wait, active, warmup, repeat
        self.skip_first, self.skip_first_wait = skip_first, skip_first_wait

    def __call__(self, step: int) -> ProfilerAction:
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        length = self.wait + self.warmup + self.active
        if self.repeat and step // length >= self.repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < self.wait:
            return ProfilerAction.NONE
        if at < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    def facts(self) -> dict[str, int]:
        return {"wait": self.wait, "warmup": self.warmup, "active": self.active, "repeat": self.repeat,
                "skip_first": self.skip_first}  # fmt: skip


Schedule = schedule
