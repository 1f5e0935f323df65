"""Operations across replicas and partitions.

All replicas run the same program at the same time, each on its own values.
`XlaBuilder.replica_id` returns the number of the replica.

Operation Semantics: AllGather, AllReduce, AllToAll, CollectivePermute, CrossReplicaSum,
ReduceScatter, ReplicaId.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from builder.attributes import ChannelHandle, ChannelHandleLike, ReplicaGroups, ReplicaGroupsLike
from builder.attributes.collectives import channel_of
from builder.checking import Check, first_duplicate
from builder.errors import ShapeInferenceError
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.layout.program_layouts import check_supported_layout
from builder.ops.definition import builder_method, op
from builder.ops.elementwise import add, or_
from builder.ops.operands import need_op, need_ops
from builder.schema.definition import (
    ANY,
    APPLIED_REPEATEDLY,
    BUILDER_H,
    Attribute,
    CostClass,
    Group,
    Schema,
    Trait,
    define,
)
from builder.schema.equal_sizes import Pairs, SizedOp, all_equal_sizes, equal_sizes_except, pairs
from builder.schema.kinds import (
    CHANNEL,
    COMPUTATION,
    DIMENSION,
    GROUPS,
    INTEGER,
    LAYOUT,
    PAIRS,
    SHAPE,
    UNIT,
)
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.layout import Layout
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    ShapeLike,
    TupleShape,
    intern_array,
    without_layout,
)

Attributes = Mapping[str, Any]

Reducer = XlaComputation | Callable[..., Any]

_ALL: Final = ReplicaGroups()
"""One group of all replicas."""


# --- Replica and partition ids ------------------------------------------------------------------


def _id_shape() -> ArrayShape:
    return _ID


_ID: Final = intern_array(pt.u32, ())

REPLICA_ID: Final = define("replica_id", "")
PARTITION_ID: Final = define("partition_id", "", section="StableHLO (not in the document)")

builder_method(REPLICA_ID, _id_shape)
builder_method(PARTITION_ID, _id_shape)


# --- Rules and data that the collectives share --------------------------------------------------


def _all_participants(attributes: Attributes) -> ReplicaGroups:
    """Return the replica groups of an all_to_all; if it has none, one group of all replicas.

    HLO has no attribute for the split count, and StableHLO requires groups.
    """
    groups: ReplicaGroups = attributes["replica_groups"]
    return groups.or_one_of(attributes["split_count"])


def _constrains_layout(op: Any) -> str:
    return ", constrain_layout=true" if "shape_with_layout" in op.attributes else ""


_CHANNEL: Final = Attribute(
    "channel_handle",
    CHANNEL,
    "channel_id",
    omitted=None,
    absent=None,
    written=channel_of,
    parameter="channel_id",
    # The number, because files have types of channels that collectives do not have.
    argument=lambda channel: None if channel is None else channel.handle,
)
_GROUPS: Final = Attribute("replica_groups", GROUPS)
_PARTICIPANTS: Final = (_CHANNEL, _GROUPS, Group(_constrains_layout))
"""The attributes that define which replicas a collective op communicates between."""
_DEVICES: Final = (
    _CHANNEL,
    _GROUPS,
    Attribute("use_global_device_ids", UNIT, omitted=False),
    Group(_constrains_layout),
)
"""The attributes of `_PARTICIPANTS` for ops whose groups may contain device numbers."""
_COMPUTATION: Final = Attribute("to_apply", COMPUTATION, parameter="computation")
# In StableHLO and HLO, the shapes imply it.
_SHARD_COUNT: Final = Attribute("shard_count", INTEGER, None, None)

_MOST_SHOWN: Final = 4
"""The maximum number of missing replicas that a message shows."""

_MOST_REPLICAS: Final = 2**20
"""The maximum `shard_count` or `split_count`: an implicit group of replicas is stored id by id."""


def _arrays_of(check: Check) -> list[tuple[str, ArrayShape]]:
    """Return the arrays of the operand, each with its name for messages.

    The operand is an array or a tuple of arrays.
    """
    operand = check.shapes["operand"]
    # Operation Semantics: AllReduce
    if not isinstance(operand, TupleShape):
        return [("operand", check.array("operand"))]
    if not operand.elements:
        check.fail(
            "operand must be an array or a tuple of at least one array", got="an empty tuple"
        )
    arrays = []
    for index, element in enumerate(operand.elements):
        if not isinstance(element, ArrayShape):
            kind = "a tuple" if element.is_tuple else "a token"
            rule = "operand must be an array or a tuple of arrays"
            check.fail(rule, got=f"{kind} as element {index}")
        arrays.append((f"element {index} of operand", element))
    return arrays


def _same_type(check: Check) -> list[tuple[str, ArrayShape]]:
    """Return the arrays of the operand with their names; raise if their element types differ."""
    arrays = _arrays_of(check)
    first = arrays[0][1].element_type
    # StableHLO all_reduce (C5): one element type E
    for _, array in arrays:
        if array.element_type is not first:
            check.fail(
                "the arrays of a tuple must have one element type",
                got=f"{first} and {array.element_type}",
                fix=f"use one {check.op} for each element type",
            )
    return arrays


def _like(operand: Shape, results: list[ArrayShape]) -> Shape:
    """Return a tuple of `results` if the operand is a tuple, otherwise the only result."""
    return TupleShape(results) if isinstance(operand, TupleShape) else results[0]


def _count_of_replicas(check: Check, count: int, name: str) -> None:
    # StableHLO all_to_all (C4), and a limit of this library
    if not 1 <= count <= _MOST_REPLICAS:
        rule = "1 or more" if count < 1 else f"at most {_MOST_REPLICAS}"
        check.fail(f"{name} must be {rule}", got=count)


def _divisible(
    check: Check, array: ArrayShape, of: str, dimension: int, name: str, count: int
) -> None:
    size = array.dimensions[dimension]
    # StableHLO all_to_all (C2), reduce_scatter (C1)
    if size != UNBOUNDED and size % count:
        divisor = "split_count" if check.op == "all_to_all" else "shard_count"
        rule = f"the size of {of} along {name} must be divisible by {divisor} {count}"
        check.fail(rule, got=size, dimension=dimension)


def _unique_ids(check: Check, ids: Sequence[int], name: str) -> int | None:
    """Return the first id that occurs twice, or None; raise if an id is negative."""
    # StableHLO all_reduce (C3), collective_permute (C4)
    for number in ids:
        if number < 0:
            check.fail(f"the ids in {name} must not be negative", got=number)
    twice: int | None = first_duplicate(ids)
    return twice


def _groups(
    check: Check, replica_groups: ReplicaGroups, *, one_size: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Return the replica groups; raise unless they contain each id from 0 exactly once.

    `one_size` requires groups of equal sizes.
    """
    groups = replica_groups.groups
    ids = [number for group in groups for number in group]
    shown = [list(group) for group in groups]
    # StableHLO all_reduce (C3), (C1), (C2), all_gather (C4), (C2), (C3)
    twice = _unique_ids(check, ids, "replica_groups")
    if not all(groups):
        fix = "write replica_groups=[] for one group of all replicas"
        check.fail("replica_groups must not contain an empty group", got=shown, fix=fix)
    if twice is not None:
        check.fail("replica_groups must contain each replica once", got=f"{twice} twice in {shown}")
    present = set(ids)
    if len(ids) <= max(ids, default=-1):
        absent = list(islice((n for n in range(max(ids)) if n not in present), _MOST_SHOWN + 1))
        more = ", ..." if len(absent) > _MOST_SHOWN else ""
        missing = ", ".join(map(str, absent[:_MOST_SHOWN])) + more
        alone = ", ".join(f"[{n}]" for n in absent[:_MOST_SHOWN]) + more
        check.fail(
            f"replica_groups must contain every replica from 0 to {max(ids)}; "
            f"{missing} {'is' if len(absent) == 1 else 'are'} missing",
            got=shown,
            fix=f"add each missing replica to a group, or to one of its own: {alone}",
        )
    # StableHLO all_gather (I3): a 2-dimensional constant
    if one_size and len({len(group) for group in groups}) > 1:
        check.fail("all replica_groups must have the same size", got=shown)
    return groups


def _sized_groups(
    check: Check,
    replica_groups: ReplicaGroups,
    channel_id: ChannelHandle | None,
    of_ids: bool,
    count: int,
    name: str = "shard_count",
) -> None:
    """Check that each group has `count` members; `name` is the argument with this count.

    If `channel_id` is set and the groups do not contain global ids (`of_ids` is False), a group
    contains all partitions of its replicas. The number of partitions is unknown until compilation,
    so `count` may be any multiple of the number of replicas in the group.
    """
    groups = _groups(check, replica_groups, one_size=True)
    size = len(groups[0]) if groups else count
    per_partition = channel_id is not None and not of_ids and count % size == 0
    # StableHLO all_to_all (C8), all_gather (C6), reduce_scatter (C8)
    if size != count and not per_partition:
        check.fail(f"{name} must be the size of the replica_groups, {size}", got=count)


def _reducer(check: Check, computation: ProgramShape, array: ArrayShape) -> None:
    """Check that `computation` maps two scalars of the array's element type to one scalar."""
    scalar = intern_array(array.element_type, ())
    # StableHLO all_reduce (C5), reduce_scatter (C7)
    check.applied("computation", computation, [scalar, scalar], [scalar])


def _fits_layout(check: Check, result: Shape, layout: Layout | None) -> Shape:
    """Return `result`; raise if `layout` is not None and does not fit an array of `result`."""
    if layout is None:
        return result
    for array in result.elements if isinstance(result, TupleShape) else (result,):
        assert isinstance(array, ArrayShape)  # collectives return arrays, or tuples of arrays
        # xla_builder.h: AllGather, ReduceScatter, AllToAll, AllToAllTuple
        if len(layout.minor_to_major) != array.rank:
            check.fail(f"layout must order the {array.rank} dimensions of the result", got=layout)
        try:
            laid_out = array.with_layout(layout)
        except ShapeInferenceError as error:
            check.fail(f"{error.op}: {error.rule}", got=error.got, fix=error.fix)
        check_supported_layout(check.op, "layout", laid_out)
    return result


def _check_layout(check: Check, laid_out: Shape, operand: Shape) -> None:
    """Raise unless `laid_out` is the operand's shape with a layout for each array."""
    # xla_builder.h: AllReduce
    if without_layout(laid_out) is not without_layout(operand):
        check.fail(f"shape_with_layout must be the operand's shape, {operand}", got=laid_out)
    for array in laid_out.elements if isinstance(laid_out, TupleShape) else (laid_out,):
        if isinstance(array, ArrayShape) and array.rank and array.layout is None:
            check.fail("each array of shape_with_layout must have a layout", got=laid_out)
    check_supported_layout(check.op, "shape_with_layout", laid_out)


def _participants(replica_groups: ReplicaGroups, channel_id: ChannelHandle | None) -> Attributes:
    return {"replica_groups": replica_groups, "channel_handle": channel_id}


def _laid_out(result: Shape, layout: Layout | None) -> Attributes:
    """Return the attribute that has the layout of the result, if one is requested."""
    if layout is None:
        return {}
    if isinstance(result, TupleShape):
        arrays = [e.with_layout(layout) for e in result.elements if isinstance(e, ArrayShape)]
        return {"shape_with_layout": TupleShape(arrays)}
    assert isinstance(result, ArrayShape)  # as inferred
    return {"shape_with_layout": result.with_layout(layout)}


# --- Collectives on one array, on the arrays of a tuple, or on several arrays --------------------
#
# They have bodies: the operand is an op or a sequence, and several ops are recorded for a tuple.


Arguments = tuple[tuple[str, Any], ...]
"""The converted arguments of a collective and their names."""

_KINDS: Final = {
    "all_gather_dim": DIMENSION,
    "channel_id": CHANNEL,
    "layout": LAYOUT,
    "replica_groups": GROUPS,
    "scatter_dimension": DIMENSION,
    "shape_with_layout": SHAPE,
    "shard_count": INTEGER,
    "use_global_device_ids": UNIT,
}
"""The kinds of the arguments."""

_MAY_BE_NONE: Final = ("channel_id", "layout", "shape_with_layout")


def _communicate(
    name: str,
    schema: Schema,
    rule: Callable[..., Shape],
    operand: XlaOp | Sequence[XlaOp],
    computation: Any = None,
    **arguments: Any,
) -> XlaOp:
    """Record a collective, and return a tuple if the operand is a tuple or a sequence.

    Args:
        name: the op that the user called, for messages.
        schema: the data of the op that is recorded.
        rule: its shape inference.
        operand: an array, a tuple of arrays, or a sequence of arrays.
        computation: the reducer, if the schema has a computation.
        arguments: the other arguments of the op by name, as the user passed them.
    """
    source, arrays = _operand(name, operand)
    if arguments["use_global_device_ids"] is None:  # XlaBuilder's optional flag
        arguments["use_global_device_ids"] = False
    for key, value in arguments.items():
        if value is not None or key not in _MAY_BE_NONE:
            arguments[key] = _KINDS[key].convert(name, key, value)
    converted = tuple(arguments.items())
    if schema.computations:
        reducer = as_computation(name, "computation", computation, _scalars(name, source))
        plan = reducer._planned(_reduction_plan, schema, rule, source, reducer, converted)
    else:
        plan = _plan(schema, rule, source, converted)
    shape, attributes = plan
    if isinstance(shape, TupleShape):
        return _record_parts(schema.opcode, source, shape, arrays, attributes)
    return record(schema.opcode, shape, arrays, attributes, 3)


def _operand(name: str, operand: XlaOp | Sequence[XlaOp]) -> tuple[Shape, tuple[XlaOp, ...]]:
    """Return the shape and the ops of an `operand` argument; a sequence has a tuple shape."""
    if isinstance(operand, (list, tuple)):
        ops = need_ops(name, "operand", operand)
        return TupleShape([o.shape for o in ops]), ops
    source = need_op(name, "operand", operand)
    return source.shape, (source,)


@per_signature
def _plan(
    schema: Schema, rule: Callable[..., Shape], operand: Shape, arguments: Arguments
) -> tuple[Shape, Attributes]:
    """Return the shape and the attributes of a collective that applies no computation."""
    named = dict(arguments)
    shape = rule(operand, **named)
    return shape, MappingProxyType(_recorded(schema, shape, named))


def _reduction_plan(
    schema: Schema,
    rule: Callable[..., Shape],
    operand: Shape,
    reducer: XlaComputation,
    arguments: Arguments,
) -> tuple[Shape, Attributes]:
    """Return the shape and the attributes of a collective that applies a computation."""
    named = dict(arguments)
    shape = rule(operand, reducer.signature, **named)
    return shape, MappingProxyType({"to_apply": reducer, **_recorded(schema, shape, named)})


def _recorded(schema: Schema, shape: Shape, arguments: Attributes) -> Attributes:
    """Return the attributes of a collective apart from the computation."""
    attributes = {a.name: arguments[a.parameter or a.name] for a in schema.value_attributes}
    attributes |= _laid_out(shape, arguments.get("layout"))
    if arguments.get("shape_with_layout") is not None:
        attributes["shape_with_layout"] = arguments["shape_with_layout"]
    return attributes


def _record_parts(
    opcode: str,
    operand: Shape,
    shape: TupleShape,
    arrays: tuple[XlaOp, ...],
    attributes: Attributes,
) -> XlaOp:
    """Record the op on the arrays of a tuple or a sequence, and return a tuple of the results."""
    with rollback_on_error(resolve_builder(opcode, *arrays)):
        source = arrays[0]
        if isinstance(operand, TupleShape) and source.shape is operand:
            arrays = tuple(
                [
                    record("get_tuple_element", element, (source,), shared_attributes(index=index))
                    for index, element in enumerate(operand.elements)
                ]
            )
        if len(arrays) > 1:
            return record(opcode, shape, arrays, attributes)
        # HLO's collectives on one operand return an array, not a tuple of one.
        with_layout = attributes.get("shape_with_layout")
        if isinstance(with_layout, TupleShape):
            attributes = {**attributes, "shape_with_layout": with_layout.elements[0]}
        result = record(opcode, shape.elements[0], arrays, attributes)
        return record("tuple", shape, (result,))


@per_signature
def _scalars(name: str, operand: Shape) -> tuple[ArrayShape, ArrayShape]:
    """Return the shapes of a reducer's two arguments; raise if the operand contains no array."""
    _, first = _arrays_of(Check(name, operand=operand))[0]
    scalar = intern_array(first.element_type, ())
    return scalar, scalar


def _all_reduce_shape(
    operand: Shape,
    computation: ProgramShape,
    replica_groups: ReplicaGroups = _ALL,
    channel_id: ChannelHandle | None = None,  # noqa: ARG001 (an argument of the op; affects no shape)
    shape_with_layout: Shape | None = None,
    use_global_device_ids: bool = False,  # noqa: ARG001 (an argument of the op; affects no shape)
    *,
    op: str = "all_reduce",
) -> Shape:
    check = Check(op, operand=operand)
    arrays = _same_type(check)
    _groups(check, replica_groups)
    _reducer(check, computation, arrays[0][1])
    if shape_with_layout is not None:
        _check_layout(check, shape_with_layout, operand)
    return operand


ALL_REDUCE: Final = define(
    "all_reduce",
    "*operands",
    (*_DEVICES, _COMPUTATION),
    element_types={"operands": ANY},
    cost=CostClass.ELEMENTWISE,
    tolerance=APPLIED_REPEATEDLY,
    traits=Trait.COLLECTIVE,
    equal_sizes=all_equal_sizes,
)


@op_by_hand(ALL_REDUCE, _all_reduce_shape, aliases=("all_reduce_tuple",))
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
    return _communicate(
        "all_reduce",
        ALL_REDUCE,
        _all_reduce_shape,
        operand,
        computation,
        replica_groups=replica_groups,
        channel_id=channel_id,
        shape_with_layout=shape_with_layout,
        use_global_device_ids=use_global_device_ids,
    )


_sum_shape = partial(_all_reduce_shape, op="cross_replica_sum")


def _cross_replica_sum_shape(operand: Shape, replica_groups: ReplicaGroups = _ALL) -> Shape:
    scalars = _scalars("cross_replica_sum", operand)
    return _sum_shape(operand, ProgramShape(scalars, scalars[0]), replica_groups)


@op_by_hand(
    ALL_REDUCE,
    _cross_replica_sum_shape,
    cpp_name="CrossReplicaSum",
    section="CrossReplicaSum",
)
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
    source, _ = _operand("cross_replica_sum", operand)
    scalar, _ = _scalars("cross_replica_sum", source)
    return _communicate(
        "cross_replica_sum",
        ALL_REDUCE,
        _sum_shape,
        operand,
        or_ if scalar.element_type is pt.pred else add,
        replica_groups=replica_groups,
        channel_id=None,
        use_global_device_ids=False,
    )


def _all_gather_shape(
    operand: Shape,
    all_gather_dim: int,
    shard_count: int,
    replica_groups: ReplicaGroups = _ALL,
    channel_id: ChannelHandle | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> Shape:
    check = Check("all_gather", operand=operand)
    _count_of_replicas(check, shard_count, "shard_count")
    results = []
    for name, array in _arrays_of(check):
        # StableHLO all_gather (C1)
        check.in_rank(all_gather_dim, array.rank, of=name, name="all_gather_dim")
        sizes = list(array.dimensions)
        if sizes[all_gather_dim] != UNBOUNDED:
            sizes[all_gather_dim] *= shard_count
        results.append(check.result(array.element_type, sizes, array.dynamic_dimensions))
    _sized_groups(check, replica_groups, channel_id, use_global_device_ids, shard_count)
    return _fits_layout(check, _like(operand, results), layout)


ALL_GATHER: Final = define(
    "all_gather",
    "*operands",
    (*_DEVICES, Attribute("all_gather_dim", DIMENSION, "dimensions"), _SHARD_COUNT),
    element_types={"operands": ANY},
    traits=Trait.COLLECTIVE,
    equal_sizes=equal_sizes_except("all_gather_dim"),
)


@op_by_hand(ALL_GATHER, _all_gather_shape, aliases=("all_gather_tuple",))
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
    return _communicate(
        "all_gather",
        ALL_GATHER,
        _all_gather_shape,
        operand,
        all_gather_dim=all_gather_dim,
        shard_count=shard_count,
        replica_groups=replica_groups,
        channel_id=channel_id,
        layout=layout,
        use_global_device_ids=use_global_device_ids,
    )


def _reduce_scatter_shape(
    operand: Shape,
    computation: ProgramShape,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: ReplicaGroups = _ALL,
    channel_id: ChannelHandle | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool = False,
) -> Shape:
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
    return _fits_layout(check, _like(operand, results), layout)


REDUCE_SCATTER: Final = define(
    "reduce_scatter",
    "*operands",
    (
        *_DEVICES,
        Attribute("scatter_dimension", DIMENSION, "dimensions"),
        _SHARD_COUNT,
        _COMPUTATION,
    ),
    element_types={"operands": ANY},
    tolerance=APPLIED_REPEATEDLY,
    traits=Trait.COLLECTIVE,
    equal_sizes=equal_sizes_except("scatter_dimension"),
)


@op_by_hand(REDUCE_SCATTER, _reduce_scatter_shape)
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
    return _communicate(
        "reduce_scatter",
        REDUCE_SCATTER,
        _reduce_scatter_shape,
        operand,
        computation,
        scatter_dimension=scatter_dimension,
        shard_count=shard_count,
        replica_groups=replica_groups,
        channel_id=channel_id,
        layout=layout,
        use_global_device_ids=use_global_device_ids,
    )


# --- Exchange of arrays -------------------------------------------------------------------------


def _all_to_all_shape(
    operand: Shape,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: ReplicaGroups = _ALL,
    layout: Layout | None = None,
    channel_id: ChannelHandle | None = None,
) -> Shape:
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
    return _fits_layout(check, result, layout)


def _all_to_all_attributes(
    result: Shape,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: ReplicaGroups,
    layout: Layout | None,
    channel_id: ChannelHandle | None,
) -> Attributes:
    return {
        "split_dimension": split_dimension,
        "concat_dimension": concat_dimension,
        "split_count": split_count,
        **_all_to_all_tuple_attributes(result, replica_groups, layout, channel_id),
    }


def _all_to_all_equal_sizes(op: SizedOp) -> Pairs:
    split, concatenated = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    changed = [] if split == concatenated else [split, concatenated]
    return pairs(op.operands, op.results[0], changed)


ALL_TO_ALL: Final = define(
    "all_to_all",
    "operand",
    (
        _CHANNEL,
        Attribute("replica_groups", GROUPS, written=_all_participants),
        Group(_constrains_layout),
        Attribute("split_dimension", DIMENSION, "dimensions"),
        Attribute("concat_dimension", INTEGER, None),
        Attribute("split_count", INTEGER, None),
    ),
    element_types={"operand": ANY},
    traits=Trait.COLLECTIVE,
    equal_sizes=_all_to_all_equal_sizes,
)


@op(ALL_TO_ALL, _all_to_all_shape, _all_to_all_attributes, layout=LAYOUT)
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


def _all_to_all_tuple_shape(
    operands: Sequence[Shape],
    replica_groups: ReplicaGroups = _ALL,
    layout: Layout | None = None,
    channel_id: ChannelHandle | None = None,
) -> Shape:
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
    return _fits_layout(check, TupleShape(arrays), layout)


def _all_to_all_tuple_attributes(
    result: Shape,
    replica_groups: ReplicaGroups,
    layout: Layout | None,
    channel_id: ChannelHandle | None,
) -> Attributes:
    participants = _participants(replica_groups, channel_id)
    return {**participants, **_laid_out(result, layout)}


ALL_TO_ALL_TUPLE: Final = define(
    "all_to_all_tuple",
    "*operands",
    _PARTICIPANTS,
    section=BUILDER_H,
    element_types={"operands": ANY},
    hlo="all-to-all",
    stablehlo="stablehlo.all_to_all",
    synonyms=("mhlo.all_to_all",),
    traits=Trait.COLLECTIVE,
    equal_sizes=all_equal_sizes,
)


@op(
    ALL_TO_ALL_TUPLE,
    _all_to_all_tuple_shape,
    _all_to_all_tuple_attributes,
    layout=LAYOUT,
)
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


def _collective_permute_shape(
    operand: Shape,
    source_target_pairs: Sequence[tuple[int, int]],
    channel_id: ChannelHandle | None = None,  # noqa: ARG001 (an argument of the op; affects no shape)
    *,
    op: str = "collective_permute",
    name: str = "operand",
) -> ArrayShape:
    check = Check(op, **{name: operand})
    array = check.array(name)
    fixes = {"source": "use xb.collective_broadcast", "target": "combine the results"}
    for position, (role, use) in enumerate(fixes.items()):
        ids = [pair[position] for pair in source_target_pairs]
        # StableHLO collective_permute (C4), (C2), (C3)
        twice = _unique_ids(check, ids, "source_target_pairs")
        if twice is not None:
            check.fail(
                f"no two source_target_pairs may have the same {role}",
                got=f"{twice} twice in {list(source_target_pairs)}",
                fix=f"send in several steps, or {use}",
            )
    return array


def _permute_attributes(
    source_target_pairs: Sequence[tuple[int, int]], channel_id: ChannelHandle | None
) -> Attributes:
    return {"source_target_pairs": source_target_pairs, "channel_handle": channel_id}


COLLECTIVE_PERMUTE: Final = define(
    "collective_permute",
    "operand",
    (_CHANNEL, Attribute("source_target_pairs", PAIRS)),
    element_types={"operand": ANY},
    traits=Trait.COLLECTIVE,
    equal_sizes=all_equal_sizes,
)


@op(COLLECTIVE_PERMUTE, _collective_permute_shape, _permute_attributes)
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


def _multi_collective_permute_shape(
    operands: Sequence[Shape],
    source_target_pairs: Sequence[tuple[int, int]],
    channel_id: ChannelHandle | None = None,  # noqa: ARG001 (an argument of the op; affects no shape)
) -> TupleShape:
    op = "multi_collective_permute"
    # xla_builder.h: MultiCollectivePermute
    if not operands:
        Check(op).fail("at least one operand is needed", got="none")
    return TupleShape(
        [
            _collective_permute_shape(operand, source_target_pairs, op=op, name=f"operand {i}")
            for i, operand in enumerate(operands)
        ]
    )


@op_by_hand(  # records one op for each operand
    COLLECTIVE_PERMUTE,
    _multi_collective_permute_shape,
    cpp_name="MultiCollectivePermute",
    section=BUILDER_H,
)
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
    pairs = PAIRS.convert(name, "source_target_pairs", source_target_pairs)
    channel = ChannelHandle.of(channel_id, op=name)
    shape = _multi_collective_permute_shape([o.shape for o in ops], pairs)
    attributes = shared_attributes(**_permute_attributes(pairs, channel))
    with rollback_on_error(resolve_builder(name, *ops)):
        results = [record("collective_permute", o.shape, (o,), attributes) for o in ops]
        return record("tuple", shape, tuple(results))


def _collective_broadcast_shape(
    operand: Shape,
    replica_groups: ReplicaGroups,
    channel_id: ChannelHandle | None = None,  # noqa: ARG001 (an argument of the op; affects no shape)
) -> ArrayShape:
    check = Check("collective_broadcast", operand=operand)
    array = check.array("operand")
    groups = _groups(check, replica_groups, one_size=True)
    # StableHLO collective_broadcast: the source is the first process of a group
    if not groups:
        rule = "replica_groups must contain a group, whose first replica is the source"
        check.fail(
            rule, got="none", fix="list the replicas, for instance replica_groups=[[0, 1, 2, 3]]"
        )
    return array


COLLECTIVE_BROADCAST: Final = define(
    "collective_broadcast",
    "operand",
    _PARTICIPANTS,
    section=BUILDER_H,
    element_types={"operand": ANY},
    traits=Trait.COLLECTIVE,
    equal_sizes=all_equal_sizes,
)


@op(COLLECTIVE_BROADCAST, _collective_broadcast_shape, _participants)
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
