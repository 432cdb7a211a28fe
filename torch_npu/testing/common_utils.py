"""Tensors for tests, and decorators that skip."""

from __future__ import annotations

import contextlib
import functools
import os
import unittest
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import torch

PERF_TEST_ENABLE = False
IS_WINDOWS, IS_ARM64 = False, False
_NUMPY = {np.float16: torch.float16, np.float32: torch.float32, np.int32: torch.int32}


def set_npu_device() -> str:
    """The device of ``SET_NPU_DEVICE`` (default 0), made current."""
    name = f"npu:{os.environ.get('SET_NPU_DEVICE', '0')}"
    torch.npu.set_device(name)  # type: ignore[attr-defined]
    return name


def is_iterable(value: Any) -> bool:
    try:
        iter(value)
        return True
    except TypeError:
        return False


def iter_indices(tensor: torch.Tensor) -> Iterator[Any]:
    return product(*(range(n) for n in tensor.shape))


def create_common_tensor(item: Any, minValue: float, maxValue: float, device: Any = None) -> Any:
    """(on the CPU, on the device) for ``[numpy type, format, shape]``, uniform between the values."""
    dtype, number, shape = item[0], item[1], item[2]
    given = np.random.uniform(minValue, maxValue, shape).astype(dtype)
    cpu = torch.from_numpy(given)
    npu = cpu.to(device or "npu")
    if number not in (-1, 2):
        import torch_npu

        npu = torch_npu.npu_format_cast(npu, number)
    return cpu, npu


def create_dtype_tensor(shape: Any, dtype: torch.dtype, npu_format: int = -1, min_value: float = -5,
                        max_value: float = 5, no_zero: bool = False, device: Any = None) -> Any:  # fmt: skip
    if dtype == torch.bool:
        cpu = torch.randint(0, 2, shape).bool()
    elif dtype.is_floating_point:
        cpu = (torch.rand(shape) * (max_value - min_value) + min_value).to(dtype)
    else:
        cpu = torch.randint(int(min_value), int(max_value) + 1, shape).to(dtype)
    if no_zero:
        cpu = torch.where(cpu == 0, torch.ones_like(cpu), cpu)
    return cpu, cpu.to(device or "npu")


def check_operators_in_prof(expected: Any, prof: Any, unexpected: Any = None) -> bool:
    """Whether a profile holds operators of these names, and none of the others."""
    names = " ".join(e.key for e in prof.key_averages())
    return all(n in names for n in expected) and not any(n in names for n in unexpected or ())


def _family() -> str:
    return str(torch.npu.get_device_name()).removeprefix("Ascend")  # type: ignore[attr-defined]


class SupportedDevices:
    """Skips a test unless the chip's name begins with one of those given."""

    def __init__(self, supported_devices: Any) -> None:
        self.names = [str(n).removeprefix("Ascend") for n in supported_devices]

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            name = _family()
            if not any(name.startswith(n) for n in self.names):
                raise unittest.SkipTest(f"needs {self.names}, this is {name}")
            return function(*args, **kwargs)

        return run


class SkipIfNotGteCANNVersion:
    """Versions of CANN play no part here: nothing is skipped."""

    def __init__(self, version: str) -> None:
        self.version = version

    def __call__(self, function: Any) -> Any:
        return function


SkipIfRC = SkipIfNotRegistered = SkipIfNotGteCANNVersion


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    cpu, npu = torch.get_rng_state(), torch.npu.get_rng_state()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        torch.npu.set_rng_state(npu)  # type: ignore[attr-defined]


def get_cycles_per_ms() -> float:
    from torch_npu._backend import soc

    return float(soc().cores.clock_mhz) * 1000


def get_npu_device() -> str:
    """The device of ``SET_NPU_DEVICE`` (default 0)."""
    return f"npu:{os.environ.get('SET_NPU_DEVICE', '0')}"


def SkipIfNoLapack(function: Any) -> Any:
    """Skips a test when torch was built without LAPACK."""
    return unittest.skipIf(not torch._C.has_lapack, "PyTorch compiled without Lapack")(function)


def _create_scaling_models_optimizers(
    device: str = "npu", optimizer_ctor: Any = torch.optim.SGD, optimizer_kwargs: Any = None
) -> Any:
    """torch's pair of equal models, one for training with a scaled loss, on device npu."""
    from torch.testing._internal import common_cuda

    return common_cuda._create_scaling_models_optimizers(device, optimizer_ctor, optimizer_kwargs)


def _create_scaling_case(
    device: str = "npu",
    dtype: torch.dtype = torch.float,
    optimizer_ctor: Any = torch.optim.SGD,
    optimizer_kwargs: Any = None,
) -> Any:
    """The models, four batches, a loss and the batch to skip."""
    from torch.testing._internal import common_cuda

    return common_cuda._create_scaling_case(device, dtype, optimizer_ctor, optimizer_kwargs)
