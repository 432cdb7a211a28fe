"""What a pyACL program does to run one .om file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.strings import ROOM, pack, unpack

Array = NDArray[Any]
H2D, D2H = 1, 2


class Refused(Exception):
    """An ACL call that returned an error."""


def _ok(ret: int, call: str) -> None:
    if ret:
        import acl

        raise Refused(f"{call} returned {ret}: {acl.get_recent_err_msg()}")


def open_device(soc: str) -> None:
    """Initialise ACL on a simulated chip."""
    os.environ["ASCEND_SIM_SOC"] = soc
    import acl

    _ok(acl.init(), "acl.init")
    _ok(acl.rt.set_device(0), "acl.rt.set_device")


class Model:
    """A loaded .om; `run` takes arrays by input name and gives the outputs in the shapes that the device reports."""

    def __init__(self, path: str) -> None:
        import acl

        self.acl = acl
        self.id, ret = acl.mdl.load_from_file(path)
        _ok(ret, "acl.mdl.load_from_file")
        self.desc = acl.mdl.create_desc()
        _ok(acl.mdl.get_desc(self.desc, self.id), "acl.mdl.get_desc")

    def close(self) -> None:
        self.acl.mdl.destroy_desc(self.desc)
        self.acl.mdl.unload(self.id)

    def _dataset(self, sizes: Sequence[int], contents: Sequence[Array | None]) -> tuple[int, list[int]]:
        acl = self.acl
        made, pointers = acl.mdl.create_dataset(), []
        for size, array in zip(sizes, contents, strict=True):
            room = max(size, 1)
            pointer, ret = acl.rt.malloc(room, 0)
            _ok(ret, "acl.rt.malloc")
            if array is not None and array.nbytes:
                data = pack(array, room).tobytes() if array.dtype == np.object_ else array.tobytes()
                _ok(acl.rt.memcpy(pointer, room, acl.util.bytes_to_ptr(data), len(data), H2D), "acl.rt.memcpy")
            pointers.append(pointer)
            _, ret = acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(pointer, room))
            _ok(ret, "acl.mdl.add_dataset_buffer")
        return made, pointers

    def _free(self, dataset: int, pointers: Sequence[int]) -> None:
        acl = self.acl
        for index in range(len(pointers)):
            acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index))
        acl.mdl.destroy_dataset(dataset)
        for pointer in pointers:
            acl.rt.free(pointer)

    def _output(self, index: int, dataset: int, pointer: int) -> Array:
        from acl._descs import DTYPES
        from ascend_sim.ops.dtypes import numpy_dtype

        acl = self.acl
        name = DTYPES[acl.mdl.get_output_data_type(self.desc, index)][0]
        dims, ret = acl.mdl.get_output_dims(self.desc, index)
        _ok(ret, "acl.mdl.get_output_dims")
        shape = tuple(dims["dims"])
        described = acl.mdl.get_dataset_tensor_desc(dataset, index)
        if described:
            shape = tuple(
                acl.get_tensor_desc_dim_v2(described, i)[0] for i in range(acl.get_tensor_desc_num_dims(described))
            )
        count = int(np.prod(shape, dtype=np.int64))
        dtype = numpy_dtype(name)
        data = bytes(count * (ROOM if name == "string" else dtype.itemsize))
        if data:
            _ok(acl.rt.memcpy(acl.util.bytes_to_ptr(data), len(data), pointer, len(data), D2H), "acl.rt.memcpy")
        if name == "string":
            return unpack(np.frombuffer(data, np.uint8), shape)
        return np.frombuffer(data, dtype).reshape(shape)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        acl = self.acl
        names = [acl.mdl.get_input_name_by_index(self.desc, i) for i in range(acl.mdl.get_num_inputs(self.desc))]
        sizes = [acl.mdl.get_input_size_by_index(self.desc, i) for i in range(len(names))]
        outs = [acl.mdl.get_output_size_by_index(self.desc, i) for i in range(acl.mdl.get_num_outputs(self.desc))]
        source, given = self._dataset(sizes, [inputs[n] for n in names])
        target, wanted = self._dataset(outs, [None] * len(outs))
        try:
            _ok(acl.mdl.execute(self.id, source, target), "acl.mdl.execute")
            return [self._output(i, target, pointer) for i, pointer in enumerate(wanted)]
        finally:
            self._free(source, given)
            self._free(target, wanted)
