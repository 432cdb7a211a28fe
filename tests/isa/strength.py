"""Properties in two strengths: a few random cases every day, at least fifty in the slow run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.nested_given]


def cases(everyday: int = 5, thorough: int = 60, **strategies: st.SearchStrategy[Any]) -> Callable[..., Any]:
    """Run the test for ``everyday`` random draws of ``strategies``, and once more, marked slow, for ``thorough``.
    Its other arguments are fixtures or parameters."""

    def decorate(test: Callable[..., None]) -> Any:
        given_by_pytest = [p for name, p in inspect.signature(test).parameters.items() if name not in strategies]

        def run(strength: int, **fixed: Any) -> None:
            @settings(max_examples=strength, deadline=None, database=None, suppress_health_check=QUIET)
            @given(**strategies)
            def holds(**drawn: Any) -> None:
                test(**fixed, **drawn)

            holds()

        own = inspect.Parameter("strength", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([*given_by_pytest, own])  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        strengths = [
            pytest.param(everyday, id="few"), pytest.param(thorough, id="many", marks=pytest.mark.slow)
        ]  # fmt: skip
        return pytest.mark.parametrize("strength", strengths)(run)

    return decorate
