"""The outline of a computation: its ops in groups, for pictures.

A group is a scope, or a run of ops in the order of recording if a level would have too many ops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_element, is_parameter

_MAX_CHILDREN: Final = 40
_RUN: Final = 30
_MAX_DEPTH: Final = 12
_MAX_PORTS: Final = 12
_MAX_PARAMETERS: Final = 20


@dataclass(slots=True, eq=False)
class Group:
    """Ops in a frame.

    Attributes:
        name: the last part of the scope's name, or the numbers of the first and the last op.
        children: the ops and the groups in it, in the order of recording.
        count: the number of ops, including those of the groups in it.
    """

    name: str
    children: list[XlaOp | Group] = field(default_factory=list)
    count: int = 0

    def ops(self) -> Iterator[XlaOp]:
        """Iterate over all ops."""
        for child in self.children:
            if isinstance(child, Group):
                yield from child.ops()
            else:
                yield child

    def summary(self) -> str:
        """Return the three most frequent opcodes with their numbers."""
        counts = Counter(op.opcode for op in self.ops()).most_common()
        texts = [f"{count:,} {opcode}" for opcode, count in counts[:3]]
        return ", ".join(texts) + (", ..." if len(counts) > 3 else "")


Child = XlaOp | Group


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The graph of the children of a group.

    Attributes:
        ports: ops outside of the group that ops in it use; one of them may stand for several.
        children: the children of the group.
        edges: the values that pass from one node to another, by the numbers of the nodes: ports
            come first.
        more_ports: the number of ops that have no port of their own, and share the last one.
    """

    ports: Sequence[XlaOp]
    children: Sequence[Child]
    edges: dict[tuple[int, int], list[XlaOp]]
    more_ports: int


def outline_of(computation: XlaComputation) -> Group:
    """Return the ops of a computation in groups by scopes."""
    return _tidied(_scopes(computation)[()])


def scope_of(computation: XlaComputation, scope: str) -> Group | None:
    """Return the ops in a scope, or None if there is no such scope."""
    group = _scopes(computation).get(tuple(scope.split("/")))
    return None if group is None else _tidied(group)


def _scopes(computation: XlaComputation) -> dict[tuple[str, ...], Group]:
    """Return the group of each scope by the parts of its name; () is the computation."""
    root = Group(computation.name)
    groups: dict[tuple[str, ...], Group] = {(): root}

    def group_of(path: tuple[str, ...]) -> Group:
        found = groups.get(path)
        if found is None:
            found = groups[path] = Group(path[-1])
            group_of(path[:-1]).children.append(found)
        return found

    paths = scopes_of(computation)
    for op in computation.ops:
        group_of(paths[op.id]).children.append(op)
    return groups


_ROOT: Final[tuple[str, ...]] = ()


def scopes_of(computation: XlaComputation) -> list[tuple[str, ...]]:
    """Return the scope of each op, as the parts of its name; a constant is where its users are."""
    paths = []
    constants: dict[int, tuple[str, ...]] = {}
    for op in computation.ops:
        metadata = op.metadata
        name = None if metadata is None else metadata.name
        path = _ROOT
        if name is not None and "/" in name and not _is_argument(op):
            # A hostile name may have many parts, and the functions for groups are recursive.
            path = tuple(name.split("/")[:-1][:_MAX_DEPTH])
        paths.append(path)
        for operand in op.operands:
            if operand.opcode in ("constant", "iota"):
                known = constants.get(operand.id)
                constants[operand.id] = path if known is None else _common(known, path)
    for number, path in constants.items():
        paths[number] = path
    return paths


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    count = 0
    for part, other_part in zip(one, other, strict=False):
        if part != other_part:
            break
        count += 1
    return one[:count]


def _is_argument(op: XlaOp) -> bool:
    """Return whether an op is a parameter, or an element of one.

    A captured value is such an element, and has the name of the value outside of the computation.
    """
    source = op.operands[0] if is_element(op) else op
    return is_parameter(source)


def _tidied(group: Group) -> Group:
    """Merge groups without other ops beside them, count ops, and split long levels into runs."""
    while True:
        inner = [c for c in group.children if isinstance(c, Group)]
        outer = [c for c in group.children if not isinstance(c, Group)]
        # All ops of a jax program are in one scope, which needs no frame beside the parameters.
        if len(inner) != 1 or not all(is_parameter(op) for op in outer):
            break
        name = group.name if outer else f"{group.name}/{inner[0].name}"
        group = Group(name, [*outer, *inner[0].children])
    group.children = [_tidied(c) if isinstance(c, Group) else c for c in group.children]
    group.count = sum(c.count if isinstance(c, Group) else 1 for c in group.children)
    if len(group.children) > _MAX_CHILDREN:
        parameters = [c for c in group.children if _is_parameter(c)]
        others = [c for c in group.children if not _is_parameter(c)]
        first = parameters
        if len(parameters) > _MAX_PARAMETERS:
            first = [Group("parameters", parameters, len(parameters))]
        group.children = [*first, *_runs(others)]
    return group


def _is_parameter(child: Child) -> bool:
    return not isinstance(child, Group) and is_parameter(child)


def _runs(children: list[Child]) -> list[Child]:
    """Put consecutive children into groups of groups, so that no group has too many children."""
    while len(children) > _MAX_CHILDREN:
        runs: list[Child] = []
        for start in range(0, len(children), _RUN):
            run = children[start : start + _RUN]
            count = sum(c.count if isinstance(c, Group) else 1 for c in run)
            runs.append(Group(f"{_first(run[0])} to {_last(run[-1])}", run, count))
        children = runs
    return children


def _first(child: Child) -> str:
    """Return the first name of a run that is called "FIRST to LAST"; the name of another child."""
    return child.name.partition(" to ")[0] if isinstance(child, Group) else f"%{child.id}"


def _last(child: Child) -> str:
    """Return the last name of a run that is called "FIRST to LAST"; the name of another child."""
    return child.name.rpartition(" to ")[2] if isinstance(child, Group) else f"%{child.id}"


def level_of(group: Group) -> Level:
    """Return the graph of the children of a group."""
    owner: dict[int, int] = {}
    for number, child in enumerate(group.children):
        for op in child.ops() if isinstance(child, Group) else (child,):
            owner[op.id] = number
    ports: dict[int, XlaOp] = {}
    uses: dict[tuple[int, int], dict[int, XlaOp]] = {}
    for number, child in enumerate(group.children):
        for op in child.ops() if isinstance(child, Group) else (child,):
            for operand in op.operands:
                producer = owner.get(operand.id)
                if producer is None:
                    ports[operand.id] = operand
                    producer = -1 - operand.id
                if producer != number:
                    uses.setdefault((producer, number), {})[operand.id] = operand
    shown = list(ports.values())
    more = 0
    if len(shown) > _MAX_PORTS:
        more = len(shown) - _MAX_PORTS + 1
        shown = shown[:_MAX_PORTS]
    place = {op: min(place, _MAX_PORTS - 1) for place, op in enumerate(ports)}
    edges: dict[tuple[int, int], list[XlaOp]] = {}
    for (producer, consumer), ops in uses.items():
        begin = place[-1 - producer] if producer < 0 else len(shown) + producer
        edges.setdefault((begin, len(shown) + consumer), []).extend(ops.values())
    return Level(shown, group.children, edges, more)
