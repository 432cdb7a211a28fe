"""What a copy is between: checks addresses against the memory map, deduces the direction, moves the bytes."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.tasks import move

if TYPE_CHECKING:
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.host import HostThread
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.system import System


class BadAddress(ValueError):
    """An address range that no copy may touch; the message says what lies there."""


class Place(NamedTuple):
    """Where a byte range lies. ``device`` is -1 on the host; ``block`` is None for foreign host memory."""

    address: int
    device: int
    block: Block | None

    @property
    def pinned(self) -> bool:
        return self.block is not None


_place = tuple.__new__  # what making a Place comes down to, without the detour of keywords


def locate(system: System, address: int, nbytes: int, write: bool, what: str) -> Place:
    """The place of ``nbytes`` at ``address``; `BadAddress` when they may not be touched."""
    if nbytes < 0:
        nbytes += 1 << 64  # as the C interface sees it
    for arena in system.memory.arenas:
        if arena.base <= address < arena.end:
            block = arena.blocks.get(address) or arena.find(address)
            if block is None:
                freed = arena.freed.get(address)
                state = (
                    f"the block there ({freed.size} B, by {freed.owner}) was freed"
                    if freed is not None
                    else "no allocation covers it"
                )
                raise BadAddress(f"{what} {address:#x} lies in {arena.name}, but {state}")
            if address + nbytes > block.address + block.padded:
                room = block.address + block.size - address
                raise BadAddress(
                    f"{what} {address:#x} + {nbytes} B passes the end of its block: {block.size} B allocated by "
                    f"{block.owner} at {block.address:#x}, {max(0, room)} B from here to its end"
                )
            return _place(Place, (address, block.device, block))
    if not system.probe.ok(address, nbytes, write):
        access = "writable" if write else "readable"
        raise BadAddress(f"{what} {address:#x} + {nbytes} B is not {access} memory of this process")
    return _place(Place, (address, -1, system.registered_block(address, nbytes) if system.registered else None))


def direction(dst: Place, src: Place) -> str:
    """``h2h``, ``h2d``, ``d2h``, ``d2d`` or ``p2p``."""
    if dst.device < 0:
        return "h2h" if src.device < 0 else "d2h"
    if src.device < 0:
        return "h2d"
    return "d2d" if dst.device == src.device else "p2p"


def copy_now(
    device: Device,
    thread: HostThread,
    dst: Place,
    src: Place,
    width: int,
    rows: int = 1,
    dst_pitch: int = 0,
    src_pitch: int = 0,
    way: str = "",
) -> None:
    """Synchronous copy: sees what the device has done by the host's time, and costs the transfer.

    It does not wait for streams: results of tasks that have not ended are not there yet. ``way`` is its direction, if
    the caller knows it.
    """
    way = way or direction(dst, src)
    if way == "h2h":
        move(dst.address, src.address, width, rows, dst_pitch, src_pitch)
        return
    nbytes = width * rows
    pinned = (src if way == "h2d" else dst).pinned if way in ("h2d", "d2h") else True
    scheduler, now = device.scheduler, thread.now
    with scheduler.lock:
        scheduler.advance(device, now)
        for index in (dst.device, src.device):
            if index >= 0 and index != device.index:
                scheduler.advance(device.system.devices[index], now)
        duration = device.link.ps(way, nbytes, pinned)
        start = device.reserve_channel(way, now, duration)
        if rows == 1:
            ctypes.memmove(dst.address, src.address, width)
        else:
            move(dst.address, src.address, width, rows, dst_pitch, src_pitch)
        if device.system.conditions.waiting:
            device.system.conditions.poke(start + duration)
    thread.now = start + duration
    observers = device.system.observers
    if observers.active:
        args = {"direction": way, "nbytes": nbytes, "pinned": pinned, "queued": start}
        observers.emit(Event("memcpy", "memcpy", device.index, -1, 0, start, thread.now, thread.index, args))


def fill_now(device: Device, thread: HostThread, place: Place, value: int, nbytes: int) -> None:
    """Synchronous memset of device (or host) memory."""
    if place.device < 0:
        ctypes.memset(place.address, value, nbytes)
        return
    scheduler = device.scheduler
    with scheduler.lock:
        scheduler.advance(device.system.devices[place.device], thread.now)
        duration = device.link.ps("set", nbytes)
        start = device.reserve_channel("set", thread.now, duration)
        ctypes.memset(place.address, value, nbytes)
        if device.system.conditions.waiting:
            device.system.conditions.poke(start + duration)
    thread.now = start + duration
    observers = device.system.observers
    if observers.active:
        args = {"nbytes": nbytes, "queued": start}
        observers.emit(Event("memset", "memset", device.index, -1, 0, start, thread.now, thread.index, args))
