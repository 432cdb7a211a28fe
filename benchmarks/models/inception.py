"""Inception v3 (Szegedy et al. 2015) as in torchvision, input transformation included, no auxiliary classifier."""

from __future__ import annotations

import numpy as np

from benchmarks.models.net import Net


def inception_v3(net: Net) -> None:
    x = _transform_input(net)
    x = net.conv(x, 32, 3, 2, 0, act="relu")
    x = net.conv(x, 32, 3, 1, 0, act="relu")
    x = net.conv(x, 64, 3, act="relu")
    x = net.max_pool(x, 3, 2)
    x = net.conv(x, 80, 1, act="relu")
    x = net.conv(x, 192, 3, 1, 0, act="relu")
    x = net.max_pool(x, 3, 2)
    for pool in (32, 64, 64):
        x = _a(net, x, pool)
    x = _b(net, x)
    for width in (128, 160, 160, 192):
        x = _c(net, x, width)
    x = _d(net, x)
    x = _e(net, _e(net, x))
    net.classifier(x)


def _transform_input(net: Net) -> str:
    parts = []
    for index, (std, mean) in enumerate(((0.229, 0.485), (0.224, 0.456), (0.225, 0.406))):
        x = net.op("Gather", ["input", net.constant(np.int64(index))], 1, axis=1)
        x = net.same("Unsqueeze", x, axes=[1])
        x = net.same("Mul", x, net.constant(np.float32(std / 0.5)))
        parts.append(net.same("Add", x, net.constant(np.float32((mean - 0.5) / 0.5))))
    return net.concat(*parts)


def _chain(net: Net, x: str, *layers: tuple[int, int | tuple[int, int]]) -> str:
    for out, kernel in layers:
        x = net.conv(x, out, kernel, act="relu")
    return x


def _a(net: Net, x: str, pool: int) -> str:
    return net.concat(
        net.conv(x, 64, 1, act="relu"),
        _chain(net, x, (48, 1), (64, 5)),
        _chain(net, x, (64, 1), (96, 3), (96, 3)),
        net.conv(net.avg_pool(x, 3, 1, 1), pool, 1, act="relu"),
    )


def _b(net: Net, x: str) -> str:
    a = net.conv(x, 384, 3, 2, 0, act="relu")
    b = net.conv(_chain(net, x, (64, 1), (96, 3)), 96, 3, 2, 0, act="relu")
    return net.concat(a, b, net.max_pool(x, 3, 2))


def _c(net: Net, x: str, width: int) -> str:
    row, column = (1, 7), (7, 1)
    return net.concat(
        net.conv(x, 192, 1, act="relu"),
        _chain(net, x, (width, 1), (width, row), (192, column)),
        _chain(net, x, (width, 1), (width, column), (width, row), (width, column), (192, row)),
        net.conv(net.avg_pool(x, 3, 1, 1), 192, 1, act="relu"),
    )


def _d(net: Net, x: str) -> str:
    a = net.conv(net.conv(x, 192, 1, act="relu"), 320, 3, 2, 0, act="relu")
    b = _chain(net, x, (192, 1), (192, (1, 7)), (192, (7, 1)))
    return net.concat(a, net.conv(b, 192, 3, 2, 0, act="relu"), net.max_pool(x, 3, 2))


def _e(net: Net, x: str) -> str:
    one = net.conv(x, 320, 1, act="relu")
    b = net.conv(x, 384, 1, act="relu")
    b = net.concat(net.conv(b, 384, (1, 3), act="relu"), net.conv(b, 384, (3, 1), act="relu"))
    c = _chain(net, x, (448, 1), (384, 3))
    c = net.concat(net.conv(c, 384, (1, 3), act="relu"), net.conv(c, 384, (3, 1), act="relu"))
    return net.concat(one, b, c, net.conv(net.avg_pool(x, 3, 1, 1), 192, 1, act="relu"))
