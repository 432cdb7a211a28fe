"""YOLOv4 (Bochkovskiy et al. 2020): CSPDarknet53 with Mish, SPP and PANet with leaky ReLU; three raw outputs."""

from __future__ import annotations

import numpy as np

from benchmarks.models.net import Net

ANCHORS_TIMES_VALUES = 255  # 3 anchors x (4 + 1 + 80)


def yolov4(net: Net) -> None:
    x = net.conv("input", 32, 3, act="mish")
    levels = []
    for width, depth in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = _csp(net, x, width, depth)
        levels.append(x)
    _, _, fine, middle, coarse = levels
    x = _pyramid(net, coarse)
    p5 = x
    p4 = _five(net, _join(net, x, middle, 256), 256)
    p3 = _five(net, _join(net, p4, fine, 128), 128)
    _head(net, p3, 256)
    down = net.conv(p3, 256, 3, 2, act="leaky")
    n4 = _five(net, net.concat(down, p4), 256)
    _head(net, n4, 512)
    down = net.conv(n4, 512, 3, 2, act="leaky")
    n5 = _five(net, net.concat(down, p5), 512)
    _head(net, n5, 1024)


def _csp(net: Net, x: str, width: int, depth: int) -> str:
    """A cross-stage block: half of the channels pass the residual units, then both halves join. The first one keeps
    the full width in both halves."""
    x = net.conv(x, width, 3, 2, act="mish")
    half = width if width == 64 else width // 2
    left = net.conv(x, half, 1, act="mish")
    right = net.conv(x, half, 1, act="mish")
    for _ in range(depth):
        inner = net.conv(right, 32 if width == 64 else half, 1, act="mish")
        right = net.add(right, net.conv(inner, half, 3, act="mish"))
    right = net.conv(right, half, 1, act="mish")
    return net.conv(net.concat(right, left), width, 1, act="mish")


def _three(net: Net, x: str, width: int) -> str:
    x = net.conv(x, width, 1, act="leaky")
    x = net.conv(x, 2 * width, 3, act="leaky")
    return net.conv(x, width, 1, act="leaky")


def _five(net: Net, x: str, width: int) -> str:
    x = _three(net, x, width)
    x = net.conv(x, 2 * width, 3, act="leaky")
    return net.conv(x, width, 1, act="leaky")


def _pyramid(net: Net, x: str) -> str:
    x = _three(net, x, 512)
    pools = [net.max_pool(x, k, 1, k // 2) for k in (13, 9, 5)]
    return _three(net, net.concat(*pools, x), 512)


def _join(net: Net, x: str, level: str, width: int) -> str:
    up = net.conv(x, width, 1, act="leaky")
    empty = net.constant(np.zeros(0, np.float32))
    scales = net.constant(np.asarray([1, 1, 2, 2], np.float32))
    up = net.same("Resize", up, empty, scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip
    return net.concat(net.conv(level, width, 1, act="leaky"), up)


def _head(net: Net, x: str, width: int) -> None:
    x = net.conv(x, width, 3, act="leaky")
    net.output(net.conv(x, ANCHORS_TIMES_VALUES, 1), 4)
