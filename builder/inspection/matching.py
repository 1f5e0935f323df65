"""Match the ops of two computations.

A change of one op preserves the value numbers of its operands and the use numbers of its users
(see `graph_numbers`). So ops are paired first if both numbers are equal, and then if one number is
equal. Pairing continues from each pair to the operands at the same positions, and to the users. An
unpaired op between pairs is a changed op. The number of visits of each op is bounded.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import Final

from builder.graph.computation import XlaComputation
from builder.inspection.fingerprints import Fingerprints, graph_numbers


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
