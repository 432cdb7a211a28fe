"""Operators on strings."""

from __future__ import annotations

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def normalizer(imp: Importer, node: OnnxNode) -> None:
    attrs = {
        "stopwords": list(node.attr("stopwords", [])),
        "is_case_sensitive": bool(node.attr("is_case_sensitive", 0)),
        "case_change_action": node.attr("case_change_action", "NONE"),
    }
    imp.emit("StringNormalizer", node.inputs[:1], attrs, node.outputs)


def concat(imp: Importer, node: OnnxNode) -> None:
    imp.emit("StringJoin", node.inputs[:2], {"separator": "", "N": 2}, node.outputs)


def full_match(imp: Importer, node: OnnxNode) -> None:
    imp.emit("StaticRegexFullMatch", node.inputs[:1], {"pattern": node.attr("pattern", "")}, node.outputs)


TABLE: Table = {"StringNormalizer": normalizer, "StringConcat": concat, "RegexFullMatch": full_match}
