"""Rewrites of elementwise ops that XLA compiles incorrectly, or does not support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.version import __version_info__ as jaxlib_version

from builder.schema import SCHEMAS
from builder.schema.definition import COMPLEX
from builder.schema.kinds import ACCURACY
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.legalize.constant_folding import known_elements
from lowering.legalize.op_builder import F32_FOR_NARROW_FLOATS, OpBuilder, integers_of
from lowering.legalize.registry import ALL_PLATFORMS, ARTIFACT, INTERPRETER, Value, refuse, rewrite
from lowering.mlir.operations import CONTROL_FLOW, enclosing, symbol_name
from lowering.mlir.types import shape_of_type

# Before jaxlib 0.12, the CPU backend computes log_plus_one of f64 inaccurately, and these functions
# by it. `legalize` rewrites only the real functions.
_FROM_LOG_PLUS_ONE: Final = tuple((name, pt.c128) for name in ("log_plus_one", "atanh", "log"))
_ON_CPU: Final = dict.fromkeys(_FROM_LOG_PLUS_ONE, 256.0) if jaxlib_version < (0, 12) else {}

INACCURATE: Final = {"cpu": _ON_CPU}
"""The permitted errors in units in the last place, by platform, then by (opcode, element type).

No rewrite avoids these errors, so `lowering.compare` permits them.
"""


BROADCASTING: Final = (
    "add atan2 compare divide maximum minimum multiply power remainder select subtract".split()
)
"""StableHLO operations that have rewrites, and a CHLO counterpart that broadcasts its operands."""


@rewrite(*(f"chlo.broadcast_{name}" for name in BROADCASTING), platforms=ALL_PLATFORMS)
def broadcasting_of_chlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Broadcast the operands, and apply the operation of StableHLO.

    When XLA reads a module, it expands these operations of CHLO in the same way as the rewrite. So
    XLA's defects in operations of StableHLO affect them too, but the rewrites for the defects match
    only StableHLO.

    Shown by: chlo_broadcast_divide_by_zero, chlo_broadcast_power_s32_odd_64.
    """
    (result,) = operation.results
    target = b.shape(result)
    if target is None:
        return None
    operands = []
    for operand in operation.operands:
        shape = b.array_of(operand)
        sizes = shape.dimensions, shape.dynamic_dimensions
        if sizes != (target.dimensions, target.dynamic_dimensions):
            if not (shape.is_static and target.is_static):
                return None
            places: Sequence[int] = range(target.rank - shape.rank, target.rank)
            if shape.rank < target.rank:
                places = integers_of(operation, "broadcast_dimensions", places)
            operand = b.spread(operand, target, places)
        operands.append(operand)
    # The enum attributes of CHLO have the same cases as those of StableHLO.
    attributes = {
        name: str(operation.attributes[name]).replace("#chlo<", "#stablehlo<")
        for name in ("comparison_direction", "compare_type")
        if name in operation.attributes
    }
    name = operation.name.removeprefix("chlo.broadcast_")
    return [b(name, result.type, operands, attributes)]


@rewrite("stablehlo.add", platforms=ALL_PLATFORMS)
def add_of_preds(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace an addition of preds by `or`.

    The sum of preds is their logical or, and XLA's backends compute it as such. Constant folding
    adds modulo 2 instead: true + true is false.

    Shown by: add_of_pred_constants.
    """
    if b.element_type(operation.results[0]) is not pt.pred:
        return None
    return [b.elementwise("or", *operation.operands)]


@rewrite("stablehlo.maximum", "stablehlo.minimum", platforms=ALL_PLATFORMS, adds=COMPLEX)
def order_of_complex_numbers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compare complex numbers by their real parts, then by their imaginary parts.

    XLA compares only the real parts in maximum and minimum, and returns either operand if these are
    equal.

    Shown by: maximum_c64.
    """
    lhs, rhs = operation.operands
    element_type = b.element_type(lhs)
    if element_type is None or not element_type.is_complex:
        return None
    direction = "GT" if operation.name == "stablehlo.maximum" else "LT"
    (lhs_real, lhs_imag), (rhs_real, rhs_imag) = b.parts(lhs), b.parts(rhs)
    selects_lhs = b.selected(
        b.compared("EQ", lhs_real, rhs_real),
        b.compared(direction, lhs_imag, rhs_imag),
        b.compared(direction, lhs_real, rhs_real),
    )
    return [b.selected(selects_lhs, lhs, rhs)]


@rewrite("stablehlo.maximum", "stablehlo.minimum", platforms=("cpu",))
def extremes_of_nan_operands(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Select the operand that is NaN.

    XLA's CPU backend calls YNNPACK for reductions of many elements, together with the elementwise
    operations before them. A maximum or minimum is then the second operand if one operand is NaN.
    Both operations convert f16 and bf16 to f32 and back on CPUs, so the rewrite converts once.

    Shown by: sum_of_maximum_f32_nan.
    """
    result = b.shape(operation.results[0])
    floats = (pt.f16, pt.bf16, pt.f32, pt.f64)
    if result is None or not result.rank or result.element_type not in floats:
        return None
    kind = result.element_type
    wide = pt.f32 if kind in (pt.f16, pt.bf16) else kind
    operands = [b.converted(operand, wide) for operand in operation.operands]
    value = b.elementwise(operation.name, *operands)
    for operand, number in dict(zip(operation.operands, operands, strict=True)).items():
        elements = known_elements(operand)
        if elements is None or np.isnan(elements).any():
            value = b.selected(b.compared("NE", number, number), number, value)
    return [b.converted(value, kind)]


@rewrite("stablehlo.compare", platforms=("cpu",), fixed_in=(0, 12))
def comparison_of_indices(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Compare the difference of two iotas with 0.

    If a comparison of two iotas selects between the elements of an array and of its transpose,
    LLVM takes minutes to compile the loop, and may end the process: for bf16[2048,2048], it ended
    after three minutes.

    Shown by: select_by_iotas.
    """
    lhs, rhs = operation.operands
    shape = b.shape(lhs)
    if shape is None or not shape.is_static or not shape.element_type.is_signed:
        return None
    if not (_has_indices(b, lhs) and _has_indices(b, rhs)):
        return None
    operation.operands[0] = b.elementwise("subtract", lhs, rhs)
    operation.operands[1] = b.filled(shape, 0)
    return operation.results


_KEEPING_NUMBERS: Final = tuple(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "convert", "reshape", "transpose")
)


def _has_indices(b: OpBuilder, value: Value) -> bool:
    """Whether a value is an iota, or made of one by conversions and moves of its elements.

    All element types must have all indices: differences of numbers that wrapped around may have the
    opposite sign, and those of infinities are NaN. Of types of 8 bits there are not enough indices
    for the defect.
    """
    types = []
    while isinstance(value, ir.OpResult):
        shape = b.shape(value)
        if shape is None:
            return False
        types.append(shape.element_type)
        if value.owner.name == "stablehlo.iota":
            last = max(shape.dimensions) - 1
            return all(not t.is_complex and t.bits >= 16 and last <= t.max for t in types)
        if value.owner.name not in _KEEPING_NUMBERS:
            return False
        value = value.owner.operands[0]
    return False


@rewrite("stablehlo.atan2", platforms=ALL_PLATFORMS)
def atan2_of_complex_numbers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute the atan2 of complex numbers from products of their parts.

    XLA computes -i log((x + i y) / sqrt(x x + y y)). The squares overflow: the result is NaN at
    large and infinite numbers.

    Shown by: atan2_c64_large.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is None or not element_type.is_complex:
        return None
    return [b.on_fixed_sizes(operation.operands, lambda y, x: _complex_atan2(b, y, x))]


def _complex_atan2(b: OpBuilder, y: Value, x: Value) -> Value:
    """With p = x + i y and q = x - i y: -i (log(p) - log(p q) / 2), without overflow.

    The imaginary part is log(|q| / |p|) / 2. The real part is half of the angle between p and q,
    or differs from it by pi.
    """
    emit = b.elementwise
    (c, d), (a, e) = _scaled_parts(b, x, y)
    shape = b.array_of(a)
    bits = shape.element_type.bits

    def number(value: float) -> Value:
        return b.filled(shape, value)

    def is_zero(value: Value) -> Value:
        return b.compared("EQ", value, number(0))

    def products(u: Value, v: Value, w: Value, z: Value, name: str) -> Value:
        return emit(name, emit("multiply", u, v), emit("multiply", w, z))

    p_real, p_imag = emit("subtract", c, e), emit("add", d, a)
    q_real, q_imag = emit("add", c, e), emit("subtract", d, a)
    # p times the conjugate of q, and p q
    between = (
        products(p_real, q_real, p_imag, q_imag, "add"),
        emit("multiply", number(2), products(a, c, e, d, "add")),
    )
    total = (
        products(p_real, q_real, p_imag, q_imag, "subtract"),
        products(p_real, q_imag, p_imag, q_real, "add"),
    )
    p_angle, q_angle = emit("atan2", p_imag, p_real), emit("atan2", q_imag, q_real)
    half = emit("multiply", emit("atan2", between[1], between[0]), number(0.5))
    quarter = number(math.pi / 2)
    opposite = b.selected(
        b.compared("GT", p_angle, q_angle), quarter, emit("negate", quarter)
    )  # an angle of pi has no sign
    is_opposite = emit("and", is_zero(between[1]), b.compared("LT", between[0], number(0)))
    half = b.selected(is_opposite, opposite, half)
    # The sum or the difference of the angles, whichever may exceed pi, does if its sine has the
    # other sign.
    p_below, q_below = (b.compared("LT", angle, number(0)) for angle in (p_angle, q_angle))
    differ = emit("xor", p_below, q_below)
    cosine, sine = (b.selected(differ, *pair) for pair in zip(between, total, strict=True))
    sine = b.selected(p_below, emit("negate", sine), sine)
    exceeds = emit(
        "or",
        b.compared("LT", sine, number(0)),
        emit("and", is_zero(sine), b.compared("GT", cosine, number(0))),
    )
    for angle in (p_angle, q_angle):
        exceeds = emit("and", exceeds, b.compared("NE", angle, number(0)))
    is_above = emit("or", b.compared("GT", half, number(0)), emit("and", is_zero(half), p_below))
    pi = number(math.pi)
    shifted = b.selected(is_above, emit("subtract", half, pi), emit("add", half, pi))
    real = b.selected(exceeds, shifted, half)
    # |q|**2 = |p|**2 + 4 excess; the smaller one is the divisor.
    excess = products(c, e, d, a, "subtract")
    grows = b.compared("GE", excess, number(0))
    sides = [(p_real, q_real), (p_imag, q_imag)]
    u, v = (emit("abs", b.selected(grows, p, q)) for p, q in sides)
    large, small = emit("maximum", u, v), emit("minimum", u, v)
    ratio = b.selected(is_zero(large), number(0), emit("divide", small, large))
    quotient = emit("multiply", number(4), emit("abs", excess))
    quotient = emit("divide", quotient, emit("add", number(1), emit("multiply", ratio, ratio)))
    # Near the poles of the function, the square of the divisor would underflow.
    twice = emit("multiply", number(2), emit("log", large))
    near = emit("subtract", emit("log", quotient), twice)
    far = emit("divide", emit("divide", quotient, large), large)
    is_near = b.compared("LT", large, number(1e-6 if bits == 32 else 1e-12))
    logarithm = b.selected(is_near, near, emit("log_plus_one", far))
    logarithm = b.selected(is_zero(quotient), number(0), logarithm)  # also of atan2(0, 0)
    imaginary = emit("multiply", logarithm, number(0.25))
    imaginary = b.selected(grows, imaginary, emit("negate", imaginary))
    return b("complex", b.array_of(y), [real, imaginary])


def _scaled_parts(b: OpBuilder, *values: Value) -> list[tuple[Value, Value]]:
    """Return the parts of complex numbers, divided by the power of two below the largest part.

    If parts are infinite, they become 1, and the others 0, with their signs.
    """
    emit = b.elementwise
    pairs = [b.parts(value) for value in values]
    parts = [part for pair in pairs for part in pair]
    shape = b.array_of(parts[0])
    width = shape.element_type.bits
    sizes = [emit("abs", part) for part in parts]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = emit("maximum", largest, size)
    unsigned = pt.from_name(f"u{width}")
    mask = b.filled(
        shape.with_element_type(unsigned), 0x7F800000 if width == 32 else 0x7FF0000000000000
    )
    power = b.bitcast(emit("and", b.bitcast(largest, unsigned), mask), shape.element_type)
    zero, one = b.filled(shape, 0), b.filled(shape, 1)
    infinity = b.filled(shape, math.inf)
    is_infinite = b.compared("EQ", largest, infinity)
    power = b.selected(b.compared("EQ", power, zero), one, power)
    scaled = []
    for part, size in zip(parts, sizes, strict=True):
        unit = b.selected(b.compared("EQ", size, infinity), emit("sign", part), zero)
        unit = b.selected(b.compared("NE", part, part), part, unit)
        scaled.append(b.selected(is_infinite, unit, emit("divide", part, power)))
    return list(zip(scaled[::2], scaled[1::2], strict=True))


@rewrite("stablehlo.popcnt", platforms=("cpu",))
def popcnt_of_narrow_signed(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Count the bits of s2 and s4 as u2 and u4.

    XLA sign-extends the elements to 8 bits, and counts the copies of the sign bit too: the popcnt
    of -1 : s4 is 8, not 4. For s2, constant folding has this defect.

    Shown by: popcnt_s4, popcnt_s2_constant.
    """
    (operand,) = operation.operands
    element_type = b.element_type(operand)
    if element_type not in (pt.s2, pt.s4):
        return None
    bits = b.bitcast(operand, pt.u4 if element_type is pt.s4 else pt.u2)
    return [b.bitcast(b.elementwise("popcnt", bits), element_type)]


@rewrite("stablehlo.convert", platforms=ALL_PLATFORMS)
def convert_of_complex(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert complex numbers to types that are not complex by converting their real parts.

    XLA aborts when it folds the conversion of a complex constant that is a scalar or a splat.

    Shown by: convert_c64_constant, convert_c128_splat_constant.
    """
    operand = operation.operands[0]
    element_type = b.element_type(operand)
    to = b.element_type(operation.results[0])
    if element_type is None or not element_type.is_complex or to is None or to.is_complex:
        return None
    return [b.converted(b.parts(operand)[0], to)]


@rewrite("stablehlo.convert", platforms=("cpu",))
def convert_of_f4_to_integers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert f4e2m1fn to integers through f32.

    XLA treats 6, the largest number of f4e2m1fn, as an infinity, and converts it to the largest
    integer.

    Shown by: convert_f4_s32.
    """
    to = b.element_type(operation.results[0])
    if b.element_type(operation.operands[0]) is not pt.f4e2m1fn or to is None:
        return None
    return [_converted_through(b, operation, pt.f32)] if to.is_integral else None


@rewrite("stablehlo.convert", platforms=("cpu",))
def convert_of_four_bits_to_eight(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert s4 to s8 and u4 to u8 through 32 bits.

    XLA's CPU backend computes 4-bit integers in 8 bits, and wraps the results when it stores or
    converts them. But a conversion to 8 bits does not wrap them: 7 + 7 : s4, converted to s8, is 14
    instead of -2.

    Shown by: convert_s4_s8_computed, convert_u4_u8_computed.
    """
    through = {(pt.s4, pt.s8): pt.s32, (pt.u4, pt.u8): pt.u32}
    types = b.element_type(operation.operands[0]), b.element_type(operation.results[0])
    return [_converted_through(b, operation, through[types])] if types in through else None


def _converted_through(b: OpBuilder, operation: ir.Operation, through: PrimitiveType) -> Value:
    to = b.array_of(operation.results[0]).element_type
    return b.converted(b.converted(operation.operands[0], through), to)


@rewrite("stablehlo.divide", "stablehlo.remainder", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def integer_division_by_zero(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Divide by 1 where an integer divisor is 0, and select the result.

    Constant folding executes the integer division by zero, and a signal ends the process. The
    divisor need not be a constant in the module; x - x folds to 0 as well. XLA's code for variables
    returns a quotient with all bits set, and the dividend as the remainder. Constants should give
    the same results.

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
        result = b.elementwise(operation.name, dividend, divisor)
        if operation.name == "stablehlo.remainder":
            return b.selected(is_zero, dividend, result)
        ones = -1 if element_type.is_signed else element_type.max
        return b.selected(is_zero, b.filled(shape, ones), result)

    return [b.on_fixed_sizes(operation.operands, divided)]


@rewrite("stablehlo.power", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def power_of_bytes(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Raise s8 and u8 to a power by digits of the exponent in base 64.

    XLA uses only the low 6 bits of an exponent: 2 to the power of 64 is 1 instead of 0. (For an odd
    base, 1 is correct in 8 bits.)

    Shown by: power_s8_64.
    """
    return _power_by_digits(b, operation, (pt.s8, pt.u8))


@rewrite("stablehlo.power", platforms=ALL_PLATFORMS)
def power_of_integers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Raise integers to a power by digits of the exponent in base 64.

    XLA uses only the low 6 bits of an exponent, since jaxlib 0.12 only if the base is odd: 3 to the
    power of 64 is 1.

    Shown by: power_s32_odd_64.
    """
    wide = (pt.s16, pt.s32, pt.s64, pt.u16, pt.u32, pt.u64)
    return _power_by_digits(b, operation, wide)


def _power_by_digits(
    b: OpBuilder, operation: ir.Operation, types: tuple[PrimitiveType, ...]
) -> list[Value] | None:
    """Compute an integer power that wraps; None if no exponent needs a second digit.

    The result is the product of base**digit0, (base**64)**digit1, and so on. A negative exponent is
    the lowest digit; the other digits are 0.
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
        low = b.elementwise("and", exponent, b.filled(shape, 63))
        result = b.elementwise("power", base, b.elementwise("minimum", exponent, low))
        positive = b.elementwise("maximum", exponent, b.filled(shape, 0))
        rest = b.elementwise("shift_right_logical", positive, b.filled(shape, 6))
        state = [base, rest, result]
        if b.target.num_partitions == 1 and _can_contain_loop(b.before):
            return _while_digits_remain(b, state)
        for _ in range(1, digits):
            state = _with_next_digit(b, state)
        return state[-1]

    return [b.on_fixed_sizes(operation.operands, power)]


def _can_contain_loop(operation: ir.Operation) -> bool:
    """Whether a loop can replace the operation: XLA aborts on loops in reducers.

    A reducer may call any function except @main.
    """
    outer = next((one for one in enclosing(operation) if one.name not in CONTROL_FLOW), None)
    if outer is None or outer.name != "func.func":
        return False
    return symbol_name(outer) == "main" or ir.RankedTensorType(operation.results[0].type).rank > 0


def _with_next_digit(b: OpBuilder, state: list[Value]) -> list[Value]:
    """Return the next state: base**64, the remaining digits, and the product so far."""
    base, rest, result = state
    shape = b.array_of(base)
    for _ in range(6):
        base = b.elementwise("multiply", base, base)
    digit = b.elementwise("and", rest, b.filled(shape, 63))
    result = b.elementwise("multiply", result, b.elementwise("power", base, digit))
    return [base, b.elementwise("shift_right_logical", rest, b.filled(shape, 6)), result]


def _while_digits_remain(b: OpBuilder, state: list[Value]) -> Value:
    """Create a loop until no element has digits left; in most programs it has no iterations."""
    shapes = [b.array_of(value) for value in state]
    loop = b.create("while", shapes, state, regions=2)
    condition, (_, rest, _) = b.block_in(loop.regions[0], shapes)
    has_digits = condition.compared("NE", rest, condition.filled(shapes[1], 0))
    if shapes[1].rank:
        has_digits = condition.reduced(has_digits, range(shapes[1].rank), False, "or")
    condition.end([has_digits])
    body, values = b.block_in(loop.regions[1], shapes)
    body.end(_with_next_digit(body, values))
    return loop.results[-1]


@rewrite("stablehlo.slice", platforms=ALL_PLATFORMS)
def slice_of_long_stride(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Shorten strides of a slice that are longer than the sliced range.

    XLA adds the stride to the size of the range, and the sum overflows.

    Shown by: slice_long_stride.
    """
    strides = integers_of(operation, "strides")
    if max(strides, default=1) < 2**31:
        return None
    starts, limits = (integers_of(operation, name) for name in ("start_indices", "limit_indices"))
    ranges = zip(strides, starts, limits, strict=True)
    short = [min(stride, max(limit - start, 1)) for stride, start, limit in ranges]
    return list(b.like(operation, operation.operands, attributes={"strides": short}).results)


TRANSCENDENTAL: Final = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh")
"""Operations of CHLO and MHLO that are expanded to sums and products."""


@rewrite(*(f"mhlo.{name}" for name in TRANSCENDENTAL), platforms=ALL_PLATFORMS)
def functions_of_mhlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace functions of MHLO by the same functions of CHLO.

    jaxlib converts some instructions of HLO text to operations of MHLO. jaxlib 0.10 does not
    compile these operations on real numbers, and 0.12 aborts on them for complex numbers.

    Shown by: mhlo_acos_f32, mhlo_sinh_c64.
    """
    name = operation.name.replace("mhlo", "chlo")
    return [b(name, operation.results[0].type, operation.operands)]


@rewrite(*(f"chlo.{name}" for name in TRANSCENDENTAL), platforms=(*ALL_PLATFORMS, INTERPRETER))
def functions_of_narrow_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute functions of floats of at most 8 bits in f32.

    XLA expands these functions to sums and products in the type of the operand, and rounds each
    step: asin(1) : f8e8m0fnu is NaN. jaxlib 0.12 takes minutes to compile some of the expansions.

    Shown by: chlo_asin_f8e8m0fnu, chlo_asinh_f8e4m3.
    """
    if b.target.platform == "cpu" and b.element_type(operation.operands[0]) is pt.f8e8m0fnu:
        return None  # see `scale_types`
    return b.in_types(operation, F32_FOR_NARROW_FLOATS)


@rewrite("chlo.erf", platforms=(INTERPRETER, ARTIFACT))
def erf_of_narrow_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute erf of floats of at most 8 bits in f32.

    CHLO's expansion of erf to StableHLO does not support these types.
    """
    return b.in_types(operation, F32_FOR_NARROW_FLOATS)


@rewrite("stablehlo.log_plus_one", platforms=("cpu",), fixed_in=(0, 12))
def log_plus_one_of_f64(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute log_plus_one of f64 as x log(u) / (u - 1), where u is the rounded 1 + x.

    XLA's CPU backend has errors of more than 100 ulps for numbers from -0.45 to -0.35.

    Shown by: log_plus_one_f64.
    """
    if b.element_type(operation.results[0]) is not pt.f64:
        return None
    return [b.on_fixed_sizes(operation.operands, lambda x: _log_plus_one(b, x))]


@rewrite("chlo.atanh", platforms=("cpu",), fixed_in=(0, 12))
def atanh_of_f64(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute atanh of f64 as (log(1 + x) - log(1 - x)) / 2.

    XLA's CPU backend computes atanh by log_plus_one, which has large errors in f64.

    Shown by: chlo_atanh_f64.
    """
    if b.element_type(operation.results[0]) is not pt.f64:
        return None

    def atanh(x: Value) -> Value:
        logarithms = _log_plus_one(b, x), _log_plus_one(b, b.elementwise("negate", x))
        difference = b.elementwise("subtract", *logarithms)
        return b.elementwise("multiply", difference, b.filled(b.array_of(x), 0.5))

    return [b.on_fixed_sizes(operation.operands, atanh)]


def _log_plus_one(b: OpBuilder, x: Value) -> Value:
    one = b.filled(b.array_of(x), 1)
    total = b.elementwise("add", x, one)
    # XLA would simplify (x + 1) - 1. Negative totals have no logarithm.
    rounded = b.elementwise("subtract", b.elementwise("abs", total), one)
    is_total_one = b.compared("EQ", total, one)
    # The quotient of two infinities would be NaN.
    is_total_x = b.compared("EQ", total, x)
    factor = b.elementwise("divide", x, rounded)
    factor = b.selected(b.elementwise("or", is_total_one, is_total_x), one, factor)
    logarithm = b.selected(is_total_one, x, b.elementwise("log", total))
    return b.elementwise("multiply", logarithm, factor)


@rewrite("chlo.mulhi", platforms=("cpu",))
def mulhi_of_four_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute mulhi of integers of at most 4 bits by a product in 32 bits.

    XLA's CPU backend computes 4-bit integers in 8 bits, and returns the upper half of 8 bits, not
    of 4 bits.

    Shown by: chlo_mulhi_s4.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is None or element_type.bits > 4:
        return None
    return _by_wider_product(b, operation)


@rewrite("chlo.mulhi", platforms=("cpu",), fixed_in=(0, 12))
def mulhi_of_signed(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute mulhi of signed integers by a product of twice the width.

    XLA's CPU compiler fails if it fuses mulhi of signed integers with other operations.

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
        product = b.elementwise("multiply", *(b.converted(factor, wide) for factor in factors))
        shift = "shift_right_arithmetic" if narrow.is_signed else "shift_right_logical"
        return b.converted(b.elementwise(shift, product, b.filled(shape, narrow.bits)), narrow)

    return [b.on_fixed_sizes(operation.operands, mulhi)]


def _by_halves(b: OpBuilder, x: Value, y: Value) -> Value:
    """The upper 64 bits of products of s64, computed from the 32-bit halves of the factors."""
    shape = b.array_of(x)
    width, mask = b.filled(shape, 32), b.filled(shape, 2**32 - 1)
    emit = b.elementwise

    def upper(value: Value) -> Value:
        return emit("shift_right_arithmetic", value, width)

    (low_x, high_x), (low_y, high_y) = ((emit("and", v, mask), upper(v)) for v in (x, y))
    carry = emit("shift_right_logical", emit("multiply", low_x, low_y), width)
    middle = emit("add", emit("multiply", high_x, low_y), carry)
    other = emit("add", emit("multiply", low_x, high_y), emit("and", middle, mask))
    above = emit("add", emit("multiply", high_x, high_y), upper(middle))
    return emit("add", above, upper(other))


@rewrite("mhlo.stochastic_convert", platforms=ALL_PLATFORMS)
def stochastic_convert_of_narrow_floats(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Round floats of at most 8 bits stochastically in f32.

    XLA multiplies the fraction by 2 to the power of the number of random bits, in the type of the
    operand. The product may overflow: 2**8 is an infinity in f8e3m4.

    Shown by: stochastic_convert_f8e3m4.
    """
    value, random = operation.operands
    random_type = b.element_type(random)
    if random_type is None or random_type.bits > 8:
        return None
    unused = 32 - random_type.bits

    def extended(narrow: Value) -> Value:
        """Move the random bits to the highest bits of u32, and set the lower bits to 1."""
        wide = b.converted(narrow, pt.u32)
        shape = b.array_of(wide)
        shifted = b.elementwise("shift_left", wide, b.filled(shape, unused))
        return b.elementwise("or", shifted, b.filled(shape, 2**unused - 1))

    operands = [b.converted(value, pt.f32), b.on_fixed_sizes([random], extended)]
    return [b("mhlo.stochastic_convert", operation.results[0].type, operands)]


def _result_type(operation: ir.Operation) -> PrimitiveType | None:
    shape = shape_of_type(operation.results[0].type)
    return shape.element_type if isinstance(shape, ArrayShape) else None


def _gives_signed_integers(operation: ir.Operation) -> bool:
    element_type = _result_type(operation)
    return element_type is not None and element_type.is_integral and element_type.is_signed


refuse(
    "mhlo.stochastic_convert",
    "cpu",
    "gpu",
    reason="XLA supports stochastic rounding to signed integers only",
    fix="convert to signed integers; to round to a float type, bitcast the operand to integers "
    "with xb.bitcast_convert_type, add random numbers to the bits that the float type drops, clear "
    "these bits with xb.and_, bitcast back, and convert",
    unless=_gives_signed_integers,
)


def _has_tolerances(operation: ir.Operation) -> bool:
    """Whether the tolerances of an operation are numbers, or it has none."""
    attribute = operation.attributes.get("result_accuracy")
    if attribute is None:
        return True
    accuracy = stablehlo.ResultAccuracyAttr(attribute)
    return not (math.isnan(accuracy.atol) or math.isnan(accuracy.rtol))


for _schema in SCHEMAS.values():
    # Other values are verified by StableHLO.
    if any(attribute.kind is ACCURACY for attribute in _schema.value_attributes):
        refuse(
            _schema.stablehlo,
            *ALL_PLATFORMS,
            reason="XLA does not support a tolerance of NaN",
            fix="write 0 or a positive number as atol and rtol of result_accuracy",
            unless=_has_tolerances,
        )


refuse(
    "stablehlo.reduce_precision",
    "tpu",
    reason="XLA represents f64 as pairs of f32, and does not support reduce_precision of f64",
    fix="convert the operand to f32 with xb.convert_element_type",
    unless=lambda operation: _result_type(operation) is not pt.f64,
)
