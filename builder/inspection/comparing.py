"""Comparing two computations, and the computations that they apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from builder.check import flag
from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp
from builder.inspection.attribute_text import constant_text, short, value_text
from builder.inspection.diff import ComputationDiff, Difference, OpChange
from builder.inspection.fingerprints import Fingerprints, value_key
from builder.inspection.matching import matched

__all__ = ["compared"]

_Pair = tuple[XlaComputation, XlaComputation]


def compared(
    computation: XlaComputation, other: XlaComputation, *, metadata: bool
) -> ComputationDiff:
    """What differs between two computations, and pair by pair between those that they apply."""
    if not isinstance(other, XlaComputation):
        raise OperandError(
            f"diff: other must be an XlaComputation, got {type(other).__name__}: "
            f"{brief(other, 80)}",
            op="diff",
        )
    fingerprints = Fingerprints(metadata=flag("diff", "metadata", metadata))
    # Each pair of computations once, with the pairs that differ in it: not by recursion.
    found: dict[_Pair, tuple[_Parts, list[_Pair]]] = {}
    order: list[_Pair] = []
    pending: list[_Pair] = [(computation, other)]
    while pending:
        pair = pending.pop()
        if pair in found:
            continue
        parts = _Parts(*pair, fingerprints)
        found[pair] = parts, parts.inner
        order.append(pair)
        pending += reversed(parts.inner)
    made: dict[_Pair, ComputationDiff] = {}
    shown_already: set[_Pair] = {order[0]}
    # Each is told of where it is met first.
    owners: dict[_Pair, list[_Pair]] = {pair: [] for pair in order}
    for pair in order:
        for inner in found[pair][1]:
            if inner not in shown_already:
                shown_already.add(inner)
                owners[pair].append(inner)
    for pair in _inner_first(order[0], owners):
        parts = found[pair][0]
        made[pair] = ComputationDiff(
            before=pair[0],
            after=pair[1],
            removed=parts.removed,
            added=parts.added,
            changed=parts.changed,
            signature=_signature(*pair) if pair == order[0] else (),
            nested=tuple([made[inner] for inner in owners[pair]]),
        )
    return made[order[0]]


def _inner_first(first: _Pair, owners: Mapping[_Pair, list[_Pair]]) -> list[_Pair]:
    order = [first]
    for pair in order:  # which grows
        order += owners[pair]
    return order[::-1]


class _Parts:
    """What differs in one pair of computations, and the pairs of applied ones that differ."""

    def __init__(
        self, before: XlaComputation, after: XlaComputation, fingerprints: Fingerprints
    ) -> None:
        pairs, labels, others = matched(before, after, fingerprints)
        taken = bytearray(len(after.ops))
        for place in pairs:
            if place >= 0:
                taken[place] = 1
        self.removed = tuple([op for op in before.ops if pairs[op.id] < 0])
        self.added = tuple([op for op in after.ops if not taken[op.id]])
        changes: list[OpChange] = []
        inner: dict[_Pair, None] = {}
        for op in before.ops:
            place = pairs[op.id]
            if place < 0:
                continue
            other = after.ops[place]
            differences: list[Difference] = []
            if labels[op.id] != others[place]:
                differences += _said(op, other, fingerprints)
                for pair in zip(
                    called_in(op.attributes), called_in(other.attributes), strict=False
                ):
                    if fingerprints.computation(pair[0]) != fingerprints.computation(pair[1]):
                        inner[pair] = None
            differences += _operands(op, other, pairs, taken)
            if (op is before.root) != (other is after.root) and not _moved_root(
                before, after, pairs, taken
            ):
                differences.append(
                    Difference("root", _flag(op is before.root), _flag(other is after.root))
                )
            if differences:
                changes.append(OpChange(op, other, tuple(differences)))
        self.changed = tuple(changes)
        self.inner = list(inner)


def _moved_root(
    before: XlaComputation, after: XlaComputation, pairs: list[int], taken: bytearray
) -> bool:
    """Whether the root is another because one was added or removed."""
    return pairs[before.root.id] < 0 or not taken[after.root.id]


def _operands(op: XlaOp, other: XlaOp, pairs: list[int], taken: bytearray) -> Iterator[Difference]:
    """The operands that are others, but for those that are added or removed."""
    ones, others = op.operands, other.operands
    if len(ones) != len(others):
        yield Difference("operands", str(len(ones)), str(len(others)))
    for place, (one, two) in enumerate(zip(ones, others, strict=False)):
        if pairs[one.id] != two.id and pairs[one.id] >= 0 and taken[two.id]:
            yield Difference(f"operand {place}", f"%{one.id}", f"%{two.id}")


def _flag(value: bool) -> str:
    return str(value).lower()


def _said(op: XlaOp, other: XlaOp, fingerprints: Fingerprints) -> Iterator[Difference]:
    """What two ops say otherwise, besides their operands."""
    if op.opcode != other.opcode:
        yield Difference("opcode", op.opcode, other.opcode)
    if op.shape is not other.shape:
        yield Difference("shape", short(str(op.shape)), short(str(other.shape)))
    for name in dict.fromkeys((*op.attributes, *other.attributes)):
        one, two = op.attributes.get(name), other.attributes.get(name)
        # Of another opcode only what both have: the rest is another op.
        is_common = op.opcode == other.opcode or (
            name in op.attributes and name in other.attributes
        )
        if is_common and fingerprints.key(one) != fingerprints.key(two):
            yield _difference(name, _value(op, one), _value(other, two))
    for name in ("sharding", "frontend_attributes"):
        one, two = (_plain(getattr(each, name)) for each in (op, other))
        if value_key(one) != value_key(two):
            yield Difference(name, value_text(one), value_text(two))
    if fingerprints.metadata:
        for name in ("name", "source"):
            one, two = str(getattr(op, name)), str(getattr(other, name))
            if one != two:
                yield Difference(name, one, two)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else "" if value is None else str(value)


def _difference(what: str, before: str, after: str) -> Difference:
    if before == after:
        # Of long values the beginnings may be the same, and so may names of computations.
        return Difference(what, before, f"{after} (another)")
    return Difference(what, before, after)


def _value(op: XlaOp, value: Any) -> str:
    if value is None:
        return "none"
    if op.opcode == "constant" and isinstance(value, np.ndarray):
        return constant_text(value, op.shape.element_type)
    return value_text(value)


def _signature(before: XlaComputation, after: XlaComputation) -> tuple[Difference, ...]:
    """What the computations themselves say otherwise, besides names."""
    found = []
    one, two = before.program_shape, after.program_shape
    if len(one.parameters) != len(two.parameters):
        found.append(Difference("parameters", str(len(one.parameters)), str(len(two.parameters))))
    if one.result is not two.result:
        found.append(Difference("result", short(str(one.result)), short(str(two.result))))
    for name in ("aliases", "donors", "annotations"):
        mine, other = getattr(before, name), getattr(after, name)
        if value_key(mine) != value_key(other):
            found.append(_difference(name, value_text(mine), value_text(other)))
    return tuple(found)
