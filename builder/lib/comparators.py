"""Computations that compare elements, for sorts and for `approx_top_k`.

XLA: comparators.h of the client library. A computation takes two scalars of each operand, (lhs 0,
rhs 0, lhs 1, rhs 1, ...), and returns whether the lhs elements come before the rhs elements.
Floating point is compared in its total order, -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike, element_type_argument

Comparison = Callable[[XlaOp, XlaOp], XlaOp]
"""A function of two scalars that returns a pred, such as ``xb.lt_total_order``."""


@library_function("CreateScalarComparisonComputation")
def create_scalar_comparison_computation(
    name: str,
    operand_types: Sequence[PrimitiveTypeLike],
    comparators: Sequence[Comparison | None],
) -> XlaComputation:
    """Return a computation that compares the elements of several operands, the first one first.

    A further operand decides where the ones before, of those with a comparator, are equal.

    Args:
        name: the name of the computation.
        operand_types: the element types of the operands.
        comparators: for each operand a function such as ``xb.lt_total_order``, or None if the
            operand is not compared. At least one is not None.

    Raises:
        OperandError: there is not one comparator or None for each operand; all are None.
        ShapeInferenceError: a comparator does not support the type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> by_score_then_key = lib.create_scalar_comparison_computation(
        ...     "by_score", [xb.f32, xb.s32], [xb.gt_total_order, xb.lt]
        ... )
        >>> b = xb.XlaBuilder()
        >>> xb.sort([b.parameter(xb.f32[9]), b.parameter(xb.s32[9])], by_score_then_key).shape
        (f32[9], s32[9])
    """
    op = "create_scalar_comparison_computation"
    types = _types(op, operand_types)
    functions = list(comparators) if isinstance(comparators, Iterable) else []
    if len(functions) != len(types) or not any(map(callable, functions)):
        rule = f"comparators must have a function or None for each operand: {len(types)}"
        fix = "write xb.lt_total_order or xb.gt_total_order for one operand at least"
        raise error_of(OperandError, op, f"{rule}, got {brief(comparators)}", fix)
    b = XlaBuilder(name)
    pairs = [
        tuple(b.parameter(kind[()], f"p.{number}.{side}") for side in ("lhs", "rhs"))
        for number, kind in enumerate(types)
    ]
    compared = [
        (pair, function) for pair, function in zip(pairs, functions, strict=True) if function
    ]
    # The last comparison decides if all operands before are equal, and so on to the first.
    (lhs, rhs), function = compared.pop()
    root = function(lhs, rhs)
    for (lhs, rhs), function in reversed(compared):
        root = ew.select(ew.eq_total_order(lhs, rhs), root, function(lhs, rhs))
    return b.build(root)


@library_function("CreateScalarLtComputation")
def create_scalar_lt_computation(operand_types: Sequence[PrimitiveTypeLike]) -> XlaComputation:
    """Return the computation that sorts the first operand in ascending order.

    Args:
        operand_types: the element types of the operands. The elements of the other operands are
            parameters without an effect.

    Raises:
        OperandError: there are no types.
        ShapeInferenceError: the first type is complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> ascending = lib.create_scalar_lt_computation([xb.f32, xb.s32])
        >>> b = xb.XlaBuilder()
        >>> xb.sort([b.parameter(xb.f32[9]), b.parameter(xb.s32[9])], ascending).shape
        (f32[9], s32[9])
    """
    return _of_first("create_scalar_lt_computation", operand_types, ew.lt_total_order)


@library_function("CreateScalarGtComputation")
def create_scalar_gt_computation(operand_types: Sequence[PrimitiveTypeLike]) -> XlaComputation:
    """Return the computation that sorts the first operand in descending order.

    See `create_scalar_lt_computation` for the arguments.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> descending = lib.create_scalar_gt_computation([xb.f32])
        >>> xb.sort(xb.XlaBuilder().parameter(xb.f32[9]), descending).shape
        f32[9]
    """
    return _of_first("create_scalar_gt_computation", operand_types, ew.gt_total_order)


def _of_first(
    op: str, operand_types: Sequence[PrimitiveTypeLike], function: Comparison
) -> XlaComputation:
    types = _types(op, operand_types)
    name = "compare_less_than" if function is ew.lt_total_order else "compare_greater_than"
    return create_scalar_comparison_computation(name, types, [function, *[None] * (len(types) - 1)])


def _types(op: str, operand_types: Sequence[PrimitiveTypeLike]) -> list[PrimitiveType]:
    if not isinstance(operand_types, Iterable) or isinstance(operand_types, (str, PrimitiveType)):
        rule = f"operand_types must be a list of types, got {brief(operand_types, 80)}"
        raise error_of(OperandError, op, rule, "write [xb.f32] for one operand of type f32")
    types = [element_type_argument(op, "operand_types", kind) for kind in operand_types]
    if not types:
        raise error_of(
            OperandError, op, "operand_types must have a type for each operand, got none"
        )
    return types
