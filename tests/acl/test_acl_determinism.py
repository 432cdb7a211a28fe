"""The same program takes the same simulated time in every process, whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from acl_models import mlp

SCRIPT = """
import sys
import numpy as np
import acl
from acl import _sim

acl.init()
acl.rt.set_device(0)
seen = []
_sim.observe(lambda e: seen.append((e.kind, e.name, e.device, e.stream, e.task, e.start, e.end)))
model, ret = acl.mdl.load_from_file(sys.argv[1])
assert ret == 0
streams = [acl.rt.create_stream()[0] for _ in range(4)]
inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
for dataset, size in ((inputs, 4 * 32 * 4), (outputs, 4 * 10 * 4)):
    acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size))
n = 1 << 20
device, pinned = acl.rt.malloc(n, 0)[0], acl.rt.malloc_host(n)[0]
desc, buffer = acl.create_tensor_desc(1, [256, 256], 2), acl.create_data_buffer(device, n)
events = [acl.rt.create_event()[0] for _ in range(4)]
for turn in range(3):
    for i, stream in enumerate(streams):
        acl.rt.memcpy_async(device, n, pinned, n, 1, stream)
        acl.mdl.execute_async(model, inputs, outputs, stream)
        assert acl.op.execute_v2("MatMulV2", [desc] * 2, [buffer] * 2, [desc], [buffer], 0, stream) == 0
        acl.rt.record_event(events[i], stream)
        acl.rt.stream_wait_event(streams[i - 1], events[i])
    acl.rt.stream_query(streams[1])
assert acl.rt.synchronize_device() == 0
print(hash is None, _sim.host().now, len(seen))
for event in seen:
    print(*event)
"""


def test_two_processes_agree(tmp_path: Path) -> None:
    om, script = tmp_path / "mlp.om", tmp_path / "program.py"
    om.write_bytes(mlp())
    script.write_text(SCRIPT)
    outputs = []
    for seed in ("1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "ASCEND_SIM_SOC": "Ascend910B2", "ASCEND_SIM_QUIET": "1"}
        done = subprocess.run(
            [sys.executable, str(script), str(om)], capture_output=True, text=True, env=env, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("kernel") > 20
