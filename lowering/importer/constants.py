"""Constants: the elements of an MLIR attribute as an array.

MLIR's Python exposes elements of types that the buffer protocol supports. Elements of other types,
and those in a resource of the file, are read from the bytecode of the operation, which has them as
in memory.

A splat is one element in MLIR. It is one in the array too, which repeats it
(`builder.types.constant.repeats_one`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.constant import is_splat, splat_or_array
from builder.types.shape import ArrayShape
from lowering.importer.failures import failure
from lowering.importer.registry import importer
from lowering.importer.scope import Scope
from lowering.jaxlib_api.mlir import bytecode_pieces
from lowering.mlir.bytecode import reference

Elements = np.ndarray[Any, Any]


@importer("stablehlo.constant")
def constant(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape = scope.result_shape(operation)
    if not isinstance(shape, ArrayShape):
        raise failure(operation, f"a constant must be an array, got {shape}")
    if not shape.is_static:
        raise failure(operation, f"a constant must have static sizes, got {shape}")
    if shape.element_count * shape.element_type.dtype.itemsize >= 1 << 63:
        raise failure(operation, f"a constant must have less than 2**63 bytes, got {shape}")
    if shape.rank == 1 and _is_only_rng_sizes(operation):
        # The result of the rng has the sizes: record the constant in another builder.
        return XlaBuilder("sizes").constant(np.zeros(shape.dimensions, shape.element_type.dtype))
    if shape.element_type.is_complex:  # MLIR's Python raises TypeError for the attribute
        return scope.builder.constant(elements_in_bytecode(operation, shape))
    attribute = operation.attributes["value"]
    array = scope.tables.elements.get(attribute)
    if array is None:
        array = scope.tables.elements[attribute] = _elements(operation, attribute, shape)
    return scope.builder.constant(array)


def _is_only_rng_sizes(operation: ir.Operation) -> bool:
    """Return whether the result is used only as the sizes of random numbers in the same block."""
    uses = list(operation.results[0].uses)
    return bool(uses) and all(
        use.owner.name == "stablehlo.rng"
        and use.operand_number == 2
        and use.owner.operation.block == operation.block
        for use in uses
    )


def _elements(operation: ir.Operation, attribute: Any, shape: ArrayShape) -> Elements:
    """Return the elements as a read-only array, contiguous or repeating one element."""
    try:
        view = memoryview(attribute)
    except (BufferError, TypeError):
        return elements_in_bytecode(operation, shape)
    elements = np.asarray(view)
    if elements.dtype != shape.element_type.dtype:
        return elements_in_bytecode(operation, shape)
    if is_splat(elements):
        return _repeated(np.array(splat_or_array(elements)), shape)
    # A copy, because a view would keep the module alive.
    array = np.array(elements, order="C")
    array.flags.writeable = False
    return array


def _repeated(element: Elements, shape: ArrayShape) -> Elements:
    element = element.reshape(())
    element.flags.writeable = False
    return np.broadcast_to(element, shape.dimensions) if shape.rank else element


def elements_in_bytecode(operation: ir.Operation, shape: ArrayShape) -> Elements:
    """Return the elements in the operation's bytecode, where they are a separate piece."""
    dtype = shape.element_type.dtype
    count = shape.element_count
    if not count:
        return np.empty(shape.dimensions, dtype)
    # A clone, without copying elements: MLIR aborts on writing a single operation whose result has
    # users. Other attributes may have elements too.
    clone = operation.clone()
    for name in [name for name in clone.attributes if name != "value"]:
        del clone.attributes[name]
    sizes = (count * dtype.itemsize, dtype.itemsize)
    candidates = set(_elements_among(bytecode_pieces(clone), sizes))
    if len(candidates) != 1:
        raise failure(operation, "its elements are not in the file, or are ambiguous in it")
    array = np.frombuffer(candidates.pop(), np.uint8)  # read-only, without a copy
    if shape.element_type is pt.pred:
        array = array != 0
        array.flags.writeable = False
    array = array.view(dtype)
    return _repeated(array.copy(), shape) if array.size == 1 else array.reshape(shape.dimensions)


def _elements_among(pieces: Sequence[bytes], sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield the pieces of bytecode that are elements, of one of these sizes in bytes.

    Dense elements follow their code, the number of their type, and the size. A resource follows its
    alignment, the size, and padding; these follow the header of the resource section, which has
    only this resource.

    MLIR Bytecode Format: Attribute/Type Sections; Resource Section.
    """
    for size in sizes:
        encoded = re.escape(reference(size))
        dense = re.compile(b"%." + encoded + b"$", re.DOTALL)
        resource = re.compile(b".{1,9}" + encoded + b"\xcb*", re.DOTALL)
        for before, head, piece in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if len(piece) != size:
                continue
            section = reference(len(head) + size)
            if dense.search(head) or (
                before.startswith((b"\x05" + section, b"\x85" + section))
                and resource.fullmatch(head)
            ):
                yield piece
