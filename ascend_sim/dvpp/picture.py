"""Pictures in device memory: what a descriptor says, checked, read and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_sim.dvpp.errors import BadPicture
from ascend_sim.dvpp.formats import FORMATS, PixelFormat
from ascend_sim.dvpp.rules import Rules

if TYPE_CHECKING:
    from ascend_sim.dvpp.image import Bytes, Image
    from ascend_sim.runtime.memory import Block


@dataclass(frozen=True)
class Picture:
    """``block`` is the allocation that holds it, once somebody looked it up."""

    data: int
    size: int
    form: PixelFormat
    width: int
    height: int
    width_stride: int
    height_stride: int
    block: Block | None = None

    @property
    def nbytes(self) -> int:
        return self.form.nbytes(self.width_stride, self.height_stride)

    def memory(self) -> Bytes:
        assert self.block is not None
        view: Any = self.block.arena.view(self.data, self.nbytes)
        return view  # type: ignore[no-any-return]

    def load(self) -> Image:
        """The picture as arrays."""
        from ascend_sim.dvpp import image

        return image.read(self.memory(), self.form, self.width, self.height, self.width_stride, self.height_stride)

    def store(self, picture: Image) -> None:
        """Write arrays whose channels are those of the format."""
        from ascend_sim.dvpp import image

        image.write(picture, self.memory(), self.form, self.width_stride, self.height_stride)


def form_of(number: int) -> PixelFormat:
    """The format with this number. `BadPicture` if no unit knows it."""
    form = FORMATS.get(number)
    if form is None:
        known = ", ".join(f"{f.number} {f.name}" for f in FORMATS.values())
        raise BadPicture(f"pixel format {number} is not one that the media units work on ({known})")
    return form


def check(picture: Picture, rules: Rules, role: str) -> None:
    """Is this a picture that the image unit takes as ``role`` (``input`` or ``output``)? `BadPicture` says why not."""
    form, width, height = picture.form, picture.width, picture.height
    allowed = rules.inputs if role == "input" else rules.outputs
    if form.number not in allowed:
        names = ", ".join(FORMATS[n].name for n in sorted(allowed))
        raise BadPicture(f"{role} format {form.number} ({form.name}) is not supported on this chip: use {names}")
    sizes = rules.input_size if role == "input" else rules.output_size
    if not sizes.holds(width, height):
        raise BadPicture(f"{role} picture of {width}x{height}: expected {sizes}")
    if role == "input" and max(width, height) > 4096 and form.number not in rules.wide_inputs:
        names = ", ".join(FORMATS[n].name for n in sorted(rules.wide_inputs))
        raise BadPicture(f"input picture of {width}x{height}: above 4096 only {names}")
    check_even(form, width, height, role)
    check_strides(picture, rules, role)
    check_size(picture, role)


def check_even(form: PixelFormat, width: int, height: int, role: str) -> None:
    """Widths and heights that chroma subsampling wants even."""
    if form.even_width and width % 2:
        raise BadPicture(f"{role} width {width} is odd: {form.name} needs an even width ({width - 1} or {width + 1})")
    if form.even_height and height % 2:
        raise BadPicture(
            f"{role} height {height} is odd: {form.name} needs an even height ({height - 1} or {height + 1})"
        )


def check_strides(picture: Picture, rules: Rules, role: str) -> None:
    form = picture.form
    least, rows = rules.strides(form, picture.width, picture.height)
    step = rules.stride_step(form)
    given = picture.width_stride
    if given < least or given % step:
        right = max(least, -(-given // step) * step)
        raise BadPicture(
            f"{role} width stride {given}: expected a multiple of {step}, at least {least} for a width of "
            f"{picture.width} in {form.name}; {right} would do"
        )
    given = picture.height_stride
    if given < rows or (given % 2 and (rules.even_rows or form.even_height)):
        even = " even and" if rules.even_rows or form.even_height else ""
        raise BadPicture(
            f"{role} height stride {given}: expected{even} at least {rows} for a height of {picture.height}; "
            f"{max(rows, given + given % 2)} would do"
        )


def check_size(picture: Picture, role: str) -> None:
    if picture.size < picture.nbytes:
        raise BadPicture(
            f"{role} buffer of {picture.size} B is too small: {picture.form.name} with strides "
            f"{picture.width_stride} x {picture.height_stride} takes {picture.nbytes} B"
        )


@dataclass(frozen=True)
class Region:
    """A rectangle, all four edges included."""

    left: int
    right: int
    top: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left + 1

    @property
    def height(self) -> int:
        return self.bottom - self.top + 1

    def __str__(self) -> str:
        return f"left {self.left}, right {self.right}, top {self.top}, bottom {self.bottom}"


def check_region(region: Region, width: int, height: int, rules: Rules, role: str) -> None:
    """Is this a ``crop`` or ``paste`` region of a picture of ``width`` x ``height``?"""
    if not (0 <= region.left < region.right < width and 0 <= region.top < region.bottom < height):
        raise BadPicture(
            f"{role} region ({region}) does not lie inside the picture: expected 0 <= left < right <= {width - 1} and "
            f"0 <= top < bottom <= {height - 1}"
        )
    if rules.odd_edges:
        wrong = [f"{n} {v} should be even" for n, v in (("left", region.left), ("top", region.top)) if v % 2]
        wrong += [
            f"{n} {v} should be odd" for n, v in (("right", region.right), ("bottom", region.bottom)) if not v % 2
        ]
        if wrong:
            raise BadPicture(f"{role} region ({region}): {', '.join(wrong)}")
    least = rules.output_size.least
    if region.width < least[0] or region.height < least[1]:
        raise BadPicture(f"{role} region of {region.width}x{region.height}: expected at least {least[0]}x{least[1]}")
    if role == "paste" and region.left % rules.paste_align:
        near = region.left // rules.paste_align * rules.paste_align
        raise BadPicture(
            f"paste region: left {region.left} is not a multiple of {rules.paste_align} ({near} or "
            f"{near + rules.paste_align} would do)"
        )


def check_scale(source: tuple[int, int], target: tuple[int, int], rules: Rules) -> None:
    """Width and height may each be scaled within the limits of the chip."""
    least, most = rules.scale
    for name, a, b in (("width", source[0], target[0]), ("height", source[1], target[1])):
        if not least <= b / a <= most:
            raise BadPicture(
                f"scaling of the {name} from {a} to {b} is a factor of {b / a:.4g}: expected 1/{round(1 / least)} to "
                f"{most:g} ({max(1, -(-a // round(1 / least)))} to {round(a * most)})"
            )
