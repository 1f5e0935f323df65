"""Scaled dot-product attention and rotary position embeddings.

Arrays of heads have the dimensions ``[..., positions, heads, features]``; the leading dimensions
are batches. Types narrower than f32 are computed in f32, apart from the operands of the products,
and the result is rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from builder.checking import flag
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    finite_number,
    fixed_size,
    floating_argument,
    shape_of,
    typed_argument,
    widened,
)
from builder.lib.dynamic import broadcast_along, closed_argument, indices_of
from builder.lib.reductions import largest_number
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.contraction import dot_general
from builder.ops.reduction import reduce
from builder.ops.reshaping import concatenate, reshape, slice_in_dim, transpose
from builder.types.primitive_type import pred, s32
from builder.types.shape import ArrayShape


@library_function()
def dot_product_attention(
    query: XlaOp,
    key: XlaOp,
    value: XlaOp,
    bias: XlaOp | None = None,
    mask: XlaOp | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> XlaOp:
    """Return averages of the values of each head, weighted by the softmax of query · key.

    Args:
        query: an array ``[..., T, N, H]`` of floating-point numbers: T positions and N heads.
        key: an array ``[..., S, K, H]``. K divides N: each group of N / K consecutive heads of the
            query shares a head of the keys and values.
        value: an array ``[..., S, K, V]``.
        bias: an array that is added to the scaled products; broadcast as in NumPy to ``[..., N, T,
            S]``.
        mask: preds, broadcast as in NumPy to ``[..., N, T, S]``: whether a position of the query
            attends to a position of the keys. A query position that attends to no key gets the mean
            of the values.
        scale: a factor of the products; 1 / sqrt(H) by default.
        is_causal: whether position t attends only to the keys 0 to t.

    Returns:
        An array ``[..., T, N, V]``.

    Raises:
        OperandError: `scale` is not a finite number.
        ShapeInferenceError: types or sizes do not match; a size is bounded, or a number of
            heads or features unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> q, kv = b.parameter(xb.bf16[2, 16, 8, 64]), b.parameter(xb.bf16[2, 16, 2, 64])
        >>> lib.dot_product_attention(q, kv, kv, is_causal=True).shape
        bf16[2,16,8,64]
    """
    op = "dot_product_attention"
    batch, (t, n, h), (k, v) = _attention_sizes(op, query, key, value)
    if scale is None:
        scale = 1 / math.sqrt(h) if h else 1.0
    factor = finite_number(op, "scale", scale)
    flag(op, "is_causal", is_causal)
    element_type = query.shape.element_type
    wide_type = shape_of(widened(query)).element_type
    rank = len(batch)
    batches = list(range(rank))

    # The dimensions of all products are batch, K, T, N / K and S or V.
    grouped = reshape(query, [*batch, t, k, n // k, h])
    logits = dot_general(
        grouped,
        key,
        (([rank + 3], [rank + 2]), ([*batches, rank + 1], [*batches, rank + 1])),
        preferred_element_type=wide_type,
    )
    logits = logits * factor
    if bias is not None:
        typed_argument(op, "bias", bias, element_type)
        logits = logits + as_type(_to_logits(op, "bias", bias, batch, n, logits), wide_type)
    allowed = None
    if mask is not None:
        typed_argument(op, "mask", mask, pred)
        allowed = _to_logits(op, "mask", mask, batch, n, logits)
    if is_causal:
        earlier = indices_of(logits, s32, rank + 3) <= indices_of(logits, s32, rank + 1)
        allowed = earlier if allowed is None else ew.and_(allowed, earlier)
    if allowed is not None:
        # Finite, so that the differences below are not NaN where nothing is allowed.
        logits = ew.select(allowed, logits, -0.7 * wide_type.max)
    kept = list(range(rank + 3))
    largest = largest_number(logits, [rank + 3])
    weights = ew.exp(ew.sub(logits, largest, kept))
    total = reduce(weights, 0.0, ew.add, [rank + 3])
    sums = dot_general(
        as_type(weights, element_type),
        value,
        (([rank + 3], [rank]), ([*batches, rank], [*batches, rank + 1])),
        preferred_element_type=wide_type,
    )
    # The sums are divided instead of the weights, which are as many as the logits.
    averages = as_type(ew.div(sums, total, kept), element_type)
    heads_last = transpose(averages, [*batches, rank + 1, rank, rank + 2, rank + 3])
    return reshape(heads_last, [*batch, t, n, v])


@library_function()
def rotary_embedding(
    x: XlaOp, positions: XlaOp, base: float = 10000.0, interleaved: bool = False
) -> XlaOp:
    """Rotate pairs of features by angles that are proportional to the position.

    Pair i of H / 2 is rotated by ``position * base ** (-2 * i / H)``.

    Args:
        x: an array ``[..., T, N, H]`` of floating-point numbers; H is even.
        positions: integers ``[T]``, or ``[..., T]`` with the batches of `x`.
        base: the base of the angles, a positive number.
        interleaved: whether a pair is two neighbours, features 2i and 2i + 1 (as in RoFormer, GPT-J
            and Meta's Llama). By default, pair i is features i and i + H / 2 (as in GPT-NeoX and
            the Llama of Hugging Face).

    Returns:
        An array of the shape of `x`.

    Raises:
        OperandError: `base` is not a positive number.
        ShapeInferenceError: types or sizes do not match; a size is bounded, or a number of
            heads or features unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2, 16, 8, 64])
        >>> lib.rotary_embedding(x, b.iota(xb.s32[16], 0)).shape
        f32[2,16,8,64]
    """
    op = "rotary_embedding"
    shape = _heads(op, "x", x)
    *batch, t, n, h = shape.dimensions
    if h % 2:
        rule = "x must have an even number of features"
        raise error_of(ShapeInferenceError, op, rule, got=shape)
    ground = finite_number(op, "base", base)
    if ground <= 0:
        raise error_of(OperandError, op, "base must be a positive number", got=brief(base))
    flag(op, "interleaved", interleaved)
    at = array_argument(op, "positions", positions)
    if not at.element_type.is_integral or at.dimensions not in ((t,), (*batch, t)):
        rule = f"positions must be integers [{t}] or [{', '.join(map(str, (*batch, t)))}]"
        raise error_of(ShapeInferenceError, op, rule, got=at)
    half, rank = h // 2, shape.rank
    # The halves are converted, because XLA does not vectorize slices of converted numbers.
    if interleaved:
        pairs = reshape(x, [*batch, t, n, half, 2])
        halves = [
            reshape(slice_in_dim(pairs, i, i + 1, dimno=rank), [*batch, t, n, half]) for i in (0, 1)
        ]
    else:
        halves = [slice_in_dim(x, start, start + half, dimno=rank - 1) for start in (0, half)]
    first, second = map(widened, halves)
    kind = shape_of(first).element_type
    speeds = ground ** (-np.arange(half) / max(half, 1))
    angles = dot_general(
        as_type(positions, kind),
        x.builder.constant(speeds.astype(kind.dtype)),
        (([], []), ([], [])),
    )
    dimensions = [*range(rank - 2 - at.rank, rank - 2), rank - 1]
    cos, sin = (
        broadcast_along(function(angles), [*batch, t, n, half], dimensions, x)
        for function in (ew.cos, ew.sin)
    )
    rotated = (first * cos - second * sin, second * cos + first * sin)
    if interleaved:
        apart = [reshape(each, [*batch, t, n, half, 1]) for each in rotated]
        result = reshape(concatenate(apart, rank), shape.dimensions)
    else:
        result = concatenate(rotated, rank - 1)
    return as_type(result, shape.element_type)


def _heads(op: str, name: str, value: XlaOp) -> ArrayShape:
    """Return the shape of an array ``[..., positions, heads, features]``.

    The numbers of heads and features are fixed, other sizes fixed or unbounded.
    """
    shape = floating_argument(op, name, value)
    closed_argument(op, name, shape)
    if shape.rank < 3:
        rule = f"{name} must be an array [..., positions, heads, features]"
        raise error_of(ShapeInferenceError, op, rule, got=shape)
    for dimension in (shape.rank - 2, shape.rank - 1):
        fixed_size(op, name, shape, dimension)
    return shape


def _attention_sizes(
    op: str, query: XlaOp, key: XlaOp, value: XlaOp
) -> tuple[tuple[int, ...], tuple[int, int, int], tuple[int, int]]:
    """Check the operands; return the batches, (T, N, H), and (K, V)."""
    shapes = {"query": query, "key": key, "value": value}
    q, k, v = (_heads(op, name, operand) for name, operand in shapes.items())
    (*batch, t, n, h), (*_, s, heads, _), width = q.dimensions, k.dimensions, v.dimensions[-1]
    shared = q.element_type, tuple(batch)
    for name, shape, sizes in (("key", k, (s, heads, h)), ("value", v, (s, heads, width))):
        if (shape.element_type, shape.dimensions) != (shared[0], (*batch, *sizes)):
            wanted = q.element_type[(*batch, *sizes)]
            rule = f"{name} must be {wanted} for a query {q} and a key {k}"
            raise error_of(ShapeInferenceError, op, rule, got=shape)
    if heads == 0 or n % heads:
        rule = "the heads of key must divide those of query"
        raise error_of(
            ShapeInferenceError, op, rule, got=f"{heads} and {n}", shapes={"query": q, "key": k}
        )
    return tuple(batch), (t, n, h), (heads, width)


def _to_logits(
    op: str, name: str, x: XlaOp, batch: tuple[int, ...], heads: int, logits: XlaOp
) -> XlaOp:
    """Broadcast an array for ``[..., N, T, S]`` to the logits, ``[..., K, T, N / K, S]``."""
    sizes = shape_of(logits).dimensions
    *_, k, t, group, s = sizes
    shape = shape_of(x)
    target = (*batch, heads, t, s)
    given = (1,) * (len(target) - shape.rank) + shape.dimensions
    if len(given) != len(target) or any(
        size not in (1, wanted) for size, wanted in zip(given, target, strict=True)
    ):
        wanted = ", ".join(map(str, target))
        rule = f"{name} must be broadcastable to [{wanted}]"
        raise error_of(
            ShapeInferenceError,
            op,
            rule,
            "give sizes of 1 where it is repeated; leading ones may be omitted",
            got=shape,
        )
    rank = len(batch)
    grouped = (1, 1) if given[rank] == 1 else (k, group)
    x = reshape(x, [*given[:rank], *grouped, *given[rank + 1 :]])
    x = transpose(x, [*range(rank), rank, rank + 2, rank + 1, rank + 3])
    kept = [n for n, size in enumerate(shape_of(x).dimensions) if size == sizes[n]]
    x = reshape(x, [sizes[n] for n in kept])
    return broadcast_along(x, sizes, kept, logits)
