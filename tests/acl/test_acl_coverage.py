"""docs/pyacl.md is what the code says, and what it counts as implemented is."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import pytest

import acl
from acl import _page
from acl._used import USED

ROOT = Path(__file__).parents[2]
_LINES = (Path(__file__).parent / "pyacl_names.csv").read_text().splitlines()
ROWS = list(csv.DictReader(line for line in _LINES if not line.startswith("#")))


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/pyacl.md").read_text() == _page.page(), "run python -m acl._page docs/pyacl.md"


def test_names_and_uses_are_those_of_the_public_record() -> None:
    assert {r["name"] for r in ROWS if r["used"]} == USED
    assert len(USED) == 193
    listed = [n for module in ("", *MODULES) for n in _page.names(module)]
    assert sorted(listed) == sorted(r["name"] for r in ROWS)


MODULES = ("rt", "mdl", "op", "blas", "media", "prof", "util", "himpi", "fv")


def test_coverage() -> None:
    outside = [r["name"] for r in ROWS if not r["name"].startswith(("acl.himpi", "acl.fv"))]
    assert len(outside) == 592
    done = [n for n in outside if _page.implemented(n)]
    assert len(done) >= 560
    assert set(done) >= USED


def test_implemented_functions_are_functions_of_their_own() -> None:
    """None of them is the stand-in that every name without a function gets."""
    for row in ROWS:
        target = _page.function(row["name"])
        if _page.implemented(row["name"]):
            assert target.__wrapped__.__module__.startswith("acl"), row["name"]
            assert target.acl_name == row["name"]


@pytest.mark.parametrize("name", [r["name"] for r in ROWS if not _page.implemented(r["name"])])
def test_explained_functions_explain(name: str) -> None:
    import inspect

    target = _page.function(name)
    wrapped = getattr(target, "__wrapped__", None)
    count = wrapped.__code__.co_argcount if wrapped is not None else 0
    if wrapped is None:
        arguments, _ = acl._names.table(name.split(".")[1])[name.rpartition(".")[2]]
        count = int(arguments) if arguments.isdigit() else 0
    given: list[Any] = [0] * count
    if wrapped is not None:
        kinds = list(inspect.get_annotations(wrapped, eval_str=False).values())
        given = ["x" if k == "str" else 0 for k in kinds[:count]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = target(*given)
    ret = result[-1] if isinstance(result, tuple) else result
    message = acl.get_recent_err_msg()
    assert message is not None and len(message) > 60
    assert ret in (207000, 200001, 107002) or (ret == 0 and "create_group_info" in name)
