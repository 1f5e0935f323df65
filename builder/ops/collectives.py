"""Operations across replicas and partitions.

Replicas run the same program at the same time, each with values of its own. `XlaBuilder.replica_id`
says which one it is.

Operation Semantics: AllGather, AllReduce, AllToAll, CollectivePermute, CrossReplicaSum,
ReduceScatter, ReplicaId.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.attributes import (
    ChannelHandle,
    ChannelHandleLike,
    ReplicaGroups,
    ReplicaGroupsLike,
)
from builder.attributes.fields import sequence_or_none
from builder.check import Check, flag, integer, integers
from builder.errors import ShapeInferenceError, ShapeTextError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise import add, or_
from builder.ops.operands import need_op, need_ops, plain
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

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_tuple",
    "collective_broadcast",
    "collective_permute",
    "cross_replica_sum",
    "multi_collective_permute",
    "reduce_scatter",
]


Reducer = XlaComputation | Callable[..., Any]

_all_gather_shape = per_signature(shape_inference.collectives.all_gather.strict)
_reduce_scatter_shape = per_signature(shape_inference.collectives.reduce_scatter.strict)
_all_to_all_shape = per_signature(shape_inference.collectives.all_to_all.strict)
_all_to_all_tuple_shape = per_signature(shape_inference.collectives.all_to_all_tuple.strict)
_permute_shape = per_signature(shape_inference.collectives.collective_permute.strict)
_broadcast_shape = per_signature(shape_inference.collectives.collective_broadcast.strict)


@op(SCHEMAS["all_reduce"], aliases=("all_reduce_tuple",))
def all_reduce(
    operand: XlaOp | Sequence[XlaOp],
    computation: Reducer,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    shape_with_layout: ShapeLike | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:
    """The elements of all replicas' arrays folded together; every replica gets the result.

    The order in which replicas are folded is not defined: the computation should be associative
    and commutative, up to rounding.

    Args:
        operand: an array; or a tuple of arrays of one element type, each of which is reduced;
            several ops in a sequence stand for their tuple.
        computation: a reducer ``(accumulated, value) -> new`` of two scalars of the element type.
            A computation, or a callable such as ``xb.add``.
        replica_groups: lists of the replicas that reduce together; none for all. Groups may
            differ in size.
        channel_id: a channel: only operations of the same one talk to each other. It makes the
            partitions of the replicas take part too.
        shape_with_layout: the operand's shape with the memory layout of the result. It says
            something to programs compiled apart; StableHLO has no word for it.
        use_global_device_ids: the groups hold numbers of devices, replica times the number of
            partitions plus partition, not of replicas.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: element types differ; the tuple is empty; a group is empty, or an id
            stands twice, is negative or missing.
        SignatureError: the computation is no reducer for the element type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.all_reduce(x, xb.add, replica_groups=[[0, 2], [1, 3]]).shape
        f32[4]

    Operation Semantics: AllReduce.
    """
    whole, parts = _operand("all_reduce", operand)
    return _all_reduce(
        "all_reduce",
        whole,
        parts,
        computation,
        replica_groups,
        channel_id,
        shape_with_layout,
        use_global_device_ids,
    )


def _all_reduce(
    name: str,
    whole: Shape,
    parts: Sequence[XlaOp],
    computation: Reducer,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    shape_with_layout: ShapeLike | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:
    groups, channel, of_devices = _participants(
        name, replica_groups, channel_id, use_global_device_ids
    )
    laid_out = None
    if shape_with_layout is not None:
        laid_out = shape_argument(name, "shape_with_layout", shape_with_layout)
    applied = as_computation(name, "computation", computation, _scalars(name, whole))
    rest = whole, groups, channel, laid_out, of_devices
    attributes = applied.planned((name, *rest), _all_reduce_attributes, name, applied, *rest)
    return _record_parts("all_reduce", whole, whole, parts, attributes)


def _all_reduce_attributes(
    name: str,
    applied: XlaComputation,
    whole: Shape,
    groups: ReplicaGroups,
    channel: ChannelHandle | None,
    laid_out: Shape | None,
    of_devices: bool,
) -> Mapping[str, Any]:
    """The attributes of an all_reduce, whose rules are checked."""
    shape_inference.collectives.all_reduce.strict(
        whole, applied.signature, groups, channel, laid_out, of_devices, op=name
    )
    attributes: dict[str, Any] = {
        "to_apply": applied,
        **_group_attributes(groups, channel, of_devices),
    }
    if laid_out is not None:
        attributes["shape_with_layout"] = laid_out
    return MappingProxyType(attributes)


@op(SCHEMAS["all_reduce"], cpp_name="CrossReplicaSum", section="CrossReplicaSum")
def cross_replica_sum(
    operand: XlaOp | Sequence[XlaOp], replica_groups: ReplicaGroupsLike = ()
) -> XlaOp:
    """The sum of all replicas' arrays: `all_reduce` with addition, of preds with or.

    Args:
        operand: an array, or a tuple of arrays of one element type; see `all_reduce`.
        replica_groups: lists of the replicas that add up together; none for all.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: as in `all_reduce`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.cross_replica_sum(x).shape
        f32[4]

    Operation Semantics: CrossReplicaSum.
    """
    whole, parts = _operand("cross_replica_sum", operand)
    scalar, _ = _scalars("cross_replica_sum", whole)
    computation = or_ if scalar.element_type is pt.pred else add
    return _all_reduce("cross_replica_sum", whole, parts, computation, replica_groups)


@op(SCHEMAS["all_gather"], aliases=("all_gather_tuple",))
def all_gather(
    operand: XlaOp | Sequence[XlaOp],
    all_gather_dim: int,
    shard_count: int,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:
    """All replicas' arrays one after the other along a dimension; every replica gets the result.

    Args:
        operand: an array; or a tuple of arrays, each of which is gathered; several ops in a
            sequence stand for their tuple.
        all_gather_dim: the dimension along which the arrays are put together.
        shard_count: how many replicas there are in each group.
        replica_groups: lists of the replicas that gather together, in the order of the result;
            none for all, in the order of their numbers.
        channel_id, use_global_device_ids: see `all_reduce`.
        layout: the memory layout of the result; see ``shape_with_layout`` of `all_reduce`.

    Returns:
        The operand's shape, `shard_count` times as long in `all_gather_dim`.

    Raises:
        ShapeInferenceError: there is no such dimension; `shard_count` is not the size of the
            groups; groups are empty, of several sizes, or do not hold each replica once.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2])
        >>> xb.all_gather(x, all_gather_dim=0, shard_count=4).shape
        f32[8]

    Operation Semantics: AllGather.
    """
    name = "all_gather"
    whole, parts = _operand(name, operand)
    groups, channel, of_devices = _participants(
        name, replica_groups, channel_id, use_global_device_ids
    )
    dimension = integer(name, "all_gather_dim", all_gather_dim)
    count = integer(name, "shard_count", shard_count)
    order = _layout(name, layout)
    shape = _all_gather_shape(whole, dimension, count, groups, channel, order, of_devices)
    attributes = _gather_attributes(dimension, count, groups, channel, of_devices)
    return _record_parts(name, whole, shape, parts, _laid_out(attributes, shape, order))


@op(SCHEMAS["reduce_scatter"])
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
    """All replicas' arrays folded together, and cut: the i-th replica of a group gets block i.

    Args:
        operand: an array; or a tuple of arrays of one element type, each of which is reduced and
            scattered; several ops in a sequence stand for their tuple.
        computation: a reducer ``(accumulated, value) -> new``; see `all_reduce`.
        scatter_dimension: the dimension that is cut.
        shard_count: into how many blocks; how many replicas there are in each group.
        replica_groups: lists of the replicas that reduce together, in the order in which they
            get the blocks; none for all.
        channel_id, use_global_device_ids: see `all_reduce`.
        layout: the memory layout of the result; see ``shape_with_layout`` of `all_reduce`.

    Returns:
        The operand's shape, with `scatter_dimension` divided by `shard_count`.

    Raises:
        ShapeInferenceError: there is no such dimension, or it is not divisible; `shard_count` is
            not the size of the groups; groups are empty, of several sizes, or do not hold each
            replica once; element types differ.
        SignatureError: the computation is no reducer for the element type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[8])
        >>> xb.reduce_scatter(x, xb.add, scatter_dimension=0, shard_count=4).shape
        f32[2]

    Operation Semantics: ReduceScatter.
    """
    name = "reduce_scatter"
    whole, parts = _operand(name, operand)
    groups, channel, of_devices = _participants(
        name, replica_groups, channel_id, use_global_device_ids
    )
    dimension = integer(name, "scatter_dimension", scatter_dimension)
    count = integer(name, "shard_count", shard_count)
    order = _layout(name, layout)
    applied = as_computation(name, "computation", computation, _scalars(name, whole))
    shape = _reduce_scatter_shape(
        whole, applied.signature, dimension, count, groups, channel, order, of_devices
    )
    attributes = {
        "to_apply": applied,
        "scatter_dimension": dimension,
        "shard_count": count,
        **_group_attributes(groups, channel, of_devices),
    }
    return _record_parts(name, whole, shape, parts, _laid_out(attributes, shape, order))


@op(SCHEMAS["all_to_all"])
def all_to_all(
    operand: XlaOp,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Every replica cuts its array into blocks, sends the i-th to the i-th replica, and joins what
    it receives.

    Args:
        operand: an array, not a tuple, without bounded dynamic sizes.
        split_dimension: the dimension that is cut.
        concat_dimension: the dimension along which received blocks are joined.
        split_count: into how many blocks; how many replicas there are in each group.
        replica_groups: lists of the replicas that exchange with each other, in the order of the
            blocks; none for all.
        layout: the memory layout of the result; see ``shape_with_layout`` of `all_reduce`.
        channel_id: a channel; with one, the groups hold partitions instead of replicas.

    Returns:
        The operand's shape, with `split_dimension` divided by `split_count` and
        `concat_dimension` multiplied by it.

    Raises:
        ShapeInferenceError: there is no such dimension, or it is not divisible; `split_count` is
            not the size of the groups; groups are empty, of several sizes, or do not hold each
            replica once.

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
    order = _layout(name, layout)
    shape = _all_to_all_shape(source.shape, split, concat, count, groups, order, channel)
    attributes = _exchange_attributes(split, concat, count, groups, channel)
    return record(name, shape, (source,), _laid_out(attributes, shape, order))


@op(SCHEMAS["all_to_all_tuple"])
def all_to_all_tuple(
    operands: Sequence[XlaOp],
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Every replica sends its i-th array to the i-th replica of its group, and gets one of each.

    Args:
        operands: arrays of one shape, as many as there are replicas in each group.
        replica_groups: lists of the replicas that exchange with each other, in the order of the
            arrays; none for all.
        layout: the memory layout of the results; see ``shape_with_layout`` of `all_reduce`.
        channel_id: a channel; with one, the groups hold partitions instead of replicas.

    Returns:
        A tuple of as many arrays: the i-th is what the i-th replica of the group sent.

    Raises:
        ShapeInferenceError: shapes differ; there is no operand, or not one for each replica of a
            group; groups are empty, of several sizes, or do not hold each replica once.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[3]), b.parameter(xb.f32[3])
        >>> xb.all_to_all_tuple([x, y], replica_groups=[[0, 1]]).shape
        (f32[3], f32[3])

    Not in the document; XlaBuilder's AllToAllTuple.
    """
    name = "all_to_all_tuple"
    ops = need_ops(name, "operand", operands)
    groups, channel, _ = _participants(name, replica_groups, channel_id, False)
    order = _layout(name, layout)
    shape = _all_to_all_tuple_shape(tuple([o.shape for o in ops]), groups, order, channel)
    attributes = _group_attributes(groups, channel, False)
    return record(name, shape, ops, _laid_out(attributes, shape, order))


@op(SCHEMAS["collective_permute"])
def collective_permute(
    operand: XlaOp,
    source_target_pairs: Sequence[Sequence[int]],
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Sends arrays from replica to replica. A replica that is sent nothing gets zeros.

    Args:
        operand: an array.
        source_target_pairs: pairs (source, target) of replicas; no two with the same source, and
            no two with the same target.
        channel_id: a channel; with one, the pairs hold partitions instead of replicas.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: a source or a target stands twice, or is negative.

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
    return record(name, shape, (source,), _permute_attributes(pairs, channel))


@op(SCHEMAS["collective_permute"], cpp_name="MultiCollectivePermute", section=BUILDER_H)
def multi_collective_permute(
    operands: Sequence[XlaOp],
    source_target_pairs: Sequence[Sequence[int]],
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """Several arrays sent in the same way: one `collective_permute` each.

    Args:
        operands: at least one array, of any shapes.
        source_target_pairs, channel_id: see `collective_permute`.

    Returns:
        A tuple of the operands' shapes.

    Raises:
        ShapeInferenceError: there is no operand; see `collective_permute`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[4]), b.parameter(xb.s32[2])
        >>> xb.multi_collective_permute([x, y], [(0, 1), (1, 0)]).shape
        (f32[4], s32[2])

    Not in the document; XlaBuilder's MultiCollectivePermute.
    """
    name = "multi_collective_permute"
    ops = need_ops(name, "operand", operands)
    if not ops:
        Check(name).fail("at least one operand is needed, got none")
    pairs = _pairs(name, source_target_pairs)
    channel = ChannelHandle.of(channel_id, op=name)
    shapes = [_permute_shape(o.shape, pairs, channel, op=name) for o in ops]
    attributes = _permute_attributes(pairs, channel)
    with rollback_on_error(resolve_builder(name, *ops)):
        sent = [
            record("collective_permute", shape, (one,), attributes)
            for shape, one in zip(shapes, ops, strict=True)
        ]
        return record("tuple", TupleShape(shapes), tuple(sent))


@op(SCHEMAS["collective_broadcast"])
def collective_broadcast(
    operand: XlaOp,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None = None,
) -> XlaOp:
    """The array that the first replica of each group has, for every replica of the group.

    Args:
        operand: an array.
        replica_groups: lists of replicas, in each the source first.
        channel_id: a channel; with one, the groups hold partitions instead of replicas.

    Returns:
        The operand's shape.

    Raises:
        ShapeInferenceError: there is no group, or an empty one; an id stands twice, is negative
            or missing.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4])
        >>> xb.collective_broadcast(x, replica_groups=[[2, 0, 1, 3]]).shape
        f32[4]

    Not in the document; XlaBuilder's CollectiveBroadcast.
    """
    name = "collective_broadcast"
    source = need_op(name, "operand", operand)
    groups, channel, _ = _participants(name, replica_groups, channel_id, False)
    shape = _broadcast_shape(source.shape, groups, channel)
    return record(name, shape, (source,), _group_attributes(groups, channel, False))


# Arguments


def _operand(name: str, operand: XlaOp | Sequence[XlaOp]) -> tuple[Shape, Sequence[XlaOp]]:
    """The operand's shape, and the operand; of a sequence that of its tuple, and the elements."""
    if isinstance(operand, (list, tuple)):
        ops = need_ops(name, "operand", operand)
        return TupleShape([o.shape for o in ops]), ops
    source = need_op(name, "operand", operand)
    return source.shape, (source,)


def _record_parts(
    opcode: str,
    whole: Shape,
    shape: Shape,
    parts: Sequence[XlaOp],
    attributes: Mapping[str, Any],
) -> XlaOp:
    """Records the op on the arrays of its operand; their tuple, if the operand is one."""
    if not isinstance(whole, TupleShape):
        return record(opcode, shape, tuple(parts), attributes)
    assert isinstance(shape, TupleShape)  # inference has said so
    with rollback_on_error(resolve_builder(opcode, *parts)):
        if len(parts) == 1 and parts[0].shape is whole:
            source = parts[0]
            parts = [
                record("get_tuple_element", element, (source,), _element_attributes(index))
                for index, element in enumerate(whole.elements)
            ]
        if len(parts) > 1:
            return record(opcode, shape, tuple(parts), attributes)
        # HLO has no tuple of one here.
        laid_out = attributes.get("shape_with_layout")
        if isinstance(laid_out, TupleShape):
            attributes = {**attributes, "shape_with_layout": laid_out.elements[0]}
        one = record(opcode, shape.elements[0], tuple(parts), attributes)
        return record("tuple", shape, (one,))


def _participants(
    name: str,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None,
    use_global_device_ids: bool,
) -> tuple[ReplicaGroups, ChannelHandle | None, bool]:
    # None, which XlaBuilder takes for an option that is not given, is False.
    of_devices = use_global_device_ids is not None and flag(
        name, "use_global_device_ids", use_global_device_ids
    )
    return (
        _groups_of(name, replica_groups),
        ChannelHandle.of(channel_id, op=name),
        of_devices,
    )


def _groups_of(name: str, value: Any) -> ReplicaGroups:
    if type(value) is tuple and not value:
        return _ALL
    numbers = plain(value, 2)
    if numbers is not None:
        with suppress(ShapeInferenceError):  # which is then said of what was given
            return _listed_groups(numbers)
    return ReplicaGroups.of(value, op=name)


_ALL = ReplicaGroups()
_listed_groups = per_signature(ReplicaGroups)


def _pairs(name: str, values: Any) -> tuple[tuple[int, int], ...]:
    """`source_target_pairs` as a tuple of pairs."""
    numbers = plain(values, 2)
    if type(numbers) is tuple and all(type(p) is tuple and len(p) == 2 for p in numbers):
        for pair in numbers:
            integers(name, "a pair", pair)
        return numbers
    given = sequence_or_none(values)
    pairs = [] if given is None else [sequence_or_none(pair) or () for pair in given]
    if given is None or any(len(pair) != 2 for pair in pairs):
        raise ShapeInferenceError(
            f"{name}: source_target_pairs must be a sequence of pairs (source, target), "
            f"got {brief(values)}\n"
            f"fix: for instance [(0, 1), (1, 0)]",
            op=name,
        )
    numbers = [integers(name, "a pair", pair) for pair in pairs]
    return tuple((source, target) for source, target in numbers)


def _layout(name: str, layout: Any) -> Layout | None:
    if layout is None or isinstance(layout, Layout):
        return layout
    try:
        return parse_layout(layout) if isinstance(layout, str) else Layout(layout)
    except ShapeTextError as error:
        raise error.in_argument(name, "layout") from None
    except ShapeInferenceError as error:
        text = str(error).partition(": ")[2]
        raise ShapeInferenceError(f"{name}: {text}", op=name) from None


@per_signature
def _scalars(name: str, operand: Shape) -> tuple[ArrayShape, ArrayShape]:
    """The shapes of a reducer's two arguments; raises when the operand holds no array."""
    check = Check(name, operand=operand)
    first: Shape = operand
    if isinstance(operand, TupleShape):
        if not operand.elements:
            check.fail("operand must be an array or a tuple of at least one, got an empty tuple")
        first = operand.elements[0]
    if not isinstance(first, ArrayShape):
        if operand is first:
            check.array("operand")
        check.fail("operand must be an array or a tuple of arrays, element 0 is not")
    scalar = intern_array(first.element_type, ())
    return scalar, scalar


# Attributes, shared by all ops that say the same


@per_signature
def _element_attributes(index: int) -> Mapping[str, Any]:
    return MappingProxyType({"index": index})


@per_signature
def _group_attributes(
    groups: ReplicaGroups, channel: ChannelHandle | None, of_devices: bool
) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "replica_groups": groups,
            "channel_handle": channel,
            "use_global_device_ids": of_devices,
        }
    )


@per_signature
def _gather_attributes(
    dimension: int,
    count: int,
    groups: ReplicaGroups,
    channel: ChannelHandle | None,
    of_devices: bool,
) -> Mapping[str, Any]:
    shared = _group_attributes(groups, channel, of_devices)
    return MappingProxyType({"all_gather_dim": dimension, "shard_count": count, **shared})


@per_signature
def _exchange_attributes(
    split: int,
    concat: int,
    count: int,
    groups: ReplicaGroups,
    channel: ChannelHandle | None,
) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "split_dimension": split,
            "concat_dimension": concat,
            "split_count": count,
            "replica_groups": groups,
            "channel_handle": channel,
        }
    )


@per_signature
def _permute_attributes(
    pairs: tuple[tuple[int, int], ...], channel: ChannelHandle | None
) -> Mapping[str, Any]:
    return MappingProxyType({"source_target_pairs": pairs, "channel_handle": channel})


def _laid_out(
    attributes: Mapping[str, Any], shape: Shape, layout: Layout | None
) -> Mapping[str, Any]:
    """The attributes, and the result's shape with its layout where one was asked for."""
    if layout is None:
        return attributes
    if isinstance(shape, TupleShape):
        arrays = [e.with_layout(layout) for e in shape.elements if isinstance(e, ArrayShape)]
        return {**attributes, "shape_with_layout": TupleShape(arrays)}
    assert isinstance(shape, ArrayShape)  # inference has said so
    return {**attributes, "shape_with_layout": shape.with_layout(layout)}
