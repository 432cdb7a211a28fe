"""ResNet (He et al. 2015), torchvision's variant: the stride of a bottleneck is on its 3x3 convolution."""

from __future__ import annotations

from benchmarks.models.net import Net


def resnet18(net: Net) -> None:
    _resnet(net, (2, 2, 2, 2), bottleneck=False)


def resnet101(net: Net) -> None:
    _resnet(net, (3, 4, 23, 3), bottleneck=True)


def _resnet(net: Net, depths: tuple[int, ...], bottleneck: bool) -> None:
    x = net.max_pool(net.conv("input", 64, 7, 2, act="relu"), 3, 2, 1)
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for block in range(depth):
            stride = 2 if stage and not block else 1
            x = _block(net, x, width, stride, bottleneck)
    net.classifier(x)


def _block(net: Net, x: str, width: int, stride: int, bottleneck: bool) -> str:
    out = 4 * width if bottleneck else width
    if bottleneck:
        y = net.conv(x, width, 1, act="relu")
        y = net.conv(y, width, 3, stride, act="relu")
        y = net.conv(y, out, 1)
    else:
        y = net.conv(net.conv(x, width, 3, stride, act="relu"), out, 3)
    skip = x if stride == 1 and net.channels[x] == out else net.conv(x, out, 1, stride)
    return net.activate(net.add(y, skip), "relu")
