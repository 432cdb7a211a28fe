"""acl.media: descriptors and configurations, with the functions that make, fill, read and destroy them.

Most of these functions follow one rule (create gives a handle, set a return code, get a value), so they are made from
tables of fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from acl import errors, handles
from acl._api import api

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ascend_sim.runtime.context import Context

T = TypeVar("T")
_LEVELS = 256
_DIMENSIONS = 3  # of a histogram and of a table


def c_name(name: str) -> str:
    """``dvpp_set_pic_desc_data`` -> ``acldvppSetPicDescData``."""
    first, *rest = name.split("_")
    return f"acl{first}" + "".join(part.capitalize() for part in rest)


@dataclass
class ChannelDesc:
    """``context`` is where its channel was created, None before that."""

    channel_id: int = 0
    mode: int = 0
    matrix: int = 0
    height: int = 8192
    width: int = 8192
    precision: int = 2
    context: Context | None = None


@dataclass
class PicDesc:
    data: int = 0
    size: int = 0
    format: int = 0
    width: int = 0
    height: int = 0
    width_stride: int = 0
    height_stride: int = 0
    ret_code: int = 0


@dataclass
class BatchPicDesc:
    pictures: list[int] = field(default_factory=list)


@dataclass
class StreamDesc:
    data: int = 0
    size: int = 0
    format: int = 0
    timestamp: int = 0
    ret_code: int = 0
    eos: int = 0


@dataclass
class RoiConfig:
    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0


@dataclass
class ResizeConfig:
    interpolation: int = 0


@dataclass
class JpegeConfig:
    level: int = 0


@dataclass
class BorderConfig:
    border_type: int = 0
    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0
    values: list[int] = field(default_factory=lambda: [0, 0, 0, 0])


def _levels(kind: str) -> list[NDArray[Any]]:
    import numpy as np

    return [np.zeros(_LEVELS, kind) for _ in range(_DIMENSIONS)]


@dataclass
class Hist:
    counts: list[NDArray[np.uint32]] = field(default_factory=lambda: _levels("uint32"))
    ret_code: int = 0


@dataclass
class LutMap:
    tables: list[NDArray[np.uint8]] = field(default_factory=lambda: _levels("uint8"))


def find(handle: int, kind: type[T], maker: str) -> T | None:
    """What a handle stands for; None (and 100000 explained) when it is not alive or of another kind."""
    found = handles.get(handle, kind)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, kind.__name__, f"acl.media.{maker}"))
    return found


Function = Callable[..., Any]


def creator(name: str, kind: type[Any]) -> Function:
    @api(f"acl.media.{name}", c_name(name))
    def create() -> int:
        return handles.new(kind())

    return create


def destroyer(name: str, kind: type[Any], maker: str) -> Function:
    @api(f"acl.media.{name}", c_name(name))
    def destroy(desc: int, /) -> int:
        if find(desc, kind, maker) is None:
            return errors.INVALID_PARAM
        handles.drop(desc)
        return 0

    return destroy


def setter(name: str, kind: type[Any], maker: str, attribute: str, least: int = 0, most: int = 2**64 - 1) -> Function:
    @api(f"acl.media.{name}", c_name(name))
    def set_value(desc: int, value: int, /) -> int:
        found = find(desc, kind, maker)
        if found is None:
            return errors.INVALID_PARAM
        if not least <= value <= most:
            return errors.bad(attribute, value, f"{least} to {most}")
        setattr(found, attribute, value)
        return 0

    return set_value


def getter(name: str, kind: type[Any], maker: str, attribute: str, missing: Any = 0) -> Function:
    @api(f"acl.media.{name}", c_name(name))
    def get_value(desc: int, /) -> Any:
        found = find(desc, kind, maker)
        return missing if found is None else getattr(found, attribute)

    return get_value


_U32 = 2**32 - 1

# what is created and destroyed by plain functions: stem of the name -> class
_PLAIN: dict[str, type[Any]] = {
    "dvpp_{}_pic_desc": PicDesc,
    "dvpp_{}_stream_desc": StreamDesc,
    "dvpp_{}_resize_config": ResizeConfig,
    "dvpp_{}_jpege_config": JpegeConfig,
    "dvpp_{}_border_config": BorderConfig,
    "dvpp_{}_hist": Hist,
    "dvpp_{}_lut_map": LutMap,
}

# (stem of the name, field, least, most, has a setter, has a getter)
_FIELDS: tuple[tuple[str, str, int, int, bool, bool], ...] = (
    ("dvpp_{}_pic_desc", "data", 0, 2**64 - 1, True, True),
    *(
        ("dvpp_{}_pic_desc", name, 0, _U32, True, True)
        for name in ("size", "format", "width", "height", "width_stride", "height_stride", "ret_code")
    ),
    ("dvpp_{}_stream_desc", "data", 0, 2**64 - 1, True, True),
    ("dvpp_{}_stream_desc", "size", 0, _U32, True, True),
    ("dvpp_{}_stream_desc", "format", 0, 3, True, True),
    ("dvpp_{}_stream_desc", "timestamp", 0, 2**64 - 1, True, True),
    ("dvpp_{}_stream_desc", "ret_code", 0, _U32, True, True),
    ("dvpp_{}_stream_desc", "eos", 0, 1, True, True),
    ("dvpp_{}_resize_config", "interpolation", 0, 5, True, True),
    ("dvpp_{}_jpege_config", "level", 0, 100, True, True),
    ("dvpp_{}_border_config", "border_type", 0, 3, True, True),
    *(("dvpp_{}_border_config", name, 0, _U32, True, True) for name in ("top", "bottom", "left", "right")),
    ("dvpp_{}_hist", "ret_code", 0, 0, False, True),
)


def _make() -> dict[str, Function]:
    made: dict[str, Function] = {}
    for stem, kind in _PLAIN.items():
        maker = stem.format("create")
        made[maker] = creator(maker, kind)
        name = stem.format("destroy")
        made[name] = destroyer(name, kind, maker)
    for stem, attribute, least, most, can_set, can_get in _FIELDS:
        kind, maker = _PLAIN[stem], stem.format("create")
        if can_set:
            name = f"{stem.format('set')}_{attribute}"
            made[name] = setter(name, kind, maker, attribute, least, most)
        if can_get:
            name = f"{stem.format('get')}_{attribute}"
            made[name] = getter(name, kind, maker, attribute)
    for attribute in ("left", "right", "top", "bottom"):
        name = f"dvpp_set_roi_config_{attribute}"
        made[name] = setter(name, RoiConfig, "dvpp_create_roi_config", attribute, 0, _U32)
    made["dvpp_destroy_roi_config"] = destroyer("dvpp_destroy_roi_config", RoiConfig, "dvpp_create_roi_config")
    return made


globals().update(_make())


# -- regions, batches --------------------------------------------------------------------------------------


@api("acl.media.dvpp_create_roi_config", "acldvppCreateRoiConfig")
def dvpp_create_roi_config(left: int, right: int, top: int, bottom: int, /) -> int:
    if not all(0 <= v <= _U32 for v in (left, right, top, bottom)):
        errors.bad("roi", (left, right, top, bottom), "four unsigned 32-bit numbers (left, right, top, bottom)")
        return 0
    return handles.new(RoiConfig(left, right, top, bottom))


@api("acl.media.dvpp_set_roi_config", "acldvppSetRoiConfig")
def dvpp_set_roi_config(roi: int, left: int, right: int, top: int, bottom: int, /) -> int:
    found = find(roi, RoiConfig, "dvpp_create_roi_config")
    if found is None:
        return errors.INVALID_PARAM
    if not all(0 <= v <= _U32 for v in (left, right, top, bottom)):
        return errors.bad("roi", (left, right, top, bottom), "four unsigned 32-bit numbers (left, right, top, bottom)")
    found.left, found.right, found.top, found.bottom = left, right, top, bottom
    return 0


_BATCH_MAX = 256


@api("acl.media.dvpp_create_batch_pic_desc", "acldvppCreateBatchPicDesc")
def dvpp_create_batch_pic_desc(batch: int, /) -> int:
    if not 1 <= batch <= _BATCH_MAX:
        errors.bad("batch", batch, f"1 to {_BATCH_MAX} pictures")
        return 0
    return handles.new(BatchPicDesc([handles.new(PicDesc()) for _ in range(batch)]))


@api("acl.media.dvpp_destroy_batch_pic_desc", "acldvppDestroyBatchPicDesc")
def dvpp_destroy_batch_pic_desc(batch_desc: int, /) -> int:
    found = find(batch_desc, BatchPicDesc, "dvpp_create_batch_pic_desc")
    if found is None:
        return errors.INVALID_PARAM
    for picture in found.pictures:
        handles.drop(picture)
    handles.drop(batch_desc)
    return 0


@api("acl.media.dvpp_get_pic_desc", "acldvppGetPicDesc")
def dvpp_get_pic_desc(batch_desc: int, index: int, /) -> int:
    found = find(batch_desc, BatchPicDesc, "dvpp_create_batch_pic_desc")
    if found is None:
        return 0
    if not 0 <= index < len(found.pictures):
        errors.bad("index", index, f"0 to {len(found.pictures) - 1}")
        return 0
    return found.pictures[index]


# -- borders, histograms, tables -----------------------------------------------------------------------------


@api("acl.media.dvpp_set_border_config_value", "acldvppSetBorderConfigValue")
def dvpp_set_border_config_value(border_config: int, index: int, value: int, /) -> int:
    found = find(border_config, BorderConfig, "dvpp_create_border_config")
    if found is None:
        return errors.INVALID_PARAM
    if not 0 <= index < len(found.values):
        return errors.bad("index", index, f"0 to {len(found.values) - 1}")
    if not 0 <= value < _LEVELS:
        return errors.bad("value", value, "0 to 255")
    found.values[index] = value
    return 0


@api("acl.media.dvpp_get_border_config_value", "acldvppGetBorderConfigValue")
def dvpp_get_border_config_value(border_config: int, index: int, /) -> int:
    found = find(border_config, BorderConfig, "dvpp_create_border_config")
    if found is None:
        return 0
    if not 0 <= index < len(found.values):
        errors.bad("index", index, f"0 to {len(found.values) - 1}")
        return 0
    return found.values[index]


def _array(arrays: list[NDArray[Any]], dim: int) -> tuple[int, int, int]:
    if not 0 <= dim < len(arrays):
        return 0, 0, errors.bad("dim", dim, f"0 to {len(arrays) - 1}")
    return arrays[dim].ctypes.data, len(arrays[dim]), 0


@api("acl.media.dvpp_get_hist_dims", "acldvppGetHistDims")
def dvpp_get_hist_dims(hist: int, /) -> int:
    found = find(hist, Hist, "dvpp_create_hist")
    return 0 if found is None else len(found.counts)


@api("acl.media.dvpp_get_hist_data", "acldvppGetHistData")
def dvpp_get_hist_data(hist: int, dim: int, /) -> tuple[int, int, int]:
    """(address of 256 uint32 counts on the host, 256, ret)."""
    found = find(hist, Hist, "dvpp_create_hist")
    return (0, 0, errors.INVALID_PARAM) if found is None else _array(found.counts, dim)


@api("acl.media.dvpp_clear_hist", "acldvppClearHist")
def dvpp_clear_hist(hist: int, /) -> int:
    found = find(hist, Hist, "dvpp_create_hist")
    if found is None:
        return errors.INVALID_PARAM
    for counts in found.counts:
        counts[:] = 0
    found.ret_code = 0
    return 0


@api("acl.media.dvpp_get_lut_map_dims", "acldvppGetLutMapDims")
def dvpp_get_lut_map_dims(lut: int, /) -> int:
    found = find(lut, LutMap, "dvpp_create_lut_map")
    return 0 if found is None else len(found.tables)


@api("acl.media.dvpp_get_lut_map_data", "acldvppGetLutMapData")
def dvpp_get_lut_map_data(lut: int, dim: int, /) -> tuple[int, int, int]:
    """(address of 256 bytes on the host, which the program fills, 256, ret)."""
    found = find(lut, LutMap, "dvpp_create_lut_map")
    return (0, 0, errors.INVALID_PARAM) if found is None else _array(found.tables, dim)
