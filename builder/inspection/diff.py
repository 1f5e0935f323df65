"""The differences between two computations: ops that are added, removed or changed.

A change of one op preserves the value numbers of its operands and the use numbers of its users
(see `graph_numbers`). So ops are paired first if both numbers are equal, and then if one number is
equal. Pairing continues from each pair to the operands at the same positions, and to the users. An
unpaired op between pairs is a changed op. The number of visits of each op is bounded.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from builder.checking import flag
from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import XlaOp, is_constant
from builder.inspection.equivalence import Fingerprints, are_equivalent, graph_numbers, value_key
from builder.inspection.parts import Part, SideBySide, SideBySideRow
from builder.inspection.rendering import printable
from builder.inspection.table import abbreviated, constant_text, value_text
from builder.support.display import Displayed


def match_ops(
    before: XlaComputation, after: XlaComputation, fingerprints: Fingerprints
) -> tuple[list[int], list[int], list[int]]:
    """Pair the ops of two computations.

    Returns:
        Three lists: for each op of `before`, the number of its counterpart in `after`, or -1 if
        the op is unpaired; the label of each op of `before`; and the label of each op of `after`.
    """
    labels = fingerprints.labels(before), fingerprints.labels(after)
    if labels[0] == labels[1] and _have_equal_operands(before, after):
        return list(range(len(before.ops))), *labels
    matching = _Matching(
        _Graph(before, labels[0], fingerprints), _Graph(after, labels[1], fingerprints)
    )
    matching.run()
    return matching.before.pairs, *labels


def _have_equal_operands(before: XlaComputation, after: XlaComputation) -> bool:
    """Return whether both computations have the same operand numbers and root number."""
    return before.root.id == after.root.id and all(
        [operand.id for operand in op.operands] == [operand.id for operand in other.operands]
        for op, other in zip(before.ops, after.ops, strict=True)
    )


_MAX_COMPARED_OPERANDS: Final = 64
"""The maximum number of operands that are compared one by one when ops are paired."""

Keys = tuple[Sequence[Hashable], Sequence[Hashable]]
"""Two sequences: the key of each op of the first computation, and of the second computation."""


class _Graph:
    """One of the two computations to match. Ops are represented by their numbers.

    Attributes:
        computation: the computation.
        opcodes: the opcode of each op.
        operands: the operand numbers of each op.
        users: the numbers of each op's users, without repetition.
        labels: the label of each op, from `Fingerprints.labels`.
        values, uses: the value number and the use number of each op, from `graph_numbers`.
        pairs: the number of each op's counterpart in the other graph, or -1.
    """

    def __init__(
        self, computation: XlaComputation, labels: list[int], fingerprints: Fingerprints
    ) -> None:
        self.computation = computation
        self.opcodes = [op.opcode for op in computation.ops]
        # Tuples of ints, which the garbage collector does not track.
        self.operands = [tuple([o.id for o in op.operands]) for op in computation.ops]
        users: list[list[int]] = [[] for _ in labels]
        for user, operands in enumerate(self.operands):
            for operand in operands:
                if not users[operand] or users[operand][-1] != user:
                    users[operand].append(user)
        self.users = [tuple(numbers) for numbers in users]
        self.labels = labels
        self.values, self.uses = graph_numbers(computation, labels, fingerprints)
        self.pairs = [-1] * len(labels)

    def unpaired(self) -> list[int]:
        """Return the numbers of the unpaired ops, users before their operands."""
        return [i for i in range(len(self.pairs) - 1, -1, -1) if self.pairs[i] < 0]

    def positions(self, user: int, operand: int) -> tuple[int, ...]:
        """Return the positions of `operand` in the operands of `user`; () if `is_wide(user)`."""
        if self.is_wide(user):
            return ()
        return tuple([i for i, o in enumerate(self.operands[user]) if o == operand])

    def counterparts(self, op: int) -> tuple[int, ...]:
        """Return the counterpart's number for each operand of `op`; -1 for an unpaired operand."""
        return tuple([self.pairs[o] for o in self.operands[op]])

    def paired_operands(self, op: int) -> tuple[int, ...]:
        """Return the number of each operand, or -1 if unpaired; () if `is_wide(op)`."""
        if self.is_wide(op):
            return ()
        return tuple([o if self.pairs[o] >= 0 else -1 for o in self.operands[op]])

    def is_wide(self, op: int) -> bool:
        """Return whether `op` has too many operands to compare them one by one."""
        return len(self.operands[op]) > _MAX_COMPARED_OPERANDS


class _Matching:
    """Pairs the ops of two graphs.

    Attributes:
        before, after: the two graphs.
        new_pairs: a queue of pairs whose operands and users have not been visited yet.
    """

    def __init__(self, before: _Graph, after: _Graph) -> None:
        self.before = before
        self.after = after
        self.new_pairs: deque[tuple[int, int]] = deque()

    def pair(self, op: int, other: int) -> None:
        self.before.pairs[op] = other
        self.after.pairs[other] = op
        self.new_pairs.append((op, other))

    def run(self) -> None:
        before, after = self.before, self.after
        # Parameters are paired by their numbers.
        parameters = {p.attributes["number"]: p.id for p in after.computation.parameters}
        for parameter in before.computation.parameters:
            other = parameters.get(parameter.attributes["number"])
            if other is not None and before.labels[parameter.id] == after.labels[other]:
                self.pair(parameter.id, other)

        def zipped(*names: str) -> Keys:
            first, second = (
                list(zip(*(getattr(graph, name) for name in names), strict=True))
                for graph in (before, after)
            )
            return first, second

        values_and_uses, labels_and_uses = zipped("values", "uses"), zipped("labels", "uses")
        opcodes_and_uses = zipped("opcodes", "uses")
        values: Keys = before.values, after.values
        labels: Keys = before.labels, after.labels
        opcodes: Keys = before.opcodes, after.opcodes
        # Equal value and use numbers first, then one of them: unique ops, then their neighbours.
        for keys in (values_and_uses, labels_and_uses, values):
            self.pair_equal(keys, unique=True)
            self.extend_all(values_and_uses)
            self.extend_all(keys)
        # Equal ops with equal operands, then repeated ops in their order, then equal ops at the
        # same operand position.
        self.extend_all(labels)
        for keys in (values_and_uses, values):
            self.pair_equal(keys, unique=False)
        self.extend_all(labels)
        self.extend_all(labels, strict=False)
        self.pair_equal(labels_and_uses, unique=False)
        self.extend_all(labels, strict=False)
        # Changed ops: other attributes, then other opcodes, with the same users or operands.
        self.pair_equal(opcodes_and_uses, unique=True)
        self.extend_all(labels)
        for _ in range(2):
            self.extend_all(opcodes)
            self.extend_all(labels, strict=False)
        self.pair_replaced(labels)

    def pair_equal(self, keys: Keys, *, unique: bool) -> None:
        """Pair unpaired ops with equal keys.

        Args:
            keys: the key of each op of the two graphs.
            unique: whether to pair ops only if exactly one unpaired op in each graph has the key.
                Otherwise ops with the same key are paired in order, and the operands and users of
                each new pair are paired before the next ops.
        """
        before, after = self.before, self.after
        if -1 not in before.pairs or -1 not in after.pairs:
            return
        candidates: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for other in after.unpaired():
            candidates[keys[1][other]].append(other)
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        for op in before.unpaired():
            if keys[0][op] in candidates:
                groups[keys[0][op]].append(op)
        for key, ops in groups.items():
            others = candidates[key]
            if unique:
                if len(ops) == len(others) == 1:
                    before.pairs[ops[0]], after.pairs[others[0]] = others[0], ops[0]
                continue
            for op in ops:
                # Ops may have been paired as neighbours of a previous pair.
                while others and after.pairs[others[0]] >= 0:
                    others.popleft()
                if not others:
                    break
                if before.pairs[op] < 0:
                    self.pair(op, others.popleft())
                    self.extend(keys)

    def extend(self, keys: Keys, *, strict: bool = True) -> None:
        """Pair the operands and users of `new_pairs` that have equal keys, transitively.

        Args:
            keys: the key of each op of the two graphs.
            strict: whether two users are paired only if all their paired operands are paired with
                each other. Otherwise only the operand positions of the new pair must be equal.
        """
        before, after = self.before, self.after
        while self.new_pairs:
            op, other = self.new_pairs.popleft()
            for i, j in zip(before.operands[op], after.operands[other], strict=False):
                if before.pairs[i] < 0 and after.pairs[j] < 0 and keys[0][i] == keys[1][j]:
                    self.pair(i, j)
            users = [i for i in before.users[op] if before.pairs[i] < 0]
            if not users:
                continue
            candidates: defaultdict[Hashable, deque[int]] = defaultdict(deque)
            for j in after.users[other]:
                if after.pairs[j] < 0:
                    operands = after.paired_operands(j) if strict else after.positions(j, other)
                    candidates[keys[1][j], operands].append(j)
            for i in users:
                if not strict:
                    operands = before.positions(i, op)
                else:
                    operands = () if before.is_wide(i) else before.counterparts(i)
                matches = candidates.get((keys[0][i], operands))
                if matches:
                    self.pair(i, matches.popleft())

    def extend_all(self, keys: Keys, *, strict: bool = True) -> None:
        """Call `extend` for each pair that has unpaired operands or users."""
        for pair in self.pairs_beside_unpaired():
            self.new_pairs.append(pair)
            self.extend(keys, strict=strict)

    def pairs_beside_unpaired(self) -> list[tuple[int, int]]:
        """Return the pairs with an unpaired operand or user in `before`; users come first."""
        before, after = self.before, self.after
        if -1 not in before.pairs or -1 not in after.pairs:
            return []
        neighbours = {
            i for op in before.unpaired() for i in (*before.operands[op], *before.users[op])
        }
        return [
            (i, before.pairs[i]) for i in sorted(neighbours, reverse=True) if before.pairs[i] >= 0
        ]

    def pair_replaced(self, labels: Keys) -> None:
        """Pair ops whose opcodes differ, but whose shapes and operands match.

        Only the roots, and the operands and users of a pair at equal positions, are candidates.
        """
        before, after = self.before, self.after
        self.pair_if_replaced(before.computation.root.id, after.computation.root.id, labels)
        pending = deque(self.pairs_beside_unpaired())
        while pending:
            op, other = pending.popleft()
            for i, j in zip(before.operands[op], after.operands[other], strict=False):
                if self.pair_if_replaced(i, j, labels):
                    pending.append((i, j))
            candidates: defaultdict[tuple[int, ...], deque[int]] = defaultdict(deque)
            users = [i for i in before.users[op] if before.pairs[i] < 0]
            for j in after.users[other] if users else ():
                if after.pairs[j] < 0:
                    candidates[after.positions(j, other)].append(j)
            for i in users:
                matches = candidates.get(before.positions(i, op))
                # A candidate with other operands is dropped, so each is visited once.
                if matches and self.pair_if_replaced(i, matches.popleft(), labels):
                    pending.append((i, before.pairs[i]))

    def pair_if_replaced(self, op: int, other: int, labels: Keys) -> bool:
        """Pair `op` with `other` if both are unpaired, with equal shapes and paired operands.

        Return whether the ops were paired.
        """
        before, after = self.before, self.after
        if (
            before.pairs[op] >= 0
            or after.pairs[other] >= 0
            or before.computation.ops[op].shape is not after.computation.ops[other].shape
            or before.counterparts(op) != after.operands[other]
        ):
            return False
        self.pair(op, other)
        self.extend(labels)
        return True


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
    from builder.inspection.table import abbreviated, constant_text

    if is_constant(op):
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


_Pair = tuple[XlaComputation, XlaComputation]


def diff_of(
    computation: XlaComputation, other: XlaComputation, *, metadata: bool = False
) -> ComputationDiff:
    """Return the differences between two computations; see `XlaComputation.diff`."""
    if not isinstance(other, XlaComputation):
        rule = "other must be an XlaComputation"
        raise error_of(
            OperandError, "diff", rule, got=f"{type(other).__name__}: {brief(other, 80)}"
        )
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
    if is_constant(op) and isinstance(value, np.ndarray):
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
