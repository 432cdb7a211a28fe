"""Why a row is far off."""

from __future__ import annotations

from .rows import Outcome

REASONS = (
    ("VCONV INT4/FP16", "half of every other conversion, below the 3-cycle issue floor: counted per half instruction"),
    ("GM_TO_L1_TRANS 84 KB", "the one size above 32 KiB that is no multiple of it: rows that cut lines, shape unknown"),
    ("GM_TO_UB 200 KB", "more than the unified buffer of 192 KiB holds: the row cannot be of one transfer"),
    ("GM_TO_L1 1 KB", "measured below the latency that larger sizes extrapolate to"),
    ("L0C_TO_GM_TRANS 17 KB", "17 fractals run faster a byte than 16 or 32"),
)


def reason(row: Outcome) -> str:
    """The reason, or what the row itself notes."""
    return next((text for start, text in REASONS if row.what.startswith(start)), row.note)
