"""The simulated machine of this process: its devices, memory, observers and clocks."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from ascend_sim.runtime.conditions import Conditions
from ascend_sim.runtime.host import HostThread, host_thread
from ascend_sim.runtime.hostmem import HostProbe
from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.memory import Arena, Block, MemoryMap
from ascend_sim.runtime.observe import Observers
from ascend_sim.runtime.scheduler import Scheduler
from ascend_sim.soc import Soc, load_soc

if TYPE_CHECKING:
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.reports import Reporter
    from ascend_sim.runtime.virtual import VirtualArena

DEFAULT_DEVICES = 8  # an Atlas 800 training or inference server; ASCEND_SIM_DEVICES says otherwise
MAX_DEVICES = 64  # per process ("hicann/runtime" base_info)
HOST_CAPACITY = 64 << 30  # pinned host memory that may be asked for, B

VALUES_MODES = ("operator", "instruction", "none")


class Devices:
    """The devices by index, made when first used."""

    def __init__(self, system: System, count: int) -> None:
        self._system = system
        self._made: dict[int, Device] = {}
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Device:
        device = self._made.get(index)
        if device is None:
            if not 0 <= index < self._count:
                raise IndexError(f"device {index} does not exist: expected 0..{self._count - 1}")
            from ascend_sim.runtime.device import Device

            with self._system.scheduler.lock:
                device = self._made.get(index)
                if device is None:
                    device = self._made[index] = Device(self._system, index, self._system.soc)
        return device

    def active(self) -> list[Device]:
        """The devices that were used, by index."""
        return [self._made[i] for i in sorted(self._made)]


class System:
    """``costs`` maps the kinds of host calls to ps; ``values`` is how results are computed: ``operator``,
    ``instruction`` or ``none`` (environment ``ASCEND_SIM_VALUES``)."""

    def __init__(self, soc: Soc, devices: int, observers: Observers) -> None:
        self.soc = soc
        self.observers = observers
        self.scheduler = Scheduler()
        self.memory = MemoryMap()
        self.host = self.memory.add(Arena("host (pinned)", HOST_CAPACITY, "host", -1))
        self.probe = HostProbe()
        self._virtual: VirtualArena | None = None
        self.devices = Devices(self, devices)
        self.visible = tuple(range(devices))  # their numbers where all devices of the machine are counted
        self.reporters: dict[int, Reporter] = {}
        self.conditions = Conditions()
        self.registered: dict[int, Block] = {}
        self.options: dict[int, int] = {}  # system parameters
        self.op_timeout = 0  # ps an operator may take; 0: the chip's default, which nothing here reaches
        self.wait_timeout = 0  # ps a stream may wait for an event; 0: no limit
        self.values = os.environ.get("ASCEND_SIM_VALUES") or "operator"
        if self.values not in VALUES_MODES:
            raise ValueError(f"ASCEND_SIM_VALUES is {self.values!r}: expected one of {', '.join(VALUES_MODES)}")
        host = soc.host
        self.costs = {
            name: picoseconds(us)
            for name, us in {
                "none": 0.0,
                "api": host.api_us,
                "launch": host.launch_us,
                "framework": max(host.eager_us - host.launch_us, 0.0),  # of PyTorch itself, an operator
                "memcpy": host.memcpy_call_us,
                "memcpy_async": host.memcpy_async_us,
                "event": host.event_us,
                "sync": host.sync_us,
                "set_device": host.set_device_us,
                "malloc": host.malloc_us,
            }.items()
        }

    @property
    def virtual(self) -> VirtualArena:
        """The addresses that may be reserved without memory behind them."""
        if self._virtual is None:
            from ascend_sim.runtime.virtual import VirtualArena

            with self.scheduler.lock:
                if self._virtual is None:
                    self._virtual = VirtualArena()
                    self.memory.add(self._virtual)
        return self._virtual

    @property
    def thread(self) -> HostThread:
        return host_thread()

    def registered_block(self, address: int, nbytes: int) -> Block | None:
        """The registered (pinned by the user) host range that holds these bytes."""
        for block in self.registered.values():
            if block.address <= address and address + nbytes <= block.address + block.size:
                return block
        return None

    def register(self, address: int, size: int) -> Block:
        """Pin a range of foreign host memory."""
        block = Block(self.host, address, size, size, "host_register", 0)
        self.registered[address] = block
        return block


_lock = threading.Lock()
_system: System | None = None
_choice: dict[str, str | int] = {}
_observers = Observers()


def observers() -> Observers:
    """The observers of this process; may be used before the machine is chosen."""
    return _observers


def configure(*, soc: str | None = None, devices: int | None = None) -> None:
    """Choose chip and number of devices before first use. ValueError when another machine is already running."""
    with _lock:
        if _system is not None:
            if soc is not None and load_soc(soc).name != _system.soc.name:
                raise ValueError(f"soc {soc!r} was asked for, but {_system.soc.name} is already being simulated")
            if devices is not None and devices != len(_system.devices):
                raise ValueError(f"{devices} devices were asked for, but {len(_system.devices)} are already there")
            return
        if soc is not None:
            load_soc(soc)
            _choice["soc"] = soc
        if devices is not None:
            _choice["devices"] = _checked_count(devices, "devices")


def _checked_count(value: str | int, name: str) -> int:
    try:
        count = int(value)
    except ValueError:
        count = 0
    if not 1 <= count <= MAX_DEVICES:
        raise ValueError(f"{name} is {value!r}: expected a number of devices from 1 to {MAX_DEVICES}")
    return count


def device_count() -> int:
    """Devices that a machine made now has: the choice, else ``ASCEND_SIM_DEVICES``. ValueError for a wrong number."""
    devices = _choice.get("devices")
    if devices is None:
        devices = os.environ.get("ASCEND_SIM_DEVICES") or DEFAULT_DEVICES
    return _checked_count(devices, "ASCEND_SIM_DEVICES")


def visible_devices(count: int) -> tuple[int, ...]:
    """The devices that this process may use, of ``count``: those of ``ASCEND_RT_VISIBLE_DEVICES`` up to the first that
    does not exist or is no number ("hicann/runtime" docs/zh/env_vars); all without it."""
    listed = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if listed is None:
        return tuple(range(count))
    found: list[int] = []
    for part in listed.split(","):
        if not (part.isascii() and part.isdigit()) or int(part) >= count or int(part) in found:
            break
        found.append(int(part))
    return tuple(found)


def running() -> System | None:
    """The machine, if it is already there."""
    return _system


def system() -> System:
    """The machine; made on first use from the choice, else ``ASCEND_SIM_SOC``, else the default chip."""
    if _system is not None:
        return _system
    return _make()


class MachineError(ValueError):
    """The machine cannot be made: chip, number of devices or values mode is wrong."""


def _make() -> System:
    try:
        return _made()
    except ValueError as error:
        raise MachineError(str(error)) from error


def _made() -> System:
    global _system
    with _lock:
        if _system is None:
            chosen = _choice.get("soc")
            soc = load_soc(None if chosen is None else str(chosen))
            visible = visible_devices(device_count())
            made = System(soc, len(visible), _observers)
            made.visible = visible
            if not os.environ.get("ASCEND_SIM_QUIET"):
                how = "" if chosen or os.environ.get("ASCEND_SIM_SOC") else "; choose with ASCEND_SIM_SOC"
                sys.stderr.write(f"ascend-sim: simulating {soc.name}, {len(made.devices)} devices{how}\n")
            _system = made
        return _system


def discard() -> None:
    """Forget the machine (tests): the next use makes a new one. Clocks of the calling thread start over."""
    global _system
    with _lock:
        _system = None
        _choice.clear()
    thread = host_thread()
    thread.now = 0
    thread.context = None
    thread.limited_by = None
    thread.messages.clear()
    thread.last_error = thread.last_task = 0
