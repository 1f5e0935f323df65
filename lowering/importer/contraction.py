"""Importers of einsums, and of dot products and convolutions of two element types."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.ops.contraction.dot_product import is_promotable
from builder.types.primitive_type import PrimitiveType
from lowering.importer.by_schema import schema_importer
from lowering.importer.failures import failure
from lowering.importer.registry import importer
from lowering.importer.scope import Scope
from lowering.stablehlo.schema_attributes import reader_of

_dot_general = schema_importer("dot_general")
_ragged_dot = schema_importer("ragged_dot")
_convolution = schema_importer("convolution")
_precision = reader_of("dot_general", "precision")


@importer("stablehlo.dot_general")
def dot_general(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if "algorithm" not in operation.attributes:
        operands = _converted(operands, scope.result_array(operation).element_type)
    return _dot_general(scope, operation, operands)


@importer("chlo.ragged_dot", "mhlo.ragged_dot")
def ragged_dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    operands = _converted(operands, scope.result_array(operation).element_type)
    return _ragged_dot(scope, operation, operands)


@importer("stablehlo.convolution")
def convolution(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    operands = _converted(operands, scope.result_array(operation).element_type)
    return _convolution(scope, operation, operands)


@importer("stablehlo.dot")
def dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    element_type = scope.result_array(operation).element_type
    lhs, rhs = _converted(operands, element_type)
    config = operation.attributes.get("precision_config")
    return xb.dot(lhs, rhs, None if config is None else _precision(config), element_type)


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


@importer("stablehlo.einsum")
def einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
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
def unary_einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
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
            f"einsum_config must have one letter for each dimension, no letter twice in an array, "
            f"and in the result only letters of operands, got {config!r}",
        )
    return labels


def _summed(op: XlaOp, labels: str, retained: str) -> tuple[XlaOp, str]:
    """Sum an array along the dimensions whose labels are not in `retained`; return the sum and the
    labels of its dimensions."""
    summed = [number for number, label in enumerate(labels) if label not in retained]
    if not summed:
        return op, labels
    return xb.reduce(op, 0, xb.add, summed), "".join(c for c in labels if c in retained)
