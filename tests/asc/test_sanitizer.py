"""What the sanitizer says of small kernels with one fault each, and of ones without."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.asc._sanitizer.footprints import FOOTPRINTS
from ascend_sim.asc.sanitizer import CODES, Report, SanitizerError, SanitizerWarning, check, listen
from ascend_sim.soc import load_soc

E, P, PipeID = asc.HardEvent, asc.TPosition, asc.PipeID
N = 512  # elements of the arrays


def line_of(function: Callable[..., Any], text: str, nth: int = 0) -> int:
    """Line of the nth occurrence of a text in a kernel."""
    lines, first = inspect.getsourcelines(function)
    return [first + i for i, line in enumerate(lines) if text in line][nth]


def examine(
    kernel: Callable[..., Any], chip: str = "Ascend910B2", blocks: int = 1, kind: str = "AIV",
    roles: Sequence[str] = ("in", "out"), nbytes: int = 2 * N, together: bool = False,
) -> Report:  # fmt: skip
    soc = load_soc(chip)
    kind = kind if soc.chip.split_cores else "AICORE"
    gm = [(f"a{i}", "float16", nbytes, role) for i, role in enumerate(roles)]
    args = [(role, sum(r == role for r in roles[:i])) for i, role in enumerate(roles)]
    launch = asc.Launch(kernel, blocks, kind, [(r if r != "inout" else "in", n) for r, n in args], gm, soc=soc,
                        cooperative=together)  # fmt: skip
    buffers = [(np.arange(nbytes // 2) % 1000 + 1).astype(np.float16).view(np.uint8).copy() for _ in gm]
    return check(launch, buffers)


def faults(report: Report) -> dict[str, list[tuple[str, int]]]:
    """Code -> (role, line) of its sites."""
    out: dict[str, list[tuple[str, int]]] = {}
    for f in report.faults:
        out.setdefault(f.code, []).extend((s.role, s.place[1]) for s in f.sites if s.place)
    return out


def tensors(x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    gx, gy = asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x)
    gy.set_global_buffer(y)
    return gx, gy, asc.LocalTensor("float16", P.VECIN, 0, N), asc.LocalTensor("float16", P.VECOUT, 2 * N, N)


def sync(event: Any, flag: int = 0) -> None:
    asc.set_flag(event, flag)
    asc.wait_flag(event, flag)


def good(x: Any, y: Any) -> None:
    gx, gy, a, b = tensors(x, y)
    asc.data_copy(a, gx, N)
    sync(E.MTE2_V)
    asc.muls(b, a, 2.0, N)
    sync(E.V_MTE3)
    asc.data_copy(gy, b, N)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2", "Ascend310B1"])
def test_a_right_kernel_is_clean(chip: str) -> None:
    report = examine(good, chip)
    assert report.clean, report.text()
    assert not report.of("error", "suspicious", "info")


def test_missing_flag_before_a_read_names_both_lines() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    report = examine(kernel)
    (finding,) = report.faults
    assert finding.code == "ErrorSync2" and "MTE2_V" in finding.message
    assert [s.place[1] for s in finding.sites if s.place] == [line_of(kernel, "muls"), line_of(kernel, "data_copy(a")]


def test_missing_flag_before_a_write_names_both_lines() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        for i in range(2):
            asc.data_copy(a, gx[i * N // 2 :], N // 2)
            sync(E.MTE2_V)
            asc.muls(b, a, 2.0, N // 2)
            sync(E.V_MTE3)
            asc.data_copy(gy[i * N // 2 :], b, N // 2)
            sync(E.MTE3_V)

    found = faults(examine(kernel))
    load, compute = line_of(kernel, "data_copy(a"), line_of(kernel, "muls")
    assert found == {"ErrorSync1": [("writes", load), ("read", compute), ("writes", load), ("written", load)]}


def test_a_flag_through_a_third_pipe_orders() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, _ = tensors(x, y)
        asc.data_copy(a, gx, N)
        sync(E.MTE2_V)
        sync(E.V_MTE3)  # nothing on V between: MTE3 still comes after MTE2
        asc.data_copy(gy, a, N)

    assert examine(kernel).clean


def test_barriers_order() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N)
        asc.pipe_barrier(PipeID.PIPE_ALL)
        asc.muls(b, a, 2.0, N)
        asc.pipe_barrier(PipeID.PIPE_ALL)
        asc.data_copy(gy, b, N)

    assert examine(kernel).clean


def overlapping_stores(x: Any, y: Any, barrier: bool, same: bool) -> None:
    gx, gy, a, b = tensors(x, y)
    asc.data_copy(a, gx, N)
    sync(E.MTE2_V)
    asc.muls(b, a, 1.0 if same else 2.0, N)
    sync(E.V_MTE3)
    sync(E.MTE2_MTE3)
    asc.data_copy(gy, a, N)
    if barrier:
        asc.pipe_barrier(PipeID.PIPE_MTE3)
    asc.data_copy(gy, b, N)


def test_overlapping_transfers_of_one_pipe_need_a_barrier_unless_they_agree() -> None:
    def run(barrier: bool, same: bool) -> Report:
        return examine(lambda x, y: overlapping_stores(x, y, barrier, same))

    assert list(faults(run(False, False))) == ["ErrorSync1"]
    assert "pipe_barrier(PIPE_MTE3)" in run(False, False).faults[0].message
    assert run(True, False).clean and run(False, True).clean


def test_missing_set_is_a_deadlock_that_names_pipe_flag_and_line() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N)
        asc.set_flag(E.MTE2_V, 1)
        asc.wait_flag(E.MTE2_V, 0)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    report = examine(kernel)
    finding = next(f for f in report.faults if f.code == "ErrorSync3")
    assert "deadlock" in finding.message and "pipe V " in finding.message and "MTE2_V 0" in finding.message
    lines = {s.place[1] for s in finding.sites if s.place}
    assert {line_of(kernel, "wait_flag"), line_of(kernel, "set_flag")} <= lines
    assert "ErrorSync2" in faults(report)  # and the read races


def test_a_wait_may_precede_its_set_while_its_pipe_is_idle() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.wait_flag(E.MTE2_V, 0)
        asc.data_copy(a, gx, N)
        asc.set_flag(E.MTE2_V, 0)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    assert examine(kernel).clean


def test_double_set_and_flags_left() -> None:
    def kernel(x: Any, y: Any) -> None:
        good(x, y)
        asc.set_flag(E.V_MTE2, 3)
        asc.set_flag(E.V_MTE2, 3)
        asc.wait_flag(E.V_MTE2, 3)

    report = examine(kernel)
    assert faults(report)["ErrorSync4"][0] == ("second set", line_of(kernel, "set_flag", 1))
    assert [f.code for f in report.of("info")] == ["FlagsLeft"]


def test_flag_ids_per_chip() -> None:
    def kernel(x: Any, y: Any) -> None:
        good(x, y)
        sync(E.MTE2_V, 5)

    assert examine(kernel, "Ascend910B2").clean
    report = examine(kernel, "Ascend910A")
    assert [f.code for f in report.faults] == ["Restriction"] and "ids 0..3" in report.faults[0].message
    assert report.stopped


@pytest.mark.parametrize(
    ("count", "offset", "code"), [(2 * N, 0, "ErrorWrite2"), (N, 8, "ErrorWrite4"), (32, 2 * N, "ErrorWrite2")]
)
def test_out_of_bounds_and_unaligned(count: int, offset: int, code: str) -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, _, a, _ = tensors(x, y)
        asc.data_copy(a[offset:], gx, count)

    report = examine(kernel, nbytes=8 * N)
    assert [f.code for f in report.of("error")] == [code], report.text()
    assert report.faults[0].sites[0].place[1] == line_of(kernel, "data_copy")  # type: ignore[index]


def test_read_past_the_end_of_an_argument() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, _, a, _ = tensors(x, y)
        asc.data_copy(a, gx[16:], N)

    assert [f.code for f in examine(kernel).of("error")] == ["ErrorRead3"]


def test_write_past_the_end_of_an_argument() -> None:
    def kernel(x: Any, y: Any) -> None:
        _, gy, a, _ = tensors(x, y)
        asc.duplicate(a, 0.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy[16:], a, N)

    assert [f.code for f in examine(kernel).of("error")] == ["ErrorWrite2"]


def test_buffers_that_do_not_fit_give_sizes() -> None:
    def kernel(x: Any, y: Any) -> None:
        pipe = asc.TPipe()
        pipe.init_buffer(asc.TQue(P.VECIN, 2), 2, 100 * 1024)

    finding = examine(kernel).faults[0]
    assert finding.code == "ErrorBuffer3" and "204800 bytes" in finding.message and "196608 bytes" in finding.message


def test_use_of_bytes_never_written() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N - 32)
        sync(E.MTE2_V)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    found = faults(examine(kernel))["ErrorRead2"]
    assert ("reads", line_of(kernel, "muls")) in found and ("nearest write", line_of(kernel, "data_copy(a")) in found


def test_bytes_never_written_do_no_harm_when_no_result_depends_on_them() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N - 32)
        sync(E.MTE2_V)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N - 32)
        asc.duplicate(b[N - 32 :], 0.0, 32)
        sync(E.V_MTE3)
        asc.data_copy(gy[N - 32 :], b[N - 32 :], 32)

    report = examine(kernel)
    assert report.clean, report.text()
    assert [f.code for f in report.of("info")] == ["ErrorRead2"]


def test_pad_lanes_are_undefined() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy_pad(a, gx, asc.DataCopyParams(1, 2 * (N - 7), 0, 0))
        sync(E.MTE2_V)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    assert ("padded copy", line_of(kernel, "data_copy_pad")) in faults(examine(kernel))["ErrorRead2"]


def test_scalar_reads_of_undefined_bytes() -> None:
    def kernel(x: Any, y: Any) -> None:
        good(x, y)
        asc.LocalTensor("float16", P.VECCALC, 16384, 16).get_value(3)

    assert faults(examine(kernel))["ErrorRead2"] == [("reads", line_of(kernel, "get_value"))]


def tiles(x: Any, y: Any, counts: Sequence[int]) -> None:
    gx, gy, a, b = tensors(x, y)
    t = N // 4
    for i, count in enumerate(counts):
        if i:
            asc.wait_flag(E.V_MTE2, 0)
        asc.data_copy(a, gx[i * t :], count)
        sync(E.MTE2_V)
        if i:
            asc.wait_flag(E.MTE3_V, 0)
        asc.muls(b, a, 2.0, t)
        asc.set_flag(E.V_MTE2, 0)
        sync(E.V_MTE3)
        asc.data_copy(gy[i * t :], b, t)
        asc.set_flag(E.MTE3_V, 0)
    asc.wait_flag(E.V_MTE2, 0)
    asc.wait_flag(E.MTE3_V, 0)


def test_bytes_left_over_from_the_tile_before() -> None:
    t = N // 4
    assert examine(lambda x, y: tiles(x, y, [t] * 4)).clean
    found = faults(examine(lambda x, y: tiles(x, y, [t, t, t - 16, t])))["ErrorWrite3"]
    assert found[0] == ("short write", line_of(tiles, "data_copy(a"))


def test_holes_in_a_result() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N)
        sync(E.MTE2_V)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N - 64)

    assert faults(examine(kernel)) == {"ErrorWrite3": [("nearest write", line_of(kernel, "data_copy(gy"))]}


def test_a_misplaced_transfer_of_a_regular_walk() -> None:
    def kernel(x: Any, y: Any, off: int) -> None:
        gx, gy, a, b = tensors(x, y)
        t = N // 8
        for i in range(8):
            asc.data_copy(a[i * t :], gx[i * t + (off if i == 3 else 0) :], t)
        sync(E.MTE2_V)
        asc.muls(b, a, 2.0, N)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    assert examine(lambda x, y: kernel(x, y, 0)).clean
    found = faults(examine(lambda x, y: kernel(x, y, 16)))["Irregular"]
    assert {line for _, line in found} == {line_of(kernel, "data_copy(a")}


def queue_kernel(x: Any, y: Any, mistake: str) -> None:
    gx, gy, _, _ = tensors(x, y)
    pipe = asc.TPipe()
    q, r = asc.TQue(P.VECIN, 1), asc.TQue(P.VECOUT, 1)
    pipe.init_buffer(q, 1, 2 * N)
    pipe.init_buffer(r, 1, 2 * N)
    a = q.alloc_tensor("float16")
    asc.data_copy(a, gx, N)
    q.enque(a)
    a = q.deque("float16")
    b = r.alloc_tensor("float16")
    if mistake == "use after free":
        q.free_tensor(a)
    asc.muls(b, a, 2.0, N)
    r.enque(b)
    if mistake == "double free":
        q.free_tensor(a)
    if mistake not in ("leak", "use after free"):
        q.free_tensor(a)
    b = r.deque("float16")
    asc.data_copy(gy, b, N)
    r.free_tensor(b)


@pytest.mark.parametrize(
    ("mistake", "codes"),
    [("", []), ("use after free", ["ErrorRead1"]), ("double free", ["ErrorFree"]), ("leak", ["ErrorLeak"])],
)
def test_queues(mistake: str, codes: list[str]) -> None:
    assert list(faults(examine(lambda x, y: queue_kernel(x, y, mistake)))) == codes


def test_cores_that_write_the_same_bytes() -> None:
    def kernel(x: Any, y: Any, atomic: bool) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, N)
        sync(E.MTE2_V)
        asc.muls(b, a, 1.0 + asc.get_block_idx(), N)
        sync(E.V_MTE3)
        if atomic:
            asc.set_atomic_add("float16")
        asc.data_copy(gy, b, N)
        asc.set_atomic_none()

    report = examine(lambda x, y: kernel(x, y, False), blocks=2)
    assert faults(report)["ErrorSync1"][0][1] == line_of(kernel, "data_copy(gy")
    assert "block 1" in report.faults[0].core and "block 0" in report.faults[0].message
    assert examine(lambda x, y: kernel(x, y, True), blocks=2, roles=("in", "inout")).clean


def exchange(x: Any, y: Any, ordered: bool) -> None:
    """Each core writes its half, then reads the other's."""
    gx, gy, a, b = tensors(x, y)
    me, half = asc.get_block_idx(), N // 2
    asc.data_copy(a, gx[me * half :], half)
    sync(E.MTE2_V)
    asc.muls(b, a, 2.0, half)
    sync(E.V_MTE3)
    asc.data_copy(gy[me * half :], b, half)
    if ordered:
        asc.sync_all()
    else:
        sync(E.MTE3_MTE2)
    asc.data_copy(a, gy[(1 - me) * half :], half)


def test_order_between_cores() -> None:
    assert examine(lambda x, y: exchange(x, y, True), blocks=2, together=True).clean
    report = examine(lambda x, y: exchange(x, y, False), blocks=2, together=True)
    assert "between cores" in report.faults[0].message


def test_flags_between_cube_and_vector_cores_order() -> None:
    def kernel(x: Any, y: Any, flagged: bool) -> None:
        gx, gy, a, b = tensors(x, y)
        if asc.ascend_is_aic():
            l1 = asc.LocalTensor("float16", P.A1, 0, 256)
            l0a, l0b = asc.LocalTensor("float16", P.A2, 0, 256), asc.LocalTensor("float16", P.B2, 0, 256)
            asc.data_copy(l1, gx, asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
            sync(E.MTE2_MTE1)
            asc.load_data(l0a, l1, asc.LoadData2DParams(0, 1, 1))
            asc.load_data(l0b, l1, asc.LoadData2DParams(0, 1, 1, if_transpose=True))
            sync(E.MTE1_M)
            c = asc.LocalTensor("float32", P.CO1, 0, 256)
            asc.mmad(c, l0a, l0b, asc.MmadParams(16, 16, 16, cmatrix_init_val=True))
            sync(E.M_FIX)
            asc.fixpipe(gy, c, asc.FixpipeParamsV220(16, 16, 16, 16, asc.QuantModes.F322F16))
            asc.cross_core_set_flag(1, 2, PipeID.PIPE_FIX)
        else:
            asc.cross_core_wait_flag(1, 2, PipeID.PIPE_MTE2 if flagged else PipeID.PIPE_MTE3)
            if asc.get_sub_block_idx() == 0:
                asc.data_copy(a, gy, 256)
                sync(E.MTE2_V)
                asc.muls(b, a, 2.0, 256)
                sync(E.V_MTE3)
                asc.data_copy(gy[256:], b, 256)

    assert examine(lambda x, y: kernel(x, y, True), kind="MIX").clean
    assert "between cores" in examine(lambda x, y: kernel(x, y, False), kind="MIX").faults[0].message


def test_deadlock_between_cores_names_the_waits() -> None:
    def kernel(x: Any, y: Any) -> None:
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(4, 2, PipeID.PIPE_S)

    report = examine(kernel, kind="MIX")
    assert report.faults[0].code == "Deadlock" and report.stopped
    assert {s.place[1] for s in report.faults[0].sites if s.place} == {line_of(kernel, "wait_flag")}


def test_habits_are_hints() -> None:
    def kernel(x: Any, y: Any) -> None:
        gx, gy, a, b = tensors(x, y)
        asc.data_copy(a, gx, asc.DataCopyParams(N // 16, 1, 0, 0))
        sync(E.MTE2_V)
        for i in range(40):
            asc.muls(b, a, 2.0 + i, 16)
        asc.add(b, a, a[N // 2 :], N // 2)
        asc.muls(b[N // 2 :], a, 2.0, N // 2)
        sync(E.V_MTE3)
        asc.data_copy(gy, b, N)

    report = examine(kernel)
    assert report.clean, report.text()
    messages = " ".join(f.message for f in report.of("hint"))
    assert "rows of less than 512 bytes" in messages and "of one repeat" in messages and "same banks" in messages


@asc.jit
def racing(x: Any, y: Any) -> None:
    gx, gy, a, b = tensors(x, y)
    asc.data_copy(a, gx, N)
    asc.muls(b, a, 2.0, N)
    sync(E.V_MTE3)
    asc.data_copy(gy, b, N)


def test_user_launches_warn_raise_or_stay_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.ones(N, np.float16), np.zeros(N, np.float16)
    with pytest.warns(SanitizerWarning, match="MTE2_V"):
        racing[1](x, y)
    assert (y == 2).all()
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "error")
    with pytest.raises(SanitizerError, match="MTE2_V"):
        racing[1](x, y)
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        racing[1](x, y)
    heard: list[Any] = []
    with listen(heard.append):
        racing[1](x, y)
    assert [f.code for f in heard[0].report.faults] == ["ErrorSync2"]
    monkeypatch.setenv("ASCEND_SIM_SANITIZER", "sometimes")
    with pytest.raises(ValueError, match="sometimes"):
        racing[1](x, y)


def test_expected_values_are_compared() -> None:
    soc = load_soc("Ascend910B2")
    gm = [("x", "float16", 2 * N, "in"), ("y", "float16", 2 * N, "out")]
    launch = asc.Launch(good, 1, "AIV", [("in", 0), ("out", 0)], gm, soc=soc)
    x = np.arange(N).astype(np.float16)
    for factor, codes in ((2, []), (3, ["WrongValue"])):
        buffers = [x.view(np.uint8).copy(), np.zeros(2 * N, np.uint8)]
        report = check(launch, buffers, [None, (x * factor).astype(np.float16).view(np.uint8)])
        assert [f.code for f in report.faults] == codes


def test_every_finding_has_a_described_code() -> None:
    names = {f"Error{kind}{i}" for kind in ("Read", "Write", "Sync") for i in range(1, 5)}
    assert names | {"ErrorLeak", "ErrorFree"} | {f"ErrorBuffer{i}" for i in range(5)} <= set(CODES)


def test_footprints_take_the_parameters_of_their_semantics() -> None:
    import importlib

    for key, footprint in FOOTPRINTS.items():
        module, name = key.split(".")
        semantics = getattr(importlib.import_module(f"ascend_sim.isa.{module}"), name)
        wanted = list(inspect.signature(semantics).parameters)
        given = inspect.signature(footprint).parameters.values()
        plain = [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert wanted[: len(plain)] == plain, key
        assert len(wanted) == len(plain) or any(p.kind is p.VAR_POSITIONAL for p in given), key
