"""Value numbers of ops, and equality of computations up to the tuples that group values.

Ops are described by hashable keys. A number is the index of a key in a table, so equal numbers mean
equal keys, and a collision of hashes is harmless. Each traversal of a computation visits every op
once, in recording order or in the reverse order.

StableHLO has no tuples, and its branches use enclosing values directly. An imported computation
therefore groups values into different tuples than the original: the state of a loop, for instance,
becomes a flat tuple of arrays. Computations that differ only in such tuples compute the same
values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, count, islice, zip_longest
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp, is_parameter, is_tuple
from builder.types.constant import splat_value
from builder.types.shape import Shape, TupleShape, leaf_count, leaves

_MAX_UNHASHED_BYTES: Final = 4096


class Fingerprints:
    """Assigns numbers to the ops of several computations; equal ops get equal numbers.

    Args:
        metadata: whether ops with different names or source lines get different numbers.
    """

    def __init__(self, *, metadata: bool = False) -> None:
        self.metadata = metadata
        self._numbers: dict[Hashable, int] = {}
        self._attributes: dict[int, tuple[Mapping[str, Any], int]] = {}
        self._computations: dict[XlaComputation, int] = {}

    def number(self, key: Hashable) -> int:
        """Return the number of `key`; the first call with a key assigns the number."""
        return self._numbers.setdefault(key, len(self._numbers))

    def labels(self, computation: XlaComputation) -> list[int]:
        """Return the label of each op: a number for all its properties except its operands.

        Ops that differ only in their operands have equal labels.
        """
        self._number_called(computation)
        numbers, attributes = self._numbers, self._attributes
        labels: list[int] = []
        for op in computation.ops:
            entry = attributes.get(id(op.attributes))
            if entry is None:
                entry = self._attributes_entry(op.attributes)
            key: tuple[Hashable, ...] = (op.opcode, op.shape, entry[1])
            if op.metadata is not None or self.metadata:
                key += self._metadata(op)
            labels.append(numbers.setdefault(key, len(numbers)))
        return labels

    def _metadata(self, op: XlaOp) -> tuple[Hashable, ...]:
        attached = op.metadata
        key: tuple[Hashable, ...] = ()
        if attached is not None and (attached.sharding is not None or attached.frontend_attributes):
            key = str(attached.sharding), value_key(dict(attached.frontend_attributes or {}))
        if self.metadata:
            source = op.source
            key += op.name, op.op_type, None if source is None else (source.file, source.line)
        return key

    def _attributes_entry(self, attributes: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
        key = tuple([(name, self.key(value)) for name, value in sorted(attributes.items())])
        # The entry refers to the mapping, because the id of a freed object may be reused.
        entry = self._attributes[id(attributes)] = attributes, self.number(key)
        return entry

    def key(self, value: Any) -> Hashable:
        """Return a hashable key for the value of an attribute; equal values have equal keys."""
        if isinstance(value, XlaComputation):
            return "computation", self._computations[value]
        if isinstance(value, tuple) and any(isinstance(v, XlaComputation) for v in value):
            return tuple([self.key(element) for element in value])
        return value_key(value)

    def _number_called(self, computation: XlaComputation) -> None:
        """Assign numbers to the computations that `computation` applies, callees before callers."""
        # Avoids quadratic time in a chain of computations, whose callees are numbered already.
        if all(
            callee in self._computations
            for application in computation.applications()
            for callee in application.computations
        ):
            return
        for callee in computation.called_computations():
            if callee not in self._computations:
                self._computations[callee] = self.number(self._structure(callee))

    def _structure(self, computation: XlaComputation) -> Hashable:
        """Return a hashable key for a computation; ops may be recorded in any order."""
        values, uses = graph_numbers(computation, self.labels(computation), self)
        return ("structure", *sorted(zip(values, uses, strict=True)))

    def computation(self, computation: XlaComputation) -> int:
        """Return the number of a computation that is called by an op passed to `labels`."""
        return self._computations[computation]


def graph_numbers(
    computation: XlaComputation, labels: Sequence[int], fingerprints: Fingerprints
) -> tuple[list[int], list[int]]:
    """Return the value number and the use number of each op.

    Two ops have equal value numbers if their labels and the value numbers of their operands are
    equal: they compute the same value. Two ops have equal use numbers if they have the same users:
    users with equal labels and use numbers, at equal operand positions. The label of an op does not
    affect the use number of that op.
    """
    numbers = fingerprints._numbers
    values: list[int] = []
    for op, label in zip(computation.ops, labels, strict=True):
        operands = tuple([values[operand.id] for operand in op.operands])
        key: Hashable = ("value", label, operands)
        values.append(numbers.setdefault(key, len(numbers)))
    users: list[list[int]] = [[] for _ in labels]
    uses = [0] * len(labels)
    root = computation.root.id
    for op in reversed(computation.ops):
        key = ("uses", op.id == root, tuple(sorted(users[op.id])))
        use_number = uses[op.id] = numbers.setdefault(key, len(numbers))
        label = labels[op.id]
        for position, operand in enumerate(op.operands):
            key = ("user", label, use_number, position)
            users[operand.id].append(numbers.setdefault(key, len(numbers)))
    return values, uses


def value_key(value: Any) -> Hashable:
    """Return a hashable key for a value; values with equal types and bits have equal keys."""
    if isinstance(value, np.ndarray):
        splat = splat_value(value)
        array = np.ascontiguousarray(value if splat is None else splat).reshape(-1)
        data = array.view(np.uint8)
        is_large = data.size > _MAX_UNHASHED_BYTES
        bits = blake2b(data.data, digest_size=32).digest() if is_large else data.tobytes()
        return "array", value.dtype.name, value.shape, splat is None, bits
    if isinstance(value, float):
        return "float", np.float64(value).tobytes()
    if isinstance(value, Mapping):
        return tuple([(str(name), value_key(entry)) for name, entry in value.items()])
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple([value_key(element) for element in value])
    try:
        hash(value)
    except TypeError:
        return type(value).__qualname__, repr(value)
    # The type distinguishes True from 1.
    return type(value).__qualname__, value


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
            elif not is_parameter(op):
                yield op

    def _regrouped(self, op: XlaOp) -> _Leaves:
        operands = self.operands(op)
        if is_tuple(op):
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
