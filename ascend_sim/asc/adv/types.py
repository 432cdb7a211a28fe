"""Descriptions of high-level objects: operand types and configurations of a matrix multiplication, quantisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.enums import (
    BatchMode,
    CubeFormat,
    IterateMode,
    IterateOrder,
    LayoutMode,
    ScheduleType,
    TPosition,
)


@dataclass
class MatmulType:
    """Where an operand lies, its format and element type, whether it is stored transposed."""

    position: TPosition
    format: CubeFormat
    dtype: DataType
    is_trans: bool = False
    layout: LayoutMode = LayoutMode.NONE

    def __post_init__(self) -> None:
        self.position, self.format = TPosition(self.position), CubeFormat(self.format)
        self.dtype = as_dtype(self.dtype)


@dataclass
class MatmulConfig:
    """Template configuration of a matrix object. Only what decides results or order is honoured: ``iterate_order``,
    ``enable_end`` and the per-tensor quantisation; the rest selects among code paths of the compiled library."""

    do_norm: bool = True
    do_basic_block: bool = False
    do_multi_data_load: bool = False
    basic_m: int = 0
    basic_n: int = 0
    basic_k: int = 0
    intrinsics_check: bool = False
    is_n_batch: bool = False
    en_vec_nd2nz: bool = False
    do_special_basic_block: bool = False
    do_mte2_preload: int = 0
    single_core_m: int = 0
    single_core_n: int = 0
    single_core_k: int = 0
    step_m: int = 0
    step_n: int = 0
    base_mn: int = 0
    single_core_mn: int = 0
    en_unit_flag: bool = True
    is_per_tensor: bool = False
    has_anti_quant_offset: bool = False
    do_ib_share_norm: bool = False
    do_special_mdl: bool = False
    enable_init: bool = True
    batch_mode: int = BatchMode.BATCH_LESS_THAN_L1
    enable_end: bool = True
    enable_get_tensor_c: bool = True
    enable_set_org_shape: bool = True
    enable_set_bias: bool = True
    enable_set_tail: bool = True
    enable_quant_vector: bool = True
    enable_set_define_data: bool = True
    iterate_mode: int = IterateMode.ITERATE_MODE_DEFAULT
    enable_reuse: bool = True
    enable_ub_reuse: bool = False
    enable_l1_cache_ub: bool = False
    intra_block_part_sum: bool = False
    iterate_order: IterateOrder = IterateOrder.UNDEF
    schedule_type: ScheduleType = ScheduleType.INNER_PRODUCT
    enable_double_cache: int = 0
    is_bias_batch: bool = True
    enable_static_pad_zeros: bool = False
    is_partial_output: bool = False
    enable_mix_dual_master: bool = False
    is_a2b2_shared: bool = False
    is_enable_channel_split: bool = False
    enable_kdim_reorder_load: bool = False
    is_co1_shared: bool = False
    shared_co1_buffer_size: int = 64 * 1024
    batch_out_mode: int = 0


@dataclass
class MatmulShapeParams:
    single_core_m: int = 0
    single_core_n: int = 0
    single_core_k: int = 0
    basic_m: int = 0
    basic_n: int = 0
    basic_k: int = 0


@dataclass
class MatmulQuantParams:
    is_per_tensor: bool = False
    has_anti_quant_offset: bool = False


@dataclass
class MatmulBatchParams:
    is_b_batch: bool = False
    batch_mode: BatchMode = BatchMode.BATCH_LESS_THAN_L1
    is_bias_batch: bool = False


@dataclass
class MatmulFuncParams:
    intrinsics_limit: bool = False
    en_vec_nd2_nz: bool = False
    enable_double_cache: bool = False
    enable_l1_cache: bool = False
    do_mte2_pre_load: int = 0
    iterate_order: IterateOrder = IterateOrder.ORDER_M
    schedule_type: ScheduleType = ScheduleType.INNER_PRODUCT
    enable_reuse: bool = True
    enable_ub_reuse: bool = False
    is_partial_output: bool = False
    is_a2_b2_shared: bool = False
    is_enable_channel_split: bool = False
    enable_kdim_reorder_load: bool = False


@dataclass
class QuantConfig:
    """Counts of a quantisation that are known when the kernel is compiled."""

    calc_count: int = 0
    offset_count: int = 0
    scale_count: int = 0
    work_local_size: int = 0


@dataclass
class MatrixOffset:
    """Place of the current base block in the single core's result, in elements and rows and columns."""

    offset: int = 0
    row: int = 0
    col: int = 0
    height: int = 0
    width: int = 0


# names of a configuration that its builders spell otherwise
_RENAMED = {
    "intrinsics_limit": "intrinsics_check", "is_vec_nd2_nz": "en_vec_nd2nz", "en_vec_nd2_nz": "en_vec_nd2nz",
    "do_mte2_pre_load": "do_mte2_preload", "bmm_mode": "batch_mode", "is_double_cache": "enable_double_cache",
    "is_a2_b2_shared": "is_a2b2_shared", "batch_loop": "is_n_batch",
}  # fmt: skip
_KNOWN = frozenset(MatmulConfig.__dataclass_fields__)


def configured(preset: dict[str, Any], **given: Any) -> MatmulConfig:
    """A `MatmulConfig` from builder arguments; those that only steer the compiled library's code are dropped."""
    values = dict(preset)
    for name, value in given.items():
        known = _RENAMED.get(name, name)
        if known in _KNOWN:
            values[known] = value
    return MatmulConfig(**values)


def get_normal_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """Configuration of the plain path: one base block in L1 at a time."""
    names = ("intrinsics_limit", "batch_loop", "is_vec_nd2_nz", "bmm_mode", "is_msg_reuse", "iterate_order",
             "schedule_type", "en_unit_flag")  # fmt: skip
    return configured({"do_norm": True}, **dict(zip(names, args, strict=False)), **kwargs)


def get_mdl_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """Configuration that loads several base blocks into L1 at once."""
    names = ("intrinsics_limit", "batch_loop", "do_mte2_preload", "is_vec_nd2_nz", "is_per_tensor",
             "has_anti_quant_offset", "en_unit_flag", "is_msg_reuse", "enable_ub_reuse", "enable_l1_cache_ub",
             "enable_mix_dual_master", "enable_kdim_reorder_load")  # fmt: skip
    preset = {"do_norm": False, "do_multi_data_load": True, "en_unit_flag": False}
    return configured(preset, **dict(zip(names, args, strict=False)), **kwargs)


def get_special_mdl_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """As `get_mdl_config`, for the special path."""
    names = ("intrinsics_limit", "batch_loop", "do_mte2_pre_load", "is_vec_nd2_nz", "is_per_tensor",
             "has_anti_quant_offset")  # fmt: skip
    preset = {"do_norm": False, "do_special_mdl": True, "en_unit_flag": False}
    return configured(preset, **dict(zip(names, args, strict=False)), **kwargs)


def get_ib_share_norm_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """Configuration where the vector cores of a group share B."""
    names = ("intrinsics_limit", "batch_loop", "is_vec_nd2_nz", "bmm_mode", "is_double_cache", "en_unit_flag")
    preset = {"do_norm": False, "do_ib_share_norm": True}
    return configured(preset, **dict(zip(names, args, strict=False)), **kwargs)


def get_basic_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """Configuration of fixed base blocks."""
    names = ("basic_m", "basic_n", "basic_k", "intrinsics_limit", "batch_loop", "bmm_mode")
    preset = {"do_norm": False, "do_basic_block": True}
    return configured(preset, **dict(zip(names, args, strict=False)), **kwargs)


def get_special_basic_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """Configuration of fixed base blocks and sizes of a core."""
    names = ("basic_m", "basic_n", "basic_k", "single_core_m", "single_core_n", "single_core_k", "step_m", "step_n",
             "intrinsics_limit", "batch_loop", "bmm_mode")  # fmt: skip
    preset = {"do_norm": False, "do_special_basic_block": True}
    return configured(preset, **dict(zip(names, args, strict=False)), **kwargs)


def get_mm_config(config_mode: Any = None, *parts: Any, **kwargs: Any) -> MatmulConfig:
    """A configuration from a mode and any of `MatmulShapeParams`, `MatmulQuantParams`, `MatmulBatchParams` and
    `MatmulFuncParams`."""
    given: dict[str, Any] = {}
    for part in (*parts, *kwargs.values()):
        if hasattr(part, "__dataclass_fields__"):
            given.update({name: getattr(part, name) for name in part.__dataclass_fields__})
    builders = {1: get_normal_config, 2: get_mdl_config, 3: get_special_mdl_config, 4: get_ib_share_norm_config}
    build = builders.get(int(config_mode) if config_mode is not None else 1, get_normal_config)
    return build(**given)


__all__ = [
    "MatmulBatchParams", "MatmulConfig", "MatmulFuncParams", "MatmulQuantParams", "MatmulShapeParams", "MatmulType",
    "MatrixOffset", "QuantConfig", "get_basic_config", "get_ib_share_norm_config", "get_mdl_config",
    "get_mm_config", "get_normal_config", "get_special_basic_config", "get_special_mdl_config",
]  # fmt: skip
