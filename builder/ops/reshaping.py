"""Ops that broadcast, rearrange, concatenate, pad and slice arrays, without changing elements.

Operation Semantics: Broadcast, BroadcastInDim, Collapse, Concatenate, Iota, Pad, Reshape, Rev,
Slice, Transpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Never

from builder.attributes import PaddingConfig, PaddingConfigDimension, PaddingConfigLike
from builder.check import Check, integer, integers, refusal
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import surplus_numbers, unknown_arguments
from builder.graph.recording import append, record, resolve_builder
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import (
    broadcast_to,
    dimensions_attribute,
    integer_key,
    is_number,
    need_op,
    need_ops,
    number_constant,
)
from builder.schema import BUILDER_H, SCHEMAS
from builder.shape_inference import reshaping as infer
from builder.support.missing import Missing
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape

Attributes = Mapping[str, Any]


@per_signature
def _broadcast_plan(operand: Shape, sizes: tuple[int, ...]) -> tuple[ArrayShape, tuple[int, ...]]:
    shape = infer.broadcast.strict(operand, sizes)
    return shape, tuple(range(len(sizes), shape.rank))


@op(SCHEMAS["broadcast_in_dim"], cpp_name="Broadcast", section="Broadcast")
def broadcast(operand: XlaOp, broadcast_sizes: Sequence[int], **unknown: Never) -> XlaOp:
    """Broadcast the operand along new leading dimensions.

    ``output[i0, ..., iN, j0, ..., jM] = operand[j0, ..., jM]``. Recorded as `broadcast_in_dim`.

    Args:
        operand: an array.
        broadcast_sizes: the sizes of the new dimensions.

    Returns:
        An array of sizes `broadcast_sizes`, followed by the operand's sizes.

    Raises:
        ShapeInferenceError: the operand is not an array, or has an unbounded dimension; a size is
            negative.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.broadcast(x, [2, 4]).shape
        f32[2,4,3]

    Operation Semantics: Broadcast.
    """
    if unknown:
        raise unknown_arguments(broadcast, unknown)
    source = need_op("broadcast", "operand", operand)
    sizes = integers("broadcast", "broadcast_sizes", broadcast_sizes)
    return broadcast_to(source, *_broadcast_plan(source.shape, sizes))


_broadcast_in_dim_shape = per_signature(infer.broadcast_in_dim.strict)


@op(SCHEMAS["broadcast_in_dim"])
def broadcast_in_dim(
    operand: XlaOp,
    out_dim_size: Sequence[int],
    broadcast_dimensions: Sequence[int],
    **unknown: Never,
) -> XlaOp:
    """Broadcast the operand into a larger array, with an explicit mapping of dimensions.

    Args:
        operand: an array.
        out_dim_size: the sizes of the result.
        broadcast_dimensions: for each dimension of the operand the corresponding dimension of the
            result, strictly increasing. Size 1 is broadcast to any size; other sizes must be equal.

    Returns:
        An array of sizes `out_dim_size`. A dimension is bounded if the corresponding dimension of
        the operand is bounded.

    Raises:
        ShapeInferenceError: the operand is not an array; its sizes do not match the result's.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3, 1])
        >>> xb.broadcast_in_dim(x, [2, 3, 4], [1, 2]).shape
        f32[2,3,4]

    Operation Semantics: BroadcastInDim.
    """
    if unknown:
        raise unknown_arguments(broadcast_in_dim, unknown)
    if type(operand) is not XlaOp:
        need_op("broadcast_in_dim", "operand", operand)
    sizes = integers("broadcast_in_dim", "out_dim_size", out_dim_size)
    numbers = integers("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    shape = _broadcast_in_dim_shape(operand.shape, sizes, numbers)
    attributes = dimensions_attribute("broadcast_dimensions", numbers)
    return record("broadcast_in_dim", shape, (operand,), attributes)


_reshape_shape = per_signature(infer.reshape.strict)


@op(SCHEMAS["reshape"])
def reshape(
    operand: XlaOp,
    new_sizes: Sequence[int],
    *more: Never,
    dimensions: Sequence[int] | None = None,
    **unknown: Never,
) -> XlaOp:
    """Reshape an array: the same elements, in the same order, with other sizes.

    Args:
        operand: an array.
        new_sizes: the sizes of the result, with as many elements as the operand has.
        dimensions: the order in which the operand's dimensions are read, slowest first; by default
            their own order. If present, a `transpose` by `dimensions` is recorded first.
            (Keyword-only, because Operation Semantics has `dimensions` before `new_sizes`.)

    Returns:
        An array of sizes `new_sizes`. A bounded dimension may be combined with others or split, but
        not both. The number of elements of an unbounded operand is checked at run time only.

    Raises:
        ShapeInferenceError: the operand is not an array; the numbers of elements differ;
            `dimensions` is not a permutation.

    Example:
        >>> import builder as xb
        >>> v = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reshape(v, [8, 3]).shape
        f32[8,3]
        >>> xb.reshape(v, dimensions=[1, 2, 0], new_sizes=[2, 6, 2]).shape
        f32[2,6,2]

    Operation Semantics: Reshape.
    """
    if unknown:
        raise unknown_arguments(reshape, unknown)
    if type(operand) is not XlaOp:
        need_op("reshape", "operand", operand)
    if more:
        raise surplus_numbers("reshape", "new_sizes", (new_sizes, *more))
    given: object = new_sizes
    if type(given) is int and given == -1:
        new_sizes = [-1]  # its message contains the size
    sizes = integers("reshape", "new_sizes", new_sizes)
    if dimensions is None:
        return record("reshape", _reshape_shape(operand.shape, sizes), (operand,))
    order = integers("reshape", "dimensions", dimensions)
    shape = _reshape_shape(operand.shape, sizes, order)
    if order != tuple(range(len(order))):
        operand = transpose(operand, order)
    return record("reshape", shape, (operand,))


@op(SCHEMAS["reshape"], cpp_name="ReshapeWithInferredDimension", section=BUILDER_H)
def reshape_with_inferred_dimension(
    operand: XlaOp, new_sizes: Sequence[int], inferred_dimension: int
) -> XlaOp:
    """Reshape an array, and choose which dimension of the result is dynamic.

    Args:
        operand: an array.
        new_sizes: the sizes or bounds of all dimensions of the result, with as many elements as the
            operand has. Only the runtime size of `inferred_dimension` is inferred.
        inferred_dimension: the dimension of the result that becomes bounded if a bounded dimension
            is split: 0 for ``[<=6] -> [<=2,3]``. -1 if no bounded dimension is split.

    Returns:
        An array of sizes `new_sizes`.

    Raises:
        ShapeInferenceError: see `reshape`; the dimension is out of range.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter("f32[<=6]")
        >>> xb.reshape_with_inferred_dimension(x, [2, 3], 0).shape
        f32[<=2,3]

    Not in Operation Semantics; XlaBuilder's ReshapeWithInferredDimension.
    """
    name = "reshape_with_inferred_dimension"
    source = need_op(name, "operand", operand)
    sizes = integers(name, "new_sizes", new_sizes)
    inferred = integer(name, "inferred_dimension", inferred_dimension)
    return record("reshape", _reshape_shape(source.shape, sizes, None, name, inferred), (source,))


_collapse_shape = per_signature(infer.collapse.strict)


@op(SCHEMAS["reshape"], cpp_name="Collapse", section="Collapse")
def collapse(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Collapse consecutive dimensions into one; recorded as `reshape`.

    Args:
        operand: an array.
        dimensions: the dimensions, consecutive and in order. With fewer than two of them the
            operand is returned, and nothing is recorded.

    Returns:
        An array in which one dimension replaces `dimensions`; its size is the product of their
        sizes.

    Raises:
        ShapeInferenceError: the operand is not an array; dimensions are out of range, or not
            consecutive and in order.

    Example:
        >>> import builder as xb
        >>> v = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.collapse(v, [0, 1]).shape, xb.collapse(v, [0, 1, 2]).shape
        (f32[8,3], f32[24])

    Operation Semantics: Collapse.
    """
    source = need_op("collapse", "operand", operand)
    numbers = integers("collapse", "dimensions", dimensions)
    shape = _collapse_shape(source.shape, numbers)
    return source if len(numbers) < 2 else record("reshape", shape, (source,))


_transpose_shape = per_signature(infer.transpose.strict)


@op(SCHEMAS["transpose"])
def transpose(operand: XlaOp, permutation: Sequence[int], *more: Never, **unknown: Never) -> XlaOp:
    """Permute dimensions: dimension i of the result is dimension ``permutation[i]`` of the operand.

    Args:
        operand: an array.
        permutation: a permutation of all its dimensions.

    Returns:
        An array of the permuted sizes.

    Raises:
        ShapeInferenceError: the operand is not an array; `permutation` is not a permutation.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3, 4])
        >>> xb.transpose(x, [2, 0, 1]).shape
        f32[4,2,3]

    Operation Semantics: Transpose.
    """
    if unknown:
        raise unknown_arguments(transpose, unknown)
    if type(operand) is not XlaOp:
        need_op("transpose", "operand", operand)
    if more:
        raise surplus_numbers("transpose", "permutation", (permutation, *more))
    given: object = permutation
    if (given is None or isinstance(given, Missing)) and isinstance(operand.shape, ArrayShape):
        fix = f"write {list(range(operand.shape.rank))[::-1]} to reverse the dimensions"
        raise refusal("transpose", "permutation must be a sequence of integers", given, fix)
    order = integers("transpose", "permutation", permutation)
    shape = _transpose_shape(operand.shape, order)
    return record("transpose", shape, (operand,), dimensions_attribute("permutation", order))


_rev_shape = per_signature(infer.rev.strict)


@op(SCHEMAS["reverse"])
def rev(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Reverse the elements along dimensions.

    Args:
        operand: an array.
        dimensions: the dimensions to reverse, each once.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is not an array; dimensions are out of range or duplicated.

    Example:
        >>> import builder as xb
        >>> xb.rev(xb.XlaBuilder().parameter(xb.f32[2, 3]), [1]).shape
        f32[2,3]

    Operation Semantics: Rev (reverse).
    """
    source = need_op("rev", "operand", operand)
    numbers = integers("rev", "dimensions", dimensions)
    shape = _rev_shape(source.shape, numbers)
    return record("reverse", shape, (source,), dimensions_attribute("dimensions", numbers))


@per_signature
def _concatenate_plan(operands: tuple[Shape, ...], dimension: int) -> tuple[ArrayShape, Attributes]:
    shape = infer.concatenate.strict(operands, dimension)
    return shape, MappingProxyType({"dimension": dimension})


@op(SCHEMAS["concatenate"], aliases=("concat_in_dim",))
def concatenate(operands: Sequence[XlaOp], dimension: int, **unknown: Never) -> XlaOp:
    """Concatenate arrays along a dimension.

    Args:
        operands: at least one array, all of one element type and rank, and of equal sizes in all
            dimensions but `dimension`. Scalars are not supported.
        dimension: the dimension to concatenate along.

    Returns:
        An array whose size in `dimension` is the sum of the operands'.

    Raises:
        OperandError: an operand is not an XlaOp, or there are no operands.
        ShapeInferenceError: the shapes do not match; the dimension is out of range.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[3, 2]), b.parameter(xb.f32[1, 2])
        >>> xb.concatenate([x, y], 0).shape
        f32[4,2]

    Operation Semantics: Concatenate.
    """
    if unknown:
        raise unknown_arguments(concatenate, unknown)
    if isinstance(dimension, XlaOp):
        fix = "pass the operands as a list: xb.concatenate([x, y], dimension)"
        raise refusal("concatenate", "dimension must be an integer", dimension, fix)
    given: object = operands
    if isinstance(given, XlaOp):
        rule = f"operands must be a sequence of XlaOps, got one: {brief(given, 80)}"
        fix = "pass a list of the arrays: xb.concatenate([x, y], dimension)"
        raise error_of(OperandError, "concatenate", rule, fix, shapes={"operand": given.shape})
    sources = need_ops("concatenate", "operand", operands)
    number = integer("concatenate", "dimension", dimension)
    shape, attributes = _concatenate_plan(tuple([s.shape for s in sources]), number)
    return record("concatenate", shape, sources, attributes)


@per_signature
def _pad_plan(
    operand: Shape, padding_value: Shape, config: PaddingConfig, name: str
) -> tuple[ArrayShape, Attributes]:
    shape = infer.pad.strict(operand, padding_value, config, name)
    return shape, MappingProxyType({"padding_config": config})


@op(SCHEMAS["pad"])
def pad(
    operand: XlaOp,
    padding_value: XlaOp | int | float | complex,
    padding_config: PaddingConfigLike,
    **unknown: Never,
) -> XlaOp:
    """Pad an array with a value around and between its elements.

    Args:
        operand: an array.
        padding_value: a scalar of its element type, or a Python number that the type can represent.
        padding_config: a PaddingConfig, or for each dimension a triple (low, high, interior): the
            number of elements added before the first, after the last, and between neighbours. A
            negative low or high removes elements, including elements added between neighbours.

    Returns:
        An array of size ``low + high + size + max(size - 1, 0) * interior`` in each dimension.

    Raises:
        ShapeInferenceError: there is not one triple for each dimension; interior padding is
            negative; more elements are removed than there are; the padding value is not a scalar or
            has another type.
        ConstantError: the number does not fit the type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3, 4])
        >>> xb.pad(x, 0.0, [(1, 0, 2), (0, -1, 0)]).shape
        f32[8,3]

    Operation Semantics: Pad.
    """
    if unknown:
        raise unknown_arguments(pad, unknown)
    source = need_op("pad", "operand", operand)
    config = padding_config
    if not isinstance(config, PaddingConfig):
        key = integer_key(config, 2)
        if type(key) is tuple and all(type(t) is tuple and len(t) == 3 for t in key):
            config = _listed_config(key)
        else:
            config = PaddingConfig.of(config, op="pad")
    return _pad("pad", source, padding_value, config)


_listed_config = per_signature(partial(PaddingConfig.of, op="pad"))


def _pad(name: str, source: XlaOp, padding_value: Any, config: PaddingConfig) -> XlaOp:
    if type(padding_value) is not XlaOp and is_number(padding_value):
        builder = resolve_builder(name, source)
        element_type = Check(name, operand=source.shape).array("operand").element_type
        # The rules are checked before the constant is recorded.
        scalar, constant = number_constant(name, padding_value, element_type, source.shape)
        shape, attributes = _pad_plan(source.shape, scalar, config, name)
        value = append(builder, "constant", scalar, (), constant)
    else:
        value = need_op(name, "padding_value", padding_value)
        shape, attributes = _pad_plan(source.shape, value.shape, config, name)
    return record("pad", shape, (source, value), attributes)


@op(SCHEMAS["pad"], cpp_name="PadInDim", section="Pad (XlaBuilder's PadInDim)")
def pad_in_dim(
    operand: XlaOp,
    padding_value: XlaOp | int | float | complex,
    dimno: int,
    pad_lo: int,
    pad_hi: int,
) -> XlaOp:
    """Pad an array with a value before and after its elements in one dimension.

    Args:
        operand: an array.
        padding_value: a scalar of its element type, or a Python number that the type can represent.
        dimno: the dimension.
        pad_lo, pad_hi: the number of elements added before the first and after the last; a negative
            number removes elements.

    Returns:
        An array of size ``pad_lo + size + pad_hi`` in that dimension.

    Raises:
        ShapeInferenceError: the dimension is out of range; more elements are removed than there
            are; the padding value is not a scalar or has another type.
        ConstantError: the number does not fit the type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3, 4])
        >>> xb.pad_in_dim(x, 0.0, dimno=1, pad_lo=2, pad_hi=1).shape
        f32[3,7]

    Operation Semantics: Pad.
    """
    source = need_op("pad_in_dim", "operand", operand)
    check = Check("pad_in_dim", operand=source.shape)
    config = [PaddingConfigDimension()] * check.array("operand").rank
    number = check.dimension(integer("pad_in_dim", "dimno", dimno), "operand", "dimno")
    low, high = integer("pad_in_dim", "pad_lo", pad_lo), integer("pad_in_dim", "pad_hi", pad_hi)
    config[number] = PaddingConfigDimension(low, high)
    return _pad("pad_in_dim", source, padding_value, PaddingConfig(tuple(config)))


def _slice_attributes(
    starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]
) -> Attributes:
    return MappingProxyType({"start_indices": starts, "limit_indices": limits, "strides": strides})


@per_signature
def _slice_plan(
    operand: Shape,
    starts: tuple[int, ...],
    limits: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> tuple[ArrayShape, Attributes]:
    shape = infer.slice.strict(operand, starts, limits, strides)
    return shape, _slice_attributes(starts, limits, strides or (1,) * shape.rank)


@op(SCHEMAS["slice"])
def slice(
    operand: XlaOp,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
    **unknown: Never,
) -> XlaOp:
    """Return a slice of an array: from a start to a limit in each dimension.

    Args:
        operand: an array.
        start_indices: for each dimension the first index, not negative.
        limit_indices: for each dimension the index after the last, from the start index to the
            dimension's size. The size of an unbounded dimension is `xb.UNBOUNDED`.
        strides: for each dimension the step, at least 1; by default 1.

    Returns:
        An array of size ``ceil((limit - start) / stride)`` in each dimension.

    Raises:
        ShapeInferenceError: there is not one index for each dimension; an index is out of range.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 3])
        >>> xb.slice(x, [2, 1], [4, 3]).shape, xb.slice(x, [0, 0], [4, 3], [2, 2]).shape
        (f32[2,2], f32[2,2])

    Operation Semantics: Slice.
    """
    if unknown:
        raise unknown_arguments(slice, unknown)
    if type(operand) is not XlaOp:
        need_op("slice", "operand", operand)
    starts = integers("slice", "start_indices", start_indices)
    limits = integers("slice", "limit_indices", limit_indices)
    steps = None if strides is None else integers("slice", "strides", strides)
    shape, attributes = _slice_plan(operand.shape, starts, limits, steps)
    return record("slice", shape, (operand,), attributes)


@per_signature
def _slice_in_dim_plan(
    operand: Shape, start: int, limit: int, stride: int, dimno: int
) -> tuple[ArrayShape, Attributes]:
    shape = infer.slice_in_dim.strict(operand, start, limit, stride, dimno)
    return shape, _slice_attributes(
        *infer.slice_in_dim_indices(operand, start, limit, stride, dimno)
    )


@op(SCHEMAS["slice"], cpp_name="SliceInDim", section="Slice (XlaBuilder's SliceInDim)")
def slice_in_dim(
    operand: XlaOp, start_index: int, limit_index: int, stride: int = 1, dimno: int = 0
) -> XlaOp:
    """Slice an array in one dimension; recorded as `slice`.

    Args:
        operand: an array.
        start_index: the first index, not negative.
        limit_index: the index after the last, from `start_index` to the dimension's size. The size
            of an unbounded dimension is `xb.UNBOUNDED`.
        stride: the step, at least 1.
        dimno: the dimension.

    Returns:
        An array of the operand's sizes, but size ``ceil((limit - start) / stride)`` in `dimno`.

    Raises:
        ShapeInferenceError: the dimension or an index is out of range.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 9])
        >>> xb.slice_in_dim(x, 1, 8, stride=2, dimno=1).shape
        f32[4,4]

    Operation Semantics: Slice. Not described there separately; XlaBuilder's SliceInDim.
    """
    source = need_op("slice_in_dim", "operand", operand)
    shape, attributes = _slice_in_dim_plan(
        source.shape,
        integer("slice_in_dim", "start_index", start_index),
        integer("slice_in_dim", "limit_index", limit_index),
        integer("slice_in_dim", "stride", stride),
        integer("slice_in_dim", "dimno", dimno),
    )
    return record("slice", shape, (source,), attributes)
