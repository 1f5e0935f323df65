"""The inlined calls of a computation that are evaluated and differentiated as functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import InlinedCall, copied_calls
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.rewriting.copying import copy_op

_NO_OPS: Final[Mapping[XlaOp, XlaOp]] = MappingProxyType({})


class Outermost(NamedTuple):
    """An inlined call that is not part of another one.

    Attributes:
        function, operands, results: those of the `InlinedCall`.
        members: the ops that compute the results from the operands.
        first: the first of the results, in the order of recording.
        inner: the calls that may be part of this one.
    """

    function: Any
    operands: tuple[XlaOp, ...]
    results: tuple[XlaOp | None, ...]
    members: list[XlaOp]
    first: XlaOp
    inner: Sequence[InlinedCall]


def outermost_calls(calls: Sequence[InlinedCall]) -> list[Outermost]:
    """Return the calls whose ops are complete and that are not part of another call."""
    found: list[Outermost] = []
    taken: set[XlaOp] = set()
    # A call comes after the calls inside it.
    for number in reversed(range(len(calls))):
        call = calls[number]
        results = [op for op in call.results if op is not None]
        if any(op in taken for op in results):
            continue
        members = call.members()
        if not members:
            continue
        first = min(results, key=_position)
        if max(map(_position, call.operands), default=-1) >= first.id:
            continue
        taken.update(members)
        found.append(Outermost(*call, members, first, calls[:number]))
    return found[::-1]


def _position(op: XlaOp) -> int:
    return op.id


def part_of(
    name: str,
    operands: Sequence[XlaOp],
    members: Iterable[XlaOp],
    results: Sequence[XlaOp],
    calls: Sequence[InlinedCall],
    same: Mapping[XlaOp, XlaOp] = _NO_OPS,
) -> XlaComputation:
    """Return a computation of copies of some ops.

    Args:
        name: its name.
        operands: the ops that become its parameters; one may be there several times.
        members: the ops that compute the results from the operands.
        results: the ops of its results; several are a tuple.
        calls: the inlined calls that may be part of it.
        same: for ops that are not copied, the op that takes their place.
    """
    b = XlaBuilder(name)
    values: dict[XlaOp, XlaOp] = {}
    for operand in operands:
        parameter = b.parameter(operand.shape)
        values.setdefault(operand, parameter)
    for op in members:
        if op in same:
            values[op] = values[same[op]]
            continue
        inputs = tuple([values[operand] for operand in op.operands])
        values[op] = copy_op(op, inputs, b, op.attributes)
    b.inlined_calls += copied_calls(calls, values.get)
    roots = [values[op] for op in results]
    return b.build(roots[0] if len(roots) == 1 else record_tuple(b, roots))
