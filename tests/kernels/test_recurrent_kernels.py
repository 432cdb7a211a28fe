"""LSTM and GRU, instruction by instruction, against the operator's NumPy values; their traces at any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim import ops
from ascend_sim.ops.cost import op_timing, traces
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

CHIPS = ("Ascend310P3", "Ascend910A", "Ascend910B2")
Case = dict[str, Any]
LSTM: list[Case] = [
    {"steps": 4, "batch": 1},
    {"steps": 3, "batch": 5, "h0": False},
    {"steps": 1, "batch": 2, "direction": "reverse"},
    {"steps": 6, "batch": 3, "direction": "bidirectional", "hidden": 48, "width": 24},
    {"steps": 2, "batch": 17, "bias": False, "clip": 0.5},
    {"steps": 3, "batch": 2, "peepholes": True, "input_forget": 1},
    {"steps": 3, "batch": 1, "activations": ("HardSigmoid", "Relu", "Softsign")},
]
GRU: list[Case] = [
    {"steps": 4, "batch": 1, "linear_before_reset": 1},
    {"steps": 5, "batch": 3, "linear_before_reset": 0},
    {"steps": 3, "batch": 2, "linear_before_reset": 0, "h0": False, "direction": "bidirectional"},
    {"steps": 3, "batch": 2, "linear_before_reset": 1, "h0": False, "direction": "reverse"},
    {"steps": 1, "batch": 20, "bias": False},
]


def arrays(
    kind: str, dtype: str = "float16", *, steps: int, batch: int, width: int = 32, hidden: int = 32, h0: bool = True,
    bias: bool = True, peepholes: bool = False, **attrs: Any,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    gates = 4 if kind == "CommonLSTM" else 3
    d = 2 if attrs.get("direction") == "bidirectional" else 1
    rng = np.random.default_rng(steps * 100 + batch)

    def make(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.4).astype(dtype)

    given = [make(steps, batch, width), make(d, gates * hidden, width), make(d, gates * hidden, hidden),
             make(d, 2 * gates * hidden) if bias else None, None, make(d, batch, hidden) if h0 else None]  # fmt: skip
    if kind == "CommonLSTM":
        given += [make(d, batch, hidden) if h0 else None, make(d, 3 * hidden) if peepholes else None]
    return given, {"hidden_size": hidden, **attrs}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("kind", "case"), [*(("CommonLSTM", c) for c in LSTM), *(("CommonGRU", c) for c in GRU)], ids=str
)
def test_values(run_op: Any, close: Any, chip: str, kind: str, case: Case) -> None:
    given, attrs = arrays(kind, **case)
    close(*run_op(kind, given, chip, **attrs), absolute=4e-3)


@pytest.mark.parametrize("kind", ["CommonLSTM", "CommonGRU"])
def test_float32(run_op: Any, close: Any, kind: str) -> None:
    given, attrs = arrays(kind, "float32", steps=3, batch=2)
    close(*run_op(kind, given, "Ascend910B2", **attrs), absolute=1e-5)


def call_of(kind: str, steps: int, batch: int = 1, **attrs: Any) -> OpCall:
    given, attrs = arrays(kind, steps=steps, batch=batch, width=64, hidden=128, **attrs)
    specs = [None if a is None else TensorSpec(a.shape, a.dtype.name) for a in given]
    ops.load()
    return OpCall(kind, tuple(specs), tuple(ops.infer(kind, specs, attrs)), freeze_attrs(attrs))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", ["CommonLSTM", "CommonGRU"])
def test_long_sequences_are_folded(chip: str, kind: str) -> None:
    """The trace does not grow with the steps; the time does, step by step."""
    soc = load_soc(chip)
    short, long, longer = (call_of(kind, steps) for steps in (100, 500, 900))
    sizes = [sum(len(p.op) for t in traces(c, soc) for b in t.blocks for p in b.programs) for c in (long, longer)]
    assert max(sizes) < 1.2 * min(sizes)
    times = [op_timing(c, soc) for c in (short, long, longer)]
    assert not any(t.estimated for t in times)
    walks = [t.kernels[-1].core_ps for t in times]
    assert (walks[2] - walks[1]) == pytest.approx(walks[1] - walks[0], rel=0.01)
    assert walks[0] / 100 > 500_000  # ps: a step is a product, a hand-over and the gates one after the other


def test_lengths_are_left_to_the_estimate() -> None:
    call = call_of("CommonLSTM", 3)
    lengths = TensorSpec((1,), "int32")
    call = OpCall(call.type, (*call.inputs[:4], lengths, *call.inputs[5:]), call.outputs, call.attrs)
    timing = op_timing(call, load_soc("Ascend910B2"))
    assert timing.estimated and "different lengths" in timing.reason
