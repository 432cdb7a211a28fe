"""Random numbers of the devices: every device has a generator, seeded like torch's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu import _setup
from torch_npu.npu.devices import _get_device_index, device_count


def _generator(device: Any = None) -> torch.Generator:
    return _setup.ext.default_generator(_get_device_index(device, optional=True))  # type: ignore[no-any-return]


class _Generators:
    """``torch.npu.default_generators``."""

    def __len__(self) -> int:
        return device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return _generator(index)


default_generators = _Generators()


def get_rng_state(device: Any = "npu") -> torch.Tensor:
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "npu") -> None:
    _generator(device).set_state(new_state.clone(memory_format=torch.contiguous_format).cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for index in range(device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    _generator().seed()


def seed_all() -> None:
    first = _generator(0).seed()
    for index in range(1, device_count()):
        _generator(index).manual_seed(first)


def initial_seed() -> int:
    return _generator().initial_seed()


def _get_rng_state_offset(device: Any = "npu") -> int:
    return int(_generator(device).get_offset())


def _set_rng_state_offset(offset: int, device: Any = "npu") -> None:
    _generator(device).set_offset(offset)
