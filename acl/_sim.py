"""The private door for layers that sit on pyACL and need what it has no name for. Not part of pyACL."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.host import HostThread, host_thread
from ascend_sim.runtime.observe import Event, Observer
from ascend_sim.runtime.system import observers as _observers
from ascend_sim.runtime.system import system

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ascend_sim.runtime.memory import Arena
    from ascend_sim.soc import Soc


def soc() -> Soc:
    """The chip that is simulated."""
    return system().soc


def arena(device: int) -> Arena:
    """The memory of a device: ``used``, ``peak``, ``capacity`` and the living blocks."""
    return system().devices[device].arena


def view(address: int, nbytes: int) -> NDArray[Any]:
    """Device or pinned host memory as a writable uint8 array. ValueError outside of a living block."""
    block = system().memory.find(address)
    if block is None or address + nbytes > block.end:
        raise ValueError(f"{address:#x} + {nbytes} B is not inside an allocation of this simulator")
    return block.arena.view(address, nbytes)


def values_mode() -> str:
    """``operator``, ``instruction`` or ``none``."""
    return system().values


def set_values_mode(mode: str) -> None:
    """Choose how results are computed from now on."""
    from ascend_sim.runtime.system import VALUES_MODES

    if mode not in VALUES_MODES:
        raise ValueError(f"values mode {mode!r}: expected one of {', '.join(VALUES_MODES)}")
    system().values = mode


def observe(observer: Observer) -> Observer:
    """Call ``observer`` with every event from now on."""
    return _observers().add(observer)


def unobserve(observer: Observer) -> None:
    _observers().remove(observer)


# -- profiles ----------------------------------------------------------------------------------------------


def recorder() -> EventStore:
    """A new store that keeps every event from now on; `unobserve` ends that."""
    store = EventStore()
    observe(store)
    return store


def recording() -> bool:
    """Whether anybody listens to events."""
    return _observers().active


def emit(kind: str, name: str, start: int, end: int, **args: Any) -> None:
    """Record what a framework did on the calling thread, in ps of its clock (`host`): ``op``, ``step``, ``memory``,
    ``host`` with the ``args`` that `ascend_sim.runtime.observe.Event` describes. ``device``, ``stream``, ``task`` and
    ``thread`` say where when it was elsewhere. Nothing happens when nobody listens."""
    if not _observers().active:
        return
    where = {key: args.pop(key, default) for key, default in (("device", -1), ("stream", -1), ("task", 0))}
    thread = args.pop("thread", None)
    index = host_thread().index if thread is None else thread
    _observers().emit(Event(kind, name, where["device"], where["stream"], where["task"], start, end, index, args))


def write_ascend_pt(store: EventStore, parent: str | PathLike[str], **options: Any) -> Path:
    """Write a ``*_ascend_pt`` directory below ``parent``: see `ascend_sim.profiling.ascend_pt.write` for ``worker``,
    ``now``, ``rank`` and ``metadata``; all other options are fields of `ascend_sim.profiling.ascend_pt.Options`."""
    from ascend_sim.profiling import ascend_pt

    plain = {key: options.pop(key) for key in ("worker", "now", "rank", "metadata") if key in options}
    return ascend_pt.write(store, soc(), Path(parent), options=ascend_pt.Options(**options), **plain)


def write_trace(store: EventStore, path: str | PathLike[str]) -> int:
    """Write the events as a trace that Perfetto loads; returns the number of slices."""
    from ascend_sim.profiling import perfetto

    return perfetto.write(store.events, Path(path))


def key_averages(store: EventStore) -> list[dict[str, Any]]:
    """Framework operators by name: ``name``, ``count`` and us on host (``self_us``, ``total_us``) and device
    (``device_self_us``, ``device_total_us``), the longest on the device first."""
    from ascend_sim.profiling.ascend_pt_tables import key_averages as averages

    return averages(store)


def transfer_ps(direction: str, nbytes: int, pinned: bool = True, device: int = 0) -> int:
    """What a copy costs (``h2d``, ``d2h``, ``d2d``, ``p2p``), in ps, without the host's call."""
    return system().devices[device].link.ps(direction, nbytes, pinned)


def host() -> HostThread:
    """The calling thread's clock (``now``, ps) and context."""
    return host_thread()


def charge(ps: int) -> None:
    """Host work of the calling thread that no acl call stands for."""
    host_thread().now += ps


def flush_l2(device: int) -> None:
    """Make the device's caches cold, as benchmarks do between runs."""
    system().devices[device].l2.flush_cold()


def reset() -> None:
    """Start over as in a new process: no machine, no handles, not initialized (for tests)."""
    from acl import (
        _init,
        _mdl_load,
        _model,
        _rt_allocator,
        _rt_exception,
        _rt_kernel,
        _rt_notify,
        _rt_virtual,
        errors,
        handles,
        op,
        prof,
        util,
    )
    from ascend_sim.runtime import system as machine

    machine.discard()
    handles.forget_all()
    _model.forget_all()
    errors.set_process_wide(False)
    errors.take_messages()
    parts = (_rt_allocator, _rt_exception, _rt_kernel, _rt_notify, _rt_virtual)
    for module in (_init, _mdl_load, *parts, op, prof, util):
        module.forget_all()
