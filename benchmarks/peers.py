"""GEMM 1024^3 on SCALE-Sim and ZigZag, each in the interpreter that has it: CPU seconds of the simulation alone, after
imports. The arrays have the 4096 multipliers of one cube core."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SCALESIM = """
import contextlib, io, time
from scalesim.scale_sim import scalesim
with contextlib.redirect_stdout(io.StringIO()):
    s = scalesim(save_disk_space=True, verbose=False, config="cube.cfg", topology="gemm.csv", layout="layout.csv",
                 input_type_gemm=True)
    started = time.process_time()
    s.run_scale(top_path="out")
    spent = time.process_time() - started
print(spent)
"""
SCALESIM_CONFIG = """
[general]
run_name = gemm
[architecture_presets]
ArrayHeight = 64
ArrayWidth = 64
ifmapsramszkB = 256
filtersramszkB = 256
ofmapsramszkB = 128
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 64
ReadRequestBuffer = 512
WriteRequestBuffer = 512
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 64
IfmapSRAMBankNum = 64
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 64
FilterSRAMBankNum = 64
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
ZIGZAG = """
import logging, os, time
import zigzag
from onnx import TensorProto, helper
from zigzag.api import get_hardware_performance_zigzag
nodes = [helper.make_node("MatMul", ["a", "b"], ["c"], name="gemm")]
infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1024, 1024]) for n in "abc"]
graph = helper.make_graph(nodes, "gemm", infos[:2], infos[2:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
inputs = os.path.join(os.path.dirname(zigzag.__file__), "inputs")
logging.disable(logging.CRITICAL)
started = time.process_time()
get_hardware_performance_zigzag(
    model, f"{inputs}/hardware/ascend_like.yaml", f"{inputs}/mapping/default.yaml", opt="latency", dump_folder="out",
    loma_show_progress_bar=False,
)
print(time.process_time() - started)
"""


def scalesim_seconds(python: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "cube.cfg").write_text(SCALESIM_CONFIG)
        (root / "gemm.csv").write_text("Layer,M,N,K,\ngemm,1024,1024,1024,\n")
        (root / "layout.csv").write_text("Layer,\ngemm,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,\n")
        return _run(python, SCALESIM, folder)


def zigzag_seconds(python: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _run(python, ZIGZAG, folder)


def _run(python: str, script: str, folder: str) -> float:
    done = subprocess.run([python, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{python}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.stdout}")
    return float(done.stdout.split()[-1])


def compare(scalesim: str | None, zigzag: str | None) -> Iterator[tuple[str, float]]:
    """(simulator, CPU seconds) of those whose interpreter is given."""
    if scalesim:
        yield "SCALE-Sim: GEMM 1024^3", scalesim_seconds(scalesim)
    if zigzag:
        yield "ZigZag: GEMM 1024^3", zigzag_seconds(zigzag)
