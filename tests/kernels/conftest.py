"""Run one operator call on a simulated chip instruction by instruction, and its reference values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_sim import ops
from ascend_sim.isa import layout
from ascend_sim.ops import registry
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc
from benchmarks.values.run import unpack

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2")
Array = np.ndarray[Any, Any]


def blocked(shape: Sequence[int], dtype: str, fmt: str) -> TensorSpec:
    """Spec of a logical shape stored in ``fmt``."""
    shape = tuple(shape)
    c0 = max(32 // numpy_dtype(dtype).itemsize, 16)
    if fmt == "NC1HWC0":
        n, c, h, w = shape
        return TensorSpec((n, -(-c // c0), h, w, c0), dtype, fmt, shape, "NCHW")
    if fmt == "FRACTAL_NZ":
        *b, m, k = shape
        return TensorSpec((*b, -(-k // c0), -(-m // 16), 16, c0), dtype, fmt, shape, "ND")
    if fmt == "FRACTAL_Z":
        n, c, h, w = shape
        return TensorSpec((-(-c // c0) * h * w, -(-n // 16), 16, c0), dtype, fmt, shape, "NCHW")
    return TensorSpec(shape, dtype, fmt)


def store(array: Array, spec: TensorSpec) -> Array:
    """Bytes of a logical array in the spec's format."""
    if spec.format == "NC1HWC0":
        array = layout.nchw_to_nc1hwc0(array, spec.shape[-1])
    elif spec.format == "FRACTAL_NZ":
        array = layout.nd_to_nz(array, spec.shape[-1])
    elif spec.format == "FRACTAL_Z":
        array = layout.oihw_to_fractal_z(array, spec.shape[-1])
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()


def run(
    op: str, arrays: Sequence[Array | None], chip: str, formats: Sequence[str] = (), out_format: str | None = None,
    const: Sequence[int] = (), trace: bool = True, **attrs: Any,
) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """(instruction values, operator values) of every output, in logical layout. Raises NoKernel like the plan."""
    ops.load()
    soc = load_soc(chip)
    logical = []
    for i, a in enumerate(arrays):
        if a is None:
            logical.append(None)
            continue
        name = "bfloat16" if a.dtype == ml_dtypes.bfloat16 else a.dtype.name
        fmt = "NCHW" if a.ndim == 4 else "ND"
        logical.append(TensorSpec(a.shape, name, fmt, const=a.tobytes() if i in const else None))
    outs = ops.infer(op, logical, attrs)
    stored = [
        s if s is None or i >= len(formats) or not formats[i] or formats[i] == s.format
        else TensorSpec(*_parts(blocked(s.shape, s.dtype, formats[i]), s.const))
        for i, s in enumerate(logical)
    ]  # fmt: skip
    fmt = out_format or (formats[0] if formats else None)
    results = [blocked(o.logical_shape, o.dtype, fmt) if fmt else o for o in outs]
    call = OpCall(op, tuple(stored), tuple(results), freeze_attrs(attrs))
    plan = registry.find_kernel(op)
    assert plan is not None, f"no kernel for {op}"
    launches = plan(call, soc)
    memory: dict[tuple[str, int], Array] = {}
    for i, (a, s) in enumerate(zip(arrays, stored, strict=True)):
        if a is not None and s is not None:
            memory["in", i] = store(a, s)
    for i, r in enumerate(results):
        memory["out", i] = np.full(r.nbytes, 0xA5, np.uint8)
    for launch in launches:
        for key, (_, _, nbytes, _) in zip(launch.args, launch.gm, strict=True):  # type: ignore[attr-defined]
            memory.setdefault(key, np.full(nbytes, 0xA5, np.uint8))
        launch.execute([memory[key] for key in launch.args])
        if trace:
            launch.trace()
    reference = ops.values(OpCall(op, tuple(logical), tuple(outs), freeze_attrs(attrs)), list(arrays))
    return [unpack(memory["out", i], r) for i, r in enumerate(results)], reference


def _parts(spec: TensorSpec, const: bytes | None) -> tuple[Any, ...]:
    return spec.shape, spec.dtype, spec.format, spec.origin_shape, spec.origin_format, const


@pytest.fixture(scope="session")
def run_op() -> Callable[..., tuple[list[Array], list[Array]]]:
    return run


def assert_close(got: Sequence[Array], want: Sequence[Array], ulps: float = 0, absolute: float = 0) -> None:
    """Equal, or within ``ulps`` units in the last place of the type, or ``absolute``."""
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype, (g.shape, w.shape, g.dtype, w.dtype)
        if not ulps and not absolute:
            np.testing.assert_array_equal(g.astype(np.float64), w.astype(np.float64))
            continue
        a, b = g.astype(np.float64), w.astype(np.float64)
        eps = float(ml_dtypes.finfo(w.dtype).eps)
        np.testing.assert_allclose(a, b, rtol=ulps * eps, atol=max(absolute, ulps * 2.0**-24))


@pytest.fixture(scope="session")
def close() -> Callable[..., None]:
    return assert_close
