"""report.html in headless Chromium: no message on the console, nothing fetched, and what one clicks does something.

Needs playwright (not its browsers) and Chromium: CHROMIUM is its path where that is not /usr/bin/chromium.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.profiling import report
from ascend_sim.profiling.compare import compare
from ascend_sim.profiling.report_data import report_data
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc, load_soc

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync",
         "--disable-component-update"]  # fmt: skip
READY = "() => start && document.querySelectorAll('#operators tbody tr').length > 0"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path(CHROMIUM).is_file(), reason="no Chromium")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        made = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield made
        made.close()


@pytest.fixture(scope="module")
def page_file(recorded: Callable[[str], tuple[EventStore, Soc]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    one, two = (report_data(*recorded(chip)) for chip in ("Ascend310P3", "Ascend910B4"))
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.write(two | {"compare": compare(one, two)}, path)
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_the_page(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 840}, color_scheme=scheme)
    said: list[str] = []
    fetched: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(page_file.as_uri())
    page.wait_for_function(READY)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out

    page.fill("#search", "relu")
    assert page.inner_text("#hits").endswith("slices")
    page.press("#search", "Enter")
    assert page.inner_text("#hits").startswith("1 of") and "relu" in page.inner_text("#detail")
    page.evaluate("all()")
    before = page.evaluate("view[1] - view[0]")
    page.click("#in")
    assert page.evaluate("view[1] - view[0]") < before
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != scheme

    page.click("#operators th:nth-child(2)")
    types = page.eval_on_selector_all("#operators tbody td:nth-child(2)", "cells => cells.map(c => c.textContent)")
    assert types == sorted(types)
    page.fill("#filter", "matmul")
    assert page.inner_text("#shown").startswith("4 of 16")
    page.click("#ctable th:nth-child(2)")
    types = page.eval_on_selector_all("#ctable tbody td:nth-child(2)", "cells => cells.map(c => c.textContent)")
    assert types == sorted(types) and page.inner_text("#ctotals").count("Ascend") == 2
    for button in ("#png", "#rpng"):
        with page.expect_download() as download:
            page.click(button)
        assert Path(download.value.path()).read_bytes()[:4] == b"\x89PNG"
    assert not said
    assert not [url for url in fetched if not url.startswith(("file:", "data:", "blob:"))]
    page.close()


def test_two_hundred_thousand_slices_show(browser: Any, tmp_path: Path) -> None:
    store, now = EventStore(), 0
    for i in range(200_000):
        facts = {"op_type": f"T{i % 30}", "estimated": True, "timing": None, "task_type": "AIV"}
        store(Event("kernel", f"op{i % 500}", 0, i % 4, i, now, now + 3_000_000, 0, facts))
        now += 1_000_000
    path = tmp_path / "report.html"
    report.write(report_data(store, load_soc("Ascend910B4")), path)
    assert path.stat().st_size < 2 << 20
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_function(READY)
    assert page.evaluate("T.count") == 200_000
    page.close()
