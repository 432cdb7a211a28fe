"""Two profiles side by side: totals, and operators matched by name, type and shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Operator = Mapping[str, Any]
TOTALS = (("device_us", "device time in kernels, us"), ("span_us", "first to last kernel, us"),
          ("host_us", "program, us"), ("kernels", "kernels"), ("estimated_us", "estimated, us"))  # fmt: skip


def compare(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """``one`` and ``two`` are `ascend_sim.profiling.report.read` of profiles.

    Returns ``totals`` (``what``, ``one``, ``two``) and ``operators`` with the time of one run in each (``us_one``,
    ``us_two``, None where it did not run), ``change`` of all runs' time in us, the largest first, and what bounds them.
    Operators that ran once each under the same name and type are the same, also where shapes differ (another batch).
    """
    return {
        "names": [one["soc"]["name"], two["soc"]["name"]],
        "totals": [
            {"what": words, "one": one["totals"][key], "two": two["totals"][key]} for key, words in TOTALS
        ],
        "operators": _operators(one["operators"], two["operators"]),
    }  # fmt: skip


def _operators(one: Sequence[Operator], two: Sequence[Operator]) -> list[dict[str, Any]]:
    left, right = _by_key(one), _by_key(two)
    pairs = []
    for key in dict.fromkeys((*left, *right)):
        mine, other = left.get(key, []), right.get(key, [])
        for i in range(max(len(mine), len(other))):
            pairs.append((mine[i] if i < len(mine) else None, other[i] if i < len(other) else None))
    return sorted((_pair(a, b) for a, b in pairs), key=lambda p: (-abs(p["change"]), p["name"]))


def _by_key(operators: Sequence[Operator]) -> dict[tuple[str, str], list[Operator]]:
    found: dict[tuple[str, str], list[Operator]] = defaultdict(list)
    for op in operators:
        found[op["name"], op["type"]].append(op)
    return found


def _pair(a: Operator | None, b: Operator | None) -> dict[str, Any]:
    some = a if a is not None else b
    assert some is not None
    shapes = [op["shapes"] for op in (a, b) if op is not None]
    return {
        "name": some["name"],
        "type": some["type"],
        "shapes": shapes[0] if len(set(shapes)) == 1 else " -> ".join(shapes),
        "us_one": a["us"] / a["runs"] if a is not None and a["runs"] else None,
        "us_two": b["us"] / b["runs"] if b is not None and b["runs"] else None,
        "change": (b["us"] if b is not None else 0.0) - (a["us"] if a is not None else 0.0),
        "bound_one": a["class"] if a is not None else "",
        "bound_two": b["class"] if b is not None else "",
    }
