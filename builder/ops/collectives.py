"""Operations across replicas and partitions.

All replicas run the same program at the same time, each on its own values.
`XlaBuilder.replica_id` returns the number of the replica.

Operation Semantics: AllGather, AllReduce, AllToAll, CollectivePermute, CrossReplicaSum,
ReduceScatter, ReplicaId.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from builder.attributes import ChannelHandle, ChannelHandleLike, ReplicaGroups, ReplicaGroupsLike
from builder.attributes.fields import sequence_or_none
from builder.check import Check, flag, integer, integers, refusal
from builder.errors import ShapeInferenceError, ShapeTextError
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.elementwise import add, or_
from builder.ops.operands import integer_key, need_op, need_ops
from builder.schema import BUILDER_H, SCHEMAS
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.layout import Layout
from builder.types.layout_text import parse_layout
from builder.types.shape import (
    ArrayShape,
    Shape,
    ShapeLike,
    TupleShape,
    intern_array,
    shape_argument,
)

Reducer = XlaComputation | Callable[..., Any]

_all_reduce_shape = per_signature(shape_inference.collectives.all_reduce.strict)
_all_gather_shape = per_signature(shape_inference.collectives.all_gather.strict)
_reduce_scatter_shape = per_signature(shape_inference.collectives.reduce_scatter.strict)
_all_to_all_shape = per_signature(shape_inference.collectives.all_to_all.strict)
_all_to_all_tuple_shape = per_signature(shape_inference.collectives.all_to_all_tuple.strict)
_permute_shape = per_signature(shape_inference.collectives.collective_permute.strict)
_broadcast_shape = per_signature(shape_inference.collectives.collective_broadcast.strict)


@op_by_hand(SCHEMAS["all_reduce"], aliases=("all_reduce_tuple",))
def all_reduce(
    operand: XlaOp | Sequence[XlaOp],
    computation: Reducer,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    shape_with_layout: ShapeLike | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:
    """Reduce the arrays of all replicas elementwise; every replica receives the result.

    The order of the reduction is not defined: the computation should be associative and
    commutative, up to rounding.

    Args:
        operand: an array, or a tuple of arrays of one element type, each of which is reduced. A
            sequence of ops is combined into a tuple.
        computation: a reducer ``(accumulated, value) -> new`` of two scalars of the element type:
            a computation, or a callable such as ``xb.add``.
        replica_groups: lists of the replicas that reduce together; empty for one group of all
            replicas. Groups may differ in size.
        channel_id: a channel number. Operations communicate only with operations of the same
            channel. With a channel, the partitions of the replicas participate as well.
        shape_with_layout: the operand's shape with the memory layout of the result. It
            guarantees the same layout in programs that are compiled separately. StableHLO has no
            attribute for it.
        use_global_device_ids: whether the groups hold device numbers (replica * number of
            partitions + partition) instead of replica numbers.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: element types differ; the tuple is empty; a group is empty; an id is
            duplicated, negative or missing.
        SignatureError: the computation is not a reducer for the element type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.all_reduce(x, xb.add, replica_groups=[[0, 2], [1, 3]]).shape
        f32[4]

    Operation Semantics: AllReduce.
    """
    shape, arrays = _operand("all_reduce", operand)
    participants = _participants("all_reduce", replica_groups, channel_id, use_global_device_ids)
    return _all_reduce("all_reduce", shape, arrays, computation, participants, shape_with_layout)


def _all_reduce(
    name: str,
    operand: Shape,
    arrays: Sequence[XlaOp],
    computation: Reducer,
    participants: Participants,
    shape_with_layout: ShapeLike | None = None,
) -> XlaOp:
    """Record an all_reduce; `name` is the op that the user called."""
    groups, channel, use_device_ids = participants
    if shape_with_layout is not None:
        shape_with_layout = shape_argument(name, "shape_with_layout", shape_with_layout)
    reducer = as_computation(name, "computation", computation, _scalars(name, operand))
    _all_reduce_shape(
        operand, reducer.signature, groups, channel, shape_with_layout, use_device_ids, op=name
    )
    attributes = {"to_apply": reducer, **_group_attributes(*participants)}
    if shape_with_layout is not None:
        attributes["shape_with_layout"] = shape_with_layout
    return _record_parts("all_reduce", operand, operand, arrays, attributes)


@op_by_hand(SCHEMAS["all_reduce"], cpp_name="CrossReplicaSum", section="CrossReplicaSum")
def cross_replica_sum(
    operand: XlaOp | Sequence[XlaOp], replica_groups: ReplicaGroupsLike = ()
) -> XlaOp:
    """Add the arrays of all replicas: `all_reduce` with `add`, or with `or_` for type pred.

    Args:
        operand: an array, or a tuple of arrays of one element type; see `all_reduce`.
        replica_groups: lists of the replicas that add together; empty for one group of all.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: see `all_reduce`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.cross_replica_sum(x).shape
        f32[4]

    Operation Semantics: CrossReplicaSum.
    """
    shape, arrays = _operand("cross_replica_sum", operand)
    scalar, _ = _scalars("cross_replica_sum", shape)
    computation = or_ if scalar.element_type is pt.pred else add
    participants = _participants("cross_replica_sum", replica_groups, None, False)
    return _all_reduce("cross_replica_sum", shape, arrays, computation, participants)


@op_by_hand(SCHEMAS["all_gather"], aliases=("all_gather_tuple",))
def all_gather(
    operand: XlaOp | Sequence[XlaOp],
    all_gather_dim: int,
    shard_count: int,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:
    """Concatenate the arrays of all replicas along a dimension; each replica gets the result.

    Args:
        operand: an array; or a tuple of arrays, which are all gathered. A sequence of ops is
            combined into a tuple.
        all_gather_dim: the dimension to concatenate along.
        shard_count: the number of replicas in each group.
        replica_groups: lists of the replicas that gather together, in the order of the result;
            empty for one group of all replicas in the order of their numbers.
        channel_id, use_global_device_ids: see `all_reduce`.
        layout: the memory layout of the result; see ``shape_with_layout`` of `all_reduce`.

    Returns:
        The operand's shape with `all_gather_dim` multiplied by `shard_count`.

    Raises:
        ShapeInferenceError: the dimension is out of range; `shard_count` is not the size of the
            groups; groups are empty, differ in size, or do not contain each replica once.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2])
        >>> xb.all_gather(x, all_gather_dim=0, shard_count=4).shape
        f32[8]

    Operation Semantics: AllGather.
    """
    name = "all_gather"
    source, arrays = _operand(name, operand)
    participants = _participants(name, replica_groups, channel_id, use_global_device_ids)
    groups, channel, use_device_ids = participants
    dimension = integer(name, "all_gather_dim", all_gather_dim)
    count = integer(name, "shard_count", shard_count)
    layout = _layout(name, layout)
    shape = _all_gather_shape(source, dimension, count, groups, channel, layout, use_device_ids)
    attributes = shared_attributes(
        all_gather_dim=dimension,
        shard_count=count,
        replica_groups=groups,
        channel_handle=channel,
        use_global_device_ids=use_device_ids,
    )
    return _record_parts(name, source, shape, arrays, _laid_out(attributes, shape, layout))


@op_by_hand(SCHEMAS["reduce_scatter"])
def reduce_scatter(
    operand: XlaOp | Sequence[XlaOp],
    computation: Reducer,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:
    """Reduce the arrays of all replicas and split the result: replica i of a group gets block i.

    Args:
        operand: an array, or a tuple of arrays of one element type, each of which is reduced and
            scattered. A sequence of ops is combined into a tuple.
        computation: a reducer ``(accumulated, value) -> new``; see `all_reduce`.
        scatter_dimension: the dimension to split.
        shard_count: the number of blocks, and of replicas in each group.
        replica_groups: lists of the replicas that reduce together, in the order in which they
            receive the blocks; empty for one group of all.
        channel_id, use_global_device_ids: see `all_reduce`.
        layout: the memory layout of the result; see ``shape_with_layout`` of `all_reduce`.

    Returns:
        The operand's shape with `scatter_dimension` divided by `shard_count`.

    Raises:
        ShapeInferenceError: the dimension is out of range or not divisible; `shard_count` is not
            the size of the groups; groups are empty, differ in size, or do not contain each replica
            once; element types differ.
        SignatureError: the computation is not a reducer for the element type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[8])
        >>> xb.reduce_scatter(x, xb.add, scatter_dimension=0, shard_count=4).shape
        f32[2]

    Operation Semantics: ReduceScatter.
    """
    name = "reduce_scatter"
    source, arrays = _operand(name, operand)
    participants = _participants(name, replica_groups, channel_id, use_global_device_ids)
    groups, channel, use_device_ids = participants
    dimension = integer(name, "scatter_dimension", scatter_dimension)
    count = integer(name, "shard_count", shard_count)
    layout = _layout(name, layout)
    reducer = as_computation(name, "computation", computation, _scalars(name, source))
    shape = _reduce_scatter_shape(
        source, reducer.signature, dimension, count, groups, channel, layout, use_device_ids
    )
    attributes = {
        "to_apply": reducer,
        "scatter_dimension": dimension,
        "shard_count": count,
        **_group_attributes(*participants),
    }
    return _record_parts(name, source, shape, arrays, _laid_out(attributes, shape, layout))


@op_by_hand(SCHEMAS["all_to_all"])
def all_to_all(
    operand: XlaOp,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Split each replica's array, send block i to replica i, and concatenate the received blocks.

    Args:
        operand: an array, not a tuple, without bounded dynamic sizes.
        split_dimension: the dimension to split.
        concat_dimension: the dimension along which received blocks are concatenated.
        split_count: the number of blocks, and of replicas in each group.
        replica_groups: lists of the replicas that exchange blocks, in the order of the blocks;
            empty for one group of all.
        layout: the memory layout of the result; see ``shape_with_layout`` of `all_reduce`.
        channel_id: a channel number. With a channel, groups hold partitions instead of replicas.

    Returns:
        The operand's shape with `split_dimension` divided by `split_count` and `concat_dimension`
        multiplied by `split_count`.

    Raises:
        ShapeInferenceError: a dimension is out of range or not divisible; `split_count` is not the
            size of the groups; groups are empty, differ in size, or do not contain each replica
            once.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 16])
        >>> xb.all_to_all(x, split_dimension=1, concat_dimension=0, split_count=4).shape
        f32[16,4]

    Operation Semantics: AllToAll.
    """
    name = "all_to_all"
    source = need_op(name, "operand", operand)
    groups, channel, _ = _participants(name, replica_groups, channel_id, False)
    split = integer(name, "split_dimension", split_dimension)
    concat = integer(name, "concat_dimension", concat_dimension)
    count = integer(name, "split_count", split_count)
    layout = _layout(name, layout)
    shape = _all_to_all_shape(source.shape, split, concat, count, groups, layout, channel)
    attributes = shared_attributes(
        split_dimension=split,
        concat_dimension=concat,
        split_count=count,
        replica_groups=groups,
        channel_handle=channel,
    )
    return record(name, shape, (source,), _laid_out(attributes, shape, layout))


@op_by_hand(SCHEMAS["all_to_all_tuple"])
def all_to_all_tuple(
    operands: Sequence[XlaOp],
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Send array i to replica i of the group, and receive one array from each replica.

    Args:
        operands: arrays of one shape, one for each replica of a group.
        replica_groups: lists of the replicas that exchange arrays, in the order of the arrays;
            empty for one group of all.
        layout: the memory layout of the results; see ``shape_with_layout`` of `all_reduce`.
        channel_id: a channel number. With a channel, groups hold partitions instead of replicas.

    Returns:
        A tuple with one array for each operand; array i was sent by replica i of the group.

    Raises:
        ShapeInferenceError: shapes differ; the operands are empty or not one for each replica of a
            group; groups are empty, differ in size, or do not contain each replica once.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[3]), b.parameter(xb.f32[3])
        >>> xb.all_to_all_tuple([x, y], replica_groups=[[0, 1]]).shape
        (f32[3], f32[3])

    Not in Operation Semantics; XlaBuilder's AllToAllTuple.
    """
    name = "all_to_all_tuple"
    ops = need_ops(name, "operand", operands)
    groups, channel, _ = _participants(name, replica_groups, channel_id, False)
    layout = _layout(name, layout)
    shape = _all_to_all_tuple_shape(tuple([o.shape for o in ops]), groups, layout, channel)
    attributes = _group_attributes(groups, channel, False)
    return record(name, shape, ops, _laid_out(attributes, shape, layout))


@op_by_hand(SCHEMAS["collective_permute"])
def collective_permute(
    operand: XlaOp,
    source_target_pairs: Sequence[Sequence[int]],
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Send arrays from replica to replica. A replica that receives no array gets zeros.

    Args:
        operand: an array.
        source_target_pairs: pairs (source, target) of replicas; no two with the same source, and no
            two with the same target.
        channel_id: a channel number. With a channel, pairs hold partitions instead of replicas.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: a source or a target is duplicated or negative.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.collective_permute(x, [(0, 1), (1, 2), (2, 0)]).shape
        f32[4]

    Operation Semantics: CollectivePermute.
    """
    name = "collective_permute"
    source = need_op(name, "operand", operand)
    pairs = _pairs(name, source_target_pairs)
    channel = ChannelHandle.of(channel_id, op=name)
    shape = _permute_shape(source.shape, pairs, channel)
    attributes = shared_attributes(source_target_pairs=pairs, channel_handle=channel)
    return record(name, shape, (source,), attributes)


@op_by_hand(SCHEMAS["collective_permute"], cpp_name="MultiCollectivePermute", section=BUILDER_H)
def multi_collective_permute(
    operands: Sequence[XlaOp],
    source_target_pairs: Sequence[Sequence[int]],
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Send several arrays between the same pairs of replicas; see `collective_permute`.

    Args:
        operands: at least one array, of any shapes.
        source_target_pairs, channel_id: see `collective_permute`.

    Returns:
        A tuple of the operands' shapes.

    Raises:
        ShapeInferenceError: the operands are empty; see `collective_permute`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[4]), b.parameter(xb.s32[2])
        >>> xb.multi_collective_permute([x, y], [(0, 1), (1, 0)]).shape
        (f32[4], s32[2])

    Not in Operation Semantics; XlaBuilder's MultiCollectivePermute.
    """
    name = "multi_collective_permute"
    ops = need_ops(name, "operand", operands)
    if not ops:
        Check(name).fail("at least one operand is needed, got none")
    pairs = _pairs(name, source_target_pairs)
    channel = ChannelHandle.of(channel_id, op=name)
    shapes = [
        _permute_shape(o.shape, pairs, channel, op=name, name=f"operand {i}")
        for i, o in enumerate(ops)
    ]
    attributes = shared_attributes(source_target_pairs=pairs, channel_handle=channel)
    with rollback_on_error(resolve_builder(name, *ops)):
        results = [
            record("collective_permute", shape, (operand,), attributes)
            for shape, operand in zip(shapes, ops, strict=True)
        ]
        return record("tuple", TupleShape(shapes), tuple(results))


@op_by_hand(SCHEMAS["collective_broadcast"])
def collective_broadcast(
    operand: XlaOp, replica_groups: ReplicaGroupsLike, channel_id: ChannelHandleLike | None = None
) -> XlaOp:
    """Send the array of the first replica of each group to every replica of the group.

    Args:
        operand: an array.
        replica_groups: lists of replicas, the source first.
        channel_id: a channel number. With a channel, groups hold partitions instead of replicas.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: there is no group, or an empty one; an id is duplicated, negative or
            missing.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.collective_broadcast(x, replica_groups=[[2, 0, 1, 3]]).shape
        f32[4]

    Not in Operation Semantics; XlaBuilder's CollectiveBroadcast.
    """
    name = "collective_broadcast"
    source = need_op(name, "operand", operand)
    groups, channel, _ = _participants(name, replica_groups, channel_id, False)
    shape = _broadcast_shape(source.shape, groups, channel)
    return record(name, shape, (source,), _group_attributes(groups, channel, False))


# Arguments


def _operand(name: str, operand: XlaOp | Sequence[XlaOp]) -> tuple[Shape, Sequence[XlaOp]]:
    """Return the shape and the ops of an `operand` argument; a sequence has a tuple shape."""
    if isinstance(operand, (list, tuple)):
        ops = need_ops(name, "operand", operand)
        return TupleShape([o.shape for o in ops]), ops
    source = need_op(name, "operand", operand)
    return source.shape, (source,)


def _record_parts(
    opcode: str,
    operand: Shape,
    shape: Shape,
    arrays: Sequence[XlaOp],
    attributes: Mapping[str, Any],
) -> XlaOp:
    """Record the op on the operand's arrays, and return a tuple if the operand is a tuple."""
    if not isinstance(operand, TupleShape):
        return record(opcode, shape, tuple(arrays), attributes)
    assert isinstance(shape, TupleShape)  # as inferred
    with rollback_on_error(resolve_builder(opcode, *arrays)):
        if len(arrays) == 1 and arrays[0].shape is operand:
            source = arrays[0]
            arrays = [
                record("get_tuple_element", element, (source,), shared_attributes(index=index))
                for index, element in enumerate(operand.elements)
            ]
        if len(arrays) > 1:
            return record(opcode, shape, tuple(arrays), attributes)
        # HLO's collectives on one operand return an array, not a tuple of one.
        with_layout = attributes.get("shape_with_layout")
        if isinstance(with_layout, TupleShape):
            attributes = {**attributes, "shape_with_layout": with_layout.elements[0]}
        result = record(opcode, shape.elements[0], tuple(arrays), attributes)
        return record("tuple", shape, (result,))


Participants = tuple[ReplicaGroups, ChannelHandle | None, bool]
"""Participants of a collective: groups, channel, and whether groups hold device numbers."""


def _participants(
    name: str, replica_groups: Any, channel_id: Any, use_global_device_ids: bool
) -> Participants:
    """Convert the arguments that select the participants of a collective."""
    # In XlaBuilder the flag is optional and absent by default, so None is accepted.
    use_device_ids = use_global_device_ids is not None and flag(
        name, "use_global_device_ids", use_global_device_ids
    )
    groups = _groups_of(name, replica_groups)
    return groups, ChannelHandle.of(channel_id, op=name), use_device_ids


def _groups_of(name: str, value: Any) -> ReplicaGroups:
    if type(value) is tuple and not value:
        return _ALL
    numbers = integer_key(value, 2)
    if numbers is not None:
        with suppress(ShapeInferenceError):  # ReplicaGroups.of raises it for the original value
            return _listed_groups(numbers)
    return ReplicaGroups.of(value, op=name)


_ALL = ReplicaGroups()
_listed_groups = per_signature(ReplicaGroups)


def _pairs(name: str, values: Any) -> tuple[tuple[int, int], ...]:
    """Return `source_target_pairs` as a tuple of pairs."""
    rows = sequence_or_none(values)
    pairs = [] if rows is None else [sequence_or_none(row) or () for row in rows]
    if rows is None or any(len(pair) != 2 for pair in pairs):
        rule = "source_target_pairs must be a sequence of pairs (source, target)"
        raise refusal(name, rule, values, "write for instance [(0, 1), (1, 0)]")
    numbers = [integers(name, "a pair", pair) for pair in pairs]
    return tuple([(source, target) for source, target in numbers])


def _layout(name: str, layout: Any) -> Layout | None:
    if layout is None or isinstance(layout, Layout):
        return layout
    try:
        return parse_layout(layout) if isinstance(layout, str) else Layout(layout)
    except ShapeTextError as error:
        raise error.in_argument(name, "layout") from None
    except ShapeInferenceError as error:
        raise error.renamed(name) from None


@per_signature
def _scalars(name: str, operand: Shape) -> tuple[ArrayShape, ArrayShape]:
    """Return the shapes of a reducer's two arguments; raise if the operand contains no array."""
    _, first = shape_inference.collectives.arrays_of(Check(name, operand=operand))[0]
    scalar = intern_array(first.element_type, ())
    return scalar, scalar


# Attributes


def _group_attributes(
    groups: ReplicaGroups, channel: ChannelHandle | None, use_device_ids: bool
) -> Mapping[str, Any]:
    return shared_attributes(
        replica_groups=groups, channel_handle=channel, use_global_device_ids=use_device_ids
    )


def _laid_out(
    attributes: Mapping[str, Any], shape: Shape, layout: Layout | None
) -> Mapping[str, Any]:
    """Return `attributes` with the result's shape and layout added if a layout is requested."""
    if layout is None:
        return attributes
    if isinstance(shape, TupleShape):
        arrays = [e.with_layout(layout) for e in shape.elements if isinstance(e, ArrayShape)]
        return {**attributes, "shape_with_layout": TupleShape(arrays)}
    assert isinstance(shape, ArrayShape)  # as inferred
    return {**attributes, "shape_with_layout": shape.with_layout(layout)}
