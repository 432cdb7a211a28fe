"""High-level functions: they expand to the instructions of `ascend_sim.asc`."""

from ascend_sim.asc.adv.activation import softmax
from ascend_sim.asc.adv.math import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    axpy,
    ceil,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    exp,
    floor,
    frac,
    lgamma,
    log,
    power,
    round,
    sign,
    sin,
    sinh,
    tan,
    tanh,
    trunc,
    xor,
)
from ascend_sim.asc.adv.matmul import Matmul, MatmulIterator, register_matmul
from ascend_sim.asc.adv.normalization import rmsnorm
from ascend_sim.asc.adv.quantization import quant
from ascend_sim.asc.adv.tiling import MatmulApiStaticTiling, RmsNormTiling, SoftmaxTiling, TCubeTiling
from ascend_sim.asc.adv.types import (
    MatmulBatchParams,
    MatmulConfig,
    MatmulFuncParams,
    MatmulQuantParams,
    MatmulShapeParams,
    MatmulType,
    MatrixOffset,
    QuantConfig,
    get_basic_config,
    get_ib_share_norm_config,
    get_mdl_config,
    get_mm_config,
    get_normal_config,
    get_special_basic_config,
    get_special_mdl_config,
)
from ascend_sim.asc.calls_sort import concat, extract

__all__ = [
    "Matmul", "MatmulApiStaticTiling", "MatmulBatchParams", "MatmulConfig", "MatmulFuncParams", "MatmulIterator",
    "MatmulQuantParams", "MatmulShapeParams", "MatmulType", "MatrixOffset", "QuantConfig", "RmsNormTiling",
    "SoftmaxTiling", "TCubeTiling", "acos", "acosh", "asin", "asinh", "atan", "atanh", "axpy", "ceil", "concat",
    "cos", "cosh", "digamma", "erf", "erfc", "exp", "extract", "floor", "frac", "get_basic_config",
    "get_ib_share_norm_config", "get_mdl_config", "get_mm_config", "get_normal_config", "get_special_basic_config",
    "get_special_mdl_config", "lgamma", "log", "power", "quant", "register_matmul", "rmsnorm", "round", "sign",
    "sin", "sinh", "softmax", "tan", "tanh", "trunc", "xor",
]  # fmt: skip
