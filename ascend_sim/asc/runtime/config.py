"""Where kernels run: backend and chip, by the names programs use."""

from __future__ import annotations

from enum import Enum

from ascend_sim.asc.device import device
from ascend_sim.soc import SocError, soc_names


class Backend(Enum):
    """Both mean the simulator here; ``NPU`` programs keep their data in device memory."""

    Model = "Model"
    NPU = "NPU"


class Platform(Enum):
    Ascend910B1 = "Ascend910B1"
    Ascend910B2 = "Ascend910B2"
    Ascend910B2C = "Ascend910B2C"
    Ascend910B3 = "Ascend910B3"
    Ascend910B4 = "Ascend910B4"
    Ascend910B4_1 = "Ascend910B4-1"
    Ascend910_9362 = "Ascend910_9362"
    Ascend910_9372 = "Ascend910_9372"
    Ascend910_9381 = "Ascend910_9381"
    Ascend910_9382 = "Ascend910_9382"
    Ascend910_9391 = "Ascend910_9391"
    Ascend910_9392 = "Ascend910_9392"


class KernelType(Enum):
    """On which cores a kernel runs; the last two figures are cube and vector cores of a group."""

    AIV_ONLY = 0
    AIC_ONLY = 1
    MIX_AIV_HARD_SYNC = 2
    MIX_AIC_HARD_SYNC = 3
    MIX_AIV_1_0 = 4
    MIX_AIC_1_0 = 5
    MIX_AIC_1_1 = 6
    MIX_AIC_1_2 = 7


def set_platform(
    backend: Backend | str, soc_version: Platform | str | None = None, device_id: int | None = None, check: bool = True
) -> None:
    """Choose backend, chip and device of the launches that follow.

    ``soc_version`` None leaves the chip to ``ASCEND_SIM_SOC`` (Ascend910B2 without it). Raises ValueError for an
    unknown backend and for a chip that is not described.
    """
    if not isinstance(backend, Backend):
        try:
            Backend(backend)
        except ValueError:
            expected = ", ".join(b.value for b in Backend)
            raise ValueError(f"set_platform: backend = {backend!r}: expected {expected}") from None
    name = soc_version.value if isinstance(soc_version, Platform) else soc_version
    if name is not None and name not in soc_names():
        known = ", ".join(soc_names())
        raise SocError(f"set_platform: soc_version = {name!r} is not described; there are {known}")
    device().set_platform(name)
    if device_id is not None:
        device().set_device(device_id)
