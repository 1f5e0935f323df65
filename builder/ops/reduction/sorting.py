"""Sorting.

Operation Semantics: Sort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.check import Check, flag, integer
from builder.graph.builtin_computations import in_order
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.subcomputations import as_computation, available_computation
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op, need_ops
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, intern_array

__all__ = ["sort", "top_k"]

_top_k_shape = per_signature(shape_inference.reduction.top_k.strict)


@op(SCHEMAS["sort"])
def sort(
    operands: XlaOp | Sequence[XlaOp],
    comparator: XlaComputation | Callable[..., Any] | None = None,
    dimension: int = -1,
    is_stable: bool = False,
) -> XlaOp:
    """The elements of one or more arrays in order, along one dimension.

    Several operands are sorted together, as if they were one array of tuples: where the comparator
    changes the places of two elements, those of all operands change theirs.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        comparator: ``(lhs 0, rhs 0, lhs 1, rhs 1, ...) -> pred``, two scalars of each operand's
            type: whether the elements on the left come before those on the right. It must order
            strictly, as ``<`` does. None sorts by operand 0 from the smallest to the largest:
            floating point in its total order, -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN,
            complex numbers by the real and then the imaginary part.
        dimension: the dimension along which is sorted; -1 is the last one.
        is_stable: whether elements of which none comes before the other keep their order.

    Returns:
        The operand, sorted; for several operands a tuple of them.

    Raises:
        ShapeInferenceError: sizes differ; there is no such dimension.
        SignatureError: the comparator is not of the signature above.

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
    shapes = tuple([a.shape for a in arrays])
    if comparator is None:
        known: Any = in_order(_element_types(shapes))
    else:
        known = available_computation("sort", "comparator", comparator, _pairs_of_scalars(shapes))
    if known is not None:
        return _record_sort(arrays, shapes, known, number, is_stable)
    with rollback_on_error(resolve_builder("sort", *arrays)):
        return _record_sort(arrays, shapes, comparator, number, is_stable)


def _record_sort(
    arrays: tuple[XlaOp, ...],
    shapes: tuple[Shape, ...],
    comparator: Any,
    number: int,
    is_stable: bool,
) -> XlaOp:
    applied = as_computation("sort", "comparator", comparator, _pairs_of_scalars(shapes))
    shape, attributes = applied.planned(
        ("sort", shapes, number, is_stable), _sort_plan, shapes, applied, number, is_stable
    )
    return record("sort", shape, arrays, attributes)


@per_signature
def _element_types(shapes: tuple[Shape, ...]) -> tuple[PrimitiveType, ...]:
    """Those of the operands; raises when one is no array."""
    return tuple(a.element_type for a in Check.numbered("sort", "operand", shapes).arrays())


@per_signature
def _pairs_of_scalars(shapes: tuple[Shape, ...]) -> tuple[ArrayShape, ...]:
    """What a comparator takes: two scalars of each operand's element type."""
    return tuple(intern_array(t, ()) for t in _element_types(shapes) for _ in range(2))


# By signatures, which computations of equal shapes have in common, for callables recorded anew.
_sort_shape = per_signature(shape_inference.reduction.sort.strict)


def _sort_plan(
    shapes: tuple[Shape, ...], applied: XlaComputation, dimension: int, is_stable: bool
) -> tuple[Shape, Mapping[str, Any]]:
    shape = _sort_shape(shapes, applied.signature, dimension)
    check = Check.numbered("sort", "operand", shapes[:1])
    number = shape_inference.reduction.sorted_dimension(check, dimension)
    attributes = {"dimension": number, "is_stable": is_stable, "to_apply": applied}
    return shape, MappingProxyType(attributes)


@op(SCHEMAS["top_k"])
def top_k(operand: XlaOp, k: int, *, largest: bool = True) -> XlaOp:
    """The k largest elements of each row along the last dimension, the largest first, and where
    they stand.

    Floating point is compared in its total order, in which +NaN is the largest of all; complex
    numbers by the real and then the imaginary part. Of equal elements the first comes first.

    Args:
        operand: an array of at least one dimension.
        k: how many, at most the size of the last dimension.
        largest: False for the k smallest, the smallest first.

    Returns:
        A tuple of two arrays whose last dimension is of size k: the elements, and their indices
        along the last dimension of the operand, as s32. Where rows of a bounded size have fewer
        than k elements at run time, what comes after those is undefined.

    Raises:
        ShapeInferenceError: the operand is a scalar; k is negative or larger than the last
            dimension.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> xb.top_k(x, 2).shape
        (f32[4,2], s32[4,2])
        >>> values, indices = xb.top_k(x, 3, largest=False)

    Not in the document; XlaBuilder's TopK.
    """
    source = need_op("top_k", "operand", operand)
    number = integer("top_k", "k", k)
    largest = flag("top_k", "largest", largest)
    shape = _top_k_shape(source.shape, number)
    return record("top_k", shape, (source,), _top_k_attributes(number, largest))


@per_signature
def _top_k_attributes(k: int, largest: bool) -> Mapping[str, Any]:
    return MappingProxyType({"k": k, "largest": largest})
