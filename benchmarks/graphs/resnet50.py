"""The forward pass of ResNet-50, with batch normalization as in training.

The architecture is that of https://arxiv.org/abs/1512.03385, with the stride in the 3x3 convolution
of a block, as in most later implementations.

The size is the number of batches, which all use the same weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["RESNET50", "Config", "graph_of"]

EPSILON = 1e-5
PER_FEATURE = (3,)
WINDOWS = (0, 1, 2)
"""The dimensions over which a batch is normalized: all except the features."""


@dataclass(frozen=True)
class Config:
    """The sizes of the network and of its input."""

    batch: int = 8
    image: int = 224
    width: int = 64
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 1000


class Layer(NamedTuple):
    """A convolution and its normalization: window size, stride, input and output features."""

    name: str
    window: int
    stride: int
    inputs: int
    outputs: int


class Block(NamedTuple):
    """A block: its three layers, and the layer of the shortcut if shapes differ."""

    layers: list[Layer]
    shortcut: Layer | None


def stem(config: Config) -> Layer:
    return Layer("stem", 7, 2, 3, config.width)


def blocks(config: Config) -> Iterator[Block]:
    inputs = config.width
    for stage, count in enumerate(config.blocks):
        inside = config.width * 2**stage
        outputs = 4 * inside
        for number in range(count):
            stride = 2 if stage > 0 and number == 0 else 1
            name = f"block_{stage}_{number}"
            layers = [
                Layer(f"{name}_reduce", 1, 1, inputs, inside),
                Layer(f"{name}_window", 3, stride, inside, inside),
                Layer(f"{name}_expand", 1, 1, inside, outputs),
            ]
            shortcut = Layer(f"{name}_shortcut", 1, stride, inputs, outputs)
            yield Block(layers, shortcut if number == 0 else None)
            inputs = outputs


def features(config: Config) -> int:
    """Return the number of input features of the last layer."""
    return int(4 * config.width * 2 ** (len(config.blocks) - 1))


def arguments(config: Config, size: int) -> list[Argument]:
    image = (config.batch, config.image, config.image, 3)
    shapes: list[tuple[str, tuple[int, ...]]] = [(f"images_{n}", image) for n in range(size)]
    layers = [stem(config)]
    for block in blocks(config):
        layers += block.layers if block.shortcut is None else [*block.layers, block.shortcut]
    for name, window, _, inputs, outputs in layers:
        shapes.append((f"{name}_kernel", (window, window, inputs, outputs)))
        shapes += [(f"{name}_{kind}", (outputs,)) for kind in ("scale", "offset")]
    shapes.append(("weights", (features(config), config.classes)))
    shapes.append(("bias", (config.classes,)))
    return [(name, "float32", dimensions) for name, dimensions in shapes]


def convolution(g: Any, numbers: Any, layer: Layer, weights: Iterator[Any], x: Any) -> Any:
    strides = (layer.stride, layer.stride)
    margin = (layer.window // 2, layer.window // 2)
    kernel = next(weights)
    return g.conv_general_dilated(x, kernel, strides, (margin, margin), (1, 1), (1, 1), numbers)


def normalize(g: Any, count: int, weights: Iterator[Any], x: Any) -> Any:
    """Normalize each feature, which has `count` elements."""
    scale, offset = next(weights), next(weights)
    mean = g.mul_number(g.reduce_sum(x, WINDOWS), 1 / count)
    centred = g.sub_along(x, mean, PER_FEATURE)
    variance = g.mul_number(g.reduce_sum(g.mul(centred, centred), WINDOWS), 1 / count)
    factor = g.mul(g.rsqrt(g.add_number(variance, EPSILON)), scale)
    return g.add_along(g.mul_along(centred, factor, PER_FEATURE), offset, PER_FEATURE)


def forward(config: Config, g: Any, numbers: Any, x: Any, weights: Iterator[Any]) -> Any:
    """Return the logits of one batch."""

    def apply(layer: Layer, x: Any, side: int) -> Any:
        x = convolution(g, numbers, layer, weights, x)
        return normalize(g, config.batch * side * side, weights, x)

    side = config.image // 2
    x = g.max_number(apply(stem(config), x, side), 0.0)
    side //= 2
    x = g.max_pool(x, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for block in blocks(config):
        reduce, window, expand = block.layers
        y = g.max_number(apply(reduce, x, side), 0.0)
        side //= window.stride
        y = g.max_number(apply(window, y, side), 0.0)
        y = apply(expand, y, side)
        if block.shortcut is not None:
            x = apply(block.shortcut, x, side)
        x = g.max_number(g.add(x, y), 0.0)
    x = g.mul_number(g.reduce_sum(x, (1, 2)), 1 / (side * side))
    x = g.dot_general(x, next(weights), g.dot_numbers((1,), (0,)))
    return g.add_along(x, next(weights), (1,))


def body(config: Config, g: Any, size: int, *values: Any) -> list[Any]:
    numbers = g.conv_numbers("b01f_01io->b01f")
    batches, weights = values[:size], values[size:]
    return [forward(config, g, numbers, images, iter(weights)) for images in batches]


def graph_of(config: Config) -> Graph:
    """Return the graph of a network of these sizes."""
    return Graph(
        name="resnet50",
        title="ResNet-50 forward",
        sizes=(1, 2, 4, 7, 16, 64),
        default=7,
        arguments=partial(arguments, config),
        body=partial(body, config),
    )


RESNET50 = graph_of(Config())
