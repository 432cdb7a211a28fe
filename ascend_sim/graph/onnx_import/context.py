"""The state of one import: the growing graph, and what operator converters may do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim import ops
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.evaluate import constant_spec, evaluate, infer
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.virtual import is_virtual
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs

FOLD_LIMIT_BYTES = 1 << 30  # results larger than this stay operators
SIZE_LIMIT_BYTES = 1 << 46  # tensors larger than this are a mistake: device addresses do not reach that far

Array = NDArray[Any]


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX node with decoded attributes; ``inputs`` are graph tensor names ("" = absent)."""

    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    domain: str = ""

    def input(self, index: int) -> str:
        """Name of an optional input, "" when absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)


class Importer:
    """Collects IR nodes. Every tensor has a spec at once, and operators on constants are evaluated at once, so
    converters may ask for values of shapes, axes and the like (data propagation)."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self.graph = graph
        self.opset = opset
        self.node: OnnxNode | None = None
        self.domains: dict[str, int] = {}
        self.quantised: dict[str, Any] = {}  # float tensor -> what it was before dequantisation (`integer.Quantised`)
        self.signed: dict[str, str] = {}  # uint8 tensor -> the same less 128 as int8
        self.sequences: dict[str, list[str]] = {}  # sequence -> its tensors
        self.empty: set[str] = set()  # optionals without content
        self._alias: dict[str, str] = {}
        self._scopes: list[tuple[str, dict[str, str]]] = []
        self._node_names: set[str] = set()
        self._serial = 0
        self._small: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    # names and specs

    def resolve(self, name: str) -> str:
        """Graph tensor of an ONNX value name, looked up from the innermost subgraph outwards."""
        for _, names in reversed(self._scopes):
            if name in names:
                name = names[name]
                break
        return self._alias.get(name, name)

    def known(self, name: str) -> bool:
        """Whether a graph tensor of this name has been made."""
        return name in self.graph.specs or name in self.sequences or name in self.empty

    def bind(self, name: str) -> str:
        """Graph tensor name for a value that is being made: its own, or one of its own in a subgraph."""
        if not self._scopes:
            return name
        prefix, names = self._scopes[-1]
        made = f"{prefix}/{name}"
        if made in self.graph.specs or made in self._alias:
            made = self.fresh(made)
        names[name] = made
        return made

    def scoped(self, name: str) -> str:
        """Node name, with the subgraph it stands in."""
        return f"{self._scopes[-1][0]}/{name}" if self._scopes else name

    @contextmanager
    def scope(self, prefix: str, names: Mapping[str, str]) -> Iterator[None]:
        """Names of a subgraph: ``names`` are known from the start, others get ``prefix``."""
        self._scopes.append((prefix, dict(names)))
        try:
            yield
        finally:
            self._scopes.pop()

    def spec(self, name: str) -> TensorSpec:
        return self.graph.specs[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.specs[name].shape

    def rank(self, name: str) -> int:
        return len(self.graph.specs[name].shape)

    def dtype(self, name: str) -> str:
        return self.graph.specs[name].dtype

    def constant(self, name: str) -> Array | None:
        """Value of a tensor known at compile time."""
        return self.graph.constants.get(name) if name else None

    def value(self, name: str, what: str) -> Array:
        """A constant tensor; an error that names the node, the input and what it depends on when it is not known."""
        found = self.constant(name)
        if found is None:
            raise self.moving(name, what)
        return found

    def ints(self, name: str, what: str) -> list[int]:
        """`value` as a flat list of ints."""
        return [int(v) for v in self.value(name, what).reshape(-1)]

    def moving(self, name: str, what: str, more: str = "") -> AtcError:
        """The error of a tensor whose value should be known at conversion and is not."""
        sources = self._sources(name)
        because = f"; it depends on the values of the graph inputs {', '.join(map(repr, sources))}" if sources else ""
        return self.error(
            f"its input {what!r} ({name}) is not a compile-time constant{because}{more}",
            "Fix the input shapes with --input_shape, or make that input a constant of the model.",
        )

    def _sources(self, name: str) -> list[str]:
        """Graph inputs that a tensor is computed from."""
        maker = {out: node for node in self.graph.nodes for out in node.outputs}
        found: dict[str, None] = {}
        seen, stack = set(), [name]
        while stack:
            tensor = stack.pop()
            if tensor in self.graph.inputs:
                found[tensor] = None
            elif tensor in maker and tensor not in seen:
                seen.add(tensor)
                stack += [n for n in maker[tensor].inputs if n]
        return sorted(found)

    def axis(self, value: int, rank: int, what: str = "axis") -> int:
        """An axis counted from the front; an error when the tensor does not have it. A scalar has axis 0."""
        room = max(rank, 1)
        if not -room <= value < room:
            raise self.error(f"{what} {value} is out of range for rank {rank}; expected {-room}..{room - 1}")
        return value % room

    def fresh(self, base: str) -> str:
        self._serial += 1
        return f"{base}__{self._serial}"

    def _node_name(self, base: str, op_type: str) -> str:
        """``base`` for the first operator of an ONNX node, a longer unique name for the next ones."""
        name = base
        while name in self._node_names:
            name = self.fresh(f"{base}/{op_type}")
        self._node_names.add(name)
        return name

    def error(self, cause: str, hint: str = "", code: str = "E14001") -> AtcError:
        node = self.node
        where = f"node {node.name!r} ({node.type}, opset {self.opset})" if node is not None else "the graph"
        return AtcError(code, f"{where}: {cause}", hint)

    def check_size(self, spec: TensorSpec, what: str = "a result") -> None:
        if spec.dtype not in ITEM_BITS:
            raise self.error(f"{what} has data type {spec.dtype}, which is not supported", code="E16002")
        if spec.nbytes > SIZE_LIMIT_BYTES:
            raise self.error(f"{what} of shape {list(spec.shape)} takes {spec.nbytes} bytes; no chip has that memory")

    # building

    def const(self, value: Any, dtype: str | None = None, base: str = "const") -> str:
        """A constant tensor; equal small ones are shared."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= 256 else None
        if key is not None and key in self._small:
            return self._small[key]
        name = self.fresh(base)
        self.define(name, array)
        if key is not None:
            self._small[key] = name
        return name

    def define(self, name: str, array: Array) -> None:
        """Make ``name`` a constant."""
        if array.dtype == object:
            raise self.error(f"tensor {name!r} holds strings, which the device cannot process")
        array = np.ascontiguousarray(array) if array.ndim and not is_virtual(array) else array
        spec = constant_spec(array)
        self.check_size(spec, f"constant {name!r}")
        self.graph.constants[name] = array
        self.graph.specs[name] = spec

    def alias(self, name: str, target: str) -> None:
        """ONNX value ``name`` is the graph tensor ``target``."""
        if name != target:
            self._alias[name] = self._alias.get(target, target)

    def emit(
        self,
        op_type: str,
        inputs: Sequence[str],
        attrs: dict[str, Any] | None = None,
        outputs: Sequence[str] | None = None,
        count: int = 1,
    ) -> list[str]:
        """Append an operator; returns its output names (those of ``outputs``, else new ones)."""
        node = self.node
        assert node is not None
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        base = node.name
        names = (
            [n or self.fresh(base) for n in outputs]
            if outputs is not None
            else [self.fresh(base) for _ in range(count)]
        )
        ops.load(kernels=False)
        if ops.registry.find(op_type) is None:
            raise self.error(f"it needs the Ascend IR operator {op_type!r}, which is not registered", code="E10501")
        args = list(inputs)
        while args and not args[-1]:
            args.pop()
        specs = [self.graph.specs[n] if n else None for n in args]
        try:
            results = infer(op_type, specs, attrs)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise self.error(f"{op_type}: {error}") from error
        while names and len(results) < len(names):
            raise self.error(f"{op_type} gives {len(results)} outputs, {len(names)} are asked for")
        results = results[: len(names)]
        for result in results:
            self.check_size(result)
        if not self._fold(op_type, args, specs, results, attrs, names):
            for name, spec in zip(names, results, strict=True):
                self.graph.specs[name] = spec
            self.graph.nodes.append(Node(self._node_name(base, op_type), op_type, args, names, attrs, (node.name,)))
        return names

    def _fold(
        self,
        op_type: str,
        args: list[str],
        specs: list[TensorSpec | None],
        results: list[TensorSpec],
        attrs: dict[str, Any],
        names: list[str],
    ) -> bool:
        """Evaluate an operator whose inputs are all known."""
        constants = self.graph.constants
        if not args or any(n and n not in constants for n in args) or sum(s.nbytes for s in results) > FOLD_LIMIT_BYTES:
            return False
        call = OpCall(op_type, tuple(specs), tuple(results), freeze_attrs(attrs))
        try:
            values = evaluate(call, [constants[n] if n else None for n in args])
        except (NotImplementedError, KeyError):
            return False
        for name, value in zip(names, values, strict=False):
            self.define(name, np.asarray(value))
        return True


Converter = Callable[[Importer, OnnxNode], None]
Table = dict[str, Converter]
