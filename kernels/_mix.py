"""Epilogues on split chips: the cube core leaves tiles in a workspace, its two vector cores finish them.

Per block the workspace holds two tiles in turn. Cross-core flag 0 says that a tile is there (set by the fixpipe),
flag 1 that both vector cores have read it (their MTE2); mode 2 couples a cube core with its vector cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ascend_sim import asc

from ._cube import BLOCK, E, P, Ring, block_index, copy_rows
from ._exit import QUANT, ExitPlan, Outlet, Place, VectorTiles, pieces
from ._vector import item_bytes

READY, FREE = 0, 1
WORK_TILES = 2


def work_bytes(plan: ExitPlan, tile_elements: int, blocks: int) -> int:
    """Bytes of the workspace."""
    return WORK_TILES * tile_elements * item_bytes(plan.middle) * blocks


class MixExit:
    """Cube side: fixpipe into the workspace, NZ, panel height = rows of the tile."""

    def __init__(self, plan: ExitPlan, work: Any, slots: int, slot_elements: int) -> None:
        self.plan = plan
        self.size = slot_elements
        self.work = work[block_index() * WORK_TILES * slot_elements :]
        self.ring = Ring(E.FIX_M, E.M_FIX, 0, slots)
        self.acc = [asc.LocalTensor(plan.acc, P.CO1, s * slot_elements * 4, slot_elements) for s in range(slots)]
        self.turn = 0
        self.begun = 0

    def open(self, places: Sequence[Place]) -> None:
        self.ring.open()

    def begin(self) -> tuple[int, Any, bool]:
        s = self.ring.take()
        return s, self.acc[s], True

    def end(self, s: int, place: Place, following: Place | None) -> None:
        plan = self.plan
        self.ring.hand(s)
        if self.begun >= WORK_TILES:
            asc.cross_core_wait_flag(FREE, 2, asc.PipeID.FIX)
        self.begun += 1
        params = asc.FixpipeParamsV220(
            place.n1 * 16, place.mp, place.mp, place.mp * 16 * item_bytes(plan.middle) // BLOCK,
            QUANT[plan.acc, plan.middle], plan.word, relu_en=plan.relu,
        )  # fmt: skip
        asc.fixpipe(self.work[self.turn * self.size :], self.acc[s], params, asc.FixpipeConfig.cfg_nz())
        self.turn ^= 1
        asc.cross_core_set_flag(READY, 2, asc.PipeID.FIX)
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()
        for _ in range(min(self.begun, WORK_TILES)):
            asc.cross_core_wait_flag(FREE, 2, asc.PipeID.FIX)


def vector_side(
    plan: ExitPlan, arguments: dict[str, list[Any]], places: Iterable[Any], l0c: int, outlet: type[Outlet] = Outlet
) -> None:
    """Vector side: every tile of the block, its pieces dealt alternately to the two cores."""
    size = l0c // 4
    me = asc.get_sub_block_idx()
    block = block_index()
    work = arguments["work"][0][block * WORK_TILES * size :]
    tiles = VectorTiles(plan, arguments["y"][0], arguments.get("extra", []), 0, outlet)
    direct = plan.program is None  # no vector work: what was loaded is stored
    load = Ring(E.MTE3_MTE2, E.MTE2_MTE3, 4, plan.sets) if direct else Ring(E.V_MTE2, E.MTE2_V, 4, plan.sets)
    tiles.open()
    load.open()
    unit = 16 * item_bytes(plan.middle) // BLOCK
    turn = 0
    for place in places:
        asc.cross_core_wait_flag(READY, 2, asc.PipeID.MTE2)
        source = work[turn * size :]
        turn ^= 1
        for i, cut in enumerate(pieces(place, _piece(plan, place))):
            if i % 2 != me:
                continue
            first, count, row, rows = cut
            t = load.take()
            tiles_at = source[(first * place.mp + row) * 16 :]
            copy_rows(tiles.source(t), tiles_at, count, rows * unit, place.mp * unit, rows * unit)
            load.hand(t)
            if direct:
                tiles.outlet.move(place, cut, tiles.source(t), tiles.outlet.out, True)
                load.give(t)
                continue
            if plan.extras:
                x = tiles.load.take()
                tiles.fetch_extras(x, place, cut)
                tiles.load.hand(x)
            s = tiles.store.take()
            tiles.run(s, count * rows * 16)
            load.give(t)
            if plan.extras:
                tiles.load.give(s)
            tiles.finish(s, place, cut)
        asc.cross_core_set_flag(FREE, 2, asc.PipeID.MTE2)
    load.close()
    tiles.close()


def _piece(plan: ExitPlan, place: Place) -> int:
    """Pieces small enough that both cores get half of a tile."""
    half = (place.n1 * place.mp * 16 + 1) // 2
    return max(min(plan.piece, (half + 255) // 256 * 256), 256)
