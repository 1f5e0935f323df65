"""Ops that broadcast, rearrange, concatenate, pad and slice arrays, without changing elements.

Operation Semantics: Broadcast, BroadcastInDim, Collapse, Concatenate, Iota, Pad, Reshape, Rev,
Slice, Transpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NoReturn

from builder.attributes import PaddingConfig, PaddingConfigDimension, PaddingConfigLike
from builder.checking import (
    Check,
    any_dynamic,
    completed,
    integer,
    integers,
    refusal,
    sizes_differ,
)
from builder.errors import OperandError, brief, error_of
from builder.graph.recording import (
    append,
    record,
    resolve_builder,
    rollback_on_error,
    shared_attributes,
)
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.broadcasting import matching_places
from builder.ops.definition import builder_method, op
from builder.ops.dynamic import dynamic_reshape, get_dimension_size
from builder.ops.operands import (
    is_number,
    need_op,
    need_ops,
    number_constant,
)
from builder.schema import BUILDER_H, Trait
from builder.schema.definition import ANY, NUMBER, Attribute, CostClass, Group, define
from builder.schema.equal_sizes import Pairs, SizedOp, all_equal_sizes, equal_sizes_except, pairs
from builder.schema.kinds import DIMENSION, INTEGER, INTEGERS, PADDING
from builder.support.caches import integer_key, per_signature
from builder.types.primitive_type import s32
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    Shape,
    has_unbounded_sizes,
    intern_array,
)

Attributes = Mapping[str, Any]


_BROADCAST_FIX: Final = (
    "broadcast operand with xb.dynamic_broadcast_in_dim, to sizes from xb.get_dimension_size"
)


_RESHAPE_FIX: Final = (
    "reshape operand with xb.dynamic_reshape, with xb.UNBOUNDED in new_size_bounds and sizes "
    "from xb.get_dimension_size"
)


def _broadcast_shape(operand: Shape, broadcast_sizes: Sequence[int]) -> ArrayShape:
    check = Check("broadcast", operand=operand)
    array = check.array("operand")
    # XLA shape_inference.cc: InferBroadcastShape
    check.sizes(broadcast_sizes, name="broadcast_sizes")
    if not array.is_bounded:
        check.fail("an operand with an unbounded dimension can't be broadcast", fix=_BROADCAST_FIX)
    dynamic = (*(False for _ in broadcast_sizes), *array.dynamic_dimensions)
    return check.result(array.element_type, (*broadcast_sizes, *array.dimensions), dynamic)


def _trailing_dimensions(operand: ArrayShape, broadcast_sizes: Sequence[int]) -> Attributes:
    new = len(broadcast_sizes)
    return {"broadcast_dimensions": tuple(range(new, new + operand.rank))}


BROADCAST_IN_DIM: Final = define(
    "broadcast_in_dim",
    "operand",
    (Attribute("broadcast_dimensions", INTEGERS, "dimensions"),),
    element_types={"operand": ANY},
    hlo="broadcast",
    traits=Trait.MOVES,
)


@op(
    BROADCAST_IN_DIM,
    _broadcast_shape,
    _trailing_dimensions,
    cpp_name="Broadcast",
    section="Broadcast",
    broadcast_sizes=INTEGERS,
)
def broadcast(operand: XlaOp, broadcast_sizes: Sequence[int]) -> XlaOp:
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


def _broadcast_in_dim_shape(
    operand: Shape, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]
) -> ArrayShape:
    check = Check("broadcast_in_dim", operand=operand)
    array = check.array("operand")
    rank = len(out_dim_size)
    # XLA shape_inference.cc: InferBroadcastShape
    check.sizes(out_dim_size, name="out_dim_size", at_run_time="dynamic_broadcast_in_dim")
    if array.rank > rank:
        check.fail(
            f"the result must have at least as many dimensions as operand: {array.rank}",
            got=f"out_dim_size {list(out_dim_size)}",
            fix="remove dimensions of size 1 first with xb.reshape"
            if 1 in array.dimensions
            else None,
        )
    # StableHLO broadcast_in_dim (C2)
    if len(broadcast_dimensions) != array.rank:
        check.one_for_each_dimension(
            broadcast_dimensions,
            of="operand",
            name="broadcast_dimensions",
            fix=_placement(array, out_dim_size),
        )
    dynamic = [False] * rank
    previous = -1
    for index, place in enumerate(broadcast_dimensions):
        # StableHLO broadcast_in_dim (C3), (C4)
        check.in_rank(place, rank, of="the result", name="broadcast_dimensions")
        if place <= previous:
            order = sorted(range(array.rank), key=broadcast_dimensions.__getitem__)
            fix = (
                "map each dimension of operand to a dimension of its own"
                if place in broadcast_dimensions[:index]
                else f"transpose the operand first with xb.transpose(operand, {order})"
            )
            check.fail(
                "broadcast_dimensions must be strictly increasing",
                got=list(broadcast_dimensions),
                dimension=place,
                fix=fix,
            )
        previous = place
        size, new_size = array.dimensions[index], out_dim_size[place]
        # StableHLO broadcast_in_dim (C5)
        if size == new_size:
            dynamic[place] = array.dynamic_dimensions[index]
        elif size == 1 and array.dynamic_dimensions[index]:
            check.fail_along(index, "a dynamic size <=1 can't be broadcast", f"size {new_size}")
        elif size not in (1, UNBOUNDED):
            check.fail(
                f"dimension {index} of operand has size {array.dimension_text(index)}, dimension "
                f"{place} of the result has size {new_size}; these sizes must be equal, or the "
                f"operand's size must be 1",
                dimension=index,
                fix=_placement(array, out_dim_size),
            )
    return check.result(array.element_type, out_dim_size, dynamic)


def _placement(array: ArrayShape, sizes: Sequence[int]) -> str | None:
    """Return the fix that names `broadcast_dimensions` for these sizes, or None if none fit."""
    places = matching_places(array.dimensions, sizes)
    return None if places is None else f"map to equal sizes: broadcast_dimensions={places}"


@op(BROADCAST_IN_DIM, _broadcast_in_dim_shape, out_dim_size=INTEGERS)
def broadcast_in_dim(
    operand: XlaOp,
    out_dim_size: Sequence[int],
    broadcast_dimensions: Sequence[int],
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


@per_signature
def _reshape_shape(
    operand: Shape,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    op: str = "reshape",
    inferred_dimension: int = -1,
) -> ArrayShape:
    """Return the shape of the operand reshaped to other sizes.

    If a bounded dimension is split, dimension `inferred_dimension` of the result is bounded. The
    default, -1, selects no dimension.
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    # XLA shape_inference.cc: InferReshapeShape
    if not -1 <= inferred_dimension < max(len(new_sizes), 1):
        dimensions_text = f"0 to {len(new_sizes) - 1}" if new_sizes else "it has none"
        check.fail(
            f"inferred_dimension must be a dimension of the result ({dimensions_text}), or "
            "-1 for none",
            got=inferred_dimension,
            dimension=inferred_dimension,
        )
    if dimensions is not None:
        # Operation Semantics: Reshape
        check.permutation(dimensions, of="operand", name="dimensions")
        array = _permuted(array, dimensions)
    count = math.prod(array.dimensions) if array.is_bounded else UNBOUNDED
    check.sizes(new_sizes, name="new_sizes", at_run_time="dynamic_reshape", count=count)
    if not array.is_bounded:
        # XLA shape_inference.cc: InferReshapeShape
        if any(d and s != UNBOUNDED for s, d in _dimensions(array)):
            check.fail(
                "an operand with both bounded and unbounded dimensions can't be reshaped",
                fix=_RESHAPE_FIX,
            )
        return check.result(array.element_type, new_sizes)
    old_count, new_count = math.prod(array.dimensions), math.prod(new_sizes)
    # StableHLO reshape (C2)
    if old_count != new_count:
        check.fail(
            f"the number of elements must stay the same, {old_count}",
            got=f"{new_count} for new_sizes {list(new_sizes)}",
            fix=_reshape_fix(old_count, new_sizes),
        )
    dynamic = [False] * len(new_sizes)
    if not array.is_static:
        for place in _dynamic_after_reshape(check, array, new_sizes, inferred_dimension):
            dynamic[place] = True
    return check.result(array.element_type, new_sizes, dynamic)


def _reshape_fix(count: int, new_sizes: Sequence[int]) -> str:
    """Return the fix for a reshape of `count` elements to another number of elements."""
    for place in reversed(range(len(new_sizes))):
        rest = math.prod(size for index, size in enumerate(new_sizes) if index != place)
        if rest and count % rest == 0:
            sizes = [count // rest if index == place else s for index, s in enumerate(new_sizes)]
            return f"write sizes whose product is {count}, for instance {sizes}"
    return f"write sizes whose product is {count}"


def _dimensions(array: ArrayShape) -> zip[tuple[int, bool]]:
    return zip(array.dimensions, array.dynamic_dimensions, strict=True)


def _permuted(array: ArrayShape, permutation: Sequence[int]) -> ArrayShape:
    sizes, dynamic = array.dimensions, array.dynamic_dimensions
    return intern_array(
        array.element_type,
        tuple([sizes[i] for i in permutation]),
        dynamic if array.is_static else tuple([dynamic[i] for i in permutation]),
    )


Cut = tuple[int, int]


def equal_products(old: Sequence[int], new: Sequence[int]) -> list[Cut]:
    """Cut `old` and `new` into as many parts with equal products as possible; return the cuts.

    A cut (i, j) is before old[i] and new[j]. A size of 1 without a counterpart is a separate part;
    the matching part of the other list is empty.
    """
    i = 0
    while i < min(len(old), len(new)) and old[i] == new[i]:
        i += 1
    j = i
    cuts = [(k, k) for k in range(i)]
    end = (len(old), len(new))
    rest = math.prod(old[i:])
    if rest != math.prod(new[j:]):
        # A zero among the equal sizes makes the products equal although the rest differs.
        return [(0, 0), end]
    cuts.append((i, j))
    if rest == 0:
        return [*cuts, end]
    old_product = new_product = 1
    while (i, j) != end:
        # The side with the smaller product advances; at a cut, the side with the smaller next
        # size, or both if they are equal.
        behind = old_product - new_product
        if behind == 0 and i < len(old) and j < len(new):
            behind = old[i] - new[j]
        elif behind == 0:
            behind = -1 if i < len(old) else 1
        if behind <= 0:
            old_product *= old[i]
            i += 1
        if behind >= 0:
            new_product *= new[j]
            j += 1
        if old_product == new_product:
            cuts.append((i, j))
    return cuts


def _dynamic_after_reshape(
    check: Check, array: ArrayShape, new_sizes: Sequence[int], inferred_dimension: int
) -> list[int]:
    """Return the dimensions of a reshape's result that are bounded.

    A bounded dimension may be combined with others (``[2,<=3] -> [<=6]``), or split if all new
    sizes but one are 1 (``[<=6] -> [<=6,1]``). If it is split otherwise (``[<=6] -> [2,3]``), the
    inferred dimension is bounded. Without an inferred dimension, the result is static, as in XLA.
    A reshape that both combines and splits a bounded dimension is refused.
    """
    cuts = equal_products(array.dimensions, new_sizes)
    last = array.rank - 1
    bounded = []
    for dimension, (size, dynamic) in enumerate(_dimensions(array)):
        if not dynamic:
            continue
        part = next(p for p in range(len(cuts) - 1) if cuts[p][0] <= dimension < cuts[p + 1][0])
        (old_start, new_start), (old_end, new_end) = cuts[part], cuts[part + 1]
        # XLA shape_inference.cc: InferReshapeShape
        if old_end - old_start > 1 and new_end - new_start > 1:
            check.fail_along(
                dimension,
                f"a bounded dimension can be split, or combined with others, but not both in one "
                f"reshape to {list(new_sizes)}",
                array.dimension_text(dimension),
                fix="reshape in two steps",
            )
        # Sizes of 1 next to the part could be the bounded dimension as well.
        new_start = min(j for i, j in cuts if i == old_start)
        new_end = max(j for i, j in cuts if i == old_end)
        if size == 1 and new_sizes:
            if dimension not in (0, last):
                rule = "a dimension <=1 can be reshaped only if it is the first or the last"
                check.fail_along(dimension, rule, "<=1")
            bounded.append(len(new_sizes) - 1 if dimension == last else 0)
        elif new_end - new_start == 1:
            bounded.append(new_start)
        elif inferred_dimension != -1 and new_end > new_start:
            bounded.append(inferred_dimension)
        else:
            larger = [j for j in range(new_start, new_end) if new_sizes[j] != 1]
            if len(larger) == 1:
                bounded.append(larger[0])
    return bounded


RESHAPE: Final = define("reshape", "operand", element_types={"operand": ANY}, traits=Trait.MOVES)


_INTEGERS: Final = {int}


@op_by_hand(RESHAPE, _reshape_shape)
def reshape(
    operand: XlaOp,
    new_sizes: Sequence[int | str],
    *,
    dimensions: Sequence[int] | None = None,
) -> XlaOp:
    """Reshape an array: the same elements, in the same order, with other sizes.

    Args:
        operand: an array.
        new_sizes: the sizes of the result, with as many elements as the operand has. `xb.UNBOUNDED`
            or "?" is the size that follows from the others, for an operand of unbounded sizes.
        dimensions: the order in which the operand's dimensions are read, slowest first; by default
            their own order. If present, a `transpose` by `dimensions` is recorded first.
            (Keyword-only, because Operation Semantics has `dimensions` before `new_sizes`.)

    Returns:
        An array of sizes `new_sizes`. A bounded dimension may be combined with others or split, but
        not both. The number of elements of an unbounded operand is checked at run time only. A
        result with unbounded sizes, which XLA's Reshape does not have, is recorded as
        `dynamic_reshape`: with one unbounded size, other dimensions may become part of it; with
        several, the sizes between them keep their product.

    Raises:
        ShapeInferenceError: the operand is not an array; the numbers of elements differ, or the
            numbers of unbounded sizes; `dimensions` is not a permutation.

    Example:
        >>> import builder as xb
        >>> v = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reshape(v, [8, 3]).shape
        f32[8,3]
        >>> xb.reshape(v, dimensions=[1, 2, 0], new_sizes=[2, 6, 2]).shape
        f32[2,6,2]

    Operation Semantics: Reshape.
    """
    if type(operand) is not XlaOp:
        need_op("reshape", "operand", operand)
    given: object = new_sizes
    if type(given) is int and given == -1:
        new_sizes = [-1]  # its message contains the size
    # The usual list has only integers, which is faster to test than each size.
    is_mixed = isinstance(new_sizes, (list, tuple)) and set(map(type, new_sizes)) != _INTEGERS
    if is_mixed and any(isinstance(size, str) for size in new_sizes):
        is_open = [isinstance(size, str) and size == "?" for size in new_sizes]
        new_sizes = [
            UNBOUNDED if open_ else size for open_, size in zip(is_open, new_sizes, strict=True)
        ]
    sizes = integers("reshape", "new_sizes", new_sizes)
    if UNBOUNDED in sizes:
        if dimensions is not None:
            operand = transpose(operand, integers("reshape", "dimensions", dimensions))
        return _reshape_to_open("reshape", operand, sizes)
    if dimensions is None:
        return record("reshape", _reshape_shape(operand.shape, sizes), (operand,))
    order = integers("reshape", "dimensions", dimensions)
    shape = _reshape_shape(operand.shape, sizes, order)
    if order != tuple(range(len(order))):
        operand = transpose(operand, order)
    return record("reshape", shape, (operand,))


def _reshape_to_open(op: str, operand: XlaOp, new_sizes: Sequence[int]) -> XlaOp:
    """Record a reshape to unbounded sizes: a dynamic_reshape to sizes from the operand's."""
    sources = _open_sizes(op, operand.shape, tuple(new_sizes))
    scalar = intern_array(s32, ())
    with rollback_on_error(resolve_builder(op, operand)):
        sizes: list[XlaOp | int] = list(new_sizes)
        for place, dimension, factor in sources:
            size = get_dimension_size(operand, dimension)
            if factor != 1:
                size = record("multiply", scalar, (size, operand.builder.constant(factor, s32)))
            sizes[place] = size
        return dynamic_reshape(operand, sizes, new_sizes, [s == UNBOUNDED for s in new_sizes])


@per_signature
def _open_sizes(
    op: str, operand: Shape, new_sizes: tuple[int, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Return the origin of each unbounded size of a reshape's result.

    Returns:
        For each unbounded size its dimension, a dimension of the operand and a factor. The size is
        the product of the factor and the operand's size.
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    old_open = [n for n, size in enumerate(array.dimensions) if size == UNBOUNDED]
    new_open = [n for n, size in enumerate(new_sizes) if size == UNBOUNDED]
    # StableHLO dynamic_reshape (C2)
    if array.dynamic_dimensions.count(True) != len(old_open):
        check.fail("a bounded size can't be reshaped to unbounded sizes", fix=_RESHAPE_FIX)
    # Not in XLA: the unbounded sizes follow from those of the operand.
    if len(old_open) != len(new_open):
        rule = f"new_sizes must have as many unbounded sizes as operand: {len(old_open)}"
        fix = "write integers in new_sizes" if not old_open else _RESHAPE_FIX
        check.fail(rule, got=len(new_open), fix=fix)
    text = f"[{', '.join('?' if size == UNBOUNDED else str(size) for size in new_sizes)}]"
    static = [size for size in new_sizes if size != UNBOUNDED]
    # XLA shape_inference.cc: InferReshapeShape
    if any(size < 0 for size in static):
        check.fail("new_sizes must not be negative", got=text)
    if len(old_open) == 1:
        old = math.prod(size for size in array.dimensions if size != UNBOUNDED)
        new = math.prod(static)
        # StableHLO dynamic_reshape (C2)
        if not new or old % new:
            rule = "the product of operand's fixed sizes must be a multiple of new_sizes' product"
            check.fail(rule, got=f"{old} and {new} in {text}", fix=_RESHAPE_FIX)
        return ((new_open[0], old_open[0], old // new),)
    # StableHLO dynamic_reshape (C2)
    if _parts(array.dimensions) != _parts(new_sizes):
        rule = "the products of the sizes between unbounded sizes must stay the same"
        check.fail(rule, got=f"{_parts(array.dimensions)} and {_parts(new_sizes)}, for {text}")
    return tuple((to, origin, 1) for to, origin in zip(new_open, old_open, strict=True))


def _parts(sizes: Sequence[int]) -> list[int]:
    """Return the products of the sizes before, between and after the unbounded ones."""
    products = [1]
    for size in sizes:
        if size == UNBOUNDED:
            products.append(1)
        else:
            products[-1] *= size
    return products


def _reshape_with_inferred_dimension_shape(
    operand: Shape, new_sizes: Sequence[int], inferred_dimension: int
) -> ArrayShape:
    name = "reshape_with_inferred_dimension"
    return _reshape_shape(operand, new_sizes, None, name, inferred_dimension)


@op(
    RESHAPE,
    _reshape_with_inferred_dimension_shape,
    cpp_name="ReshapeWithInferredDimension",
    section=BUILDER_H,
    new_sizes=INTEGERS,
    inferred_dimension=INTEGER,
)
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


@per_signature
def _collapse_shape(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
    check = Check("collapse", operand=operand)
    array = check.array("operand")
    # Operation Semantics: Collapse
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    for before, after in pairwise(dimensions):
        if after != before + 1:
            rule = "dimensions must be consecutive and in order"
            fix = "transpose first with xb.transpose, or use xb.reshape(..., dimensions=...)"
            check.fail(rule, got=list(dimensions), dimension=after, fix=fix)
    if len(dimensions) < 2:
        return array.with_layout(None)
    sizes = _collapsed(array, dimensions)
    if UNBOUNDED not in sizes:
        return _reshape_shape(array, sizes, op="collapse")
    _open_sizes("collapse", array, sizes)
    is_open = tuple([size == UNBOUNDED for size in sizes])
    return check.result(array.element_type, sizes, is_open)


def _collapsed(array: ArrayShape, dimensions: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of an array after consecutive dimensions were collapsed."""
    first, last = dimensions[0], dimensions[-1]
    collapsed = array.dimensions[first : last + 1]
    size = UNBOUNDED if UNBOUNDED in collapsed else math.prod(collapsed)
    return (*array.dimensions[:first], size, *array.dimensions[last + 1 :])


@op_by_hand(RESHAPE, _collapse_shape, cpp_name="Collapse", section="Collapse")
def collapse(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Collapse consecutive dimensions into one; recorded as `reshape`.

    For an operand of unbounded sizes, which XLA's Collapse does not accept, it is recorded as
    `dynamic_reshape`.

    Args:
        operand: an array.
        dimensions: the dimensions, consecutive and in order. With fewer than two of them the
            operand is returned, and nothing is recorded.

    Returns:
        An array in which one dimension replaces `dimensions`; its size is the product of their
        sizes.

    Raises:
        ShapeInferenceError: the operand is not an array; dimensions are out of range, or not
            consecutive and in order; two unbounded sizes would be collapsed.

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
    if len(numbers) < 2:
        return source
    if not shape.is_bounded:
        return _reshape_to_open("collapse", source, shape.dimensions)
    return record("reshape", shape, (source,))


def _transpose_shape(operand: Shape, permutation: Sequence[int]) -> ArrayShape:
    check = Check("transpose", operand=operand)
    array = check.array("operand")
    # StableHLO transpose (C2)
    check.permutation(permutation, of="operand", name="permutation")
    return _permuted(array, permutation)


def _transpose_equal_sizes(op: SizedOp) -> Pairs:
    moved = [op.operands[0][d] for d in op.attributes["permutation"]]
    return zip(moved, op.results[0], strict=True)


TRANSPOSE: Final = define(
    "transpose",
    "operand",
    (Attribute("permutation", INTEGERS, "dimensions"),),
    element_types={"operand": ANY},
    equal_sizes=_transpose_equal_sizes,
    traits=Trait.MOVES,
)


@op(TRANSPOSE, _transpose_shape)
def transpose(operand: XlaOp, permutation: Sequence[int]) -> XlaOp:
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


def _rev_shape(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
    check = Check("rev", operand=operand)
    array = check.array("operand")
    # StableHLO reverse (C3), (C2)
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    check.unique(dimensions, name="dimensions")
    return array.with_layout(None)


REVERSE: Final = define(
    "reverse",
    "operand",
    (Attribute("dimensions", INTEGERS),),
    cpp_name="Rev",
    section="Rev (reverse)",
    element_types={"operand": ANY},
    equal_sizes=all_equal_sizes,
    traits=Trait.MOVES,
)


@op(REVERSE, _rev_shape)
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


def _concatenate_shape(operands: Sequence[Shape], dimension: int) -> ArrayShape:
    check = Check.numbered("concatenate", "operand", operands)
    # StableHLO concatenate (C3), (C1)
    arrays = check.arrays()
    element_type = check.same_element_type()
    first = arrays[0]
    # StableHLO concatenate (C2)
    for index, array in enumerate(arrays):
        if array.rank != first.rank:
            check.fail(
                "operands must have the same number of dimensions",
                got=f"{first.rank} for operand 0 and {array.rank} for operand {index}",
                fix="add dimensions of size 1 to operand "
                f"{index if array.rank < first.rank else 0} with xb.reshape",
            )
    # StableHLO concatenate (C4)
    if not first.rank:
        fix = "reshape each scalar to [1] with xb.reshape"
        check.fail("scalars can't be concatenated", fix=fix)
    check.dimension(dimension, of="operand 0", name="dimension")
    sizes: list[int] = []
    for place, column in enumerate(zip(*[array.dimensions for array in arrays], strict=True)):
        if place == dimension:
            # A sum is unbounded if a term is.
            sizes.append(UNBOUNDED if UNBOUNDED in column else sum(column))
        elif column.count(column[0]) == len(column):
            sizes.append(column[0])
        else:
            # An unbounded size matches every size.
            known = {size for size in column if size != UNBOUNDED}
            if len(known) > 1:
                _refuse_sizes(check, arrays, dimension)
            sizes.extend(known)
    return check.result(element_type, sizes, any_dynamic(arrays, tuple(sizes)))


def _refuse_sizes(check: Check, arrays: Sequence[ArrayShape], dimension: int) -> NoReturn:
    """Raise the error for arrays whose sizes differ; it names the first operand that differs."""
    places = [place for place in range(arrays[0].rank) if place != dimension]
    known = {
        place: next((k for k, a in enumerate(arrays) if a.dimensions[place] != UNBOUNDED), 0)
        for place in places
    }
    index, place = next(
        (index, place)
        for index, array in enumerate(arrays)
        for place in places
        if sizes_differ(array.dimensions[place], arrays[known[place]].dimensions[place])
    )
    other = known[place]
    # StableHLO concatenate (C2)
    check.fail(
        f"operands must have equal sizes in all dimensions but {dimension}; "
        f"dimension {place} has {arrays[other].dimension_text(place)} in operand "
        f"{other} and {arrays[index].dimension_text(place)} in operand {index}",
        dimension=place,
        fix=_concatenate_fix(arrays, index),
    )


def _concatenate_fix(arrays: Sequence[ArrayShape], index: int) -> str:
    """Return the fix for arrays whose sizes differ outside the dimension of concatenation."""
    rank = arrays[0].rank
    for dimension in range(rank):
        others = [d for d in range(rank) if d != dimension]
        if not any(
            sizes_differ(array.dimensions[d], arrays[0].dimensions[d])
            for array in arrays
            for d in others
        ):
            return f"concatenate along dimension {dimension}, where all other sizes are equal"
    return f"make the sizes equal with xb.pad or xb.slice of operand {index}, or of the others"


@per_signature
def _concatenate_plan(operands: tuple[Shape, ...], dimension: int) -> tuple[ArrayShape, Attributes]:
    return _concatenate_shape(operands, dimension), shared_attributes(dimension=dimension)


CONCATENATE: Final = define(
    "concatenate",
    "*operands",
    (Attribute("dimension", DIMENSION, "dimensions"),),
    cpp_name="ConcatInDim",
    section="Concatenate",
    element_types={"operands": ANY},
    equal_sizes=equal_sizes_except("dimension"),
    traits=Trait.MOVES,
)


@op_by_hand(CONCATENATE, _concatenate_shape, aliases=("concat_in_dim",))
def concatenate(operands: Sequence[XlaOp], dimension: int) -> XlaOp:
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
    if isinstance(dimension, XlaOp):
        fix = "pass the operands as a list: xb.concatenate([x, y], dimension)"
        raise refusal("concatenate", "dimension must be an integer", dimension, fix)
    given: object = operands
    if isinstance(given, XlaOp):
        rule = "operands must be a sequence of XlaOps"
        fix = "pass a list of the arrays: xb.concatenate([x, y], dimension)"
        raise error_of(
            OperandError,
            "concatenate",
            rule,
            fix,
            got=f"one: {brief(given, 80)}",
            shapes={"operand": given.shape},
        )
    sources = need_ops("concatenate", "operand", operands)
    number = integer("concatenate", "dimension", dimension)
    shape, attributes = _concatenate_plan(tuple([s.shape for s in sources]), number)
    return record("concatenate", shape, sources, attributes)


def _pad_shape(
    operand: Shape, padding_value: Shape, padding_config: PaddingConfig, op: str = "pad"
) -> ArrayShape:
    """Return the shape of the padded operand; negative padding removes elements."""
    check = Check(op, operand=operand, padding_value=padding_value)
    array = check.array("operand")
    # StableHLO pad (I2), (C1), (C2)
    check.scalar("padding_value")
    check.same_element_type()
    check.one_for_each_dimension(
        padding_config.dimensions,
        of="operand",
        name="padding_config",
        neutral=[(0, 0, 0)] * array.rank,
    )
    sizes = []
    for index, padding in enumerate(padding_config.dimensions):
        # StableHLO pad (C3)
        if padding.interior_padding < 0:
            rule = "interior padding must not be negative"
            fix = "remove elements with xb.slice and strides"
            check.fail_along(index, rule, padding.interior_padding, fix=fix)
        old = array.dimensions[index]
        if old == UNBOUNDED:
            sizes.append(UNBOUNDED)
            continue
        # StableHLO pad (C4)
        size = old + max(old - 1, 0) * padding.interior_padding
        size += padding.edge_padding_low + padding.edge_padding_high
        if size < 0:
            rule = f"negative padding must leave a size of 0 or more, not {size}"
            check.fail_along(index, rule, padding)
        sizes.append(size)
    return check.result(array.element_type, sizes, array.dynamic_dimensions)


@per_signature
def _pad_plan(
    operand: Shape, padding_value: Shape, config: PaddingConfig, name: str
) -> tuple[ArrayShape, Attributes]:
    shape = _pad_shape(operand, padding_value, config, name)
    return shape, MappingProxyType({"padding_config": config})


_NO_PADDING: Final = PaddingConfigDimension(0, 0, 0)


def _pad_equal_sizes(op: SizedOp) -> Pairs:
    amounts = op.attributes["padding_config"].dimensions
    changed = [d for d, amount in enumerate(amounts) if amount != _NO_PADDING]
    return pairs(op.operands[:1], op.results[0], changed)


PAD: Final = define(
    "pad",
    "operand padding_value",
    (Attribute("padding_config", PADDING, "padding"),),
    element_types={"operand": ANY, "padding_value": ANY},
    equal_sizes=_pad_equal_sizes,
)


@op_by_hand(PAD, _pad_shape)
def pad(
    operand: XlaOp,
    padding_value: XlaOp | int | float | complex,
    padding_config: PaddingConfigLike,
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


@op_by_hand(PAD, cpp_name="PadInDim", section="Pad (XlaBuilder's PadInDim)")
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
    # xla_builder.h: PadInDim
    number = check.dimension(integer("pad_in_dim", "dimno", dimno), "operand", "dimno")
    low, high = integer("pad_in_dim", "pad_lo", pad_lo), integer("pad_in_dim", "pad_hi", pad_hi)
    config[number] = PaddingConfigDimension(low, high)
    return _pad("pad_in_dim", source, padding_value, PaddingConfig(tuple(config)))


def _slice_shape(
    operand: Shape,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
    op: str = "slice",
) -> ArrayShape:
    """Return the shape of the operand's elements from start to limit, in steps of stride.

    For an unbounded dimension, the limit `UNBOUNDED` means its size at run time.
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    strides = (1,) * array.rank if strides is None else strides
    # StableHLO slice (C2)
    lists = {
        "start_indices": (start_indices, (0,) * array.rank),
        "limit_indices": (limit_indices, array.dimensions),
        "strides": (strides, (1,) * array.rank),
    }
    for name, (values, _) in lists.items():
        if len(values) != array.rank:
            check.one_for_each_dimension(values, of="operand", name=name, fix=completed(lists))
    sizes, dynamic = [], []
    slices = zip(array.dimensions, start_indices, limit_indices, strides, strict=True)
    for index, (old, start, limit, stride) in enumerate(slices):
        # StableHLO slice (C3)
        if start < 0:
            fix = f"write {start + old}; indices are counted from 0" if start + old >= 0 else None
            check.fail_along(index, "a start index must not be negative", start, fix=fix)
        if limit > old != UNBOUNDED:
            rule = f"a limit index must be at most the size, {array.dimension_text(index)}"
            check.fail_along(index, rule, limit, fix=f"write a limit of at most {old}")
        is_whole = limit == old == UNBOUNDED
        if limit < start and not is_whole:
            rule = "a limit index must be at least the start index"
            hint = "reverse with xb.rev" if limit >= 0 else "count limits from index 0"
            check.fail_along(index, rule, f"{start} to {limit}", fix=hint)
        # StableHLO slice (C4)
        if stride < 1:
            fix = "reverse with xb.rev" if stride else None
            check.fail_along(index, "a stride must be at least 1", stride, fix=fix)
        size = UNBOUNDED if is_whole else (limit - start + stride - 1) // stride
        sizes.append(size)
        # Like XLA, treat a slice of size 1 of a bounded dimension as static.
        is_dynamic = array.dynamic_dimensions[index] and old != UNBOUNDED and size != 1
        dynamic.append(is_whole or is_dynamic)
    return check.result(array.element_type, sizes, dynamic)


_BOUNDS = ("start_indices", "limit_indices", "strides")


def _slice(op: Any) -> str:
    bounds = zip(*(op.attributes[name] for name in _BOUNDS), strict=True)
    parts = [f"[{start}:{limit}:{stride}]" for start, limit, stride in bounds]
    return f", slice={{{', '.join(parts)}}}"


def _slice_equal_sizes(op: SizedOp) -> Pairs:
    names = "start_indices", "limit_indices", "strides"
    limits = zip(*[op.attributes[name] for name in names], strict=True)
    changed = [d for d, each in enumerate(limits) if each != (0, UNBOUNDED, 1)]
    return pairs(op.operands, op.results[0], changed)


SLICE: Final = define(
    "slice",
    "operand",
    (*(Attribute(name, INTEGERS, None) for name in _BOUNDS), Group(_slice)),
    element_types={"operand": ANY},
    cost=CostClass.RULE,
    equal_sizes=_slice_equal_sizes,
)


def _bounds(
    operand: ArrayShape,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> Attributes:
    steps = (1,) * operand.rank if strides is None else strides
    return dict(zip(_BOUNDS, (start_indices, limit_indices, steps), strict=True))


@op(SLICE, _slice_shape, _bounds)
def slice(
    operand: XlaOp,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
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


def _slice_in_dim_shape(
    operand: Shape, start_index: int, limit_index: int, stride: int = 1, dimno: int = 0
) -> ArrayShape:
    check = Check("slice_in_dim", operand=operand)
    array = check.array("operand")
    # xla_builder.h: SliceInDim
    check.dimension(dimno, of="operand", name="dimno")
    bounds = _bounds_in_dim(array, start_index, limit_index, stride, dimno)
    return _slice_shape(operand, **bounds, op="slice_in_dim")


def _bounds_in_dim(
    operand: ArrayShape, start_index: int, limit_index: int, stride: int, dimno: int
) -> Attributes:
    starts, limits, strides = [0] * operand.rank, [*operand.dimensions], [1] * operand.rank
    starts[dimno], limits[dimno], strides[dimno] = start_index, limit_index, stride
    return dict(zip(_BOUNDS, map(tuple, (starts, limits, strides)), strict=True))


@op(
    SLICE,
    _slice_in_dim_shape,
    _bounds_in_dim,
    cpp_name="SliceInDim",
    section="Slice (XlaBuilder's SliceInDim)",
    start_index=INTEGER,
    limit_index=INTEGER,
    stride=INTEGER,
    dimno=INTEGER,
)
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


def _iota_shape(shape: Shape, iota_dimension: int | None = None) -> ArrayShape:
    check = Check("iota", shape=shape)
    array = check.array("shape")
    element_type = array.element_type
    # Not in XLA: an iota of a dynamic size is not supported.
    if not array.is_static:
        fix = "use static sizes; xb.set_dimension_size makes a dimension of the result dynamic"
        if has_unbounded_sizes(array):
            fix = (
                "use lib.indices_along(x, dimension) for the sizes of an array, or xb.dynamic_iota "
                "for sizes that are ops"
            )
        check.fail("shape must be static", got=array, fix=fix)
    # StableHLO iota: the type of output; a type without zero has no first element
    check.element_type("shape", NUMBER, fix="use an integer type, and compare the result")
    if element_type.is_floating and element_type.min > 0:
        check.fail("shape must be of a type that can represent 0", got=element_type)
    # StableHLO iota (C1)
    if not array.rank:
        check.fail("shape must have a dimension to count along", got="a scalar")
    if iota_dimension is None:
        if array.rank != 1:
            rule = "iota_dimension is required unless the rank is 1"
            check.fail(
                rule,
                got=f"rank {array.rank}",
                fix=f"set iota_dimension to a dimension from 0 to {array.rank - 1}",
            )
    else:
        check.dimension(iota_dimension, of="shape", name="iota_dimension")
    return array.with_layout(None)


IOTA: Final = define("iota", "", (Attribute("iota_dimension", INTEGER),))

builder_method(IOTA, _iota_shape)
