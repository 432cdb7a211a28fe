"""Host-side tiling of matrix multiplications: how the whole is cut for cores and each core's part for its buffers.

The cuts follow the rules of thumb of asc-devkit's matmul guide: single cores as square and as equal as the core count
allows, base blocks that use L0 with two buffers each, several K steps per L1 load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ascend_sim.asc.device import device
from ascend_sim.soc import Soc, SocError, load_soc, soc_names


class TPosition(IntEnum):
    GM = 0
    A1 = 1
    A2 = 2
    B1 = 3
    B2 = 4
    C1 = 5
    C2 = 6
    CO1 = 7
    CO2 = 8
    VECIN = 9
    VECOUT = 10
    VECCALC = 11
    LCM = 11
    SPM = 13
    SHM = 13
    TSCM = 14
    MAX = 15


class CubeFormat(IntEnum):
    ND = 0
    NZ = 1
    ZN = 2
    ZZ = 3
    NN = 4
    ND_ALIGN = 5
    SCALAR = 6
    VECTOR = 7
    ROW_MAJOR = 8
    COLUMN_MAJOR = 9


class DataType(IntEnum):
    """Element types by their framework numbers."""

    DT_FLOAT = 0
    DT_FLOAT16 = 1
    DT_INT8 = 2
    DT_INT32 = 3
    DT_UINT8 = 4
    DT_INT16 = 6
    DT_UINT16 = 7
    DT_UINT32 = 8
    DT_INT64 = 9
    DT_UINT64 = 10
    DT_DOUBLE = 11
    DT_BOOL = 12
    DT_STRING = 13
    DT_COMPLEX64 = 16
    DT_COMPLEX128 = 17
    DT_QINT8 = 18
    DT_QINT16 = 19
    DT_QINT32 = 20
    DT_QUINT8 = 21
    DT_QUINT16 = 22
    DT_STRING_REF = 24
    DT_DUAL = 25
    DT_VARIANT = 26
    DT_BF16 = 27
    DT_BFLOAT16 = 27
    DT_UNDEFINED = 28
    DT_INT4 = 29
    DT_UINT1 = 30
    DT_INT2 = 31
    DT_MAX = 39


class MatrixTraverse(IntEnum):
    NOSET = 0
    FIRSTM = 1
    FIRSTN = 2


class MatrixMadType(IntEnum):
    NORMAL = 0
    HF32 = 1
    MXMODE = 2


class DequantType(IntEnum):
    SCALAR = 0
    TENSOR = 1


class ScheduleType(IntEnum):
    INNER_PRODUCT = 0
    OUTER_PRODUCT = 1


_BYTES = {
    DataType.DT_FLOAT: 4, DataType.DT_FLOAT16: 2, DataType.DT_BF16: 2, DataType.DT_INT8: 1, DataType.DT_UINT8: 1,
    DataType.DT_INT32: 4, DataType.DT_UINT32: 4, DataType.DT_INT16: 2, DataType.DT_UINT16: 2,
}  # fmt: skip
OK, FAILED = 0, -1


class PlatformAscendC:
    """A chip as host code asks about it: core counts and memory sizes in bytes."""

    def __init__(self, soc: Soc) -> None:
        self.soc = soc

    @property
    def name(self) -> str:
        return self.soc.name

    def get_core_num(self) -> int:
        """Cores of a pure vector kernel on split chips, else AI cores."""
        return self.get_core_num_aiv() if self.soc.chip.split_cores else self.get_core_num_aic()

    def get_core_num_aic(self) -> int:
        return self.soc.cores.ai_core_count

    def get_core_num_aiv(self) -> int:
        return self.soc.cores.vector_core_count or self.soc.cores.ai_core_count

    def get_core_mem_size(self, memory: str) -> int:
        """Bytes of ``L0A``, ``L0B``, ``L0C``, ``L1``, ``UB``, ``BT``, ``FB`` or ``L2``."""
        b = self.soc.buffers
        sizes = {
            "L0A": b.l0a_bytes, "L0B": b.l0b_bytes, "L0C": b.l0c_bytes, "L1": b.l1_bytes, "UB": b.ub_bytes,
            "BT": b.bt_bytes, "FB": b.fb_bytes, "L2": self.soc.memory.l2_bytes,
        }  # fmt: skip
        if memory.upper() not in sizes:
            raise ValueError(f"get_core_mem_size: memory = {memory!r}: expected one of {', '.join(sizes)}")
        return sizes[memory.upper()]

    def calc_tschblock_dim(self, slice_num: int, aic_core_num: int, aiv_core_num: int) -> int:
        """Blocks of a MIX kernel for ``slice_num`` slices on the vector cores."""
        ratio = max(aiv_core_num // max(aic_core_num, 1), 1)
        return math.ceil(slice_num / ratio)


class PlatformAscendCManager:
    @staticmethod
    def get_instance(soc_version: str | None = None) -> PlatformAscendC:
        """The chip in use, or one by name. Raises SocError for a name that is not described."""
        if soc_version is None:
            return PlatformAscendC(device().soc())
        if soc_version not in soc_names():
            raise SocError(f"soc_version = {soc_version!r} is not described; there are {', '.join(soc_names())}")
        return PlatformAscendC(load_soc(soc_version))


def get_ascendc_platform() -> PlatformAscendC:
    """The chip in use."""
    return PlatformAscendCManager.get_instance()


@dataclass
class _Operand:
    position: TPosition = TPosition.GM
    format: CubeFormat = CubeFormat.ND
    dtype: DataType = DataType.DT_FLOAT16
    trans: bool = False

    @property
    def size(self) -> int:
        return _BYTES.get(self.dtype, 2)


@dataclass
class MatmulConfigParams:
    mm_config_type: int = 1
    enable_l1_cache_ub: bool = False
    schedule_type: ScheduleType = ScheduleType.INNER_PRODUCT
    traverse: MatrixTraverse = MatrixTraverse.NOSET
    en_vec_nd2nz: bool = False


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


class MatmulApiTilingBase:
    """What all tilings share. Setters return 0, or -1 for values that make no sense."""

    def __init__(self, platform: PlatformAscendC | None = None) -> None:
        self.platform = platform or get_ascendc_platform()
        self.a, self.b, self.c, self.bias = _Operand(), _Operand(), _Operand(), _Operand()
        self.c.dtype = self.bias.dtype = DataType.DT_FLOAT
        self.has_bias = False
        self.org = (-1, -1, -1, -1)
        self.shape = (-1, -1, -1)
        self.fixed = (-1, -1, -1)
        self.largest, self.smallest = (-1, -1, -1), (-1, -1, -1)
        self.traverse = MatrixTraverse.NOSET
        self.space = (-1, -1, -1, -1)
        self.double = (True, True)
        self.mad = MatrixMadType.NORMAL
        self.layouts: dict[str, tuple[int, ...]] = {}
        self.batch = 0
        self.base = (0, 0, 0)

    # -- what is multiplied ------------------------------------------------------------------------------------

    def set_a_type(self, pos: Any, type: Any, data_type: Any, is_trans: bool = False) -> int:
        self.a = _Operand(TPosition(pos), CubeFormat(type), DataType(data_type), bool(is_trans))
        return OK

    def set_b_type(self, pos: Any, type: Any, data_type: Any, is_trans: bool = False) -> int:
        self.b = _Operand(TPosition(pos), CubeFormat(type), DataType(data_type), bool(is_trans))
        return OK

    def set_c_type(self, pos: Any, type: Any, data_type: Any) -> int:
        self.c = _Operand(TPosition(pos), CubeFormat(type), DataType(data_type))
        return OK

    def set_bias_type(self, pos: Any, type: Any, data_type: Any) -> int:
        self.bias = _Operand(TPosition(pos), CubeFormat(type), DataType(data_type))
        return OK

    def enable_bias(self, is_bias_in: bool = True) -> int:
        self.has_bias = bool(is_bias_in)
        return OK

    def set_org_shape(self, org_m_in: int, org_n_in: int, org_k_in: int, org_kb_in: int | None = None) -> int:
        self.org = (int(org_m_in), int(org_n_in), int(org_k_in), int(org_kb_in or org_k_in))
        return OK if min(self.org) > 0 else FAILED

    def set_shape(self, m: int, n: int, k: int) -> int:
        self.shape = (int(m), int(n), int(k))
        return OK if min(self.shape) > 0 else FAILED

    def set_a_layout(self, b: int, s: int, n: int, g: int, d: int) -> int:
        self.layouts["a"] = (b, s, n, g, d)
        return OK

    def set_b_layout(self, b: int, s: int, n: int, g: int, d: int) -> int:
        self.layouts["b"] = (b, s, n, g, d)
        return OK

    def set_c_layout(self, b: int, s: int, n: int, g: int, d: int) -> int:
        self.layouts["c"] = (b, s, n, g, d)
        return OK

    def set_batch_num(self, batch: int) -> int:
        self.batch = int(batch)
        return OK if batch > 0 else FAILED

    def set_batch_info_for_normal(self, batch_a: int, batch_b: int, m: int, n: int, k: int) -> int:
        self.batch = max(int(batch_a), int(batch_b))
        return self.set_shape(m, n, k)

    # -- how it is to be cut -----------------------------------------------------------------------------------

    def set_fix_split(self, base_m_in: int = -1, base_n_in: int = -1, base_k_in: int = -1) -> int:
        self.fixed = (int(base_m_in), int(base_n_in), int(base_k_in))
        return OK

    def set_split_range(
        self, max_base_m: int = -1, max_base_n: int = -1, max_base_k: int = -1, min_base_m: int = -1,
        min_base_n: int = -1, min_base_k: int = -1,
    ) -> int:  # fmt: skip
        self.largest = (max_base_m, max_base_n, max_base_k)
        self.smallest = (min_base_m, min_base_n, min_base_k)
        return OK

    def set_traverse(self, traverse: Any) -> int:
        self.traverse = MatrixTraverse(traverse)
        return OK

    def set_buffer_space(self, l1_size: int = -1, l0_c_size: int = -1, ub_size: int = -1, bt_size: int = -1) -> int:
        self.space = (l1_size, l0_c_size, ub_size, bt_size)
        return OK

    def set_double_buffer(
        self, a: bool, b: bool, c: bool, bias: bool, trans_nd2nz: bool = True, trans_nz2nd: bool = True
    ) -> int:
        self.double = (bool(a), bool(b))
        return OK

    def set_mad_type(self, mad_type: Any) -> int:
        self.mad = MatrixMadType(mad_type)
        return OK

    def set_dequant_type(self, dequant_type: Any) -> int:
        DequantType(dequant_type)
        return OK

    def set_sparse(self, is_sparse_in: bool = False) -> int:
        return FAILED if is_sparse_in else OK

    def set_matmul_config_params(self, *args: Any, **kwargs: Any) -> None:
        config = args[0] if args and isinstance(args[0], MatmulConfigParams) else kwargs.get("config_params")
        traverse = config.traverse if isinstance(config, MatmulConfigParams) else kwargs.get("traverse_in")
        if traverse is not None:
            self.traverse = MatrixTraverse(traverse)

    # -- results -----------------------------------------------------------------------------------------------

    def get_base_m(self) -> int:
        return self.base[0]

    def get_base_n(self) -> int:
        return self.base[1]

    def get_base_k(self) -> int:
        return self.base[2]

    def _sizes(self) -> tuple[int, int, int]:
        """(m, n, k) to be multiplied: the shape, or the whole matrices where no shape was set."""
        m, n, k = self.shape
        return (m if m > 0 else self.org[0], n if n > 0 else self.org[1], k if k > 0 else self.org[2])

    def _room(self, index: int, whole: int) -> int:
        return self.space[index] if self.space[index] > 0 else whole

    def _bases(self, m: int, n: int, k: int) -> tuple[int, int, int] | None:
        """Base block of a single core's (m, n, k): as large as L0 allows with two buffers of A and B each, and as
        square as the shape allows. None when the fixed sizes do not fit."""
        chip = self.platform
        size = max(self.a.size, self.b.size)
        l0a, l0b = chip.get_core_mem_size("L0A"), chip.get_core_mem_size("L0B")
        l0c = self._room(1, chip.get_core_mem_size("L0C"))
        ub = l0c
        if self.c.position != TPosition.GM and min(self.fixed[:2]) < 1:
            # a result for the vector unit shares the unified buffer with a second one on its way out
            ub = self._room(2, chip.get_core_mem_size("UB")) // 2
        unit_k = max(32 // size, 16)
        unit_n = 32 if size == 1 else 16
        best: tuple[float, tuple[int, int, int]] | None = None
        for base_m in self._choices(0, m, 16):
            for base_n in self._choices(1, n, unit_n):
                if base_m * base_n * 4 > min(l0c, ub) or (self.has_bias and base_n * 4 > chip.get_core_mem_size("BT")):
                    continue
                depth = min(l0a // (2 * _up(base_m, 16) * size), l0b // (2 * _up(base_n, unit_n) * size))
                if self.fixed[2] > 0:
                    base_k = self.fixed[2]
                    if max(base_m * base_k * size / l0a, base_n * base_k * size / l0b) > 1:
                        continue
                else:
                    base_k = min(depth // unit_k * unit_k, _up(k, unit_k), self._limit(2, 4096))
                    if base_k < unit_k:
                        continue
                # traffic of the core's part, then fewer and deeper steps
                traffic = math.ceil(m / base_m) * base_m * k * math.ceil(n / base_n) + math.ceil(n / base_n) * (
                    base_n * k * math.ceil(m / base_m)
                )
                uneven = (m % base_m != 0) + (n % base_n != 0)
                score = traffic * (1 + 0.5 * uneven) - base_k
                if best is None or score < best[0]:
                    best = (score, (base_m, base_n, base_k))
        return None if best is None else best[1]

    def _limit(self, index: int, whole: int) -> int:
        return self.largest[index] if self.largest[index] > 0 else whole

    def _choices(self, index: int, size: int, unit: int) -> list[int]:
        if self.fixed[index] > 0:
            return [self.fixed[index]]
        top = min(_up(size, unit), self._limit(index, 256))
        low = max(self.smallest[index], unit)
        return [x for x in range(unit, top + 1, unit) if x >= low or x == top] or [unit]

    def _fill(self, tiling: Any, cores: int, single: tuple[int, int, int]) -> int:
        """Write a tiling for single cores of a size. -1 when there is none."""
        m, n, k = self._sizes()
        bases = self._bases(*single)
        if bases is None:
            return FAILED
        self.base = bases
        base_m, base_n, base_k = bases
        chip = self.platform
        size = max(self.a.size, self.b.size)
        l1 = self._room(0, chip.get_core_mem_size("L1")) - 8192
        steps = max(min(l1 // (2 * (base_m + base_n) * base_k * size), math.ceil(single[2] / base_k), 8), 1)
        l0a, l0b = chip.get_core_mem_size("L0A"), chip.get_core_mem_size("L0B")
        l0c = self._room(1, chip.get_core_mem_size("L0C"))
        org = self.org if self.org[0] > 0 else (m, n, k, k)
        values = {
            "used_core_num": cores, "m": org[0], "n": org[1], "k_a": org[2], "k_b": org[3], "single_core_m": single[0],
            "single_core_n": single[1], "single_core_k": single[2], "base_m": base_m, "base_n": base_n,
            "base_k": base_k, "depth_a1": 2 * steps, "depth_b1": 2 * steps, "step_m": 1, "step_n": 1,
            "step_k_a": steps, "step_k_b": steps, "is_bias": int(self.has_bias), "trans_length": 0,
            "iterate_order": 1 if self.traverse == MatrixTraverse.FIRSTN else 0, "share_mode": 0,
            "share_l1_size": l1 + 8192, "share_l0c_size": base_m * base_n * 4, "share_ub_size": 0,
            "db_l0a": 2 if 2 * base_m * base_k * size <= l0a else 1,
            "db_l0b": 2 if 2 * base_n * base_k * size <= l0b else 1,
            "db_l0c": 2 if 2 * base_m * base_n * 4 <= l0c else 1, "batch_num": self.batch,
        }  # fmt: skip
        names = {"a": ("b", "s", "n", "g", "d"), "b": ("b", "s", "n", "g", "d"), "c": ("b", "s1", "n", "g", "s2")}
        for operand, layout in self.layouts.items():
            values |= {f"{operand}_layout_info_{x}": v for x, v in zip(names[operand], layout, strict=True)}
        for name, value in values.items():
            setattr(tiling, name, int(value))
        return OK

    def get_tiling(self, tiling: Any) -> int:
        raise NotImplementedError


class MatmulApiTiling(MatmulApiTilingBase):
    """One core's part as a whole."""

    def get_tiling(self, tiling: Any) -> int:
        """Fill a `TCubeTiling`; 0, or -1 when the sizes are missing or do not fit."""
        sizes = self._sizes()
        return FAILED if min(sizes) < 1 else self._fill(tiling, 1, sizes)


class BatchMatmulTiling(MatmulApiTiling):
    """A batch of products, each on one core."""

    def get_core_num(self) -> tuple[int, int, int]:
        return 1, 1, 1


class MultiCoreMatmulTiling(MatmulApiTilingBase):
    """Cut over several cores along M and N."""

    def __init__(self, platform: PlatformAscendC | None = None) -> None:
        super().__init__(platform)
        self.dim = 1
        self.single = (-1, -1, -1)
        self.single_most, self.single_least = (-1, -1, -1), (-1, -1, -1)
        self.align = (-1, -1, -1)
        self.split_k = False
        self.result: tuple[tuple[int, int, int], tuple[int, int, int]] = ((0, 0, 0), (0, 0, 0))

    def set_dim(self, dim: int) -> int:
        self.dim = int(dim)
        return OK if dim > 0 else FAILED

    def set_single_shape(self, single_m_in: int = -1, single_n_in: int = -1, single_k_in: int = -1) -> int:
        self.single = (int(single_m_in), int(single_n_in), int(single_k_in))
        return OK

    def set_single_range(
        self, max_m: int = -1, max_n: int = -1, max_k: int = -1, min_m: int = -1, min_n: int = -1, min_k: int = -1
    ) -> int:
        self.single_most, self.single_least = (max_m, max_n, max_k), (min_m, min_n, min_k)
        return OK

    def set_align_split(self, align_m: int, align_n: int, align_k: int) -> int:
        self.align = (align_m, align_n, align_k)
        return OK

    def enable_multi_core_split_k(self, flag: bool) -> None:
        self.split_k = bool(flag)

    def get_core_num(self) -> tuple[int, int, int]:
        """(cores, cores along M, cores along N) of the last tiling."""
        return self.result[0]

    def get_single_shape(self) -> tuple[int, int, int]:
        """(m, n, k) of a single core in the last tiling."""
        return self.result[1]

    def _unit(self, index: int, base: int) -> int:
        if self.align[index] > 0:
            return self.align[index]
        return self.fixed[index] if self.fixed[index] > 0 else base

    def get_tiling(self, tiling: Any) -> int:
        """Fill a `TCubeTiling`; 0, or -1 when the sizes are missing or do not fit.

        Of all cuts into at most ``dim`` parts the one with the smallest part wins, then the one that reads least;
        parts that base blocks divide evenly are preferred.
        """
        m, n, k = self._sizes()
        if min(m, n, k) < 1:
            return FAILED
        best: tuple[tuple[float, ...], int, int, tuple[int, int, int]] | None = None
        for rows in range(1, self.dim + 1):
            for columns in range(1, self.dim // rows + 1):
                single_m = self._part(0, m, rows)
                single_n = self._part(1, n, columns)
                used_m, used_n = math.ceil(m / single_m), math.ceil(n / single_n)
                tail = m % single_m != 0 or n % single_n != 0
                split = any(
                    self.fixed[i] > 0 and size % self.fixed[i] for i, size in enumerate((single_m, single_n))
                )
                key = (float(split), single_m * single_n * (1.05 if tail else 1.0), float(single_m + single_n))
                if best is None or key < best[0]:
                    best = (key, used_m, used_n, (single_m, single_n, self.single[2] if self.single[2] > 0 else k))
        assert best is not None
        _, used_m, used_n, single = best
        self.result = ((used_m * used_n, used_m, used_n), single)
        return self._fill(tiling, used_m * used_n, single)

    def _part(self, index: int, size: int, parts: int) -> int:
        if self.single[index] > 0:
            return self.single[index]
        unit = self._unit(index, 16)
        part = _up(math.ceil(size / parts), unit)
        if self.single_most[index] > 0:
            part = min(part, self.single_most[index])
        part = max(part, self.single_least[index])
        return min(part, size) if size >= unit else size


__all__ = [
    "BatchMatmulTiling", "CubeFormat", "DataType", "DequantType", "MatmulApiTiling", "MatmulConfigParams",
    "MatrixMadType", "MatrixTraverse", "MultiCoreMatmulTiling", "PlatformAscendC", "PlatformAscendCManager",
    "ScheduleType", "TPosition", "get_ascendc_platform",
]  # fmt: skip
