"""GoogLeNet (Szegedy et al. 2014) as in torchvision: the 5x5 branch has 3x3 kernels, pools round up, no auxiliary
classifiers, input transformation cut off."""

from __future__ import annotations

from benchmarks.models.net import Net


def googlenet(net: Net) -> None:
    x = net.max_pool(net.conv("input", 64, 7, 2, act="relu"), 3, 2, ceil=True)
    x = net.conv(net.conv(x, 64, 1, act="relu"), 192, 3, act="relu")
    x = net.max_pool(x, 3, 2, ceil=True)
    x = _inception(net, x, (64, 96, 128, 16, 32, 32))
    x = _inception(net, x, (128, 128, 192, 32, 96, 64))
    x = net.max_pool(x, 3, 2, ceil=True)
    x = _inception(net, x, (192, 96, 208, 16, 48, 64))
    x = _inception(net, x, (160, 112, 224, 24, 64, 64))
    x = _inception(net, x, (128, 128, 256, 24, 64, 64))
    x = _inception(net, x, (112, 144, 288, 32, 64, 64))
    x = _inception(net, x, (256, 160, 320, 32, 128, 128))
    x = net.max_pool(x, 2, 2, ceil=True)
    x = _inception(net, x, (256, 160, 320, 32, 128, 128))
    x = _inception(net, x, (384, 192, 384, 48, 128, 128))
    net.classifier(x)


def _inception(net: Net, x: str, widths: tuple[int, int, int, int, int, int]) -> str:
    one, reduce3, three, reduce5, five, pool = widths
    a = net.conv(x, one, 1, act="relu")
    b = net.conv(net.conv(x, reduce3, 1, act="relu"), three, 3, act="relu")
    c = net.conv(net.conv(x, reduce5, 1, act="relu"), five, 3, act="relu")
    d = net.conv(net.max_pool(x, 3, 1, 1, ceil=True), pool, 1, act="relu")
    return net.concat(a, b, c, d)
