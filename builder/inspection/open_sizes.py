"""Which unbounded sizes of a computation are equal.

Each op requires that some sizes are equal: `Schema.equal_sizes` in its definition. Joined over all
ops, this determines the parameters' dimensions that must have equal sizes in a call. Sizes that ops
read at run time (`get_dimension_size`) are followed to the reshapes and broadcasts that have them
as operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, constant_value, is_element
from builder.ops.host import is_size_check
from builder.schema import SCHEMAS
from builder.schema.equal_sizes import Argument, Pairs, Size, Sizes, UnknownSize, join
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    Shape,
    has_unbounded_sizes,
    leaf_count,
    leaves,
)


@dataclass(frozen=True, slots=True)
class OpenSize:
    """Dimensions of unbounded size that have the same size in each call.

    Attributes:
        parameters: the dimensions of parameters, as pairs: the parameter's name, with the indices
            of a tuple's element, such as ``"batch[0]"``, and the number of the dimension.
        results: the dimensions of the result, as pairs: "result" with such indices, and the number.
        size: the size that the program requires; None for any.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32["?", 3], xb.f32["?"])
        ... def model(x, weights):
        ...     return xb.reduce(x, 0.0, xb.add, [1]) * weights
        >>> model.open_sizes()
        (<OpenSize dimension 0 of x = dimension 0 of weights = dimension 0 of result>,)
    """

    parameters: tuple[tuple[str, int], ...]
    results: tuple[tuple[str, int], ...] = ()
    size: int | None = None

    def __str__(self) -> str:
        places = [f"dimension {d} of {name}" for name, d in (*self.parameters, *self.results)]
        return " = ".join([*places, *([] if self.size is None else [str(self.size)])])

    def __repr__(self) -> str:
        return f"<OpenSize {self}>"


def open_sizes_of(computation: XlaComputation) -> tuple[OpenSize, ...]:
    """Return the groups of equal unbounded sizes; see `XlaComputation.open_sizes`."""
    known = joined_sizes(computation)
    parameters: dict[UnknownSize, list[tuple[str, int]]] = {}
    for parameter in computation.parameters:
        for size, place in _places(known, parameter, parameter.name or ""):
            parameters.setdefault(size, []).append(place)
    results: dict[UnknownSize, list[tuple[str, int]]] = {}
    for size, place in _places(known, computation.root, "result"):
        results.setdefault(size, []).append(place)
    return tuple(
        OpenSize(tuple(places), tuple(results.get(size, ())), size.size)
        for size, places in parameters.items()
    )


def _places(
    known: Mapping[XlaOp, Sequence[Sizes]], op: XlaOp, name: str
) -> Iterator[tuple[UnknownSize, tuple[str, int]]]:
    """Yield the unbounded sizes of an op's value, with the place of each."""
    for index, sizes in zip(leaf_indices(op.shape), known.get(op, ()), strict=False):
        path = "".join(f"[{number}]" for number in index)
        for dimension, size in enumerate(sizes):
            if isinstance(size, UnknownSize):
                yield size.root, (f"{name}{path}", dimension)


def joined_sizes(computation: XlaComputation) -> dict[XlaOp, list[Sizes]]:
    """Return the sizes of the arrays in each op of a computation; equal ones are joined."""
    inner: dict[XlaComputation, _Inner] = {}
    for each in computation.called_computations():
        JoinedSizes(inner).join(each)
    return JoinedSizes(inner).join(computation)


@dataclass(frozen=True, slots=True)
class _Inner:
    """The equal sizes of a computation that ops apply.

    Attributes:
        groups: equal sizes: for each dimension whether it is one of a parameter, the number of the
            array, and the dimension; `_VALUE` for a parameter that is a size itself.
        fixed: sizes that must be a number.
    """

    groups: list[list[tuple[bool, int, int]]]
    fixed: list[tuple[tuple[bool, int, int], int]]


_VALUE: Final = -1
"""In place of a dimension: the value of a parameter that is a size."""


class JoinedSizes:
    """The sizes of the ops of one computation; equal ones are joined.

    Attributes:
        sizes: the sizes of the arrays in the value of each op that has unbounded sizes, or has an
            operand with some.
        inner: the equal sizes of the computations that the ops apply.
    """

    def __init__(self, inner: dict[XlaComputation, _Inner] | None = None) -> None:
        self.inner: Final = {} if inner is None else inner
        self.sizes: Final[dict[XlaOp, list[Sizes]]] = {}
        self._values: Final[dict[XlaOp, Sequence[Size | None]]] = {}
        """The elements of scalars and vectors of sizes; None for a number that is not a size."""

    def join(self, computation: XlaComputation) -> dict[XlaOp, list[Sizes]]:
        """Join the sizes of a computation, whose inner computations are known."""
        scalars = [p for p in computation.parameters if may_be_size(p.shape)]
        self._values.update((parameter, [UnknownSize()]) for parameter in scalars)
        self._join_ops(computation.ops)
        found: dict[UnknownSize, list[tuple[bool, int, int]]] = {}
        parameters = [array for p in computation.parameters for array in self.arguments_in(p)]
        for is_parameter, arrays in ((True, parameters), (False, self.sizes_in(computation.root))):
            for number, array in enumerate(arrays):
                for dimension, size in enumerate(array, _VALUE if is_parameter else 0):
                    if isinstance(size, UnknownSize):
                        place = is_parameter, number, dimension
                        found.setdefault(size.root, []).append(place)
        fixed = [(places[0], root.size) for root, places in found.items() if root.size is not None]
        self.inner[computation] = _Inner(list(found.values()), fixed)
        return self.sizes

    def extend(self, ops: Sequence[XlaOp]) -> None:
        """Join the sizes of more ops, which are in the order of recording."""
        for op in ops:
            for applied in op.called_computations:
                for each in (*applied.called_computations(), applied):
                    if each not in self.inner:
                        JoinedSizes(self.inner).join(each)
        self._join_ops(ops)

    def _join_ops(self, ops: Iterable[XlaOp]) -> None:
        for op in ops:
            is_open = has_unbounded_sizes(op.shape)
            if is_open or any(operand in self.sizes for operand in op.operands):
                self._join_op(op)
            elif any(operand in self._values for operand in op.operands):
                self._follow_size(op)

    def _join_op(self, op: XlaOp) -> None:
        """Find the sizes in an op's value, and join what the op makes equal."""
        if op.opcode == "get_dimension_size":
            self._values[op] = [self.sizes_in(op.operands[0])[0][op.attributes["dimension"]]]
            return
        operands = [array for operand in op.operands for array in self.sizes_in(operand)]
        if op.opcode in ("tuple", "optimization_barrier"):
            self.sizes[op] = operands
            return
        if is_element(op):
            elements = op.operands[0].shape.elements  # type: ignore[union-attr]  # a tuple
            first = sum(map(leaf_count, elements[: op.attributes["index"]]))
            self.sizes[op] = operands[first : first + leaf_count(op.shape)]
            return
        results = _sizes(op.shape)
        if any(isinstance(size, UnknownSize) for array in results for size in array):
            self.sizes[op] = results
        sized = _SizedOp(self, op, operands, results)
        for one, other in SCHEMAS[op.opcode].equal_sizes(sized):
            if one is not None and other is not None:
                join(one, other)

    def _follow_size(self, op: XlaOp) -> None:
        """Follow an op that computes a size, or a vector of sizes, from sizes."""
        match op.opcode:
            case "convert" | "reshape":
                self._values[op] = self._values[op.operands[0]]
            case "concatenate":
                self._values[op] = list(chain.from_iterable(map(self.elements_of, op.operands)))
            case "slice":
                names = "start_indices", "limit_indices", "strides"
                (places,) = zip(*[op.attributes[name] for name in names], strict=True)
                self._values[op] = self._values[op.operands[0]][slice(*places)]
        if is_size_check(op):
            condition = op.operands[0]
            if condition.attributes.get("comparison_direction") == "EQ":
                (one,), (other,) = map(self.elements_of, condition.operands)
                if one is not None and other is not None:
                    join(one, other)

    def sizes_in(self, op: XlaOp) -> list[Sizes]:
        """Return the sizes of the arrays in an op's value."""
        known = self.sizes.get(op)
        return _sizes(op.shape) if known is None else known

    def arguments_in(self, op: XlaOp) -> list[Argument]:
        """Return the arrays in an op's value as arguments of a computation."""
        value = self.elements_of(op)[0] if may_be_size(op.shape) else None
        return [(value, *sizes) for sizes in self.sizes_in(op)]

    def elements_of(self, op: XlaOp) -> Sequence[Size | None]:
        """Return the elements of a scalar or vector as sizes."""
        known = self._values.get(op)
        if known is not None:
            return known
        constant = constant_value(op)
        if constant is not None:
            return [int(element) for element in constant.reshape(-1)]
        return [None] * (op.shape.element_count if isinstance(op.shape, ArrayShape) else 1)


class _SizedOp:
    """What `Schema.equal_sizes` is called with; see `SizedOp`."""

    __slots__ = ("_joining", "_op", "attributes", "operands", "results")

    def __init__(
        self, joining: JoinedSizes, op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]
    ) -> None:
        self._joining: Final = joining
        self._op: Final = op
        self.attributes: Final = op.attributes
        self.operands: Final = operands
        self.results: Final = results

    def runtime_sizes(self) -> Sequence[Size | None]:
        operands = self._op.operands[SCHEMAS[self._op.opcode].first_size :]
        return list(chain.from_iterable(map(self._joining.elements_of, operands)))

    def arguments(self, first: int, last: int | None = None) -> Sequence[Argument]:
        operands = self._op.operands[first:last]
        return list(chain.from_iterable(map(self._joining.arguments_in, operands)))

    def applied(
        self, computation: XlaComputation, arguments: Sequence[Argument], results: Sequence[Sizes]
    ) -> Pairs:
        inner = self._joining.inner[computation]

        def at(place: tuple[bool, int, int]) -> Size | None:
            is_parameter, number, dimension = place
            if is_parameter:
                return arguments[number][dimension - _VALUE]
            return results[number][dimension]

        for group in inner.groups:
            known = [size for place in group if (size := at(place)) is not None]
            for size in known[1:]:
                yield known[0], size
        for place, number in inner.fixed:
            yield at(place), number


def _sizes(shape: Shape) -> list[Sizes]:
    """Return the sizes of the arrays in a shape; each unbounded one is another `UnknownSize`."""
    return [
        tuple([UnknownSize() if size == UNBOUNDED else size for size in leaf.dimensions])
        if isinstance(leaf, ArrayShape)
        else ()
        for leaf in leaves(shape)
    ]


def may_be_size(shape: Shape) -> bool:
    """Return whether a value may be a size: an integer."""
    return isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.is_integral
