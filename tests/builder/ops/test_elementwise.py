"""Elementwise ops: shapes, element types, operators, and numbers as operands."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.ops import shape_inference as infer
from builder.types.primitive_type import ALL
from tests.foreign_arrays import PROTOCOLS, ArrayOnly

INTEGER = {t for t in ALL if t.is_integral}
SIGNED = {t for t in INTEGER if t.is_signed}
FLOAT = {t for t in ALL if t.is_floating}
COMPLEX = {xb.c64, xb.c128}
PRED = {xb.pred}

# From the document, or from the C++ builder if the document has no rule.
UNARY: dict[str, set[xb.PrimitiveType]] = {
    "abs": SIGNED | FLOAT | COMPLEX,
    "acos": FLOAT | COMPLEX,
    "acosh": FLOAT | COMPLEX,
    "asin": FLOAT | COMPLEX,
    "asinh": FLOAT | COMPLEX,
    "atanh": FLOAT | COMPLEX,
    "cbrt": FLOAT,
    "ceil": FLOAT,
    "clz": INTEGER,
    "cos": FLOAT | COMPLEX,
    "cosh": FLOAT | COMPLEX,
    "erf": FLOAT,
    "exp": FLOAT | COMPLEX,
    "expm1": FLOAT | COMPLEX,
    "floor": FLOAT,
    "imag": FLOAT | COMPLEX,
    "is_finite": FLOAT,
    "log": FLOAT | COMPLEX,
    "log1p": FLOAT | COMPLEX,
    "logistic": FLOAT | COMPLEX,
    "neg": INTEGER | FLOAT | COMPLEX,
    "not_": PRED | INTEGER,
    "population_count": INTEGER,
    "real": FLOAT | COMPLEX,
    "round": FLOAT,
    "round_nearest_even": FLOAT,
    "rsqrt": FLOAT | COMPLEX,
    "sign": SIGNED | FLOAT | COMPLEX,
    "sin": FLOAT | COMPLEX,
    "sinh": FLOAT | COMPLEX,
    "sqrt": FLOAT | COMPLEX,
    "tan": FLOAT | COMPLEX,
    "tanh": FLOAT | COMPLEX,
}
BINARY: dict[str, set[xb.PrimitiveType]] = {
    "add": set(ALL),
    "sub": INTEGER | FLOAT | COMPLEX,
    "mul": set(ALL),
    "mulhi": INTEGER,
    "div": INTEGER | FLOAT | COMPLEX,
    "rem": INTEGER | FLOAT,
    "max": PRED | INTEGER | FLOAT,
    "min": PRED | INTEGER | FLOAT,
    "and_": PRED | INTEGER,
    "or_": PRED | INTEGER,
    "xor": PRED | INTEGER,
    "pow": INTEGER | FLOAT | COMPLEX,
    "atan2": FLOAT | COMPLEX,
    "shift_left": INTEGER,
    "shift_right_arithmetic": INTEGER,
    "shift_right_logical": INTEGER,
    "complex": {xb.f32, xb.f64},
}
COMPARISONS = ("eq", "ne", "ge", "gt", "le", "lt")


def parameter(shape: Any) -> xb.XlaOp:
    return xb.XlaBuilder().parameter(shape)


class HasElements:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.ones(2, np.float32)


class TestUnary:
    @each_row("name", UNARY)
    def test_types(self, name: str) -> None:
        function = getattr(xb, name)
        for t in ALL:
            if t in UNARY[name]:
                result = function(parameter(t[2, 3])).shape
                expected = t
                if name == "is_finite":
                    expected = xb.pred
                elif name in ("abs", "real", "imag"):
                    expected = {xb.c64: xb.f32, xb.c128: xb.f64}.get(t, t)
                assert result is expected[2, 3]
            else:
                with pytest.raises(xb.ShapeInferenceError) as caught:
                    function(parameter(t[2, 3]))
                message = str(caught.value)
                assert message.startswith(f"{name}: operand must be of ")
                assert f"type, got {t}\n  operand {t}[2,3]" in message
                assert caught.value.op == name

    @each_row("shape", ["(f32[2])", "token[]", "()"])
    def test_not_an_array(self, shape: str) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="neg: operand must be an array, got a t"):
            xb.neg(parameter(shape))

    def test_dynamic_sizes_are_kept(self) -> None:
        assert xb.exp(parameter("f32[<=2,?]")).shape is xb.f32["<=2", "?"]

    def test_layouts_are_dropped(self) -> None:
        assert xb.exp(parameter("f32[2,3]{0,1}")).shape is xb.f32[2, 3]

    @each_row(
        "value, message",
        [
            (
                1.0,
                "operand must be an XlaOp, got float: 1.0\nfix: record it with b.constant\\(1.0",
            ),
            (np.ones(2), "neg: operand must be an XlaOp, got ndarray"),
            ("a", "neg: operand must be an XlaOp, got str: 'a'"),
            (None, "neg: operand must be an XlaOp, got NoneType: None"),
            ((), r"neg: operand must be an XlaOp, got tuple: \(\)\nfix: combine"),
        ],
    )
    def test_not_an_op(self, value: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            xb.neg(value)


class TestBinary:
    @each_row("name", BINARY)
    def test_types(self, name: str) -> None:
        function = getattr(xb, name)
        for t in ALL:
            x = parameter(t[2, 3])
            if t in BINARY[name]:
                expected = {xb.f32: xb.c64, xb.f64: xb.c128}[t] if name == "complex" else t
                assert function(x, x).shape is expected[2, 3]
            else:
                with pytest.raises(xb.ShapeInferenceError) as caught:
                    function(x, x)
                assert f"type, got {t}\n  lhs {t}[2,3]\n  rhs {t}[2,3]" in str(caught.value)
                assert caught.value.op == name

    @each_row("name", COMPARISONS)
    def test_comparisons(self, name: str) -> None:
        for suffix in ("", "_total_order"):
            function = getattr(xb, name + suffix)
            for t in ALL:
                x = parameter(t[2, 3])
                if t in COMPLEX and (suffix or name not in ("eq", "ne")):
                    with pytest.raises(
                        xb.ShapeInferenceError, match=f"complex numbers have no order, got {t}"
                    ):
                        function(x, x)
                else:
                    assert function(x, x).shape is xb.pred[2, 3]

    @each_row("name", [*BINARY, *COMPARISONS])
    def test_mixed_types(self, name: str) -> None:
        b = xb.XlaBuilder()
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.s32[2])
        with pytest.raises(xb.ShapeInferenceError) as caught:
            getattr(xb, name)(x, y)
        assert str(caught.value) == (
            f"{name}: operands must have one element type, got f32, s32\n"
            "  lhs f32[2]\n"
            "  rhs s32[2]\n"
            "fix: convert with xb.convert_element_type; nothing is promoted silently"
        )

    def test_mixed_floats(self) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(xb.ShapeInferenceError, match="got f32, bf16"):
            xb.add(b.parameter(xb.f32[2]), b.parameter(xb.bf16[2]))

    @each_row("name", [*BINARY, *COMPARISONS])
    def test_not_an_array(self, name: str) -> None:
        b = xb.XlaBuilder()
        x, t = b.parameter(xb.f32[2]), b.parameter("(f32[2])")
        with pytest.raises(
            xb.ShapeInferenceError,
            match=rf"{name}: rhs must be an array, got a tuple\n"
            rf"  lhs f32\[2\]\n  rhs \(f32\[2\]\)\n"
            "fix: take an element with xb.get_tuple_element",
        ):
            getattr(xb, name)(x, t)

    @each_row(
        "dimensions, message",
        [
            (1, r"broadcast_dimensions must be a sequence of integers, got 1\nfix: write b"),
            ("1", "broadcast_dimensions must be a sequence of integers, got '1'"),
            ([1.0], "each entry of broadcast_dimensions must be an integer, got 1.0"),
            ([True], "each entry of broadcast_dimensions must be an integer, got True"),
        ],
    )
    def test_dimensions_that_are_not_ints(self, dimensions: Any, message: str) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(xb.ShapeInferenceError, match=f"add: {message}"):
            xb.add(b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3]), dimensions)

    def test_dimensions_may_be_numpy_ints(self) -> None:
        b = xb.XlaBuilder()
        y = xb.add(b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3]), np.array([1]))
        assert y.shape is xb.f32[2, 3]

    @each_row("direction", ["lt", "", "LESS"])
    def test_compare_direction(self, direction: str) -> None:
        x = parameter(xb.f32[2])
        with pytest.raises(
            xb.ShapeInferenceError, match="compare: direction must be one of EQ, NE"
        ):
            xb.compare(x, x, direction)

    def test_compare_direction_that_is_not_a_string(self) -> None:
        x = parameter(xb.f32[2])
        with pytest.raises(xb.OperandError, match="compare: direction must be a string"):
            xb.compare(x, x, [])  # type: ignore[arg-type]


OPERATORS: list[tuple[Callable[..., Any], str, xb.PrimitiveType]] = [
    (operator.add, "add", xb.f32),
    (operator.sub, "subtract", xb.f32),
    (operator.mul, "multiply", xb.f32),
    (operator.truediv, "divide", xb.f32),
    (operator.mod, "remainder", xb.u32),
    (operator.pow, "power", xb.f32),
    (operator.and_, "and", xb.s32),
    (operator.or_, "or", xb.s32),
    (operator.xor, "xor", xb.s32),
    (operator.lshift, "shift_left", xb.s32),
    (operator.rshift, "shift_right_arithmetic", xb.s32),
    (operator.rshift, "shift_right_logical", xb.u32),
]
COMPARISON_OPERATORS = [
    (operator.eq, "EQ", "EQ"),
    (operator.ne, "NE", "NE"),
    (operator.lt, "LT", "GT"),
    (operator.le, "LE", "GE"),
    (operator.gt, "GT", "LT"),
    (operator.ge, "GE", "LE"),
]


class TestOperators:
    @each_row("python, opcode, t", OPERATORS)
    def test_two_ops(self, python: Callable[..., Any], opcode: str, t: xb.PrimitiveType) -> None:
        b = xb.XlaBuilder()
        x, y = b.parameter(t[2]), b.parameter(t[2])
        result = python(x, y)
        assert (result.opcode, result.operands, result.shape) == (opcode, (x, y), t[2])

    @each_row("python, opcode, t", OPERATORS)
    def test_number_on_either_side(
        self, python: Callable[..., Any], opcode: str, t: xb.PrimitiveType
    ) -> None:
        x = parameter(t[2])
        for result, number, op in ((python(x, 2), 1, 0), (python(2, x), 0, 1)):
            assert result.opcode == opcode
            assert result.operands[op] is x
            broadcast = result.operands[number]
            assert broadcast.opcode == "broadcast_in_dim"
            constant = broadcast.operands[0]
            assert (constant.opcode, constant.shape) == ("constant", t[()])
            assert constant.attributes["value"] == 2

    @each_row("python, direction, mirrored", COMPARISON_OPERATORS)
    def test_comparisons(self, python: Callable[..., Any], direction: str, mirrored: str) -> None:
        b = xb.XlaBuilder()
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        result = python(x, y)
        assert (result.opcode, result.operands, result.shape) == ("compare", (x, y), xb.pred[2])
        assert result.attributes["comparison_direction"] == direction
        assert python(x, 1).attributes["comparison_direction"] == direction
        # Python turns `1 < x` into `x > 1`.
        reflected = python(1, x)
        assert reflected.operands[0] is x
        assert reflected.attributes["comparison_direction"] == mirrored

    def test_unary(self) -> None:
        x = parameter(xb.s32[2])
        assert [(-x).opcode, (~x).opcode, abs(x).opcode] == ["negate", "not", "abs"]
        assert +x is x

    def test_an_op_is_a_key(self) -> None:
        b = xb.XlaBuilder()
        x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
        assert {x: 1, y: 2}[x] == 1

    def test_numpy_scalar_on_the_left(self) -> None:
        x = parameter(xb.f32[2])
        assert (np.float32(1) + x).shape is xb.f32[2]

    def test_numpy_scalar_keeps_its_type(self) -> None:
        x = parameter(xb.f32[2])
        with pytest.raises(xb.ShapeInferenceError, match="one element type, got f32, f64"):
            x + np.float64(1)

    @each_row("array", [np.ones(2, np.float32), [1.0, 2.0], HasElements()])
    def test_arrays_are_recorded_by_name(self, array: Any) -> None:
        x = parameter(xb.f32[2])
        products = [lambda: x @ array, lambda: array @ x] if isinstance(array, np.ndarray) else []
        for call in (lambda: x + array, lambda: array + x, *products):
            with pytest.raises(xb.OperandError, match=r"fix: record it with builder.constant"):
                call()

    @each_row("value", [None, "a", object()])
    def test_other_operands(self, value: Any) -> None:
        x = parameter(xb.f32[2])
        with pytest.raises(xb.OperandError, match="add: rhs must be an XlaOp, got"):
            x + value
        with pytest.raises(xb.OperandError, match="eq: rhs must be an XlaOp, got"):
            _ = x == value

    def test_operands_that_are_not_ops(self) -> None:
        with pytest.raises(
            xb.OperandError, match="at least one operand must be an XlaOp, got 1 and 2"
        ):
            xb.add(1, 2)

    @each_row(
        "use, target",
        [
            (int, "an int"),
            (float, "a float"),
            (complex, "a complex"),
            (operator.index, "an index"),
            (np.asarray, "a NumPy array"),
            (lambda x: [1, 2][x], "an index"),
        ],
    )
    def test_an_op_has_no_value(self, use: Callable[[Any], Any], target: str) -> None:
        with pytest.raises(
            xb.OperandError, match=f"can't be converted to {target}, got\n.*\nfix: (build|repeat)"
        ):
            use(parameter(xb.s32[()]))

    def test_truth_value(self) -> None:
        x = parameter(xb.f32[2])
        y = x > 0

        def branch() -> int:
            return 1 if y else 2

        with pytest.raises(xb.OperandError) as caught:
            branch()
        assert str(caught.value) == (
            "bool: an XlaOp has no truth value, because it is recorded and not computed, got\n"
            f"  {y!r}\n"
            "fix: use xb.select(pred, a, b) for each element, xb.conditional for a branch, "
            "xb.while_ for a loop, xb.and_ / xb.or_ / xb.not_ (or & | ~) for logic; "
            "`op is None` to test for a missing op"
        )
        with pytest.raises(xb.OperandError, match="no truth value"):
            _ = 0 < x < 1

    @each_row(
        "use, message",
        [
            (len, r"len: len\(op\) requires a tuple, got f32\[2\]\nfix: .*op.shape.dimensions"),
            (
                list,
                (
                    r"get_tuple_element: iteration requires a tuple, got f32\[2\]\n"
                    r"fix: use xb.while_"
                ),
            ),
        ],
    )
    def test_an_array_is_not_a_sequence(self, use: Callable[[Any], Any], message: str) -> None:
        with pytest.raises(xb.ShapeInferenceError, match=message):
            use(parameter(xb.f32[2]))


class TestNumbersAsOperands:
    """A number becomes a constant of the other operand's type, for every type that can hold it."""

    @each_row("t", ALL)
    def test_one(self, t: xb.PrimitiveType) -> None:
        x = parameter(t[2])
        if t is xb.pred:
            with pytest.raises(xb.ConstantError, match="a pred value is True or False"):
                xb.eq(x, 1)
            assert xb.eq(x, True).operands[1].shape is xb.pred[2]
        elif t is xb.s2:
            assert xb.eq(x, 1).operands[1].shape is t[2]
            with pytest.raises(
                xb.ConstantError, match=r"eq: s2 can't represent .* 2: the range is -2 to 1"
            ):
                xb.eq(x, 2)
        else:
            assert xb.eq(x, 1).operands[1].shape is t[2]

    @each_row("t", sorted(INTEGER | PRED, key=str))
    def test_fractions(self, t: xb.PrimitiveType) -> None:
        with pytest.raises(
            xb.ConstantError, match=f"eq: {t} can't represent the Python number 1.5"
        ):
            xb.eq(parameter(t[2]), 1.5)

    @each_row("t", sorted(FLOAT | COMPLEX, key=str))
    def test_fractions_of_floats(self, t: xb.PrimitiveType) -> None:
        constant = xb.eq(parameter(t[2]), 1.5).operands[1].operands[0]
        held = constant.attributes["value"]
        assert held.tobytes() == np.float64(1.5).astype(t.dtype).tobytes()

    @each_row("t", sorted(set(ALL) - COMPLEX, key=str))
    def test_complex_numbers(self, t: xb.PrimitiveType) -> None:
        with pytest.raises(xb.ConstantError, match=f"eq: {t} can't represent the Python number 1j"):
            xb.eq(parameter(t[2]), 1j)

    @each_row("t", sorted(set(ALL) - PRED, key=str))
    def test_bools(self, t: xb.PrimitiveType) -> None:
        with pytest.raises(xb.ConstantError) as caught:
            xb.eq(parameter(t[2]), True)
        assert str(caught.value) == (
            f"eq: {t} can't represent the Python number True: a bool has type pred\n"
            f"  operand {t}[2]\n"
            "fix: write 1 or 0, or convert the pred with xb.convert"
        )

    @each_row("t", sorted(INTEGER, key=str))
    def test_out_of_range(self, t: xb.PrimitiveType) -> None:
        x = parameter(t[2])
        for value in (int(t.max) + 1, int(t.min) - 1):
            with pytest.raises(
                xb.ConstantError, match=f"eq: {t} can't represent the Python number {value}"
            ):
                xb.eq(x, value)

    def test_a_refused_number_records_nothing(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.s8[2])
        with pytest.raises(xb.ConstantError):
            x + 300
        assert b.ops == [x]

    def test_next_to_a_tuple(self) -> None:
        with pytest.raises(
            xb.ShapeInferenceError, match="add: operand must be an array, got a tuple"
        ):
            parameter("(f32[2])") + 1


class TestClamp:
    @each_row(
        "low, x, high, result",
        [
            ("f32[]", "f32[2,3]", "f32[]", "f32[2,3]"),
            ("f32[2,3]", "f32[2,3]", "f32[]", "f32[2,3]"),
            ("f32[2,3]", "f32[2,3]", "f32[2,3]", "f32[2,3]"),
            ("f32[5]", "f32[]", "f32[]", "f32[5]"),
            ("f32[<=5]", "f32[5]", "f32[5]", "f32[5]"),
            ("f32[5]", "f32[<=5]", "f32[5]", "f32[<=5]"),
        ],
    )
    def test_shapes(self, low: str, x: str, high: str, result: str) -> None:
        b = xb.XlaBuilder()
        y = xb.clamp(b.parameter(low), b.parameter(x), b.parameter(high))
        assert str(y.shape) == result
        # HLO requires an operand of the result's shape; only bounds may be scalars.
        assert y.operands[1].shape.dimensions == y.shape.dimensions  # type: ignore[union-attr]

    def test_the_documents_example(self) -> None:
        assert xb.clamp(0, parameter(xb.s32[3]), 6).shape is xb.s32[3]

    @each_row(
        "low, x, high, message",
        [
            ("f32[1]", "f32[5]", "f32[5]", "min must be a scalar or have the operand's sizes"),
            ("f32[]", "f32[5]", "f32[4]", "max must be a scalar or have the operand's sizes"),
            ("f32[4]", "f32[]", "f32[5]", "min and max must have the same sizes, or be scalars"),
            ("f32[]", "s32[5]", "f32[]", "one element type, got f32, s32"),
            (
                "c64[]",
                "c64[5]",
                "c64[]",
                "min must be of pred, integer or floating-point type, got c64",
            ),
            ("f32[]", "(f32[5])", "f32[]", "operand must be an array, got a tuple"),
        ],
    )
    def test_refused(self, low: str, x: str, high: str, message: str) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(xb.ShapeInferenceError, match=f"clamp: .*{message}"):
            xb.clamp(b.parameter(low), b.parameter(x), b.parameter(high))


class TestSelect:
    @each_row(
        "pred, on_true, on_false, result",
        [
            ("pred[4]", "s32[4]", "s32[4]", "s32[4]"),
            ("pred[]", "s32[4]", "s32[4]", "s32[4]"),
            ("pred[]", "f32[5]", "f32[]", "f32[5]"),
            ("pred[5]", "f32[]", "f32[]", "f32[5]"),
            ("pred[]", "f32[<=5]", "f32[5]", "f32[<=5]"),
            ("pred[<=5]", "f32[5]", "f32[5]", "f32[<=5]"),
            ("pred[]", "(f32[2], s32[])", "(f32[2], s32[])", "(f32[2], s32[])"),
        ],
    )
    def test_shapes(self, pred: str, on_true: str, on_false: str, result: str) -> None:
        b = xb.XlaBuilder()
        y = xb.select(b.parameter(pred), b.parameter(on_true), b.parameter(on_false))
        assert str(y.shape) == result

    @each_row(
        "pred, on_true, on_false, message",
        [
            ("f32[4]", "f32[4]", "f32[4]", "pred must be of pred type, got f32"),
            ("pred[4]", "f32[4]", "s32[4]", "one element type, got f32, s32"),
            (
                "pred[5]",
                "f32[1]",
                "f32[5]",
                "must be a scalar or have the sizes of the other operands",
            ),
            (
                "pred[5]",
                "f32[4]",
                "f32[4]",
                "must be a scalar or have the sizes of the other operands",
            ),
            (
                "pred[3,4]",
                "f32[3,4]",
                "f32[4]",
                "on_false must be a scalar or have the sizes of the other operands",
            ),
            (
                "pred[2]",
                "(f32[2])",
                "(f32[2])",
                "pred must be a scalar of type pred if the values are tuples",
            ),
            ("pred[]", "(f32[2])", "(f32[3])", "on_true and on_false must have the same shape"),
            ("(pred[])", "f32[2]", "f32[2]", "pred must be an array, got a tuple"),
        ],
    )
    def test_refused(self, pred: str, on_true: str, on_false: str, message: str) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(xb.ShapeInferenceError, match=f"select: .*{message}"):
            xb.select(b.parameter(pred), b.parameter(on_true), b.parameter(on_false))


class TestConversion:
    @each_row("old", ALL)
    def test_convert_any_type_to_any_type(self, old: xb.PrimitiveType) -> None:
        for new in ALL:
            assert xb.convert_element_type(parameter(old[2, "<=3"]), new).shape is new[2, "<=3"]

    def test_names_and_dtypes(self) -> None:
        x = parameter(xb.f32[2])
        assert xb.convert_element_type(x, "s8").shape is xb.s8[2]
        assert xb.convert(x, np.int8).shape is xb.s8[2]

    @each_row("new", [None, "f99", object])
    def test_not_a_type(self, new: Any) -> None:
        with pytest.raises(xb.PrimitiveTypeError):
            xb.convert_element_type(parameter(xb.f32[2]), new)

    @each_row(
        "old, new, result",
        [
            ("f32[10]", xb.s32, "s32[10]"),
            ("f32[10]", xb.f16, "f16[10,2]"),
            ("f16[10,2]", xb.f32, "f32[10]"),
            ("u8[4]", xb.f32, "f32[]"),
            ("s4[2]", xb.s8, "s8[]"),
            ("c128[3]", xb.c64, "c64[3,2]"),
            ("s32[3,<=2]", xb.f64, "f64[3]"),
        ],
    )
    def test_bitcast(self, old: str, new: xb.PrimitiveType, result: str) -> None:
        assert str(xb.bitcast_convert_type(parameter(old), new).shape) == result

    @each_row(
        "old, new, message",
        [
            ("f16[10,3]", xb.f32, "2 elements of f16 make one of f32, .* must be 2, got 3"),
            ("f16[]", xb.f32, "must be 2, got none"),
            ("c64[2]", xb.f64, "both types must be complex, or both real"),
            ("f64[2]", xb.c64, "both types must be complex, or both real"),
            ("(f32[2])", xb.s32, "operand must be an array, got a tuple"),
        ],
    )
    def test_bitcast_refused(self, old: str, new: xb.PrimitiveType, message: str) -> None:
        with pytest.raises(xb.ShapeInferenceError, match=message):
            xb.bitcast_convert_type(parameter(old), new)

    def test_reduce_precision(self) -> None:
        y = xb.reduce_precision(parameter(xb.f32[3]), 5, 10)
        assert y.shape is xb.f32[3]
        assert dict(y.attributes) == {"exponent_bits": 5, "mantissa_bits": 10}

    @each_row(
        "shape, exponent, mantissa, message",
        [
            ("s32[3]", 5, 10, "operand must be of floating-point type, got s32"),
            ("f32[3]", 0, 10, r"exponent_bits must be from 1 to 2\*\*31 - 1, got 0"),
            ("f32[3]", 5, -1, r"mantissa_bits must be from 0 to 2\*\*31 - 1, got -1"),
            ("f32[3]", 2**31, 2, r"exponent_bits must be from 1 to 2\*\*31 - 1, got 2147483648"),
            ("f32[3]", 5, 2**40, r"mantissa_bits must be from 0 to 2\*\*31 - 1, got 1099511627776"),
            ("f32[3]", 1.5, 1, "exponent_bits must be an integer, got 1.5"),
        ],
    )
    def test_reduce_precision_refused(
        self, shape: str, exponent: Any, mantissa: Any, message: str
    ) -> None:
        with pytest.raises(xb.ShapeInferenceError, match=f"reduce_precision: {message}"):
            xb.reduce_precision(parameter(shape), exponent, mantissa)


class TestOfTwoOps:
    """Functions that record other ops: total orders, and combinations that XlaBuilder records."""

    @each_row(
        "name, direction",
        [
            ("eq_total_order", "EQ"),
            ("ne_total_order", "NE"),
            ("ge_total_order", "GE"),
            ("gt_total_order", "GT"),
            ("le_total_order", "LE"),
            ("lt_total_order", "LT"),
        ],
    )
    def test_total_orders(self, name: str, direction: str) -> None:
        b = xb.XlaBuilder()
        x, v = b.parameter(xb.bf16[2, 3]), b.parameter(xb.bf16[3])
        op = getattr(xb, name)(x, v, broadcast_dimensions=[1])
        assert op.shape is xb.pred[2, 3]
        assert op.attributes["comparison_direction"] == direction
        assert op.attributes["compare_type"] == "TOTALORDER"
        with pytest.raises(xb.ShapeInferenceError, match=f"^{name}: .*\n  lhs bf16"):
            getattr(xb, name)(x, b.parameter(xb.bf16[4]), broadcast_dimensions=[1])
        with pytest.raises(xb.ShapeInferenceError, match=f"^{name}: operands must have one eleme"):
            getattr(xb, name)(x, b.parameter(xb.f32[2, 3]))

    @each_row(
        "name, taken, refused",
        [
            ("atan", FLOAT | COMPLEX, xb.s32),
            ("square", INTEGER | FLOAT | COMPLEX, None),
            ("reciprocal", FLOAT | COMPLEX, xb.pred),
            ("conj", COMPLEX | {xb.f32, xb.f64}, xb.s8),
        ],
    )
    def test_combinations(self, name: str, taken: set[Any], refused: Any) -> None:
        function = getattr(xb, name)
        for t in sorted(taken, key=str):
            shape = function(parameter(t[2, 3])).shape
            assert shape.dimensions == (2, 3)
            if name != "conj":
                assert shape.element_type is t
        if refused is not None:
            with pytest.raises(xb.ShapeInferenceError, match=f"got {refused}"):
                function(parameter(refused[3]))
        with pytest.raises(xb.XlaError, match="must be an array, got a token"):
            function(parameter("token[]"))


class TestStochasticConvert:
    @each_row(
        "operand, random, new, result",
        [
            ("f32[2,3]", "u32[2,3]", xb.s8, "s8[2,3]"),
            ("f64[]", "u64[]", xb.s64, "s64[]"),
            ("bf16[0]", "u16[0]", "f8e5m2", "f8e5m2[0]"),
            ("f8e4m3fn[4]", "u8[4]", xb.u4, "u4[4]"),
            ("f4e2m1fn[4]", "u4[4]", xb.s2, "s2[4]"),
            ("f32[<=3,?]", "u32[<=3,?]", xb.s8, "s8[<=3,?]"),
        ],
    )
    def test_shape(self, operand: str, random: str, new: Any, result: str) -> None:
        b = xb.XlaBuilder()
        x = xb.stochastic_convert_type(b.parameter(operand), b.parameter(random), new)
        assert str(x.shape) == result
        assert x.opcode == "stochastic_convert"

    @each_row(
        "operand, random, new, message",
        [
            ("(f32[3])", "u32[3]", xb.s8, "operand must be an array, got a tuple"),
            ("f32[3]", "token[]", xb.s8, "random must be an array, got a token"),
            ("s32[3]", "u32[3]", xb.s8, "operand must be of floating-point type, got s32"),
            ("c64[3]", "u64[3]", xb.s8, "operand must be of floating-point type, got c64"),
            ("f32[3]", "s32[3]", xb.s8, "random must be of unsigned integer type, got s32"),
            ("f32[3]", "pred[3]", xb.s8, "random must be of unsigned integer type, got pred"),
            ("f32[3]", "u16[3]", xb.s8, "as many bits as the operand's elements, 32, got u16"),
            ("f32[3]", "u32[4]", xb.s8, "operand and random must have the same sizes"),
            ("f32[3]", "u32[]", xb.s8, "operand and random must have the same sizes"),
            ("f32[<=3]", "u32[3]", xb.s8, "operand and random must have the same sizes"),
            ("f32[3]", "u32[3]", xb.pred, "must be an integer or floating-point type, got pred"),
            ("f32[3]", "u32[3]", xb.c64, "must be an integer or floating-point type, got c64"),
        ],
    )
    def test_rules(self, operand: str, random: str, new: Any, message: str) -> None:
        b = xb.XlaBuilder()
        x, r = b.parameter(operand), b.parameter(random)
        with pytest.raises(xb.ShapeInferenceError) as caught:
            xb.stochastic_convert_type(x, r, new)
        text = str(caught.value)
        assert text.startswith("stochastic_convert_type: ")
        assert message in text
        assert len(b.ops) == 2

    def test_arguments_of_wrong_types(self) -> None:
        x = parameter(xb.f32[3])
        with pytest.raises(xb.OperandError, match="random must be an XlaOp, got int: 7"):
            xb.stochastic_convert_type(x, 7, xb.s8)  # type: ignore[arg-type]
        with pytest.raises(xb.PrimitiveTypeError, match="f99"):
            xb.stochastic_convert_type(x, x, "f99")


class TestMap:
    def test_callable(self) -> None:
        b = xb.XlaBuilder()
        x, n = b.parameter(xb.f32[2, 3]), b.parameter(xb.s32[2, 3])
        y = xb.map([x, n], lambda a, i: xb.select(i > 0, a, -a))
        assert y.shape is xb.f32[2, 3]
        assert str(y.attributes["to_apply"].program_shape) == "(a: f32[], i: s32[]) -> f32[]"

    def test_element_type_of_the_computation(self) -> None:
        assert xb.map(parameter(xb.f32[3]), lambda a: a > 0).shape is xb.pred[3]

    def test_scalars_beside_arrays(self) -> None:
        b = xb.XlaBuilder()
        s, x = b.parameter(xb.f32[()]), b.parameter(xb.f32[2, 3])
        y = xb.map([s, x], xb.add, [0, 1])
        assert y.shape is xb.f32[2, 3]
        assert [o.shape for o in y.operands] == [xb.f32[2, 3], xb.f32[2, 3]]

    @each_row(
        "shapes, dimensions, function, message",
        [
            ([], [], xb.neg, "at least one operand is needed"),
            (["f32[2]", "f32[3]"], [0], xb.add, "operand 1 differs from operand 0"),
            (["f32[2]", "s32[]"], [0], lambda a, i: a, "operand 1 differs from operand 0"),
            (["f32[2,3]"], [0], xb.neg, r"in order, \[0, 1\], got \[0\]"),
            (["f32[2,3]"], [1, 0], xb.neg, r"in order, \[0, 1\], got \[1, 0\]"),
            (["f32[2]"], [0], lambda a: xb.tuple(a, a), "must return a scalar, got"),
            (["(f32[2])"], [0], xb.neg, "operand 0 must be an array, got a tuple"),
        ],
    )
    def test_refused(
        self, shapes: list[str], dimensions: list[int], function: Any, message: str
    ) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(xb.ShapeInferenceError, match=f"map: .*{message}"):
            xb.map([b.parameter(s) for s in shapes], function, dimensions)

    def test_computation_of_another_signature(self) -> None:
        wrong = xb.computation(xb.s32[()])(lambda a: a)
        with pytest.raises(
            xb.SignatureError,
            match=r"map: computation must be of signature \(f32\[\]\) -> a scalar, "
            r"got \(a: s32\[\]\) -> s32\[\]",
        ):
            xb.map(parameter(xb.f32[2]), wrong)


class TestInferenceAlone:
    """Inference needs no builder."""

    def test_binary(self) -> None:
        assert infer.add(xb.f32[2, 3], xb.f32[3], (1,)) is xb.f32[2, 3]

    def test_attributes_of_errors(self) -> None:
        with pytest.raises(xb.ShapeInferenceError) as caught:
            infer.add(xb.f32[2], xb.s32[2])
        assert (caught.value.op, caught.value.shapes) == (
            "add",
            {"lhs": xb.f32[2], "rhs": xb.s32[2]},
        )


class TestNumPyOperands:
    """NumPy scalars on the left record the operator; NumPy's functions raise for an op."""

    def test_scalar_on_the_left(self) -> None:
        x = xb.XlaBuilder().parameter(xb.f32[2])
        y = np.float32(1) - x
        assert y.opcode == "subtract"
        assert y.operands[1] is x
        assert (np.float32(1) < x).attributes["comparison_direction"] == "LT"

    def test_function(self) -> None:
        x = xb.XlaBuilder().parameter(xb.f32[2])
        with pytest.raises(xb.OperandError) as caught:
            np.tanh(x)
        assert str(caught.value) == (
            "numpy.tanh: an XlaOp has no value, because it is recorded and not computed, got\n"
            "  <XlaOp %0 'p0' = f32[2] parameter()>\n"
            "fix: use xb.tanh(operand)"
        )


class Frame(ArrayOnly):
    """A DataFrame, whose operators yield to operands of a higher priority, as those of pandas."""

    __pandas_priority__ = 4000

    def __add__(self, other: Any) -> Any:
        if getattr(other, "__pandas_priority__", 0) > self.__pandas_priority__:
            return NotImplemented
        return [part + number for part, number in zip(self.array, other, strict=True)]


@each_row("make", [*PROTOCOLS.values(), Frame])
def test_arrays_of_other_libraries_have_a_fix(make: Callable[[np.ndarray], Any]) -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    value = make(np.ones(2, np.float32))
    for side, add in (("rhs", lambda: x + value), ("lhs", lambda: value + x)):
        with pytest.raises(xb.OperandError) as caught:
            add()
        assert f"add: {side} must be an XlaOp, got " in str(caught.value)
        assert "\nfix: record it with builder.constant(value)" in str(caught.value)


def test_errors_name_the_callers_line() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(xb.XlaError) as caught:
        x + xb.abs(x[2])
    assert caught.value.location == f"{__file__}:{line}"
    assert caught.value.__notes__ == [f"at {__file__}:{line}"]


def recorded_text(op: xb.XlaOp) -> list[str]:
    """Return an op and the ops it depends on, without parameters: opcode, operands, shape."""
    return [
        f"{o.opcode}({', '.join(str(p.id) for p in o.operands)}) {o.shape}"
        for o in op.builder.ops
        if o.opcode != "parameter"
    ]


def test_constants_and_broadcasts_have_the_callers_line() -> None:
    b = xb.XlaBuilder()
    x, row = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
    ops = [
        *(xb.add(x, row, [1]), xb.add(row, x, [1]), x * 2.0, 2.0 - x),
        xb.reduce(x, 0.0, xb.add, [0]),
    ]
    lines = [op.source.line for op in b.ops[2:] if op.source is not None]
    first = ops[0].source.line if ops[0].source is not None else 0
    # Two adds with a broadcast, a constant, its broadcast and the op, a constant and the reduction.
    assert lines == [first] * 10 + [first + 1] * 2


def test_numbers_and_ones_are_broadcast_to_unbounded_sizes_at_run_time() -> None:
    x = xb.XlaBuilder().parameter("f32[?,3]")
    assert (x + x).shape is x.shape
    assert recorded_text(x * 2.0)[1:] == [
        "constant() f32[]",
        "get_dimension_size(0) s32[]",
        "reshape(3) s32[1]",
        "constant() s32[1]",
        "concatenate(4, 5) s32[2]",
        "dynamic_broadcast_in_dim(2, 6) f32[?,3]",
        "multiply(0, 7) f32[?,3]",
    ]
    b = xb.XlaBuilder()
    ones, rows = b.parameter(xb.f32[1, 3]), b.parameter("f32[?,1]")
    assert recorded_text(ones < rows) == [
        "get_dimension_size(1) s32[]",
        "reshape(2) s32[1]",
        "constant() s32[1]",
        "concatenate(3, 4) s32[2]",
        "dynamic_broadcast_in_dim(0, 5) f32[?,3]",
        "get_dimension_size(1) s32[]",
        "reshape(7) s32[1]",
        "constant() s32[1]",
        "concatenate(8, 9) s32[2]",
        "dynamic_broadcast_in_dim(1, 10) f32[?,3]",
        "compare(6, 11) pred[?,3]",
    ]
    assert b.ops[4].attributes["value"].tolist() == [3]
    assert b.ops[6].attributes == {"broadcast_dimensions": (0, 1)}


def test_an_unbounded_size_is_broadcast_to_a_known_one() -> None:
    b = xb.XlaBuilder()
    x, y, z = b.parameter("f32[?]"), b.parameter(xb.f32[5]), b.parameter("f32[<=5]")
    assert recorded_text(x + y) == [
        "constant() s32[1]",
        "dynamic_broadcast_in_dim(0, 3) f32[5]",
        "add(4, 1) f32[5]",
    ]
    assert recorded_text(z + x)[3:] == [
        "get_dimension_size(2) s32[]",
        "reshape(6) s32[1]",
        "dynamic_broadcast_in_dim(0, 7) f32[<=5]",
        "add(2, 8) f32[<=5]",
    ]


def test_the_sizes_of_other_ops_with_scalars_are_unbounded() -> None:
    b = xb.XlaBuilder()
    x, p = b.parameter("f32[?]"), b.parameter("pred[?]")
    scalar = b.constant(1.0, xb.f32)
    for op in (
        xb.clamp(0.0, x, scalar),
        xb.clamp(x, scalar, x),
        xb.select(p, 0.0, x),
        xb.select(p, scalar, 0.0),
        xb.select(scalar > 0, x, 1.0),
        xb.map([x, scalar], xb.add),
        xb.reciprocal(x),
    ):
        assert op.shape is x.shape
    assert sum(op.opcode == "dynamic_broadcast_in_dim" for op in b.ops) == 7


def test_attributes_of_numpy_arrays_have_a_fix() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(AttributeError, match=r"no attribute 'T'\nfix: use xb\.transpose"):
        _ = x.T
    with pytest.raises(AttributeError, match=r"no attribute 'astype'\nfix: use xb\.convert"):
        x.astype(np.float64)
    with pytest.raises(AttributeError, match=r"^'XlaOp' object has no attribute 'nonsense'$"):
        _ = x.nonsense
    with pytest.raises(xb.OperandError, match=r"^numpy.sum: .*\n.*\nfix: use lib\.sum"):
        np.sum(x)
    assert (x * np.array(1.5, np.float32)).opcode == "multiply"


def test_a_failed_op_with_an_unbounded_size_records_nothing() -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter(xb.f32[5]), b.parameter("f32[?,3]")
    for call in (lambda: xb.add(x, y, [0]), lambda: xb.lt(x, y, [0])):
        with pytest.raises(
            xb.ShapeInferenceError, match=r"size 5, .* size \?; the sizes must be equal"
        ):
            call()
    assert len(b.ops) == 2


HIGHEST = "highest"  # in lower case, as in HLO text


class TestResultAccuracy:
    def test_recorded(self) -> None:
        x = parameter(xb.f32[2])
        assert xb.exp(x, "HIGHEST").attributes == {
            "result_accuracy": xb.ResultAccuracy(mode="HIGHEST")
        }
        tolerance = xb.ResultAccuracy(ulps=2)
        assert xb.sqrt(x, tolerance).attributes == {"result_accuracy": tolerance}
        assert xb.sqrt(x, result_accuracy="DEFAULT").attributes == {}

    def test_text(self) -> None:
        assert str(xb.ResultAccuracy(1e-5, np.float32(0.5), np.int8(3))) == (
            "{tolerance={atol=1e-05,rtol=0.5,ulps=3}}"
        )
        assert str(xb.ResultAccuracy(mode="HIGHEST")) == "{mode=highest}"
        assert "-" not in str(xb.ResultAccuracy(-0.0, -0.0))

    @each_row("value", [HIGHEST, "TOLERANCE", 2, {"ulps": 2}, np.ones(2)])
    def test_refused(self, value: Any) -> None:
        x = parameter(xb.f32[2])
        with pytest.raises(xb.ShapeInferenceError) as caught:
            xb.log1p(x, value)
        assert str(caught.value).startswith(
            "log1p: result_accuracy must be 'HIGHEST', 'DEFAULT' or a ResultAccuracy, got "
        )
        meant = "'HIGHEST'" if value is HIGHEST else "for instance xb.ResultAccuracy(ulps=2)"
        assert f"\nfix: write {meant}" in str(caught.value)
        assert caught.value.location == f"{__file__}:{caught.traceback[0].lineno + 1}"
        assert x.builder.ops == [x]

    @each_row(
        "arguments, message",
        [
            ({"atol": -1}, "atol must be a number that is not negative, got -1"),
            ({"rtol": float("nan")}, "rtol must be a number that is not negative, got nan"),
            ({"rtol": "1"}, "rtol must be a number that is not negative, got '1'"),
            ({"atol": True}, "atol must be a number that is not negative, got True"),
            ({"atol": 10**400}, "atol must be a number that is not negative, got "),
            ({"ulps": -1}, "ulps must not be negative, got -1"),
            ({"ulps": 0.5}, "ulps must be an integer, got 0.5"),
            ({"ulps": 2**63}, "ulps must fit 64 bits, got an int of 64 bits"),
            ({"mode": "BEST"}, "mode must be one of DEFAULT, HIGHEST, TOLERANCE, got 'BEST'"),
            ({"mode": ["HIGHEST"]}, "mode must be one of DEFAULT, HIGHEST, TOLERANCE, got ["),
            (
                {"mode": "HIGHEST", "ulps": 2},
                "only the mode TOLERANCE allows errors, got mode HIGHEST with atol 0, rtol 0,",
            ),
        ],
    )
    def test_refused_tolerances(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(xb.ShapeInferenceError) as caught:
            xb.ResultAccuracy(**arguments)
        assert str(caught.value).startswith(f"ResultAccuracy: {message}")


@each_row("place", [-1, 2, 3])
def test_a_broadcast_dimension_out_of_range(place: int) -> None:
    b = xb.XlaBuilder()
    wide, row = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
    message = rf"broadcast_dimensions must be dimensions of lhs, 0 to 1, got {place} in "
    with pytest.raises(xb.ShapeInferenceError, match=message):
        xb.add(wide, row, [place])


def test_numbers_that_are_equal_but_not_the_same() -> None:
    """Plans with numbers are cached by the number, its type and its side."""
    b = xb.XlaBuilder()
    x, i = b.parameter(xb.f32[3]), b.parameter(xb.s32[3])
    for number in (0.0, -0.0, 0, 1, 1.0, float("nan"), -1, -1.0, 0.0, -0.0):
        for op, side in ((xb.sub(x, number), 1), (xb.sub(number, x), 0)):
            assert op.operands[1 - side] is x
            broadcast = op.operands[side]
            assert broadcast.opcode == "broadcast_in_dim"
            value = broadcast.operands[0].attributes["value"]
            assert value.tobytes() == np.float32(number).tobytes()
    assert xb.add(i, 1).shape == xb.s32[3]
    count = len(b.ops)
    for refused in (1.0, True):
        with pytest.raises(xb.ConstantError, match="s32 can't represent the Python number"):
            xb.add(i, refused)
    assert len(b.ops) == count


def test_the_source_line_of_an_op_with_a_number() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[3])

    def halved() -> xb.XlaOp:
        return xb.mul(x, 0.5)

    for _ in range(2):  # the second call finds the plan
        op = halved()
        for each in (op, op.operands[1], op.operands[1].operands[0]):
            assert each.source is not None
            assert each.source.line == halved.__code__.co_firstlineno + 1
