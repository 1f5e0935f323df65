"""Elementwise ops, constants and conversions.

MLIR's Python bindings expose the elements of a constant if the buffer protocol supports their type.
Elements of other types, and elements in a resource of the file, are read from the bytecode of the
operation. Of a splat, MLIR and the array store one element; the array has strides of 0
(`builder.types.constant.repeats_one`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.attributes.algorithms import ResultAccuracy
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, constant_value, is_constant
from builder.schema import SCHEMAS, Trait, opcodes_with
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.constant import is_splat, splat_or_array
from builder.types.shape import ArrayShape
from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.ops import derivatives
from lowering.ops.derivatives import Tangents, with_derivative_of, with_tangents
from lowering.ops.emitting import compared, filled
from lowering.ops.importing import failure
from lowering.ops.registry import (
    Context,
    Imported,
    Step,
    Value,
    array_of,
    importer,
    jax_rule,
    stablehlo_rule,
)
from lowering.reading.bytecode_tables import Elements, elements_in_bytecode, repeated

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


FUNCTIONS: Final[dict[str, Callable[[], Callable[..., Value]]]] = {
    "abs": lambda: lax.abs,
    "acos": lambda: lax.acos,
    "acosh": lambda: derivatives.acosh,
    "add": lambda: lax.add,
    "and": lambda: lax.bitwise_and,
    "asin": lambda: lax.asin,
    "asinh": lambda: derivatives.asinh,
    "atan2": lambda: derivatives.atan2,
    "atanh": lambda: lax.atanh,
    "cbrt": lambda: lax.cbrt,
    "ceil": lambda: lax.ceil,
    "clamp": lambda: lax.clamp,
    "complex": lambda: lax.complex,
    "cosh": lambda: lax.cosh,
    "cosine": lambda: lax.cos,
    "count_leading_zeros": lambda: lax.clz,
    "divide": lambda: derivatives.divide,
    "erf": lambda: lax.erf,
    "exponential": lambda: lax.exp,
    "exponential_minus_one": lambda: lax.expm1,
    "floor": lambda: lax.floor,
    "imag": lambda: lax.imag,
    "is_finite": lambda: lax.is_finite,
    "log": lambda: lax.log,
    "log_plus_one": lambda: lax.log1p,
    "logistic": lambda: lax.logistic,
    "maximum": lambda: lax.max,
    "minimum": lambda: lax.min,
    "mulhi": lambda: lax.mulhi,
    "multiply": lambda: lax.mul,
    "negate": lambda: lax.neg,
    "not": lambda: lax.bitwise_not,
    "or": lambda: lax.bitwise_or,
    "popcnt": lambda: lax.population_count,
    "power": lambda: derivatives.power,
    "real": lambda: lax.real,
    "remainder": lambda: lax.rem,
    "round_nearest_afz": lambda: partial(
        lax.round, rounding_method=lax.RoundingMethod.AWAY_FROM_ZERO
    ),
    "round_nearest_even": lambda: partial(
        lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN
    ),
    "rsqrt": lambda: lax.rsqrt,
    "select": lambda: lax.select,
    "shift_left": lambda: lax.shift_left,
    "shift_right_arithmetic": lambda: lax.shift_right_arithmetic,
    "shift_right_logical": lambda: lax.shift_right_logical,
    "sign": lambda: lax.sign,
    "sine": lambda: lax.sin,
    "sinh": lambda: lax.sinh,
    "sqrt": lambda: lax.sqrt,
    "subtract": lambda: lax.sub,
    "tan": lambda: lax.tan,
    "tanh": lambda: lax.tanh,
    "xor": lambda: lax.bitwise_xor,
}
"""By opcode, a function that returns the function of jax that is the same StableHLO operation.

The table is made before jax is imported.
"""

DIVISIONS: Final = opcodes_with(Trait.DIVISION)

TAKING_SCALARS: Final = frozenset(
    ("add", "compare", "divide", "maximum", "minimum", "multiply", "remainder", "subtract")
)
"""Opcodes whose functions in jax.lax broadcast a scalar operand, without an operation in jax."""


def is_narrow(op: XlaOp) -> bool:
    """Return whether an op has numbers of less than 8 bits.

    XLA computes some of these incorrectly, without the rewrites of `legalize`.
    """
    shapes = (op.shape, *(operand.shape for operand in op.operands))
    return any(1 < s.element_type.bits < 8 for s in shapes)


def _elementwise(ctx: Context, op: XlaOp) -> Step:
    opcode, element_type = op.opcode, op.operands[0].shape.element_type
    function = _function(opcode, element_type, op.shape.element_type)
    if function is None:
        return ctx.pasted(op)
    accuracy = op.attributes.get("result_accuracy")
    if accuracy is not None:
        function = partial(function, accuracy=_accuracy(accuracy))
    if _is_rounded_otherwise(opcode, element_type):
        return with_derivative_of(ctx.pasted(op), function)
    if opcode in DIVISIONS:
        divisor = _constant_of(op.operands[1])
        if element_type.is_integral and (divisor is None or not np.all(divisor != 0)):
            return _guarded(opcode)
        if opcode == "divide" and (element_type.is_integral or divisor is not None):
            return lax.div  # its derivative by the divisor is not needed
    return function


@per_signature
def _function(
    opcode: str, operand: pt.PrimitiveType, result: pt.PrimitiveType
) -> Callable[..., Value] | None:
    """Return jax's function for an opcode, from the types of its first operand and its result.

    None if the op is pasted.
    """
    if 1 < operand.bits < 8 or 1 < result.bits < 8:
        return None  # see `is_narrow`; the other operands have one of these types
    if operand is pt.pred and opcode in ("add", "multiply"):  # jax refuses arithmetic of pred
        return lax.bitwise_or if opcode == "add" else lax.bitwise_and
    if operand.is_integral and opcode == "power":
        return None
    if operand.is_floating and opcode in ("real", "imag"):
        return _identity if opcode == "real" else _zeros
    return FUNCTIONS[opcode]()


@per_signature
def _is_rounded_otherwise(opcode: str, element_type: pt.PrimitiveType) -> bool:
    """Return whether jax computes an opcode by other operations than XLA."""
    if element_type.is_complex:
        return opcode in ("abs", "cosine", "sine")  # in some versions of jax
    if not element_type.is_floating:
        return False
    if element_type.bits < 16 and SCHEMAS[opcode].stablehlo.startswith("chlo."):
        return True  # without the rewrites of `legalize`, XLA computes all steps with few bits
    # jax computes it by four operations, and rounds after each.
    return element_type.bits < 32 and opcode == "logistic"


def _identity(value: Value) -> Value:
    return value


def _zeros(value: Value) -> Value:
    return lax.full_like(value, 0)


def _accuracy(accuracy: ResultAccuracy) -> Any:
    if accuracy.mode == "TOLERANCE":
        return lax.Tolerance(accuracy.atol, accuracy.rtol, accuracy.ulps)
    return lax.AccuracyMode[accuracy.mode]


def _guarded(opcode: str) -> Step:
    """Return a division that has a result for a divisor of 0.

    XLA's constant folding ends the process when it divides by 0. Its code for variables returns a
    quotient with all bits set, and the dividend as the remainder.
    """
    divide = lax.div if opcode == "divide" else lax.rem

    def step(lhs: Value, rhs: Value) -> Value:
        is_zero = lax.eq(rhs, lax.full_like(rhs, 0))
        result = divide(lhs, lax.select(is_zero, lax.full_like(rhs, 1), rhs))
        of_zero = lhs if opcode == "remainder" else lax.bitwise_not(lax.full_like(lhs, 0))
        return lax.select(is_zero, of_zero, result)

    return step


def _constant_of(op: XlaOp) -> Any:
    """Return the value of a constant, or of a constant that is broadcast; None for other ops."""
    if op.opcode == "broadcast_in_dim":
        op = op.operands[0]
    return constant_value(op)


jax_rule(*FUNCTIONS)(_elementwise)


_ORDERS: Final = {"maximum": xb.gt, "minimum": xb.lt}


@importer("stablehlo.maximum", "stablehlo.minimum")
def import_extremum(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp], **arguments: Any
) -> Imported:
    """Record a maximum or minimum. For complex numbers record a lexicographic selection, because
    XLA's op compares only the real parts."""
    opcode = operation.name.removeprefix("stablehlo.").removeprefix("chlo.broadcast_")
    lhs, rhs = operands
    if _is_complex(lhs) and _is_complex(rhs):
        return _lexicographic(lhs, rhs, _ORDERS[opcode])
    return scope.by_schema(opcode, operation, operands, **arguments)


def _is_complex(op: XlaOp) -> bool:
    return isinstance(op.shape, ArrayShape) and op.shape.element_type.is_complex


def _lexicographic(lhs: XlaOp, rhs: XlaOp, order: Callable[..., XlaOp]) -> XlaOp:
    """Select `lhs` or `rhs` by their real parts; where these are equal, by the imaginary parts."""
    real, other_real = xb.real(lhs), xb.real(rhs)
    by_imaginary = order(xb.imag(lhs), xb.imag(rhs))
    first = xb.select(xb.eq(real, other_real), by_imaginary, order(real, other_real))
    return xb.select(first, lhs, rhs)


@jax_rule("clamp")
def jax_clamp(ctx: Context, op: XlaOp) -> Step:
    """Return the function of jax, which jax does not differentiate in bounds that are scalars."""
    step = _elementwise(ctx, op)
    low, _, high = op.operands
    is_variable = any(
        not is_constant(bound) and bound.shape is not op.shape for bound in (low, high)
    )
    # jax differentiates other clamps itself, unless they are pasted.
    if not op.shape.element_type.is_floating or not (is_variable or is_narrow(op)):
        return step
    return with_tangents(step, _clamped)


def _clamped(operands: Sequence[Value], _: Value, tangents: Tangents) -> Value | None:
    """Return the tangent of a clamp: as in jax that of the chosen operand, 0 if two are equal."""
    sizes = operands[1].shape
    low, operand, high = (_broadcast(value, sizes) for value in operands)
    chosen = (
        lax.bitwise_and(lax.gt(low, operand), lax.lt(low, high)),
        lax.bitwise_and(lax.gt(operand, low), lax.lt(operand, high)),
        lax.lt(high, operand),
    )
    terms = [
        lax.select(is_chosen, _broadcast(tangent, sizes), lax.full_like(operand, 0))
        for is_chosen, tangent in zip(chosen, tangents, strict=True)
        if tangent is not None
    ]
    return reduce(lax.add, terms) if terms else None


def _broadcast(value: Value, sizes: Sequence[int]) -> Value:
    """Return a scalar as an array of `sizes`, or an array of these sizes."""
    return value if value.ndim == len(sizes) else lax.broadcast(value, sizes)


@jax_rule("constant")
def jax_constant(ctx: Context, op: XlaOp) -> Step:
    value = op.attributes["value"]
    return lambda: value


_TOTAL: Final[dict[str, Step]] = {
    "EQ": lambda lhs, rhs: lax.eq_to_p.bind(lhs, rhs),
    "NE": lambda lhs, rhs: lax.bitwise_not(lax.eq_to_p.bind(lhs, rhs)),
    "LT": lambda lhs, rhs: lax.lt_to_p.bind(lhs, rhs),
    "LE": lambda lhs, rhs: lax.le_to_p.bind(lhs, rhs),
    "GT": lambda lhs, rhs: lax.lt_to_p.bind(rhs, lhs),
    "GE": lambda lhs, rhs: lax.le_to_p.bind(rhs, lhs),
}
_COMPARISONS: Final[dict[str, Step]] = {
    "EQ": lambda lhs, rhs: lax.eq(lhs, rhs),
    "NE": lambda lhs, rhs: lax.ne(lhs, rhs),
    "LT": lambda lhs, rhs: lax.lt(lhs, rhs),
    "LE": lambda lhs, rhs: lax.le(lhs, rhs),
    "GT": lambda lhs, rhs: lax.gt(lhs, rhs),
    "GE": lambda lhs, rhs: lax.ge(lhs, rhs),
}


@jax_rule("compare")
def jax_compare(ctx: Context, op: XlaOp) -> Step:
    is_total = op.attributes["compare_type"] == "TOTALORDER"
    table = _TOTAL if is_total and op.operands[0].shape.element_type.is_floating else _COMPARISONS
    return table[op.attributes["comparison_direction"]]


@importer("stablehlo.convert")
def import_convert(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a conversion. StableHLO converts complex numbers to pred by the real part alone; the
    public op compares both parts with 0."""
    if _is_complex(operands[0]) and scope.result_shape(operation).element_type is pt.pred:
        operands = [xb.real(operands[0])]
    return scope.by_schema("convert", operation, operands)


@jax_rule("convert")
def jax_convert(ctx: Context, op: XlaOp) -> Step:
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    if is_narrow(op):
        return ctx.pasted(op)
    step = partial(lax.convert_element_type, new_dtype=target.dtype)
    if source.is_complex and not target.is_complex:
        # jax warns of the omitted imaginary part.
        return lambda value: step(lax.real(value))
    return step


@jax_rule("bitcast_convert")
def jax_bitcast_convert(ctx: Context, op: XlaOp) -> Step:
    types = op.operands[0].shape.element_type, op.shape.element_type
    if types[0] is types[1]:
        return _identity
    if pt.pred in types or any(t.is_complex for t in types):
        return ctx.pasted(op)
    return partial(lax.bitcast_convert_type, new_dtype=op.shape.element_type.dtype)


@jax_rule("reduce_precision")
def jax_reduce_precision(ctx: Context, op: XlaOp) -> Step:
    return partial(
        lax.reduce_precision,
        exponent_bits=op.attributes["exponent_bits"],
        mantissa_bits=op.attributes["mantissa_bits"],
    )


@stablehlo_rule("stochastic_convert")
def emit_stochastic_convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit operations that round at random to signed integers, as XLA expands the HLO operation.

    StableHLO has no stochastic convert. MHLO's operation is emitted for bounded sizes, because
    constants can't have bounded sizes; and for other result types, which `compile` refuses. Floats
    of less than 32 bits are converted to f32, which can represent 2**bits for the random bits.
    """
    value, random = operands
    shape, real, bits = map(array_of, (op.shape, op.operands[0].shape, op.operands[1].shape))
    target = shape.element_type
    if not (target.is_integral and target.is_signed and shape.is_static):
        return ctx.value("mhlo.stochastic_convert", shape, operands)
    if real.element_type.bits < 32:
        value = ctx.converted(value, real, pt.f32)
        real = real.with_element_type(pt.f32)
    magnitude = ctx.value("stablehlo.abs", real, [value])
    floor = ctx.value("stablehlo.floor", real, [magnitude])
    fraction = ctx.value("stablehlo.subtract", real, [magnitude, floor])
    factor = filled(ctx, real, 2**bits.element_type.bits)
    scaled = ctx.value("stablehlo.multiply", real, [fraction, factor])
    chance = ctx.converted(scaled, real, bits.element_type)
    is_up = compared(ctx, bits, "LT", "UNSIGNED", random, chance)
    rounded = ctx.converted(floor, real, target)
    more = ctx.value("stablehlo.add", shape, [rounded, filled(ctx, shape, 1)])
    rounded = ctx.value("stablehlo.select", shape, [is_up, more, rounded])
    is_negative = compared(ctx, real, "LT", "FLOAT", value, filled(ctx, real, 0))
    opposite = ctx.value("stablehlo.negate", shape, [rounded])
    result = ctx.value("stablehlo.select", shape, [is_negative, opposite, rounded])
    for end, direction in ((target.min, "LE"), (target.max, "GE")):
        is_beyond = compared(ctx, real, direction, "FLOAT", value, filled(ctx, real, float(end)))
        limit = filled(ctx, shape, int(end))
        result = ctx.value("stablehlo.select", shape, [is_beyond, limit, result])
    return result


@jax_rule("map")
def jax_map(ctx: Context, op: XlaOp) -> Step:
    """Apply the computation of scalars to whole arrays."""
    step = ctx.function(op.attributes["to_apply"])
    for _ in range(array_of(op.shape).rank):
        step = jax.vmap(step)
    return step


@importer("stablehlo.constant")
def import_constant(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape = scope.result_shape(operation)
    if not isinstance(shape, ArrayShape):
        raise failure(operation, "a constant must be an array", got=shape)
    if not shape.is_static:
        raise failure(operation, "a constant must have static sizes", got=shape)
    if shape.element_count * shape.element_type.dtype.itemsize >= 1 << 63:
        raise failure(operation, "a constant must have less than 2**63 bytes", got=shape)
    if shape.rank == 1 and _is_only_rng_sizes(operation):
        # The result of the rng has the sizes: record the constant in another builder.
        return XlaBuilder("sizes").constant(np.zeros(shape.dimensions, shape.element_type.dtype))
    if shape.element_type.is_complex:  # MLIR's Python raises TypeError for the attribute
        return scope.builder.constant(_elements_in_bytecode(operation, shape))
    attribute = operation.attributes["value"]
    array = scope.tables.elements.get(attribute)
    if array is None:
        array = scope.tables.elements[attribute] = _elements(operation, attribute, shape)
    return scope.builder.constant(array)


def _is_only_rng_sizes(operation: ir.Operation) -> bool:
    """Return whether the result is only used as the sizes of rng operations in the same block."""
    uses = list(operation.results[0].uses)
    return bool(uses) and all(
        use.owner.name == "stablehlo.rng"
        and use.operand_number == 2
        and use.owner.operation.block == operation.block
        for use in uses
    )


def _elements(operation: ir.Operation, attribute: Any, shape: ArrayShape) -> Elements:
    """Return the elements as a read-only array: with strides of 0 for a splat, else contiguous."""
    try:
        view = memoryview(attribute)
    except (BufferError, TypeError):
        return _elements_in_bytecode(operation, shape)
    elements = np.asarray(view)
    if elements.dtype != shape.element_type.dtype:
        return _elements_in_bytecode(operation, shape)
    if is_splat(elements):
        return repeated(np.array(splat_or_array(elements)), shape)
    # A copy, because a view would keep the module alive.
    array = np.array(elements, order="C")
    array.flags.writeable = False
    return array


def _elements_in_bytecode(operation: ir.Operation, shape: ArrayShape) -> Elements:
    elements = elements_in_bytecode(operation, shape)
    if elements is None:
        raise failure(
            operation, "the constant's elements are not in the file, or can't be located in it"
        )
    return elements
