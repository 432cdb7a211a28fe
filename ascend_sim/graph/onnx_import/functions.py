"""Operators that the ONNX standard defines by other operators: their bodies, converted in place of the node.

The bodies come from the schemas of the installed onnx package (``onnx.defs``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto


def _type_of(imp: Importer, name: str) -> Any:
    """TypeProto of a graph tensor (an empty one when absent)."""
    from onnx import TypeProto, helper

    from ascend_sim.graph.onnx_import.logic import ONNX_DTYPES

    if not name or name not in imp.graph.specs:
        return TypeProto()
    numbers = {text: number for number, text in ONNX_DTYPES.items()}
    return helper.make_tensor_type_proto(numbers[imp.dtype(name)], imp.shape(name))


def _body(imp: Importer, proto: NodeProto, inputs: Sequence[str]) -> tuple[FunctionProto, Any] | None:
    """The function that defines this node at the importer's opset, and the operator's schema."""
    import onnx

    domain = "" if proto.domain in ("", "ai.onnx") else proto.domain
    version = imp.opset if not domain else imp.domains.get(domain, 1)
    schema: Any  # the package's own type description lacks the functions
    try:
        schema = onnx.defs.get_schema(proto.op_type, version, domain)
    except onnx.defs.SchemaError:  # no such operator
        return None
    raw: bytes | None = None
    if schema.has_function:
        fitting = [v for v in schema.function_opset_versions if v <= max(imp.opset, version)]
        if fitting:
            raw = schema.get_function_with_opset_version(max(fitting))
    if not raw and schema.has_context_dependent_function:
        fitting = [v for v in schema.context_dependent_function_opset_versions if v <= max(imp.opset, version)]
        types = [_type_of(imp, n).SerializeToString() for n in inputs]
        if fitting:
            raw = schema.get_context_dependent_function_with_opset_version(
                max(fitting), proto.SerializeToString(), types
            )
    if not raw:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(raw)
    return function, schema


def _bound(nodes: Iterable[NodeProto], given: dict[str, Any]) -> list[NodeProto]:
    """Copies of body nodes whose references to the function's attributes are values."""
    import onnx

    out = []
    for source in nodes:
        node = onnx.NodeProto()
        node.CopyFrom(source)
        del node.attribute[:]
        for attribute in source.attribute:
            made = onnx.AttributeProto()
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in given:
                    continue
                made.CopyFrom(given[attribute.ref_attr_name])
                made.name = attribute.name
            else:
                made.CopyFrom(attribute)
                if made.HasField("g"):
                    inner = _bound(attribute.g.node, given)
                    del made.g.node[:]
                    made.g.node.extend(inner)
            node.attribute.append(made)
        out.append(node)
    return out


def expand(imp: Importer, table: Table, proto: NodeProto, name: str, inputs: Sequence[str]) -> bool:
    """Convert a node by the body of its function; False when the standard gives none."""
    from ascend_sim.graph.onnx_import import nodes

    imp.node = OnnxNode(proto.op_type, name, tuple(inputs), tuple(proto.output), {}, proto.domain)
    found = _body(imp, proto, inputs)
    if found is None:
        return False
    function, schema = found
    given = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
    given.update({a.name: a for a in proto.attribute})
    versions = {entry.domain: entry.version for entry in function.opset_import}
    formal = dict(zip(function.input, [*inputs, *[""] * len(function.input)], strict=False))
    with imp.scope(name, formal), nodes.opset(imp, versions.get("", imp.opset)):
        nodes.convert_nodes(imp, table, _bound(function.node, given))
        results = [imp.resolve(n) for n in function.output]
    for target, source in zip(proto.output, results, strict=False):
        if target:
            imp.alias(imp.bind(target), source)
    return True
