"""Ops across replicas; each result is that of one participant."""

from __future__ import annotations

import numpy as np

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.inspection.explaining.elements import (
    Context,
    Numbers,
    Outcome,
    Values,
    drawn,
    join_of,
    joined,
    moved,
)


def _recorded_groups(op: XlaOp) -> tuple[tuple[int, ...], ...]:
    groups: tuple[tuple[int, ...], ...] = op.attributes["replica_groups"].groups
    return groups


def groups_of(op: XlaOp, replicas: int | None, limit: int) -> tuple[tuple[int, ...], ...]:
    """Return the groups of participants of a collective op.

    Raises:
        ShapeInferenceError: `replicas` is not the number of participants that the op's groups or
            its number of shards determine; there are more than `limit`.
    """
    attributes = op.attributes
    pairs = attributes.get("source_target_pairs")
    groups: tuple[tuple[int, ...], ...] = () if pairs is not None else _recorded_groups(op)
    least = 1 + max((n for numbers in (*groups, *(pairs or ())) for n in numbers), default=0)
    shards: int | None = attributes.get("shard_count") or attributes.get("split_count")
    exact = least if groups else shards
    count = replicas
    if count is None:
        count = max(2, least) if exact is None else exact
    elif count != exact and (exact is not None or count < least):
        needed = f"at least {least}" if exact is None else f"{exact}, as the op determines"
        rule = f"replicas must be {needed}"
        raise error_of(ShapeInferenceError, "explain", rule, "omit replicas", got=replicas)
    if count > limit:
        rule = f"a picture has at most {limit} replicas"
        raise error_of(
            ShapeInferenceError,
            "explain",
            rule,
            "explain the op on fewer replicas",
            got=f"{count:,}",
        )
    return groups or (tuple(range(count)),)


def _sources(context: Context, operand: int) -> dict[int, list[Numbers]]:
    """Return for each participant the operands of its group, in the group's order."""
    return {
        member: [context.numbers[other][operand] for other in group]
        for group in context.groups
        for member in group
    }


def _operands(context: Context) -> range:
    return range(len(context.op.operands))


def _in_order(by_participant: list[dict[int, Values]]) -> list[Values]:
    """Return the results in the order of participants, those of all operands together."""
    return [each[member] for member in sorted(by_participant[0]) for each in by_participant]


@drawn("all_gather")
def _all_gather(context: Context) -> Outcome:
    axis = context.attributes["all_gather_dim"]
    results = [
        {
            member: moved(np.concatenate(arrays, axis))
            for member, arrays in _sources(context, operand).items()
        }
        for operand in _operands(context)
    ]
    return Outcome(_in_order(results))


def _reduced(arrays: list[Numbers]) -> Values:
    return joined(arrays[0].shape, lambda index: [(int(array[index]),) for array in arrays])


@drawn("all_reduce")
def _all_reduce(context: Context) -> Outcome:
    results = [
        {member: _reduced(arrays) for member, arrays in _sources(context, operand).items()}
        for operand in _operands(context)
    ]
    return Outcome(_in_order(results), join_of(context.attributes["to_apply"]))


@drawn("reduce_scatter")
def _reduce_scatter(context: Context) -> Outcome:
    axis = context.attributes["scatter_dimension"]
    place = {member: (group, i) for group in context.groups for i, member in enumerate(group)}
    results = []
    for operand in _operands(context):
        parts = {}
        for member, arrays in _sources(context, operand).items():
            group, index = place[member]
            split = [np.split(array, len(group), axis)[index] for array in arrays]
            parts[member] = _reduced(split)
        results.append(parts)
    return Outcome(_in_order(results), join_of(context.attributes["to_apply"]))


@drawn("all_to_all")
def _all_to_all(context: Context) -> Outcome:
    attributes = context.attributes
    split, concat = attributes["split_dimension"], attributes["concat_dimension"]
    place = {member: i for group in context.groups for i, member in enumerate(group)}
    result = {}
    for member, arrays in _sources(context, 0).items():
        parts = [np.split(a, attributes["split_count"], split)[place[member]] for a in arrays]
        result[member] = moved(np.concatenate(parts, concat))
    return Outcome(_in_order([result]))


@drawn("collective_broadcast")
def _collective_broadcast(context: Context) -> Outcome:
    sources = _sources(context, 0)
    return Outcome(_in_order([{member: moved(a[0]) for member, a in sources.items()}]))


@drawn("collective_permute")
def _collective_permute(context: Context) -> Outcome:
    senders = {target: source for source, target in context.attributes["source_target_pairs"]}
    results = []
    for operand in _operands(context):
        parts = {}
        for member in range(len(context.numbers)):
            numbers = context.numbers[senders.get(member, member)][operand]
            if member not in senders:
                context.note("a participant that no pair sends to has zeros")
                numbers = np.full_like(numbers, -1)
            parts[member] = moved(numbers)
        results.append(parts)
    return Outcome(_in_order(results))
