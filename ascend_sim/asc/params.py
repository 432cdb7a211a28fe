"""Parameter blocks of the instructions: pyasc's names, order and defaults. They are immutable and hashable, so checked
instructions are cached by them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ascend_sim.isa.enums import BlockMode, CO2Layout, DeqScale, QuantModes, TransposeType, pad_t


class UnaryRepeatParams(NamedTuple):
    dst_blk_stride: int = 1
    src_blk_stride: int = 1
    dst_rep_stride: int = 8
    src_rep_stride: int = 8


class BinaryRepeatParams(NamedTuple):
    dst_blk_stride: int = 1
    src0_blk_stride: int = 1
    src1_blk_stride: int = 1
    dst_rep_stride: int = 8
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8


class BrcbRepeatParams(NamedTuple):
    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


class CopyRepeatParams(NamedTuple):
    dst_stride: int = 0
    src_stride: int = 0
    dst_repeat_size: int = 0
    src_repeat_size: int = 0


class GatherRepeatParams(NamedTuple):
    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


class GatherMaskParams(NamedTuple):
    src0_block_stride: int = 1
    repeat_times: int = 1
    src0_repeat_stride: int = 0
    src1_repeat_stride: int = 0


class DataCopyParams(NamedTuple):
    """Length and gaps (tail to head) in 32-byte blocks; in bytes for `data_copy_pad`."""

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0


class DataCopyExtParams(NamedTuple):
    """As `DataCopyParams` with 32-bit fields, for `data_copy_pad`."""

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    rsv: int = 0


class DataCopyPadParams(NamedTuple):
    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: int = 0


class DataCopyPadExtParams(NamedTuple):
    dtype: Any = None
    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: float = 0


class DataCopyEnhancedParams(NamedTuple):
    block_mode: BlockMode = BlockMode.BLOCK_MODE_NORMAL
    deq_scale: DeqScale = DeqScale.DEQ_NONE
    deq_value_in: int = 0
    sid_store_mode_in: int = 0
    is_relu_in: bool = False
    pad_mode_in: pad_t = pad_t.PAD_NONE
    pad_value_in: int = 0


class Nd2NzParams(NamedTuple):
    nd_num: int
    n_value: int
    d_value: int
    src_nd_matrix_stride: int
    src_d_value: int
    dst_nz_c0_stride: int
    dst_nz_n_stride: int
    dst_nz_matrix_stride: int


class Nz2NdParamsFull(NamedTuple):
    nd_num: int = 1
    n_value: int = 0
    d_value: int = 0
    src_nd_matrix_stride: int = 1
    src_n_stride: int = 0
    dst_d_stride: int = 0
    dst_nd_matrix_stride: int = 0


class DataCopyCO12DstParams(NamedTuple):
    n_size: int
    m_size: int
    dst_stride: int
    src_stride: int
    quant_pre: QuantModes = QuantModes.NoQuant
    relu_pre: int = 0
    channel_split: bool = False
    nz2nd_en: bool = False


class InitConstValueParams(NamedTuple):
    repeat_times: int = 0
    block_num: int = 0
    dst_gap: int = 0
    init_value: float = 0


class LoadData2DParams(NamedTuple):
    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 0
    sid: int = 0
    dst_gap: int = 0
    if_transpose: bool = False
    addr_mode: int = 0


class LoadData2DParamsV2(NamedTuple):
    m_start_position: int = 0
    k_start_position: int = 0
    m_step: int = 0
    k_step: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    if_transpose: bool = False
    sid: int = 0


class LoadData2dTransposeParams(NamedTuple):
    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 0
    dst_gap: int = 0
    dst_frac_gap: int = 0
    addr_mode: int = 0


class LoadData2dTransposeParamsV2(NamedTuple):
    start_index: int = 0
    repeat_times: int = 0
    src_stride: int = 0
    dst_gap: int = 0
    dst_frac_gap: int = 0
    src_frac_gap: int = 0
    addr_mode: int = 0


Pads = tuple[int, int, int, int]


class _Load3DV1(NamedTuple):
    pad_list: Pads = (0, 0, 0, 0)
    l1_h: int = 1
    l1_w: int = 1
    c1_index: int = 0
    fetch_filter_w: int = 0
    fetch_filter_h: int = 0
    left_top_w: int = 0
    left_top_h: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    jump_stride: int = 1
    repeat_mode: int = 0
    repeat_time: int = 1
    c_size: int = 0
    pad_value: float = 0


class LoadData3DParamsV1(_Load3DV1):
    """``pad_list`` is (left, right, top, bottom)."""

    __slots__ = ()

    def __new__(cls, pad_list: Any = (0, 0, 0, 0), *args: Any, **kwargs: Any) -> LoadData3DParamsV1:
        return super().__new__(cls, tuple(pad_list), *args, **kwargs)


class _Load3DV2(NamedTuple):
    pad_list: Pads = (0, 0, 0, 0)
    l1_h: int = 1
    l1_w: int = 1
    channel_size: int = 1
    k_extension: int = 1
    m_extension: int = 1
    k_start_pt: int = 0
    m_start_pt: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    en_transpose: bool = False
    pad_value: float = 0
    filter_size_w: bool = False
    filter_size_h: bool = False
    f_matrix_ctrl: bool = False


class LoadData3DParamsV2(_Load3DV2):
    """``pad_list`` is (left, right, top, bottom); ``filter_size_*`` add 256 to the filter extent."""

    __slots__ = ()

    def __new__(cls, pad_list: Any = (0, 0, 0, 0), *args: Any, **kwargs: Any) -> LoadData3DParamsV2:
        return super().__new__(cls, tuple(pad_list), *args, **kwargs)


class LoadData3DParamsV2Pro(NamedTuple):
    """`LoadData3DParamsV2` with its sizes packed: ``ext_config`` m_start, k_start, m_extension, k_extension in 16 bits
    each from the top; ``filter_config`` dilation h, w, filter h, w, stride h, w in 8 bits each from bit 40 down."""

    channel_size: int = 0
    en_transpose: bool = False
    en_small_k: bool = False
    filter_size_w: bool = False
    filter_size_h: bool = False
    f_matrix_ctrl: bool = False
    ext_config: int = 0
    filter_config: int = 0x10101010101

    def unpacked(self) -> LoadData3DParamsV2:
        """The same load; size and pads of the feature map come from set_fmatrix."""
        e, f = self.ext_config, self.filter_config
        return LoadData3DParamsV2(
            (0, 0, 0, 0), 0, 0, self.channel_size, e & 0xFFFF, e >> 16 & 0xFFFF, e >> 32 & 0xFFFF, e >> 48 & 0xFFFF,
            f & 0xFF, f >> 8 & 0xFF, f >> 16 & 0xFF, f >> 24 & 0xFF, f >> 32 & 0xFF, f >> 40 & 0xFF, self.en_transpose,
            0, self.filter_size_w, self.filter_size_h, self.f_matrix_ctrl,
        )  # fmt: skip


class LoadDataRepeatParam(NamedTuple):
    repeat_time: int = 1
    repeat_stride: int = 0
    repeat_mode: int = 0


class MmadParams(NamedTuple):
    m: int = 0
    n: int = 0
    k: int = 0
    is_bias: bool | None = None
    fm_offset: int | None = None
    en_ssparse: bool | None = None
    en_winograd_a: bool | None = None
    en_winograd_b: bool | None = None
    unit_flag: int | None = None
    cmatrix_source: bool | None = None
    cmatrix_init_val: bool | None = None
    k_direction_align: bool | None = None  # float32: K of A is padded to 16 (as transposed loads leave it), not to 8


class FixpipeParamsV220(NamedTuple):
    n_size: int
    m_size: int
    src_stride: int
    dst_stride: int
    quant_pre: QuantModes = QuantModes.NoQuant
    deq_scalar: int = 0
    nd_num: int = 1
    src_nd_stride: int = 0
    dst_nd_stride: int = 0
    relu_en: bool = False
    unit_flag: int = 0
    is_channel_split: bool = False


class FixpipeConfig(NamedTuple):
    layout: CO2Layout = CO2Layout.ROW_MAJOR

    @classmethod
    def cfg_nz(cls) -> FixpipeConfig:
        return cls(CO2Layout.NZ)

    @classmethod
    def cfg_row_major(cls) -> FixpipeConfig:
        return cls(CO2Layout.ROW_MAJOR)


class TransDataTo5HDParams(NamedTuple):
    dst_high_half: bool = False
    src_high_half: bool = False
    repeat_times: int = 1
    dst_rep_stride: int = 0
    src_rep_stride: int = 0


class TransposeParamsExt(NamedTuple):
    n_size: int = 0
    c_size: int = 0
    h_size: int = 0
    w_size: int = 0
    transpose_type: TransposeType = TransposeType.TRANSPOSE_ND2ND_B16


class MrgSort4Info(NamedTuple):
    element_lengths: tuple[int, ...]
    if_exhausted_suspension: bool = False
    valid_bit: int = 15
    repeat_times: int = 1


class SliceInfo(NamedTuple):
    start_index: int = 0
    end_index: int | None = None
    stride: int = 0
    burst_len: int | None = None
    shape_value: int = 0


class LoadImageToLocalParams(NamedTuple):
    horiz_size: int = 2
    vert_size: int = 2
    horiz_start_pos: int = 0
    vert_start_pos: int = 0
    src_horiz_size: int = 2
    top_pad_size: int = 0
    bot_pad_size: int = 0
    left_pad_size: int = 0
    right_pad_size: int = 0


class CheckLocalMemoryIAParam(NamedTuple):
    enable_bit: int = 0
    start_addr: int = 0
    end_addr: int = 0
    is_scalar_read: bool = False
    is_scalar_write: bool = False
    is_vector_read: bool = False
    is_vector_write: bool = False
    is_mte_read: bool = False
    is_mte_write: bool = False
    is_enable: bool = False


class VdeqInfo(NamedTuple):
    scale: tuple[float, ...] | None = None
    offset: tuple[int, ...] | None = None
    sign_mode: tuple[bool, ...] | None = None
