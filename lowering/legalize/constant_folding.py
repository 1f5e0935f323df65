"""Rewrites of constants, and of operations on constants that XLA computes incorrectly.

XLA evaluates operations on constants while it compiles, including operations whose operands become
constants in earlier passes. The rewrites replace such an operation by operations that XLA evaluates
correctly. They apply to variables too, because these may become constants in later passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.legalize.op_builder import OpBuilder, integers_of
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, Value, rewrite
from lowering.mlir.types import dense_attribute
from lowering.reading.bytecode_tables import elements_in_bytecode


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


# Indices


@rewrite("stablehlo.dynamic_slice", platforms=(*ALL_PLATFORMS, INTERPRETER))
def dynamic_slice_at_unsigned_indices(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Limit unsigned indices to the last start in bounds, and convert them to signed integers.

    XLA treats an unsigned constant whose highest bit is set as negative: with the index 200 : u8,
    the slice starts at 0. StableHLO's reference interpreter does so with arguments too.

    Shown by: dynamic_slice_at_u8_constant, dynamic_slice_at_u32_constant.
    """
    operand, *starts = operation.operands
    sizes = integers_of(operation, "slice_sizes")
    return _at_signed_starts(b, operation, operand, starts, sizes)


@rewrite("stablehlo.dynamic_update_slice", platforms=(*ALL_PLATFORMS, INTERPRETER))
def dynamic_update_slice_at_u64_indices(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Limit indices of u64 to the last start in bounds, and convert them to signed integers.

    XLA treats constants of u64 from 2**63 on as negative. The reference interpreter does so with
    all unsigned indices whose highest bit is set.

    Shown by: dynamic_update_slice_at_u64_constant.
    """
    operand, update, *starts = operation.operands
    if not starts or not _may_be_treated_as_negative(b, starts[0]):
        return None
    return _at_signed_starts(b, operation, operand, starts, b.array_of(update).dimensions)


def _at_signed_starts(
    b: OpBuilder,
    operation: ir.Operation,
    operand: Value,
    starts: Sequence[Value],
    sizes: Sequence[int],
) -> list[Value] | None:
    """Apply a slicing operation at signed start indices; None if the indices are not unsigned.

    The indices become s32, or s64 if the operand is large.

    Args:
        b: creates the operations.
        operation: the operation; the start indices are its last operands.
        operand: the array.
        starts: the start indices.
        sizes: the sizes of the slice.
    """
    element_type = b.element_type(starts[0]) if starts else None
    if element_type is None or not element_type.is_integral or element_type.is_signed:
        return None
    bounds = b.array_of(operand).dimensions
    limits = [bound - size for bound, size in zip(bounds, sizes, strict=True)]
    signed = pt.s32 if max(limits) <= pt.s32.max else pt.s64
    others = list(operation.operands)[: -len(starts)]
    converted = []
    for start, limit in zip(starts, limits, strict=True):
        if limit < element_type.max:
            start = b.elementwise("minimum", start, b.number(limit, element_type))
        converted.append(b.converted(start, signed))
    return list(b.like(operation, [*others, *converted]).results)


@rewrite("stablehlo.gather", platforms=(*ALL_PLATFORMS, INTERPRETER))
def gather_at_u64_indices(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Limit indices of u64 to the greatest number of s64, and convert them to s64.

    XLA treats constants of u64 from 2**63 on as negative. The reference interpreter does so with
    all unsigned indices whose highest bit is set.

    Shown by: gather_at_u64_constants.
    """
    operand, indices = operation.operands
    if not _may_be_treated_as_negative(b, indices):
        return None
    return list(b.like(operation, [operand, signed_indices(b, indices)]).results)


def signed_indices(b: OpBuilder, indices: Value) -> Value:
    """Convert unsigned indices to s64; indices from 2**63 on become 2**63 - 1."""

    def signed(value: Value) -> Value:
        shape = b.array_of(value)
        if shape.element_type is pt.u64:
            value = b.elementwise("minimum", value, b.filled(shape, pt.s64.max))
        return b.converted(value, pt.s64)

    return b.on_fixed_sizes([indices], signed)


def _may_be_treated_as_negative(b: OpBuilder, index: Value) -> bool:
    element_type = b.element_type(index)
    if element_type is None or not element_type.is_integral or element_type.is_signed:
        return False
    return element_type is pt.u64 or b.target.platform == INTERPRETER


# Comparisons

_NAN_IS_NEGATIVE_ZERO: Final = (pt.f8e5m2fnuz, pt.f8e4m3fnuz, pt.f8e4m3b11fnuz)
"""The types whose NaN has the bits of -0 in other types. XLA orders this NaN before all numbers."""


@rewrite("stablehlo.compare", platforms=ALL_PLATFORMS)
def total_order_of_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compare floats by TOTALORDER as integers that have the same order.

    XLA's constant folding compares constants by FLOAT instead of TOTALORDER: -0 equals 0, and NaN
    is unordered. Comparators of sorts are not rewritten, because XLA does not evaluate sorts of
    constants, and recognizes these comparators.

    Shown by: compare_total_order_f32_constants, compare_total_order_f8e5m2fnuz_constants.
    """
    kind = "compare_type"
    if kind not in operation.attributes or "TOTALORDER" not in str(operation.attributes[kind]):
        return None
    element_type = b.element_type(operation.operands[0])
    if element_type is None or not element_type.is_floating:
        return None
    if operation.parent is not None and operation.parent.name == "stablehlo.sort":
        return None
    keys = (b.on_fixed_sizes([value], lambda v: _order_key(b, v)) for value in operation.operands)
    direction = operation.attributes["comparison_direction"]
    (result,) = operation.results
    return [b("compare", result.type, list(keys), {"comparison_direction": direction})]


def _order_key(b: OpBuilder, value: Value) -> Value:
    """Convert floats of fixed sizes to integers with the same total order."""
    element_type = b.array_of(value).element_type
    if element_type is pt.f8e8m0fnu:  # has no sign
        return b.bitcast(value, pt.u8)
    bits = b.bitcast(value, pt.from_name(f"s{element_type.bits}"))
    if element_type.bits < 8:
        bits = b.converted(bits, pt.s8)
    shape = b.array_of(bits)
    is_negative = b.compared("LT", bits, b.filled(shape, 0))
    if element_type in _NAN_IS_NEGATIVE_ZERO:
        least = b.filled(shape, shape.element_type.min)
        is_nan = b.compared("EQ", bits, least)
        reversed_bits = b.selected(is_nan, least, b.elementwise("subtract", least, bits))
    else:
        magnitude = b.filled(shape, 2 ** (element_type.bits - 1) - 1)
        reversed_bits = b.elementwise("xor", bits, magnitude)
    return b.selected(is_negative, reversed_bits, bits)


@rewrite("stablehlo.clamp", platforms=ALL_PLATFORMS)
def clamp_of_preds(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Clamp preds with the operations `or` and `and`.

    The result should be min(max(operand, lower bound), upper bound). Constant folding returns true
    for the operand true, the lower bound true and the upper bound false.

    Shown by: clamp_of_pred_constants.
    """
    if b.element_type(operation.operands[1]) is not pt.pred:
        return None

    def clamped(operand: Value, low: Value, high: Value) -> Value:
        shape = b.array_of(operand)
        low, high = (
            bound if b.array_of(bound).rank == shape.rank else b.spread(bound, shape)
            for bound in (low, high)
        )
        return b.elementwise("and", b.elementwise("or", operand, low), high)

    low, operand, high = operation.operands
    return [b.on_fixed_sizes([operand, low, high], clamped)]


# Numbers


@rewrite("stablehlo.count_leading_zeros", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def leading_zeros_of_signed(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Count the leading zeros of signed integers after a bitcast to unsigned integers.

    XLA counts the leading zeros of a negative constant in 64 bits, and returns 8 - 64 for -1 : s8.

    Shown by: count_leading_zeros_s8_constant, count_leading_zeros_s32_constant.
    """
    (operand,) = operation.operands
    element_type = b.element_type(operand)
    if element_type is None or not element_type.is_signed:
        return None
    bits = b.bitcast(operand, pt.from_name(f"u{element_type.bits}"))
    return [b.bitcast(b.elementwise("count_leading_zeros", bits), element_type)]


@rewrite(
    "stablehlo.round_nearest_afz",
    "stablehlo.round_nearest_even",
    platforms=(*ALL_PLATFORMS, INTERPRETER),
)
def rounding_of_f8e3m4(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Round f8e3m4 to integers in f32.

    Constant folding returns NaN for most numbers.

    Shown by: round_nearest_afz_f8e3m4_constant, round_nearest_even_f8e3m4_constant.
    """
    return b.in_types(operation, {pt.f8e3m4: pt.f32})


@rewrite("stablehlo.power", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def negative_powers_of_minus_one(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Raise the base -1 to the lowest bit of the exponent, not to the exponent.

    An integer power with a negative exponent is the reciprocal, rounded towards 0. It is 1 or -1
    for the bases 1 and -1, but constant folding returns 0 for the base -1.

    Shown by: power_s32_of_minus_one.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is None or not (element_type.is_integral and element_type.is_signed):
        return None
    exponents = known_elements(operation.operands[1])
    if exponents is not None and (exponents >= 0).all():
        return None

    def power(base: Value, exponent: Value) -> Value:
        shape = b.array_of(base)
        parity = b.elementwise("and", exponent, b.filled(shape, 1))
        is_minus_one = b.compared("EQ", base, b.filled(shape, -1))
        return b.elementwise("power", base, b.selected(is_minus_one, parity, exponent))

    return [b.on_fixed_sizes(operation.operands, power)]


# Conversions

_MAX_F4: Final = 6


@rewrite("stablehlo.convert", platforms=ALL_PLATFORMS)
def convert_of_infinities_to_f4(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Limit floats to -6 and 6, the smallest and the largest number of f4e2m1fn, and convert them.

    The largest number of f4e2m1fn is 6. Greater numbers become 6, and so does infinity, because the
    type has no infinity. But constant folding converts infinities to 0.

    Shown by: convert_f32_f4_constants, convert_bf16_f4_constants.
    """
    (operand,) = operation.operands
    element_type = b.element_type(operand)
    if b.element_type(operation.results[0]) is not pt.f4e2m1fn or element_type is None:
        return None
    if not element_type.is_floating or element_type in (pt.f8e8m0fnu, pt.f4e2m1fn):
        return None
    low, high = (b.number(limit, element_type) for limit in (-_MAX_F4, _MAX_F4))
    limited = b("clamp", b.array_of(operand), [low, operand, high])
    return [b.converted(limited, pt.f4e2m1fn)]


@rewrite("stablehlo.divide", platforms=ALL_PLATFORMS)
def division_of_f4_by_zero(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Divide f4e2m1fn in f32, where the quotient of a number and 0 is infinite.

    The quotient of a number and 0 is infinite. XLA's backends convert the infinity to 6 or -6, but
    constant folding converts it to 0.

    Shown by: divide_f4_constants.
    """
    return b.in_types(operation, {pt.f4e2m1fn: pt.f32})


@rewrite("stablehlo.convert", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def convert_of_nan_scales(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert the NaN of f8e8m0fnu separately.

    Constant folding converts the NaN of f8e8m0fnu to infinity.

    Shown by: convert_f8e8m0fnu_f32_constant.
    """
    (operand,) = operation.operands
    to = b.element_type(operation.results[0])
    if b.element_type(operand) is not pt.f8e8m0fnu or to is None or not to.is_floating:
        return None

    def converted(scales: Value) -> Value:
        codes = b.bitcast(scales, pt.u8)
        is_nan = b.compared("EQ", codes, b.filled(b.array_of(codes), 255))
        numbers = b.converted(scales, to)
        return b.selected(is_nan, b.filled(b.array_of(numbers), np.nan), numbers)

    return [b.on_fixed_sizes([operand], converted)]
