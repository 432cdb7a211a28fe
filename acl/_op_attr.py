"""acl.op: attributes of an operator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from acl import errors, handles
from acl._api import api
from acl._descs import DTYPES


@dataclass
class OpAttr:
    values: dict[str, Any] = field(default_factory=dict)


def attr_of(handle: int) -> OpAttr | None:
    """The attributes behind a handle (0: none); None and 100000 when there are none."""
    if handle == 0:
        return OpAttr()
    found = handles.get(handle, OpAttr)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "OpAttr", "acl.op.create_attr"))
    return found


@api("acl.op.create_attr", "aclopCreateAttr")
def create_attr() -> int:
    return handles.new(OpAttr())


@api("acl.op.destroy_attr", "aclopDestroyAttr")
def destroy_attr(attr_ptr: int, /) -> None:
    if attr_ptr and attr_of(attr_ptr) is not None:
        handles.drop(attr_ptr)


def _set(attr_ptr: int, name: str, value: Any) -> int:
    if attr_ptr == 0:
        return errors.bad("attr_ptr", 0, "attributes of acl.op.create_attr")
    found = attr_of(attr_ptr)
    if found is None:
        return errors.INVALID_PARAM
    if not name:
        return errors.bad("name", name, "the name of an attribute")
    found.values[name] = value
    return 0


def _items(value: Any, kind: type, what: str) -> list[Any]:
    """A Python list, or (deprecated) a numpy array."""
    if not isinstance(value, list):
        if not hasattr(value, "tolist"):
            raise TypeError(f"{what} must be a list, got {type(value).__name__}")
        warnings.warn(f"{what} as numpy array is deprecated: use a list", stacklevel=4)
        value = value.tolist()
    for item in value:
        if not isinstance(item, kind) and not (kind is float and isinstance(item, int)):
            raise TypeError(f"{what} must hold {kind.__name__}, got {item!r}")
    return list(value)


@api("acl.op.set_attr_bool", "aclopSetAttrBool")
def set_attr_bool(attr_ptr: int, name: str, value: int, /) -> int:
    return _set(attr_ptr, name, bool(value))


@api("acl.op.set_attr_int", "aclopSetAttrInt")
def set_attr_int(attr_ptr: int, name: str, value: int, /) -> int:
    return _set(attr_ptr, name, value)


@api("acl.op.set_attr_float", "aclopSetAttrFloat")
def set_attr_float(attr_ptr: int, name: str, value: float, /) -> int:
    return _set(attr_ptr, name, value)


@api("acl.op.set_attr_string", "aclopSetAttrString")
def set_attr_string(attr_ptr: int, name: str, value: str, /) -> int:
    return _set(attr_ptr, name, value)


@api("acl.op.set_attr_data_type", "aclopSetAttrDataType")
def set_attr_data_type(attr_ptr: int, name: str, data_type: int, /) -> tuple[int, int]:
    if data_type not in DTYPES:
        return attr_ptr, errors.bad("data_type", data_type, f"one of {sorted(DTYPES)}")
    return attr_ptr, _set(attr_ptr, name, data_type)


@api("acl.op.set_attr_list_bool", "aclopSetAttrListBool")
def set_attr_list_bool(attr_ptr: int, name: str, values: object, /) -> int:
    return _set(attr_ptr, name, [bool(v) for v in _items(values, int, "values")])


@api("acl.op.set_attr_list_int", "aclopSetAttrListInt")
def set_attr_list_int(attr_ptr: int, name: str, values: object, /) -> int:
    return _set(attr_ptr, name, _items(values, int, "values"))


@api("acl.op.set_attr_list_float", "aclopSetAttrListFloat")
def set_attr_list_float(attr_ptr: int, name: str, values: object, /) -> int:
    return _set(attr_ptr, name, [float(v) for v in _items(values, float, "values")])


@api("acl.op.set_attr_list_string", "aclopSetAttrListString")
def set_attr_list_string(attr_ptr: int, name: str, values: list[str], /) -> int:
    return _set(attr_ptr, name, _items(values, str, "values"))


@api("acl.op.set_attr_list_list_int", "aclopSetAttrListListInt")
def set_attr_list_list_int(attr_ptr: int, name: str, values: list[list[int]], /) -> int:
    return _set(attr_ptr, name, [_items(row, int, "values") for row in values])


@api("acl.op.set_attr_list_data_type", "aclopSetAttrListDataType")
def set_attr_list_data_type(attr_ptr: int, name: str, values: list[int], /) -> tuple[int, int]:
    unknown = [v for v in _items(values, int, "values") if v not in DTYPES]
    if unknown:
        return attr_ptr, errors.bad("values", unknown, f"data types of {sorted(DTYPES)}")
    return attr_ptr, _set(attr_ptr, name, list(values))
