"""Evaluate comparators on numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from builder.errors import ShapeInferenceError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "convert": lambda operand: operand,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.logical_not,
    "or": np.bitwise_or,
    "select": np.where,
    "subtract": np.subtract,
}


def is_true(computation: XlaComputation, *arguments: Any) -> bool:
    """Return whether a computation of numbers, such as a comparator, returns true.

    Raises:
        ShapeInferenceError: the computation has ops other than comparisons and basic arithmetic.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[()], xb.f32[()])
        ... def less(a, b):
        ...     return a < b
        >>> is_true(less, 1, 2)
        True
    """
    values: dict[XlaOp, Any] = {}
    for op in computation.ops:
        operands = [values[operand] for operand in op.operands]
        if op.opcode == "parameter":
            values[op] = arguments[op.attributes["number"]]
        elif op.opcode == "constant":
            values[op] = op.attributes["value"]
        elif op.opcode == "compare":
            values[op] = _COMPARISONS[op.attributes["comparison_direction"]](*operands)
        elif op.opcode in _FUNCTIONS:
            values[op] = _FUNCTIONS[op.opcode](*operands)
        else:
            rule = f"{computation.name!r} has the op {op.opcode}, which pictures do not evaluate"
            fix = "write the comparator with comparisons of its parameters"
            raise error_of(ShapeInferenceError, "explain", rule, fix)
    return bool(values[computation.root])
