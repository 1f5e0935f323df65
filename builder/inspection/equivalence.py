"""Compare computations, ignoring the tuples that group values.

StableHLO has no tuples, and its branches use enclosing values directly. An imported computation
therefore groups values into different tuples than the original: the state of a loop, for instance,
becomes a flat tuple of arrays. Computations that differ only in such tuples compute the same
values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain, count, islice, zip_longest
from typing import Any, Final

from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp
from builder.inspection.fingerprints import value_key
from builder.types.shape import Shape, TupleShape, leaf_count, leaves

_Leaves = tuple[int, ...]
"""A number for each array in a value. Arrays with equal numbers are equal."""

_Application = tuple[XlaComputation, XlaComputation, _Leaves | None, _Leaves | None]
"""Two computations, and the numbers of the arrays that each is applied to.

The numbers are None if the arrays don't matter: both computations get the same ones then.
"""


def are_equivalent(before: XlaComputation, after: XlaComputation) -> bool:
    """Return whether two computations apply the same ops in the same order, ignoring tuples.

    The function is iterative, because computations may be nested deeper than Python's recursion
    limit.
    """
    if len(before.parameters) != len(after.parameters):
        return False
    if not all(map(_are_alike, before.parameters, after.parameters)):
        return False
    numbers = count()
    pending: list[_Application] = [(before, after, None, None)]
    compared: set[_Application] = set()
    while pending:
        application = pending.pop()
        if application in compared:
            continue
        compared.add(application)
        first, second, first_arguments, second_arguments = application
        if first_arguments is None or second_arguments is None:
            sizes = [sum(leaf_count(p.shape) for p in c.parameters) for c in (first, second)]
            if sizes[0] != sizes[1]:
                return False
            first_arguments = second_arguments = tuple(islice(numbers, sizes[0]))
        sides = _Values(first, first_arguments), _Values(second, second_arguments)
        for op, other in zip_longest(sides[0].ops(), sides[1].ops()):
            if op is None or other is None or not _are_alike(op, other):
                return False
            operands, other_operands = sides[0].operands(op), sides[1].operands(other)
            inner = called_in(op.attributes), called_in(other.attributes)
            if op.opcode == "conditional":
                # A branch is compared with the values that it is applied to.
                if operands[0] != other_operands[0]:
                    return False
                pending += zip(*inner, operands[1:], other_operands[1:], strict=True)
            else:
                if [*chain(*operands)] != [*chain(*other_operands)]:
                    return False
                pending += [(*pair, None, None) for pair in zip(*inner, strict=True)]
            results = tuple(islice(numbers, leaf_count(op.shape)))
            sides[0].results[op.id] = sides[1].results[other.id] = results
        if sides[0].results[first.root.id] != sides[1].results[second.root.id]:
            return False
    return True


class _Values:
    """The arrays in the value of each visited op of a computation.

    Args:
        computation: the computation.
        arguments: the arrays in the parameters of the computation.

    Attributes:
        results: the arrays in the value of each visited op, by the op's `id`.
    """

    def __init__(self, computation: XlaComputation, arguments: _Leaves) -> None:
        self.computation = computation
        self.results: dict[int, _Leaves] = {}
        self._offsets: dict[Shape, list[int]] = {}
        position = 0
        for parameter in computation.parameters:
            end = position + leaf_count(parameter.shape)
            self.results[parameter.id] = arguments[position:end]
            position = end

    def operands(self, op: XlaOp) -> list[_Leaves]:
        return [self.results[operand.id] for operand in op.operands]

    def ops(self) -> Iterator[XlaOp]:
        """Yield the ops, except parameters and tuples. The caller sets `results` of each op."""
        for op in self.computation.ops:
            if op.opcode in _TUPLES and op.sharding is None:
                self.results[op.id] = self._regrouped(op)
            elif op.opcode != "parameter":
                yield op

    def _regrouped(self, op: XlaOp) -> _Leaves:
        operands = self.operands(op)
        if op.opcode == "tuple":
            return operands[0] if len(operands) == 1 else tuple(chain(*operands))
        shape = op.operands[0].shape
        assert isinstance(shape, TupleShape)  # as inferred
        offsets = self._offsets.get(shape)
        if offsets is None:
            offsets = self._offsets[shape] = [0, *accumulate(map(leaf_count, shape.elements))]
        index = op.attributes["index"]
        return operands[0][offsets[index] : offsets[index + 1]]


_TUPLES: Final = ("tuple", "get_tuple_element")


def _are_alike(op: XlaOp, other: XlaOp) -> bool:
    """Return whether two ops have equal properties, except operands and applied computations."""
    return (
        op.opcode == other.opcode
        and [*leaves(op.shape)] == [*leaves(other.shape)]
        and len(called_in(op.attributes)) == len(called_in(other.attributes))
        and _properties(op) == _properties(other)
    )


def _properties(op: XlaOp) -> Any:
    attributes = [
        (name, value_key(value))
        for name, value in sorted(op.attributes.items())
        if not called_in({name: value})
    ]
    return attributes, str(op.sharding), value_key(dict(op.frontend_attributes or {}))
