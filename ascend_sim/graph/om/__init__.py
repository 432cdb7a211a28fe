"""Offline model files: genuine container layout, written and read without onnx."""

from ascend_sim.graph.om.inout import InOut, IoDesc
from ascend_sim.graph.om.reader import OmFile, read_om
from ascend_sim.graph.om.writer import write_om

__all__ = ["InOut", "IoDesc", "OmFile", "read_om", "write_om"]
