"""Programs in processes of their own: scripts for CUDA, two processes with hccl, torch's operator database."""

import csv
import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_npu")

HERE = Path(__file__).parent


def _run(code, *arguments, **environment):
    env = {**os.environ, "ASCEND_SIM_QUIET": "1", **environment}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_script_for_cuda_runs_with_one_more_import():
    done = _run(
        "import torch\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        "assert torch.cuda.is_available()\n"
        "device = torch.device('cuda:0')\n"
        "net = torch.nn.Linear(4, 2).cuda()\n"
        "x = torch.randn(3, 4, device='cuda').to(device)\n"
        "with torch.cuda.amp.autocast():\n"
        "    loss = net(x).float().sum()\n"
        "scaler = torch.cuda.amp.GradScaler()\n"
        "scaler.scale(loss).backward()\n"
        "torch.cuda.synchronize()\n"
        "print(x.is_cuda, x.device, net.weight.grad.device)\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "npu:0", "npu:0"]


LATE = ("torch.distributed.fsdp", "torch.cuda.nvtx", "torch.cuda._pin_memory_utils", "torch.distributed.checkpoint",
        "torch._inductor", "torch.ao.quantization")  # fmt: skip


@pytest.mark.parametrize("module", LATE)
def test_what_torch_imports_late_is_there_after_the_transfer(module):
    done = _run(f"import torch\nfrom torch_npu.contrib import transfer_to_npu\nimport {module}\nprint('there')")
    assert done.stdout.split() == ["there"], done.stderr[-2000:]


def test_torch_loads_the_device_when_it_is_built_and_never_stops_for_it(tmp_path):
    assert any(e.value == "torch_npu:_autoload" for e in entry_points(group="torch.backends")), "install it anew"
    show = "import sys, torch; print('torch_npu' in sys.modules, hasattr(torch, 'npu'))\n"
    device = "import torch; print((torch.ones(2, device='npu') + 1).tolist())"
    assert _run(device).stdout.split("\n")[0] == "[2.0, 2.0]"
    assert _run(show, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.split() == ["False", "False"]
    nowhere = {"TORCH_NPU_CACHE": str(tmp_path), "CXX": "no-such-compiler"}
    assert _run(show, **nowhere).stdout.split() == ["False", "False"]
    later = _run(show + "import torch_npu", **nowhere)
    assert later.returncode == 1 and "needs a C++ compiler" in later.stderr


EXAMPLE = HERE.parent.parent / "examples" / "train_cuda_script.py"


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_training_script_for_cuda(processes, tmp_path):
    """Mixed precision, loader workers, pinned memory, (two processes,) checkpoint and profile, no fallback."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"] if processes > 1 else []
    env = {**os.environ, "ASCEND_SIM_QUIET": "1", "TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}
    outputs = []
    for more in (["--profile", "log"], []):
        command = [sys.executable, *start, str(EXAMPLE), "--steps", "4", "--checkpoint", "state.pt", *more]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        outputs.append(done.stdout)
    losses = [[float(x) for x in re.search(r"loss (\S+) -> (\S+),", text).groups()] for text in outputs]
    assert "steps 0 to 4" in outputs[0] and "steps 4 to 8" in outputs[1]
    assert losses[0][0] == pytest.approx(2.3026, abs=0.1)  # ten classes, nothing learnt
    assert losses[1][1] < losses[0][0]
    tables = list(tmp_path.glob("log/*_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv"))
    assert len(tables) == processes
    with open(tables[0], encoding="utf-8") as file:
        types = {row["Type"] for row in csv.DictReader(file)}
    assert any("Conv2D" in t for t in types) and len(types) > 10


_RANK = """
import os, sys, torch, torch_npu, torch.distributed as dist
rank = int(sys.argv[1])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
torch.npu.set_device(rank)
dist.init_process_group("hccl", rank=rank, world_size=2)
t = torch.full((4,), float(rank + 1), device="npu")
dist.all_reduce(t)
parts = [torch.zeros(2, device="npu") for _ in range(2)]
dist.all_gather(parts, torch.full((2,), float(rank), device="npu"))
torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1).npu(), device_ids=[rank])
model(torch.full((1, 3), float(rank), device="npu")).sum().backward()
torch.npu.synchronize()
print(t.tolist(), torch.cat(parts).tolist(), model.module.weight.grad.tolist())
dist.destroy_process_group()
"""


def _two_processes(code, *arguments):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    env = {**os.environ, "ASCEND_SIM_QUIET": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, str(r), port, *arguments],
            env=env, stdout=subprocess.PIPE, text=True,
        )
        for r in range(2)
    ]  # fmt: skip
    return [p.communicate(timeout=300)[0].strip() for p in ranks]


_SHARDED = """
import os, sys, torch, torch_npu, torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
rank, kind = int(sys.argv[1]), sys.argv[3]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
torch.npu.set_device(rank)
dist.init_process_group("hccl", rank=rank, world_size=2)
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
whole, model = net(), net().npu()
if kind == "class":
    model = FullyShardedDataParallel(model, device_id=torch.device("npu", rank))
else:
    mesh = dist.device_mesh.init_device_mesh("npu", (2,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
steps = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (whole, model)]
x, y = torch.randn(8, 16), torch.randn(8, 8)
mine = slice(4 * rank, 4 * rank + 4)
for _ in range(3):
    expected = torch.nn.functional.mse_loss(whole(x), y)
    loss = torch.nn.functional.mse_loss(model(x[mine].npu()), y[mine].npu())
    for value, step in ((expected, steps[0]), (loss, steps[1])):
        step.zero_grad()
        value.backward()
        step.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    assert abs(mean.item() / 2 - expected.item()) < 1e-5, (mean, expected)
print("equal")
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["class", "function"])
def test_sharded_training_gives_the_losses_of_one_process(kind):
    assert _two_processes(_SHARDED, kind) == ["equal", "equal"]


def test_two_processes_with_hccl():
    outputs = _two_processes(_RANK)
    assert outputs[0] == outputs[1] == "[3.0, 3.0, 3.0, 3.0] [0.0, 0.0, 1.0, 1.0] [[0.5, 0.5, 0.5]]"


def test_rank_table(tmp_path):
    from torch_npu.distributed.rank_table import RankTableError, check_rank_table

    device = {"device_id": "0", "rank_id": "0"}
    table = {"status": "completed", "version": "1.0", "server_count": "1",
             "server_list": [{"server_id": "10.0.0.1", "device": [device]}]}  # fmt: skip
    path = tmp_path / "ranks.json"
    path.write_text(json.dumps(table))
    assert check_rank_table(str(path)) == [("10.0.0.1", 0)]
    table["server_count"] = "2"
    path.write_text(json.dumps(table))
    with pytest.raises(RankTableError, match="server_count is '2'"):
        check_rank_table(str(path))


def test_wrong_torch_is_refused(monkeypatch):
    import torch

    from torch_npu import build

    monkeypatch.setattr(torch, "__version__", "2.1.0+cpu")
    with pytest.raises(build.BuildError, match=r"supports torch 2\.\d+; torch 2.1.0"):
        build.check_version()


def test_missing_compiler_is_explained(monkeypatch):
    from torch_npu import build

    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match="needs a C\\+\\+ compiler once"):
        build._compiler()


def _opinfo(dtype, stride, out):
    command = [sys.executable, str(HERE / "opinfo.py"), "--dtype", dtype, "--stride", str(stride), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("dtype", "stride"), [("float32", 29), ("float16", 37), ("bfloat16", 41)])
def test_operator_database_in_part(dtype, stride, tmp_path):
    pytest.importorskip("expecttest")
    found = _opinfo(dtype, stride, tmp_path / "rows.jsonl")
    assert found.get("crash", 0) == 0
    assert found["ok"] >= found["entries"] - 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "least", "strict"), [("float32", 660, 660), ("float16", 530, 520), ("bfloat16", 535, 527)]
)
def test_operator_database(dtype, least, strict, tmp_path):
    pytest.importorskip("expecttest")
    found = _opinfo(dtype, 1, tmp_path / "rows.jsonl")
    assert found.get("crash", 0) == 0
    assert found["ok"] >= least
    assert found["ok_strict"] >= strict
    if dtype == "float32":
        assert found["through_acl_op_only"] >= 250
