"""One case through the ``atc`` command, the .om file and ``acl.mdl.execute``, and how its outputs are judged."""

from __future__ import annotations

import io
import json
import re
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.onnx_suite.cases import Case
from benchmarks.onnx_suite.device import Model, Refused, open_device

SOC = "Ascend910B2"
PRECISION = "must_keep_origin_dtype"
FIXED_LIMIT = 64  # elements of an input that may be fixed: shapes, axes, sizes, not data
MOVING_VALUE = re.compile(r"is not a compile-time constant; it depends on the values of the graph inputs (.*)")


@dataclass
class Result:
    """What became of a case. ``status``: ``passed``, ``refused`` (a conversion error names the reason), ``wrong``
    (converted, but another result or a failing call) or ``crashed``. ``fixed``: inputs that had to be constants for
    the conversion, because the shape of a tensor depends on their values. ``folded``: nothing was left to execute."""

    name: str
    kind: str
    opset: int
    operators: tuple[str, ...]
    status: str
    reason: str = ""
    fixed: tuple[str, ...] = ()
    folded: bool = False
    estimated: tuple[str, ...] = ()
    device: tuple[str, ...] = ()  # operators of the compiled model

    def line(self) -> str:
        return json.dumps(asdict(self))


def _freeze(model: onnx.ModelProto, name: str, value: Any) -> onnx.ModelProto:
    """A copy whose input ``name`` is a constant."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [v for v in made.graph.input if v.name != name]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return made


def _atc(model: onnx.ModelProto, folder: Path, inputs: dict[str, Any]) -> tuple[int, str]:
    from ascend_sim.graph.atc import atc_main

    for value in model.graph.input:  # a dimension of 0 cannot be given to --input_shape
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and 0 in array.shape:
            for dim, size in zip(value.type.tensor_type.shape.dim, array.shape, strict=True):
                dim.dim_value = size
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    words = [
        f"--model={path}", "--framework=5", f"--output={folder / 'model'}", f"--soc_version={SOC}",
        f"--precision_mode={PRECISION}",
    ]  # fmt: skip
    opened = []
    for value in model.graph.input:
        tensor = value.type.tensor_type
        known = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and not known and 0 not in array.shape:
            opened.append(f"{value.name}:{','.join(map(str, array.shape))}")
    if opened:
        words.append(f"--input_shape={';'.join(opened)}")
    out = io.StringIO()
    return atc_main(words, out), out.getvalue()


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if re.match(r"E[0-9]{5}|\[?E", line)]
    return lines[0] if lines else text.strip().splitlines()[-1]


def _difference(value: Any, wanted: Any, rtol: float, atol: float) -> str:
    """Why one output differs; "" when it agrees."""
    if not isinstance(wanted, np.ndarray):
        return f"should be a {type(wanted).__name__}"
    if value.shape != wanted.shape:
        return f"has shape {list(value.shape)}, expected {list(wanted.shape)}"
    if value.dtype != wanted.dtype:
        return f"is {value.dtype}, expected {wanted.dtype}"
    if value.dtype == np.object_:
        return "" if value.tolist() == wanted.tolist() else f"is {value.tolist()}, expected {wanted.tolist()}"
    if value.dtype.name == "bfloat16":
        return _difference(value.astype(np.float32), wanted.astype(np.float32), max(rtol, 2.0**-6), atol)
    try:
        np.testing.assert_allclose(value, wanted, rtol=rtol, atol=atol)
    except (AssertionError, TypeError) as error:
        text = [line.strip() for line in str(error).splitlines() if "Max absolute" in line or "Mismatch" in line]
        return f"differs: {'; '.join(text) or str(error).strip().splitlines()[0]}"
    return ""


def _compare(got: list[Any], expected: list[Any], rtol: float, atol: float) -> str:
    """Why outputs differ; "" when they agree (the rule of the suite's own runner)."""
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    found = (_difference(value, wanted, rtol, atol) for value, wanted in zip(got, expected, strict=True))
    return next((f"output {index} {why}" for index, why in enumerate(found) if why), "")


def _execute(case: Case, names: list[str], om: Path, result: Result) -> str:
    """Run the data sets; why an output differs, else ""."""
    from ascend_sim.graph.executor import LoadedModel
    from ascend_sim.soc import load_soc

    loaded = LoadedModel.from_file(om)
    timings = list(loaded.operator_timings(load_soc(SOC)))
    result.estimated = tuple(sorted({node.call.type for node, timing in timings if timing.estimated}))
    result.device = tuple(dict.fromkeys(node.type for node in loaded.graph.nodes))
    result.folded = not timings
    model = Model(str(om))
    try:
        for given, wanted in case.data_sets:
            why = _compare(model.run(dict(zip(names, given, strict=False))), wanted, case.rtol, case.atol)
            if why:
                return why
    finally:
        model.close()
    return ""


def run_case(case: Case) -> Result:
    """Convert, load, execute and compare."""
    versions = {entry.domain: entry.version for entry in case.model.opset_import}
    result = Result(case.name, case.kind, versions.get("", 0), case.operators(), "crashed")
    fixed = {t.name for t in case.model.graph.initializer}
    names = [v.name for v in case.model.graph.input if v.name not in fixed]
    given = dict(zip(names, case.data_sets[0][0], strict=False))
    model = case.model
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            while True:
                code, text = _atc(model, folder, given)
                moving = MOVING_VALUE.search(text) if code else None
                wanted = [n for n in re.findall(r"'([^']*)'", moving[1]) if n in given] if moving else []
                if not wanted or wanted[0] in result.fixed or any(np.size(given[n]) > FIXED_LIMIT for n in wanted):
                    break
                result.fixed += tuple(wanted)
                for name in wanted:
                    model = _freeze(model, name, given[name])
            if code:
                result.status, result.reason = "refused", _reason(text)
                return result
            result.reason = _execute(case, names, folder / "model.om", result)
            result.status = "wrong" if result.reason else "passed"
        except Refused as error:
            result.status, result.reason = "wrong", str(error)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            result.reason = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    return result


def run(cases: Iterable[Case]) -> Iterator[Result]:
    open_device(SOC)
    for case in cases:
        yield run_case(case)
