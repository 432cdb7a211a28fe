"""TransData: conversion between plain and blocked storage formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._five_hd import five_hd_launch
from ._nz import nz_launch

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_PLAIN = ("NCHW", "ND")


@kernel("TransData")
def plan_transdata(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """NCHW <-> NC1HWC0 and ND <-> FRACTAL_NZ of 16-bit types. Raises `NoKernel` for other pairs."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None:
        raise NoKernel("no input")
    pair = {x.format, y.format}
    if "NC1HWC0" in pair and pair & set(_PLAIN) and len((x if x.format in _PLAIN else y).shape) == 4:
        return [five_hd_launch(x, y, soc)]
    if "FRACTAL_NZ" in pair and pair & set(_PLAIN):
        return [nz_launch(x, y, soc)]
    raise NoKernel(f"TransData {x.format} -> {y.format}")
