"""Every restriction raises an error that names instruction, operand, value, rule and the kernel's source line."""

# ruff: noqa: E501, PLW0108
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_sim import asc
from ascend_sim.asc.machine import Core, on_core
from ascend_sim.engine.trace import TraceBuilder
from ascend_sim.isa.rows import ROWS

P, E, M = asc.TPosition, asc.HardEvent, asc.RoundMode


def ub(dtype: Any = "float16", at: int = 0, n: int = 0) -> asc.LocalTensor:
    return asc.LocalTensor(dtype, P.VECIN, at, n)


def gm(dtype: Any = "float16", nbytes: int = 4096, at: int = 0) -> asc.GlobalTensor:
    g = asc.GlobalTensor()
    g.set_global_buffer(asc.GlobalAddress(dtype, 0, at, nbytes))
    return g


def cube(dtype: Any = "float16", acc: Any = "float32") -> tuple[asc.LocalTensor, ...]:
    return asc.LocalTensor(acc, P.CO1), asc.LocalTensor(dtype, P.A2), asc.LocalTensor(dtype, P.B2)


def queues() -> asc.MrgSortSrcList:
    return asc.MrgSortSrcList("float16", ub(at=4096), ub(at=8192))


def bilinear(h: int = 1, gap: int = 128, offsets: str = "uint32") -> None:
    asc.bilinear_interpolation(ub(), ub(at=4096), ub(offsets, 8192), ub(at=12288), 128, h, False, 1, gap, 1, ub(at=16384))


def nchw(c: int, hw: int) -> asc.TransposeParamsExt:
    return asc.TransposeParamsExt(1, c, 1, hw, asc.TransposeType.TRANSPOSE_NCHW2NHWC)


def pieces(blocks: int) -> list[asc.SliceInfo]:
    return [asc.SliceInfo(0, max(blocks, 1) * 16 - 1, 0, blocks, 64)]


A1 = lambda dtype="float16", at=0, n=0: asc.LocalTensor(dtype, P.A1, at, n)  # noqa: E731
VEC, CUBE, OLD, P3, B1 = "Ascend910B2", "Ascend910B2:AIC", "Ascend910A", "Ascend310P3", "Ascend310B1"
U, B = asc.UnaryRepeatParams, asc.BinaryRepeatParams

CASES: list[tuple[str, Callable[[], Any], str]] = [
    # vector operands
    (VEC, lambda: asc.add(ub(at=16), ub(at=4096), ub(at=8192), 128), r"add: dst address = 16: .*multiple of 32"),
    (VEC, lambda: asc.add(ub(), ub("float32", 4096), ub(at=8192), 128), "add: data types .*same type"),
    (VEC, lambda: asc.add(ub("int8"), ub("int8", 4096), ub("int8", 8192), 32), "vadd takes .* on Ascend910B2"),
    (VEC, lambda: asc.add(ub(n=64), ub(at=4096), ub(at=8192), 128), r"add: dst = bytes 0\.\.256: .*past the end"),
    (VEC, lambda: asc.add(ub(at=196608 - 64), ub(), ub(at=4096), 64), "add: dst .*outside UB of 196608"),
    (VEC, lambda: asc.add(ub(at=32), ub(), ub(at=4096), 64), "dst and src0 .*identical or disjoint"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 129, 1, B()), r"mask = 129: must lie in 1\.\.128"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 128, 256, B()), r"repeat_times = 256: must lie in 0\.\.255"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 128, 2, B(0)), "dst block stride = 0"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), 128, 2, B(1, 1, 1, 256)), "dst repeat stride = 256"),
    (VEC, lambda: asc.add(ub(), ub(at=4096), ub(at=8192), [0, 0], 1, B()), "mask .*selects no lane"),
    (VEC, lambda: asc.exp(ub("float32"), ub("float32", 4096), [1, 1], 1, U()), "mask .*beyond the 64 lanes"),
    (VEC, lambda: asc.exp(ub(), ub(at=4096)), "exp: count = None"),
    (VEC, lambda: asc.exp(gm(), ub(at=4096), 64), "exp: dst = GlobalTensor: must be a LocalTensor"),
    (VEC, lambda: asc.exp(ub(), ub(at=4096), -1), "exp: count = -1"),
    (CUBE, lambda: asc.exp(A1(), A1(at=4096), 64), "exp: dst = L1: .*unified buffer"),
    (VEC, lambda: asc.duplicate(ub("int8"), 1, 32), "duplicate: data type = int8"),
    (VEC, lambda: asc.cast(ub("int16"), ub("float32", 4096), M.ODD, 64), "cast: round_mode = CAST_ODD"),
    (VEC, lambda: asc.cast(ub("uint32"), ub("float32", 4096), M.RINT, 64), "float32 -> uint32: the conversion"),
    (VEC, lambda: asc.compare(ub("uint8"), ub(at=4096), ub(at=8192), asc.CMPMODE.LT, 64), "count = 64: .*multiple of 256"),
    (VEC, lambda: asc.compare(ub("int16"), ub(at=4096), ub(at=8192), asc.CMPMODE.LT, 128), "dst data type = int16"),
    (VEC, lambda: asc.gather(ub(), ub(at=4096), ub("int32", 8192), 0, 64), "src_offset data type = int32"),
    (VEC, lambda: asc.brcb(ub(), ub(at=4096), 256, asc.BrcbRepeatParams()), "repeat_times = 256"),
    (VEC, lambda: asc.whole_reduce_sum(ub(at=1), ub(at=4096), 64, 1, 1, 1, 8), "dst address = 1: .*multiple of 2"),
    (VEC, lambda: asc.block_reduce_sum(ub(at=8), ub(at=4096), 1, 128, 1, 1, 8), "dst address = 8: .*multiple of 16"),
    (VEC, lambda: asc.reduce_sum(ub(), ub(at=4096), ub(at=8192, n=16), 128 * 100), "shared_tmp_buffer .*past the end"),
    (VEC, lambda: asc.trans_data_to_5hd([ub()] * 15, [ub()] * 16, asc.TransDataTo5HDParams()), "dst list = 15: must have 16 entries"),
    (VEC, lambda: asc.gather_mask(ub(), ub(at=4096), 8, False, 0, asc.GatherMaskParams()), r"src1_pattern = 8: .*1\.\.7"),
    # moves
    (VEC, lambda: asc.data_copy(ub(), gm(), 15), "count = 15: 30 bytes are not a multiple of 32"),
    (VEC, lambda: asc.data_copy(ub(), gm(), 4096), r"global tensor = bytes 0\.\.8192 .*past its end at byte 4096"),
    (VEC, lambda: asc.data_copy(ub(), gm(), asc.DataCopyParams(4096, 1)), "block_count = 4096"),
    (VEC, lambda: asc.data_copy(ub(), gm(), asc.DataCopyParams(1, 65536)), "block_len = 65536"),
    (VEC, lambda: asc.data_copy(ub("float32"), gm(), 32), "data types = float16 -> float32"),
    (VEC, lambda: asc.data_copy_pad(ub(), gm(), asc.DataCopyParams(1, 10), asc.DataCopyPadParams(True, 17)), "left_padding = 17"),
    (CUBE, lambda: asc.data_copy(A1(), gm(), asc.Nd2NzParams(1, 16385, 16, 0, 16, 16, 1, 0)), "n_value = 16385"),
    (CUBE, lambda: asc.data_copy(A1(n=64), gm(), asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0)), "dst .*past the end"),
    (CUBE, lambda: asc.data_copy(ub(), A1(), 32), "path = L1 to UB: does not exist on Ascend910B2"),
    (CUBE, lambda: asc.data_copy(gm("float32"), cube()[0], 256), "L0C reaches global memory through fixpipe"),
    (OLD, lambda: asc.set_atomic_add(asc.float16), "set_atomic_add: data type = float16: Ascend910A takes float32"),
    # cube
    (CUBE, lambda: asc.mmad(*cube(), asc.MmadParams(4096, 16, 16)), r"mmad: m = 4096: must lie in 0\.\.4095"),
    (CUBE, lambda: asc.mmad(*cube(), asc.MmadParams(128, 16, 512)), "mmad: fm .*outside L0A of 65536"),
    (CUBE, lambda: asc.mmad(*cube(acc="int32"), asc.MmadParams(16, 16, 16)), "float16 x float16 -> int32"),
    (CUBE, lambda: asc.mmad(cube()[0], cube()[2], cube()[2], asc.MmadParams(16, 16, 16)), "fm = L0B: must lie in L0A"),
    (CUBE, lambda: asc.load_data(cube()[1][8:], A1(), asc.LoadData2DParams(0, 1, 1)), "dst address = 16: .*multiple of 512"),
    (CUBE, lambda: asc.load_data(cube("int8")[1], A1("int8"), asc.LoadData2DParams(0, 1, 1, if_transpose=True)), "if_transpose = int8"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData2DParams(0, 256, 1)), "repeat_times = 256"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0, 0, 0, 256), 4, 4, 16)), "pad_list"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0,) * 4, 4, 4, 16, 16, 16, stride_w=64)), "stride_w = 64"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0,) * 4, 4, 4, 16, 32, 16)), "k_start_pt .* has 16 columns"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2((0,) * 4, 0, 0, 16, 16, 16)), "set_fmatrix was not called"),
    (CUBE, lambda: asc.fixpipe(gm("float16"), cube()[0], asc.FixpipeParamsV220(16, 16, 16, 16)), "quant_pre = NoQuant"),
    (CUBE, lambda: asc.fixpipe(gm("float32"), cube()[0], asc.FixpipeParamsV220(8, 16, 16, 16), asc.FixpipeConfig.cfg_nz()), "n_size = 8: must be a multiple of 16"),
    # chips
    (OLD, lambda: asc.maxs(ub(), ub(at=4096), 0.0, 128), "maxs: chip = Ascend910A: has no instruction vmaxs"),
    (OLD, lambda: asc.relu(ub("float32"), ub("float32", 4096), 64), "vrelu takes f16 on Ascend910A"),
    ("Ascend310", lambda: asc.div(ub(), ub(at=4096), ub(at=8192), 128), "Ascend310: has no instruction vdiv"),
    (OLD, lambda: asc.brcb(ub(), ub(at=4096), 1, asc.BrcbRepeatParams()), "has no instruction vbrcb"),
    (P3, lambda: asc.data_copy(A1(), gm(), asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0)), "does not exist on this chip"),
    (P3, lambda: asc.data_copy_pad(ub(), gm(), asc.DataCopyParams(1, 10)), "does not exist on this chip"),
    (P3, lambda: asc.fixpipe(gm("float32"), cube()[0], asc.FixpipeParamsV220(16, 16, 16, 16)), "has no fixpipe"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV1()), "does not exist on this chip"),
    (OLD, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV2()), "does not exist on this chip"),
    (OLD, lambda: asc.LocalTensor("float16", P.C2PIPE2GM), "pos = C2PIPE2GM: is no local memory"),
    (OLD, lambda: asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_V), "split chips only"),
    # synchronisation
    (OLD, lambda: asc.set_flag(E.MTE2_V, 4), r"event_id = 4: Ascend910A has ids 0\.\.3"),
    (VEC, lambda: asc.set_flag(E.MTE2_V, 8), r"event_id = 8: Ascend910B2 has ids 0\.\.7"),
    (VEC, lambda: asc.set_flag(E.M_FIX, 0), r"event = M_FIX: this core \(AIV\) has no pipe M"),
    (P3, lambda: asc.set_flag(E.M_FIX, 0), "has no pipe FIX"),
    (VEC, lambda: asc.wait_flag(E.MTE2_V, 0), "wait_flag: MTE2_V 0 = 0: no set_flag precedes it"),
    (VEC, lambda: asc.pipe_barrier(asc.PipeID.PIPE_S), "pipe_barrier: pipe"),
    (VEC, lambda: asc.cross_core_set_flag(16, 2, asc.PipeID.PIPE_MTE3), "flag_id = 16"),
    (VEC, lambda: asc.cross_core_set_flag(1, 3, asc.PipeID.PIPE_MTE3), "mode_id = 3"),
    # sorting
    (VEC, lambda: asc.sort32(ub(), ub(at=4096), ub("uint32", 8192), 256), r"sort32: repeat_time = 256: must lie in 0\.\.255"),
    (VEC, lambda: asc.sort32(ub(), ub(at=4096), ub("int32", 8192), 1), "sort32: src1 data type = int32: must be uint32"),
    (VEC, lambda: asc.sort32(ub(at=32), ub(at=4096), ub("uint32", 8192), 1), "sort32: dst address = 32: .*multiple of 256"),
    (VEC, lambda: asc.sort32(ub("float32"), ub(at=4096), ub("uint32", 8192), 1), "sort32: data types"),
    (P3, lambda: asc.sort32(ub(), ub(at=4096), ub("uint32", 8192), 1), "has no instruction vbitsort32"),
    (VEC, lambda: asc.mrg_sort(ub(), queues(), asc.MrgSort4Info((8, 8), False, 5, 1)), "mrg_sort: valid_bit = 5"),
    (VEC, lambda: asc.mrg_sort(ub(), queues(), asc.MrgSort4Info((8, 8, 8), False, 7, 1)), "mrg_sort: sort_list = 2"),
    (VEC, lambda: asc.mrg_sort(ub(), queues(), asc.MrgSort4Info((8, 4096), False, 3, 1)), r"element_lengths\[1\] = 4096"),
    (VEC, lambda: asc.mrg_sort(ub(at=4096), queues(), asc.MrgSort4Info((8, 8), False, 3, 1)), "dst and src1 .*must not overlap"),
    (VEC, lambda: asc.mrg_sort(ub(), queues(), asc.MrgSort4Info((8, 8), False, 3, 2)), "mrg_sort: repeat_times = 2"),
    (VEC, lambda: asc.mrg_sort(ub(), queues(), [8, 8]), "mrg_sort: sorted_num = None: is missing"),
    (VEC, lambda: asc.mrg_sort4(ub(), queues(), asc.MrgSort4Info((8, 8), False, 3, 1)), "has no region proposals"),
    (P3, lambda: asc.rp_sort16(ub(), ub(at=4096), 256), "rp_sort16: repeat_time = 256"),
    (P3, lambda: asc.proposal_concat(ub(), ub(at=4096), 1, 6), r"proposal_concat: mode_number = 6: 0\.\.5"),
    (OLD, lambda: asc.proposal_extract(ub("float32"), ub("float32", 4096), 1, 0), "vextract takes f16 on Ascend910A"),
    # computing conversions, dequantisation, interpolation
    (VEC, lambda: asc.mul_cast(ub("int16"), ub(at=4096), ub(at=8192), 64), "mul_cast: data types = float16 -> int16"),
    (VEC, lambda: asc.add_relu_cast(ub("int8"), ub(at=4096), ub("int16", 8192), 64), "both sources must have the same type"),
    (OLD, lambda: asc.sub_relu_cast(ub("int8"), ub(at=4096), ub(at=8192), 64), "has no instruction vsubreluconv"),
    (VEC, lambda: asc.add_deq_relu(ub(), ub(at=4096), ub(at=8192), 64), "takes int32 sources and a half destination"),
    (B1, lambda: asc.add_deq_relu(ub(), ub("int32", 4096), ub("int32", 8192), 64), "has no instruction vadddeqrelu"),
    (VEC, lambda: asc.cast_deq(ub("int8"), ub("int16", 4096), 128), "cast_deq: scale = None: set_deq_scale"),
    (VEC, lambda: asc.cast_deq(ub("int16"), ub("int32", 4096), 128), "cast_deq: data types = int32 -> int16"),
    (B1, lambda: asc.cast_deq(ub("int8"), ub("int16", 4096), 128), "has no dequantising conversion"),
    (VEC, lambda: asc.set_deq_scale(1.0, 300, True), r"set_deq_scale: offset = 300: must lie in -256\.\.255"),
    (VEC, lambda: asc.set_deq_scale(ub("uint64"), asc.VdeqInfo((1.0,) * 15, (0,) * 16, (True,) * 16)), "vdeq_info.scale = 15: must have 16"),
    (VEC, lambda: bilinear(h=0), r"bilinear_interpolation: h_repeat = 0: must lie in 1\.\.255"),
    (VEC, lambda: bilinear(gap=120), "v_r_offset = 120"),
    (VEC, lambda: bilinear(offsets="int32"), "src0_offset data type = int32"),
    (OLD, lambda: bilinear(h=1), "has no bilinear interpolation"),
    # rearrangement
    (P3, lambda: asc.scatter(ub(), ub(at=4096), ub("int32", 8192), 0, 64), "dst_offset data type = int32"),
    (P3, lambda: asc.scatter(ub(), ub(at=4096), ub("uint32", 8192), 3, 64), "scatter: dst_base = 3: must be a multiple of 2"),
    (VEC, lambda: asc.scatter(ub(), ub(at=4096), ub("uint32", 8192), 0, 64), "has no instruction vscatter"),
    (VEC, lambda: asc.create_vec_index(ub("uint16"), 0, 64), "create_vec_index: data type = uint16"),
    (VEC, lambda: asc.create_vec_index(ub("int16"), 40000, 64), "first_value = 40000"),
    (OLD, lambda: asc.arange(ub(), 0, 64), "create_vec_index: chip = Ascend910A"),
    (VEC, lambda: asc.gatherb(ub(), ub(at=4096), ub("int32", 8192), 1, asc.GatherRepeatParams(1, 8)), "gatherb: offset data type = int32"),
    (VEC, lambda: asc.transpose(ub("float32"), ub("float32", 4096)), "vtranspose takes .* on Ascend910B2"),
    (VEC, lambda: asc.transpose(ub(), ub(at=8192), None, nchw(16, 16)), "shared_tmp_buffer = None: 9216 bytes are needed"),
    (VEC, lambda: asc.transpose(ub(), ub(at=8192), ub(at=16384), nchw(16, 15)), "rows must be multiples of 32 bytes"),
    (VEC, lambda: asc.trans_data_to_5hd(ub("uint32"), ub("uint64", 512), asc.TransDataTo5HDParams()), "dst data type = uint32: .*uint64"),
    (VEC, lambda: asc.pair_reduce_sum(ub(at=16), ub(at=4096), 1, 128, 1, 1, 8), "pair_reduce_sum: dst address"),
    # loads and fills
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData2DParamsV2()), "exists on later chips only"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), 7), "load_data: params = int: expected LoadData2DParams"),
    (CUBE, lambda: asc.load_data(cube()[1], A1(), asc.LoadData2DParams(1, 3, 1, addr_mode=1)), "src_stride = 1: walks below"),
    (CUBE, lambda: asc.load_data(A1(), A1(at=4096), asc.LoadData2DParams(0, 1, 1)), "dst = L1: must lie in L0A or L0B"),
    (CUBE, lambda: asc.load_data_with_transpose(A1(), A1(at=512), asc.LoadData2dTransposeParams()), "operands = L1 -> L1"),
    (CUBE, lambda: asc.load_data_with_transpose(cube()[1], A1(), asc.LoadData2dTransposeParams(0, 256)), "repeat_times = 256"),
    (CUBE, lambda: asc.load_data_with_transpose(cube()[1], A1(), asc.LoadData2dTransposeParamsV2()), "takes LoadData2dTransposeParams"),
    (P3, lambda: asc.load_data_with_transpose(cube()[1], A1(), asc.LoadData2dTransposeParams()), "does not exist on this chip"),
    (CUBE, lambda: asc.load_data_with_sparse(cube("int8")[2], A1("int8"), A1("int8", 512), asc.LoadData2DParams()), "idx data type = int8: must be uint8"),
    (CUBE, lambda: asc.mmad_with_sparse(*cube("int8", "int32"), asc.MmadParams(16, 16, 30)), "k = 30: must be a multiple of 4"),
    (CUBE, lambda: asc.mmad_with_sparse(*cube("float16", "int32"), asc.MmadParams(16, 16, 32)), "fm data type = float16: must be int8"),
    (P3, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV1(fetch_filter_w=1)), "fetch_filter_w = 1"),
    (P3, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV1(jump_stride=0)), "jump_stride = 0"),
    (P3, lambda: asc.load_data(cube()[1], A1(), asc.LoadData3DParamsV1(c_size=2)), "c_size = 2"),
    (CUBE, lambda: asc.set_fmatrix(0, 4, (0,) * 4), "set_fmatrix: l1_h = 0"),
    (CUBE, lambda: asc.set_load_data_boundary(100), "set_load_data_boundary: boundary = 100"),
    (B1, lambda: asc.set_load_data_boundary(2048), "does not exist on this chip"),
    (CUBE, lambda: asc.set_load_data_repeat(asc.LoadDataRepeatParam(256)), "repeat_time = 256"),
    (CUBE, lambda: asc.init_const_value(A1(), asc.InitConstValueParams(32768, 1)), "init_const_value: repeat_times = 32768"),
    (CUBE, lambda: asc.init_const_value(cube()[0], asc.InitConstValueParams(1, 1)), "dst = L0C: must lie in L1, L0A or L0B"),
    (P3, lambda: asc.init_const_value(A1(), asc.InitConstValueParams(1, 1)), "does not exist on this chip"),
    # slices, padding, scalar unit
    (VEC, lambda: asc.data_copy(ub(), gm(), pieces(0), pieces(0), 1), "burst_len = 0"),
    (VEC, lambda: asc.data_copy(ub(), gm(), pieces(1), pieces(2), 1), "both sides must select the same pieces"),
    (VEC, lambda: asc.data_copy(ub(), gm(), pieces(1), pieces(1), 2), r"dim_value = 2: must lie in 1\.\.1"),
    (B1, lambda: asc.data_copy(ub(), gm(), pieces(1), pieces(1), 1), "does not exist on this chip"),
    (P3, lambda: asc.set_pad_value(1), "set_pad_value: chip = Ascend310P3"),
    (VEC, lambda: asc.set_pad_value(1, P.A1), "set_pad_value: pos = A1"),
    (VEC, lambda: asc.scalar_get_count_of_value(3, 2), "scalar_get_count_of_value: count_value = 2"),
    (VEC, lambda: asc.icache_preload(9), r"icache_preload: pre_fetch_len = 9: must lie in 0\.\.7"),
    (VEC, lambda: asc.get_sys_workspace(), "set_sys_workspace was not called"),
    (VEC, lambda: asc.inline("x = 1;"), "inline: code = 'x = 1;': text of another language"),
    (VEC, lambda: asc.get_hccl_context(1), "set_hccl_context was not called"),
    (VEC, lambda: asc.dump_tensor(ub(n=4), 1, 5), r"dump_tensor: dump_size = 0\.\.5: the tensor has 4 elements"),
    # tensors and queues
    (VEC, lambda: ub(n=10)[2:5], r"only \[start:\] is supported"),
    (VEC, lambda: asc.LocalTensor("float16", P.VECIN, 0, 200000), "UB of Ascend910B2 has 196608 bytes"),
    (VEC, lambda: ub(n=4).get_value(4), "get_value: index = 4: the tensor has 4 elements"),
    (VEC, lambda: asc.TPipe().init_buffer(asc.TQue(P.VECIN, 2), 2, 100000), "UB of Ascend910B2 has 196608 bytes"),
    (VEC, lambda: asc.TQue(P.VECIN, 1).alloc_tensor("half"), "init_buffer was not called"),
]  # fmt: skip


def core_of(soc: Any, chip: str, memory: bool = True) -> Core:
    name, _, kind = chip.partition(":")
    description = soc(name)
    kind = kind or ("AIV" if description.chip.split_cores else "AICORE")
    data = [np.zeros(4096, np.uint8)] if memory else None
    return Core(description, kind, 0, 1, gm=data, trace=None if memory else TraceBuilder())


@pytest.mark.parametrize(("chip", "call", "message"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_restrictions(soc: Any, chip: str, call: Callable[[], Any], message: str) -> None:
    with on_core(core_of(soc, chip)), pytest.raises(asc.InstructionError, match=message) as caught:
        call()
    assert caught.value.place is not None and caught.value.place[0] == __file__
    if "bilinear(" not in inspect.getsource(call):
        assert caught.value.place[1] == inspect.getsourcelines(call)[1]
    assert str(caught.value).startswith(f"{__file__}:")


@pytest.mark.parametrize(("chip", "call", "message"), [c for c in CASES if "no set_flag" not in c[2]],
                         ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_restrictions_while_tracing(soc: Any, chip: str, call: Callable[[], Any], message: str) -> None:
    """The same errors without values."""
    with on_core(core_of(soc, chip, memory=False)), pytest.raises(asc.InstructionError, match=message):
        call()


def test_gather_offsets_are_checked_with_values(soc: Any) -> None:
    core = core_of(soc, VEC)
    core.memory["UB"][8192:8200] = np.array([0, 4000], np.uint32).view(np.uint8)  # type: ignore[index]
    with on_core(core), pytest.raises(asc.InstructionError, match="offset 4000 is outside the source of 128 bytes"):
        asc.gather(ub(), ub(at=4096, n=64), ub("uint32", 8192), 0, 2)


def test_queue_discipline(soc: Any) -> None:
    with on_core(core_of(soc, VEC)):
        pipe, que = asc.TPipe(), asc.TQue(P.VECIN, 2)
        pipe.init_buffer(que, 2, 64)
        first, second = que.alloc_tensor("half"), que.alloc_tensor("half")
        assert (first.addr, second.addr, first.get_size()) == (0, 64, 32)
        with pytest.raises(asc.InstructionError, match="all in use at VECIN: free_tensor is missing"):
            que.alloc_tensor("half")
        with pytest.raises(asc.InstructionError, match="is empty: enque is missing"):
            que.deque("half")
        que.enque(first)
        assert que.deque("half").addr == 0
        que.free_tensor(first)
        with pytest.raises(asc.InstructionError, match="is not in use in this queue"):
            que.free_tensor(first)
        assert que.alloc_tensor("half").addr == 0


def test_queue_flags(soc: Any) -> None:
    """enque sets the forward flag, deque waits for it; free sets the backward one, the slot's next alloc waits."""
    core = core_of(soc, VEC, memory=False)
    with on_core(core):
        pipe, que = asc.TPipe(), asc.TQue(P.VECOUT, 1)
        pipe.init_buffer(que, 1, 64)
        for _ in range(2):
            t = que.alloc_tensor("half")
            que.enque(t)
            que.free_tensor(que.deque("half"))
    from ascend_sim.isa.instr import Op, Pipe, channel

    v, m = Pipe.V, Pipe.MTE3
    assert core.tb is not None
    sync = [(op, arg) for op, _, arg, _ in core.tb.code]
    once = [(Op.SET, channel(v, m, 0)), (Op.WAIT, channel(v, m, 0)), (Op.SET, channel(m, v, 0))]
    assert sync == [*once, (Op.WAIT, channel(m, v, 0)), *once]


def test_bank_conflicts(soc: Any) -> None:
    """asc-devkit's bank page: sources in the same groups conflict in every repeat, 256 bytes further none does."""
    core = core_of(soc, VEC, memory=False)
    with on_core(core):
        src = ub("float32", 0)
        for at in (65536, 65536 + 256):
            asc.add(ub("float32", 131072), src, ub("float32", at), 64, 64, B())
    assert core.tb is not None
    works = list(core.tb._works)
    assert [w.bank_conflicts for w in works] == [64, 0]


def test_every_row_is_documented() -> None:
    for row in ROWS.values():
        assert row.text and row.calls
        for call in row.calls:
            assert hasattr(asc, call), f"{row.name} names {call}"


@pytest.mark.parametrize(
    ("enum", "values"),
    [(asc.HardEvent, {"MTE2_MTE1": 0, "V_V": 10, "M_FIX": 17, "FIX_FIX": 34}), (asc.PipeID, {"PIPE_ALL": 6, "PIPE_FIX": 10}),
     (asc.TPosition, {"GM": 0, "CO1": 7, "VECCALC": 11}), (asc.RoundMode, {"CAST_NONE": 0, "CAST_ODD": 6}),
     (asc.QuantModes, {"NoQuant": 0, "VREQ8": 8}), (asc.CMPMODE, {"LT": 0, "NE": 5})],
)  # fmt: skip
def test_enum_values_are_pyascs(enum: Any, values: dict[str, int]) -> None:
    for name, value in values.items():
        assert enum[name] == value
