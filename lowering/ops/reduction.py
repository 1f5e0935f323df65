"""Reductions along dimensions and in windows; sorting.

The derivative of a sort moves tangents as the sort moves elements. So it is the same for all
comparators: an array of indices is sorted together with the operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, constant_value, is_constant
from builder.ops.reduction import sort as record_sort
from builder.rewriting.copying import inline
from builder.schema import SCHEMAS
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.mlir.attributes import boolean, i64
from lowering.ops.derivatives import forward_only, with_derivative_of, with_rule, with_tangents
from lowering.ops.elementwise import FUNCTIONS
from lowering.ops.registry import (
    Context,
    Step,
    Value,
    array_of,
    custom_call_rule,
    importer,
    jax_rule,
    place,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


_MONOIDS: Final = frozenset(o for o, schema in SCHEMAS.items() if schema.monoid is not None)

_LOGICAL: Final = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
"""What the arithmetic of pred is, as XLA defines it."""


def applied_opcode(computation: XlaComputation) -> str | None:
    """Return the commutative opcode that a computation of two scalars applies to them, or None.

    The opcodes of pred are "and", "or" and "xor".

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[()], xb.f32[()])
        ... def total(x, y):
        ...     return y + x
        >>> applied_opcode(total)
        'add'
    """
    root = computation.root
    if root.opcode not in _MONOIDS:
        return None
    if len(computation.parameters) != 2 or set(root.operands) != set(computation.parameters):
        return None
    if root.shape.element_type is pt.pred:
        return _LOGICAL.get(root.opcode, root.opcode)
    return root.opcode


def returns_second(computation: XlaComputation) -> bool:
    """Return whether a computation of two parameters returns the second one."""
    parameters = computation.parameters
    return len(parameters) == 2 and computation.root is parameters[1]


def is_identity(opcode: str, value: XlaOp) -> bool:
    """Return whether an op is the constant with which `opcode` changes no other value.

    -0.0 is not counted for "add": 0.0 is the number with which jax begins a sum.
    """
    constant = constant_value(value)
    if constant is None:
        return False
    return constant.tobytes() == identity(opcode, value.shape.element_type).tobytes()


def identity(opcode: str, element_type: pt.PrimitiveType) -> np.ndarray[Any, Any]:
    """Return the scalar with which `opcode` changes no value of an element type, other than -0."""
    monoid = SCHEMAS[opcode].monoid
    assert monoid is not None
    return monoid.identity(element_type)


_REDUCTIONS: Final[dict[str, Callable[[], Callable[..., Value]]]] = {
    "add": lambda: lax.reduce_sum,
    "multiply": lambda: lax.reduce_prod,
    "maximum": lambda: lax.reduce_max,
    "minimum": lambda: lax.reduce_min,
    "and": lambda: lax.reduce_and,
    "or": lambda: lax.reduce_or,
    "xor": lambda: lax.reduce_xor,
}
"""By opcode, a function that returns jax's reduction from the identity."""


def pairwise(ctx: Context, computation: XlaComputation) -> Callable[..., Any]:
    """Return a reducer as jax takes it: of two tuples."""
    function = ctx.function(computation)

    def reducer(lhs: Value, rhs: Value) -> Value:
        result = function(*lhs, *rhs)
        return result if isinstance(result, tuple) else (result,)

    return reducer


def vectorized(ctx: Context, computation: XlaComputation, rank: int) -> Callable[..., Any]:
    """Return a reducer of scalars as one of two lists of arrays, which returns a list."""
    function = pairwise(ctx, computation)
    for _ in range(rank):
        function = jax.vmap(function)
    return lambda lhs, rhs: list(function(tuple(lhs), tuple(rhs)))


@jax_rule("reduce")
def jax_reduce(ctx: Context, op: XlaOp) -> Step:
    computation = op.attributes["to_apply"]
    dimensions = op.attributes["dimensions"]
    count = len(op.operands) // 2
    opcode = applied_opcode(computation)
    monoid = None if opcode is None else _REDUCTIONS[opcode]()
    if monoid is not None and opcode is not None and count == 1:
        if is_identity(opcode, op.operands[1]):
            return lambda operand, _: monoid(operand, axes=dimensions)
        combine = FUNCTIONS[opcode]()
    reducer = pairwise(ctx, computation)
    is_tuple = op.shape.is_tuple

    def general(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        results = lax.reduce(tuple(values), tuple(inits), reducer, dimensions)
        return tuple(results) if is_tuple else results[0]

    if all(is_constant(init) for init in op.operands[count:]):
        exact: Step = general
    else:
        exact = ctx.pasted(op)  # jax can't vmap initial values
    if monoid is None or count > 1:
        return with_derivative_of(exact, _folded(ctx, op))

    def differentiable(operand: Value, init: Value) -> Value:
        reduced = monoid(operand, axes=dimensions)
        return combine(reduced, lax.broadcast_in_dim(init, reduced.shape, ()))

    # XLA begins with the initial value, so the terms are added in another order.
    return with_derivative_of(exact, differentiable)


def _folded(ctx: Context, op: XlaOp) -> Step:
    """Return a reduction that combines neighbouring elements until one is left.

    jax differentiates reducers of one floating-point operand only.
    """
    combine = vectorized(ctx, op.attributes["to_apply"], array_of(op.operands[0].shape).rank)
    dimensions = op.attributes["dimensions"]
    count = len(op.operands) // 2
    is_tuple = op.shape.is_tuple

    def folded(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        for d in dimensions:
            size = values[0].shape[d]
            while size > 1:
                rest = size % 2
                even, odd = (
                    [lax.slice_in_dim(v, first, size - rest, 2, d) for v in values]
                    for first in (0, 1)
                )
                pairs = combine(even, odd)
                if rest:
                    last = [lax.slice_in_dim(v, size - 1, size, axis=d) for v in values]
                    pairs = [lax.concatenate(p, d) for p in zip(pairs, last, strict=True)]
                values, size = pairs, len(range(0, size, 2))
        sizes = values[0].shape
        kept = [size for d, size in enumerate(sizes) if d not in dimensions]
        if 0 in [sizes[d] for d in dimensions]:
            results = [lax.broadcast_in_dim(init, kept, ()) for init in inits]
        else:
            starts = [lax.broadcast_in_dim(init, sizes, ()) for init in inits]
            results = [lax.reshape(value, kept) for value in combine(starts, values)]
        return tuple(results) if is_tuple else results[0]

    return folded


_REDUCERS: Final = frozenset(("add", "maximum", "minimum"))
"""The reducers for which jax has a primitive with a reverse derivative."""


@jax_rule("reduce_window")
def jax_reduce_window(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    computation = attributes["to_apply"]
    window = {
        "window_dimensions": attributes["window_dimensions"],
        "window_strides": attributes["window_strides"],
        "padding": attributes["padding"],
        "base_dilation": attributes["base_dilations"],
        "window_dilation": attributes["window_dilations"],
    }
    count = len(op.operands) // 2
    opcode = applied_opcode(computation) if count == 1 else None
    reducer = FUNCTIONS[opcode]() if opcode is not None and opcode in _REDUCERS else None
    if reducer is not None and opcode is not None and is_identity(opcode, op.operands[1]):
        init = op.operands[1].attributes["value"]
        return lambda operand, _: lax.reduce_window(operand, init, reducer, **window)
    pairs = pairwise(ctx, computation)
    is_tuple = op.shape.is_tuple

    def general(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        results = lax.reduce_window(values, inits, pairs, **window)
        return tuple(results) if is_tuple else results[0]

    inits = [init.attributes["value"] for init in op.operands[count:] if is_constant(init)]
    # jax can't vmap or differentiate initial values.
    exact = general if len(inits) == count else ctx.pasted(op)
    cumulative = _cumulative(ctx, op) if count == 1 else None
    if cumulative is not None:
        return with_derivative_of(exact, cumulative)
    if opcode is None or (reducer is None and opcode != "multiply"):
        if len(inits) < count:
            return exact
        reason = (
            f"reduce_window{place(op)}: reverse-mode differentiation requires one operand and the "
            "reducer add, mul, max or min, or windows of all elements up to each one"
        )
        fix = "use such a reducer, or write the derivative with xb.custom_gradient"
        restrict = forward_only("reduce_window", reason, fix)
        return with_derivative_of(
            exact, lambda *operands: restrict(general(*operands[:count], *inits))
        )
    start = identity(opcode, op.operands[0].shape.element_type)
    combine = FUNCTIONS[opcode]()

    def differentiable(operand: Value, init: Value) -> Value:
        if reducer is None:
            total = _products(operand, start, **window)
        else:
            total = lax.reduce_window(operand, start, reducer, **window)
        return combine(total, lax.broadcast_in_dim(init, total.shape, ()))

    # XLA begins with the initial value, so the elements are combined in another order.
    return with_derivative_of(exact, differentiable)


def _products(
    operand: Value,
    one: Value,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> Value:
    """Return the products over windows, from an array with all elements of each window."""
    config = [
        (low, high, base - 1) for (low, high), base in zip(padding, base_dilation, strict=True)
    ]
    elements = lax.pad(operand, one, config)
    sizes = elements.shape
    for d in reversed(range(len(sizes))):
        within = np.arange(window_dimensions[d]) * window_dilation[d]
        starts = np.arange(0, sizes[d] - within[-1], window_strides[d])
        elements = jax.numpy.take(elements, starts[:, None] + within, axis=d)
    return lax.reduce_prod(elements, axes=range(1, elements.ndim, 2))


def _cumulative(ctx: Context, op: XlaOp) -> Step | None:
    """Return the function of a window that begins at the first element, or ends at the last one.

    None for other windows. `lax.associative_scan` of the reducer can be differentiated.
    """
    attributes = op.attributes
    sizes = array_of(op.operands[0].shape).dimensions
    dilated = (*attributes["base_dilations"], *attributes["window_dilations"])
    if any(factor != 1 for factor in (*dilated, *attributes["window_strides"])):
        return None
    window, padding = attributes["window_dimensions"], attributes["padding"]
    (axis, *others) = [d for d, pads in enumerate(padding) if window[d] > 1 or any(pads)] or [0]
    low, high = padding[axis]
    if others or window[axis] != sizes[axis] or min(low, high) != 0:
        return None
    is_reverse = high > 0
    combine = vectorized(ctx, attributes["to_apply"], len(sizes))
    # The results are those for the last `added` + 1 numbers of elements, from none to all.
    added, size = max(low, high), sizes[axis]

    def accumulated(operand: Value, init: Value) -> Value:
        (found,) = lax.associative_scan(combine, [operand], reverse=is_reverse, axis=axis)
        (found,) = combine([lax.broadcast_in_dim(init, found.shape, ())], [found])
        empty = list(found.shape)
        empty[axis] = max(added + 1 - size, 0)
        parts = [lax.broadcast_in_dim(init, empty, ()), found]
        every = lax.concatenate(parts[::-1] if is_reverse else parts, axis)
        first = 0 if is_reverse else every.shape[axis] - added - 1
        return lax.slice_in_dim(every, first, first + added + 1, axis=axis)

    return accumulated


_SELECTORS: Final[dict[str, Callable[[], Any]]] = {"GE": lambda: lax.ge_p, "LE": lambda: lax.le_p}


@jax_rule("select_and_scatter")
def jax_select_and_scatter(ctx: Context, op: XlaOp) -> Step:
    """Paste the op; that of max pooling has the derivative of jax's own pooling."""
    attributes = op.attributes
    exact = ctx.pasted(op)
    select, scatter = attributes["select"], attributes["scatter"]
    selector = None
    if select.root.opcode == "compare" and list(map(id, select.root.operands)) == list(
        map(id, select.parameters)
    ):
        selector = _SELECTORS.get(select.root.attributes["comparison_direction"])
    if selector is None or applied_opcode(scatter) != "add":
        return exact
    add = partial(
        lax.select_and_scatter_add_p.bind,
        select_prim=selector(),
        window_dimensions=attributes["window_dimensions"],
        window_strides=attributes["window_strides"],
        padding=attributes["padding"],
    )

    def differentiable(operand: Value, source: Value, init: Value) -> Value:
        total = add(source, operand)
        return lax.add(total, lax.broadcast_in_dim(init, total.shape, ()))

    return with_derivative_of(exact, differentiable)


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
