"""Which data types each machine instruction takes on each chip family, condensed.

Facts: hicann/runtime platform ini files (sections intrinsicDtypeMap of Ascend910A, Ascend310P3, Ascend310B1 and
Ascend910B1). Columns: 910A (also used for Ascend310, which has no ini) | 310P3 | 310B1 | 910B1; ``=`` repeats the
cell to the left, ``-`` means the instruction does not exist. Types are f16 f32 bf16 s8 u8 s16 u16 s32 u32 s64;
conversions are ``source2destination`` followed by the rounding modes r rint, f floor, c ceil, a half away, z trunc,
o odd, n exact or default; products are ``destination source0 source1``.
"""

COLUMNS = ("910A", "310P3", "310B1", "910B1")

TABLE = """
broadcast_ub_to_cc | f16 f32 s32 | = | - | =
data_move_l0c2ub | f16 f32 s16 s32 u16 u32 | = | - | =
data_move_l12bt | - | = | f16 f32 s16 s32 s8 u16 u32 u8 | =
data_move_l12l0a | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | =
data_move_l12l0b | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | =
data_move_l12out | - | = | f16 f32 s16 s32 s8 u16 u32 u8 | =
data_move_l12ub | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | -
data_move_out2l0a | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | =
data_move_out2l0b | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | =
data_move_out2l1 | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | =
data_move_out2l1_nd2nz | - | = | bf16 f16 f32 s16 s32 s8 u16 u32 u8 | =
data_move_out2ub | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | -
data_move_pad | - | = | f16 f32 s16 s32 s8 u16 u32 u8 | bf16 f16 f32 s16 s32 s8 u16 u32 u8
data_move_transpose_l12l0a | - | = | f16 f32 s16 s32 s8 u16 u32 u8 | =
data_move_transpose_l12l0b | - | = | f16 f32 s16 s32 s8 u16 u32 u8 | =
data_move_ub2l1 | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | -
data_move_ub2out | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | -
data_move_ub2ub | f16 f32 s16 s32 s8 u16 u32 u8 | = | = | -
fix_pipe_l0c2l1 | - | = | f16 f32 s32 | =
fix_pipe_l0c2out | - | = | f16 f32 s32 | =
fix_pipe_l0c2ub | - | = | f16 f32 s32 | -
fix_pipe_l12fb | - | = | f16 f32 s16 s32 s8 u16 u32 u8 | =
fix_pipe_pre_conv_cast | - | = | f322bf16 f322f16 | =
fix_pipe_pre_conv_dequant | - | = | s322f16 | =
fix_pipe_pre_conv_quant | - | = | f322s4 f322s8 f322u8 | =
fix_pipe_pre_conv_requant | - | = | s322s4 s322s8 s322u8 | =
set_l0a | - | = | f16 f32 s16 s32 u16 u32 | =
set_l0b | - | = | f16 f32 s16 s32 u16 u32 | =
set_l1 | - | = | f16 f32 s16 s32 u16 u32 | =
vabs | f16 f32 | = | = | =
vadd | f16 f32 s32 | f16 f32 s16 s32 | f16 f32 s16 s32 s8 u8 | f16 f32 s16 s32
vadddeqrelu | f16s32s32 | = | - | =
vaddrelu | - | f16 f32 s16 | - | f16 f32 s16
vaddreluconv | - | f162s8 f322f16 s162s8 | - | =
vadds | f16 f32 | f16 f32 s16 s32 | f16 f32 s16 s32 s8 u8 | f16 f32 s16 s32
vand | s16 u16 | = | s16 s8 u16 u8 | s16 u16
vaxpy | f16f16f16 f32f16f16 f32f32f32 | = | f16f16f16 f32f32f32 | f16f16f16 f32f16f16 f32f32f32
vbitsort | f16 | f16 f32 | - | f16
vbitsort32 | - | = | f16 f32 | =
vbi | - | f16 | f16 f32 | =
vbrcb | - | = | f16f16 f32f32 s16s16 s32s32 u16u16 u32u32 | =
vcadd | f16 f32 | = | = | =
vcgadd | f16 | f16 f32 | = | =
vcgmax | f16 | f16 f32 | = | =
vcgmin | f16 | f16 f32 | = | =
vcmax | f16 | f16 f32 | = | =
vcmin | f16 | f16 f32 | = | =
vci | - | = | f16 f32 s16 s32 | -
vcmp | f16 f32 | = | f16 f32 s8 u8 | f16 f32 s16
vcmpv_eq | f16 f32 | = | f16 f32 s32 s8 u8 | f16 f32 s32
vcmpv_ge | f16 f32 | = | f16 f32 s8 u8 | f16 f32
vcmpv_gt | f16 f32 | = | f16 f32 s8 u8 | f16 f32
vcmpv_le | f16 f32 | = | f16 f32 s8 u8 | f16 f32
vcmpv_lt | f16 f32 | = | f16 f32 s8 u8 | f16 f32
vcmpv_ne | f16 f32 | = | f16 f32 s8 u8 | f16 f32
vcmpvs_eq | - | f16 f32 | f16 f32 s32 s8 u8 | f16 f32 s32
vcmpvs_ge | - | f16 f32 | f16 f32 s8 u8 | f16 f32
vcmpvs_gt | - | f16 f32 | f16 f32 s8 u8 | f16 f32
vcmpvs_le | - | f16 f32 | f16 f32 s8 u8 | f16 f32
vcmpvs_lt | - | f16 f32 | f16 f32 s8 u8 | f16 f32
vcmpvs_ne | - | f16 f32 | f16 f32 s8 u8 | f16 f32
vconcat | f16 | f16 f32 | - | =
vcopy | - | = | f16 f32 s16 s32 u16 u32 | =
vcpadd | f16 | f16 f32 | = | =
vdiv | f16 f32 | = | = | =
vexp | f16 f32 | = | = | =
vextract | f16 | f16 f32 | = | -
vgather | - | f16 f32 s16 s32 u16 u32 | = | =
vgatherb | - | = | f16f16 f32f32 s16s16 s32s32 u16u16 u32u32 | =
vln | f16 f32 | = | = | =
vlrelu | - | f16 f32 | = | =
vmadd | f16 f32 | = | = | =
vmaddrelu | f16 f32 | = | - | f16 f32
vmax | f16 f32 s32 | f16 f32 s16 s32 | f16 f32 s16 s32 s8 u8 | f16 f32 s16 s32
vmaxs | - | f16 f32 s16 s32 | = | =
vmin | f16 f32 s32 | f16 f32 s16 s32 | = | =
vmins | - | f16 f32 s16 s32 | = | =
vmla | f16f16f16 f32f16f16 f32f32f32 | = | f16f16f16 f32f32f32 | f16f16f16 f32f16f16 f32f32f32
vmrgsort4 | f16 | f16 f32 | - | f16
vmrgsort4v2 | - | = | f16 f32 | =
vmul | f16 f32 s32 | f16 f32 s16 s32 | = | =
vmulconv | s8f16f16 u8f16f16 | = | - | s8f16f16 u8f16f16
vmuls | f16 f32 | f16 f32 s16 s32 | = | =
vnchwconv | f16 s16 s8 u16 u8 | f16 f32 s16 s32 s8 u16 u32 u8 | = | =
vnot | s16 u16 | = | = | =
vor | s16 u16 | = | s16 s8 u16 u8 | s16 u16
vrec | f16 f32 | = | = | =
vreduce | - | f16 f32 s16 s32 u16 u32 | f16 f32 s16 s32 s8 u16 u32 u8 | f16 f32 s16 s32 u16 u32
vreducev2 | - | = | f16 f32 s16 s32 u16 u32 | =
vrelu | f16 | f16 f32 s32 | = | =
vrsqrt | f16 f32 | = | = | =
vscatter | - | f16 f32 s16 s32 u16 u32 | = | -
vsel | f16 f32 | = | f16 f32 s8 u8 | f16 f32
vshl | - | = | s16 s32 u16 u32 | =
vshr | - | = | s16 s32 u16 u32 | =
vsqrt | f16 f32 | = | = | =
vsub | f16 f32 s32 | f16 f32 s16 s32 | f16 f32 s16 s32 s8 u8 | f16 f32 s16 s32
vsubrelu | - | f16 f32 s16 | - | =
vsubreluconv | - | f162s8 f322f16 s162s8 | - | =
vtranspose | f16 s16 u16 | = | = | =
"""

MMAD = {
    "910A": (
        "f16f16f16 f16f16u2 f32f16f16 s32s8s8 s32u8s8 u32u8u8"
    ),
    "310P3": (
        "f16f16f16 f16f16u2 f32f16f16 s32s4s4 s32s8s8 s32u8s8 s32u8u2 s32u8u8 u32u8u8"
    ),
    "310B1": (
        "bf162f32 f16f16f16 f16f16u2 f322f32 f32f16f16 h322f32 s32s4s4 s32s8s8 s32u8u2"
    ),
    "910B1": (
        "f16f16f16 f16f16u2 f322f32 f32f16f16 f32f32f32 h322f32 s32s8s8 s32u8s8 u32u8u8"
    ),
}

VCONV = {
    "910A": (
        "deq f162f32:n f162s32:acfrz f162s8:acfnz f162u8:acfnz f322f16:no f322s32:acfrz s322f16:n s322f32:n "
        "s82f16:n u82f16:n"
    ),
    "310P3": (
        "deq f162f32:n f162s16:r f162s32:acfrz f162s4:n f162s8:acfnz f162u8:acfnz f322f16:no f322s32:acfrz "
        "s162f16:n s162s8:n s162u8:n s322f16:n s322f32:n s82f16:n u82f16:n"
    ),
    "310B1": (
        "bf162f32:n bf162s32:acfrz deq f162f32:n f162s16:acfrz f162s32:acfrz f162s8:acfnrz f162u8:acfnrz "
        "f322bf16:acfrz f322f16:acfnorz f322f32:acfrz f322s16:acfrz f322s32:acfrz f322s64:acfrz "
        "s162f16:acfnrz s162f32:n s162u8:n s322f16:n s322f32:acfnrz s322s16:n s322s64:n s642f32:acfrz "
        "s642s32:n s82f16:n u82f16:n"
    ),
    "910B1": (
        "bf162f32:n bf162s32:acfrz deq f162f32:n f162s16:acfrz f162s32:acfrz f162s8:acfnrz f162u8:acfnrz "
        "f322bf16:acfrz f322f16:acfnorz f322f32:acfrz f322s16:acfrz f322s32:acfrz f322s64:acfrz "
        "s162f16:acfnrz s162f32:n s162s8:n s162u8:n s322f16:n s322f32:acfnrz s322s16:n s322s64:n "
        "s642f32:acfrz s642s32:n s82f16:n u82f16:n"
    ),
}
