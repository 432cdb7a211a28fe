"""Lets ``import asc`` find this language: programs written for pyasc run unmodified.

`install` puts a finder in front of the import system that resolves ``asc`` and everything below it to
`ascend_sim.asc`; the modules are the same objects under both names. The many modules of ``asc.language`` are views
of one namespace, `ascend_sim.asc.language`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME, TARGET, VIEW = "asc", "ascend_sim.asc", "ascend_sim.asc.language"


class _Loader(Loader):
    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run under its own name; give it back its own spec."""
        module.__spec__ = self.spec


class _ViewLoader(Loader):
    """A module (and package) holding every name of the language."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        language = importlib.import_module(VIEW)
        module.__dict__.update({name: getattr(language, name) for name in language.__all__})
        module.__dict__["__all__"] = language.__all__


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != NAME and not fullname.startswith(NAME + "."):
            return None
        if re.fullmatch(r"asc\.language(\.(adv|basic|core|fwk)(\.[a-z_0-9]+)?)?", fullname):
            return ModuleSpec(fullname, _ViewLoader(), is_package=True)
        real = TARGET + fullname[len(NAME) :]
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        return ModuleSpec(fullname, _Loader(real), is_package=found.submodule_search_locations is not None)


_finder = _Finder()


def install() -> None:
    """Make ``import asc`` mean `ascend_sim.asc` in this process. Does nothing the second time."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
