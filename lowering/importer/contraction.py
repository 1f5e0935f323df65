"""Dot products, those with groups of unequal sizes too, and convolutions."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.shape_inference.contraction import is_promotable
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope
from lowering.stablehlo.attribute_codecs import reader_of


def _of_one_type(operands: list[XlaOp], wide: PrimitiveType) -> list[XlaOp]:
    """Return the operands, lhs and rhs converted to the element type of the result if need be.

    In StableHLO lhs and rhs may have two element types, or be integers for a floating-point result;
    XLA converts them to the result's element type. A conversion is recorded only if it is exact.
    """
    lhs, rhs, *others = operands
    first, second = lhs.shape.element_type, rhs.shape.element_type
    if first is second and (first is wide or is_promotable(first, wide)):
        return operands
    if not (_is_held(first, wide) and _is_held(second, wide)):
        return operands
    return [_converted(lhs, wide), _converted(rhs, wide), *others]


def _converted(factor: XlaOp, wide: PrimitiveType) -> XlaOp:
    if factor.shape.element_type is wide:
        return factor
    return xb.convert_element_type(factor, wide)


def _is_held(element_type: PrimitiveType, wide: PrimitiveType) -> bool:
    """Whether all numbers of a type are numbers of a wide one."""
    if wide.is_complex and not element_type.is_complex:
        wide = wide.real_type
    if element_type.is_integral and wide.is_floating:
        # Floating-point types of 16 bits have 8 bits of digits or more, those of 32 bits 24.
        return wide.bits >= max(16, 2 * element_type.bits)
    return is_promotable(element_type, wide)


_dot_general = schema_importer("dot_general", "preferred_element_type")
_ragged_dot = schema_importer("ragged_dot", "preferred_element_type")
_convolution = schema_importer("convolution", "preferred_element_type")


@importer("stablehlo.dot_general")
def dot_general(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    wide = scope.result_shape(operation).element_type
    if "algorithm" not in operation.attributes:
        operands = _of_one_type(operands, wide)
    return _dot_general(scope, operation, operands, preferred_element_type=wide)


@importer("chlo.ragged_dot", "mhlo.ragged_dot")
def ragged_dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    wide = scope.result_shape(operation).element_type
    operands = _of_one_type(operands, wide)
    return _ragged_dot(scope, operation, operands, preferred_element_type=wide)


@importer("stablehlo.convolution")
def convolution(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    result = scope.result_shape(operation)
    assert isinstance(result, ArrayShape)  # verified by MLIR
    return _convolution(
        scope,
        operation,
        _of_one_type(operands, result.element_type),
        # Attributes that the operation may do without.
        window_strides=(),
        padding=[(0, 0)] * (result.rank - 2),
        lhs_dilation=None,
        rhs_dilation=None,
        preferred_element_type=result.element_type,
    )


_precision = reader_of("dot_general", "precision")


@importer("stablehlo.dot")
def dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    wide = scope.result_shape(operation).element_type
    lhs, rhs = _of_one_type(operands, wide)
    config = operation.attributes.get("precision_config")
    return xb.dot(lhs, rhs, None if config is None else _precision(config), wide)


@importer("stablehlo.einsum")
def einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """A dot product and a transpose: what the operation's letters say."""
    left, right, wanted = _letters(scope, operation, 2)
    wide = scope.result_shape(operation).element_type
    lhs, rhs = _of_one_type(operands, wide)
    lhs, left = _summed(lhs, left, right + wanted)
    rhs, right = _summed(rhs, right, left + wanted)
    batch = [c for c in left if c in right and c in wanted]
    summed = [c for c in left if c in right and c not in wanted]
    pairs = [[list(map(side.index, one)) for side in (left, right)] for one in (summed, batch)]
    product = xb.dot_general(lhs, rhs, pairs, preferred_element_type=wide)
    rest = [c for c in left + right if c not in batch and c not in summed]
    return xb.transpose(product, list(map([*batch, *rest].index, wanted)))


@importer("stablehlo.unary_einsum")
def unary_einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """A sum and a transpose."""
    source, wanted = _letters(scope, operation, 1)
    found, left = _summed(operands[0], source, wanted)
    return xb.transpose(found, list(map(left.index, wanted)))


def _letters(scope: Scope, operation: ir.Operation, count: int) -> list[str]:
    """The letters of the dimensions of so many operands, and then of the result."""
    config = scope.attribute(operation, "einsum_config")
    sources, _, wanted = config.replace(" ", "").partition("->")
    parts = [*sources.split(","), wanted]
    values = (*operation.operands, operation.results[0])
    ranks = [ir.RankedTensorType(value.type).rank for value in values]
    is_plain = all(part.isalpha() or not part for part in parts)
    if (
        len(parts) != count + 1
        or not is_plain
        or list(map(len, parts)) != ranks
        or any(len(set(part)) < len(part) for part in parts)
        or not set(wanted) <= set(sources)
    ):
        raise failure(
            operation,
            f"its einsum_config {config!r} is not a letter for each dimension, one for each of "
            f"the result that an operand has too",
        )
    return parts


def _summed(op: XlaOp, letters: str, kept: str) -> tuple[XlaOp, str]:
    """An array summed along the dimensions whose letters are not to be kept, and the letters."""
    lost = [place for place, letter in enumerate(letters) if letter not in kept]
    if not lost:
        return op, letters
    return xb.reduce(op, 0, xb.add, lost), "".join(c for c in letters if c in kept)
