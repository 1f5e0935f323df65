"""Dot products, those with groups of unequal sizes too, and convolutions."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.shape_inference.contraction import is_promotable
from builder.types.primitive_type import PrimitiveType
from lowering.importer.registry import importer
from lowering.importer.scope import Scope, failure
from lowering.importer.tables import decoded
from lowering.stablehlo.attribute_codecs import reader_of

Pair = tuple[xb.Precision, xb.Precision]


def _pair(attribute: ir.Attribute) -> Pair | None:
    """The precisions of both operands; None for the default."""
    pair = xb.Precision.pair(decoded(attribute) or None)
    return None if pair == xb.Precision.pair(None) else pair


def _precision(scope: Scope, operation: ir.Operation) -> Pair | None:
    if not scope.has(operation, "precision_config"):
        return None
    return scope.read(operation, "precision_config", _pair)


def _of_one_type(lhs: XlaOp, rhs: XlaOp, wide: PrimitiveType) -> tuple[XlaOp, XlaOp]:
    """The two factors, of one type that the result may have.

    StableHLO takes factors of unlike types, and integers whose products are to be floating-point
    numbers; XLA converts them to the result's type. So that is recorded, where no number changes.
    """
    first, second = lhs.shape.element_type, rhs.shape.element_type
    if first is second and (first is wide or is_promotable(first, wide)):
        return lhs, rhs
    if not (_is_held(first, wide) and _is_held(second, wide)):
        return lhs, rhs
    return _converted(lhs, wide), _converted(rhs, wide)


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


_dot_numbers = reader_of("dot_general", "dimension_numbers")
_algorithm = reader_of("dot_general", "algorithm")
_ragged_numbers = reader_of("ragged_dot", "dimension_numbers")
_convolution_numbers = reader_of("convolution", "dimension_numbers")
_padding = reader_of("convolution", "padding")


@importer("stablehlo.dot_general")
def dot_general(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    numbers = scope.read(operation, "dot_dimension_numbers", _dot_numbers)
    algorithm = None
    lhs, rhs = operands
    wide = scope.result_shape(operation).element_type
    if not scope.has(operation, "algorithm"):
        lhs, rhs = _of_one_type(lhs, rhs, wide)
    else:
        algorithm = scope.read(operation, "algorithm", _algorithm)
        if algorithm is None:
            said = operation.attributes["algorithm"]
            raise failure(operation, f"XlaBuilder has no algorithm like its {said}")
    return xb.dot_general(
        lhs,
        rhs,
        numbers,
        precision=_precision(scope, operation),
        preferred_element_type=wide,
        algorithm=algorithm,
    )


@importer("stablehlo.dot")
def dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    wide = scope.result_shape(operation).element_type
    lhs, rhs = _of_one_type(operands[0], operands[1], wide)
    return xb.dot(lhs, rhs, _precision(scope, operation), wide)


@importer("chlo.ragged_dot", "mhlo.ragged_dot")
def ragged_dot(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    wide = scope.result_shape(operation).element_type
    lhs, rhs = _of_one_type(operands[0], operands[1], wide)
    return xb.ragged_dot(
        lhs,
        rhs,
        operands[2],
        scope.read(operation, "ragged_dot_dimension_numbers", _ragged_numbers),
        _precision(scope, operation),
        wide,
    )


@importer("stablehlo.convolution")
def convolution(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    numbers = scope.read(operation, "dimension_numbers", _convolution_numbers)
    padding: Any = ((0, 0),) * len(numbers.input_spatial_dimensions)
    if scope.has(operation, "padding"):
        padding = scope.read(operation, "padding", _padding)
    wide = scope.result_shape(operation).element_type
    lhs, rhs = _of_one_type(operands[0], operands[1], wide)
    return xb.conv_general_dilated(
        lhs,
        rhs,
        scope.attribute(operation, "window_strides", ()),
        padding,
        scope.attribute(operation, "lhs_dilation"),
        scope.attribute(operation, "rhs_dilation"),
        numbers,
        scope.attribute(operation, "feature_group_count"),
        scope.attribute(operation, "batch_group_count"),
        _precision(scope, operation),
        wide,
        scope.attribute(operation, "window_reversal"),
    )


@importer("stablehlo.einsum")
def einsum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """A dot product and a transpose: what the operation's letters say."""
    left, right, wanted = _letters(scope, operation, 2)
    wide = scope.result_shape(operation).element_type
    lhs, rhs = _of_one_type(operands[0], operands[1], wide)
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
