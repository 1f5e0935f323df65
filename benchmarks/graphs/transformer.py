"""A decoder-only transformer, its loss and the hand-written gradients of all weights.

The blocks apply the normalization first (https://arxiv.org/abs/2002.04745). The activation is the
tanh form of GELU, the causal mask is added to the scores, and the loss is the cross-entropy over a
vocabulary. The inputs are activations, so the embedding is left out.

The size is the number of layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["TRANSFORMER", "Config", "graph_of", "loss_of"]

EPSILON = 1e-5
# GELU: x / 2 * (1 + tanh(GELU_SCALE * (x + GELU_CUBE * x^3)))
GELU_SCALE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715

SUMMED = (0, 1)
"""Batch and sequence: the dimensions over which gradients of weights are summed."""


@dataclass(frozen=True)
class Config:
    """The sizes of the model and of its input."""

    batch: int = 8
    sequence: int = 512
    model: int = 1024
    heads: int = 16
    inner: int = 4096
    vocabulary: int = 32_768

    @property
    def head_size(self) -> int:
        return self.model // self.heads


class Numbers(NamedTuple):
    """The dimension numbers of all products, made once per graph."""

    linear: Any  # [b, s, m] and [m, n]
    linear_input: Any  # the gradient of [b, s, n], and [m, n]
    linear_weight: Any  # [b, s, m], and the gradient of [b, s, n]
    last_last: Any  # per batch and head, contracts the last dimensions of both
    last_first: Any  # per batch and head, a matrix product
    first_first: Any  # per batch and head, a matrix product with the first transposed


def numbers_of(g: Any) -> Numbers:
    heads = (0, 1)
    return Numbers(
        linear=g.dot_numbers((2,), (0,)),
        linear_input=g.dot_numbers((2,), (1,)),
        linear_weight=g.dot_numbers((0, 1), (0, 1)),
        last_last=g.dot_numbers((3,), (3,), heads, heads),
        last_first=g.dot_numbers((3,), (2,), heads, heads),
        first_first=g.dot_numbers((2,), (2,), heads, heads),
    )


class Normalization(NamedTuple):
    """The weights of a layer normalization."""

    scale: Any
    offset: Any


class Linear(NamedTuple):
    """The weights of a linear layer."""

    weight: Any
    bias: Any


class Block(NamedTuple):
    """The weights of a block, or their gradients."""

    before_attention: Normalization
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    before_feed_forward: Normalization
    up: Linear
    down: Linear


class Weights(NamedTuple):
    """All weights, or their gradients."""

    blocks: list[Block]
    last: Normalization
    logits: Linear


def shapes(config: Config, layers: int) -> Weights:
    """Return the dimensions of each weight."""
    model, inner = config.model, config.inner
    normalization = Normalization((model,), (model,))
    square = Linear((model, model), (model,))
    block = Block(
        before_attention=normalization,
        query=square,
        key=square,
        value=square,
        output=square,
        before_feed_forward=normalization,
        up=Linear((model, inner), (inner,)),
        down=Linear((inner, model), (model,)),
    )
    logits = Linear((model, config.vocabulary), (config.vocabulary,))
    return Weights([block] * layers, normalization, logits)


def flat(weights: Weights) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each weight."""
    parts = {f"{n}_{name}": part for n, b in enumerate(weights.blocks) for name, part in named(b)}
    for name, part in {**parts, "last": weights.last, "logits": weights.logits}.items():
        for kind, value in named(part):
            yield f"{name}_{kind}", value


def named(parts: Any) -> Iterator[tuple[str, Any]]:
    return zip(parts._fields, parts, strict=True)


BLOCK_KINDS = (Normalization, Linear, Linear, Linear, Linear, Normalization, Linear, Linear)


def nested(values: Sequence[Any], layers: int) -> Weights:
    """Return the weights, from values in the order of `flat`."""
    remaining = iter(values)

    def pair(kind: Any) -> Any:
        return kind(next(remaining), next(remaining))

    blocks = [Block._make(map(pair, BLOCK_KINDS)) for _ in range(layers)]
    return Weights(blocks, pair(Normalization), pair(Linear))


def normalize(g: Any, config: Config, weights: Normalization, x: Any) -> tuple[Any, Any]:
    mean = g.mul_number(g.reduce_sum(x, (2,)), 1 / config.model)
    centred = g.sub_along(x, mean, (0, 1))
    variance = g.mul_number(g.reduce_sum(g.mul(centred, centred), (2,)), 1 / config.model)
    inverse = g.rsqrt(g.add_number(variance, EPSILON))
    normal = g.mul_along(centred, inverse, (0, 1))
    y = g.add_along(g.mul_along(normal, weights.scale, (2,)), weights.offset, (2,))
    return y, (normal, inverse)


def normalize_backward(
    g: Any, config: Config, weights: Normalization, saved: Any, dy: Any
) -> tuple[Any, Normalization]:
    normal, inverse = saved
    dweights = Normalization(
        scale=g.reduce_sum(g.mul(dy, normal), SUMMED), offset=g.reduce_sum(dy, SUMMED)
    )
    dnormal = g.mul_along(dy, weights.scale, (2,))
    mean = g.mul_number(g.reduce_sum(dnormal, (2,)), 1 / config.model)
    along = g.mul_number(g.reduce_sum(g.mul(dnormal, normal), (2,)), 1 / config.model)
    dx = g.sub_along(dnormal, mean, (0, 1))
    dx = g.sub(dx, g.mul_along(normal, along, (0, 1)))
    return g.mul_along(dx, inverse, (0, 1)), dweights


def linear(g: Any, numbers: Numbers, weights: Linear, x: Any) -> Any:
    return g.add_along(g.dot_general(x, weights.weight, numbers.linear), weights.bias, (2,))


def linear_backward(
    g: Any, numbers: Numbers, weights: Linear, x: Any, dy: Any
) -> tuple[Any, Linear]:
    dweights = Linear(
        weight=g.dot_general(x, dy, numbers.linear_weight), bias=g.reduce_sum(dy, SUMMED)
    )
    return g.dot_general(dy, weights.weight, numbers.linear_input), dweights


def split(g: Any, config: Config, x: Any) -> Any:
    """Split the heads: [batch, sequence, model] -> [batch, head, sequence, head_size]."""
    sizes = (config.batch, config.sequence, config.heads, config.head_size)
    return g.transpose(g.reshape(x, sizes), (0, 2, 1, 3))


def join(g: Any, config: Config, x: Any) -> Any:
    """Invert `split`."""
    sizes = (config.batch, config.sequence, config.model)
    return g.reshape(g.transpose(x, (0, 2, 1, 3)), sizes)


def attention(
    g: Any, config: Config, numbers: Numbers, block: Block, mask: Any, x: Any
) -> tuple[Any, Any]:
    query = split(g, config, linear(g, numbers, block.query, x))
    key = split(g, config, linear(g, numbers, block.key, x))
    value = split(g, config, linear(g, numbers, block.value, x))
    scores = g.dot_general(query, key, numbers.last_last)
    scores = g.mul_number(scores, 1 / math.sqrt(config.head_size))
    scores = g.add_along(scores, mask, (2, 3))
    powers = g.exp(g.sub_along(scores, g.reduce_max(scores, (3,)), (0, 1, 2)))
    attended = g.div_along(powers, g.reduce_sum(powers, (3,)), (0, 1, 2))
    mixed = join(g, config, g.dot_general(attended, value, numbers.last_first))
    return linear(g, numbers, block.output, mixed), (x, query, key, value, attended, mixed)


def attention_backward(
    g: Any, config: Config, numbers: Numbers, block: Block, saved: Any, dy: Any
) -> tuple[Any, list[Linear]]:
    x, query, key, value, attended, mixed = saved
    dmixed, doutput = linear_backward(g, numbers, block.output, mixed, dy)
    dmixed = split(g, config, dmixed)
    dattended = g.dot_general(dmixed, value, numbers.last_last)
    dvalue = g.dot_general(attended, dmixed, numbers.first_first)
    along = g.reduce_sum(g.mul(dattended, attended), (3,))
    dscores = g.mul(attended, g.sub_along(dattended, along, (0, 1, 2)))
    dscores = g.mul_number(dscores, 1 / math.sqrt(config.head_size))
    dquery = g.dot_general(dscores, key, numbers.last_first)
    dkey = g.dot_general(dscores, query, numbers.first_first)
    dx, gradients = None, []
    for weights, dpart in ((block.query, dquery), (block.key, dkey), (block.value, dvalue)):
        dpart = join(g, config, dpart)
        dinput, dweights = linear_backward(g, numbers, weights, x, dpart)
        dx = dinput if dx is None else g.add(dx, dinput)
        gradients.append(dweights)
    return dx, [*gradients, doutput]


def feed_forward(g: Any, numbers: Numbers, block: Block, x: Any) -> tuple[Any, Any]:
    up = linear(g, numbers, block.up, x)
    square = g.mul(up, up)
    inside = g.mul(up, g.add_number(g.mul_number(square, GELU_CUBE), 1.0))
    bent = g.tanh(g.mul_number(inside, GELU_SCALE))
    half = g.mul_number(up, 0.5)
    active = g.mul(half, g.add_number(bent, 1.0))
    return linear(g, numbers, block.down, active), (x, square, bent, half, active)


def feed_forward_backward(
    g: Any, numbers: Numbers, block: Block, saved: Any, dy: Any
) -> tuple[Any, list[Linear]]:
    x, square, bent, half, active = saved
    dactive, ddown = linear_backward(g, numbers, block.down, active, dy)
    dinside = g.add_number(g.mul_number(square, 3 * GELU_CUBE), 1.0)
    dbent = g.add_number(g.neg(g.mul(bent, bent)), 1.0)
    slope = g.mul(g.mul(half, dbent), g.mul_number(dinside, GELU_SCALE))
    slope = g.add(slope, g.mul_number(g.add_number(bent, 1.0), 0.5))
    dx, dup = linear_backward(g, numbers, block.up, x, g.mul(dactive, slope))
    return dx, [dup, ddown]


def cross_entropy(g: Any, config: Config, targets: Any, logits: Any) -> tuple[Any, Any]:
    """Return the mean over all tokens. `targets` contains the probability of each word."""
    shifted = g.sub_along(logits, g.reduce_max(logits, (2,)), (0, 1))
    powers = g.exp(shifted)
    total = g.reduce_sum(powers, (2,))
    log_probability = g.sub_along(shifted, g.log(total), (0, 1))
    loss = g.neg(g.reduce_sum(g.mul(targets, log_probability), (0, 1, 2)))
    return g.mul_number(loss, 1 / (config.batch * config.sequence)), (powers, total)


def cross_entropy_backward(g: Any, config: Config, targets: Any, saved: Any) -> Any:
    powers, total = saved
    probability = g.div_along(powers, total, (0, 1))
    difference = g.sub(probability, targets)
    return g.mul_number(difference, 1 / (config.batch * config.sequence))


def forward(
    g: Any, config: Config, numbers: Numbers, weights: Weights, x: Any, mask: Any, targets: Any
) -> tuple[Any, Any]:
    """Return the loss, and the values that the backward pass needs."""
    saved = []
    for block in weights.blocks:
        y, first = normalize(g, config, block.before_attention, x)
        y, attended = attention(g, config, numbers, block, mask, y)
        x = g.add(x, y)
        y, second = normalize(g, config, block.before_feed_forward, x)
        y, fed = feed_forward(g, numbers, block, y)
        x = g.add(x, y)
        saved.append((first, attended, second, fed))
    y, last = normalize(g, config, weights.last, x)
    logits = linear(g, numbers, weights.logits, y)
    loss, entropy = cross_entropy(g, config, targets, logits)
    return loss, (saved, last, y, entropy)


def backward(
    g: Any, config: Config, numbers: Numbers, weights: Weights, saved: Any, targets: Any
) -> Weights:
    """Return the gradient of every weight."""
    of_blocks, of_last, y, entropy = saved
    dlogits = cross_entropy_backward(g, config, targets, entropy)
    dy, logits = linear_backward(g, numbers, weights.logits, y, dlogits)
    dx, last = normalize_backward(g, config, weights.last, of_last, dy)
    gradients: list[Block] = []
    for block, (first, attended, second, fed) in zip(
        reversed(weights.blocks), reversed(of_blocks), strict=True
    ):
        dy, outer = feed_forward_backward(g, numbers, block, fed, dx)
        dy, dsecond = normalize_backward(g, config, block.before_feed_forward, second, dy)
        dx = g.add(dx, dy)
        dy, inner = attention_backward(g, config, numbers, block, attended, dx)
        dy, dfirst = normalize_backward(g, config, block.before_attention, first, dy)
        dx = g.add(dx, dy)
        gradients.append(Block._make((dfirst, *inner, dsecond, *outer)))
    return Weights(gradients[::-1], last, logits)


def arguments(config: Config, size: int) -> list[Argument]:
    batch, sequence = config.batch, config.sequence
    dimensions_of = {
        "x": (batch, sequence, config.model),
        "mask": (sequence, sequence),
        "targets": (batch, sequence, config.vocabulary),
        **dict(flat(shapes(config, size))),
    }
    return [(name, "float32", dimensions) for name, dimensions in dimensions_of.items()]


def loss_of(
    config: Config, g: Any, size: int, x: Any, mask: Any, targets: Any, *weights: Any
) -> Any:
    """Return only the loss."""
    return forward(g, config, numbers_of(g), nested(weights, size), x, mask, targets)[0]


def body(
    config: Config, g: Any, size: int, x: Any, mask: Any, targets: Any, *weights: Any
) -> list[Any]:
    """Return the loss, and the gradients of the weights in order."""
    numbers, all_weights = numbers_of(g), nested(weights, size)
    loss, saved = forward(g, config, numbers, all_weights, x, mask, targets)
    gradients = backward(g, config, numbers, all_weights, saved, targets)
    return [loss, *(gradient for _, gradient in flat(gradients))]


def graph_of(config: Config) -> Graph:
    """Return the graph of a model of these sizes."""
    return Graph(
        name="transformer",
        title="transformer and its gradients",
        sizes=(1, 3, 6, 12, 24, 40, 96),
        default=24,
        arguments=partial(arguments, config),
        body=partial(body, config),
    )


TRANSFORMER = graph_of(Config())
