"""Models whose input shapes are open when they are converted.

Four kinds, at most one a model. ``batch`` (--dynamic_batch_size), ``image`` (--dynamic_image_size) and ``dims``
(--dynamic_dims) list the sizes that may be chosen: their *gears*, each compiled ahead. ``shape`` (-1 or ranges in
--input_shape and no such flag) leaves them open: a model is then compiled for a shape when it first comes.
Source: public ATC manual, pages of these flags; error codes of hicann/ge error_registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.options import CompileOptions

BATCH, IMAGE, DIMS, SHAPE = "batch", "image", "dims", "shape"
FLAG = {BATCH: "--dynamic_batch_size", IMAGE: "--dynamic_image_size", DIMS: "--dynamic_dims"}
FEWEST, MOST = 2, 100
# Sizes tried for an open dimension when the graph of a ``shape`` model is made; the first dimension tries 1 first.
_TRIED = (32, 64, 128, 224, 256, 320, 512, 16, 8, 4, 2, 1)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Gear:
    """One choice: ``values`` as the flag lists them, ``shapes`` of all inputs that --input_shape names."""

    values: Shape
    shapes: dict[str, Shape]


def kind_of(options: CompileOptions) -> str:
    """``batch``, ``image``, ``dims``, ``shape``, or "" for a static model."""
    for kind, given in ((BATCH, options.dynamic_batch), (IMAGE, options.dynamic_image), (DIMS, options.dynamic_dims)):
        if given:
            return kind
    return SHAPE if any(-1 in shape for shape in options.input_shapes.values()) else ""


def parse_gears(kind: str, text: str) -> tuple[Shape, ...]:
    """Sizes of a flag: ``1,2,4`` (batch) or ``416,416;832,832``. Raises `AtcError`.

    Batches come in ascending order, the others as written. Limits: 2 to 100 gears, positive, of equal count, distinct.
    """
    flag = FLAG[kind]
    groups = [g.strip() for g in text.strip().rstrip(";").split(";")] if kind != BATCH else text.split(",")
    gears = []
    for group in groups:
        parts = [p.strip() for p in group.split(",")]
        if not all(p.lstrip("-").isdigit() for p in parts):
            example = {BATCH: "1,2,4,8", IMAGE: "416,416;832,832", DIMS: "1,20;2,40"}[kind]
            raise AtcError("E10003", f"{flag}={text} is wrong at {group!r}", f'Write whole numbers: "{example}".')
        gears.append(tuple(int(p) for p in parts))
    if len(gears) < FEWEST:
        raise AtcError("E10035", f"{flag}={text} has {len(gears)} size; at least {FEWEST} are needed")
    if len(gears) > MOST:
        raise AtcError("E10036", f"{flag} has {len(gears)} sizes; at most {MOST} are allowed")
    if kind == IMAGE and any(len(g) != 2 for g in gears):
        raise AtcError("E10020", f"{flag}={text}: every size is a height and a width", 'Write "416,416;832,832".')
    if len({len(g) for g in gears}) > 1:
        raise AtcError("E10037", f"{flag}={text}: its sizes have different numbers of dimensions")
    if any(v < 1 for g in gears for v in g):
        raise AtcError("E10038", f"{flag}={text}: sizes must be positive")
    if len(set(gears)) != len(gears):
        raise AtcError("E10039", f"{flag}={text} names a size twice")
    return tuple(sorted(gears)) if kind == BATCH else tuple(gears)


def check(options: CompileOptions) -> None:
    """Whether flags and open dimensions fit each other. Raises `AtcError`."""
    sizes = {BATCH: options.dynamic_batch, IMAGE: options.dynamic_image, DIMS: options.dynamic_dims}
    given = [kind for kind, listed in sizes.items() if listed]
    if len(given) > 1:
        flags = " and ".join(FLAG[kind] for kind in given)
        raise AtcError("E10009", f"{flags} cannot be used together", "Keep one of them.")
    if not given:
        return
    (kind,) = given
    shapes = options.input_shapes
    if options.ranges:
        name = next(iter(options.ranges))
        raise AtcError("E10001", f"--input_shape gives a range for {name!r}, which {FLAG[kind]} does not take",
                       "Write -1 for the open dimensions.")  # fmt: skip
    open_ = {name: [i for i, d in enumerate(shape) if d == -1] for name, shape in shapes.items() if -1 in shape}
    if not open_:
        raise AtcError("E10040", f"{FLAG[kind]} needs an input with -1 in --input_shape",
                       'Write for example --input_shape="x:-1,3,224,224".')  # fmt: skip
    if kind == BATCH:
        for name, axes in open_.items():
            if axes != [0]:
                raise AtcError("E10018", f"{FLAG[kind]}: input {name!r} {list(shapes[name])} is open on another axis "
                               "than 0")  # fmt: skip
    elif kind == IMAGE:
        wanted = [1, 2] if options.input_format == "NHWC" else [2, 3]
        if options.input_format not in ("NCHW", "NHWC"):
            raise AtcError("E10001", f"{FLAG[kind]} needs --input_format=NCHW or NHWC, not {options.input_format}")
        for name, axes in open_.items():
            if axes != wanted or len(shapes[name]) != 4:
                raise AtcError("E10019", f"{FLAG[kind]}: input {name!r} {list(shapes[name])} is not open on height and "
                               f"width only: axes {wanted[0]} and {wanted[1]}")  # fmt: skip
    else:
        count = sum(len(axes) for axes in open_.values())
        width = len(options.dynamic_dims[0])
        if width != count:
            raise AtcError("E10045", f"--input_shape leaves {count} dimensions open (-1), every size of {FLAG[kind]} "
                           f"has {width}")  # fmt: skip


def gears(options: CompileOptions) -> list[Gear]:
    """The gears of a model of kind ``batch``, ``image`` or ``dims``, in the order of their variants."""
    match kind_of(options):
        case "batch":
            values: Sequence[Shape] = [(b,) for b in options.dynamic_batch]
        case "image":
            values = options.dynamic_image
        case "dims":
            values = options.dynamic_dims
        case _:
            return []
    return [Gear(v, _filled(options, v)) for v in values]


def _filled(options: CompileOptions, values: Shape) -> dict[str, Shape]:
    """Shapes with the open dimensions of one gear. Batch and image sizes hold for every open input."""
    per_input = kind_of(options) != DIMS
    rest = iter(values)
    shapes = {}
    for name, shape in options.input_shapes.items():
        source = iter(values) if per_input else rest
        shapes[name] = tuple(next(source) if d == -1 else d for d in shape)
    return shapes


def fixed(options: CompileOptions, shapes: dict[str, Shape]) -> CompileOptions:
    """The options of a static model with these shapes."""
    return replace(options, input_shapes=shapes, dynamic_batch=(), dynamic_image=(), dynamic_dims=(), ranges={})


def examples(options: CompileOptions) -> Iterator[dict[str, Shape]]:
    """Shapes that a model of open shapes might take, likely ones first."""
    seen = set()
    for tried in _TRIED:
        for first in (1, tried):
            shapes = {}
            for name, shape in options.input_shapes.items():
                limits = options.ranges.get(name) or ((1, -1),) * len(shape)
                shapes[name] = tuple(
                    _inside(first if axis == 0 and len(shape) > 1 else tried, limits[axis]) if d == -1 else d
                    for axis, d in enumerate(shape)
                )
            key = tuple(shapes.values())
            if key not in seen:
                seen.add(key)
                yield shapes


def _inside(value: int, limits: tuple[int, int]) -> int:
    low, high = limits
    return max(low, min(value, high) if high != -1 else value)
