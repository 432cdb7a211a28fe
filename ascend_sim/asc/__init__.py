"""The kernel language: Ascend C in snake_case, spelled as in pyasc. See `ascend_sim.asc.launch` for how kernels run."""

from __future__ import annotations

import builtins as _builtins
from typing import Any, Generic, TypeVar

from ascend_sim.asc.calls_cube import (
    fixpipe,
    load_data,
    load_data_with_transpose,
    mmad,
    set_fix_pipe_pre_quant_flag,
    set_fmatrix,
    set_hf32_mode,
    set_hf32_trans_mode,
    set_load_data_boundary,
    set_load_data_padding_value,
    set_load_data_repeat,
    set_mm_layout_transform,
)
from ascend_sim.asc.calls_move import (
    data_copy,
    data_copy_pad,
    init_const_value,
    set_atomic_add,
    set_atomic_max,
    set_atomic_min,
    set_atomic_none,
    set_atomic_type,
)
from ascend_sim.asc.calls_reduce import (
    block_reduce_max,
    block_reduce_min,
    block_reduce_sum,
    pair_reduce_sum,
    reduce_max,
    reduce_min,
    reduce_sum,
    repeat_reduce_sum,
    whole_reduce_max,
    whole_reduce_min,
    whole_reduce_sum,
)
from ascend_sim.asc.calls_rearrange import (
    brcb,
    compare,
    compare_scalar,
    gather,
    gather_mask,
    gatherb,
    get_cmp_mask,
    get_gather_mask_remain_count,
    select,
    set_cmp_mask,
    trans_data_to_5hd,
    transpose,
)
from ascend_sim.asc.calls_sync import (
    cross_core_set_flag,
    cross_core_wait_flag,
    data_sync_barrier,
    pipe_barrier,
    set_flag,
    sync_all,
    wait_flag,
)
from ascend_sim.asc.calls_vector import (
    abs,  # noqa: A004
    add,
    add_relu,
    adds,
    axpy,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    cast,
    copy,
    div,
    duplicate,
    exp,
    fused_mul_add,
    fused_mul_add_relu,
    leaky_relu,
    ln,
    max,  # noqa: A004
    maxs,
    min,  # noqa: A004
    mins,
    mul,
    mul_add_dst,
    muls,
    reciprocal,
    relu,
    reset_mask,
    rsqrt,
    set_deq_scale,
    set_mask_count,
    set_mask_norm,
    set_vector_mask,
    shift_left,
    shift_right,
    sqrt,
    sub,
    sub_relu,
)
from ascend_sim.asc.interleave import CoreDeadlockError
from ascend_sim.asc.launch import Kernel, Launch, jit, steady
from ascend_sim.asc.machine import (
    ascend_is_aic,
    ascend_is_aiv,
    current_soc,
    get_block_idx,
    get_block_num,
    get_sub_block_idx,
    get_sub_block_num,
    get_task_ratio,
)
from ascend_sim.asc.params import (
    BinaryRepeatParams,
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyCO12DstParams,
    DataCopyEnhancedParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    DataCopyParams,
    FixpipeConfig,
    FixpipeParamsV220,
    GatherMaskParams,
    GatherRepeatParams,
    InitConstValueParams,
    LoadData2DParams,
    LoadData2DParamsV2,
    LoadData2dTransposeParams,
    LoadData2dTransposeParamsV2,
    LoadData3DParamsV1,
    LoadData3DParamsV2,
    LoadDataRepeatParam,
    MmadParams,
    MrgSort4Info,
    Nd2NzParams,
    Nz2NdParamsFull,
    SliceInfo,
    TransDataTo5HDParams,
    TransposeParamsExt,
    UnaryRepeatParams,
    VdeqInfo,
)
from ascend_sim.asc.queues import LocalMemAllocator, TBuf, TBufPool, TPipe, TQue, TQueBind, get_tpipe_ptr
from ascend_sim.asc.tensor import GlobalAddress, GlobalTensor, LocalTensor
from ascend_sim.isa.dtypes import (
    DataType,
    bfloat16,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ascend_sim.isa.enums import (
    CMPMODE,
    AippInputFormat,
    AtomicDtype,
    AtomicOp,
    BatchMode,
    BlockMode,
    CacheLine,
    CacheMode,
    CacheRwMode,
    CO2Layout,
    CubeFormat,
    DataFormat,
    DcciDst,
    DeqScale,
    GatherMaskMode,
    HardEvent,
    Hardware,
    IterateMode,
    IterateOrder,
    LayoutMode,
    MaskMode,
    MatmulConfigMode,
    MemDsbT,
    PipeID,
    QuantModes,
    ReduceOrder,
    RoundMode,
    ScheduleType,
    SelMode,
    TPosition,
    TransposeType,
    pad_t,
)
from ascend_sim.isa.legality import InstructionError

half, float_, double, int_ = float16, float32, float64, int32
DEFAULT_C0_SIZE, ONE_BLK_SIZE = 32, 32

T = TypeVar("T")


class ConstExpr(Generic[T]):
    """Annotation of compile-time arguments: ``tile: asc.ConstExpr[int]``. Kernels get plain values."""


range = static_range = _builtins.range


def property(prop: Any) -> Any:
    """Value of a named constant such as ``DEFAULT_C0_SIZE``."""
    return prop


def number(value: Any, dtype: Any) -> Any:
    """A scalar of a type."""
    return value


def ceildiv(x: int, y: int) -> int:
    """x / y rounded up."""
    return -(-x // y)


def static_assert(test: bool, message: str | None = None) -> None:
    """Raise AssertionError when a compile-time condition fails."""
    if not test:
        raise AssertionError(message or "static_assert failed")


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "Any", "Generic", "T", "TypeVar")]
