"""What pyACL programs do with buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

import acl


class Program:
    """Asserts that every call succeeds."""

    def upload(self, array: np.ndarray[Any, Any]) -> tuple[int, int]:
        data = array.tobytes()
        pointer, ret = acl.rt.malloc(max(len(data), 1), 0)
        assert ret == 0
        assert acl.rt.memcpy(pointer, len(data), acl.util.bytes_to_ptr(data), len(data), 1) == 0
        return pointer, len(data)

    def download(self, pointer: int, nbytes: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        data = bytes(nbytes)
        assert acl.rt.memcpy(acl.util.bytes_to_ptr(data), nbytes, pointer, nbytes, 2) == 0
        return np.frombuffer(data, dtype)

    def empty(self, nbytes: int) -> int:
        pointer, ret = acl.rt.malloc(nbytes, 0)
        assert ret == 0
        return int(pointer)

    def stream(self) -> int:
        stream, ret = acl.rt.create_stream()
        assert ret == 0
        return int(stream)

    def event(self) -> int:
        event, ret = acl.rt.create_event()
        assert ret == 0
        return int(event)
