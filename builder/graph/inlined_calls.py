"""Calls of functions whose ops are recorded in place of the call.

A function may have a derivative that its ops do not have: the ops of a special function are an
approximation that is accurate by cases, and jax defines the derivative of a sort by a rule. An
`InlinedCall` names the function and the ops of its operands and results, and `lowering` uses it
when it differentiates. Like the derivative of `custom_gradient`, it is not part of the program:
lowering and exports ignore it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from builder.types.shape import TupleShape

if TYPE_CHECKING:
    from builder.graph.xla_op import XlaOp


class InlinedCall(NamedTuple):
    """A function of ops, whose results are ops of the same builder.

    Attributes:
        function: a description of the function; `LibraryCall`, or one of `lowering`.
        operands: the ops of its operands.
        results: the ops of its results; None for a result that was not recorded because nothing
            uses it.
    """

    function: Any
    operands: tuple[XlaOp, ...]
    results: tuple[XlaOp | None, ...]

    def members(self) -> list[XlaOp] | None:
        """Return the ops that compute the results from the operands, in the order of recording.

        None if the results depend on other parameters: the computation was cut or edited.
        """
        stack = [op for op in self.results if op is not None]
        if any(op.builder is not stack[0].builder for op in (*stack, *self.operands)):
            return None
        found: set[XlaOp] = set()
        operands = set(self.operands)
        while stack:
            op = stack.pop()
            if op in operands or op in found:
                continue
            if op.opcode in ("parameter", "captured"):
                return None
            found.add(op)
            stack += op.operands
        return sorted(found, key=_position)


def _position(op: XlaOp) -> int:
    return op.id


class LibraryCall(NamedTuple):
    """A function of `builder.lib` with its arguments.

    Attributes:
        name: the name of the function.
        arguments: its arguments by name; in place of an op the number of the operand, as `Operand`.
    """

    name: str
    arguments: dict[str, Any]


class Operand(NamedTuple):
    """The number of an operand of an inlined call, among the arguments of the function."""

    number: int


def needed_ops(
    results: Iterable[XlaOp], calls: Iterable[InlinedCall], given: Iterable[XlaOp] = ()
) -> list[XlaOp]:
    """Return the ops that results and their derivatives depend on, in the order of recording.

    A call needs its operands, those included that only its derivative uses.

    Args:
        results: ops of a computation or a builder.
        calls: its inlined calls.
        given: ops at which the search ends; they are left out.
    """
    operands_of: dict[XlaOp, list[XlaOp]] = {}
    for call in calls:
        for op in call.results:
            if op is not None:
                operands_of.setdefault(op, []).extend(call.operands)
    seen = set(given)
    found = [op for op in dict.fromkeys(results) if op not in seen]
    seen.update(found)
    for op in found:  # grows
        for operand in (*op.operands, *operands_of.get(op, ())):
            if operand not in seen:
                seen.add(operand)
                found.append(operand)
    return sorted(found, key=_position)


def copied_calls(
    calls: Iterable[InlinedCall],
    copy_of: Callable[[XlaOp], XlaOp | None],
    edited: Collection[XlaOp] = (),
) -> list[InlinedCall]:
    """Return the calls between the copies of their operands and results.

    Args:
        calls: calls of a computation.
        copy_of: returns the copy of an op of the computation, or None if it was not copied.
        edited: ops that were replaced by others. A call that contains one is left out.
    """
    copies: list[InlinedCall] = []
    for call in calls:
        operands = tuple([copy for op in call.operands if (copy := copy_of(op)) is not None])
        results = tuple([None if op is None else copy_of(op) for op in call.results])
        if len(operands) < len(call.operands) or all(op is None for op in results):
            continue
        if edited:
            members = call.members()
            if members is None or any(op in edited for op in members):
                continue
        copies.append(InlinedCall(call.function, operands, results))
    return copies


def arrays_of(value: Any) -> list[XlaOp] | None:
    """Return the ops of a function's result: an op that is an array, or several in a tuple.

    None for other results.
    """
    found = list(value) if isinstance(value, tuple) else [value]
    if any(not hasattr(op, "opcode") or isinstance(op.shape, TupleShape) for op in found):
        return None
    return found
