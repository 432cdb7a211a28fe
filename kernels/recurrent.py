"""CommonLSTM and CommonGRU: one product of all steps with the input weights on all cores, then a kernel on one core
for each direction that walks the steps: h R on the cube, gates on the vector unit.

Gates are matrices of a batch, so that every gate of a step is contiguous: x W is [directions * gates, steps * batch,
hidden] in float32, the product with R [gates, batch, hidden]. Cell and hidden state stay in float32; the product with R
takes the rounded h, which is the output of the step before. The schedule is our own: the steps wait for each other, so
one core does them all in one kernel, and the weights R come through L2 at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ascend_sim.ops.registry import NoKernel, find_kernel, kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs

from . import _lower
from ._cube import nd2nz
from ._layouts import rewire, storage, trans_data
from ._map import Operand, plan_map
from ._program import Builder, Reg
from ._series import Part, Place, Role, one_core, parts, series

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

X, W, R, B, LENGTHS, H0, C0, PEEPHOLES = range(8)
XW, REC, STATE, RESET, UPDATE, FRACTALS = (("workspace", k) for k in range(6))
_NAMES = {"sigmoid": ("sigmoid", ()), "tanh": ("tanh", ()), "relu": ("relu", ()), "softsign": ("softsign", ()),
          "softplus": ("softplus", ()), "hardsigmoid": ("hsigmoid", (0.2, 0.5)), "leakyrelu": ("leaky_relu", (0.01,)),
          "elu": ("elu", (1.0,)), "affine": ("affine", (1.0, 0.0))}  # fmt: skip
Function = Callable[[Builder, Reg], Reg]


def _functions(call: OpCall, direction: int, defaults: Sequence[str]) -> list[Function]:
    """Activations of a direction, clipped in front. Raises `NoKernel` for unknown ones."""
    n = len(defaults)
    names = [str(v).lower() for v in call.attr("activations", ())][direction * n :][:n] or list(defaults)
    given = [tuple(call.attr(f"activation_{name}", ())) for name in ("alpha", "beta")]
    clip = float(call.attr("clip", 0.0))

    def make(index: int, name: str) -> Function:
        if name not in _NAMES:
            raise NoKernel(f"activation {name}")
        step, usual = _NAMES[name]
        own = [float(v[index]) if len(v) > index else u for v, u in zip(given, usual, strict=False)]

        def apply(b: Builder, x: Reg) -> Reg:
            if clip:
                x = _lower.clip(b, x, -clip, clip)
            if step == "affine":
                return b.adds(b.muls(x, own[0]), own[1])
            return _lower.UNARY[step](b, x, *own)

        return apply

    return [make(direction * n + i, name) for i, name in enumerate(names)]


@dataclass
class _Gates:
    """Inputs of the vector program of one step, named; each with its spec and place."""

    batch: int
    hidden: int
    specs: list[TensorSpec] = field(default_factory=list)
    places: dict[Role, Place] = field(default_factory=dict)
    names: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[TensorSpec] = field(default_factory=list)

    def take(self, name: str, index: int, dtype: str, place: Place, row: bool = False) -> None:
        """An input: a matrix of the batch, or one ``row`` for all of it."""
        self.places["in", len(self.specs)] = place
        self.specs.append(TensorSpec((1 if row else self.batch, self.hidden), dtype))
        self.names.append((name, index))

    def leave(self, dtype: str, place: Place) -> None:
        self.places["out", len(self.outputs)] = place
        self.outputs.append(TensorSpec((self.batch, self.hidden), dtype))

    def plan(self, kind: str, make: Callable[[Builder, dict[tuple[str, int], Reg]], list[Reg]], soc: Soc) -> list[Part]:
        """The vector part; ``make`` returns float32 registers, one per output."""

        def record(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
            found = {n: o.as_type(b, "float32") for n, o in zip(self.names, operands, strict=True)}
            return [b.cast(r, o.dtype) for r, o in zip(make(b, found), self.outputs, strict=True)]

        call = OpCall(kind, tuple(self.specs), tuple(self.outputs), ())
        return parts(plan_map(call, soc, record), self.places)


class _Network:
    """Sizes and places of one call, and the parts of a step of one direction."""

    def __init__(self, call: OpCall, soc: Soc) -> None:
        self.call, self.soc, self.core = call, soc, one_core(soc)
        self.lstm = call.type == "CommonLSTM"
        self.gates = 4 if self.lstm else 3
        self.inputs: list[TensorSpec | None] = [*call.inputs, *[None] * 8][:8]
        x, w, r = self.inputs[X], self.inputs[W], self.inputs[R]
        assert x is not None and w is not None and r is not None
        self.steps, self.batch, self.width = x.logical_shape
        if call.attr("layout", 0):
            if self.steps != 1:
                raise NoKernel("a batch in front of the steps")
            self.steps, self.batch = self.batch, 1
        self.directions, self.hidden = w.logical_shape[0], r.logical_shape[-1]
        self.dtype, self.item = x.dtype, ITEM_BITS[x.dtype] // 8
        present = [s for s in self.inputs if s is not None]
        if self.inputs[LENGTHS] is not None:
            raise NoKernel("sequences of different lengths")
        if self.hidden % 16:
            raise NoKernel(f"hidden size {self.hidden}: not a multiple of 16")
        if any(s.dtype != self.dtype for s in (*present, *call.outputs)):
            raise NoKernel("tensors of different types")
        if any(s.format not in ("ND", "NCHW", "NHWC") for s in (*present, *call.outputs)) or not self.steps:
            raise NoKernel("tensors in blocks, or no steps")
        self.linear = bool(call.attr("linear_before_reset", 0))
        self.state = self.batch * self.hidden  # elements
        self.fractals = not nd2nz(soc) and (self.steps > 1 or self.inputs[H0] is not None)

    # ---- places (bytes)

    def _xw(self, d: int, gate: int) -> Place:
        one = 4 * self.state
        start = (d * self.gates + gate) * self.steps * one
        back = self._reverse(d)
        return Place(XW, start + (self.steps - 1) * one * back, -one if back else one)

    def _reverse(self, d: int) -> bool:
        return d == 1 or str(self.call.attr("direction", "forward")) == "reverse"

    def _y(self, d: int, ago: int = 0) -> Place:
        """Output of a step, ``ago`` steps before."""
        stride = self.directions * self.state * self.item * (-1 if self._reverse(d) else 1)
        first = (self.steps - 1) * -stride if stride < 0 else 0
        return Place(("out", 0), first + d * self.state * self.item - ago * stride, stride)

    def _slice(self, role: Role, d: int, of: int, gate: int) -> Place:
        """Row ``gate`` of the ``of`` rows that an input has for each direction."""
        return Place(role, (d * of + gate) * self.hidden * self.item)

    # ---- launches

    def input_product(self) -> list[Any]:
        """x W of all steps and directions."""
        rows = self.steps * self.batch
        a = TensorSpec((1, rows, self.width), self.dtype)
        b = TensorSpec((self.directions * self.gates, self.hidden, self.width), self.dtype)
        y = TensorSpec((self.directions * self.gates, rows, self.hidden), "float32")
        return [rewire(launch, {("out", 0): XW}) for launch in _product(a, b, y, self.soc)]

    def weights(self) -> list[Any]:
        """R in fractals, once for all steps, where transfers do not make them of rows."""
        if not self.fractals:
            return []
        plain = TensorSpec((self.directions * self.gates, self.hidden, self.hidden), self.dtype)
        moves = {("in", 0): ("in", R), ("out", 0): FRACTALS}
        return [rewire(step, moves) for step in trans_data(plain, storage(plain, "FRACTAL_NZ"), self.soc)]

    def _hidden_product(self, left: Place, d: int, first: int, count: int) -> list[Part]:
        """The left matrix times ``count`` gates of R from gate ``first`` on, into REC."""
        h = self.hidden
        a = TensorSpec((1, self.batch, h), self.dtype)
        b = TensorSpec((count, h, h), self.dtype)
        y = TensorSpec((count, self.batch, h), "float32")
        if self.fractals:
            b = storage(b, "FRACTAL_NZ")
        weights = Place(FRACTALS if self.fractals else ("in", R), (d * self.gates + first) * h * h * self.item)
        places = {("in", 0): left, ("in", 1): weights, ("out", 0): Place(REC, 4 * first * self.state)}
        return parts(_product(a, b, y, self.core), places)

    def _before(self, d: int, first: bool) -> Place | None:
        """The rounded h of the step before."""
        if not first:
            return self._y(d, 1)
        return Place(("in", H0), d * self.state * self.item) if self.inputs[H0] is not None else None

    def _gates(self, d: int, numbers: Sequence[int], product: bool) -> _Gates:
        """The step's sums of ``numbers``: input product, hidden product and biases."""
        made = _Gates(self.batch, self.hidden)
        for k in numbers:
            made.take("x", k, "float32", self._xw(d, k))
            if product:
                made.take("rec", k, "float32", Place(REC, 4 * k * self.state))
            if self.inputs[B] is not None:
                for name, shift in (("wb", 0), ("rb", self.gates)):
                    made.take(name, k, self.dtype, self._slice(("in", B), d, 2 * self.gates, shift + k), True)
        return made

    def _take_state(self, made: _Gates, d: int, first: bool, given: int) -> None:
        """The float32 state, or what the caller gave before the first step."""
        if not first:
            made.take("state", 0, "float32", Place(STATE))
        elif self.inputs[given] is not None:
            made.take("state", 0, self.dtype, Place(("in", given), d * self.state * self.item))

    def _leave(self, made: _Gates, d: int, last: bool) -> None:
        """Output of the step and the state; behind the last step the final states."""
        made.leave(self.dtype, self._y(d))
        if not last:
            made.leave("float32", Place(STATE))
            return
        for k in range(1, len(self.call.outputs)):
            made.leave(self.dtype, Place(("out", k), d * self.state * self.item))

    def lstm_step(self, d: int, first: bool, last: bool) -> list[Part]:
        left = self._before(d, first)
        run = self._hidden_product(left, d, 0, 4) if left is not None else []
        made = self._gates(d, range(4), left is not None)
        self._take_state(made, d, first, C0)
        if self.inputs[PEEPHOLES] is not None:
            for k in range(3):
                made.take("p", k, self.dtype, self._slice(("in", PEEPHOLES), d, 3, k), True)
        self._leave(made, d, last)
        f, g, h = _functions(self.call, d, ("sigmoid", "tanh", "tanh"))
        coupled = bool(self.call.attr("input_forget", 0))

        def cell(b: Builder, found: dict[tuple[str, int], Reg]) -> list[Reg]:
            """Gates i, o, f, c; peepholes i, o, f."""
            old = found.get(("state", 0))
            i, o, forget, c = (_sum(b, found, k) for k in range(4))

            def peep(x: Reg, k: int, state: Reg | None) -> Reg:
                return b.add(x, b.mul(found["p", k], state)) if ("p", k) in found and state is not None else x

            keep = f(b, peep(i, 0, old))
            new = b.mul(keep, g(b, c))
            if old is not None:
                rate = b.adds(b.muls(keep, -1.0), 1.0) if coupled else f(b, peep(forget, 2, old))
                new = b.add(b.mul(rate, old), new)
            y = b.mul(f(b, peep(o, 1, new)), h(b, new))
            return [y, *([y, new] if last else [new])]

        return run + made.plan(self.call.type, cell, self.core)

    def gru_step(self, d: int, first: bool, last: bool) -> list[Part]:
        left = self._before(d, first)
        f, g = _functions(self.call, d, ("sigmoid", "tanh"))

        def close(b: Builder, z: Reg, new: Reg, old: Reg | None) -> list[Reg]:
            """(1 - z) new + z old = new + z (old - new)."""
            part = b.mul(z, new if old is None else b.sub(old, new))
            y = b.sub(new, part) if old is None else b.add(new, part)
            return [y, y]

        if self.linear or left is None:
            run = self._hidden_product(left, d, 0, 3) if left is not None else []
            made = self._gates(d, range(3), left is not None)
            self._take_state(made, d, first, H0)
            self._leave(made, d, last)

            def whole(b: Builder, found: dict[tuple[str, int], Reg]) -> list[Reg]:
                """Gates z, r, h."""
                z, r = (f(b, _sum(b, found, k)) for k in range(2))
                hidden = _sum(b, found, 2, ("rec", "rb"))
                new = _sum(b, found, 2, ("x", "wb"))
                assert new is not None
                if hidden is not None:
                    new = b.add(new, b.mul(r, hidden) if self.linear else hidden)
                return close(b, z, g(b, new), found.get(("state", 0)))

            return run + made.plan(self.call.type, whole, self.core)

        made = self._gates(d, range(2), True)
        self._take_state(made, d, first, H0)
        made.leave("float32", Place(UPDATE))
        made.leave(self.dtype, Place(RESET))

        def open_(b: Builder, found: dict[tuple[str, int], Reg]) -> list[Reg]:
            z, r = (f(b, _sum(b, found, k)) for k in range(2))
            return [z, b.mul(r, found["state", 0])]

        run = self._hidden_product(left, d, 0, 2) + made.plan(self.call.type, open_, self.core)
        made = self._gates(d, (2,), True)
        self._take_state(made, d, first, H0)
        made.take("z", 0, "float32", Place(UPDATE))
        self._leave(made, d, last)

        def end(b: Builder, found: dict[tuple[str, int], Reg]) -> list[Reg]:
            return close(b, found["z", 0], g(b, _sum(b, found, 2)), found["state", 0])

        run += self._hidden_product(Place(RESET), d, 2, 1)
        return run + made.plan(self.call.type, end, self.core)

    def walk(self, d: int) -> Any:
        """The launch that walks the steps of a direction."""
        step = self.lstm_step if self.lstm else self.gru_step
        final = self.steps - 1
        first = step(d, True, final == 0)
        middle = step(d, False, False) if self.steps > 2 else first
        last = step(d, False, True) if final else first

        def at(t: int) -> Sequence[Part]:
            return first if t == 0 else last if t == final else middle

        used = {place.role for run in (first, middle, last) for part in run for place in part.places}
        item, state = self.item, self.state
        sizes = {XW: self.directions * self.gates * self.steps * 4 * state, REC: 4 * self.gates * state,
                 STATE: 4 * state, RESET: item * state, UPDATE: 4 * state,
                 FRACTALS: self.directions * self.gates * self.hidden**2 * item}  # fmt: skip
        gm: dict[Role, tuple[str, str, int, str]] = {}
        for role, nbytes in sizes.items():
            if role in used:
                dtype = self.dtype if role in (RESET, FRACTALS) else "float32"
                gm[role] = (f"work{role[1]}", dtype, nbytes, "workspace")
        for kind, specs in (("in", self.inputs), ("out", self.call.outputs)):
            for k, spec in enumerate(specs):
                if (kind, k) in used and spec is not None:
                    # y is read too (h of the step before); a direction writes its part of every output
                    both = kind == "out" and (k == 0 or self.directions > 1)
                    gm[kind, k] = (f"{kind}{k}", spec.dtype, spec.nbytes, "inout" if both else kind)
        return series(f"{self.call.type.lower()}_steps", self.steps, at, gm, self.soc)


def _product(a: TensorSpec, b: TensorSpec, y: TensorSpec, soc: Soc) -> list[Any]:
    plan = find_kernel("BatchMatMulV2")
    assert plan is not None
    attrs = freeze_attrs({"adj_x1": False, "adj_x2": True})
    return list(plan(OpCall("BatchMatMulV2", (a, b), (y,), attrs), soc))


def _sum(b: Builder, found: dict[tuple[str, int], Reg], gate: int,
         names: Sequence[str] = ("x", "rec", "wb", "rb")) -> Any:  # fmt: skip
    """Sum of what is there of a gate; None when nothing is."""
    total: Reg | None = None
    for name in names:
        if (name, gate) in found:
            total = found[name, gate] if total is None else b.add(total, found[name, gate])
    return total


@kernel("CommonLSTM", "CommonGRU")
def plan_recurrent(call: OpCall, soc: Soc) -> list[Any]:
    """Launches: the input product, on coupled cores R into fractals, then one per direction. Raises `NoKernel` for
    sequences of different lengths, hidden sizes that do not fill fractals, batches in front and activations without a
    sequence."""
    network = _Network(call, soc)
    return [*network.input_product(), *network.weights(), *(network.walk(d) for d in range(network.directions))]
