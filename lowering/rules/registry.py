"""The table of lowering rules: what StableHLO each recorded opcode becomes.

Most ops are one StableHLO operation of the same operands and with one result; they stand in
`DIRECT` by name and take the shortest way. Those of them that have attributes have a function in
`ATTRIBUTES` that translates these; its answer is kept, as ops that say the same share their
attributes; and those that apply computations, which become regions, stand in `APPLIED`. The others
have a rule: a function of the lowering context, the op and its operands' values, that gives the
op's value. An op that is direct except in a few cases (a type that a backend gets wrong) stands in
`DIRECT`, and its rule says when it is to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from builder.computation import XlaComputation
from builder.shape import Shape
from builder.xla_op import XlaOp
from lowering.mlir_attributes import Attribute

if TYPE_CHECKING:
    from lowering.emitter import Emitter

__all__ = [
    "APPLIED",
    "ATTRIBUTES",
    "DIRECT",
    "EXCEPTIONS",
    "RULES",
    "Applied",
    "Region",
    "RegionLike",
    "Rule",
    "Translation",
    "Value",
    "direct",
    "direct_applying",
    "rule",
]

Value = Any
"""An SSA value (see `emitter`), or for a tuple the list of its elements' values."""

Rule = Callable[["Emitter", XlaOp, list[Value]], Value]

Translation = Callable[[Mapping[str, Any]], Mapping[str, Attribute]]


class Region(NamedTuple):
    """What is to stand in a region of an operation: one block.

    Attributes:
        shapes: the shapes of the block's arguments.
        body: takes the arguments, one value for each shape, emits the operations, and gives the
            values that the block ends with.
    """

    shapes: tuple[Shape, ...]
    body: Callable[[list[Value]], Value]


RegionLike = XlaComputation | Region
"""A computation stands for the block whose arguments are its parameters."""


class Applied(NamedTuple):
    """How a direct op applies computations.

    Attributes:
        check: raises if StableHLO can't say this op; asked once for ops that are alike.
        roles: the attributes that are computations, in the order of the operation's regions.
    """

    check: Callable[[XlaOp], None] | None
    roles: tuple[str, ...]


DIRECT: Final[dict[str, str]] = {}
ATTRIBUTES: Final[dict[str, Translation]] = {}
APPLIED: Final[dict[str, Applied]] = {}
RULES: Final[dict[str, Rule]] = {}
EXCEPTIONS: Final[dict[str, Callable[[XlaOp], bool]]] = {}


_T = TypeVar("_T", bound=Translation)


def direct(opcode: str) -> Callable[[_T], _T]:
    """Enters `opcode` as the StableHLO operation of the same name, with translated attributes."""

    def enter(function: _T) -> _T:
        DIRECT[opcode] = f"stablehlo.{opcode}"
        ATTRIBUTES[opcode] = function
        return function

    return enter


def direct_applying(
    opcode: str, *roles: str, check: Callable[[XlaOp], None] | None = None
) -> Callable[[_T], _T]:
    """As `direct`, for an op that applies computations.

    Args:
        opcode: the recorded opcode.
        roles: the attributes that are computations, in the order of the operation's regions.
        check: raises if StableHLO can't say this op. It looks at no more than `when` of a rule.
    """
    APPLIED[opcode] = Applied(check, roles)
    return direct(opcode)


def rule(opcode: str, *, when: Callable[[XlaOp], bool] | None = None) -> Callable[[Rule], Rule]:
    """Enters the decorated function as the rule for `opcode`.

    Args:
        opcode: the recorded opcode.
        when: of an opcode in `DIRECT`, the ops that go by the rule all the same. It looks at
            nothing but the op's shape and attributes and the shape of its first operand, and is
            asked once for ops that are alike in these.
    """

    def enter(function: Rule) -> Rule:
        RULES[opcode] = function
        if when is not None:
            EXCEPTIONS[opcode] = when
        return function

    return enter
