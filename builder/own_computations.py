"""Computations that the library writes itself: orders for sorts, and other words for users' own.

They are recorded as they stand, without inference: what goes into them has been inferred. Each
belongs to nobody's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.nested import tuple_of
from builder.primitive_type import PrimitiveType
from builder.recording import append
from builder.shape import Shape, intern_array
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp

__all__ = ["earliest_selected", "in_order", "narrowed"]

_PRED = intern_array(pt.pred, ())


def _built(builder: XlaBuilder, root: XlaOp) -> XlaComputation:
    for one in builder.ops:
        one.code, one.lasti = None, 0
    return builder.build(root)


def _compared(lhs: XlaOp, rhs: XlaOp, direction: str) -> XlaOp:
    """A comparison of scalars that are not complex, in the total order of floating point."""
    element_type = lhs.shape.element_type
    if element_type.is_floating:
        kind = "TOTALORDER"
    else:
        kind = "SIGNED" if element_type.is_signed else "UNSIGNED"
    attributes = MappingProxyType({"comparison_direction": direction, "compare_type": kind})
    return append(lhs.builder, "compare", _PRED, (lhs, rhs), attributes)


@lru_cache(maxsize=4096)
def in_order(element_types: tuple[PrimitiveType, ...], direction: str = "LT") -> XlaComputation:
    """A comparator for arrays of these types, which compares the elements of the first alone.

    Floating point is compared in its total order, complex numbers by the real and then the
    imaginary part.

    Args:
        element_types: one for each array.
        direction: "LT" for the smallest first, "GT" for the largest.
    """
    builder = XlaBuilder("compare_less_than" if direction == "LT" else "compare_greater_than")
    parameters = [
        builder.parameter(intern_array(element_type, ()), f"p.{number}.{side}")
        for number, element_type in enumerate(element_types)
        for side in ("lhs", "rhs")
    ]
    lhs, rhs = parameters[:2]
    if not element_types[0].is_complex:
        return _built(builder, _compared(lhs, rhs, direction))
    part = intern_array(element_types[0].real_type, ())
    real, other_real = (append(builder, "real", part, (value,)) for value in (lhs, rhs))
    imag, other_imag = (append(builder, "imag", part, (value,)) for value in (lhs, rhs))
    tie = (_compared(real, other_real, "EQ"), _compared(imag, other_imag, direction))
    broken = append(builder, "and", _PRED, tie)
    decided = _compared(real, other_real, direction)
    return _built(builder, append(builder, "or", _PRED, (decided, broken)))


def _inlined(builder: XlaBuilder, computation: XlaComputation, arguments: Sequence[XlaOp]) -> XlaOp:
    """Records the ops of a computation once more, with these arguments."""
    copies: list[XlaOp] = []
    for op in computation.ops:
        if op.opcode == "parameter":
            copies.append(arguments[op.attributes["number"]])
            continue
        operands = tuple([copies[o.id] for o in op.operands])
        copies.append(append(builder, op.opcode, op.shape, operands, op.attributes))
    return copies[computation.root.id]


def narrowed(comparator: XlaComputation, wide: Sequence[PrimitiveType]) -> XlaComputation:
    """`comparator` for values that stand as other types: of more bits, or for floats as bits.

    Args:
        comparator: of 2N scalars.
        wide: for each of the N the type that its values stand in.
    """
    builder = XlaBuilder(comparator.name)
    arguments = []
    for number, parameter in enumerate(comparator.parameters):
        wanted = parameter.shape
        value = builder.parameter(intern_array(wide[number // 2], ()))
        if value.shape is not wanted:
            opcode = "bitcast_convert" if wanted.element_type.is_floating else "convert"
            value = append(builder, opcode, wanted, (value,))
        arguments.append(value)
    return _built(builder, _inlined(builder, comparator, arguments))


def earliest_selected(select: XlaComputation, index_type: PrimitiveType) -> XlaComputation:
    """A reducer of values and their places that selects one, whatever order it is called in.

    It takes (value, place, value, place); a place of -1 means that there is no value. `select` is
    asked about two values in the order of their places.
    """
    builder = XlaBuilder(f"{select.name}_of_two")
    scalar, place = select.parameters[0].shape, intern_array(index_type, ())
    shapes: list[Shape] = [scalar, place, scalar, place]
    value, at, other, other_at = (builder.parameter(shape) for shape in shapes)

    def choose(condition: XlaOp, on_true: XlaOp, on_false: XlaOp) -> XlaOp:
        return append(builder, "select", on_true.shape, (condition, on_true, on_false))

    nowhere = append(
        builder, "constant", place, (), {"value": np.array(-1).astype(index_type.dtype)}
    )
    forward = _inlined(builder, select, [value, other])
    backward = append(builder, "not", _PRED, (_inlined(builder, select, [other, value]),))
    asked = choose(_compared(at, other_at, "LT"), forward, backward)
    present, other_absent = _compared(at, nowhere, "NE"), _compared(other_at, nowhere, "EQ")
    is_first = append(
        builder, "or", _PRED, (other_absent, append(builder, "and", _PRED, (present, asked)))
    )
    parts = (choose(is_first, value, other), choose(is_first, at, other_at))
    return _built(builder, tuple_of(builder, parts))
