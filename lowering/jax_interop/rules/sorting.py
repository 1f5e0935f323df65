"""Sorts."""

from __future__ import annotations

import numpy as np
from jax import lax

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.primitive_type import PrimitiveType
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, Value, rule


def _direction(comparator: XlaComputation, element_type: PrimitiveType) -> str | None:
    """Return "LT" or "GT" for a comparator that orders the first operand totally, or None."""
    root = comparator.root
    if root.opcode != "compare" or set(root.operands) != set(comparator.parameters[:2]):
        return None
    if element_type.is_complex or element_type.bits < 8:
        return None
    if element_type.is_floating and root.attributes["compare_type"] != "TOTALORDER":
        return None
    direction: str = root.attributes["comparison_direction"]
    if direction not in ("LT", "GT"):
        return None
    is_swapped = root.operands[0] is comparator.parameters[1]
    return {"LT": "GT", "GT": "LT"}[direction] if is_swapped else direction


def _key(value: Value, element_type: PrimitiveType, direction: str) -> Value:
    """Return integers whose order is the order in which the elements are sorted."""
    if element_type.is_floating:
        bits = element_type.bits
        integers = np.dtype(f"int{bits}")
        value = lax.bitcast_convert_type(value, integers)
        # The order of the magnitudes of negative numbers is reversed.
        largest = lax.full_like(value, np.iinfo(integers).max)
        is_negative = lax.lt(value, lax.full_like(value, 0))
        value = lax.select(is_negative, lax.bitwise_xor(value, largest), value)
    return value if direction == "LT" else lax.bitwise_not(value)


@rule("sort")
def sort(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    dimension, comparator = attributes["dimension"], attributes["to_apply"]
    element_type = op.operands[0].shape.element_type
    is_tuple = op.shape.is_tuple
    direction = _direction(comparator, element_type)
    if direction is None:
        return pasted(ctx.computation, op)

    def step(*operands: Value) -> Value:
        key = _key(operands[0], element_type, direction)
        is_key = key is operands[0]
        values = operands if is_key else (key, *operands)
        results = lax.sort(
            values, dimension=dimension, is_stable=attributes["is_stable"], num_keys=1
        )
        results = tuple(results if is_key else results[1:])
        return results if is_tuple else results[0]

    return step


@rule("top_k")
def top_k(ctx: Context, op: XlaOp) -> Step:
    element_type = op.operands[0].shape.element_type
    if op.attributes["largest"] and not element_type.is_complex and element_type.bits >= 8:
        k = op.attributes["k"]
        return lambda operand: tuple(lax.top_k(operand, k))
    return pasted(ctx.computation, op)
