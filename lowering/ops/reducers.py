"""Recognize computations that apply a single op to their two parameters."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types import primitive_type as pt

_MONOIDS: Final = frozenset(o for o, schema in SCHEMAS.items() if schema.monoid is not None)

_LOGICAL: Final = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
"""What the arithmetic of pred is, as XLA defines it."""


def applied_opcode(computation: XlaComputation) -> str | None:
    """Return the commutative opcode that a computation of two scalars applies to them, or None.

    The opcodes of pred are "and", "or" and "xor".

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[()], xb.f32[()])
        ... def total(x, y):
        ...     return y + x
        >>> applied_opcode(total)
        'add'
    """
    root = computation.root
    if root.opcode not in _MONOIDS:
        return None
    if len(computation.parameters) != 2 or set(root.operands) != set(computation.parameters):
        return None
    if root.shape.element_type is pt.pred:
        return _LOGICAL.get(root.opcode, root.opcode)
    return root.opcode


def returns_second(computation: XlaComputation) -> bool:
    """Return whether a computation of two parameters returns the second one."""
    parameters = computation.parameters
    return len(parameters) == 2 and computation.root is parameters[1]


def is_identity(opcode: str, value: XlaOp) -> bool:
    """Return whether an op is the constant with which `opcode` changes no other value.

    -0.0 is not counted for "add": 0.0 is the number with which jax begins a sum.
    """
    if value.opcode != "constant":
        return False
    constant = value.attributes["value"]
    return bool(constant.tobytes() == identity(opcode, value.shape.element_type).tobytes())


def identity(opcode: str, element_type: pt.PrimitiveType) -> np.ndarray[Any, Any]:
    """Return the scalar with which `opcode` changes no value of an element type, other than -0."""
    monoid = SCHEMAS[opcode].monoid
    assert monoid is not None
    return monoid.identity(element_type)
