"""Strict mode finds what works by luck, and nothing in a clean program."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from acl_models import BATCH, mlp
from acl_program import Program

import acl
from acl import _strict


@pytest.fixture
def watch(program: Program) -> Iterator[_strict.Watch]:
    yield _strict.start()
    _strict.stop()


def kinds(watch: _strict.Watch) -> list[str]:
    return [f.kind for f in watch.findings.values()]


def here(watch: _strict.Watch, kind: str) -> list[str]:
    """Files of the lines of a finding."""
    return [os.path.basename(p) for f in watch.findings.values() if f.kind == kind for p, _ in f.lines]


def test_a_clean_program_has_no_findings(watch: _strict.Watch) -> None:
    program, stream, event = Program(), acl.rt.create_stream()[0], acl.rt.create_event()[0]
    source, n = program.upload(np.arange(1024, dtype=np.int32))
    target, _ = acl.rt.malloc(n, 0)
    host, _ = acl.rt.malloc_host(n)
    assert acl.rt.memcpy_async(target, n, source, n, 3, stream) == 0
    assert acl.rt.memcpy_async(host, n, target, n, 2, stream) == 0
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.synchronize_event(event) == 0
    acl.util.ptr_to_bytes(host, n)
    data = mlp()
    model, _ = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    sets, buffers, pointers = [], [], [source, target, host]
    for size in (BATCH * 32 * 4, BATCH * 10 * 4):
        sets.append(acl.mdl.create_dataset())
        pointers.append(program.empty(size))
        buffers.append(acl.create_data_buffer(pointers[-1], size))
        acl.mdl.add_dataset_buffer(sets[-1], buffers[-1])
    assert acl.mdl.execute_async(model, *sets, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    program.download(pointers[-1], 16)
    for buffer in buffers:
        acl.destroy_data_buffer(buffer)
    for dataset in sets:
        acl.mdl.destroy_dataset(dataset)
    assert acl.mdl.unload(model) == 0
    for pointer in pointers:
        assert (acl.rt.free_host if pointer == host else acl.rt.free)(pointer) == 0
    assert acl.rt.destroy_event(event) == 0 and acl.rt.destroy_stream(stream) == 0
    assert acl.rt.reset_device(0) == 0
    watch.left()
    assert watch.report() == "strict: nothing found", watch.report()


def test_a_result_that_is_read_too_early(watch: _strict.Watch) -> None:
    program, stream = Program(), acl.rt.create_stream()[0]
    source, n = program.upload(np.ones(1024, np.int32))
    host, _ = acl.rt.malloc_host(n)
    assert acl.rt.memcpy_async(host, n, source, n, 2, stream) == 0
    acl.util.ptr_to_bytes(host, n)
    (found,) = watch.findings.values()
    assert found.kind == "result read before its stream was synchronized"
    assert "test_acl_strict.py:" in found.text and here(watch, found.kind) == ["test_acl_strict.py"]
    desc = [acl.create_tensor_desc(3, [1024], 2)]
    buffers = [acl.create_data_buffer(source, n)]
    assert acl.op.execute_v2("Abs", desc, buffers, desc, buffers, 0, stream) == 0
    program.download(source, n)
    assert len(watch.findings) == 2 and "Abs" in list(watch.findings)[-1][1]


def test_what_another_stream_waited_for_is_known(watch: _strict.Watch) -> None:
    program, first, second = Program(), acl.rt.create_stream()[0], acl.rt.create_stream()[0]
    source, n = program.upload(np.ones(1024, np.int32))
    event, _ = acl.rt.create_event()
    acl.rt.memset_async(source, n, 0, n, first)
    acl.rt.record_event(event, first)
    acl.rt.stream_wait_event(second, event)
    assert acl.rt.synchronize_stream(second) == 0
    program.download(source, n)
    assert not watch.findings
    acl.rt.memset_async(source, n, 0, n, first)
    assert acl.rt.synchronize_stream(second) == 0
    program.download(source, n)
    assert kinds(watch) == ["result read before its stream was synchronized"]


def test_kinds_freed_memory_and_the_host(watch: _strict.Watch) -> None:
    program = Program()
    pointer, n = program.upload(np.ones(16, np.int32))
    data = bytes(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert acl.rt.memcpy(pointer, n, acl.util.bytes_to_ptr(data), n, 2) == 0
    acl.util.ptr_to_bytes(pointer, n)
    assert acl.rt.free(pointer) == 0
    assert acl.rt.memcpy(pointer, n, acl.util.bytes_to_ptr(data), n, 1) == 107000
    assert acl.rt.free(pointer) == 107000
    assert kinds(watch) == ["wrong copy kind", "device memory on the host", "use after free", "use after free"]
    assert "acl_program.py:" in watch.report()  # where it was allocated


def test_what_is_left_at_the_end(watch: _strict.Watch) -> None:
    program = Program()
    program.empty(100)
    acl.rt.malloc_host(200)
    acl.rt.create_stream()
    acl.mdl.create_dataset()
    acl.create_tensor_desc(0, [1], 2)
    watch.left()
    assert kinds(watch).count("never freed") == 2 and kinds(watch).count("never destroyed") == 4
    text = watch.report()
    for words in ("100 B of acl.rt.malloc", "200 B of acl.rt.malloc_host", "acl.rt.destroy_stream",
                  "acl.mdl.destroy_dataset", "acl.destroy_tensor_desc", "device 0 was set 1 time more"):  # fmt: skip
        assert words in text, text
    assert "test_acl_strict.py:" in text


def test_what_a_reset_took(watch: _strict.Watch) -> None:
    """Resetting the device gives everything back: what the program left to it is told all the same."""
    program = Program()
    program.empty(100)
    acl.rt.create_context(0)
    acl.rt.create_stream()
    assert acl.rt.reset_device_force(0) == 0
    text = watch.report()
    for words in ("100 B of acl.rt.malloc", "acl.rt.destroy_stream", "acl.rt.destroy_context"):
        assert words in text, text
    assert len(watch.findings) == 3
    watch.left()
    assert len(watch.findings) == 3


def test_padding_is_no_memory(watch: _strict.Watch) -> None:
    """Blocks are rounded up: what lies behind the bytes asked for is there by luck."""
    program = Program()
    pointer, other = program.empty(100), program.empty(4096)
    data = bytes(4096)
    host = acl.util.bytes_to_ptr(data)
    assert acl.rt.memcpy(pointer, 110, host, 110, 1) == 0
    assert acl.rt.memcpy(host, 111, pointer, 111, 2) == 0
    assert acl.rt.memset(pointer, 112, 0, 112) == 0
    assert acl.rt.memcpy_async(other, 113, pointer, 113, 3, 0) == 0
    assert acl.rt.memset_async(pointer + 20, 94, 0, 94, 0) == 0
    assert acl.rt.memcpy(pointer, 100, host, 100, 1) == 0
    assert kinds(watch) == ["access beyond the end"] * 5
    texts = [f.text for f in watch.findings.values()]
    assert [int(t.split()[0]) for t in texts] == [10, 11, 12, 13, 14]
    assert acl.rt.memcpy(pointer, 4096, host, 4096, 1) == 107000
    assert len(watch.findings) == 6


def test_the_command_prints_a_report(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text("import acl\nacl.init()\nacl.rt.set_device(0)\np, _ = acl.rt.malloc(64, 0)\n")
    environment = {**os.environ, "ASCEND_SIM_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "ascend_sim.cli.main", "run", "--strict", str(script)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "never freed: 64 B of acl.rt.malloc" in done.stderr and f"{script}:4" in done.stderr
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, env={**environment, "ASCEND_SIM_STRICT": "1"}, check=False,
    )  # fmt: skip
    assert "never freed: 64 B" in done.stderr
