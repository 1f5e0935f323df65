"""Value numbers of ops and computations, for comparing graphs.

Ops are described by hashable keys. A number is the index of a key in a table, so equal numbers mean
equal keys, and a collision of hashes is harmless. Each traversal of a computation visits every op
once, in recording order or in the reverse order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.literal_text import splat_value

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
