"""Which bytes are defined: every memory has a shadow with one tag per byte, 0 for defined.

Tag 255 (`VIRGIN`) is a byte nobody wrote; other tags name the instruction that first used such a byte (or left an old
one behind). Moves carry tags along by running the instruction's own semantics on the shadows; arithmetic joins the tags
of its operands lane by lane. So pad lanes that are computed but never stored do no harm, as on hardware, and what
reaches global memory undefined is known byte by byte, with its origin.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc._sanitizer.footprints import Touch
from ascend_sim.asc._sanitizer.spans import Span
from ascend_sim.isa import cube
from ascend_sim.isa.buffers import BLOCK, Bytes, View
from ascend_sim.isa.dtypes import DataType, uint8, uint16, uint32, uint64
from ascend_sim.isa.enums import SelMode
from ascend_sim.isa.lanes import Lanes, active, one_by_one, read_lanes, used_lanes, write_lanes
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.vector import READS_DST

Array = NDArray[Any]


class Shadow:
    """Gives the tags of a memory's bytes, and which bits of a tagged byte are undefined where a comparison left them
    (all of them elsewhere)."""

    def __init__(self, tags: Callable[[Bytes], Bytes]) -> None:
        self._tags = tags
        self._bits: dict[int, tuple[Bytes, Bytes]] = {}

    def __call__(self, data: Bytes) -> Bytes:
        return self._tags(data)

    def bits(self, data: Bytes) -> Bytes:
        held = self._bits.get(id(data))
        if held is None:
            held = self._bits[id(data)] = (data, np.full(len(data), 0xFF, np.uint8))
        return held[1]

    def written(self, spans: Sequence[Span]) -> None:
        """Bytes are written as a whole."""
        for s in spans:
            held = self._bits.get(id(s.data))
            if held is not None:
                s.fill(held[1], 0xFF)


VIRGIN = 255
_UINT = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
_ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}

# semantics that only move bytes: they run on shadows as they are, except for these arguments
_MOVES: dict[str, dict[str, Any]] = {
    "mte.run_copy": {"atomic": None}, "mte.run_nd2nz": {}, "mte.run_nz2nd": {"atomic": None},
    "mte.run_pad_in": {"value": 0}, "mte.run_pad_out": {"atomic": None}, "mte.run_load2d": {},
    "mte.run_load2d_transposed": {}, "load3d.run_load3d_v1": {"pad_value": 0}, "load3d.run_load3d_v2": {"pad_value": 0},
    "vector.run_copy": {}, "rearrange.run_brcb": {}, "rearrange.run_nchwconv": {}, "rearrange.run_transpose": {},
    "rearrange.run_gather_table": {}, "rearrange.run_gatherb_table": {}, "rearrange.run_gather_mask_rows": {},
    "rearrange.run_move_register": {},
}  # fmt: skip
_REAL = ("offsets", "pattern")  # operands that steer a move: their values count, and their own tags spread


def tagged(spans: Sequence[Span], shadow: Shadow) -> int:
    """Highest tag among the bytes of some spans, 0 when all are defined."""
    top = 0
    for s in spans:
        tags = s.of(shadow(s.data))
        if tags.size:
            top = max(top, int(tags.max()))
    return top


def spread(key: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], touch: Touch,
           shadow: Shadow) -> None:  # fmt: skip
    """Carry the tags of what was read to what was written. Call it when something read has a tag."""
    before = [s.of(shadow(s.data)).copy() for s in touch.writes] if touch.atomic else None
    shadow.written(touch.writes)
    rule = _RULES.get(key)
    if rule is not None:
        rule(shadow, *args, **kwargs)
    elif key in _MOVES and not _has_int4(args):
        _move(key, function, args, kwargs, shadow)
    else:
        _fill(touch.writes, tagged(touch.reads, shadow), shadow)
    if before is not None:
        for s, old in zip(touch.writes, before, strict=True):
            s.fill(shadow(s.data), np.maximum(s.of(shadow(s.data)), old))


def _fill(spans: Sequence[Span], tag: int, shadow: Shadow) -> None:
    for s in spans:
        s.fill(shadow(s.data), tag)


def define(touch: Touch, shadow: Shadow) -> None:
    """Everything read was defined: so is everything written, but an atomic result keeps the tags of its target."""
    if not touch.atomic:
        shadow.written(touch.writes)
        _fill(touch.writes, 0, shadow)


def _has_int4(args: tuple[Any, ...]) -> bool:
    return any(isinstance(a, View) and a.dtype.bits == 4 for a in args)


def _bytes_type(dtype: DataType) -> DataType:
    return _UINT[dtype.size]


def _ghost(view: View, shadow: Shadow) -> View:
    """The same window into the shadow, as unsigned elements of the same width."""
    return View(shadow(view.data), view.start, _bytes_type(view.dtype))


@lru_cache(maxsize=64)
def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _move(key: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
          shadow: Shadow) -> None:  # fmt: skip
    given = dict(zip(_names(function), args, strict=False)) | kwargs
    given.update({k: v for k, v in _MOVES[key].items() if k in given})
    steering = 0
    for name, value in given.items():
        if name in _REAL:
            if isinstance(value, View):
                steering = max(steering, _steering(value, given, shadow))
        elif isinstance(value, View):
            given[name] = _ghost(value, shadow)
        elif isinstance(value, list | tuple) and value and all(isinstance(v, View) for v in value):
            given[name] = [_ghost(v, shadow) for v in value]
    function(**given)
    if steering:
        target = given["dst"]
        lanes = given.get("lanes")
        if lanes is not None and lanes.n < 0:
            shape = read_lanes(target, lanes, 0).shape
            write_lanes(target, lanes, np.full(shape, _element(steering, target.dtype), target.dtype.np))
        else:
            count = lanes.n if lanes is not None else given.get("repeats", 1) * 8 * BLOCK // target.dtype.size
            target.flat(count)[...] = _element(steering, target.dtype)


def _steering(view: View, given: dict[str, Any], shadow: Shadow) -> int:
    """Highest tag among the offsets or pattern bits of a gather."""
    tags = shadow(view.data)[view.start :]
    lanes = given.get("lanes")
    if lanes is not None:
        count = (lanes.n if lanes.n >= 0 else lanes.repeats * lanes.width) * 4
    elif "elements" in given:
        count = ceil_div(given["elements"], 8)
    else:
        count = given["repeats"] * 32
    return int(tags[:count].max()) if count else 0


def _element(tag: int, dtype: DataType) -> Any:
    return dtype.np.type(tag * _ONES[dtype.size])


def _per_element(values: Array) -> Array:
    """Highest tag of the bytes of each element."""
    size = values.dtype.itemsize
    top: Array = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, size).max(-1)
    return top


def _as_elements(tags: Array, dtype: DataType) -> Array:
    kind = _bytes_type(dtype).np
    elements: Array = tags.astype(kind) * kind.type(_ONES[dtype.size])
    return elements


def _lane_tags(view: View, lanes: Lanes, operand: int, shadow: Shadow) -> Array:
    return _per_element(read_lanes(_ghost(view, shadow), lanes, operand))


def _write_tags(view: View, lanes: Lanes, tags: Array, shadow: Shadow) -> None:
    if one_by_one(lanes):
        tags = np.broadcast_to(tags.max(0), tags.shape)
    write_lanes(_ghost(view, shadow), lanes, _as_elements(tags, view.dtype))


def _elementwise(shadow: Shadow, op: str, dst: View, sources: Sequence[View], lanes: Lanes, *rest: Any,
                 **more: Any) -> None:  # fmt: skip
    tags = _lane_tags(sources[0], lanes, 1, shadow)
    for k, source in enumerate(sources[1:], 2):
        tags = np.maximum(tags, _lane_tags(source, lanes, k, shadow))
    if op in READS_DST:
        tags = np.maximum(tags, _lane_tags(dst, lanes, 0, shadow))
    _write_tags(dst, lanes, tags, shadow)


def _two_sources(shadow: Shadow, dst: View, a: View, b: View, lanes: Lanes, *rest: Any) -> None:
    tags = np.maximum(_lane_tags(a, lanes, 1, shadow), _lane_tags(b, lanes, 2, shadow))
    _write_tags(dst, lanes, tags, shadow)


def _cast(shadow: Shadow, dst: View, src: View, mode: int, lanes: Lanes, *rest: Any) -> None:
    _write_tags(dst, lanes, _lane_tags(src, lanes, 1, shadow), shadow)


def _store_bits(shadow: Shadow, dst: View, lanes: Lanes, tags: Array) -> None:
    tagged_bytes, undefined = shadow(dst.data), shadow.bits(dst.data)
    if lanes.n >= 0:
        wide = np.zeros(ceil_div(lanes.n, 8) * 8, np.uint8)
        wide[: lanes.n] = tags
    else:
        table = np.zeros((lanes.repeats, lanes.width), np.uint8)
        on = active(lanes)
        table[:, : tags.shape[1]] = tags if on is None else np.where(on, tags, 0)
        wide = table.reshape(-1)
    where = slice(dst.start, dst.start + len(wide) // 8)
    tagged_bytes[where] = wide.reshape(-1, 8).max(-1)
    undefined[where] = np.packbits(wide != 0, bitorder="little")


def _compare(shadow: Shadow, dst: View, a: View, b: View, mode: int, lanes: Lanes) -> None:
    tags = np.maximum(_lane_tags(a, lanes, 1, shadow), _lane_tags(b, lanes, 2, shadow))
    _store_bits(shadow, dst, lanes, tags)


def _compare_scalar(shadow: Shadow, dst: View, a: View, scalar: Any, mode: int, lanes: Lanes) -> None:
    _store_bits(shadow, dst, lanes, _lane_tags(a, lanes, 1, shadow))


def _select(shadow: Shadow, dst: View, mask: View, count: int, a: View, b: View | None, scalar: Any, mode: int,
            lanes: Lanes, width: int) -> None:  # fmt: skip
    tags = _lane_tags(a, lanes, 1, shadow)
    if b is not None:
        tags = np.maximum(tags, _lane_tags(b, lanes, 2, shadow))
    where = slice(mask.start, mask.start + ceil_div(count, 8))
    bits = np.repeat(shadow(mask.data)[where], 8) * np.unpackbits(shadow.bits(mask.data)[where], bitorder="little")
    bits = bits[:count]
    if lanes.n >= 0:
        steer = np.resize(bits[:width], lanes.n) if mode == SelMode.VSEL_CMPMASK_SPR else bits[: lanes.n]
    else:
        table = bits[None, :width] if mode == SelMode.VSEL_CMPMASK_SPR else bits.reshape(-1, width)[: lanes.repeats]
        steer = np.broadcast_to(table, (lanes.repeats, width))[:, : tags.shape[1]]
    _write_tags(dst, lanes, np.maximum(tags, steer), shadow)


def _active_tags(src: View, lanes: Lanes, shadow: Shadow) -> Array:
    tags = _lane_tags(src, lanes, 1, shadow)
    on = active(lanes)
    return tags if on is None else np.where(on, tags, 0)


def _scatter(shadow: Shadow, dst: View, tags: Array, width: int, stride: int) -> None:
    """``tags`` of each repeat to ``width`` elements at a repeat stride in elements."""
    target = _ghost(dst, shadow)
    size = dst.dtype.size
    out = target.strided((len(tags), width), (stride * size, size))
    out[...] = _as_elements(np.broadcast_to(tags.reshape(len(tags), -1), (len(tags), width)), dst.dtype)


def _whole_sum(shadow: Shadow, dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    _scatter(shadow, dst, _active_tags(src, lanes, shadow).max(-1), 1, lanes.rep[0])


def _whole_extreme(shadow: Shadow, dst: View, src: View, lanes: Lanes, order: int) -> None:
    width = 2 if order in (0, 1) else 1
    _scatter(shadow, dst, _active_tags(src, lanes, shadow).max(-1), width, lanes.rep[0] * width)


def _block(shadow: Shadow, dst: View, src: View, lanes: Lanes, saturate: bool = False) -> None:
    tags = _active_tags(src, lanes, shadow)
    tags = tags.reshape(lanes.repeats, -1, src.dtype.block).max(-1)
    _scatter(shadow, dst, tags, tags.shape[1], lanes.rep[0] * 8)


def _pair(shadow: Shadow, dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    tags = _active_tags(src, lanes, shadow)
    pairs = np.maximum(tags[:, 0::2], tags[:, 1::2])[:, : used_lanes(lanes) // 2]
    _scatter(shadow, dst, pairs, pairs.shape[1], lanes.rep[0] * 128 // dst.dtype.size)


def _widen(shadow: Shadow, dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> None:
    if not count or not length:
        return
    n, size, out = length // dst.dtype.size, src.dtype.size, dst.dtype.size
    tags = _per_element(_ghost(src, shadow).strided((count, n), (n * size + src_gap, size)))
    _ghost(dst, shadow).strided((count, n), (length + dst_gap, out))[...] = _as_elements(tags, dst.dtype)


def pad_tail(shadow: Shadow, tag: int, dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int,
             left: int, right: int, value: Any) -> None:  # fmt: skip
    """Bytes of each row behind data and padding: the hardware puts something there, not to be relied on."""
    used = (left + right) * dst.dtype.size + length
    row = ceil_div(used, BLOCK) * BLOCK
    if used < row and count:
        tail = Span(dst.data, dst.start + used, (count, row - used), (row + dst_gap, 1))
        tail.fill(shadow(dst.data), tag)


def _mmad(shadow: Shadow, dst: View, a: View, b: View, m: int, n: int, k: int, initialise: bool,
          bias: View | None = None, hf32: bool = False, a_depth: int = 0) -> None:  # fmt: skip
    rows, cols = ceil_div(m, CUBE) * CUBE, ceil_div(n, CUBE) * CUBE
    ghosts = _ghost(a, shadow), _ghost(b, shadow)
    if a.dtype.bits == 4:
        k0 = a.dtype.block
        depth = ceil_div(max(a_depth, k), k0) * k0 // 2
        top = max(int(ghosts[0].flat(rows * depth).max()), int(ghosts[1].flat(cols * depth).max()))
        tags = np.full((rows, cols), top, np.uint8)
    else:
        left = _per_element(cube.read_a(ghosts[0], rows, max(a_depth, k))[:, :k]).max(-1)
        right = _per_element(cube.read_b(ghosts[1], k, cols)).max(0)
        tags = np.maximum(left[:, None], right[None, :])
    target = cube.c_view(_ghost(dst, shadow), m, n)
    new = tags.reshape(rows, cols // CUBE, CUBE).transpose(1, 0, 2)
    if bias is not None:
        wide = np.zeros(cols, np.uint8)
        wide[:n] = _per_element(_ghost(bias, shadow).flat(n))
        new = np.maximum(new, wide.reshape(cols // CUBE, 1, CUBE))
    elif not initialise:
        new = np.maximum(new, _per_element(target))
    target[...] = _as_elements(new, dst.dtype)


def _fixpipe(shadow: Shadow, dst: View, src: View, n: int, m: int, src_stride: int, dst_stride: int, mode: int,
             words: Any, relu: bool, row_major: bool, nd: int = 1, src_nd: int = 0, dst_nd: int = 0,
             split: bool = False, atomic: str | None = None) -> None:  # fmt: skip
    size, out = src.dtype.size, dst.dtype.size
    source, target = _ghost(src, shadow), _ghost(dst, shadow)
    n1 = ceil_div(n, CUBE)
    for matrix in range(nd):
        panel = source.strided((n1, m, CUBE), (src_stride * CUBE * size, CUBE * size, size), matrix * src_nd * 1024)
        tags = _per_element(panel.transpose(1, 0, 2)).reshape(m, n1 * CUBE)[:, :n]
        if row_major:
            to = target.strided((m, n), (dst_stride * out, out), matrix * dst_nd * out)
        else:
            c0 = 32 if out == 1 else 8 if split else CUBE
            c1 = ceil_div(n, c0)
            wide = np.zeros((m, c1 * c0), np.uint8)
            wide[:, :n] = tags
            tags = wide.reshape(m, c1, c0).transpose(1, 0, 2)
            to = target.strided((c1, m, c0), (dst_stride * 32, c0 * out, out))
        to[...] = _as_elements(tags, dst.dtype)


def _l0c_to_ub(shadow: Shadow, dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int,
               *rest: Any) -> None:  # fmt: skip
    per, size, out = 256, src.dtype.size, dst.dtype.size
    source = _ghost(src, shadow).strided((count, length * per), ((length + src_gap) * per * size, size))
    target = _ghost(dst, shadow).strided((count, length * per), (length * per * out + dst_gap * 32, out))
    target[...] = _as_elements(_per_element(source), dst.dtype)


def _ub_to_l0c(shadow: Shadow, dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> None:
    per, size, out = 256, src.dtype.size, dst.dtype.size
    source = _ghost(src, shadow).strided((count, length * per), (length * per * size + src_gap * 32, size))
    target = _ghost(dst, shadow).strided((count, length * per), ((length + dst_gap) * per * out, out))
    target[...] = _as_elements(_per_element(source), dst.dtype)


def _broadcast(shadow: Shadow, dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> None:
    per, size, out = 256, src.dtype.size, dst.dtype.size
    row = length * CUBE * size + src_gap * 32
    source = _ghost(src, shadow).strided((count, length, CUBE), (row, CUBE * size, size))
    target = _ghost(dst, shadow).strided(
        (count, length, CUBE, CUBE), ((length + dst_gap) * per * out, per * out, CUBE * out, out)
    )
    target[...] = _as_elements(_per_element(source), dst.dtype)[:, :, None, :]


_RULES: dict[str, Callable[..., None]] = {
    "vector.run_elementwise": _elementwise, "vector.run_cast": _cast, "rearrange.run_compare": _compare,
    "rearrange.run_compare_scalar": _compare_scalar, "rearrange.run_select_masked": _select,
    "reduce.whole_sum": _whole_sum, "reduce.whole_max": _whole_extreme, "reduce.whole_min": _whole_extreme,
    "reduce.block_sum": _block, "reduce.block_max": _block, "reduce.block_min": _block, "reduce.pair_sum": _pair,
    "mte.run_widen": _widen, "cube.run_mmad": _mmad, "fixpipe.run_fixpipe": _fixpipe,
    "fixpipe.run_l0c_to_ub": _l0c_to_ub, "fixpipe.run_ub_to_l0c": _ub_to_l0c,
    "fixpipe.run_broadcast_to_l0c": _broadcast, "composite.run_mul_cast": _two_sources,
    "composite.run_add_relu_cast": _two_sources, "composite.run_sub_relu_cast": _two_sources,
    "composite.run_add_deq_relu": _two_sources,
}  # fmt: skip
