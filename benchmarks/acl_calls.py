"""Cost of pyACL calls on this machine: ``python -m benchmarks.acl_calls [--json]``.

Each figure is the best of several rounds, in microseconds of CPU time a call: what the simulator adds to a program,
besides the bytes it must move and the values it must compute. The exit code is 1 when a limit is passed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS = 7
CALLS = 2000
OPERATORS = 50
# most us a call; the last is what mdl.execute adds to the values of the model
LIMITS = {"malloc + free": 10.0, "memcpy 4 KiB over memmove": 10.0, "execute 50 operators over values": 3000.0}


def best(work: Callable[[], None], calls: int = 0) -> float:
    """us of one call of ``work``, the best round."""
    calls = min(calls or CALLS, CALLS)
    found = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            work()
        found = min(found, (time.process_time() - start) / calls * 1e6)
    return found


def network(operators: int, width: int = 64) -> bytes:
    """A compiled chain of ``operators`` matrix products and activations on [8, width]."""
    from onnx import TensorProto, helper, numpy_helper

    from ascend_sim.graph.compile import compile_model

    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for index in range(operators // 2):
        weights.append(numpy_helper.from_array(rng.standard_normal((width, width), np.float32) / width, f"w{index}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{index}"], [f"h{index}"], name=f"fc{index}"))
        nodes.append(helper.make_node("Softmax", [f"h{index}"], [f"s{index}"], name=f"act{index}", axis=-1))
        name = f"s{index}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, width])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, width])],
        weights,
    )
    model: Any = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return compile_model(model.SerializeToString(), "Ascend910B2")


def measure() -> dict[str, float]:
    """Every figure by name, in us."""
    import acl

    if acl.init() or acl.rt.set_device(0):
        raise RuntimeError(acl.get_recent_err_msg())
    found: dict[str, float] = {}

    def pair() -> None:
        pointer, _ = acl.rt.malloc(4096, 0)
        acl.rt.free(pointer)

    found["malloc + free"] = best(pair)

    data = bytes(4096)
    host, (device, _) = acl.util.bytes_to_ptr(data), acl.rt.malloc(4096, 0)
    move = best(lambda: ctypes.memmove(device, host, 4096) and None)
    found["memmove 4 KiB"] = move
    found["memcpy 4 KiB over memmove"] = best(lambda: acl.rt.memcpy(device, 4096, host, 4096, 1)) - move
    pinned, _ = acl.rt.malloc_host(4096)
    stream, _ = acl.rt.create_stream()

    def queued() -> None:
        acl.rt.memcpy_async(device, 4096, pinned, 4096, 1, stream)
        acl.rt.synchronize_stream(stream)

    found["memcpy_async 4 KiB + synchronize"] = best(queued)
    first, _ = acl.rt.create_event()

    def marked() -> None:
        acl.rt.record_event(first, stream)
        acl.rt.synchronize_event(first)

    found["record + synchronize event"] = best(marked)
    found["create + destroy data buffer"] = best(lambda: acl.destroy_data_buffer(acl.create_data_buffer(device, 4096)))
    desc = [acl.create_tensor_desc(1, [256], 2)]
    buffer = [acl.create_data_buffer(device, 4096)]

    def relu() -> None:
        acl.op.execute_v2("Relu", desc, buffer, desc, buffer, 0, stream)
        acl.rt.synchronize_stream(stream)

    found["op.execute_v2 + synchronize"] = best(relu, 500)
    found.update(_model(acl))
    return found


def _model(acl: Any) -> dict[str, float]:
    om = network(OPERATORS)
    model, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(om), len(om))
    if ret:
        raise RuntimeError(acl.get_recent_err_msg())
    size = 8 * 64 * 4
    sets = []
    for _ in range(2):
        pointer, _ = acl.rt.malloc(size, 0)
        acl.rt.memset(pointer, size, 0, size)
        sets.append(acl.mdl.create_dataset())
        acl.mdl.add_dataset_buffer(sets[-1], acl.create_data_buffer(pointer, size))
    if acl.mdl.execute(model, *sets):
        raise RuntimeError(acl.get_recent_err_msg())
    from acl import _model as models

    loaded = models.loaded_models()[model].loaded
    x = np.zeros((8, 64), np.float32)
    values = best(lambda: loaded.run_values([x]) and None, 50)
    whole = best(lambda: acl.mdl.execute(model, *sets), 50)
    return {
        "operators of the model": float(len(loaded.calls)),
        "execute 50 operators": whole,
        "values of 50 operators": values,
        "execute 50 operators over values": whole - values,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args()
    os.environ.setdefault("ASCEND_SIM_SOC", "Ascend910B2")
    os.environ["ASCEND_SIM_QUIET"] = "1"
    found = measure()
    if args.json:
        print(json.dumps({"us": found, "limits": LIMITS}))
    else:
        for name, us in found.items():
            limit = f"  (limit {LIMITS[name]:g})" if name in LIMITS else ""
            print(f"{name:36} {us:10.2f}{limit}")
    return 1 if any(found[name] > most for name, most in LIMITS.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
