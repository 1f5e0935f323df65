"""Shapes of collective operations, which communicate across devices.

Operation Semantics: AllGather, AllReduce, AllToAll, CollectivePermute, CrossReplicaSum,
ReduceScatter, ReplicaId.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from builder.attributes import (
    ChannelHandle,
    ChannelHandleLike,
    ReplicaGroups,
    ReplicaGroupsLike,
)
from builder.check import Check, first_duplicate
from builder.errors import ShapeInferenceError
from builder.layout.program_layouts import check_supported_layout
from builder.ops.rules.public import public
from builder.types import primitive_type as pt
from builder.types.layout import Layout
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
    without_layout,
)

_ID = intern_array(pt.u32, ())


def replica_id() -> ArrayShape:
    """Return the shape of a replica's id: a scalar u32.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.replica_id()
        u32[]
    """
    return _ID


def partition_id() -> ArrayShape:
    """Return the shape of a partition's id: a scalar u32.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.partition_id()
        u32[]
    """
    return _ID


@public
def all_reduce(
    operand: Shape,
    computation: ProgramShape,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    shape_with_layout: Shape | None = None,
    use_global_device_ids: bool = False,  # noqa: ARG001 (an argument of the op; affects no shape)
    *,
    op: str = "all_reduce",
) -> Shape:
    """Return the shape of arrays reduced across replicas: the shape of the operand.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.collectives.all_reduce(xb.f32[4], add, [[0, 2], [1, 3]])
        f32[4]
    """
    check = Check(op, operand=operand)
    arrays = _same_type(check)
    _groups(check, replica_groups, channel_id)
    _reducer(check, computation, arrays[0][1])
    if shape_with_layout is not None:
        _need_layout(check, shape_with_layout, operand)
    return operand


@public
def all_gather(
    operand: Shape,
    all_gather_dim: int,
    shard_count: int,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> Shape:
    """Return the shape of the operand with its gathered dimension multiplied by `shard_count`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.all_gather(xb.f32[2, 3], 0, 4)
        f32[8,3]
    """
    check = Check("all_gather", operand=operand)
    _count_of_replicas(check, shard_count, "shard_count")
    results = []
    for name, array in arrays_of(check):
        # StableHLO all_gather (C1)
        check.in_rank(all_gather_dim, array.rank, of=name, name="all_gather_dim")
        sizes = list(array.dimensions)
        if sizes[all_gather_dim] != UNBOUNDED:
            sizes[all_gather_dim] *= shard_count
        results.append(check.result(array.element_type, sizes, array.dynamic_dimensions))
    _sized_groups(check, replica_groups, channel_id, use_global_device_ids, shard_count)
    return _laid_out(check, _like(operand, results), layout)


@public
def reduce_scatter(
    operand: Shape,
    computation: ProgramShape,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: ReplicaGroupsLike = (),
    channel_id: ChannelHandleLike | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> Shape:
    """Return the operand's shape with the scattered dimension divided by `shard_count`.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.collectives.reduce_scatter(xb.f32[8, 3], add, 0, 4)
        f32[2,3]
    """
    check = Check("reduce_scatter", operand=operand)
    arrays = _same_type(check)
    _count_of_replicas(check, shard_count, "shard_count")
    results = []
    for name, array in arrays:
        # StableHLO reduce_scatter (C2), (C1)
        check.in_rank(scatter_dimension, array.rank, of=name, name="scatter_dimension")
        _divisible(check, array, name, scatter_dimension, "scatter_dimension", shard_count)
        sizes = list(array.dimensions)
        # Like XLA, drop the bound of a dynamic size: the distribution of the size is unknown.
        dynamic = array.dynamic_dimensions[scatter_dimension]
        sizes[scatter_dimension] = UNBOUNDED if dynamic else sizes[scatter_dimension] // shard_count
        results.append(intern_array(array.element_type, tuple(sizes), array.dynamic_dimensions))
    _sized_groups(check, replica_groups, channel_id, use_global_device_ids, shard_count)
    _reducer(check, computation, arrays[0][1])
    return _laid_out(check, _like(operand, results), layout)


@public
def all_to_all(
    operand: Shape,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> Shape:
    """Return the shape of an array after `split_count` replicas exchange blocks of their arrays.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.all_to_all(xb.f32[4, 16], 1, 0, 4)
        f32[16,4]
    """
    check = Check("all_to_all", operand=operand)
    _count_of_replicas(check, split_count, "split_count")
    array = check.array("operand")
    # XLA shape_inference.cc: InferAllToAllShape
    if any(d and array.dimensions[i] != UNBOUNDED for i, d in enumerate(array.dynamic_dimensions)):
        fix = "pad the operand to its bound, and exchange its runtime size separately"
        check.fail("operand must not have dynamic sizes with a bound", fix=fix)
    # StableHLO all_to_all (C1), (C3), (C2)
    check.dimension(split_dimension, of="operand", name="split_dimension")
    check.dimension(concat_dimension, of="operand", name="concat_dimension")
    _divisible(check, array, "operand", split_dimension, "split_dimension", split_count)
    sizes = list(array.dimensions)
    if sizes[split_dimension] != UNBOUNDED:
        sizes[split_dimension] //= split_count
    if sizes[concat_dimension] != UNBOUNDED:
        sizes[concat_dimension] *= split_count
    result = check.result(array.element_type, sizes, array.dynamic_dimensions)
    _sized_groups(check, replica_groups, channel_id, True, split_count, "split_count")
    return _laid_out(check, result, layout)


@public
def all_to_all_tuple(
    operands: Sequence[Shape],
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> Shape:
    """Return the shape of a tuple of arrays, one received from each replica of the group.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.all_to_all_tuple([xb.f32[3], xb.f32[3]])
        (f32[3], f32[3])
    """
    check = Check.numbered("all_to_all_tuple", "operand", operands)
    # XLA shape_inference.cc: InferAllToAllTupleShape
    arrays = check.arrays()
    for index, array in enumerate(arrays):
        if UNBOUNDED in array.dimensions:
            check.fail(f"operand {index} must not have sizes without a bound")
        if array is not arrays[0]:
            rule = f"operands must have the same shape; operand {index} differs from operand 0"
            check.fail(rule, fix="convert and pad the operands to one shape")
    count = len(arrays)
    _sized_groups(check, replica_groups, channel_id, True, count, "the number of operands")
    return _laid_out(check, TupleShape(arrays), layout)


@public
def collective_permute(
    operand: Shape,
    source_target_pairs: Sequence[tuple[int, int]],
    channel_id: ChannelHandleLike | None = None,
    *,
    op: str = "collective_permute",
    name: str = "operand",
) -> ArrayShape:
    """Return the shape of an array sent from replica to replica: the shape of the operand.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.collective_permute(xb.f32[4], [(0, 1), (1, 0)])
        f32[4]
    """
    check = Check(op, **{name: operand})
    array = check.array(name)
    ChannelHandle.of(channel_id, op=op)
    fixes = {"source": "use xb.collective_broadcast", "target": "combine the results"}
    for position, (role, use) in enumerate(fixes.items()):
        ids = [pair[position] for pair in source_target_pairs]
        # StableHLO collective_permute (C4), (C2), (C3)
        twice = _unique_ids(check, ids, "source_target_pairs")
        if twice is not None:
            check.fail(
                f"no two source_target_pairs may have the same {role}, got {twice} twice in "
                f"{list(source_target_pairs)}",
                fix=f"send in several steps, or {use}",
            )
    return array


@public
def collective_broadcast(
    operand: Shape,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None = None,
) -> ArrayShape:
    """Return the shape of the operand, broadcast from the first replica of each group.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.collective_broadcast(xb.f32[4], [[1, 0]])
        f32[4]
    """
    check = Check("collective_broadcast", operand=operand)
    array = check.array("operand")
    groups = _groups(check, replica_groups, channel_id, one_size=True)
    # StableHLO collective_broadcast: the source is the first process of a group
    if not groups:
        rule = "replica_groups must contain a group, whose first replica is the source, got none"
        check.fail(rule, fix="list the replicas, for instance replica_groups=[[0, 1, 2, 3]]")
    return array


def _laid_out(check: Check, result: Shape, layout: Layout | None) -> Shape:
    """Return `result`; raise if `layout` is not None and does not fit an array of `result`."""
    if layout is None:
        return result
    for array in result.elements if isinstance(result, TupleShape) else (result,):
        assert isinstance(array, ArrayShape)  # collectives return arrays, or tuples of arrays
        # xla_builder.h: AllGather, ReduceScatter, AllToAll, AllToAllTuple
        if len(layout.minor_to_major) != array.rank:
            check.fail(f"layout must order the {array.rank} dimensions of the result, got {layout}")
        try:
            laid_out = array.with_layout(layout)
        except ShapeInferenceError as error:
            check.fail(f"{error.op}: {error.rule}", got=error.got, fix=error.fix)
        check_supported_layout(check.op, "layout", laid_out)
    return result


def arrays_of(check: Check) -> list[tuple[str, ArrayShape]]:
    """Return the arrays of the operand, each with its name for messages.

    The operand is an array or a tuple of arrays.
    """
    operand = check.shapes["operand"]
    # Operation Semantics: AllReduce
    if not isinstance(operand, TupleShape):
        return [("operand", check.array("operand"))]
    if not operand.elements:
        check.fail("operand must be an array or a tuple of at least one array, got an empty tuple")
    arrays = []
    for index, element in enumerate(operand.elements):
        if not isinstance(element, ArrayShape):
            kind = "a tuple" if element.is_tuple else "a token"
            rule = f"operand must be an array or a tuple of arrays, got {kind} as element {index}"
            check.fail(rule)
        arrays.append((f"element {index} of operand", element))
    return arrays


def _same_type(check: Check) -> list[tuple[str, ArrayShape]]:
    """Return the arrays of the operand with their names; raise if their element types differ."""
    arrays = arrays_of(check)
    first = arrays[0][1].element_type
    # StableHLO all_reduce (C5): one element type E
    for _, array in arrays:
        if array.element_type is not first:
            check.fail(
                f"the arrays of a tuple must have one element type, got {first} and "
                f"{array.element_type}",
                fix=f"use one {check.op} for each element type",
            )
    return arrays


def _like(operand: Shape, results: list[ArrayShape]) -> Shape:
    """Return a tuple of `results` if the operand is a tuple, otherwise the only result."""
    return TupleShape(results) if isinstance(operand, TupleShape) else results[0]


_MOST_SHOWN = 4
"""The maximum number of missing replicas that a message shows."""

_MOST_REPLICAS = 2**20
"""The maximum `shard_count` or `split_count`: an implicit group of replicas is stored id by id."""


def _count_of_replicas(check: Check, count: int, name: str) -> None:
    # StableHLO all_to_all (C4), and a limit of this library
    if not 1 <= count <= _MOST_REPLICAS:
        rule = "1 or more" if count < 1 else f"at most {_MOST_REPLICAS}"
        check.fail(f"{name} must be {rule}, got {count}")


def _divisible(
    check: Check, array: ArrayShape, of: str, dimension: int, name: str, count: int
) -> None:
    size = array.dimensions[dimension]
    # StableHLO all_to_all (C2), reduce_scatter (C1)
    if size != UNBOUNDED and size % count:
        divisor = "split_count" if check.op == "all_to_all" else "shard_count"
        rule = f"the size of {of} along {name} must be divisible by {divisor} {count}, got {size}"
        check.fail(rule, dimension=dimension)


def _unique_ids(check: Check, ids: Sequence[int], name: str) -> int | None:
    """Return the first id that occurs twice, or None; raise if an id is negative."""
    # StableHLO all_reduce (C3), collective_permute (C4)
    for number in ids:
        if number < 0:
            check.fail(f"the ids in {name} must not be negative, got {number}")
    twice: int | None = first_duplicate(ids)
    return twice


def _groups(
    check: Check,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None,
    *,
    one_size: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """Return the replica groups; raise unless they contain each id from 0 exactly once.

    `one_size` requires groups of equal sizes.
    """
    ChannelHandle.of(channel_id, op=check.op)
    groups = ReplicaGroups.of(replica_groups, op=check.op).groups
    ids = [number for group in groups for number in group]
    shown = [list(group) for group in groups]
    # StableHLO all_reduce (C3), (C1), (C2), all_gather (C4), (C2), (C3)
    twice = _unique_ids(check, ids, "replica_groups")
    if not all(groups):
        fix = "write replica_groups=[] for one group of all replicas"
        check.fail(f"replica_groups must not contain an empty group, got {shown}", fix=fix)
    if twice is not None:
        check.fail(f"replica_groups must contain each replica once, got {twice} twice in {shown}")
    present = set(ids)
    if len(ids) <= max(ids, default=-1):
        absent = list(islice((n for n in range(max(ids)) if n not in present), _MOST_SHOWN + 1))
        more = ", ..." if len(absent) > _MOST_SHOWN else ""
        missing = ", ".join(map(str, absent[:_MOST_SHOWN])) + more
        alone = ", ".join(f"[{n}]" for n in absent[:_MOST_SHOWN]) + more
        check.fail(
            f"replica_groups must contain every replica from 0 to {max(ids)}; "
            f"{missing} {'is' if len(absent) == 1 else 'are'} missing, got {shown}",
            fix=f"add each missing replica to a group, or to one of its own: {alone}",
        )
    # StableHLO all_gather (I3): a 2-dimensional constant
    if one_size and len({len(group) for group in groups}) > 1:
        check.fail(f"all replica_groups must have the same size, got {shown}")
    return groups


def _sized_groups(
    check: Check,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None,
    of_ids: bool,
    count: int,
    name: str = "shard_count",
) -> None:
    """Check that each group has `count` members; `name` is the argument with this count.

    If `channel_id` is set and the groups do not contain global ids (`of_ids` is False), a group
    contains all partitions of its replicas. The number of partitions is unknown until compilation,
    so `count` may be any multiple of the number of replicas in the group.
    """
    groups = _groups(check, replica_groups, channel_id, one_size=True)
    size = len(groups[0]) if groups else count
    per_partition = channel_id is not None and not of_ids and count % size == 0
    # StableHLO all_to_all (C8), all_gather (C6), reduce_scatter (C8)
    if size != count and not per_partition:
        check.fail(f"{name} must be the size of the replica_groups, {size}, got {count}")


def _reducer(check: Check, computation: ProgramShape, array: ArrayShape) -> None:
    """Check that `computation` maps two scalars of the array's element type to one scalar."""
    scalar = intern_array(array.element_type, ())
    # StableHLO all_reduce (C5), reduce_scatter (C7)
    check.applied("computation", computation, [scalar, scalar], [scalar])


def _need_layout(check: Check, laid_out: Shape, operand: Shape) -> None:
    """Raise unless `laid_out` is the operand's shape with a layout for each array."""
    # xla_builder.h: AllReduce
    if without_layout(laid_out) is not without_layout(operand):
        check.fail(f"shape_with_layout must be the operand's shape, {operand}, got {laid_out}")
    for array in laid_out.elements if isinstance(laid_out, TupleShape) else (laid_out,):
        if isinstance(array, ArrayShape) and array.rank and array.layout is None:
            check.fail(f"each array of shape_with_layout must have a layout, got {laid_out}")
    check_supported_layout(check.op, "shape_with_layout", laid_out)
