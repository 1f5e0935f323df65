"""Shardings of values inside a program that XLA partitions.

The ops are recorded as custom calls, which XLA's partitioner removes. They have bodies: the
builder registers the sharding, and several custom calls are recorded.

Not in Operation Semantics; xla_builder.h has ConvertSpmdFullToShardShape and
ConvertSpmdShardToFullShape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.checking import Check, same_shape
from builder.graph.recording import record, record_with_sharding, resolve_builder
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.host import CUSTOM_CALL, custom_call_plan
from builder.ops.operands import need_op
from builder.schema.definition import BUILDER_H
from builder.schema.kinds import SHAPE
from builder.types.shape import ArrayShape, Shape, ShapeLike

if TYPE_CHECKING:
    from builder.sharding.mesh import MeshSharding
    from builder.sharding.validation import ShardingLike

    _Sharding = str | MeshSharding
else:
    # `builder.ops.shape_inference` evaluates the annotations; few programs need these modules.
    _Sharding = object


_MANUAL = "{manual}"


def _with_sharding_shape(operand: Shape, sharding: _Sharding) -> ArrayShape:
    from builder.sharding.validation import (  # few programs need it
        check_sharding_type,
        sharding_text,
    )

    array = Check("with_sharding", operand=operand).array("operand")
    sharding_text("with_sharding", "operand", array, check_sharding_type("with_sharding", sharding))
    return array


@op_by_hand(
    CUSTOM_CALL,
    _with_sharding_shape,
    cpp_name="(none)",
    section="the custom call Sharding of XLA; Shardy",
)
def with_sharding(operand: XlaOp, sharding: ShardingLike) -> XlaOp:
    """Return the operand with a sharding.

    XLA partitions a program that is compiled for several partitions, and propagates the shardings
    of some values to all others. This op sets the sharding of one value. It does not change the
    value.

    Args:
        operand: an array.
        sharding: a tiling in GSPMD's text form (see `parse_tiling`), or a sharding by the axes of a
            mesh (`Mesh.sharding`), which Shardy partitions by. One program uses one of the two
            forms.

    Returns:
        An op with the operand's value and the sharding.

    Raises:
        ShapeInferenceError: the operand is not an array, or the sharding does not fit its shape.
        ShapeTextError: the text is not a tiling.
        OperandError: `sharding` has neither of the two forms.
        BuilderError: another sharding of the program has the other form.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 2])
        >>> mesh = xb.Mesh({"data": 2, "model": 2})
        >>> xb.with_sharding(xb.exp(x), mesh.sharding("data", "model")).sharding
        '#sdy.sharding<@mesh, [{"data"}, {"model"}]>'

    Not in Operation Semantics; XLA's custom call Sharding, Shardy's sdy.sharding_constraint.
    """
    from builder.sharding.validation import register_sharding, sharding_text  # lazy import

    name = "with_sharding"
    value = need_op(name, "operand", operand)
    shape = _with_sharding_shape(value.shape, sharding)
    register_sharding(resolve_builder(name, value), name, sharding)
    text = sharding_text(name, "operand", shape, sharding)
    return _partitioner_call("Sharding", value, shape, text)


def _shard_shape(check: Check, full: ArrayShape, sharding: _Sharding) -> ArrayShape:
    """Return the shape of a shard of `full`; all shards must have the same shape."""
    from builder.sharding.validation import full_array_tiling  # few programs need it

    tiling = full_array_tiling(check.op, full, sharding)
    # xla_builder.h: ConvertSpmdFullToShardShape
    for number, count in enumerate(tiling.tiles[: full.rank]):
        if full.dynamic_dimensions[number] and count > 1:
            rule = "a dynamic dimension can't be sharded"
            check.fail(rule, got=f"{count} tiles for {full}", dimension=number)
        if full.dimensions[number] % count:
            check.fail(
                "each size must be divisible by its number of tiles, since all shards have the "
                "same shape",
                got=f"{count} tiles for size {full.dimensions[number]}",
                fix="pad the array with xb.pad first",
                dimension=number,
            )
    return tiling.shard_shape(full)


def _full_to_shard_shape(operand: Shape, sharding: _Sharding) -> ArrayShape:
    check = Check("spmd_full_to_shard_shape", operand=operand)
    return _shard_shape(check, check.array("operand"), sharding)


@op_by_hand(
    CUSTOM_CALL,
    _full_to_shard_shape,
    cpp_name="ConvertSpmdFullToShardShape",
    section=BUILDER_H,
)
def spmd_full_to_shard_shape(operand: XlaOp, sharding: ShardingLike) -> XlaOp:
    """Return each device's shard of an array, for ops that are partitioned manually.

    In a program that XLA partitions, ops on the result compute on the device's shard. Operations
    across partitions, such as ``xb.all_reduce(..., channel_id=1)``, combine the shards.
    `spmd_shard_to_full_shape` is the inverse.

    Args:
        operand: the full array.
        sharding: how the operand is partitioned: a tiling in GSPMD's text form, or a sharding by
            the axes of a mesh. Both are recorded as tilings, because Shardy has no such conversion.
            All other shardings of the program must therefore be tilings, too
            (``mesh.sharding(...).tiling``).

    Returns:
        An array of the same type, with each size divided by the number of tiles.

    Raises:
        ShapeInferenceError: the sharding does not fit the operand, or is neither replicated nor
            tiled; a size is dynamic, or not divisible by the number of tiles.
        ShapeTextError, OperandError, BuilderError: see `with_sharding`.

    Example:
        >>> import builder as xb
        >>> rows = xb.Mesh({"rows": 4}).sharding("rows", None)
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 2], sharding=rows.tiling)
        >>> part = xb.spmd_full_to_shard_shape(x, rows)
        >>> total = xb.all_reduce(part, xb.add, channel_id=1)
        >>> part.shape, xb.spmd_shard_to_full_shape(part / total, x.shape, rows).shape
        (f32[2,2], f32[8,2])

    Not in Operation Semantics; XlaBuilder's ConvertSpmdFullToShardShape.
    """
    name = "spmd_full_to_shard_shape"
    value = need_op(name, "operand", operand)
    part = _full_to_shard_shape(value.shape, sharding)
    text = _tiling(name, value, value.shape, sharding)
    sharded = _partitioner_call("Sharding", value, value.shape, text)
    return _partitioner_call("SPMDFullToShardShape", sharded, part, _MANUAL)


def _shard_to_full_shape(operand: Shape, full_shape: Shape, sharding: _Sharding) -> ArrayShape:
    check = Check("spmd_shard_to_full_shape", operand=operand, full_shape=full_shape)
    check.array("operand")
    full = check.array("full_shape").with_layout(None)
    shard = _shard_shape(check, full, sharding)
    # xla_builder.h: ConvertSpmdShardToFullShape
    if not same_shape(operand, shard):
        check.fail(
            f"operand must have the shape of one device's shard of full_shape, {shard}", got=operand
        )
    return full


@op_by_hand(
    CUSTOM_CALL,
    _shard_to_full_shape,
    cpp_name="ConvertSpmdShardToFullShape",
    section=BUILDER_H,
)
def spmd_shard_to_full_shape(
    operand: XlaOp, full_shape: ShapeLike, sharding: ShardingLike
) -> XlaOp:
    """Return the full array that the devices' shards form, for ops that XLA partitions again.

    Args:
        operand: the device's shard.
        full_shape: the shape of the full array.
        sharding: how the full array is partitioned into these shards; see
            `spmd_full_to_shard_shape`.

    Returns:
        An array of shape `full_shape`.

    Raises:
        ShapeInferenceError: the operand does not have the shape of a shard of `full_shape`; the
            sharding does not fit `full_shape`, or is neither replicated nor tiled.
        ShapeTextError, OperandError, BuilderError: see `with_sharding`.

    Example:
        >>> import builder as xb
        >>> tiling = "{devices=[2,1]<=[2]}"
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 2], sharding=tiling)
        >>> part = xb.exp(xb.spmd_full_to_shard_shape(x, tiling))
        >>> xb.spmd_shard_to_full_shape(part, x.shape, tiling).shape
        f32[8,2]

    Not in Operation Semantics; XlaBuilder's ConvertSpmdShardToFullShape.
    """
    name = "spmd_shard_to_full_shape"
    value = need_op(name, "operand", operand)
    full = SHAPE.convert(name, "full_shape", full_shape)
    shape = _shard_to_full_shape(value.shape, full, sharding)
    text = _tiling(name, value, shape, sharding)
    part = _partitioner_call("Sharding", value, value.shape, _MANUAL)
    return _partitioner_call("SPMDShardToFullShape", part, shape, text)


def _tiling(name: str, operand: XlaOp, full: Shape, sharding: ShardingLike) -> str:
    """Return the tiling of the full array as text, converted from a mesh sharding if necessary."""
    from builder.sharding.validation import full_array_tiling, register_sharding  # lazy import

    assert isinstance(full, ArrayShape)  # as inferred
    text = full_array_tiling(name, full, sharding).text
    register_sharding(resolve_builder(name, operand), name, text)
    return text


def _partitioner_call(target: str, operand: XlaOp, shape: Shape, sharding: str) -> XlaOp:
    """Record a custom call `target` of XLA's partitioner, with the sharding `sharding`."""
    result, attributes = custom_call_plan(target, (operand.shape,), shape)
    return record_with_sharding(
        resolve_builder("custom_call", operand),
        sharding,
        lambda: record("custom_call", result, (operand,), attributes),
    )
