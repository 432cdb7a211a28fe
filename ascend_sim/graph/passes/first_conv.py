"""Preprocessing (AIPP), the first convolution and a max pooling behind it as one operator.

Public UB fusion list of the ATC manual (TbeAippConvReluMaxpooling): AIPP runs inside the convolution that reads it.
--enable_small_channel packs four channels a pixel (C04) where the image has at most four. Max pooling joins 7x7
convolutions of 3 x 224 x 224 images at stride 2 and padding 3 with at most 64 output channels and at most a ReLU, when
it is 3x3 at stride 2 and padding 1 without rounding up, on chips whose results leave the cube through the vector unit.
"""

from __future__ import annotations

from typing import Any

from ascend_sim.graph.aipp import FUSED
from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.ops.schema import freeze
from ascend_sim.soc import Soc

SMALL = 4  # channels of a packed pixel


def _loads_plainly(aipp: dict[str, Any]) -> bool:
    """What the load of images does on its way to L1: packed formats, swap, crop, mean and scale."""
    return aipp["input_format"] in ("RGB888_U8", "XRGB8888_U8", "YUV400_U8") and not (
        aipp["csc_switch"] or aipp["padding"]
    )


def _pools(graph: Graph, conv: Node, pool: Node | None, soc: Soc) -> bool:
    if pool is None or pool.type != "MaxPoolV3" or soc.chip.has_fixpipe or soc.chip.arch in ("m100", "c100"):
        return False
    picture, weights = graph.specs[conv.inputs[0]].logical_shape, graph.specs[conv.inputs[1]].logical_shape
    return (
        tuple(picture[1:]) == (3, 224, 224)
        and tuple(weights[2:]) == (7, 7)
        and weights[0] <= 64
        and tuple(conv.attrs["strides"][2:]) == (2, 2)
        and tuple(conv.attrs["pads"]) == (3, 3, 3, 3)
        and tuple(conv.attrs.get("epilogue", ())) in ((), (("relu",),))
        and tuple(pool.attrs["ksize"][2:]) == (3, 3)
        and tuple(pool.attrs["strides"][2:]) == (2, 2)
        and tuple(pool.attrs.get("pads", ())) == (1, 1, 1, 1)
        and not pool.attrs.get("ceil_mode", False)
    )


def run(graph: Graph, options: PassOptions) -> bool:
    editor, soc = Editor(graph), options.soc
    if soc.chip.split_cores or soc.chip.arch == "c100":  # training chips preprocess nothing
        return False
    for node in editor.nodes("Aipp"):
        conv = editor.only_user(node.outputs[0])
        if conv is None or conv.type != "Conv2D" or conv.inputs[0] != node.outputs[0]:
            continue
        if int(conv.attrs.get("groups", 1)) != 1 or conv.inputs[1] not in graph.constants:
            continue
        aipp = dict(node.attrs["aipp"])
        if not _loads_plainly(aipp) or graph.specs[node.outputs[0]].dtype != "float16":
            continue
        channels = graph.specs[node.outputs[0]].logical_shape[1]
        small = options.options.small_channel and channels <= SMALL and soc.chip.arch != "m100"
        pool = editor.only_user(conv.outputs[0])
        fused = small and _pools(graph, conv, pool, soc)
        conv.type = FUSED
        conv.attrs = {**conv.attrs, "aipp": node.attrs["aipp"], "small_channel": small}
        editor.set_inputs(conv, [node.inputs[0], *conv.inputs[1:]])
        conv.origin = tuple(dict.fromkeys((*(node.origin or (node.name,)), *(conv.origin or (conv.name,)))))
        editor.remove(node)
        if fused and pool is not None:
            conv.attrs["pool"] = freeze(pool.attrs)
            editor.absorb(conv, pool)
    return editor.finish()
