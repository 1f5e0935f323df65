"""Read the elements of constants from bytecode, which stores them as they are in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.jaxlib_api.mlir import bytecode_pieces
from lowering.mlir.bytecode import reference

Elements = np.ndarray[Any, Any]


def repeated(element: Elements, shape: ArrayShape) -> Elements:
    """Return an array that repeats one element, without copying it."""
    element = element.reshape(())
    element.flags.writeable = False
    return np.broadcast_to(element, shape.dimensions) if shape.rank else element


def elements_in_bytecode(operation: ir.Operation, shape: ArrayShape) -> Elements | None:
    """Return a constant's elements from its bytecode, in which they are a separate piece.

    Return None if the bytecode does not contain them, or if other bytes may be the elements too.
    """
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
        return None
    array = np.frombuffer(candidates.pop(), np.uint8)  # read-only, without a copy
    if shape.element_type is pt.pred:
        array = array != 0
        array.flags.writeable = False
    array = array.view(dtype)
    return repeated(array.copy(), shape) if array.size == 1 else array.reshape(shape.dimensions)


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
