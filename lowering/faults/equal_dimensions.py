"""Which dimensions of the arrays in a computation must have equal sizes.

If one of them gets another size, the others do too. The computations that ops apply are included:
a computation that is applied several times has the same sizes each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from builder.graph.computation import XlaComputation
from builder.graph.registry import registrar
from builder.graph.xla_op import XlaOp, is_element
from builder.ops.reshaping import equal_products
from builder.schema import SCHEMAS
from builder.schema.equal_sizes import Argument, Pairs, Size, Sizes, UnknownSize, join
from builder.types.shape import ArrayShape, Shape, leaf_count, leaves

Dimensions = tuple[UnknownSize, ...]
"""An object for each dimension of an array. Equal sizes have the same `root`."""


class EqualDimensions:
    """The dimensions of all arrays in a computation; equal ones are joined.

    Attributes:
        of: the dimensions of the arrays in the value of each op.
        sizes: the size of each root, in the order of the ops.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[4, 8], xb.f32[8, 2])
        ... def model(x, w):
        ...     return xb.tanh(x @ w)
        >>> list(EqualDimensions(model).sizes.values())
        [4, 8, 2]
    """

    def __init__(self, computation: XlaComputation) -> None:
        self.of: dict[XlaOp, list[Dimensions]] = {}
        self._sizes: dict[UnknownSize, int] = {}
        every = (computation, *computation.called_computations())
        for part in every:
            for op in part.ops:
                self.of[op] = self._dimensions(op)
        for part in every:
            for op in part.ops:
                kept = _EQUAL_NOW.get(op.opcode)
                for one, other in (*self._required(op), *(kept(op, self.of) if kept else ())):
                    self._join(one, other)
        self.sizes = {node.root: size for node, size in self._sizes.items()}

    def _dimensions(self, op: XlaOp) -> list[Dimensions]:
        """Return the dimensions of the arrays in an op's value, whose operands have theirs."""
        if op.opcode in ("tuple", "optimization_barrier"):
            return [array for operand in op.operands for array in self.of[operand]]
        if is_element(op):
            index, (operand,) = op.attributes["index"], op.operands
            elements = operand.shape.elements  # type: ignore[union-attr]  # a tuple
            first = sum(map(leaf_count, elements[:index]))
            return self.of[operand][first : first + leaf_count(op.shape)]
        found = [tuple([UnknownSize() for _ in sizes]) for sizes in _sizes(op.shape)]
        for nodes, sizes in zip(found, _sizes(op.shape), strict=True):
            self._sizes.update(zip(nodes, sizes, strict=True))
        return found

    def _required(self, op: XlaOp) -> Pairs:
        """Yield what the definition of an op requires to be equal."""
        return SCHEMAS[op.opcode].equal_sizes(_SizedOp(op, self.of))

    def _join(self, one: Size | None, other: Size | None) -> None:
        # Sizes that differ are not required to be equal: one of them is broadcast.
        if not isinstance(one, UnknownSize) or not isinstance(other, UnknownSize):
            return
        if self._sizes[one.root] == self._sizes[other.root]:
            join(one, other)


def _sizes(shape: Shape) -> list[tuple[int, ...]]:
    return [leaf.dimensions if isinstance(leaf, ArrayShape) else () for leaf in leaves(shape)]


class _SizedOp:
    """What `Schema.equal_sizes` is called with; see `SizedOp`."""

    def __init__(self, op: XlaOp, of: Mapping[XlaOp, Sequence[Sizes]]) -> None:
        self._op = op
        self._of = of
        self.attributes = op.attributes
        self.operands = [array for operand in op.operands for array in of[operand]]
        self.results = of[op]

    def runtime_sizes(self) -> Sequence[Size | None]:
        return [None] * sum(map(len, self.results))

    def arguments(self, first: int, last: int | None = None) -> Sequence[Argument]:
        arrays = [array for operand in self._op.operands[first:last] for array in self._of[operand]]
        return [(None, *array) for array in arrays]

    def applied(
        self, computation: XlaComputation, arguments: Sequence[Argument], results: Sequence[Sizes]
    ) -> Pairs:
        parameters = [array for p in computation.parameters for array in self._of[p]]
        for argument, parameter in zip(arguments, parameters, strict=True):
            yield from zip(argument[1:], parameter, strict=True)
        # A loop lists no result for its condition.
        for one, other in zip(results, self._of[computation.root], strict=True):
            yield from zip(one, other, strict=True)


_Of = Mapping[XlaOp, Sequence[Dimensions]]
_EQUAL_NOW: Final[dict[str, Callable[[XlaOp, _Of], Iterator[tuple[Any, Any]]]]] = {}
"""Functions that yield the dimensions that an op keeps, but need not keep in other programs.

`Schema.equal_sizes` has only what holds for all sizes.
"""

_equal_now = registrar(_EQUAL_NOW)


@_equal_now("broadcast_in_dim")
def _equal_in_broadcast(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    places = op.attributes["broadcast_dimensions"]
    yield from zip(of[op.operands[0]][0], [of[op][0][d] for d in places], strict=True)


@_equal_now("reshape")
def _equal_in_reshape(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    for old, new in parts_of_reshape(op):
        if len(old) == len(new) == 1:
            yield of[op.operands[0]][0][old[0]], of[op][0][new[0]]


@_equal_now("slice", "dynamic_slice")
def _equal_in_slice(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    yield from zip(of[op.operands[0]][0], of[op][0], strict=True)


@_equal_now("dynamic_update_slice")
def _equal_in_update(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    yield from zip(of[op.operands[0]][0], of[op.operands[1]][0], strict=True)


@_equal_now("gather")
def _equal_in_gather(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    numbers = op.attributes["dimension_numbers"]
    for d, place in zip(window_dimensions(op), numbers.offset_dims, strict=True):
        yield of[op.operands[0]][0][d], of[op][0][place]


@_equal_now("scatter")
def _equal_in_scatter(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    places = op.attributes["dimension_numbers"].update_window_dims
    for d, place in zip(window_dimensions(op), places, strict=True):
        yield of[op.operands[0]][0][d], of[op.operands[-1]][0][place]


@_equal_now("ragged_dot")
def _equal_in_ragged_dot(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    _, rhs, groups = [of[operand][0] for operand in op.operands]
    for d in op.attributes["dimension_numbers"].rhs_group_dimensions:
        yield rhs[d], groups[-1]


@_equal_now("scan")
def _equal_in_scan(op: XlaOp, of: _Of) -> Iterator[tuple[Any, Any]]:
    """Yield the dimensions of a scan that are equal to those of its computation."""
    along, carried = op.attributes["scan_dimension"], op.attributes["num_carries"]
    computation = op.attributes["to_apply"]
    inputs = len(op.operands) - carried
    results = of[op]
    outputs = len(results) - carried
    scanned = [*(of[each][0] for each in op.operands[:inputs]), *results[:outputs]]
    for array in scanned[1:]:
        yield scanned[0][along], array[along]
    outer = [*(of[each][0] for each in op.operands), *results]
    inner = [*(of[p][0] for p in computation.parameters), *of[computation.root]]
    for array, part in zip(outer, inner, strict=True):
        rest = array if len(array) == len(part) else [*array[:along], *array[along + 1 :]]
        yield from zip(rest, part, strict=True)


def parts_of_reshape(op: XlaOp) -> list[tuple[range, range]]:
    """Return which dimensions of the operand become which of the result, as parts."""
    (operand,) = op.operands
    assert isinstance(operand.shape, ArrayShape)
    assert isinstance(op.shape, ArrayShape)
    cuts = equal_products(operand.shape.dimensions, op.shape.dimensions)
    return [
        (range(old, next_old), range(new, next_new))
        for (old, new), (next_old, next_new) in pairwise(cuts)
    ]


def window_dimensions(op: XlaOp) -> list[int]:
    """Return the dimensions of the operand that the windows of a gather or scatter have."""
    numbers = op.attributes["dimension_numbers"]
    if op.opcode == "gather":
        omitted = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    else:
        omitted = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    assert isinstance(op.operands[0].shape, ArrayShape)
    return [d for d in range(op.operands[0].shape.rank) if d not in omitted]
