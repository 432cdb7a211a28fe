"""Elementwise work fused behind convolutions, matrix products and batch normalisation.

What can be fused depends on how results leave the cube: through the fix-pipe of chips whose cube and vector cores are
separate, only ReLU; through the vector unit of the coupled ones (310, 310P, 910), any chain of steps, a residual
included (UB fusion); the 310B's fix-pipe takes activations and one residual. Source: public UB fusion
rules of the ATC manual; FixPipe epilogues of a model compiled by ATC for 310B4.
"""

from __future__ import annotations

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._affine import CUBE
from ascend_sim.graph.passes._steps import Step, binary_step, unary_step
from ascend_sim.soc import Soc

MAX_STEPS = 6
DECLARED = 3  # x, weights, bias; what steps consume follows


def allowed(step: Step, node: Node, soc: Soc) -> bool:
    """Whether the chip can apply ``step`` while results of ``node`` leave the cube."""
    steps: tuple[Step, ...] = node.attrs.get("epilogue", ())
    if len(steps) >= MAX_STEPS:
        return False
    if soc.chip.split_cores:
        return step[0] == "relu" and not steps
    if soc.chip.has_fixpipe:
        if step[0] == "add":
            return ("add",) not in steps
        return step[0] in ("relu", "relu6", "leaky_relu", "clip") and (not steps or steps[-1] == ("add",))
    if node.type == "DepthwiseConv2D":  # vendor lists ReLU and hard-swish behind depthwise convolutions
        return step[0] in ("relu", "relu6", "clip", "hswish", "muls", "adds", "leaky_relu")
    if step[0] == "add":
        return ("add",) not in steps
    return step[0] in UB_STEPS


UB_STEPS = frozenset((
    "relu", "relu6", "clip", "leaky_relu", "sigmoid", "tanh", "hswish", "hsigmoid", "swish", "gelu", "gelu_erf", "mish",
    "fast_sigmoid", "fast_swish", "muls", "adds",
))  # fmt: skip


def _residual(editor: Editor, node: Node, user: Node, other: str) -> bool:
    """Whether ``other`` may be added: full shape, and made before ``node`` or free of its result."""
    specs = editor.graph.specs
    if other in editor.graph.constants or specs[other].shape != specs[node.outputs[0]].shape:
        return False
    # of two fusable operands, the one that runs later takes the addition
    maker = editor.maker(other)
    if maker is None or maker.type not in CUBE or editor.only_user(other) is not user:
        return True
    order = editor.graph.nodes
    return order.index(maker) < order.index(node)


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes(*CUBE):
        while True:
            result = node.outputs[0]
            user = editor.only_user(result)
            if user is None or len(user.outputs) != 1:
                break
            step, extra = unary_step(graph, user), ""
            if step is None and result in user.inputs:
                pair = binary_step(user, result)
                if pair is None or not _residual(editor, node, user, pair[1]):
                    break
                step, extra = pair
            if step is None or not allowed(step, node, options.soc):
                break
            if extra and node.type == "BatchMatMulV2" and len(graph.specs[node.inputs[1]].shape) != 2:
                break
            inputs = [*node.inputs, *[""] * (DECLARED - len(node.inputs))]
            if extra:
                editor.set_inputs(node, [*inputs, extra])
            node.attrs["epilogue"] = (*node.attrs.get("epilogue", ()), step)
            editor.absorb(node, user)
    for node in editor.nodes("BNInfer"):
        user = editor.only_user(node.outputs[0])
        if user is not None and user.type == "Relu" and len(graph.specs[node.outputs[0]].shape) == 4:
            node.attrs["epilogue"] = (("relu",),)
            editor.absorb(node, user)
    return editor.finish()
