"""`ascend_sim.profile` and the examples of docs/profiles.md."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import acl
import ascend_sim
from acl import _sim
from ascend_sim.profiling import session

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_SOC", "Ascend910B2")
    _sim.reset()
    yield
    _sim.reset()


def test_examples_of_the_module() -> None:
    assert doctest.testmod(session).failed == 0


def test_examples_of_the_page() -> None:
    assert doctest.testfile(str(DOCS / "profiles.md"), module_relative=False).failed == 0


def test_pictures_of_the_page_exist() -> None:
    for name in re.findall(r"\]\((img/[^)]+)\)", (DOCS / "profiles.md").read_text()):
        assert 0 < (DOCS / name).stat().st_size < 1 << 20


def copy(size: int) -> None:
    pointer, _ = acl.rt.malloc(size, 0)
    assert acl.rt.memcpy(pointer, size, acl.util.bytes_to_ptr(bytes(size)), size, 1) == 0
    acl.rt.free(pointer)


def test_a_profile_holds_its_block_and_writes_even_when_it_raises(tmp_path: Path) -> None:
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    copy(4096)
    with ascend_sim.profile() as outer:
        copy(8192)
        with pytest.raises(KeyError), ascend_sim.profile(tmp_path / "p", layouts=["msprof", "ascend_pt"]) as inner:
            copy(1024)
            raise KeyError
    copy(2048)
    assert [c["bytes"] for c in outer.totals["copies"]] == [8192 + 1024]
    assert [c["bytes"] for c in inner.totals["copies"]] == [1024]
    names = {p.name.split("_")[0] for p in (tmp_path / "p").iterdir()}
    assert {"report.html", "trace.json", "PROF"} <= names
    assert "no operator ran" in str(outer) and "0 kernels" in outer._repr_html_()


def test_unknown_layouts_are_named() -> None:
    with pytest.raises(ValueError, match="msprof, ascend_pt"):
        ascend_sim.profile(layouts=["perfetto"])


def test_reports_show_in_notebooks() -> None:
    shown = ascend_sim.simulate_op("MatMulV2", ["64x64:float16"] * 2, soc="Ascend910B2")._repr_html_()
    assert shown.startswith("<table>") and "MatMulV2 on Ascend910B2" in shown and "<td>cube</td>" in shown
