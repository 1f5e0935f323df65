"""Callables passed to ops: recorded once per signature, or each time."""

from __future__ import annotations

import _thread
import functools
import gc
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, assert_type

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder import lib
from builder.graph import subcomputations as nested


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[4, 3], "x")


@pytest.fixture
def state(x: xb.XlaOp) -> list[xb.XlaOp]:
    return [x.builder.constant(0, xb.s32), x]


def applied(op: xb.XlaOp) -> xb.XlaComputation:
    """Return the only computation that an op applies."""
    (computation,) = op.called_computations
    return computation


def reduced(x: xb.XlaOp, function: Callable[..., Any]) -> xb.XlaComputation:
    return applied(xb.reduce(x, 0.0, function, [0]))


def opcodes(computation: xb.XlaComputation) -> list[str]:
    return [op.opcode for op in computation.ops]


def constants(computation: xb.XlaComputation) -> list[float]:
    return [float(op.attributes["value"]) for op in computation.ops if op.opcode == "constant"]


def plain(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    return xb.max(a, b) + a


@xb.computation
def larger(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    """Return the larger value, doubled if both are equal."""
    return xb.max(a, b) + a


@xb.computation
def below_ten(state: xb.XlaOp) -> xb.XlaOp:
    return state[0] < 10


@xb.computation
def doubled(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
    count, total = state
    return count + 1, total * 2.0


@xb.computation
def shifted(value: xb.XlaOp) -> xb.XlaOp:
    return value + 1.0


class Reducer:
    def method(self, a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b

    def __call__(self, a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b


class TestPlainCallables:
    @each_row(
        "function",
        [
            plain,
            lambda a, b: a + b,
            partial(xb.add),
            functools.wraps(xb.add)(lambda a, b: a + b),
            Reducer(),
            Reducer().method,
        ],
    )
    def test_are_recorded_each_time(self, x: xb.XlaOp, function: Callable[..., Any]) -> None:
        assert len({reduced(x, function) for _ in range(3)}) == 3
        assert len({applied(xb.call(function, x, x)) for _ in range(3)}) == 3

    def test_see_changed_variables(self, x: xb.XlaOp) -> None:
        factor = 2.0

        def scaled(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            return a + b * factor

        assert constants(reduced(x, scaled)) == [2.0]
        factor = 3.0
        assert constants(reduced(x, scaled)) == [3.0]

    def test_are_recorded_once_for_each_argument(self, x: xb.XlaOp, state: list[xb.XlaOp]) -> None:
        """Also if the library must examine the captures before it records the op."""
        calls = []

        def counted(value: xb.XlaOp) -> xb.XlaOp:
            calls.append(value)
            return value

        y = x.builder.parameter(xb.f32[4, 3], "y")
        pred = x.builder.parameter(xb.pred[()])
        xb.call(counted, x)
        xb.conditional(pred, x, counted, x, lambda value: value + y)
        xb.while_(below_ten, counted, state)
        assert len(calls) == 3

    def test_inherit_the_annotations_of_the_enclosing_builder(self, x: xb.XlaOp) -> None:
        def function(value: xb.XlaOp) -> xb.XlaOp:
            return value + value

        with x.builder.frontend_attributes({"a": "b"}):
            marked = applied(xb.call(function, x))
        with x.builder.sharding("{replicated}"):
            sharded = applied(xb.call(function, x))
        assert marked.root.frontend_attributes == {"a": "b"}
        assert sharded.root.sharding == "{replicated}"
        assert applied(xb.call(function, x)).root.metadata is None

    def test_computations_are_named_after_the_argument(self, x: xb.XlaOp) -> None:
        function = eval("lambda a, b: a > b", {})
        assert applied(xb.sort(x, function)).name == "sort_comparator"
        pool = xb.reduce_window(x, 0.0, xb.max, [2, 1], [1, 1], "VALID")
        scatter = xb.select_and_scatter(x, function, [2, 1], [1, 1], "VALID", pool, 0.0, xb.add)
        assert scatter.attributes["select"].name == "select_and_scatter_select"

    def test_an_error_is_raised_each_time(self, x: xb.XlaOp) -> None:
        calls = []

        def wrong(a: xb.XlaOp, b: xb.XlaOp) -> int:
            calls.append(1)
            return 1

        for function in (wrong, xb.computation(wrong)):
            for _ in range(2):
                with pytest.raises(xb.OperandError, match="must return an XlaOp"):
                    xb.reduce(x, 0.0, function, [0])
        assert len(calls) == 4
        assert len(x.builder.ops) == 1

    def test_a_wrong_signature_is_refused_each_time(self, x: xb.XlaOp) -> None:
        for _ in range(2):
            with pytest.raises(xb.SignatureError, match="computation must be"):
                xb.reduce(x, 0.0, lambda a, b: a > b, [0])
        assert len(x.builder.ops) == 1

    def test_captures_are_recorded_each_time(self, x: xb.XlaOp) -> None:
        y = x.builder.parameter(xb.f32[4, 3], "y")
        first, second = (xb.call(lambda value: value + y, x) for _ in range(2))
        assert applied(first) is not applied(second)
        assert second.operands == (x, y)


class TestLibraryFunctions:
    def test_are_recorded_once_per_signature(self, x: xb.XlaOp) -> None:
        first = reduced(x, xb.add)
        other = xb.XlaBuilder().parameter(xb.f32[7, 9])
        assert reduced(other, xb.add) is first
        assert reduced(xb.XlaBuilder().parameter(xb.f64[7, 9]), xb.add) is not first
        assert {op.source for op in first.ops} == {None}

    def test_are_recognized_wherever_they_are_defined(self) -> None:
        functions = [info.function for info in xb.OPERATIONS.values() if not info.is_method]
        assert all(map(nested.is_library_function, functions))
        code, names = xb.add.__code__, dict(xb.add.__globals__)
        copied = FunctionType(code, names, "add", None, xb.add.__closure__)
        assert not nested.is_library_function(copied)
        assert not any(
            map(nested.is_library_function, [plain, xb.XlaOp.__bool__, len, xb.f32, None, larger])
        )

    def test_branches_and_calls(self, x: xb.XlaOp) -> None:
        pred = x.builder.parameter(xb.pred[()])
        first, second = (xb.conditional(pred, x, xb.neg, x, xb.abs) for _ in range(2))
        assert first.attributes is second.attributes
        assert xb.call(xb.neg, x).attributes is xb.call(xb.neg, x).attributes

    def test_inherit_the_annotations_of_the_enclosing_builder(self, x: xb.XlaOp) -> None:
        with x.builder.frontend_attributes({"a": "b"}):
            marked = applied(xb.call(xb.neg, x))
        assert marked.root.frontend_attributes == {"a": "b"}
        assert applied(xb.call(xb.neg, x)).root.metadata is None

    def test_with_a_branch_that_captures(self, x: xb.XlaOp) -> None:
        """The library function takes the captured value itself; it is not wrapped in a call."""
        y = x.builder.parameter(xb.f32[4, 3], "y")
        pred = x.builder.parameter(xb.pred[()])
        op = xb.conditional(pred, x, xb.neg, x, lambda value: value + y)
        negated, _ = op.called_computations
        assert opcodes(negated) == ["parameter", "get_tuple_element", "negate"]

    def test_tuples_are_selected_by_shared_branches(self, x: xb.XlaOp) -> None:
        pred = x.builder.parameter(xb.pred[()])
        pair = xb.tuple(x, x)
        first, second = (xb.select(pred, pair, pair) for _ in range(2))
        assert first.attributes is second.attributes


class TestDecorator:
    def test_bare(self) -> None:
        assert_type(larger, xb.ReusableFunction)
        assert isinstance(larger, xb.ReusableFunction)

    def test_with_empty_parentheses(self, x: xb.XlaOp) -> None:
        @xb.computation()
        def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            return a + b

        assert_type(function, xb.ReusableFunction)
        assert reduced(x, function) is reduced(x, function)

    def test_with_shapes(self) -> None:
        @xb.computation(xb.f32[2], "f32[2]")
        def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            return a + b

        assert_type(function, xb.XlaComputation)
        assert isinstance(function, xb.XlaComputation)

    def test_looks_like_the_function(self) -> None:
        wrapped = larger.__wrapped__
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            assert getattr(larger, name) == getattr(wrapped, name)
        assert list(inspect.signature(larger).parameters) == ["a", "b"]
        assert inspect.unwrap(larger) is wrapped
        fresh = xb.computation(wrapped)
        assert repr(fresh) == "<ReusableFunction 'larger', 0 signatures>"
        fresh.computation(xb.f32[2], xb.f32[2])
        assert repr(fresh) == "<ReusableFunction 'larger', 1 signature>"

    @each_row("function", [lambda a, b: a + b, partial(plain), Reducer()])
    def test_callables_without_a_name(self, x: xb.XlaOp, function: Any) -> None:
        """The name does not depend on the op that uses the function first."""
        reusable = xb.computation(function)
        assert reusable.name == "function"
        assert reduced(x, reusable) is reduced(x, reusable)
        assert reduced(x, reusable).name == "function"

    def test_of_a_library_function(self, x: xb.XlaOp) -> None:
        added = xb.computation(xb.add)
        first = applied(added(x, x))
        assert first.name == "add"
        assert {op.source for op in first.ops} == {None}

    def test_applying_it_twice_has_no_effect(self) -> None:
        assert xb.computation(larger) is larger

    def test_errors(self) -> None:
        decorate: Any = xb.computation
        built = xb.computation(xb.f32[2])(lambda a: a)
        for wrong in (built, built.root):
            with pytest.raises(xb.XlaError, match="computation: "):
                decorate(wrong)
        with pytest.raises(xb.OperandError, match=r"expected a function of XlaOps, got 3\nfix: "):
            decorate()(3)
        with pytest.raises(
            xb.OperandError, match=r"result requires the shapes of the parameters, got none\nfix: "
        ):
            decorate(result="f32[2]")
        with pytest.raises(xb.ShapeTextError, match="shape 0"):
            decorate("f32[")
        with pytest.raises(xb.XlaError, match="shape 1"):
            decorate(xb.f32[2], plain)


class TestSignatures:
    def test_one_computation_for_all_builders(self, x: xb.XlaOp) -> None:
        first = reduced(x, larger)
        assert reduced(x, larger) is first
        other = xb.XlaBuilder().parameter(xb.f32[7, 9])
        assert reduced(other, larger) is first
        assert opcodes(first) == ["parameter", "parameter", "maximum", "add"]
        assert [p.name for p in first.parameters] == ["a", "b"]

    def test_equal_ops_share_their_attributes(self, x: xb.XlaOp) -> None:
        first, second = (xb.reduce(x, 0.0, larger, [1]) for _ in range(2))
        assert first.attributes is second.attributes
        assert xb.reduce(x, 0.0, larger, [0]).attributes["dimensions"] == (0,)

    def test_other_shapes_make_another(self, x: xb.XlaOp) -> None:
        matrix = xb.XlaBuilder().parameter(xb.s32[4, 3])
        first, second = reduced(x, larger), applied(xb.reduce(matrix, 0, larger, [0]))
        assert [p.shape for p in first.parameters] == [xb.f32[()]] * 2
        assert [p.shape for p in second.parameters] == [xb.s32[()]] * 2

    def test_other_nesting_makes_another(self, x: xb.XlaOp) -> None:
        @xb.computation
        def function(*values: xb.XlaOp) -> xb.XlaOp:
            return values[-1]

        computations = [
            applied(op) for op in (function(x, x), function((x, x)), function(((x,), x)))
        ]
        assert [str(c.program_shape).split(" -> ")[0] for c in computations] == [
            "(p0: f32[4,3], p1: f32[4,3])",
            "(p0: (f32[4,3], f32[4,3]))",
            "(p0: ((f32[4,3]), f32[4,3]))",
        ]
        assert applied(function(xb.tuple(x, x))) is computations[1]

    def test_the_op_that_applies_it_makes_no_difference(self, x: xb.XlaOp) -> None:
        pool = xb.reduce_window(x, 0.0, larger, [2, 1], [1, 1], "VALID")
        mapped = xb.map([x, x], larger)
        assert applied(pool) is applied(mapped) is reduced(x, larger)

    def test_captured_variables_have_the_values_of_the_first_call(self, x: xb.XlaOp) -> None:
        factor = 2.0

        @xb.computation
        def scaled(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            return a + b * factor

        assert constants(reduced(x, scaled)) == [2.0]
        factor = 3.0
        assert constants(reduced(x, scaled)) == [2.0]
        assert constants(reduced(x, scaled.__wrapped__)) == [3.0]

    def test_a_default_value_is_not_a_parameter(self, x: xb.XlaOp) -> None:
        @xb.computation
        def scaled(value: xb.XlaOp, factor: Any = 2.0) -> xb.XlaOp:
            return value * factor

        assert len(applied(scaled(x)).parameters) == 1
        assert len(applied(scaled(x, x)).parameters) == 2

    def test_a_function_may_use_itself_for_another_signature(self, x: xb.XlaOp) -> None:
        @xb.computation
        def total(values: xb.XlaOp) -> Any:
            if values.shape.rank == 0:
                return values
            return total(xb.reduce(values, 0.0, xb.add, [0]))

        op = total(x)
        ranks = []
        while op.opcode == "call":
            op = applied(op).root
            ranks.append(op.operands[0].shape.rank if op.operands else None)
        assert ranks == [1, 0, None]

    def test_the_number_of_signatures_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(nested, "_MOST_SIGNATURES", 3)
        function = xb.computation(lambda value: value + value)
        for size in range(10):
            computation = function.computation(xb.f32[size])
            assert function.computation(xb.f32[size]) is computation
            assert int(repr(function).split(", ")[1].split()[0]) <= 3

    def test_computations_are_freed_with_the_function(self, x: xb.XlaOp) -> None:
        function = xb.computation(lambda a, b: a + b)
        reference = weakref.ref(reduced(xb.XlaBuilder().parameter(xb.f32[2]), function))
        gc.collect()
        assert reference() is not None
        del function
        gc.collect()
        assert reference() is None

    def test_threads_may_record_at_once(self) -> None:
        barrier = threading.Barrier(4)
        results: list[xb.XlaComputation] = []

        @xb.computation
        def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            barrier.wait(30)  # all of them record
            return a * b

        def work() -> None:
            mine = xb.XlaBuilder().parameter(xb.f32[4, 3])
            results.extend(reduced(mine, function) for _ in range(50))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 200
        assert len({id(c) for c in results}) == 1


class TestUses:
    def test_loops(self, state: list[xb.XlaOp]) -> None:
        first, second = (xb.while_(below_ten, doubled, state) for _ in range(2))
        assert first.attributes is second.attributes
        assert first.shape == xb.tuple_shape([xb.s32[()], xb.f32[4, 3]])
        assert [o.opcode for o in second.operands] == ["tuple"]
        tuple_state = xb.tuple(*state)
        third = xb.while_(below_ten, doubled, tuple_state)
        assert third.attributes is first.attributes
        assert third.operands == (tuple_state,)

    def test_branches(self, x: xb.XlaOp) -> None:
        pred = x.builder.parameter(xb.pred[()])
        first, second = (xb.conditional(pred, x, shifted, x, xb.neg) for _ in range(2))
        assert first.attributes is second.attributes
        assert [opcodes(c)[-1] for c in second.called_computations] == ["add", "negate"]

    def test_a_branch_without_an_operand(self, x: xb.XlaOp) -> None:
        """The same function may be used with an operand and without."""
        calls = []

        @xb.computation
        def function(*values: xb.XlaOp) -> xb.XlaOp:
            calls.append(len(values))
            return inside.constant(1, xb.s32) if not values else values[0]

        pred = x.builder.parameter(xb.pred[()])
        inside = x.builder
        with pytest.raises(xb.BuilderError, match="can't use values of another"):
            xb.conditional(pred, None, function, None, function)
        assert calls == [0]
        xb.conditional(pred, xb.tuple(x), function, xb.tuple(x), function)
        assert calls == [0, 1]

    def test_sort_map_scatter_scan_and_collectives(self, x: xb.XlaOp) -> None:
        @xb.computation
        def before(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            return a > b

        @xb.computation
        def running(element: xb.XlaOp, total: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
            return element + total, element + total

        indices = x.builder.constant(np.zeros((1, 1), np.int32))
        updates = x.builder.parameter(xb.f32[1, 3])
        numbers = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
        start = x.builder.parameter(xb.f32[3])
        uses: list[Callable[[], xb.XlaOp]] = [
            lambda: xb.sort(x, before),
            lambda: xb.map([x, x], larger),
            lambda: xb.scatter(x, indices, updates, larger, numbers),
            lambda: xb.scan(x, start, running, 0),
            lambda: xb.all_reduce(x, larger),
            lambda: xb.reduce_scatter(x, larger, 0, 1),
            lambda: xb.reduce_all(x, 0.0, larger),
            lambda: xb.call(larger, x, x),
            lambda: xb.composite_call(larger, [x, x], "mine.larger"),
            lambda: larger(x, x),
        ]
        for use in uses:
            assert applied(use()) is applied(use())

    def test_inline(self, x: xb.XlaOp) -> None:
        count = len(x.builder.ops)
        op = xb.inline(larger, x, x)
        assert [op.opcode for op in x.builder.ops[count:]] == ["maximum", "add"]
        assert op.source == larger.computation(x.shape, x.shape).root.source

    def test_with_a_body_that_captures(self, state: list[xb.XlaOp], x: xb.XlaOp) -> None:
        """The shared computation is unchanged; it is called by one that takes the captures."""
        plain_loop = xb.while_(below_ten, doubled, state)
        y = x.builder.parameter(xb.f32[4, 3], "y")
        result = xb.while_(below_ten, lambda s: (s[0] + 1, s[1] * y), state)
        loop = result.operands[0]
        assert loop.shape == xb.tuple_shape([plain_loop.shape, xb.f32[4, 3]])
        condition = loop.attributes["condition"]
        assert applied(condition.root) is plain_loop.attributes["condition"]

    def test_a_refused_loop_records_nothing(self, x: xb.XlaOp) -> None:
        pair = [x.builder.constant(0, xb.s32), x]
        count = len(x.builder.ops)
        for _ in range(2):
            with pytest.raises(xb.SignatureError, match="body must be"):
                xb.while_(below_ten, below_ten, pair)
            assert len(x.builder.ops) == count

    def test_inside_a_callable(self, x: xb.XlaOp) -> None:
        outside = reduced(x, larger)
        inside = []

        def body(value: xb.XlaOp) -> xb.XlaOp:
            inside.append(reduced(value, larger))
            return larger(value, value)

        xb.call(body, x)
        assert inside == [outside]

    def test_annotations_are_those_of_the_op_that_applies_it(self, x: xb.XlaOp) -> None:
        function = xb.computation(lambda value: value + value)
        with x.builder.frontend_attributes({"a": "b"}), x.builder.sharding("{replicated}"):
            op = function(x)
        assert (op.frontend_attributes, op.sharding) == ({"a": "b"}, "{replicated}")
        assert {inner.frontend_attributes for inner in applied(op).ops} == {None}
        assert {inner.sharding for inner in applied(op).ops} == {None}
        assert applied(function(x)) is applied(op)

    def test_annotations_set_inside_do_not_leak(self, x: xb.XlaOp) -> None:
        @xb.computation
        def function(value: xb.XlaOp) -> xb.XlaOp:
            with value.builder.frontend_attributes({"a": "b"}):
                return value + value

        op = function(x)
        assert op.frontend_attributes is None
        assert applied(op).root.frontend_attributes == {"a": "b"}

    def test_lines_are_those_of_the_function(self, x: xb.XlaOp) -> None:
        first = xb.computation(plain).computation(xb.f32[()], xb.f32[()])
        source = first.root.source
        assert source is not None
        assert source.function == "plain"
        assert source.line == plain.__code__.co_firstlineno + 1
        # Parameters have no source line, because the first user records them.
        assert [p.source for p in first.parameters] == [None, None]

    def test_bodies_of_library_functions_do_not_have_the_line_of_their_first_use(
        self, x: xb.XlaOp
    ) -> None:
        factors, _ = lib.qr_decomposition(x)
        computations = factors.builder.build(factors).called_computations()
        assert len(computations) > 2
        assert {op.source for each in computations for op in each.ops} == {None}


class TestCall:
    def test_records_a_call(self, x: xb.XlaOp) -> None:
        count = len(x.builder.ops)
        op = larger(x, x)
        assert [op.opcode for op in x.builder.ops[count:]] == ["call"]
        assert op.operands == (x, x)
        assert op.source is not None
        assert op.source.function.endswith("test_records_a_call")
        assert larger(x, x).attributes is op.attributes

    def test_sequences_are_tuples(self, state: list[xb.XlaOp]) -> None:
        op = doubled(state)
        assert [o.opcode for o in op.operands] == ["tuple"]
        count, total = op
        assert (count.shape, total.shape) == (xb.s32[()], xb.f32[4, 3])

    def test_an_empty_sequence_is_the_empty_tuple(self, x: xb.XlaOp) -> None:
        function = xb.computation(lambda value, nothing: value)
        assert function(x, ()).operands[1].opcode == "tuple"

    @each_row(
        "arguments, error, message",
        [
            (lambda x: (x,), xb.SignatureError, "larger: function is called with 1 arg.*does not"),
            (lambda x: (x, x, x), xb.SignatureError, "larger: function is called with 3 arguments"),
            (lambda x: (x, 2.0), xb.OperandError, "larger: argument 1 must be an XlaOp.*float"),
            (lambda x: (x, {"a": x}), xb.OperandError, "larger: argument 1 must be an XlaOp.*dict"),
            (lambda x: (x, [x, 1]), xb.OperandError, "argument 1 element 1 must be an XlaOp"),
            (lambda x: (), xb.OperandError, "larger: at least one operand is needed"),
            (lambda x: ([], []), xb.OperandError, "larger: at least one operand is needed"),
            (
                lambda x: (x, xb.XlaBuilder().parameter(xb.f32[2])),
                xb.BuilderError,
                "operands belong to different builders",
            ),
        ],
    )
    def test_errors(
        self, x: xb.XlaOp, arguments: Any, error: type[xb.XlaError], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            larger(*arguments(x))
        assert len(x.builder.ops) == 1

    def test_keyword_arguments_are_refused(self, x: xb.XlaOp) -> None:
        with pytest.raises(xb.OperandError, match="operands must be positional, got b by name"):
            larger(x, b=x)

    def test_a_computation_for_shapes(self) -> None:
        computation = larger.computation("f32[2]", xb.f32[2])
        assert str(computation.program_shape) == "(a: f32[2], b: f32[2]) -> f32[2]"
        assert larger.computation(xb.f32[2], xb.f32[2]) is computation
        with pytest.raises(xb.SignatureError, match="larger: function is called with 1 argument"):
            larger.computation(xb.f32[2])
        with pytest.raises(xb.ShapeTextError, match="larger: shape 1"):
            larger.computation(xb.f32[2], "f32[")


class TestCaptures:
    """A computation that all builders share can't use a value of one of them."""

    MESSAGE = r"'function', a function of @xb\.computation, can't use values of another"

    @pytest.mark.parametrize(
        "use",
        [
            lambda function, x: function(x),
            lambda function, x: xb.call(function, x),
            lambda function, x: xb.while_(lambda value: value.builder.constant(True), function, x),
            lambda function, x: xb.map([x], function),
            lambda function, x: xb.inline(function, x),
            lambda function, x: xb.call(lambda value: function(value), x),
            lambda function, x: xb.call(lambda value: xb.call(function, value), x),
        ],
        ids=["directly", "call", "while", "map", "inline", "in a body", "call in a body"],
    )
    @pytest.mark.parametrize("on_the_left", [True, False])
    def test_are_refused(self, x: xb.XlaOp, use: Any, on_the_left: bool) -> None:
        y = x.builder.parameter(xb.f32[()], "y")
        count = len(x.builder.ops)

        @xb.computation
        def function(value: xb.XlaOp) -> xb.XlaOp:
            return xb.add(y, value) if on_the_left else xb.add(value, y)

        for _ in range(2):
            with pytest.raises(xb.BuilderError, match=self.MESSAGE):
                use(function, x)
            assert len(x.builder.ops) == count
        assert repr(function) == "<ReusableFunction 'function', 0 signatures>"

    def test_a_value_computed_from_enclosing_values_is_not_a_result(self, x: xb.XlaOp) -> None:
        function = xb.computation(lambda value: x + x)
        for use in (function, lambda value: xb.call(function, value)):
            with pytest.raises(xb.BuilderError, match="can't use values of another"):
                use(x)
            assert len(x.builder.ops) == 1

    def test_inner_callables_may_capture_its_values(self, x: xb.XlaOp) -> None:
        @xb.computation
        def function(value: xb.XlaOp, other: xb.XlaOp) -> xb.XlaOp:
            return xb.call(lambda one: one + other, value)

        assert applied(function(x, x)).root.operands == tuple(applied(function(x, x)).parameters)


@each_row("depth", [201, 5000, None])
def test_deeply_nested_arguments(x: xb.XlaOp, depth: int | None) -> None:
    nested: list[Any] = [x]
    for _ in range(depth or 0):
        nested = [nested]
    if depth is None:
        nested.append(nested)
    function = xb.computation(lambda value, other: value)
    with pytest.raises(xb.OperandError, match=r"tuples nested too deeply, or .* contains itself"):
        function(x, nested)
    assert len(x.builder.ops) == 1


def test_arguments_nested_within_the_limit(x: xb.XlaOp) -> None:
    nested: list[Any] = [x]
    for _ in range(150):
        nested = [nested]
    assert xb.computation(lambda value: value)(nested).shape.is_tuple


def test_an_op_that_c_calls_has_no_line(x: xb.XlaOp) -> None:
    """A thread's first function has no Python caller."""
    done = threading.Event()

    class Sizes:
        def __iter__(self) -> Iterator[int]:
            return iter([12])

        def __del__(self) -> None:
            done.set()

    reshape: Any = xb.reshape
    _thread.start_new_thread(reshape, (x, Sizes()))
    assert done.wait(30)
    assert [op.opcode for op in x.builder.ops] == ["parameter", "reshape"]
    assert x.builder.ops[1].source is None
