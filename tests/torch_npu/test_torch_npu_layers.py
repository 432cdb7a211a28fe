"""Layers, training, mixed precision and profiles on device npu, against the CPU."""

import copy
import csv

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")

F = torch.nn.functional


def _same(function, *shapes):
    inputs = [torch.randn(*s) for s in shapes]
    cpu = [x.clone().requires_grad_() for x in inputs]
    npu = [x.npu().requires_grad_() for x in inputs]
    expected, actual = function(*cpu), function(*npu)
    weights = torch.randn_like(expected)
    (expected * weights).sum().backward()
    (actual * weights.npu()).sum().backward()
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(npu, cpu, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2), [(2, 4, 9, 9), (6, 4, 3, 3), (6,)]),
        (lambda x, w: F.conv2d(x, w, padding=1, groups=4), [(2, 4, 8, 8), (4, 1, 3, 3)]),
        (F.conv1d, [(2, 3, 8), (4, 3, 3)]),
        (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 3, 5, 5), (3, 4, 3, 3)]),
        (lambda x, w, b: F.layer_norm(x, (8,), w, b), [(4, 8), (8,), (8,)]),
        (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 8), (4,), (4,)]),
        (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [(4, 3, 5), (3,), (3,)]),
        (lambda x: F.max_pool2d(x, 3, 2, 1), [(2, 3, 8, 8)]),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), [(2, 3, 8, 8)]),
        (lambda x: F.adaptive_avg_pool2d(x, 3), [(2, 3, 8, 8)]),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [(1, 2, 4, 4)]),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(1, 2, 8, 16)] * 3),
        (lambda x: F.gelu(x) + F.silu(x) + F.elu(x) + F.softplus(x), [(4, 8)]),
        (lambda x: torch.log_softmax(x, 1).cumsum(0), [(4, 8)]),
        (lambda x: x.std(1) + x.logsumexp(1) + x.amax(1), [(4, 8)]),
        (lambda x: x[:, [2, 0]].gather(1, x[:, :2].argsort(1)), [(4, 8)]),
    ],
)
def test_layer_and_gradient(function, shapes):
    from torch_npu.dispatch import run

    before = sum(run.fallbacks.values())
    _same(function, *shapes)
    assert sum(run.fallbacks.values()) == before


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent(kind):
    layer = kind(4, 5, 2)
    x = torch.randn(3, 2, 4)
    torch.testing.assert_close(copy.deepcopy(layer).npu()(x.npu())[0].cpu(), layer(x)[0])


@pytest.mark.parametrize("optimizer_type", [torch.optim.AdamW, torch.optim.Adam])
@pytest.mark.parametrize("fused", [False, True])
def test_training_gives_the_losses_of_the_cpu(fused, optimizer_type):
    from torch_npu.dispatch import run

    before = sum(run.fallbacks.values())
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    losses = {}
    for device in ("cpu", "npu"):
        mine = copy.deepcopy(model).to(device)
        optimizer = optimizer_type(mine.parameters(), lr=1e-2, weight_decay=0.1, fused=fused)
        losses[device] = []
        for _ in range(4):
            loss = F.cross_entropy(mine(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["npu"] == pytest.approx(losses["cpu"], rel=1e-5)
    assert sum(run.fallbacks.values()) == before


def test_mixed_precision():
    layer = torch.nn.Linear(8, 4).npu()
    scaler = torch.npu.amp.GradScaler(init_scale=128.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with torch.npu.amp.autocast(dtype=torch.float16):
        y = layer(torch.randn(2, 8, device="npu"))
        assert y.dtype == torch.float16
    scaler.scale(y.float().sum()).backward()
    assert layer.weight.grad.dtype == torch.float32
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 128.0


def test_scaler_backs_off_grows_and_skips_steps_as_on_the_cpu():
    from torch_npu.dispatch import run

    before = sum(run.fallbacks.values())
    seen = {}
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(8, 4).to(device), torch.nn.Linear(4, 300).to(device)]
        scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=2)
        optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
        seen[device] = []
        for step in range(7):
            x = torch.full((2, 8), float("inf") if step == 2 else 0.5, device=device)
            optimizer.zero_grad()
            scaler.scale(layers[1](layers[0](x)).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            seen[device] += [scaler.get_scale(), layers[1].weight.double().sum().item()]
    assert seen["npu"] == pytest.approx(seen["cpu"], rel=1e-5)
    assert sum(run.fallbacks.values()) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_keeps_scales_and_passes_gradients_through_the_same_mask(p, dtype):
    from torch_npu.dispatch import run

    before = sum(run.fallbacks.values())
    x = torch.ones(50, 41, dtype=dtype).npu().requires_grad_()
    y = F.dropout(x, p)
    y.float().sum().backward()
    kept = (y != 0).float().mean().item()
    assert kept == pytest.approx(1 - p, abs=0.05)
    scale = torch.tensor(1 / (1 - p) if p < 1 else 0.0).to(dtype)
    torch.testing.assert_close(
        y.detach().cpu().unique(), torch.unique(torch.stack([scale * (p < 1), scale * (p == 0)]))
    )
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())
    torch.testing.assert_close(F.dropout(x, p, training=False).cpu(), x.detach().cpu())
    assert sum(run.fallbacks.values()) == before


@pytest.mark.parametrize(("samples", "replacement"), [(1, False), (1, True), (3, False), (20000, True)])
def test_multinomial_draws_on_the_device(samples, replacement):
    from torch_npu.dispatch import run

    before = sum(run.fallbacks.values())
    weights = torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 5.0, 1.0, 1.0]])
    drawn = torch.multinomial(weights.npu(), samples, replacement).cpu()
    assert drawn.shape == (2, samples) and drawn.dtype == torch.int64
    assert (weights.gather(1, drawn) > 0).all()
    if not replacement:
        assert all(len(set(row.tolist())) == samples for row in drawn)
    if samples > 100:
        shares = torch.nn.functional.one_hot(drawn, 4).float().mean(1)
        torch.testing.assert_close(shares, weights / weights.sum(1, keepdim=True), atol=0.02, rtol=0)
    assert sum(run.fallbacks.values()) == before
    with pytest.raises(RuntimeError, match="n_sample"):
        torch.multinomial(weights.npu(), 5)


def test_custom_operators():
    x = torch.randn(3, 8, dtype=torch.float16)
    gamma = torch.rand(8, dtype=torch.float16)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), 1e-6)
    wide = x.float()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * gamma.float()
    torch.testing.assert_close(y.cpu().float(), expected, rtol=2e-3, atol=2e-3)
    assert rstd.shape == (3, 1)
    a, b = x.float().chunk(2, -1)
    torch.testing.assert_close(torch_npu.npu_swiglu(x.npu()).cpu().float(), F.silu(a) * b, rtol=2e-3, atol=2e-3)
    z = x.npu().requires_grad_()
    torch_npu.npu_swiglu(z).sum().backward()
    assert z.grad.shape == x.shape


def test_formats_are_remembered():
    x = torch.randn(4, 4).npu()
    assert torch_npu.get_npu_format(x) == 2
    with pytest.warns(UserWarning, match="base format"):
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, 29)) == 2
    torch_npu.npu.config.allow_internal_format = True
    try:
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, 29)) == 29
    finally:
        torch_npu.npu.config.allow_internal_format = False


def test_profile_has_the_kernels(tmp_path):
    x = torch.randn(32, 32, device="npu")
    handler = torch_npu.profiler.tensorboard_trace_handler(str(tmp_path))
    with torch_npu.profiler.profile(on_trace_ready=handler, record_shapes=True) as prof:
        torch.relu(x @ x)
        prof.step()
    (table,) = tmp_path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv")
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [r["Type"] for r in rows] == ["MatMulV2", "Relu"]
    assert {r.key for r in prof.key_averages()} >= {"aten::mm", "aten::relu"}


def test_profile_has_the_blocks_of_the_allocator(tmp_path):
    handler = torch_npu.profiler.tensorboard_trace_handler(str(tmp_path))
    torch.zeros(8, device="npu")  # what comes before is not in the profile
    with torch_npu.profiler.profile(on_trace_ready=handler, profile_memory=True) as prof:
        kept = torch.ones(1000, 1000, device="npu")
        held = torch.npu.memory_allocated(), torch.npu.memory_reserved()
        short = torch.ones(300, device="npu")
        del short
    blocks = [e.args for e in prof.events() if e.kind == "memory" and e.args["component"] == "PTA"]
    assert [b["nbytes"] for b in blocks] == [4000256, 1536, -1536]  # multiples of 512 bytes
    assert (blocks[0]["allocated"], blocks[0]["reserved"]) == held
    assert blocks[1]["address"] == blocks[2]["address"] != blocks[0]["address"]
    assert blocks[1]["allocated"] - 1536 == blocks[2]["allocated"] == blocks[0]["allocated"]
    (table,) = tmp_path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/operator_memory.csv")
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(r["Size(KB)"], bool(r["Release Time(us)"])) for r in rows] == [("3906.500", False), ("1.500", True)]
    del kept
    before = len(prof.events())
    torch.ones(300, device="npu")
    assert len(prof.events()) == before


def test_schedule():
    from torch_npu.profiler import ProfilerAction, schedule

    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    names = [plan(i).name for i in range(7)]
    assert names == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    assert plan(4) is ProfilerAction.RECORD_AND_SAVE
