"""Strict mode: says what a program does that works by luck, or only here.

``ascend-sim run --strict app.py`` and ASCEND_SIM_STRICT=1 switch it on. Codes stay those of hardware; findings are told
besides: use of freed memory, copies whose kind disagrees with their addresses, device memory looked at on the host,
results read before their stream was synchronized, and, at the end, memory and objects that were never given back, with
the line that made them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.copies import Place
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.events import Record
    from ascend_sim.runtime.memory import Arena, Block
    from ascend_sim.runtime.reports import CallbackTask
    from ascend_sim.runtime.stream import Stream

_MOST = 1000  # findings that are kept
_SHOWN = 5  # places of a finding that are listed
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

Line = tuple[str, int]


def user_line() -> Line:
    """File and line of the program that is running now."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return _path(frame.f_code.co_filename), frame.f_lineno


_path = cache(os.path.normpath)


_SKIPPED = tuple(os.path.join(_OWN, room) + os.sep for room in ("acl", "ascend_sim", "torch_npu"))


@dataclass
class Finding:
    """One mistake and the lines where it was made, in order of the first time."""

    kind: str
    text: str
    lines: dict[Line, int] = field(default_factory=dict)


class Watch:
    """What strict mode knows: who made which block or object, and which writes nobody waited for."""

    def __init__(self) -> None:
        self.findings: dict[tuple[str, str], Finding] = {}
        self.made: dict[int, Line] = {}  # address of a block, or handle -> where it was made
        self.writes: dict[int, tuple[Stream, int, Line, str]] = {}  # block -> its last write that was enqueued
        self.waited: dict[Stream, int] = {}  # how many tasks of a stream the host knows to have ended
        self.recorded: dict[Record | CallbackTask, tuple[Stream, int]] = {}  # marks in streams that the host may see
        self.after: dict[Stream, list[tuple[int, Stream, int]]] = {}  # (task, stream and task it waits for)

    def tell(self, kind: str, text: str, line: Line | None = None) -> None:
        key = (kind, re.sub(r"0x[0-9a-f]+", "", text))  # the same mistake with another block is no other mistake
        found = self.findings.get(key)
        if found is None:
            if len(self.findings) >= _MOST:
                return
            found = self.findings[key] = Finding(kind, text)
        at = line or user_line()
        found.lines[at] = found.lines.get(at, 0) + 1

    # memory

    def allocated(self, block: Block) -> None:
        self.made[block.address] = user_line()
        self.writes.pop(block.address, None)

    def failed(self, text: str) -> None:
        """A call failed with this explanation."""
        if "was freed" in text:
            address = int(found[1], 16) if (found := re.search(r"(0x[0-9a-f]+)", text)) else 0
            line = self.made.get(address)
            made = f" It was allocated at {line[0]}:{line[1]}." if line else ""
            self.tell("use after free", text + made)
        elif "passes the end" in text:
            self.tell("access beyond the end", text)

    def touched(self, *places: tuple[Place, int]) -> None:
        """Places and the bytes of them that a call reads or writes."""
        for place, nbytes in places:
            block = place.block
            if block is not None and place.address + nbytes > block.address + block.size:
                over = place.address + nbytes - block.address - block.size
                text = f"{over} B behind a block of {block.size} B by {block.owner} are touched: only padding is there"
                self.tell("access beyond the end", text)

    def wrong_kind(self, kind: int, way: str) -> None:
        names = {"h2h": 0, "h2d": 1, "d2h": 2, "d2d": 3, "p2p": 3}
        self.tell("wrong copy kind", f"kind {kind} is given for a copy of kind {names[way]} ({way})")

    def host_access(self) -> None:
        self.tell("device memory on the host", "the host looks into device memory; on hardware it must be copied first")

    # order

    def enqueued(self, blocks: Iterable[Block | None], stream: Stream, name: str) -> None:
        """The task that ``stream`` got last will write these blocks."""
        line = user_line()
        for block in blocks:
            if block is not None:
                self.writes[block.address] = (stream, stream.submitted, line, name)

    def follows(self, stream: Stream, other: Stream, task: int) -> None:
        """The task that ``stream`` got last waits for a task of ``other``."""
        self.after.setdefault(stream, []).append((stream.submitted, other, task))

    def synchronized(self, stream: Stream, task: int | None = None) -> None:
        """The host knows that a task (None: all so far) of ``stream`` ended, and what that one waited for."""
        goal = stream.submitted if task is None else task
        if self.waited.get(stream, -1) >= goal:
            return
        self.waited[stream] = goal
        rest = []
        for entry in self.after.pop(stream, []):
            if entry[0] <= goal:
                self.synchronized(entry[1], entry[2])
            else:
                rest.append(entry)
        if rest:
            self.after[stream] = rest

    def read(self, block: Block | None) -> None:
        """The host takes what a block holds now."""
        last = self.writes.get(block.address) if block is not None else None
        if last is None or block is None:
            return
        stream, task, line, name = last
        if stream.alive and self.waited.get(stream, 0) < task:
            self.tell(
                "result read before its stream was synchronized",
                f"{name} on stream {stream.id}, enqueued at {line[0]}:{line[1]}, may not have ended",
            )
        else:
            del self.writes[block.address]

    # the end

    def left(self) -> None:
        """Memory and objects that were not given back."""
        from acl import _model, handles
        from ascend_sim.runtime.system import running

        system = running()
        if system is None:
            return
        for arena in system.memory.arenas:
            self._blocks(arena)
        owned = set()
        for handle in handles.alive(object):
            owned |= set(getattr(handles.get(handle, object), "descs", {}).values())
        for handle in handles.alive(object):
            if handle not in owned:
                self._object(handle, handles.get(handle, object))
        for model_id, model in _model.loaded_models().items():
            self.tell("never destroyed", f"model {model_id} ({model.path}) was not unloaded", ("?", 0))
        for device in system.devices.active():
            if device.references:
                times = f"{device.references} time{'s' if device.references > 1 else ''}"
                text = f"device {device.index} was set {times} more than it was reset"
                self.tell("never destroyed", text, ("?", 0))

    def resets(self, device: Device, contexts: Iterable[Context], memory: bool) -> None:
        """These contexts of a device, and with ``memory`` all blocks, go because it is reset, not by the program's own
        calls."""
        if memory:
            self._blocks(device.arena)
        for context in contexts:
            for stream in context.streams:
                self._object(stream.handle, stream)
            self._object(context.handle, context)

    def _object(self, handle: int, value: Any) -> None:
        destroyer = _DESTROYERS.get(type(value).__name__)
        if handle and destroyer is not None and not _implicit(value):
            what = f"a {type(value).__name__} was not given to {destroyer}"
            self.tell("never destroyed", what, self.made.get(handle, ("?", 0)))

    def _blocks(self, arena: Arena) -> None:
        for block in sorted(arena.blocks.values(), key=lambda b: b.serial):
            if block.owner.startswith("acl."):
                line = self.made.get(block.address, ("?", 0))
                self.tell("never freed", f"{block.size} B of {block.owner} on {arena.name} were never freed", line)

    def report(self) -> str:
        """All findings, one paragraph each."""
        if not self.findings:
            return "strict: nothing found"
        count = len(self.findings)
        lines = [f"strict: {count} finding{'s' if count > 1 else ''}"]
        order = {kind: i for i, kind in enumerate(dict.fromkeys(f.kind for f in self.findings.values()))}
        for found in sorted(self.findings.values(), key=lambda f: order[f.kind]):
            lines.append(f"  {found.kind}: {found.text}")
            for (path, number), times in [item for item in found.lines.items() if item[0][1]][:_SHOWN]:
                lines.append(f"      {path}:{number}" + (f" ({times} times)" if times > 1 else ""))
            if len(found.lines) > _SHOWN:
                lines.append(f"      and {len(found.lines) - _SHOWN} more lines")
        return "\n".join(lines)


def _implicit(value: Any) -> bool:
    """Default contexts and streams go with their device."""
    name = type(value).__name__
    if name == "Context":
        return not value.explicit
    if name == "Stream":
        return value.context is None or value is value.context.default_stream
    return False


# kinds of objects and what gives them back
_DESTROYERS = {
    "Context": "acl.rt.destroy_context", "Stream": "acl.rt.destroy_stream", "DeviceEvent": "acl.rt.destroy_event",
    "Notify": "acl.rt.destroy_notify", "DataBuffer": "acl.destroy_data_buffer", "Dataset": "acl.mdl.destroy_dataset",
    "ModelDesc": "acl.mdl.destroy_desc", "TensorDesc": "acl.destroy_tensor_desc", "OpAttr": "acl.op.destroy_attr",
    "OpHandle": "acl.op.destroy_handle", "Aipp": "acl.mdl.destroy_aipp", "LoadConfig": "acl.mdl.destroy_config_handle",
    "ExecConfig": "acl.mdl.destroy_exec_config_handle", "Config": "acl.prof.destroy_config",
    "Stamp": "acl.prof.destroy_stamp", "StepInfo": "acl.prof.destroy_step_info", "Piece": "acl.rt.free_physical",
    "Binary": "acl.rt.binary_unload", "BinaryData": "acl.rt.destroy_binary",
    "Allocator": "acl.rt.allocator_destroy_desc", "SubscribeConfig": "acl.prof.destroy_subscribe_config",
}  # fmt: skip

watch: Watch | None = None


def start() -> Watch:
    """Switch strict mode on for this process."""
    global watch
    watch = Watch()
    return watch


def stop() -> None:
    global watch
    watch = None


if os.environ.get("ASCEND_SIM_STRICT") == "1":
    import atexit

    _process = os.getpid()

    def _at_exit() -> None:
        if watch is not None and os.getpid() == _process:  # not in a forked child, which holds its parent's objects
            watch.left()
            sys.stderr.write(f"ascend-sim: {watch.report()}\n")

    start()
    atexit.register(_at_exit)
