"""acl.mdl: which of a model's shapes an execution uses: a gear that was chosen, or shapes described in the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _model, errors, handles
from acl._api import api
from acl._descs import DataBuffer, TensorDesc
from acl._mdl_desc import Dataset, dataset_of
from acl._model import Model
from ascend_sim.runtime.memory import OutOfMemory

if TYPE_CHECKING:
    from ascend_sim.graph.om.inout import IoDesc
    from ascend_sim.runtime.device import Device

CHOICE = "ascend_mbatch_shape_data"  # the input that carries a gear
_SETTERS = {"batch": "set_dynamic_batch_size", "image": "set_dynamic_hw_size", "dims": "set_input_dynamic_dims"}


def variant_of(model: Model, dataset: Dataset, device: Device) -> int | None:
    """The index of the compiled variant that this execution runs; None (and the cause stored, code in
    `acl.errors.last`) when nothing says which."""
    loaded = model.loaded
    if not loaded.kind:
        return 0
    if loaded.kind == "shape":
        return _open_shapes(model, dataset, device)
    chosen = next(reversed(dataset.dynamic.values()), None)
    if chosen is None:
        chosen = _from_buffer(model, dataset)
    if chosen is None:
        listed = "; ".join(",".join(map(str, g)) for g in loaded.gears)
        errors.fail(
            errors.GE_PARAM,
            f"model {model.id} has gears {listed}, but none was chosen for this dataset.",
            f"acl.mdl.{_SETTERS[loaded.kind]} chooses one.",
        )
        return None
    return loaded.variant_for_gear(*chosen)


def _from_buffer(model: Model, dataset: Dataset) -> list[int] | None:
    """The gear that an earlier choice left in the buffer of the extra input."""
    names = [p.name for p in model.inputs]
    index = names.index(CHOICE)
    if index >= len(dataset.buffers):
        return None
    buffer = handles.get(dataset.buffers[index], DataBuffer)
    port = model.inputs[index]
    if buffer is None or buffer.size < port.size:
        return None
    place = _model.where(buffer.address, port.size, CHOICE, False)
    if isinstance(place, int):
        return None
    found = [int(v) for v in _model.read(place, port.size, port.dims, port.dtype)]
    known = tuple(found) in model.loaded.gears or tuple(found) in model.loaded.dynamic_dims
    return found if known else None


def _open_shapes(model: Model, dataset: Dataset, device: Device) -> int | None:
    from ascend_sim.graph.errors import AtcError, OmError

    shapes = []
    for index, port in enumerate(model.inputs):
        desc = handles.get(dataset.descs.get(index, 0), TensorDesc)
        if desc is None and -1 in port.dims:
            errors.fail(
                errors.GE_PARAM,
                f"input {index} ({port.name!r}) of model {model.id} has the open shape {list(port.dims)}, and the "
                "dataset does not say which shape it is.",
                f"acl.mdl.set_dataset_tensor_desc(dataset, desc, {index}) does.",
            )
            return None
        shapes.append(tuple(port.dims if desc is None else desc.dims))
    try:
        return model.loaded.variant_for_shapes(shapes, device)
    except (OmError, AtcError) as error:
        errors.fail(getattr(error, "ret", errors.GE_PARAM), f"{error}.")
    except OutOfMemory as error:
        errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")
    return None


# -- choosing a gear ---------------------------------------------------------------------------------------


def _choose(model_id: int, dataset: int, index: int, kind: str, values: list[int]) -> int:
    from ascend_sim.graph.errors import OmError

    found = dataset_of(dataset)
    if found is None:
        return errors.INVALID_PARAM
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    if not 0 <= index < len(found.buffers):
        return errors.bad("index", index, f"below {len(found.buffers)}, the number of buffers in the dataset")
    loaded = model.loaded
    if loaded.kind != kind:
        have = "it was converted with a fixed shape"
        if loaded.kind:
            setter = _SETTERS.get(loaded.kind, "set_dataset_tensor_desc")
            have = f"its shapes are chosen with acl.mdl.{setter}"
        return errors.fail(errors.GE_BATCH_NAME, f"model {model_id} takes no such choice: {have}.")
    names = [p.name for p in model.inputs]
    wanted = names.index(CHOICE)
    if index != wanted:
        return errors.bad(
            "index", index, f"{wanted}, the input {CHOICE!r}", "acl.mdl.get_input_index_by_name finds it."
        )
    try:
        variant = loaded.variant_for_gear(*values)
    except OmError as error:
        return errors.fail(errors.GE_BATCH_NAME, f"{error}.")
    ret = _write(found, index, model.inputs[wanted], list(loaded.gears[variant]))
    if ret == 0:
        found.dynamic[index] = values
        model.variant = variant
    return ret


def _write(dataset: Dataset, index: int, port: IoDesc, values: list[int]) -> int:
    """Put the choice where the model reads it."""
    import numpy as np

    buffer = handles.get(dataset.buffers[index], DataBuffer)
    if buffer is None:
        story = handles.story(dataset.buffers[index], "DataBuffer", "acl.create_data_buffer")
        return errors.fail(errors.INVALID_PARAM, story)
    if buffer.size < port.size:
        return errors.fail(
            errors.GE_INPUT_LENGTH,
            f"the buffer of input {index} ({port.name!r}) holds {buffer.size} B, the choice takes {port.size} B.",
            "acl.mdl.get_input_size_by_index gives the size.",
        )
    place = _model.where(buffer.address, port.size, f"input {index} ({port.name!r})", True)
    if isinstance(place, int):
        return place
    _model.write(place, port.size, np.asarray(values, port.dtype))
    return 0


@api("acl.mdl.set_dynamic_batch_size", "aclmdlSetDynamicBatchSize")
def set_dynamic_batch_size(model_id: int, dataset: int, index: int, batch: int, /) -> int:
    if batch == 0:
        return errors.bad("batch", batch, "at least 1")
    return _choose(model_id, dataset, index, "batch", [batch])


@api("acl.mdl.set_dynamic_hw_size", "aclmdlSetDynamicHWSize")
def set_dynamic_hw_size(model_id: int, dataset: int, index: int, height: int, width: int, /) -> int:
    if height == 0 or width == 0:
        return errors.bad("height, width", (height, width), "both at least 1")
    return _choose(model_id, dataset, index, "image", [height, width])


@api("acl.mdl.set_input_dynamic_dims", "aclmdlSetInputDynamicDims")
def set_input_dynamic_dims(model_id: int, dataset: int, index: int, dims: dict[str, Any], /) -> int:
    count, values = dims.get("dimCount"), dims.get("dims")
    if not isinstance(count, int) or not isinstance(values, list):
        return errors.bad("dims", dims, 'a dict with "dimCount" and "dims"')
    if not 0 <= count <= len(values):
        return errors.bad("dims dimCount", count, f"at most {len(values)}, the number of dims")
    given = []
    for value in values[:count]:
        if not isinstance(value, int):
            raise TypeError(f"dims must hold int, got {type(value).__name__}")
        given.append(value)
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    if model.loaded.kind in ("batch", "image"):  # all dimensions name a gear of these, too
        for variant, gear in enumerate(model.loaded.gears):
            ports = [p for p in model.ports(variant)[0] if p.name != CHOICE]
            if given == [d for port in ports for d in port.dims]:
                return _choose(model_id, dataset, index, model.loaded.kind, list(gear))
        listed = "; ".join(",".join(map(str, g)) for g in model.loaded.gears)
        return errors.fail(errors.GE_BATCH_NAME, f"{given} are the dimensions of no gear; the gears are {listed}.")
    return _choose(model_id, dataset, index, "dims", given)
