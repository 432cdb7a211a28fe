"""``python -m benchmarks.llama``: Llama-2-7B, a prefill of 512 tokens and one decode step, timing only.

The operators of one forward pass in order, float16, one sequence, as torch_npu runs the network with fused operators:
RmsNorm, one product each for query, key and value, rotary embedding of query and key (written to the cache),
attention over the cache, output product, residual sum, RmsNorm, gate and up in one product, SwiGlu, down product,
residual sum; embedding before, norm and head of the last token after the 32 layers. No weights exist: tensors are
shapes at device addresses, every layer's weights at their own, so that L2 holds what it would hold.

    python -m benchmarks.llama [--soc Ascend910B2] [--prompt 512] [--layers 32] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ascend_sim import ops
from ascend_sim.api import Report, Simulator
from ascend_sim.cli.table import render
from ascend_sim.ops.schema import OpCall, TensorSpec

HIDDEN, HEADS, HEAD, FFN, VOCABULARY = 4096, 32, 128, 11008, 32000
ALIGN = 1 << 20  # bytes; places of tensors
GOAL_SECONDS, GOAL_MIB = 10.0, 1024.0


@dataclass(frozen=True)
class Tensor:
    spec: TensorSpec
    address: int


@dataclass(frozen=True)
class Step:
    """One operator of the graph: ``what`` it does, its call and the addresses of inputs and outputs."""

    what: str
    call: OpCall
    addresses: tuple[int, ...]


@dataclass
class Memory:
    """Device addresses: weights and caches each at a place of their own, activations in turn in a few buffers."""

    cursor: int = 1 << 30
    kept: dict[str, Tensor] = field(default_factory=dict)
    turn: int = 0

    def keep(self, name: str, *shape: int, dtype: str = "float16") -> Tensor:
        """The tensor of this name, the same one each time."""
        if name not in self.kept:
            spec = TensorSpec(shape, dtype)
            self.kept[name] = Tensor(spec, self.cursor)
            self.cursor += -(-spec.nbytes // ALIGN) * ALIGN
        return self.kept[name]

    def scratch(self, spec: TensorSpec) -> Tensor:
        """An activation; its buffer is used again after seven others, as an allocator with a pool would."""
        self.turn = (self.turn + 1) % 8
        return Tensor(spec, (1 << 40) + self.turn * (64 << 20))


class Llama:
    """Builds the operators of forward passes."""

    def __init__(self, layers: int = 32) -> None:
        ops.load()
        self.layers, self.memory = layers, Memory()

    @property
    def weight_bytes(self) -> int:
        return sum(t.spec.nbytes for name, t in self.memory.kept.items() if "." in name and "cache" not in name)

    def forward(self, tokens: int, past: int, window: int) -> Iterator[Step]:
        """The pass of ``tokens`` new tokens after ``past`` ones; caches hold ``window`` tokens."""
        memory = self.memory
        table, ids = memory.keep("model.embed", VOCABULARY, HIDDEN), memory.keep(f"ids{tokens}", tokens, dtype="int64")
        axis = Tensor(TensorSpec((1,), "int32", const=b"\0\0\0\0"), 0)
        yield from self._step("embedding", "GatherV2", [table, ids, axis], {"axis": 0})
        x = self.result
        for layer in range(self.layers):
            yield from self._layer(x, layer, tokens, past, window)
            x = self.result
        yield from self._step("norm", "RmsNorm", [x, memory.keep("model.norm", HIDDEN)], {"epsilon": 1e-5})
        last = Tensor(TensorSpec((1, HIDDEN), "float16"), self.result.address)
        yield from self._linear("head", last, "model.head", VOCABULARY)
        yield from self._step("logits", "Cast", [self.result], {"dst_type": "float32"})

    def _layer(self, x: Tensor, layer: int, tokens: int, past: int, window: int) -> Iterator[Step]:
        memory, name = self.memory, f"layers.{layer}"
        yield from self._step("norm", "RmsNorm", [x, memory.keep(f"{name}.norm1", HIDDEN)], {"epsilon": 1e-5})
        normed = self.result
        heads = TensorSpec((1, tokens, HEADS, HEAD), "float16")
        angles = [memory.keep(f"{f}{tokens}", 1, tokens, 1, HEAD) for f in ("cos", "sin")]
        caches = [memory.keep(f"{name}.cache{c}", 1, window, HEADS, HEAD) for c in "kv"]
        row = HEADS * HEAD * 2  # bytes of a token in a cache
        rotated = []
        for part in "qk":
            yield from self._linear("query, key, value", normed, f"{name}.{part}", HIDDEN)
            place = None if part == "q" else caches[0].address + past * row
            inputs = [Tensor(heads, self.result.address), *angles]
            yield from self._step("rotary", "RotaryPositionEmbedding", inputs, {"mode": 0}, place)
            rotated.append(self.result)
        yield from self._linear("query, key, value", normed, f"{name}.v", HIDDEN, caches[1].address + past * row)
        seen = TensorSpec((1, past + tokens, HEADS, HEAD), "float16")
        mask = memory.keep("mask", 2048, 2048, dtype="bool") if tokens > 1 else None
        attrs = {"num_heads": HEADS, "num_key_value_heads": HEADS, "scale": HEAD**-0.5, "input_layout": "BSND",
                 "sparse_mode": 3 if tokens > 1 else 0}  # fmt: skip
        context = [rotated[0], Tensor(seen, caches[0].address), Tensor(seen, caches[1].address), None, mask]
        yield from self._step("attention", "FusedInferAttentionScore", context, attrs)
        flat = Tensor(TensorSpec((tokens, HIDDEN), "float16"), self.result.address)
        yield from self._linear("attention output", flat, f"{name}.o", HIDDEN)
        yield from self._step("residual", "Add", [x, self.result], {})
        middle = self.result
        yield from self._step("norm", "RmsNorm", [middle, memory.keep(f"{name}.norm2", HIDDEN)], {"epsilon": 1e-5})
        yield from self._linear("gate and up", self.result, f"{name}.gate_up", 2 * FFN)
        yield from self._step("SwiGLU", "SwiGlu", [self.result], {"dim": -1})
        yield from self._linear("down", self.result, f"{name}.down", HIDDEN)
        yield from self._step("residual", "Add", [middle, self.result], {})

    def _linear(self, what: str, x: Tensor, weight: str, out: int, place: int | None = None) -> Iterator[Step]:
        """x times the transposed weight (out, in), as torch keeps it."""
        w = self.memory.keep(weight, out, x.spec.shape[-1])
        yield from self._step(what, "MatMulV2", [x, w, None], {"transpose_x1": False, "transpose_x2": True}, place)

    def _step(
        self, what: str, op: str, inputs: Sequence[Tensor | None], attrs: dict[str, object], place: int | None = None
    ) -> Iterator[Step]:
        """One operator; its first result goes to ``place`` or a scratch buffer and is then ``self.result``."""
        call = ops.call(op, [None if t is None else t.spec for t in inputs], attrs)
        outputs = [self.memory.scratch(spec) for spec in call.outputs]
        if place is not None:
            outputs[0] = Tensor(call.outputs[0], place)
        self.result = outputs[0]
        yield Step(what, call, tuple(0 if t is None else t.address for t in (*inputs, *outputs)))


@dataclass
class Line:
    """Equal operators of a pass: how often, their time together, and the report of the last."""

    count: int
    us: float
    report: Report


@dataclass
class Pass:
    """One forward pass: its lines by (what, operator, shape of the first result)."""

    name: str
    lines: dict[tuple[str, str, tuple[int, ...]], Line]
    busy_us: float
    gaps_us: float

    @property
    def us(self) -> float:
        return self.busy_us + self.gaps_us


def run(npu: Simulator, name: str, steps: Iterator[Step]) -> Pass:
    """Time the steps one after the other on the device's L2."""
    lines: dict[tuple[str, str, tuple[int, ...]], Line] = {}
    busy, count = 0.0, 0
    for step in steps:
        report = npu.op(step.call, l2="kept", addresses=step.addresses)
        line = lines.setdefault((step.what, step.call.type, step.call.outputs[0].shape), Line(0, 0.0, report))
        line.count, line.us, line.report = line.count + 1, line.us + report.us, report
        busy, count = busy + report.us, count + 1
    launch = npu.soc.launch
    return Pass(name, lines, busy, launch.model_execute_us + (count - 1) * launch.model_gap_us)


def simulate(soc: str, prompt: int = 512, layers: int = 32) -> tuple[list[Pass], int]:
    """Prefill and the decode step after it; and the bytes of weights."""
    npu, net = Simulator(soc), Llama(layers)
    passes = [
        run(npu, f"prefill of {prompt} tokens", net.forward(prompt, 0, prompt + 1)),
        run(npu, "decode of token " + str(prompt + 1), net.forward(1, prompt, prompt + 1)),
    ]
    return passes, net.weight_bytes


def table(found: Pass) -> str:
    """Operators by their time together."""
    rows = []
    for (what, op, shape), line in sorted(found.lines.items(), key=lambda item: -item[1].us):
        bound = "estimated" if line.report.estimated else line.report.bound
        rows.append([what, op, "x".join(map(str, shape)), line.count, f"{line.us / line.count:.2f}", f"{line.us:.0f}",
                     f"{line.us / found.us:.1%}", bound, line.report.confidence, line.report.band_text])  # fmt: skip
    header = ["part", "operator", "result", "count", "us each", "us", "share", "bound", "confidence", "error band"]
    return f"{found.name}: {found.us / 1e3:.2f} ms, of it {found.gaps_us / 1e3:.2f} ms outside kernels\n" + render(
        header, rows
    )


def main(argv: Sequence[str]) -> int:
    from benchmarks.speed import peak_mib

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soc", default="Ascend910B2")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    started = time.process_time()
    passes, weights = simulate(args.soc, args.prompt, args.layers)
    seconds, mib = time.process_time() - started, peak_mib()
    if args.json:
        print(json.dumps({"soc": args.soc, "cpu_s": seconds, "MiB": mib, "weight_bytes": weights,
                          "passes": [{"name": p.name, "us": p.us, "busy_us": p.busy_us} for p in passes]}))  # fmt: skip
        return 0
    print(f"Llama-2-7B on {args.soc}, {weights / 2**30:.1f} GiB of weights\n")
    print("\n\n".join(table(p) for p in passes))
    kinds = len({*chain.from_iterable(p.lines for p in passes)})
    operators = sum(line.count for p in passes for line in p.lines.values())
    print(f"\n{operators} operators of {kinds} kinds: {seconds:.1f} s CPU (goal {GOAL_SECONDS:g}), "
          f"{mib:.0f} MiB (goal {GOAL_MIB:g})")  # fmt: skip
    return 0 if seconds <= GOAL_SECONDS and mib <= GOAL_MIB else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
