"""Read the elements of constants from MLIR bytecode, which contains the bytes of the elements."""

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
    """Return a read-only array of `shape` that repeats one element, without copies of it."""
    element = element.reshape(())
    element.flags.writeable = False
    return np.broadcast_to(element, shape.dimensions) if shape.rank else element


def elements_in_bytecode(operation: ir.Operation, shape: ArrayShape) -> Elements | None:
    """Return the elements of a constant operation, found in the operation's bytecode.

    Return None if the elements are not found, or if several parts of the bytecode may be them.
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
    """Yield the pieces of bytecode that are the elements of an attribute.

    The piece before dense elements ends with the attribute code, the number of the type, and the
    size of the elements. The piece before a resource consists of the alignment, the size, and
    padding. The piece before that begins with the header of the resource section, which contains
    only this resource.

    Args:
        pieces: the bytecode, in the pieces in which MLIR writes it.
        sizes: the possible sizes of the elements in bytes.

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
