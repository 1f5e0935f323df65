"""Branches and sizes of dynamic shape.

XLA: dynamic_shaped_ops.h of the client library.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, overload

from builder.errors import OperandError, ShapeInferenceError, SignatureError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import shape_of
from builder.lib.registry import library_function
from builder.ops.broadcasting import record_broadcast, sizes_from, sizes_vector
from builder.ops.control_flow import call, conditional, get_tuple_element, tuple as record_tuple
from builder.ops.dynamic import (
    dynamic_iota,
    dynamic_reshape,
    get_dimension_size,
    set_dimension_size,
)
from builder.ops.operands import dimensions_attribute
from builder.ops.reshaping import broadcast_in_dim, pad_in_dim, reshape
from builder.types.primitive_type import PrimitiveType, pred, s32
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    Shape,
    TupleShape,
    intern_array,
    of_same_sizes,
)


@overload
def dynamic_conditional(
    predicate: XlaOp,
    true_operand: XlaOp,
    true_computation: XlaComputation,
    false_operand: XlaOp,
    false_computation: XlaComputation,
    /,
) -> XlaOp: ...


@overload
def dynamic_conditional(
    branch_index: XlaOp,
    branch_computations: Sequence[XlaComputation],
    branch_operands: Sequence[XlaOp],
    /,
) -> XlaOp: ...


@library_function("DynamicConditional")
def dynamic_conditional(*arguments: Any) -> XlaOp:
    """Execute one of several computations whose results may have different sizes.

    There are two forms, as of `builder.conditional`::

        dynamic_conditional(predicate, true_operand, true_computation, false_operand,
                            false_computation)
        dynamic_conditional(branch_index, branch_computations, branch_operands)

    Args:
        predicate: a scalar pred: if true, true_computation is applied to true_operand, otherwise
            false_computation to false_operand.
        branch_index: a scalar s32: the index of the branch. Any index out of range, including a
            negative one, selects the last branch.
        true_operand, false_operand, branch_operands: one op for each branch.
        true_computation, false_computation, branch_computations: XlaComputations. Their results
            are arrays of one element type and rank, or tuples of these.

    Returns:
        The result of the branch. A dimension in which the sizes of the branches' results differ is
        bounded by the largest of these sizes. If no sizes differ, the op is that of
        `builder.conditional`.

    Raises:
        OperandError: a branch is not an XlaComputation; the number of arguments is wrong.
        ShapeInferenceError: the selector is not a scalar pred or s32; the numbers of operands and
            computations differ.
        SignatureError: a branch does not accept its operand; the results differ in more than
            sizes, or in unbounded sizes.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> @xb.computation(xb.f32[6])
        ... def front(x):
        ...     return xb.slice(x, [0], [2])
        >>> @xb.computation(xb.f32[6])
        ... def all_of_it(x):
        ...     return x
        >>> b = xb.XlaBuilder()
        >>> p, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[6])
        >>> lib.dynamic_conditional(p, x, front, x, all_of_it).shape
        f32[<=6]
    """
    op = "dynamic_conditional"
    if len(arguments) == 5:
        selector, computations = arguments[0], [arguments[2], arguments[4]]
        operands: Any = [arguments[1], arguments[3]]
    elif len(arguments) == 3:
        selector, computations, operands = arguments
    else:
        raise error_of(OperandError, op, "3 or 5 arguments are needed", got=len(arguments))
    if not isinstance(computations, Sequence):
        rule = "branch_computations must be a sequence"
        raise error_of(OperandError, op, rule, got=brief(computations))
    for number, computation in enumerate(computations):
        if not isinstance(computation, XlaComputation):
            rule = f"branch {number} must be an XlaComputation"
            fix = "decorate the function with @xb.computation(...) and the shape of its operand"
            raise error_of(OperandError, op, rule, fix, got=brief(computation))
    branches: list[Any] = list(computations)
    results = [computation.signature.result for computation in branches]
    if any(result is not results[0] for result in results):
        common = _common(results)
        branches = [_extended(computation, common) for computation in branches]
    if len(arguments) == 5:
        return conditional(selector, operands[0], branches[0], operands[1], branches[1])
    return conditional(selector, branches, operands)


def _common(shapes: Sequence[Shape]) -> Shape:
    """Return the shape with the largest sizes, bounded where the sizes differ."""
    first = shapes[0]
    if all(shape is first for shape in shapes):
        return first
    tuples = [shape for shape in shapes if isinstance(shape, TupleShape)]
    if len(tuples) == len(shapes) and len({len(shape) for shape in tuples}) == 1:
        parts = zip(*(shape.elements for shape in tuples), strict=True)
        return TupleShape([_common(part) for part in parts])
    arrays = [shape for shape in shapes if isinstance(shape, ArrayShape)]
    kinds = {(shape.element_type, shape.rank, shape.is_bounded) for shape in arrays}
    if len(arrays) < len(shapes) or len(kinds) > 1 or not arrays[0].is_bounded:
        listed = ", ".join(str(shape) for shape in shapes)
        rule = "the results must have one element type and rank, and no unbounded size"
        raise error_of(SignatureError, "dynamic_conditional", rule, got=listed)
    sizes: list[Any] = []
    for number in range(arrays[0].rank):
        own = [shape.dimensions[number] for shape in arrays]
        is_dynamic = len(set(own)) > 1 or any(shape.dynamic_dimensions[number] for shape in arrays)
        sizes.append(f"<={max(own)}" if is_dynamic else own[0])
    return arrays[0].element_type[builtins.tuple(sizes)]


def _extended(computation: XlaComputation, common: Shape) -> Any:
    def branch(operand: XlaOp) -> XlaOp:
        return _with_shape(call(computation, operand), common)

    branch.__name__ = f"{computation.name}_extended"
    return branch


def _with_shape(value: XlaOp, common: Shape) -> XlaOp:
    """Return the value with bounded dimensions, where its own sizes are the sizes at run time."""
    if isinstance(common, TupleShape):
        parts = [
            _with_shape(get_tuple_element(value, index), element)
            for index, element in enumerate(common.elements)
        ]
        return record_tuple(*parts) if parts else value
    shape = value.shape
    if not isinstance(common, ArrayShape) or not isinstance(shape, ArrayShape):
        return value
    unread = True if shape.element_type is pred else 1
    for number, bound in enumerate(common.dimensions):
        size = shape.dimensions[number]
        if (size, shape.dynamic_dimensions[number]) == (bound, common.dynamic_dimensions[number]):
            continue
        own = get_dimension_size(value, number)
        if size < bound:
            value = pad_in_dim(value, unread, number, 0, bound - size)
        value = set_dimension_size(value, own, number)
    return value


# XLA's iota and broadcast_in_dim have results of fixed sizes. For unbounded ones, the functions
# below read the sizes from an operand that has them.


def closed_argument(op: str, name: str, shape: ArrayShape) -> None:
    """Check that the sizes of argument `name` are fixed or unbounded, not bounded.

    Raises:
        ShapeInferenceError: a size is bounded.
    """
    for number, (size, is_dynamic) in enumerate(
        zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    ):
        if is_dynamic and size != UNBOUNDED:
            rule = f"{name} must not have bounded sizes"
            raise error_of(ShapeInferenceError, op, rule, got=shape, dimension=number)


def broadcast_along(x: XlaOp, sizes: Sequence[int], places: Sequence[int], beside: XlaOp) -> XlaOp:
    """Broadcast an array to sizes that may be unbounded.

    Args:
        x: the array.
        sizes: the sizes of the result; UNBOUNDED for a size that is read from x, or from `beside`
            if x does not have it.
        places: the dimension of the result for each dimension of x.
        beside: an op of the rank of the result.
    """
    if UNBOUNDED not in sizes:
        return broadcast_in_dim(x, sizes, places)
    shape, other = shape_of(x), shape_of(beside)
    is_open = tuple([size == UNBOUNDED for size in sizes])
    target = intern_array(shape.element_type, tuple(sizes), is_open)
    origins = [(shape, places), (other, range(other.rank))]
    attributes = dimensions_attribute("broadcast_dimensions", tuple(places))
    return record_broadcast([x, beside], target, attributes, sizes_from(target, origins))


def reshaped_to_multiples(
    wide: XlaOp, sizes: Sequence[int], x: XlaOp, counts: Sequence[int]
) -> XlaOp:
    """Reshape an array to multiples of another array's sizes, some of them unbounded.

    Args:
        wide: the array.
        sizes: the sizes of the result, UNBOUNDED for a multiple of an unbounded one.
        x: the other array; its dimensions are aligned at the last one.
        counts: the factor for each dimension of the result.
    """
    if sizes.count(UNBOUNDED) < 2:
        return reshape(wide, sizes)
    first = len(sizes) - shape_of(x).rank
    numbers = [
        get_dimension_size(x, place - first) * count if size == UNBOUNDED else size
        for place, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    b = x.builder
    operands = [b.constant(n, s32) if isinstance(n, int) else n for n in numbers]
    return dynamic_reshape(wide, operands, sizes, [size == UNBOUNDED for size in sizes])


def indices_of(x: XlaOp, element_type: PrimitiveType, dimension: int) -> XlaOp:
    """Return an array of the sizes of x with the index of each element along a dimension.

    Args:
        x: an array.
        element_type: the type of the indices.
        dimension: the dimension.
    """
    shape = shape_of(x)
    if shape.is_bounded:
        return x.builder.iota(element_type[shape.dimensions], dimension)
    target = of_same_sizes(shape, element_type)
    sizes = sizes_vector([x], sizes_from(target, [(shape, range(shape.rank))]))
    return dynamic_iota(sizes, dimension, target)
