"""Sorts.

The derivative of a sort moves tangents as the sort moves elements. So it is the same for all
comparators: an array of indices is sorted together with the operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.reduction import sort as record_sort
from builder.rewriting.inlining import inline
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.mlir.attributes import boolean, i64
from lowering.ops.derivatives.steps import with_rule, with_tangents
from lowering.ops.registry import (
    Context,
    Step,
    Value,
    array_of,
    custom_call_rule,
    importer,
    jax_rule,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


def _direction(comparator: XlaComputation, element_type: PrimitiveType) -> str | None:
    """Return "LT" or "GT" for a comparator that orders the first operand totally, or None."""
    root = comparator.root
    if root.opcode != "compare" or set(root.operands) != set(comparator.parameters[:2]):
        return None
    if element_type.is_complex or element_type.bits < 8:
        return None
    if element_type.is_floating and root.attributes["compare_type"] != "TOTALORDER":
        return None
    direction: str = root.attributes["comparison_direction"]
    if direction not in ("LT", "GT"):
        return None
    is_swapped = root.operands[0] is comparator.parameters[1]
    return {"LT": "GT", "GT": "LT"}[direction] if is_swapped else direction


def _key(value: Value, element_type: PrimitiveType, direction: str) -> Value:
    """Return integers whose order is the order in which the elements are sorted."""
    if element_type.is_floating:
        bits = element_type.bits
        integers = np.dtype(f"int{bits}")
        value = lax.bitcast_convert_type(value, integers)
        # The order of the magnitudes of negative numbers is reversed.
        largest = lax.full_like(value, np.iinfo(integers).max)
        is_negative = lax.lt(value, lax.full_like(value, 0))
        value = lax.select(is_negative, lax.bitwise_xor(value, largest), value)
    return value if direction == "LT" else lax.bitwise_not(value)


@jax_rule("sort")
def jax_sort(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    dimension, comparator = attributes["dimension"], attributes["to_apply"]
    element_type = op.operands[0].shape.element_type
    is_tuple = op.shape.is_tuple
    direction = _direction(comparator, element_type)
    if direction is None:
        return _by_comparator(ctx, op)

    def step(*operands: Value) -> Value:
        key = _key(operands[0], element_type, direction)
        is_key = key is operands[0]
        values = operands if is_key else (key, *operands)
        results = lax.sort(
            values, dimension=dimension, is_stable=attributes["is_stable"], num_keys=1
        )
        results = tuple(results if is_key else results[1:])
        return results if is_tuple else results[0]

    return step


def _by_comparator(ctx: Context, op: XlaOp) -> Step:
    """Return a sort by any comparator.

    A derivative needs the positions of the elements. Where the step is differentiated, its values
    are of the sort that returns them too: a sort that is not stable may order equal keys otherwise,
    and then the values of the other operands would not be those whose tangents are returned.
    """
    dimension = op.attributes["dimension"]
    is_tuple = op.shape.is_tuple
    shape = array_of(op.operands[0].shape)
    kind = pt.s64 if shape.dimensions[dimension] > pt.s32.max else pt.s32
    types = [array_of(operand.shape).element_type for operand in op.operands]
    ordered = cache(lambda: _ordered(ctx, op, [*types, kind], (), is_stable=True))

    def with_positions(*operands: Value) -> Value:
        positions = lax.broadcasted_iota(kind.dtype, shape.dimensions, dimension)
        return ordered()(*operands, positions)

    def tangents_of(_: Any, results: Any, tangents: Any) -> Any:
        return *_moved(tangents, results[-1], dimension), None

    differentiable = with_tangents(with_positions, tangents_of)

    def derivative(operands: Any, tangents: Any) -> Any:
        *results, positions = differentiable(*operands)
        moved = _moved(tangents, positions, dimension)
        return (tuple(results), moved) if is_tuple else (results[0], moved[0])

    exact = ctx.pasted(op)
    batched = cache(
        lambda size: _ordered(ctx, op, types, (size,), is_stable=op.attributes["is_stable"])
    )
    return with_rule(_vectorized(exact, batched), derivative)


def _ordered(
    ctx: Context,
    op: XlaOp,
    types: Sequence[PrimitiveType],
    batch: tuple[int, ...],
    *,
    is_stable: bool,
) -> Step:
    """Return the sort of `op` for operands with more dimensions in front.

    Args:
        ctx: the context of the rule.
        op: the sort.
        types: the element types of the operands. Those behind the operands of `op` do not affect
            the order.
        batch: the sizes of the dimensions in front.
        is_stable: whether elements that compare equal keep their order.
    """
    sizes = (*batch, *array_of(op.operands[0].shape).dimensions)
    b = XlaBuilder("sort")
    operands = [b.parameter(element_type[sizes]) for element_type in types]
    comparator = _ignoring(op.attributes["to_apply"], types[len(op.operands) :])
    dimension = op.attributes["dimension"] + len(batch)
    root = record_sort(operands, comparator, dimension, is_stable)
    exact = ctx.pasted(root, b.build(root))
    batched = cache(lambda size: _ordered(ctx, op, types, (size, *batch), is_stable=is_stable))
    return _vectorized(exact, batched)


def _ignoring(comparator: XlaComputation, types: Sequence[PrimitiveType]) -> XlaComputation:
    """Return a comparator for further operands, which do not affect the order."""
    if not types:
        return comparator
    b = XlaBuilder(comparator.name)
    scalars = [b.parameter(parameter.shape) for parameter in comparator.parameters]
    for element_type in types:
        b.parameter(element_type[()])
        b.parameter(element_type[()])
    return b.build(inline(comparator, *scalars))


def _vectorized(exact: Step, batched: Callable[[int], Step]) -> Step:
    """Return a step that `jax.vmap` evaluates by one sort of larger arrays.

    Args:
        exact: the step.
        batched: returns the step for operands with a further dimension of this size in front.
    """
    custom: Any = jax.custom_batching.custom_vmap  # jax has no types for it
    step = custom(exact)

    def in_batches(size: int, are_batched: Any, *operands: Value) -> Any:
        whole = [
            value if is_batched else lax.broadcast(value, (size,))
            for value, is_batched in zip(operands, are_batched, strict=True)
        ]
        results = batched(size)(*whole)
        return results, jax.tree_util.tree_map(lambda _: True, results)

    step.def_vmap(in_batches)
    vectorized: Step = step
    return vectorized


def _moved(tangents: Any, positions: Value, dimension: int) -> tuple[Value | None, ...]:
    return tuple([None if t is None else along(t, positions, dimension) for t in tangents])


def along(
    values: Value, positions: Value, dimension: int, *, is_approximate: bool = False
) -> Value:
    """Return the values at positions along a dimension.

    Args:
        values: an array.
        positions: an array of the same sizes, except for `dimension`.
        dimension: a dimension of both.
        is_approximate: whether a position can be out of bounds, for which the value is 0, or
            occur more than once along `dimension`.
    """
    rank = values.ndim
    others = tuple(d for d in range(rank) if d != dimension)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    modes = lax.GatherScatterMode
    return lax.gather(
        values,
        lax.expand_dims(positions, (rank,)),
        numbers,
        (1,) * rank,
        unique_indices=not is_approximate,
        mode=modes.FILL_OR_DROP if is_approximate else modes.PROMISE_IN_BOUNDS,
        fill_value=0 if is_approximate else None,
    )


@stablehlo_rule("top_k", when=lambda op: not op.attributes["largest"])
def emit_top_k(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"k": i64(op.attributes["k"]), "largest": boolean(False)}
    return ctx.value("mhlo.topk", op.shape, operands, attributes)


@importer("mhlo.topk")
def import_top_k(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a top_k. CHLO's top_k has no attribute `largest`, whose default is true."""
    return scope.by_schema(
        "top_k", operation, operands, largest=scope.attribute(operation, "largest", True)
    )


@jax_rule("top_k")
def jax_top_k(ctx: Context, op: XlaOp) -> Step:
    element_type = op.operands[0].shape.element_type
    k, last = op.attributes["k"], array_of(op.operands[0].shape).rank - 1
    if op.attributes["largest"] and not element_type.is_complex and element_type.bits >= 8:
        return lambda operand: tuple(lax.top_k(operand, k))

    def tangents_of(_: Any, results: Any, tangents: Any) -> Any:
        return *_moved(tangents, results[1], last), None

    return with_tangents(ctx.pasted(op), tangents_of)


@custom_call_rule("ApproxTopK")
def approx_top_k(ctx: Context, op: XlaOp) -> Step | None:
    """Move tangents by the indices among the results; None if there are none.

    jax sorts an array of indices together with the operand.
    """
    found = re.search(r"\breduction_dim = (\d+)", op.attributes["opaque"])
    if found is None:
        return None
    dimension = int(found[1])
    arrays = op.operands[: len(op.operands) // 2]
    indices = (
        number
        for number, array in enumerate(arrays)
        if array.opcode == "iota" and array.attributes["iota_dimension"] == dimension
    )
    position = next(indices, None)
    if position is None:
        return None

    def tangents_of(_: Any, results: Any, tangents: Any) -> Any:
        positions = results[position]
        return tuple(
            None if t is None else along(t, positions, dimension, is_approximate=True)
            for t in tangents[: len(arrays)]
        )

    return with_tangents(ctx.pasted(op), tangents_of)
