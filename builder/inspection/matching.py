"""Which ops of two computations are the same.

A change of an op leaves the first number of `contexts` as it was in what stands before it, and the
second in what stands after it. So ops are paired where both numbers are equal, then where one is,
and from each pair to its neighbours: operand to operand at the same place, user to user. What is
still alone and stands between the same neighbours has changed. Every op is looked at a fixed number
of times.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from builder.graph.computation import XlaComputation
from builder.inspection.fingerprints import Fingerprints, contexts

__all__ = ["matched"]


def matched(
    before: XlaComputation, after: XlaComputation, fingerprints: Fingerprints
) -> tuple[list[int], list[int], list[int]]:
    """Pairs the ops of two computations.

    Returns:
        For each op of `before` the number of that of `after`, or -1; and the labels of both.
    """
    labels = fingerprints.labels(before), fingerprints.labels(after)
    if _same_order(before, after, *labels):
        return list(range(len(before.ops))), *labels
    matching = _Matching(before, after, labels, fingerprints)
    matching.run()
    return matching.pairs, *labels


def _same_order(
    before: XlaComputation, after: XlaComputation, labels: list[int], others: list[int]
) -> bool:
    """Whether op by op all is the same: nothing more has to be looked at."""
    return (
        labels == others
        and before.root.id == after.root.id
        and all(
            [o.id for o in one.operands] == [o.id for o in other.operands]
            for one, other in zip(before.ops, after.ops, strict=True)
        )
    )


_WIDE: Final = 64
"""More operands than this are not compared one by one whenever one of them gets a pair."""

Keys = tuple[Sequence[Hashable], Sequence[Hashable]]
"""Something of each op of the one and of the other computation."""


class _Side:
    """One of the two computations.

    Attributes:
        computation: the computation.
        opcodes: of each op its opcode.
        operands: of each op the numbers of its operands.
        users: of each op the numbers of its users, each once.
        labels, up, down: the numbers of `fingerprints`.
        pairs: of each op the number of the op of the other side, or -1.
    """

    def __init__(
        self, computation: XlaComputation, labels: list[int], fingerprints: Fingerprints
    ) -> None:
        self.computation = computation
        self.opcodes = [op.opcode for op in computation.ops]
        # Tuples of numbers: the collector of garbage leaves them alone, which halves the time.
        self.operands = [tuple([o.id for o in op.operands]) for op in computation.ops]
        users: list[list[int]] = [[] for _ in labels]
        for user, operands in enumerate(self.operands):
            for operand in operands:
                found = users[operand]
                if not found or found[-1] != user:
                    found.append(user)
        self.users = [tuple(found) for found in users]
        self.labels = labels
        self.up, self.down = contexts(computation, labels, fingerprints)
        self.pairs = [-1] * len(labels)

    def alone(self) -> Iterable[int]:
        """The ops without a pair, the last first: what uses others before what is used."""
        return [i for i in range(len(self.pairs) - 1, -1, -1) if self.pairs[i] < 0]

    def places(self, user: int, operand: int) -> tuple[int, ...]:
        """Where an op has another as an operand; of a wide one nothing, as it has thousands."""
        if len(self.operands[user]) > _WIDE:
            return ()
        return tuple([place for place, o in enumerate(self.operands[user]) if o == operand])

    def paired(self, op: int) -> tuple[int, ...]:
        """The operands of an op by their numbers on the other side; -1 without a pair."""
        return () if len(self.operands[op]) > _WIDE else self.paired_all(op)

    def paired_all(self, op: int) -> tuple[int, ...]:
        """As `paired`, of wide ones too."""
        return tuple([self.pairs[o] for o in self.operands[op]])

    def known(self, op: int) -> tuple[int, ...]:
        """The operands of an op by their own numbers; -1 without a pair."""
        operands = self.operands[op]
        if len(operands) > _WIDE:
            return ()
        return tuple([o if self.pairs[o] >= 0 else -1 for o in operands])


class _Matching:
    def __init__(
        self,
        before: XlaComputation,
        after: XlaComputation,
        labels: tuple[list[int], list[int]],
        fingerprints: Fingerprints,
    ) -> None:
        self.a = _Side(before, labels[0], fingerprints)
        self.b = _Side(after, labels[1], fingerprints)
        self.fresh: deque[tuple[int, int]] = deque()

    @property
    def pairs(self) -> list[int]:
        return self.a.pairs

    def pair(self, one: int, other: int) -> None:
        self.a.pairs[one] = other
        self.b.pairs[other] = one
        self.fresh.append((one, other))

    def run(self) -> None:
        a, b = self.a, self.b
        # Parameters are what their numbers are.
        numbered = {p.attributes["number"]: p.id for p in b.computation.parameters}
        for parameter in a.computation.parameters:
            other = numbered.get(parameter.attributes["number"])
            if other is not None and a.labels[parameter.id] == b.labels[other]:
                self.pair(parameter.id, other)

        both = list(zip(a.up, a.down, strict=True)), list(zip(b.up, b.down, strict=True))
        after = list(zip(a.labels, a.down, strict=True)), list(zip(b.labels, b.down, strict=True))
        before = a.up, b.up
        same = a.labels, b.labels
        # What is the same on both sides, then on one: those first of which there is one alone, and
        # from them to their neighbours.
        for keys in (both, after, before):
            self.each(keys, single=True)
            self.spread(both)
            self.spread(keys)
        # What says the same of the same operands, as far as these have pairs; then of several that
        # are the same the first and the first; then what says the same at the same place.
        self.spread(same)
        for keys in (both, before):
            self.each(keys, single=False)
        self.spread(same)
        self.spread(same, strict=False)
        self.each(after, single=False)
        self.spread(same, strict=False)
        # What has changed: another attribute at the same place, then another opcode. The place is
        # what is made of an op, for one without neighbours too.
        opcodes: Keys = a.opcodes, b.opcodes
        place = list(zip(a.opcodes, a.down, strict=True)), list(zip(b.opcodes, b.down, strict=True))
        self.each(place, single=True)
        self.spread(same)
        for _ in range(2):
            self.spread(opcodes)
            self.spread(same, strict=False)
        self.replaced(same)

    def each(self, keys: Keys, *, single: bool) -> None:
        """Pairs ops alone of equal keys.

        Args:
            keys: of each op of the one and of the other side.
            single: whether there must be one alone on each side. Else they are paired in their
                order, and their neighbours before the next ones.
        """
        key, other_key = keys
        a, b = self.a, self.b
        if -1 not in a.pairs or -1 not in b.pairs:
            return
        there: defaultdict[Hashable, list[int]] = defaultdict(list)
        for other in b.alone():
            there[other_key[other]].append(other)
        here: defaultdict[Hashable, list[int]] = defaultdict(list)
        for one in a.alone():
            if key[one] in there:
                here[key[one]].append(one)
        for found, ones in here.items():
            others = there[found]
            if single:
                if len(ones) == len(others) == 1:
                    a.pairs[ones[0]], b.pairs[others[0]] = others[0], ones[0]
                continue
            # Some may have been drawn along since.
            left = deque(others)
            for one in ones:
                while left and b.pairs[left[0]] >= 0:
                    left.popleft()
                if not left:
                    break
                if a.pairs[one] < 0:
                    self.pair(one, left.popleft())
                    self.draw(keys)

    def draw(self, keys: Keys, *, strict: bool = True) -> None:
        """Pairs the neighbours of new pairs, and theirs, where the keys are equal.

        Args:
            keys: the keys of ops of the one and of the other side.
            strict: whether users must have the same operands, as far as these have pairs, and not
                only the pair at hand at the same places.
        """
        a, b = self.a, self.b
        key, other_key = keys
        while self.fresh:
            one, other = self.fresh.popleft()
            for i, j in zip(a.operands[one], b.operands[other], strict=False):
                if a.pairs[i] < 0 and b.pairs[j] < 0 and key[i] == other_key[j]:
                    self.pair(i, j)
            users = [i for i in a.users[one] if a.pairs[i] < 0]
            if not users:
                continue
            there: defaultdict[Hashable, deque[int]] = defaultdict(deque)
            for j in b.users[other]:
                if b.pairs[j] < 0:
                    seen = b.known(j) if strict else b.places(j, other)
                    there[other_key[j], seen].append(j)
            for i in users:
                seen = a.paired(i) if strict else a.places(i, one)
                candidates = there.get((key[i], seen))
                if candidates:
                    self.pair(i, candidates.popleft())

    def spread(self, keys: Keys, *, strict: bool = True) -> None:
        """Pairs the neighbours of all pairs as `draw` does."""
        for pair in self.beside():
            self.fresh.append(pair)
            self.draw(keys, strict=strict)

    def beside(self) -> list[tuple[int, int]]:
        """The pairs beside ops that are alone, the last first: the others have no use for them."""
        a, b = self.a, self.b
        if -1 not in a.pairs or -1 not in b.pairs:
            return []
        near = {i for one in a.alone() for i in (*a.operands[one], *a.users[one])}
        return [(i, a.pairs[i]) for i in sorted(near, reverse=True) if a.pairs[i] >= 0]

    def replaced(self, same: Keys) -> None:
        """Pairs ops of other opcodes that take the same operands and stand at the same place."""
        a, b = self.a, self.b
        roots = a.computation.root.id, b.computation.root.id
        self.replace(*roots, same)
        pending = deque(self.beside())
        while pending:
            one, other = pending.popleft()
            for i, j in zip(a.operands[one], b.operands[other], strict=False):
                if self.replace(i, j, same):
                    pending.append((i, j))
            there: defaultdict[tuple[int, ...], deque[int]] = defaultdict(deque)
            users = [i for i in a.users[one] if a.pairs[i] < 0]
            for j in b.users[other] if users else ():
                if b.pairs[j] < 0:
                    there[b.places(j, other)].append(j)
            for i in users:
                candidates = there.get(a.places(i, one))
                # One that takes other things besides is not looked at again: each once.
                if candidates and self.replace(i, candidates.popleft(), same):
                    pending.append((i, a.pairs[i]))

    def replace(self, one: int, other: int, same: Keys) -> bool:
        """Pairs two ops of other opcodes if they are alone and alike."""
        if self.a.pairs[one] >= 0 or self.b.pairs[other] >= 0 or not self.alike(one, other):
            return False
        self.pair(one, other)
        self.draw(same)
        return True

    def alike(self, one: int, other: int) -> bool:
        """Whether two ops take the same operands and give the same shape."""
        a, b = self.a, self.b
        shapes = a.computation.ops[one].shape, b.computation.ops[other].shape
        return shapes[0] is shapes[1] and a.paired_all(one) == b.operands[other]
