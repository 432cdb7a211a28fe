"""Attention on chips whose cube and vector unit share a core: transposes, two batched products and a softmax in a row.

The stock library has fused kernels there too, with scores that stay on the core; their source is not public, so this is
the plain decomposition, with all scores in global memory in the input's type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.values.attention import Attention

from ._chain import Chain, Link, view

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


def _permutation() -> TensorSpec:
    return TensorSpec((4,), "int64", const=np.array((0, 2, 1, 3), np.int64).tobytes())


def composed(call: OpCall, a: Attention, soc: Soc) -> list[Any]:
    """Launches. Raises `NoKernel` for masks, rotary parts and other layouts than BSND, BSH and BNSD."""
    layout = a.layout
    if a.at("atten_mask") >= 0 or a.rope or layout not in ("BSND", "BSH", "BNSD"):
        raise NoKernel(f"masked, rotary or {layout} attention on {soc.name}")
    if a.q_lengths != (a.q.tokens,) * a.q.batch or a.k_lengths != (a.k.tokens,) * a.k.batch:
        raise NoKernel(f"attention over parts of the batch entries on {soc.name}")
    chain = Chain(soc)
    b, n, kv, s, t = a.q.batch, a.q.heads, a.k.heads, a.q.tokens, a.k.tokens

    def heads_first(index: int, tokens: int, heads: int, width: int) -> Link:
        spec = call.inputs[index]
        assert spec is not None
        link = Link(("in", index), spec)
        if layout == "BNSD" or heads == 1 or tokens == 1:
            return view(link, (b, heads, tokens, width))
        return chain.add("Transpose", [view(link, (b, tokens, heads, width)), _permutation()], {})

    q, k, v = heads_first(0, s, n, a.q.dim), heads_first(1, t, kv, a.k.dim), heads_first(2, t, kv, a.v_dim)
    if a.scale != 1.0:
        q = chain.add("FusedElementwise", [q], {"steps": (("muls", a.scale),)})
    q = view(q, (b, kv, a.group * s, a.q.dim))
    scores = chain.add("BatchMatMulV2", [q, k], {"adj_x1": False, "adj_x2": True})
    weights = chain.add("SoftmaxV2", [scores], {"axes": (-1,)})
    last = layout == "BNSD" or n == 1 or s == 1
    out = Link(("out", 0), call.outputs[0])
    y = chain.add("BatchMatMulV2", [weights, v], {"adj_x1": False, "adj_x2": False}, out if last else None)
    if not last:
        chain.add("Transpose", [view(y, (b, n, s, a.v_dim)), _permutation()], {}, out)
    return chain.launches
