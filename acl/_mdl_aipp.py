"""acl.mdl: image preprocessing in front of a model: parameters of dynamic mode, and what a model has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from acl import _model, errors, handles
from acl._api import api
from acl._descs import DTYPE_NUMBERS, FORMAT_NUMBERS, DataBuffer
from acl._mdl_desc import dataset_of

if TYPE_CHECKING:
    from ascend_sim.graph.aipp import AippPort
    from ascend_sim.graph.aipp_config import AippConfig

_NO_INDEX = 0xFFFFFFFF
_WITHOUT, _STATIC, _DYNAMIC, _PARAMETERS = range(4)  # how an input is prepared ("hicann/runtime", aclmdlInputAippType)
_SIDE = 4096
_BORDER = 32
_DYNAMIC_FORMATS = (1, 2, 3, 4)
_HEAD_BYTES, _IMAGE_BYTES = 64, 96  # of the parameters, for the batch and for each image


@dataclass
class Aipp:
    """``common`` holds for the batch, ``images`` for one image each; names are those of the configuration file."""

    batch: int
    common: dict[str, Any] = field(default_factory=dict)
    images: list[dict[str, Any]] = field(default_factory=list)

    def configs(self) -> list[AippConfig]:
        from ascend_sim.graph.aipp_config import DYNAMIC, AippConfig

        plain = AippConfig(
            aipp_mode=DYNAMIC, matrix=(0,) * 9, input_bias=(0, 0, 0), output_bias=(0, 0, 0), var_reci=(1.0,) * 4
        )
        return [replace(plain, **self.common, **image) for image in self.images]


def _aipp(handle: int) -> Aipp | None:
    found = handles.get(handle, Aipp)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "Aipp", "acl.mdl.create_aipp"))
    return found


@api("acl.mdl.create_aipp", "aclmdlCreateAIPP")
def create_aipp(batch_size: int, /) -> int:
    if not 1 <= batch_size <= 127:
        errors.bad("batch_size", batch_size, "1..127")
        return 0
    return handles.new(Aipp(batch_size, images=[{} for _ in range(batch_size)]))


@api("acl.mdl.destroy_aipp", "aclmdlDestroyAIPP")
def destroy_aipp(aipp_ptr: int, /) -> int:
    if _aipp(aipp_ptr) is None:
        return errors.INVALID_PARAM
    handles.drop(aipp_ptr)
    return 0


def _common(handle: int, **values: Any) -> int:
    found = _aipp(handle)
    if found is None:
        return errors.INVALID_PARAM
    found.common.update(values)
    return 0


def _switch(name: str, value: int) -> int:
    return 0 if value in (0, 1) else errors.bad(name, value, "0 (off) or 1 (on)")


@api("acl.mdl.set_aipp_input_format", "aclmdlSetAIPPInputFormat")
def set_aipp_input_format(aipp_ptr: int, format: int, /) -> int:
    from ascend_sim.graph.aipp_config import FORMATS

    if format not in _DYNAMIC_FORMATS:
        return errors.bad("format", format, "1 (YUV420SP), 2 (XRGB8888), 3 (RGB888) or 4 (YUV400), all of 8 bits")
    return _common(aipp_ptr, input_format=FORMATS[format])


@api("acl.mdl.set_aipp_csc_params", "aclmdlSetAIPPCscParams")
def set_aipp_csc_params(
    aipp_ptr: int,
    switch: int,
    r0c0: int,
    r0c1: int,
    r0c2: int,
    r1c0: int,
    r1c1: int,
    r1c2: int,
    r2c0: int,
    r2c1: int,
    r2c2: int,
    out_bias0: int,
    out_bias1: int,
    out_bias2: int,
    in_bias0: int,
    in_bias1: int,
    in_bias2: int,
    /,
) -> int:
    matrix = (r0c0, r0c1, r0c2, r1c0, r1c1, r1c2, r2c0, r2c1, r2c2)
    biases = (out_bias0, out_bias1, out_bias2, in_bias0, in_bias1, in_bias2)
    ret = _switch("switch", switch)
    if ret:
        return ret
    if any(not -32768 <= v <= 32767 for v in matrix):
        return errors.bad("matrix", matrix, "nine numbers of 16 bits")
    if any(not 0 <= v <= 255 for v in biases):
        return errors.bad("bias", biases, "six numbers 0..255")
    found = _aipp(aipp_ptr)
    if found is None:
        return errors.INVALID_PARAM
    if switch and found.common.get("input_format") == "YUV400_U8":
        return errors.fail(errors.INVALID_PARAM, "a YUV400 image has no colours to convert.")
    return _common(aipp_ptr, csc_switch=bool(switch), matrix=matrix, output_bias=biases[:3], input_bias=biases[3:])


@api("acl.mdl.set_aipp_rbuv_swap_switch", "aclmdlSetAIPPRbuvSwapSwitch")
def set_aipp_rbuv_swap_switch(aipp_ptr: int, switch: int, /) -> int:
    return _switch("switch", switch) or _common(aipp_ptr, rbuv_swap_switch=bool(switch))


@api("acl.mdl.set_aipp_ax_swap_switch", "aclmdlSetAIPPAxSwapSwitch")
def set_aipp_ax_swap_switch(aipp_ptr: int, switch: int, /) -> int:
    return _switch("switch", switch) or _common(aipp_ptr, ax_swap_switch=bool(switch))


@api("acl.mdl.set_aipp_src_image_size", "aclmdlSetAIPPSrcImageSize")
def set_aipp_src_image_size(aipp_ptr: int, width: int, height: int, /) -> int:
    if not (1 <= width <= _SIDE and 1 <= height <= _SIDE):
        return errors.bad("w, h", (width, height), f"both 1..{_SIDE}")
    return _common(aipp_ptr, src_image_size_w=width, src_image_size_h=height)


def _image(handle: int, index: int, **values: Any) -> int:
    found = _aipp(handle)
    if found is None:
        return errors.INVALID_PARAM
    if not 0 <= index < found.batch:
        return errors.bad("batch_index", index, f"below {found.batch}, the batch of acl.mdl.create_aipp")
    found.images[index].update(values)
    return 0


@api("acl.mdl.set_aipp_scf_params", "aclmdlSetAIPPScfParams")
def set_aipp_scf_params(
    aipp_ptr: int, switch: int, in_w: int, in_h: int, out_w: int, out_h: int, batch_index: int, /
) -> int:
    ret = _switch("switch", switch)
    if ret or not switch:
        return ret or _image(aipp_ptr, batch_index)
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, "AIPP does not resize: its resize fields are reserved.")


@api("acl.mdl.set_aipp_crop_params", "aclmdlSetAIPPCropParams")
def set_aipp_crop_params(
    aipp_ptr: int, switch: int, start_w: int, start_h: int, crop_w: int, crop_h: int, batch_index: int, /
) -> int:
    ret = _switch("switch", switch)
    if ret:
        return ret
    starts, sizes = (start_w, start_h), (crop_w, crop_h)
    if switch and (any(not 0 <= v < _SIDE for v in starts) or any(not 1 <= v <= _SIDE for v in sizes)):
        return errors.bad("start, size", (*starts, *sizes), f"starts below {_SIDE} and sizes 1..{_SIDE}")
    return _image(
        aipp_ptr,
        batch_index,
        crop=bool(switch),
        load_start_pos_w=start_w,
        load_start_pos_h=start_h,
        crop_size_w=crop_w,
        crop_size_h=crop_h,
    )


@api("acl.mdl.set_aipp_padding_params", "aclmdlSetAIPPPaddingParams")
def set_aipp_padding_params(
    aipp_ptr: int, switch: int, top: int, bottom: int, left: int, right: int, batch_index: int, /
) -> int:
    ret = _switch("switch", switch)
    if ret:
        return ret
    borders = (top, bottom, left, right)
    if switch and any(not 0 <= v <= _BORDER for v in borders):
        return errors.bad("padding", borders, f"four numbers 0..{_BORDER}")
    return _image(
        aipp_ptr,
        batch_index,
        padding=bool(switch),
        top_padding_size=top,
        bottom_padding_size=bottom,
        left_padding_size=left,
        right_padding_size=right,
    )


@api("acl.mdl.set_aipp_dtc_pixel_mean", "aclmdlSetAIPPDtcPixelMean")
def set_aipp_dtc_pixel_mean(aipp_ptr: int, c0: int, c1: int, c2: int, c3: int, batch_index: int, /) -> int:
    mean = (c0, c1, c2, c3)
    if any(not -32768 <= v <= 32767 for v in mean):
        return errors.bad("mean", mean, "four numbers of 16 bits")
    return _image(aipp_ptr, batch_index, mean=mean)


@api("acl.mdl.set_aipp_dtc_pixel_min", "aclmdlSetAIPPDtcPixelMin")
def set_aipp_dtc_pixel_min(aipp_ptr: int, c0: float, c1: float, c2: float, c3: float, batch_index: int, /) -> int:
    return _image(aipp_ptr, batch_index, min_chn=(c0, c1, c2, c3))


@api("acl.mdl.set_aipp_pixel_var_reci", "aclmdlSetAIPPPixelVarReci")
def set_aipp_pixel_var_reci(aipp_ptr: int, c0: float, c1: float, c2: float, c3: float, batch_index: int, /) -> int:
    return _image(aipp_ptr, batch_index, var_reci=(c0, c1, c2, c3))


@api("acl.mdl.get_aipp_data_size", "aclmdlGetAippDataSize")
def get_aipp_data_size(batch_size: int, /) -> tuple[int, int]:
    if batch_size < 1:
        return 0, errors.bad("batch_size", batch_size, "at least 1")
    return _HEAD_BYTES + batch_size * _IMAGE_BYTES, 0


# -- giving the parameters to a model ----------------------------------------------------------------------


def _ports(model: _model.Model) -> tuple[AippPort, ...]:
    return model.loaded.aipp(model.variant) if model.loaded.executable else ()


def _hand_over(model_id: int, dataset: int, index: int, aipp_ptr: int) -> int:
    """Write the parameters into buffer ``index`` of the dataset, the input that carries them."""
    from ascend_sim.graph.aipp_params import pack_params

    found = dataset_of(dataset)
    aipp = _aipp(aipp_ptr)
    if found is None or aipp is None:
        return errors.INVALID_PARAM
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    if not 0 <= index < len(found.buffers):
        return errors.bad("index", index, f"below {len(found.buffers)}, the number of buffers in the dataset")
    ports = [p for p in _ports(model) if p.params == index]
    if not ports:
        wanted = [p.params for p in _ports(model) if p.params >= 0]
        return errors.bad("index", index, f"an input with AIPP parameters: {wanted or 'the model has none'}")
    batch = max(p.network[0] for p in ports)
    if aipp.batch != batch:
        return errors.bad("aipp_ptr", aipp_ptr, f"parameters of {batch} images, as the model takes, not {aipp.batch}")
    if not aipp.common.get("input_format") or not aipp.common.get("src_image_size_w"):
        return errors.fail(
            errors.INVALID_PARAM,
            "the parameters have no image format or size.",
            "acl.mdl.set_aipp_input_format and acl.mdl.set_aipp_src_image_size set them.",
        )
    buffer = handles.get(found.buffers[index], DataBuffer)
    if buffer is None:
        story = handles.story(found.buffers[index], "DataBuffer", "acl.create_data_buffer")
        return errors.fail(errors.INVALID_PARAM, story)
    data = pack_params(aipp.configs())
    if buffer.size < len(data):
        return errors.bad("size of the buffer", buffer.size, f"at least {len(data)} (acl.mdl.get_aipp_data_size)")
    place = _model.where(buffer.address, len(data), f"input {index}", True)
    if isinstance(place, int):
        return place
    _model.view(place, len(data))[:] = memoryview(data)
    return 0


@api("acl.mdl.set_input_aipp", "aclmdlSetInputAIPP")
def set_input_aipp(model_id: int, dataset: int, index: int, aipp_ptr: int, /) -> int:
    return _hand_over(model_id, dataset, index, aipp_ptr)


@api("acl.mdl.set_aipp_by_input_index", "aclmdlSetAIPPByInputIndex")
def set_aipp_by_input_index(model_id: int, dataset: int, index: int, aipp_ptr: int, /) -> int:
    """``index`` is the image; the parameters go to the input that belongs to it."""
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    for port in _ports(model):
        if port.image == index and port.params >= 0:
            return _hand_over(model_id, dataset, port.params, aipp_ptr)
    return errors.bad("index", index, "an image that AIPP prepares with parameters of the execution")


# -- what a model has --------------------------------------------------------------------------------------


def _input(model_id: int, index: int) -> _model.Model | int:
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    if not 0 <= index < len(model.inputs):
        return errors.bad("index", index, f"below {len(model.inputs)}, the number of inputs of the model")
    return model


@api("acl.mdl.get_aipp_type", "aclmdlGetAippType")
def get_aipp_type(model_id: int, index: int, /) -> tuple[int, int, int]:
    model = _input(model_id, index)
    if isinstance(model, int):
        return 0, _NO_INDEX, model
    for port in _ports(model):
        if port.params == index:
            return _PARAMETERS, _NO_INDEX, 0
        if port.image == index:
            return (_DYNAMIC, port.params, 0) if port.params >= 0 else (_STATIC, _NO_INDEX, 0)
    return _WITHOUT, _NO_INDEX, 0


def _out_dims(model: _model.Model, port: AippPort, variant: int) -> dict[str, Any]:
    """Image and network tensors of one shape, as aclAippDims names them."""
    image = model.loaded.ports(variant)[0][port.image]
    network = next(p for p in model.loaded.aipp(variant) if p.image == port.image).network

    def dims(shape: tuple[int, ...]) -> dict[str, Any]:
        return {"name": image.name, "dimCount": len(shape), "dims": list(shape)}

    size = 4
    for extent in network:
        size *= extent
    return {"srcDims": dims(network), "srcSize": size, "aippOutdims": dims(network), "aippOutSize": size}


@api("acl.mdl.get_first_aipp_info", "aclmdlGetFirstAippInfo")
def get_first_aipp_info(model_id: int, index: int, /) -> tuple[dict[str, Any] | None, int]:
    from ascend_sim.graph.aipp_config import FORMATS

    model = _input(model_id, index)
    if isinstance(model, int):
        return None, model
    port = next((p for p in _ports(model) if p.image == index), None)
    if port is None:
        return None, errors.fail(
            errors.NOT_STATIC_AIPP, f"input {index} ({model.inputs[index].name!r}) has no AIPP.",
            "acl.mdl.get_aipp_type tells which inputs have it.",
        )  # fmt: skip
    config = port.config
    number = next((k for k, v in FORMATS.items() if v == config.input_format), 0)
    count = max(1, len(model.loaded.gears))
    info: dict[str, Any] = {
        "inputFormat": number,
        "srcImageSizeW": config.src_image_size_w,
        "srcImageSizeH": config.src_image_size_h,
        "cropSwitch": int(config.crop),
        "loadStartPosW": config.load_start_pos_w,
        "loadStartPosH": config.load_start_pos_h,
        "cropSizeW": config.crop_size_w,
        "cropSizeH": config.crop_size_h,
        "resizeSwitch": 0,
        "resizeOutputW": 0,
        "resizeOutputH": 0,
        "paddingSwitch": int(config.padding),
        "leftPaddingSize": config.left_padding_size,
        "rightPaddingSize": config.right_padding_size,
        "topPaddingSize": config.top_padding_size,
        "bottomPaddingSize": config.bottom_padding_size,
        "cscSwitch": int(config.csc_switch),
        "rbuvSwapSwitch": int(config.rbuv_swap_switch),
        "axSwapSwitch": int(config.ax_swap_switch),
        "singleLineMode": 0,
    }
    info.update({f"matrixR{i // 3}C{i % 3}": v for i, v in enumerate(config.matrix)})
    info.update({f"outputBias{i}": v for i, v in enumerate(config.output_bias)})
    info.update({f"inputBias{i}": v for i, v in enumerate(config.input_bias)})
    info.update({f"meanChn{i}": v for i, v in enumerate(config.mean)})
    info.update({f"minChn{i}": v for i, v in enumerate(config.min_chn)})
    info.update({f"varReciChn{i}": v for i, v in enumerate(config.var_reci)})
    info.update(
        {
            "srcFormat": FORMAT_NUMBERS["NCHW"],
            "srcDatatype": DTYPE_NUMBERS["float32"],
            "srcDimNum": len(port.network),
            "shapeCount": count,
            "outDims": [_out_dims(model, port, variant) for variant in range(count)],
            "aippExtend": 0,
        }
    )
    return info, 0
