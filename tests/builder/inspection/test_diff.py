"""Diffs of computations: random graphs with one known change."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_graphs import ATTRIBUTES, BINARY, UNARY, Node, another_order, random_nodes, record
from tables import each_row

import builder as xb

SEEDS = range(40)


def counts(diff: xb.ComputationDiff) -> tuple[int, int, int]:
    return len(diff.removed), len(diff.added), len(diff.changed)


def built(record: Callable[[xb.XlaBuilder], Any], name: str = "graph") -> xb.XlaComputation:
    b = xb.XlaBuilder(name)
    record(b)
    return b.build()


# Random graphs.


@each_row("seed", SEEDS)
def test_recording_in_another_order_is_equal(seed: int) -> None:
    nodes = random_nodes(seed, 30)
    one, _ = record(nodes)
    for order in (None, another_order(nodes, seed), another_order(nodes, seed + 1)):
        diff = one.diff(record(nodes, order)[0])
        assert diff.equal, str(diff)
        assert not diff


@each_row("seed", SEEDS)
def test_one_changed_attribute_is_one_changed_op(seed: int) -> None:
    r = random.Random(seed)
    nodes = random_nodes(seed, 30)
    place = r.choice([i for i, node in enumerate(nodes) if node.kind in ATTRIBUTES])
    node = nodes[place]
    other = r.choice([a for a in ATTRIBUTES[node.kind] if a != node.attribute])
    after = [*nodes[:place], node._replace(attribute=other), *nodes[place + 1 :]]
    one, _ = record(nodes)
    two, numbers = record(after, another_order(after, seed))
    diff = one.diff(two)
    assert counts(diff) == (0, 0, 1), str(diff)
    (change,) = diff.changed
    assert (change.before.id, change.after.id) == (place, numbers[place])
    assert {d.what for d in change.differences} <= {
        *("dimensions", "exponent_bits", "mantissa_bits", "iota_dimension", "value")
    }
    assert counts(two.diff(one)) == (0, 0, 1)


@each_row("seed", SEEDS)
def test_one_other_opcode_is_one_changed_op(seed: int) -> None:
    r = random.Random(seed)
    nodes = random_nodes(seed, 30)
    place = r.choice([i for i, node in enumerate(nodes) if node.kind in UNARY + BINARY])
    node = nodes[place]
    others = [k for k in (UNARY if node.kind in UNARY else BINARY) if k != node.kind]
    after = [*nodes[:place], node._replace(kind=r.choice(others)), *nodes[place + 1 :]]
    diff = record(nodes)[0].diff(record(after)[0])
    assert counts(diff) == (0, 0, 1), str(diff)
    assert diff.changed[0].before.id == place
    assert [d.what for d in diff.changed[0].differences] == ["opcode"]


@each_row("seed", SEEDS)
def test_an_inserted_op_is_one_added_op(seed: int) -> None:
    r = random.Random(seed)
    nodes = random_nodes(seed, 30)
    user = r.choice([i for i, node in enumerate(nodes) if node.operands])
    place = r.randrange(len(nodes[user].operands))
    # Insert it between the user and an operand; the ids of later ops increase by one.
    moved = [
        node._replace(operands=tuple(o + (o >= user) for o in node.operands)) for node in nodes
    ]
    operands = list(moved[user].operands)
    between = Node(r.choice(UNARY), (operands[place],))
    operands[place] = user
    after = [
        *moved[:user], between, moved[user]._replace(operands=tuple(operands)), *moved[user + 1 :]
    ]  # fmt: skip
    one, two = record(nodes)[0], record(after)[0]
    assert counts(one.diff(two)) == (0, 1, 0), str(one.diff(two))
    assert counts(two.diff(one)) == (1, 0, 0), str(two.diff(one))


@each_row("seed", SEEDS)
def test_the_order_of_operands_counts(seed: int) -> None:
    nodes = random_nodes(seed, 30)
    places = [i for i, n in enumerate(nodes) if n.kind == "sub" and len(set(n.operands)) == 2]
    for place in places[:3]:
        after = list(nodes)
        after[place] = nodes[place]._replace(operands=nodes[place].operands[::-1])
        assert record(nodes)[0].diff(record(after)[0])


# Relevant differences.


def test_names_and_lines_count_on_request() -> None:
    def one(b: xb.XlaBuilder) -> None:
        xb.neg(b.parameter(xb.f32[2], "x"))

    def two(b: xb.XlaBuilder) -> None:
        xb.neg(b.parameter(xb.f32[2], "input"))

    before, after = built(one, "one"), built(two, "two")
    assert before.diff(after).equal
    diff = before.diff(after, metadata=True)
    differences = {d.what for change in diff.changed for d in change.differences}
    assert differences == {"name", "source"}


def test_shardings_and_frontend_attributes_count() -> None:
    def sharded(sharding: str | None, **attributes: str) -> xb.XlaComputation:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        with b.sharding(sharding), b.frontend_attributes(attributes):
            y = xb.neg(x)
        return b.build(y)

    plain = sharded(None)
    assert plain.diff(sharded(None)).equal
    (change,) = plain.diff(sharded("{replicated}")).changed
    assert [d.what for d in change.differences] == ["sharding"]
    (change,) = plain.diff(sharded(None, key="value")).changed
    assert [d.what for d in change.differences] == ["frontend_attributes"]
    assert "key" in change.differences[0].after


@each_row(
    "one, other, equal",
    [
        (np.float32(0.0), np.float32(-0.0), False),
        (np.float32([np.nan, 1]), np.float32([np.nan, 1]), True),
        (np.zeros((300, 300), np.float32), np.broadcast_to(np.float32(0), (300, 300)), True),
        (np.arange(90_000, dtype=np.int32), np.arange(90_000, dtype=np.int32), True),
        (np.arange(90_000, dtype=np.int32), np.arange(90_000, dtype=np.int32) // 89_999, False),
    ],
)
def test_constants_are_compared_bit_by_bit(one: Any, other: Any, equal: bool) -> None:
    diff = built(lambda b: b.constant(one)).diff(built(lambda b: b.constant(other)))
    assert diff.equal is equal
    if not equal:
        assert [d.what for d in diff.changed[0].differences] == ["value"]


def test_another_shape_changes_the_ops_with_that_shape() -> None:
    def record_(size: int) -> Callable[[xb.XlaBuilder], Any]:
        return lambda b: xb.neg(xb.exp(b.parameter(xb.f32[size])))

    diff = built(record_(2)).diff(built(record_(3)))
    assert counts(diff) == (0, 0, 3)
    assert {str(d) for change in diff.changed for d in change.differences} == {
        "shape: f32[2] -> f32[3]"
    }
    assert [str(d) for d in diff.signature] == ["result: f32[2] -> f32[3]"]


def test_another_root_is_a_difference() -> None:
    def rooted(first: bool) -> xb.XlaComputation:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        y, z = xb.exp(x), xb.sin(x)
        return b.build(y if first else z)

    diff = rooted(True).diff(rooted(False))
    assert not diff.equal
    assert [str(d) for change in diff.changed for d in change.differences] == [
        "root: true -> false",
        "root: false -> true",
    ]


def test_a_value_computed_twice_is_another_graph() -> None:
    def once(b: xb.XlaBuilder) -> None:
        y = xb.exp(b.parameter(xb.f32[2]))
        xb.add(y, y)

    def twice(b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        xb.add(xb.exp(x), xb.exp(x))

    diff = built(once).diff(built(twice))
    assert counts(diff) == (0, 1, 0)
    assert diff.added[0].opcode == "exponential"


def test_layouts_and_aliases_of_the_entry_count() -> None:
    one = built(lambda b: xb.neg(b.parameter("f32[2,3]")))
    other = built(lambda b: xb.neg(b.parameter("f32[2,3]{0,1}")))
    diff = one.diff(other)
    assert [change.before.opcode for change in diff.changed] == ["parameter"]
    b = xb.XlaBuilder()
    xb.neg(b.parameter("f32[2,3]"))
    b.setup_alias((), 0, ())
    assert [d.what for d in one.diff(b.build()).signature] == ["aliases"]


# Applied computations.


def test_differences_in_applied_computations_are_nested() -> None:
    def record_(last: float, reducer: Any) -> Callable[[xb.XlaBuilder], Any]:
        def body(v: xb.XlaOp) -> xb.XlaOp:
            return xb.call(lambda w: xb.exp(w) + last, v)

        return lambda b: xb.call(
            body, xb.reduce(b.parameter(xb.f32[4]), 0.0, reducer, dimensions=[0])
        )

    one = built(record_(1.0, xb.add))
    assert one.diff(built(record_(1.0, xb.add))).equal
    diff = one.diff(built(record_(2.0, xb.max)))
    assert counts(diff) == (0, 0, 2)
    reducer, body = sorted(diff.nested, key=lambda d: d.before.name)
    assert [str(d) for d in reducer.changed[0].differences] == ["opcode: add -> maximum"]
    (inner,) = body.nested
    assert [str(d) for d in inner.changed[0].differences] == ["value: 1 -> 2"]
    data = json.loads(json.dumps(diff.as_dict()))
    assert sorted(len(nested["nested"]) for nested in data["nested"]) == [0, 1]
    assert "value: 1 -> 2" in str(diff)


def test_deeply_nested_computations() -> None:
    def deep(last: float) -> xb.XlaComputation:
        inner: Any = lambda v: v + last  # noqa: E731 - the first of many
        for _ in range(1500):
            b = xb.XlaBuilder("f")
            inner = b.build(xb.call(inner, b.parameter(xb.f32[()])))
        made: xb.XlaComputation = inner
        return made

    diff = deep(1.0).diff(deep(2.0))
    assert "value: 1 -> 2" in str(diff)
    assert diff.as_dict()["nested"][0]["nested"][0]["nested"]
    assert deep(1.0).diff(deep(1.0)).equal


def test_long_chains_without_recursion() -> None:
    def chain(place: int) -> xb.XlaComputation:
        b = xb.XlaBuilder()
        y = b.parameter(xb.f32[2])
        for i in range(5000):
            y = xb.sin(y) if i == place else xb.exp(y)
        return b.build(y)

    diff = chain(2500).diff(chain(10_000))
    assert counts(diff) == (0, 0, 1)


def test_an_op_of_thousands_of_operands() -> None:
    def wide(count: int) -> xb.XlaComputation:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        return b.build(xb.tuple(*[xb.exp(x) if i % 2 else x * x for i in range(count)]))

    diff = wide(3000).diff(wide(2999))
    assert counts(diff) == (1, 0, 1)
    assert max(map(len, str(diff).splitlines())) < 800


# Printing.


def test_lines() -> None:
    one = built(lambda b: xb.neg(xb.exp(b.parameter(xb.f32[2], "x"))), "one")
    two = built(lambda b: xb.neg(xb.tanh(xb.exp(b.parameter(xb.f32[2], "x")))), "two")
    lines = str(one.diff(two)).splitlines()
    assert lines[0] == "one -> two: 0 removed, 1 added, 0 changed"
    assert lines[1].startswith("  + %2 = f32[2] tanh(%1)  # ")
    assert str(two.diff(one)).splitlines()[1].startswith("  - %2 = f32[2] tanh(%1)")
    assert str(one.diff(one)) == "one: equal"
    assert "&gt;" in one.diff(two)._repr_html_()


def test_other_types_are_refused() -> None:
    one = built(lambda b: b.parameter(xb.f32[2]))
    with pytest.raises(xb.OperandError, match="diff: other must be an XlaComputation, got str"):
        one.diff("two")  # type: ignore[arg-type]
    with pytest.raises(xb.ShapeInferenceError, match="diff: metadata must be True or False"):
        one.diff(one, metadata="yes")  # type: ignore[arg-type]


def test_other_ops_on_the_same_operands_are_not_paired() -> None:
    before = built(lambda b: b.parameter(xb.f32[2], "x") + b.constant(np.float32([1, 2])))
    after = built(lambda b: b.parameter(xb.s32[2], "x") * b.constant(np.int32([3, 4])))
    diff = before.diff(after)
    assert not diff.equal
    assert counts(diff) == (3, 3, 0)
