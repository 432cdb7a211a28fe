"""``report.html``: one self-contained page, made from ``events.json`` alone."""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path
from typing import Any

from ascend_sim.profiling.report_data import VERSION

PAGE = Path(__file__).with_name("page")
EVENTS, REPORT = "events.json", "report.html"


class ReportError(ValueError):
    """The folder holds no profile that this version can show."""


def read(folder: Path) -> dict[str, Any]:
    """The data that a profiled run left in ``folder``. Raises ReportError if there is none or it is not readable."""
    path = folder / EVENTS
    if not path.is_file():
        raise ReportError(f"{folder} has no {EVENTS}: expected the DIR of `ascend-sim run --profile DIR`")
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        raise ReportError(f"{path} is not JSON: {error}") from error
    found = data.get("version") if isinstance(data, dict) else None
    if found != VERSION:
        raise ReportError(f"{path} has version {found!r}, expected {VERSION}: profile the program again")
    return data  # type: ignore[no-any-return]


def write(data: dict[str, Any], path: Path) -> None:
    """Write the page."""
    path.write_text(render(data))


def render(data: dict[str, Any]) -> str:
    """The page as text; nothing in it is fetched from elsewhere."""
    page = _part("report.html")
    embedded = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # a name may hold "</script>"
    parts = {"TITLE": html.escape(f"{data['soc']['name']}: profile"), "STYLE": _part("report.css"),
             "SCRIPT": _part("report.js"), "DATA": embedded}  # fmt: skip
    pieces = page.split("@")
    return "".join(parts.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))


@cache
def _part(name: str) -> str:
    return (PAGE / name).read_text()
