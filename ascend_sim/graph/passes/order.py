"""Execution order with L2 in mind: operators run soon after those whose results they read, where that saves traffic.

Three orders are compared by the bytes that a cache of the chip's L2 size (whole tensors, least recently used out first)
would miss: the one of the source model, depth first from the outputs, and one that always takes the operator with most
of its inputs in the cache. Another order than the model's must save a twentieth.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.plan import is_free

GAIN = 0.05


class _Cache:
    def __init__(self, graph: Graph, capacity: int) -> None:
        self.specs = graph.specs
        self.capacity = capacity
        self.held: OrderedDict[str, int] = OrderedDict()
        self.used = 0
        self.missed = 0

    def touch(self, name: str, read: bool) -> None:
        size = self.specs[name].nbytes
        if name in self.held:
            self.held.move_to_end(name)
            return
        if read:
            self.missed += size
        self.held[name] = size
        self.used += size
        while self.used > self.capacity and self.held:
            _, gone = self.held.popitem(last=False)
            self.used -= gone

    def run(self, node: Node) -> None:
        for name in node.inputs:
            if name:
                self.touch(name, read=True)
        for name in node.outputs:
            self.touch(name, read=False)

    def near(self, node: Node) -> int:
        """Bytes of the inputs of ``node`` that are held."""
        return sum(self.held.get(name, 0) for name in node.inputs if name)


def missed(graph: Graph, order: Sequence[Node], capacity: int) -> int:
    """Bytes read that the cache does not hold."""
    cache = _Cache(graph, capacity)
    for node in order:
        if not is_free(node):
            cache.run(node)
    return cache.missed


def _makers(graph: Graph) -> dict[str, Node]:
    return {name: node for node in graph.nodes for name in node.outputs}


def depth_first(graph: Graph) -> list[Node]:
    """Each operator right after what it needs, larger branches first."""
    makers, done, order = _makers(graph), set[int](), []
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(graph.nodes)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if ready:
            done.add(id(node))
            order.append(node)
            continue
        stack.append((node, True))
        needed = {id(makers[n]): makers[n] for n in node.inputs if n in makers}
        sizes = {key: graph.specs[made.outputs[0]].nbytes for key, made in needed.items()}
        stack += [(needed[key], False) for key in sorted(needed, key=lambda k: sizes[k]) if key not in done]
    return order


def nearest(graph: Graph, capacity: int) -> list[Node]:
    """Of the operators that can run, always the one with most of its inputs in the cache (the earliest of equals)."""
    makers, position = _makers(graph), {id(node): i for i, node in enumerate(graph.nodes)}
    waiting = {id(n): len({id(makers[name]) for name in n.inputs if name in makers}) for n in graph.nodes}
    users: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for made in {id(makers[name]) for name in node.inputs if name in makers}:
            users.setdefault(made, []).append(node)
    ready = [node for node in graph.nodes if not waiting[id(node)]]
    cache, order = _Cache(graph, capacity), []
    while ready:
        node = max(ready, key=lambda n: (cache.near(n), -position[id(n)]))
        ready.remove(node)
        cache.run(node)
        order.append(node)
        for user in users.get(id(node), []):
            waiting[id(user)] -= 1
            if not waiting[id(user)]:
                ready.append(user)
    return order


def run(graph: Graph, options: PassOptions) -> bool:
    capacity = options.soc.memory.l2_bytes
    least, best = missed(graph, graph.nodes, capacity) * (1 - GAIN), None
    for order in (depth_first(graph), nearest(graph, capacity)):
        cost = missed(graph, order, capacity)
        if len(order) == len(graph.nodes) and cost < least:
            least, best = cost, order
    if best is None:
        return False
    graph.nodes = best
    return True
