"""A small model of pyACL's rules, written from the documents and not from the code, and random programs against it.

Contexts, streams, events, memory and copies of two devices, from several host threads that take turns. Every call's
code is predicted; what memory holds is compared in the end.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import acl

DEVICES = 2
BAD = [0, 1, -1, 12345, 1 << 40, (1 << 63) + 7, 0x100_0000_0041]
H2D, D2H, D2D = 1, 2, 3


@dataclass
class Context:
    device: int
    explicit: bool
    alive: bool = True


@dataclass
class Stream:
    context: int
    alive: bool = True
    default: bool = False


@dataclass
class Event:
    alive: bool = True
    recorded: bool = False
    done: bool = True  # as far as the program can know: synchronized since
    stream: int = 0


@dataclass
class Block:
    device: int
    content: bytearray
    alive: bool = True


class Worker:
    """A host thread that does what it is told, one thing at a time."""

    def __init__(self) -> None:
        self._tasks: queue.Queue[Callable[[], Any] | None] = queue.Queue()
        self._answers: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._answers.put((True, task()))
            except BaseException as error:
                self._answers.put((False, error))

    def __call__(self, task: Callable[[], Any]) -> Any:
        self._tasks.put(task)
        good, answer = self._answers.get(timeout=60)  # a hang is a failure
        if not good:
            raise answer
        return answer

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join(60)


@dataclass
class Rules:
    """State of the model; `step` makes one call and checks its code."""

    threads: int = 3
    references: list[int] = field(default_factory=lambda: [0] * DEVICES)
    defaults: dict[int, int] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)
    pending: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.workers = [Worker() for _ in range(self.threads)]
        self.current: list[int] = [0] * self.threads
        self.host = bytearray(1 << 16)
        self.host_at = np.frombuffer(self.host, np.uint8).ctypes.data
        self.who = 0

    # helpers of the model

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def do(self, function: Callable[..., Any], *args: Any) -> Any:
        self.steps += 1
        return self.workers[self.who](lambda: function(*args))

    def expect(self, ret: Any, *codes: int) -> None:
        got = ret[-1] if isinstance(ret, tuple) else ret
        if got not in codes:
            message = self.workers[self.who](acl.get_recent_err_msg) or ""
            raise AssertionError(f"{got}, expected {codes}: {message.splitlines()[:1]}")

    def context(self) -> Context | None:
        found = self.contexts.get(self.current[self.who])
        return found if found is not None and found.alive else None

    def pick(self, rng: random.Random, known: dict[int, Any]) -> int:
        if known and rng.random() < 0.85:
            return rng.choice(list(known))
        return rng.choice(BAD)

    def drop_context(self, handle: int) -> None:
        self.contexts[handle].alive = False
        for stream in self.streams.values():
            if stream.context == handle:
                stream.alive = False
        self.settle(lambda s: self.streams[s].context == handle if s in self.streams else False)

    def settle(self, which: Callable[[int], bool]) -> None:
        """Effects of the tasks of these streams happened."""
        rest = []
        for stream, effect in self.pending:
            if which(stream):
                effect()
            else:
                rest.append((stream, effect))
        self.pending = rest

    def everything_ends(self) -> None:
        self.settle(lambda _: True)

    def busy(self, address: int) -> bool:
        return bool(self.pending)

    # calls

    def set_device(self, rng: random.Random) -> None:
        device = rng.choice([0, 1, 0, 1, 2, -1])
        ret = self.do(acl.rt.set_device, device)
        if not 0 <= device < DEVICES:
            self.expect(ret, 107001)
            return
        self.expect(ret, 0)
        self.references[device] += 1
        handle, ret = self.do(acl.rt.get_context)
        assert ret == 0
        if device not in self.defaults:
            self.defaults[device] = handle
            self.contexts[handle] = Context(device, False)
        assert self.defaults[device] == handle
        self.current[self.who] = handle

    def reset_device(self, rng: random.Random) -> None:
        if rng.random() < 0.8:
            return
        device = rng.choice([0, 1, 3])
        if any(s for s, _ in self.pending):
            self.synchronize_all()
        ret = self.do(acl.rt.reset_device, device)
        if device == 3:
            self.expect(ret, 107001)
        elif self.references[device] == 0:
            self.expect(ret, 507007)
        else:
            self.expect(ret, 0)
            self.references[device] -= 1
            if self.references[device] == 0:
                others = any(c.explicit and c.alive and c.device == device for c in self.contexts.values())
                self.drop_context(self.defaults.pop(device))
                if not others:
                    for block in self.blocks.values():
                        if block.device == device:
                            block.alive = False

    def create_context(self, rng: random.Random) -> None:
        if sum(c.alive for c in self.contexts.values()) > 12:
            return
        device = rng.choice([0, 1, 5])
        handle, ret = self.do(acl.rt.create_context, device)
        self.expect(ret, 0 if device < DEVICES else 107001)
        if ret == 0:
            self.contexts[handle] = Context(device, True)
            self.current[self.who] = handle

    def destroy_context(self, rng: random.Random) -> None:
        if rng.random() < 0.5:
            return
        self.synchronize_all()
        handle = self.pick(rng, self.contexts)
        ret = self.do(acl.rt.destroy_context, handle)
        found = self.contexts.get(handle)
        if handle == 0:
            self.expect(ret, 100000)
        elif found is None or not found.alive or not found.explicit:
            self.expect(ret, 107000)
        else:
            self.expect(ret, 0)
            self.drop_context(handle)

    def set_context(self, rng: random.Random) -> None:
        handle = self.pick(rng, self.contexts)
        ret = self.do(acl.rt.set_context, handle)
        found = self.contexts.get(handle)
        if handle == 0:
            self.expect(ret, 100000)
        elif found is None or not found.alive:
            self.expect(ret, 107000)
        else:
            self.expect(ret, 0)
            self.current[self.who] = handle

    def get_device(self, _: random.Random) -> None:
        device, ret = self.do(acl.rt.get_device)
        context = self.context()
        self.expect(ret, 107002 if context is None else 0)
        if context is not None:
            assert device == context.device

    def create_stream(self, rng: random.Random) -> None:
        if sum(s.alive for s in self.streams.values()) > 24:
            return
        handle, ret = self.do(acl.rt.create_stream)
        self.expect(ret, 107002 if self.context() is None else 0)
        if ret == 0:
            self.streams[handle] = Stream(self.current[self.who])

    def _stream_code(self, handle: int) -> int:
        """What a call on this stream fails with in the current context; 0 when it may go on."""
        if self.context() is None:
            return 107002
        if handle == 0:
            return 0
        found = self.streams.get(handle)
        if found is None or not found.alive:
            return 107000
        return 0 if found.context == self.current[self.who] else 107003

    def destroy_stream(self, rng: random.Random) -> None:
        handle = self.pick(rng, self.streams)
        ret = self.do(acl.rt.destroy_stream, handle)
        code = 100000 if handle == 0 else self._stream_code(handle)
        self.expect(ret, code)
        if code == 0:
            self.settle(lambda s: s == handle)
            self.streams[handle].alive = False

    def synchronize_stream(self, rng: random.Random) -> None:
        handle = 0 if rng.random() < 0.3 else self.pick(rng, self.streams)
        ret = self.do(acl.rt.synchronize_stream, handle)
        code = self._stream_code(handle)
        self.expect(ret, code)
        if code == 0:
            key = handle or -self.current[self.who]
            self.settle(lambda s: s == key)

    def synchronize_all(self) -> None:
        for index, worker in enumerate(self.workers):
            saved = self.current[index]
            for handle in [h for h, c in self.contexts.items() if c.alive]:
                worker(lambda h=handle: acl.rt.set_context(h))  # type: ignore[misc]
                assert worker(acl.rt.synchronize_device) == 0
            if saved and self.contexts[saved].alive:
                worker(lambda h=saved: acl.rt.set_context(h))  # type: ignore[misc]
            else:
                self.current[index] = next((h for h, c in reversed(self.contexts.items()) if c.alive), saved)
                if self.current[index] in self.contexts and self.contexts[self.current[index]].alive:
                    worker(lambda h=self.current[index]: acl.rt.set_context(h))  # type: ignore[misc]
        self.everything_ends()

    def create_event(self, _: random.Random) -> None:
        if sum(e.alive for e in self.events.values()) > 20:
            return
        handle, ret = self.do(acl.rt.create_event)
        self.expect(ret, 107002 if self.context() is None else 0)
        if ret == 0:
            self.events[handle] = Event()

    def _event_code(self, handle: int) -> int:
        if handle == 0:
            return 100000
        found = self.events.get(handle)
        return 0 if found is not None and found.alive else 107000

    def destroy_event(self, rng: random.Random) -> None:
        handle = self.pick(rng, self.events)
        ret = self.do(acl.rt.destroy_event, handle)
        code = self._event_code(handle)
        self.expect(ret, code)
        if code == 0:
            self.events[handle].alive = False

    def record_event(self, rng: random.Random) -> None:
        event = self.pick(rng, self.events)
        stream = 0 if rng.random() < 0.3 else self.pick(rng, self.streams)
        ret = self.do(acl.rt.record_event, event, stream)
        code = self._event_code(event) or self._stream_code(stream)
        self.expect(ret, code)
        if code == 0:
            found = self.events[event]
            found.recorded, found.done, found.stream = True, False, stream or -self.current[self.who]

    def synchronize_event(self, rng: random.Random) -> None:
        event = self.pick(rng, self.events)
        ret = self.do(acl.rt.synchronize_event, event)
        code = self._event_code(event)
        if code == 0 and not self.events[event].recorded:
            code = 107000
        self.expect(ret, code)
        if code == 0:
            found = self.events[event]
            found.done = True

    def elapsed(self, rng: random.Random) -> None:
        first, last = self.pick(rng, self.events), self.pick(rng, self.events)
        ms, ret = self.do(acl.rt.event_elapsed_time, first, last)
        code = self._event_code(first) or self._event_code(last) or (0 if self.events[first].recorded else 107006)
        self.expect(ret, *((code,) if code else (0, 107006, 107007)))
        assert ret or ms >= 0

    # memory

    def malloc(self, rng: random.Random) -> None:
        if sum(b.alive for b in self.blocks.values()) > 40:
            return
        size = rng.choice([0, 1, 31, 32, 64, 100, 4096, 1 << 16, 1 << 40])
        address, ret = self.do(acl.rt.malloc, size, rng.randrange(3))
        context = self.context()
        if size == 0:
            self.expect(ret, 100000)
        elif context is None:
            self.expect(ret, 107002)
        elif size == 1 << 40:
            self.expect(ret, 207001)
        else:
            self.expect(ret, 0)
            assert address % 64 == 0
            assert address not in self.blocks or not self.blocks[address].alive
            value = rng.randrange(256)
            self.blocks[address] = Block(context.device, bytearray([value]) * size)
            assert self.do(acl.rt.memset, address, size, value, size) == 0

    def free(self, rng: random.Random) -> None:
        address = self.pick(rng, self.blocks)
        found = self.blocks.get(address)
        if found is not None and found.alive and self.pending:
            self.synchronize_all()
            if not found.alive:
                return
        ret = self.do(acl.rt.free, address)
        if address == 0:
            self.expect(ret, 100000)
        elif found is None or not found.alive:
            self.expect(ret, 107000)
        else:
            self.expect(ret, 0)
            found.alive = False

    def address(self, rng: random.Random) -> int:
        """Some block, or nothing; not a freed one that overlaps another by now."""
        while True:
            picked = self.pick(rng, self.blocks)
            found = self.blocks.get(picked)
            if found is None or found.alive:
                return picked
            end = picked + len(found.content)
            if not any(b.alive and a < end and picked < a + len(b.content) + 1024 for a, b in self.blocks.items()):
                return picked

    def _range(self, rng: random.Random, address: int) -> tuple[int, int, bool]:
        """(offset, size, whether it lies inside) in a block; sizes far beyond the end are wrong."""
        found = self.blocks.get(address)
        length = len(found.content) if found is not None else 64
        if rng.random() < 0.12:
            return rng.randrange(length), length + rng.randrange(4096, 1 << 15), False
        offset = rng.randrange(length)
        return offset, rng.randrange(1, length - offset + 1), True

    def upload(self, rng: random.Random) -> None:
        address = self.address(rng)
        offset, size, inside = self._range(rng, address)
        room = size - 1 if rng.random() < 0.05 else size
        asynchronous = rng.random() < 0.4
        pattern = bytes([rng.randrange(256)]) * min(size, len(self.host))
        self.host[: len(pattern)] = pattern
        stream = 0 if rng.random() < 0.4 else self.pick(rng, self.streams)
        source, target = self.host_at, address + offset if address else 0
        if size > len(self.host):
            return
        args = (target, room, source, size, H2D)
        found = self.blocks.get(address)
        code = 0
        if target == 0:
            code = 100000
        elif size > room:
            code = 107000
        elif self.context() is None:
            code = 107002
        elif found is None or not found.alive or not inside:
            code = 107000
        if not asynchronous:
            if code == 0:
                self.synchronize_all()
                if not (found is not None and found.alive) or self.context() is None:
                    return
            self.expect(self.do(acl.rt.memcpy, *args), code)
        else:
            code = code or self._stream_code(stream)
            self.expect(self.do(acl.rt.memcpy_async, *args, stream), code)
            if code == 0:  # pageable memory: the call returns when it is done, with all that came before it
                key = stream or -self.current[self.who]
                self.settle(lambda s: s == key)
        if code == 0 and found is not None:
            found.content[offset : offset + size] = pattern

    def download(self, rng: random.Random) -> None:
        address = self.pick(rng, self.blocks)
        found = self.blocks.get(address)
        if found is None or not found.alive or self.context() is None:
            return
        self.synchronize_all()
        if not found.alive or self.context() is None:
            return
        size = min(len(found.content), len(self.host))
        self.expect(self.do(acl.rt.memcpy, self.host_at, size, address, size, D2H), 0)
        assert bytes(self.host[:size]) == bytes(found.content[:size])

    def copy_inside(self, rng: random.Random) -> None:
        """Asynchronous, device to device: seen after the stream was synchronized."""
        source, target = self.address(rng), self.address(rng)
        one, other = self.blocks.get(source), self.blocks.get(target)
        stream = 0 if rng.random() < 0.4 else self.pick(rng, self.streams)
        size = rng.randrange(1, 64)
        if one is not None and other is not None:
            size = min(size, len(one.content), len(other.content))
        ret = self.do(acl.rt.memcpy_async, target, size, source, size, D2D, stream)
        code = 0
        if target == 0 or source == 0:
            code = 100000
        elif self.context() is None:
            code = 107002
        elif other is None or not other.alive or one is None or not one.alive:
            code = 107000
        code = code or self._stream_code(stream)
        self.expect(ret, code)
        if code:
            return
        assert one is not None and other is not None

        def effect() -> None:
            other.content[:size] = one.content[:size]

        self.pending.append((stream or -self.current[self.who], effect))
        self.synchronize_all()  # streams are ordered by events only: keep the model free of races

    def fill(self, rng: random.Random) -> None:
        address = self.address(rng)
        offset, size, inside = self._range(rng, address)
        value = rng.randrange(256)
        found = self.blocks.get(address)
        room = size - 1 if rng.random() < 0.05 else size
        target = address + offset if address else 0
        ret = self.do(acl.rt.memset, target, room, value, size)
        code = 0
        if target == 0:
            code = 100000
        elif size > room:
            code = 107000
        elif self.context() is None:
            code = 107002
        elif found is None or not found.alive or not inside:
            code = 107000
        self.expect(ret, code)
        if code == 0 and found is not None:
            found.content[offset : offset + size] = bytes([value]) * size

    CALLS = (
        "set_device", "reset_device", "create_context", "destroy_context", "set_context", "get_device",
        "create_stream", "destroy_stream", "synchronize_stream", "create_event", "destroy_event", "record_event",
        "synchronize_event", "elapsed", "malloc", "malloc", "free", "upload", "upload", "download", "copy_inside",
        "fill",
    )  # fmt: skip

    def step(self, rng: random.Random) -> None:
        self.who = rng.randrange(self.threads)
        getattr(self, rng.choice(self.CALLS))(rng)
        for known in (self.contexts, self.streams, self.events):  # dead ones are tried for a while, then forgotten
            if len(known) > 60:
                for handle in [h for h, v in known.items() if not v.alive][:30]:  # type: ignore[attr-defined]
                    if handle not in self.current:
                        del known[handle]  # type: ignore[attr-defined]
        if len(self.blocks) > 120:
            for address in [a for a, b in self.blocks.items() if not b.alive][:60]:
                del self.blocks[address]

    def check_memory(self) -> None:
        """Everything that is alive holds what the model says."""
        self.synchronize_all()
        self.who = 0
        if self.context() is None:
            return
        for address, block in self.blocks.items():
            if block.alive:
                size = min(len(block.content), len(self.host))
                assert self.do(acl.rt.memcpy, self.host_at, size, address, size, D2H) == 0
                assert bytes(self.host[:size]) == bytes(block.content[:size])
