"""Shapes of operations across devices.

Operation Semantics: AllGather, AllReduce, AllToAll, CollectivePermute, CrossReplicaSum,
ReduceScatter, ReplicaId.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes import (
    ChannelHandle,
    ChannelHandleLike,
    ReplicaGroups,
    ReplicaGroupsLike,
)
from builder.check import Check
from builder.errors import ShapeInferenceError, SignatureError
from builder.layout.program_layouts import check_supported_layout
from builder.shape_inference.public import public
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

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_tuple",
    "collective_broadcast",
    "collective_permute",
    "partition_id",
    "reduce_scatter",
    "replica_id",
    "with_layout",
]

_ID = intern_array(pt.u32, ())


def replica_id() -> ArrayShape:
    """Shape of a replica's number: a scalar u32.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.replica_id()
        u32[]
    """
    return _ID


def partition_id() -> ArrayShape:
    """Shape of a partition's number: a scalar u32.

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
    use_global_device_ids: bool = False,  # noqa: ARG001 (the op's; it changes no shape)
    *,
    op: str = "all_reduce",
) -> Shape:
    """Shape of arrays reduced across replicas: the operand's own.

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
    _reducer(check, computation, arrays[0])
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
    """Shape of arrays gathered from `shard_count` replicas: that many times as long.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.all_gather(xb.f32[2, 3], 0, 4)
        f32[8,3]
    """
    check = Check("all_gather", operand=operand)
    _number_of_replicas(check, shard_count, "shard_count")
    results = []
    for name, array in _elements(check):
        _dimension(check, array, name, all_gather_dim, "all_gather_dim")
        sizes = list(array.dimensions)
        if sizes[all_gather_dim] != UNBOUNDED:
            sizes[all_gather_dim] *= shard_count
        results.append(check.result(array.element_type, sizes, array.dynamic_dimensions))
    _sized_groups(check, replica_groups, channel_id, use_global_device_ids, shard_count)
    return with_layout(check, _like(operand, results), layout)


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
    """Shape of one replica's part of arrays reduced across `shard_count` replicas.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.collectives.reduce_scatter(xb.f32[8, 3], add, 0, 4)
        f32[2,3]
    """
    check = Check("reduce_scatter", operand=operand)
    arrays = _same_type(check)
    _number_of_replicas(check, shard_count, "shard_count")
    results = []
    for (name, array), _ in zip(_elements(check), arrays, strict=True):
        _dimension(check, array, name, scatter_dimension, "scatter_dimension")
        sizes = list(array.dimensions)
        _divisible(check, array, name, scatter_dimension, "scatter_dimension", shard_count)
        # Of a dynamic size XLA keeps no bound here: nobody knows who has how much of it.
        dynamic = array.dynamic_dimensions[scatter_dimension]
        sizes[scatter_dimension] = UNBOUNDED if dynamic else sizes[scatter_dimension] // shard_count
        results.append(intern_array(array.element_type, tuple(sizes), array.dynamic_dimensions))
    _sized_groups(check, replica_groups, channel_id, use_global_device_ids, shard_count)
    _reducer(check, computation, arrays[0])
    return with_layout(check, _like(operand, results), layout)


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
    """Shape of an array whose blocks are exchanged among `split_count` replicas.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.all_to_all(xb.f32[4, 16], 1, 0, 4)
        f32[16,4]
    """
    check = Check("all_to_all", operand=operand)
    _number_of_replicas(check, split_count, "split_count")
    array = check.array("operand")
    if any(
        dynamic and size != UNBOUNDED
        for size, dynamic in zip(array.dimensions, array.dynamic_dimensions, strict=True)
    ):
        check.fail(
            "operand must not have dynamic sizes with a bound",
            fix="exchange the array in its largest size, and its size beside it",
        )
    _dimension(check, array, "operand", split_dimension, "split_dimension")
    _dimension(check, array, "operand", concat_dimension, "concat_dimension")
    _divisible(check, array, "operand", split_dimension, "split_dimension", split_count)
    sizes = list(array.dimensions)
    if sizes[split_dimension] != UNBOUNDED:
        sizes[split_dimension] //= split_count
    if sizes[concat_dimension] != UNBOUNDED:
        sizes[concat_dimension] *= split_count
    result = check.result(array.element_type, sizes, array.dynamic_dimensions)
    _sized_groups(check, replica_groups, channel_id, True, split_count, "split_count")
    return with_layout(check, result, layout)


@public
def all_to_all_tuple(
    operands: Sequence[Shape],
    replica_groups: ReplicaGroupsLike = (),
    layout: Layout | None = None,
    channel_id: ChannelHandleLike | None = None,
) -> Shape:
    """Shape of arrays exchanged, one for each replica of the group: a tuple of the same.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.all_to_all_tuple([xb.f32[3], xb.f32[3]])
        (f32[3], f32[3])
    """
    check = Check.numbered("all_to_all_tuple", "operand", operands)
    arrays = check.arrays()
    if not arrays:
        check.fail("at least one operand is needed, got none")
    for index, array in enumerate(arrays):
        if UNBOUNDED in array.dimensions:
            check.fail(f"operand {index} must not have sizes without a bound")
        if array is not arrays[0]:
            check.fail(
                f"operands must have one shape; operand {index} differs from operand 0",
                fix="convert and pad them to one shape",
            )
    count = len(arrays)
    _sized_groups(check, replica_groups, channel_id, True, count, "the number of operands")
    return with_layout(check, TupleShape(arrays), layout)


@public
def collective_permute(
    operand: Shape,
    source_target_pairs: Sequence[tuple[int, int]],
    channel_id: ChannelHandleLike | None = None,
    *,
    op: str = "collective_permute",
) -> ArrayShape:
    """Shape of an array sent from replica to replica: the operand's own.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.collective_permute(xb.f32[4], [(0, 1), (1, 0)])
        f32[4]
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    ChannelHandle.of(channel_id, op=op)
    for role, position in (("source", 0), ("target", 1)):
        ids = [pair[position] for pair in source_target_pairs]
        for number in ids:
            if number < 0:
                check.fail(f"source_target_pairs must hold ids, which are 0 or more, got {number}")
        if len(set(ids)) != len(ids):
            twice = next(n for i, n in enumerate(ids) if n in ids[:i])
            check.fail(
                f"no two of source_target_pairs may have the same {role}, got {twice} twice in "
                f"{list(source_target_pairs)}",
                fix="send in several steps, or with xb.collective_broadcast"
                if role == "source"
                else "send in several steps, and combine what was received",
            )
    return array


@public
def collective_broadcast(
    operand: Shape,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None = None,
) -> ArrayShape:
    """Shape of the array that the first replica of each group has: the operand's own.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.collectives.collective_broadcast(xb.f32[4], [[1, 0]])
        f32[4]
    """
    check = Check("collective_broadcast", operand=operand)
    array = check.array("operand")
    groups = _groups(check, replica_groups, channel_id, one_size=True)
    if not groups:
        check.fail(
            "replica_groups must hold a group, whose first replica is the source, got none",
            fix="name the replicas: replica_groups=[[0, 1, 2, 3]]",
        )
    return array


def with_layout(check: Check, shape: Shape, layout: Layout | None) -> Shape:
    """`shape`, after a check that `layout`, if there is one, fits its arrays."""
    if layout is not None:
        _laid_out(check, shape, layout)
    return shape


def _laid_out(check: Check, shape: Shape, layout: Layout) -> None:
    """Raises unless `layout` orders the dimensions of each array of a result."""
    for array in shape.elements if isinstance(shape, TupleShape) else (shape,):
        rank = array.rank if isinstance(array, ArrayShape) else 0
        if len(layout.minor_to_major) != rank:
            check.fail(f"layout must order the {rank} dimensions of the result, got {layout}")
        assert isinstance(array, ArrayShape)  # others have no dimensions
        try:
            laid_out = array.with_layout(layout)
        except ShapeInferenceError as error:
            check.fail(str(error))
        check_supported_layout(check.op, "layout", laid_out)


def _elements(check: Check) -> list[tuple[str, ArrayShape]]:
    """The arrays of the operand, which is one or a tuple of them, with names for messages."""
    operand = check.shapes["operand"]
    if not isinstance(operand, TupleShape):
        return [("operand", check.array("operand"))]
    if not operand.elements:
        check.fail("operand must be an array or a tuple of at least one, got an empty tuple")
    found = []
    for index, element in enumerate(operand.elements):
        if not isinstance(element, ArrayShape):
            check.fail(f"operand must be an array or a tuple of arrays, element {index} is not")
        found.append((f"element {index} of operand", element))
    return found


def _same_type(check: Check) -> list[ArrayShape]:
    """The arrays of the operand, which must be of one element type."""
    arrays = [array for _, array in _elements(check)]
    for array in arrays:
        if array.element_type is not arrays[0].element_type:
            check.fail(
                f"the arrays of a tuple must have one element type, got "
                f"{arrays[0].element_type} and {array.element_type}",
                fix=f"one {check.op} for each element type",
            )
    return arrays


def _like(operand: Shape, results: list[ArrayShape]) -> Shape:
    """The results as a tuple if the operand is one."""
    return TupleShape(results) if isinstance(operand, TupleShape) else results[0]


_MOST_REPLICAS = 2**20
"""More than any program runs on; a group of all is written out, number by number."""


def _number_of_replicas(check: Check, count: int, name: str) -> None:
    if count < 1:
        check.fail(f"{name} must be 1 or more, got {count}")
    if count > _MOST_REPLICAS:
        check.fail(f"{name} must be at most {_MOST_REPLICAS}, got {count}")


def _dimension(check: Check, array: ArrayShape, of: str, number: int, name: str) -> None:
    if not 0 <= number < array.rank:
        dimensions = f"0 to {array.rank - 1}" if array.rank else "which has none"
        check.fail(
            f"{name} must be a dimension of {of}, {dimensions}, got {number}", dimension=number
        )


def _divisible(
    check: Check, array: ArrayShape, of: str, dimension: int, name: str, count: int
) -> None:
    size = array.dimensions[dimension]
    if size != UNBOUNDED and size % count:
        counted = "split_count" if check.op == "all_to_all" else "shard_count"
        check.fail(
            f"the size of {of} in {name} must be divisible by {counted}, {count}, got {size}",
            dimension=dimension,
        )


def _groups(
    check: Check,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None,
    *,
    one_size: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """The groups, of which all must be well: each id once, from 0 on."""
    ChannelHandle.of(channel_id, op=check.op)
    groups = ReplicaGroups.of(replica_groups, op=check.op).groups
    ids = [number for group in groups for number in group]
    shown = [list(group) for group in groups]
    for number in ids:
        if number < 0:
            check.fail(f"replica_groups must hold ids, which are 0 or more, got {number}")
    if not all(groups):
        check.fail(
            f"replica_groups must not hold an empty group, got {shown}",
            fix="replica_groups=[] stands for one group of all replicas",
        )
    if len(set(ids)) != len(ids):
        twice = next(n for i, n in enumerate(ids) if n in ids[:i])
        check.fail(f"replica_groups must hold each replica once, got {twice} twice in {shown}")
    missing = next((n for n in range(len(ids)) if n not in set(ids)), None)
    if missing is not None:
        check.fail(
            f"replica_groups must hold every replica, {missing} is missing, got {shown}",
            fix=f"a replica that works alone is a group of its own: [{missing}]",
        )
    if one_size and len({len(group) for group in groups}) > 1:
        check.fail(f"all of replica_groups must be of one size, got {shown}")
    return groups


def _sized_groups(
    check: Check,
    replica_groups: ReplicaGroupsLike,
    channel_id: ChannelHandleLike | None,
    of_ids: bool,
    count: int,
    name: str = "shard_count",
) -> None:
    """Raises unless each group is of `count` members, which is argument `name`.

    With a channel and without global ids (`of_ids` is false), a group of replicas means all of
    their partitions, of which nobody knows yet how many there are.
    """
    groups = _groups(check, replica_groups, channel_id, one_size=True)
    if not groups:
        return
    size = len(groups[0])
    if size == count or (channel_id is not None and not of_ids and count % size == 0):
        return
    check.fail(f"{name} must be the size of each of replica_groups, {size}, got {count}")


def _reducer(check: Check, computation: ProgramShape, array: ArrayShape) -> None:
    """Raises unless `computation` folds two scalars of the array's element type into one."""
    scalar = intern_array(array.element_type, ())
    if computation != ProgramShape([scalar, scalar], scalar):
        check.fail(
            f"computation must be of signature ({scalar}, {scalar}) -> {scalar}, got {computation}",
            error=SignatureError,
        )


def _need_layout(check: Check, given: Shape, operand: Shape) -> None:
    """Raises unless `given` is the operand's shape, each array of it with a layout."""
    if without_layout(given) is not without_layout(operand):
        check.fail(f"shape_with_layout must be the operand's shape, {operand}, got {given}")
    for array in given.elements if isinstance(given, TupleShape) else (given,):
        if isinstance(array, ArrayShape) and array.rank and array.layout is None:
            check.fail(f"shape_with_layout must have a layout throughout, got {given}")
    check_supported_layout(check.op, "shape_with_layout", given)
