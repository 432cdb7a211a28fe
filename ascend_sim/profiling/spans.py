"""Sets of time as lists of disjoint (start, end) pairs in order."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union as disjoint spans in order."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], end)
        elif end > start:
            result.append((start, end))
    return result


def without(spans: list[Span], holes: list[Span]) -> list[Span]:
    """What of disjoint ordered spans lies outside disjoint ordered holes."""
    result: list[Span] = []
    at = 0
    for begin, end in spans:
        while at < len(holes) and holes[at][1] <= begin:
            at += 1
        start, probe = begin, at
        while probe < len(holes) and holes[probe][0] < end:
            if holes[probe][0] > start:
                result.append((start, holes[probe][0]))
            start = max(start, holes[probe][1])
            probe += 1
        if start < end:
            result.append((start, end))
    return result


def length(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)
