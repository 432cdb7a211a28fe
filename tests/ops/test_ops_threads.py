"""Threads of BLAS: one for small products, all of them for big ones, and as before afterwards."""

from __future__ import annotations

import pytest

from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.values import _threads


def product(size: int) -> OpCall:
    square = TensorSpec((size, size), "float16")
    return OpCall("MatMulV2", (square, square), (square,))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    count = [4]

    def put(n: int) -> None:
        count[0] = n

    monkeypatch.setattr(_threads, "_controls", lambda: (lambda: count[0], put))
    return count


@pytest.mark.parametrize(("size", "expected"), [(16, 1), (1024, 1), (2048, 4)])
def test_threads_follow_the_size(threads: list[int], size: int, expected: int) -> None:
    with _threads.limited(product(size)):
        assert threads[0] == expected
    assert threads[0] == 4


def test_threads_come_back_after_an_error(threads: list[int]) -> None:
    with pytest.raises(ZeroDivisionError), _threads.limited(product(16)):
        assert 1 / (threads[0] - 1)
    assert threads[0] == 4


def test_nothing_happens_without_openblas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_controls", lambda: None)
    with _threads.limited(product(16)):
        pass
