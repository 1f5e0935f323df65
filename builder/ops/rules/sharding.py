"""Infer the result shapes of the sharding operations that XLA's partitioner interprets.

Not in Operation Semantics; xla_builder.h has ConvertSpmdFullToShardShape and
ConvertSpmdShardToFullShape.
"""

from __future__ import annotations

from builder.check import Check, same_shape
from builder.ops.rules.public import public
from builder.sharding.mesh import MeshSharding
from builder.types.shape import ArrayShape, Shape


@public
def with_sharding(operand: Shape, sharding: str | MeshSharding) -> ArrayShape:
    """Return the shape of an array annotated with a sharding: the shape of the operand.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.sharding.with_sharding(xb.f32[8, 2], "{devices=[2,1]<=[2]}")
        f32[8,2]
    """
    from builder.sharding.validation import (  # few programs need it
        check_sharding_type,
        sharding_text,
    )

    array = Check("with_sharding", operand=operand).array("operand")
    sharding_text("with_sharding", "operand", array, check_sharding_type("with_sharding", sharding))
    return array


@public
def spmd_full_to_shard_shape(operand: Shape, sharding: str | MeshSharding) -> ArrayShape:
    """Return the shape of each device's shard of an array.

    Example:
        >>> import builder as xb
        >>> tiling = "{devices=[2,1]<=[2]}"
        >>> xb.shape_inference.sharding.spmd_full_to_shard_shape(xb.f32[8, 2], tiling)
        f32[4,2]
    """
    check = Check("spmd_full_to_shard_shape", operand=operand)
    return _shard_shape(check, check.array("operand"), sharding)


@public
def spmd_shard_to_full_shape(
    operand: Shape, full_shape: Shape, sharding: str | MeshSharding
) -> ArrayShape:
    """Return the shape of the full array that the devices' shards form.

    Example:
        >>> import builder as xb
        >>> tiling = "{devices=[2,1]<=[2]}"
        >>> xb.shape_inference.sharding.spmd_shard_to_full_shape(xb.f32[4, 2], xb.f32[8, 2], tiling)
        f32[8,2]
    """
    check = Check("spmd_shard_to_full_shape", operand=operand, full_shape=full_shape)
    check.array("operand")
    full = check.array("full_shape").with_layout(None)
    shard = _shard_shape(check, full, sharding)
    # xla_builder.h: ConvertSpmdShardToFullShape
    if not same_shape(operand, shard):
        check.fail(
            f"operand must have the shape of one device's shard of full_shape, {shard}, "
            f"got {operand}"
        )
    return full


def _shard_shape(check: Check, full: ArrayShape, sharding: str | MeshSharding) -> ArrayShape:
    """Return the shape of a shard of `full`; all shards must have the same shape."""
    from builder.sharding.validation import full_array_tiling  # few programs need it

    tiling = full_array_tiling(check.op, full, sharding)
    # xla_builder.h: ConvertSpmdFullToShardShape
    for number, count in enumerate(tiling.tiles[: full.rank]):
        if full.dynamic_dimensions[number] and count > 1:
            rule = f"a dynamic dimension can't be sharded, got {count} tiles for {full}"
            check.fail(rule, dimension=number)
        if full.dimensions[number] % count:
            check.fail(
                "each size must be divisible by its number of tiles, since all shards have the "
                f"same shape, got {count} tiles for size {full.dimensions[number]}",
                fix="pad the array with xb.pad first",
                dimension=number,
            )
    return tiling.shard_shape(full)
