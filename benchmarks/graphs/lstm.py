"""An unrolled LSTM (https://www.bioinf.jku.at/publications/older/2604.pdf) with a forget gate.

The size is the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["LSTM", "Config", "graph_of"]


@dataclass(frozen=True)
class Config:
    """The sizes of the arrays."""

    batch: int = 32
    inputs: int = 256
    hidden: int = 512


def arguments(config: Config, size: int) -> list[Argument]:
    gates, state = 4 * config.hidden, (config.batch, config.hidden)
    return [
        ("sequence", "float32", (size, config.batch, config.inputs)),
        ("weights", "float32", (config.inputs + config.hidden, gates)),
        ("bias", "float32", (gates,)),
        ("hidden", "float32", state),
        ("cell", "float32", state),
    ]


def body(
    config: Config, g: Any, size: int, sequence: Any, weights: Any, bias: Any, h: Any, c: Any
) -> list[Any]:
    batch, inputs, hidden = config.batch, config.inputs, config.hidden
    product = g.dot_numbers((1,), (0,))
    # The columns of the four gates in the product.
    bounds = [((0, n * hidden), (batch, (n + 1) * hidden)) for n in range(4)]
    for step in range(size):
        x = g.slice(sequence, (step, 0, 0), (step + 1, batch, inputs), (1, 1, 1))
        x = g.reshape(x, (batch, inputs))
        gates = g.dot_general(g.concatenate((x, h), 1), weights, product)
        gates = g.add_along(gates, bias, (1,))
        i, f, o, new = [g.slice(gates, start, limit, (1, 1)) for start, limit in bounds]
        remembered = g.mul(g.logistic(f), c)
        c = g.add(remembered, g.mul(g.logistic(i), g.tanh(new)))
        h = g.mul(g.logistic(o), g.tanh(c))
    return [h, c]


def graph_of(config: Config) -> Graph:
    """Return the graph with arrays of these sizes."""
    return Graph(
        name="lstm",
        title="unrolled LSTM",
        sizes=(1, 10, 100, 500, 2_000),
        default=2_000,
        arguments=partial(arguments, config),
        body=partial(body, config),
    )


LSTM = graph_of(Config())
