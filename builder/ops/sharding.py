"""How arrays lie on several devices, said in the middle of a program that XLA partitions.

These are no operations of the document, but calls that XLA's partitioner takes out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder import shape_inference
from builder.graph.recording import record, resolve_builder
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp, with_metadata
from builder.ops.host import custom_call_plan
from builder.ops.operands import need_op
from builder.schema import BUILDER_H, SCHEMAS
from builder.types.shape import ArrayShape, Shape, ShapeLike, shape_argument

if TYPE_CHECKING:
    from builder.sharding.validation import ShardingLike

__all__ = ["spmd_full_to_shard_shape", "spmd_shard_to_full_shape", "with_sharding"]

_MANUAL = "{manual}"


@op(SCHEMAS["custom_call"], cpp_name="(none)", section="XLA, the custom call Sharding; Shardy")
def with_sharding(operand: XlaOp, sharding: ShardingLike) -> XlaOp:
    """The operand, which lies on the devices as it is said.

    A program that is compiled for several partitions is cut up by XLA, which works out how each
    value lies from what is said of some. This says it of one. What is computed is the same.

    Args:
        operand: an array.
        sharding: a tiling in GSPMD's text form (see `parse_tiling`), or a sharding by the axes of a
            mesh (`Mesh.sharding`), which Shardy partitions by. One program uses one of the two.

    Returns:
        The operand.

    Raises:
        ShapeInferenceError: the sharding does not fit the operand, or it is no array.
        ShapeTextError: a text that says no tiling.
        OperandError: `sharding` is neither of the two.
        BuilderError: other shardings of the program are in the other words.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 2])
        >>> mesh = xb.Mesh({"data": 2, "model": 2})
        >>> xb.with_sharding(xb.exp(x), mesh.sharding("data", "model")).sharding
        '#sdy.sharding<@mesh, [{"data"}, {"model"}]>'

    Not in the document; XLA's custom call Sharding, Shardy's sdy.sharding_constraint.
    """
    from builder.sharding.validation import (  # few programs need it
        fitting_sharding,
        register_sharding,
    )

    name = "with_sharding"
    value = need_op(name, "operand", operand)
    shape = shape_inference.sharding.with_sharding.strict(value.shape, sharding)
    register_sharding(resolve_builder(name, value), name, sharding)
    return _called("Sharding", value, shape, fitting_sharding(name, "operand", shape, sharding))


@op(SCHEMAS["custom_call"], cpp_name="ConvertSpmdFullToShardShape", section=BUILDER_H)
def spmd_full_to_shard_shape(operand: XlaOp, sharding: ShardingLike) -> XlaOp:
    """Each device's part of an array: from here on the program says what each device does.

    In a program that XLA partitions, ops on the result compute on the part that the device has,
    and operations across partitions, such as ``xb.all_reduce(..., channel_id=1)``, combine the
    parts. `spmd_shard_to_full_shape` is the way back.

    Args:
        operand: an array, whole.
        sharding: how it is cut up: a tiling in GSPMD's text form, or a sharding by the axes of a
            mesh. Either becomes a tiling: Shardy has no words for the change, so all shardings of
            such a program are tilings (``mesh.sharding(...).tiling``).

    Returns:
        An array of the same type, with each size divided by the number of tiles.

    Raises:
        ShapeInferenceError: the sharding does not fit the operand, or leaves something to XLA; a
            size is not divisible, or dynamic.
        ShapeTextError, OperandError, BuilderError: as `with_sharding`.

    Example:
        >>> import builder as xb
        >>> rows = xb.Mesh({"rows": 4}).sharding("rows", None)
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 2], sharding=rows.tiling)
        >>> part = xb.spmd_full_to_shard_shape(x, rows)
        >>> total = xb.all_reduce(part, xb.add, channel_id=1)
        >>> part.shape, xb.spmd_shard_to_full_shape(part / total, x.shape, rows).shape
        (f32[2,2], f32[8,2])

    Not in the document; XlaBuilder's ConvertSpmdFullToShardShape.
    """
    name = "spmd_full_to_shard_shape"
    value = need_op(name, "operand", operand)
    part = shape_inference.sharding.spmd_full_to_shard_shape.strict(value.shape, sharding)
    text = _tiling(name, value, value.shape, sharding)
    cut = _called("Sharding", value, value.shape, text)
    return _called("SPMDFullToShardShape", cut, part, _MANUAL)


@op(SCHEMAS["custom_call"], cpp_name="ConvertSpmdShardToFullShape", section=BUILDER_H)
def spmd_shard_to_full_shape(
    operand: XlaOp, full_shape: ShapeLike, sharding: ShardingLike
) -> XlaOp:
    """The array whose parts the devices have: from here on XLA partitions the program again.

    Args:
        operand: an array, one part of which each device has.
        full_shape: the shape of the whole.
        sharding: how the whole is cut up into these parts; as `spmd_full_to_shard_shape` takes it.

    Returns:
        An array of that shape.

    Raises:
        ShapeInferenceError: the operand is not a part of such an array; the sharding does not fit
            it, or leaves something to XLA.
        ShapeTextError, OperandError, BuilderError: as `with_sharding`.

    Example:
        >>> import builder as xb
        >>> tiling = "{devices=[2,1]<=[2]}"
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 2], sharding=tiling)
        >>> part = xb.exp(xb.spmd_full_to_shard_shape(x, tiling))
        >>> xb.spmd_shard_to_full_shape(part, x.shape, tiling).shape
        f32[8,2]

    Not in the document; XlaBuilder's ConvertSpmdShardToFullShape.
    """
    name = "spmd_shard_to_full_shape"
    value = need_op(name, "operand", operand)
    full = shape_argument(name, "full_shape", full_shape)
    whole = shape_inference.sharding.spmd_shard_to_full_shape.strict(value.shape, full, sharding)
    text = _tiling(name, value, whole, sharding)
    part = _called("Sharding", value, value.shape, _MANUAL)
    return _called("SPMDShardToFullShape", part, whole, text)


def _tiling(name: str, operand: XlaOp, full: Shape, sharding: ShardingLike) -> str:
    """The text of the tiling of the whole array, in which words ever it was said."""
    from builder.sharding.validation import (  # few programs need them
        register_sharding,
        tiling_of_whole,
    )

    assert isinstance(full, ArrayShape)  # inference has said so
    text = tiling_of_whole(name, full, sharding).text
    register_sharding(resolve_builder(name, operand), name, text)
    return text


def _called(target: str, operand: XlaOp, shape: Shape, sharding: str) -> XlaOp:
    """Records a call that XLA's partitioner knows, with a sharding of its own."""
    builder = resolve_builder("custom_call", operand)
    whole, attributes = custom_call_plan(target, (operand.shape,), shape)
    around = builder.current_metadata
    builder.current_metadata = with_metadata(around, sharding=None)
    try:
        found = record("custom_call", whole, (operand,), attributes)
    finally:
        builder.current_metadata = around
    found.metadata = with_metadata(found.metadata, sharding=sharding)
    return found
