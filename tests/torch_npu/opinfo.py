"""Compares every entry of torch's operator database on device npu with the CPU, one JSON line an entry.

``python tests/torch_npu/opinfo.py --dtype float32 [--stride 20] [--names abs,mm] [--out FILE]``: the parent starts a
worker, which goes through the entries; when it dies, the entry is a crash and a new worker goes on behind it.
Statuses: ok, skipped (nothing to compare), mismatch, error, crash.
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
from typing import Any

SAMPLES, SECONDS = 12, 4.0
SKIPPED = {  # nothing deterministic to compare
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "normal", "normal.in_place", "normal.number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "uniform",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout.with_train", "nn.functional.rrelu", "pca_lowrank", "svd_lowrank",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip
RANDOM = SKIPPED - {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def full_name(op: Any) -> str:
    return str(op.name) + (f".{op.variant_test_name}" if op.variant_test_name else "")


def entries(dtype: Any) -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if dtype in op.supported_dtypes("cpu")]


def _moved(value: Any, device: str) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.detach().to(device) if x.layout == torch.strided else x
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
            assert_close(got.cpu(), torch.as_tensor(wanted).detach(), equal_nan=True, check_stride=False)
        else:
            assert_close(got, wanted, equal_nan=True)


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


def check(op: Any, dtype: Any) -> dict[str, Any]:
    import torch

    from torch_npu.dispatch import run

    name = full_name(op)
    before = Counter(run.fallbacks)
    launches = run.kernels_launched()
    seen, started, status, why = 0, time.monotonic(), "ok", ""
    rounded = False
    try:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            if seen >= SAMPLES or time.monotonic() - started > SECONDS:
                break
            seen += 1
            args = [_moved(v, "npu") for v in (sample.input, list(sample.args), dict(sample.kwargs))]
            torch.manual_seed(0)
            try:
                expected = op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue
            torch.manual_seed(0)
            torch.npu.manual_seed_all(0)
            actual = op(args[0], *args[1], **args[2])
            if name in SKIPPED and name not in RANDOM:
                continue
            try:
                _compare(actual, expected)
            except AssertionError:
                if dtype not in (torch.float16, torch.bfloat16):
                    raise
                # the chip computes in float32 and rounds once: so must the CPU to be comparable
                torch.manual_seed(0)
                wide = [_widened(v, dtype) for v in (sample.input, list(sample.args), dict(sample.kwargs))]
                _compare(actual, _narrowed(op(wide[0], *wide[1], **wide[2]), dtype))
                rounded = True
    except AssertionError as error:
        status, why = "mismatch", str(error).replace("\n", " ")[:300]
    except Exception as error:
        status, why = "error", f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
    fell = sorted((Counter(run.fallbacks) - before).keys())
    return {
        "name": name, "status": status, "why": why, "samples": seen, "fallbacks": fell,
        "rounded_once": rounded,
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


def run_all(dtype_name: str, names: list[str], out: str) -> list[dict[str, Any]]:
    """Results of all entries; workers that die are replaced."""
    open(out, "w", encoding="utf-8").close()
    left = list(names)
    while left:
        command = [sys.executable, __file__, "--worker", "--dtype", dtype_name, "--out", out]
        env = {**os.environ, "ASCEND_SIM_QUIET": "1"}
        done = subprocess.run(command, input="\n".join(left), text=True, env=env, check=False)
        rows = _lines(out)
        finished = {r["name"] for r in rows if "name" in r}
        begun = [r["begin"] for r in rows if "begin" in r]
        if done.returncode and begun and begun[-1] not in finished:
            crash = {"name": begun[-1], "status": "crash", "why": f"exit {done.returncode}", "samples": 0,
                     "fallbacks": [], "kernels": 0, "seconds": 0.0}  # fmt: skip
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(crash) + "\n")
            finished.add(begun[-1])
        elif done.returncode and not begun:
            raise RuntimeError("the worker does not start")
        left = [n for n in left if n not in finished]
    return [r for r in _lines(out) if "name" in r]


def summary(rows: list[dict[str, Any]]) -> dict[str, int]:
    counts = Counter(r["status"] for r in rows)
    clean = sum(r["status"] == "ok" and r["kernels"] > 0 and not r["fallbacks"] for r in rows)
    rounded = sum(r["status"] == "ok" and r.get("rounded_once", False) for r in rows)
    return {"entries": len(rows), **counts, "ok_by_float32_rounded_once": rounded, "through_acl_op_only": clean}


def page(rows: list[dict[str, Any]]) -> str:
    """The entries by how they ran, for docs/torch_npu.md."""
    ok = [r for r in rows if r["status"] == "ok"]
    groups = {
        "on the device only": [r["name"] for r in ok if r["kernels"] and not r["fallbacks"]],
        "views and host work, no kernel": [r["name"] for r in ok if not r["kernels"] and not r["fallbacks"]],
        "partly or wholly on the CPU": [r["name"] for r in ok if r["fallbacks"]],
    }
    parts = [f"**{title}** ({len(names)}): {', '.join(names)}" for title, names in groups.items()]
    parts += [f"**{r['status']}** `{r['name']}`: {r['why'][:110]}" for r in rows if r["status"] != "ok"]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--names", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--page", default="", help="write the entries by how they ran")
    parser.add_argument("--worker", action="store_true")
    args = parser.parse_args()
    if args.worker:
        worker(args.dtype, sys.stdin.read().split("\n"), args.out)
        return 0
    import torch

    names = args.names.split(",") if args.names else []
    if not names:
        names = sorted({full_name(op) for op in entries(getattr(torch, args.dtype))})[:: args.stride]
    out = args.out or f"opinfo_{args.dtype}.jsonl"
    rows = run_all(args.dtype, names, out)
    for r in rows:
        if r["status"] != "ok":
            sys.stdout.write(f"{r['status']:9} {r['name']}: {r['why'][:160]}\n")
    if args.page:
        with open(args.page, "w", encoding="utf-8") as file:
            file.write(page(rows))
    sys.stdout.write(json.dumps(summary(rows)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
