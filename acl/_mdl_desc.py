"""acl.mdl: datasets and model descriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acl import _model, errors, handles
from acl._api import api
from acl._descs import DTYPE_NUMBERS, FORMAT_NUMBERS, DataBuffer, TensorDesc

if TYPE_CHECKING:
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.graph.om.inout import IoDesc

NAME_LIMIT = 4096
_FUSED_FROM = "_datadump_original_op_names"


@dataclass
class Dataset:
    """Handles of data buffers in order; owns none of them. ``descs`` are tensor descriptions by index;
    ``dynamic`` what set_dynamic_* chose, by input index."""

    buffers: list[int] = field(default_factory=list)
    descs: dict[int, int] = field(default_factory=dict)
    dynamic: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class ModelDesc:
    """``loaded`` is None until a model was described."""

    loaded: LoadedModel | None = None
    model: _model.Model | None = None  # None for a model that is only described

    @property
    def inputs(self) -> tuple[IoDesc, ...]:
        return () if self.loaded is None else self.loaded.inputs

    @property
    def outputs(self) -> tuple[IoDesc, ...]:
        return () if self.loaded is None else self.loaded.outputs


def dataset_of(handle: int) -> Dataset | None:
    found = handles.get(handle, Dataset)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "Dataset", "acl.mdl.create_dataset"))
    return found


def _desc(handle: int) -> ModelDesc | None:
    found = handles.get(handle, ModelDesc)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "ModelDesc", "acl.mdl.create_desc"))
    return found


# -- datasets ----------------------------------------------------------------------------------------------


@api("acl.mdl.create_dataset", "aclmdlCreateDataset")
def create_dataset() -> int:
    return handles.new(Dataset())


@api("acl.mdl.destroy_dataset", "aclmdlDestroyDataset")
def destroy_dataset(dataset_ptr: int, /) -> int:
    found = dataset_of(dataset_ptr)
    if found is None:
        return errors.INVALID_PARAM
    for desc in found.descs.values():
        handles.drop(desc)
    handles.drop(dataset_ptr)
    return 0


@api("acl.mdl.add_dataset_buffer", "aclmdlAddDatasetBuffer")
def add_dataset_buffer(dataset_ptr: int, buffer_ptr: int, /) -> tuple[int, int]:
    found = dataset_of(dataset_ptr)
    if found is None:
        return dataset_ptr, errors.INVALID_PARAM
    if handles.get(buffer_ptr, DataBuffer) is None:
        return dataset_ptr, errors.fail(
            errors.INVALID_PARAM, handles.story(buffer_ptr, "DataBuffer", "acl.create_data_buffer")
        )
    found.buffers.append(buffer_ptr)
    return dataset_ptr, 0


@api("acl.mdl.get_dataset_buffer", "aclmdlGetDatasetBuffer")
def get_dataset_buffer(dataset_ptr: int, index: int, /) -> int:
    found = dataset_of(dataset_ptr)
    if found is None:
        return 0
    if not 0 <= index < len(found.buffers):
        errors.bad("index", index, f"below {len(found.buffers)}, the number of buffers in the dataset")
        return 0
    return found.buffers[index]


@api("acl.mdl.get_dataset_num_buffers", "aclmdlGetDatasetNumBuffers")
def get_dataset_num_buffers(dataset_ptr: int, /) -> int:
    found = dataset_of(dataset_ptr)
    return 0 if found is None else len(found.buffers)


@api("acl.mdl.set_dataset_tensor_desc", "aclmdlSetDatasetTensorDesc")
def set_dataset_tensor_desc(dataset_ptr: int, tensor_desc: int, index: int, /) -> tuple[int, int]:
    found = dataset_of(dataset_ptr)
    if found is None:
        return dataset_ptr, errors.INVALID_PARAM
    if not 0 <= index < len(found.buffers):
        return dataset_ptr, errors.bad("index", index, f"below {len(found.buffers)}, the number of buffers")
    desc = handles.get(tensor_desc, TensorDesc)
    if desc is None:
        return dataset_ptr, errors.fail(
            errors.INVALID_PARAM, handles.story(tensor_desc, "TensorDesc", "acl.create_tensor_desc")
        )
    copy = TensorDesc(**{**vars(desc), "dims": list(desc.dims)})
    found.descs[index] = handles.new(copy)
    return dataset_ptr, 0


@api("acl.mdl.get_dataset_tensor_desc", "aclmdlGetDatasetTensorDesc")
def get_dataset_tensor_desc(dataset_ptr: int, index: int, /) -> int:
    found = dataset_of(dataset_ptr)
    if found is None:
        return 0
    if not 0 <= index < len(found.buffers):
        errors.bad("index", index, f"below {len(found.buffers)}, the number of buffers")
        return 0
    if index not in found.descs:
        errors.fail(errors.INVALID_PARAM, f"no tensor description was set for buffer {index}.")
        return 0
    return found.descs[index]


# -- descriptions ------------------------------------------------------------------------------------------


@api("acl.mdl.create_desc", "aclmdlCreateDesc")
def create_desc() -> int:
    return handles.new(ModelDesc())


@api("acl.mdl.destroy_desc", "aclmdlDestroyDesc")
def destroy_desc(desc_ptr: int, /) -> int:
    if _desc(desc_ptr) is None:
        return errors.INVALID_PARAM
    handles.drop(desc_ptr)
    return 0


@api("acl.mdl.get_desc", "aclmdlGetDesc")
def get_desc(desc_ptr: int, model_id: int, /) -> int:
    desc = _desc(desc_ptr)
    if desc is None:
        return errors.INVALID_PARAM
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    desc.loaded, desc.model = model.loaded, model
    return 0


def fill_desc(desc_ptr: int, data: bytes, path: str) -> int:
    """Describe a model that is not loaded."""
    desc = _desc(desc_ptr)
    if desc is None:
        return errors.INVALID_PARAM
    loaded = _model.parse(data, path)
    if isinstance(loaded, int):
        return loaded
    desc.loaded, desc.model = loaded, None
    return 0


@api("acl.mdl.get_num_inputs", "aclmdlGetNumInputs")
def get_num_inputs(desc_ptr: int, /) -> int:
    desc = _desc(desc_ptr)
    return 0 if desc is None else len(desc.inputs)


@api("acl.mdl.get_num_outputs", "aclmdlGetNumOutputs")
def get_num_outputs(desc_ptr: int, /) -> int:
    desc = _desc(desc_ptr)
    return 0 if desc is None else len(desc.outputs)


def _port(handle: int, index: int, output: bool) -> IoDesc | None:
    desc = _desc(handle)
    if desc is None:
        return None
    ports = desc.outputs if output else desc.inputs
    if 0 <= index < len(ports):
        return ports[index]
    what = "outputs" if output else "inputs"
    empty = "acl.mdl.get_desc(desc, model_id) fills a description." if not desc.inputs and not desc.outputs else ""
    errors.bad("index", index, f"below {len(ports)}, the number of {what} of the model", empty)
    return None


@api("acl.mdl.get_input_size_by_index", "aclmdlGetInputSizeByIndex")
def get_input_size_by_index(desc_ptr: int, index: int, /) -> int:
    port = _port(desc_ptr, index, False)
    return 0 if port is None else port.size


@api("acl.mdl.get_output_size_by_index", "aclmdlGetOutputSizeByIndex")
def get_output_size_by_index(desc_ptr: int, index: int, /) -> int:
    port = _port(desc_ptr, index, True)
    return 0 if port is None else port.size


def dims_dict(name: str, dims: tuple[int, ...] | list[int]) -> dict[str, Any]:
    return {"name": name, "dimCount": len(dims), "dims": list(dims)}


def _dims(desc_ptr: int, index: int, output: bool) -> tuple[dict[str, Any], int]:
    port = _port(desc_ptr, index, output)
    return ({}, errors.INVALID_PARAM) if port is None else (dims_dict(port.name, port.dims), 0)


@api("acl.mdl.get_input_dims", "aclmdlGetInputDims")
def get_input_dims(desc_ptr: int, index: int, /) -> tuple[dict[str, Any], int]:
    return _dims(desc_ptr, index, False)


@api("acl.mdl.get_input_dims_v2", "aclmdlGetInputDimsV2")
def get_input_dims_v2(desc_ptr: int, index: int, /) -> tuple[dict[str, Any], int]:
    port = _port(desc_ptr, index, False)
    if port is None:
        return {}, errors.INVALID_PARAM
    return dims_dict(port.name, port.dims_v2 or port.dims), 0


@api("acl.mdl.get_output_dims", "aclmdlGetOutputDims")
def get_output_dims(desc_ptr: int, index: int, /) -> tuple[dict[str, Any], int]:
    """With gears: the dimensions of the largest one."""
    port, desc = _port(desc_ptr, index, True), _desc(desc_ptr)
    if port is None or desc is None:
        return {}, errors.INVALID_PARAM
    loaded = desc.loaded
    if loaded is not None and loaded.executable and loaded.kind and loaded.kind != "shape":
        port = loaded.ports(loaded.default_variant)[1][index]
    return dims_dict(port.name, port.dims), 0


@api("acl.mdl.get_cur_output_dims", "aclmdlGetCurOutputDims")
def get_cur_output_dims(desc_ptr: int, index: int, /) -> tuple[dict[str, Any], int]:
    port = _port(desc_ptr, index, True)
    desc = _desc(desc_ptr)
    if port is None or desc is None or desc.loaded is None:
        return {}, errors.INVALID_PARAM
    loaded = desc.loaded
    if loaded.kind == "shape":
        return {}, errors.fail(
            errors.UNSUPPORTED_API,
            "the model has open shapes: they come with every execution.",
            "acl.mdl.get_dataset_tensor_desc(output_dataset, index) gives the shape of an output after it.",
        )
    if loaded.kind:
        variant = desc.model.variant if desc.model is not None else loaded.default_variant
        port = loaded.ports(variant)[1][index]
    return dims_dict(port.name, port.dims), 0


@api("acl.mdl.get_input_dims_range", "aclmdlGetInputDimsRange")
def get_input_dims_range(desc_ptr: int, index: int, /) -> tuple[dict[str, Any], int]:
    port = _port(desc_ptr, index, False)
    if port is None:
        return {}, errors.INVALID_PARAM
    ranges = [list(r) for r in port.ranges] or [[d, d] for d in port.dims]
    return {"rangeCount": len(ranges), "range": ranges}, 0


@api("acl.mdl.get_input_name_by_index", "aclmdlGetInputNameByIndex")
def get_input_name_by_index(desc_ptr: int, index: int, /) -> str:
    port = _port(desc_ptr, index, False)
    return "" if port is None else port.name


@api("acl.mdl.get_output_name_by_index", "aclmdlGetOutputNameByIndex")
def get_output_name_by_index(desc_ptr: int, index: int, /) -> str:
    port = _port(desc_ptr, index, True)
    return "" if port is None else port.name


@api("acl.mdl.get_input_format", "aclmdlGetInputFormat")
def get_input_format(desc_ptr: int, index: int, /) -> int:
    port = _port(desc_ptr, index, False)
    return -1 if port is None else FORMAT_NUMBERS.get(port.format, -1)


@api("acl.mdl.get_output_format", "aclmdlGetOutputFormat")
def get_output_format(desc_ptr: int, index: int, /) -> int:
    port = _port(desc_ptr, index, True)
    return -1 if port is None else FORMAT_NUMBERS.get(port.format, -1)


@api("acl.mdl.get_input_data_type", "aclmdlGetInputDataType")
def get_input_data_type(desc_ptr: int, index: int, /) -> int:
    port = _port(desc_ptr, index, False)
    return -1 if port is None else DTYPE_NUMBERS.get(port.dtype, -1)


@api("acl.mdl.get_output_data_type", "aclmdlGetOutputDataType")
def get_output_data_type(desc_ptr: int, index: int, /) -> int:
    port = _port(desc_ptr, index, True)
    return -1 if port is None else DTYPE_NUMBERS.get(port.dtype, -1)


def _index(desc_ptr: int, name: str, output: bool) -> tuple[int, int]:
    desc = _desc(desc_ptr)
    if desc is None:
        return 0, errors.INVALID_PARAM
    names = [p.name for p in (desc.outputs if output else desc.inputs)]
    if name in names:
        return names.index(name), 0
    return 0, errors.bad("name", name, f"one of {', '.join(names)}")


@api("acl.mdl.get_input_index_by_name", "aclmdlGetInputIndexByName")
def get_input_index_by_name(desc_ptr: int, name: str, /) -> tuple[int, int]:
    return _index(desc_ptr, name, False)


@api("acl.mdl.get_output_index_by_name", "aclmdlGetOutputIndexByName")
def get_output_index_by_name(desc_ptr: int, name: str, /) -> tuple[int, int]:
    return _index(desc_ptr, name, True)


@api("acl.mdl.get_tensor_real_name", "aclmdlGetTensorRealName")
def get_tensor_real_name(desc_ptr: int, name: str, /) -> str | None:
    desc = _desc(desc_ptr)
    if desc is None:
        return None
    return name if name in {p.name for p in (*desc.inputs, *desc.outputs)} else None


@api("acl.mdl.get_op_attr", "aclmdlGetOpAttr")
def get_op_attr(desc_ptr: int, op_name: str, attr: str, /) -> str:
    """``_datadump_original_op_names``: the operators that were fused into this one, as ``[length]name...``."""
    desc = _desc(desc_ptr)
    if desc is None or desc.loaded is None or not desc.loaded.executable or attr != _FUSED_FROM:
        return ""
    for node in desc.loaded.graph.nodes:
        if node.name == op_name:
            return "".join(f"[{len(name)}]{name}" for name in node.origin)
    return ""


# -- gears of dynamic models -------------------------------------------------------------------------------


def _gears(desc: ModelDesc, kind: str) -> list[Any]:
    return list(getattr(desc.loaded, kind, ()) or ())


@api("acl.mdl.get_dynamic_batch", "aclmdlGetDynamicBatch")
def get_dynamic_batch(desc_ptr: int, /) -> tuple[dict[str, Any], int]:
    desc = _desc(desc_ptr)
    if desc is None:
        return {}, errors.INVALID_PARAM
    batches = _gears(desc, "dynamic_batch")
    return {"batchCount": len(batches), "batch": batches}, 0


@api("acl.mdl.get_dynamic_hw", "aclmdlGetDynamicHW")
def get_dynamic_hw(desc_ptr: int, index: int, /) -> tuple[dict[str, Any], int]:
    desc = _desc(desc_ptr)
    if desc is None:
        return {}, errors.INVALID_PARAM
    sizes = [list(hw) for hw in _gears(desc, "dynamic_hw")]
    return {"hwCount": len(sizes), "hw": sizes}, 0


@api("acl.mdl.get_input_dynamic_gear_count", "aclmdlGetInputDynamicGearCount")
def get_input_dynamic_gear_count(desc_ptr: int, index: int, /) -> tuple[int, int]:
    desc = _desc(desc_ptr)
    if desc is None:
        return 0, errors.INVALID_PARAM
    if index != -1:
        return 0, errors.bad("index", index, "-1")
    return len(_gears(desc, "dynamic_dims")), 0


@api("acl.mdl.get_input_dynamic_dims", "aclmdlGetInputDynamicDims")
def get_input_dynamic_dims(desc_ptr: int, index: int, gear_count: int, /) -> tuple[list[dict[str, Any]], int]:
    desc = _desc(desc_ptr)
    if desc is None:
        return [], errors.INVALID_PARAM
    if not 0 <= gear_count <= NAME_LIMIT:
        return [], errors.bad("gear_count", gear_count, f"0..{NAME_LIMIT}")
    if index != -1:
        return [], errors.bad("index", index, "-1")
    gears = _gears(desc, "dynamic_dims")
    if gear_count < len(gears):
        return [], errors.bad("gear_count", gear_count, f"at least {len(gears)}, the number of gears")
    return [dims_dict("", list(g)) for g in gears], 0
