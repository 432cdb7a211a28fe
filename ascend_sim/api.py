"""Times from Python: one operator or a whole network on a simulated chip, without running values.

>>> import ascend_sim
>>> report = ascend_sim.simulate_op("MatMulV2", ["4096x4096:float16", "4096x4096:float16"], soc="Ascend910B2")
>>> report.blocks, report.estimated, report.family
(24, False, 'gemm')
>>> 2 * 4096**3 / report.us / 1e6 < 24 * 1.8 * 4096 * 2 / 1e3  # TFLOP/s: below the peak of 24 cores
True
>>> cold = ascend_sim.simulate_op("Add", ["1048576:float16"] * 2, soc="Ascend910B2", l2="cold")
>>> warm = ascend_sim.simulate_op("Add", ["1048576:float16"] * 2, soc="Ascend910B2")
>>> cold.us > warm.us
True
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ascend_sim.engine.memory import L2
from ascend_sim.engine.simulate import MATTERS
from ascend_sim.ops.cost import OpTiming, op_timing
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling.bands import NETWORK, Band, band_of, band_text, family_of
from ascend_sim.profiling.pages import table
from ascend_sim.profiling.session import SHOWN, Profile, profile
from ascend_sim.runtime.link import picoseconds
from ascend_sim.soc import CONFIDENCES, Soc, load_soc

if TYPE_CHECKING:
    from ascend_sim.graph.executor import LoadedModel

__all__ = ["Profile", "Report", "Simulator", "load_soc", "profile", "simulate_model", "simulate_op"]

L2_STATES = ("warm", "cold")
NO_KERNEL = "none for a roofline estimate"


@dataclass(frozen=True)
class Report:
    """Time of an operator or network on an idle device.

    ``us`` is the task duration (launch head and slowest core; of a network: one execution without host copies),
    ``cycles`` the makespan of the slowest core in its own clock. ``pipes`` is ``{pipe: {"busy_cycles", "ratio"}}``,
    ``bytes`` ``{"gm_read", "gm_write", "l2_hit"}``. ``rests_on`` names the figures of the chip description that decide
    the time, each with its share, ``figures`` counts them by confidence, and ``confidence`` is that of the weakest.
    ``band`` is the error of the measured rows of this family and chip, None where there are none and for an operator
    without a kernel. Networks have ``ops`` in order, and ``batch``.
    """

    soc: str
    op: str
    us: float
    cycles: int
    blocks: int
    bound: str
    pipes: Mapping[str, Mapping[str, float]]
    bytes: Mapping[str, int]
    estimated: bool
    confidence: str
    figures: Mapping[str, int]
    rests_on: Mapping[str, float] = field(repr=False)
    band: Band | None
    name: str = ""
    family: str | None = None
    ops: tuple[Report, ...] = field(default=(), repr=False)
    batch: int = 0

    @property
    def fps(self) -> float:
        """Samples per second of a network, one execution after the other; 0 for operators."""
        return self.batch * 1e6 / self.us if self.us else 0.0

    @property
    def band_text(self) -> str:
        """The error band in words, also where there is none."""
        if self.estimated and not self.ops:
            return NO_KERNEL
        return band_text(self.soc, self.family, self.us)

    def as_dict(self) -> dict[str, Any]:
        """The object that ``ascend-sim op --json`` and ``ascend-sim model --json`` print."""
        found: dict[str, Any] = {"soc": self.soc, "us": self.us, "cycles": self.cycles}
        if self.ops:
            found |= {"model": self.name, "batch": self.batch, "fps": self.fps, "bound": self.bound}
            found["ops"] = [op.as_dict() for op in self.ops]
        else:
            found |= {"name": self.name, "type": self.op} if self.name else {"op": self.op}
            found |= {"blocks": self.blocks, "bound": self.bound, "pipes": self.pipes, "bytes": self.bytes}
        return found | {
            "estimated": self.estimated,
            "confidence": self.confidence,
            "figures": dict(self.figures),
            "rests_on": dict(self.rests_on),
            "band": _band_dict(self.band),
            "band_text": self.band_text,
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the pipes of an operator, the busiest operators of a network."""
        about = f"{self.name or self.op} on {self.soc}: {self.us:.2f} us, {self.cycles} cycles, bound by {self.bound}"
        if not self.ops:
            pipes = [[pipe, v["busy_cycles"], f"{v['ratio']:.1%}"] for pipe, v in self.pipes.items()]
            return table(about, ["pipe", "busy cycles", "ratio"], pipes, f"error band: {self.band_text}")
        busiest = sorted(self.ops, key=lambda op: -op.us)[:SHOWN]
        rows = [[op.name, op.op, f"{op.us:.2f}", f"{op.us / self.us:.1%}", "estimated" if op.estimated else op.bound]
                for op in busiest]  # fmt: skip
        note = f"batch {self.batch}, {self.fps:.1f} per second; {len(self.ops)} operators; error band: {self.band_text}"
        return table(about, ["operator", "type", "us", "share", "bound"], rows, note)


class Simulator:
    """One chip and the L2 of its device, which keeps its contents from call to call.

    >>> from ascend_sim import Simulator
    >>> npu = Simulator("Ascend310P3")
    >>> npu.op("Relu", ["8x64x56x56:float16"]).us > npu.op("Relu", ["8x64x56x56:float16"], l2="kept").us
    False
    """

    def __init__(self, soc: Soc | str | os.PathLike[str] | None = None) -> None:
        """``soc`` is a chip, its name, the path of a description, or None: ``ASCEND_SIM_SOC``, else Ascend910B2.
        Raises `SocError`."""
        self.soc = soc if isinstance(soc, Soc) else load_soc(soc)
        self._l2 = L2(self.soc)

    def op(
        self, op: OpCall | str, inputs: Sequence[TensorSpec | str | None] = (), attrs: Mapping[str, Any] | None = None,
        *, l2: str = "warm", addresses: Sequence[int] | None = None,
    ) -> Report:  # fmt: skip
        """Time of one operator.

        ``op`` is the Ascend IR name, with ``inputs`` as specs or words (``4096x4096:float16[:FORMAT]``, None for an
        absent one) and ``attrs``; or a complete `OpCall`. ``l2``: ``cold`` L2 full of foreign lines and code not
        cached, ``warm`` after an identical run on the same buffers, ``kept`` as earlier calls left it. ``addresses``
        are the device addresses of all inputs (0 for absent ones) and outputs; by default tensors follow each other,
        at the same place in every call.

        Raises ValueError for an unknown operator, impossible shapes, or tensors larger than the memory.
        """
        from ascend_sim.graph.single_op import build_call

        call = op if isinstance(op, OpCall) else build_call(op, inputs, attrs or {})
        self._check_fits(call)
        if l2 == "kept":
            return self.report(call, op_timing(call, self.soc, self._l2, addresses))
        self._l2 = _fresh(self.soc, l2)
        timing = op_timing(call, self.soc, self._l2, addresses)
        if l2 == "warm":
            timing = op_timing(call, self.soc, self._l2, addresses)
        return self.report(call, timing)

    def model(self, model: LoadedModel, *, l2: str = "warm", variant: int = 0) -> Report:
        """Time of one execution of a compiled network; ``warm`` is the second run. ``variant`` is that of a model whose
        shapes are open (`LoadedModel.variant_for_gear`, `LoadedModel.variant_for_shapes`)."""
        cache = _fresh(self.soc, l2)
        if l2 == "warm":
            for _ in model.operator_timings(self.soc, cache, variant=variant):
                pass
        parts = [
            (self.report(node.call, timing, node.name), timing)
            for node, timing in model.operator_timings(self.soc, cache, variant=variant)
        ]
        batch = _batch(model, variant)
        return self._network(model.name, parts, batch)

    def report(self, call: OpCall, timing: OpTiming, name: str = "") -> Report:
        """A time from `ops.cost.op_timing` as a report."""
        family = family_of(call.type)
        return Report(
            soc=self.soc.name,
            op=call.type,
            us=timing.us,
            cycles=timing.cycles,
            blocks=timing.blocks,
            bound=timing.bound,
            pipes=timing.pipes(),
            bytes=timing.bytes(),
            estimated=timing.estimated,
            confidence=timing.confidence,
            figures=timing.figures(self.soc),
            rests_on=timing.rests_on(),
            band=None if timing.estimated else band_of(self.soc.name, family),
            name=name,
            family=family,
        )

    def _network(self, name: str, parts: Sequence[tuple[Report, OpTiming]], batch: int) -> Report:
        execute, gaps = _network_cost(self.soc, [timing for _, timing in parts])
        total = execute + gaps + sum(timing.task_ps for _, timing in parts)
        shares: dict[str, float] = {"launch.model_execute_us": execute, "launch.model_gap_us": gaps}
        bounds: dict[str, int] = {}
        for report, timing in parts:
            bounds[report.bound] = bounds.get(report.bound, 0) + timing.task_ps
            for key, share in report.rests_on.items():
                shares[key] = shares.get(key, 0.0) + share * timing.task_ps
        ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        rests_on = {key: spent / total for key, spent in ranked if spent and spent >= MATTERS * total}
        words = Counter(self.soc.figures[key].confidence for key in rests_on if key in self.soc.figures)
        return Report(
            soc=self.soc.name,
            op=NETWORK,
            us=total / 1e6,
            cycles=sum(report.cycles for report, _ in parts),
            blocks=max((report.blocks for report, _ in parts), default=0),
            bound=max(bounds, key=lambda pipe: (bounds[pipe], pipe)) if bounds else "none",
            pipes={},
            bytes=_sum_bytes(report.bytes for report, _ in parts),
            estimated=any(report.estimated for report, _ in parts),
            confidence=max(words, key=CONFIDENCES.index, default=CONFIDENCES[0]),
            figures={word: words[word] for word in CONFIDENCES},
            rests_on=rests_on,
            band=band_of(self.soc.name, NETWORK),
            name=name,
            family=NETWORK,
            ops=tuple(report for report, _ in parts),
            batch=batch,
        )

    def _check_fits(self, call: OpCall) -> None:
        needed = sum(spec.nbytes for spec in (*call.inputs, *call.outputs) if spec is not None)
        capacity = self.soc.memory.capacity_bytes
        if needed > capacity:
            raise ValueError(
                f"{call.type}: inputs and outputs take {needed / 2**30:.1f} GiB, {self.soc.name} has "
                f"{capacity / 2**30:.1f} GiB"
            )


def simulate_op(
    op: OpCall | str, inputs: Sequence[TensorSpec | str | None] = (), attrs: Mapping[str, Any] | None = None, *,
    soc: Soc | str | os.PathLike[str] | None = None, l2: str = "warm",
) -> Report:  # fmt: skip
    """Time of one operator on an idle chip; see `Simulator.op`.

    >>> from ascend_sim import simulate_op
    >>> report = simulate_op("SoftmaxV2", ["1024x1024:float16"], {"axes": [-1]}, soc="Ascend910B4")
    >>> report.soc, report.op, sum(report.figures.values()) == len(report.rests_on)
    ('Ascend910B4', 'SoftmaxV2', True)
    """
    return Simulator(soc).op(op, inputs, attrs, l2=l2)


def simulate_model(
    model: str | os.PathLike[str] | LoadedModel, *, soc: Soc | str | os.PathLike[str] | None = None, batch: int = 1,
    input_shapes: Mapping[str, Sequence[int]] | None = None, l2: str = "warm",
) -> Report:  # fmt: skip
    """Time of one execution of a network on an idle chip, operator by operator.

    ``model`` is an ONNX file (compiled for the chip; ``batch`` fills free first dimensions and ``input_shapes`` the
    others), an .om file, or a loaded model. Raises `AtcError` or `OmError` for files that cannot be compiled or read,
    `SocError` for a chip.
    """
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.graph.load import load_network

    npu = Simulator(soc)
    if not isinstance(model, LoadedModel):
        shapes = {name: tuple(dims) for name, dims in (input_shapes or {}).items()}
        model = load_network(model, npu.soc, batch, shapes)
    return npu.model(model, l2=l2)


def _network_cost(soc: Soc, timings: Sequence[OpTiming]) -> tuple[int, int]:
    """What an execution costs besides its kernels, in ps: the call, and all gaps between launches."""
    launches = sum(max(len(timing.kernels), 1 if timing.task_ps else 0) for timing in timings)
    return picoseconds(soc.launch.model_execute_us), picoseconds(soc.launch.model_gap_us) * max(launches - 1, 0)


def network_ps(soc: Soc, timings: Sequence[OpTiming]) -> int:
    """Time of one execution of a network whose operators take ``timings``."""
    return sum(_network_cost(soc, timings)) + sum(timing.task_ps for timing in timings)


def _fresh(soc: Soc, state: str) -> L2:
    if state not in L2_STATES:
        raise ValueError(f"l2 is {state!r}; expected one of {', '.join(L2_STATES)}")
    l2 = L2(soc)
    l2.flush_cold()
    return l2


def _batch(model: LoadedModel, variant: int = 0) -> int:
    """First dimension of the first input with more than one."""
    if model.dynamic_batch:
        return model.dynamic_batch[variant]
    inputs = model.ports(variant)[0] if model.executable else model.inputs
    return max(inputs[0].dims[0], 1) if inputs and len(inputs[0].dims) > 1 else 1


def _sum_bytes(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter({"gm_read": 0, "gm_write": 0, "l2_hit": 0})
    for part in parts:
        total.update(part)
    return dict(total)


def _band_dict(band: Band | None) -> dict[str, Any] | None:
    if band is None:
        return None
    return {key: getattr(band, key) for key in ("soc", "family", "rows", "median", "p90", "short_rows",
                                               "short_median_us", "short_p90_us")}  # fmt: skip
