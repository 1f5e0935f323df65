"""The expansions of operations, by operation name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from builder.graph.xla_op import XlaOp

Expansion = Callable[[XlaOp, Sequence[XlaOp]], XlaOp | Sequence[XlaOp]]
"""Records an op by other ops: receives the op, for its attributes and shapes, and the operands of
the new ops; returns the result, or the results of an operation with several."""

EXPANSIONS: Final[dict[str, Expansion]] = {}
"""The registered expansions, by the name of the operation."""


def expansion(*names: str) -> Callable[[Expansion], Expansion]:
    """Register the decorated function as the expansion of StableHLO's operations `names`."""

    def register(function: Expansion) -> Expansion:
        for name in names:
            EXPANSIONS[f"stablehlo.{name}"] = function
        return function

    return register
