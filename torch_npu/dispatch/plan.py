"""Plans: what an ATen call becomes, worked out once per operator, shapes, types and scalars.

A builder gets the arguments of a call with every tensor as a `T` and says, step by step, which Ascend operators to run;
`Plan.op` returns the result as another `T`. Where a result ends up (an argument, a new tensor, scratch memory) is
decided at the end, so that no copy is made that the hardware would not make.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from acl import _eager

DTYPES: dict[torch.dtype, str] = {
    torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64",
    torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
    torch.bool: "bool", torch.complex64: "complex64", torch.complex128: "complex128", torch.uint16: "uint16",
    torch.uint32: "uint32", torch.uint64: "uint64",
}  # fmt: skip
_SCALAR_TYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
    torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
TYPE_OF_NUMBER = {number: dtype for dtype, number in _SCALAR_TYPES.items()}
FLOATS = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))
HALVES = frozenset((torch.float16, torch.bfloat16))
INTEGERS = frozenset((torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64))
REALS = FLOATS | INTEGERS | {torch.bool}
COMPLEX = frozenset((torch.complex64, torch.complex128))
_GE_NUMBER = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6, torch.uint16: 7,
    torch.uint32: 8, torch.int64: 9, torch.uint64: 10, torch.float64: 11, torch.bool: 12, torch.complex64: 16,
    torch.complex128: 17, torch.bfloat16: 27,
}  # fmt: skip
_MOST_AXES = 64  # of NumPy's arrays, and of torch's reductions
_TORCH_OF = {name: dtype for dtype, name in DTYPES.items()}


class NoPlan(Exception):
    """The builder cannot do this call: it runs on the CPU."""


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


class T:
    """A tensor of a plan. ``place`` is ("arg", i), ("new", i), ("scratch", i), or None while undecided; ``maker`` is
    the index of the step that makes it (-1 for arguments); ``real`` is the torch tensor of an argument."""

    __slots__ = ("dtype", "maker", "place", "real", "shape", "strides")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        strides: Sequence[int] | None = None,
        place: tuple[str, int] | None = None,
        maker: int = -1,
        real: torch.Tensor | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = contiguous_strides(shape) if strides is None else tuple(strides)
        self.place = place
        self.maker = maker
        self.real = real

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1:
                if s != step and self.numel:
                    return False
                step *= n
        return True

    def dense_order(self) -> tuple[int, ...] | None:
        """Axes from the slowest to the fastest when the tensor fills its memory without gaps or overlaps."""
        order = sorted(range(self.ndim), key=lambda i: (-self.strides[i], -self.shape[i], i))
        step = 1
        for i in reversed(order):
            if self.shape[i] != 1:
                if self.strides[i] != step:
                    return None
                step *= self.shape[i]
        return tuple(order)

    def __repr__(self) -> str:
        return f"T({self.shape}, {self.dtype}, {self.place})"


class Scalar:
    """A 0-d CPU tensor or a Python number as operand. ``value`` is the number itself (int, float, bool, complex),
    ``dtype`` its torch type, ``real`` what torch's promotion sees."""

    __slots__ = ("dtype", "real", "value")

    def __init__(self, value: Any, dtype: torch.dtype, real: Any) -> None:
        self.value, self.dtype, self.real = value, dtype, real


def scalar_of(value: Any) -> Scalar:
    if isinstance(value, Scalar):
        return value
    kinds = ((bool, torch.bool), (int, torch.int64), (float, torch.float32), (complex, torch.complex64))
    return Scalar(value, next(d for k, d in kinds if isinstance(value, k)), value)


Operand = T | Scalar | None


class _Step:
    __slots__ = ("attrs", "call", "inputs", "outputs", "timed")

    def __init__(self, call: Any, timed: Any, inputs: list[T | None], outputs: list[T]) -> None:
        self.call, self.timed, self.inputs, self.outputs = call, timed, inputs, outputs


class Plan:
    """Collects the steps of one call; `finish` turns them into what the extension reads: ``launcher``, ``made``,
    ``scratch``, ``returns``, ``resizes``, ``drawn``."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.arguments = 0
        self.resizes: list[tuple[int, list[int]]] = []
        self.returns: list[tuple[int, int, list[int]]] = []
        self.made: list[tuple[list[int], list[int], int]] = []
        self.scratch: list[int] = []
        self.launcher: Any = None
        self.drawn = False
        self._new: list[T] = []

    # -- tensors

    def argument(self, tensor: torch.Tensor) -> T:
        if tensor.is_conj() or tensor.is_neg():
            raise NoPlan("conjugate or negative view")
        if tensor.dtype not in DTYPES:
            raise NoPlan(f"type {tensor.dtype}")
        if tensor.dim() > _MOST_AXES:
            raise NoPlan("rank")
        made = T(tensor.shape, tensor.dtype, tensor.stride(), ("arg", self.arguments), real=tensor)
        self.arguments += 1
        return made

    # -- steps

    def op(
        self,
        op_type: str,
        inputs: Sequence[Operand],
        out_dtypes: Sequence[torch.dtype] | None = None,
        loose: Sequence[str] = (),
        **attrs: Any,
    ) -> Any:
        """Add an operator. A `Scalar` input becomes a constant of the type of the first tensor. Returns its output,
        or a tuple when it has several. ``loose`` names attributes that do not decide the time."""
        tensors: list[T | None] = []
        specs: list[Any] = []
        vague: list[str | int] = list(loose)
        like = next((x.dtype for x in inputs if isinstance(x, T)), torch.float32)
        for index, x in enumerate(inputs):
            if x is None:
                tensors.append(None)
                specs.append(None)
            elif isinstance(x, T):
                dense = self.contiguous(x)
                tensors.append(dense)
                specs.append(_eager.tensor_spec(dense.shape, DTYPES[dense.dtype]))
            else:
                tensors.append(None)
                specs.append(_eager.tensor_spec((), DTYPES[like], constant(scalar_of(x).value, like)))
                vague.append(index)
        try:
            call, timed = _eager.operator_call(op_type, specs, attrs, vague)
        except ValueError as error:
            raise NoPlan(str(error)) from error
        outs = [T(s.logical_shape, _TORCH_OF[s.dtype], maker=len(self.steps)) for s in call.outputs]
        self.steps.append(_Step(call, timed, tensors, outs))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def seen_as(self, x: T, shape: Sequence[int], strides: Sequence[int] | None = None) -> T:
        """The same memory with another shape."""
        if x.maker < 0:
            return T(shape, x.dtype, strides, x.place, real=x.real)
        return _Alias(x, shape, strides)

    def raw(self, op_type: str, inputs: Sequence[Any], loose: Sequence[str | int] = (), **attrs: Any) -> Any:
        """`op` where some inputs are constants, given as specs with their bytes."""
        given = [self.contiguous(x) if isinstance(x, T) else x for x in inputs]
        specs = [_eager.tensor_spec(x.shape, DTYPES[x.dtype]) if isinstance(x, T) else x for x in given]
        try:
            call, timed = _eager.operator_call(op_type, specs, attrs, loose)
        except ValueError as error:
            raise NoPlan(str(error)) from error
        outs = [T(o.logical_shape, _TORCH_OF[o.dtype], maker=len(self.steps)) for o in call.outputs]
        self.steps.append(_Step(call, timed, [x if isinstance(x, T) else None for x in given], outs))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def charge(self, op_type: str, target: T) -> None:
        """An operator that is charged for filling ``target``; its values were drawn when it was dispatched."""
        self.drawn = True
        call, timed = _eager.operator_call(op_type, [], {"shape": list(target.shape), "dtype": DTYPES[target.dtype]})
        out = T(target.shape, target.dtype, place=target.place, maker=len(self.steps))
        self.steps.append(_Step(call, timed, [], [out]))

    def contiguous(self, x: T) -> T:
        """``x`` itself, or a dense copy by the operator that the hardware would use."""
        if x.is_contiguous:
            return x
        order = x.dense_order()
        if order is not None and x.numel:
            # a permuted view of dense memory: a transpose
            stored = self.seen_as(x, [x.shape[i] for i in order])
            return self.op("TransposeD", [stored], perm=[order.index(i) for i in range(x.ndim)])
        return self._strided(x)

    def _strided(self, x: T) -> T:
        expanded = [i for i, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if s == 0 and n > 1]
        if expanded:
            base = self.seen_as(x, [1 if i in expanded else n for i, n in enumerate(x.shape)], x.strides)
            return self.op("BroadcastToD", [base], shape=list(x.shape))
        span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)) if x.numel else 0
        flat = self.seen_as(x, [span])
        return self.op("AsStrided", [flat], size=list(x.shape), stride=list(x.strides), storage_offset=0)

    def flat(self, x: T, shape: Sequence[int]) -> T:
        """The same dense memory with another shape."""
        x = self.contiguous(x)
        if prod(shape) != x.numel:
            raise NoPlan(f"{x.shape} does not become {tuple(shape)}")
        return self.seen_as(x, shape)

    def cast(self, x: T, dtype: torch.dtype) -> T:
        if x.dtype == dtype:
            return x
        if dtype not in _GE_NUMBER:
            raise NoPlan(f"type {dtype}")
        return self.op("Cast", [x], dst_type=_GE_NUMBER[dtype])

    def broadcast(self, x: T, shape: Sequence[int]) -> T:
        return x if x.shape == tuple(shape) else self.op("BroadcastToD", [x], shape=list(shape))

    def fill(self, shape: Sequence[int], value: Any, dtype: torch.dtype) -> T:
        dims = _eager.tensor_spec((len(shape),), "int64", np.asarray(shape, np.int64).tobytes())
        spec = _eager.tensor_spec((), DTYPES[dtype], constant(value, dtype))
        try:
            call, timed = _eager.operator_call("Fill", [dims, spec], {}, [1])
        except ValueError as error:
            raise NoPlan(str(error)) from error
        out = T(shape, dtype, maker=len(self.steps))
        self.steps.append(_Step(call, timed, [None, None], [out]))
        return out

    # -- results

    def store(self, value: T, target: T) -> None:
        """``value`` becomes the contents of the argument ``target``, cast and broadcast as need be."""
        if value.place == target.place and value.place is not None and value.strides == target.strides:
            return
        if target.numel == 0:
            return
        if any(n > 1 and s == 0 for n, s in zip(target.shape, target.strides, strict=True)):
            raise NoPlan("elements of the target share memory")
        value = self.broadcast(self.cast(value, target.dtype), target.shape)
        same = value.strides == target.strides or (value.is_contiguous and target.is_contiguous)
        if same and self._bind(value, target):
            return
        if target.is_contiguous:
            if not value.is_contiguous:
                value = self.contiguous(value)
                if self._bind(value, target):
                    return
            self._bind(self.op("TensorMove", [value]), target)
            return
        order = target.dense_order()
        if order is not None:
            stored = [target.shape[i] for i in order]
            out = self.op("TransposeD", [value], perm=list(order))
            assert out.shape == tuple(stored)
            out.place = target.place
            return
        span = 1 + sum((n - 1) * s for n, s in zip(target.shape, target.strides, strict=True))
        flat = self.seen_as(target, [span])
        out = self.op("ViewCopy", [flat, value], dst_size=list(target.shape), dst_stride=list(target.strides),
                      dst_storage_offset=0)  # fmt: skip
        out.place = target.place

    def _bind(self, value: T, target: T) -> bool:
        """Let the step that makes ``value`` write to ``target`` at once, when nobody could notice."""
        root = value.root if isinstance(value, _Alias) else value
        if root.maker < 0 or root.place is not None:
            return False
        for step in self.steps[root.maker + 1 :]:
            if any(x is not None and x.place is not None and x.place[0] == "arg" for x in step.inputs):
                return False
        root.place = target.place
        return True

    def new(self, value: T) -> int:
        """``value`` as a new tensor that is returned; its number."""
        root = value.root if isinstance(value, _Alias) else value
        if value.numel == 0:
            return self.empty(value.shape, value.dtype)
        if value.dense_order() is None:
            value = root = self.contiguous(value)
        if root.maker < 0 or root.place is not None:
            value = root = self.op("TensorMove", [value])
        index = len(self._new)
        root.place = ("new", index)
        self._new.append(value)
        return index

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> int:
        """A new tensor that no step writes (it has no elements); its number."""
        index = len(self._new)
        self._new.append(T(shape, dtype, place=("new", index), maker=0))
        return index

    # -- the end

    def finish(self) -> Plan:
        for value in self._new:
            self.made.append((list(value.shape), list(value.strides), _SCALAR_TYPES[value.dtype]))
        base_new = self.arguments
        base_scratch = base_new + len(self.made)

        def place(x: T | None) -> int:
            if x is None:
                return -1
            root = x.root if isinstance(x, _Alias) else x
            if root.place is None:
                root.place = ("scratch", len(self.scratch))
                self.scratch.append(max(root.nbytes, 1))
            kind, index = root.place
            return {"arg": 0, "new": base_new, "scratch": base_scratch}[kind] + index

        kernels = []
        for step in self.steps:
            if not any(o.numel for o in step.outputs):
                continue
            kernels.append(
                _eager.Kernel(
                    step.call,
                    [place(x) for x in step.inputs],
                    [place(x) for x in step.outputs],
                    step.timed,
                    silent=self.drawn,
                )
            )
        self.launcher = tuple(kernels) or None
        for value in self._new:
            value.real = None
        return self


class _Alias(T):
    """Another shape of a step's result: shares its place, decided later."""

    __slots__ = ("root",)

    def __init__(self, x: T, shape: Sequence[int], strides: Sequence[int] | None = None) -> None:
        super().__init__(shape, x.dtype, strides, maker=x.maker)
        self.root: T = x.root if isinstance(x, _Alias) else x


def number_spec(value: Any, dtype: torch.dtype) -> Any:
    """A constant number as an input of `Plan.raw`."""
    return _eager.tensor_spec((), DTYPES[dtype], constant(value, dtype))


def wrapped(value: Any, dtype: torch.dtype) -> Any:
    """A whole number as an integer type holds it: torch takes it modulo the type's range."""
    if not isinstance(value, int) or isinstance(value, bool) or dtype not in INTEGERS:
        return value
    low, span = torch.iinfo(dtype).min, 1 << torch.iinfo(dtype).bits
    return (value - low) % span + low


def constant(value: Any, dtype: torch.dtype) -> bytes:
    """The bytes of a number in a type, as torch rounds it."""
    if dtype == torch.bfloat16:
        return torch.tensor(value, dtype=dtype).view(torch.int16).numpy().tobytes()
    if dtype == torch.bool:
        return bytes([bool(value)])
    value = wrapped(value, dtype)
    return torch.tensor(value, dtype=dtype).numpy().tobytes()
