"""Sorting.

Operation Semantics: Sort; xla_builder.h: TopK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from builder.checking import Check, flag, integer
from builder.graph.computation import XlaComputation
from builder.graph.recording import (
    append,
    record,
    resolve_builder,
    rollback_on_error,
    shared_attributes,
)
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation, available_computation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.operands import need_ops, scalars_of
from builder.ops.reduction.reductions import equal_sizes
from builder.schema import Trait
from builder.schema.definition import ANY, BUILDER_H, Attribute, CostClass, comparison_type, define
from builder.schema.equal_sizes import Pairs, SizedOp, all_equal_sizes
from builder.schema.kinds import COMPUTATION, DIMENSION, FLAG, INTEGER
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
    of_same_sizes,
)


def _sort_shape(operands: Sequence[Shape], comparator: ProgramShape, dimension: int = -1) -> Shape:
    check = Check.numbered("sort", "operand", operands)
    # StableHLO sort (C1), (C3)
    arrays = check.arrays()
    equal_sizes(check, arrays)
    _sorted_dimension(check, dimension)
    # StableHLO sort (C5)
    pred = intern_array(pt.pred, ())
    scalars = [intern_array(a.element_type, ()) for a in arrays for _ in range(2)]
    pairs = ", ".join(f"lhs {i}, rhs {i}" for i in range(len(arrays)))
    returns = "whether the lhs elements come before the rhs elements"
    check.applied("comparator", comparator, scalars, [pred], pairs, returns)
    shapes = [of_same_sizes(a, a.element_type) for a in arrays]
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _sorted_dimension(check: Check, dimension: int) -> int:
    """Return `dimension` of operand 0 as a non-negative number; -1 is the last dimension."""
    rank = check.array("operand 0").rank
    # StableHLO sort (C4)
    if not rank:
        check.fail("a scalar has no dimension to sort along")
    if not -rank <= dimension < rank:
        check.fail(
            f"dimension must be a dimension of operand 0: 0 to {rank - 1}, or counted from the "
            f"last, -1 to {-rank}",
            got=dimension,
            dimension=dimension,
        )
    return dimension % rank


SORT: Final = define(
    "sort",
    "*operands",
    (
        Attribute("dimension", DIMENSION, "dimensions"),
        Attribute("is_stable", FLAG, omitted=False, absent=False),
        Attribute("to_apply", COMPUTATION, parameter="comparator"),
    ),
    element_types={"operands": ANY},
    cost=CostClass.RULE,
    traits=Trait.ON_ELEMENTS,
    equal_sizes=all_equal_sizes,
)


# It has a body because it applies a computation.
@op_by_hand(SORT, _sort_shape)
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
        Check("sort").fail("at least one operand is needed", got="none")
    shapes = tuple([array.shape for array in arrays])
    scalars = tuple([s for scalar in scalars_of("sort", shapes) for s in (scalar, scalar)])
    if comparator is None:
        comparator = default_comparator(scalars)

    def sorted_by(order: XlaComputation) -> XlaOp:
        shape, attributes = order._planned(_sort_plan, shapes, order, number, is_stable)
        return record("sort", shape, arrays, attributes, 4)

    order = available_computation("sort", "comparator", comparator, scalars)
    if order is not None:
        return sorted_by(order)
    with rollback_on_error(resolve_builder("sort", *arrays)):
        return sorted_by(as_computation("sort", "comparator", comparator, scalars))


# The key is the comparator's signature, so that callables that are recorded again share an entry.
_cached_shape = per_signature(_sort_shape)


def _sort_plan(
    shapes: tuple[Shape, ...], order: XlaComputation, dimension: int, is_stable: bool
) -> tuple[Shape, Mapping[str, Any]]:
    shape = _cached_shape(shapes, order.signature, dimension)
    check = Check.numbered("sort", "operand", shapes[:1])
    number = _sorted_dimension(check, dimension)
    attributes = {"dimension": number, "is_stable": is_stable, "to_apply": order}
    return shape, MappingProxyType(attributes)


_MOST_INDICES: Final = 2**31
"""The number of elements that s32 indices can address."""


def _top_k_shape(operand: Shape, k: int) -> TupleShape:
    check = Check("top_k", operand=operand)
    # XLA shape_inference.cc: InferTopKShape
    array = check.array("operand")
    if not array.rank:
        check.fail("operand must have at least one dimension", got="a scalar")
    *outer, last = array.dimensions
    # XLA shape_inference.cc: InferTopKShape
    if k < 0 or k > last != UNBOUNDED:
        most = array.dimension_text(array.rank - 1)
        rule = f"k must be from 0 to the size of the last dimension, {most}"
        check.fail(rule, got=k, dimension=array.rank - 1)
    # xla_builder.h: TopK. Indices are s32.
    if last > _MOST_INDICES:
        check.fail(
            f"indices are s32, so the last dimension must not have more than {_MOST_INDICES} "
            "elements",
            got=last,
            dimension=array.rank - 1,
        )
    # XLA expands it to slices, where a bounded size of at most 1 becomes static.
    dynamic = [d and n != 1 for d, n in zip(array.dynamic_dimensions, outer, strict=False)]
    sizes, dynamic_dimensions = (*outer, k), (*dynamic, False)
    return TupleShape(
        [intern_array(t, sizes, dynamic_dimensions) for t in (array.element_type, pt.s32)]
    )


def _top_k_equal_sizes(op: SizedOp) -> Pairs:
    for result in op.results:
        yield from zip(result[:-1], op.operands[0][:-1], strict=True)


TOP_K: Final = define(
    "top_k",
    "operand",
    (Attribute("k", INTEGER), Attribute("largest", FLAG, stablehlo=None)),
    section=BUILDER_H,
    element_types={"operand": ANY},
    hlo="topk",
    stablehlo="chlo.top_k",
    synonyms=("mhlo.topk",),
    equal_sizes=_top_k_equal_sizes,
)


@op(TOP_K, _top_k_shape)
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


_PRED = intern_array(pt.pred, ())


@per_signature
def default_comparator(scalars: tuple[ArrayShape, ...]) -> XlaComputation:
    """Return a comparator that sorts the first operand in ascending order.

    Its parameters have the shapes `scalars`, two for each operand of the sort.

    Floating-point numbers are compared in their total order, complex numbers by the real part and
    then by the imaginary part. The ops are recorded without shape inference, and have no source
    lines.
    """
    builder = XlaBuilder("compare_less_than")
    parameters = [
        builder.parameter(scalar, f"p.{number // 2}.{'rhs' if number % 2 else 'lhs'}")
        for number, scalar in enumerate(scalars)
    ]
    lhs, rhs = parameters[:2]
    element_type = scalars[0].element_type
    if not element_type.is_complex:
        root = _compared(lhs, rhs, "LT")
    else:
        part = intern_array(element_type.real_type, ())
        real, other_real = (append(builder, "real", part, (value,)) for value in (lhs, rhs))
        imag, other_imag = (append(builder, "imag", part, (value,)) for value in (lhs, rhs))
        conditions = _compared(real, other_real, "EQ"), _compared(imag, other_imag, "LT")
        is_before_by_imag = append(builder, "and", _PRED, conditions)
        is_before_by_real = _compared(real, other_real, "LT")
        root = append(builder, "or", _PRED, (is_before_by_real, is_before_by_imag))
    for recorded in builder.ops:
        recorded._code, recorded._lasti = None, 0
    return builder.build(root)


def _compared(lhs: XlaOp, rhs: XlaOp, direction: str) -> XlaOp:
    """Record a comparison of two scalars, except complex; floating-point numbers by total order."""
    kind = comparison_type(lhs.shape.element_type, total_order=True)
    attributes = shared_attributes(comparison_direction=direction, compare_type=kind)
    return append(lhs.builder, "compare", _PRED, (lhs, rhs), attributes)
