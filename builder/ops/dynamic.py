"""Sizes known only when it runs.

Operation Semantics: GetDimensionSize, SetDimensionSize; of XlaBuilder, RemoveDynamicDimension and
DynamicReshape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from builder.check import flags, integer, integers
from builder.graph.recording import record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import Number, is_number, need_op, number_as
from builder.schema import BUILDER_H, SCHEMAS
from builder.shape_inference import dynamic as infer
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt

__all__ = [
    "dynamic_reshape",
    "get_dimension_size",
    "remove_dynamic_dimension",
    "set_dimension_size",
]

_get_shape = per_signature(infer.get_dimension_size.strict)
_set_shape = per_signature(infer.set_dimension_size.strict)
_reshape_shape = per_signature(infer.dynamic_reshape.strict)


@per_signature
def _dimension_attribute(dimension: int) -> Mapping[str, int]:
    return MappingProxyType({"dimension": dimension})


@op(SCHEMAS["get_dimension_size"])
def get_dimension_size(operand: XlaOp, dimension: int) -> XlaOp:
    """The size of one dimension, as it is at run time.

    Args:
        operand: an array; its sizes may be fixed, bounded or unbounded.
        dimension: one of its dimensions, of size at most 2**31 - 1.

    Returns:
        A scalar s32.

    Raises:
        ShapeInferenceError: the operand is no array; it has no such dimension, or a larger one.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter("f32[<=5,3]")
        >>> xb.get_dimension_size(x, 0).shape
        s32[]

    Operation Semantics: GetDimensionSize.
    """
    source = need_op("get_dimension_size", "operand", operand)
    number = integer("get_dimension_size", "dimension", dimension)
    shape = _get_shape(source.shape, number)
    return record("get_dimension_size", shape, (source,), _dimension_attribute(number))


@op(SCHEMAS["set_dimension_size"])
def set_dimension_size(operand: XlaOp, size: XlaOp | Number, dimension: int) -> XlaOp:
    """The operand with a size of one dimension that is known only at run time.

    The elements stay in their places, and those beyond the size are padding: later operations
    take no notice of them. The size can be set anew; a larger one brings elements back, as far as
    they were there before.

    Args:
        operand: an array.
        size: a scalar s32, or a number: at least 0 and at most the dimension's size or bound. What
            is beyond these when it runs is taken for them.
        dimension: one of the operand's dimensions, of size at most 2**31 - 1.

    Returns:
        An array of the operand's sizes; the one of `dimension` is now a bound.

    Raises:
        ShapeInferenceError: the operand is no array; it has no such dimension, or a larger one;
            the size is no scalar s32, or a number outside the bound.
        ConstantError: no s32 holds the number.

    Example:
        >>> import builder as xb
        >>> v = xb.XlaBuilder().parameter(xb.f32[10])
        >>> five = xb.set_dimension_size(v, 5, 0)
        >>> five.shape
        f32[<=10]
        >>> xb.reduce(five, 0.0, xb.add, [0]).shape     # of five elements when it runs
        f32[]

    Operation Semantics: SetDimensionSize.
    """
    source = need_op("set_dimension_size", "operand", operand)
    number = integer("set_dimension_size", "dimension", dimension)
    attributes = _dimension_attribute(number)
    if type(size) is XlaOp:
        value = _known(size)
        shape = _set_shape(source.shape, size.shape, number, value)
        return record("set_dimension_size", shape, (source, size), attributes)
    if not is_number(size):
        need_op("set_dimension_size", "size", size)
    with rollback_on_error(resolve_builder("set_dimension_size", source)):
        constant = number_as("set_dimension_size", size, pt.s32, source)
        shape = _set_shape(source.shape, constant.shape, number, _known(constant))
        return record("set_dimension_size", shape, (source, constant), attributes)


def _known(size: XlaOp) -> int | None:
    """The value of a size, if it is a constant."""
    if size.opcode != "constant" or size.shape is not pt.s32[()]:
        return None
    return int(size.attributes["value"])


@op(SCHEMAS["set_dimension_size"], cpp_name="RemoveDynamicDimension", section=BUILDER_H)
def remove_dynamic_dimension(operand: XlaOp, dimension: int) -> XlaOp:
    """The operand with its bound as the size of one dimension, which is no longer dynamic.

    What stands in the places beyond the former size is not defined, unless the size was set by
    `set_dimension_size`, which leaves them as they are. Recorded as `set_dimension_size`.

    Args:
        operand: an array.
        dimension: one of its dimensions; of a fixed size, it stays as it is.

    Returns:
        An array of the operand's sizes; the one of `dimension` is fixed.

    Raises:
        ShapeInferenceError: the operand is no array; it has no such dimension; the dimension is
            unbounded, or larger than 2**31 - 1.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter("f32[<=5,<=3]")
        >>> xb.remove_dynamic_dimension(x, 0).shape
        f32[5,<=3]

    Not in the document; XlaBuilder's RemoveDynamicDimension.
    """
    source = need_op("remove_dynamic_dimension", "operand", operand)
    number = integer("remove_dynamic_dimension", "dimension", dimension)
    shape = infer.remove_dynamic_dimension.strict(source.shape, number)
    size = number_as("remove_dynamic_dimension", shape.dimensions[number], pt.s32, source)
    return record("set_dimension_size", shape, (source, size), _dimension_attribute(number))


def set_to_bound(operand: XlaOp, dimension: int, size: XlaOp) -> XlaOp:
    """`remove_dynamic_dimension`, where the bound is there already, as a constant."""
    shape = infer.remove_dynamic_dimension.strict(operand.shape, dimension)
    return record("set_dimension_size", shape, (operand, size), _dimension_attribute(dimension))


@op(SCHEMAS["dynamic_reshape"])
def dynamic_reshape(
    operand: XlaOp,
    dim_sizes: Sequence[XlaOp | Number],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> XlaOp:
    """The operand's elements in the same order, in an array of sizes that are known at run time.

    Args:
        operand: an array, whose sizes may be bounded.
        dim_sizes: for each dimension of the result its size: scalars s32, or numbers. They must
            multiply to the number of elements that the operand has at run time.
        new_size_bounds: for each dimension of the result its bound, or its size. They must
            multiply to the number of elements that the operand has room for.
        dims_are_dynamic: for each dimension of the result whether its size is known only at run
            time; of the others `dim_sizes` says again what `new_size_bounds` says.

    Returns:
        An array of sizes `new_size_bounds`, bounded where `dims_are_dynamic` says so.

    Raises:
        ShapeInferenceError: the operand is no array, or is unbounded; the counts differ, or the
            numbers of elements; a size is no scalar s32.
        ConstantError: no s32 holds a number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, n = b.parameter("f32[<=4,3]"), b.parameter(xb.s32[()])
        >>> xb.dynamic_reshape(x, [n * 3], [12], [True]).shape
        f32[<=12]

    Not in the document; XlaBuilder's DynamicReshape.
    """
    source = need_op("dynamic_reshape", "operand", operand)
    bounds = integers("dynamic_reshape", "new_size_bounds", new_size_bounds)
    marks = flags(
        "dynamic_reshape", "dims_are_dynamic", dims_are_dynamic, "dimension of the result"
    )
    given = dim_sizes if isinstance(dim_sizes, (list, tuple)) else [dim_sizes]
    beside = [size for size in given if type(size) is XlaOp]
    if len(beside) == len(given):
        shape = _reshape_shape(source.shape, tuple([s.shape for s in beside]), bounds, marks)
        return record("dynamic_reshape", shape, (source, *beside))
    with rollback_on_error(resolve_builder("dynamic_reshape", source, *beside)):
        sizes = []
        for index, size in enumerate(given):
            if type(size) is not XlaOp:
                if not is_number(size):
                    need_op("dynamic_reshape", f"dim size {index}", size)
                size = number_as("dynamic_reshape", size, pt.s32, source)
            sizes.append(size)
        shape = _reshape_shape(source.shape, tuple([s.shape for s in sizes]), bounds, marks)
        return record("dynamic_reshape", shape, (source, *sizes))
