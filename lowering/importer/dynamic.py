"""Importers of operations on bounded sizes, and of operations with sizes as operands.

Only two ops take sizes as operands: dynamic_reshape and dynamic_broadcast_in_dim. Other operations
with sizes as operands become static ops if the result has static sizes and the operands for sizes
are constants. If not, the sizes may follow from the sizes of the module's arguments (see
`refinement`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.ops.dynamic import set_to_bound
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, has_unbounded_sizes
from lowering.importer.by_schema import schema_importer
from lowering.importer.decompositions import call_decomposition
from lowering.importer.failures import failure
from lowering.importer.registry import Value, importer
from lowering.importer.scope import Scope
from lowering.jaxlib_api import artifacts

_set_dimension_size = schema_importer("set_dimension_size")


@importer("stablehlo.set_dimension_size")
def set_dimension_size(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a set_dimension_size; or, if the dimension is static in the result, the op that sets
    the size to the bound, or a remove_dynamic_dimension."""
    operand, size = operands
    dimension = scope.attribute(operation, "dimension")
    result = scope.result_array(operation)
    if result.dynamic_dimensions[dimension]:
        return _set_dimension_size(scope, operation, operands)
    bound = result.dimensions[dimension]
    if size.opcode == "constant" and size.attributes["value"] == bound:
        return set_to_bound(operand, dimension, size)
    return xb.remove_dynamic_dimension(operand, dimension)


def _static_result(scope: Scope, operation: ir.Operation) -> ArrayShape:
    """Return the shape of the result; raise LoweringError if it does not have static sizes."""
    shape = scope.result_array(operation)
    if not shape.is_static:
        raise _dynamic(scope, operation, f"the result has static sizes, got {shape}")
    return shape


def _dynamic(scope: Scope, operation: ir.Operation, rule: str) -> Exception:
    """Return the error for an operation whose sizes the imported module does not determine."""
    scope.tables.need_sizes()
    return failure(operation, f"the operation is dynamic, which XLA supports only if {rule}")


def _constants(
    scope: Scope, operation: ir.Operation, numbers: Sequence[int]
) -> dict[int, ir.Attribute]:
    """Return the values, by number, of the operands `numbers`, which must be constants."""
    constants = {}
    for number in numbers:
        owner = getattr(operation.operands[number].owner, "operation", None)
        if owner is None or owner.name != "stablehlo.constant":
            raise _dynamic(scope, operation, f"operand {number} is a constant")
        constants[number] = owner.attributes["value"]
    return constants


def _integers(scope: Scope, operation: ir.Operation, numbers: Sequence[int]) -> list[list[int]]:
    constants = _constants(scope, operation, numbers).values()
    return [np.array(value).reshape(-1).tolist() for value in constants]


_dynamic_broadcast_in_dim = schema_importer("dynamic_broadcast_in_dim")


@importer("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a broadcast: broadcast_in_dim if its sizes are constant."""
    operand, sizes = operands
    shape = scope.result_array(operation)
    if shape.is_static and operand.shape.is_static and sizes.opcode == "constant":
        dimensions = scope.attribute(operation, "broadcast_dimensions")
        return xb.broadcast_in_dim(operand, shape.dimensions, dimensions)
    return _dynamic_broadcast_in_dim(scope, operation, operands)


@importer("stablehlo.dynamic_iota")
def dynamic_iota(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    dimension = scope.attribute(operation, "iota_dimension")
    return scope.builder.iota(_static_result(scope, operation), dimension)


@importer("stablehlo.dynamic_reshape")
def dynamic_reshape(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape, source = scope.result_array(operation), operands[0].shape
    if shape.is_static and (operands[1].opcode == "constant" or has_unbounded_sizes(source)):
        return xb.reshape(operands[0], shape.dimensions)
    sizes = _scalars(scope, operation, operands[1], shape.rank)
    return xb.dynamic_reshape(operands[0], sizes, shape.dimensions, shape.dynamic_dimensions)


def _scalars(scope: Scope, operation: ir.Operation, sizes: XlaOp, count: int) -> list[XlaOp]:
    """Return the elements of a vector of sizes, as s32.

    If the vector is a concatenation of s32 scalars, as in the lowering of dynamic_reshape, return
    the scalars, and remove the reshapes and the concatenation unless they have other users.
    """
    if sizes.opcode == "concatenate":
        scalars = [part.operands[0] for part in sizes.operands if part.opcode == "reshape"]
        if len(scalars) == count and all(scalar.shape is pt.s32[()] for scalar in scalars):
            joined = operation.operands[1]
            scope.drop_last([*sizes.operands, sizes], [joined, *joined.owner.operands])
            return scalars
    elements = [xb.slice_in_dim(sizes, number, number + 1, 1, 0) for number in range(count)]
    return [xb.convert_element_type(xb.reshape(element, []), pt.s32) for element in elements]


@importer("stablehlo.real_dynamic_slice")
def real_dynamic_slice(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if not scope.result_array(operation).is_static:
        limits = _limits(scope, operation, operands)
        if limits is not None:
            starts, strides = _integers(scope, operation, (1, 3))
            return xb.slice(operands[0], starts, limits, strides)
    _static_result(scope, operation)
    return xb.slice(operands[0], *_integers(scope, operation, (1, 2, 3)))


def _limits(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> list[int] | None:
    """Return the limits of a slice that `lower` wrote as real_dynamic_slice.

    The limit of a dimension is a constant, or UNBOUNDED for the size of an unbounded dimension.
    Return None if the limits do not have this form. Remove the ops that compute the indices, unless
    they have other users.
    """
    operand, starts, joined, strides = operands
    rows = joined.operands if joined.opcode == "concatenate" else ()
    scalars = [row.operands[0] for row in rows if row.opcode == "reshape"]
    limits = []
    for dimension, scalar in enumerate(scalars):
        if scalar.opcode == "constant" and not scalar.attributes["value"].ndim:
            limits.append(int(scalar.attributes["value"]))
        elif scalar.opcode == "get_dimension_size" and scalar.operands == (operand,):
            if scalar.attributes["dimension"] != dimension:
                return None
            limits.append(UNBOUNDED)
    if len(limits) != len(rows) or not limits:
        return None
    indices = [operation.operands[number] for number in (1, 2, 3)]
    parts = _operands_of(indices[1])
    values = [*indices, *parts, *(value for part in parts for value in _operands_of(part))]
    made = [*scalars, starts, strides, *rows, joined]
    # HLO text has another order of them than `lower`.
    scope.drop_last(sorted(made, key=lambda op: op.id), values)
    return limits


def _operands_of(value: Value) -> list[Value]:
    """Return the operands of the operation that defines a value; none for a block argument."""
    return [] if isinstance(value.owner, ir.Block) else list(value.owner.operands)


@importer("stablehlo.dynamic_pad")
def dynamic_pad(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    _static_result(scope, operation)
    amounts = _integers(scope, operation, (2, 3, 4))
    return xb.pad(operands[0], operands[1], list(zip(*amounts, strict=True)))


@importer("stablehlo.dynamic_conv", "stablehlo.dynamic_gather")
def with_constant_sizes(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    _static_result(scope, operation)
    constants = _constants(scope, operation, (2,))
    return call_decomposition(scope, operation, operands, artifacts.refined, constants)


@importer("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize")
def quantized(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    raise failure(operation, "XLA has no quantized types")
