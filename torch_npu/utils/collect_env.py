"""Versions of the environment: `torch.utils.collect_env` with lines for torch_npu and CANN.

``python -m torch_npu.utils.collect_env`` prints them.
"""

from __future__ import annotations

import os
import sys


def get_cann_version(module: str = "CANN") -> str:
    """The release whose behaviour is imitated, as ``acl.get_cann_version`` says."""
    import acl

    return str(acl.get_cann_version(0)[0].get("version", ""))


def get_torch_npu_version() -> str:
    import torch_npu

    return torch_npu.__version__


def get_torch_npu_install_path() -> str:
    import torch_npu

    return os.path.dirname(os.path.abspath(torch_npu.__file__ or ""))


def check_directory_path_readable(path: str) -> None:
    """RuntimeError unless the user may read ``path``."""
    if not os.path.exists(path) or not os.access(path, os.R_OK):
        raise RuntimeError(f"The path {path} does not exist or is not readable")


def check_path_owner_consistent(path: str) -> None:
    """RuntimeError unless ``path`` is there; a warning when it is somebody else's."""
    if not os.path.exists(path):
        raise RuntimeError(f"The path {path} does not exist")
    if hasattr(os, "getuid") and os.stat(path).st_uid not in (os.getuid(), 0):
        sys.stderr.write(f"Warning: the path {path} belongs to another user\n")


def get_pretty_env_info() -> str:
    """The report as text."""
    from torch.utils import collect_env

    lines = collect_env.get_pretty_env_info()
    return f"{lines}\nVersions of device npu:\ntorch_npu: {get_torch_npu_version()}\nCANN: {get_cann_version()}"


def main() -> None:
    sys.stdout.write("Collecting environment information...\n")
    sys.stdout.write(get_pretty_env_info() + "\n")


if __name__ == "__main__":
    main()
