"""Operations across devices: shapes, recorded ops, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.ops import shape_inference as infer

FOUR = [[0, 1, 2, 3]]


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[8, 6], "x")


SHAPES: dict[str, tuple[Callable[[xb.XlaOp], xb.XlaOp], str]] = {
    "all_reduce": (lambda x: xb.all_reduce(x, xb.add), "f32[8,6]"),
    "all_reduce of groups": (lambda x: xb.all_reduce(x, xb.max, [[0, 2], [1, 3]]), "f32[8,6]"),
    "all_reduce of unequal groups": (lambda x: xb.all_reduce(x, xb.add, [[0, 2], [1]]), "f32[8,6]"),
    "all_reduce of a tuple": (
        lambda x: xb.all_reduce(xb.tuple(x, xb.slice_in_dim(x, 0, 2, 1, 0)), xb.add),
        "(f32[8,6], f32[2,6])",
    ),
    "all_reduce of a tuple of one": (
        lambda x: xb.all_reduce(xb.tuple(x), xb.add),
        "(f32[8,6])",
    ),
    "all_reduce of several": (lambda x: xb.all_reduce([x, x], xb.add), "(f32[8,6], f32[8,6])"),
    "all_reduce of one in a list": (lambda x: xb.all_reduce([x], xb.add), "(f32[8,6])"),
    "cross_replica_sum": (lambda x: xb.cross_replica_sum(x), "f32[8,6]"),
    "cross_replica_sum of preds": (lambda x: xb.cross_replica_sum(x < x, [[0, 1]]), "pred[8,6]"),
    "cross_replica_sum of a tuple": (
        lambda x: xb.cross_replica_sum(xb.tuple(x, x)),
        "(f32[8,6], f32[8,6])",
    ),
    "all_gather": (lambda x: xb.all_gather(x, 0, 4), "f32[32,6]"),
    "all_gather of groups": (lambda x: xb.all_gather(x, 1, 2, [[0, 2], [3, 1]]), "f32[8,12]"),
    "all_gather of a tuple": (
        lambda x: xb.all_gather(xb.tuple(x, xb.convert(x, xb.s32)), 1, 4, FOUR),
        "(f32[8,24], s32[8,24])",
    ),
    "all_gather of several": (lambda x: xb.all_gather([x, x], 0, 2), "(f32[16,6], f32[16,6])"),
    "all_gather of partitions": (lambda x: xb.all_gather(x, 0, 8, [[0, 1]], 5), "f32[64,6]"),
    "reduce_scatter": (lambda x: xb.reduce_scatter(x, xb.add, 0, 4), "f32[2,6]"),
    "reduce_scatter of groups": (
        lambda x: xb.reduce_scatter(x, xb.min, 1, 2, [[0, 2], [3, 1]]),
        "f32[8,3]",
    ),
    "reduce_scatter of a tuple": (
        lambda x: xb.reduce_scatter(xb.tuple(x, x), xb.add, 0, 8),
        "(f32[1,6], f32[1,6])",
    ),
    "all_to_all": (lambda x: xb.all_to_all(x, 0, 1, 2), "f32[4,12]"),
    "all_to_all along one dimension": (lambda x: xb.all_to_all(x, 0, 0, 4, FOUR), "f32[8,6]"),
    "all_to_all_tuple": (lambda x: xb.all_to_all_tuple([x, x]), "(f32[8,6], f32[8,6])"),
    "collective_permute": (lambda x: xb.collective_permute(x, [(0, 1), (1, 0)]), "f32[8,6]"),
    "collective_permute without pairs": (lambda x: xb.collective_permute(x, []), "f32[8,6]"),
    "multi_collective_permute": (
        lambda x: xb.multi_collective_permute([x, x < x], [(0, 1)]),
        "(f32[8,6], pred[8,6])",
    ),
    "collective_broadcast": (lambda x: xb.collective_broadcast(x, [[1, 0]]), "f32[8,6]"),
    "replica_id": (lambda x: x.builder.replica_id(), "u32[]"),
    "partition_id": (lambda x: x.builder.partition_id(), "u32[]"),
}


@each_row("name", SHAPES)
def test_shape(x: xb.XlaOp, name: str) -> None:
    call, shape = SHAPES[name]
    assert str(call(x).shape) == shape


@each_row(
    "operand, call, shape",
    [
        ("f32[<=4,6]", lambda x: xb.all_reduce(x, xb.add), "f32[<=4,6]"),
        ("f32[<=4,6]", lambda x: xb.all_gather(x, 0, 2), "f32[<=8,6]"),
        ("f32[<=4,6]", lambda x: xb.all_gather(x, 1, 2), "f32[<=4,12]"),
        ("f32[?,6]", lambda x: xb.all_gather(x, 0, 2), "f32[?,6]"),
        ("f32[<=4,6]", lambda x: xb.reduce_scatter(x, xb.add, 1, 2), "f32[<=4,3]"),
        ("f32[<=4,6]", lambda x: xb.reduce_scatter(x, xb.add, 0, 2), "f32[?,6]"),
        ("f32[?,6]", lambda x: xb.reduce_scatter(x, xb.add, 0, 3), "f32[?,6]"),
        ("f32[?,6]", lambda x: xb.all_to_all(x, 0, 1, 3), "f32[?,18]"),
        ("f32[?,6]", lambda x: xb.all_to_all(x, 1, 0, 3), "f32[?,2]"),
        ("f32[<=4,6]", lambda x: xb.collective_permute(x, [(0, 1)]), "f32[<=4,6]"),
        ("f32[?]", lambda x: xb.collective_broadcast(x, [[0, 1]]), "f32[?]"),
        ("f32[<=3]", lambda x: xb.all_to_all_tuple([x, x]), "(f32[<=3], f32[<=3])"),
        ("f32[0,6]", lambda x: xb.all_gather(x, 0, 4), "f32[0,6]"),
        ("f32[0,6]", lambda x: xb.reduce_scatter(x, xb.add, 0, 4), "f32[0,6]"),
        ("f32[0,6]", lambda x: xb.all_to_all(x, 0, 1, 4), "f32[0,24]"),
    ],
)
def test_dynamic_and_empty_sizes(operand: str, call: Any, shape: str) -> None:
    assert str(call(xb.XlaBuilder().parameter(operand)).shape) == shape


def test_recorded_op(x: xb.XlaOp) -> None:
    op = xb.all_reduce(x, xb.add, [[0, 2], [1, 3]], 7, None, True)
    assert op.opcode == "all_reduce"
    assert op.operands == (x,)
    assert op.attributes["replica_groups"] == xb.ReplicaGroups([[0, 2], [1, 3]])
    assert op.attributes["channel_handle"] == xb.ChannelHandle(7, xb.ChannelType.DEVICE_TO_DEVICE)
    assert op.attributes["use_global_device_ids"] is True
    gathered = xb.all_gather(x, 1, 2, xb.ReplicaGroups([[1, 0]]), xb.ChannelHandle(3))
    assert gathered.opcode == "all_gather"
    assert (gathered.attributes["all_gather_dim"], gathered.attributes["shard_count"]) == (1, 2)
    again = xb.all_gather(x, 1, 2, [[1, 0]], 3)
    assert again.attributes is gathered.attributes
    scattered = xb.reduce_scatter(x, xb.add, 0, 4)
    assert scattered.opcode == "reduce_scatter"
    assert scattered.attributes["scatter_dimension"] == 0
    exchanged = xb.all_to_all(x, 0, 1, 2, channel_id=9)
    assert exchanged.opcode == "all_to_all"
    assert exchanged.attributes["channel_handle"].handle == 9
    assert xb.all_to_all_tuple([x, x]).opcode == "all_to_all_tuple"
    sent = xb.collective_permute(x, [[0, 1]])
    assert sent.attributes["source_target_pairs"] == ((0, 1),)
    assert xb.collective_broadcast(x, [[0]]).opcode == "collective_broadcast"
    assert [x.builder.replica_id().opcode, x.builder.partition_id().opcode] == [
        "replica_id",
        "partition_id",
    ]


def test_a_tuple_becomes_its_elements(x: xb.XlaOp) -> None:
    pair = xb.tuple(x, x)
    op = xb.all_reduce(pair, xb.add)
    assert [o.opcode for o in op.operands] == ["get_tuple_element"] * 2
    several = xb.all_reduce([x, x], xb.add)
    assert several.operands == (x, x)
    one = xb.cross_replica_sum(xb.tuple(x))
    assert (one.opcode, one.operands[0].opcode) == ("tuple", "all_reduce")


def test_sums_of_preds_are_or(x: xb.XlaOp) -> None:
    computation = xb.cross_replica_sum(x < x).attributes["to_apply"]
    assert computation.root.opcode == "or"
    assert xb.cross_replica_sum(x).attributes["to_apply"].root.opcode == "add"


def test_layouts_are_in_the_hlo_text(x: xb.XlaOp) -> None:
    b = x.builder
    root = xb.tuple(
        xb.all_reduce(x, xb.add, shape_with_layout="f32[8,6]{0,1}"),
        xb.all_reduce([x, x], xb.add, shape_with_layout="(f32[8,6]{0,1}, f32[8,6]{1,0})"),
        xb.all_reduce([x], xb.add, shape_with_layout=["f32[8,6]{0,1}"]),
        xb.all_gather(x, 0, 2, layout=xb.Layout([0, 1])),
        xb.all_gather([x, x], 0, 2, layout=[0, 1]),
        xb.reduce_scatter(x, xb.add, 0, 2, layout=[0, 1]),
        xb.all_to_all(x, 0, 0, 2, layout=[0, 1]),
        xb.all_to_all_tuple([x, x], layout=[0, 1]),
    )
    lines = str(b.build(root)).splitlines()
    constrained = [line for line in lines if "constrain_layout=true" in line]
    assert len(constrained) == 8
    assert all("{0,1}" in line.partition(" = ")[2].partition("(%")[0] for line in constrained)


def test_a_channel_by_its_number_and_type() -> None:
    assert xb.ChannelHandle(2, xb.ChannelType.DEVICE_TO_HOST).type == 2
    for handle in (0, -1):
        with pytest.raises(xb.ShapeInferenceError, match=r"must be 1 or more, got (0|-1)"):
            xb.ChannelHandle(handle)
    kind: Any
    for kind in (9, "x", None, True, np.array([1, 2])):
        with pytest.raises(xb.ShapeInferenceError, match="type must be one of DEVICE_TO_DEVICE"):
            xb.ChannelHandle(1, kind)


REFUSED: dict[str, tuple[Callable[[xb.XlaOp], Any], str]] = {
    # Groups
    "negative id": (
        lambda x: xb.all_reduce(x, xb.add, [[0, -1]]),
        ("all_reduce: the ids in replica_groups must not be negative, got -1\n  operand f32[8,6]"),
    ),
    "empty group": (
        lambda x: xb.all_reduce(x, xb.add, [[0], []]),
        "all_reduce: replica_groups must not contain an empty group, got [[0], []]\n",
    ),
    "id twice": (
        lambda x: xb.all_reduce(x, xb.add, [[0, 1], [1, 2]]),
        (
            "all_reduce: replica_groups must contain each replica once, got 1 twice in [[0, 1], "
            "[1, 2]]\n"
        ),
    ),
    "id missing": (
        lambda x: xb.cross_replica_sum(x, [[0, 1], [3]]),
        (
            "cross_replica_sum: replica_groups must contain every replica from 0 to 3; 2 is "
            "missing, got [[0, 1], [3]]\n"
            "  operand f32[8,6]\n"
            "fix: add each missing replica to a group, or to one of its own: [2]"
        ),
    ),
    "ids missing": (
        lambda x: xb.all_reduce(x, xb.add, [[1, 9], [3]]),
        (
            "all_reduce: replica_groups must contain every replica from 0 to 9; 0, 2, 4, 5, ... "
            "are missing, got [[1, 9], [3]]\n"
            "  operand f32[8,6]\n"
            "fix: add each missing replica to a group, or to one of its own: [0], [2], [4], [5], "
            "..."
        ),
    ),
    "groups of several sizes, gathered": (
        lambda x: xb.all_gather(x, 0, 2, [[0, 1], [2]]),
        "all_gather: all replica_groups must have the same size, got [[0, 1], [2]]\n",
    ),
    "groups of several sizes, scattered": (
        lambda x: xb.reduce_scatter(x, xb.add, 0, 2, [[0, 1], [2]]),
        "reduce_scatter: all replica_groups must have the same size, got [[0, 1], [2]]\n",
    ),
    "groups of several sizes, exchanged": (
        lambda x: xb.all_to_all(x, 0, 0, 2, [[0, 1], [2]]),
        "all_to_all: all replica_groups must have the same size, got [[0, 1], [2]]\n",
    ),
    "groups of several sizes, broadcast": (
        lambda x: xb.collective_broadcast(x, [[0, 1], [2]]),
        "collective_broadcast: all replica_groups must have the same size, got [[0, 1], [2]]\n",
    ),
    "not groups": (
        lambda x: xb.all_reduce(x, xb.add, [0, 1]),
        (
            "all_reduce: replica_groups must be a sequence of groups, which are sequences of "
            "integers, got [0, 1]\nfix: write [[0, 1]] for one group of these ids, or [] for "
        ),
    ),
    "groups of something else": (
        lambda x: xb.all_gather(x, 0, 2, [["a", "b"]]),
        "all_gather: each entry of a group must be an integer, got 'a'",
    ),
    "groups as a number": (
        lambda x: xb.all_to_all(x, 0, 0, 2, 5),
        "all_to_all: replica_groups must be a sequence of groups",
    ),
    "not a channel": (
        lambda x: xb.all_reduce(x, xb.add, channel_id="one"),
        "all_reduce: channel_id must be an integer, got 'one'",
    ),
    "channel 0": (
        lambda x: xb.collective_permute(x, [(0, 1)], channel_id=0),
        "collective_permute: channel_id must be 1 or more, got 0",
    ),
    "global ids that are not a bool": (
        lambda x: xb.all_reduce(x, xb.add, use_global_device_ids=3),
        "all_reduce: use_global_device_ids must be True or False, got 3",
    ),
    # AllReduce
    "element types": (
        lambda x: xb.all_reduce([x, x < x], xb.add),
        (
            "all_reduce: the arrays of a tuple must have one element type, got f32 and pred\n"
            "  operand (f32[8,6], pred[8,6])\n"
            "fix: use one all_reduce for each element type"
        ),
    ),
    "empty tuple": (
        lambda x: xb.all_reduce(x.builder.empty_tuple(), xb.add),
        (
            "all_reduce: operand must be an array or a tuple of at least one array, "
            "got an empty tuple\n"
        ),
    ),
    "no operand": (
        lambda x: xb.all_reduce([], xb.add),
        (
            "all_reduce: operand must be an array or a tuple of at least one array, "
            "got an empty tuple\n"
        ),
    ),
    "nested tuple": (
        lambda x: xb.cross_replica_sum(xb.tuple(x, xb.tuple(x))),
        "cross_replica_sum: operand must be an array or a tuple of arrays, got a tuple as elem",
    ),
    "nested tuple first": (
        lambda x: xb.cross_replica_sum(xb.tuple(xb.tuple(x), x)),
        "cross_replica_sum: operand must be an array or a tuple of arrays, got a tuple as elem",
    ),
    "token": (
        lambda x: xb.all_reduce(x.builder.parameter(xb.TOKEN_SHAPE), xb.add),
        "all_reduce: operand must be an array, got a token\n",
    ),
    "reducer": (
        lambda x: xb.all_reduce(x, xb.lt),
        (
            "all_reduce: computation must be of signature (f32[], f32[]) -> f32[] "
            "(accumulated, value), got (p0: f32[], p1: f32[]) -> pred[]\n"
        ),
    ),
    "reducer of another type": (
        lambda x: xb.reduce_scatter(x, of_integers, 0, 2),
        (
            "reduce_scatter: computation must be of signature (f32[], f32[]) -> f32[] "
            "(accumulated, value), got (a: s32[], b: s32[]) -> s32[]\n"
        ),
    ),
    "not a reducer": (
        lambda x: xb.all_reduce(x, 5),
        "all_reduce: computation must be an XlaComputation or a callable, got 5",
    ),
    "layout of another shape": (
        lambda x: xb.all_reduce(x, xb.add, shape_with_layout="f32[8]{0}"),
        "all_reduce: shape_with_layout must be the operand's shape, f32[8,6], got f32[8]{0}\n",
    ),
    "shape without layout": (
        lambda x: xb.all_reduce(x, xb.add, shape_with_layout=xb.f32[8, 6]),
        "all_reduce: each array of shape_with_layout must have a layout, got f32[8,6]\n",
    ),
    # AllGather
    "gathered dimension": (
        lambda x: xb.all_gather(x, 2, 2),
        "all_gather: all_gather_dim must be a dimension of operand (0 to 1), got 2\n",
    ),
    "gathered dimension of a tuple": (
        lambda x: xb.all_gather([x, x.builder.constant(1.0, xb.f32)], 0, 2),
        (
            "all_gather: all_gather_dim must be a dimension of element 1 of operand "
            "(it has none), got 0\n"
        ),
    ),
    "shard_count 0": (
        lambda x: xb.all_gather(x, 0, 0),
        "all_gather: shard_count must be 1 or more, got 0\n",
    ),
    "shard_count of groups": (
        lambda x: xb.all_gather(x, 0, 4, [[0, 1], [2, 3]]),
        "all_gather: shard_count must be the size of the replica_groups, 2, got 4\n",
    ),
    "shard_count of partitions": (
        lambda x: xb.all_gather(x, 0, 3, [[0, 1]], channel_id=1),
        "all_gather: shard_count must be the size of the replica_groups, 2, got 3\n",
    ),
    "too large": (
        lambda x: xb.all_gather(x.builder.parameter("f32[0,8796093022208]"), 0, 2**20 + 1),
        "all_gather: shard_count must be at most 1048576, got 1048577\n",
    ),
    "result too large": (
        lambda x: xb.all_gather(x.builder.parameter("f32[1,8796093022208]"), 0, 2**20),
        "all_gather: the result f32[1048576,8796093022208] would have more than 2**63 - 1",
    ),
    "split count too large": (
        lambda x: xb.all_to_all(x.builder.parameter("f32[0,4]"), 0, 1, 2**32),
        "all_to_all: split_count must be at most 1048576, got 4294967296\n",
    ),
    "a tuple for groups": (
        lambda x: xb.all_to_all(x, 0, 0, 4, xb.tuple(x, x)),
        "all_to_all: replica_groups must be a sequence of groups, which are sequences of",
    ),
    "a tuple for a layout": (
        lambda x: xb.all_gather(x, 0, 2, layout=xb.tuple(x, x)),
        "all_gather: minor_to_major must be a sequence of dimension numbers, got <XlaOp",
    ),
    "an array of rank 0 for groups": (
        lambda x: xb.all_reduce(x, xb.add, np.array(3)),
        "all_reduce: replica_groups must be a sequence of groups",
    ),
    "endless groups": (
        lambda x: xb.all_reduce(x, xb.add, itertools.count()),
        "all_reduce: replica_groups must be a sequence of groups",
    ),
    "an array of rank 0 for pairs": (
        lambda x: xb.collective_permute(x, np.array(3)),
        "collective_permute: source_target_pairs must be a sequence of pairs (source, target), ",
    ),
    "layout of another rank": (
        lambda x: xb.all_gather(x, 0, 2, layout=[0]),
        "all_gather: layout must order the 2 dimensions of the result, got {0}\n",
    ),
    "not a layout": (
        lambda x: xb.all_gather(x, 0, 2, layout=[3]),
        "all_gather: minor_to_major must be a permutation of the dimensions 0 to 0, got {3}",
    ),
    # ReduceScatter
    "scattered dimension": (
        lambda x: xb.reduce_scatter(x, xb.add, -1, 2),
        "reduce_scatter: scatter_dimension must be a dimension of operand (0 to 1), got -1\n",
    ),
    "scattered size": (
        lambda x: xb.reduce_scatter(x, xb.add, 1, 4),
        (
            "reduce_scatter: the size of operand along scatter_dimension must be divisible by "
            "shard_count 4, got 6\n"
        ),
    ),
    "scattered count": (
        lambda x: xb.reduce_scatter(x, xb.add, 0, -2),
        "reduce_scatter: shard_count must be 1 or more, got -2\n",
    ),
    "scattered count of groups": (
        lambda x: xb.reduce_scatter(x, xb.add, 0, 4, [[0, 1]]),
        "reduce_scatter: shard_count must be the size of the replica_groups, 2, got 4\n",
    ),
    "scattered element types": (
        lambda x: xb.reduce_scatter([x, x < x], xb.add, 0, 2),
        "reduce_scatter: the arrays of a tuple must have one element type, got f32 and pred\n",
    ),
    "scattered empty tuple": (
        lambda x: xb.reduce_scatter([], xb.add, 0, 2),
        "reduce_scatter: operand must be an array or a tuple of at least one array, got an empty",
    ),
    # AllToAll
    "split dimension": (
        lambda x: xb.all_to_all(x, 2, 0, 2),
        "all_to_all: split_dimension must be a dimension of operand (0 to 1), got 2\n",
    ),
    "concat dimension": (
        lambda x: xb.all_to_all(x, 0, -1, 2),
        "all_to_all: concat_dimension must be a dimension of operand (0 to 1), got -1\n",
    ),
    "split size": (
        lambda x: xb.all_to_all(x, 1, 0, 4),
        (
            "all_to_all: the size of operand along split_dimension must be divisible by "
            "split_count 4, got 6\n"
        ),
    ),
    "split count": (
        lambda x: xb.all_to_all(x, 0, 0, 0),
        "all_to_all: split_count must be 1 or more, got 0\n",
    ),
    "split count of groups": (
        lambda x: xb.all_to_all(x, 0, 0, 4, [[0, 1]]),
        "all_to_all: split_count must be the size of the replica_groups, 2, got 4\n",
    ),
    "split count of groups of partitions": (
        lambda x: xb.all_to_all(x, 0, 0, 4, [[0, 1]], channel_id=1),
        "all_to_all: split_count must be the size of the replica_groups, 2, got 4\n",
    ),
    "exchanged tuple": (
        lambda x: xb.all_to_all(xb.tuple(x), 0, 0, 2),
        "all_to_all: operand must be an array, got a tuple\n",
    ),
    "exchanged list": (
        lambda x: xb.all_to_all([x], 0, 0, 2),
        "all_to_all: operand must be an XlaOp, got list",
    ),
    "exchanged bounded": (
        lambda x: xb.all_to_all(x.builder.parameter("f32[<=4,6]"), 1, 1, 2),
        "all_to_all: operand must not have dynamic sizes with a bound, got\n",
    ),
    "several of several shapes": (
        lambda x: xb.all_to_all_tuple([x, x < x]),
        (
            "all_to_all_tuple: operands must have the same shape; operand 1 differs from operand "
            "0, got\n"
        ),
    ),
    "several for one": (
        lambda x: xb.all_to_all_tuple([x, x], [[0], [1]]),
        (
            "all_to_all_tuple: the number of operands must be the size of the "
            "replica_groups, 1, got 2\n"
        ),
    ),
    "several of none": (
        lambda x: xb.all_to_all_tuple([]),
        "all_to_all_tuple: at least one operand is needed, got none",
    ),
    "several unbounded": (
        lambda x: xb.all_to_all_tuple([x.builder.parameter("f32[?]")]),
        "all_to_all_tuple: operand 0 must not have sizes without a bound, got\n",
    ),
    # CollectivePermute
    "source twice": (
        lambda x: xb.collective_permute(x, [(0, 1), (0, 2)]),
        (
            "collective_permute: no two source_target_pairs may have the same source, got 0 "
            "twice in [(0, 1), (0, 2)]\n"
        ),
    ),
    "target twice": (
        lambda x: xb.collective_permute(x, [(0, 1), (2, 1)]),
        (
            "collective_permute: no two source_target_pairs may have the same target, got 1 "
            "twice in [(0, 1), (2, 1)]\n"
        ),
    ),
    "negative source": (
        lambda x: xb.collective_permute(x, [(-1, 1)]),
        "collective_permute: the ids in source_target_pairs must not be negative, got -1\n",
    ),
    "no pairs": (
        lambda x: xb.collective_permute(x, [1, 2]),
        (
            "collective_permute: source_target_pairs must be a sequence of pairs (source, "
            "target), got [1, 2]\nfix: write for instance [(0, 1), (1, 0)]"
        ),
    ),
    "triples": (
        lambda x: xb.collective_permute(x, [(1, 2, 3)]),
        "collective_permute: source_target_pairs must be a sequence of pairs",
    ),
    "sent tuple": (
        lambda x: xb.collective_permute(xb.tuple(x), [(0, 1)]),
        "collective_permute: operand must be an array, got a tuple\n",
    ),
    "sent none": (
        lambda x: xb.multi_collective_permute([], [(0, 1)]),
        "multi_collective_permute: at least one operand is needed, got none",
    ),
    "sent several, a tuple": (
        lambda x: xb.multi_collective_permute([x, xb.tuple(x)], [(0, 1)]),
        "multi_collective_permute: operand 1 must be an array, got a tuple\n",
    ),
    "sent several from one": (
        lambda x: xb.multi_collective_permute([x, x], [(0, 1), (0, 2)]),
        "multi_collective_permute: no two source_target_pairs may have the same source",
    ),
    # CollectiveBroadcast
    "no group": (
        lambda x: xb.collective_broadcast(x, []),
        (
            "collective_broadcast: replica_groups must contain a group, whose first replica is the "
            "source"
        ),
    ),
    "broadcast tuple": (
        lambda x: xb.collective_broadcast(xb.tuple(x), [[0]]),
        "collective_broadcast: operand must be an array, got a tuple\n",
    ),
}


@xb.computation(xb.s32[()], xb.s32[()])
def of_integers(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return a + b


@each_row("name", REFUSED)
def test_refused(x: xb.XlaOp, name: str) -> None:
    call, message = REFUSED[name]
    before = len(x.builder.ops)
    with pytest.raises(xb.XlaError) as caught:
        call(x)
    assert str(caught.value).startswith(message)
    assert caught.value.op == message.partition(":")[0]
    # Ops recorded by the call are removed; ops recorded by its arguments stay.
    collective = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_tuple"}
    assert not collective & {op.opcode for op in x.builder.ops[before:]}


def test_a_built_builder_is_refused(x: xb.XlaOp) -> None:
    b = x.builder
    b.build()
    for call in (b.replica_id, b.partition_id):
        with pytest.raises(xb.BuilderError, match="was already built"):
            call()
    with pytest.raises(xb.BuilderError, match="already built"):
        xb.all_reduce(xb.tuple(x), xb.add)


def test_inference_without_a_builder() -> None:
    scalar = xb.f32[()]
    add = xb.ProgramShape([scalar, scalar], scalar)
    assert infer.all_reduce(xb.f32[3], add, FOUR) is xb.f32[3]
    assert infer.all_gather(xb.f32[3], 0, 2) is xb.f32[6]
    assert infer.reduce_scatter(xb.f32[6], add, 0, 2, [[1, 0]]) is xb.f32[3]
    assert infer.all_to_all(xb.f32[6, 2], 0, 1, 3) is xb.f32[2, 6]
    assert infer.collective_permute(xb.pred[2], [(0, 1)]) is xb.pred[2]
    assert infer.collective_broadcast(xb.pred[2], [[0, 1]]) is xb.pred[2]
    assert infer.replica_id() is infer.partition_id() is xb.u32[()]
    with pytest.raises(xb.ShapeInferenceError, match="channel_id must be 1 or more"):
        infer.all_reduce(xb.f32[3], add, (), -4)


def test_enclosing_values_are_captured(x: xb.XlaOp) -> None:
    b = x.builder
    i = b.constant(0, xb.s32)

    def body(state: xb.XlaOp) -> Any:
        count, total = state
        return count + 1, xb.all_reduce(total + x, xb.add, [[0, 1]])

    looped = xb.while_(lambda s: s[0] < 3, body, [i, x])
    assert str(looped.shape).startswith("(s32[], f32[8,6]")
    assert "replica_groups={{0,1}}" in str(b.build(looped))


def test_channels_by_the_names_of_their_types() -> None:
    for kind in ("HOST_TO_DEVICE", 3, np.int64(3), xb.ChannelType.HOST_TO_DEVICE):
        assert xb.ChannelHandle(1, kind).type is xb.ChannelType.HOST_TO_DEVICE  # type: ignore[arg-type]
    for wrong in (4, True, "host", None, 1.0):
        with pytest.raises(
            xb.ShapeInferenceError, match="ChannelHandle: type must be one of DEVICE_"
        ):
            xb.ChannelHandle(1, wrong)  # type: ignore[arg-type]
