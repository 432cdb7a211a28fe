"""Structures passed from host to kernel: named integer and float fields with C names, packed little endian."""

from __future__ import annotations

import struct as _struct
from typing import TYPE_CHECKING, Any, ClassVar

from ascend_sim.asc.scalars import Int

_FORMAT = {"int32": "i", "float32": "f"}


class Struct:
    """Base of host-to-kernel structures. Subclasses name their ``FIELDS``: (name, C name, type, default).

    Integer fields read as `Int`, so that kernels can call ``.ceildiv`` on them. Unknown names raise AttributeError.
    """

    FIELDS: ClassVar[tuple[tuple[str, str, str, Any], ...]] = ()

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update({name: self._value(dtype, default) for name, _, dtype, default in self.FIELDS})
        for name, value in fields.items():
            setattr(self, name, value)

    @staticmethod
    def _value(dtype: str, value: Any) -> Any:
        return float(value) if dtype.startswith("float") else Int(int(value))

    if TYPE_CHECKING:  # fields are made from FIELDS

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        for field, _, dtype, _ in self.FIELDS:
            if field == name:
                self.__dict__[name] = self._value(dtype, value)
                return
        known = ", ".join(field for field, *_ in self.FIELDS)
        raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {known}")

    def create_local(self) -> Any:
        """A copy, as every core gets one."""
        return type(self)(**{name: getattr(self, name) for name, *_ in self.FIELDS})

    def pack(self) -> bytes:
        """The bytes a kernel receives."""
        layout = "<" + "".join(_FORMAT[dtype] for _, _, dtype, _ in self.FIELDS)
        return _struct.pack(layout, *(getattr(self, name) for name, *_ in self.FIELDS))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={getattr(self, name)}" for name, _, _, default in self.FIELDS if getattr(self, name) != default
        )
        return f"{type(self).__name__}({given})"


def fields(text: str, dtype: str = "int32", default: Any = 0) -> tuple[tuple[str, str, str, Any], ...]:
    """Fields of one type from ``name:CName`` words."""
    pairs = (word.split(":") for word in text.split())
    return tuple((name, c_name, dtype, default) for name, c_name in pairs)
