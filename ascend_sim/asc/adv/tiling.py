"""Tiling structures of the high-level API, by the names both sides of a launch use."""

from __future__ import annotations

from ascend_sim.asc.struct import Struct, fields

_CUBE = """
    used_core_num:usedCoreNum m:M n:N k_a:Ka k_b:Kb single_core_m:singleCoreM single_core_n:singleCoreN
    single_core_k:singleCoreK base_m:baseM base_n:baseN base_k:baseK depth_a1:depthA1 depth_b1:depthB1
    step_m:stepM step_n:stepN is_bias:isBias trans_length:trans_length iterate_order:iterateOrder
    share_mode:shareMode share_l1_size:shareL1Size share_l0c_size:shareL0CSize share_ub_size:shareUbSize
    batch_m:batchM batch_n:batchN single_batch_m:singleBatchM single_batch_n:singleBatchN step_k_a:stepKa
    step_k_b:stepKb depth_a_l1_cache_ub:depthAL1CacheUB depth_b_l1_cache_ub:depthBL1CacheUB db_l0a:dbL0A
    db_l0b:dbL0B db_l0c:dbL0C a_layout_info_b:ALayoutInfoB a_layout_info_s:ALayoutInfoS
    a_layout_info_n:ALayoutInfoN a_layout_info_g:ALayoutInfoG a_layout_info_d:ALayoutInfoD
    b_layout_info_b:BLayoutInfoB b_layout_info_s:BLayoutInfoS b_layout_info_n:BLayoutInfoN
    b_layout_info_g:BLayoutInfoG b_layout_info_d:BLayoutInfoD c_layout_info_b:CLayoutInfoB
    c_layout_info_s1:CLayoutInfoS1 c_layout_info_n:CLayoutInfoN c_layout_info_g:CLayoutInfoG
    c_layout_info_s2:CLayoutInfoS2 batch_num:BatchNum
"""
_STATIC = """
    used_core_num:usedCoreNum m:M n:N k_a:Ka k_b:Kb single_core_m:singleCoreM single_core_n:singleCoreN
    single_core_k:singleCoreK base_m:baseM base_n:baseN base_k:baseK depth_a1:depthA1 depth_b1:depthB1
    step_m:stepM step_n:stepN is_bias:isBias trans_length:transLength iterate_order:iterateOrder
    share_mode:shareMode share_l1_size:shareL1Size share_l0c_size:shareL0CSize share_ub_size:shareUbSize
    step_k_a:stepKa step_k_b:stepKb depth_a_l1_cache_ub:depthAL1CacheUB depth_b_l1_cache_ub:depthBL1CacheUB
    db_l0a:dbL0A db_l0b:dbL0B db_l0c:dbL0C a_layout_info_b:ALayoutInfoB a_layout_info_s:ALayoutInfoS
    a_layout_info_n:ALayoutInfoN a_layout_info_g:ALayoutInfoG a_layout_info_d:ALayoutInfoD
    b_layout_info_b:BLayoutInfoB b_layout_info_s:BLayoutInfoS b_layout_info_n:BLayoutInfoN
    b_layout_info_g:BLayoutInfoG b_layout_info_d:BLayoutInfoD c_layout_info_b:CLayoutInfoB
    c_layout_info_s1:CLayoutInfoS1 c_layout_info_n:CLayoutInfoN c_layout_info_g:CLayoutInfoG
    c_layout_info_s2:CLayoutInfoS2 batch_num:BatchNum mx_type_para:mxTypePara
"""
_SOFTMAX = """
    src_m:srcM src_k:srcK src_size:srcSize out_max_m:outMaxM out_max_k:outMaxK out_max_size:outMaxSize
    split_m:splitM split_k:splitK split_size:splitSize reduce_m:reduceM reduce_k:reduceK reduce_size:reduceSize
    range_m:rangeM tail_m:tailM tail_split_size:tailSplitSize tail_reduce_size:tailReduceSize
"""
_RMS_HEAD, _RMS_TAIL = """
    b_length:bLength s_length:sLength h_length:hLength original_h_length:originalHLength
""", """
    main_bsh_length:mainBshLength main_bs_length:mainBsLength main_bs_length_align:mainBsLengthAlign
    loop_round:loopRound input_tail_pos:inputTailPos tail_bsh_length:tailBshLength tail_bs_length:tailBsLength
"""


class TCubeTiling(Struct):
    """How a matrix multiplication is cut: single core, base block, L1 depth and steps."""

    FIELDS = fields(_CUBE)


class MatmulApiStaticTiling(Struct):
    """As `TCubeTiling`, fixed at compile time; -1 where a value is left to the launch."""

    FIELDS = fields(_STATIC, default=-1)


class SoftmaxTiling(Struct):
    """How a softmax is cut (all zero: one pass over the whole tensor)."""

    FIELDS = fields(_SOFTMAX)


class RmsNormTiling(Struct):
    """Shape (b, s, h) of an RMS norm and how it is cut."""

    FIELDS = (
        *fields(_RMS_HEAD), ("reciprocal_of_h_length", "reciprocalOfHLength", "float32", 0.0), *fields(_RMS_TAIL)
    )
