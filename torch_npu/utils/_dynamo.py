"""What ``torch.compile`` asks a device."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import trace_rules
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    register_interface_for_device,
)


def _npu() -> Any:
    return torch.npu  # type: ignore[attr-defined]


class NpuInterface(DeviceInterface):
    """Answers of `torch.npu`."""

    class Worker:
        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices["npu"] = device

        @staticmethod
        def current_device() -> int:
            found = caching_worker_current_devices.get("npu")
            return int(_npu().current_device() if found is None else found)

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return _npu().get_device_properties(device)

    @staticmethod
    def current_device() -> int:
        return int(_npu().current_device())

    @staticmethod
    def set_device(device: Any) -> None:
        _npu().set_device(device)

    @staticmethod
    def device_count() -> int:
        return int(_npu().device_count())

    @staticmethod
    def is_available() -> bool:
        return bool(_npu().is_available())

    @staticmethod
    def current_stream(device: Any = None) -> Any:
        return _npu().current_stream(device)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return int(_npu().current_stream(device_idx).npu_stream)

    @staticmethod
    def synchronize(device: Any = None) -> None:
        _npu().synchronize(device)

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return str(_npu().get_device_name(device))

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return bool(_npu().is_bf16_supported())


def _dynamo_register_interface_for_device() -> None:
    for simulator in ("acl", "ascend_sim", "simpy"):  # not the user's program: nothing to trace
        trace_rules.add(simulator)
    register_interface_for_device("npu", NpuInterface)
    for index in range(_npu().device_count()):
        register_interface_for_device(f"npu:{index}", NpuInterface)
