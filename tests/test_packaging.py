"""What an install holds: every folder with modules is a package, and the mapped ones carry their data."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("top", ["ascend_sim", "acl", "kernels", "configs"])
def test_every_folder_with_modules_is_a_package(top: str) -> None:
    folders = {path.parent for path in (ROOT / top).rglob("*.py")}
    assert folders and all((folder / "__init__.py").is_file() for folder in folders)


def test_chips_are_found_as_package_data() -> None:
    names = {path.name for path in files("ascend_sim.configs").iterdir() if path.name.endswith(".toml")}
    assert names == {path.name for path in (ROOT / "configs").glob("*.toml")} and len(names) >= 13


def test_kernels_are_found_as_a_package() -> None:
    import ascend_sim.kernels

    assert ascend_sim.kernels.__file__ is not None
