"""Whatever a program passes, the process lives: codes, TypeError or ValueError, and other buffers stay whole."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
from acl_models import mlp
from acl_program import Program

import acl
from acl import _names, _sim

# these wait for other threads by design, make directories, or give addresses of the interpreter's own heap
EXCLUDED = {
    "acl.util.start_thread", "acl.util.stop_thread", "acl.rt.process_report", "acl.prof.init",
    "acl.util.bytes_to_ptr", "acl.util.numpy_to_ptr", "acl.util.numpy_contiguous_to_ptr",
}  # fmt: skip
GARBAGE = [0, 1, -1, 2, 7, 31, 64, 4096, 1 << 20, 1 << 31, 1 << 40, (1 << 63) + 5, 2**64 - 1, 0x1000, 0x100_0000_0040]
TEXTS = ["", "x", "Add", "MatMulV2", "Relu", "/nonexistent/model.om", "name", "é" * 50]
OTHERS: list[Any] = [None, 1.5, [], {}, (), b"abc", [1, 2], ["a"], {"dimCount": 1, "dims": [2]}, print, np.zeros(3)]


def functions() -> dict[str, Any]:
    found = {}
    for module in _names.modules():
        for name in _names.table(module):
            full = f"acl.{module}.{name}" if module else f"acl.{name}"
            if full not in EXCLUDED:
                found[full] = getattr(getattr(acl, module) if module else acl, name)
    return found


class Fuzz:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions = functions()
        self.names = sorted(self.functions)
        self.handles: list[int] = []
        self.kept: list[Any] = []

    def integer(self) -> int:
        pick = self.random.random()
        if self.handles and pick < 0.6:
            value = self.random.choice(self.handles)
            return value + self.random.choice([0, 0, 0, 0, 1, 64, 100_000])
        if pick < 0.8:
            return self.random.choice(GARBAGE)
        return self.random.randrange(0, 300)

    def argument(self) -> Any:
        pick = self.random.random()
        if pick < 0.8:
            return self.integer()
        if pick < 0.9:
            return self.random.choice(TEXTS)
        if pick < 0.95:
            return [self.integer() for _ in range(self.random.randrange(3))]
        return self.random.choice(OTHERS)

    def step(self) -> None:
        name = self.random.choice(self.names)
        arguments, _ = _names.table(name.split(".")[1] if name.count(".") == 2 else "")[name.rpartition(".")[2]]
        count = int(arguments) if arguments.isdigit() else self.random.randrange(4)
        if self.random.random() < 0.05:
            count = self.random.randrange(8)
        values = [self.argument() for _ in range(count)]
        try:
            result = self.functions[name](*values)
        except (TypeError, ValueError, RuntimeError):
            return
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, int) and value > 1000 and len(self.handles) < 200:
                self.handles.append(value)
            elif not isinstance(value, int | str | type(None)):
                self.kept = [value, *self.kept[:50]]


@pytest.mark.parametrize("seed", range(4))
def test_random_calls(program: Program, seed: int) -> None:
    fuzz = Fuzz(seed)
    data = mlp()
    model, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    assert ret == 0
    guard, _ = acl.rt.malloc_host(1 << 16)
    fuzz.handles += [model, program.stream(), program.event(), program.empty(4096), program.empty(1 << 20)]
    fuzz.handles += [
        acl.rt.malloc_host(4096)[0],
        acl.mdl.create_dataset(),
        acl.create_data_buffer(fuzz.handles[3], 4096),
    ]
    fuzz.handles += [acl.create_tensor_desc(0, [8, 8], 2), acl.op.create_attr(), acl.mdl.create_desc()]
    values = np.arange(1 << 13)
    acl.rt.memcpy(guard, 1 << 16, values.ctypes.data, 1 << 16, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2500):
            fuzz.step()
    block = _sim.system().host.blocks.get(guard)
    if block is not None and block.serial == 1:  # the fuzz knows no address of it
        assert np.array_equal(np.frombuffer(acl.util.ptr_to_bytes(guard, 1 << 16), values.dtype), values)
    _sim.reset()
    assert acl.init() in (0, 100002) and acl.rt.set_device(0) == 0
    assert acl.rt.malloc(64, 0)[1] == 0
