"""Every function with every kind of wrong argument in every place: a code, TypeError or a documented ValueError;
never a crash of the process, another exception, or a wait without end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import acl
from acl import _names

PROGRAM = """
import faulthandler, re, sys, warnings
faulthandler.enable()
faulthandler.dump_traceback_later(120, exit=True)
warnings.simplefilter("ignore")
import numpy as np
import acl
from acl import _names

WRONG = [None, "x", "\\0", "\\ud800", b"x", 1.5, True, -1, 2**31, 2**63, 2**64 - 1, 2**70, -2**70, [], [1], [None],
         ["x"], [2**70], [[1]], {}, {"dimCount": 2, "dims": ["x", 1]}, (), (1,), (2**40, 2**40), print, np.zeros(3)]
DOCUMENTED = re.compile("1 to 256|below 1024|numpy|null|surrogates|shape|size must|this process|lies in|passes")
BASES = {"int": None, "str": "x", "list": [], "tuple": (1,), "dict": {}, "bytes": b"x", "Callable": lambda *_: 0}
module = sys.argv[1]
space = getattr(acl, module) if module else acl
assert acl.init() == 0 and acl.rt.set_device(0) == 0
living = [acl.rt.malloc(4096, 0)[0], acl.rt.malloc_host(4096)[0], acl.rt.create_stream()[0], acl.rt.create_event()[0],
          acl.mdl.create_dataset(), acl.mdl.create_desc(), acl.create_tensor_desc(0, [4], 2), acl.op.create_attr(),
          acl.mdl.create_config_handle(), acl.mdl.create_aipp(1), acl.media.dvpp_create_pic_desc(),
          acl.media.dvpp_create_channel_desc(), acl.prof.create_config([0], 0, 0, 1)]
assert all(living)
for name, (count, shape) in _names.table(module).items():
    function = getattr(space, name)
    if name in ("finalize", "reset_device_force", "bytes_to_ptr", "stop_thread", "start_thread"):
        continue
    plain = getattr(function, "__wrapped__", function)
    kinds = [str(k).split("[")[0].split(" ")[0] for n, k in plain.__annotations__.items() if n != "return"]
    kinds = (kinds + ["int"] * 30)[: int(count) if count.isdigit() else 1]
    for place in range(len(kinds)):
        for turn, wrong in enumerate(WRONG):
            values = [BASES.get(kind) for kind in kinds]
            values = [living[(turn + i) % len(living)] if v is None else v for i, v in enumerate(values)]
            values[place] = wrong
            try:
                result = function(*values)
            except TypeError:
                continue
            except ValueError as error:
                assert DOCUMENTED.search(str(error)), (name, values, error)
                continue
            assert not isinstance(result, tuple) or shape == "" or len(result) == max(1, len(shape)), (name, result)
print("done")
sys.stdout.flush()
import os
os._exit(0)
"""


@pytest.mark.parametrize("module", [m for m in _names.modules() if m not in ("fv", "himpi")])
def test_wrong_arguments(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, module]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert done.stdout.endswith("done\n"), done.stderr[-3000:]


@pytest.mark.parametrize("size", [-(2**70), -(2**64), 2**70, 2**64 - 1, -1])
def test_sizes_beyond_64_bits_never_shrink_a_block(device: int, size: int) -> None:
    """The C interface sees 64 bits: such a size is out of memory or nothing, never an address."""
    assert acl.rt.malloc(size, 0)[0] == 0
    assert acl.rt.malloc_host(size)[0] == 0
    assert acl.media.dvpp_malloc(size)[0] == 0


def test_copies_of_negative_sizes_are_refused(device: int) -> None:
    pointer, _ = acl.rt.malloc(256, 0)
    data = bytes(256)
    host = acl.util.bytes_to_ptr(data)
    for count in (-1, -(2**63), 2**64 - 1):
        assert acl.rt.memcpy(pointer, count, host, count, 1) == 107000
        assert acl.rt.memcpy(host, count, pointer, count, 2) == 107000
        assert acl.rt.memset(pointer, count, 0, count) == 107000
        assert acl.rt.memcpy_async(pointer, count, host, count, 1, 0) == 107000
        assert acl.rt.memset_async(pointer, count, 0, count, 0) == 107000


def test_lists_and_options_of_wrong_types(device: int) -> None:
    config = acl.mdl.create_config_handle()
    assert acl.mdl.set_config_opt(config, 0, True) == 0  # a bool is an int
    assert acl.mdl.set_config_opt(config, 0, "1") == 100000
    with pytest.raises(TypeError):
        acl.mdl.set_input_dynamic_dims(1, 1, 0, {"dimCount": 1, "dims": ["4"]})
