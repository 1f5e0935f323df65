"""Elementwise ops, constants and conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final

import jax
import numpy as np
from jax import lax

from builder.attributes.accuracy import ResultAccuracy
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from lowering.jax_interop import elementary
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import (
    RULES,
    Context,
    Step,
    Tangents,
    Value,
    array_of,
    rule,
    with_derivative_of,
    with_tangents,
)

FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {
    "abs": lax.abs,
    "acos": lax.acos,
    "acosh": elementary.acosh,
    "add": lax.add,
    "and": lax.bitwise_and,
    "asin": lax.asin,
    "asinh": elementary.asinh,
    "atan2": elementary.atan2,
    "atanh": lax.atanh,
    "cbrt": lax.cbrt,
    "ceil": lax.ceil,
    "clamp": lax.clamp,
    "complex": lax.complex,
    "cosh": lax.cosh,
    "cosine": lax.cos,
    "count_leading_zeros": lax.clz,
    "divide": elementary.divide,
    "erf": lax.erf,
    "exponential": lax.exp,
    "exponential_minus_one": lax.expm1,
    "floor": lax.floor,
    "imag": lax.imag,
    "is_finite": lax.is_finite,
    "log": lax.log,
    "log_plus_one": lax.log1p,
    "logistic": lax.logistic,
    "maximum": lax.max,
    "minimum": lax.min,
    "mulhi": lax.mulhi,
    "multiply": lax.mul,
    "negate": lax.neg,
    "not": lax.bitwise_not,
    "or": lax.bitwise_or,
    "popcnt": lax.population_count,
    "power": elementary.power,
    "real": lax.real,
    "remainder": lax.rem,
    "round_nearest_afz": partial(lax.round, rounding_method=lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_even": partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN),
    "rsqrt": lax.rsqrt,
    "select": lax.select,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "sign": lax.sign,
    "sine": lax.sin,
    "sinh": lax.sinh,
    "sqrt": lax.sqrt,
    "subtract": lax.sub,
    "tan": lax.tan,
    "tanh": lax.tanh,
    "xor": lax.bitwise_xor,
}
"""The function of jax that is the same StableHLO operation."""

_OF_PRED: Final = {"add": lax.bitwise_or, "multiply": lax.bitwise_and}
"""Arithmetic of pred, which jax refuses."""


def is_narrow(op: XlaOp) -> bool:
    """Return whether an op has numbers of less than 8 bits.

    XLA computes some of these incorrectly, without the rewrites of `legalize`.
    """
    shapes = (op.shape, *(operand.shape for operand in op.operands))
    return any(1 < s.element_type.bits < 8 for s in shapes)


def _constant_of(op: XlaOp) -> Any:
    """Return the value of a constant, or of a constant that is broadcast; None for other ops."""
    if op.opcode == "broadcast_in_dim":
        op = op.operands[0]
    return op.attributes["value"] if op.opcode == "constant" else None


def _guarded(divide: Callable[..., Value], *, is_remainder: bool) -> Step:
    """Return a division that has a result for a divisor of 0.

    XLA's constant folding ends the process when it divides by 0. Its code for variables returns a
    quotient with all bits set, and the dividend as the remainder.
    """

    def step(lhs: Value, rhs: Value) -> Value:
        is_zero = lax.eq(rhs, lax.full_like(rhs, 0))
        result = divide(lhs, lax.select(is_zero, lax.full_like(rhs, 1), rhs))
        of_zero = lhs if is_remainder else lax.bitwise_not(lax.full_like(lhs, 0))
        return lax.select(is_zero, of_zero, result)

    return step


_DIVISIONS: Final = {
    "divide": _guarded(lax.div, is_remainder=False),
    "remainder": _guarded(lax.rem, is_remainder=True),
}


def _identity(value: Value) -> Value:
    return value


def _elementwise(ctx: Context, op: XlaOp) -> Step:
    opcode, element_type = op.opcode, op.operands[0].shape.element_type
    function = _function(opcode, element_type, op.shape.element_type)
    if function is None:
        return pasted(ctx.computation, op)
    accuracy = op.attributes.get("result_accuracy")
    if accuracy is not None:
        function = partial(function, accuracy=_accuracy(accuracy))
    if _is_rounded_otherwise(opcode, element_type):
        return with_derivative_of(pasted(ctx.computation, op), function)
    if opcode in _DIVISIONS:
        divisor = _constant_of(op.operands[1])
        if element_type.is_integral and (divisor is None or not np.all(divisor != 0)):
            return _DIVISIONS[opcode]
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
    if operand is pt.pred and opcode in _OF_PRED:
        return _OF_PRED[opcode]
    if operand.is_integral and opcode == "power":
        return None
    if operand.is_floating and opcode in ("real", "imag"):
        return _identity if opcode == "real" else _zeros
    return FUNCTIONS[opcode]


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


def _zeros(value: Value) -> Value:
    return lax.full_like(value, 0)


def _accuracy(accuracy: ResultAccuracy) -> Any:
    if accuracy.mode == "TOLERANCE":
        return lax.Tolerance(accuracy.atol, accuracy.rtol, accuracy.ulps)
    return lax.AccuracyMode[accuracy.mode]


RULES.update(dict.fromkeys(FUNCTIONS, _elementwise))


@rule("clamp")
def clamp(ctx: Context, op: XlaOp) -> Step:
    """Return the function of jax, which jax does not differentiate in bounds that are scalars."""
    step = _elementwise(ctx, op)
    low, _, high = op.operands
    is_variable = any(
        bound.opcode != "constant" and bound.shape is not op.shape for bound in (low, high)
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


@rule("constant")
def constant(ctx: Context, op: XlaOp) -> Step:
    value = op.attributes["value"]
    return lambda: value


def _swapped(function: Callable[..., Value]) -> Step:
    return lambda lhs, rhs: function(rhs, lhs)


_TOTAL: Final[dict[str, Step]] = {
    "EQ": lax.eq_to_p.bind,
    "NE": lambda lhs, rhs: lax.bitwise_not(lax.eq_to_p.bind(lhs, rhs)),
    "LT": lax.lt_to_p.bind,
    "LE": lax.le_to_p.bind,
    "GT": _swapped(lax.lt_to_p.bind),
    "GE": _swapped(lax.le_to_p.bind),
}
_COMPARISONS: Final[dict[str, Step]] = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "LT": lax.lt,
    "LE": lax.le,
    "GT": lax.gt,
    "GE": lax.ge,
}


@rule("compare")
def compare(ctx: Context, op: XlaOp) -> Step:
    is_total = op.attributes["compare_type"] == "TOTALORDER"
    table = _TOTAL if is_total and op.operands[0].shape.element_type.is_floating else _COMPARISONS
    return table[op.attributes["comparison_direction"]]


@rule("convert")
def convert(ctx: Context, op: XlaOp) -> Step:
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    if is_narrow(op):
        return pasted(ctx.computation, op)
    step = partial(lax.convert_element_type, new_dtype=target.dtype)
    if source.is_complex and not target.is_complex:
        # jax warns of the omitted imaginary part.
        return lambda value: step(lax.real(value))
    return step


@rule("bitcast_convert")
def bitcast_convert(ctx: Context, op: XlaOp) -> Step:
    types = op.operands[0].shape.element_type, op.shape.element_type
    if types[0] is types[1]:
        return _identity
    if pt.pred in types or any(t.is_complex for t in types):
        return pasted(ctx.computation, op)
    return partial(lax.bitcast_convert_type, new_dtype=op.shape.element_type.dtype)


@rule("reduce_precision")
def reduce_precision(ctx: Context, op: XlaOp) -> Step:
    return partial(
        lax.reduce_precision,
        exponent_bits=op.attributes["exponent_bits"],
        mantissa_bits=op.attributes["mantissa_bits"],
    )


@rule("stochastic_convert")
def stochastic_convert(ctx: Context, op: XlaOp) -> Step:
    return pasted(ctx.computation, op)


@rule("map")
def map_(ctx: Context, op: XlaOp) -> Step:
    """Apply the computation of scalars to whole arrays."""
    step = ctx.function(op.attributes["to_apply"])
    for _ in range(array_of(op.shape).rank):
        step = jax.vmap(step)
    return step
