"""Values used outside of their computation: errors name the value, its line and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

import builder as xb

FILE = __file__


class Values:
    """A builder with a vector, a scalar and a constant.

    Attributes:
        line: the line that records the scalar.
    """

    def __init__(self) -> None:
        self.b = xb.XlaBuilder("main")
        self.x = self.b.parameter(xb.f32[3], "x")
        self.s = self.b.parameter(xb.f32[()], "s")
        self.line = self.s.source.line if self.s.source else 0
        self.two = self.b.constant(2.0, xb.f32)


@pytest.fixture
def v() -> Values:
    return Values()


ONLY_ARGUMENTS = "use only the callable's arguments and numbers, and use the value before or after "

CAPTURES: dict[str, tuple[Callable[[Values], Any], str, str]] = {
    "reduce": (
        lambda v: xb.reduce(v.x, 0.0, lambda p, q: p + q * v.s, [0]),
        "mul: the computation of reduce",
        ONLY_ARGUMENTS + "reduce;",
    ),
    "on the left": (
        lambda v: xb.reduce(v.x, 0.0, lambda p, q: v.s * p + q, [0]),
        "mul: the computation of reduce",
        ONLY_ARGUMENTS + "reduce;",
    ),
    "reduce_window": (
        lambda v: xb.reduce_window(v.x, 0.0, lambda p, q: p + q * v.s, [2], [1], "valid"),
        "mul: the computation of reduce_window",
        ONLY_ARGUMENTS + "reduce_window;",
    ),
    "map": (
        lambda v: xb.map([v.x], lambda p: p * v.s),
        "mul: the computation of map",
        "pass the value to map as another operand",
    ),
    "returned by map": (
        lambda v: xb.map([v.x], lambda p: v.s),
        "map: the computation of map",
        "pass the value to map as another operand",
    ),
    "sort": (
        lambda v: xb.sort([v.x], lambda p, q: xb.lt(p * v.s, q), 0),
        "mul: the comparator of sort",
        "compute the keys from the value before the sort",
    ),
    "reusable function": (
        lambda v: xb.computation(lambda p: p * v.s)(v.x),
        "mul: 'function', a function of @xb.computation,",
        "pass the value to the function as an argument; only undecorated functions",
    ),
    "decorated computation": (
        lambda v: xb.computation(xb.f32[()])(lambda p: p * v.s),
        "mul: the function of computation",
        "pass the value to the function as an argument",
    ),
    "loop in a map": (
        lambda v: xb.map([v.x], lambda p: xb.while_(lambda q: q < v.s, lambda q: q + 1.0, p)),
        "lt: the computation of map",
        "pass the value to map as another operand",
    ),
    "map in a loop": (
        lambda v: xb.while_(
            lambda q: xb.reduce(q, 0.0, xb.add, [0]) < 9.0,
            lambda q: xb.map([q], lambda p: p * v.s),
            v.x,
        ),
        "mul: the computation of map",
        "pass the value to map as another operand",
    ),
}


@each_row("case", CAPTURES)
def test_a_captured_value(v: Values, case: str) -> None:
    use, start, fix = CAPTURES[case]
    count = len(v.b.ops)
    with pytest.raises(xb.BuilderError) as caught:
        use(v)
    rule, value, fix_line = str(caught.value).split("\n")[:3]
    assert rule == f"{start} can't use values of another computation, got"
    assert value == f"  {v.s!r}, recorded at {FILE}:{v.line}, in 'main'"
    assert fix_line.startswith(f"fix: {fix}")
    assert caught.value.shapes == {"value": xb.f32[()]}
    assert len(v.b.ops) == count


def test_a_captured_constant(v: Values) -> None:
    with pytest.raises(xb.BuilderError, match=r"\nfix: write the number 2.0 in the callable"):
        xb.map([v.x], lambda p: p * v.two)


def test_a_value_computed_in_the_callable_is_not_blamed_on_an_argument(v: Values) -> None:
    with pytest.raises(xb.BuilderError) as caught:
        xb.map([v.x], lambda p: p + v.s * v.s)
    assert "<XlaOp %3 = f32[] multiply(%1, %1)>" in str(caught.value)


def test_a_value_of_an_unrelated_builder_in_a_body(v: Values) -> None:
    other = xb.XlaBuilder("other").parameter(xb.f32[3], "y")
    with pytest.raises(xb.BuilderError) as caught:
        xb.call(lambda p: p * other, v.x)
    assert "operands belong to different builders" in str(caught.value)
    assert f"operand 1 of builder 'other': {other!r}, recorded at {FILE}:" in str(caught.value)
    with pytest.raises(xb.BuilderError, match="the result belongs to builder 'other'"):
        xb.call(lambda p: other, v.x)


def keep(values: list[xb.XlaOp], value: xb.XlaOp) -> xb.XlaOp:
    """Append `value` to the list, and return it."""
    values.append(value)
    return value


Leak = Callable[[Values, list[xb.XlaOp]], Any]

LEAKS: dict[str, tuple[Leak, str, str]] = {
    "body": (
        lambda v, kept: xb.while_(lambda q: q < 3.0, lambda q: keep(kept, q + 1.0), v.s),
        "the body of while_",
        "return the value from the body as an element of the state, and use that element of",
    ),
    "condition": (
        lambda v, kept: xb.while_(lambda q: keep(kept, q) < 3.0, lambda q: q + 1.0, v.s),
        "the condition of while_",
        "compute the value in the body, and return it from the body as an element of the state",
    ),
    "scan": (
        lambda v, kept: xb.scan(v.x, v.s, lambda e, c: (keep(kept, e), c), 0),
        "the computation of scan",
        "return the value from the computation as an output or a carry",
    ),
    "branch": (
        lambda v, kept: xb.conditional(v.s < 3.0, v.s, xb.neg, v.s, lambda q: keep(kept, q)),
        "branch 1 of conditional",
        "return the value from each branch, and use the result of conditional",
    ),
    "call": (
        lambda v, kept: xb.call(lambda q: keep(kept, -q), v.s),
        "the computation of call",
        "return the value from the function, and use the result of call",
    ),
    "map": (
        lambda v, kept: xb.map([v.x], lambda q: keep(kept, -q)),
        "the computation of map",
        "compute the value outside of the callable as well",
    ),
}


@each_row("case", LEAKS)
def test_a_leaked_value(v: Values, case: str) -> None:
    """The message names the value, the op whose callable recorded it, and the fix."""
    apply, place, fix = LEAKS[case]
    kept: list[xb.XlaOp] = []
    apply(v, kept)
    (value,) = kept
    assert value.source is not None
    applied_at = next(iter(value.builder.parameters.values())).source
    uses: list[tuple[Callable[[], Any], str]] = [
        (lambda: v.s + value, "add: operand 1"),
        (lambda: value + v.s, "add: operand 0"),
        (lambda: value + value, "add: operand 0"),
        (lambda: xb.neg(value), "neg: operand 0"),
        (lambda: value * 2.0, "mul: operand 0"),
        (lambda: v.b.build(value), "build: the root"),
    ]
    for use, start in uses:
        count = len(v.b.ops)
        with pytest.raises(xb.BuilderError) as caught:
            use()
        rule, got, fix_line = str(caught.value).split("\n")[:3]
        where = f"{place} at {applied_at}, and can't be used outside of it, got"
        assert rule == f"{start} was recorded in {where}"
        assert got == f"  {value!r}, recorded at {value.source}"
        assert fix_line.startswith(f"fix: {fix}")
        assert len(v.b.ops) == count


def test_the_line_of_the_loop(v: Values) -> None:
    kept: list[xb.XlaOp] = []

    def body(q: xb.XlaOp) -> xb.XlaOp:
        return keep(kept, q + 1.0)

    loop = xb.while_(lambda q: q < 3.0, body, v.s)
    assert loop.source is not None
    assert kept[0].source is not None
    with pytest.raises(xb.BuilderError, match=rf"while_ at {FILE}:{loop.source.line}, and"):
        loop + kept[0]


def test_a_value_of_the_condition_in_the_body(v: Values) -> None:
    """The computations of one op are not built yet while the next one is recorded."""
    kept: list[xb.XlaOp] = []
    with pytest.raises(xb.BuilderError, match="operand 1 was recorded in the condition of while_"):
        xb.while_(lambda q: keep(kept, q) < 3.0, lambda q: q + kept[0], v.s)


def test_a_value_of_an_inner_body_in_the_outer_body(v: Values) -> None:
    kept: list[xb.XlaOp] = []

    def body(q: xb.XlaOp) -> xb.XlaOp:
        return xb.call(lambda p: keep(kept, -p), q) + kept[0]

    with pytest.raises(xb.BuilderError, match="operand 1 was recorded in the computation of call"):
        xb.while_(lambda q: q < 3.0, body, v.s)
    with pytest.raises(xb.BuilderError, match="the result was recorded in the computation of call"):
        xb.while_(lambda q: q < 3.0, lambda q: kept[0], v.s)


class TestArgumentsOfCallables:
    def test_the_elements_of_a_tuple(self, v: Values) -> None:
        state = (v.b.constant(0, xb.s32), v.x)
        for use, role in (
            (lambda: xb.while_(lambda k, w: k < 3, lambda k, w: (k + 1, w), state), "condition"),
            (lambda: xb.while_(lambda s: s[0] < 3, lambda k, w: (k + 1, w), state), "body"),
        ):
            with pytest.raises(xb.SignatureError) as caught:
                use()
            assert str(caught.value).startswith(
                f"while_: {role} is called with 1 argument, the tuple (s32[], f32[3]), got a "
                f"callable that does not take them: "
            )
            fix = "fix: write a function of 1 argument that unpacks the tuple: k, w = argument"
            assert str(caught.value).endswith(fix)
            assert caught.value.shapes == {"argument 0": xb.tuple_shape([xb.s32[()], xb.f32[3]])}

    def test_names_that_do_not_fit(self, v: Values) -> None:
        with pytest.raises(xb.SignatureError, match="unpacks the tuple: p0, = argument"):
            xb.call(lambda k, w: k, xb.tuple(v.x))


def test_the_operands_of_a_message_are_those_of_different_builders() -> None:
    """Also where the values of one builder come last."""
    one, other = (xb.XlaBuilder(name) for name in ("one", "other"))
    x, y, z = one.parameter(xb.f32[2]), one.parameter(xb.f32[2]), other.parameter(xb.f32[2])
    for operands, numbers in (((x, y, z), [0, 2]), ((z, x, y), [0, 1]), ((x, z, z), [0, 1])):
        with pytest.raises(xb.BuilderError) as caught:
            xb.clamp(*operands)
        listed = [f"  operand {number} of builder " in str(caught.value) for number in range(3)]
        assert [number for number, is_listed in enumerate(listed) if is_listed] == numbers
