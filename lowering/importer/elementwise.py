"""Elementwise operations, comparisons, conversions and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.importer.registry import PLAIN, importer
from lowering.importer.scope import Scope

_NAMES: Final[dict[str, Callable[..., XlaOp]]] = {
    "add": xb.add,
    "and": xb.and_,
    "atan2": xb.atan2,
    "cbrt": xb.cbrt,
    "ceil": xb.ceil,
    "clamp": xb.clamp,
    "complex": xb.complex,
    "cosine": xb.cos,
    "count_leading_zeros": xb.clz,
    "divide": xb.div,
    "exponential": xb.exp,
    "exponential_minus_one": xb.expm1,
    "floor": xb.floor,
    "imag": xb.imag,
    "is_finite": xb.is_finite,
    "log": xb.log,
    "log_plus_one": xb.log1p,
    "logistic": xb.logistic,
    "multiply": xb.mul,
    "negate": xb.neg,
    "not": xb.not_,
    "or": xb.or_,
    "popcnt": xb.population_count,
    "power": xb.pow,
    "real": xb.real,
    "remainder": xb.rem,
    "round_nearest_afz": xb.round,
    "round_nearest_even": xb.round_nearest_even,
    "rsqrt": xb.rsqrt,
    "select": xb.select,
    "shift_left": xb.shift_left,
    "shift_right_arithmetic": xb.shift_right_arithmetic,
    "shift_right_logical": xb.shift_right_logical,
    "sign": xb.sign,
    "sine": xb.sin,
    "sqrt": xb.sqrt,
    "subtract": xb.sub,
    "tan": xb.tan,
    "tanh": xb.tanh,
    "xor": xb.xor,
    "abs": xb.abs,
}


def _maximum(lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
    if _is_complex(lhs) and _is_complex(rhs):
        return _first_of_pairs(lhs, rhs, xb.gt)
    return xb.max(lhs, rhs, broadcast_dimensions)


def _minimum(lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
    if _is_complex(lhs) and _is_complex(rhs):
        return _first_of_pairs(lhs, rhs, xb.lt)
    return xb.min(lhs, rhs, broadcast_dimensions)


def _is_complex(op: XlaOp) -> bool:
    return isinstance(op.shape, ArrayShape) and op.shape.element_type.is_complex


def _first_of_pairs(lhs: XlaOp, rhs: XlaOp, order: Callable[..., XlaOp]) -> XlaOp:
    """Of complex numbers the first by their real parts, and where these are equal by the others.

    XLA's operations are for real numbers; given complex ones, it doesn't look at the second part.
    """
    real, other_real = xb.real(lhs), xb.real(rhs)
    by_imaginary = order(xb.imag(lhs), xb.imag(rhs))
    first = xb.select(xb.eq(real, other_real), by_imaginary, order(real, other_real))
    return xb.select(first, lhs, rhs)


PLAIN.update({f"stablehlo.{name}": function for name, function in _NAMES.items()})
PLAIN.update({"stablehlo.maximum": _maximum, "stablehlo.minimum": _minimum})
PLAIN.update(
    {
        f"chlo.{name}": getattr(xb, name)
        for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
    }
)


@importer("stablehlo.compare")
def compare(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    direction = scope.attribute(operation, "comparison_direction")
    kind = scope.attribute(operation, "compare_type")
    lhs, rhs = operands
    return xb.compare(lhs, rhs, direction, total_order=kind == "TOTALORDER")


@importer("stablehlo.convert")
def convert(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    (operand,) = operands
    to = scope.result_shape(operation).element_type
    if to is pt.pred and _is_complex(operand):
        operand = xb.real(operand)  # xb compares both parts with 0
    return xb.convert_element_type(operand, to)


@importer("stablehlo.bitcast_convert")
def bitcast_convert(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.bitcast_convert_type(operands[0], scope.result_shape(operation).element_type)


@importer("stablehlo.reduce_precision")
def reduce_precision(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    bits = [scope.attribute(operation, f"{name}_bits") for name in ("exponent", "mantissa")]
    return xb.reduce_precision(operands[0], *bits)


@importer("mhlo.stochastic_convert")
def stochastic_convert(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    result = scope.result_shape(operation)
    assert isinstance(result, ArrayShape)  # MLIR's verifier has said so
    operand, random = operands
    return xb.stochastic_convert_type(operand, random, result.element_type)
