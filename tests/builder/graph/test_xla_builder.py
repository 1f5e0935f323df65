"""XlaBuilder: parameters, building, ownership of ops, names, and source locations."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb


def line() -> int:
    """Return the line number of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


class TestParameters:
    def test_are_numbered_in_order(self) -> None:
        b = xb.XlaBuilder()
        ops = [b.parameter(xb.f32[i]) for i in range(3)]
        assert [o.attributes["number"] for o in ops] == [0, 1, 2]
        assert [o.name for o in ops] == ["p0", "p1", "p2"]
        assert b.build().parameters == tuple(ops)

    def test_number_chosen(self) -> None:
        b = xb.XlaBuilder()
        second = b.parameter(xb.f32[2], "b", number=1)
        first = b.parameter(xb.f32[1], "a", number=0)
        third = b.parameter(xb.f32[3], "c")
        c = b.build(second)
        assert c.parameters == (first, second, third)
        assert str(c.program_shape) == "(a: f32[1], b: f32[2], c: f32[3]) -> f32[2]"

    def test_automatic_numbers_skip_chosen_ones(self) -> None:
        b = xb.XlaBuilder()
        for number in (1, 2):
            b.parameter(xb.f32[2], number=number)
        assert [b.parameter(xb.f32[2]).name for _ in range(2)] == ["p3", "p4"]

    @each_row(
        "shape, expected",
        [
            ("f32[2,3]", xb.f32[2, 3]),
            (xb.f32["<=2"], xb.f32["<=2"]),
            ([xb.f32[2], "s32[]"], xb.parse_shape("(f32[2], s32[])")),
            ((), xb.parse_shape("()")),
            (xb.TOKEN_SHAPE, xb.TOKEN_SHAPE),
        ],
    )
    def test_shape_forms(self, shape: Any, expected: xb.Shape) -> None:
        assert xb.XlaBuilder().parameter(shape).shape is expected

    def test_number_used_twice(self) -> None:
        b = xb.XlaBuilder()
        b.parameter(xb.f32[2], "x")
        with pytest.raises(xb.BuilderError) as caught:
            b.parameter(xb.s32[3], "y", number=0)
        assert str(caught.value) == (
            "parameter: number 0 is already used, got\n"
            "  0: 'x' f32[2]\n"
            "  0: 'y' s32[3]\n"
            "fix: omit number; parameters are then numbered in order"
        )
        assert caught.value.op == "parameter"

    def test_name_used_twice(self) -> None:
        b = xb.XlaBuilder()
        b.parameter(xb.f32[2], "x")
        with pytest.raises(xb.BuilderError, match="name 'x' is already used, got\n"):
            b.parameter(xb.f32[2], "x")

    def test_missing(self) -> None:
        b = xb.XlaBuilder("gap")
        b.parameter(xb.f32[2], "x", number=0)
        b.parameter(xb.f32[2], "z", number=2)
        with pytest.raises(xb.BuilderError) as caught:
            b.build()
        assert str(caught.value) == (
            "build: parameter numbers must run from 0 to 1 without a gap; number 1 is missing "
            "from builder 'gap', got 0 ('x'), 2 ('z')\n"
            "fix: record parameter(..., number=1), or omit all numbers; parameters are then "
            "numbered in order"
        )
        assert caught.value.shapes == {"x": xb.f32[2], "z": xb.f32[2]}
        # The missing parameter can be added later.
        b.parameter(xb.f32[2], "y", number=1)
        assert len(b.build().parameters) == 3

    @each_row(
        "arguments, error, message",
        [
            (
                {"shape": xb.f32[2], "number": -1},
                xb.BuilderError,
                r"number must be from 0 to 2\*\*31 - 1, got -1",
            ),
            ({"shape": xb.f32[2], "number": "0"}, xb.OperandError, "integer, got '0'"),
            ({"shape": xb.f32[2], "number": True}, xb.OperandError, "integer, got True"),
            ({"shape": xb.f32[2], "name": 3}, xb.OperandError, "name must be a string, got 3"),
            ({"shape": xb.f32[2], "name": ""}, xb.OperandError, "name must not be empty, got ''"),
            (
                {"shape": "(f32[2], token[])", "replicated_at_leaf_buffers": [True]},
                xb.OperandError,
                r"must have a bool for each array, 2, got 1 for \(f32\[2\], token\[\]\)",
            ),
            (
                {"shape": xb.f32[2], "replicated_at_leaf_buffers": [1]},
                xb.OperandError,
                r"must be a sequence of bools, got \[1\]",
            ),
            ({"shape": 3}, xb.OperandError, "expected a shape such as"),
            ({"shape": "f32[2"}, xb.ShapeTextError, "expected ',', got the end"),
        ],
    )
    def test_wrong_arguments(
        self, arguments: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(error, match=message):
            b.parameter(**arguments)
        assert b.ops == []


class TestBuild:
    def test_root_is_the_last_op(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        y = -x
        assert b.build().root is y

    def test_root_as_an_argument(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        _ = -x
        assert b.build(x).root is x

    def test_the_root_is_not_converted_to_bool(self) -> None:
        b = xb.XlaBuilder()
        p = b.parameter(xb.pred[()])
        assert b.build(p).root is p

    def test_twice(self) -> None:
        b = xb.XlaBuilder("once")
        b.parameter(xb.f32[2])
        b.build()
        with pytest.raises(xb.BuilderError) as caught:
            b.build()
        assert str(caught.value) == (
            "build: builder 'once' was already built\n"
            "fix: record every op before build(), or create a new XlaBuilder"
        )

    def test_nothing_recorded(self) -> None:
        with pytest.raises(xb.BuilderError, match="build: builder 'empty' has recorded no op"):
            xb.XlaBuilder("empty").build()

    @each_row("root", [3, "x", []])
    def test_root_that_is_not_an_op(self, root: Any) -> None:
        b = xb.XlaBuilder()
        b.parameter(xb.f32[2])
        with pytest.raises(
            xb.BuilderError, match=r"root must be an XlaOp, got .*\nfix: .*xb.tuple"
        ):
            b.build(root)

    def test_root_of_another_builder(self) -> None:
        b, other = xb.XlaBuilder("here"), xb.XlaBuilder("there")
        b.parameter(xb.f32[2])
        with pytest.raises(
            xb.BuilderError, match="the root belongs to builder 'there', not to 'here', got\n"
        ):
            b.build(other.parameter(xb.f32[2]))

    @each_row(
        "use",
        [
            lambda b: b.parameter(xb.f32[2], "late"),
            lambda b: b.constant(True),
            lambda b: b.empty_tuple(),
            lambda b: b.call(xb.computation(xb.f32[2])(lambda x: x)),
        ],
    )
    def test_methods_after_building(self, use: Any) -> None:
        b = xb.XlaBuilder("done")
        b.parameter(xb.f32[2])
        b.build()
        with pytest.raises(xb.XlaError, match=r"was already built|must be a function"):
            use(b)


class TestOwnership:
    def test_op_of_another_builder(self) -> None:
        b, other = xb.XlaBuilder("here"), xb.XlaBuilder("there")
        x, y = b.parameter(xb.f32[2], "x"), other.parameter(xb.f32[2], "y")
        with pytest.raises(xb.BuilderError) as caught:
            xb.add(x, y)
        assert str(caught.value) == (
            "add: operands belong to different builders, got\n"
            f"  operand 0 of builder 'here': {x!r}, recorded at {x.source}\n"
            f"  operand 1 of builder 'there': {y!r}, recorded at {y.source}\n"
            "fix: record all operands with one builder; pass the result of another computation as "
            "a parameter"
        )
        assert caught.value.shapes == {"operand 0": xb.f32[2], "operand 1": xb.f32[2]}
        assert b.ops == [x]
        assert other.ops == [y]

    def test_op_of_a_built_builder(self) -> None:
        b = xb.XlaBuilder("done")
        x = b.parameter(xb.f32[2], "x")
        b.build()
        with pytest.raises(xb.BuilderError) as caught:
            xb.neg(x)
        assert str(caught.value) == (
            "neg: operand 0 belongs to builder 'done', which was already built, got\n"
            f"  {x!r}, recorded at {x.source}\n"
            "fix: record every op before build(), or create a new XlaBuilder"
        )
        assert b.ops == [x]

    def test_op_of_a_built_builder_with_one_of_an_open_builder(self) -> None:
        b, done = xb.XlaBuilder(), xb.XlaBuilder("done")
        x, y = b.parameter(xb.f32[2]), done.parameter(xb.f32[2])
        done.build()
        with pytest.raises(xb.BuilderError, match="operand 1 belongs to builder 'done', which was"):
            x + y
        with pytest.raises(xb.BuilderError, match="operand 0 belongs to builder 'done', which was"):
            y + x

    def test_number_with_an_op_of_a_built_builder(self) -> None:
        b = xb.XlaBuilder("done")
        x = b.parameter(xb.f32[2])
        b.build()
        with pytest.raises(xb.BuilderError, match="builder 'done', which was already built"):
            x + 1
        assert len(b.ops) == 1

    def test_builders_in_several_threads(self) -> None:
        opcodes: list[list[str]] = []

        def record(count: int) -> None:
            b = xb.XlaBuilder()
            x = b.parameter(xb.f32[2])
            for _ in range(count):
                x = -x
            opcodes.append([o.opcode for o in b.build().ops])

        threads = [threading.Thread(target=record, args=(200 + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(len, opcodes)) == [201, 202, 203, 204]


class TestOps:
    def test_ids_follow_the_order(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        y = xb.exp(x) + 1
        assert [o.id for o in b.ops] == list(range(len(b.ops)))
        assert b.ops[y.id] is y

    def test_text(self) -> None:
        b = xb.XlaBuilder("f")
        x = b.parameter(xb.f32[2], "x")
        assert repr(x) == "<XlaOp %0 'x' = f32[2] parameter()>"
        assert repr(x + x) == "<XlaOp %1 = f32[2] add(%0, %0)>"
        assert repr(b) == "<XlaBuilder 'f', 2 ops>"
        b.build()
        assert repr(b) == "<XlaBuilder 'f', built>"

    def test_builder_name(self) -> None:
        assert xb.XlaBuilder().name == "computation"
        with pytest.raises(xb.OperandError, match="name must be a non-empty string, got 3"):
            xb.XlaBuilder(3)  # type: ignore[arg-type]

    def test_attributes_cannot_be_added(self) -> None:
        x = xb.XlaBuilder().parameter(xb.f32[2])
        with pytest.raises(AttributeError):
            x.nmae = "x"  # type: ignore[attr-defined]


class TestFrontendAttributesAndSharding:
    def test_blocks_nest(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        with b.frontend_attributes({"stage": "1", "kind": "a"}):
            one = -x
            with b.frontend_attributes({"stage": "2"}):
                two = -x
            back = -x
        outside = -x
        assert [o.frontend_attributes for o in (x, one, two, back, outside)] == [
            None,
            {"stage": "1", "kind": "a"},
            {"stage": "2", "kind": "a"},
            {"stage": "1", "kind": "a"},
            None,
        ]

    def test_an_exception_ends_the_block(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        with pytest.raises(RuntimeError), b.frontend_attributes({"a": "b"}), b.sharding("{manual}"):
            raise RuntimeError
        y = -x
        assert (y.frontend_attributes, y.sharding) == (None, None)

    def test_later_changes_of_the_mapping_have_no_effect(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        attributes = {"a": "b"}
        with b.frontend_attributes(attributes):
            y = -x
        attributes["a"] = "c"
        assert y.frontend_attributes == {"a": "b"}

    @each_row("attributes", [{"a": 1}, {1: "a"}])
    def test_strings_only(self, attributes: Any) -> None:
        with (
            pytest.raises(xb.OperandError, match="attributes must map strings to strings, got"),
            xb.XlaBuilder().frontend_attributes(attributes),
        ):
            pass

    def test_sharding(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        with b.sharding("{replicated}"):
            y = -x
            with b.sharding(None):
                z = -x
        assert [o.sharding for o in (x, y, z, -x)] == [None, "{replicated}", None, None]


class TestSourceLocations:
    """Every op has the source line of the user's program."""

    @pytest.fixture
    def b(self) -> xb.XlaBuilder:
        return xb.XlaBuilder()

    def check(self, op: xb.XlaOp, number: int, function: str) -> None:
        source = op.source
        assert source is not None
        assert source.file == __file__
        assert source.line == number
        assert source.function.endswith(function)
        assert str(source) == f"{__file__}:{number}"

    def test_method(self, b: xb.XlaBuilder) -> None:
        x, here = b.parameter(xb.f32[2]), line()
        self.check(x, here, "test_method")

    def test_function(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        y, here = xb.exp(x), line()
        self.check(y, here, "test_function")

    def test_operators(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        y, here = x + x, line()
        self.check(y, here, "test_operators")
        y, here = -x, line()
        self.check(y, here, "test_operators")
        y, here = x > 1, line()
        self.check(y, here, "test_operators")
        self.check(y.operands[1], here, "test_operators")
        self.check(y.operands[1].operands[0], here, "test_operators")

    def test_broadcasts(self, b: xb.XlaBuilder) -> None:
        x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        y, here = xb.add(x, v, [1]), line()
        self.check(y.operands[1], here, "test_broadcasts")

    def test_tuple_indexing(self, b: xb.XlaBuilder) -> None:
        t = b.parameter("(f32[2], s32[])")
        y, here = t[1], line()
        self.check(y, here, "test_tuple_indexing")
        (first, _), here = t, line()
        self.check(first, here, "test_tuple_indexing")

    def test_several_lines(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        here = line()
        y = xb.exp(
            xb.neg(
                x,
            )
        )
        self.check(y, here + 1, "test_several_lines")
        self.check(y.operands[0], here + 2, "test_several_lines")

    def test_column(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        y = (x + x) * (x - x)
        columns = [o.source.column for o in (*y.operands, y) if o.source is not None]
        text = inspect.getsource(type(self).test_column).split("\n")[2]
        indent = text.index("y")
        assert columns == [indent + 6, indent + 16, indent + 5]

    def test_inside_a_callable(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])

        def body(v: xb.XlaOp) -> xb.XlaOp:
            return v * v

        y, here = xb.map([x], body), line()
        self.check(y, here, "test_inside_a_callable")
        inner = y.attributes["to_apply"].root
        self.check(inner, here - 2, "body")

    def test_library_function_as_a_callable(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        loop, here = xb.call(xb.neg, x), line()
        self.check(loop, here, "test_library_function_as_a_callable")

    def test_comprehension(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        ops, here = [xb.exp(x) for _ in range(2)], line()
        for op in ops:
            assert op.source is not None
            assert (op.source.file, op.source.line) == (__file__, here)

    def test_numpy_scalar_on_the_left(self, b: xb.XlaBuilder) -> None:
        x = b.parameter(xb.f32[2])
        y, here = np.float32(1) + x, line()
        self.check(y, here, "test_numpy_scalar_on_the_left")


class TestDecorator:
    def test_names_and_shapes(self) -> None:
        @xb.computation(xb.f32[2, 3], "f32[3]")
        def affine(x: xb.XlaOp, bias: xb.XlaOp) -> xb.XlaOp:
            return xb.add(x, bias, broadcast_dimensions=[1])

        assert isinstance(affine, xb.XlaComputation)
        assert affine.name == "affine"
        assert str(affine.program_shape) == "(x: f32[2,3], bias: f32[3]) -> f32[2,3]"

    def test_several_results(self) -> None:
        both = xb.computation(xb.f32[2])(lambda x: (x, [-x]))
        assert str(both.program_shape.result) == "(f32[2], (f32[2]))"

    def test_another_number_of_arguments(self) -> None:
        with pytest.raises(
            xb.SignatureError, match=r"is called with 2 arguments \(f32\[2\], s32\[\]\)"
        ):
            xb.computation(xb.f32[2], "s32[]")(lambda x: x)

    @each_row("result", [None, 3, True, "x", object()])
    def test_result_that_is_not_an_op(self, result: Any) -> None:
        with pytest.raises(
            xb.OperandError, match="must return an XlaOp, or several in a tuple, got"
        ):
            xb.computation(xb.f32[2])(lambda x: result)

    def test_a_dict(self) -> None:
        fix = r"return tuple\(result.values\(\)\), or use lowering.jit"
        with pytest.raises(xb.OperandError, match=rf"^computation: .*\nfix: {fix}"):
            xb.computation(xb.f32[2])(lambda x: {"x": x})
        x = xb.XlaBuilder().parameter(xb.f32[2])
        with pytest.raises(xb.OperandError, match=r"return tuple\(result.values\(\)\)(\nat|$)"):
            xb.call(lambda x: {"x": x}, x)

    def test_op_of_another_builder(self) -> None:
        y = xb.XlaBuilder("there").parameter(xb.f32[2])
        with pytest.raises(xb.BuilderError, match="can't use values of another computation"):
            xb.computation(xb.f32[2])(lambda x: x + y)
        with pytest.raises(xb.BuilderError, match=r"can't use values of .*\n.* in 'there'"):
            xb.computation(xb.f32[2])(lambda x: y)


class TestCallOfTheBuilder:
    def test_no_parameters(self) -> None:
        one = xb.XlaBuilder("one")
        one.constant(1, xb.s32)
        c = one.build()
        y = xb.XlaBuilder().call(c)
        assert (y.opcode, y.shape, y.operands) == ("call", xb.s32[()], ())
        assert y.called_computations == (c,)

    def test_parameters(self) -> None:
        c = xb.computation(xb.f32[2])(lambda x: x)
        with pytest.raises(xb.SignatureError, match="call: computation must be a function of 0"):
            xb.XlaBuilder().call(c)

    def test_no_computation(self) -> None:
        with pytest.raises(xb.OperandError, match="call: computation must be an XlaComputation"):
            xb.XlaBuilder().call(abs)  # type: ignore[arg-type]


def test_annotations_reach_the_callables_recorded_inside() -> None:
    b = xb.XlaBuilder()
    n = b.parameter(xb.s32[()], "n")

    def body(state: xb.XlaOp) -> xb.XlaOp:
        with b.frontend_attributes({"inner": "2"}):
            doubled = state * 2
        return doubled + 1

    with b.frontend_attributes({"outer": "1"}), b.sharding("{replicated}"):
        loop = xb.while_(lambda s: s < 10, body, n)
    recorded = {op.opcode: op for op in loop.attributes["body"].ops}
    assert recorded["multiply"].frontend_attributes == {"outer": "1", "inner": "2"}
    assert recorded["add"].frontend_attributes == {"outer": "1"}
    assert recorded["add"].sharding == "{replicated}"
    assert b._current_metadata is None
