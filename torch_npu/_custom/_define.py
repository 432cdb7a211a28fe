"""How a custom operator is made: schema, composed body, gradient by recomputation of the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

library = torch.library.Library("npu", "FRAGMENT")


def define(schema: str, body: Callable[..., Any], gradient: bool = True) -> Any:
    """Register ``schema`` (``name(args) -> results``) with ``body``, and return the callable of ``torch.ops.npu``.

    On the device the dispatch table is asked first; without a row ``body`` runs operator by operator. ``gradient``:
    backward runs the body again with gradients on.
    """
    name = schema.partition("(")[0]
    library.define(schema)
    for key in ("CPU", "Meta"):
        library.impl(name, body, key)
    if gradient:
        library.impl(name, _differentiable(name, body), "Autograd")
    return getattr(torch.ops.npu, name)


def _differentiable(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        operator = getattr(torch.ops.npu, name).default
        flat, spec = tree_flatten((args, kwargs))
        needed = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor) and v.requires_grad]
        if not needed or not torch.is_grad_enabled():
            with torch._C._AutoDispatchBelowAutograd():
                return operator(*args, **kwargs)
        return _Recomputed.apply(operator, body, spec, flat, *[flat[i] for i in needed])

    return call


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Any, body: Any, spec: Any, flat: list[Any], *tensors: torch.Tensor) -> Any:
        ctx.body, ctx.spec = body, spec
        ctx.flat = [v.detach() if isinstance(v, torch.Tensor) else v for v in flat]
        ctx.places = [next(i for i, v in enumerate(flat) if v is t) for t in tensors]
        args, kwargs = tree_unflatten(ctx.flat, spec)
        with torch._C._AutoDispatchBelowAutograd():
            result = operator(*args, **kwargs)
        return tuple(result) if isinstance(result, list) else result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        flat = list(ctx.flat)
        with torch.enable_grad():
            inputs = []
            for i in ctx.places:
                flat[i] = flat[i].detach().requires_grad_()
                inputs.append(flat[i])
            args, kwargs = tree_unflatten(flat, ctx.spec)
            results = tree_flatten(ctx.body(*args, **kwargs))[0]
            pairs = [(r, g) for r, g in zip(results, grads, strict=False)
                     if isinstance(r, torch.Tensor) and g is not None and r.requires_grad]  # fmt: skip
            found = torch.autograd.grad([r for r, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
        return (None, None, None, None, *found)
