"""Errors for values used outside of the computation that they belong to.

A value of an enclosing computation may be used in a callable only if the op supports captures; a
value of a callable can't be used outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import TYPE_CHECKING, Final, NamedTuple

from builder.errors import BuilderError, brief, error_of
from builder.graph.xla_op import constant_value
from builder.schema import Trait, opcodes_with

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder
    from builder.graph.xla_op import XlaOp


class Purpose(NamedTuple):
    """Describes the callable that a builder records, for messages.

    Attributes:
        op: the op that applies the callable, the name of a reusable function, or "replace".
        text: the description of the callable, such as "the body of while_".
    """

    op: str
    text: str

    def __str__(self) -> str:
        return self.text


class _Recording(local):
    """The builders of the callables that this thread is recording, the innermost last."""

    def __init__(self) -> None:
        self.builders: list[XlaBuilder] = []


RECORDING: Final = _Recording()


_AS_ARGUMENT: Final = "pass the value to the function as an argument"

_CAPTURE_FIXES: Final = {
    "computation": _AS_ARGUMENT,
    "jit": _AS_ARGUMENT,
    "map": "pass the value to map as another operand, broadcast to the sizes of the first one",
    "sort": "compute the keys from the value before the sort, and pass them to sort as an operand",
}
"""How to pass a value to a callable that must not capture it, by op."""

_LEAK_FIXES: Final = {
    "the condition of while_": "compute the value in the body, and return it from the body as an "
    "element of the state; the result of while_ is the last state",
    "the body of while_": "return the value from the body as an element of the state, and use "
    "that element of the result of while_",
    "the computation of scan": "return the value from the computation as an output or a carry, and "
    "use that element of the result of scan",
}
"""How to pass a value out of a callable, by the callable's description."""


def foreign_operand(op: str, operands: Sequence[XlaOp]) -> BuilderError:
    """Return the error for operands that one builder can't record together.

    Args:
        op: the public name of the op, for the message.
        operands: the operands. They belong to different builders, or a builder is already built.
    """
    shapes = {f"operand {number}": operand.shape for number, operand in enumerate(operands)}
    is_replacement = any(_is_replacement(operand.builder) for operand in operands)
    for number, operand in enumerate(operands):
        if not is_replacement and _is_recorded(operand.builder):
            return _leaked(op, f"operand {number}", operand)
        if operand.builder.built:
            rule = (
                f"operand {number} belongs to builder {operand.builder.name!r}, which was already "
                "built"
            )
            fix = "record every op before build(), or create a new XlaBuilder"
            got = f"\n  {located(operand)}"
            return error_of(BuilderError, op, rule, fix, got=got, shapes=shapes)
    inner = _inner_builder(operands)
    enclosing = _enclosing(inner)
    outside = [number for number, o in enumerate(operands) if o.builder not in enclosing]
    if enclosing[-1]._purpose is not None and outside:
        return _captured(op, enclosing[-1]._purpose, operands[outside[0]])
    second = outside[0] if outside else len(operands) - 1
    first = next((n for n, o in enumerate(operands) if o.builder in enclosing), 0)
    listed = "\n".join(
        f"  operand {number} of builder {operand.builder.name!r}: {located(operand)}"
        for number, operand in enumerate(operands)
        if number in (first, second)
    )
    rule = "operands belong to different builders"
    fix = (
        "record all operands with one builder; pass the result of another computation as a "
        "parameter"
    )
    return error_of(BuilderError, op, rule, fix, got=f"\n{listed}", shapes=shapes)


def foreign_result(op: str, value: XlaOp, builder: XlaBuilder) -> BuilderError:
    """Return the error for `value`, which the callable recorded by `builder` can't return."""
    if _is_recorded(value.builder):
        return _leaked(op, "the result", value)
    barrier = _enclosing(builder)[-1]
    if barrier._purpose is not None:
        return _captured(op, barrier._purpose, value)
    rule = (
        f"the result belongs to builder {value.builder.name!r}, which is not an enclosing builder "
        f"of {builder.name!r}"
    )
    fix = f"record the value with builder {barrier.name!r}"
    got, shapes = f"\n  {located(value)}", {"result": value.shape}
    return error_of(BuilderError, op, rule, fix, got=got, shapes=shapes)


def foreign_root(root: XlaOp, builder: XlaBuilder) -> BuilderError:
    """Return the error for a root of another builder, passed to the `build` of `builder`."""
    if root.builder._purpose is not None and not _is_replacement(builder):
        return _leaked("build", "the root", root)
    rule = f"the root belongs to builder {root.builder.name!r}, not to {builder.name!r}"
    fix = "build the root with its own builder: root.builder.build(root)"
    got, shapes = f"\n  {located(root)}", {"root": root.shape}
    return error_of(BuilderError, "build", rule, fix, got=got, shapes=shapes)


def _is_replacement(builder: XlaBuilder) -> bool:
    return builder._purpose is not None and builder._purpose.op == "replace"


def _is_recorded(builder: XlaBuilder) -> bool:
    """Return whether `builder` belongs to a callable whose recording has ended."""
    return (
        builder._purpose is not None
        and not _is_replacement(builder)
        and builder not in RECORDING.builders
    )


def _inner_builder(operands: Sequence[XlaOp]) -> XlaBuilder:
    """Return the builder that should record an op on these operands."""
    builders = [operand.builder for operand in operands]
    if RECORDING.builders:
        innermost = RECORDING.builders[-1]
        if any(builder in _enclosing(innermost) for builder in builders):
            return innermost
    return next((b for b in builders if b._purpose is not None), builders[0])


def _enclosing(builder: XlaBuilder) -> list[XlaBuilder]:
    """Return `builder` and the builders whose values it may capture, the outermost last."""
    builders = [builder]
    while builders[-1]._parent is not None:
        builders.append(builders[-1]._parent)
    return builders


def _captured(op: str, purpose: Purpose, value: XlaOp) -> BuilderError:
    """Return the error for a value of another computation used in a callable."""
    rule = f"{purpose} can't use values of another computation"
    got = f"\n  {located(value)}, in {value.builder.name!r}"
    fix = _CAPTURE_FIXES.get(purpose.op)
    constant = constant_value(value)
    if constant is not None and constant.ndim == 0:
        number = brief(constant.item())
        fix = f"write the number {number} in the callable, or record the constant there"
    elif fix is None and "@xb.computation" in purpose.text:
        fix = f"{_AS_ARGUMENT}; only undecorated functions may use values of enclosing builders"
    elif fix is None:
        fix = (
            f"use only the callable's arguments and numbers, and use the value before or after "
            f"{purpose.op}; only callables passed to while_, scan, conditional, call and "
            f"composite_call may use values of the enclosing builder"
        )
    return error_of(BuilderError, op, rule, fix, got=got, shapes={"value": value.shape})


def _leaked(op: str, role: str, value: XlaOp) -> BuilderError:
    """Return the error for a value of a callable that is used outside of the callable."""
    purpose = value.builder._purpose
    assert purpose is not None  # checked by the callers
    # The parameters of a callable have the line of the op that applies it.
    applied = next(iter(value.builder.parameters.values()), None)
    where = "" if applied is None or applied.source is None else f" at {applied.source}"
    rule = f"{role} was recorded in {purpose}{where}, and can't be used outside of it"
    got = f"\n  {located(value)}"
    fix = _LEAK_FIXES.get(purpose.text)
    if fix is None and purpose.op == "conditional":
        fix = "return the value from each branch, and use the result of conditional"
    elif fix is None and purpose.op in opcodes_with(Trait.ON_ELEMENTS):
        # The callable can't return further values.
        fix = "compute the value outside of the callable as well, from values that exist there"
    elif fix is None:
        fix = f"return the value from the function, and use the result of {purpose.op}"
    return error_of(BuilderError, op, rule, fix, got=got, shapes={role: value.shape})


def located(value: XlaOp) -> str:
    """Return the repr of an op, and the line that recorded it."""
    return f"{value!r}" if value.source is None else f"{value!r}, recorded at {value.source}"
