"""What the language's compiler does to a kernel's source that plain Python would not: a ``with`` statement whose body
runs several times (``with matmul.iterate() as count:``). Such functions are compiled again with the ``with`` turned
into a ``for`` loop over the same object; line numbers, globals and closures stay.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

LOOPING = "iterate"  # method whose ``with`` body is a loop


def _loops(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == LOOPING


class _WithToFor(ast.NodeTransformer):
    def __init__(self) -> None:
        self.changed = False

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        if len(node.items) != 1 or not _loops(node.items[0]):
            return node
        self.changed = True
        item = node.items[0]
        target = item.optional_vars or ast.Name("_", ast.Store())
        loop = ast.For(target, item.context_expr, node.body, [], None)
        return ast.fix_missing_locations(ast.copy_location(loop, node))


def _find(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = constant if constant.co_name == name else _find(constant, name)
            if found is not None:
                return found
    return None


def looping(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with looping ``with`` statements as loops; itself when it has none or its source is not at hand."""
    code = getattr(function, "__code__", None)
    if code is None or LOOPING not in code.co_names:
        return function
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return function
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    rewrite = _WithToFor()
    tree = rewrite.visit(tree)
    definition = tree.body[0]
    if not rewrite.changed or not isinstance(definition, ast.FunctionDef):
        return function
    definition.decorator_list = []
    if code.co_freevars:  # the names of the enclosing function, so that they stay free in the compiled body
        arguments = [ast.arg(name) for name in code.co_freevars]
        outer = ast.FunctionDef(
            "_enclosing", ast.arguments([], arguments, None, [], [], None, []), [definition], [], None, None
        )
        if "type_params" in ast.FunctionDef._fields:
            setattr(outer, "type_params", [])  # noqa: B010  (newer than the oldest Python supported)
        tree.body = [ast.fix_missing_locations(ast.copy_location(outer, definition))]
    found = _find(compile(tree, code.co_filename, "exec", dont_inherit=True, flags=_future(code)), function.__name__)
    if found is None:
        return function
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in found.co_freevars)
    result = FunctionType(found, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__doc__, result.__dict__ = function.__doc__, dict(function.__dict__)
    result.__annotations__ = dict(function.__annotations__)
    return result


def _future(code: CodeType) -> int:
    """The ``from __future__`` flags a function was compiled with."""
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flag = getattr(__future__, name).compiler_flag
        flags |= flag & code.co_flags
    return flags
