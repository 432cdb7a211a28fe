"""acl.media: memory of the media units, and channels of the picture units."""

from __future__ import annotations

import itertools
from typing import Any

from acl import errors, handles
from acl._api import api
from acl._common import current
from acl._media_descs import ChannelDesc, creator, find, getter
from acl._rt_memory import allocate, release
from ascend_sim.dvpp.rules import Rules, rules
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.memory import Block
from ascend_sim.runtime.system import system

OWNER = "acl.media.dvpp_malloc"
ALIGN = 16  # of buffers of the media units, B
CSC_MATRIX, MODE, CHANNEL_ID, HEIGHT, WIDTH, PRECISION = range(6)
_MATRICES, _MODES, _PRECISIONS = 6, 15, 3

_ids = itertools.count()


@api("acl.media.dvpp_malloc", "acldvppMalloc", "malloc")
def dvpp_malloc(size: int, /) -> tuple[int, int]:
    return allocate(OWNER, size, 0)


@api("acl.media.dvpp_malloc_with_cfg", "acldvppMallocWithCfg", "malloc")
def dvpp_malloc_with_cfg(size: int, cfg: dict[str, Any], /) -> tuple[int, int]:
    return allocate("acl.media.dvpp_malloc_with_cfg", size, 0)


@api("acl.media.dvpp_free", "acldvppFree", "malloc")
def dvpp_free(dev_ptr: int, /) -> int:
    return release(dev_ptr, "acl.media.dvpp_free")


def chip_rules() -> Rules:
    """What the media units of the simulated chip accept."""
    return rules(system().soc.chip.arch)


def lacking(what: str) -> int:
    """207000: this chip has no such unit or function."""
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"{system().soc.name} has no {what}.")


def buffer_of(address: int, nbytes: int, what: str, write: bool, device: int, any_owner: bool = False) -> Block | int:
    """The block that holds a buffer of a media unit, or the code (explained) of why it cannot be one.

    Only aligned memory of acl.media.dvpp_malloc can be used, unless ``any_owner``."""
    if address == 0:
        return errors.bad(what, 0, f"an address of {OWNER}")
    if address % ALIGN and not any_owner:
        return errors.bad(what, address, f"a multiple of {ALIGN} ({address // ALIGN * ALIGN:#x} would be one)")
    try:
        place = locate(system(), address, nbytes, write, what)
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    block = place.block
    if place.device != device or block is None:
        where = "host memory" if place.device < 0 else f"memory of device {place.device}"
        return errors.fail(
            errors.INVALID_PARAM, f"{what} {address:#x} is {where}; the channel is on device {device}.",
            f"buffers of the media units come from {OWNER}; acl.rt.memcpy fills them.",
        )  # fmt: skip
    if not any_owner and not block.owner.startswith(OWNER):
        return errors.fail(
            errors.INVALID_PARAM, f"{what} {address:#x} was allocated by {block.owner}.",
            f"the media units reach memory of {OWNER} only.",
        )  # fmt: skip
    return block


# -- channels ------------------------------------------------------------------------------------------------

_MAKER = "dvpp_create_channel_desc"
dvpp_create_channel_desc = creator(_MAKER, ChannelDesc)
dvpp_get_channel_desc_channel_id = getter("dvpp_get_channel_desc_channel_id", ChannelDesc, _MAKER, "channel_id")


@api("acl.media.dvpp_destroy_channel_desc", "acldvppDestroyChannelDesc")
def dvpp_destroy_channel_desc(channel_desc: int, /) -> int:
    found = find(channel_desc, ChannelDesc, _MAKER)
    if found is None:
        return errors.INVALID_PARAM
    if found.context is not None:
        return errors.fail(
            errors.CHANNEL_DESC_IN_USE, f"the channel of {channel_desc:#x} still exists.",
            "acl.media.dvpp_destroy_channel comes before acl.media.dvpp_destroy_channel_desc.",
        )  # fmt: skip
    handles.drop(channel_desc)
    return 0


@api("acl.media.dvpp_create_channel", "acldvppCreateChannel", "api")
def dvpp_create_channel(channel_desc: int, /) -> int:
    found = find(channel_desc, ChannelDesc, _MAKER)
    if found is None:
        return errors.INVALID_PARAM
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    if found.context is not None:
        return errors.fail(errors.INVALID_PARAM, f"the channel of {channel_desc:#x} exists already.")
    found.context = context
    found.channel_id = next(_ids)
    return 0


@api("acl.media.dvpp_destroy_channel", "acldvppDestroyChannel", "api")
def dvpp_destroy_channel(channel_desc: int, /) -> int:
    found = find(channel_desc, ChannelDesc, _MAKER)
    if found is None:
        return errors.INVALID_PARAM
    if found.context is None:
        return errors.fail(
            errors.INVALID_PARAM, f"{channel_desc:#x} has no channel.", "acl.media.dvpp_create_channel makes it."
        )
    found.context = None
    return 0


@api("acl.media.dvpp_set_channel_desc_mode", "acldvppSetChannelDescMode")
def dvpp_set_channel_desc_mode(channel_desc: int, mode: int, /) -> int:
    found = find(channel_desc, ChannelDesc, _MAKER)
    if found is None:
        return errors.INVALID_PARAM
    if chip_rules().old:
        return lacking("channel modes: every channel serves all units")
    if not 1 <= mode <= _MODES:
        return errors.bad("mode", mode, "a sum of 1 (VPC), 2 (JPEGD), 4 (JPEGE) and 8 (PNGD)")
    found.mode = mode
    return 0


@api("acl.media.dvpp_set_channel_desc_param", "acldvppSetChannelDescParam")
def dvpp_set_channel_desc_param(channel_desc: int, kind: int, value: int, /) -> tuple[int, int]:
    found = find(channel_desc, ChannelDesc, _MAKER)
    if found is None:
        return channel_desc, errors.INVALID_PARAM
    limits = {
        CSC_MATRIX: ("matrix", 0, _MATRICES - 1), MODE: ("mode", 1, _MODES), HEIGHT: ("height", 32, 16384),
        WIDTH: ("width", 32, 16384), PRECISION: ("precision", 0, _PRECISIONS - 1),
    }  # fmt: skip
    if kind not in limits:
        expected = "0 (colour matrix), 1 (mode), 3 (height), 4 (width) or 5 (JPEGD precision mode)"
        return channel_desc, errors.bad("type", kind, expected)
    if chip_rules().old:
        return channel_desc, lacking("channel parameters besides the channel id")
    attribute, least, most = limits[kind]
    if not least <= value <= most:
        return channel_desc, errors.bad("value", value, f"{least} to {most} for the {attribute} of a channel")
    setattr(found, attribute, value)
    return channel_desc, 0


@api("acl.media.dvpp_get_channel_desc_param", "acldvppGetChannelDescParam")
def dvpp_get_channel_desc_param(channel_desc: int, kind: int, /) -> tuple[int, int]:
    found = find(channel_desc, ChannelDesc, _MAKER)
    if found is None:
        return 0, errors.INVALID_PARAM
    names = ("matrix", "mode", "channel_id", "height", "width", "precision")
    if not 0 <= kind < len(names):
        return 0, errors.bad("type", kind, f"0 to {len(names) - 1}")
    return getattr(found, names[kind]), 0


def channel_of(handle: int, mode: int, what: str) -> ChannelDesc | int:
    """The channel that ``handle`` describes, ready for a unit (``mode``), or the code of why not."""
    found = find(handle, ChannelDesc, _MAKER)
    if found is None:
        return errors.INVALID_PARAM
    if found.context is None:
        return errors.fail(
            errors.INVALID_PARAM, f"{handle:#x} has no channel.", "acl.media.dvpp_create_channel comes first."
        )
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    if found.context.device is not context.device:
        return errors.fail(
            errors.INVALID_PARAM,
            f"the channel is on device {found.context.device.index}, the current context on {context.device.index}.",
        )
    if found.mode and not found.mode & mode:
        return errors.fail(errors.INVALID_PARAM, f"the channel has mode {found.mode}, which does not serve {what}.")
    return found
