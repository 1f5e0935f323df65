"""Two computations, compared as graphs: what is only here, only there, and what has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.rendering import as_rich_lines, printable

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["ComputationDiff", "Difference", "OpChange", "diff_of"]


class Difference(NamedTuple):
    """One thing that an op says otherwise.

    Attributes:
        what: "opcode", "shape", "operands", the name of an attribute, or "sharding" and the like.
        before, after: what it says, as text.
    """

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op that is in both computations, and says something else in the other.

    Attributes:
        before, after: the op in the one and in the other computation.
        differences: what differs.
    """

    before: XlaOp
    after: XlaOp
    differences: tuple[Difference, ...]

    # Ops are not compared: `==` of two ops records a comparison.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class ComputationDiff:
    """What differs between two computations; made by `XlaComputation.diff`.

    It is true when something differs. `print` writes it in lines, the ops by their numbers.

    Attributes:
        before, after: the two computations.
        removed: ops of `before` that `after` has none for.
        added: ops of `after` that `before` has none for.
        changed: ops that are in both and say something else.
        signature: what differs of the computation itself: its parameters and its result, with their
            layouts, and which parameters results may alias.
        nested: the differences of computations that ops apply that are in both, pair by pair.

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
        """Whether nothing differs, in the computations that they apply either."""
        return not (self.removed or self.added or self.changed or self.signature or self.nested)

    def __bool__(self) -> bool:
        return not self.equal

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON: numbers, texts, lists and dicts.

        ``{"equal", "before", "after", "removed", "added", "changed", "signature", "nested"}``: the
        computations by their names, ops as `number`, `opcode`, `shape`, `operands`, `name` and
        `source`, each change as `before`, `after` and `differences`; of a difference `what`,
        `before` and `after`.
        """
        top = self._own_dict()
        # Not by recursion: computations may be nested as deep as one likes.
        pending = [(self, top)]
        while pending:
            diff, made = pending.pop()
            for inner in diff.nested:
                made["nested"].append(inner._own_dict())
                pending.append((inner, made["nested"][-1]))
        return top

    def _own_dict(self) -> dict[str, Any]:
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
                    "differences": [one._asdict() for one in change.differences],
                }
                for change in self.changed
            ],
            "signature": [one._asdict() for one in self.signature],
            "nested": [],
        }

    def __repr__(self) -> str:
        return (
            f"<ComputationDiff {self.before.name!r} {self.after.name!r}: "
            f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed>"
        )

    def __str__(self) -> str:
        return "\n".join(text for _, text in self._lines())

    def __rich__(self) -> Text:
        return as_rich_lines(self._lines())

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def _lines(self) -> list[tuple[str, str]]:
        """What is printed, line by line, each with a sign: "-", "+", "~", or "" for a heading."""
        lines: list[tuple[str, str]] = []
        pending = [self]
        while pending:
            diff = pending.pop()
            lines += diff._own_lines()
            pending += reversed(diff.nested)
        return lines

    def _own_lines(self) -> list[tuple[str, str]]:
        names = self.before.name, self.after.name
        title = names[0] if names[0] == names[1] else f"{names[0]} -> {names[1]}"
        if self.equal:
            return [("", f"{printable(title)}: equal")]
        counts = f"{len(self.removed)} removed, {len(self.added)} added"
        lines = [("", f"{printable(title)}: {counts}, {len(self.changed)} changed")]
        lines += [("~", f"  ~ {printable(str(one))}") for one in self.signature]
        lines += [("-", f"  - {_op_line(op)}") for op in self.removed]
        lines += [("+", f"  + {_op_line(op)}") for op in self.added]
        for change in self.changed:
            number, other = change.before.id, change.after.id
            place = "" if number == other else f" (%{other})"
            lines.append(("~", f"  ~ {_op_line(change.before)}{place}"))
            lines += [("~", f"      {printable(str(one))}") for one in change.differences]
        return lines


def _op_line(op: XlaOp) -> str:
    from builder.inspection.attribute_text import short

    operands = short(", ".join(f"%{operand.id}" for operand in op.operands))
    name = "" if op.name is None else f" {op.name!r}"
    source = "" if op.source is None else f"  # {op.source}"
    return printable(f"%{op.id}{name} = {short(str(op.shape))} {op.opcode}({operands}){source}")


def _op_dict(op: XlaOp) -> dict[str, Any]:
    return {
        "number": op.id,
        "opcode": op.opcode,
        "shape": str(op.shape),
        "operands": [operand.id for operand in op.operands],
        "name": op.name,
        "source": None if op.source is None else str(op.source),
    }


def diff_of(
    computation: XlaComputation, other: XlaComputation, *, metadata: bool = False
) -> ComputationDiff:
    """What differs between two computations; see `XlaComputation.diff`."""
    from builder.inspection.comparing import compared  # needs more than those who import this

    return compared(computation, other, metadata=metadata)
