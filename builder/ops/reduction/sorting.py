"""Sorting.

Operation Semantics: Sort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from builder.check import Check, flag, integer
from builder.graph.builtin_computations import default_comparator
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation, available_computation
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.operands import need_op, need_ops, scalars_of
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import Shape

_top_k_shape = per_signature(shape_inference.reduction.top_k.strict)


@op_by_hand(SCHEMAS["sort"])
def sort(
    operands: XlaOp | Sequence[XlaOp],
    comparator: XlaComputation | Callable[..., Any] | None = None,
    dimension: int = -1,
    is_stable: bool = False,
) -> XlaOp:
    """Sort one or more arrays along a dimension.

    Several operands are sorted together, like one array of tuples: the elements of all operands at
    one index move together.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        comparator: ``(lhs 0, rhs 0, lhs 1, rhs 1, ...) -> pred``, two scalars of each operand's
            type. It returns whether the lhs elements come before the rhs elements, and must be a
            strict order like ``<``. None sorts by operand 0 in ascending order: floating point in
            its total order, -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN; complex numbers by the
            real and then the imaginary part.
        dimension: the dimension to sort along; -1 is the last dimension.
        is_stable: whether elements that compare equal keep their order.

    Returns:
        The sorted operand; for several operands a tuple of the sorted operands.

    Raises:
        ShapeInferenceError: sizes differ; the dimension is out of range.
        SignatureError: the comparator does not have the signature above.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> keys, values = b.parameter(xb.f32[4, 6]), b.parameter(xb.s32[4, 6])
        >>> xb.sort([keys, values], dimension=0, is_stable=True).shape
        (f32[4,6], s32[4,6])
        >>> xb.sort(keys, lambda a, b: a > b).shape
        f32[4,6]

    Operation Semantics: Sort.
    """
    arrays = need_ops("sort", "operand", operands)
    number = integer("sort", "dimension", dimension)
    is_stable = flag("sort", "is_stable", is_stable)
    if not arrays:
        Check("sort").fail("at least one operand is needed, got none")
    shapes = tuple([array.shape for array in arrays])
    scalars = tuple([s for scalar in scalars_of("sort", shapes) for s in (scalar, scalar)])
    if comparator is None:
        comparator = default_comparator(scalars)

    def sorted_by(order: XlaComputation) -> XlaOp:
        shape, attributes = order.planned(_sort_plan, shapes, order, number, is_stable)
        return record("sort", shape, arrays, attributes, 3)

    order = available_computation("sort", "comparator", comparator, scalars)
    if order is not None:
        return sorted_by(order)
    with rollback_on_error(resolve_builder("sort", *arrays)):
        return sorted_by(as_computation("sort", "comparator", comparator, scalars))


# The key is the comparator's signature, so that callables that are recorded again share an entry.
_sort_shape = per_signature(shape_inference.reduction.sort.strict)


def _sort_plan(
    shapes: tuple[Shape, ...], order: XlaComputation, dimension: int, is_stable: bool
) -> tuple[Shape, Mapping[str, Any]]:
    shape = _sort_shape(shapes, order.signature, dimension)
    check = Check.numbered("sort", "operand", shapes[:1])
    number = shape_inference.reduction.sorted_dimension(check, dimension)
    attributes = {"dimension": number, "is_stable": is_stable, "to_apply": order}
    return shape, MappingProxyType(attributes)


@op_by_hand(SCHEMAS["top_k"])
def top_k(operand: XlaOp, k: int, *, largest: bool = True) -> XlaOp:
    """Return the k largest elements along the last dimension, in order, and their indices.

    Floating point is compared in its total order, in which +NaN is the largest value; complex
    numbers are compared by the real and then the imaginary part. Equal elements keep their order.

    Args:
        operand: an array of at least one dimension.
        k: the number of elements, at most the size of the last dimension.
        largest: False for the k smallest, in ascending order.

    Returns:
        A tuple of two arrays whose last dimension has size k: the elements, and their indices along
        the last dimension of the operand, as s32. If rows of a bounded size have fewer than k
        elements at run time, the remaining results are undefined.

    Raises:
        ShapeInferenceError: the operand is a scalar; k is negative or larger than the size of the
            last dimension.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> xb.top_k(x, 2).shape
        (f32[4,2], s32[4,2])
        >>> values, indices = xb.top_k(x, 3, largest=False)

    Not in Operation Semantics; XlaBuilder's TopK.
    """
    source = need_op("top_k", "operand", operand)
    number = integer("top_k", "k", k)
    largest = flag("top_k", "largest", largest)
    shape = _top_k_shape(source.shape, number)
    return record("top_k", shape, (source,), shared_attributes(k=number, largest=largest))
