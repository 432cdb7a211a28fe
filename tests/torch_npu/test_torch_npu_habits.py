"""Habits of torch's CPU and CUDA devices that programs count on: errors for wrong arguments, wide types, moved modules.

Expected values are the CPU's.
"""

from __future__ import annotations

import uuid

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")


def _same_on_cpu(function, *tensors):
    ours = function(*(t.npu() for t in tensors)).cpu()
    torch.testing.assert_close(ours, function(*tensors), equal_nan=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.std(x, dim=[0, 0]),
        lambda x: torch.var_mean(x, dim=[1, -1]),
        lambda x: torch.nansum(x, dim=[0, 1, 1]),
    ],
)
def test_axes_named_twice_are_an_error(call):
    with pytest.raises(RuntimeError, match="appears multiple times"):
        call(torch.ones(2, 3, device="npu"))


@pytest.mark.parametrize("name", ["std", "nansum", "count_nonzero", "logsumexp", "argmax"])
def test_an_axis_that_does_not_exist_is_an_error(name):
    with pytest.raises(IndexError, match="Dimension out of range"):
        getattr(torch, name)(torch.ones(2, 3, device="npu"), dim=2)


def test_reductions_of_more_than_64_axes_are_an_error():
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        torch.ones([1] * 65, device="npu").std(dim=0)


def test_searches_check_their_arguments():
    rows, values = torch.arange(6.0, device="npu").reshape(2, 3), torch.ones(3, 2, device="npu")
    with pytest.raises(RuntimeError, match="first N-1 dimensions"):
        torch.searchsorted(rows, values)
    with pytest.raises(RuntimeError, match="boundaries tensor must be 1 dimension"):
        torch.bucketize(values, rows)
    with pytest.raises(RuntimeError, match="side can only be"):
        torch.searchsorted(rows, rows, side="bad")
    with pytest.raises(RuntimeError, match="dtype is wrong"):
        torch.searchsorted(rows, rows, out=torch.empty(2, 3, device="npu"))


def test_weights_of_embeddings_have_two_axes():
    with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
        torch.nn.functional.embedding(torch.zeros(2, dtype=torch.long, device="npu"), torch.ones(3, device="npu"))


@pytest.mark.parametrize("call", [lambda x: x + (-1), lambda x: x - 3, lambda x: x * -1, lambda x: x + 300,
                                  lambda x: torch.add(x, x, alpha=3)])  # fmt: skip
def test_whole_numbers_wrap_around(call):
    _same_on_cpu(call, torch.tensor([1, 2, 200], dtype=torch.uint8))


def test_complex128_moves_and_reduces():
    x = torch.randn(3, 4, dtype=torch.complex128)
    _same_on_cpu(lambda t: t.clone(), x)
    _same_on_cpu(lambda t: t.expand(2, 3, 4).contiguous(), x)
    _same_on_cpu(lambda t: t.t().contiguous().sum(0), x)


def test_mode_returns_both_results():
    x = torch.randint(0, 4, (5, 9))
    ours, cpu = torch.mode(x.npu(), 1), torch.mode(x, 1)
    assert torch.equal(ours.values.cpu(), cpu.values) and torch.equal(ours.indices.cpu(), cpu.indices)


def test_sparse_tensors_are_refused_by_name():
    layer = torch.nn.Embedding(4, 3, sparse=True).npu()
    with pytest.raises(RuntimeError, match="not currently supported on the NPU backend"):
        layer(torch.tensor([1, 2], device="npu")).sum().backward()


def test_parameters_stay_the_same_objects_when_a_module_moves():
    module = torch.nn.Linear(3, 2)
    weight = module.weight
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module.npu()
    assert module.weight is weight and weight.device.type == "npu"
    before = weight.detach().cpu()
    module(torch.ones(4, 3, device="npu")).sum().backward()
    optimizer.step()
    torch.testing.assert_close(weight.detach().cpu(), before - 0.5 * 4)


def test_device_properties_name_each_device():
    first, second = (torch.npu.get_device_properties(i).uuid for i in (0, 1))
    assert first != second and len(str(first)) == 36 and uuid.UUID(str(first)).bytes == first.bytes


def test_more_than_an_exabyte_is_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match="more than 1EB"):
        torch.empty(1 << 62, dtype=torch.int8, device="npu")


def test_memory_of_an_erased_stream_is_used_again_at_once():
    side = torch.npu.Stream()
    block = torch.ones(1 << 20, device="npu")
    address = block.data_ptr()
    block.record_stream(side)
    torch_npu.erase_stream(block, side)
    del block
    assert torch.ones(1 << 20, device="npu").data_ptr() == address
