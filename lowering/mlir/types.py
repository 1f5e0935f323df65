"""Convert shapes to MLIR types and back, and NumPy arrays to attributes; flatten tuples.

Modules have no tuples: a tuple value is a list of SSA values, nested like its shape.

StableHLO: Types. A bounded dimension is `?` with a bound in the tensor's encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np
from jaxlib.mlir import ir

from builder.graph.aliasing import leaf_indices
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import (
    TOKEN_SHAPE,
    UNBOUNDED,
    ArrayShape,
    Shape,
    TokenShape,
    array_shape,
    fold,
)
from lowering.errors import LoweringError


def flatten(values: Sequence[Any]) -> list[Any]:
    """Return the items of nested lists, left to right."""
    flat: list[Any] = []
    stack: list[Iterator[Any]] = [iter(values)]
    while stack:
        for value in stack[-1]:
            if isinstance(value, list):
                stack.append(iter(value))
                break
            flat.append(value)
        else:
            stack.pop()
    return flat


def unflatten(shape: Shape, values: Iterator[Any]) -> Any:
    """Return the next value for each leaf of `shape`, in lists that are nested like `shape`."""
    return fold(shape, lambda _: next(values), list)


def leaf_paths(shape: Shape) -> list[str]:
    """Return the index of each leaf as text: "[0][1]" in a nested tuple, "" for an array."""
    return ["".join(f"[{i}]" for i in index) for index in leaf_indices(shape)]


_SMALL_FLOATS: Final = {
    "f4e2m1fn": "f4E2M1FN",
    "f8e3m4": "f8E3M4",
    "f8e4m3": "f8E4M3",
    "f8e4m3fn": "f8E4M3FN",
    "f8e4m3b11fnuz": "f8E4M3B11FNUZ",
    "f8e4m3fnuz": "f8E4M3FNUZ",
    "f8e5m2": "f8E5M2",
    "f8e5m2fnuz": "f8E5M2FNUZ",
    "f8e8m0fnu": "f8E8M0FNU",
}


def element_type_text(element_type: PrimitiveType) -> str:
    """The MLIR text of an element type: "i1" for pred, "ui8" for u8, "complex<f32>" for c64."""
    if element_type is pt.pred:
        return "i1"
    if element_type.is_integral:
        return f"{'i' if element_type.is_signed else 'ui'}{element_type.bits}"
    if element_type.is_complex:
        return f"complex<{element_type.real_type}>"
    return _SMALL_FLOATS.get(element_type.name, element_type.name)


_BY_TEXT: Final = {element_type_text(t): t for t in pt.ALL}


@per_signature
def type_text(shape: ArrayShape | TokenShape) -> str:
    """The MLIR text of the type of an array or token. Tuples have no MLIR type here."""
    if isinstance(shape, TokenShape):
        return "!stablehlo.token"
    if shape.is_static:
        sizes = "".join([f"{size}x" for size in shape.dimensions])
        return f"tensor<{sizes}{element_type_text(shape.element_type)}>"
    dimensions = list(zip(shape.dimensions, shape.dynamic_dimensions, strict=True))
    sizes = "".join(f"{'?' if dynamic else size}x" for size, dynamic in dimensions)
    bounds = [str(size) if dynamic and size != UNBOUNDED else "?" for size, dynamic in dimensions]
    is_bounded = any(bound != "?" for bound in bounds)
    encoding = f", #stablehlo.bounds<{', '.join(bounds)}>" if is_bounded else ""
    return f"tensor<{sizes}{element_type_text(shape.element_type)}{encoding}>"


def mlir_type(shape: ArrayShape | TokenShape, context: ir.Context) -> ir.Type:
    """The MLIR type of an array or token."""
    return ir.Type.parse(type_text(shape), context)


_BOUNDS: Final = re.compile(r"#stablehlo\.bounds<([^>]*)>")


class UnsupportedTypeError(LoweringError):
    """XLA has no shape that corresponds to an MLIR type; the message does not name an operation."""


def shape_of_type(value: ir.Type) -> ArrayShape | TokenShape:
    """The shape of a value of this MLIR type.

    Raises:
        UnsupportedTypeError: XLA has no corresponding shape (quantized types, memref, index, an
            encoding other than bounds).
    """
    try:
        tensor = ir.RankedTensorType(value)
    except ValueError:
        if str(value) == "!stablehlo.token":
            return TOKEN_SHAPE
        raise _unsupported(value, "is neither a tensor nor a token") from None
    element_text = str(tensor.element_type)
    element_type = _BY_TEXT.get(element_text)
    if element_type is None:
        text = shortened(str(value))
        raise UnsupportedTypeError(
            f"the MLIR element type {element_text} of {text} is not supported by XLA"
        )
    dynamic = [tensor.is_dynamic_dim(i) for i in range(tensor.rank)]
    sizes = [UNBOUNDED if d else tensor.get_dim_size(i) for i, d in enumerate(dynamic)]
    encoding = tensor.encoding
    match = None if encoding is None else _BOUNDS.fullmatch(str(encoding))
    if encoding is not None and match is None:
        raise _unsupported(value, "has an encoding other than #stablehlo.bounds")
    try:
        if True not in dynamic:  # the usual case, which `array_shape` converts fast
            return array_shape(element_type, tuple(sizes))
        if match is not None:
            for index, bound in enumerate(match[1].split(",")):
                if bound.strip() != "?" and dynamic[index]:
                    sizes[index] = int(bound)
        return array_shape(element_type, sizes, dynamic_dimensions=dynamic)
    except (IndexError, ValueError) as error:
        raise _unsupported(value, f"is not an XLA shape: {error}") from None


def _unsupported(value: ir.Type, reason: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(f"the MLIR type {shortened(str(value))} {reason}")


def array_shape_of_type(value: ir.Type) -> ArrayShape | None:
    """The shape of a value of this MLIR type; None unless it is an array that XLA supports."""
    try:
        shape = shape_of_type(value)
    except UnsupportedTypeError:
        return None
    return shape if isinstance(shape, ArrayShape) else None


def is_of_other_elements(value: ir.Type) -> bool:
    """Whether a type is a tensor whose element type XLA does not support."""
    if not isinstance(value, ir.RankedTensorType):
        return False
    return str(ir.RankedTensorType(value).element_type) not in _BY_TEXT


def shortened(text: str) -> str:
    """Return `text` for a message, cut to 200 characters."""
    return text if len(text) <= 200 else f"{text[:200]}..."


def dense_attribute(array: np.ndarray[Any, Any], tensor_type: ir.Type) -> ir.Attribute:
    """The elements of an array as an MLIR attribute, copied once into the MLIR context.

    The array must be C-contiguous, and exactly of the tensor's sizes and element type, as `builder`
    ensures. MLIR does not check this, and would read wrong values.
    """
    attribute: ir.Attribute = ir.DenseElementsAttr.get(cast(Any, array), type=tensor_type)
    return attribute
