"""JPEG: header, size predictions, decoding to the planes that lie in the file, encoding. Codec: Pillow (libjpeg).

The chroma of a decoded picture is that of the file, not interpolated: a decoder at half scale gives it for 4:2:0
(libjpeg then decodes chroma at full size), and for 4:2:2 and 4:4:0 the interpolation of libjpeg, a linear filter, is
inverted.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ascend_sim.dvpp.colour import grow, shrink
from ascend_sim.dvpp.errors import BadStream, Unsupported
from ascend_sim.dvpp.formats import FORMATS, UNKNOWN, PixelFormat, semi_planar
from ascend_sim.dvpp.image import Bytes, Image

# acldvppJpegFormat
CSS_444, CSS_422, CSS_420, CSS_GRAY, CSS_440, CSS_411, CSS_UNKNOWN = 0, 1, 2, 3, 4, 5, 1000
_SAMPLING: Final = {(1, 1): CSS_444, (2, 1): CSS_422, (2, 2): CSS_420, (1, 2): CSS_440, (4, 1): CSS_411}
_SUBSAMPLING: Final = {v: k for k, v in _SAMPLING.items()} | {CSS_GRAY: (1, 1)}
_BASELINE: Final = (0xC0, 0xC1)
_FRAMES: Final = {
    0xC2: "progressive", 0xC3: "lossless", 0xC5: "hierarchical", 0xC6: "hierarchical", 0xC7: "hierarchical",
    0xC9: "arithmetic-coded", 0xCA: "arithmetic-coded", 0xCB: "arithmetic-coded", 0xCD: "arithmetic-coded",
    0xCE: "arithmetic-coded", 0xCF: "arithmetic-coded",
}  # fmt: skip
_SOI, _SOS, _EXIF, _ORIENTATION = 0xD8, 0xDA, b"Exif\0\0", 0x0112


@dataclass(frozen=True)
class JpegInfo:
    """``format`` is an ``acldvppJpegFormat``; ``problem`` says why the decoder refuses the picture, if it does;
    ``software``: a kind that the hardware leaves to software; ``orientation`` is that of EXIF, 1 when absent."""

    width: int
    height: int
    components: int
    format: int
    problem: str = ""
    software: bool = False
    orientation: int = 1

    @property
    def subsampling(self) -> tuple[int, int]:
        return _SUBSAMPLING.get(self.format, (1, 1))


def _orientation(segment: bytes) -> int:
    """The orientation tag of an EXIF segment, 1 when there is none."""
    tiff = segment[len(_EXIF) :]
    order = {b"II": "little", b"MM": "big"}.get(tiff[:2])
    if order is None:
        return 1

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], order)  # type: ignore[arg-type]

    first = number(4, 4)
    for entry in range(min(number(first, 2), 256)):
        at = first + 2 + 12 * entry
        if number(at, 2) == _ORIENTATION:
            found = number(at + 8, 2)
            return found if 1 <= found <= 8 else 1
    return 1


def info(data: bytes) -> JpegInfo:
    """What the header says. `BadStream` when this is no JPEG picture."""
    if data[:2] != bytes((0xFF, _SOI)):
        raise BadStream(f"no JPEG picture: the first bytes are {data[:4].hex(' ') or 'missing'}, not ff d8")
    at, orientation, found = 2, 1, None
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            raise BadStream(f"broken JPEG picture: no marker at byte {at}")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at + 4 : at + 2 + length]
        if marker == 0xE1 and segment.startswith(_EXIF):
            orientation = _orientation(segment)
        elif marker in _BASELINE or marker in _FRAMES:
            found = _frame(marker, segment)
        elif marker == _SOS:
            if found is None:
                break
            scans = segment[0] if segment else 0
            return JpegInfo(*found, software=scans < found[2], orientation=orientation)
        at += 2 + length
    raise BadStream("broken JPEG picture: no frame or no scan in its header")


def _frame(marker: int, segment: bytes) -> tuple[int, int, int, int, str]:
    if len(segment) < 6 or len(segment) < 6 + 3 * segment[5]:
        raise BadStream("broken JPEG picture: its frame header is too short")
    height, width, components = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big"), segment[5]
    sampling = [(segment[7 + 3 * i] >> 4, segment[7 + 3 * i] & 15) for i in range(components)]
    problem = f"it is {_FRAMES[marker]}: only baseline Huffman coding is decoded" if marker in _FRAMES else ""
    if segment[0] != 8 and not problem:
        problem = f"it has {segment[0]} bits per sample: only 8 are decoded"
    kind = CSS_UNKNOWN
    if components == 1:
        kind = CSS_GRAY
    elif components == 3 and sampling[1] == sampling[2] and all(sampling[1]):
        (h, v), (ch, cv) = sampling[0], sampling[1]
        kind = _SAMPLING.get((h // ch, v // cv), CSS_UNKNOWN) if h % ch == v % cv == 0 else CSS_UNKNOWN
    if kind in (CSS_UNKNOWN, CSS_411) and not problem:
        problem = f"it has {components} components sampled {sampling}: only 4:4:4, 4:2:2, 4:2:0, 4:4:0 and 4:0:0"
    return width, height, components, kind, problem


# -- sizes -------------------------------------------------------------------------------------------------


def output_forms(kind: int) -> tuple[PixelFormat, ...]:
    """Formats that a picture of this kind can be decoded to; the first is the one of the source."""
    folded = (FORMATS[1], FORMATS[2])
    if kind == CSS_GRAY:
        return (*folded, FORMATS[0])
    sub_w, sub_h = _SUBSAMPLING[kind]
    own = (semi_planar("VU", sub_w, sub_h), semi_planar("UV", sub_w, sub_h))
    return own if kind == CSS_420 else (*own, *folded)


def output_form(number: int, kind: int) -> PixelFormat | None:
    """The format asked for (`UNKNOWN`: that of the source, V before U); None when the decoder cannot give it."""
    forms = output_forms(kind)
    if number == UNKNOWN:
        return forms[0]
    return next((form for form in forms if form.number == number), None)


def output_strides(width: int, height: int, align: int) -> tuple[int, int]:
    """Width and height stride of a decoded picture."""
    return -(-width // align) * align, -(-height // 16) * 16


def encoded_bound(form: PixelFormat, width: int, height: int) -> int:
    """Bytes that an encoded picture never exceeds: noise at the best quality takes 1.6 times its raw pixels."""
    raw = form.nbytes(-(-width // 16) * 16 * form.row_bytes, -(-height // 16) * 16)
    return raw * 7 // 4 + 4096


# -- decoding ----------------------------------------------------------------------------------------------


def _sharpened(plane: Bytes, size: int, axis: int) -> NDArray[Any]:
    """Chroma samples before libjpeg's triangle filter doubled them along ``axis``.

    The mean of each doubled pair is (1, 6, 1) / 8 of the samples, edges repeated: a tridiagonal system."""
    doubled = np.moveaxis(plane.astype(np.float64), axis, 0)
    if doubled.shape[0] % 2:
        doubled = np.concatenate((doubled, doubled[-1:]))
    means = (doubled[0::2] + doubled[1::2]) / 2
    main = np.full(size, 6 / 8)
    main[[0, -1]] += 1 / 8
    right, value = np.empty(size), means.copy()
    right[0], value[0] = 1 / 8 / main[0], means[0] / main[0]
    for i in range(1, size):
        pivot = main[i] - right[i - 1] / 8
        right[i] = 1 / 8 / pivot
        value[i] = (means[i] - value[i - 1] / 8) / pivot
    for i in range(size - 2, -1, -1):
        value[i] -= right[i] * value[i + 1]
    return np.moveaxis(value, 0, axis)


def _pillow(data: bytes) -> Any:
    from PIL import Image as Pillow

    return Pillow.open(io.BytesIO(data), formats=("JPEG",))


def _components(data: bytes, draft: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """(rows, columns, 3) YCbCr samples, or (rows, columns) of a gray picture."""
    picture = _pillow(data)
    mode = "L" if picture.mode == "L" else "YCbCr"
    picture.draft(mode, draft or picture.size)
    if picture.mode != mode:
        picture = picture.convert(mode)
    samples: NDArray[np.uint8] = np.asarray(picture)
    return samples


def decode(data: bytes, header: JpegInfo) -> Image:
    """The planes of the file. `BadStream` when its data is broken, `Unsupported` for kinds no decoder takes."""
    if header.problem:
        raise Unsupported(f"unsupported JPEG picture: {header.problem}")
    try:
        samples = _components(data)
        if header.format == CSS_GRAY:
            return _turned(Image(header.width, header.height, {"Y": samples}), header.orientation)
        planes = {"Y": samples[:, :, 0]}
        w, h = header.subsampling
        rows, columns = -(-header.height // h), -(-header.width // w)
        if (w, h) == (2, 2):
            half = _components(data, (header.width // 2, header.height // 2))
            if half.shape[:2] != (rows, columns):
                raise BadStream("the codec does not decode at half scale")
            planes |= {"U": half[:, :, 1], "V": half[:, :, 2]}
        else:
            for index, name in enumerate("UV"):
                plane: Any = samples[:, :, index + 1]
                if w == 2:
                    plane = _sharpened(plane, columns, 1)
                elif h == 2:
                    plane = _sharpened(plane, rows, 0)
                planes[name] = np.clip(np.floor(plane + 0.5), 0, 255).astype(np.uint8) if w * h > 1 else plane
    except OSError as error:
        raise BadStream(f"broken JPEG picture: {error}") from error
    return _turned(Image(header.width, header.height, planes), header.orientation)


def _turned(picture: Image, orientation: int) -> Image:
    """The picture as EXIF says that it is to be seen."""
    if orientation == 1:
        return picture
    planes = {}
    for name, plane in picture.planes.items():
        seen = plane.T if orientation >= 5 else plane
        flip_rows = orientation in (3, 4, 7, 8)
        flip_columns = orientation in (2, 3, 6, 7)
        planes[name] = np.ascontiguousarray(seen[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1])
    turn = orientation >= 5
    return Image(picture.height if turn else picture.width, picture.width if turn else picture.height, planes)


def seen_size(header: JpegInfo) -> tuple[int, int]:
    """Width and height of the decoded picture (EXIF may turn it)."""
    return (header.height, header.width) if header.orientation >= 5 else (header.width, header.height)


def fitted(picture: Image, form: PixelFormat, width: int, height: int) -> Image:
    """A decoded picture in the format of the output, cut to the width and height that it may have."""
    sub_w, sub_h = picture.subsampling
    y = picture.planes["Y"][:height, :width]
    if form.kind == "gray":
        return Image(width, height, {"Y": y})
    if "U" not in picture.planes:
        flat = np.full((-(-height // form.sub_h), -(-width // form.sub_w)), 128, np.uint8)
        return Image(width, height, {"Y": y, "U": flat, "V": flat})
    planes = {"Y": y}
    for name in "UV":
        plane = picture.planes[name]
        if (sub_w, sub_h) != (form.sub_w, form.sub_h):
            full = grow(plane, sub_w, sub_h, picture.width, picture.height)
            plane = shrink(full, form.sub_w, form.sub_h)
        planes[name] = plane[: -(-height // form.sub_h), : -(-width // form.sub_w)]
    return Image(width, height, planes)


# -- encoding ----------------------------------------------------------------------------------------------


def encode(picture: Image, level: int) -> bytes:
    """JPEG bytes. ``level`` is 1 (worst) to 100 (best); 0 stands for 100. Chroma stays as sampled."""
    from PIL import Image as Pillow

    y = picture.planes["Y"]
    sub_w, sub_h = picture.subsampling
    full = [y] + [grow(picture.planes[c], sub_w, sub_h, picture.width, picture.height) for c in "UV"]
    source = Pillow.frombytes("YCbCr", (picture.width, picture.height), np.dstack(full).tobytes())
    out = io.BytesIO()
    sampling = {(1, 1): 0, (2, 1): 1, (2, 2): 2}[sub_w, sub_h]
    source.save(out, "JPEG", quality=level or 100, subsampling=sampling)
    return out.getvalue()
