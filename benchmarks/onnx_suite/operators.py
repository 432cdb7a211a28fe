"""The 115 ONNX operators that Ascend users convert: those of 36 measured networks, and of the families around them."""

from __future__ import annotations

NETWORKS = (
    "Conv", "Concat", "Reshape", "Add", "Relu", "Mul", "Transpose", "ConstantOfShape", "Unsqueeze", "Slice", "MaxPool",
    "Sigmoid", "Softmax", "Shape", "Cast", "Constant", "Div", "Gemm", "Gather", "MatMul", "BatchNormalization",
    "Identity", "Sqrt", "Squeeze", "Sub", "GlobalAveragePool", "Equal", "Tanh", "HardSigmoid", "AveragePool", "Pad",
    "Clip", "Pow", "ReduceMean", "Resize", "Where", "ReduceSum", "Expand", "LSTM", "Split", "PRelu", "Dropout",
    "ConvTranspose", "GRU", "If", "Not", "LRN", "Erf", "Flatten", "Sum", "LogSoftmax", "ReduceMax", "HardSwish",
    "Range", "Floor", "Exp", "Log", "Neg", "Max", "Min", "Reciprocal", "GlobalMaxPool", "Size",
    "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger",
)  # fmt: skip
FAMILIES = (
    "LeakyRelu", "LayerNormalization", "Trilu", "Cos", "Sin", "ScatterND", "Less", "Greater", "CumSum",
    "NonMaxSuppression", "RoiAlign", "TopK", "NonZero", "QuantizeLinear", "DequantizeLinear", "QLinearConv",
    "QLinearMatMul", "GridSample", "Einsum", "Loop", "GatherND", "GatherElements", "ScatterElements", "Abs", "Ceil",
    "Round", "Sign", "ArgMax", "ArgMin", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp",
    "InstanceNormalization", "GroupNormalization", "Gelu", "Elu", "Softplus", "Tile", "DepthToSpace", "SpaceToDepth",
    "OneHot", "And", "Or", "LessOrEqual", "GreaterOrEqual", "Mod", "IsNaN", "RNN",
)  # fmt: skip
OPERATORS = (*NETWORKS, *FAMILIES)
