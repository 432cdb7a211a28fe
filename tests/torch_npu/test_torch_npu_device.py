"""Device npu: memory, views, copies, streams, random numbers, serialization. Needs torch and the built device layer."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")


def test_values_round_trip_and_product():
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    torch.testing.assert_close((a.npu() @ b.npu()).cpu(), a @ b)
    assert torch.equal(a.npu().cpu(), a)


def test_views_share_memory_and_strided_writes_land():
    x = torch.zeros(4, 6).npu()
    x[1:3, ::2] = 5.0
    x.t()[0].add_(1)
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] = 5.0
    expected.t()[0].add_(1)
    assert torch.equal(x.cpu(), expected)
    assert x[1].data_ptr() == x.data_ptr() + 6 * 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_types_survive_copies(dtype):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    assert torch.equal(x.npu().t().contiguous().cpu(), x.t())


def test_conjugate_views():
    x = torch.randn(4, dtype=torch.complex64)
    assert torch.equal(x.npu().conj().clone().cpu(), x.conj().clone())


def test_pinned_memory_is_reused_only_after_its_copy():
    results = []
    for i in range(8):
        results.append(torch.full((1000,), float(i)).pin_memory().npu(non_blocking=True))
    assert [r[0].item() for r in results] == [float(i) for i in range(8)]
    assert torch.empty(3).pin_memory().is_pinned()
    assert not torch.empty(3).is_pinned()


def test_devices():
    x = torch.ones(2, device="npu:1")
    assert x.device == torch.device("npu", 1)
    assert (x + x).device.index == 1
    assert torch.equal(x.to("npu:0").cpu(), torch.ones(2))
    with torch.device("npu:2"):
        assert torch.zeros(1).device.index == 2
    with pytest.raises(RuntimeError, match="107001"):
        torch.ones(1, device="npu:63")


def test_mixed_devices_are_an_error():
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch.ones(2, device="npu") + torch.ones(2)


def test_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match=r"NPU out of memory\. Tried to allocate .* total capacity"):
        torch.empty(1 << 40, dtype=torch.uint8, device="npu")


def test_copies_of_objects():
    x = torch.randn(3, 3).npu()
    assert torch.equal(copy.deepcopy(x).cpu(), x.cpu())
    assert torch.equal(pickle.loads(pickle.dumps(x)).cpu(), x.cpu())
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    assert torch.load(file)["x"].device.type == "npu"
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"


def test_seeds():
    torch.manual_seed(7)
    first = torch.randn(5, device="npu").cpu()
    torch.manual_seed(7)
    assert torch.equal(first, torch.randn(5))
    state = torch.npu.get_rng_state()
    a = torch.rand(3, device="npu").cpu()
    torch.npu.set_rng_state(state)
    assert torch.equal(a, torch.rand(3, device="npu").cpu())


def test_events_measure_simulated_time():
    big = torch.zeros(1024, 1024, dtype=torch.float16, device="npu")
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    big @ big
    end.record()
    end.synchronize()
    peak_ms = 2 * 1024**3 / 400e12 * 1e3  # no 910B2 does more than 400 TFLOP/s in float16
    assert peak_ms < start.elapsed_time(end) < 1.0


def test_results_are_there_only_after_waiting_and_streams_join():
    side = torch.npu.Stream()
    x = torch.ones(64, device="npu")
    with torch.npu.stream(side):
        side.wait_stream(torch.npu.default_stream())
        y = x * 2
    torch.npu.current_stream().wait_stream(side)
    assert torch.equal((y + 1).cpu(), torch.full((64,), 3.0))


def test_memory_figures():
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() - before == 1 << 20
    assert torch.npu.memory_stats()["allocation.all.current"] >= 1
    del x
    assert torch.npu.memory_allocated() == before
    assert "NPU OOMs" in torch.npu.memory_summary()


def test_public_names():
    assert not [name for name in torch.npu.__all__ if not hasattr(torch.npu, name)]
    assert len(torch.npu.__all__) >= 139


def test_graph_replays_on_new_inputs():
    x = torch.ones(8, device="npu")
    torch.relu(x) * 3
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = torch.relu(x) * 3
    x.copy_(torch.arange(8).float())
    graph.replay()
    assert torch.equal(y.cpu(), torch.arange(8).float() * 3)


def test_fallback_warns_once_and_is_charged():
    from acl import _sim

    x = torch.rand(1 << 18, device="npu")
    torch.npu.synchronize()
    before = _sim.host().now
    with pytest.warns(UserWarning, match="fall back to run on the CPU"):
        torch.special.bessel_j0(x)
    spent = _sim.host().now - before
    assert spent >= 2 * _sim.transfer_ps("d2h", x.nbytes, False) // 2
