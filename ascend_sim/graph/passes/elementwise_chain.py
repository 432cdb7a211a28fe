"""Chains of elementwise operators become one FusedElementwise kernel (automatic UB fusion)."""

from __future__ import annotations

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._steps import ELEMENTWISE, Step, binary_step, unary_step

MAX_STEPS = 12
MAX_EXTRAS = 3
FLOATS = ("float16", "float32", "bfloat16")


def _first(graph: Graph, node: Node) -> tuple[str, list[Step], list[str]] | None:
    """(first input, steps, further inputs) of a chain that starts at ``node``."""
    step = unary_step(graph, node)
    if step is not None:
        return node.inputs[0], [step], []
    for name in node.inputs[:2]:
        if graph.specs[name].shape != graph.specs[node.outputs[0]].shape or name in graph.constants:
            continue
        pair = binary_step(node, name)
        if pair is not None and _plain_operand(graph, pair[1], name):
            return name, [pair[0]], [pair[1]]
    return None


def _plain_operand(graph: Graph, other: str, accumulator: str) -> bool:
    """Further operands have the accumulator's shape: broadcasting stays with the single operators."""
    return graph.specs[other].shape == graph.specs[accumulator].shape and other not in graph.constants


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes(*ELEMENTWISE):
        if not editor.alive(node) or node.type == "FusedElementwise":
            continue
        if graph.specs[node.outputs[0]].dtype not in FLOATS:
            continue
        start = _first(graph, node)
        if start is None:
            continue
        source, steps, extras = start
        merged = False
        while len(steps) < MAX_STEPS:
            result = node.outputs[0]
            user = editor.only_user(result)
            if user is None or user.type not in ELEMENTWISE or user.type == "FusedElementwise":
                break
            step, extra = unary_step(graph, user), ""
            if step is None:
                pair = binary_step(user, result)
                if pair is None or not _plain_operand(graph, pair[1], result) or len(extras) == MAX_EXTRAS:
                    break
                step, extra = pair
            if graph.specs[user.outputs[0]] != graph.specs[result]:
                break
            steps.append(step)
            if extra:
                extras.append(extra)
            editor.set_inputs(node, [source, *extras])
            editor.absorb(node, user)
            merged = True
        if merged:
            node.type, node.attrs = "FusedElementwise", {"steps": tuple(steps)}
    return editor.finish()
