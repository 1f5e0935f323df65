"""The differences between two computations: ops that are added, removed or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.rendering import printable
from builder.support.display import Part, SideBySide, SideBySideRow
from builder.support.displayed import Displayed


class Difference(NamedTuple):
    """A property that differs between two ops, or between two computations.

    Attributes:
        what: "opcode", "shape", "operands", the name of an attribute, "sharding" and the like.
        before, after: the values, as text.
    """

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op that is in both computations with different properties.

    Attributes:
        before, after: the op in the first and in the second computation.
        differences: the properties that differ.
    """

    before: XlaOp
    after: XlaOp
    differences: tuple[Difference, ...]

    # By identity: `==` of two ops records a comparison.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class ComputationDiff(Displayed):
    """The differences between two computations; returned by `XlaComputation.diff`.

    A diff is true if there are differences. `print` shows it as lines with the numbers of ops.

    Attributes:
        before, after: the two computations.
        removed: the ops of `before` without a counterpart in `after`.
        added: the ops of `after` without a counterpart in `before`.
        changed: the ops that are in both with different properties.
        signature: the differences outside the ops: number of parameters, shape and layout of the
            result, aliases, donors and annotations.
        nested: the differences between the computations that matching ops apply.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[4])
        ... def one(x):
        ...     return xb.neg(xb.exp(x))
        >>> @xb.computation(xb.f32[4])
        ... def other(x):
        ...     return xb.neg(xb.sin(xb.sqrt(x)))
        >>> diff = one.diff(other)
        >>> diff.equal, [op.opcode for op in diff.added]
        (False, ['sine'])
        >>> [str(d) for change in diff.changed for d in change.differences]
        ['opcode: exponential -> sqrt']
    """

    before: XlaComputation
    after: XlaComputation
    removed: tuple[XlaOp, ...]
    added: tuple[XlaOp, ...]
    changed: tuple[OpChange, ...]
    signature: tuple[Difference, ...]
    nested: tuple[ComputationDiff, ...]

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def equal(self) -> bool:
        """Whether the computations are equal, including the computations that they apply."""
        return not (self.removed or self.added or self.changed or self.signature or self.nested)

    def __bool__(self) -> bool:
        return not self.equal

    def as_dict(self) -> dict[str, Any]:
        """Return the diff for JSON: numbers, strings, lists and dicts.

        The keys are ``{"equal", "before", "after", "removed", "added", "changed", "signature",
        "nested"}``. A computation is its name. An op has the keys `number`, `opcode`, `shape`,
        `operands`, `name` and `source`. A change has the keys `before`, `after` and `differences`.
        A difference has the keys `what`, `before` and `after`.
        """
        result = self._dict_without_nested()
        # Iterative, because computations may be nested deeper than Python's recursion limit.
        pending = [(self, result)]
        while pending:
            diff, entry = pending.pop()
            for inner in diff.nested:
                entry["nested"].append(inner._dict_without_nested())
                pending.append((inner, entry["nested"][-1]))
        return result

    def _dict_without_nested(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "before": self.before.name,
            "after": self.after.name,
            "removed": [_op_dict(op) for op in self.removed],
            "added": [_op_dict(op) for op in self.added],
            "changed": [
                {
                    "before": _op_dict(change.before),
                    "after": _op_dict(change.after),
                    "differences": [difference._asdict() for difference in change.differences],
                }
                for change in self.changed
            ],
            "signature": [difference._asdict() for difference in self.signature],
            "nested": [],
        }

    def __repr__(self) -> str:
        return (
            f"<ComputationDiff {self.before.name!r} {self.after.name!r}: "
            f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed>"
        )

    def __str__(self) -> str:
        return "\n".join(text for _, text in self._lines())

    def _parts(self) -> list[Part]:
        """Return the diff as two columns: an op of one computation faces its counterpart."""
        rows = [row for diff in self._with_nested() for row in diff._sides_without_nested()]
        return [SideBySide(self.before.name, self.after.name, rows, self._lines())]

    def _with_nested(self) -> Iterator[ComputationDiff]:
        # Iterative, because computations may be nested deeper than Python's recursion limit.
        pending = [self]
        while pending:
            diff = pending.pop()
            yield diff
            pending += reversed(diff.nested)

    def _lines(self) -> list[tuple[str, str]]:
        """Return pairs of a sign ("-", "+", "~", or "" for a heading) and a line to print."""
        return [
            (sign, printable(line))
            for diff in self._with_nested()
            for sign, line in diff._lines_without_nested()
        ]

    def _title(self) -> str:
        before, after = self.before.name, self.after.name
        title = before if before == after else f"{before} -> {after}"
        if self.equal:
            return f"{title}: equal"
        counts = f"{len(self.removed)} removed, {len(self.added)} added"
        return f"{title}: {counts}, {len(self.changed)} changed"

    def _sides_without_nested(self) -> Iterator[SideBySideRow]:
        yield SideBySideRow("", self._title(), "")
        for what, before, after in self.signature:
            yield SideBySideRow("~", f"{what}: {before}", f"{what}: {after}")
        rows = [(op.id, SideBySideRow("-", _op_line(op), "")) for op in self.removed]
        rows += [(op.id, SideBySideRow("+", "", _op_line(op))) for op in self.added]
        for change in self.changed:
            ops = _op_line(change.before), _op_line(change.after)
            rows.append((change.before.id, SideBySideRow("~", *ops)))
            for what, before, after in change.differences:
                row = SideBySideRow("~", f"    {what}: {before}", f"    {what}: {after}")
                rows.append((change.before.id, row))
        for _, row in sorted(rows, key=lambda numbered: numbered[0]):
            yield row

    def _lines_without_nested(self) -> Iterator[tuple[str, str]]:
        yield "", self._title()
        for difference in self.signature:
            yield "~", f"  ~ {difference}"
        for op in self.removed:
            yield "-", f"  - {_op_line(op)}"
        for op in self.added:
            yield "+", f"  + {_op_line(op)}"
        for change in self.changed:
            number, new_number = change.before.id, change.after.id
            renumbered = "" if number == new_number else f" (%{new_number})"
            yield "~", f"  ~ {_op_line(change.before)}{renumbered}"
            for difference in change.differences:
                yield "~", f"      {difference}"


def _op_line(op: XlaOp) -> str:
    from builder.inspection.attribute_text import abbreviated, constant_text

    if op.opcode == "constant":
        operands = constant_text(op.attributes["value"], op.shape.element_type)
    else:
        operands = abbreviated(", ".join(f"%{operand.id}" for operand in op.operands))
    name = "" if op.name is None else f" {op.name!r}"
    source = "" if op.source is None else f"  # {op.source}"
    return f"%{op.id}{name} = {abbreviated(str(op.shape))} {op.opcode}({operands}){source}"


def _op_dict(op: XlaOp) -> dict[str, Any]:
    return {
        "number": op.id,
        "opcode": op.opcode,
        "shape": str(op.shape),
        "operands": [operand.id for operand in op.operands],
        "name": op.name,
        "source": None if op.source is None else str(op.source),
    }
