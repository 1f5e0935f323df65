"""The lowering of each opcode: one operation by its schema, or a rule.

Most opcodes become the operation that their schema names, with its attributes and regions. Opcodes
that StableHLO can't always express have a rule: a function of the emitter, the op and its operands'
values that returns the op's value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.support.registration import registrar
from builder.types.shape import ArrayShape, Shape
from lowering.mlir.attributes import Attribute, dense_elements
from lowering.stablehlo.schema_attributes import function_attributes, stablehlo_attributes

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


Value = Any
"""An SSA value (see `emitter`), or for a tuple the list of its elements' values."""

Rule = Callable[["Emitter", XlaOp, list[Value]], Value]


class Region(NamedTuple):
    """The contents of a region of an operation: one block.

    Attributes:
        shapes: the shapes of the block's arguments.
        body: a function of the arguments, one value for each shape, that emits the operations and
            returns the values that the block ends with.
        computation: the computation whose ops the body emits, and whose annotations apply to the
            operation that ends the block; None if there is none.
    """

    shapes: tuple[Shape, ...]
    body: Callable[[list[Value]], Value]
    computation: XlaComputation | None = None


RegionLike = XlaComputation | Region
"""A region; a computation is a region whose block arguments are its parameters."""

RULES: Final[dict[str, Rule]] = {}

EXCEPTIONS: Final[dict[str, Callable[[XlaOp], bool]]] = {}
"""For each opcode whose rule applies to some ops only: a function that selects these ops."""

CHECKS: Final[dict[str, Callable[[XlaOp], None]]] = {}
"""For some opcodes without a rule: a function that raises if StableHLO can't express an op."""


def attributes_of(op: XlaOp) -> Mapping[str, Attribute]:
    """Return the attributes of the StableHLO operation for an op."""
    if op.opcode == "constant":
        assert isinstance(op.shape, ArrayShape)  # checked by inference
        return {"value": dense_elements(op.attributes["value"], op.shape)}
    return stablehlo_attributes(SCHEMAS[op.opcode], op.attributes)


def call_attributes(ctx: Emitter, op: XlaOp) -> dict[str, Attribute]:
    """Return the attributes of the StableHLO operation for an op that calls functions by symbol."""
    functions = function_attributes(SCHEMAS[op.opcode], op.attributes, ctx.functions)
    return {**attributes_of(op), **functions}


def rule(opcode: str, *, when: Callable[[XlaOp], bool] | None = None) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule for `opcode`.

    Args:
        opcode: the recorded opcode.
        when: returns whether an op needs the rule; other ops become one operation. It may depend
            only on the op's shape and attributes and on the shape of its first operand, because it
            is called once for ops that are equal in these.
    """

    def enter(function: Rule) -> Rule:
        RULES[opcode] = function
        if when is not None:
            EXCEPTIONS[opcode] = when
        return function

    return enter


check = registrar(CHECKS)
"""Register the decorated function as the check of opcodes that have no rule.

Like `when` of a rule, it may depend only on the op's shape and attributes, and on the shape of its
first operand.
"""
