"""Batches copied to the device while the one before them is worked on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class Prefetcher:
    """``next`` gives (input, target) on the device, (None, None) at the end; the next copy runs on ``stream``."""

    def __init__(self, loader: Iterable[Any], stream: Any = None) -> None:
        self.loader = iter(loader)
        self.stream = stream if stream is not None else torch.npu.Stream()  # type: ignore[attr-defined]
        self.next_input: Any = None
        self.next_target: Any = None
        self.preload()

    def preload(self) -> None:
        try:
            given, target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with torch.npu.stream(self.stream):  # type: ignore[attr-defined]
            self.next_input = given.npu(non_blocking=True)
            self.next_target = target.npu(non_blocking=True)

    def next(self) -> tuple[Any, Any]:
        torch.npu.current_stream().wait_stream(self.stream)  # type: ignore[attr-defined]
        batch = self.next_input, self.next_target
        if batch[0] is not None:
            self.preload()
        return batch
