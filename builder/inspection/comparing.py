"""Compare two computations, and the computations that they apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from builder.check import flag
from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp
from builder.inspection.attribute_text import abbreviated, constant_text, value_text
from builder.inspection.diff import ComputationDiff, Difference, OpChange
from builder.inspection.equivalence import are_equivalent
from builder.inspection.fingerprints import Fingerprints, value_key
from builder.inspection.matching import match_ops

_Pair = tuple[XlaComputation, XlaComputation]


def diff_of(
    computation: XlaComputation, other: XlaComputation, *, metadata: bool = False
) -> ComputationDiff:
    """Return the differences between two computations; see `XlaComputation.diff`."""
    if not isinstance(other, XlaComputation):
        rule = f"other must be an XlaComputation, got {type(other).__name__}: {brief(other, 80)}"
        raise error_of(OperandError, "diff", rule)
    fingerprints = Fingerprints(metadata=flag("diff", "metadata", metadata))
    top = computation, other
    signature = _signature(*top)
    if not metadata and not signature and are_equivalent(*top):
        return ComputationDiff(computation, other, (), (), (), (), ())
    # Iterative, because computations may be nested deeper than Python's recursion limit.
    comparisons: dict[_Pair, _Comparison] = {}
    pending: list[_Pair] = [top]
    while pending:
        pair = pending.pop()
        if pair not in comparisons:
            comparisons[pair] = _Comparison(*pair, fingerprints)
            pending += reversed(comparisons[pair].applied)
    # A pair that several computations apply is reported in the first of them.
    nested: dict[_Pair, list[_Pair]] = {pair: [] for pair in comparisons}
    reported = {top}
    for pair, comparison in comparisons.items():
        nested[pair] = [inner for inner in comparison.applied if inner not in reported]
        reported.update(nested[pair])
    order = [top]
    for pair in order:  # extended while it is iterated, callers before callees
        order += nested[pair]
    diffs: dict[_Pair, ComputationDiff] = {}
    for pair in reversed(order):
        comparison = comparisons[pair]
        diffs[pair] = ComputationDiff(
            before=pair[0],
            after=pair[1],
            removed=comparison.removed,
            added=comparison.added,
            changed=comparison.changed,
            signature=signature if pair == top else (),
            nested=tuple([diffs[inner] for inner in nested[pair]]),
        )
    return diffs[top]


class _Comparison:
    """The differences between two computations, without the computations that they apply.

    Attributes:
        removed, added, changed: as in `ComputationDiff`.
        applied: the pairs of applied computations that differ.
    """

    def __init__(
        self, before: XlaComputation, after: XlaComputation, fingerprints: Fingerprints
    ) -> None:
        pairs, before_labels, after_labels = match_ops(before, after, fingerprints)
        is_matched = bytearray(len(after.ops))
        for number in pairs:
            if number >= 0:
                is_matched[number] = 1
        self.removed = tuple([op for op in before.ops if pairs[op.id] < 0])
        self.added = tuple([op for op in after.ops if not is_matched[op.id]])
        # A root that was added or removed explains why the other root is another op.
        has_same_root = pairs[before.root.id] >= 0 and is_matched[after.root.id]
        changes: list[OpChange] = []
        applied: dict[_Pair, None] = {}
        for op in before.ops:
            number = pairs[op.id]
            if number < 0:
                continue
            other = after.ops[number]
            differences: list[Difference] = []
            if before_labels[op.id] != after_labels[number]:
                differences += _properties(op, other, fingerprints)
                for pair in zip(
                    called_in(op.attributes), called_in(other.attributes), strict=False
                ):
                    if fingerprints.computation(pair[0]) != fingerprints.computation(pair[1]):
                        applied[pair] = None
            differences += _operands(op, other, pairs, is_matched)
            is_root = op is before.root, other is after.root
            if has_same_root and is_root[0] != is_root[1]:
                differences.append(Difference("root", *(str(root).lower() for root in is_root)))
            if differences:
                changes.append(OpChange(op, other, tuple(differences)))
        self.changed = tuple(changes)
        self.applied = list(applied)


def _operands(
    op: XlaOp, other: XlaOp, pairs: list[int], is_matched: bytearray
) -> Iterator[Difference]:
    """Yield the differences between the operands of two ops, except added or removed operands."""
    if len(op.operands) != len(other.operands):
        yield Difference("operands", str(len(op.operands)), str(len(other.operands)))
    for index, (before, after) in enumerate(zip(op.operands, other.operands, strict=False)):
        if pairs[before.id] != after.id and pairs[before.id] >= 0 and is_matched[after.id]:
            yield Difference(f"operand {index}", f"%{before.id}", f"%{after.id}")


def _properties(op: XlaOp, other: XlaOp, fingerprints: Fingerprints) -> Iterator[Difference]:
    """Yield the differences between two ops, except their operands."""
    if op.opcode != other.opcode:
        yield Difference("opcode", op.opcode, other.opcode)
    if op.shape is not other.shape:
        yield Difference("shape", abbreviated(str(op.shape)), abbreviated(str(other.shape)))
    for name in dict.fromkeys((*op.attributes, *other.attributes)):
        if op.opcode != other.opcode and not (name in op.attributes and name in other.attributes):
            continue  # implied by the opcode
        before, after = op.attributes.get(name), other.attributes.get(name)
        if fingerprints.key(before) != fingerprints.key(after):
            yield _difference(name, _value_text(op, before), _value_text(other, after))
    for name in ("sharding", "frontend_attributes"):
        before, after = (_comparable(getattr(each, name)) for each in (op, other))
        if value_key(before) != value_key(after):
            yield Difference(name, value_text(before), value_text(after))
    if fingerprints.metadata:
        for name in ("name", "op_type", "source"):
            before, after = str(getattr(op, name)), str(getattr(other, name))
            if before != after:
                yield Difference(name, before, after)


def _comparable(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else "" if value is None else str(value)


def _difference(what: str, before: str, after: str) -> Difference:
    # Abbreviated values and names of computations may be equal texts of different values.
    return Difference(what, before, f"{after} (another)" if before == after else after)


def _value_text(op: XlaOp, value: Any) -> str:
    if value is None:
        return "none"
    if op.opcode == "constant" and isinstance(value, np.ndarray):
        return constant_text(value, op.shape.element_type)
    return value_text(value)


def _signature(before: XlaComputation, after: XlaComputation) -> tuple[Difference, ...]:
    """Return the differences outside the ops, for `ComputationDiff.signature`; ignore names."""
    differences = []
    shape, other_shape = before.program_shape, after.program_shape
    counts = len(shape.parameters), len(other_shape.parameters)
    if counts[0] != counts[1]:
        differences.append(Difference("parameters", *map(str, counts)))
    if shape.result is not other_shape.result:
        results = str(shape.result), str(other_shape.result)
        differences.append(Difference("result", *map(abbreviated, results)))
    for name in ("aliases", "donors", "annotations"):
        value, other_value = getattr(before, name), getattr(after, name)
        if value_key(value) != value_key(other_value):
            differences.append(_difference(name, value_text(value), value_text(other_value)))
    return tuple(differences)
