"""Graph passes: each module has ``run(graph, options) -> bool`` (whether it changed anything)."""

from __future__ import annotations

from types import ModuleType

from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes import (
    activations,
    attention,
    bn_fold,
    cleanup,
    elementwise_chain,
    epilogue,
    first_conv,
    flat_matmul,
    fold,
    formats,
    impl_mode,
    layer_norm,
    order,
    pad_fold,
    precision,
    rms_norm,
    scalars,
    scale_fold,
    transposes,
    virtual_concat,
)

# In order; a name may come twice. What stock ATC calls the fusion, for --fusion_switch_file, stands beside it.
PIPELINE: tuple[tuple[str, ModuleType, tuple[str, ...]], ...] = (
    ("fold", fold, ("ConstantFoldingPass",)),
    ("cleanup", cleanup, ()),
    ("impl_mode", impl_mode, ()),
    ("scalars", scalars, ()),
    ("activations", activations, ("HardSwishFusionPass", "SwishFusionPass", "MishFusionPass", "GeluFusionPass")),
    ("layer_norm", layer_norm, ("LayerNormFusionPass", "LayernormOnnxFusionPass")),
    ("rms_norm", rms_norm, ("RmsNormFusionPass",)),
    ("attention", attention, ("FlashAttentionFusionPass", "PromptFlashAttentionFusionPass")),
    ("transposes", transposes, ("TransposeOptimizePass", "TransposedUpdateFusionPass")),
    ("bn_fold", bn_fold, ("ConvBatchnormFusionPass", "BatchNormBnInferFusionPass")),
    ("scale_fold", scale_fold, ("ConvScaleFusionPass", "AABiasaddConvFusion", "MatMulBiasAddFusionPass")),
    ("bn_fold", bn_fold, ()),
    ("pad_fold", pad_fold, ("PadConv2dFusionPass",)),
    ("cleanup", cleanup, ()),
    ("epilogue", epilogue, ("TbeConvFixPipeFusionPass", "TbeConvElemwiseFusionPass", "FIXPIPEFUSIONPASS")),
    ("flat_matmul", flat_matmul, ("BatchMatMulFusionPass",)),
    ("cleanup", cleanup, ()),
    ("elementwise_chain", elementwise_chain, ("AutomaticUbFusion",)),
    ("precision", precision, ()),
    ("cleanup", cleanup, ()),
    ("first_conv", first_conv, ("TbeAippConvReluMaxpoolingFusion", "TbeAippConvFusionPass", "TbeAippCommonFusionPass")),
    ("formats", formats, ()),
    ("cleanup", cleanup, ()),
    ("virtual_concat", virtual_concat, ("ConcatCToNOptimizePass", "ConvConcatFusionPass")),
    ("order", order, ()),
)
REQUIRED = frozenset(("precision", "cleanup"))


def pass_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _, _ in PIPELINE))


def run_all(graph: Graph, options: PassOptions) -> None:
    """Run the pipeline in place; switched-off passes are skipped (those a correct model needs always run)."""
    off = options.options.switched_off
    for name, module, stock in PIPELINE:
        options.options.progress.step(name)
        if name not in REQUIRED and (name in off or "ALL" in off or any(s in off for s in stock)):
            continue
        if module is scale_fold:
            while scale_fold.run(graph, options):  # y * a + b needs two rounds
                pass
        else:
            module.run(graph, options)
