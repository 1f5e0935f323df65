"""Elementwise ops that XLA gets wrong, or that a platform lacks."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.legalize.constants import known_elements
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import (
    ALL_PLATFORMS,
    ARTIFACT,
    INTERPRETER,
    Value,
    refuse,
    rewrite,
)
from lowering.mlir.types import shape_of_type


@rewrite("stablehlo.add", platforms=ALL_PLATFORMS)
def add_of_preds(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Add preds as their logical or.

    The sum of preds is their or, and the backends compute it so. Constant folding adds modulo 2:
    true + true is false.

    Shown by: add_of_pred_constants.
    """
    (result,) = operation.results
    if b.element_type(result) is not pt.pred:
        return None
    return [b("or", result.type, operation.operands)]


@rewrite("stablehlo.maximum", "stablehlo.minimum", platforms=ALL_PLATFORMS)
def order_of_complex_numbers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Order complex numbers by their real parts, and equal ones by their imaginary parts.

    XLA compares the real parts alone, and gives either operand where these are equal.

    Shown by: maximum_c64.
    """
    lhs, rhs = operation.operands
    element_type = b.element_type(lhs)
    if element_type is None or not element_type.is_complex:
        return None
    shape = b.array_of(lhs).with_element_type(element_type.real_type)
    direction = "GT" if operation.name == "stablehlo.maximum" else "LT"
    (real, imag), (other_real, other_imag) = (
        [b(part, shape, [value]) for part in ("real", "imag")] for value in (lhs, rhs)
    )
    first = b.selected(
        b.compared("EQ", real, other_real),
        b.compared(direction, imag, other_imag),
        b.compared(direction, real, other_real),
    )
    return [b.selected(first, lhs, rhs)]


@rewrite("stablehlo.popcnt", platforms=("cpu",))
def popcnt_of_narrow_signed(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Count the bits of s2 and s4 as unsigned integers.

    XLA sign-extends the elements to 8 bits, and counts the copies of the sign bit too. Of s2 it
    does so in constants.

    Shown by: popcnt_s4, popcnt_s2_constant.
    """
    (operand,) = operation.operands
    element_type = b.element_type(operand)
    if element_type not in (pt.s2, pt.s4):
        return None
    bits = b.bitcast(operand, pt.u4 if element_type is pt.s4 else pt.u2)
    return [b.bitcast(b("popcnt", b.array_of(bits), [bits]), element_type)]


@rewrite("stablehlo.convert", platforms=ALL_PLATFORMS)
def convert_of_complex(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert complex numbers to others by way of the real part.

    Folding the conversion of a scalar or splat constant ends the process.

    Shown by: convert_c64_constant, convert_c128_splat_constant.
    """
    operand = operation.operands[0]
    shape = b.shape(operand)
    if shape is None or not shape.element_type.is_complex:
        return None
    to = b.array_of(operation.results[0]).element_type
    if to.is_complex:
        return None
    real = b("real", shape.with_element_type(shape.element_type.real_type), [operand])
    return [b.converted(real, to)]


@rewrite("stablehlo.convert", platforms=("cpu",))
def convert_of_f4_to_integers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert f4e2m1fn to integers by way of f32.

    XLA takes the largest number, 6, for an infinity, and gives the largest integer.

    Shown by: convert_f4_s32.
    """
    operand = operation.operands[0]
    if b.element_type(operand) is not pt.f4e2m1fn:
        return None
    to = b.array_of(operation.results[0]).element_type
    return [b.converted(b.converted(operand, pt.f32), to)] if to.is_integral else None


@rewrite("stablehlo.convert", platforms=("cpu",))
def convert_of_four_bits_to_eight(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert s4 to s8 and u4 to u8 by way of 32 bits.

    The CPU backend computes 4-bit integers in 8 bits and wraps them where they are stored or
    converted. It leaves that out of a conversion to 8 bits: 7 + 7 : s4 gives 14, not -2.

    Shown by: convert_s4_s8_computed, convert_u4_u8_computed.
    """
    operand = operation.operands[0]
    source = b.element_type(operand)
    if source is not pt.s4 and source is not pt.u4:
        return None
    to = b.array_of(operation.results[0]).element_type
    if to is not (pt.s8 if source is pt.s4 else pt.u8):
        return None
    return [b.converted(b.converted(operand, pt.s32 if source is pt.s4 else pt.u32), to)]


@rewrite("stablehlo.divide", "stablehlo.remainder", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def integer_division(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Divide by 1 where an integer divisor is 0, and select the result afterwards.

    Folding an integer division by zero divides, and a signal ends the process. The divisor need
    not be a constant in the module: it may fold to 0, as x - x does. The result is that of XLA
    where it does not fold: all bits set for a quotient, the dividend for a remainder.

    Shown by: divide_by_zero_constant, divide_by_zero_folded, remainder_by_zero_constant.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is None or not element_type.is_integral:
        return None
    divisors = known_elements(operation.operands[1])
    if divisors is not None and divisors.all():
        return None

    def divided(dividend: Value, divisor: Value) -> Value:
        shape = b.array_of(dividend)
        is_zero = b.compared("EQ", divisor, b.filled(shape, 0))
        divisor = b.selected(is_zero, b.filled(shape, 1), divisor)
        result = b(operation.name, shape, [dividend, divisor])
        if operation.name == "stablehlo.remainder":
            return b.selected(is_zero, dividend, result)
        ones = -1 if element_type.is_signed else element_type.max
        return b.selected(is_zero, b.filled(shape, ones), result)

    return [b.on_fixed_sizes(operation.operands, divided)]


@rewrite("stablehlo.power", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def power_of_bytes(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Raise s8 and u8 to a power by digits of the exponent in base 64.

    XLA looks at the low 6 bits of an exponent: 2 to the 64 is 1, not 0. (An odd base of 8 bits to
    the 64 is 1.)

    Shown by: power_s8_64.
    """
    return _power_by_digits(b, operation, (pt.s8, pt.u8))


@rewrite("stablehlo.power", platforms=ALL_PLATFORMS)
def power_of_integers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Raise integers to a power by digits of the exponent in base 64.

    XLA looks at the low 6 bits of an exponent, since jaxlib 0.12 for odd bases only: 3 to the 64
    is 1.

    Shown by: power_s32_odd_64.
    """
    wide = (pt.s16, pt.s32, pt.s64, pt.u16, pt.u32, pt.u64)
    return _power_by_digits(b, operation, wide)


def _power_by_digits(
    b: OpBuilder, operation: ir.Operation, types: tuple[PrimitiveType, ...]
) -> list[Value] | None:
    """A power of integers, modulo their width, unless the exponent is known to be below 64.

    It is the product of base**digit0, (base**64)**digit1, and so on. A negative exponent is the
    lowest digit, and the others are 0.
    """
    element_type = b.element_type(operation.results[0])
    if element_type not in types:
        return None
    exponents = known_elements(operation.operands[1])
    if exponents is not None and (exponents < 64).all():
        return None
    digits = -(-(element_type.bits - element_type.is_signed) // 6)

    def power(base: Value, exponent: Value) -> Value:
        shape = b.array_of(base)
        low = b("and", shape, [exponent, b.filled(shape, 63)])
        digit = b("minimum", shape, [exponent, low])
        result = b("power", shape, [base, digit])
        positive = b("maximum", shape, [exponent, b.filled(shape, 0)])
        rest = b("shift_right_logical", shape, [positive, b.filled(shape, 6)])
        state = [base, rest, result]
        if b.target.num_partitions == 1 and _may_loop(b.before):
            return _while_digits_are_left(b, state)
        for _ in range(1, digits):
            state = _with_next_digit(b, state)
        return state[-1]

    return [b.on_fixed_sizes(operation.operands, power)]


_AROUND_LOOPS: Final = ("stablehlo.while", "stablehlo.if", "stablehlo.case")


def _may_loop(operation: ir.Operation) -> bool:
    """Whether a loop may be in the operation's place: XLA aborts on loops in reducers.

    A function may be called in a reducer, unless it is @main.
    """
    parent = operation.parent
    while parent is not None and parent.name in _AROUND_LOOPS:
        parent = parent.parent
    if parent is None or parent.name != "func.func":
        return False
    name = ir.StringAttr(parent.attributes["sym_name"]).value
    return name == "main" or bool(ir.RankedTensorType(operation.results[0].type).rank)


def _with_next_digit(b: OpBuilder, state: list[Value]) -> list[Value]:
    """The base to the 64, the digits left of the exponent, and the product with one digit more."""
    base, rest, result = state
    shape = b.array_of(base)
    for _ in range(6):
        base = b("multiply", shape, [base, base])
    digit = b("and", shape, [rest, b.filled(shape, 63)])
    result = b("multiply", shape, [result, b("power", shape, [base, digit])])
    return [base, b("shift_right_logical", shape, [rest, b.filled(shape, 6)]), result]


def _while_digits_are_left(b: OpBuilder, state: list[Value]) -> Value:
    """The product when the digits of all elements are used up, mostly at once."""
    shapes = [b.array_of(value) for value in state]
    loop = b.create("while", shapes, state, regions=2)
    condition, (_, rest, _) = b.block_in(loop.regions[0], shapes)
    is_left = condition.compared("NE", rest, condition.filled(shapes[1], 0))
    if shapes[1].rank:
        is_left = condition.reduced(is_left, range(shapes[1].rank), False, "or")
    condition.end([is_left])
    body, values = b.block_in(loop.regions[1], shapes)
    body.end(_with_next_digit(body, values))
    return loop.results[-1]


@rewrite("stablehlo.slice", platforms=ALL_PLATFORMS)
def slice_of_long_stride(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Shorten the strides of a slice that reach beyond its end.

    XLA adds the stride to the size of the slice, and the sum overflows.

    Shown by: slice_long_stride.
    """
    strides = list(ir.DenseI64ArrayAttr(operation.attributes["strides"]))
    if max(strides, default=1) < 2**31:
        return None
    starts, limits = (
        list(ir.DenseI64ArrayAttr(operation.attributes[name]))
        for name in ("start_indices", "limit_indices")
    )
    sizes = [limit - start for start, limit in zip(starts, limits, strict=True)]
    short = [min(stride, max(size, 1)) for stride, size in zip(strides, sizes, strict=True)]
    return list(b.like(operation, operation.operands, attributes={"strides": short}).results)


TRANSCENDENTAL: Final = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh")
"""Operations of CHLO and MHLO that are expanded to sums and products."""


@rewrite(*(f"mhlo.{name}" for name in TRANSCENDENTAL), platforms=ALL_PLATFORMS)
def mhlo_function(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace functions of MHLO by those of CHLO.

    jaxlib converts HLO text to operations of MHLO. XLA has no code for those of real numbers in
    0.10, and 0.12 aborts on those of complex numbers. CHLO has the same functions.

    Shown by: mhlo_acos_f32, mhlo_sinh_c64.
    """
    name = operation.name.replace("mhlo", "chlo")
    return [b(name, operation.results[0].type, operation.operands)]


@rewrite(*(f"chlo.{name}" for name in TRANSCENDENTAL), platforms=(*ALL_PLATFORMS, INTERPRETER))
def function_of_narrow_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute functions of floats of at most 8 bits in f32.

    CHLO's functions are expanded to sums and products in the type of the operand, and each of them
    is rounded: asin(1) : f8e8m0fnu gives NaN. XLA 0.12 compiles some of these expansions for
    minutes.

    Shown by: chlo_asin_f8e8m0fnu, chlo_asinh_f8e4m3.
    """
    return _in_f32(b, operation)


@rewrite("chlo.erf", platforms=(INTERPRETER, ARTIFACT))
def erf_of_narrow_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute erf of floats of at most 8 bits in f32.

    CHLO's expansion of erf to StableHLO has no such types.
    """
    return _in_f32(b, operation)


def _in_f32(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    (operand,) = operation.operands
    shape = b.shape(operand)
    if shape is None or shape.element_type.bits > 8:
        return None
    wide = b(operation.name, shape.with_element_type(pt.f32), [b.converted(operand, pt.f32)])
    return [b.converted(wide, shape.element_type)]


@rewrite("chlo.mulhi", platforms=("cpu",))
def mulhi_of_four_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute mulhi of at most 4 bits by a product in 32 bits.

    The CPU backend computes 4-bit integers in 8 bits, and gives the upper half of these.

    Shown by: chlo_mulhi_s4.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is None or element_type.bits > 4:
        return None
    return _by_wider_product(b, operation)


@rewrite("chlo.mulhi", platforms=("cpu",), fixed_in=(0, 12))
def mulhi_of_signed(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute mulhi of signed integers by a product of twice the width.

    The CPU backend can't fuse mulhi of signed integers with other operations.

    Shown by: chlo_mulhi_s32_fused, chlo_mulhi_s64_fused.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is None or not element_type.is_signed or element_type.bits <= 4:
        return None
    if element_type.bits < 64:
        return _by_wider_product(b, operation)
    return [b.on_fixed_sizes(operation.operands, lambda x, y: _by_halves(b, x, y))]


def _by_wider_product(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    def mulhi(*factors: Value) -> Value:
        narrow = b.array_of(factors[0]).element_type
        kind = "s" if narrow.is_signed else "u"
        wide = pt.from_name(f"{kind}{max(2 * narrow.bits, 32)}")
        shape = b.array_of(factors[0]).with_element_type(wide)
        product = b("multiply", shape, [b.converted(factor, wide) for factor in factors])
        shift = "shift_right_arithmetic" if narrow.is_signed else "shift_right_logical"
        return b.converted(b(shift, shape, [product, b.filled(shape, narrow.bits)]), narrow)

    return [b.on_fixed_sizes(operation.operands, mulhi)]


def _by_halves(b: OpBuilder, x: Value, y: Value) -> Value:
    """The upper half of a product of s64, from those of its halves; the lower are unsigned."""
    shape = b.array_of(x)
    by, mask = b.filled(shape, 32), b.filled(shape, 2**32 - 1)

    def emit(name: str, *values: Value) -> Value:
        return b(name, shape, values)

    def upper(value: Value) -> Value:
        return emit("shift_right_arithmetic", value, by)

    (low_x, high_x), (low_y, high_y) = ((emit("and", v, mask), upper(v)) for v in (x, y))
    carried = emit("shift_right_logical", emit("multiply", low_x, low_y), by)
    middle = emit("add", emit("multiply", high_x, low_y), carried)
    other = emit("add", emit("multiply", low_x, high_y), emit("and", middle, mask))
    above = emit("add", emit("multiply", high_x, high_y), upper(middle))
    return emit("add", above, upper(other))


@rewrite("mhlo.stochastic_convert", platforms=ALL_PLATFORMS)
def stochastic_convert_of_narrow_floats(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Round floats of at most 8 bits at random in f32.

    XLA computes the fraction, times 2 to the number of random bits, in the type of the operand,
    which may not hold it: 2**8 is an infinity in f8e3m4.

    Shown by: stochastic_convert_f8e3m4.
    """
    value, random = operation.operands
    bits = b.element_type(random)
    if bits is None or bits.bits > 8:
        return None

    def high(narrow: Value) -> Value:
        """The random bits as the highest of 32; the others are set, so that less stays less."""
        wide = b.converted(narrow, pt.u32)
        shape = b.array_of(wide)
        places = 32 - bits.bits
        shifted = b("shift_left", shape, [wide, b.filled(shape, places)])
        return b("or", shape, [shifted, b.filled(shape, 2**places - 1)])

    operands = [b.converted(value, pt.f32), b.on_fixed_sizes([random], high)]
    return [b("mhlo.stochastic_convert", operation.results[0].type, operands)]


def _gives_signed_integers(operation: ir.Operation) -> bool:
    shape = shape_of_type(operation.results[0].type)
    if not isinstance(shape, ArrayShape):
        return False
    return shape.element_type.is_integral and shape.element_type.is_signed


refuse(
    "mhlo.stochastic_convert",
    "cpu",
    "gpu",
    reason="XLA's compiler for it rounds at random to signed integers only",
    fix="convert to signed integers, or add the random bits below those that are kept, by "
    "xb.bitcast_convert_type, and cut them off by xb.reduce_precision",
    unless=_gives_signed_integers,
)


def _is_not_of_f64(operation: ir.Operation) -> bool:
    shape = shape_of_type(operation.results[0].type)
    return not (isinstance(shape, ArrayShape) and shape.element_type is pt.f64)


refuse(
    "stablehlo.reduce_precision",
    "tpu",
    reason="XLA has none of f64 there, whose numbers are pairs of f32",
    fix="convert to f32 before it, with xb.convert_element_type",
    unless=_is_not_of_f64,
)
