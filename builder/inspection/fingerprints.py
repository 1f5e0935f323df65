"""Numbers for what ops say, and for what stands before and after them.

Two ops have the same number exactly if they are the same: numbers are given out by tables of what
was seen, so that nothing depends on a hash having no collisions. All is done in the order of
recording or against it, each op once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.literal_text import splat_value

__all__ = ["Fingerprints", "contexts", "value_key"]

_SHORT: Final = 4096


class Fingerprints:
    """Gives out numbers, the same to what is the same in any of several computations.

    Args:
        metadata: whether names and source lines count.
    """

    def __init__(self, *, metadata: bool = False) -> None:
        self.metadata = metadata
        self._numbers: dict[Hashable, int] = {}
        self._attributes: dict[int, tuple[Mapping[str, Any], int]] = {}
        self._computations: dict[XlaComputation, int] = {}

    def number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def labels(self, computation: XlaComputation) -> list[int]:
        """Of each op a number for all that it says besides its operands."""
        self._number_called(computation)
        numbers, attributes = self._numbers, self._attributes
        found: list[int] = []
        for op in computation.ops:
            said = attributes.get(id(op.attributes))
            if said is None:
                said = self._attributes_number(op.attributes)
            key: tuple[Hashable, ...] = (op.opcode, op.shape, said[1])
            if op.metadata is not None or self.metadata:
                key += self._metadata(op)
            found.append(numbers.setdefault(key, len(numbers)))
        return found

    def _metadata(self, op: XlaOp) -> tuple[Hashable, ...]:
        attached = op.metadata
        key: tuple[Hashable, ...] = ()
        if attached is not None and (attached.sharding is not None or attached.frontend_attributes):
            key = str(attached.sharding), value_key(dict(attached.frontend_attributes or {}))
        if self.metadata:
            source = op.source
            key += op.name, None if source is None else (source.file, source.line)
        return key

    def _attributes_number(self, attributes: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
        key = tuple([(name, self.key(value)) for name, value in sorted(attributes.items())])
        # The mapping is kept: ids of what has gone are given out again.
        found = self._attributes[id(attributes)] = attributes, self.number(key)
        return found

    def key(self, value: Any) -> Hashable:
        """What is the same for attributes that say the same."""
        if isinstance(value, XlaComputation):
            return "computation", self._computations[value]
        if isinstance(value, tuple) and any(isinstance(v, XlaComputation) for v in value):
            return tuple([self.key(one) for one in value])
        return value_key(value)

    def _number_called(self, computation: XlaComputation) -> None:
        """Numbers for the computations that are applied, callees before callers."""
        # In a chain of computations each would else be asked for all below it.
        if all(
            one in self._computations
            for application in computation.applications()
            for one in application.computations
        ):
            return
        for one in computation.called_computations():
            if one not in self._computations:
                self._computations[one] = self.number(self._structure(one))

    def _structure(self, computation: XlaComputation) -> Hashable:
        """All of a computation, whatever the order of recording."""
        labels = self.labels(computation)
        up, down = contexts(computation, labels, self)
        return ("structure", *sorted(zip(up, down, strict=True)))

    def computation(self, computation: XlaComputation) -> int:
        """The number of an applied computation that was met."""
        return self._computations[computation]


def contexts(
    computation: XlaComputation, labels: Sequence[int], fingerprints: Fingerprints
) -> tuple[list[int], list[int]]:
    """Of each op a number for what it is made of, and one for what is made of it.

    The first says what the op says, and the first of its operands: all that its value depends on.
    The second says who uses it, at which place, and the second of those: all that its value goes
    into, but not what the op is itself.
    """
    numbers = fingerprints._numbers
    up: list[int] = []
    for op, label in zip(computation.ops, labels, strict=True):
        operands = tuple([up[operand.id] for operand in op.operands])
        key: Hashable = ("up", label, operands)
        up.append(numbers.setdefault(key, len(numbers)))
    uses: list[list[int]] = [[] for _ in labels]
    down = [0] * len(labels)
    root = computation.root.id
    for number in range(len(labels) - 1, -1, -1):
        used = tuple(sorted(uses[number]))
        key = ("down", number == root, used)
        mine = down[number] = numbers.setdefault(key, len(numbers))
        operands_ = computation.ops[number].operands
        label = labels[number]
        for place, operand in enumerate(operands_):
            key = ("use", label, mine, place)
            uses[operand.id].append(numbers.setdefault(key, len(numbers)))
    return up, down


def value_key(value: Any) -> Hashable:
    """What is the same for attributes that say the same, bit by bit."""
    if isinstance(value, np.ndarray):
        one = splat_value(value)
        data = np.ascontiguousarray(value if one is None else one).reshape(-1).view(np.uint8)
        # Of large ones not the bytes, but 32 that nobody has found the same for other bytes.
        bits = (
            data.tobytes() if data.size <= _SHORT else blake2b(data.data, digest_size=32).digest()
        )
        return "array", value.dtype.name, value.shape, one is None, bits
    if isinstance(value, float):
        return "float", np.float64(value).tobytes()
    if isinstance(value, Mapping):
        return tuple([(str(name), value_key(one)) for name, one in value.items()])
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple([value_key(one) for one in value])
    try:
        hash(value)
    except TypeError:
        return type(value).__qualname__, repr(value)
    # True and 1 are equal, and not the same.
    return type(value).__qualname__, value
