"""Cost of transfers, and cores as shared servers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from ascend_sim.runtime.cores import CorePool
from ascend_sim.runtime.link import Line, Link, picoseconds
from ascend_sim.runtime.system import System
from ascend_sim.soc import load_soc


def test_times_are_rounded_once() -> None:
    assert picoseconds(0.1) == 100_000
    assert Line.of(2.3, 23.0).ps(0) == 2_300_000
    assert Line.of(0.0, 3.0).ps(1) == round(Fraction(1000, 3))
    assert Line.of(0.0, 23.0).ps(23_000_000_000) == 10**12  # 23 GB in one second
    with pytest.raises(ValueError, match="positive rate"):
        Line.of(1.0, 0.0)


def test_host_to_device_matches_the_measured_copy() -> None:
    # 19.27 MB in 828 and 850 us, 256 B in 2.2-2.8 us on a 910B2 training host (msinsight example data)
    link = Link(load_soc("Ascend910B2"))
    assert 800e6 < link.ps("h2d", 19_270_000) < 880e6
    assert 2.0e6 < link.ps("h2d", 256) < 3.0e6


def test_device_to_device_matches_the_measured_copy() -> None:
    # SDMA on 910B2: 0.60 us up to 1.5 KB; 18.9 MB in 29.3 us alone (msinsight example data)
    link = Link(load_soc("Ascend910B2"))
    assert 0.5e6 < link.ps("d2d", 1024) < 0.8e6
    assert 26e6 < link.ps("d2d", 18_900_000) < 40e6


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_pageable_is_slower_than_pinned(direction: str) -> None:
    for name in ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4"):
        link = Link(load_soc(name))
        assert link.ps(direction, 64 << 20, pinned=False) > link.ps(direction, 64 << 20, pinned=True)


def test_more_bytes_take_longer() -> None:
    link = Link(load_soc("Ascend910B2"))
    for direction in ("h2d", "d2h", "d2d", "p2p", "set"):
        times = [link.ps(direction, 1 << k) for k in range(0, 31, 3)]
        assert times == sorted(times) and times[0] > 0


def test_kernels_share_cores(make_system: Callable[..., System]) -> None:
    soc = load_soc("Ascend910B2")
    cores = soc.cores.ai_core_count
    pool = CorePool(soc)
    assert pool.reserve("AIC", cores, 10, 100) == 10
    assert pool.reserve("AIC", 1, 20, 50) == 110  # all cube cores are taken
    assert pool.reserve("AIV", 1, 20, 50) == 20  # vector cores are not
    assert pool.reserve("AIC", cores - 1, 0, 7) == 110  # beside the one-core kernel
    assert pool.reserve("MIX", 1, 0, 5) == 117
    assert pool.busy_until() == 160


def test_half_the_cores_twice_at_once() -> None:
    soc = load_soc("Ascend910B2")
    pool = CorePool(soc)
    half = soc.cores.ai_core_count // 2
    assert [pool.reserve("AIC", half, 0, 100) for _ in range(3)] == [0, 0, 100]


def test_coupled_cores_are_one_pool() -> None:
    soc = load_soc("Ascend910A")
    pool = CorePool(soc)
    assert pool.reserve("AICORE", soc.cores.ai_core_count, 0, 100) == 0
    assert pool.reserve("AIV", 1, 0, 100) == 100


def test_more_cores_than_there_are_is_all_of_them() -> None:
    pool = CorePool(load_soc("Ascend310"))
    assert pool.reserve("AICORE", 1000, 0, 10) == 0
    assert pool.reserve("AICORE", 1, 0, 10) == 10
