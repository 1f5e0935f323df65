"""Random graphs as lists of nodes, which can be edited and recorded in another order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import builder as xb

SHAPE = xb.f32[4, 4]
UNARY = ("exp", "sin", "neg", "tanh")
BINARY = ("add", "mul", "sub", "max")
ATTRIBUTES = {
    "rev": [(0,), (1,), (0, 1)],
    "reduce_precision": [(5, 10), (8, 7), (4, 3)],
    "iota": [0, 1],
    "constant": [1.0, 2.0, 3.0],
}
"""Ops with an attribute, and its possible values."""


class Node(NamedTuple):
    """An op: the function that records it, the indices of its operands, and its attribute."""

    kind: str
    operands: tuple[int, ...]
    attribute: object = None


def random_nodes(seed: int, size: int) -> list[Node]:
    """Return a graph of ops on arrays of one shape; some ops have no user."""
    r = random.Random(seed)
    nodes = [Node("parameter", (), number) for number in range(2)]
    while len(nodes) < size:
        # Recent nodes are more likely operands, so that graphs become deep.
        operands = tuple(max(len(nodes) - 1 - int(r.expovariate(0.2)), 0) for _ in range(2))
        kind = r.choice([*UNARY, *UNARY, *BINARY, *BINARY, *BINARY, *ATTRIBUTES])
        if kind in ("iota", "constant"):
            nodes.append(Node(kind, (), r.choice(ATTRIBUTES[kind])))
        elif kind in ATTRIBUTES:
            nodes.append(Node(kind, operands[:1], r.choice(ATTRIBUTES[kind])))
        else:
            nodes.append(Node(kind, operands[: 1 if kind in UNARY else 2]))
    return nodes


def record(
    nodes: Sequence[Node],
    order: Sequence[int] | None = None,
    root: int | None = None,
    shape: xb.ArrayShape = SHAPE,
) -> tuple[xb.XlaComputation, list[int]]:
    """Record nodes, in the given order; return the computation and the ids of the nodes' ops."""
    b = xb.XlaBuilder("graph")
    ops: dict[int, xb.XlaOp] = {}
    for index in range(len(nodes)) if order is None else order:
        node = nodes[index]
        operands = [ops[i] for i in node.operands]
        if node.kind == "parameter":
            assert isinstance(node.attribute, int)
            ops[index] = b.parameter(shape, number=node.attribute)
        elif node.kind == "iota":
            assert isinstance(node.attribute, int)
            ops[index] = b.iota(shape, node.attribute)
        elif node.kind == "constant":
            assert isinstance(node.attribute, float)
            ops[index] = b.constant(np.full((4, 4), node.attribute, shape.element_type.dtype))
        elif node.kind == "reduce_precision":
            assert isinstance(node.attribute, tuple)
            ops[index] = xb.reduce_precision(operands[0], *node.attribute)
        elif node.kind == "rev":
            assert isinstance(node.attribute, tuple)
            ops[index] = xb.rev(operands[0], node.attribute)
        else:
            ops[index] = getattr(xb, node.kind)(*operands)
    last = len(nodes) - 1 if root is None else root
    return b.build(ops[last]), [ops[i].id for i in range(len(nodes))]


def another_order(nodes: Sequence[Node], seed: int) -> list[int]:
    """Return a random order in which operands come before their users."""
    r = random.Random(seed)
    waiting = [len(set(node.operands)) for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for operand in set(node.operands):
            users[operand].append(index)
    ready = [i for i, count in enumerate(waiting) if not count]
    order = []
    while ready:
        order.append(ready.pop(r.randrange(len(ready))))
        for user in users[order[-1]]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return order
