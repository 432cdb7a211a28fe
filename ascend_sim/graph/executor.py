"""A loaded model: its description, its values and its time on a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.errors import GEAR_INVALID, PARAM_INVALID, SHAPE_INVALID, OmError
from ascend_sim.graph.om.inout import DYNAMIC_INPUT, IoDesc
from ascend_sim.graph.om.reader import OmFile, read_om
from ascend_sim.ops.dtypes import numpy_dtype

if TYPE_CHECKING:
    from ascend_sim.engine.memory import L2
    from ascend_sim.graph.aipp import AippPort
    from ascend_sim.graph.ir import Graph, Node
    from ascend_sim.graph.plan import MemoryPlan, Place
    from ascend_sim.graph.specialize import Specializer
    from ascend_sim.ops.cost import OpTiming
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.tasks import ModelTask, Step
    from ascend_sim.soc import Soc

Array = NDArray[Any]
FOREIGN = "the model was compiled by another ATC: attributes of fused operators are guessed"
Watch = Callable[["Node", "OpCall", Sequence["Array | None"], Sequence[Array]], None]
_BASE = 1 << 30  # where a model lies when no device memory was bound


@dataclass(frozen=True)
class NodeCall:
    """One operator as the device runs it: ``call`` on storage specs; tensors by name ("" = absent)."""

    name: str
    call: OpCall
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    """One operator of the values plan: its call on logical and on storage specs; ``dead`` tensors are released after
    it."""

    call: OpCall
    stored: OpCall | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dead: tuple[str, ...]


class _Variant:
    """One compiled graph with what its executions share."""

    def __init__(self, graph: Graph, plan: MemoryPlan) -> None:
        from ascend_sim import ops
        from ascend_sim.graph.evaluate import call_of
        from ascend_sim.graph.plan import is_free

        ops.load(kernels=False)
        self.aipp: tuple[AippPort, ...] = ()
        if any(node.type in ("Aipp", "AippConv2D") for node in graph.nodes):
            from ascend_sim.graph.aipp import declare, ports_of

            declare()
            self.aipp = ports_of(graph)
        self.graph = graph
        self.plan = plan
        self.calls: list[NodeCall] = []
        self.steps: list[_Step] = []
        last = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs if name}
        keep = {*graph.outputs, *graph.constants}
        for position, node in enumerate(graph.nodes):
            call = None
            if not is_free(node):
                call = call_of(graph, node)
                self.calls.append(NodeCall(node.name, call, tuple(node.inputs), tuple(node.outputs)))
            dead = {n for n in (*node.inputs, *node.outputs) if n and n not in keep and last.get(n, -1) <= position}
            logical = call_of(graph, node, storage=False)
            self.steps.append(_Step(logical, call, tuple(node.inputs), tuple(node.outputs), tuple(sorted(dead))))
        self._addresses: tuple[tuple[int, ...], list[list[int]]] | None = None
        self._kinds: dict[str, int] | None = None

    def run(self, inputs: Sequence[Array], soc: Soc | None = None, watch: Watch | None = None) -> list[Array]:
        """Outputs by whole operators, or (with ``soc``) instruction by instruction where kernels exist. ``watch`` sees
        every operator with what it read and made."""
        from ascend_sim import ops
        from ascend_sim.graph.data_shapes import fitting

        specs = self.graph.specs
        tensors: dict[str, Array] = dict(self.graph.constants)
        for name, array in zip(self.graph.inputs, inputs, strict=True):
            tensors[name] = _logical(array, specs[name])
        with np.errstate(all="ignore"):
            for position, step in enumerate(self.steps):
                arguments = [tensors[n] if n else None for n in step.inputs]
                call = fitting(step.call, arguments)
                if soc is not None and step.stored is not None and call is step.call:
                    results = self._kernel_values(step, step.stored, soc, arguments)
                else:
                    results = ops.values(call, arguments)
                tensors.update(zip(step.outputs, results, strict=False))
                if watch is not None:
                    watch(self.graph.nodes[position], step.call, arguments, results)
                for name in step.dead:
                    tensors.pop(name, None)
        return [_as_stored(tensors[name], specs[name]) for name in self.graph.outputs]

    def _kernel_values(self, step: _Step, stored: OpCall, soc: Soc, arguments: Sequence[Array | None]) -> list[Array]:
        from ascend_sim import ops
        from ascend_sim.graph.instruction_values import run_kernels
        from ascend_sim.graph.storage import filter_kinds
        from ascend_sim.ops.registry import NoKernel

        ops.load()
        if self._kinds is None:
            self._kinds = filter_kinds(self.graph)
        try:
            return run_kernels(stored, soc, arguments, [self._kinds.get(n, 1) for n in step.inputs])
        except NoKernel:
            return ops.values(step.call, arguments)

    def addresses(self, work: int, weight: int, inputs: Sequence[int], outputs: Sequence[int]) -> list[list[int]]:
        """Addresses of every operator's inputs and outputs; the last answer is kept."""
        key = (work, weight, *inputs, -1, *outputs)
        if self._addresses is not None and self._addresses[0] == key:
            return self._addresses[1]
        places = self.plan.places

        def address(name: str) -> int:
            place: Place | None = places.get(name) if name else None
            if place is None:
                return 0
            if place.region == "work":
                return work + place.value
            if place.region == "weight":
                return weight + place.value
            return (inputs if place.region == "input" else outputs)[place.value]

        table = [[address(n) for n in (*call.inputs, *call.outputs)] for call in self.calls]
        self._addresses = (key, table)
        return table


class LoadedModel:
    """A model in memory.

    ``inputs`` and ``outputs`` describe its tensors (`IoDesc`: name, size in bytes, dims, format, dtype); ``work_size``
    and ``weight_size`` are what it needs of device memory. A model made by another ATC is described but not run.

    A model has *variants*: one graph each, of fixed shapes, and every method that runs or times it takes the index of
    one. ``kind`` says where they come from: "" (one), ``batch``, ``image``, ``dims`` (one per entry of ``gears``, in
    that order; an extra input named `DYNAMIC_INPUT` carries the choice), or ``shape`` (open: `variant_for_shapes` makes
    them; variant 0 is an example). `ports` describes the tensors of one variant; ``inputs`` and ``outputs`` have -1.
    """

    def __init__(self, source: OmFile, graphs: Sequence[tuple[Graph, MemoryPlan]] | None = None) -> None:
        """``graphs`` are compiled ones without weights, for times only; by default those of ``source``."""
        self.source = source
        self.has_values = graphs is None
        self.name = source.name
        self.inputs: tuple[IoDesc, ...] = source.in_out.inputs
        self.outputs: tuple[IoDesc, ...] = source.in_out.outputs
        self.dynamic_batch: tuple[int, ...] = source.in_out.dynamic_batch
        self.dynamic_hw: tuple[tuple[int, ...], ...] = source.in_out.dynamic_hw
        self.gears: tuple[tuple[int, ...], ...] = (
            tuple((b,) for b in self.dynamic_batch) or self.dynamic_hw or source.in_out.dynamic_dims
        )
        self.kind = _kind(source)
        self._variants: list[_Variant] = []
        self._shapes: dict[tuple[tuple[int, ...], ...], int] = {}
        self._specializer: Specializer | None = None
        if source.body is not None:
            graphs = graphs or source.graphs()
            self._variants = [_Variant(graph, plan) for graph, plan in graphs]
            if self.gears and len(graphs) != len(self.gears):
                raise OmError(f"the model has {len(self.gears)} gears and {len(graphs)} graphs", PARAM_INVALID)
            self._specializer = _specializer(source, graphs[0]) if self.kind == "shape" else None
            self._shapes = {self._input_shapes(i): i for i in range(len(self._variants))}
            self.work_size = max(v.plan.work_size for v in self._variants)
            self.weight_size = self._variants[0].plan.weight_size
        else:
            self.work_size = int(source.attrs.get("memory_size", {}).get("i", 0))
            self.weight_size = int(source.attrs.get("weight_size", {}).get("i", 0))
        self._work = _BASE
        self._weight = _BASE + self.work_size
        self._blocks: list[Block] = []
        self._placed = False

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> LoadedModel:
        """Raises `OmError` (with the code for pyACL in ``ret``)."""
        return cls(read_om(data))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> LoadedModel:
        return cls(read_om(path))

    @property
    def soc_version(self) -> str:
        return self.source.soc_version

    @property
    def executable(self) -> bool:
        return bool(self._variants)

    @property
    def graph(self) -> Graph:
        """The compiled graph. Raises `OmError` for a model made elsewhere."""
        return self._variant(0).graph

    @property
    def calls(self) -> list[NodeCall]:
        """The device operators in execution order; of a model made elsewhere as far as its file tells them."""
        if self._variants:
            return self._variants[0].calls
        from ascend_sim.graph.om.foreign import operator_calls

        return [NodeCall(name, call, (), ()) for name, call in operator_calls(self.source)]

    def _variant(self, index: int) -> _Variant:
        if not self._variants:
            self.source.graphs()  # raises with the reason
        return self._variants[index]

    # variants

    @property
    def dynamic_dims(self) -> tuple[tuple[int, ...], ...]:
        """Gears of kind ``dims`` as pyACL counts them: all dimensions of all inputs, one after the other."""
        if self.kind != "dims":
            return ()
        order = self.source.in_out.shape_order
        given = {p.name: p.dims for p in self.inputs if p.name != DYNAMIC_INPUT}
        full = []
        for gear in self.gears:
            rest = iter(gear)
            dims = {n: [next(rest, d) if d == -1 else d for d in given[n]] for n in order if n in given}
            full.append(tuple(d for name, fixed in given.items() for d in dims.get(name, fixed)))
        return tuple(full)

    @property
    def default_variant(self) -> int:
        """What runs when nothing was chosen: the largest gear."""
        sizes = [sum(v.graph.specs[n].nbytes for n in v.graph.inputs) for v in self._variants]
        return max(range(len(sizes)), key=lambda i: (sizes[i], i), default=0) if self.gears else 0

    def variant_for_gear(self, *values: int) -> int:
        """The variant of a gear: a batch, a height and width, or dimensions (the open ones, or all of all inputs).

        Raises `OmError` when the model has no such gear."""
        for known in (self.gears, self.dynamic_dims):
            if values in known:
                return known.index(values)
        listed = "; ".join(",".join(map(str, g)) for g in self.gears)
        what = f"its gears are {listed}" if listed else "it was converted without gears"
        raise OmError(f"{','.join(map(str, values))} is no gear of model {self.name!r}: {what}", GEAR_INVALID)

    def variant_for_shapes(self, shapes: Sequence[tuple[int, ...]], device: Device | None = None) -> int:
        """The variant whose inputs have these shapes (in the order of ``inputs``, without the one that carries a
        gear). A model of open shapes is compiled for shapes that come for the first time; on a ``device`` where it is
        placed, its work area grows when they need more.

        Raises `OmError` for shapes the model does not take, `OutOfMemory`."""
        key = tuple(tuple(shape) for shape in shapes)
        index = self._shapes.get(key)
        if index is None:
            if self._specializer is None:
                listed = "; ".join(str([list(s) for s in known]) for known in self._shapes)
                raise OmError(
                    f"model {self.name!r} takes no inputs of shape {[list(s) for s in key]}; it takes {listed}",
                    SHAPE_INVALID,
                )
            if len(key) != len(self.graph.inputs):
                raise OmError(f"model {self.name!r} has {len(self.graph.inputs)} inputs, {len(key)} shapes are given",
                              SHAPE_INVALID)  # fmt: skip
            self._variants.append(_Variant(*self._specializer.compile(key)))
            index = self._shapes[key] = len(self._variants) - 1
        if device is not None and self._placed and self._variants[index].plan.work_size > self.work_size:
            self._grow(device, self._variants[index].plan.work_size)
        return index

    def ports(self, variant: int = 0) -> tuple[tuple[IoDesc, ...], tuple[IoDesc, ...]]:
        """Inputs and outputs as ``inputs`` and ``outputs`` describe them, with the dims and sizes of one variant."""
        graph = self._variant(variant).graph
        ours, theirs = iter(graph.inputs), iter(graph.outputs)
        inputs = [p if p.name == DYNAMIC_INPUT else _fixed(p, graph.specs[next(ours)]) for p in self.inputs]
        return tuple(inputs), tuple(_fixed(p, graph.specs[next(theirs)]) for p in self.outputs)

    def aipp(self, variant: int = 0) -> tuple[AippPort, ...]:
        """The inputs that AIPP prepares, with indices of ``inputs``. Parameters of dynamic mode are made by
        `ascend_sim.graph.aipp_params.pack_params`."""
        names = [p.name for p in self.inputs]
        given = self._variant(variant).graph.inputs
        return tuple(
            replace(port, image=names.index(given[port.image]),
                    params=names.index(given[port.params]) if port.params >= 0 else -1)
            for port in self._variant(variant).aipp
        )  # fmt: skip

    def _input_shapes(self, variant: int) -> tuple[tuple[int, ...], ...]:
        graph = self._variants[variant].graph
        return tuple(graph.specs[name].shape for name in graph.inputs)

    def _data(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What is given for the inputs of the graph: everything but the choice of a gear."""
        names = [port.name for port in self.inputs]
        if DYNAMIC_INPUT not in names or len(inputs) != len(names):
            return inputs
        index = names.index(DYNAMIC_INPUT)
        return [*inputs[:index], *inputs[index + 1 :]]

    def check_soc(self, soc: Soc) -> None:
        """Raise `OmError` when the model was compiled for another chip."""
        if self.soc_version and self.soc_version != soc.name:
            raise OmError(
                f"E10001: model {self.name!r} was compiled for {self.soc_version}, the device is {soc.name}; convert "
                f"it again with --soc_version={soc.name}",
                PARAM_INVALID,
            )

    # values

    def variant_calls(self, variant: int) -> list[NodeCall]:
        """The device operators of a variant in execution order."""
        return self._variant(variant).calls

    def run_values(
        self, inputs: Sequence[Array], variant: int = 0, mode: str = "operator", watch: Watch | None = None
    ) -> list[Array]:
        """Outputs for inputs in the shapes and types that ``inputs`` describe (logical layout).

        ``mode`` ``instruction`` executes kernels instruction by instruction on the model's chip (slow; operators
        without a kernel take their values as a whole), ``operator`` computes each operator at once. ``watch`` is called
        after every operator with its node, its logical call, its inputs and its outputs.
        """
        chosen = self._variant(variant)
        graph = chosen.graph
        if not self.has_values:
            raise OmError(f"model {self.name!r} was read without its weights: it has times, but no values")
        inputs = self._data(inputs)
        if len(inputs) != len(graph.inputs):
            raise ValueError(f"model {self.name!r} has {len(graph.inputs)} inputs, {len(inputs)} are given")
        for name, array in zip(graph.inputs, inputs, strict=True):
            spec = graph.specs[name]
            if tuple(array.shape) != spec.shape or array.dtype != numpy_dtype(spec.dtype):
                raise ValueError(
                    f"input {name!r} is {array.dtype}{list(array.shape)}; expected {spec.dtype}{list(spec.shape)}"
                )
        soc = None
        if mode == "instruction":
            from ascend_sim.soc import load_soc

            soc = load_soc(self.soc_version)
        return chosen.run(inputs, soc, watch)

    # device memory and time

    def bind(self, work_address: int, weight_address: int) -> None:
        """Use these device addresses for the work area and the weights."""
        self._work, self._weight = work_address, weight_address

    def place(self, device: Device, work: int = 0, weight: int = 0) -> None:
        """Take work area and weights from the device's memory (raises `OutOfMemory`), where the caller does not give
        addresses for them."""
        owner = f"model {self.name}"
        places, blocks = [work, weight], []
        try:
            for index, size in enumerate((self.work_size, self.weight_size)):
                if places[index] == 0:
                    block = device.arena.allocate(max(size, 1), max(size, 1), owner)
                    blocks.append(block)
                    places[index] = block.address
        except MemoryError:
            for block in blocks:
                device.arena.release(block)
            raise
        self._blocks = blocks
        self._placed = True
        self.bind(*places)

    def _grow(self, device: Device, size: int) -> None:
        """A larger work area in place of the present one."""
        block = device.arena.allocate(size, size, f"model {self.name}")
        for old in [b for b in self._blocks if b.address == self._work]:
            device.arena.release(old)
            self._blocks.remove(old)
        self._blocks.append(block)
        self.work_size = size
        self.bind(block.address, self._weight)

    def unplace(self, device: Device) -> None:
        """Give the memory of `place` back."""
        for block in self._blocks:
            device.arena.release(block)
        self._blocks = []
        self._placed = False

    def operator_timings(
        self,
        soc: Soc,
        l2: L2 | None = None,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        variant: int = 0,
    ) -> Iterable[tuple[NodeCall, OpTiming]]:
        """Operators with their time in order, each timed when it is asked for (``l2`` changes as they run).

        ``inputs`` and ``outputs`` are the addresses of the user's buffers; by default they follow the model. Times of a
        model made elsewhere are estimates.
        """
        from ascend_sim.ops.cost import op_timing

        if not self._variants:
            for node in self.calls:
                timing = op_timing(node.call, soc, l2)
                yield node, replace(timing, estimated=True, reason=timing.reason or FOREIGN)
            return
        chosen = self._variant(variant)
        if inputs is None or outputs is None:
            inputs, outputs = self._default_buffers(variant)
        table = chosen.addresses(self._work, self._weight, self._data(inputs), outputs)
        for node, addresses in zip(chosen.calls, table, strict=True):
            yield node, op_timing(node.call, soc, l2, addresses)

    def operator_addresses(
        self, inputs: Sequence[int], outputs: Sequence[int], variant: int = 0
    ) -> Iterable[tuple[NodeCall, list[int]]]:
        """The device operators in order, each with the addresses of its inputs and outputs."""
        chosen = self._variant(variant)
        table = chosen.addresses(self._work, self._weight, self._data(inputs), outputs)
        return zip(chosen.calls, table, strict=True)

    def _default_buffers(self, variant: int) -> tuple[list[int], list[int]]:
        cursor = max(self._work + self.work_size, self._weight + self.weight_size)
        groups: list[list[int]] = []
        for descs in self.ports(variant):
            group = []
            for desc in descs:
                group.append(cursor)
                cursor += -(-desc.size // 512) * 512
            groups.append(group)
        return groups[0], groups[1]

    def plan(self, device: Device, inputs: Sequence[int], outputs: Sequence[int], variant: int = 0) -> Iterable[Step]:
        """The operators as runtime steps, for a `ModelTask`."""
        from ascend_sim.ops.cost import op_timing
        from ascend_sim.runtime.tasks import Step

        chosen = self._variant(variant)
        offset = device.offset
        work, weight = (offset(self._work), offset(self._weight)) if self._placed else (self._work, self._weight)
        given = [offset(a) for a in self._data(inputs)]
        table = chosen.addresses(work, weight, given, [offset(a) for a in outputs])
        for node, addresses in zip(chosen.calls, table, strict=True):
            yield Step(node.name, node.call, op_timing(node.call, device.soc, device.l2, addresses))

    def compute(self, inputs: Sequence[int], outputs: Sequence[int], variant: int = 0) -> None:
        """Read the input buffers, run the model, write the output buffers (mapped addresses)."""
        chosen = self._variant(variant)
        graph = chosen.graph
        arrays = []
        for name, address in zip(graph.inputs, self._data(inputs), strict=True):
            arrays.append(_view(address, graph.specs[name].shape, graph.specs[name].dtype))
        for name, address, value in zip(graph.outputs, outputs, chosen.run(arrays), strict=True):
            spec = graph.specs[name]
            target = _view(address, spec.shape, spec.dtype)
            np.copyto(target, np.asarray(value).reshape(spec.shape), casting="unsafe")

    def task(
        self,
        model_id: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        exclusive: bool = False,
        values: bool = True,
        variant: int = 0,
    ) -> ModelTask:
        """One execution on the user's buffers (addresses of mapped memory), to be submitted to a stream.

        ``exclusive``: the host waits for it. ``values`` False gives time without results.
        """
        from ascend_sim.runtime.tasks import ModelTask

        self._variant(variant)
        fixed_in, fixed_out = tuple(inputs), tuple(outputs)

        def compute() -> None:
            if values:
                self.compute(fixed_in, fixed_out, variant)

        task = ModelTask(
            self.name,
            model_id,
            lambda device: self.plan(device, fixed_in, fixed_out, variant),
            compute,
            exclusive,
        )
        self.explain(task, variant)
        return task

    def explain(self, task: ModelTask, variant: int = 0) -> None:
        """Let profiles of ``task``, an execution of this model, say what its operators hold and stand for."""
        task.memory = lambda: self.static_memory(variant)
        task.fused = lambda: self.fused_operators(variant)

    def static_memory(self, variant: int = 0) -> tuple[int, list[tuple[str, int, int, int]]]:
        """Bytes of the work area, and what operators hold of it: see `ascend_sim.graph.plan.lifetimes`."""
        from ascend_sim.graph.plan import lifetimes

        chosen = self._variant(variant)
        return chosen.plan.work_size, lifetimes(chosen.graph, chosen.plan)

    def fused_operators(self, variant: int = 0) -> list[tuple[str, tuple[str, ...], int, int, int]]:
        """(name, source operators, bytes of inputs, outputs, weights) of operators that stand for several."""
        graph = self._variant(variant).graph

        def size(names: Iterable[str]) -> int:
            return sum(graph.specs[name].nbytes for name in names if name)

        return [
            (
                node.name, node.origin, size(n for n in node.inputs if n not in graph.constants), size(node.outputs),
                size(n for n in node.inputs if n in graph.constants),
            )
            for node in graph.nodes if len(node.origin) > 1
        ]  # fmt: skip


def _logical(array: Array, spec: TensorSpec) -> Array:
    """What the application gives, in the model's own axes (--is_input_adjust_hw_layout gives NC1HWC0)."""
    if spec.origin_shape is None:
        return array
    from ascend_sim.graph.storage import from_storage

    return from_storage(np.ascontiguousarray(array).tobytes(), spec)


def _as_stored(array: Array, spec: TensorSpec) -> Array:
    if spec.origin_shape is None:
        return array
    from ascend_sim.graph.storage import to_storage

    return to_storage(array, spec)


def _fixed(port: IoDesc, spec: TensorSpec) -> IoDesc:
    return replace(port, dims=spec.shape, size=spec.nbytes)


def _kind(source: OmFile) -> str:
    described = source.in_out
    for kind, gears in (("batch", described.dynamic_batch), ("image", described.dynamic_hw),
                        ("dims", described.dynamic_dims)):  # fmt: skip
        if gears:
            return kind
    if source.body is not None:
        return str(source.body.get("kind", ""))
    return "shape" if any(-1 in port.dims for port in described.inputs) else ""


def _specializer(source: OmFile, base: tuple[Graph, MemoryPlan]) -> Specializer | None:
    from ascend_sim.graph.om import container
    from ascend_sim.graph.specialize import Specializer

    model, weights = source.source, source.container.partition(container.WEIGHTS_DATA)
    if model is None or weights is None or source.body is None:
        return None
    return Specializer(model, source.body.get("options", {}), source.soc_version, base, weights)


def _view(address: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Mapped memory as an array (no copy)."""
    import ctypes

    if dtype == "string":
        raise ValueError("strings of a model are read and written by acl.mdl.execute only")
    kind = numpy_dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, kind)
    raw = memoryview((ctypes.c_uint8 * (count * kind.itemsize)).from_address(address))
    view: Array = np.frombuffer(raw, np.uint8).view(kind).reshape(shape)
    return view
