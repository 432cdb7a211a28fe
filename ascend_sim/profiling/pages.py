"""Small tables in HTML for notebooks, in the notebook's own style."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """A table with a caption and a note below it; cells are escaped."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    below = f"<p>{html.escape(note)}</p>" if note else ""
    caption = f'<caption style="text-align:left">{html.escape(title)} (simulated)</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
