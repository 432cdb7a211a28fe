"""What everyday scripts rely on: checkpoints with dropout, graphs that draw, compiled masks, runs without values."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_draws_the_same_dropout_twice(reentrant):
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(8, 16, device="npu", requires_grad=True)
    y = checkpoint(torch.nn.Dropout(0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())


def test_memory_errors_have_the_name_of_the_device_module():
    with pytest.raises(torch.npu.OutOfMemoryError, match="NPU out of memory"):
        torch.empty(1 << 44, dtype=torch.uint8, device="npu")


def test_every_replay_draws_anew_and_a_seed_repeats_it():
    x = torch.ones(64, 64, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        dropped = torch.nn.functional.dropout(x + 1, 0.5)
        doubled = dropped * 2
    torch.manual_seed(5)
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append(doubled.cpu())
    assert not torch.equal(*seen)
    assert all(set(s.unique().tolist()) == {0.0, 8.0} for s in seen)
    torch.manual_seed(5)
    graph.replay()
    assert torch.equal(doubled.cpu(), seen[0])
    torch.manual_seed(5)
    assert torch.equal((torch.nn.functional.dropout(x + 1, 0.5) * 2).cpu(), seen[0])


def test_torch_compile_does_not_trace_the_simulator():
    def positives(x):
        torch.npu.synchronize()
        return x[x > 0].sum() + x.nonzero().sum()

    x = torch.randn(64)
    torch.testing.assert_close(torch.compile(positives, backend="eager")(x.npu()).cpu(), positives(x))


def test_indices_of_another_device_are_refused():
    x = torch.randn(4, 5, device="npu:0")
    for index in (torch.ones(4, 5, dtype=torch.bool, device="npu:1"), torch.tensor([1], device="npu:1")):
        with pytest.raises(RuntimeError, match="same device"):
            x[index]
        with pytest.raises(RuntimeError, match="same device"):
            x[index] = 1.0
    with pytest.raises(RuntimeError, match="same device"):
        x[torch.tensor([1])] = torch.ones(1, 5, device="npu:1")


NOTHING_COMPUTED = """
import torch, torch_npu
junk = torch.full((4096,), -1).npu(); del junk
x = torch.randn(300, 4).npu(); mask = x > 0
assert mask.nonzero().shape == (1200, 2) and x[mask].shape == (1200,), mask.nonzero().shape
assert x[x[:, 0].argsort()].shape == x.shape and x.sum().item() == 0
assert torch.nn.functional.embedding(torch.multinomial(x.softmax(-1), 1), x).cpu().shape == (300, 1, 4)
packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(3, 6, 4).npu(), torch.tensor([6, 2, 4]), True, False)
assert torch.nn.LSTM(4, 5, batch_first=True).npu()(packed)[0].data.shape == (12, 5)
kept = x[:, 0].argsort()
while kept.numel():
    kept = kept[1:][(x[kept[1:], 1] < x[kept[0], 1]).nonzero().squeeze(1)]
    assert kept.numel() < 300
scaler, layer = torch.amp.GradScaler("npu"), torch.nn.Linear(4, 4).npu()
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for _ in range(2):
    scaler.scale(layer(x).sum()).backward(); scaler.step(optimizer); scaler.update()
running, steps = torch.ones(2, dtype=torch.long).npu(), 0
while not (running.max() == 0).item():
    steps += 1
    running = running & ~torch.full((2,), steps >= 5).npu()
assert steps == 5
"""


def test_without_values_masks_hold_everywhere_and_small_results_are_zero():
    environment = os.environ | {"ASCEND_SIM_VALUES": "none"}
    command = [sys.executable, "-c", NOTHING_COMPUTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_script_may_end_with_a_backward_pass():
    script = "import torch, torch_npu; (torch.ones(4, device='npu', requires_grad=True) * 2).sum().backward()"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_capture_records_and_the_first_replay_is_the_first_time():
    x, y = torch.zeros(3, device="npu"), torch.full((3,), 9.0, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y.copy_(x)
        x += 1
        z = torch.cat([x, y])
    assert x.tolist() == [0.0] * 3 and y.tolist() == [9.0] * 3
    for _ in range(3):
        graph.replay()
    assert x.tolist() == [3.0] * 3 and y.tolist() == [2.0] * 3 and z.tolist() == [3.0] * 3 + [2.0] * 3


def test_what_runs_on_the_cpu_cannot_be_captured():
    x = torch.rand(4, 4, device="npu")
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match=r"linalg_qr.*107027"), torch.npu.graph(graph):
        torch.linalg.qr(x)
    assert not torch.npu.is_current_stream_capturing()
    torch.linalg.qr(x)
