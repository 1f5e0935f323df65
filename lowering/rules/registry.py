"""The table of lowering rules: what StableHLO each recorded opcode becomes.

Most ops are one StableHLO operation of the same operands without attributes; they stand in
`DIRECT` by name and take the shortest way. The others have a rule: a function of the lowering
context, the op and its operands' values, that gives the op's value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from builder.xla_op import XlaOp

if TYPE_CHECKING:
    from lowering.emitter import Emitter

__all__ = ["DIRECT", "RULES", "Rule", "Value", "rule"]

Value = Any
"""An SSA value, or for a tuple the list of its elements' values."""

Rule = Callable[["Emitter", XlaOp, list[Value]], Value]

DIRECT: Final[dict[str, str]] = {}
RULES: Final[dict[str, Rule]] = {}


def rule(opcode: str) -> Callable[[Rule], Rule]:
    """Enters the decorated function as the rule for `opcode`."""

    def enter(function: Rule) -> Rule:
        RULES[opcode] = function
        return function

    return enter
