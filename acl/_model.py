"""Loaded models: what an id stands for, and how the executor's model becomes a task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from acl import errors
from acl._common import system
from ascend_sim.runtime.copies import BadAddress, Place, locate
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.memory import OutOfMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from acl._dump import Config
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.graph.om.inout import IoDesc
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.stream import Stream

SLACK = 64  # a buffer may be this much smaller than the model says ("hicann/ge" executor)

_REMEMBERED = 1024

_ids = itertools.count(1)
_models: dict[int, Model] = {}
_unloaded: dict[int, str] = {}


@dataclass
class Model:
    """``loaded`` is the executor's model; ``stream`` the private one that synchronous executions run on."""

    id: int
    path: str
    loaded: LoadedModel
    context: Context
    stream: Stream
    bundle: int = 0
    dump: Config | None = None  # what is written of its operators
    variant: int = 0  # what was chosen last, else the largest gear
    described: dict[int, tuple[tuple[IoDesc, ...], tuple[IoDesc, ...]]] = field(default_factory=dict)

    def ports(self, variant: int) -> tuple[tuple[IoDesc, ...], tuple[IoDesc, ...]]:
        """Inputs and outputs with the shapes of a variant."""
        if not self.loaded.executable:
            return self.loaded.inputs, self.loaded.outputs
        found = self.described.get(variant)
        if found is None:
            found = self.described[variant] = self.loaded.ports(variant)
        return found

    @property
    def inputs(self) -> tuple[IoDesc, ...]:
        return self.loaded.inputs

    @property
    def outputs(self) -> tuple[IoDesc, ...]:
        return self.loaded.outputs


def find(model_id: int) -> Model | None:
    """The model with this id; None (and 145003 explained) when there is none."""
    model = _models.get(model_id)
    if model is None:
        known = ", ".join(f"{i} ({m.path})" for i, m in _models.items()) or "none"
        gone = f"model {model_id} ({_unloaded[model_id]}) was unloaded." if model_id in _unloaded else ""
        errors.fail(errors.GE_MODEL_ID, f"there is no model {model_id}; loaded models: {known}.", gone)
    return model


def parse(data: bytes | memoryview, path: str) -> LoadedModel | int:
    """The executor's model of these bytes, or a return code."""
    from ascend_sim.graph.errors import OmError
    from ascend_sim.graph.executor import LoadedModel

    try:
        return LoadedModel.from_bytes(data)
    except OmError as error:
        return errors.fail(error.ret, f"{path!r} cannot be loaded: {error}.")


def load(
    data: bytes | memoryview,
    path: str,
    context: Context,
    work: tuple[int, int] = (0, 0),
    weight: tuple[int, int] = (0, 0),
    priority: int = 0,
) -> tuple[int, int]:
    """(model id, ret). ``work`` and ``weight`` are addresses and sizes of memory that the program gives."""
    loaded = parse(data, path)
    if isinstance(loaded, int):
        return 0, loaded
    from acl._mdl_dump import chosen
    from ascend_sim.graph.errors import OmError

    device = context.device
    try:
        loaded.check_soc(device.soc)
        for (address, size), needed, what in (
            (work, loaded.work_size, "work area"),
            (weight, loaded.weight_size, "weights"),
        ):
            if address and size < needed:
                problem = f"{path!r} needs {needed} B for its {what}, {size} B are given."
                return 0, errors.fail(errors.GE_PARAM, problem, "acl.mdl.query_size tells both sizes.")
        loaded.place(device, work[0], weight[0])
    except OmError as error:
        return 0, errors.fail(error.ret, f"{path!r} cannot be loaded: {error}.")
    except OutOfMemory as error:
        return 0, errors.fail(errors.RT_MEMORY_ALLOCATION, f"loading {path!r}: {error}.")
    model = Model(next(_ids), path, loaded, context, device.add_stream(context, priority))
    model.dump = chosen()
    model.variant = loaded.default_variant if loaded.executable else 0
    _models[model.id] = model
    if loaded.weight_size:
        host_thread().now += device.link.ps("h2d", loaded.weight_size, pinned=False)
    return model.id, 0


def unload(model: Model) -> None:
    model.stream.drain()
    model.stream.close()
    model.loaded.unplace(model.context.device)
    _models.pop(model.id, None)
    _unloaded[model.id] = model.path
    if len(_unloaded) > _REMEMBERED:
        del _unloaded[next(iter(_unloaded))]


def loaded_models() -> dict[int, Model]:
    return dict(_models)


def forget_all() -> None:
    """Tests: start over."""
    _models.clear()
    _unloaded.clear()


# -- values ------------------------------------------------------------------------------------------------


def view(place: Place, nbytes: int) -> NDArray[Any]:
    """The bytes of a place as a writable uint8 array."""
    if place.block is not None and place.block.arena.contains(place.address):
        return place.block.arena.view(place.address, nbytes)
    import ctypes

    import numpy as np

    foreign = memoryview((ctypes.c_ubyte * nbytes).from_address(place.address))
    return np.frombuffer(foreign, np.uint8)


def read(place: Place, available: int, dims: Sequence[int], dtype: str) -> NDArray[Any]:
    """The tensor at ``place``; a buffer that is a little short reads as zero behind its end."""
    import numpy as np

    from ascend_sim.ops import strings
    from ascend_sim.ops.dtypes import numpy_dtype

    kind = numpy_dtype(dtype)
    text = dtype == "string"
    nbytes = prod(dims) * (strings.ROOM if text else kind.itemsize)
    if available >= nbytes:
        raw = view(place, nbytes)
    else:
        raw = np.zeros(nbytes, np.uint8)
        raw[:available] = view(place, available)
    if text:
        return strings.unpack(raw, dims)
    return raw.view(kind).reshape(tuple(dims))


def write(place: Place, available: int, array: NDArray[Any]) -> None:
    """Store a result; what does not fit into a buffer that is a little short is lost."""
    import numpy as np

    from ascend_sim.ops import strings

    if array.dtype == np.object_:
        raw = strings.pack(array, available)
    else:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    n = min(available, raw.size)
    view(place, n)[:] = raw[:n]


def where(address: int, size: int, what: str, write_to: bool) -> Place | int:
    """The place of a user's buffer, or a return code."""
    try:
        place = locate(system(), address, size, write_to, what)
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    if place.device < 0 and system().soc.chip.run_mode == 1:
        return errors.fail(
            errors.RT_PARAM_INVALID,
            f"{what} {address:#x} is host memory: the device needs memory of acl.rt.malloc.",
            "acl.rt.memcpy with kind 1 brings data to the device.",
        )
    return place
