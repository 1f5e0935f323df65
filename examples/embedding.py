"""Learn embeddings of the nodes of a graph from random walks, as DeepWalk and word2vec do.

One program makes all steps. A step gathers the rows of its nodes from two tables, and adds the
gradients to these rows (`x.at[nodes].add`, a scatter); rows that occur more than once get the sum.
The other rows, which are most of them in a large table, are neither read nor written.

    python examples/embedding.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import builder as xb
import lowering
from builder import lib

SIDE, WIDTH, RATE = 8, 16, 0.05  # the graph is a grid of SIDE * SIDE nodes


@lowering.jit
def train(
    tables: tuple[xb.XlaOp, xb.XlaOp], nodes: xb.XlaOp, others: xb.XlaOp, labels: xb.XlaOp
) -> Any:
    """Return the tables after all steps of skip-gram with negative samples, and the losses.

    Args:
        tables: the embeddings of nodes, and those of nodes as neighbours: f32[count, WIDTH].
        nodes, others: s32[steps, batch], the pairs of a step.
        labels: f32[steps, batch], 1 for neighbours and 0 for negative samples.
    """

    def step(i: xb.XlaOp, j: xb.XlaOp, label: xb.XlaOp, table: xb.XlaOp, context: xb.XlaOp) -> Any:
        x, y = table[i], context[j]
        score = lib.sum(x * y, 1)
        loss = lib.mean(lib.binary_cross_entropy(score, label))
        slope = (lib.sigmoid(score) - label)[:, None] * RATE
        return loss, table.at[i].add(-slope * y), context.at[j].add(-slope * x)

    losses, *tables = xb.scan([nodes, others, labels], list(tables), step, 0)
    return tables, losses


def pairs(steps: int, batch: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return nodes, nodes at most two steps away or random ones, and labels; half are random."""
    random = np.random.default_rng(seed)
    place = random.integers(0, SIDE, (2, steps, batch))
    other = place
    for _ in range(2):
        # A step along one of the two axes, which may be refused by the border of the grid.
        axis, by = random.integers(0, 2, (steps, batch)), random.choice([-1, 1], (steps, batch))
        other = np.clip(other + by * (axis == np.arange(2)[:, None, None]), 0, SIDE - 1)
    labels = random.integers(0, 2, (steps, batch)).astype(np.float32)
    nodes, others = (np.int32(SIDE * row + column) for row, column in (place, other))
    return nodes, np.where(labels == 1, others, random.permuted(nodes)), labels


def random_tables(seed: int) -> list[np.ndarray]:
    sizes = (2, SIDE**2, WIDTH)
    return list(np.random.default_rng(seed).normal(0, 0.3, sizes).astype(np.float32))


def main() -> None:
    (table, _), losses = train(random_tables(seed=0), *pairs(2000, 256, seed=0))
    print(
        f"loss of the first steps {losses[:50].mean():.3f}, of the last {losses[-50:].mean():.3f}"
    )
    table = np.asarray(table / np.linalg.norm(table, axis=1, keepdims=True))
    similar = table @ table.T - 2 * np.eye(len(table))
    rows, columns = np.divmod(similar.argmax(1), SIDE)
    row, column = np.divmod(np.arange(SIDE**2), SIDE)
    distance = abs(rows - row) + abs(columns - column)
    print(f"distance of a node and the most similar one: at most {distance.max()}")


if __name__ == "__main__":
    main()
