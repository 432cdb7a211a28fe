"""LSTM, GRU and RNN."""

from __future__ import annotations

from functools import partial
from typing import Any

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def recurrent(ir: str, states: int, imp: Importer, node: OnnxNode) -> None:
    """LSTM -> CommonLSTM, GRU -> CommonGRU, RNN -> CommonRNN: the same inputs and attributes. Lengths that are known
    and all full are left out: kernels run sequences of one length."""
    names = (
        "activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget",
        "layout", "linear_before_reset",
    )  # fmt: skip
    attrs: dict[str, Any] = {name: node.attrs[name] for name in names if name in node.attrs}
    outputs = [*node.outputs, *[""] * (1 + states - len(node.outputs))]
    inputs = list(node.inputs)
    lengths = imp.constant(node.input(4))
    if lengths is not None and (lengths == imp.shape(inputs[0])[1 if attrs.get("layout", 0) else 0]).all():
        inputs[4] = ""
    imp.emit(ir, inputs, attrs, outputs)


TABLE: Table = {
    "LSTM": partial(recurrent, "CommonLSTM", 2),
    "GRU": partial(recurrent, "CommonGRU", 1),
    "RNN": partial(recurrent, "CommonRNN", 1),
}
