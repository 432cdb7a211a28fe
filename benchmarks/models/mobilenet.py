"""MobileNet v1 (Howard et al. 2017) and a MobileNet v3 small (Howard et al. 2019) with skips in every block."""

from __future__ import annotations

from benchmarks.models.net import Net


def mobilenet_v1(net: Net) -> None:
    x = net.conv("input", 32, 3, 2, act="relu")
    layers = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for out, stride in layers:
        x = net.conv(net.depthwise(x, 3, stride, act="relu"), out, 1, act="relu")
    x = net.same("Flatten", net.avg_pool(x, 7, 7), axis=1)
    net.output(net.linear(x, 1000), 2)


# kernel, expansion, output, activation, squeeze and excitation, stride
_SMALL = (
    (3, 16, 16, "relu", True, 2),
    (3, 72, 24, "relu", False, 2),
    (3, 88, 24, "relu", False, 1),
    (5, 96, 40, "hswish", True, 2),
    (5, 240, 40, "hswish", True, 1),
    (5, 240, 40, "hswish", True, 1),
    (5, 120, 48, "hswish", True, 1),
    (5, 144, 48, "hswish", True, 1),
    (5, 288, 96, "hswish", True, 2),
    (5, 576, 96, "hswish", True, 1),
    (5, 576, 96, "hswish", True, 1),
)


def mobilenet_v3_small(net: Net) -> None:
    """The variant of xiaolai-sqlai/mobilenetv3: the gate acts on the expanded channels, the third activation follows
    the addition, and blocks that change size or width have a convolution on their skip."""
    x = net.conv("input", 16, 3, 2, act="hswish")
    for kernel, expansion, out, act, gated, stride in _SMALL:
        y = net.conv(x, expansion, 1, act=act)
        y = net.depthwise(y, kernel, stride, act=act)
        if gated:
            y = _gate(net, y)
        y = net.conv(y, out, 1)
        x = net.activate(net.add(y, _skip(net, x, out, stride)), act)
    x = net.conv(x, 576, 1, act="hswish")
    x = net.same("Flatten", net.global_pool(x), axis=1)
    x = net.activate(net.linear(x, 1280), "hswish")
    net.output(net.linear(x, 1000), 2)


def _gate(net: Net, x: str) -> str:
    c = net.channels[x]
    y = net.conv(net.global_pool(x), max(c // 4, 8), 1, act="relu")
    return net.same("Mul", x, net.conv(y, c, 1, bias=False, act="hsigmoid"))


def _skip(net: Net, x: str, out: int, stride: int) -> str:
    if stride == 2:
        x = net.depthwise(x, 3, 2)
    return x if net.channels[x] == out else net.conv(x, out, 1)
