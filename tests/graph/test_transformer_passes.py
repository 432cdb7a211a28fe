"""Patterns of transformers, before and after: RMS normalisation, GELU, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from bert import bert
from graph_models import check, cosine, make_model, randn, reference, run
from onnx import helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions
from ascend_sim.soc import load_soc

N = helper.make_node
HEADS, TOKENS, WIDTH = 2, 16, 16
X = {name: randn(2, HEADS, TOKENS, WIDTH, seed=i) for i, name in enumerate("qkv")}
HALF = CompileOptions()


def c(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value, np.float32)


def types(loaded: LoadedModel) -> list[str]:
    return [n.call.type for n in loaded.calls if n.call.type not in ("Cast", "TransData")]


def close(
    model: onnx.ModelProto, inputs: dict[str, Any], soc: str = "Ascend910B4", off: frozenset[str] = frozenset()
) -> LoadedModel:
    got, loaded = run(model, inputs, soc, CompileOptions(switched_off=off))
    for value, expected in zip(got, reference(model, inputs), strict=True):
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, atol=6e-3 * float(np.abs(expected).max()), rtol=2e-2)
    return loaded


@pytest.mark.parametrize("how", ["divide", "reciprocal", "square"])
def test_rms_norm(how: str) -> None:
    power = N("Mul", ["x", "x"], ["p"]) if how == "square" else N("Pow", ["x", "two"], ["p"])
    nodes = [power, N("ReduceMean", ["p"], ["m"], axes=[-1], keepdims=1), N("Add", ["m", "eps"], ["e"]),
             N("Sqrt", ["e"], ["s"])]  # fmt: skip
    if how == "reciprocal":
        nodes += [N("Reciprocal", ["s"], ["r"]), N("Mul", ["x", "r"], ["n"]), N("Mul", ["w", "n"], ["y"])]
    else:
        nodes += [N("Div", ["x", "s"], ["n"]), N("Mul", ["n", "w"], ["y"])]
    constants = {"two": c(2), "eps": c(1e-6), "w": randn(32, seed=3)}
    model = make_model(nodes, {"x": randn(4, 32)}, ["y"], constants)
    loaded = check(model, {"x": randn(4, 32)})
    assert types(loaded) == ["RmsNorm"]
    off = run(model, {"x": randn(4, 32)}, options=CompileOptions(switched_off=frozenset(("rms_norm",))))[1]
    assert "RmsNorm" not in types(off)
    other = make_model([*nodes, N("Neg", ["s"], ["z"])], {"x": randn(4, 32)}, ["y", "z"], constants)
    assert "RmsNorm" in types(check(other, {"x": randn(4, 32)}))  # the deviation is read elsewhere: both are made


def test_rms_norm_of_a_residual_stream() -> None:
    """x + r is normalised and read again: one operator gives both on 910B."""
    nodes = [
        N("Add", ["x", "r"], ["s"]), N("Pow", ["s", "two"], ["p"]),
        N("ReduceMean", ["p"], ["m"], axes=[-1], keepdims=1),
        N("Add", ["m", "eps"], ["e"]), N("Sqrt", ["e"], ["d"]), N("Div", ["s", "d"], ["n"]),
        N("Mul", ["w", "n"], ["y"]),
        N("Sub", ["s", "y"], ["z"]),
    ]  # fmt: skip
    inputs = {"x": randn(6, 64), "r": randn(6, 64, seed=1)}
    model = make_model(nodes, inputs, ["y", "z"], {"two": c(2), "eps": c(1e-6), "w": randn(64, seed=3)})
    loaded = close(model, inputs)
    assert types(loaded) == ["AddRmsNorm", "Sub"]
    assert not any(t.estimated for _, t in loaded.operator_timings(load_soc("Ascend910B4")))
    assert types(close(model, inputs, "Ascend310P3")) == ["Add", "RmsNorm", "Sub"]


@pytest.mark.parametrize("cube", ["pow", "mul"])
def test_gelu_with_tanh(cube: str) -> None:
    nodes = [N("Mul", ["x", "half"], ["h"])]
    nodes += [N("Pow", ["x", "three"], ["p"])] if cube == "pow" else [
        N("Mul", ["x", "x"], ["s"]), N("Mul", ["s", "x"], ["p"])
    ]  # fmt: skip
    nodes += [
        N("Mul", ["p", "k"], ["pk"]), N("Add", ["x", "pk"], ["a"]), N("Mul", ["a", "r"], ["b"]),
        N("Tanh", ["b"], ["t"]), N("Add", ["t", "one"], ["u"]), N("Mul", ["h", "u"], ["y"]),
    ]  # fmt: skip
    constants = {"half": c(0.5), "three": c(3), "k": c(0.044715), "r": c(np.sqrt(2 / np.pi)), "one": c(1)}
    model = make_model(nodes, {"x": randn(4, 32)}, ["y"], constants)
    assert types(check(model, {"x": randn(4, 32)}, atol=1e-4)) == ["Gelu"]


def attention(mask: list[onnx.NodeProto], scores: str, **constants: Any) -> onnx.ModelProto:
    nodes = [
        N("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), N("MatMul", ["q", "kt"], ["s"]), N("Div", ["s", "d"], ["sd"]),
        *mask, N("Softmax", [scores], ["p"], axis=-1), N("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    return make_model(nodes, X, ["y"], {"d": c(4.0), **constants})


def test_attention_without_a_mask() -> None:
    model = attention([], "sd")
    loaded = close(model, X)
    assert types(loaded) == ["PromptFlashAttention"]
    call = next(n.call for n in loaded.calls if n.call.type == "PromptFlashAttention")
    assert (call.attr("scale_value"), call.attr("input_layout"), call.attr("num_heads")) == (0.25, "BNSD", HEADS)
    plain = close(model, X, off=frozenset(("attention",)))
    assert types(plain).count("BatchMatMulV2") == 2
    assert "SoftmaxV2" in types(close(model, X, "Ascend310P3"))  # cube and vector unit share a core
    assert "SoftmaxV2" in types(run(model, X, options=CompileOptions(precision_mode="must_keep_origin_dtype"))[1])


def test_long_attention_is_faster_in_one_operator() -> None:
    """Scores of 2,048 tokens are not stored."""
    chip = load_soc("Ascend910B4")
    shape = [1, 8, 2048, 128]
    model = attention([], "sd")
    for value in (*model.graph.input, *model.graph.output):
        for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            dim.dim_value = size
    times = []
    for off in (frozenset[str](), frozenset(("attention",))):
        om = compile_model(model.SerializeToString(), chip, CompileOptions(switched_off=off))
        timed = [t for _, t in LoadedModel.from_bytes(om).operator_timings(chip)]
        assert not any(t.estimated for t in timed)
        times.append(sum(t.task_ps for t in timed))
    assert times[0] < 0.75 * times[1]


CAUSAL = np.triu(np.full((TOKENS, TOKENS), -3e4, np.float32), 1)
SEEN = np.tril(np.ones((1, 1, TOKENS, TOKENS), np.bool_))


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([N("Add", ["sd", "m"], ["z"])], {"m": CAUSAL}),
        ([N("Add", ["m", "sd"], ["z"])], {"m": CAUSAL.reshape(1, 1, TOKENS, TOKENS)}),
        ([N("Where", ["m", "sd", "low"], ["z"])], {"m": SEEN, "low": c(-3e4)}),
        ([N("Where", ["m", "low", "sd"], ["z"])], {"m": ~SEEN, "low": c(-3e4)}),
    ],
)
def test_attention_with_a_constant_mask(nodes: list[Any], constants: dict[str, Any]) -> None:
    loaded = close(attention(nodes, "z", **constants), X)
    assert types(loaded) == ["PromptFlashAttention"]
    assert len(loaded.calls[-2].call.inputs) == 5  # query, key, value, no shift, mask


@pytest.mark.parametrize("how", ["multiplied", "selected"])
def test_attention_with_a_mask_of_the_input(how: str) -> None:
    inputs = {**X, "seen": (np.arange(2 * TOKENS).reshape(2, 1, 1, TOKENS) % 5 != 0).astype(np.float32)}
    if how == "multiplied":
        mask = [N("Sub", ["one", "seen"], ["u"]), N("Mul", ["u", "low"], ["m"])]
    else:
        mask = [N("Equal", ["seen", "one"], ["u"]), N("Where", ["u", "zero", "low"], ["m"])]
    nodes = [
        N("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), N("MatMul", ["q", "kt"], ["s"]), N("Div", ["s", "d"], ["sd"]),
        *mask, N("Add", ["sd", "m"], ["z"]), N("Softmax", ["z"], ["p"], axis=-1), N("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    constants = {"d": c(4.0), "one": c(1), "low": c(-1e4), "zero": c(0)}
    loaded = close(make_model(nodes, inputs, ["y"], constants), inputs)
    assert "PromptFlashAttention" in types(loaded) and "SoftmaxV2" not in types(loaded)


@pytest.mark.parametrize("shapes", [((2, 2, 8, 20), (2, 2, 8, 20)), ((2, 2, 8, 16), (1, 2, 8, 16))])
def test_attention_that_the_operator_does_not_take_stays(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Heads that are no whole blocks, and keys that pictures share."""
    inputs = {"q": randn(*shapes[0]), "k": randn(*shapes[1], seed=1), "v": randn(*shapes[1], seed=2)}
    nodes = [
        N("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), N("MatMul", ["q", "kt"], ["s"]),
        N("Softmax", ["s"], ["p"], axis=-1), N("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    assert "SoftmaxV2" in types(close(make_model(nodes, inputs, ["y"]), inputs))


def test_a_bias_is_no_mask() -> None:
    bias = randn(1, HEADS, TOKENS, TOKENS, seed=9)
    loaded = close(attention([N("Add", ["sd", "m"], ["z"])], "z", m=bias), X)
    assert "SoftmaxV2" in types(loaded) and "PromptFlashAttention" not in types(loaded)


def test_heads_in_the_batch_and_scales_at_query_and_key() -> None:
    inputs = {name: value.reshape(4, TOKENS, WIDTH) for name, value in X.items()}
    nodes = [
        N("Mul", ["q", "r"], ["qs"]), N("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), N("Mul", ["kt", "r"], ["ks"]),
        N("MatMul", ["qs", "ks"], ["s"]), N("Add", ["s", "m"], ["z"]), N("Softmax", ["z"], ["p"], axis=-1),
        N("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    loaded = close(make_model(nodes, inputs, ["y"], {"r": c(0.5), "m": CAUSAL}), inputs)
    assert types(loaded) == ["PromptFlashAttention"]
    call = next(n.call for n in loaded.calls if n.call.type == "PromptFlashAttention")
    assert call.attr("scale_value") == 0.25


def test_encoder_is_fused_and_gives_the_same_answer() -> None:
    """Two layers as exporters write them; heads come forward and go back inside the operator (BSND)."""
    model = bert(layers=2, hidden=64, heads=4, tokens=32, vocabulary=50)
    ids = np.random.default_rng(0).integers(0, 50, (1, 32))
    inputs = {"input_ids": ids, "attention_mask": (np.arange(32) < 20).astype(np.int64)[None]}
    expected = reference(model, inputs)[0]
    for soc in ("Ascend910B4", "Ascend310P3"):
        got, loaded = run(model, inputs, soc, HALF)
        assert cosine(got[0], expected) >= 0.9999
        found = types(loaded)
        assert (found.count("LayerNormV4"), found.count("GeluV2") + found.count("SoftmaxV2")) == (5, 2)
        untimed = [n.call.type for n, t in loaded.operator_timings(load_soc(soc)) if t.estimated]
        assert untimed == []
        if soc == "Ascend910B4":
            assert found.count("PromptFlashAttention") == 2 and "TransposeD" not in found and "SoftmaxV2" not in found
