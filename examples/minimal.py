"""The shortest pyACL inference: one model, random inputs. ``python minimal.py model.om`` or with ``ascend-sim run``."""

from __future__ import annotations

import sys

import numpy as np

import acl

HUGE_FIRST, TO_DEVICE, TO_HOST = 0, 1, 2


def check(code: int, call: str) -> None:
    if code:
        raise SystemExit(f"{call} returned {code}: {acl.get_recent_err_msg()}")


def dataset(sizes: list[int]) -> tuple[int, list[int]]:
    """A dataset with one device buffer of each size, and the addresses of the buffers."""
    made, addresses = acl.mdl.create_dataset(), []
    for size in sizes:
        address, code = acl.rt.malloc(size, HUGE_FIRST)
        check(code, "acl.rt.malloc")
        acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(address, size))
        addresses.append(address)
    return made, addresses


def main(path: str) -> None:
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    model, code = acl.mdl.load_from_file(path)
    check(code, "acl.mdl.load_from_file")
    desc = acl.mdl.create_desc()
    check(acl.mdl.get_desc(desc, model), "acl.mdl.get_desc")
    need = [acl.mdl.get_input_size_by_index(desc, i) for i in range(acl.mdl.get_num_inputs(desc))]
    give = [acl.mdl.get_output_size_by_index(desc, i) for i in range(acl.mdl.get_num_outputs(desc))]
    (inputs, sources), (outputs, results) = dataset(need), dataset(give)
    for address, size in zip(sources, need, strict=True):
        picture = np.random.default_rng(0).random(size // 4, np.float32).tobytes()  # a model with float32 inputs
        pointer = acl.util.bytes_to_ptr(picture)
        check(acl.rt.memcpy(address, size, pointer, len(picture), TO_DEVICE), "acl.rt.memcpy")
    for _ in range(3):  # the first one also fetches the kernels' code
        check(acl.mdl.execute(model, inputs, outputs), "acl.mdl.execute")
    for address, size in zip(results, give, strict=True):
        host = bytes(size)
        check(acl.rt.memcpy(acl.util.bytes_to_ptr(host), size, address, size, TO_HOST), "acl.rt.memcpy")
        print(np.frombuffer(host, np.float32)[:8])
    for made in (inputs, outputs):
        for i in range(acl.mdl.get_dataset_num_buffers(made)):
            acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(made, i))
        acl.mdl.destroy_dataset(made)
    for address in sources + results:
        acl.rt.free(address)
    acl.mdl.destroy_desc(desc)
    acl.mdl.unload(model)
    acl.rt.reset_device(0)
    acl.finalize()


if __name__ == "__main__":
    main(sys.argv[1])
