"""Order between blocks through global memory, and what happens when it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.isa.legality import InstructionError

BLOCKS = 5


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "off")
    yield


def tensors(*addresses: Any) -> list[asc.GlobalTensor]:
    out = []
    for address in addresses:
        g = asc.GlobalTensor()
        g.set_global_buffer(address)
        out.append(g)
    return out


@asc.jit(kernel_type="AIV")
def running_sum(x: Any, flags: Any, backwards: asc.ConstExpr[bool], ordered: asc.ConstExpr[bool]) -> None:
    """Each block adds the element of the block before it to its own."""
    gx, gf = tensors(x, flags)
    me, n = asc.get_block_idx(), asc.get_block_num()
    ub = asc.LocalTensor("int32", asc.TPosition.VECCALC, 0, 512)
    before, after = (me + 1, me - 1) if backwards else (me - 1, me + 1)
    if 0 <= before < n:
        if ordered:
            asc.ib_wait(gf, ub, before, 0)
        gx.set_value(me * 8, gx.get_value(me * 8) + gx.get_value(before * 8))
    if 0 <= after < n and ordered:
        asc.ib_set(gf, ub, me, 0)


@pytest.mark.parametrize("backwards", [False, True])
def test_ib_set_orders_blocks(backwards: bool) -> None:
    """Backwards the blocks run against the order in which they are started."""
    x = np.zeros((BLOCKS, 8), np.int32)
    x[:, 0] = 1 + np.arange(BLOCKS)
    want = x[:, 0][::-1].cumsum()[::-1] if backwards else x[:, 0].cumsum()
    running_sum[BLOCKS, None](x, np.zeros((BLOCKS, 8), np.int32), backwards, True)
    np.testing.assert_array_equal(x[:, 0], want)


@asc.jit(kernel_type="AIV")
def append(log: Any, flags: Any, rounds: int) -> None:
    """Blocks write their number behind one another, round after round."""
    gl, gf = tensors(log, flags)
    ub = asc.LocalTensor("int32", asc.TPosition.VECCALC, 0, 512)
    asc.init_determine_compute_workspace(gf, ub)
    for _ in asc.range(rounds):
        asc.wait_pre_block(gf, ub)
        at = gl.get_value(0)
        gl.set_value(1 + at, asc.get_block_idx())
        gl.set_value(0, at + 1)
        asc.notify_next_block(gf, ub)


@pytest.mark.parametrize("rounds", [1, 3])
def test_blocks_pass_in_order(rounds: int) -> None:
    log = np.zeros(64, np.int32)
    append[BLOCKS, None](log, np.zeros((BLOCKS, 8), np.int32), rounds)
    assert log[0] == rounds * BLOCKS
    assert log[1 : 1 + rounds * BLOCKS].tolist() == list(range(BLOCKS)) * rounds


@asc.jit(kernel_type="AIV")
def waits_for_nobody(flags: Any) -> None:
    (gf,) = tensors(flags)
    ub = asc.LocalTensor("int32", asc.TPosition.VECCALC, 0, 8)
    if asc.get_block_idx() == 1:
        asc.ib_wait(gf, ub, 0, 0)


def test_missing_ib_set_is_named() -> None:
    with pytest.raises(RuntimeError, match="ib_set of block 0, event 0"):
        waits_for_nobody[2, None](np.zeros((BLOCKS, 8), np.int32))


BAD = [
    ({"block": 7}, "block_idx"), ({"event": -1}, "event_id"), ({"event": 9}, "gm_workspace"),
    ({"ub": 4}, "ub_workspace"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "named"), BAD)
def test_restrictions(change: dict[str, int], named: str) -> None:
    given = {"block": 0, "event": 0, "ub": 8} | change

    @asc.jit(kernel_type="AIV")
    def kernel(flags: Any) -> None:
        (gf,) = tensors(flags)
        asc.ib_set(gf, asc.LocalTensor("int32", asc.TPosition.VECCALC, 0, given["ub"]), given["block"], given["event"])

    with pytest.raises(InstructionError, match=named) as error:
        kernel[2, None](np.zeros((2, 8), np.int32))
    assert error.value.place is not None and error.value.place[0] == __file__
