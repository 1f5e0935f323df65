"""Place the nodes of a graph in layers, from operands to users.

A layered layout in three steps: layers by longest paths, an order in each layer by barycenters,
then coordinates. Each level of a picture has few nodes, so simple methods suffice. A library such
as Graphviz would replace this module; its packages for Python require the program `dot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

_GAP_X: Final = 22.0
_GAP_Y: Final = 44.0
_SWEEPS: Final = 6
_MAX_BENDS: Final = 60


class Size(NamedTuple):
    """The size of a node."""

    width: float
    height: float


class Layout(NamedTuple):
    """The places of nodes.

    Attributes:
        corners: the left top corner of each node.
        routes: for each edge the points that its line passes.
        width, height: the size of the picture.
    """

    corners: list[tuple[float, float]]
    routes: dict[tuple[int, int], list[tuple[float, float]]]
    width: float
    height: float


def layout_of(
    sizes: Sequence[Size], edges: Iterable[tuple[int, int]], late: AbstractSet[int]
) -> Layout:
    """Return the places of nodes.

    Args:
        sizes: the sizes of the nodes.
        edges: pairs of different nodes. In a cycle, some edges are drawn upward.
        late: nodes without operands that are placed just above their users.
    """
    edges = list(edges)
    rank = _ranks(len(sizes), edges)
    downward = {edge: edge if rank[edge[0]] < rank[edge[1]] else edge[::-1] for edge in edges}
    pairs = sorted({*downward.values()}, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    layers = _layers(len(sizes), pairs, late)
    heights = [0.0] * (max(layers, default=0) + 1)
    for size, layer in zip(sizes, layers, strict=True):
        heights[layer] = max(heights[layer], size.height)

    # An edge over several layers passes between their nodes at points that are nodes too.
    widths = [size.width for size in sizes]
    places = list(layers)
    chains: dict[tuple[int, int], list[int]] = {}
    links: list[tuple[int, int]] = []
    for begin, end in pairs:
        chain = [begin]
        if layers[end] - layers[begin] <= _MAX_BENDS:
            for layer in range(layers[begin] + 1, layers[end]):
                chain.append(len(widths))
                widths.append(4.0)
                places.append(layer)
        chain.append(end)
        chains[begin, end] = chain
        links += pairwise(chain)

    ordered: list[list[int]] = [[] for _ in heights]
    for node, layer in enumerate(places):
        ordered[layer].append(node)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for begin, end in links:
        above[end].append(begin)
        below[begin].append(end)
    _order(ordered, above, below)
    centres = _centres(ordered, widths, above, below)

    tops = []
    y = 0.0
    for height in heights:
        tops.append(y)
        y += height + _GAP_Y
    corners = [
        (centres[node] - size.width / 2, tops[layers[node]]) for node, size in enumerate(sizes)
    ]
    routes = {}
    for pair, chain in chains.items():
        begin, end = pair
        bottom = tops[layers[begin]] + sizes[begin].height
        end_of_layer = tops[layers[begin]] + heights[layers[begin]]
        points = [(centres[begin], bottom)]
        if end_of_layer - bottom > _GAP_Y:  # straight down beside a high node
            points.append((centres[begin], end_of_layer))
        for node in chain[1:-1]:
            top = tops[places[node]]
            points += [(centres[node], top), (centres[node], top + heights[places[node]])]
        routes[pair] = [*points, (centres[end], tops[layers[end]])]
    right = max((x + size.width for (x, _), size in zip(corners, sizes, strict=True)), default=0)
    bends = max((centres[node] + 2 for node in range(len(sizes), len(widths))), default=0)
    drawn = {edge: routes[p] if p == edge else routes[p][::-1] for edge, p in downward.items()}
    return Layout(corners, drawn, max(right, bends), max(y - _GAP_Y, 0.0))


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return a place for each node, after those of its operands unless there is a cycle."""
    users: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for begin, end in edges:
        users[begin].append(end)
        missing[end] += 1
    ready = [node for node in range(count) if not missing[node]]
    ranks = [-1] * count
    placed = 0
    first = 0  # no node before it is without a rank
    while placed < count:
        if ready:
            node = heappop(ready)
        else:  # a cycle: the first of its nodes comes before its operands
            while ranks[first] >= 0:
                first += 1
            node = first
        if ranks[node] >= 0:
            continue
        ranks[node] = placed
        placed += 1
        for user in users[node]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    return ranks


def _layers(count: int, pairs: Sequence[tuple[int, int]], late: AbstractSet[int]) -> list[int]:
    layers = [0] * count
    for begin, end in pairs:  # by the rank of `begin`, whose layer is final
        layers[end] = max(layers[end], layers[begin] + 1)
    for node in late:
        users = [layers[end] for begin, end in pairs if begin == node]
        layers[node] = max(min(users, default=1) - 1, 0)
    return layers


def _order(
    ordered: Sequence[list[int]], above: Sequence[list[int]], below: Sequence[list[int]]
) -> None:
    """Sort each layer so that nodes are near their neighbours in the layer before."""
    position: dict[int, float] = {}
    for layer in ordered:
        position.update({node: number for number, node in enumerate(layer)})
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for layer in reversed(ordered) if sweep % 2 else ordered:
            target = {node: _mean(neighbours[node], position) for node in layer}
            layer.sort(key=target.__getitem__)
            # Relative to the width of the layer, which differs between layers.
            position.update({node: (n + 0.5) / len(layer) for n, node in enumerate(layer)})


def _mean(nodes: Sequence[int], position: dict[int, float]) -> float:
    return sum(map(position.__getitem__, nodes)) / len(nodes) if nodes else 0.0


def _centres(
    ordered: Sequence[Sequence[int]],
    widths: Sequence[float],
    above: Sequence[list[int]],
    below: Sequence[list[int]],
) -> list[float]:
    """Return the horizontal centre of each node, near the mean of its neighbours."""
    centres = [0.0] * len(widths)
    for layer in ordered:
        x = 0.0
        for node in layer:
            centres[node] = x + widths[node] / 2
            x += widths[node] + _GAP_X
    for sweep in range(2 * _SWEEPS):
        for layer in reversed(ordered) if sweep % 2 else ordered:
            wanted = []
            for node in layer:
                near = (below if sweep % 2 else above)[node] or above[node] or below[node]
                mean = sum(centres[other] for other in near) / len(near) if near else centres[node]
                wanted.append(mean)
            for node, centre in zip(layer, _separated(layer, widths, wanted), strict=True):
                centres[node] = centre
    left = min((centre - widths[node] / 2 for node, centre in enumerate(centres)), default=0.0)
    return [centre - left for centre in centres]


def _separated(
    layer: Sequence[int], widths: Sequence[float], wanted: Sequence[float]
) -> list[float]:
    """Return centres near the wanted ones, in their order and without overlaps.

    The mean of two solutions without overlaps, pushed to the right and to the left, has none.
    """
    right = list(wanted)
    for i in range(1, len(layer)):
        room = (widths[layer[i - 1]] + widths[layer[i]]) / 2 + _GAP_X
        right[i] = max(right[i], right[i - 1] + room)
    left = list(wanted)
    for i in range(len(layer) - 2, -1, -1):
        room = (widths[layer[i]] + widths[layer[i + 1]]) / 2 + _GAP_X
        left[i] = min(left[i], left[i + 1] - room)
    return [(a + b) / 2 for a, b in zip(right, left, strict=True)]
