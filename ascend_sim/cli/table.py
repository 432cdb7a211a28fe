"""Plain text tables: numbers right, words left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def render(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Aligned columns. A column whose every cell reads as a number is set flush right."""
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(len(h), *(len(r[i]) for r in cells)) if cells else len(h) for i, h in enumerate(header)]
    right = [bool(cells) and all(_numeric(r[i]) for r in cells) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        parts = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        return "  ".join(parts).rstrip()

    return "\n".join([line(list(header)), "  ".join("-" * w for w in widths), *(line(r) for r in cells)])


def _numeric(text: str) -> bool:
    try:
        float(text.rstrip("%x"))
    except ValueError:
        return text in ("", "-")
    return True
