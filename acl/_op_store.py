"""Compiled operator models: what a directory or the program's memory holds, and whether a call is among them.

A program that names a store runs the operators in it, as on hardware; what is not there is refused with the nearest
entry and the first difference. Without a store, and where ``op_compile`` is on (``ascend_sim`` key of acl.json, or
ASCEND_SIM_OP_COMPILE=1), operators are compiled when they are called, as newer releases can.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acl import errors

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall, TensorSpec

_DEPTH = 3  # levels of folders that are looked through ("hicann/ge", aclopSetModelDir)
_MOST = 20_000  # operator models of a process


@dataclass(frozen=True)
class Entry:
    """One compiled operator: where it came from and what it takes."""

    source: str
    type: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec, ...]
    attrs: Mapping[str, Any]


@dataclass
class Store:
    path: str = ""
    queue_limit: int = 0
    compile: bool = False  # whether operators outside of it are compiled when they are called
    entries: dict[str, list[Entry]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        self.entries.setdefault(entry.type, []).append(entry)


store = Store()


def forget_all() -> None:
    """Tests: start over."""
    store.path, store.queue_limit, store.compile, store.entries = "", 0, False, {}


def read(data: bytes, source: str) -> Entry | None:
    """The operator of a model made by ``atc --singleop``; None for another model. Raises `OmError`."""
    from ascend_sim.graph.om.reader import read_om

    om = read_om(data)
    if om.body is None:
        return None
    graph = om.graphs()[0][0]
    nodes = [n for n in graph.nodes if n.type not in ("Data", "NetOutput")]
    if len(nodes) != 1:
        return None
    (node,) = nodes
    inputs = tuple(graph.specs[name] if name else None for name in node.inputs)
    attrs = {k: v for k, v in node.attrs.items() if not k.startswith("_")}
    return Entry(source, node.type, inputs, tuple(graph.specs[name] for name in node.outputs), attrs)


def load_folder(path: str) -> int:
    """Read every operator model below ``path``; returns how many there are. Other files are passed over."""
    from ascend_sim.graph.errors import OmError

    count = 0
    top = path.rstrip(os.sep).count(os.sep)
    for folder, folders, files in os.walk(path):
        if folder.count(os.sep) - top >= _DEPTH:
            folders.clear()
        for name in sorted(files):
            if not name.endswith(".om") or count >= _MOST:
                continue
            source = os.path.join(folder, name)
            try:
                with open(source, "rb") as file:
                    entry = read(file.read(), source)
            except (OSError, OmError):
                continue
            if entry is not None:
                store.add(entry)
                count += 1
    return count


def _words(spec: TensorSpec | None) -> str:
    return "absent" if spec is None else f"{spec.dtype}{list(spec.shape)} {spec.format}"


def _same(compiled: TensorSpec | None, given: TensorSpec | None) -> bool:
    if compiled is None or given is None:
        return compiled is given
    scalars = {compiled.shape, given.shape} == {(1,), ()}  # one element, described either way
    same = compiled.shape == given.shape or scalars
    return same and (compiled.dtype, compiled.format) == (given.dtype, given.format)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    return value


def _difference(entry: Entry, call: OpCall) -> tuple[int, int, str] | None:
    """(how much fits, return code, what differs first); None when the call is the entry's operator."""
    fits = 0
    groups: tuple[tuple[str, Sequence[Any], Sequence[Any], int], ...] = (
        ("input", entry.inputs, call.inputs, errors.OP_INPUT_NOT_MATCH),
        ("output", entry.outputs, call.outputs, errors.OP_OUTPUT_NOT_MATCH),
    )
    for what, compiled, given, code in groups:
        if len(compiled) != len(given):
            return fits, code, f"it has {len(compiled)} {what}s, {len(given)} are given"
        for index, (one, other) in enumerate(zip(compiled, given, strict=True)):
            if not _same(one, other):
                return fits, code, f"{what} {index} is {_words(one)} there, {_words(other)} here"
            fits += 1
    wanted, have = dict(entry.attrs), dict(call.attrs)
    for name in sorted({*wanted, *have}):
        if _plain(wanted.get(name)) != _plain(have.get(name)):
            text = f"attribute {name} is {wanted.get(name)!r} there, {have.get(name)!r} here"
            return fits, errors.OP_ATTR_NOT_MATCH, text
    return None


def refusal(call: OpCall) -> int:
    """0 when the call may run, else a return code and the cause stored."""
    if not store.entries or store.compile or os.environ.get("ASCEND_SIM_OP_COMPILE") == "1":
        return 0
    entries = store.entries.get(call.type)
    if not entries:
        known = ", ".join(sorted(store.entries))
        return errors.fail(
            errors.OP_NOT_FOUND,
            f"no operator model of {call.type} was loaded from {store.path or 'memory'!r}; there are those of {known}.",
            _HINT,
        )
    best: tuple[int, int, str, Entry] | None = None
    for entry in entries:
        found = _difference(entry, call)
        if found is None:
            return 0
        if best is None or found[0] > best[0]:
            best = (*found, entry)
    assert best is not None
    _, code, text, entry = best
    return errors.fail(code, f"{call.type}: the nearest operator model is {entry.source}, but {text}.", _HINT)


_HINT = (
    "atc --singleop=FILE --output=FOLDER makes operator models; ASCEND_SIM_OP_COMPILE=1 compiles operators when they "
    "are called."
)
