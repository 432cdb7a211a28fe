"""Times as files have them: one rounding for all, so that a time is the same in every table and timeline."""

from __future__ import annotations


def ns(ps: float) -> int:
    """Whole nanoseconds, halves up."""
    return int((ps + 500) // 1000)


def us(ps: float) -> str:
    """Microseconds with three decimals."""
    whole = ns(ps)
    high, low = divmod(abs(whole), 1000)
    return f"{'-' if whole < 0 else ''}{high}.{low:03d}"


def when(ps: float) -> str:
    """A moment: with the tab behind it that keeps spreadsheets from rounding it."""
    return f"{us(ps)}\t"
