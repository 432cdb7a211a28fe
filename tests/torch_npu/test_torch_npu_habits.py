"""Habits of torch's CPU and CUDA devices that programs count on: errors for wrong arguments, wide types, moved modules.

Expected values are the CPU's.
"""

from __future__ import annotations

import importlib
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


def test_results_of_cpu_kernels_fill_outputs_that_grow():
    x = torch.randn(60, dtype=torch.complex64)
    out = torch.full((1,), 7.0, device="npu")
    torch.angle(x.npu(), out=out)
    torch.testing.assert_close(out.cpu(), torch.angle(x))


def test_tensors_combined_in_one_storage():
    from torch_npu.utils import is_combined_tensor_valid, npu_combine_tensors

    parts = [torch.ones(2, 3, device="npu"), torch.full((4,), 2.0, device="npu")]
    whole = npu_combine_tensors(parts)
    whole += 1
    assert parts[0].sum().item() == 12 and parts[1].sum().item() == 12
    assert is_combined_tensor_valid(whole, parts) and not is_combined_tensor_valid(whole, [parts[0].clone()])


_NAMES = [
    "torch_npu.npu.utils.npu_check_overflow", "torch_npu.npu.npu_config.set_option",
    "torch_npu.npu.autocast_utils.get_autocast_dtype", "torch_npu.optim.npu_fused_adamw.NpuFusedAdamW",
    "torch_npu.optim.NpuFusedBertAdam", "torch_npu.profiler.experimental_config.ProfilerLevel",
    "torch_npu.profiler.dynamic_profile.init", "torch_npu.contrib.module.DropoutWithByteMask",
    "torch_npu.contrib.function.matmul_transpose", "torch_npu.contrib.function.index_op.npu_fast_condition_index_put",
    "torch_npu.utils.collect_env.get_pretty_env_info", "torch_npu.distributed.distributed_c10d.is_hccl_available",
]  # fmt: skip


@pytest.mark.parametrize("name", _NAMES)
def test_public_names_are_where_programs_import_them(name):
    module, _, last = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), last)) or last.startswith("ProfilerLevel")


def test_bert_adam_follows_its_rule():
    weight = torch.nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch_npu.optim.NpuFusedBertAdam([weight], lr=0.1, weight_decay=0.0, max_grad_norm=0.0)
    weight.grad = torch.full((3,), 2.0, device="npu")
    optimizer.step()
    step = (0.1 * 2.0) / ((0.001 * 4.0) ** 0.5 + 1e-6)  # first and second moment after one step, not corrected
    torch.testing.assert_close(weight.detach().cpu(), torch.full((3,), 1 - 0.1 * step))


@pytest.mark.parametrize(
    "text, message",
    [
        ("not json", "Failed to parse user acl json"),
        ("{}", "lacks 'defaultDevice'"),
        ('{"defaultDevice": {"default_device": "1"}}', "requires"),
    ],
)
def test_start_of_acl_checks_its_file(text, message, tmp_path, monkeypatch):
    from torch_npu.npu.options import check_environment

    path = tmp_path / "acl.json"
    monkeypatch.setenv("TORCH_ACL_INIT_CONFIG_PATH", str(path))
    with pytest.raises(RuntimeError, match="is invalid"):
        check_environment()
    path.write_text(text)
    with pytest.raises(RuntimeError, match=message):
        check_environment()


def test_classic_operators_of_detectors_and_packers():
    anchors = torch.tensor([[10.0, 10.0, 49.0, 39.0], [0.0, 5.0, 20.0, 60.0]], device="npu")
    truths = torch.tensor([[12.0, 8.0, 60.0, 30.0], [3.0, 3.0, 15.0, 70.0]], device="npu")
    numbers = [0.0] * 4 + [0.1, 0.1, 0.2, 0.2]
    deltas = torch_npu.npu_bounding_box_encode(anchors, truths, *numbers)
    back = torch_npu.npu_bounding_box_decode(anchors, deltas, *numbers, [100, 100], 0.016)
    torch.testing.assert_close(back.cpu(), truths.cpu(), atol=1e-3, rtol=0)
    signs = torch.randn(40)
    packed = torch_npu.npu_sign_bits_pack(signs.npu(), 1)
    assert packed.shape == (1, 5)
    bits = torch_npu.npu_sign_bits_unpack(packed.reshape(-1), 1, torch.float32).cpu().reshape(-1)
    assert torch.equal(bits, torch.where(signs >= 0, 1.0, -1.0))


def test_gated_units_and_losses_of_classic_operators():
    x = torch.randn(3, 8)
    y, gelu = torch_npu.npu_geglu(x.npu(), -1, 0, False)
    torch.testing.assert_close(gelu.cpu(), torch.nn.functional.gelu(x[:, 4:]))
    torch.testing.assert_close(y.cpu(), x[:, :4] * torch.nn.functional.gelu(x[:, 4:]))
    labels = torch.softmax(torch.randn(3, 8), 1)
    loss = torch_npu.npu_softmax_cross_entropy_with_logits(x.npu(), labels.npu())
    torch.testing.assert_close(loss.cpu(), torch.nn.functional.cross_entropy(x, labels, reduction="none"))
    image = torch.randn(2, 6, 3, 3)
    ours = torch_npu.npu_group_norm_silu(image.npu(), None, None, 2)[0]
    torch.testing.assert_close(ours.cpu(), torch.nn.functional.silu(torch.nn.functional.group_norm(image, 2)))
    assert torch.equal(torch_npu.npu_pad(x.npu(), [1, 0, 0, 2]).cpu(), torch.nn.functional.pad(x, (0, 2, 1, 0)))


def test_an_overflow_skips_the_steps_of_all_optimizers_of_a_scaler():
    weights = [torch.nn.Parameter(torch.ones(2, device="npu")) for _ in range(2)]
    optimizers = [torch.optim.SGD([w], lr=1.0) for w in weights]
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=1)
    for number in (float("inf"), 1.0):
        for optimizer in optimizers:
            optimizer.zero_grad()
        scaler.scale(weights[0].sum() * number + weights[1].sum()).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        assert [w.detach().cpu().tolist() for w in weights] == [[1.0, 1.0] if number > 1 else [0.0, 0.0]] * 2
    assert scaler.get_scale() == 8.0  # halved, then doubled


def test_sleep_keeps_a_stream_busy_for_cycles_of_the_clock():
    from torch_npu.testing.common_utils import get_cycles_per_ms

    begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    torch.npu.synchronize()
    begin.record()
    torch.npu._sleep(int(3 * get_cycles_per_ms()))
    end.record()
    assert not end.query()
    end.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(3, rel=0.01)
    with pytest.raises(RuntimeError, match="positive cycles"):
        torch.npu._sleep(0)


def test_outputs_of_a_type_that_cannot_hold_the_result_are_an_error():
    x, whole = torch.randn(5, 5, device="npu"), torch.ones(5, dtype=torch.long, device="npu")
    with pytest.raises(RuntimeError, match=r"scalar type|dtype"):
        torch.max(x, dim=0, out=(torch.empty(5, device="npu"), torch.empty(5, device="npu")))
    with pytest.raises(RuntimeError, match="can't be cast"):
        whole.add_(1.5)
    with pytest.raises(RuntimeError, match=r"can't be cast|dtype"):
        torch.mul(x[0], 2.0, out=whole)
    half = torch.empty(5, dtype=torch.half, device="npu")
    torch.testing.assert_close(torch.add(x[0], 1, out=half).cpu(), (x[0].cpu() + 1).half())


def test_variances_without_degrees_of_freedom_warn():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.var(torch.ones(1, 3, device="npu"), dim=0, correction=2).isnan().all()


def test_the_accelerator_interface_gives_host_memory_back():
    torch.accelerator.empty_host_cache()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated()
