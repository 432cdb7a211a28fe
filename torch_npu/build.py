"""Compiles the device layer (csrc/) for the installed torch: once per torch version, ABI and source.

``python -m torch_npu.build`` does it ahead of first use; ``--force`` builds anew, ``--where`` prints the folder.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

NAME = "_npu_ext"
SOURCE = Path(__file__).parent / "csrc"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
SUPPORTED = ((2, 13), (2, 13))  # first and last minor version of torch the sources were compiled and tested with


class BuildError(ImportError):
    """The device layer cannot be built here; the message says what is missing and what to do."""


def torch_version() -> tuple[int, int]:
    import torch

    major, minor = torch.__version__.split("+")[0].split(".")[:2]
    return int(major), int(minor)


def autoloading() -> bool:
    """Whether ``import torch`` is what brings this package in."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def ready() -> bool:
    """Whether the device layer for this torch has been built."""
    try:
        check_version()
    except BuildError:
        return False
    return library().exists()


def import_torch() -> None:
    """Import torch without having it load this package, which is being loaded."""
    before = os.environ.get(AUTOLOAD)
    os.environ[AUTOLOAD] = "0"
    try:
        importlib.import_module("torch")
    finally:
        if before is None:
            del os.environ[AUTOLOAD]
        else:
            os.environ[AUTOLOAD] = before


def check_version() -> None:
    """BuildError when this torch is outside of the supported range (``TORCH_NPU_ANY_TORCH=1`` tries all the same)."""
    import torch

    low, high = SUPPORTED
    if not low <= torch_version() <= high and os.environ.get("TORCH_NPU_ANY_TORCH") != "1":
        wanted = f"{low[0]}.{low[1]}" if low == high else f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
        raise BuildError(
            f"torch_npu of ascend-sim supports torch {wanted}; torch {torch.__version__} is installed.\n"
            f'  Install a supported one:  pip install "torch=={low[0]}.{low[1]}.*" '
            "--index-url https://download.pytorch.org/whl/cpu\n"
            "  Or try this one all the same:  TORCH_NPU_ANY_TORCH=1"
        )


def _compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "")) or [shutil.which("g++") or shutil.which("c++") or "g++"]
    if shutil.which(command[0]) is None:
        raise BuildError(
            f"torch_npu needs a C++ compiler once, to build its device layer for this torch; {command[0]!r} was not "
            "found.\n  Debian, Ubuntu:  apt install g++        Fedora, openEuler:  dnf install gcc-c++\n"
            "  conda:           conda install -c conda-forge gxx\n"
            "  Another compiler: set CXX. What does not need torch (acl, ascend-sim) works without it."
        )
    return command


def _sources() -> list[Path]:
    return sorted(SOURCE.glob("*.cpp"))


def folder() -> Path:
    """Where the library for this Python, torch and source lies (``TORCH_NPU_CACHE`` or the user's cache)."""
    import torch

    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        if path.suffix in (".cpp", ".h"):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    root = os.environ.get("TORCH_NPU_CACHE")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ascend-sim"
    abi = int(torch.compiled_with_cxx11_abi())
    tag = f"torch{torch.__version__}-abi{abi}-{sys.implementation.cache_tag}-{digest.hexdigest()[:12]}"
    if _sanitized():
        tag += "-asan"
    return base / "torch_npu" / tag.replace("/", "_")


def _sanitized() -> bool:
    """``TORCH_NPU_ASAN=1``: the layer is the one built with AddressSanitizer (its runtime must be preloaded)."""
    return os.environ.get("TORCH_NPU_ASAN") == "1"


def library() -> Path:
    return folder() / f"{NAME}{importlib.machinery.EXTENSION_SUFFIXES[0]}"


def _object(source: Path, command: list[str]) -> Path:
    """Where the object of a source lies: named by everything it depends on."""
    digest = hashlib.sha256("\0".join(command).encode())
    for path in (source, *sorted(SOURCE.glob("*.h"))):
        digest.update(path.read_bytes())
    return folder().parent / "objects" / f"{source.stem}-{digest.hexdigest()[:16]}.o"


def _commands(work: Path, compiler: list[str], extra: list[str]) -> tuple[list[list[str]], list[str]]:
    import torch

    root = Path(torch.__file__).parent
    include = [root / "include", root / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    flags = ["-O1", "-std=c++20", "-fPIC", "-w", f"-DTORCH_EXTENSION_NAME={NAME}"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *(f"-I{p}" for p in include), *extra]
    objects = [_object(source, [*compiler, *flags]) for source in _sources()]
    compile_ = [
        [*compiler, *flags, "-c", str(source), "-o", str(target)]
        for source, target in zip(_sources(), objects, strict=True)
        if not target.exists()
    ]
    link = [*compiler, "-shared", *map(str, objects), "-o", str(work / library().name), f"-L{root / 'lib'}"]
    link += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", f"-Wl,-rpath,{root / 'lib'}", *extra]
    return compile_, link


def _run(command: list[str]) -> None:
    """Run a compiler whose last argument is its result (an object), which appears whole or not at all."""
    if "-c" in command:
        target = Path(command[-1])
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        _call([*command[:-1], str(part)])
        os.replace(part, target)
    else:
        _call(command)


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[:30])
        raise BuildError(f"torch_npu: the device layer does not compile:\n  {shlex.join(command)}\n{tail}")


def build(force: bool = False) -> Path:
    """The library's path, after building it if need be."""
    check_version()
    target = library()
    if target.exists() and not force:
        return target
    compiler = _compiler()
    target.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    sys.stderr.write("torch_npu: building the device layer for this torch, once (about a minute) ...\n")
    sys.stderr.flush()
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        extra = ["-fsanitize=address", "-fno-omit-frame-pointer", "-g1"] if _sanitized() else []
        compile_, link = _commands(Path(work), compiler, extra)
        with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
            list(pool.map(_run, compile_))
        _run(link)
        os.replace(Path(work) / target.name, target)  # two processes may build at the same time: the last one wins
    sys.stderr.write(f"torch_npu: built in {time.monotonic() - started:.0f} s, kept in {target.parent}\n")
    return target


def load() -> ModuleType:
    """The extension module, built if need be."""
    path = build()
    spec = importlib.util.spec_from_file_location(f"torch_npu.{NAME}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[f"torch_npu.{NAME}"] = module
    return module


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.build", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--force", action="store_true", help="build even when the library is there")
    parser.add_argument("--where", action="store_true", help="only say where the library lies")
    asan = "the variant with AddressSanitizer, which TORCH_NPU_ASAN=1 loads"
    parser.add_argument("--asan", action="store_true", help=asan)
    args = parser.parse_args(argv)
    try:
        if args.asan:
            os.environ["TORCH_NPU_ASAN"] = "1"
        path = library() if args.where else build(args.force)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
