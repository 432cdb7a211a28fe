"""What the library says of itself."""

from __future__ import annotations


def version() -> None:
    """The library does not say its version."""
