"""acl.media: the image unit (VPC)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from acl import errors
from acl._api import api
from acl._common import on_stream
from acl._media_channel import buffer_of, channel_of, chip_rules, lacking
from acl._media_descs import (
    BatchPicDesc,
    BorderConfig,
    ChannelDesc,
    Hist,
    LutMap,
    PicDesc,
    ResizeConfig,
    RoiConfig,
    find,
)
from ascend_sim.dvpp import picture as pictures
from ascend_sim.dvpp.errors import BadPicture
from ascend_sim.dvpp.picture import Picture, Region
from ascend_sim.dvpp.tasks import MediaTask
from ascend_sim.dvpp.units import VPC
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.stream import Stream

if TYPE_CHECKING:
    from ascend_sim.dvpp.formats import PixelFormat
    from ascend_sim.dvpp.image import Image
    from ascend_sim.dvpp.rules import Rules

_MODE_VPC = 1
_BILINEAR = "bilinear"  # what scales where no configuration is given
_LISTS_MAX = 256


class _Refused(Exception):
    """Carries the code of a call that was explained already."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class _Call:
    """What every function of the image unit starts from."""

    channel: ChannelDesc
    stream: Stream
    rules: Rules

    @property
    def device(self) -> int:
        return self.stream.device.index


def _call(channel_desc: int, stream: int) -> _Call:
    channel = channel_of(channel_desc, _MODE_VPC, "the image unit")
    if isinstance(channel, int):
        raise _Refused(channel)
    found, ret = on_stream(stream)
    if found is None:
        raise _Refused(ret)
    return _Call(channel, found, chip_rules())


def _guarded(body: Callable[[], None]) -> int:
    try:
        body()
    except _Refused as refusal:
        return refusal.code
    except BadPicture as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    return 0


def picture_of(desc: PicDesc, rules: Rules, role: str, device: int) -> Picture:
    """A picture of the image unit as its descriptor says, checked."""
    found = Picture(
        desc.data, desc.size, pictures.form_of(desc.format), desc.width, desc.height, desc.width_stride,
        desc.height_stride,
    )  # fmt: skip
    pictures.check(found, rules, role)
    block = buffer_of(desc.data, found.nbytes, f"data of the {role} picture", role == "output", device)
    if isinstance(block, int):
        raise _Refused(block)
    return replace(found, block=block)


def _desc(handle: int) -> PicDesc:
    desc = find(handle, PicDesc, "dvpp_create_pic_desc")
    if desc is None:
        raise _Refused(errors.INVALID_PARAM)
    return desc


def _region(handle: int) -> Region:
    roi = find(handle, RoiConfig, "dvpp_create_roi_config")
    if roi is None:
        raise _Refused(errors.INVALID_PARAM)
    return Region(roi.left, roi.right, roi.top, roi.bottom)


def _method(handle: int, rules: Rules) -> str:
    config = find(handle, ResizeConfig, "dvpp_create_resize_config")
    if config is None:
        raise _Refused(errors.INVALID_PARAM)
    method = rules.interpolations.get(config.interpolation)
    if method is None:
        modes = ", ".join(map(str, rules.interpolations))
        raise BadPicture(f"interpolation {config.interpolation} is not one of this chip: expected one of {modes}")
    return method


def _border(handle: int) -> BorderConfig:
    config = find(handle, BorderConfig, "dvpp_create_border_config")
    if config is None:
        raise _Refused(errors.INVALID_PARAM)
    return replace(config, values=list(config.values))  # a task keeps what was set when it was submitted


def _fill_size(desc: PicDesc, width: int, height: int, rules: Rules) -> None:
    """An output without a width or height takes that of what goes into it, and the least strides."""
    if desc.width and desc.height:
        return
    desc.width, desc.height = width, height
    desc.width_stride, desc.height_stride = rules.strides(pictures.form_of(desc.format), width, height)


@dataclass(frozen=True)
class _Job:
    """One picture's work: ``crop`` of ``source`` scaled into ``target``, the whole or its ``paste`` region, with
    borders around when there is a ``border``."""

    source: Picture
    target: Picture
    desc: PicDesc
    crop: Region
    paste: Region | None
    method: str
    matrix: int
    border: BorderConfig | None = None

    @property
    def size(self) -> tuple[int, int]:
        """What the crop region is scaled to."""
        if self.paste is not None:
            return self.paste.width, self.paste.height
        width, height = self.target.width, self.target.height
        if self.border is not None:
            width, height = width - self.border.left - self.border.right, height - self.border.top - self.border.bottom
        return width, height

    @property
    def pixels(self) -> int:
        """The larger of what is read and what is written decides the time."""
        width, height = self.size
        return max(self.crop.width * self.crop.height, width * height)

    def run(self) -> None:
        from ascend_sim.dvpp import image, vpc

        form = self.target.form
        made = vpc.processed(self.source.load(), self.crop, *self.size, self.method, form, self.matrix)
        if self.border is not None:
            made = _bordered(made, form, self.border)
        if self.paste is not None:
            made = image.paste(self.target.load(), made, self.paste.left, self.paste.top)
        self.target.store(made)
        self.desc.ret_code = 0


def _bordered(made: Image, form: PixelFormat, border: BorderConfig) -> Image:
    from ascend_sim.dvpp import vpc

    edges = (border.top, border.bottom, border.left, border.right)
    return vpc.bordered(made, form, edges, border.border_type, border.values)


def _job(
    call: _Call,
    source: PicDesc,
    target: PicDesc,
    crop: Region | None = None,
    paste: Region | None = None,
    method: str = _BILINEAR,
    border: BorderConfig | None = None,
) -> _Job:
    rules = call.rules
    given = picture_of(source, rules, "input", call.device)
    if crop is not None:
        pictures.check_region(crop, given.width, given.height, rules, "crop")
    region = crop or Region(0, given.width - 1, 0, given.height - 1)
    _fill_size(target, region.width, region.height, rules)
    taken = picture_of(target, rules, "output", call.device)
    if paste is not None:
        pictures.check_region(paste, taken.width, taken.height, rules, "paste")
    job = _Job(given, taken, target, region, paste, method, call.channel.matrix, border)
    width, height = job.size
    if width <= 0 or height <= 0:
        raise BadPicture(
            f"the border leaves {width}x{height} of an output of {taken.width}x{taken.height}: expected at least 1x1"
        )
    pictures.check_scale((region.width, region.height), (width, height), rules)
    return job


def _submit(call: _Call, name: str, jobs: Sequence[_Job]) -> None:
    def work() -> None:
        for job in jobs:
            job.run()

    def failed(_why: str) -> None:
        for job in jobs:
            job.desc.ret_code = errors.RT_AICPU_EXCEPTION

    def light() -> None:
        for job in jobs:
            job.desc.ret_code = 0

    blocks = [block for job in jobs for block in (job.source.block, job.target.block)]
    pixels = [job.pixels for job in jobs]
    call.stream.submit(MediaTask(name, VPC, pixels, work, blocks, failed, light=light), host_thread())


# -- one picture ---------------------------------------------------------------------------------------------


@api("acl.media.dvpp_vpc_resize_async", "acldvppVpcResizeAsync", "launch")
def dvpp_vpc_resize_async(channel_desc: int, in_pic: int, out_pic: int, resize_config: int, stream: int, /) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        method = _method(resize_config, call.rules)
        _submit(call, "VpcResize", [_job(call, _desc(in_pic), _desc(out_pic), method=method)])

    return _guarded(body)


@api("acl.media.dvpp_vpc_crop_async", "acldvppVpcCropAsync", "launch")
def dvpp_vpc_crop_async(channel_desc: int, in_pic: int, out_pic: int, crop_roi: int, stream: int, /) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        _submit(call, "VpcCrop", [_job(call, _desc(in_pic), _desc(out_pic), _region(crop_roi))])

    return _guarded(body)


@api("acl.media.dvpp_vpc_crop_resize_async", "acldvppVpcCropResizeAsync", "launch")
def dvpp_vpc_crop_resize_async(
    channel_desc: int, in_pic: int, out_pic: int, crop_roi: int, resize_config: int, stream: int, /
) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        method = _method(resize_config, call.rules)
        _submit(call, "VpcCropResize", [_job(call, _desc(in_pic), _desc(out_pic), _region(crop_roi), method=method)])

    return _guarded(body)


@api("acl.media.dvpp_vpc_crop_and_paste_async", "acldvppVpcCropAndPasteAsync", "launch")
def dvpp_vpc_crop_and_paste_async(
    channel_desc: int, in_pic: int, out_pic: int, crop_roi: int, paste_roi: int, stream: int, /
) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        job = _job(call, _desc(in_pic), _desc(out_pic), _region(crop_roi), _region(paste_roi))
        _submit(call, "VpcCropAndPaste", [job])

    return _guarded(body)


@api("acl.media.dvpp_vpc_crop_resize_paste_async", "acldvppVpcCropResizePasteAsync", "launch")
def dvpp_vpc_crop_resize_paste_async(
    channel_desc: int, in_pic: int, out_pic: int, crop_roi: int, paste_roi: int, resize_config: int, stream: int, /
) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        method = _method(resize_config, call.rules)
        job = _job(call, _desc(in_pic), _desc(out_pic), _region(crop_roi), _region(paste_roi), method)
        _submit(call, "VpcCropResizePaste", [job])

    return _guarded(body)


# -- batches -------------------------------------------------------------------------------------------------


def _lengths(**lists: list[int]) -> None:
    for name, given in lists.items():
        if not 1 <= len(given) <= _LISTS_MAX:
            raise ValueError(f"{name} has {len(given)} entries: expected 1 to {_LISTS_MAX}")
        for value in given:
            if type(value) is not int:
                raise TypeError(f"{name} must hold ints, not {type(value).__name__}")


def _batch(handle: int) -> BatchPicDesc:
    batch = find(handle, BatchPicDesc, "dvpp_create_batch_pic_desc")
    if batch is None:
        raise _Refused(errors.INVALID_PARAM)
    return batch


def _pairs(src_batch: int, roi_nums: list[int], dst_batch: int, **lists: list[int]) -> list[tuple[PicDesc, PicDesc]]:
    """Source and target of every region; every list must have one entry per target."""
    sources, targets = _batch(src_batch).pictures, _batch(dst_batch).pictures
    if len(roi_nums) > len(sources) or min(roi_nums) < 0:
        raise BadPicture(f"roi_nums {roi_nums}: expected a count for each of at most {len(sources)} input pictures")
    if sum(roi_nums) != len(targets):
        raise BadPicture(f"roi_nums {roi_nums} ask for {sum(roi_nums)} regions, but there are {len(targets)} outputs")
    for name, given in lists.items():
        if len(given) != len(targets):
            raise BadPicture(f"{name} has {len(given)} entries: expected {len(targets)}, one per output")
    repeated = [source for source, count in zip(sources, roi_nums, strict=False) for _ in range(count)]
    return [(_desc(source), _desc(target)) for source, target in zip(repeated, targets, strict=True)]


@api("acl.media.dvpp_vpc_batch_crop_async", "acldvppVpcBatchCropAsync", "launch")
def dvpp_vpc_batch_crop_async(
    channel_desc: int, src_batch: int, roi_nums: list[int], dst_batch: int, crop_rois: list[int], stream: int, /
) -> tuple[int, int]:
    _lengths(roi_nums=roi_nums, crop_rois=crop_rois)

    def body() -> None:
        call = _call(channel_desc, stream)
        pairs = _pairs(src_batch, roi_nums, dst_batch, crop_rois=crop_rois)
        _submit(call, "VpcBatchCrop", [_job(call, *p, _region(c)) for p, c in zip(pairs, crop_rois, strict=True)])

    return dst_batch, _guarded(body)


@api("acl.media.dvpp_vpc_batch_crop_resize_async", "acldvppVpcBatchCropResizeAsync", "launch")
def dvpp_vpc_batch_crop_resize_async(
    channel_desc: int,
    src_batch: int,
    roi_nums: list[int],
    dst_batch: int,
    crop_rois: list[int],
    resize_config: int,
    stream: int,
    /,
) -> tuple[int, int]:
    _lengths(roi_nums=roi_nums, crop_rois=crop_rois)

    def body() -> None:
        call = _call(channel_desc, stream)
        method = _method(resize_config, call.rules)
        pairs = _pairs(src_batch, roi_nums, dst_batch, crop_rois=crop_rois)
        jobs = [_job(call, *p, _region(c), method=method) for p, c in zip(pairs, crop_rois, strict=True)]
        _submit(call, "VpcBatchCropResize", jobs)

    return dst_batch, _guarded(body)


@api("acl.media.dvpp_vpc_batch_crop_and_paste_async", "acldvppVpcBatchCropAndPasteAsync", "launch")
def dvpp_vpc_batch_crop_and_paste_async(
    channel_desc: int,
    src_batch: int,
    roi_nums: list[int],
    dst_batch: int,
    crop_rois: list[int],
    paste_rois: list[int],
    stream: int,
    /,
) -> tuple[int, int]:
    _lengths(roi_nums=roi_nums, crop_rois=crop_rois, paste_rois=paste_rois)

    def body() -> None:
        call = _call(channel_desc, stream)
        pairs = _pairs(src_batch, roi_nums, dst_batch, crop_rois=crop_rois, paste_rois=paste_rois)
        rois = zip(pairs, crop_rois, paste_rois, strict=True)
        _submit(call, "VpcBatchCropAndPaste", [_job(call, *p, _region(c), _region(t)) for p, c, t in rois])

    return dst_batch, _guarded(body)


@api("acl.media.dvpp_vpc_batch_crop_resize_paste_async", "acldvppVpcBatchCropResizePasteAsync", "launch")
def dvpp_vpc_batch_crop_resize_paste_async(
    channel_desc: int,
    src_batch: int,
    roi_nums: list[int],
    dst_batch: int,
    crop_rois: list[int],
    paste_rois: list[int],
    resize_config: int,
    stream: int,
    /,
) -> tuple[int, int]:
    _lengths(roi_nums=roi_nums, crop_rois=crop_rois, paste_rois=paste_rois)

    def body() -> None:
        call = _call(channel_desc, stream)
        method = _method(resize_config, call.rules)
        pairs = _pairs(src_batch, roi_nums, dst_batch, crop_rois=crop_rois, paste_rois=paste_rois)
        rois = zip(pairs, crop_rois, paste_rois, strict=True)
        _submit(call, "VpcBatchCropResizePaste", [_job(call, *p, _region(c), _region(t), method) for p, c, t in rois])

    return dst_batch, _guarded(body)


@api("acl.media.dvpp_vpc_batch_crop_resize_make_border_async", "acldvppVpcBatchCropResizeMakeBorderAsync", "launch")
def dvpp_vpc_batch_crop_resize_make_border_async(
    channel_desc: int,
    src_batch: int,
    roi_nums: list[int],
    dst_batch: int,
    crop_rois: list[int],
    border_configs: list[int],
    resize_config: int,
    stream: int,
    /,
) -> tuple[int, int]:
    _lengths(roi_nums=roi_nums, crop_rois=crop_rois, border_configs=border_configs)

    def body() -> None:
        call = _call(channel_desc, stream)
        _new(call, "batch_crop_resize_make_border")
        method = _method(resize_config, call.rules)
        pairs = _pairs(src_batch, roi_nums, dst_batch, crop_rois=crop_rois, border_configs=border_configs)
        borders = [_border(b) for b in border_configs]
        for border in borders:
            if border.border_type > _REPLICATE:
                raise BadPicture(f"border type {border.border_type}: expected 0 (constant) or 1 (replicate) here")
        rois = zip(pairs, crop_rois, borders, strict=True)
        jobs = [_job(call, *p, _region(c), method=method, border=b) for p, c, b in rois]
        _submit(call, "VpcBatchCropResizeMakeBorder", jobs)

    return dst_batch, _guarded(body)


# -- colours, borders, pyramids, histograms --------------------------------------------------------------------

_REPLICATE = 1
_FILTERED = (0, 1, 2, 11, 12, 13)  # pyramids: planes that are not subsampled sideways only, and RGB
_COUNTED = (0, 1, 2, 3, 4, 11, 12, 13)  # histograms and tables


def _new(call: _Call, what: str) -> None:
    """Functions that came with the second generation."""
    if call.rules.old:
        raise _Refused(lacking(f"acl.media.dvpp_vpc_{what}_async"))


def _same(source: PicDesc, target: PicDesc) -> None:
    if (source.format, source.width, source.height) != (target.format, target.width, target.height):
        raise BadPicture(
            f"the output is {target.width}x{target.height} in format {target.format}: expected that of the input, "
            f"{source.width}x{source.height} in format {source.format}"
        )


def _limited(desc: PicDesc, forms: tuple[int, ...]) -> None:
    if desc.format not in forms:
        names = ", ".join(f"{n} ({pictures.form_of(n).name})" for n in forms)
        raise BadPicture(f"pixel format {desc.format} is not possible here: expected one of {names}")
    if max(desc.width, desc.height) > 4096:
        raise BadPicture(f"picture of {desc.width}x{desc.height}: expected at most 4096x4096 here")


@api("acl.media.dvpp_vpc_convert_color_async", "acldvppVpcConvertColorAsync", "launch")
def dvpp_vpc_convert_color_async(channel_desc: int, in_pic: int, out_pic: int, stream: int, /) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        _new(call, "convert_color")
        source, target = _desc(in_pic), _desc(out_pic)
        _fill_size(target, source.width, source.height, call.rules)
        if (source.width, source.height) != (target.width, target.height):
            raise BadPicture(
                f"the output is {target.width}x{target.height}: expected the size of the input, "
                f"{source.width}x{source.height}"
            )
        if source.format == 0 != target.format and call.rules.width_align > 1:
            raise BadPicture("a YUV400 picture stays YUV400 on this chip")
        _submit(call, "VpcConvertColor", [_job(call, source, target)])

    return _guarded(body)


@api("acl.media.dvpp_vpc_make_border_async", "acldvppVpcMakeBorderAsync", "launch")
def dvpp_vpc_make_border_async(channel_desc: int, in_pic: int, out_pic: int, border_config: int, stream: int, /) -> int:
    def body() -> None:
        call = _call(channel_desc, stream)
        _new(call, "make_border")
        source, target, border = _desc(in_pic), _desc(out_pic), _border(border_config)
        wide = source.width + border.left + border.right
        high = source.height + border.top + border.bottom
        _fill_size(target, wide, high, call.rules)
        if (target.width, target.height) != (wide, high) or source.format != target.format:
            raise BadPicture(
                f"the output is {target.width}x{target.height} in format {target.format}: expected {wide}x{high} "
                f"(input and border) in format {source.format}"
            )
        form = pictures.form_of(source.format)
        for name, value, step in (
            ("top", border.top, form.sub_h), ("bottom", border.bottom, form.sub_h),
            ("left", border.left, form.sub_w), ("right", border.right, form.sub_w),
        ):  # fmt: skip
            if value % step:
                raise BadPicture(f"border {name} {value}: expected an even number for {form.name}")
        if border.border_type > _REPLICATE and max(border.top, border.bottom, border.left, border.right) > 2:
            raise BadPicture("reflected borders have 0 to 2 pixels")
        _submit(call, "VpcMakeBorder", [_job(call, source, target, border=border)])

    return _guarded(body)


@api("acl.media.dvpp_vpc_pyr_down_async", "acldvppVpcPyrDownAsync", "launch")
def dvpp_vpc_pyr_down_async(channel_desc: int, in_pic: int, out_pic: int, reserve: object, stream: int, /) -> int:
    def body() -> None:
        from ascend_sim.dvpp import vpc

        call = _call(channel_desc, stream)
        _new(call, "pyr_down")
        source, target = _desc(in_pic), _desc(out_pic)
        _limited(source, _FILTERED)
        half = (-(-source.width // 2), -(-source.height // 2))
        _fill_size(target, *half, call.rules)
        if (target.width, target.height) != half or source.format != target.format:
            raise BadPicture(
                f"the output is {target.width}x{target.height} in format {target.format}: expected half the input, "
                f"{half[0]}x{half[1]} in format {source.format}"
            )
        given = picture_of(source, call.rules, "input", call.device)
        taken = picture_of(target, call.rules, "output", call.device)
        _simple(call, "VpcPyrDown", given, taken, target, lambda: taken.store(vpc.pyramid_down(given.load())))

    return _guarded(body)


def _simple(
    call: _Call, name: str, given: Picture, taken: Picture | None, desc: PicDesc | Hist, work: Callable[[], None]
) -> None:
    """Submit work on one picture whose result code ``desc`` keeps."""

    def failed(_why: str) -> None:
        desc.ret_code = errors.RT_AICPU_EXCEPTION

    def done() -> None:
        work()
        desc.ret_code = 0

    blocks = [given.block, taken.block if taken is not None else None]
    call.stream.submit(MediaTask(name, VPC, [given.width * given.height], done, blocks, failed), host_thread())


@api("acl.media.dvpp_vpc_equalize_hist_async", "acldvppVpcEqualizeHistAsync", "launch")
def dvpp_vpc_equalize_hist_async(channel_desc: int, in_pic: int, out_pic: int, lut_map: int, stream: int, /) -> int:
    def body() -> None:
        from ascend_sim.dvpp import vpc

        call = _call(channel_desc, stream)
        _new(call, "equalize_hist")
        source, target = _desc(in_pic), _desc(out_pic)
        lut = find(lut_map, LutMap, "dvpp_create_lut_map")
        if lut is None:
            raise _Refused(errors.INVALID_PARAM)
        _limited(source, _COUNTED)
        _fill_size(target, source.width, source.height, call.rules)
        _same(source, target)
        given = picture_of(source, call.rules, "input", call.device)
        taken = picture_of(target, call.rules, "output", call.device)
        tables = [table.copy() for table in lut.tables]
        _simple(
            call, "VpcEqualizeHist", given, taken, target,
            lambda: taken.store(vpc.mapped(given.load(), given.form, tables)),
        )  # fmt: skip

    return _guarded(body)


@api("acl.media.dvpp_vpc_calc_hist_async", "acldvppVpcCalcHistAsync", "launch")
def dvpp_vpc_calc_hist_async(channel_desc: int, pic: int, hist: int, reserve: object, stream: int, /) -> int:
    def body() -> None:
        from ascend_sim.dvpp import vpc

        call = _call(channel_desc, stream)
        _new(call, "calc_hist")
        source = _desc(pic)
        counts = find(hist, Hist, "dvpp_create_hist")
        if counts is None:
            raise _Refused(errors.INVALID_PARAM)
        _limited(source, _COUNTED)
        given = picture_of(source, call.rules, "input", call.device)

        def work() -> None:
            for target, found in zip(counts.counts, vpc.histograms(given.load(), given.form), strict=False):
                target[:] = found

        _simple(call, "VpcCalcHist", given, None, counts, work)

    return _guarded(body)
