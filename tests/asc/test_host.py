"""What public programs ask of the host: platform, tiling, devices, memory, and every module they import."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim.asc.lib.runtime as rt
from ascend_sim import asc
from ascend_sim.asc import adv
from ascend_sim.asc.lib import host
from ascend_sim.asc.runtime import config
from ascend_sim.asc.struct import Field, Struct, StructField
from ascend_sim.soc import SocError, load_soc


@pytest.fixture(autouse=True)
def _platform() -> Iterator[None]:
    config.set_platform(config.Backend.Model, "Ascend910B2")
    yield
    config.set_platform(config.Backend.Model)


def test_platform_figures() -> None:
    chip = host.get_ascendc_platform()
    soc = load_soc("Ascend910B2")
    assert chip.get_core_num_aic() == soc.cores.ai_core_count and chip.get_core_num_aiv() == soc.cores.vector_core_count
    assert chip.get_core_mem_size("UB") == soc.buffers.ub_bytes
    with pytest.raises(ValueError, match="'X'"):
        chip.get_core_mem_size("X")
    with pytest.raises(SocError, match="Ascend999"):
        config.set_platform(config.Backend.Model, "Ascend999")
    with pytest.raises(ValueError, match="NoBackend"):
        config.set_platform("NoBackend")


SHAPES = [(1024, 640, 256), (33, 17, 100), (1, 4096, 512), (4096, 16, 16), (300, 300, 300)]


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310B1"])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_tilings_cover_and_fit(shape: tuple[int, int, int], size: int, chip: str) -> None:
    """Cores cover the product; base blocks fit L0 with two buffers each, depth fits L1."""
    config.set_platform(config.Backend.Model, chip)
    m, n, k = shape
    dtype = {1: host.DataType.DT_INT8, 2: host.DataType.DT_FLOAT16, 4: host.DataType.DT_FLOAT}[size]
    t = host.MultiCoreMatmulTiling(host.get_ascendc_platform())
    t.set_a_type(host.TPosition.GM, host.CubeFormat.ND, dtype, False)
    t.set_b_type(host.TPosition.GM, host.CubeFormat.ND, dtype, False)
    t.set_c_type(host.TPosition.GM, host.CubeFormat.ND, host.DataType.DT_FLOAT)
    t.set_dim(8)
    t.set_org_shape(m, n, k)
    t.set_shape(m, n, k)
    out = adv.TCubeTiling()
    assert t.get_tiling(out) == 0
    assert 1 <= out.used_core_num <= 8
    parts = -(-m // out.single_core_m) * -(-n // out.single_core_n) * -(-k // out.single_core_k)
    assert parts == out.used_core_num and (out.m, out.n, out.k_a, out.k_b) == (m, n, k, k)
    soc = load_soc(chip)
    unit = -(-out.base_m // 16) * 16
    assert 2 * unit * out.base_k * size <= soc.buffers.l0a_bytes
    assert 2 * -(-out.base_n // 16) * 16 * out.base_k * size <= soc.buffers.l0b_bytes
    assert unit * out.base_n * 4 <= soc.buffers.l0c_bytes
    assert (out.base_m * out.depth_a1 + out.base_n * out.depth_b1) * out.base_k * size <= soc.buffers.l1_bytes
    assert (t.get_base_m(), t.get_base_n(), t.get_base_k()) == (out.base_m, out.base_n, out.base_k)


def test_results_for_the_vector_unit_leave_room() -> None:
    t = host.MultiCoreMatmulTiling(host.get_ascendc_platform())
    t.set_c_type(host.TPosition.VECCALC, host.CubeFormat.ND, host.DataType.DT_FLOAT)
    t.set_shape(1024, 1024, 256)
    t.set_org_shape(1024, 1024, 256)
    t.set_dim(1)
    out = adv.TCubeTiling()
    assert t.get_tiling(out) == 0 and 2 * out.base_m * out.base_n * 4 <= 192 * 1024
    t.set_fix_split(256, 128, -1)  # the program's own choice is taken
    assert t.get_tiling(out) == 0 and (out.base_m, out.base_n) == (256, 128)


def test_impossible_tilings_fail() -> None:
    t = host.MultiCoreMatmulTiling(host.get_ascendc_platform())
    assert t.set_shape(0, 16, 16) == -1
    assert t.get_tiling(adv.TCubeTiling()) == -1
    t.set_shape(64, 64, 64)
    t.set_fix_split(1024, 1024, 1024)
    t.set_dim(1)
    assert t.get_tiling(adv.TCubeTiling()) == -1


def test_memory_of_the_device() -> None:
    x = np.arange(100, dtype=np.int32)
    handle = rt.copy_data_to_device(x.ctypes.data_as(ctypes.c_void_p), x.nbytes)
    back = np.zeros_like(x)
    rt.copy_data_from_device(back, handle, back.nbytes)
    np.testing.assert_array_equal(back, x)
    rt.free(handle)
    with pytest.raises(ValueError, match="not allocated"):
        rt.free(handle)
    with pytest.raises(RuntimeError, match="positive"):
        rt.malloc(0)
    with pytest.raises(RuntimeError, match="fit"):
        rt.memcpy(back, 4, x, 8, rt.MemcpyKind.RT_MEMCPY_HOST_TO_HOST)


def test_devices_and_streams() -> None:
    rt.set_device(0)
    assert rt.current_device() == 0 and rt.device_count() >= 1 and rt.current_platform() == "Ascend910B2"
    with pytest.raises(RuntimeError, match="device_id = 99"):
        rt.set_device(99)
    rt.acl_init()
    rt.set_soc_version(config.Platform.Ascend910B4)
    assert rt.get_soc_version() == "Ascend910B4"
    rt.set_soc_version("Ascend910B2")
    rt.acl_finalize()
    stream = rt.create_stream()
    rt.synchronize(stream)
    rt.destroy_stream(stream)
    count = rt.device_info(rt.DeviceModuleType.RT_MODULE_TYPE_AICORE, rt.DeviceInfoType.INFO_TYPE_CORE_NUM)
    assert count == load_soc("Ascend910B2").cores.ai_core_count


@asc.jit
def doubled(x: asc.GlobalAddress, n: int) -> None:
    g = asc.GlobalTensor()
    g.set_global_buffer(x)
    t = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 0, n)
    asc.data_copy(t, g, n)
    asc.set_flag(asc.HardEvent.MTE2_V)
    asc.wait_flag(asc.HardEvent.MTE2_V)
    asc.add(t, t, t, n)
    asc.set_flag(asc.HardEvent.V_MTE3)
    asc.wait_flag(asc.HardEvent.V_MTE3)
    asc.data_copy(g, t, n)


@asc.jit
def as_floats(x: asc.GlobalAddress, n: int) -> None:
    """The type of the tensor is chosen in the kernel."""
    g = asc.GlobalTensor(asc.float32)
    g.set_global_buffer(x)
    t = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, n)
    asc.data_copy(t, g, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.adds(t, t, 0.0, n)
    asc.add(t, t, t, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(g, t, n)


class Inner(Struct):
    width = Field(dtype=asc.uint8)
    length = Field(dtype=asc.int64, default=7)


class Outer(Struct):
    scale = Field(dtype=asc.float16, default=0.5)
    inner = StructField(Inner, default=Inner(width=3))
    count = Field(dtype=asc.int32, default=0, name="cnt")


def test_structures() -> None:
    outer = Outer(count=9)
    assert outer.inner.length == 7 and outer.count.ceildiv(2) == 5
    outer.inner.width = 4

    class C(ctypes.Structure):
        _fields_ = [("a", ctypes.c_uint8), ("b", ctypes.c_int64)]

    class D(ctypes.Structure):
        _fields_ = [("scale", ctypes.c_uint16), ("inner", C), ("cnt", ctypes.c_int32)]

    half = int(np.float16(0.5).view(np.uint16))
    assert len(outer.pack()) == ctypes.sizeof(D)
    same = D.from_buffer_copy(outer.pack())
    assert (same.scale, same.inner.a, same.inner.b, same.cnt) == (half, 4, 7, 9)
    copy = outer.create_local()
    copy.inner.width = 1
    assert outer.inner.width == 4
    with pytest.raises(TypeError, match="'width' has no default"):
        Inner()
    with pytest.raises(AttributeError, match="no field 'wide'"):
        Outer(wide=1)
    with pytest.raises(TypeError, match="expected one of"):
        Field(dtype="complex64")


def test_kernels_take_structures_and_device_pointers() -> None:
    seen: list[Any] = []

    @asc.jit
    def kernel(x: asc.GlobalAddress, options: Outer) -> None:
        seen.append((x.dtype.name, options.count + options.inner.length))
        options.count = 0  # a copy

    options = Outer(count=5)
    kernel[1, None](np.zeros(8, np.int16), options)
    assert seen[0] == ("int16", 12) and options.count == 5
    x = np.arange(64, dtype=np.float32)
    doubled[1, None](x, 64)
    np.testing.assert_array_equal(x, 2 * np.arange(64))
    raw = bytearray(np.arange(64, dtype=np.float32).tobytes())
    as_floats[1, None](raw, 64)
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), 2 * np.arange(64))
    here = rt.copy_data_to_device(x, x.nbytes)
    for handle in (here, here.value):  # a pointer, or its number where the kernel says that it is an address
        as_floats[1, None](handle, 64)
    back = np.zeros_like(x)
    rt.copy_data_from_device(back, here, x.nbytes)
    np.testing.assert_array_equal(back, 4 * x)
    with pytest.raises(ValueError, match="no allocation"):
        as_floats[1, None](ctypes.c_void_p(16), 64)


MODULES = [
    "asc", "asc.runtime.config", "asc.runtime", "asc.lib.host", "asc.lib.runtime", "asc.lib", "asc.adv", "asc.language",
    "asc.language.core", "asc.language.core.dtype", "asc.language.core.struct", "asc.language.core.tensor",
    "asc.language.core.enums", "asc.language.basic", "asc.language.basic.vec_binary", "asc.language.fwk",
    "asc.language.fwk.tpipe", "asc.language.adv", "asc.language.adv.matmul",
]  # fmt: skip
PROGRAM = """
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
import asc, ascend_sim.asc
from asc.language.core.dtype import KnownTypes as KT
from asc.language.core.struct import Field
from asc.language.basic import add
from asc.language.adv import Matmul
assert asc.add is ascend_sim.asc.add is add and KT.float16 is asc.float16 and Matmul is asc.adv.Matmul
assert asc.range is range and asc.language.core.range is range
assert asc.DataType("int32") is asc.int32
try:
    import asc.nowhere
except ModuleNotFoundError as error:
    assert "asc.nowhere" in str(error)
else:
    raise SystemExit("found asc.nowhere")
print("done", sys.argv[1:])
"""


def test_programs_find_asc(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(names=MODULES))
    command = [sys.executable, "-m", "ascend_sim.cli.main", "run", "--shim", "asc", str(script), "a", "--b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "done ['a', '--b']" in done.stdout
