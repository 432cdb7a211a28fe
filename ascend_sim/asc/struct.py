"""Structures passed from host to kernel: named fields of one type each, nested or flat, packed little endian.

A subclass either carries `Field` and `StructField` attributes (as user programs write them) or a ``FIELDS`` tuple
(as the library's tilings with many fields of one type do).
"""

from __future__ import annotations

import struct as _struct
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ascend_sim.asc.scalars import Int

_FORMAT = {
    "int1": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


class _Missing:
    def __repr__(self) -> str:
        return "no default"


_MISSING = _Missing()


class Field:
    """A scalar field of type `dtype`. Without `default` the constructor must be given a value."""

    def __init__(self, dtype: Any, default: Any = _MISSING, name: str | None = None, enum: str | None = None) -> None:
        self.dtype = getattr(dtype, "name", dtype)
        self.default, self.name, self.enum = default, name, enum
        if self.dtype not in _FORMAT:
            raise TypeError(f"Field dtype {dtype!r}: expected one of {', '.join(_FORMAT)}")


class StructField:
    """A nested structure of class `struct_cls`."""

    def __init__(self, struct_cls: type[Struct], default: Struct | None = None, name: str | None = None) -> None:
        self.dtype, self.default, self.name = struct_cls, default if default is not None else struct_cls(), name


class Entry(NamedTuple):
    """One field: its Python name, its C name, the name of its type (or the nested class) and its default."""

    name: str
    c_name: str
    dtype: Any
    default: Any


class Struct:
    """Base of host-to-kernel structures.

    Integer fields read as `Int`, so that kernels can call ``.ceildiv`` on them. Unknown names raise AttributeError;
    a field with neither value nor default raises TypeError. `pack` in the class line bounds the alignment of fields.
    """

    FIELDS: ClassVar[tuple[Any, ...]] = ()
    _pack: ClassVar[int] = 8

    def __init_subclass__(cls, pack: int = 8, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        written = [(name, value) for name, value in vars(cls).items() if isinstance(value, (Field, StructField))]
        for name, _ in written:
            delattr(cls, name)  # values live in the instance
        own = tuple(Entry(name, value.name or name, value.dtype, value.default) for name, value in written)
        cls.FIELDS = tuple(Entry(*entry) for entry in cls.FIELDS) + own
        cls._pack = pack

    def __init__(self, **fields: Any) -> None:
        for name, _, dtype, default in self.FIELDS:
            if name not in fields and default is _MISSING:
                raise TypeError(f"{type(self).__name__}: field {name!r} has no default and was given no value")
            self.__dict__[name] = self._value(dtype, fields.pop(name, default))
        for name, value in fields.items():
            setattr(self, name, value)

    @staticmethod
    def _value(dtype: Any, value: Any) -> Any:
        if isinstance(dtype, type):
            if not (isinstance(value, Struct) and isinstance(value, dtype)):
                raise TypeError(f"{value!r}: expected a {dtype.__name__}")
            return value.create_local()
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

    @classmethod
    def alignment(cls) -> int:
        """Bytes this structure aligns to inside another one."""
        return max((min(_alignment(dtype), cls._pack) for _, _, dtype, _ in cls.FIELDS), default=1)

    def pack(self) -> bytes:
        """The bytes a kernel receives: natural alignment, as a C compiler lays the structure out."""
        out = bytearray()
        for name, _, dtype, _ in self.FIELDS:
            value = getattr(self, name)
            out += bytes(-len(out) % min(_alignment(dtype), self._pack))
            out += value.pack() if isinstance(dtype, type) else _struct.pack("<" + _FORMAT[dtype], value)
        return bytes(out + bytes(-len(out) % self.alignment()))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={getattr(self, name)}" for name, _, _, default in self.FIELDS if getattr(self, name) != default
        )
        return f"{type(self).__name__}({given})"


def _alignment(dtype: Any) -> int:
    """Natural alignment of a field."""
    if isinstance(dtype, type) and issubclass(dtype, Struct):
        return dtype.alignment()
    return _struct.calcsize("<" + _FORMAT[dtype])


def fields(text: str, dtype: str = "int32", default: Any = 0) -> tuple[Entry, ...]:
    """Fields of one type from ``name:CName`` words."""
    pairs = (word.split(":") for word in text.split())
    return tuple(Entry(name, c_name, dtype, default) for name, c_name in pairs)
