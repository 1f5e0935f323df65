"""Constants: the elements of an MLIR attribute as an array.

MLIR's Python shows the elements of the types that Python's buffers have. Those of the others, and
those that stand in a resource of the file, are taken from the bytecode of the one operation: in it
they are bytes as they are in memory.

Elements that are all the same are one element in MLIR. They are one in the array too, which shows
it in all places (`builder.types.constant.repeats_one`).
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
        raise failure(operation, f"it gives {shape}, and a constant is an array")
    if not shape.is_static:
        raise failure(operation, f"it gives {shape}, and a constant has static sizes")
    if shape.element_count * shape.element_type.dtype.itemsize >= 1 << 63:
        raise failure(operation, f"it gives {shape}, which has more bytes than can be counted")
    if shape.rank == 1 and _only_draws(operation):
        # Sizes, which the result's shape says: in a builder of its own, so as not to be recorded.
        return XlaBuilder("sizes").constant(np.zeros(shape.dimensions, shape.element_type.dtype))
    return scope.builder.constant(_array(scope, operation, shape))


def _array(scope: Scope, operation: ir.Operation, shape: ArrayShape) -> Elements:
    if shape.element_type.is_complex:
        # MLIR's Python raises TypeError where such an attribute is asked for.
        return elements_in_bytecode(operation, shape)
    attribute = operation.attributes["value"]
    # Attributes that are equal are one in MLIR, and their elements there once.
    known = scope.tables.elements
    array = known.get(attribute)
    if array is None:
        array = known[attribute] = _elements(operation, attribute, shape)
    return array


def _only_draws(operation: ir.Operation) -> bool:
    """Whether the result is the sizes of random numbers drawn beside it, and nothing else."""
    uses = list(operation.results[0].uses)
    return bool(uses) and all(
        use.owner.name == "stablehlo.rng"
        and use.operand_number == 2
        and use.owner.operation.block == operation.block
        for use in uses
    )


def _elements(operation: ir.Operation, attribute: Any, shape: ArrayShape) -> Elements:
    """The elements as an array that is contiguous, or repeats one; nobody else can write to it."""
    try:
        view = memoryview(attribute)
    except (BufferError, TypeError):
        return elements_in_bytecode(operation, shape)
    seen = np.asarray(view)
    if seen.dtype != shape.element_type.dtype:
        return elements_in_bytecode(operation, shape)
    if is_splat(seen):
        return _repeated(np.array(splat_or_array(seen)), shape)
    # The one copy. (Without it the module would stay as long as the computation.)
    array = np.array(seen, order="C")
    array.flags.writeable = False
    return array


def _repeated(one: Elements, shape: ArrayShape) -> Elements:
    one = one.reshape(())
    one.flags.writeable = False
    return np.broadcast_to(one, shape.dimensions) if shape.rank else one


def elements_in_bytecode(operation: ir.Operation, shape: ArrayShape) -> Elements:
    """The elements out of the operation's bytecode, of which they are a piece of their own."""
    dtype = shape.element_type.dtype
    count = shape.element_count
    if not count:
        return np.empty(shape.dimensions, dtype)
    # A copy, since MLIR dies of writing an operation alone whose value others use. (The elements
    # are not copied.) Other attributes may hold elements too.
    alone = operation.clone()
    for name in [name for name in alone.attributes if name != "value"]:
        del alone.attributes[name]
    sizes = (count * dtype.itemsize, dtype.itemsize)
    found = set(_elements_among(bytecode_pieces(alone), sizes))
    if len(found) != 1:
        raise failure(
            operation, "its elements are not in the file, or can't be told from what is around them"
        )
    # Bytes, which nobody can write to: no copy of what is large.
    array = np.frombuffer(found.pop(), np.uint8)
    if shape.element_type is pt.pred:
        array = array != 0
        array.flags.writeable = False
    array = array.view(dtype)
    return _repeated(array.copy(), shape) if array.size == 1 else array.reshape(shape.dimensions)


def _elements_among(pieces: Sequence[bytes], sizes: Sequence[int]) -> Iterator[bytes]:
    """The pieces of bytecode that are elements, of one of these sizes in bytes.

    Before dense elements stand their code, the number of their type, and the size. Before a
    resource, its alignment, the size, and what fills it up; and before these what begins the
    section of resources, in which it is alone.

    MLIR Bytecode Format: Attribute/Type Sections; Resource Section.
    """
    for size in sizes:
        said = re.escape(reference(size))
        dense = re.compile(b"%." + said + b"$", re.DOTALL)
        resource = re.compile(b".{1,9}" + said + b"\xcb*", re.DOTALL)
        for before, head, piece in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if len(piece) != size:
                continue
            section = reference(len(head) + size)
            if dense.search(head) or (
                before.startswith((b"\x05" + section, b"\x85" + section))
                and resource.fullmatch(head)
            ):
                yield piece
