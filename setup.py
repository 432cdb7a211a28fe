"""Finds the packages and builds the native replay engine; everything else is in pyproject.toml.

``kernels/`` and ``configs/`` are installed inside ``ascend_sim``: a PyPI package named ``kernels`` exists.
"""

from setuptools import find_packages, setup
from setuptools.command.build_ext import build_ext


class OptionalBuildExt(build_ext):
    """Extensions may fail to build: the Python engine does the same work, slower."""

    def finalize_options(self) -> None:
        super().finalize_options()
        for extension in self.extensions or ():
            extension.optional = True


setup(
    packages=[
        *find_packages(include=["ascend_sim", "ascend_sim.*", "acl", "acl.*", "torch_npu", "torch_npu.*"]),
        "ascend_sim.kernels",
        "ascend_sim.configs",
    ],
    cffi_modules=["ascend_sim/engine/_build.py:ffi"],
    cmdclass={"build_ext": OptionalBuildExt},
)
