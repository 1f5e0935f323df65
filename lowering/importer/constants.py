"""Import constants: read the elements of an MLIR attribute as an array.

MLIR's Python bindings expose elements whose type the buffer protocol supports. Elements of other
types, and elements in a resource of the file, are read from the bytecode of the operation.

Of a splat, MLIR and the array store one element; the array has strides of 0
(`builder.types.constant.repeats_one`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types.constant import is_splat, splat_or_array
from builder.types.shape import ArrayShape
from lowering.importer.scope import Scope
from lowering.ops.importing import failure
from lowering.ops.registry import importer
from lowering.reading.bytecode_tables import Elements, elements_in_bytecode, repeated


@importer("stablehlo.constant")
def constant(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
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
