"""Elements of constants, and constants that XLA gets wrong."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.errors import LoweringError
from lowering.importer.constants import elements_in_bytecode
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite
from lowering.mlir.types import dense_attribute

__all__ = ["known_elements"]


def known_elements(value: Value) -> np.ndarray[Any, Any] | None:
    """The elements of the constant that a value is, or is broadcast from.

    Only element types that Python's buffers have are read: None for the others, and if the value is
    computed.
    """
    operation = value.owner
    if isinstance(operation, ir.Block):
        return None
    if operation.name == "stablehlo.broadcast_in_dim":
        operation = operation.operands[0].owner
    if isinstance(operation, ir.Block) or operation.name != "stablehlo.constant":
        return None
    try:
        return np.asarray(memoryview(operation.attributes["value"]))
    except (BufferError, TypeError):
        return None


@rewrite("stablehlo.constant", platforms=ALL_PLATFORMS)
def constant_that_counts_from_negative_zero(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Hide that a constant equals [0, 1, 2, ...] if it has a negative zero.

    XLA replaces a constant that equals an iota by an iota, which begins with +0. The rewrite
    negates the opposite constant behind an optimization barrier.

    Shown by: constant_negative_zero_f32, constant_negative_zero_bf16, constant_negative_zero_c64.
    """
    (result,) = operation.results
    shape = b.shape(result)
    if shape is None or shape.rank != 1:
        return None
    if not (shape.element_type.is_floating or shape.element_type.is_complex):
        return None
    array = _counting_from_negative_zero(b, operation, shape)
    if array is None:
        return None
    with b.context:
        opposite = dense_attribute(np.negative(array), result.type)
    hidden = b("optimization_barrier", shape, [b("constant", shape, [], {"value": opposite})])
    return [b("negate", shape, [hidden])]


_LONGEST_NARROW: Final = 2**8 + 1
"""The longest count in steps of 1 in bf16, and in all types of at most 8 bits."""

_LONGEST_C64: Final = 2**24 + 1
"""The longest count in steps of 1 in c64."""


def _counting_from_negative_zero(
    b: OpBuilder, operation: ir.Operation, shape: ArrayShape
) -> np.ndarray[Any, Any] | None:
    """The elements of a vector that equals [0, 1, 2, ...] and has a negative zero; else None."""
    (size,), element_type = shape.dimensions, shape.element_type
    if size < 2:
        return None
    if element_type.is_complex:
        return _complex_count(operation, shape)
    attribute: Any = operation.attributes["value"]
    try:
        array = np.asarray(memoryview(attribute))
    except (BufferError, TypeError):
        # MLIR's Python bindings give no elements of these types; equal attributes are one object.
        if size > _LONGEST_NARROW:
            return None
        array = np.array([-0.0, *range(1, size)]).astype(element_type.dtype)
        with b.context:
            if attribute != dense_attribute(array, b.type(shape)):
                return None
    # Some narrow types have no negative zero.
    return array if np.signbit(array[0]) and _equals_iota(array) else None


def _complex_count(operation: ir.Operation, shape: ArrayShape) -> np.ndarray[Any, Any] | None:
    if shape.element_type is pt.c64 and shape.dimensions[0] > _LONGEST_C64:
        return None
    try:
        array = elements_in_bytecode(operation, shape)
    except LoweringError:
        return None
    if not _equals_iota(array):
        return None
    is_negative = np.signbit(array.real).any() or np.signbit(array.imag).any()
    return np.array(array) if is_negative else None


def _equals_iota(array: np.ndarray[Any, Any]) -> bool:
    # The first two elements exclude nearly all constants.
    if array.item(0) != 0 or array.item(1) != 1:
        return False
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.array_equal(array, np.arange(array.size))
