"""Operator calls: from descriptions and attributes to a call of the registry, and from buffers to a task."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from acl import _model, errors, handles
from acl._common import system
from acl._descs import DTYPES, FORMATS, DataBuffer, TensorDesc, desc_of
from acl._dump import finite
from acl._op_attr import attr_of
from ascend_sim.runtime.copies import Place
from ascend_sim.runtime.stream import TaskFailure

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.runtime.device import Device

_HOST_PLACES = (1, 2)  # values of acl.set_tensor_place_ment that mean host memory
_WITHOUT_VALUES = ("string", "int4", "uint1")
_FORMAT_NUMBERS = range(-1, 64)  # those of newer releases are taken for ND
# least and most dimensions in memory of a format that cuts tensors into fractals
_RANKS = {
    "NC1HWC0": (5, 5), "NC1HWC0_C04": (5, 5), "NDC1HWC0": (6, 6), "FRACTAL_Z": (4, 4), "FRACTAL_Z_3D": (4, 4),
    "FRACTAL_NZ": (4, 8),
}  # fmt: skip
_SMALL = 1 << 16  # bytes of an input that may decide shapes


@dataclass(frozen=True)
class Prepared:
    """``call`` with storage specs; ``outputs`` are the descriptions that the program gave."""

    call: OpCall
    outputs: tuple[TensorDesc, ...]


def descs(listed: Sequence[Any], what: str) -> list[TensorDesc] | int:
    made = []
    for index, handle in enumerate(listed):
        if not isinstance(handle, int):
            raise TypeError(f"{what}[{index}] must be int, got {type(handle).__name__}")
        desc = desc_of(handle)
        if desc is None:
            return errors.INVALID_PARAM
        made.append(desc)
    return made


def _spec(desc: TensorDesc, what: str) -> TensorSpec | int | None:
    from ascend_sim.ops.schema import TensorSpec

    if desc.dtype == -1:
        return None  # an optional input that is not there
    if desc.dtype not in DTYPES:
        return errors.bad(
            f"{what} data type", desc.dtype, f"one of {sorted(DTYPES)}", code=errors.UNSUPPORTED_DATA_TYPE
        )
    dtype = DTYPES[desc.dtype][0]
    if dtype in _WITHOUT_VALUES and system().values == "operator":
        return errors.bad(
            f"{what} data type",
            desc.dtype,
            f"another one than {dtype}: single operators of it have no values here (ASCEND_SIM_VALUES=none times them)",
            code=errors.UNSUPPORTED_DATA_TYPE,
        )
    for number in (desc.format, desc.origin_format, desc.storage_format):
        if number is not None and number not in _FORMAT_NUMBERS:
            return errors.bad(f"{what} format", number, "a format number, such as 0 (NCHW), 1 (NHWC) or 2 (ND)")
    logical = tuple(desc.origin_dims if desc.origin_dims is not None else desc.dims)
    origin = FORMATS.get(desc.origin_format if desc.origin_format is not None else desc.format, "ND")
    storage = FORMATS.get(desc.storage_format if desc.storage_format is not None else desc.format, "ND")
    stored = tuple(desc.storage_dims) if desc.storage_dims is not None else tuple(desc.dims)
    least, most = _RANKS.get(storage, (0, len(stored)))
    if not least <= len(stored) <= most and -2 not in stored:
        return errors.fail(
            errors.INVALID_PARAM,
            f"{what} is described as {storage} with the dimensions {list(stored)}: {storage} has {least} dimensions.",
            "acl.create_tensor_desc takes the dimensions in memory, acl.set_tensor_origin_shape those of the network.",
        )
    if origin == storage and len(logical) == len(stored) and -2 not in stored and -1 not in stored:
        origin, logical = _unfold(storage, stored)
    if storage in ("ND", "NCHW", "NHWC", "UNDEFINED") or storage == origin:
        return TensorSpec(stored, dtype, "ND" if origin == "UNDEFINED" else origin, const=desc.const)
    if storage == "NC1HWC0" and origin == "NHWC" and len(logical) == 4:
        origin, logical = "NCHW", (logical[0], logical[3], logical[1], logical[2])
    if not _fits(storage, stored, logical):
        return errors.fail(
            errors.INVALID_PARAM,
            f"{what} is described as {storage} {list(stored)}, which does not hold {origin} {list(logical)}.",
            "acl.set_tensor_origin_shape and acl.set_tensor_storage_shape must describe the same tensor.",
        )
    return TensorSpec(stored, dtype, storage, logical, origin, desc.const)


def _fits(storage: str, stored: tuple[int, ...], logical: tuple[int, ...]) -> bool:
    """Whether memory of such dimensions holds a tensor of these."""
    if any(d < 0 for d in (*stored, *logical)):
        return True  # some are not known yet
    if storage == "NC1HWC0":
        n, c1, h, w, c0 = stored
        return len(logical) == 4 and c0 > 0 and (n, -(-logical[1] // c0), h, w) == (logical[0], c1, *logical[2:])
    if storage == "FRACTAL_NZ":
        *lead, columns, rows, m0, k0 = stored
        if len(logical) != len(stored) - 2 or not m0 or not k0:
            return False
        return (*lead, rows, columns) == (*logical[:-2], -(-logical[-2] // m0), -(-logical[-1] // k0))
    return storage != "FRACTAL_Z" or len(logical) == 4


def _unfold(storage: str, stored: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Format and dimensions of the tensor that fills such a memory; those of the memory where they are the same."""
    if storage == "NC1HWC0":
        n, c1, h, w, c0 = stored
        return "NCHW", (n, c1 * c0, h, w)
    if storage == "FRACTAL_NZ":
        *lead, columns, rows, m0, k0 = stored
        return "ND", (*lead, rows * m0, columns * k0)
    return storage, stored


def _specs(listed: Sequence[TensorDesc], what: str) -> list[TensorSpec | None] | int:
    specs: list[TensorSpec | None] = []
    for index, desc in enumerate(listed):
        spec = _spec(desc, f"{what} {index}")
        if isinstance(spec, int):
            return spec
        if spec is not None and spec.const is not None and len(spec.const) < spec.nbytes:
            return errors.fail(
                errors.INVALID_PARAM,
                f"the constant of {what} {index} holds {len(spec.const)} B, its description says {spec.nbytes} B.",
                "acl.set_tensor_const takes the bytes of all elements.",
            )
        specs.append(spec)
    return specs


def known(op_type: str) -> int:
    """0, or 100024 explained with the operators that have a similar name."""
    from ascend_sim import ops

    ops.load(kernels=False)
    if ops.find(op_type) is not None:
        return 0
    near = difflib.get_close_matches(op_type, list(ops.operators()), 3, 0.5)
    hint = f" Similar operators: {', '.join(near)}." if near else ""
    return errors.fail(errors.OP_NOT_FOUND, f"there is no operator {op_type!r}.{hint}")


def _too_many(op_type: str, given: int) -> int:
    """0, or 100021 when more inputs are given than the operator has."""
    from ascend_sim import ops

    op = ops.find(op_type)
    names = () if op is None else op.inputs
    if not names or names[-1].endswith("*") or given <= len(names):
        return 0
    listed = ", ".join(names)
    problem = f"{op_type} has {len(names)} inputs ({listed}; ?: may be absent), {given} are given."
    return errors.fail(errors.OP_INPUT_NOT_MATCH, problem)


def infer(
    op_type: str,
    inputs: Sequence[TensorDesc],
    buffers: Sequence[DataBuffer] | None,
    attr: int,
    wait: Callable[[], None],
) -> tuple[list[TensorSpec | None], list[TensorSpec], dict[str, Any]] | int:
    """Input specs, inferred output specs and attributes; or a return code.

    An input whose value decides the output shape is read from its buffer when the program did not declare it
    constant; `wait` is called first, so that device results are there.
    """
    from ascend_sim import ops

    ret = known(op_type)
    if ret:
        return ret
    found = attr_of(attr)
    if found is None:
        return errors.INVALID_PARAM
    specs = _specs(inputs, "input")
    if isinstance(specs, int):
        return specs
    attrs = dict(found.values)
    ret = _too_many(op_type, len(specs)) if "epilogue" not in attrs else 0
    if ret:
        return ret
    try:
        return specs, ops.infer(op_type, specs, attrs), attrs
    except ops.ShapeError as error:
        first = error
    if buffers is not None:
        filled = _with_values(specs, inputs, buffers, wait)
        if filled != specs:
            try:
                return filled, ops.infer(op_type, filled, attrs), attrs
            except ops.ShapeError as error:
                first = error
    code = errors.OP_ATTR_NOT_MATCH if "attribute" in str(first) else errors.OP_INPUT_NOT_MATCH
    return errors.fail(code, f"{first}.")


def _with_values(
    specs: list[TensorSpec | None],
    inputs: Sequence[TensorDesc],
    buffers: Sequence[DataBuffer],
    wait: Callable[[], None],
) -> list[TensorSpec | None]:
    waited = False
    filled: list[TensorSpec | None] = []
    for spec, desc, buffer in zip(specs, inputs, buffers, strict=True):
        if spec is None or spec.const is not None or spec.dtype not in ("int32", "int64") or spec.nbytes > _SMALL:
            filled.append(spec)
            continue
        if not waited and desc.placement not in _HOST_PLACES:
            wait()
            waited = True
        place = _place(buffer, desc, spec.nbytes, "input", False)
        filled.append(
            spec if isinstance(place, int) else replace(spec, const=_model.view(place, spec.nbytes).tobytes())
        )
    return filled


def prepare(
    op_type: str,
    inputs: Sequence[TensorDesc],
    buffers: Sequence[DataBuffer] | None,
    outputs: Sequence[TensorDesc],
    attr: int,
    wait: Callable[[], None],
) -> Prepared | int:
    """The call, checked against the output descriptions."""
    from ascend_sim.ops.schema import OpCall, freeze_attrs

    inferred = infer(op_type, inputs, buffers, attr, wait)
    if isinstance(inferred, int):
        return inferred
    in_specs, out_specs, attrs = inferred
    if len(outputs) != len(out_specs):
        return errors.fail(
            errors.OP_OUTPUT_NOT_MATCH,
            f"{op_type} has {len(out_specs)} outputs, {len(outputs)} descriptions are given.",
        )
    given = _specs(outputs, "output")
    if isinstance(given, int):
        return given
    chosen = []
    for index, (spec, wanted) in enumerate(zip(given, out_specs, strict=True)):
        scalar = spec is not None and spec.logical_shape == (1,) and wanted.logical_shape == ()
        if spec is None or any(d < 0 for d in spec.shape) or (scalar and spec.dtype == wanted.dtype):
            chosen.append(wanted)
            continue
        if spec.dtype != wanted.dtype or spec.logical_shape != wanted.logical_shape:
            return errors.fail(
                errors.OP_OUTPUT_NOT_MATCH,
                f"output {index} of {op_type} is described as {spec.dtype} {list(spec.logical_shape)}, "
                f"its inputs and attributes give {wanted.dtype} {list(wanted.logical_shape)}.",
            )
        chosen.append(spec)
    call = OpCall(op_type, tuple(in_specs), tuple(chosen), freeze_attrs(attrs))
    return Prepared(call, tuple(outputs))


def buffers(listed: Sequence[Any], count: int, what: str) -> list[DataBuffer] | int:
    """The data buffers behind a list of handles."""
    if len(listed) != count:
        return errors.fail(
            errors.INVALID_PARAM, f"{len(listed)} {what} buffers are given for {count} {what} descriptions."
        )
    made = []
    for index, handle in enumerate(listed):
        if not isinstance(handle, int):
            raise TypeError(f"{what}s[{index}] must be int, got {type(handle).__name__}")
        found = handles.get(handle, DataBuffer)
        if found is None:
            return errors.fail(errors.INVALID_PARAM, handles.story(handle, "DataBuffer", "acl.create_data_buffer"))
        made.append(found)
    return made


def _place(buffer: DataBuffer, desc: TensorDesc | None, nbytes: int, what: str, write: bool) -> Place | int:
    if buffer.size < nbytes:
        return errors.fail(
            errors.INVALID_PARAM, f"the buffer of {what} holds {buffer.size} B, its description says {nbytes} B."
        )
    if desc is not None and desc.placement in _HOST_PLACES:
        from ascend_sim.runtime.copies import BadAddress, locate

        try:
            return locate(system(), buffer.address, nbytes, write, what)
        except BadAddress as error:
            return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    return _model.where(buffer.address, nbytes, what, write)


@dataclass(frozen=True)
class Bound:
    """A call with the memory of its tensors (None: absent, empty or constant)."""

    call: OpCall
    inputs: tuple[Place | None, ...]
    outputs: tuple[Place | None, ...]

    def addresses(self) -> tuple[list[int], list[int]]:
        return [p.address if p else 0 for p in self.inputs], [p.address if p else 0 for p in self.outputs]


def bind(
    prepared: Prepared, inputs: Sequence[TensorDesc], ins: Sequence[DataBuffer], outs: Sequence[DataBuffer]
) -> Bound | int:
    call = prepared.call
    sources: list[Place | None] = []
    for index, (spec, desc, buffer) in enumerate(zip(call.inputs, inputs, ins, strict=True)):
        if spec is None or spec.nbytes == 0 or desc.const is not None:
            sources.append(None)
            continue
        place = _place(buffer, desc, spec.nbytes, f"input {index} of {call.type}", False)
        if isinstance(place, int):
            return place
        sources.append(place)
    targets: list[Place | None] = []
    for index, (spec, buffer) in enumerate(zip(call.outputs, outs, strict=True)):
        if spec.nbytes == 0:
            targets.append(None)
            continue
        place = _place(buffer, None, spec.nbytes, f"output {index} of {call.type}", True)
        if isinstance(place, int):
            return place
        targets.append(place)
    return Bound(call, tuple(sources), tuple(targets))


def compute(bound: Bound, device: Device, described: Sequence[TensorDesc] = ()) -> None:
    """Read the inputs, run the operator, write the outputs (when its task ends).

    An output that became smaller than its description (NonZero, ...) is written as it is, and ``described`` says how
    large it became.
    """
    for place in (*bound.inputs, *bound.outputs):
        if place is not None and place.block is not None and not place.block.alive:
            raise TaskFailure("aicore", f"{bound.call.type}: a buffer was freed before the operator ran")
    mode = system().values
    if mode == "none" or (mode == "instruction" and _by_instruction(bound)):
        return
    import numpy as np

    from ascend_sim import ops
    from ascend_sim.graph.evaluate import logical
    from ascend_sim.graph.storage import from_storage, to_storage
    from ascend_sim.ops.schema import OpCall

    call = bound.call
    arrays = [
        None if spec is None else from_storage(_bytes(place, spec), spec)
        for spec, place in zip(call.inputs, bound.inputs, strict=True)
    ]
    plain = OpCall(
        call.type,
        tuple(None if s is None else logical(s) for s in call.inputs),
        tuple(logical(s) for s in call.outputs),
        call.attrs,
    )
    try:
        with np.errstate(all="ignore"):
            results = ops.values(plain, arrays)
    except ValueError as error:  # attributes and types that no rule of the operator refused
        raise TaskFailure("aicore", str(error)) from error
    if device.watches_overflow and not device.overflowed:
        device.overflowed = _overflowed(arrays, results)
    for index, (place, spec, result) in enumerate(zip(bound.outputs, call.outputs, results, strict=True)):
        if result.size < spec.size and spec.shape == spec.logical_shape:
            stored = to_storage(result, replace(spec, shape=result.shape))
            if described:
                described[index].dims = list(result.shape)
        else:
            stored = to_storage(result, spec)
        if place is not None:
            _model.write(place, spec.nbytes, stored)


def _overflowed(inputs: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether finite inputs gave infinities or NaN."""
    return all(map(finite, inputs)) and not all(map(finite, results))


def _bytes(place: Place | None, spec: TensorSpec) -> Any:
    if spec.const is not None:
        return spec.const
    return b"" if place is None else _model.view(place, spec.nbytes).data


def _by_instruction(bound: Bound) -> bool:
    """Run the operator's kernels on the raw bytes, where it has some; False when it has none."""
    import numpy as np

    from ascend_sim import ops
    from ascend_sim.ops.registry import NoKernel, find_kernel

    ops.load()
    plan = find_kernel(bound.call.type)
    if plan is None:
        return False
    try:
        launches = plan(bound.call, system().soc)
    except NoKernel:
        return False
    scratch: dict[int, Any] = {}
    for launch in launches:
        raw = []
        for (role, index), gm in zip(launch.args, launch.trace().args, strict=True):
            if role == "workspace":
                if index not in scratch or scratch[index].size < gm.nbytes:
                    scratch[index] = np.zeros(gm.nbytes, np.uint8)
                raw.append(scratch[index])
                continue
            specs = bound.call.inputs if role == "in" else bound.call.outputs
            place = (bound.inputs if role == "in" else bound.outputs)[index]
            spec = specs[index]
            if place is not None and spec is not None:
                raw.append(_model.view(place, spec.nbytes))
            else:
                raw.append(np.frombuffer(bytearray(spec.const or b"") if spec is not None else bytearray(), np.uint8))
        launch.execute(raw)
    return True
