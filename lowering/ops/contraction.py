"""Dot products, convolutions, and the einsums of StableHLO files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

import builder as xb
from builder.attributes import DotDimensionNumbers
from builder.graph.xla_op import XlaOp
from builder.ops.contraction.dot_product import is_promotable
from builder.types.primitive_type import PrimitiveType
from lowering.jaxlib_api.lazy_jax import lax
from lowering.ops.derivatives import with_derivative_of
from lowering.ops.importing import failure
from lowering.ops.registry import Context, Step, Value, importer, jax_rule

if TYPE_CHECKING:
    from lowering.importer.scope import Scope


def _converted(operands: list[XlaOp], result: PrimitiveType) -> list[XlaOp]:
    """Return the operands; convert lhs and rhs to the result's element type where needed.

    In StableHLO lhs and rhs may have different element types, or be integers where the result is
    floating-point; XLA converts lhs and rhs to the result's element type. Return the operands
    unchanged if a conversion is not exact.
    """
    lhs, rhs = (operand.shape.element_type for operand in operands[:2])
    if lhs is rhs and (lhs is result or is_promotable(lhs, result)):
        return operands
    if not (_is_exact(lhs, result) and _is_exact(rhs, result)):
        return operands
    converted = [
        op if op.shape.element_type is result else xb.convert_element_type(op, result)
        for op in operands[:2]
    ]
    return converted + operands[2:]


def _is_exact(source: PrimitiveType, target: PrimitiveType) -> bool:
    """Return whether `target` represents all numbers of `source`."""
    if target.is_complex and not source.is_complex:
        target = target.real_type
    if source.is_integral and target.is_floating:
        # Floating-point types of 16 bits have a significand of 8 bits or more, of 32 bits 24.
        return target.bits >= max(16, 2 * source.bits)
    return is_promotable(source, target)


def precision_of(op: XlaOp) -> Any:
    """Return the precision of the operands; always explicit, because None is a setting of jax."""
    return tuple(lax.Precision[p.name] for p in op.attributes["precision"])


def result_type(op: XlaOp) -> Any:
    """Return the dtype of the result if it differs from the operands', otherwise None."""
    element_type = op.shape.element_type
    types = {operand.shape.element_type for operand in op.operands[:2]}
    return None if types == {element_type} else element_type.dtype


def dot_numbers(numbers: DotDimensionNumbers) -> Any:
    """Return dimension numbers in jax's form."""
    return (
        (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
    )


@importer("stablehlo.dot_general")
def import_dot_general(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if "algorithm" not in operation.attributes:
        operands = _converted(operands, scope.result_array(operation).element_type)
    return scope.by_schema("dot_general", operation, operands)


@importer("stablehlo.dot")
def import_dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    element_type = scope.result_array(operation).element_type
    lhs, rhs = _converted(operands, element_type)
    precision = scope.attributes("dot_general", operation).get("precision")
    return xb.dot(lhs, rhs, precision, element_type)


@jax_rule("dot_general")
def jax_dot_general(ctx: Context, op: XlaOp) -> Step:
    algorithm = op.attributes.get("algorithm")
    precision = precision_of(op)
    if algorithm is not None:
        precision = lax.DotAlgorithmPreset[algorithm.name.removeprefix("DOT_")]
    return partial(
        lax.dot_general,
        dimension_numbers=dot_numbers(op.attributes["dimension_numbers"]),
        precision=precision,
        preferred_element_type=result_type(op),
    )


@importer("chlo.ragged_dot", "mhlo.ragged_dot")
def import_ragged_dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    operands = _converted(operands, scope.result_array(operation).element_type)
    return scope.by_schema("ragged_dot", operation, operands)


@jax_rule("ragged_dot")
def jax_ragged_dot(ctx: Context, op: XlaOp) -> Step:
    numbers = op.attributes["dimension_numbers"]
    jax_numbers: Any = lax.RaggedDotDimensionNumbers  # jax has no types for it
    differentiable = partial(
        lax.ragged_dot_general,
        ragged_dot_dimension_numbers=jax_numbers(
            dot_numbers(numbers.dot_dimension_numbers),
            numbers.lhs_ragged_dimensions,
            numbers.rhs_group_dimensions,
        ),
        precision=precision_of(op),
        preferred_element_type=result_type(op),
    )
    # jax multiplies densely where it does not know the platform, with other roundings.
    return with_derivative_of(ctx.pasted(op), differentiable)


@importer("stablehlo.convolution")
def import_convolution(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    operands = _converted(operands, scope.result_array(operation).element_type)
    return scope.by_schema("convolution", operation, operands)


@jax_rule("convolution")
def jax_convolution(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    n = attributes["dimension_numbers"]
    step = partial(
        lax.conv_general_dilated,
        window_strides=attributes["window_strides"],
        padding=attributes["padding"],
        lhs_dilation=attributes["lhs_dilation"],
        rhs_dilation=attributes["rhs_dilation"],
        dimension_numbers=lax.ConvDimensionNumbers(
            (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions),
            (
                n.kernel_output_feature_dimension,
                n.kernel_input_feature_dimension,
                *n.kernel_spatial_dimensions,
            ),
            (n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions),
        ),
        feature_group_count=attributes.get("feature_group_count", 1),
        batch_group_count=attributes.get("batch_group_count", 1),
        precision=precision_of(op),
        preferred_element_type=result_type(op),
    )
    pairs = zip(n.kernel_spatial_dimensions, attributes["window_reversal"], strict=True)
    reversed_dimensions = [dimension for dimension, is_reversed in pairs if is_reversed]
    if any(operand.shape.element_type.bits < 8 for operand in op.operands):
        # XLA fails for these types, without the rewrites of `legalize`.
        return ctx.pasted(op)
    if not reversed_dimensions:
        return step

    def of_reversed(lhs: Value, rhs: Value) -> Value:
        return step(lhs, lax.rev(rhs, reversed_dimensions))

    # jax.lax has no window reversal. With a reversed kernel XLA adds in another order.
    return with_derivative_of(ctx.pasted(op), of_reversed)


@importer("stablehlo.einsum")
def import_einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an einsum as a dot product and a transpose."""
    left, right, result = _labels(scope, operation, 2)
    element_type = scope.result_array(operation).element_type
    lhs, rhs = _converted(operands, element_type)
    lhs, left = _summed(lhs, left, right + result)
    rhs, right = _summed(rhs, right, left + result)
    batch = [label for label in left if label in right and label in result]
    contracting = [label for label in left if label in right and label not in result]
    numbers = [
        [list(map(labels.index, shared)) for labels in (left, right)]
        for shared in (contracting, batch)
    ]
    product = xb.dot_general(lhs, rhs, numbers, preferred_element_type=element_type)
    rest = [label for label in left + right if label not in (*batch, *contracting)]
    return xb.transpose(product, list(map([*batch, *rest].index, result)))


@importer("stablehlo.unary_einsum")
def import_unary_einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a unary einsum as a sum and a transpose."""
    source, result = _labels(scope, operation, 1)
    total, remaining = _summed(operands[0], source, result)
    return xb.transpose(total, list(map(remaining.index, result)))


def _labels(scope: Scope, operation: ir.Operation, count: int) -> list[str]:
    """Return the dimension labels of each of `count` operands, and last those of the result."""
    config = scope.attribute(operation, "einsum_config")
    sources, _, result = config.replace(" ", "").partition("->")
    labels = [*sources.split(","), result]
    values = (*operation.operands, operation.results[0])
    ranks = [ir.RankedTensorType(value.type).rank for value in values]
    if (
        len(labels) != count + 1
        or not all(part.isalpha() or not part for part in labels)
        or list(map(len, labels)) != ranks
        or any(len(set(part)) < len(part) for part in labels)
        or not set(result) <= set(sources)
    ):
        raise failure(
            operation,
            "einsum_config must have one letter for each dimension, no letter twice in an array, "
            "and in the result only letters of operands",
            got=f"{config!r}",
        )
    return labels


def _summed(op: XlaOp, labels: str, retained: str) -> tuple[XlaOp, str]:
    """Sum an array along the dimensions whose labels are not in `retained`; return the sum and the
    labels of its dimensions."""
    summed = [number for number, label in enumerate(labels) if label not in retained]
    if not summed:
        return op, labels
    return xb.reduce(op, 0, xb.add, summed), "".join(c for c in labels if c in retained)
