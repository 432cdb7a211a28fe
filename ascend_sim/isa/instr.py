"""The instruction record: pipes, sync channels and the *work* an instruction asks of its pipe.

A ``Work`` says everything that decides how long an instruction occupies its pipe, and nothing else: no
addresses, no values. Equal instructions share one ``Work``, so a trace holds a small table of them and
`ascend_sim.engine.timing` prices each entry once per chip. Units are elements, bytes and 256-byte repeats,
never cycles: cycles belong to a chip.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Pipe(IntEnum):
    """In-order instruction queues of one core. ``ALL`` is legal in barriers only."""

    S = 0
    V = 1
    MTE1 = 2
    MTE2 = 3
    MTE3 = 4
    M = 5
    FIX = 6
    ALL = 7


PIPE_COUNT = 7
FLAG_IDS = 16  # room per (source, destination) pair; a chip allows 4 or 8 of them (soc.sync.flag_ids)
CROSS_FLAG_IDS = 16


def channel(src: Pipe, dst: Pipe, flag_id: int) -> int:
    """Number of the flag (source pipe, destination pipe, id), as traces store it."""
    return (src * PIPE_COUNT + dst) * FLAG_IDS + flag_id


def channel_parts(number: int) -> tuple[Pipe, Pipe, int]:
    """Inverse of `channel`."""
    pair, flag_id = divmod(number, FLAG_IDS)
    src, dst = divmod(pair, PIPE_COUNT)
    return Pipe(src), Pipe(dst), flag_id


class VectorWork(NamedTuple):
    """A vector instruction. ``op`` is the machine name (``vadd``, ``vexp``, ``vconv``, ``vcadd`` ...),
    ``dtype`` ``src_dst`` when they differ (``float16_float32``) else one name, ``repeats`` the number of
    256-byte repeats of the wider type, ``counter`` whether the mask register counts elements,
    ``bank_conflicts`` the number of repeats that pay one extra cycle."""

    op: str
    dtype: str
    repeats: int
    counter: bool = False
    bank_conflicts: int = 0


class CubeWork(NamedTuple):
    """One mmad: ``dtype`` of the inputs and the tile in fractals (16 x K0 x 16)."""

    dtype: str
    m: int
    k: int
    n: int


class MoveWork(NamedTuple):
    """One DMA or on-chip move. ``path`` is ``SRC_DST`` of GM, L1, L0A, L0B, L0C, UB, BT, FB.

    ``bursts`` contiguous pieces of ``burst_bytes``; ``align`` is the largest power of two up to 512 that
    divides start address and pitch of the GM side (512 for on-chip moves); ``gm`` is the kernel argument
    touched (-1 on chip); ``mode`` is ``""``, ``nd2nz``, ``nz2nd``, ``pad``, ``transpose`` or ``atomic``.
    ``dtype`` matters where the rate counts elements (fixpipe). ``again``: the pipe's previous transfer touched the
    same global addresses; ``bypass``: the kernel asked for it not to be kept in L2."""

    path: str
    bursts: int
    burst_bytes: int
    align: int = 512
    gm: int = -1
    mode: str = ""
    dtype: str = ""
    again: bool = False
    bypass: bool = False


class Load3dWork(NamedTuple):
    """im2col load L1 to L0A/L0B: total bytes written and the filter geometry that slows it."""

    path: str
    nbytes: int
    stride_w: int
    kernel_w: int
    c0_small: bool = False


class ScalarWork(NamedTuple):
    """Work of the scalar unit itself: ``op`` names it, ``times`` how many such operations."""

    op: str
    times: int = 1


Work = VectorWork | CubeWork | MoveWork | Load3dWork | ScalarWork


class Op(IntEnum):
    """Codes of a trace."""

    EXEC = 0  # pipe, index into works
    SET = 1  # source pipe, channel
    WAIT = 2  # destination pipe, channel
    BARRIER = 3  # pipe (ALL for every pipe), 0
    CROSS_SET = 4  # pipe, flag_id * 4 + mode
    CROSS_WAIT = 5  # pipe, flag_id
    LOOP = 6  # 0, number of times the body runs (>= 1)
    END = 7  # 0, index of the matching LOOP
