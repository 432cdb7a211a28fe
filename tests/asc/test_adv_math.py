"""Element functions of asc.adv against Python's own, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.asc import adv
from ascend_sim.asc.machine import Core, on_core
from ascend_sim.isa.legality import InstructionError
from ascend_sim.soc import load_soc

V = asc.TPosition.VECCALC


def run(program: Callable[[], Any], *arrays: np.ndarray) -> Core:
    core = Core(load_soc("Ascend910B2"), "AIV", 0, 1, gm=[])
    for i, x in enumerate(arrays):
        core.memory["UB"][i * 8192 : i * 8192 + x.nbytes] = x.view(np.uint8)
    with on_core(core):
        program()
    return core


def out(core: Core, dtype: str, n: int) -> np.ndarray:
    return core.memory["UB"][16384 : 16384 + n * np.dtype(dtype).itemsize].view(dtype)


def slope(x: float) -> float:
    """Derivative of lgamma by differences."""
    h = 1e-5
    return (math.lgamma(x + h) - math.lgamma(x - h)) / (2 * h)


CASES: dict[str, tuple[Callable[[float], float], float, float]] = {
    "acos": (math.acos, -1, 1), "acosh": (math.acosh, 1, 50), "asin": (math.asin, -1, 1),
    "asinh": (math.asinh, -50, 50),
    "atan": (math.atan, -50, 50), "atanh": (math.atanh, -0.99, 0.99), "ceil": (math.ceil, -9, 9),
    "cos": (math.cos, -9, 9), "cosh": (math.cosh, -5, 5), "digamma": (slope, 0.5, 20), "erf": (math.erf, -3, 3),
    "erfc": (math.erfc, -3, 3), "exp": (math.exp, -9, 9), "floor": (math.floor, -9, 9),
    "frac": (lambda x: math.modf(x)[0], -9, 9), "lgamma": (math.lgamma, 0.5, 20), "log": (math.log, 0.01, 99),
    "round": (lambda x: float(round(x)), -9, 9), "sign": (lambda x: (x > 0) - (x < 0), -9, 9),
    "sin": (math.sin, -9, 9), "sinh": (math.sinh, -5, 5), "tan": (math.tan, -1.5, 1.5), "tanh": (math.tanh, -5, 5),
    "trunc": (math.trunc, -9, 9),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", list(CASES))
def test_one_operand(name: str, dtype: str) -> None:
    function, low, high = CASES[name]
    x = np.random.default_rng(len(name)).uniform(low, high, 200).astype(dtype)
    x[:3] = [low, high, (low + high) / 2]
    call = getattr(adv, name)

    def program() -> None:
        call(asc.LocalTensor(dtype, V, 16384, 200), asc.LocalTensor(dtype, V, 0, 200), count=197)

    before = np.zeros(200, dtype)
    got = out(run(program, x, x, before), dtype, 200)
    want = np.array([function(float(v)) for v in x[:197]]).astype(dtype)
    rough = 2e-3 if dtype == "float16" else 1e-5 if name in ("digamma", "lgamma") else 1e-6
    np.testing.assert_allclose(got[:197], want, rtol=rough, atol=rough)
    assert not got[197:].any()


def test_two_operands() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.1, 5, 100).astype("float32"), rng.uniform(-3, 3, 100).astype("float32")
    tensors = lambda t: [asc.LocalTensor(t, V, at, 100) for at in (16384, 0, 8192)]  # noqa: E731
    got = out(run(lambda: adv.power(*tensors("float32")), x, y), "float32", 100)
    np.testing.assert_allclose(got, [math.pow(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], rtol=1e-6)
    a, b = (rng.integers(0, 65536, 100).astype("uint16") for _ in range(2))
    got = out(run(lambda: adv.xor(*tensors("uint16")), a, b), "uint16", 100)
    assert [int(v) for v in got] == [int(p) ^ int(q) for p, q in zip(a, b, strict=True)]


def test_axpy() -> None:
    x, d = np.arange(64, dtype="float32"), np.ones(64, "float32")

    def program() -> None:
        adv.axpy(asc.LocalTensor("float32", V, 16384, 64), asc.LocalTensor("float32", V, 0, 64), 3.0, 40)

    got = out(run(program, x, x, d), "float32", 64)
    np.testing.assert_array_equal(got, [3 * i + 1 if i < 40 else 1 for i in range(64)])


@pytest.mark.parametrize(
    ("dst", "src", "at", "message"),
    [("float32", "float16", 0, "data types"), ("int32", "int32", 0, "data types"),
     ("float32", "float32", 4, "multiple"), ("float32", "float32", 16384 + 64, "identical or disjoint")],
)  # fmt: skip
def test_restrictions(dst: str, src: str, at: int, message: str) -> None:
    with pytest.raises(InstructionError, match=message):
        run(lambda: adv.tanh(asc.LocalTensor(dst, V, 16384, 64), asc.LocalTensor(src, V, at, 64)))
