"""Sizes known only when it runs, and operations that are given sizes as values.

Of the latter XLA has one, dynamic_reshape. The others are read where their result has static sizes
and what they are given is constant: then they are ordinary operations. Where it isn't, sizes may
still be known from the arguments' (see `refinement`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.ops.dynamic import set_to_bound
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.importer.decompositions import call_in_other_words
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope
from lowering.jaxlib_api import artifacts


@importer("stablehlo.set_dimension_size")
def set_dimension_size(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    operand, size = operands
    dimension = scope.attribute(operation, "dimension")
    result = scope.result_shape(operation)
    assert isinstance(result, ArrayShape)  # MLIR's verifier has said so
    if not result.dynamic_dimensions[dimension]:  # it is set to its bound: so it is lowered
        bound = result.dimensions[dimension]
        if size.opcode == "constant" and size.attributes["value"] == bound:
            return set_to_bound(operand, dimension, size)
        return xb.remove_dynamic_dimension(operand, dimension)
    return xb.set_dimension_size(operand, size, dimension)


def _result(scope: Scope, operation: ir.Operation) -> ArrayShape:
    """The shape of the result, which must have static sizes."""
    shape = scope.result_shape(operation)
    assert isinstance(shape, ArrayShape)  # MLIR's verifier has said so
    if not shape.is_static:
        raise _dynamic(scope, operation, f"the sizes of its result, {shape}, are not fixed")
    return shape


def _dynamic(scope: Scope, operation: ir.Operation, reason: str) -> Exception:
    """The error of an operation whose sizes are not known here."""
    scope.tables.need_sizes()
    return failure(operation, f"it is dynamic, and XLA's shapes are not: {reason}")


def _constants(
    scope: Scope, operation: ir.Operation, numbers: Sequence[int]
) -> dict[int, ir.Attribute]:
    """What operands of these numbers are, which must be constants."""
    found = {}
    for number in numbers:
        owner = getattr(operation.operands[number].owner, "operation", None)
        if owner is None or owner.name != "stablehlo.constant":
            raise _dynamic(scope, operation, f"its operand {number} is no constant")
        found[number] = owner.attributes["value"]
    return found


def _integers(constants: dict[int, ir.Attribute]) -> list[list[int]]:
    return [np.array(one).reshape(-1).tolist() for one in constants.values()]


@importer("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    sizes = _result(scope, operation).dimensions
    places = scope.attribute(operation, "broadcast_dimensions")
    return xb.broadcast_in_dim(operands[0], sizes, places)


@importer("stablehlo.dynamic_iota")
def dynamic_iota(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    dimension = scope.attribute(operation, "iota_dimension")
    return scope.builder.iota(_result(scope, operation), dimension)


@importer("stablehlo.dynamic_reshape")
def dynamic_reshape(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape = scope.result_shape(operation)
    assert isinstance(shape, ArrayShape)  # MLIR's verifier has said so
    if shape.is_static and operands[1].opcode == "constant":
        return xb.reshape(operands[0], shape.dimensions)
    if not (shape.is_static or shape.is_bounded):
        _result(scope, operation)
    sizes = _scalars(scope, operation, operands[1], shape.rank)
    bounds, dynamic = shape.dimensions, shape.dynamic_dimensions
    return xb.dynamic_reshape(operands[0], sizes, bounds, dynamic)


def _scalars(scope: Scope, operation: ir.Operation, sizes: XlaOp, count: int) -> list[XlaOp]:
    """The elements of a vector of sizes, as s32.

    If it was put together of such, as the way to StableHLO does, then these; what put it together
    is not recorded, unless something else uses it.
    """
    if sizes.opcode == "concatenate":
        parts = [one.operands[0] for one in sizes.operands if one.opcode == "reshape"]
        if len(parts) == count and all(one.shape is pt.s32[()] for one in parts):
            joined = operation.operands[1]
            scope.take_back([*sizes.operands, sizes], [joined, *joined.owner.operands])
            return parts
    each = [xb.slice_in_dim(sizes, number, number + 1, 1, 0) for number in range(count)]
    return [xb.convert_element_type(xb.reshape(one, []), pt.s32) for one in each]


@importer("stablehlo.real_dynamic_slice")
def real_dynamic_slice(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    _result(scope, operation)
    return xb.slice(operands[0], *_integers(_constants(scope, operation, (1, 2, 3))))


@importer("stablehlo.dynamic_pad")
def dynamic_pad(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    _result(scope, operation)
    sides = _integers(_constants(scope, operation, (2, 3, 4)))
    return xb.pad(operands[0], operands[1], list(zip(*sides, strict=True)))


@importer("stablehlo.dynamic_conv", "stablehlo.dynamic_gather")
def of_known_sizes(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    _result(scope, operation)
    known = _constants(scope, operation, (2,))
    return call_in_other_words(scope, operation, operands, artifacts.refined, known)


@importer("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize")
def quantized(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    raise failure(operation, "it is about quantized types, and XLA has no such types")
