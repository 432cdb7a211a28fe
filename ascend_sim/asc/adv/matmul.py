"""The high-level matrix object: set operands, iterate over base blocks, fetch results; expands to instructions.

On a cube core (or a coupled core) it works by itself. On the vector cores of a MIX kernel it sends its work to the cube
core of the block (`ascend_sim.asc.group`), which leaves results in global memory; blocks for the unified buffer travel
through the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from ascend_sim.asc.adv.cube_worker import CubeWorker, Exit, Matrix, Product
from ascend_sim.asc.adv.tiling import TCubeTiling
from ascend_sim.asc.adv.types import MatmulConfig, MatmulType, MatrixOffset
from ascend_sim.asc.calls_move import data_copy, data_copy_pad
from ascend_sim.asc.calls_sync import set_flag, wait_flag
from ascend_sim.asc.group import EndOfProgram
from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.params import DataCopyExtParams, DataCopyParams
from ascend_sim.asc.scalars import Int
from ascend_sim.asc.tensor import GlobalAddress, GlobalTensor, LocalTensor
from ascend_sim.isa.dtypes import bfloat16, float16, float32, int8, int32, uint8
from ascend_sim.isa.enums import CubeFormat, HardEvent, IterateOrder, LayoutMode, QuantModes, TPosition
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError

E = HardEvent
CALL = "Matmul"
UB_POSITIONS = (TPosition.VECIN, TPosition.VECOUT, TPosition.VECCALC)
AUTO_ID = 7  # event id of the object's own flags on a vector core

# accumulator, C -> conversion without and with a vector of scales
_EXITS = {
    ("float32", "float16"): (QuantModes.F322F16, None), ("float32", "bfloat16"): (QuantModes.F322BF16, None),
    ("float32", "int8"): (QuantModes.QF322B8_PRE, QuantModes.VQF322B8_PRE),
    ("int32", "float16"): (QuantModes.DEQF16, QuantModes.VDEQF16),
    ("int32", "int8"): (QuantModes.REQ8, QuantModes.VREQ8), ("int32", "uint8"): (QuantModes.REQ8, QuantModes.VREQ8),
}  # fmt: skip


class MatmulIterator(AbstractContextManager["Int"]):
    """The base blocks of one pass: ``for count in matmul.iterate():``. A ``with`` statement in a kernel means the same
    loop (see `ascend_sim.asc.source`)."""

    def __init__(self, matmul: Matmul, sync: bool) -> None:
        self._matmul, self._sync = matmul, sync

    def __iter__(self) -> Iterator[Int]:
        matmul = self._matmul
        while matmul.advance():
            yield Int(matmul.index)

    def __bool__(self) -> bool:
        return self._matmul.advance()

    def __enter__(self) -> Int:
        raise RuntimeError(
            "with matmul.iterate(): the body runs once per base block, which only a kernel marked with jit does; "
            "elsewhere write `for count in matmul.iterate():`"
        )

    def __exit__(self, *_: object) -> None:
        return None


class Matmul:
    """C = A x B (+ bias). ``a``, ``b``, ``c`` and ``bias`` are `MatmulType`."""

    def __init__(
        self, a: MatmulType, b: MatmulType, c: MatmulType, bias: MatmulType | None = None,
        matmul_config: MatmulConfig | None = None, matmul_policy: Any = None,
    ) -> None:  # fmt: skip
        self.a_type, self.b_type, self.c_type, self.bias_type = a, b, c, bias
        self.config = matmul_config or MatmulConfig()
        self.policy = matmul_policy
        self.core: Core = current()
        self.tiling: TCubeTiling | None = None
        self.worker: CubeWorker | None = None
        self.workspace: GlobalTensor | None = None
        self.a: Any = None
        self.b: Any = None
        self.bias: GlobalTensor | None = None
        self.a_trans = self.b_trans = False
        self.org: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)  # m, n, ka, kb, kc
        self.single: tuple[int, int, int] = (0, 0, 0)
        self.hf32 = False
        self.quant_scalar = 0
        self.quant_vector: GlobalTensor | None = None
        self.index = -1
        self.pending = 0

    # -- set up ------------------------------------------------------------------------------------------------

    def init(self, tiling: Any) -> None:
        """Take the tiling; operands and tails are set anew."""
        if not hasattr(tiling, "base_m"):
            raise InstructionError(CALL, "tiling", type(tiling).__name__, "expected TCubeTiling")
        self.tiling = tiling
        for name in ("base_m", "base_n", "base_k", "single_core_m", "single_core_n", "single_core_k"):
            if getattr(tiling, name) < 1:
                raise InstructionError(CALL, f"tiling.{name}", getattr(tiling, name), "must be positive")
        self.org = (tiling.m, tiling.n, tiling.k_a, tiling.k_b, tiling.n)
        self.single = (tiling.single_core_m, tiling.single_core_n, tiling.single_core_k)
        self.index = -1

    def set_org_shape(
        self, org_m: int, org_n: int, org_ka: int, org_kb: int | None = None, org_kc: int | None = None
    ) -> None:
        """Whole matrices, from which the pitches follow."""
        self.org = (int(org_m), int(org_n), int(org_ka), int(org_kb or org_ka), int(org_kc or org_n))

    def set_single_shape(self, single_m: int, single_n: int, single_k: int) -> None:
        """This core's part."""
        self.single = (int(single_m), int(single_n), int(single_k))

    def set_tail(self, tail_m: int = -1, tail_n: int = -1, tail_k: int = -1) -> None:
        """This core's part where it is smaller than the tiling says; -1 leaves a size alone."""
        given = (int(tail_m), int(tail_n), int(tail_k))
        sizes = tuple(old if new < 0 else new for new, old in zip(given, self.single, strict=True))
        self.single = (sizes[0], sizes[1], sizes[2])
        self.index = -1

    def set_tensor_a(self, tensor: Any, transpose: bool = False) -> None:
        """A, in global memory or the unified buffer; ``transpose``: it is stored transposed."""
        self.a, self.a_trans, self.index = self._operand("A", tensor, self.a_type), bool(transpose), -1

    def set_tensor_b(self, tensor: Any, transpose: bool = False) -> None:
        """B, as `set_tensor_a`."""
        self.b, self.b_trans, self.index = self._operand("B", tensor, self.b_type), bool(transpose), -1

    def _operand(self, name: str, tensor: Any, kind: MatmulType) -> Any:
        if not isinstance(tensor, GlobalTensor | LocalTensor):
            raise InstructionError(CALL, f"set_tensor_{name.lower()}", tensor, "expected a GlobalTensor or LocalTensor")
        if tensor.dtype is not kind.dtype:
            raise InstructionError(CALL, f"{name} data type", tensor.dtype, f"the object was made for {kind.dtype}")
        return tensor

    def set_bias(self, tensor: Any) -> None:
        """A row that is added to every row of the product."""
        if not isinstance(tensor, GlobalTensor):
            raise InstructionError(CALL, "set_bias", tensor, "expected a GlobalTensor")
        self.bias = tensor

    def disable_bias(self) -> None:
        """No bias from here on."""
        self.bias = None

    def set_hf32(self, enable_hf32: bool = False, trans_mode: int = 0) -> None:
        """float32 inputs rounded to hf32, at twice the rate."""
        self.hf32 = bool(enable_hf32)

    def set_quant_scalar(self, quant_scalar: int) -> None:
        """64-bit parameter word of the fixpipe's conversion."""
        self.quant_scalar = int(quant_scalar)

    def set_quant_vector(self, quant_vector: GlobalTensor) -> None:
        """One parameter word per column."""
        self.quant_vector = quant_vector

    def set_batch_num(self, batch_a: int, batch_b: int) -> None:
        """Remember how many matrices a batch has (`iterate_batch` is given them too)."""
        self.batches = (int(batch_a), int(batch_b))

    def set_workspace(self, addr: Any, size: int | None = None) -> None:
        """Global memory for results that pass through it."""
        self.workspace = _as_tensor(addr)

    def _unsupported(self, name: str) -> None:
        raise InstructionError(CALL, name, "called", "is not supported: the object takes no user data or sparse index")

    def set_self_define_data(self, data_ptr: Any) -> None:
        """Not supported: raises InstructionError."""
        self._unsupported("set_self_define_data")

    def set_user_def_info(self, tiling_ptr: Any) -> None:
        """Not supported: raises InstructionError."""
        self._unsupported("set_user_def_info")

    def set_sparse_index(self, index_global: Any) -> None:
        """Not supported: raises InstructionError."""
        self._unsupported("set_sparse_index")

    # -- what is multiplied ------------------------------------------------------------------------------------

    def _cut(self) -> TCubeTiling:
        if self.tiling is None:
            raise InstructionError(CALL, "tiling", None, "call register_matmul with a tiling, or init")
        return self.tiling

    def _product(self, batch: tuple[int, int] = (0, 0)) -> Product:
        """The product this core computes; ``batch``: element offsets of A and B."""
        t = self._cut()
        for name, operand in (("A", self.a), ("B", self.b)):
            if operand is None:
                raise InstructionError(CALL, f"set_tensor_{name.lower()}", None, "was not called")
        m, n, k = self.single
        org_m, org_n, org_ka, org_kb, _ = self.org
        a = self._matrix(self.a, self.a_type, self.a_trans, org_m if self.a_trans else org_ka, org_m, batch[0], m * k)
        b = self._matrix(self.b, self.b_type, self.b_trans, org_kb if self.b_trans else org_n, org_kb, batch[1], n * k)
        order = self.config.iterate_order
        if order == IterateOrder.UNDEF:
            order = IterateOrder(t.iterate_order if t.iterate_order in (0, 1) else 0)
        bias_type = self.bias_type.dtype if self.bias_type is not None else float32
        step = max(min(int(t.step_k_a) or 1, int(t.step_k_b) or 1), 1)
        return Product(
            a, b, self.bias, bias_type, m, n, k, int(t.base_m), int(t.base_n), int(t.base_k), step, order, self.hf32
        )

    def _matrix(
        self, operand: Any, kind: MatmulType, trans: bool, columns: int, rows: int, offset: int, elements: int
    ) -> Matrix:
        if isinstance(operand, LocalTensor):
            operand, columns, offset = self._staged(operand, kind, elements), self._local_columns(kind, trans), 0
            rows = elements // max(columns, 1)
        nz = kind.format == CubeFormat.NZ
        pitch = rows if nz and not trans else columns
        return Matrix(operand[offset:], kind.dtype, pitch, trans, kind.format)

    def _local_columns(self, kind: MatmulType, trans: bool) -> int:
        m, n, k = self.single
        if kind is self.a_type:
            return m if trans else k
        return k if trans else n

    def _staged(self, tensor: LocalTensor, kind: MatmulType, elements: int) -> GlobalTensor:
        """An operand of the unified buffer, copied to the workspace for the cube core."""
        if tensor.mem != "UB":
            raise InstructionError(CALL, "operand", tensor, "local operands lie in the unified buffer")
        t, size = self._cut(), kind.dtype.size
        a_bytes = ceil_div(t.single_core_m * t.single_core_k * size, 512) * 512
        place = self._slot(self._c_room(), 0 if kind is self.a_type else a_bytes).reinterpret_cast(kind.dtype)
        set_flag(E.V_MTE3, AUTO_ID)
        wait_flag(E.V_MTE3, AUTO_ID)
        data_copy(place, tensor, elements)
        set_flag(E.MTE3_MTE2, AUTO_ID)  # the request is sent by MTE2
        wait_flag(E.MTE3_MTE2, AUTO_ID)
        return place

    # -- where it goes -----------------------------------------------------------------------------------------

    def _c_room(self) -> int:
        t = self._cut()
        wide, high = ceil_div(int(t.base_n), 16) * 16, ceil_div(int(t.base_m), 16) * 16
        return ceil_div(wide * high * self.c_type.dtype.size, 512) * 512

    def _slot(self, *offsets: int) -> GlobalTensor:
        """This core's part of the workspace, as bytes, from the sum of ``offsets``."""
        core, t = self.core, self._cut()
        if self.workspace is None:
            raise InstructionError(CALL, "workspace", None, "register_matmul needs a workspace for this")
        size = self.a_type.dtype.size
        local = any(isinstance(x, LocalTensor) for x in (self.a, self.b))
        whole = self._c_room()
        if local:
            whole += ceil_div(size * t.single_core_k * (t.single_core_m + t.single_core_n) + 1024, 512) * 512
        me = core.block_idx * core.sub_block_num + core.sub_block_idx
        ws = self.workspace.reinterpret_cast(uint8)
        if ws.addr + (me + 1) * whole > ws.end:
            rule = f"core {me} needs bytes {me * whole}..{(me + 1) * whole} of it"
            raise InstructionError(CALL, "workspace", f"{ws.end - ws.addr} bytes", rule)
        return ws[me * whole + sum(offsets) :]

    def _exit(
        self, tensor: GlobalTensor | LocalTensor, atomic: int, sequential: bool, pitch: int | None = None
    ) -> Exit:
        acc = int32 if self.a_type.dtype is int8 else float32
        dtype = self.c_type.dtype
        quant, scalar, vector = QuantModes.NoQuant, 0, None
        if dtype is not acc:
            modes = _EXITS.get((acc.name, dtype.name))
            if modes is None:
                raise InstructionError(CALL, "C data type", dtype, f"{acc} results become {acc} or another of {_EXITS}")
            quant = modes[0]
            if self.quant_vector is not None and modes[1] is not None:
                quant, vector = modes[1], self.quant_vector
            elif dtype not in (float16, bfloat16) or acc is int32:
                scalar = self.quant_scalar
                if not scalar:
                    rule = "set_quant_scalar or set_quant_vector must give the scale"
                    raise InstructionError(CALL, "quantisation", f"{acc} -> {dtype}", rule)
        if atomic not in (0, 1):
            raise InstructionError(CALL, "en_atomic", atomic, "0 (write) or 1 (add)")
        if pitch is None:
            pitch = self.org[0] if self.c_type.format == CubeFormat.NZ else self.org[4]
        return Exit(tensor, dtype, pitch, self.c_type.format, quant, scalar, vector, bool(atomic), sequential)

    # -- doing it ----------------------------------------------------------------------------------------------

    @property
    def _remote(self) -> bool:
        return self.core.group is not None and self.core.kind == "AIV"

    def _send(self, product: Product, blocks: range, out: Exit) -> None:
        """Compute base blocks on the cube core, now or when it serves this request."""
        core, hf32 = self.core, product.hf32
        if self._remote:
            group = core.group
            assert group is not None
            cube = group.cube

            def job() -> None:
                cube.hf32 = hf32
                _worker(cube).run(product, blocks, out)

            group.request(core, job)
            self.pending += 1
            return
        if not core.cube_side:
            raise InstructionError(CALL, "core", core.kind, "a pure vector kernel has no cube core; launch it as MIX")
        core.hf32 = hf32
        assert self.worker is not None
        self.worker.run(product, blocks, out)

    def _answered(self, pipe: Pipe) -> None:
        if self._remote:
            group = self.core.group
            assert group is not None
            for _ in range(self.pending):
                group.wait(self.core, pipe)
            self.pending = 0

    def advance(self) -> bool:
        """Step to the next base block; False behind the last one."""
        self.index += 1
        if self.index >= self._product().blocks:
            self.index = -1
            return False
        return True

    def iterate(
        self, en_partial_sum: bool = False, sync: bool = True, local_c_matrix: Any = None
    ) -> MatmulIterator:
        """The base blocks of this core's part, one after the other."""
        if en_partial_sum or local_c_matrix is not None:
            raise InstructionError(CALL, "iterate", "partial sums", "accumulating over passes is not supported")
        return MatmulIterator(self, bool(sync))

    def get_tensor_c(
        self, tensor: Any = None, en_atomic: int = 0, en_sequential_write: bool = False, sync: bool = True,
        optional_tensor: Any = None,
    ) -> GlobalTensor | None:  # fmt: skip
        """The current base block: to global memory, to the unified buffer, or (without a tensor) left in the workspace,
        whose tensor is returned. ``en_sequential_write`` writes it densely from the start of the tensor."""
        if self.index < 0:
            raise InstructionError(CALL, "get_tensor_c", "no block", "call it inside iterate")
        product = self._product()
        blocks = range(self.index, self.index + 1)
        if isinstance(tensor, LocalTensor):
            self._to_local(tensor, product, blocks, bool(en_sequential_write))
            if isinstance(optional_tensor, GlobalTensor):
                self._send(product, blocks, self._exit(optional_tensor, int(en_atomic), bool(en_sequential_write)))
                self._answered(Pipe.S)
            return None
        if tensor is None:
            place = self._slot().reinterpret_cast(self.c_type.dtype)
            columns = product.place(self.index)[3]
            self._send(product, blocks, self._exit(place, int(en_atomic), True, columns))
            self._answered(Pipe.S)
            return place
        self._send(product, blocks, self._exit(tensor, int(en_atomic), bool(en_sequential_write)))
        if sync:
            self._answered(Pipe.S)
        return None

    def _to_local(self, tensor: LocalTensor, product: Product, blocks: range, sequential: bool) -> None:
        """A base block to the unified buffer: through the workspace, or by the fixpipe where it reaches the buffer."""
        row, column, m, n = product.place(blocks.start)
        dtype = self.c_type.dtype
        if tensor.dtype is not dtype:
            raise InstructionError(CALL, "C data type", tensor.dtype, f"the object was made for {dtype}")
        nz = self.c_type.format == CubeFormat.NZ
        pitch = ceil_div(self.single[0], 16) * 16 if nz else self.single[1]
        if not self.core.rules.split:
            set_flag(E.V_FIX, AUTO_ID)
            wait_flag(E.V_FIX, AUTO_ID)
            self._send(product, blocks, self._exit(tensor, 0, sequential, n if sequential and not nz else pitch))
            set_flag(E.FIX_V, AUTO_ID)
            wait_flag(E.FIX_V, AUTO_ID)
            return
        place = self._slot().reinterpret_cast(dtype)
        self._send(product, blocks, self._exit(place, 0, True, ceil_div(m, 16) * 16 if nz else n))
        self._answered(Pipe.MTE2)
        set_flag(E.V_MTE2, AUTO_ID)
        wait_flag(E.V_MTE2, AUTO_ID)
        c0 = 16 if dtype.size == 4 else 32 // dtype.size
        rows, width, gap = (ceil_div(n, c0), ceil_div(m, 16) * 16 * c0, pitch * c0) if nz else (m, n, pitch)
        offset = 0 if sequential else (column * pitch + row * c0 if nz else row * pitch + column)
        nbytes = width * dtype.size
        target = tensor[offset:]
        if nbytes % 32 == 0:
            skip = 0 if sequential else (gap * dtype.size - nbytes) // 32
            data_copy(target, place, DataCopyParams(rows, nbytes // 32, 0, skip))
        else:
            skip = 0 if sequential else gap * dtype.size // 32 - ceil_div(nbytes, 32)
            data_copy_pad(target, place, DataCopyExtParams(rows, nbytes, 0, skip))
        set_flag(E.MTE2_V, AUTO_ID)
        wait_flag(E.MTE2_V, AUTO_ID)

    def async_get_tensor_c(self, c: LocalTensor) -> None:
        """As `get_tensor_c`, of the block after the one fetched last."""
        if self.index < 0 and not self.advance():
            raise InstructionError(CALL, "async_get_tensor_c", "no block", "there is nothing to fetch")
        self.get_tensor_c(c, 0, True)

    def wait_get_tensor_c(self) -> None:
        """Wait for `get_tensor_c` calls that were issued with ``sync=False``."""
        self._answered(Pipe.S)

    def iterate_all(
        self, tensor: Any, en_atomic: int = 0, sync: bool = True, en_sequential_write: bool | None = None,
        wait_iterate_all: bool | None = None, fake_msg: bool | None = None,
    ) -> None:  # fmt: skip
        """This core's whole part to global memory or the unified buffer."""
        product = self._product()
        if isinstance(tensor, LocalTensor):
            for index in range(product.blocks):
                self._to_local(tensor, product, range(index, index + 1), False)
            return
        out = self._exit(tensor, int(en_atomic), bool(en_sequential_write))
        self._send(product, range(product.blocks), out)
        if sync:
            self._answered(Pipe.S)

    def wait_iterate_all(self) -> None:
        """Wait for an `iterate_all` that was issued with ``sync=False``."""
        self._answered(Pipe.S)

    def iterate_batch(
        self, tensor: Any, batch_a: int = 1, batch_b: int = 1, en_sequential_write: bool = False,
        matrix_stride_a: int = 0, matrix_stride_b: int = 0, matrix_stride_c: int = 0, en_partial_sum: bool = False,
        en_atomic: int = 0, sync: bool = True, wait_iterate_batch: bool | None = None,
    ) -> None:  # fmt: skip
        """``max(batch_a, batch_b)`` products, the whole matrices one behind the other (or ``matrix_stride_*``
        elements apart); the smaller count is repeated."""
        if en_partial_sum:
            raise InstructionError(CALL, "en_partial_sum", True, "accumulating over passes is not supported")
        for name, of in (("A", self.a_type), ("B", self.b_type), ("C", self.c_type)):
            if of.layout not in (LayoutMode.NONE, LayoutMode.NORMAL, LayoutMode.BNGS1S2):
                rule = "matrices of a batch lie one behind the other (NORMAL or BNGS1S2)"
                raise InstructionError(CALL, f"layout of {name}", of.layout.name, rule)
        m, n, ka, kb, kc = self.org
        batch_a, batch_b = int(batch_a), int(batch_b)
        total = max(batch_a, batch_b)
        if batch_a < 1 or batch_b < 1 or total % batch_a or total % batch_b:
            raise InstructionError(CALL, "batch_a, batch_b", (batch_a, batch_b), "one must divide the other")
        step_a, step_b = int(matrix_stride_a) or m * ka, int(matrix_stride_b) or kb * n
        step_c = int(matrix_stride_c) or m * kc
        for i in range(total):
            product = self._product((i // (total // batch_a) * step_a, i // (total // batch_b) * step_b))
            self._send(product, range(product.blocks), self._exit(tensor[i * step_c :], int(en_atomic), False))
        if sync:
            self._answered(Pipe.S)

    def iterate_n_batch(
        self, batch_loop: int, batch_a: int, batch_b: int, en_sequential_write: bool, matrix_stride_a: int = 0,
        matrix_stride_b: int = 0, matrix_stride_c: int = 0, sync: bool = True, wait_iterate_batch: bool = False,
    ) -> None:  # fmt: skip
        """Not supported: call `iterate_batch` in a loop. Raises InstructionError."""
        raise InstructionError(CALL, "iterate_n_batch", "called", "is not supported; call iterate_batch in a loop")

    def wait_iterate_batch(self) -> None:
        """Wait for an `iterate_batch` that was issued with ``sync=False``."""
        self._answered(Pipe.S)

    def get_batch_tensor_c(self, *args: Any, **kwargs: Any) -> None:
        """Not supported: `iterate_batch` writes the results. Raises InstructionError."""
        rule = "is not supported: iterate_batch writes the results"
        raise InstructionError(CALL, "get_batch_tensor_c", "called", rule)

    def get_offset_c(self) -> MatrixOffset:
        """Place of the current base block."""
        row, column, m, n = self._product().place(max(self.index, 0))
        return MatrixOffset(row * self.org[4] + column, row, column, m, n)

    def end(self) -> None:
        """No more work: wait for what is in flight."""
        self._answered(Pipe.S)
        if self.worker is not None and not self._remote:
            self.worker.close()


def _worker(core: Core) -> CubeWorker:
    if core.cube_worker is None:
        core.cube_worker = CubeWorker(core)
    worker: CubeWorker = core.cube_worker
    return worker


def _as_tensor(address: Any) -> GlobalTensor:
    if isinstance(address, GlobalTensor):
        return address
    if not isinstance(address, GlobalAddress):
        raise InstructionError("register_matmul", "workspace", address, "expected a GlobalAddress or GlobalTensor")
    tensor = GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def register_matmul(pipe: Any, workspace: Any, matmul: Matmul, tiling: Any = None) -> None:
    """Bind a matrix object to this core. On the cube core of a MIX kernel the program ends here: it serves its vector
    cores. With ``tiling`` the object is initialised too."""
    core = current()
    if core.group is not None and core.kind == "AIC":
        core.cube_worker = CubeWorker(core)
        core.group.serve()
        if core.tb is not None:
            core.cube_worker.close()
        raise EndOfProgram
    if workspace is not None:
        matmul.workspace = _as_tensor(workspace)
    if core.cube_side:
        if core.cube_worker is None:
            core.cube_worker = CubeWorker(core, pipe.used("L1") if pipe is not None else 0)
        matmul.worker = core.cube_worker
    if tiling is not None:
        matmul.init(tiling)


__all__ = ["Matmul", "MatmulIterator", "register_matmul"]
