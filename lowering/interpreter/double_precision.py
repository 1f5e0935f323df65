"""A computation with each inexact op computed in double precision, and rounded.

The reference interpreter is slow. A device that computes an op in f64 from the same operands and
rounds the result is a reference as well: almost all of its elements are rounded correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import builder as xb
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_constant, is_parameter
from builder.rewriting.copying import copy_op
from builder.rewriting.replacing import Operands
from builder.schema import Trait, opcodes_with
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, TupleShape, fold
from lowering.interpreter import tolerances

_AS_THEY_ARE: Final = opcodes_with(Trait.CONTROL_FLOW) | {"convert", "reduce_precision"}
"""Opcodes that are not computed in other types; the ops that control flow applies are."""

_NOT_REPEATED: Final = frozenset(("composite", "custom_call", "python_call", "rng"))
"""Opcodes whose values the CPU may compute otherwise, and not only with other rounding."""

_OF_TYPES: Final = ("algorithm", "precision_config")
"""The attributes for operands of given types."""


class InDouble(NamedTuple):
    """A computation in which inexact ops are computed in f64 or c128, and rounded.

    Attributes:
        computation: the computation.
        ops: for each op of the original computation, the op of `computation` with its value.
        left_out: the ops of the original that are not to be compared: composites, custom calls,
            Python functions and random numbers.
    """

    computation: XlaComputation
    ops: dict[XlaOp, XlaOp]
    left_out: list[XlaOp]


def in_double(computation: XlaComputation) -> InDouble:
    """Return a computation with inexact ops in double precision, of the same results."""
    ops: dict[XlaOp, XlaOp] = {}
    left_out: list[XlaOp] = []

    def recorded(op: XlaOp, operands: Operands) -> XlaOp:
        wide = widened(op, operands)
        ops[op] = operands.keep() if wide is None else wide
        return ops[op]

    def widened(op: XlaOp, operands: Operands) -> XlaOp | None:
        types = {leaf.element_type for leaf in _arrays(op.shape)}
        types |= {leaf.element_type for o in op.operands for leaf in _arrays(o.shape)}
        if op.opcode in _NOT_REPEATED:
            left_out.append(op)
            return None
        is_inexact = tolerances.of_op(op, "cpu") and any(map(_is_narrow, types))
        if not is_inexact or op.opcode in _AS_THEY_ARE:
            return None
        wide = [_converted(operand, _wider(operand.shape)) for operand in operands]
        result = copy_op(op, tuple(wide), operands.builder, _attributes(op))
        result.shape = _wider(op.shape)
        return _rounded(result, op.shape)

    wide = computation.replace(recorded, nested=True)
    return InDouble(wide, ops, [op for op in left_out if op.builder is computation.root.builder])


def _arrays(shape: Shape) -> list[ArrayShape]:
    if isinstance(shape, TupleShape):
        return [leaf for element in shape.elements for leaf in _arrays(element)]
    return [shape] if isinstance(shape, ArrayShape) else []


def _is_narrow(element_type: PrimitiveType) -> bool:
    is_inexact = element_type.is_floating or element_type.is_complex
    return is_inexact and element_type.real_type is not pt.f64


def _wider(shape: Shape) -> Shape:
    """Return a shape with f64 and c128 in place of narrower types."""

    def wider(leaf: Any) -> Shape:
        if not isinstance(leaf, ArrayShape) or not _is_narrow(leaf.element_type):
            shape: Shape = leaf
            return shape
        return leaf.with_element_type(pt.c128 if leaf.element_type.is_complex else pt.f64)

    return fold(shape, wider, TupleShape)


def _converted(value: XlaOp, shape: Shape) -> XlaOp:
    """Convert the arrays of a value to the types of a shape."""
    if value.shape is shape:
        return value
    if isinstance(shape, TupleShape):
        return xb.tuple(*[_converted(*pair) for pair in zip(value, shape.elements, strict=True)])
    assert isinstance(shape, ArrayShape)
    return xb.convert_element_type(value, shape.element_type)


def _rounded(value: XlaOp, shape: Shape) -> XlaOp:
    """Convert a value to the types of a shape, rounded also where it is only read in f64.

    XLA leaves out a conversion to f32 and back.
    """
    if isinstance(shape, TupleShape):
        return xb.tuple(*[_rounded(*pair) for pair in zip(value, shape.elements, strict=True)])
    if value.shape is shape:
        return value
    assert isinstance(shape, ArrayShape)
    bits = _BITS.get(shape.element_type.real_type)
    if bits is not None and shape.element_type.is_complex:
        real, imag = (xb.reduce_precision(part, *bits) for part in (xb.real(value), xb.imag(value)))
        value = xb.complex(real, imag)
    elif bits is not None:
        value = xb.reduce_precision(value, *bits)
    return xb.convert_element_type(value, shape.element_type)


_BITS: Final = {pt.f32: (8, 23), pt.f16: (5, 10), pt.bf16: (8, 7)}
"""The numbers of bits of the exponent and of the mantissa."""


def _attributes(op: XlaOp) -> Mapping[str, Any]:
    """Return the attributes of an op for wider types."""
    if not op.attributes:
        return op.attributes
    changed = {
        name: _applied(value) if isinstance(value, XlaComputation) else value
        for name, value in op.attributes.items()
    }
    for name in _OF_TYPES:
        if name in changed:
            changed[name] = None
    return changed


def _applied(computation: XlaComputation) -> XlaComputation:
    """Return a computation of scalars, such as a reducer, with wider types throughout."""
    b = xb.XlaBuilder(computation.name)
    values: dict[XlaOp, XlaOp] = {}
    for op in computation.ops:
        if is_parameter(op):
            number = op.attributes["number"]
            values[op] = b.parameter(_wider(op.shape), op.name or f"p{number}", number=number)
        elif is_constant(op):
            wide = _wider(op.shape)
            assert isinstance(wide, ArrayShape)
            values[op] = b.constant(op.attributes["value"].astype(wide.element_type.dtype))
        else:
            inputs = tuple([values[operand] for operand in op.operands])
            values[op] = copy_op(op, inputs, b, _attributes(op))
            values[op].shape = _wider(op.shape)
    return b.build(values[computation.root])
