"""DenseNet-121 (Huang et al. 2016) as in torchvision: every layer joins all earlier features anew."""

from __future__ import annotations

from benchmarks.models.net import Net

GROWTH = 32


def densenet121(net: Net) -> None:
    x = net.max_pool(net.conv("input", 64, 7, 2, act="relu"), 3, 2, 1)
    depths = (6, 12, 24, 16)
    for stage, depth in enumerate(depths):
        x = _dense_block(net, x, depth)
        if stage < len(depths) - 1:
            x = net.conv(_norm_relu(net, x), net.channels[x] // 2, 1, bias=False)
            x = net.avg_pool(x, 2, 2)
    net.classifier(_norm_relu(net, x))


def _norm_relu(net: Net, x: str) -> str:
    return net.activate(net.batch_norm(x), "relu")


def _dense_block(net: Net, x: str, depth: int) -> str:
    features = [x]
    for _ in range(depth):
        joined = net.concat(*features) if len(features) > 1 else features[0]
        y = net.conv(_norm_relu(net, joined), 4 * GROWTH, 1, act="relu")
        features.append(net.conv(y, GROWTH, 3, bias=False))
    return net.concat(*features)
