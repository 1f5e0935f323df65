"""Tuples, calls, loops and branches: signatures, captures, and callables that go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb


@pytest.fixture
def b() -> xb.XlaBuilder:
    return xb.XlaBuilder("main")


def signature_text(computation: xb.XlaComputation) -> str:
    shape = computation.program_shape
    return f"({', '.join(map(str, shape.parameters))}) -> {shape.result}"


def only_own_ops(computation: xb.XlaComputation) -> bool:
    """Return whether every operand is an op of the computation itself and precedes its user."""
    positions = {id(o): i for i, o in enumerate(computation.ops)}
    return all(
        id(operand) in positions and positions[id(operand)] < index
        for index, op in enumerate(computation.ops)
        for operand in op.operands
    ) and [o.id for o in computation.ops] == list(range(len(computation.ops)))


class TestTuple:
    def test_shape_and_elements(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.TOKEN_SHAPE)
        t = xb.tuple(x, y, xb.tuple(x))
        assert str(t.shape) == "(f32[2], token[], (f32[2]))"
        assert len(t) == 3
        assert [str(e.shape) for e in t] == ["f32[2]", "token[]", "(f32[2])"]
        assert t[0].operands == (t,)

    def test_no_elements(self) -> None:
        with pytest.raises(
            xb.OperandError, match=r"at least one element.*\nfix: .*empty_tuple\(\)"
        ):
            xb.tuple()

    def test_not_an_op(self, b: xb.XlaBuilder) -> None:
        with pytest.raises(xb.OperandError, match="tuple: element 1 must be an XlaOp, got int: 1"):
            xb.tuple(b.parameter(xb.f32[2]), 1)  # type: ignore[arg-type]

    def test_wrong_arguments(self, b: xb.XlaBuilder) -> None:
        x: Any = b.parameter(xb.f32[2])
        wrong: Any = xb.tuple
        with pytest.raises(xb.OperandError, match=r"^tuple: has no parameter axis, got axis=0\n"):
            wrong(x, x, axis=0)
        wrong = xb.get_tuple_element
        with pytest.raises(
            xb.OperandError, match=r"^get_tuple_element: takes at most 2 positional arg"
        ):
            wrong(xb.tuple(x, x), 0, 1)

    @each_row(
        "index, message",
        [
            (2, "index must be the index of an element, 0 to 1, got 2"),
            (-1, "index must be the index of an element, 0 to 1, got -1"),
            ("a", "index must be an integer, got 'a'"),
            (slice(0, 1), "index must be an integer, got slice"),
        ],
    )
    def test_wrong_index(self, b: xb.XlaBuilder, index: Any, message: str) -> None:
        t = b.parameter("(f32[2], s32[])")
        for use in (lambda: t[index], lambda: xb.get_tuple_element(t, index)):
            with pytest.raises(xb.ShapeInferenceError, match=f"get_tuple_element: {message}"):
                use()

    def test_element_of_the_empty_tuple(self, b: xb.XlaBuilder) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="but the tuple is empty, got 0"):
            xb.get_tuple_element(b.empty_tuple(), 0)

    def test_element_of_an_array(self, b: xb.XlaBuilder) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="tuple_data must be a tuple, got\n"):
            xb.get_tuple_element(b.parameter(xb.f32[2]), 0)

    def test_optimization_barrier(self, b: xb.XlaBuilder) -> None:
        for shape in ("f32[2]", "(f32[2], token[])", "token[]"):
            x = b.parameter(shape)
            assert xb.optimization_barrier(x).shape is x.shape


class TestCall:
    def test_computation(self, b: xb.XlaBuilder) -> None:
        c = xb.computation(xb.f32[2], xb.f32[2])(lambda x, y: x + y)
        x = b.parameter(xb.f32[2])
        y = xb.call(c, x, x)
        assert (y.opcode, y.shape, y.operands) == ("call", xb.f32[2], (x, x))
        assert y.called_computations == (c,)

    def test_captures_become_operands(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[2], "x"), b.parameter(xb.f32[2], "y")
        result = xb.call(lambda v: v * y + y, x)
        called = result.called_computations[0]
        assert result.operands == (x, y)
        assert signature_text(called) == "(f32[2], f32[2]) -> f32[2]"
        assert only_own_ops(called)

    @each_row(
        "shapes, message",
        [
            (["f32[2]"], "computation must be a function of 1 argument, one for each operand"),
            (["f32[2]", "f32[3]"], r"parameter 1, y, is f32\[2\]; operand 1 is f32\[3\]\), got"),
            (["f32[2]", "s32[2]"], r"parameter 1, y, is f32\[2\]; operand 1 is s32\[2\]\), got"),
            (["f32[2]", "(f32[2])"], r"parameter 1, y, is f32\[2\]; operand 1 is \(f32\[2\]\)"),
        ],
    )
    def test_wrong_operands(self, b: xb.XlaBuilder, shapes: list[str], message: str) -> None:
        c = xb.computation(xb.f32[2], xb.f32[2])(lambda x, y: x + y)
        with pytest.raises(xb.SignatureError, match=f"call: .*{message}"):
            xb.call(c, *(b.parameter(s) for s in shapes))

    def test_without_operands(self) -> None:
        with pytest.raises(xb.OperandError, match=r"at least one operand.*\nfix: .*builder.call"):
            xb.call(lambda: None)

    def test_not_a_computation(self, b: xb.XlaBuilder) -> None:
        with pytest.raises(xb.OperandError, match="must be an XlaComputation or a callable, got 3"):
            xb.call(3, b.parameter(xb.f32[2]))  # type: ignore[arg-type]


def test_optimization_barrier(b: xb.XlaBuilder) -> None:
    for text in ("f32[<=3,?]", "token[]", "(s4[2], (token[]))"):
        op = xb.optimization_barrier(b.parameter(text))
        assert str(op.shape) == text
        assert op.opcode == "optimization_barrier"
    with pytest.raises(
        xb.OperandError, match="optimization_barrier: operand must be an XlaOp, got"
    ):
        xb.optimization_barrier([b.parameter(xb.f32[2])])  # type: ignore[arg-type]


class TestCompositeCall:
    def test_callable(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[3])
        y = xb.composite_call(lambda v: (v * v, v), x, "mine.square", {"exact": True}, 2)
        assert str(y.shape) == "(f32[3], f32[3])"
        assert y.opcode == "composite"
        assert signature_text(y.attributes["to_apply"]) == "(f32[3]) -> (f32[3], f32[3])"
        assert y.attributes["name"] == "mine.square"
        assert y.attributes["version"] == 2

    def test_captures_become_operands(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[3]), b.parameter(xb.f32[3])
        z = xb.composite_call(lambda v: v + y, [x], "mine.add")
        assert z.operands == (x, y)
        assert only_own_ops(z.attributes["to_apply"])

    @each_row(
        "attributes, text",
        [
            (None, "{}"),
            ({}, "{}"),
            ({"b": 1, "a": False}, "{a = false, b = 1 : i64}"),
            ({"x": 1.0, "y": 1e20, "z": 2.5e-7}, "{x = 1.0 : f64, y = 1.0e+20 : f64, z = 2.5e-07 "),
            ({"x": np.float32(0.1)}, "{x = 0.10000000149011612 : f32}"),
            ({"x": float("inf")}, "{x = 0x7FF0000000000000 : f64}"),
            ({"x": np.float16("nan")}, "{x = 0x7E00 : f16}"),
            ({"x": np.int8(-3), "y": np.uint16(3)}, "{x = -3 : i8, y = 3 : ui16}"),
            ({"x": [1, "a"], "y": ()}, '{x = [1 : i64, "a"], y = []}'),
            ({"x": {"y": {}}}, "{x = {y = {}}}"),
            ("{x = unit, y = 1 : i5}", "{x = unit, y = 1 : i5}"),
            ({"a name": 'see "é\n\\"'}, '{"a name" = "see \\22\\C3\\A9\\0A\\5C\\22"}'),
        ],
    )
    def test_attributes(self, b: xb.XlaBuilder, attributes: Any, text: str) -> None:
        y = xb.composite_call(xb.neg, b.parameter(xb.f32[3]), "mine.neg", attributes)
        assert y.attributes["composite_attributes"].startswith(text)

    @pytest.mark.parametrize(
        ("name", "attributes", "version", "message"),
        [
            ("square", None, None, "name must be in a namespace, .* got 'square'"),
            ("1a.b", None, None, "name must be in a namespace, .* got '1a.b'"),
            ("a..b", None, None, "name must be in a namespace"),
            ("a.b\n", None, None, "name must be in a namespace"),
            (None, None, None, "name must be a string, got None"),
            ("a.b", None, -1, "version must be at least 0 and less than 2\\*\\*31, got -1"),
            ("a.b", None, 2**31, "version must be at least 0 and less than 2\\*\\*31, got"),
            ("a.b", None, 1.5, "version must be an integer, got 1.5"),
            ("a.b", [1], None, r"attributes must be a mapping of .*, got \[1\]"),
            ("a.b", "x = 1", None, "or the text of an MLIR dictionary, got 'x = 1'"),
            ("a.b", "{", None, "or the text of an MLIR dictionary, got '{'"),
            ("a.b", '{x = "\ud800"}', None, "must be a string that UTF-8 can encode, got "),
            ("a.b", {1: 2}, None, "names of attributes must be non-empty strings, got 1"),
            ("a.b", {"": 2}, None, "names of attributes must be non-empty strings, got ''"),
            ("a.b", {"x": None}, None, "an attribute must be a bool, a number, .* got None"),
            ("a.b", {"x": 1j}, None, "an attribute must be a bool, a number, .* got 1j"),
            ("a.b", {"x": 2**63}, None, "must fit 64 bits, got 9223372036854775808"),
        ],
    )
    def test_rules(
        self, b: xb.XlaBuilder, name: Any, attributes: Any, version: Any, message: str
    ) -> None:
        x = b.parameter(xb.f32[3])
        with pytest.raises(xb.XlaError, match=f"^composite_call: .*{message}"):
            xb.composite_call(xb.neg, x, name, attributes, version)
        assert b.ops == [x]

    def test_recursive_attributes(self, b: xb.XlaBuilder) -> None:
        deep: list[Any] = []
        deep.append(deep)
        with pytest.raises(xb.ShapeInferenceError, match="may nest at most 50 deep"):
            xb.composite_call(xb.neg, b.parameter(xb.f32[3]), "a.b", {"x": deep})

    def test_wrong_operands(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[3]), b.parameter(xb.f32[4])
        other = xb.XlaBuilder("other")
        square = other.build(xb.square(other.parameter(xb.f32[3])))
        with pytest.raises(
            xb.SignatureError, match="composite_call: computation must be a function"
        ):
            xb.composite_call(square, y, "a.b")
        with pytest.raises(xb.SignatureError, match="a function of 2 arguments"):
            xb.composite_call(square, [x, x], "a.b")
        with pytest.raises(xb.OperandError, match="at least one operand is needed"):
            xb.composite_call(square, [], "a.b")
        with pytest.raises(xb.OperandError, match="computation must be an XlaComputation or a cal"):
            xb.composite_call(7, x, "a.b")  # type: ignore[arg-type]


class TestScan:
    def test_outputs_then_carries(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[5, 2]), b.parameter(xb.s32[5])
        total, count = b.parameter(xb.f32[2]), b.constant(0, xb.s32)

        def step(element, number, total, count):
            return element + total, number, number * 2, element + total, count + 1

        scanned = xb.scan([x, y], [total, count], step, 0, is_reverse=True, is_associative=False)
        assert str(scanned.shape) == "(f32[5,2], s32[5], s32[5], f32[2], s32[])"
        applied = scanned.attributes["to_apply"]
        takes = "(f32[2], s32[], f32[2], s32[]) -> "
        assert signature_text(applied).startswith(takes)
        assert scanned.operands == (x, y, total, count)
        assert {k: v for k, v in scanned.attributes.items() if k != "to_apply"} == {
            "scan_dimension": 0,
            "num_carries": 2,
            "is_reverse": True,
            "is_associative": False,
        }

    @each_row(
        "inputs, inits, dimension, size, result",
        [
            (["f32[4,3]"], ["f32[4]"], 1, None, "(f32[4,3], f32[4])"),
            (["f32[4,3]"], ["f32[4]"], 1, 3, "(f32[4,3], f32[4])"),
            (["f32[0]"], ["f32[]"], 0, None, "(f32[0], f32[])"),
            # Only the carries keep dynamic sizes, as in XLA.
            (["f32[<=4,3]"], ["f32[<=4]"], 1, None, "(f32[4,3], f32[<=4])"),
            (["f32[<=4,3]"], ["f32[3]"], 0, None, "(f32[4,3], f32[3])"),
        ],
    )
    def test_shape(
        self, inputs: list[str], inits: list[str], dimension: int, size: Any, result: str
    ) -> None:
        b = xb.XlaBuilder()
        xs, starts = [b.parameter(s) for s in inputs], [b.parameter(s) for s in inits]
        scanned = xb.scan(xs, starts, lambda e, c: (e + c, e + c), dimension, size)
        assert str(scanned.shape) == result

    def test_without_inputs_outputs_or_carries(self, b: xb.XlaBuilder) -> None:
        x, start = b.parameter(xb.f32[4]), b.parameter(xb.f32[()])
        assert str(xb.scan([], start, lambda c: (c, c), 0, 7).shape) == "(f32[7], f32[])"
        assert str(xb.scan(x, start, xb.add, 0).shape) == "(f32[])"
        assert str(xb.scan(x, [], xb.neg, 0).shape) == "(f32[4])"

    @each_row(
        "inputs, inits, arguments, message",
        [
            (["f32[4]"], ["f32[]"], (1,), "scan_dimension must be a dimension of input 0 .0 to 0"),
            (["f32[4]"], ["f32[]"], (-1,), "scan_dimension must not be negative, got -1"),
            (["f32[]"], ["f32[]"], (0,), "must be a dimension of input 0 .it has none., got 0"),
            (["f32[4]"], ["f32[]"], (0, 5), "all have size 5 in dimension 0, got 4 of input 0"),
            (["f32[4]", "f32[5]"], [], (0,), "all have size 4 in dimension 0, got 5 of input 1"),
            (["f32[4]"], ["f32[]"], (0, -1), "scan_dimension_size must not be negative, got -1"),
            ([], ["f32[]"], (0,), "scan_dimension_size is required if there are no inputs"),
            (["f32[?]"], ["f32[]"], (0,), "the sizes of operands must be static or bounded"),
            (["(f32[4])"], ["f32[]"], (0,), "input 0 must be an array, got a tuple"),
            (["f32[4]"], ["token[]"], (0,), "init 0 must be an array, got a token"),
            (["f32[4]"], ["f32[]"], (0.5,), "scan_dimension must be an integer, got 0.5"),
        ],
    )
    def test_rules(
        self, inputs: list[str], inits: list[str], arguments: tuple[Any, ...], message: str
    ) -> None:
        b = xb.XlaBuilder()
        xs, starts = [b.parameter(s) for s in inputs], [b.parameter(s) for s in inits]
        count = len(b.ops)
        with pytest.raises(xb.ShapeInferenceError, match=f"^scan: .*{message}"):
            xb.scan(xs, starts, lambda *all: all, *arguments)
        assert len(b.ops) == count

    def test_a_computation_of_a_wrong_signature(self, b: xb.XlaBuilder) -> None:
        x, start = b.parameter(xb.f32[4, 2]), b.parameter(xb.f32[2])
        with pytest.raises(
            xb.SignatureError, match=r"\(f32\[2\], f32\[2\]\) -> \(outputs"
        ) as caught:
            xb.scan(x, start, lambda e, c: (e, xb.convert_element_type(c, xb.s32)), 0)
        assert "fix: return the new carries after the outputs" in str(caught.value)
        with pytest.raises(xb.SignatureError, match="called with 2 arguments"):
            xb.scan(x, start, xb.neg, 0)
        other = xb.XlaBuilder()
        unary = other.build(xb.neg(other.parameter(xb.f32[2])))
        with pytest.raises(xb.SignatureError, match="scan: computation must be of signature"):
            xb.scan(x, start, unary, 0)
        with pytest.raises(
            xb.ShapeInferenceError, match="output 0 of computation must be an array"
        ):
            xb.scan(x, start, lambda e, c: (xb.tuple(e), c), 0)
        y = b.parameter(xb.f32[2, 4])
        with pytest.raises(
            xb.ShapeInferenceError, match="of at least 1 dimensions, because the scan"
        ):
            xb.scan(y, start, lambda e, c: (e.builder.constant(1.0, xb.f32), c), 1)

    def test_captured_arrays_are_carries(self, b: xb.XlaBuilder) -> None:
        x, start = b.parameter(xb.f32[4, 2]), b.parameter(xb.f32[2])
        weights, bias = b.parameter(xb.f32[2, 2]), b.parameter(xb.f32[2])
        result = xb.scan(
            x, start, lambda e, c: (weights @ e + bias, c + bias), 0, is_associative=True
        )
        assert str(result.shape) == "(f32[4,2], f32[2])"
        scanned = next(op for op in b.ops if op.opcode == "scan")
        assert scanned.operands == (x, start, weights, bias)
        assert str(scanned.shape) == "(f32[4,2], f32[2], f32[2,2], f32[2])"
        assert scanned.attributes["num_carries"] == 3
        assert scanned.attributes["is_associative"] is None
        applied = scanned.attributes["to_apply"]
        assert [p.name for p in applied.parameters] == ["e", "c", "captured0", "captured1"]

    def test_a_captured_tuple(self, b: xb.XlaBuilder) -> None:
        x, start = b.parameter(xb.f32[4]), b.parameter(xb.f32[()])
        pair = b.parameter("(f32[], (s32[], f32[2]), ())")
        result = xb.scan(x, start, lambda e, c: (xb.tuple(pair[1])[0][1], c + pair[0]), 0)
        assert str(result.shape) == "(f32[4,2], f32[])"

    def test_a_captured_token_is_refused(self, b: xb.XlaBuilder) -> None:
        x, token = b.parameter(xb.f32[4]), b.create_token()
        count = len(b.ops)
        with pytest.raises(xb.BuilderError, match=r"scan: .* only arrays .*\n.*token.*\nfix: use"):
            xb.scan(x, [], lambda e: (xb.outfeed_with_token(e, token), e)[1], 0)
        assert len(b.ops) == count

    def test_captures_of_a_failing_scan_are_rolled_back(self, b: xb.XlaBuilder) -> None:
        x, pair = b.parameter(xb.f32[4]), b.parameter("(f32[], f32[2])")
        count = len(b.ops)
        with pytest.raises(xb.SignatureError):
            xb.scan(x, 0.0, lambda e, c: (e + pair[0], pair[1]), 0)
        assert len(b.ops) == count

    def test_arguments_of_wrong_types(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[4])
        with pytest.raises(xb.OperandError, match=r"scan: init 0 must be an XlaOp, got str: '1'"):
            xb.scan(x, ["1"], xb.add, 0)  # type: ignore[list-item]
        with pytest.raises(xb.OperandError, match=r"one operand .*\nfix: pass one init as an op"):
            xb.scan([], 1.0, lambda c: (c, c), 0, 5)
        with pytest.raises(xb.OperandError, match="at least one operand is needed"):
            xb.scan([], [], xb.add, 0)
        with pytest.raises(xb.ShapeInferenceError, match="is_reverse must be True or False, got 1"):
            xb.scan(x, [], xb.neg, 0, is_reverse=1)  # type: ignore[arg-type]
        with pytest.raises(xb.ShapeInferenceError, match="is_associative must be True or False"):
            xb.scan(x, [], xb.neg, 0, is_associative="yes")  # type: ignore[arg-type]


def true(state: xb.XlaOp) -> xb.XlaOp:
    return state.builder.constant(True)


class TestWhile:
    def test_shapes(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        loop = xb.while_(true, xb.neg, x)
        assert (loop.opcode, loop.shape, loop.operands) == ("while", xb.f32[2], (x,))
        condition, body = loop.called_computations
        assert signature_text(condition) == "(f32[2]) -> pred[]"
        assert signature_text(body) == "(f32[2]) -> f32[2]"

    def test_state_of_several_ops(self, b: xb.XlaBuilder) -> None:
        def body(state: xb.XlaOp) -> Any:
            i, total = state
            return i + 1, total + 1.0

        loop = xb.while_(lambda s: s[0] < 10, body, [b.constant(0, xb.s32), b.parameter(xb.f32[5])])
        assert str(loop.shape) == "(s32[], f32[5])"

    def test_captures_become_loop_state(self, b: xb.XlaBuilder) -> None:
        x, step = b.parameter(xb.f32[2], "x"), b.parameter(xb.f32[2], "step")
        n = b.parameter(xb.s32[()], "n")
        state = xb.tuple(b.constant(0, xb.s32), x)
        result = xb.while_(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + step), state)
        # The user receives only the state.
        assert str(result.shape) == "(s32[], f32[2])"
        loop = result.operands[0]
        assert loop.opcode == "while"
        condition, body = loop.called_computations
        carried = "((s32[], f32[2]), s32[], f32[2])"
        assert str(loop.shape) == carried
        assert signature_text(condition) == f"({carried}) -> pred[]"
        assert signature_text(body) == f"({carried}) -> {carried}"
        assert only_own_ops(condition)
        assert only_own_ops(body)
        # The body returns the captured values unchanged.
        returned = body.root.operands[1:]
        assert [o.opcode for o in returned] == ["get_tuple_element"] * 2
        assert [o.attributes["index"] for o in returned] == [1, 2]
        assert all(o.operands == (body.parameters[0],) for o in returned)

    def test_scalar_constants_are_recorded_again(self, b: xb.XlaBuilder) -> None:
        two = b.constant(2.0, xb.f32)
        loop = xb.while_(true, lambda v: v * two, b.parameter(xb.f32[2]))
        assert loop.opcode == "while"
        assert "constant" in [o.opcode for o in loop.called_computations[1].ops]

    def test_only_the_condition_or_the_body_captures(self, b: xb.XlaBuilder) -> None:
        limit = b.parameter(xb.f32[()])
        neg = xb.computation(xb.f32[()])(lambda v: -v)
        result = xb.while_(lambda v: v < limit, neg, b.parameter(xb.f32[()]))
        assert result.shape is xb.f32[()]
        _, body = result.operands[0].called_computations
        assert signature_text(body) == "((f32[], f32[])) -> (f32[], f32[])"
        assert body.called_computations() == (neg,)

    def test_nested_captures(self, b: xb.XlaBuilder) -> None:
        x, step = b.parameter(xb.f32[()], "x"), b.parameter(xb.f32[()], "step")

        def outer(v: xb.XlaOp) -> xb.XlaOp:
            twice = v + v
            return xb.while_(lambda w: w < step, lambda w: w + twice + step, v)

        result = xb.while_(lambda v: v < 10, outer, x)
        assert result.shape is xb.f32[()]
        loop = result.operands[0]
        for computation in loop.called_computations:
            assert only_own_ops(computation)
            for called in computation.called_computations():
                assert only_own_ops(called)
        # `step` passes through the outer loop's state; `twice` is computed inside it.
        assert str(loop.shape) == "(f32[], f32[])"
        inner = [o for o in loop.called_computations[1].ops if o.opcode == "while"]
        assert [str(o.shape) for o in inner] == ["(f32[], f32[], f32[])"]

    @pytest.mark.parametrize(
        ("condition", "body", "message"),
        [
            (
                lambda v: v,
                xb.neg,
                (
                    "while_: condition must be of signature (f32[2,3]) -> pred[], for "
                    "init f32[2,3], got (v: f32[2,3]) -> f32[2,3]\n  init f32[2,3]\n"
                    "fix: return a scalar pred; reduce an array of preds with "
                    "xb.reduce_all(..., True, xb.and_)"
                ),
            ),
            (
                lambda v: v > 0,
                xb.neg,
                (
                    "while_: condition must be of signature (f32[2,3]) -> pred[], for "
                    "init f32[2,3], got (v: f32[2,3]) -> pred[2,3]\n  init f32[2,3]\n"
                    "fix: return a scalar pred; reduce an array of preds with "
                    "xb.reduce_all(..., True, xb.and_)"
                ),
            ),
            (
                true,
                lambda v: v > 0,
                (
                    "while_: body must be of signature (f32[2,3]) -> f32[2,3], for init f32[2,3], "
                    "got (v: f32[2,3]) -> pred[2,3]\n  init f32[2,3]\n"
                    "fix: return a value of the shape of init"
                ),
            ),
            (
                true,
                lambda v: (v, v),
                (
                    "while_: body must be of signature (f32[2,3]) -> f32[2,3], for init f32[2,3], "
                    "got (v: f32[2,3]) -> (f32[2,3], f32[2,3])\n  init f32[2,3]\n"
                    "fix: return a value of the shape of init"
                ),
            ),
        ],
    )
    def test_wrong_signature(
        self, b: xb.XlaBuilder, condition: Any, body: Any, message: str
    ) -> None:
        x = b.parameter(xb.f32[2, 3])
        with pytest.raises(xb.SignatureError) as caught:
            xb.while_(condition, body, x)
        assert str(caught.value) == message
        assert caught.value.op == "while_"
        assert b.ops == [x]

    def test_computation_of_another_signature(self, b: xb.XlaBuilder) -> None:
        two = xb.computation(xb.f32[()], xb.f32[()])(lambda v, w: v)
        other = xb.computation(xb.s32[()])(lambda v: v)
        x = b.parameter(xb.f32[()])
        for body, got in ((two, r"\(v: f32\[\], w: f32\[\]\)"), (other, r"\(v: s32\[\]\)")):
            with pytest.raises(xb.SignatureError, match=f"body must be of signature .* got {got}"):
                xb.while_(true, body, x)


class TestConditional:
    def test_pred(self, b: xb.XlaBuilder) -> None:
        p, x, n = b.parameter(xb.pred[()]), b.parameter(xb.f32[2]), b.parameter(xb.s32[2])
        y = xb.conditional(p, x, xb.neg, n, lambda v: xb.convert(v, xb.f32))
        assert (y.opcode, y.shape, y.operands) == ("conditional", xb.f32[2], (p, x, n))
        assert [signature_text(c) for c in y.called_computations] == [
            "(f32[2]) -> f32[2]",
            "(s32[2]) -> f32[2]",
        ]

    def test_index(self, b: xb.XlaBuilder) -> None:
        i, x = b.parameter(xb.s32[()]), b.parameter(xb.f32[2])
        y = xb.conditional(i, [xb.neg, xb.abs, xb.exp], [x, x, x])
        assert y.shape is xb.f32[2]
        assert len(y.called_computations) == 3

    def test_by_name(self, b: xb.XlaBuilder) -> None:
        p, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[2])
        y = xb.conditional(
            p, true_operand=x, true_computation=xb.neg, false_operand=x, false_computation=xb.abs
        )
        assert [c.root.opcode for c in y.called_computations] == ["negate", "abs"]

    def test_captures(self, b: xb.XlaBuilder) -> None:
        p, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[2])
        y, z = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        result = xb.conditional(p, x, lambda v: v + y, x, lambda v: v * z)
        assert result.shape is xb.f32[2]
        for branch in result.called_computations:
            assert signature_text(branch) == "((f32[2], f32[2], f32[2])) -> f32[2]"
            assert only_own_ops(branch)
        assert all(o.operands == (x, y, z) for o in result.operands[1:])

    def test_callables_without_operands(self, b: xb.XlaBuilder) -> None:
        p, x, y = b.parameter(xb.pred[()]), b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        result = xb.conditional(p, None, lambda: x + y, None, lambda: x - y)
        assert result.shape is xb.f32[2]

    def test_branches_without_operands(self, b: xb.XlaBuilder) -> None:
        """The short form records what the long form with None does."""
        p, x = b.parameter(xb.pred[()], "p"), b.parameter(xb.f32[2], "x")
        f, g = lambda: x + x, lambda: x * x
        one = xb.XlaBuilder("one")
        one.parameter("()")
        one.constant(1.0, xb.f32)
        built = one.build()
        results = [
            xb.conditional(p, None, f, None, g),
            xb.conditional(p, f, g),
            xb.conditional(p, true_computation=f, false_computation=g),
            xb.conditional(pred=p, true_computation=f, false_computation=g),
        ]
        texts = [[str(part) for part in each.called_computations] for each in results]
        assert texts[1:] == texts[:1] * 3
        assert all(each.operands[0] is p for each in results)
        assert xb.conditional(p, built, built).shape is xb.f32[()]

    def test_several_operands(self, b: xb.XlaBuilder) -> None:
        p, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[2])
        y = xb.conditional(p, (x, x), lambda t: t[0] + t[1], x, xb.neg)
        assert str(y.operands[1].shape) == "(f32[2], f32[2])"

    @pytest.mark.parametrize("empty", [(), []])
    def test_sequences_of_any_length_are_tuples(self, b: xb.XlaBuilder, empty: Any) -> None:
        i, x = b.parameter(xb.s32[()]), b.parameter(xb.f32[2])

        def from_empty(state: xb.XlaOp) -> xb.XlaOp:
            assert str(state.shape) == "()"
            return -x

        on_empty = xb.XlaBuilder("on_empty")
        on_empty.parameter("()")
        one = on_empty.build(on_empty.constant([1.0, 2.0], xb.f32))
        y = xb.conditional(i, [from_empty, lambda t: t[0]], [empty, [x]])
        assert [str(o.shape) for o in y.operands] == ["s32[]", "((), f32[2])", "((f32[2]), f32[2])"]
        y = xb.conditional(i, [one, one], [empty, None])
        assert [str(o.shape) for o in y.operands] == ["s32[]", "()", "()"]

    @each_row(
        "on_true, on_false, result",
        [
            ("f32[2]", "f32[<=2]", "f32[<=2]"),
            ("f32[<=2]", "f32[2]", "f32[<=2]"),
            ("f32[<=2,3]", "f32[2,<=3]", "f32[<=2,<=3]"),
            ("(f32[2], f32[<=3])", "(f32[<=2], f32[3])", "(f32[<=2], f32[<=3])"),
        ],
    )
    def test_bounds_of_any_branch(
        self, b: xb.XlaBuilder, on_true: str, on_false: str, result: str
    ) -> None:
        p = b.parameter(xb.pred[()])

        def same(v: xb.XlaOp) -> xb.XlaOp:
            return v

        y = xb.conditional(p, b.parameter(on_true), same, b.parameter(on_false), same)
        assert str(y.shape) == result

    @each_row(
        "make, message",
        [
            (
                lambda p, i, x: xb.conditional(i, x, xb.neg, x, xb.neg),
                r"pred must be a scalar pred, got s32\[\]",
            ),
            (
                lambda p, i, x: xb.conditional(p, [xb.neg, xb.neg], [x, x]),
                r"branch_index must be a scalar s32, got pred\[\]",
            ),
            (
                lambda p, i, x: xb.conditional(x, [xb.neg], [x]),
                r"branch_index must be a scalar s32, got f32\[2\]",
            ),
            (lambda p, i, x: xb.conditional(i, [], []), "at least one branch is needed"),
            (
                lambda p, i, x: xb.conditional(i, [xb.neg, xb.neg], [x, x, x]),
                "one operand for each branch, got 2 branches and 3 operands",
            ),
            (
                lambda p, i, x: xb.conditional(i, [xb.neg, lambda v: v > 0], [x, x]),
                r"branch 1 must be a computation that returns the shape of branch 0, f32\[2\], got",
            ),
            (
                lambda p, i, x: xb.conditional(p, x, CALLEE, i, CALLEE),
                r"branch 1 must be a function that accepts its operand, s32\[\], got \(v: f32\[",
            ),
            (
                lambda p, i, x: xb.conditional(p, x, TWO, x, TWO),
                "branch 0 must be a function of one argument, got .*\n(.*\n)*fix: pass several",
            ),
        ],
    )
    def test_refused(self, b: xb.XlaBuilder, make: Callable[..., xb.XlaOp], message: str) -> None:
        p, i, x = b.parameter(xb.pred[()]), b.parameter(xb.s32[()]), b.parameter(xb.f32[2])
        with pytest.raises(xb.ShapeInferenceError, match=f"conditional: .*{message}"):
            make(p, i, x)

    @each_row("arguments", [(), (1,), (1, 2, 3), (1, 2, 3, 4, 5), (xb.neg, xb.neg)])
    def test_wrong_forms_of_the_call(self, b: xb.XlaBuilder, arguments: tuple[Any, ...]) -> None:
        i = b.parameter(xb.s32[()])
        with pytest.raises(
            xb.OperandError, match=r"conditional: (takes|branch_computations must be)"
        ):
            xb.conditional(i, *arguments)


CALLEE = xb.computation(xb.f32[2])(lambda v: v)
TWO = xb.computation(xb.f32[2], xb.f32[2])(lambda v, w: v)


# A call with a callable for each op that takes a computation.
APPLIERS: dict[str, Callable[[xb.XlaOp, Any], xb.XlaOp]] = {
    "call": lambda x, f: xb.call(f, x),
    "while_ condition": lambda x, f: xb.while_(f, xb.neg, x),
    "while_ body": lambda x, f: xb.while_(true, f, x),
    "conditional": lambda x, f: xb.conditional(x > 0, x, f, x, xb.neg),
    "map": lambda x, f: xb.map([x], f),
}


@pytest.mark.parametrize("apply", APPLIERS.values(), ids=APPLIERS)
class TestFailingCallables:
    def check_usable(self, b: xb.XlaBuilder, x: xb.XlaOp) -> None:
        """The enclosing builder is unchanged and can record further ops."""
        y = x + 1
        assert y.builder is b
        assert b.constant(True).builder is b
        assert b.build(y).root is y

    def test_exception_inside(
        self, b: xb.XlaBuilder, apply: Callable[[xb.XlaOp, Any], xb.XlaOp]
    ) -> None:
        x = b.parameter(xb.f32[()])

        def body(v: xb.XlaOp) -> xb.XlaOp:
            raise ZeroDivisionError("inside")

        with pytest.raises(ZeroDivisionError, match="inside"):
            apply(x, body)
        self.check_usable(b, x)

    def test_wrong_op_inside(
        self, b: xb.XlaBuilder, apply: Callable[[xb.XlaOp, Any], xb.XlaOp]
    ) -> None:
        x = b.parameter(xb.f32[()])
        with pytest.raises(xb.ShapeInferenceError, match="and_: operands must be of"):
            apply(x, lambda v: v & v)
        self.check_usable(b, x)

    @pytest.mark.parametrize(
        ("result", "fix"),
        [
            (None, "fix: return the resulting XlaOp"),
            (1.0, "fix: return x.builder.constant(1.0, element_type)"),
            (True, "fix: return x.builder.constant(True)"),
            ("x", None),
        ],
    )
    def test_returning_something_else(
        self,
        b: xb.XlaBuilder,
        apply: Callable[[xb.XlaOp, Any], xb.XlaOp],
        result: Any,
        fix: str | None,
    ) -> None:
        x = b.parameter(xb.f32[()])
        with pytest.raises(xb.OperandError) as caught:
            apply(x, lambda v: result)
        message = str(caught.value)
        assert f"must return an XlaOp, or several in a tuple, got {result!r}" in message
        assert (fix or "") in message
        self.check_usable(b, x)

    def test_another_number_of_arguments(
        self, b: xb.XlaBuilder, apply: Callable[[xb.XlaOp, Any], xb.XlaOp]
    ) -> None:
        x = b.parameter(xb.f32[()])
        with pytest.raises(
            xb.SignatureError, match=r"is called with 1 argument \(f32\[\]\), got a c"
        ):
            apply(x, lambda v, w: v)
        self.check_usable(b, x)

    def test_a_type_error_inside_is_raised(
        self, b: xb.XlaBuilder, apply: Callable[[xb.XlaOp, Any], xb.XlaOp]
    ) -> None:
        x = b.parameter(xb.f32[()])
        with pytest.raises(TypeError, match="unsupported operand") as caught:
            apply(x, lambda v: [] - {})  # type: ignore[operator]
        assert not isinstance(caught.value, xb.XlaError)
        self.check_usable(b, x)

    def test_op_of_an_unrelated_builder(
        self, b: xb.XlaBuilder, apply: Callable[[xb.XlaOp, Any], xb.XlaOp]
    ) -> None:
        x = b.parameter(xb.f32[()])
        other = xb.XlaBuilder("other").parameter(xb.f32[()])
        for body in (lambda v: v + other, lambda v: other + v, lambda v: other):
            with pytest.raises(
                xb.BuilderError, match=r"can't use values of|belongs? to .*(\n.*)*'other'"
            ):
                apply(x, body)
        self.check_usable(b, x)

    def test_an_op_of_the_callable_is_refused_outside(
        self, b: xb.XlaBuilder, apply: Callable[[xb.XlaOp, Any], xb.XlaOp]
    ) -> None:
        x = b.parameter(xb.f32[()])
        kept: list[xb.XlaOp] = []

        def body(v: xb.XlaOp) -> xb.XlaOp:
            kept.append(v)
            return v > 0 if apply is APPLIERS["while_ condition"] else -v

        apply(x, body)
        with pytest.raises(
            xb.BuilderError, match=r"operand 1 was recorded in .* at .*test_control"
        ):
            x + kept[0]
        self.check_usable(b, x)


@pytest.mark.parametrize("name", [name for name in APPLIERS if name != "map"])
def test_building_the_enclosing_builder_inside(b: xb.XlaBuilder, name: str) -> None:
    x = b.parameter(xb.f32[()])

    def body(v: xb.XlaOp) -> xb.XlaOp:
        b.build(x)
        return v

    with pytest.raises(xb.BuilderError, match="is still being recorded into 'main'"):
        APPLIERS[name](x, body)
    assert b.build(x).root is x


class TestReducersAndMapDoNotCapture:
    def test_value_of_the_enclosing_builder(self, b: xb.XlaBuilder) -> None:
        x, s = b.parameter(xb.f32[2]), b.parameter(xb.f32[()])
        with pytest.raises(xb.BuilderError) as caught:
            xb.map([x], lambda v: v + s)
        message = str(caught.value)
        assert message.startswith("add: the computation of map can't use values of ")
        assert repr(s) in message
        assert "fix: " in message
        assert (s + 1).builder is b

    def test_returning_a_value_of_the_enclosing_builder(self, b: xb.XlaBuilder) -> None:
        x, s = b.parameter(xb.f32[2]), b.parameter(xb.f32[()])
        with pytest.raises(xb.BuilderError, match="map"):
            xb.map([x], lambda v: s)

    def test_a_reducer_does_not_capture(self, b: xb.XlaBuilder) -> None:
        x, s = b.parameter(xb.f32[2]), b.parameter(xb.f32[()])
        with pytest.raises(xb.BuilderError, match="of reduce can't use values of"):
            xb.reduce(x, 0.0, lambda u, v: u + v + s, [0])
        assert (s + 1).builder is b

    def test_inside_a_loop_body(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])

        def body(v: xb.XlaOp) -> xb.XlaOp:
            first = xb.map([v], lambda e: -e)
            with pytest.raises(xb.BuilderError, match="the computation of map can't use values"):
                xb.map([v], lambda e: e + v)
            return first

        assert xb.while_(true, body, x).shape is xb.f32[2]


class TestCapturing:
    def test_the_same_value_once(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        result = xb.call(lambda v: v + y + y * y, x)
        assert result.operands == (x, y)

    def test_returning_a_captured_value(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.s32[3])
        result = xb.call(lambda v: y, x)
        assert result.shape is xb.s32[3]
        called = result.called_computations[0]
        assert called.root is called.parameters[1]

    def test_ops_on_captured_values_alone_are_recorded_inside(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        result = xb.call(lambda v: xb.exp(y), x)
        assert [o.opcode for o in b.ops] == ["parameter", "parameter", "call"]
        assert "exponential" in [o.opcode for o in result.called_computations[0].ops]

    @each_row(
        "record, opcodes",
        [
            (lambda y: y * 2.0, ["constant", "broadcast_in_dim", "multiply"]),
            (lambda y: 2.0 - y, ["constant", "broadcast_in_dim", "subtract"]),
            (lambda y: xb.reduce(y, 0.0, xb.add, [0]), ["constant", "reduce"]),
        ],
    )
    def test_numbers_beside_captured_values_are_recorded_inside(
        self, record: Any, opcodes: list[str]
    ) -> None:
        b = xb.XlaBuilder()
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        result = xb.call(lambda v: record(y), x)
        assert [o.opcode for o in b.ops] == ["parameter", "parameter", "call"]
        called = result.called_computations[0]
        assert [o.opcode for o in called.ops if o.opcode != "parameter"] == opcodes
        assert only_own_ops(called)

    def test_constants_of_the_enclosing_builder_are_recorded_inside(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        result = xb.call(lambda v: v + b.constant([1.0, 2.0], xb.f32), x)
        assert result.operands == (x,)
        assert [o.opcode for o in b.ops] == ["parameter", "call"]

    def test_three_levels(self, b: xb.XlaBuilder) -> None:
        x, y = b.parameter(xb.f32[()]), b.parameter(xb.f32[()])
        result = xb.call(lambda u: xb.call(lambda v: xb.call(lambda w: w + y + u, v), u), x)
        assert result.operands == (x, y)
        for called in xb.XlaBuilder.build(b, result).called_computations():
            assert only_own_ops(called)

    def test_tuples_and_tokens(self, b: xb.XlaBuilder) -> None:
        x, t = b.parameter(xb.f32[()]), b.parameter("(f32[], token[])")
        result = xb.call(lambda v: xb.tuple(v + t[0], t), x)
        assert str(result.shape) == "(f32[], (f32[], token[]))"
        assert result.operands == (x, t)


def test_tuple_of_a_sequence() -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter(xb.f32[2]), b.parameter(xb.s32[()])
    assert xb.tuple([x, y]).operands == (x, y)
    assert xb.tuple((x,)).shape is xb.tuple_shape([xb.f32[2]])


def test_a_scan_of_nothing_is_a_loop(b: xb.XlaBuilder) -> None:
    """A scan needs an array; without inputs and outputs, the step is repeated."""
    (carry,) = xb.scan([], [b.parameter("f32[]")], lambda c: xb.tuple(c + 1.0), 0, 5)
    assert {op.opcode for op in b.build(carry).ops} & {"while", "scan"} == {"while"}
