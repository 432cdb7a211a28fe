"""TransData: conversion between plain and blocked storage formats."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._filter_layout import filter_layout_launch
from ._five_hd import five_hd_launch
from ._five_hd8 import five_hd_bytes_launch
from ._five_hd32 import five_hd_wide_launch
from ._five_hd_pairs import five_hd_pairs_launch
from ._five_hd_scalar import five_hd_scalar_launch
from ._layouts import rewire
from ._nz import C0, nz_launch, panels_launch
from ._vector import item_bytes, legal, padded_dma
from ._weights import as_image, weight_launch

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_PLAIN = ("NCHW", "ND")


def _five_hd(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """NCHW <-> NC1HWC0: one vnchwconv of 16- or 32-bit elements, four of bytes; of halves of 32-bit ones where DMA does
    not bring the rows of a plane; the scalar unit where there is none of 32 bits."""
    if item_bytes(x.dtype) == 1:
        return five_hd_bytes_launch(x, y, soc)
    if item_bytes(x.dtype) != 4:
        return five_hd_launch(x, y, soc)
    if not legal(soc, "vnchwconv", "uint32"):
        return five_hd_scalar_launch(x, y, soc)
    whole = padded_dma(soc) or prod(x.logical_shape[2:]) % 16 == 0
    return (five_hd_wide_launch if whole else five_hd_pairs_launch)(x, y, soc)


@kernel("TransData")
def plan_transdata(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """NCHW or NHWC <-> NC1HWC0, ND <-> FRACTAL_NZ and NCHW -> FRACTAL_Z of 16-bit types, NCHW <-> NC1HWC0 and
    FRACTAL_Z of 32-bit ones, NCHW <-> NC1HWC0 of bytes. Raises `NoKernel` for other pairs."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None:
        raise NoKernel("no input")
    pair = {x.format, y.format}
    if "NC1HWC0" in pair and pair & set(_PLAIN) and len((x if x.format in _PLAIN else y).shape) == 4:
        return [_five_hd(x, y, soc)]
    if "FRACTAL_Z" in pair and pair & set(_PLAIN) and item_bytes(x.dtype) == 4 and int(call.attr("groups", 1)) == 1:
        return [filter_layout_launch(x, y, soc)]
    if pair == {"NHWC", "NC1HWC0"}:
        blocked, plain = (y, x) if y.format == "NC1HWC0" else (x, y)
        if item_bytes(x.dtype) != 2 or blocked.shape[-1] != C0:
            raise NoKernel(f"NC1HWC0 of {x.dtype}")
        n, h, w, c = plain.shape
        return [panels_launch(x, y, (n, h * w, c), blocked is y, 1, soc)]
    if y.format == "FRACTAL_Z" and x.format in _PLAIN and int(call.attr("groups", 1)) == 1:
        plain, image = as_image(x, False)
        middle = {("out", 0): ("workspace", 0)}
        last = {("in", 0): ("workspace", 0)}
        return [rewire(five_hd_launch(plain, image, soc), middle), rewire(weight_launch(image, y, False, soc), last)]
    if "FRACTAL_NZ" in pair and pair & set(_PLAIN):
        return [nz_launch(x, y, soc)]
    raise NoKernel(f"TransData {x.format} -> {y.format}")
