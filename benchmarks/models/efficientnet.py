"""EfficientNet (Tan and Le 2019) in the forms of pycls (B0 to B5) and lukemelas (B7), and timm's V2-rw-t."""

from __future__ import annotations

from math import ceil

from benchmarks.models.net import Net

_KERNELS = (3, 3, 5, 3, 5, 5, 3)
_STRIDES = (1, 2, 2, 2, 1, 2, 1)


def b0(net: Net) -> None:
    _efficientnet(net, (1, 2, 2, 3, 3, 4, 1), (16, 24, 40, 80, 112, 192, 320), 32, 1280)


def b1(net: Net) -> None:
    _efficientnet(net, (2, 3, 3, 4, 4, 5, 2), (16, 24, 40, 80, 112, 192, 320), 32, 1280)


def b3(net: Net) -> None:
    _efficientnet(net, (2, 3, 3, 5, 5, 6, 2), (24, 32, 48, 96, 136, 232, 384), 40, 1536)


def b5(net: Net) -> None:
    _efficientnet(net, (3, 5, 5, 7, 7, 9, 3), (24, 40, 64, 128, 176, 304, 512), 48, 2048)


def b7(net: Net) -> None:
    """TensorFlow's padding: at stride 2 the extra row and column lie at the end."""
    _efficientnet(net, (4, 7, 7, 10, 10, 13, 4), (32, 48, 80, 160, 224, 384, 640), 64, 2560, same=True)


def _efficientnet(
    net: Net, depths: tuple[int, ...], widths: tuple[int, ...], stem: int, head: int, *, same: bool = False
) -> None:
    size = net.size
    x = net.conv("input", stem, 3, 2, _pads(size, 3, 2, same), act="swish")
    size = ceil(size / 2)
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for block in range(depth):
            stride = _STRIDES[stage] if not block else 1
            kernel, expansion = _KERNELS[stage], 6 if stage else 1
            pad = _pads(size, kernel, stride, same)
            x = mbconv(net, x, width, expansion=expansion, kernel=kernel, stride=stride, pad=pad)
            size = ceil(size / stride)
    net.classifier(net.conv(x, head, 1, act="swish"))


def _pads(size: int, kernel: int, stride: int, same: bool) -> tuple[int, ...] | None:
    """TensorFlow's SAME padding of a square image as (top, left, bottom, right); None: symmetric."""
    if not same:
        return None
    total = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
    return (total // 2, total // 2, total - total // 2, total - total // 2)


def mbconv(
    net: Net, x: str, out: int, *, expansion: int, kernel: int, stride: int, pad: tuple[int, ...] | None = None
) -> str:
    """Expansion, depthwise convolution, gate of a quarter of the *input* channels, projection, skip."""
    into = net.channels[x]
    y = net.conv(x, into * expansion, 1, act="swish") if expansion > 1 else x
    y = net.depthwise(y, kernel, stride, act="swish", pad=pad)
    gate = net.conv(net.global_pool(y), into // 4, 1, act="swish")
    y = net.same("Mul", y, net.conv(gate, net.channels[y], 1, act="sigmoid"))
    y = net.conv(y, out, 1)
    return net.add(y, x) if stride == 1 and into == out else y


def efficientnet_v2_rw_t(net: Net) -> None:
    """Width 0.8 and depth 0.9 of EfficientNetV2-S; the first three stages fuse expansion and depthwise convolution
    into one 3x3 convolution."""
    x = net.conv("input", 16, 3, 2, act="swish")
    for _ in range(2):
        x = net.add(net.conv(x, 16, 3, act="swish"), x)
    for width, depth in ((40, 4), (48, 4)):
        for block in range(depth):
            x = _edge(net, x, width, 2 if not block else 1)
    for width, depth, expansion, first in ((104, 6, 4, 2), (128, 9, 6, 1), (208, 14, 6, 2)):
        for block in range(depth):
            x = mbconv(net, x, width, expansion=expansion, kernel=3, stride=first if not block else 1)
    net.classifier(net.conv(x, 1024, 1, act="swish"))


def _edge(net: Net, x: str, out: int, stride: int) -> str:
    into = net.channels[x]
    y = net.conv(net.conv(x, 4 * into, 3, stride, act="swish"), out, 1)
    return net.add(y, x) if stride == 1 and into == out else y
