"""Rewrites of f8e8m0fnu, the type of scales: powers of two from 2**-127 to 2**127, and NaN."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.schema import SCHEMAS, ResultType
from builder.types import primitive_type as pt
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Value, rewrite

_NAN_CODE: Final = 255

_ARITHMETIC: Final = tuple(
    schema.stablehlo
    for schema in SCHEMAS.values()
    if schema.result is ResultType.OPERAND
    and all(pt.f8e8m0fnu in allowed.types for allowed in schema.element_types.values())
)
"""The functions of one scale, or of two, whose result is a scale."""


@rewrite(
    *_ARITHMETIC,
    "stablehlo.clamp",
    platforms=("cpu",),
)
def arithmetic_of_scales(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute arithmetic on f8e8m0fnu in f64.

    XLA computes in f32. Its CPU backend replaces 2**-127, which is denormal in f32, by 0, and
    converts 0 to NaN. XLA's constant folding drops the sign of a negative result, and converts a
    result of 0 to 2**-127, the smallest number of f8e8m0fnu.

    Shown by: minimum_f8e8m0fnu, divide_f8e8m0fnu, subtract_f8e8m0fnu_constants, chlo_erf_f8e8m0fnu.
    """
    if pt.f8e8m0fnu not in map(b.element_type, operation.operands):
        return None
    operands = [b.on_fixed_sizes([value], lambda v: _as_f64(b, v)) for value in operation.operands]
    shape = b.array_of(operation.results[0]).with_element_type(pt.f64)
    return [_as_scale(b, b(operation.name, shape, operands))]


@rewrite("stablehlo.convert", platforms=("cpu",))
def convert_to_scales(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert floats of up to 32 bits to f32 and others to f64, and round their bits to f8e8m0fnu.

    XLA's constant folding converts 0 to 2**-127, the smallest number of f8e8m0fnu, and drops the
    signs of negative numbers. XLA's backends convert 0 and negative numbers to NaN.

    Shown by: convert_f32_f8e8m0fnu_constants.
    """
    (operand,) = operation.operands
    element_type = b.element_type(operand)
    if b.element_type(operation.results[0]) is not pt.f8e8m0fnu:
        return None
    if element_type is None or element_type.is_complex or element_type is pt.f8e8m0fnu:
        return None
    is_exact = element_type.is_floating and element_type.bits <= 32
    return [_as_scale(b, b.converted(operand, pt.f32 if is_exact else pt.f64))]


@rewrite("stablehlo.convert", platforms=("cpu",))
def scales_as_preds(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert f8e8m0fnu to pred: every element becomes true, because the type has no 0.

    XLA compares the elements with 0 in f32. There, its CPU backend replaces 2**-127, which is
    denormal in f32, by 0.

    Shown by: convert_f8e8m0fnu_pred.
    """
    (operand,) = operation.operands
    types = b.element_type(operand), b.element_type(operation.results[0])
    if types != (pt.f8e8m0fnu, pt.pred):
        return None

    def true(value: Value) -> Value:
        return b.filled(b.array_of(value).with_element_type(pt.pred), True)

    return [b.on_fixed_sizes([operand], true)]


def _as_f64(b: OpBuilder, scales: Value) -> Value:
    """Convert an f8e8m0fnu array of fixed sizes to f64 by shifting its bits, a biased exponent."""
    codes = b.converted(b.bitcast(scales, pt.u8), pt.u64)
    shape = b.array_of(codes)
    exponents = b.elementwise("add", codes, b.filled(shape, 1023 - 127))
    bits = b.elementwise("shift_left", exponents, b.filled(shape, 52))
    is_nan = b.compared("EQ", codes, b.filled(shape, _NAN_CODE))
    return b.bitcast(b.selected(is_nan, b.filled(shape, 0x7FF8 << 48), bits), pt.f64)


def _as_scale(b: OpBuilder, numbers: Value) -> Value:
    return b.on_fixed_sizes([numbers], lambda value: _rounded(b, value))


def _rounded(b: OpBuilder, numbers: Value) -> Value:
    """Round an array of f32 or f64 to the nearest numbers of f8e8m0fnu; ties are rounded up.

    Numbers that are above 2**-127 in f32 become at least 2**-126, as in XLA. Negative numbers, 0
    and numbers that f32 rounds to 0 become NaN.
    """
    is_double = b.array_of(numbers).element_type is pt.f64
    bits = b.bitcast(numbers, pt.u64 if is_double else pt.u32)
    shape = b.array_of(bits)
    mantissa, bias = (52, 1023) if is_double else (23, 127)

    def filled(number: int) -> Value:
        return b.filled(shape, number)

    # As unsigned integers, the bits of negative numbers are greater than those of infinity.
    bits = b.elementwise("minimum", bits, filled((2 * bias + 1) << mantissa))
    half = b.elementwise("add", bits, filled(1 << (mantissa - 1)))
    exponents = b.elementwise("shift_right_logical", half, filled(mantissa))
    exponents = b.elementwise("maximum", exponents, filled(bias - 127))
    codes = b.elementwise("subtract", exponents, filled(bias - 127))
    # f32 has few bits for numbers around 2**-127, the denormal 0x400000 there. XLA rounds all
    # numbers above it up. f32 rounds 2**-150 to 0.
    greatest_least = ((bias - 127) << 52) + (1 << 29) if is_double else 0x400000
    greatest_zero = (bias - 150) << 52 if is_double else 0
    is_least = b.compared("LE", bits, filled(greatest_least))
    codes = b.selected(is_least, filled(0), b.elementwise("maximum", codes, filled(1)))
    is_zero = b.compared("LE", bits, filled(greatest_zero))
    nan = filled(_NAN_CODE)
    codes = b.selected(is_zero, nan, b.elementwise("minimum", codes, nan))
    return b.bitcast(b.converted(codes, pt.u8), pt.f8e8m0fnu)
