"""Half types on device npu: where the chip rounds, as the stock library composes its operators."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")

F = torch.nn.functional
HALVES = [torch.float16, torch.bfloat16]


def _randn(*shape, dtype, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _fallbacks():
    from torch_npu.dispatch import run

    return sum(run.fallbacks.values())


@pytest.mark.parametrize("dtype", HALVES)
def test_baddbmm_adds_to_sums_that_are_not_rounded(dtype):
    a, b, c = _randn(3, 5, 7, dtype=dtype), _randn(3, 7, 6, dtype=dtype, seed=1), _randn(3, 5, 6, dtype=dtype, seed=2)
    before = _fallbacks()
    actual = torch.baddbmm(c.npu(), a.npu(), b.npu()).cpu()
    torch.testing.assert_close(actual, torch.baddbmm(c.float(), a.float(), b.float()).to(dtype))
    scaled = torch.baddbmm(c.npu(), a.npu(), b.npu(), beta=0.3, alpha=0.7).cpu()
    wanted = (c.float() * 0.3).to(dtype).float() + 0.7 * torch.bmm(a.float(), b.float())
    torch.testing.assert_close(scaled, wanted.to(dtype))
    assert _fallbacks() == before


@pytest.mark.parametrize("dtype", HALVES)
def test_addmm_of_a_matrix_adds_to_sums_that_are_not_rounded(dtype):
    a, b, c = _randn(5, 7, dtype=dtype), _randn(7, 6, dtype=dtype, seed=1), _randn(5, 6, dtype=dtype, seed=2)
    actual = torch.addmm(c.npu(), a.npu(), b.npu(), alpha=0.7).cpu()
    torch.testing.assert_close(actual, torch.addmm(c.float(), a.float(), b.float(), alpha=0.7).to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.6, 0.2), (0, 0.2), (0.3, 1)])
def test_addr_rounds_after_every_step_as_the_cpu_does(dtype, beta, alpha):
    x, u, v = _randn(9, 8, dtype=dtype), _randn(9, dtype=dtype, seed=1), _randn(8, dtype=dtype, seed=2)
    actual = torch.addr(x.npu(), u.npu(), v.npu(), beta=beta, alpha=alpha)
    torch.testing.assert_close(actual.cpu(), torch.addr(x, u, v, beta=beta, alpha=alpha), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", HALVES)
def test_addbmm_rounds_the_products_of_the_batch(dtype):
    a, b, c = _randn(4, 5, 7, dtype=dtype), _randn(4, 7, 6, dtype=dtype, seed=1), _randn(5, 6, dtype=dtype, seed=2)
    products = torch.bmm(a.float(), b.float()).to(dtype)
    wanted = (products.float().sum(0).to(dtype).float() + c.float()).to(dtype)
    torch.testing.assert_close(torch.addbmm(c.npu(), a.npu(), b.npu()).cpu(), wanted)


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_gives_its_weights_to_the_cube_rounded(dtype):
    q, k, v = (_randn(1, 2, 8, 16, dtype=dtype, seed=i) for i in range(3))
    scores = q.float() @ k.float().transpose(-1, -2) / 4
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    wanted = weights.to(dtype).float() @ v.float() / weights.sum(-1, keepdim=True)
    actual = F.scaled_dot_product_attention(q.npu(), k.npu(), v.npu()).cpu()
    torch.testing.assert_close(actual, wanted.to(dtype))
    torch.testing.assert_close(actual, F.scaled_dot_product_attention(q, k, v))


def test_products_of_halves_into_float32():
    a, b = _randn(4, 5, dtype=torch.float16), _randn(5, 6, dtype=torch.float16, seed=1)
    before = _fallbacks()
    actual = torch.mm(a.npu(), b.npu(), out_dtype=torch.float32)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.cpu(), a.float() @ b.float())
    batch = torch.bmm(a[None].npu(), b[None].npu(), out_dtype=torch.float32)
    torch.testing.assert_close(batch.cpu()[0], a.float() @ b.float())
    assert _fallbacks() == before


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1, dtype=torch.float32),
        lambda x: x.mean(0, dtype=torch.float32),
        lambda x: x.cumsum(1, dtype=torch.float32),
        lambda x: x.prod(1, dtype=torch.float32),
        lambda x: torch.softmax(x, 1, dtype=torch.float32),
    ],
)
def test_reductions_into_another_type_stay_on_the_device(function):
    x = _randn(4, 6, dtype=torch.float16)
    before = _fallbacks()
    actual = function(x.npu())
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.cpu(), function(x))
    assert _fallbacks() == before


def test_normalisation_keeps_float32_statistics():
    # as torch_npu does (Ascend/op-plugin LayerNormKernelNpuOpApi.cpp); the CPU keeps them in the type of the input
    x = _randn(3, 8, dtype=torch.float16)
    _, mean, rstd = torch.native_layer_norm(x.npu(), (8,), None, None, 1e-5)
    assert mean.dtype == rstd.dtype == torch.float32
    torch.testing.assert_close(mean.cpu(), x.float().mean(1, keepdim=True))
    # batch normalisation: op_plugin_functions.yaml says float32 in training, else the type of the input
    running = torch.zeros(8, dtype=torch.float16).npu(), torch.ones(8, dtype=torch.float16).npu()
    for training, dtype in ((True, torch.float32), (False, torch.float16)):
        _, mean, rstd = torch.native_batch_norm(x.npu(), None, None, *running, training, 0.1, 1e-5)
        assert mean.dtype == rstd.dtype == dtype


# ---- the comparison with the operator database


@pytest.fixture(scope="module")
def opinfo():
    spec = importlib.util.spec_from_file_location("opinfo_harness", Path(__file__).parent / "opinfo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_views_keep_their_place_in_their_storage(opinfo):
    x = torch.arange(12.0)[2:].as_strided((2, 2), (1, 2), 3)
    y = opinfo._moved(x, "npu")
    assert (y.stride(), y.storage_offset(), y.untyped_storage().nbytes()) == ((1, 2), 3, 48)
    torch.testing.assert_close(y.cpu(), x)


def test_only_the_order_of_equals_is_open(opinfo):
    x = torch.tensor([2.0, 1.0, 2.0, 1.0])
    sample = SimpleNamespace(input=x, args=(), kwargs={})
    theirs = torch.tensor([1, 3, 0, 2])
    assert opinfo._equals_in_order("argsort", sample, torch.tensor([3, 1, 0, 2]), theirs)
    with pytest.raises(AssertionError):
        opinfo._equals_in_order("argsort", sample, torch.tensor([0, 1, 3, 2]), theirs)
    assert not opinfo._equals_in_order("argsort", sample, torch.tensor([1, 1, 0, 2]), theirs)
    assert not opinfo._equals_in_order("argmax", sample, torch.tensor(2), torch.tensor(0))
    stable = SimpleNamespace(input=x, args=(), kwargs={"stable": True})
    assert not opinfo._equals_in_order("sort", stable, (x.sort()[0], theirs[[1, 0, 2, 3]]), (x.sort()[0], theirs))


def test_summary_counts_what_is_equal_and_what_took_a_rule(opinfo):
    base = {"status": "ok", "kernels": 1, "fallbacks": [], "rules": []}
    rows = [base, {**base, "rules": ["rounded_once"]}, {**base, "fallbacks": ["aten::x"]}, {**base, "status": "error"}]
    assert opinfo.summary(rows) == {
        "entries": 4, "ok": 3, "error": 1, "ok_strict": 2, "ok_by_rounded_once": 1, "through_acl_op_only": 2,
    }  # fmt: skip


def test_page_says_what_differs_and_why(opinfo, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from opinfo_page import BEGIN, END, rewrite

    base = {"status": "ok", "kernels": 1, "fallbacks": [], "rules": [], "why": ""}
    found = {
        "float32": [{**base, "name": "abs"}, {**base, "name": "logit"}],
        "float16": [{**base, "name": "abs"}, {**base, "name": "logit", "rules": ["rounded_once"]},
                    {**base, "name": "own", "status": "mismatch", "why": "other"}],
    }  # fmt: skip
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    rewrite(str(page), found, {dtype: opinfo.summary(rows) for dtype, rows in found.items()})
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| float16 | 3 | 1 | 1 | 2 | 1 | 0 | 2 |" in text
    assert "| `logit` | rounded once (float16) | the chip's kernel computes in float32" in text
    assert "| `own` | mismatch (float16) | other |" in text
    assert "**on the device only** (2): abs, logit" in text
