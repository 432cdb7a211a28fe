"""Builds the native replay engine (cffi, API mode): at install through setup.py, or in place by running this file."""

import os
import shutil
import tempfile
from pathlib import Path

import cffi  # type: ignore[import-untyped, unused-ignore]

HERE = Path(__file__).resolve().parent

ffi = cffi.FFI()
ffi.cdef(
    """
    typedef struct {
        const uint8_t *op, *pipe;
        const int32_t *arg;
        int64_t length;
        const int64_t *occupancy, *latency;
        const int32_t *source_begin;
        const int32_t *source;
    } ascend_core;
    typedef struct {
        int64_t issue, set, wait, barrier, cross;
        int32_t queue_depth;
    } ascend_sync;
    int ascend_replay(int32_t count, const ascend_core *in, const ascend_sync *sync, int compress, int64_t *end);
    """
)
ffi.set_source(
    "ascend_sim.engine._native_lib",
    (HERE / "_native.c").read_text("utf-8"),
    extra_compile_args=["-O3"],
)


def build_in_place() -> Path:
    """Compile beside this file, for working on the source tree without installing it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # away from pyproject.toml, which distutils would read
        try:
            built = Path(ffi.compile(tmpdir=scratch, verbose=False))
        finally:
            os.chdir(before)
        return Path(shutil.copy(built, HERE / built.name))


if __name__ == "__main__":
    build_in_place()
