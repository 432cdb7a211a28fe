"""VGG (Simonyan and Zisserman 2014) without batch normalisation, as in torchvision."""

from __future__ import annotations

from benchmarks.models.net import Net


def vgg16(net: Net) -> None:
    _vgg(net, (2, 2, 3, 3, 3))


def vgg19(net: Net) -> None:
    _vgg(net, (2, 2, 4, 4, 4))


def _vgg(net: Net, depths: tuple[int, ...]) -> None:
    x = "input"
    for width, depth in zip((64, 128, 256, 512, 512), depths, strict=True):
        for _ in range(depth):
            x = net.conv(x, width, 3, act="relu")
        x = net.max_pool(x, 2, 2)
    x = net.same("Flatten", x, axis=1)
    net.channels[x] = 512 * 7 * 7
    x = net.activate(net.linear(x, 4096), "relu")
    x = net.activate(net.linear(x, 4096), "relu")
    net.output(net.linear(x, 1000), 2)
