"""Masks on device npu against the CPU: positions, selection, assignment; no CPU fallback."""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")

SHAPES = [(7,), (4, 5), (2, 3, 4)]


def _put(x, mask, value, accumulate=False):
    x = x.clone()
    if accumulate:
        return x.index_put_((mask,), value, accumulate=True)
    x[mask] = value
    return x


CASES = {
    "nonzero": lambda x, m: x.nonzero(),
    "nonzero of a mask": lambda x, m: m.nonzero(),
    "nonzero as tuple": lambda x, m: torch.stack(m.nonzero(as_tuple=True)),
    "argwhere": lambda x, m: torch.argwhere(m),
    "where": lambda x, m: torch.cat(torch.where(m)),
    "select": lambda x, m: x[m],
    "masked_select": lambda x, m: x.masked_select(m),
    "masked_select broadcast": lambda x, m: x.masked_select(m[..., :1]),
    "rows": lambda x, m: x[m.reshape(m.shape[0], -1)[:, 0]],
    "nothing": lambda x, m: x[m & ~m],
    "everything": lambda x, m: x[m | ~m],
    "set a number": lambda x, m: _put(x, m, 5.0),
    "set rows": lambda x, m: _put(x, m.reshape(m.shape[0], -1)[:, 0], 5.0),
    "set values": lambda x, m: _put(x, m, torch.arange(int(m.sum()), device=x.device, dtype=x.dtype)),
    "add": lambda x, m: _put(x, m, torch.ones((), device=x.device, dtype=x.dtype), True),
    "with an index": lambda x, m: x.unsqueeze(0)[torch.zeros(int(m.sum()), dtype=torch.long, device=x.device), m],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("case", CASES)
def test_masks(case, shape, dtype):
    from torch_npu.dispatch import run

    torch.manual_seed(sum(shape))
    x = (torch.randn(shape) * 3).to(dtype)
    mask = torch.rand(shape) > 0.5
    before = sum(run.fallbacks.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = CASES[case](x, mask)
        actual = CASES[case](x.npu(), mask.npu())
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected)
    assert sum(run.fallbacks.values()) == before, run.fallbacks


def test_a_mask_of_the_cpu_selects_on_the_device_and_gradients_flow():
    x = torch.randn(4, 5)
    mask = torch.rand(4, 5) > 0.5
    y = x.npu().requires_grad_()
    z = x.clone().requires_grad_()
    y[mask].square().sum().backward()
    z[mask].square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), z.grad)


def test_wrong_masks_are_errors():
    x = torch.randn(4, 5).npu()
    with pytest.raises(IndexError, match="mask"):
        x[torch.ones(3, dtype=torch.bool).npu()]
    with pytest.raises(RuntimeError, match="BoolTensor"):
        x.masked_select(torch.ones(4, 5).npu())
    assert x.isfinite().all()


def test_masks_of_bytes_are_deprecated_and_values_of_the_cpu_are_numbers_only():
    x, mask = torch.zeros(4).npu(), torch.tensor([1, 0, 1, 0], dtype=torch.uint8).npu()
    with pytest.warns(UserWarning, match="torch.uint8 is now deprecated"):
        assert x[mask].shape == (2,)
    places = torch.tensor([0, 1])
    x[places] = torch.tensor(3.0)
    x[x > 5] = torch.tensor(1.0)
    assert x.tolist() == [3, 3, 0, 0]
    for accumulate in (False, True):
        with pytest.raises(RuntimeError, match="same device"):
            x.index_put_((places,), torch.ones(2), accumulate=accumulate)
