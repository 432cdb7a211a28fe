"""Launching one kernel of a file on made-up arguments, described by its annotations."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
import typing
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.cli.errors import CommandError

_ARRAY = re.compile(r"(\w+)\[(\d+(?:\s*,\s*\d+)*)\]")
HOW = "annotate arrays like x: 'float16[4096]' and give constants a default or Annotated[int, 128]"


def launch_function(path: Path, name: str, cores: int) -> int:
    """Launch kernel ``name`` of a file; 0, or 1 when it fails. Raises CommandError for a missing kernel or argument."""
    from ascend_sim.asc import Kernel

    sys.path.insert(0, str(path.resolve().parent))
    try:
        scope = runpy.run_path(str(path), run_name="__kernel__")
    finally:
        sys.path.pop(0)
    kernel = scope.get(name)
    if not isinstance(kernel, Kernel):
        kernels = sorted(k for k, v in scope.items() if isinstance(v, Kernel))
        raise CommandError(f"--func {name!r}: {path} has no such kernel; it has {', '.join(kernels) or 'none'}")
    function = getattr(kernel, "source", kernel.function)
    arguments = example_arguments(function, scope)
    try:
        kernel[cores](**arguments)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def example_arguments(function: Any, scope: dict[str, Any]) -> dict[str, Any]:
    """Arrays with small seeded random values for annotated arrays, given values for constants."""
    try:
        hints = typing.get_type_hints(function, scope, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError):  # names that only the checker sees
        hints = dict(getattr(function, "__annotations__", {}))
    rng = np.random.default_rng(0)
    out: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        raw = function.__annotations__.get(name) if hasattr(function, "__annotations__") else None
        found = _described(hints.get(name), raw)
        if found is not None:
            out[name] = _array(rng, *found)
        elif (value := _constant(hints.get(name))) is not None:
            out[name] = value
        elif parameter.default is inspect.Parameter.empty:
            raise CommandError(f"argument {name!r} of {function.__name__} has no example: {HOW}")
    return out


def _described(*hints: Any) -> tuple[str, tuple[int, ...]] | None:
    for hint in hints:
        texts = [hint] if isinstance(hint, str) else [h for h in typing.get_args(hint) if isinstance(h, str)]
        forward = getattr(hint, "__forward_arg__", None)
        if forward:
            texts.append(forward)
        for text in texts:
            match = _ARRAY.fullmatch(text.strip("'\" "))
            if match is not None:
                return match[1], tuple(int(n) for n in match[2].split(","))
    return None


def _constant(hint: Any) -> Any:
    values = [v for v in getattr(hint, "__metadata__", ()) if isinstance(v, bool | int | float)]
    return values[0] if values else None


def _array(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    from ascend_sim.isa.dtypes import as_dtype

    kind = as_dtype(dtype)
    if kind.is_float():
        return rng.standard_normal(prod(shape)).astype(np.float32).astype(kind.np).reshape(shape)
    return rng.integers(0, 8, prod(shape)).astype(kind.np).reshape(shape)
