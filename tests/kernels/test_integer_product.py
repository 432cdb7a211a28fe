"""Products of int8 with int32 sums on split chips, instruction by instruction: exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.ops.registry import NoKernel


def case(shape: tuple[int, ...], trans: bool) -> list[Any]:
    m, k, n = shape
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (n, k) if trans else (k, n))]


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 32, 10), (37, 100, 65), (200, 260, 300)], ids=str)
def test_sums_are_exact(run_op: Any, close: Any, shape: tuple[int, ...], trans: bool, bias: bool) -> None:
    given = case(shape, trans)
    if bias:
        given.append(np.arange(shape[2]).astype(np.int32) * 1000)
    close(*run_op("MatMulV2", given, "Ascend910B2", transpose_x1=False, transpose_x2=trans))


def test_coupled_cores_leave_it_to_the_estimate(run_op: Any) -> None:
    with pytest.raises(NoKernel):
        run_op("MatMulV2", case((16, 32, 16), False), "Ascend310P3", transpose_x1=False, transpose_x2=False)
