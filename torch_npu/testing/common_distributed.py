"""Skips for tests of several devices."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import torch


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Any:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.npu.device_count() < npu_number_needed:  # type: ignore[attr-defined]
                raise unittest.SkipTest(f"needs {npu_number_needed} devices")
            return function(*args, **kwargs)

        return run

    return decorate
