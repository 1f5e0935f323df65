"""The elements of constants, and a rewrite of constants that XLA compiles incorrectly."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite
from lowering.mlir.types import dense_attribute
from lowering.reading.constants import elements_in_bytecode


def known_elements(value: Value) -> np.ndarray[Any, Any] | None:
    """The elements of a constant, or of the constant operand of a broadcast_in_dim.

    A constant of equal elements has one: it may stand for more elements than memory can hold. None
    for other values, and for element types that Python's buffer protocol does not support.
    """
    if isinstance(value, ir.OpResult) and value.owner.name == "stablehlo.broadcast_in_dim":
        value = value.owner.operands[0]
    if not isinstance(value, ir.OpResult) or value.owner.name != "stablehlo.constant":
        return None
    array = _buffer(value.owner.attributes["value"])
    if array is not None and array.ndim and not any(array.strides):
        array = array[(slice(1),) * array.ndim]
    return array


def _buffer(attribute: Any) -> np.ndarray[Any, Any] | None:
    try:
        return np.asarray(memoryview(attribute))
    except (BufferError, TypeError, ValueError):  # ValueError: more bytes than memory can hold
        return None


@rewrite("stablehlo.constant", platforms=ALL_PLATFORMS)
def constant_that_counts_from_negative_zero(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Compute a constant [-0.0, 1, 2, ...] by negating [0.0, -1, -2, ...] behind a barrier.

    XLA replaces a constant that compares equal to an iota by an iota. The iota starts with +0, even
    if the constant starts with -0.

    Shown by: constant_negative_zero_f32, constant_negative_zero_bf16, constant_negative_zero_c64.
    """
    (result,) = operation.results
    shape = b.shape(result)
    if shape is None or shape.rank != 1 or shape.dimensions[0] < 2:
        return None
    if shape.element_type.is_complex:
        array = _complex_count(operation, shape)
    elif shape.element_type.is_floating:
        array = _float_count(b, operation, shape)
    else:
        return None
    if array is None:
        return None
    with b.context:
        opposite = dense_attribute(np.negative(array), result.type)
    hidden = b("optimization_barrier", shape, [b("constant", shape, [], {"value": opposite})])
    return [b("negate", shape, [hidden])]


_MAX_NARROW_COUNT: Final = 2**8 + 1
"""The largest length of a vector [0, 1, 2, ...] that bf16 or an 8-bit type represents exactly."""

_MAX_COMPLEX_COUNT: Final = {pt.c64: 2**24 + 1, pt.c128: 2**53 + 1}
"""The largest length of a vector [0, 1, 2, ...] that each complex type represents exactly."""


def _float_count(
    b: OpBuilder, operation: ir.Operation, shape: ArrayShape
) -> np.ndarray[Any, Any] | None:
    """The elements of a constant [-0.0, 1, 2, ...]; None for other constants."""
    size = shape.dimensions[0]
    array = _buffer(operation.attributes["value"])
    if array is None:
        # MLIR's Python bindings can't read elements of these types, but can compare attributes.
        if size > _MAX_NARROW_COUNT:
            return None
        array = np.array([-0.0, *range(1, size)]).astype(shape.element_type.dtype)
        with b.context:
            if operation.attributes["value"] != dense_attribute(array, b.type(shape)):
                return None
    # Some narrow types have no negative zero.
    return array if np.signbit(array[0]) and _equals_iota(array) else None


def _complex_count(operation: ir.Operation, shape: ArrayShape) -> np.ndarray[Any, Any] | None:
    """The elements of a constant equal to [0, 1, 2, ...] with a negative zero; None for others."""
    if shape.dimensions[0] > _MAX_COMPLEX_COUNT[shape.element_type]:
        return None
    array = elements_in_bytecode(operation, shape)
    if array is None or not _equals_iota(array):
        return None
    is_negative = np.signbit(array.real).any() or np.signbit(array.imag).any()
    return np.array(array) if is_negative else None


def _equals_iota(array: np.ndarray[Any, Any]) -> bool:
    # The first two elements rule out nearly all constants.
    if array.item(0) != 0 or array.item(1) != 1:
        return False
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.array_equal(array, np.arange(array.size))
