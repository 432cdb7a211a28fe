"""Operators whose tensors are not in the cube's layouts: TransData launches around the kernel.

The launches of a plan share its workspaces by number; converted tensors live in workspaces behind those the kernel
itself uses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, find_kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs
from ascend_sim.ops.shapes import format_of

from ._weights import as_image, weight_launch

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

Launches = list[Any]
SHARED = 100  # first workspace number of converted tensors


def storage(spec: TensorSpec, target: str, groups: tuple[int, int, int] | None = None) -> TensorSpec:
    """The same tensor stored in ``target``: NC1HWC0, FRACTAL_Z (of ``groups`` = merged groups, C1, N1), FRACTAL_NZ."""
    c0 = 16
    logical, fmt = spec.logical_shape, format_of(spec)
    if target == "FRACTAL_NZ":
        m, k = logical[-2:]
        shape: tuple[int, ...] = (*logical[:-2], ceil_div(k, c0), ceil_div(m, 16), 16, c0)
    else:
        c0 = 32 * 8 // ITEM_BITS[spec.dtype]
        order = fmt if len(fmt) == 4 and set(fmt) == set("NCHW") else "NCHW"
        n, c, h, w = (logical[order.index(a)] for a in "NCHW")
        if target == "NC1HWC0":
            shape = (n, ceil_div(c, c0), h, w, c0)
        elif groups is None:
            shape = (ceil_div(c, c0) * h * w, ceil_div(n, 16), 16, c0)
        else:
            shape = (groups[0] * groups[1] * h * w, groups[2], 16, c0)
    origin = fmt if target == "FRACTAL_NZ" or len(fmt) == 4 else "NCHW"
    return replace(spec, shape=shape, format=target, origin_shape=logical, origin_format=origin, const=None)


def plain_image(call: OpCall, default: str = "NCHW") -> bool:
    """Whether the first input is a float16 picture in planes, which kernels of channel blocks take through TransData.
    ``default``: order of axes of an operator that does not say."""
    x = call.inputs[0]
    if x is None or x.dtype != "float16" or x.format not in ("NCHW", "ND") or len(x.shape) != 4:
        return False
    return bool(call.attr("data_format", default if x.format == "ND" else "NCHW") == "NCHW")


def trans_data(src: TensorSpec, dst: TensorSpec, soc: Soc) -> Launches:
    """Launches that convert ``src`` to the layout of ``dst``. Raises `NoKernel` when there is no such kernel."""
    plan = find_kernel("TransData")
    if plan is None:
        raise NoKernel(f"no kernel converts {src.format} to {dst.format}")
    attrs = freeze_attrs({"src_format": src.format, "dst_format": dst.format, "groups": 1})
    return list(plan(OpCall("TransData", (src,), (dst,), attrs), soc))


def rewire(launch: Any, table: Mapping[tuple[str, int], tuple[str, int]]) -> Any:
    """The launch with other argument roles."""
    moved = copy.copy(launch)
    moved.args = tuple(table.get(tuple(arg), tuple(arg)) for arg in launch.args)
    return moved


def _weights(spec: TensorSpec, stored: TensorSpec, index: int, number: int, soc: Soc, groups: int) -> Launches:
    """Launches that bring a filter, input ``index``, to FRACTAL_Z in workspace ``number`` (and the next one)."""
    depthwise = groups > 1 and spec.logical_shape[1] == 1 and spec.logical_shape[0] == groups
    if groups > 1 and not depthwise:
        raise NoKernel(f"filter of a convolution in {groups} groups is not laid out on the device")
    plain, image = as_image(spec, depthwise)
    first = {("in", 0): ("in", index), ("out", 0): ("workspace", number + 1)}
    second = {("in", 0): ("workspace", number + 1), ("out", 0): ("workspace", number)}
    last = weight_launch(image, stored, depthwise, soc)
    return [*(rewire(s, first) for s in trans_data(plain, image, soc)), rewire(last, second)]


def around(
    call: OpCall, soc: Soc, wanted: Mapping[int, str], out: str, direct: Callable[[OpCall, Soc], Launches],
    groups: tuple[int, int, int] | None = None, group_count: int = 1,
) -> Launches:  # fmt: skip
    """Plan ``direct`` on inputs ``wanted`` (and, with them, epilogue inputs shaped as the output) and output 0 in the
    given formats, with TransData launches where the call's tensors are stored otherwise."""
    inputs, outputs = list(call.inputs), list(call.outputs)
    before: Launches = []
    table: dict[tuple[str, int], tuple[str, int]] = {}
    number = SHARED
    y = outputs[0]
    formats = dict(wanted)
    for i, spec in enumerate(inputs):
        if i >= 3 and spec is not None and spec.logical_shape == y.logical_shape:
            formats[i] = out
    for i, target in sorted(formats.items()):
        spec = inputs[i]
        if spec is None or spec.format == target:
            continue
        stored = storage(spec, target, groups if target == "FRACTAL_Z" else None)
        if target == "FRACTAL_Z":
            before += _weights(spec, stored, i, number, soc, group_count)
        else:
            moves = {("in", 0): ("in", i), ("out", 0): ("workspace", number)}
            before += [rewire(s, moves) for s in trans_data(spec, stored, soc)]
        inputs[i] = stored
        table["in", i] = ("workspace", number)
        number += 10
    after: Launches = []
    if y.format != out:
        stored = storage(y, out)
        steps = trans_data(stored, y, soc)
        moves = {("in", 0): ("workspace", number)}
        after = [rewire(s, moves) for s in steps]
        outputs[0] = stored
        table["out", 0] = ("workspace", number)
    inner = direct(replace(call, inputs=tuple(inputs), outputs=tuple(outputs)), soc)
    return [*before, *(rewire(s, table) for s in inner), *after]
