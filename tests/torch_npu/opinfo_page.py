"""The part of docs/torch_npu.md about the operator database: counts, what differs and why, how the entries ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- operator database: written by tests/torch_npu/opinfo.py --page -->", "<!-- end -->"

_WIDE = "the chip's kernel computes in float32 and rounds once, the CPU rounds between steps"
_STATISTICS = "the chip gives float32 statistics (Ascend/op-plugin), the CPU those of the input's type"
_SPARSE = "the device has no sparse tensors; torch_npu has, but not this operator on them"
REASONS = {  # of results that are not the CPU's in the same type
    "_batch_norm_with_update": _STATISTICS,
    "_native_batch_norm_legit": _STATISTICS,
    "native_batch_norm": _STATISTICS,
    "native_layer_norm": _STATISTICS,
    "_unsafe_masked_index_put_accumulate": "half types accumulate in float32 (hicann/ops-nn index_put_v2), on the CPU "
    "one by one in the type",
    "add": "an Axpy, one instruction with one rounding (mirror-cann/asc-devkit), where the CPU rounds the product",
    "sub": "an Axpy, as for add",
    "addbmm": "the products of the batch are rounded, then summed, then added (hicann/ops-nn aclnn_addbmm); the CPU "
    "rounds after every matrix",
    "baddbmm": "beta * self is rounded before it is added (hicann/ops-nn aclnn_baddbmm), on the CPU after",
    "argsort": "torch leaves the order of equal elements open",
    "sort": "torch leaves the order of equal elements open",
    "topk": "torch leaves the order of equal elements open",
    "linspace": "the chip takes start and step in float32 (hicann/ops-math lin_space), the CPU in the type",
    "log_softmax": _WIDE,
    "logit": _WIDE + " (hicann/ops-nn logit)",
    "masked.log_softmax": _WIDE,
    "nn.functional.adaptive_avg_pool3d": "sums in float32 (hicann/ops-nn adaptive_avg_pool3d), on the CPU in the type",
    "nn.functional.batch_norm": _WIDE + " (hicann/ops-nn batch_norm_v3)",
    "nn.functional.instance_norm": _WIDE,
    "nn.functional.conv_transpose2d": "the cube sums in float32, the CPU adds columns that are rounded already",
    "nn.functional.interpolate.linear": "weights in float32 (hicann/ops-cv upsample_linear1d), on the CPU in the type",
    "nn.functional.interpolate.bicubic": "weights in float32 here, on the CPU in the type; the chip rounds weights and "
    "the result of each axis (hicann/ops-cv), which is not modelled",
    "nn.functional.interpolate.trilinear": "as bicubic",
    "nn.functional.linear_cross_entropy.chunked_none": "torch's own Python code takes float32 on the CPU only",
    "nn.functional.mse_loss": _WIDE,
    "nn.functional.scaled_dot_product_attention": "the last bit: another order of sums",
    "sparse.mm.reduce": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "to_sparse": "the device has no sparse tensors",
}
_HEAD = """| type | entries | the CPU's result in the same type | also with the order of equal elements left open \
| also with the CPU's float32 result rounded once | differ | errors | on the device only |
|---|---|---|---|---|---|---|---|
"""


def counts(found: dict[str, list[dict[str, Any]]], summaries: dict[str, dict[str, int]]) -> str:
    lines = []
    for dtype, rows in found.items():
        s = summaries[dtype]
        ordered = sum(r["status"] == "ok" and "rounded_once" not in r["rules"] for r in rows)
        lines.append(
            f"| {dtype} | {s['entries']} | {s['ok_strict']} | {ordered} | {s['ok']} | {s.get('mismatch', 0)} | "
            f"{s.get('error', 0) + s.get('crash', 0)} | {s['through_acl_op_only']} |\n"
        )
    return _HEAD + "".join(lines)


def differences(found: dict[str, list[dict[str, Any]]]) -> str:
    """One line an entry that is not the CPU's result in the same type: in which types, how it counts, why."""
    kinds: dict[str, dict[str, list[str]]] = {}
    for dtype, rows in found.items():
        for r in rows:
            kind = "/".join(r["rules"]).replace("_", " ") if r["status"] == "ok" else str(r["status"])
            if kind:
                kinds.setdefault(r["name"], {}).setdefault(kind, []).append(dtype)
            if r["status"] != "ok" and r["name"] not in REASONS:
                REASONS[r["name"]] = r["why"][:110]
    lines = ["| entry | counts as | reason |\n|---|---|---|\n"]
    for name, by_kind in sorted(kinds.items()):
        said = "; ".join(f"{kind} ({', '.join(dtypes)})" for kind, dtypes in by_kind.items())
        lines.append(f"| `{name}` | {said} | {REASONS.get(name, '')} |\n")
    return "".join(lines)


def groups(rows: list[dict[str, Any]]) -> str:
    """The entries by how they ran."""
    ok = [r for r in rows if r["status"] == "ok"]
    parts = {
        "on the device only": [r["name"] for r in ok if r["kernels"] and not r["fallbacks"]],
        "views and host work, no kernel": [r["name"] for r in ok if not r["kernels"] and not r["fallbacks"]],
        "partly or wholly on the CPU": [r["name"] for r in ok if r["fallbacks"]],
    }
    return "\n\n".join(f"**{title}** ({len(names)}): {', '.join(names)}" for title, names in parts.items()) + "\n"


def rewrite(path: str, found: dict[str, list[dict[str, Any]]], summaries: dict[str, dict[str, int]]) -> None:
    """Puts the counts, the differences and the entries of the first type between the marks in the file."""
    first = next(iter(found))
    parts = [counts(found, summaries), differences(found), f"How the entries ran, {first}:\n", groups(found[first])]
    file = Path(path)
    before, mark, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{path} has no part between {BEGIN!r} and {END!r}")
    file.write_text(f"{before}{BEGIN}\n\n" + "\n".join(parts) + f"\n{END}{after}", encoding="utf-8")
