"""Compares every entry of torch's operator database on device npu with the CPU, one JSON line an entry.

``python tests/torch_npu/opinfo.py --dtype float32 [--stride 20] [--names abs,mm] [--out FILE]``: the parent starts a
worker, which goes through the entries; when it dies, the entry is a crash and a new worker goes on behind it.
``--dtype float32,float16,bfloat16 --page docs/torch_npu.md`` writes the part of that page about it anew.
Statuses: ok, mismatch, error, crash. An entry that is ok says in ``rules`` what it took beyond equality with the CPU in
the same type (`assert_close`); without any it is counted as ``ok_strict``:

``rounded_once`` (half types)
    equal to the CPU's float32 result rounded once to the type. Ascend's own tests compare half types so: the CPU gets
    float32 inputs (``input.dtype == torch.float16: input.to(torch.float32)``, Ascend/op-plugin test/).
``order_of_equals``
    indices of `sort`, `argsort` and `topk`, where torch leaves the order of equal elements open: they are different
    places that hold equal elements.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

SAMPLES, SECONDS = 12, 4.0
SKIPPED = {  # nothing deterministic: only types and shapes are compared, but for RANDOM
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "normal", "normal.in_place", "normal.number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "uniform",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout.with_train", "nn.functional.rrelu", "pca_lowrank", "svd_lowrank",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip
STAY = {"tensor_split"}  # indices that torch wants on the CPU whatever the device
ORDERS = {"sort": 0, "argsort": 0, "topk": 1}  # which positional argument is the axis
TOLERANCE: dict[str, float] = {}  # atol and rtol; empty: those of `assert_close` for the type
RANDOM = SKIPPED - {  # drawn as on the CPU: the same seed gives the same numbers
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
}  # fmt: skip


def full_name(op: Any) -> str:
    return str(op.name) + (f".{op.variant_test_name}" if op.variant_test_name else "")


def entries(dtype: Any) -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if dtype in op.supported_dtypes("cpu")]


def _tensor_to(x: Any, device: str) -> Any:
    """``x`` on ``device`` with its place in its storage: a view of part of a storage stays one."""
    import torch

    x = x.detach()
    if x.layout != torch.strided:
        return x
    held = x.untyped_storage().nbytes() // max(x.element_size(), 1)
    if x.is_conj() or x.is_neg() or held == x.numel():
        return x.to(device)
    return x.as_strided((held,), (1,), 0).to(device).as_strided(x.size(), x.stride(), x.storage_offset())


def _moved(value: Any, device: str) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return _tensor_to(x, device)
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return torch.device(device)
        return x

    return tree_map(one, value)


def _results(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [x for x in tree_leaves(value) if isinstance(x, torch.Tensor | int | float | bool | complex)]


def _compare(actual: Any, expected: Any) -> None:
    import torch
    from torch.testing import assert_close

    for got, wanted in zip(_results(actual), _results(expected), strict=True):
        if isinstance(got, torch.Tensor):
            assert_close(got.cpu(), torch.as_tensor(wanted).detach(), equal_nan=True, check_stride=False, **TOLERANCE)
        else:
            assert_close(got, wanted, equal_nan=True, **TOLERANCE)


def _widened(value: Any, dtype: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype == dtype:
            return x.detach().float()
        return torch.float32 if x is dtype else x

    return tree_map(one, value)


def _narrowed(value: Any, dtype: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def one(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x

    return tree_map(one, value)


def _equals_in_order(name: str, sample: Any, actual: Any, expected: Any) -> bool:
    """Whether results of an ordering differ only in the order of equal elements; False for other operators."""
    import torch

    if name not in ORDERS or sample.kwargs.get("stable"):
        return False
    at = ORDERS[name]
    dim = sample.args[at] if len(sample.args) > at else sample.kwargs.get("dim", -1)
    mine, theirs = _results(actual), _results(expected)
    if len(mine) > 1:
        _compare(mine[0], theirs[0])
    found = mine[-1].cpu()
    if any(len(set(places)) < len(places) for places in found.movedim(dim, -1).reshape(-1, found.shape[dim]).tolist()):
        return False
    _compare(torch.gather(sample.input, dim, found), torch.gather(sample.input, dim, theirs[-1]))
    return True


def check_sample(op: Any, name: str, sample: Any, dtype: Any) -> str:
    """Runs one sample on both devices; the rule it took ("" for equality with the CPU, which is all that is asked of
    entries without deterministic results). AssertionError when the results differ by every rule."""
    import torch

    args = [_moved(v, "npu") for v in (sample.input, [] if name in STAY else list(sample.args), dict(sample.kwargs))]
    if name in STAY:
        args[1] = list(sample.args)
    torch.manual_seed(0)
    try:
        expected = op(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # of any kind: a sample that the CPU refuses is nothing to compare with
        return ""
    torch.manual_seed(0)
    torch.npu.manual_seed_all(0)
    actual = op(args[0], *args[1], **args[2])
    if name in SKIPPED and name not in RANDOM:
        kinds = [[(x.dtype, x.shape) for x in _results(y) if isinstance(x, torch.Tensor)] for y in (actual, expected)]
        assert kinds[0] == kinds[1], f"{kinds[0]} instead of {kinds[1]}"
        return ""
    try:
        _compare(actual, expected)
        return ""
    except AssertionError:
        if _equals_in_order(name, sample, actual, expected):
            return "order_of_equals"
        if dtype not in (torch.float16, torch.bfloat16):
            raise
    # the chip computes in float32 and rounds once: so must the CPU to be comparable
    torch.manual_seed(0)
    wide = [_widened(v, dtype) for v in (sample.input, list(sample.args), dict(sample.kwargs))]
    _compare(actual, _narrowed(op(wide[0], *wide[1], **wide[2]), dtype))
    return "rounded_once"


def check(op: Any, dtype: Any) -> dict[str, Any]:
    from torch_npu.dispatch import run

    name = full_name(op)
    before = Counter(run.fallbacks)
    launches = run.kernels_launched()
    seen, started, status, why = 0, time.monotonic(), "ok", ""
    rules: set[str] = set()
    try:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            if seen >= SAMPLES or time.monotonic() - started > SECONDS:
                break
            seen += 1
            rules.add(check_sample(op, name, sample, dtype))
    except AssertionError as error:
        status, why = "mismatch", str(error).replace("\n", " ")[:300]
    except Exception as error:
        status, why = "error", f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
    fell = sorted((Counter(run.fallbacks) - before).keys())
    return {
        "name": name, "status": status, "why": why, "samples": seen, "fallbacks": fell, "rules": sorted(rules - {""}),
        "kernels": run.kernels_launched() - launches, "seconds": round(time.monotonic() - started, 2),
    }  # fmt: skip


def worker(dtype_name: str, names: list[str], out: str) -> None:
    warnings.simplefilter("ignore")
    import torch

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    dtype = getattr(torch, dtype_name)
    chosen = {full_name(op): op for op in entries(dtype)}
    with open(out, "a", encoding="utf-8") as file:
        for name in names:
            file.write(json.dumps({"begin": name}) + "\n")
            file.flush()
            file.write(json.dumps(check(chosen[name], dtype)) + "\n")
            file.flush()


def _lines(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def run_all(dtype_name: str, names: list[str], out: str, more: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Results of all entries; workers that die are replaced."""
    open(out, "w", encoding="utf-8").close()
    left = list(names)
    while left:
        command = [sys.executable, __file__, "--worker", "--dtype", dtype_name, "--out", out, *more]
        env = {**os.environ, "ASCEND_SIM_QUIET": "1"}
        done = subprocess.run(command, input="\n".join(left), text=True, env=env, check=False)
        rows = _lines(out)
        finished = {r["name"] for r in rows if "name" in r}
        begun = [r["begin"] for r in rows if "begin" in r]
        if done.returncode and begun and begun[-1] not in finished:
            crash = {"name": begun[-1], "status": "crash", "why": f"exit {done.returncode}", "samples": 0,
                     "fallbacks": [], "rules": [], "kernels": 0, "seconds": 0.0}  # fmt: skip
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(crash) + "\n")
            finished.add(begun[-1])
        elif done.returncode and not begun:
            raise RuntimeError("the worker does not start")
        left = [n for n in left if n not in finished]
    return finished_rows(out)


def finished_rows(out: str) -> list[dict[str, Any]]:
    return [r for r in _lines(out) if "name" in r]


def summary(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Counts: entries by status, ``ok_strict`` (equal to the CPU in the same type), ``ok_by_...`` for those that took
    a rule, ``through_acl_op_only`` (operators of the device and no CPU fallback)."""
    counts = Counter(r["status"] for r in rows)
    ok = [r for r in rows if r["status"] == "ok"]
    by_rule = Counter(f"ok_by_{rule}" for r in ok for rule in r["rules"])
    clean = sum(r["kernels"] > 0 and not r["fallbacks"] for r in ok)
    strict = sum(not r["rules"] for r in ok)
    return {"entries": len(rows), "ok": 0, **counts, "ok_strict": strict, **by_rule, "through_acl_op_only": clean}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32", help="one type, or several between commas")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--names", default="")
    parser.add_argument("--out", default="opinfo_{dtype}.jsonl", help="results; {dtype} stands for the type")
    parser.add_argument("--page", default="", help="file whose part about the operator database is written anew")
    parser.add_argument("--reuse", action="store_true", help="take the results that are there already")
    parser.add_argument("--tolerance", type=float, help="atol and rtol (PyTorch's own test_compare_cpu: 1e-3)")
    parser.add_argument("--worker", action="store_true")
    args = parser.parse_args()
    if args.tolerance is not None:
        TOLERANCE.update(atol=args.tolerance, rtol=args.tolerance)
    if args.worker:
        worker(args.dtype, sys.stdin.read().split("\n"), args.out)
        return 0
    import torch

    found: dict[str, list[dict[str, Any]]] = {}
    for dtype in args.dtype.split(","):
        names = args.names.split(",") if args.names else []
        if not names:
            names = sorted({full_name(op) for op in entries(getattr(torch, dtype))})[:: args.stride]
        out = args.out.format(dtype=dtype)
        more = [] if args.tolerance is None else ["--tolerance", str(args.tolerance)]
        rows = found[dtype] = finished_rows(out) if args.reuse else run_all(dtype, names, out, more)
        for r in rows:
            if r["status"] != "ok":
                sys.stdout.write(f"{r['status']:9} {r['name']}: {r['why'][:160]}\n")
        sys.stdout.write(json.dumps(summary(rows)) + "\n")
    if args.page:
        from opinfo_page import rewrite

        rewrite(args.page, found, {dtype: summary(rows) for dtype, rows in found.items()})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
