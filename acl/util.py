"""acl.util: addresses of Python objects, and threads.

Nothing is copied and no reference is kept, as in the C extension: whoever drops the object holds a dangling
address.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acl import _names, _strict
from acl._api import api
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.system import running, system

if TYPE_CHECKING:
    import numpy as np

_BYTES_HEADER = sys.getsizeof(b"") - 1  # where CPython keeps the characters of a bytes object
_THREAD_FAILED = 500001


def _readable(ptr: int, size: int, write: bool) -> None:
    machine = running() or system()
    try:
        place = locate(machine, ptr, size, write, "ptr")
    except BadAddress as error:
        raise ValueError(f"{error}") from None
    if _strict.watch is not None:
        if place.device >= 0 and machine.soc.chip.run_mode == 1:
            _strict.watch.host_access()
        _strict.watch.read(place.block)


def _array(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray):
        raise ValueError(f"expected numpy.ndarray, got {type(value).__name__}")
    return value


@api("acl.util.numpy_to_ptr", "numpy_to_ptr")
def numpy_to_ptr(array: Any, /) -> int:
    found = _array(array)
    warnings.warn("acl.util.numpy_to_ptr is deprecated: use numpy.ndarray.tobytes and bytes_to_ptr", stacklevel=3)
    if not found.flags.c_contiguous:
        warnings.warn("the array is not C-contiguous: memory order differs from index order", stacklevel=3)
    return int(found.ctypes.data)


@api("acl.util.numpy_contiguous_to_ptr", "numpy_contiguous_to_ptr")
def numpy_contiguous_to_ptr(array: Any, /) -> tuple[int, Any]:
    import numpy as np

    whole = np.ascontiguousarray(_array(array))
    return int(whole.ctypes.data), whole


@api("acl.util.ptr_to_numpy", "ptr_to_numpy")
def ptr_to_numpy(ptr: int, shape: tuple[int, ...], numpy_type_num: int, /) -> np.ndarray[Any, Any]:
    import numpy as np

    warnings.warn("acl.util.ptr_to_numpy is deprecated: use ptr_to_bytes and numpy.frombuffer", stacklevel=3)
    dims = []
    for dim in shape:
        if not isinstance(dim, int) or dim < 0:
            raise ValueError(f"shape must be a tuple of ints >= 0, got {shape!r}")
        dims.append(dim)
    dtype = _numpy_type(numpy_type_num)
    nbytes = dtype.itemsize
    for dim in dims:
        nbytes *= dim
    if nbytes == 0:
        return np.empty(dims, dtype)
    _readable(ptr, nbytes, False)
    return np.ndarray(dims, dtype, buffer=memoryview((ctypes.c_char * nbytes).from_address(ptr)))


def _numpy_type(number: int) -> np.dtype[Any]:
    import numpy as np

    for char in "?bBhHiIlLqQfdgFDGe":
        dtype = np.dtype(char)
        if dtype.num == number:
            return dtype
    raise ValueError(f"{number} is no numeric numpy type number (such as 1 BYTE, 2 UBYTE, 5 INT, 11 FLOAT32)")


@api("acl.util.bytes_to_ptr", "bytes_to_ptr")
def bytes_to_ptr(data: bytes, /) -> int:
    return id(data) + _BYTES_HEADER


@api("acl.util.ptr_to_bytes", "ptr_to_bytes")
def ptr_to_bytes(ptr: int, size: int, /) -> bytes:
    if size < 0:
        raise ValueError(f"size must be at least 0, got {size}")
    if size == 0:
        return b""
    _readable(ptr, size, False)
    return ctypes.string_at(ptr, size)


# -- threads -----------------------------------------------------------------------------------------------


class _Thread(threading.Thread):
    def __init__(self, function: Callable[..., Any], args: Any, now: int) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._args_object = args
        self._now = now
        self.started = threading.Event()
        self.error: BaseException | None = None
        self.ended = 0

    def run(self) -> None:
        host_thread().join(self._now)  # the new thread knows what its creator knew
        self.started.set()
        try:
            if self._args_object is None:
                self._function()
            else:
                self._function(self._args_object)
        except BaseException as error:  # reported by stop_thread
            self.error = error
        self.ended = host_thread().now


_threads: dict[int, _Thread] = {}


def forget_all() -> None:
    """Tests: start over."""
    _threads.clear()


@api("acl.util.start_thread", "start_thread")
def start_thread(function: Callable[..., Any], args: Any, /) -> tuple[int, int]:
    thread = _Thread(function, args, host_thread().now)
    thread.start()
    thread.started.wait()
    assert thread.ident is not None
    _threads[thread.ident] = thread
    return thread.ident, 0


@api("acl.util.stop_thread", "stop_thread")
def stop_thread(thread_id: int, /) -> int:
    from acl import errors

    thread = _threads.pop(thread_id, None)
    if thread is None:
        return errors.bad("thread_id", thread_id, "an id of acl.util.start_thread that was not stopped yet")
    thread.join()
    host_thread().join(thread.ended)
    if thread.error is not None:
        raise RuntimeError(f"thread raised {type(thread.error).__name__}: {thread.error}") from thread.error
    return 0


__all__ = list(_names.complete(globals(), "util"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
