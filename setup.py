"""Builds the native replay engine when a C compiler is there; everything else is in pyproject.toml."""

from setuptools import setup
from setuptools.command.build_ext import build_ext


class OptionalBuildExt(build_ext):
    """Extensions that may fail to build: the Python engine does the same work, slower."""

    def finalize_options(self) -> None:
        super().finalize_options()
        for extension in self.extensions or ():
            extension.optional = True


setup(
    cffi_modules=["ascend_sim/engine/_build.py:ffi"],
    cmdclass={"build_ext": OptionalBuildExt},
)
